"""The newest facts as a hold-out: what was stated last is what a prediction made before would have had to know."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tuplet.errors import BadInput, Option
from tuplet.graph.graph import NO_DATE, SPLIT_CODE, KnowledgeGraph

SHARE = 0.1  # of the dated facts
MOST = 0.5  # of them: facts of one day stay together, and where one day has more, little is left to learn from
LEAST = 300  # facts between entities known before: with fewer there is too little to learn from
_NOTE = "holdout"
_RANDOM = Option("holdout", "random")


@dataclass(frozen=True)
class NewestHoldOut:
    """Facts from `cut` on, the last of them at `until`, are held out. Both are seconds since 1970."""

    cut: int
    until: int
    facts: int  # how many

    @property
    def length(self) -> int:
        """How long it lasts, in seconds: until the next fact would have come, at least a second."""
        return max(1, self.until - self.cut)

    def as_dict(self) -> dict[str, Any]:
        """For people: dates, not seconds."""
        first, last = (datetime.fromtimestamp(side, UTC).date().isoformat() for side in (self.cut, self.until))
        return {"newest": self.facts, "from": first, "to": last, "days": round(self.length / 86_400, 1)}

    @staticmethod
    def of(graph: KnowledgeGraph) -> NewestHoldOut | None:
        """That of a graph whose valid split is its newest facts; None where it is another."""
        note = graph.notes.get(_NOTE)
        return None if note is None else NewestHoldOut(**note)


def with_newest_valid(graph: KnowledgeGraph, share: float = SHARE) -> KnowledgeGraph:
    """The same graph whose valid split are the newest of its dated train facts, about a tenth.

    Facts of one day stay together. A fact without a date counts as known before.
    """
    heads, _, tails, entry = graph.adjacency.triples()
    split = graph.split[entry]
    if (split == SPLIT_CODE["valid"]).any():
        raise _refused("there is a valid split already; without ", Option("holdout", "newest"), " that is used")
    date = np.full(len(entry), NO_DATE) if graph.date is None else graph.date[entry]
    dated = (split == SPLIT_CODE["train"]) & (date != NO_DATE)
    if not dated.any():
        raise _refused("no fact has a date; name its column (columns: date=…), or take ", _RANDOM)
    days, count = np.unique(date[dated], return_counts=True)
    newer = np.cumsum(count[::-1])[::-1]  # facts of this day and all after it
    cut = int(days[np.argmin(np.abs(newer - share * newer[0]))])
    held_out = dated & (date >= cut)
    first, newest = datetime.fromtimestamp(cut, UTC).date().isoformat(), int(np.count_nonzero(held_out))
    if newest > MOST * newer[0]:
        raise _refused(f"{newest:,} of the {newer[0]:,} dated facts have the date {first} or later; take ", _RANDOM)
    before = np.zeros(len(graph.entities), dtype=bool)
    for ends in (heads, tails):
        before[ends[(split == SPLIT_CODE["train"]) & ~held_out]] = True
    known = int(np.count_nonzero(held_out & before[heads] & before[tails]))
    if known < LEAST:
        told = f"of the {newest:,} since {first} {known:,} are between entities known before, and {LEAST} are needed"
        raise _refused(f"{told}; take ", _RANDOM, ", which does with fewer")
    split[held_out] = SPLIT_CODE["valid"]
    note = asdict(NewestHoldOut(cut, int(days[-1]), newest))
    divided = graph.with_splits(split)
    return replace(divided, notes=divided.notes | {_NOTE: note})


def with_newest_known(graph: KnowledgeGraph) -> KnowledgeGraph:
    """The same graph whose valid facts are train facts again: what is known now."""
    split = graph.split[graph.adjacency.triples()[3]]
    return graph.with_splits(np.where(split == SPLIT_CODE["valid"], SPLIT_CODE["train"], split).astype(split.dtype))


def _refused(*why: str | Option) -> BadInput:
    return BadInput("the newest facts cannot be held out: ", *why)
