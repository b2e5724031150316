"""What scorers say about candidate edges: one table that candidates fill and the calibration reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.truth.edges import HIGHEST_PREDICTION, Floats, Predictions

if TYPE_CHECKING:
    from tuplet.truth.candidates.scorer import RowsDone

EdgeColumns: TypeAlias = tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.integer]]  # heads, relation, tails


@dataclass(frozen=True)
class SearchCheck:
    """What is listed of rows that were also scored whole: a search may miss an edge, and a row lists its most.

    What was looked at proves nothing about other rows: these are measurements, not bounds.

    >>> one, other = SearchCheck(10, 150, 100, 99, 0.02, 0.3), SearchCheck(5, 100, 100, 100, 0.0, 0.0)
    >>> (one + other).as_dict()
    {'rows': 15, 'edges': 250, 'beyond_most': 0.2, 'recall': 0.995, 'missed_truth': 0.02, 'log_sum_off': 0.02}
    """

    rows: int = 0
    edges: int = 0  # that reach the floor there
    wanted: int = 0  # of these, those that a row may list
    found: int = 0  # of these, those that are listed
    missed: float = 0.0  # the largest truth of an edge that reaches the floor and is not listed
    off: float = 0.0  # by how much the logs of what rows are divided by differ from those of all scores, in all

    def __add__(self, other: SearchCheck) -> SearchCheck:
        return SearchCheck(
            self.rows + other.rows,
            self.edges + other.edges,
            self.wanted + other.wanted,
            self.found + other.found,
            max(self.missed, other.missed),
            self.off + other.off,
        )

    @staticmethod
    def of_part(part: Mapping[str, NDArray[Any]]) -> SearchCheck:
        """As it lies in a part."""
        if "searched" not in part:
            return SearchCheck()
        rows, edges, wanted, found, missed, off = part["searched"].tolist()
        return SearchCheck(int(rows), int(edges), int(wanted), int(found), missed, off)

    def in_part(self) -> dict[str, NDArray[Any]]:
        """For a part; nothing where all that reaches the floor is listed anyway."""
        counts = self.rows, self.edges, self.wanted, self.found
        return {"searched": np.array([*counts, self.missed, self.off])} if self.rows else {}

    def as_dict(self) -> dict[str, Any]:
        """For the store."""
        return {
            "rows": self.rows,
            "edges": self.edges,
            "beyond_most": round(1 - self.wanted / self.edges, 4) if self.edges else 0.0,
            "recall": round(self.found / self.wanted, 4) if self.wanted else 1.0,
            "missed_truth": round(self.missed, 4),
            "log_sum_off": round(self.off / max(1, self.rows), 4),
        }


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
    searched: Mapping[int, SearchCheck] = field(default_factory=dict)  # relations that may miss an edge
    floor: float = 0.0  # an edge that is not listed may have this truth, before it is calibrated
    rows: RowsDone | None = None  # those that there was time for, if it was limited

    def __len__(self) -> int:
        return len(self.heads)

    @property
    def edges(self) -> EdgeColumns:
        """Heads, relations and tails."""
        return self.heads, self.relation, self.tails

    def may_miss(self, relations: int, least: float) -> Floats | None:
        """Of each relation the truth that an edge may have in a row that leaves it out; None: `least` in all.

        Where columns were searched for, or rows list their most, that is any: what a few rows left out proves nothing.
        So it is where nobody has looked.
        """
        bounds = np.full(relations, max(least, self.floor), dtype=np.float32)
        bounds[[*self.searched, *(self.rows.lacking if self.rows else ())]] = HIGHEST_PREDICTION
        return bounds if (bounds > np.float32(least)).any() else None

    @staticmethod
    def may_miss_together(several: Sequence[ScoredEdges], relations: int, least: float) -> Floats | None:
        """The same of edges that none of several lists."""
        bounds = [bound for one in several if (bound := one.may_miss(relations, least)) is not None]
        return np.maximum.reduce(bounds) if bounds else None

    def predictions(self) -> Predictions:
        """The edges with the mean truth of all scorers; that of a scorer is the mean of the directions it knows."""
        sides = np.minimum(np.exp(np.minimum(self.logs, 0)), HIGHEST_PREDICTION)
        known = np.isfinite(sides)
        each = np.where(known, sides, 0).sum(1) / np.maximum(known.sum(1), 1)
        voices = known.any(1).sum(0)
        truth = (each.sum(0) / np.maximum(voices, 1)).astype(np.float32)
        return Predictions(self.heads, self.relation, self.tails, truth)


def edge_numbers(entities: int, edges: EdgeColumns) -> NDArray[np.int64]:
    """One number per edge, in order of (relation, head, tail)."""
    heads, relation, tails = (np.asarray(side, dtype=np.int64) for side in edges)
    return (relation * entities + heads) * entities + tails
