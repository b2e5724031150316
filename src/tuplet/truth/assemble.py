"""How a table is made: relation by relation, in memory or straight into a folder, to the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.adjacency import (
    NO_VIEWS,
    ArraySink,
    Ints,
    Longs,
    RelationViews,
    ViewsWriter,
    edge_key,
    relation_slices,
    relation_views,
)
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph
from tuplet.truth.edges import falling

Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]
Sources = NDArray[np.uint8]


class RelationFacts(NamedTuple):
    """Observed edges of one relation, distinct, with their truth and where they come from."""

    heads: NDArray[np.integer]
    tails: NDArray[np.integer]
    truth: Floats
    source: Sources


class RelationEdges(NamedTuple):
    """All that a table says of the edges of one relation, which are distinct and in any order."""

    heads: NDArray[np.integer]
    tails: NDArray[np.integer]
    truth: Floats  # 1 (or the given weight) if observed, else the prediction
    observed: Bools
    prediction: Floats  # as if the edge were not observed; read for observed ones
    source: Sources  # likewise


def graph_facts(graph: KnowledgeGraph, relation: int, observed: Sequence[str]) -> RelationFacts:
    """The facts of the named splits: truth 1, in a weighted graph the given one; facts of truth 0 are none."""
    heads, tails, entries = graph.adjacency.relation(relation)
    split = graph.split[entries]
    truth = np.ones(len(heads), dtype=np.float32) if graph.weight is None else graph.weight[entries]
    codes = [SPLIT_CODE[name] for name in observed]
    if graph.weight is None and (not len(split) or (split.min() == split.max() and split[0] in codes)):
        return RelationFacts(heads, tails, truth, split)
    keep = np.isin(split, codes) & (truth > 0)
    return RelationFacts(heads[keep], tails[keep], truth[keep], split[keep])


def given_truth(graph: KnowledgeGraph, observed: Sequence[str]) -> bool:
    """Whether a fact of the named splits has a given truth that is not 1: then truth is kept in double precision."""
    if graph.weight is None:
        return False
    return any((graph_facts(graph, r, observed).truth != 1).any() for r in range(len(graph.relations)))


def stated(facts: RelationFacts) -> RelationEdges:
    """Facts over no predictions at all."""
    count = len(facts.heads)
    certain, unpredicted = np.ones(count, dtype=bool), np.zeros(count, dtype=np.float32)
    return RelationEdges(facts.heads, facts.tails, facts.truth, certain, unpredicted, facts.source)


def overlay(
    facts: RelationFacts, heads: NDArray[np.integer], tails: NDArray[np.integer], prediction: Floats, entities: int
) -> RelationEdges:
    """Facts over predicted edges; each without duplicates, the two may overlap.

    >>> facts = RelationFacts(np.array([0]), np.array([1]), np.array([1.0]), np.array([1], np.uint8))
    >>> found = overlay(facts, np.array([0, 0]), np.array([1, 2]), np.array([0.5, 0.25]), 3)
    >>> found.truth.tolist(), found.observed.tolist(), found.prediction.tolist()
    ([1.0, 0.25], [True, False], [0.5, 0.25])
    """
    key, wanted = edge_key(heads, tails, entities), edge_key(facts.heads, facts.tails, entities)
    order = None if (key[1:] > key[:-1]).all() else np.argsort(key)
    at = np.minimum(np.searchsorted(key, wanted, sorter=order), max(len(key) - 1, 0))
    at = at if order is None else order[at]
    listed = key[at] == wanted if len(key) else np.zeros(len(wanted), dtype=bool)
    more, place = ~listed, at[listed]
    known = np.asarray(prediction, dtype=np.float32)
    truth = np.concatenate([known, facts.truth[more]])
    truth[place] = facts.truth[listed]
    observed, source = np.zeros(len(truth), dtype=bool), np.zeros(len(truth), dtype=np.uint8)
    observed[place] = observed[len(key) :] = True
    source[place], source[len(key) :] = facts.source[listed], facts.source[more]
    return RelationEdges(
        np.concatenate([heads, facts.heads[more]]),
        np.concatenate([tails, facts.tails[more]]),
        truth,
        observed,
        np.concatenate([known, np.zeros(len(truth) - len(known), np.float32)]),
        source,
    )


def overlaid(
    facts: Iterable[RelationFacts], predicted: tuple[NDArray[Any], ...] | None, entities: int, relations: int
) -> Iterator[RelationEdges]:
    """The facts of each relation over predicted edges (heads, relation, tails, prediction), if there are any."""
    if predicted is None:
        yield from map(stated, facts)
        return
    heads, relation, tails, prediction = predicted
    slices = relation_slices(relation, relations, heads, tails, prediction)
    for mine, (near, far, values) in zip(facts, slices, strict=True):
        yield overlay(mine, near, far, values, entities)


class TableWriter:
    """Writes a table into a sink, one relation after the other."""

    def __init__(self, sink: ArraySink, entities: int, double: bool, may_miss: Floats | None = None) -> None:
        self._sink, self._views, self._entities, self._may_miss = sink, ViewsWriter(sink), entities, may_miss
        self._kind: type[np.floating] = np.float64 if double else np.float32
        self._facts = [0]

    def relation(self, edges: RelationEdges) -> None:
        """Add the edges of the next relation."""
        if not len(edges.heads):
            self._write(NO_VIEWS, table_columns(NO_VIEWS, np.zeros(0, self._kind)), _NO_FACTS)
            return
        views = relation_views(edges.heads, edges.tails, self._entities)
        observed = edges.observed[views.edge]
        truth = edges.truth.astype(self._kind, copy=False)[views.edge]
        fact = views.edge[: len(edges.heads)][observed[: len(edges.heads)]]
        columns = {"observed": observed} | table_columns(views, truth)
        self._write(views, columns, {"fact_prediction": edges.prediction[fact], "fact_source": edges.source[fact]})

    def _write(
        self, views: RelationViews, columns: Mapping[str, NDArray[Any]], facts: Mapping[str, NDArray[Any]]
    ) -> None:
        if self._may_miss is not None:
            bound = np.float32(self._may_miss[len(self._facts) - 1])
            columns = {**columns, "row_dropped": np.full(len(columns["row_best"]), bound)}
        self._views.relation(views, {"observed": _NONE, **columns, **facts})
        self._facts.append(self._facts[-1] + len(facts["fact_source"]))

    def finish(self) -> None:
        """Add the arrays that say where relations begin."""
        self._views.finish()
        self._sink.append("fact_ptr", np.array(self._facts, np.int64))


def table_columns(views: RelationViews, truth: Floats) -> dict[str, NDArray[Any]]:
    """The arrays of a relation that follow from its views and the truth of each entry."""
    ends, half = np.append(views.row_start, len(truth)), len(truth) // 2
    forward, backward = ends[: views.rows[0] + 1], ends[views.rows[0] :] - half
    # one after the other: it takes memory
    sides = [by_falling_truth(truth[:half], forward), by_falling_truth(truth[half:], backward)]
    return {
        "truth": truth,
        "by_truth": np.concatenate([by_truth for by_truth, _ in sides]),
        "row_best": np.concatenate([best for _, best in sides]),
        "row_order": np.concatenate([row_order(best) for _, best in sides]),
    }


def by_falling_truth(truth: Floats, row_ptr: Longs) -> tuple[Ints, Floats]:
    """The offsets of entries within their rows in order of falling truth, ties by id; the largest truth of each row.

    >>> by_falling_truth(np.array([0.5, 0.25, 0.5, 1.0], np.float32), np.array([0, 3, 4]))
    (array([0, 2, 1, 0], dtype=int32), array([0.5, 1. ], dtype=float32))
    """
    start, lengths = row_ptr[:-1], np.diff(row_ptr)
    order = falling(np.repeat(np.arange(len(start), dtype=np.int64), lengths), truth)
    best = truth[order[start]]
    order -= np.repeat(start, lengths)
    return order.astype(np.int32), best


def row_order(row_best: Floats) -> Ints:
    """The rows of a view in order of their falling best truth, ties by id.

    >>> row_order(np.array([0.5, 1.0, 0.5], np.float32))
    array([1, 0, 2], dtype=int32)
    """
    return np.argsort(-row_best, kind="stable").astype(np.int32)


def write_table(
    sink: ArraySink, entities: int, relations: Iterable[RelationEdges], double: bool, may_miss: Floats | None = None
) -> None:
    """Write the edges of all relations, from the first to the last; `may_miss` as in `table_writer`."""
    writer = TableWriter(sink, entities, double, may_miss)
    for edges in relations:
        writer.relation(edges)
    writer.finish()


_NONE = np.zeros(0, dtype=bool)
_NO_FACTS: dict[str, NDArray[Any]] = {
    "fact_prediction": np.zeros(0, np.float32),
    "fact_source": np.zeros(0, np.uint8),
}
