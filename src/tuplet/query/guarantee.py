"""What is promised of a list of answers, and on what ground."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Guarantee:
    """What is said of a list, on what ground, and whether that is a promise."""

    kind: str  # confidence or max_false
    share: float  # the share that was asked for
    complete: bool  # the list is all of it: what is promised holds
    everything: bool = False  # only the set of all tuples keeps the promise; the list does for those with any truth
    ground: str | None = None  # shape, family: queries that were held out; facts; None: the truth values alone
    shape: str | None = None
    queries: int = 0  # held-out queries that the promise rests on
    reach: float | None = None  # the share of held-out answers that have any truth
    promised: bool = False  # what was held out bears it out: queries of this very shape, or facts (max_false)
    facts: int = 0  # held-out facts that the promise rests on
    least: float | None = None  # the smallest share of wrong tuples that these facts can promise of any list

    def words(self) -> str:
        """One sentence for the last line of a table."""
        if self.kind == "max_false":
            return self._of_a_list()
        if self.ground is None:
            return "no tuple can be true"
        if self.ground == "family":
            return f"not guaranteed, its shape was not held out: {self._of_a_set()}"
        return self._of_a_set()

    def _of_a_list(self) -> str:
        said = f"at most {100 * self.share:g} % of these are wrong"
        if self.promised:
            said = f"{said}, as {self.facts:,} held-out facts bear out"
        elif self.least is None:
            said = f"not promised: by their truth alone {said}"
        else:
            ground = f"{self.facts:,} held-out facts bear out a truth of at most {1 - self.least:.2f}"
            return f"no list can be promised: {ground}, so ask for {math.ceil(100 * self.least) / 100:g} or more"
        return said if self.complete else f"{said}; the list was cut, it goes on"

    def _of_a_set(self) -> str:
        said = f"holds a true tuple beyond the facts {100 * self.share:g} times in 100"
        ground = f"{self.queries:,} held-out queries of its shape"
        if self.ground == "family":
            ground = f"by the most cautious of other shapes, {self.shape}"
        if self.everything:
            reach = f"{100 * (self.reach or 0):.0f} % of held-out answers have any truth"
            cut = "" if self.complete else ", but it was cut"
            held = f"this set holds one of those {100 * self.share:g} times in 100{cut}"
            return f"only the set of all tuples {said}: {reach}; {held} ({ground})"
        if not self.complete:
            return f"the set was cut: only with all its tuples it {said} ({ground})"
        return f"the set {said} ({ground})"
