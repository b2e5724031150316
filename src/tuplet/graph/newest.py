"""The newest facts as a hold-out: what was stated last is what a prediction made before would have had to know.

One time is like no other, and of few facts chance decides much. So where a tenth of the facts is few, the times before
it, as long each, are held out as well: there are several *windows*, and each is judged by what was known when it began.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tuplet.errors import BadInput, Option
from tuplet.graph.graph import NO_DATE, SPLIT_CODE, KnowledgeGraph

SHARE = 0.1  # of the dated facts
WINDOWS, MANY = 3, 5_000  # at most this many windows; one where it holds this many facts
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
    windows: int = 1

    @property
    def length(self) -> int:
        """How long a window lasts, in seconds: until the next fact would have come, at least a second."""
        return max(1, (self.until - self.cut) // self.windows)

    def as_dict(self) -> dict[str, Any]:
        """For people: dates, not seconds."""
        first, last = (datetime.fromtimestamp(side, UTC).date().isoformat() for side in (self.cut, self.until))
        several = {} if self.windows == 1 else {"windows": self.windows}
        return {"newest": self.facts, "from": first, "to": last, "days": round(self.length / 86_400, 1), **several}

    @staticmethod
    def from_graph(graph: KnowledgeGraph) -> NewestHoldOut | None:
        """That of a graph whose valid split is its newest facts; None where it is another."""
        note = graph.notes.get(_NOTE)
        return None if note is None else NewestHoldOut(**note)


def with_newest_valid(graph: KnowledgeGraph, windows: int = 1) -> KnowledgeGraph:
    """The same graph whose valid split are the newest of its dated train facts, about a tenth.

    Facts of one day stay together. A fact without a date counts as known before. With several `windows` the times
    before are held out as well, unless there are many facts in one, or too few would be left.
    """
    entry = graph.adjacency.triples()[3]
    split = graph.split[entry]
    if (split == SPLIT_CODE["valid"]).any():
        raise _refuse("there is a valid split already; without ", Option("holdout", "newest"), " that is used")
    date = np.full(len(entry), NO_DATE) if graph.date is None else graph.date[entry]
    dated = (split == SPLIT_CODE["train"]) & (date != NO_DATE)
    if not dated.any():
        raise _refuse("no fact has a date; name its column (columns: date=…), or take ", _RANDOM)
    days, count = np.unique(date[dated], return_counts=True)
    newer = np.cumsum(count[::-1])[::-1]  # facts of this day and all after it
    cut, until = int(days[np.argmin(np.abs(newer - SHARE * newer[0]))]), int(days[-1])
    length = until - cut

    def since(day: int) -> int:
        return int(np.count_nonzero(date[dated] >= day))

    windows = 1 if since(cut) >= MANY else windows
    while windows > 1 and since(cut - (windows - 1) * length) > MOST * newer[0]:
        windows -= 1
    cut -= (windows - 1) * length
    held_out = dated & (date >= cut)
    first, newest = datetime.fromtimestamp(cut, UTC).date().isoformat(), since(cut)
    if newest > MOST * newer[0]:
        raise _refuse(f"{newest:,} of the {newer[0]:,} dated facts have the date {first} or later; take ", _RANDOM)
    note = NewestHoldOut(cut, until, newest, windows)
    split[held_out] = SPLIT_CODE["valid"]
    divided = graph.with_splits(split)
    divided = replace(divided, notes=divided.notes | {_NOTE: asdict(note)})
    known = sum(_between_known(as_of(divided, number)) for number in range(windows))
    if known < LEAST:
        few = f"of the {newest:,} since {first} {known:,} are between entities known before, and {LEAST} are needed"
        raise _refuse(f"{few}; take ", _RANDOM, ", which does with fewer")
    return divided


def as_of(graph: KnowledgeGraph, number: int) -> KnowledgeGraph:
    """The graph as it was known when a window began: the facts of the window are valid ones, later ones are not there.

    After the last window, that is now, nothing is held out.
    """
    hold_out = NewestHoldOut.from_graph(graph)
    assert hold_out is not None
    assert graph.date is not None
    heads, relation, tails, entry = graph.adjacency.triples()
    split, date = graph.split[entry], graph.date[entry]
    begins = [hold_out.cut + n * hold_out.length for n in range(hold_out.windows)] + [hold_out.until + 1] * 2
    held_out = split == SPLIT_CODE["valid"]
    there = ~(held_out & (date >= begins[number + 1]))
    split = np.where(held_out & (date < begins[number]), SPLIT_CODE["train"], split).astype(split.dtype)[there]
    facts = int(np.count_nonzero(split == SPLIT_CODE["valid"]))
    note = asdict(NewestHoldOut(begins[number], min(begins[number + 1], hold_out.until), facts))
    edges = heads[there], relation[there], tails[there]
    notes = graph.notes | {_NOTE: note}
    return KnowledgeGraph.from_edges(graph.entities, graph.relations, *edges, split, None, notes, date[there])


def _between_known(graph: KnowledgeGraph) -> int:
    """How many valid facts are between entities that have a train fact."""
    before = np.zeros(len(graph.entities), dtype=bool)
    heads, _, tails = graph.edges("train")
    before[heads], before[tails] = True, True
    heads, _, tails = graph.edges("valid")
    return int(np.count_nonzero(before[heads] & before[tails]))


def _refuse(*why: str | Option) -> BadInput:
    return BadInput("the newest facts cannot be held out: ", *why)
