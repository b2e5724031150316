"""What scorers say about candidate edges: one table that candidates fill and the calibration reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.truth.edges import HIGHEST_PREDICTION, Floats, Predictions

EdgeColumns: TypeAlias = tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.integer]]  # heads, relation, tails


@dataclass(frozen=True)
class ScoredEdges:
    """Candidate edges in order of (relation, head, tail), and what each scorer says of them in both directions.

    A log is that of softmax × count in one row: forward in the row of the head (its tails), backward in the row of the
    tail (its heads). It is NaN where a scorer whose rows are dear was not asked: the row has no known fact.

    >>> edge = np.zeros(1, dtype=np.int32)
    >>> logs = np.log(np.array([[[0.5], [0.3]], [[0.2], [np.nan]]], dtype=np.float32))
    >>> round(float(ScoredEdges(edge, edge, edge, ("complex", "paths"), logs).predictions().prediction[0]), 3)
    0.3
    """

    heads: NDArray[np.int32]
    relation: NDArray[np.int32]
    tails: NDArray[np.int32]
    scorers: tuple[str, ...]
    logs: Floats  # [scorers, 2, edges]

    def __len__(self) -> int:
        return len(self.heads)

    def predictions(self) -> Predictions:
        """The edges with the mean truth of all scorers; that of a scorer is the mean of the directions it knows."""
        sides = np.minimum(np.exp(np.minimum(self.logs, 0)), HIGHEST_PREDICTION)
        known = np.isfinite(sides)
        each = np.where(known, sides, 0).sum(1) / np.maximum(known.sum(1), 1)
        voices = known.any(1).sum(0)
        truth = (each.sum(0) / np.maximum(voices, 1)).astype(np.float32)
        return Predictions(self.heads, self.relation, self.tails, truth)
