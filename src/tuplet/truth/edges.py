"""Facts and predictions as columns of edges, and what the numbers in them mean."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.adjacency import Ints, are_within
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph, known_splits
from tuplet.graph.versions import RowEdit

Floats = NDArray[np.floating]  # float32; float64 where facts have a given truth, which is kept as it is
Bools = NDArray[np.bool_]
Sources = NDArray[np.uint8]

# A predicted edge is never as sure as an observed one.
HIGHEST_PREDICTION = np.float32(0.9999)

# Where an observed edge comes from; 1 to 3 are the splits of the graph.
PREDICTED, TRAIN, VALID, TEST, ADDED = range(5)

# What is known when a benchmark is answered; a graph without splits has train alone.
OBSERVED = ("train", "valid")


class FactEdges(NamedTuple):
    """Observed edges with their truth and where they come from (arrays of one length)."""

    heads: NDArray[np.integer]
    relation: NDArray[np.integer]
    tails: NDArray[np.integer]
    truth: NDArray[np.floating]
    source: Sources

    def where(self, keep: Bools) -> FactEdges:
        """Some of the facts."""
        return FactEdges(self.heads[keep], self.relation[keep], self.tails[keep], self.truth[keep], self.source[keep])


class Predictions(NamedTuple):
    """Predicted edges in order of (relation, head, tail)."""

    heads: Ints
    relation: Ints
    tails: Ints
    prediction: Floats

    @staticmethod
    def of(
        heads: NDArray[np.integer],
        relation: NDArray[np.integer],
        tails: NDArray[np.integer],
        prediction: NDArray[np.floating],
    ) -> Predictions:
        """The same columns in their types."""
        h, r, t = (np.asarray(side, dtype=np.int32) for side in (heads, relation, tails))
        return Predictions(h, r, t, np.asarray(prediction, dtype=np.float32))

    def reaching(self, threshold: float) -> Predictions:
        """Those whose prediction reaches the threshold."""
        return self.where(self.prediction >= threshold)

    def where(self, keep: Bools) -> Predictions:
        """Some of them."""
        return Predictions(self.heads[keep], self.relation[keep], self.tails[keep], self.prediction[keep])

    @staticmethod
    def joined(parts: Sequence[Predictions]) -> Predictions:
        """Several lists in one, in order; of an edge that comes twice the first.

        >>> one, two = (Predictions.of(*np.array([[7], [1], [9]]), np.array([truth])) for truth in (0.5, 0.25))
        >>> Predictions.joined([one, two]).prediction.tolist()
        [0.5]
        """
        heads, relation, tails = (np.concatenate([part[side] for part in parts]) for side in range(3))
        order = np.lexsort((tails, heads, relation))
        first = np.ones(len(order), dtype=bool)
        for column in (heads[order], relation[order], tails[order]):
            first[1:] &= column[1:] == column[:-1]
        first[1:] = ~first[1:]
        kept = order[first]
        prediction = np.concatenate([part.prediction for part in parts])
        return Predictions.of(heads[kept], relation[kept], tails[kept], prediction[kept])

    def hash(self) -> str:
        """Content hash of the four columns."""
        digest = hashlib.sha256()
        for column in self:
            digest.update(np.ascontiguousarray(column).view(np.uint8).data)
        return digest.hexdigest()


def observed_facts(graph: KnowledgeGraph, observed: Sequence[str] = OBSERVED) -> FactEdges:
    """The facts of the named splits: truth 1, in a weighted graph the given one; facts of truth 0 are none."""
    heads, relation, tails, entry = graph.adjacency.triples()
    split = graph.split[entry]
    marked = np.isin(split, [SPLIT_CODE[name] for name in known_splits(observed)])
    truth = np.ones(len(entry), dtype=np.float32) if graph.weight is None else graph.weight[entry]
    return FactEdges(heads, relation, tails, truth, split).where(marked & (truth > 0))


Longs = NDArray[np.int64]


def falling(row: Longs, truth: NDArray[np.floating], nearly: Longs | None = None) -> Longs:
    """The places of entries in order of row, falling truth, place; `row` ascends.

    `nearly` is an order that is right but for few of them: sorting then costs one walk along the entries.

    >>> falling(np.array([0, 0, 1, 1]), np.array([0.5, 1.0, 0.25, 0.25], np.float32)).tolist()
    [1, 0, 2, 3]
    """
    if truth.dtype != np.float32:
        return np.lexsort((-truth, row))  # stable: equals stay in order of their places
    if nearly is None:
        return np.argsort(_packed(row, truth), kind="stable")
    key = _packed(row[nearly], truth[nearly])
    sort = np.argsort(key, kind="stable")
    order, key = nearly[sort], key[sort]
    plateau = np.zeros(len(key), dtype=np.int64)
    np.cumsum(key[1:] != key[:-1], out=plateau[1:])
    return order[np.argsort((plateau << 32) | order, kind="stable")]


def _packed(row: Longs, truth: NDArray[np.float32]) -> Longs:
    """Row and falling truth as one number: a truth in [0, 1] is ordered as its bits are."""
    key: Longs = row << 32
    key |= 0x7FFFFFFF - truth.view(np.int32)
    return key


def truth_columns(
    edit: RowEdit, by_truth: NDArray[np.int32]
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """What follows from the entries of touched rows: `by_truth` and `row_best`."""
    truth, row, old = edit.columns["truth"], edit.row, edit.old_entries
    stays = edit.origin < len(old)
    place = np.full(len(old), -1, dtype=np.int64)
    place[edit.origin[stays]] = np.flatnonzero(stays)
    begin = np.repeat(np.cumsum(edit.old_lengths) - edit.old_lengths, edit.old_lengths)
    nearly = None
    before = begin + by_truth[old]
    # Rows are copied unverified: what is no order is not used here, and named when the relation is asked for.
    if _is_permutation(before):
        known = place[before]
        nearly = np.concatenate([known[known >= 0], np.flatnonzero(~stays)])
    order = falling(row, truth, nearly)
    starts = np.cumsum(edit.lengths) - edit.lengths
    best = np.zeros(len(edit.lengths), dtype=truth.dtype)
    filled = edit.lengths > 0
    best[filled] = truth[order[starts[filled]]]
    return {"by_truth": (order - starts[row]).astype(np.int32)}, {"row_best": best}


def _is_permutation(places: NDArray[np.integer]) -> bool:
    """Whether each place from 0 on is there once."""
    met = np.zeros(len(places), dtype=bool)
    if are_within(places, len(places)):
        met[places] = True
    return bool(met.all())
