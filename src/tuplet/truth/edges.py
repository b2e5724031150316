"""Facts and predictions as columns of edges, and what the numbers in them mean."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.adjacency import Ints
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph, known_splits

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
