"""The truth table: calibrated truth of every edge above a threshold, sparse, in both directions.

It is the only thing an engine sees of graph and predictor. An edge that is not listed has truth 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.adjacency import Adjacency, Ints

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

# A predicted edge is never as sure as an observed one.
HIGHEST_PREDICTION = np.float32(0.9999)


class Row(NamedTuple):
    """The edges of one entity under one relation in one direction, in ascending order of the other end."""

    ids: Ints
    truth: Floats
    observed: Bools


class Truth(Protocol):
    """What engines may ask of truth values, tabulated or computed on demand."""

    @property
    def entities(self) -> int: ...
    @property
    def relations(self) -> int: ...
    @property
    def threshold(self) -> float: ...
    def row(self, entity: int, relation: int, inverse: bool) -> Row: ...
    def value(self, head: int, relation: int, tail: int) -> float: ...
    def observed_edge(self, head: int, relation: int, tail: int) -> bool: ...
    def row_max(self, entity: int, relation: int, inverse: bool) -> float: ...


@dataclass(frozen=True)
class TruthTable:
    """Truth of the listed edges; arrays are parallel to `adjacency.neighbour` (entries) or `row_entity` (rows).

    >>> table = TruthTable.build(3, 1, np.array([0, 0]), np.array([0, 0]), np.array([1, 2]),
    ...                          np.array([1.0, 0.25]), np.array([True, False]))
    >>> table.value(0, 0, 2), table.row(2, 0, True).ids.tolist(), table.row_max(0, 0, False)
    (0.25, [0], 1.0)
    """

    entities: int
    adjacency: Adjacency
    truth: (
        Floats  # [entries] truth that engines use: 1 (or the given weight) if observed, else the calibrated prediction
    )
    observed: Bools  # [entries]
    by_truth: Ints  # [entries] offsets within the row in order of decreasing truth, ties by id
    row_best: Floats  # [rows] the largest truth of the row
    row_dropped: Floats  # [rows] no unlisted edge of the row has a larger truth under the model
    threshold: float  # the same bound for rows that are not listed

    @property
    def relations(self) -> int:
        return self.adjacency.relations

    @property
    def edges(self) -> int:
        return self.adjacency.edges

    @staticmethod
    def build(
        entities: int,
        relations: int,
        heads: NDArray[np.integer],
        relation: NDArray[np.integer],
        tails: NDArray[np.integer],
        truth: NDArray[np.floating],
        observed: Bools,
        threshold: float = 0.0,
    ) -> TruthTable:
        """The table of distinct edges with positive truth."""
        adjacency, edge = Adjacency.build(heads, relation, tails, relations)
        return TruthTable.of_entries(
            entities,
            adjacency,
            np.asarray(truth, dtype=np.float32)[edge],
            np.asarray(observed, dtype=bool)[edge],
            threshold,
        )

    @staticmethod
    def of_entries(entities: int, adjacency: Adjacency, truth: Floats, observed: Bools, threshold: float) -> TruthTable:
        """The table of an adjacency whose entries have the given truth."""
        rows = len(adjacency.row_entity)
        lengths = np.diff(adjacency.row_ptr)
        row = np.repeat(np.arange(rows, dtype=np.int64), lengths)
        start = np.repeat(adjacency.row_ptr[:-1], lengths)
        # lexsort is stable, so equal truths stay in order of id
        order = np.lexsort((-truth, row))
        by_truth = (order - start).astype(np.int32)
        row_best = truth[order[adjacency.row_ptr[:-1]]] if rows else np.zeros(0, dtype=np.float32)
        row_dropped = np.full(rows, threshold, dtype=np.float32)
        return TruthTable(entities, adjacency, truth, observed, by_truth, row_best, row_dropped, threshold)

    def row(self, entity: int, relation: int, inverse: bool) -> Row:
        """The listed edges of a row."""
        start, stop = self.adjacency.span(entity, 2 * relation + inverse)
        return Row(self.adjacency.neighbour[start:stop], self.truth[start:stop], self.observed[start:stop])

    def value(self, head: int, relation: int, tail: int) -> float:
        """Truth of one edge."""
        entry = self.adjacency.find(head, relation, tail)
        return float(self.truth[entry]) if entry >= 0 else 0.0

    def observed_edge(self, head: int, relation: int, tail: int) -> bool:
        """Whether the edge is a stated fact."""
        entry = self.adjacency.find(head, relation, tail)
        return entry >= 0 and bool(self.observed[entry])

    def row_max(self, entity: int, relation: int, inverse: bool) -> float:
        """The largest truth of a row, 0 if it has no edge."""
        row = self.row(entity, relation, inverse)
        return float(row.truth.max()) if len(row.truth) else 0.0

    def facts(self) -> Adjacency:
        """The observed edges alone: what the crisp engine joins."""
        return self.adjacency.filter(self.observed)
