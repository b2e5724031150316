"""Rows that there is time for: the most useful ones are computed, and it is known of which relations some are missing.

Rows of a predictor that walks the graph are dear. A row with many known facts has many missing ones, too, so those are
computed first; of rows with equally many, some that their ids decide.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.truth.candidates.sources import CandidateSources
from tuplet.truth.scored import EdgeColumns

Ids = TypeVar("Ids", NDArray[np.int64], torch.Tensor)


def usefulness(facts: Ids, entity: Ids) -> Ids:
    """The known facts of rows, and a fraction that tells rows with equally many apart.

    >>> usefulness(np.array([2, 1, 1]), np.array([0, 1, 2])).round(2).tolist()
    [2.0, 1.62, 1.24]
    """
    return facts + (entity * 40503) % 65536 / 65536  # type: ignore[return-value]


@dataclass(frozen=True)
class RowLimit:
    """How many rows of one end there is time for in each of several sweeps, and when the last one must be over."""

    rows: int
    until: float  # by the monotonic clock
    over: float  # the same, when the calibration must be learned

    def within(self, sources: CandidateSources, known: EdgeColumns) -> CandidateSources:
        """The same sources with no more rows than that."""
        useful = usefulness(*_rows_of_one_end(known)[1:])
        if len(useful) <= self.rows:
            return sources
        return replace(sources, useful_from=float(np.sort(useful)[len(useful) - self.rows]))

    def sweep(self, left: int) -> float:
        """When the first of so many sweeps that are left must be over."""
        now = time.monotonic()
        return now + (self.until - now) / left


def _rows_of_one_end(known: EdgeColumns) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Relation, known facts and entity of the rows of each relation's end that has fewer; the heads' if as many."""
    heads, relation, tails = (np.asarray(side, dtype=np.int64) for side in known)
    size = 1 + int(max(heads.max(initial=0), tails.max(initial=0)))
    relations = 1 + int(relation.max(initial=0))
    ends = [np.unique(relation * size + end, return_counts=True) for end in (heads, tails)]
    counts = [np.bincount(row // size, minlength=relations) for row, _ in ends]
    kept = [counts[0] <= counts[1], counts[0] > counts[1]]
    chosen = [(row[mine[row // size]], facts[mine[row // size]]) for (row, facts), mine in zip(ends, kept, strict=True)]
    row, facts = (np.concatenate(column) for column in zip(*chosen, strict=True))
    return row // size, facts, row % size


@dataclass(frozen=True)
class RowsDone:
    """Rows of each relation that were computed, of those that there are.

    >>> done = RowsDone({0: 5, 1: 2}, {0: 5, 1: 10}, 12, 30)
    >>> done.lacking, done.as_dict()
    ([1], {'computed': 7, 'of': 15, 'facts_in_them': 0.4})
    """

    computed: Mapping[int, int] = field(default_factory=dict)
    all: Mapping[int, int] = field(default_factory=dict)
    facts: int = 0  # known ones in the rows that were computed
    of_facts: int = 0

    @staticmethod
    def of(known: EdgeColumns, sources: CandidateSources, late: Mapping[int, int]) -> RowsDone:
        """Of sources with so many rows; of each relation some were `late`."""
        relation, facts, entity = _rows_of_one_end(known)
        kept = usefulness(facts, entity) >= (sources.useful_from or 0.0)
        size = 1 + int(relation.max(initial=0))
        there, done = (np.bincount(some, minlength=size) for some in (relation, relation[kept]))
        computed = {number: int(count) - late.get(number, 0) for number, count in enumerate(done)}
        share = [computed[number] / max(1, int(done[number])) for number in range(len(done))]
        reached = float(np.sum(facts[kept] * np.array(share)[relation[kept]]))
        return RowsDone(computed, dict(enumerate(there.tolist())), round(reached), int(facts.sum()))

    def __add__(self, other: RowsDone) -> RowsDone:
        computed, rows = (
            Counter(one) + Counter(two) for one, two in ((self.computed, other.computed), (self.all, other.all))
        )
        return RowsDone(computed, rows, self.facts + other.facts, self.of_facts + other.of_facts)

    @property
    def lacking(self) -> list[int]:
        """The relations of which rows are missing."""
        return [number for number, rows in self.all.items() if self.computed.get(number, 0) < rows]

    def as_dict(self) -> dict[str, Any]:
        """For the store: how many, and the share of the known facts that lie in them."""
        computed, rows = (sum(side.values()) for side in (self.computed, self.all))
        return {"computed": computed, "of": rows, "facts_in_them": round(self.facts / max(1, self.of_facts), 4)}
