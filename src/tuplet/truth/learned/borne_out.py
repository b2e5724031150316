"""How much of a truth value the held-out facts bear out: its bounds, for lists of which few may be wrong.

Truth is an estimate, the likeliest share. A promise needs the least share that is not at odds with what was seen. So
candidates are put into groups by their truth, and Clopper and Pearson bound the share of each group. The surest
predictions are few: that is where estimate and bound lie far apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import CorruptStore
from tuplet.truth.edges import Floats
from tuplet.truth.learned.bounds import CONFIDENCE, upper_bound

_FACTS = 400  # held-out facts among the surest group, and twice as many in each that follows: with fewer the bounds …
_PART = 8  # … are loose, with more the surest are too many to be sure. Where there are few facts, this part of them.


@dataclass(frozen=True)
class BorneOut:
    """The bounds of any truth, linear between those of the groups; beyond the surest group they stay the same.

    >>> sure, unsure = np.full(1000, 0.9), np.full(9000, 0.1)
    >>> label = np.concatenate([np.arange(1000) < 900, np.arange(9000) < 900])
    >>> found = BorneOut.of(np.concatenate([sure, unsure]), label, np.ones(10_000), lambda chance: chance)
    >>> truth = np.array([0.0, 0.1, 0.9, 1.0])
    >>> found.least(truth).round(2).tolist(), found.most(truth).round(2).tolist()
    ([0.0, 0.09, 0.88, 0.88], [0.0, 0.11, 0.92, 1.0])
    """

    facts: int  # that were held out
    truth: Floats  # [groups + 1] rising, from 0: the mean of each group
    lower: Floats  # [groups + 1] rising
    upper: Floats  # [groups + 1] rising

    @staticmethod
    def of(truth: Floats, is_fact: NDArray[np.bool_], weight: Floats, share: Callable[[float], float]) -> BorneOut:
        """From candidates that were judged as if unknown; of those that are no facts each stands for `weight`.

        `share` is what the chance to be one of the held-out facts means: the chance to be a fact.
        """
        order = np.argsort(-truth, kind="stable")
        value, fact = truth[order].astype(np.float64), is_fact[order]
        each = np.where(fact, 1.0, weight[order])
        first = max(1.0, min(_FACTS, fact.sum() / _PART))
        group = np.log2((np.cumsum(fact) - fact) / first + 1).astype(np.int64)
        group = group[np.searchsorted(-value, -value)]  # equal truths are one kind: they belong together
        _, group = np.unique(group, return_inverse=True)
        tried = np.bincount(group)[::-1]
        facts, stand, sums = (np.bincount(group, side)[::-1] for side in (fact, each, each * value))
        # All lower bounds hold at once as often as CONFIDENCE says, and so do all upper ones: a list takes the best.
        sure = 1 - (1 - CONFIDENCE) / len(tried)
        lower, upper = [], []
        for hits, n, all_of_them in zip(facts.tolist(), tried.tolist(), stand.tolist(), strict=True):
            others = (all_of_them - hits) / max(1.0, n - hits)  # that one of those that are no facts stands for
            least, most = 1 - upper_bound(n - hits, n, sure), upper_bound(hits, n, sure)
            lower.append(share(least / (least + others * (1 - least))))
            upper.append(share(most / (most + others * (1 - most))))
        # A prediction is thought no surer than one above it, and no less sure than one below: chance among the groups
        # never helps.
        return BorneOut(
            int(is_fact.sum()),
            np.concatenate([[0.0], sums / stand]),
            np.concatenate([[0.0], np.minimum.accumulate(lower[::-1])[::-1]]),
            np.concatenate([[0.0], np.maximum.accumulate(upper)]),
        )

    def least(self, truth: Floats) -> Floats:
        """What is borne out of each truth, never more than it says."""
        return np.minimum(truth, np.interp(truth, self.truth, self.lower))

    def most(self, truth: Floats) -> Floats:
        """What each truth may be as well, never less than it says."""
        return np.maximum(truth, np.interp(truth, self.truth, self.upper))

    @property
    def surest(self) -> float:
        """What is borne out of the surest prediction."""
        return float(self.lower[-1])

    def as_dict(self) -> dict[str, Any]:
        """For the store."""
        sides = {"truth": self.truth, "least": self.lower, "most": self.upper}
        return {
            "confidence": CONFIDENCE,
            "facts": self.facts,
            **{name: np.round(side, 6).tolist() for name, side in sides.items()},
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any], where: object) -> BorneOut:
        """What `as_dict` gave; `where` is the file, for errors."""
        try:
            truth, lower, upper = (np.array(values[name], dtype=np.float64) for name in ("truth", "least", "most"))
            rise = [len(side) > 1 and bool((np.diff(side) >= 0).all()) for side in (truth, lower, upper)]
            if not (all(rise) and len(truth) == len(lower) == len(upper)):
                raise ValueError("truth, least and most do not rise together")
            return BorneOut(int(values["facts"]), truth, lower, upper)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptStore(f"{where}: borne_out is not what held-out facts bear out: {error}") from None
