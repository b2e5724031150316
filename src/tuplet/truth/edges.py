"""Facts, predictions and scored candidates as columns of edges, and what the numbers in them mean."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.adjacency import Ints, are_within
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph, known_splits
from tuplet.graph.versions import RowEdit

if TYPE_CHECKING:
    from tuplet.truth.candidates.scorer import RowsDone


Floats = NDArray[np.floating]  # float32; float64 where facts have a given truth, which is kept as it is
Bools = NDArray[np.bool_]
Sources = NDArray[np.uint8]

# A predicted edge is never as sure as an observed one.
HIGHEST_PREDICTION = np.float32(0.9999)

# Where an observed edge comes from; 1 to 3 are the splits of the graph.
PREDICTED, TRAIN, VALID, TEST, ADDED = range(5)

# What is known when a benchmark is answered; a graph without splits has train alone.
OBSERVED = ("train", "valid")


def first_places(*columns: NDArray[Any]) -> NDArray[np.intp]:
    """The places of distinct rows in order of these columns, the most important one first; of equals the first."""
    order = np.lexsort(columns[::-1])
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = np.logical_or.reduce([column[order][1:] != column[order][:-1] for column in columns])
    return order[fresh]


class FactEdges(NamedTuple):
    """Observed edges with their truth and where they come from (arrays of one length)."""

    heads: NDArray[np.integer]
    relation: NDArray[np.integer]
    tails: NDArray[np.integer]
    truth: NDArray[np.floating]
    source: Sources

    def where(self, keep: Bools) -> FactEdges:
        return FactEdges(self.heads[keep], self.relation[keep], self.tails[keep], self.truth[keep], self.source[keep])


class Predictions(NamedTuple):
    """Predicted edges in order of (relation, head, tail)."""

    heads: Ints
    relation: Ints
    tails: Ints
    prediction: Floats

    @staticmethod
    def from_columns(
        heads: NDArray[np.integer],
        relation: NDArray[np.integer],
        tails: NDArray[np.integer],
        prediction: NDArray[np.floating],
    ) -> Predictions:
        """The same columns in their types."""
        h, r, t = (np.asarray(side, dtype=np.int32) for side in (heads, relation, tails))
        return Predictions(h, r, t, np.asarray(prediction, dtype=np.float32))

    def reaching(self, threshold: float) -> Predictions:
        return self.where(self.prediction >= threshold)

    def where(self, keep: Bools) -> Predictions:
        return Predictions(self.heads[keep], self.relation[keep], self.tails[keep], self.prediction[keep])

    @staticmethod
    def join(parts: Sequence[Predictions]) -> Predictions:
        """Several lists in one, in order; of an edge that comes twice the first.

        >>> edge = np.array([[7], [1], [9]])
        >>> one, two = (Predictions.from_columns(*edge, np.array([truth])) for truth in (0.5, 0.25))
        >>> Predictions.join([one, two]).prediction.tolist()
        [0.5]
        """
        heads, relation, tails = (np.concatenate([part[side] for part in parts]) for side in range(3))
        kept = first_places(relation, heads, tails)
        prediction = np.concatenate([part.prediction for part in parts])
        return Predictions.from_columns(heads[kept], relation[kept], tails[kept], prediction[kept])

    def hash(self) -> str:
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
        return np.argsort(_pack(row, truth), kind="stable")
    key = _pack(row[nearly], truth[nearly])
    sort = np.argsort(key, kind="stable")
    order, key = nearly[sort], key[sort]
    plateau = np.zeros(len(key), dtype=np.int64)
    np.cumsum(key[1:] != key[:-1], out=plateau[1:])
    return order[np.argsort((plateau << 32) | order, kind="stable")]


def _pack(row: Longs, truth: NDArray[np.float32]) -> Longs:
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
        sums = (one + two for one, two in zip(astuple(self), astuple(other), strict=True))
        return replace(SearchCheck(*sums), missed=max(self.missed, other.missed))

    @staticmethod
    def from_part(part: Mapping[str, NDArray[Any]]) -> SearchCheck:
        """As it lies in a part."""
        numbers = part["searched"].tolist() if "searched" in part else []
        return SearchCheck(*map(int, numbers[:4]), *numbers[4:])

    def in_part(self) -> dict[str, NDArray[Any]]:
        """For a part; nothing where all that reaches the floor is listed anyway."""
        return {"searched": np.array(astuple(self))} if self.rows else {}

    def as_dict(self) -> dict[str, Any]:
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
