"""The truth table: calibrated truth of every edge above a threshold, sparse, in both directions.

It is the only thing an engine sees of graph and predictor. An edge that is not listed has truth 0. A table is made
relation by relation, in memory or straight into a folder, to the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import CorruptStore
from tuplet.graph.adjacency import (
    LAYOUT,
    Adjacency,
    ArraySink,
    GrowingArrays,
    Ints,
    Longs,
    RelationViews,
    ViewsWriter,
    are_pointers,
    edge_key,
    refuse_misfits,
    relation_places,
    relation_slices,
    relation_views,
)
from tuplet.graph.arrays import Columns, Directory, directory_writer, open_directory
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph
from tuplet.graph.versions import EdgeStates, LayeredRows, RowEdit
from tuplet.progress import Report, silent
from tuplet.truth.edges import TRAIN, Bools, FactEdges, Floats, Predictions, Sources, falling, truth_columns


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
    none = np.zeros(0, dtype=np.int32)
    heads, relation, tails, prediction = (none, none, none, none.astype(np.float32)) if predicted is None else predicted
    slices = relation_slices(relation, relations, heads, tails, prediction)
    for mine, (near, far, values) in zip(facts, slices, strict=True):
        yield overlay(mine, near, far, values, entities)


def write_table(
    sink: ArraySink,
    entities: int,
    relations: Iterable[RelationEdges],
    double: bool,
    dropped: Iterable[Floats] | None = None,
) -> None:
    """Write the edges of all relations, from the first to the last.

    `dropped` says of each relation which truth an edge may have that its rows leave out, of all rows or of each;
    without it that is the threshold.
    """
    writer, facts = ViewsWriter(sink), [0]
    for edges, bound in zip(relations, repeat(None) if dropped is None else dropped, strict=False):
        writer.relation(*_lay_out(edges, entities, np.float64 if double else np.float32, bound))
        facts.append(facts[-1] + int(np.count_nonzero(edges.observed)))
    writer.finish()
    sink.append("fact_ptr", np.array(facts, np.int64))


def _lay_out(
    edges: RelationEdges, entities: int, kind: type[np.floating], bound: Floats | None
) -> tuple[RelationViews, dict[str, NDArray[Any]]]:
    """The views of a relation and the arrays beside them; rows that leave out more than usual have a `bound`."""
    count = len(edges.heads)
    views = relation_views(edges.heads, edges.tails, entities)
    observed = edges.observed[views.edge]
    columns = {"observed": observed} | table_columns(views, edges.truth.astype(kind, copy=False)[views.edge])
    if bound is not None:
        columns["row_dropped"] = np.full(len(columns["row_best"]), bound, dtype=np.float32)
    fact = views.edge[:count][observed[:count]]
    return views, columns | {"fact_prediction": edges.prediction[fact], "fact_source": edges.source[fact]}


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
        "row_order": np.concatenate([np.argsort(-best, kind="stable").astype(np.int32) for _, best in sides]),
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


KIND = "table"


class Row(NamedTuple):
    """The edges of one entity under one relation in one direction, in ascending order of the other end."""

    ids: Ints
    truth: Floats
    observed: Bools


class Truth(Protocol):
    """All that engines ask of truth values. A table holds them, `TruthOnDemand` computes them; nobody asks which."""

    @property
    def entities(self) -> int:
        """Entities are numbered from 0 to here."""

    @property
    def relations(self) -> int:
        """So are relations."""

    @property
    def threshold(self) -> float:
        """No predicted edge has a smaller truth: below, it counts 0."""

    @property
    def tabulated(self) -> bool:
        """Whether all rows are there, so that nothing is computed when asked."""

    @property
    def double(self) -> bool:
        """Whether truth values are in double precision: those of a weighted graph."""

    def row(self, entity: int, relation: int, inverse: bool) -> Row:
        """The edges from an entity under a relation or, inverse, those to it."""

    def row_max(self, entity: int, relation: int, inverse: bool) -> float:
        """The largest truth of a row, 0 if it has no edge."""

    def value(self, head: int, relation: int, tail: int) -> float:
        """Truth of one edge."""

    def observed_edge(self, head: int, relation: int, tail: int) -> bool:
        """Whether the edge is a stated fact."""

    def table(self, relations: Sequence[int]) -> TruthTable:
        """A table that holds at least the named relations, numbered as here: what is searched, and looked up in."""


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
    row_dropped: Floats  # [rows] what the row scored and does not list has no larger truth there
    threshold: float  # the same bound for rows that are not listed
    row_order: Ints  # [base rows] the rows of each view, numbered within it, by falling best truth, ties by id
    fact_ptr: Longs  # [relations + 1] how many facts there were before each relation when the table was made
    # Of the observed edges in order of (relation, head, tail): the prediction as if the edge were not observed (0 if
    # below the threshold), which shows again when the fact is removed, and where the fact comes from.
    fact_prediction: Floats
    fact_source: Sources
    layered: LayeredRows | None = None  # where newer layers grow, once there are any
    changes: tuple[EdgeStates, ...] = ()  # the edges that newer layers have changed, the newest ones last
    tabulated = True

    @property
    def relations(self) -> int:
        return self.adjacency.relations

    @property
    def edges(self) -> int:
        return self.adjacency.edges

    @property
    def double(self) -> bool:
        return self.truth.dtype == np.float64

    @cached_property
    def prepared(self) -> dict[str, Any]:
        """What engines made of this table and use again, by their own keys."""
        return {}

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
        prediction: NDArray[np.floating] | None = None,
        source: Sources | None = None,
    ) -> TruthTable:
        """The table of distinct edges with positive truth; `prediction` and `source` are read for observed edges."""
        given = np.asarray(observed, dtype=bool)
        weight = np.zeros(len(given), np.float32) if prediction is None else np.asarray(prediction, dtype=np.float32)
        origin = np.full(len(given), TRAIN, np.uint8) if source is None else np.asarray(source, dtype=np.uint8)
        columns = (heads, tails, truth, given, weight, origin)
        edges = (RelationEdges(*part) for part in relation_slices(relation, relations, *columns))
        return TruthTable.from_relations(entities, edges, bool((truth[given] != 1).any()), threshold)

    @staticmethod
    def assemble(
        entities: int,
        relations: int,
        facts: FactEdges,
        predicted: Predictions | None = None,
        threshold: float = 0.0,
    ) -> TruthTable:
        """The table of observed facts over predicted edges; each list without duplicates, the two may overlap.

        >>> facts = FactEdges(np.array([0]), np.array([0]), np.array([1]), np.array([1.0]), np.array([TRAIN], np.uint8))
        >>> predicted = np.array([0, 0]), np.array([0, 0]), np.array([1, 2]), np.array([0.4, 0.2])
        >>> table = TruthTable.assemble(3, 1, facts, predicted)
        >>> table.row(0, 0, False).truth.tolist(), table.fact_prediction.round(2).tolist()
        ([1.0, 0.20000000298023224], [0.4000000059604645])
        """
        columns = (facts.heads, facts.tails, facts.truth, facts.source)
        stated = (RelationFacts(*part) for part in relation_slices(facts.relation, relations, *columns))
        edges = overlaid(stated, predicted, entities, relations)
        return TruthTable.from_relations(entities, edges, bool((facts.truth != 1).any()), threshold)

    @staticmethod
    def from_relations(
        entities: int, edges: Iterable[RelationEdges], double: bool, threshold: float | Callable[[], float]
    ) -> TruthTable:
        """The table of the edges of each relation in turn; `double` if facts have a truth that is to be kept.

        The threshold may be known after the last relation alone.
        """
        sink = GrowingArrays()
        write_table(sink, entities, edges, double)
        made, least = sink.arrays(), threshold() if callable(threshold) else threshold
        return TruthTable._from_arrays(made, Adjacency(*(made[name] for name in LAYOUT)), entities, least)

    def row(self, entity: int, relation: int, inverse: bool) -> Row:
        start, stop = self.adjacency.span(entity, 2 * relation + inverse)
        return Row(self.adjacency.neighbour[start:stop], self.truth[start:stop], self.observed[start:stop])

    def value(self, head: int, relation: int, tail: int) -> float:
        entry = self.adjacency.find(head, relation, tail)
        return float(self.truth[entry]) if entry >= 0 else 0.0

    def observed_edge(self, head: int, relation: int, tail: int) -> bool:
        entry = self.adjacency.find(head, relation, tail)
        return entry >= 0 and bool(self.observed[entry])

    def lookup(
        self, heads: NDArray[np.int32], relations: NDArray[np.int32], tails: NDArray[np.int32]
    ) -> tuple[NDArray[np.float64], Bools]:
        """Truth of many edges, and whether they are stated facts. [n], [n]"""
        entry = self.adjacency.find_many(heads, relations, tails)
        if not len(self.truth):
            return np.zeros(len(heads)), np.zeros(len(heads), dtype=bool)
        there = entry >= 0  # the others are read at the end, and not counted
        return np.where(there, self.truth[entry], 0.0), there & self.observed[entry]

    def fact_values(
        self, heads: NDArray[np.int32], relations: NDArray[np.int32], tails: NDArray[np.int32]
    ) -> tuple[Floats, Sources]:
        """Of many edges, the prediction as if they were unknown and where they come from; 0 where they are no facts."""
        base = self.base
        prediction, source = np.zeros(len(heads), dtype=np.float32), np.zeros(len(heads), dtype=np.uint8)
        entry = base.adjacency.find_many(heads, relations, tails)
        for r, places in relation_places(relations):
            mine = places[entry[places] >= 0]
            mine = mine[base.observed[entry[mine]]]
            start = base.adjacency.row_ptr.item(base.adjacency.view_ptr.item(2 * r))
            stop = int(entry[mine].max()) + 1 if len(mine) else start
            before = np.cumsum(base.observed[start:stop]) - 1
            number = self.fact_ptr.item(r) + before[entry[mine] - start]
            prediction[mine], source[mine] = self.fact_prediction[number], self.fact_source[number]
        for states in self.changes:
            place = states.find(relations, heads, tails)
            there = place >= 0
            prediction[there], source[there] = states.prediction[place[there]], states.source[place[there]]
        return prediction, source

    def row_max(self, entity: int, relation: int, inverse: bool) -> float:
        row = self.row(entity, relation, inverse)
        return float(row.truth.max()) if len(row.truth) else 0.0

    def table(self, relations: Sequence[int]) -> TruthTable:
        """The table itself: it holds all relations; now these are verified."""
        self.adjacency.touch(relations)
        return self

    def edit(self, states: EdgeStates, entities: int | None = None) -> TruthTable:
        """The table in which some edges are as the states say, in a newer layer; nothing else is copied."""
        if not states.edges:
            return replace(self, entities=entities or self.entities)
        rows = self._rows()
        values = {"truth": states.truth, "observed": states.observed}
        listed = states.truth > 0
        edited = rows.edit(states.relation, states.heads, states.tails, listed, values, self._follows)
        older, recent = self.changes[: rows.fixed], self.changes[rows.fixed :]
        return self._with(edited, entities or self.entities, (*older, recent[0].then(states) if recent else states))

    def over(self, layer: dict[str, NDArray[Any]], states: EdgeStates, entities: int) -> TruthTable:
        """The table under a layer that `layer` gave, in which some edges are as the states say."""
        return self._with(self._rows().over(layer), entities, (states,))

    def layer(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """All that was edited, as arrays to be written down, in pieces."""
        return self._rows().layer()

    def _rows(self) -> LayeredRows:
        if self.layered is not None:
            return self.layered
        entry = {"truth": self.truth, "observed": self.observed, "by_truth": self.by_truth}
        row = {"row_best": self.row_best}
        if self.row_dropped.strides != (0,):  # else the threshold says it of all rows
            row["row_dropped"] = self.row_dropped
        return LayeredRows(self.adjacency, entry, row)

    def _with(self, rows: LayeredRows, entities: int, changes: tuple[EdgeStates, ...]) -> TruthTable:
        columns: dict[str, Any] = {**rows.entry, **rows.row}
        columns.setdefault("row_dropped", np.broadcast_to(np.float32(self.threshold), len(columns["row_best"])))
        return replace(self, entities=entities, adjacency=rows.adjacency, layered=rows, changes=changes, **columns)

    def _follows(
        self, edit: RowEdit, entry: Columns, row: Columns
    ) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """The columns of changed rows that follow from their entries, and what is known of rows that stay."""
        entries, rows = truth_columns(edit, entry["by_truth"])
        dropped = np.full(len(edit.old_rows), self.threshold, dtype=np.float32)
        if "row_dropped" in row:
            known = edit.old_rows >= 0
            dropped[known] = row["row_dropped"][edit.old_rows[known]]
        return entries, rows | {"row_dropped": dropped}

    @property
    def base(self) -> TruthTable:
        """The table as it was made, without newer layers."""
        if self.adjacency.newer is None:
            return self
        adjacency = self.adjacency.base
        rows, entries = len(adjacency.row_entity), len(adjacency.neighbour)
        columns: dict[str, Any] = {name: getattr(self, name)[:rows] for name in ("row_best", "row_dropped")}
        columns |= {name: getattr(self, name)[:entries] for name in ("truth", "observed", "by_truth")}
        return replace(self, adjacency=adjacency, layered=None, changes=(), **columns)

    def merge_layers(self) -> Iterator[RelationEdges]:
        """All that the table and its newer layers say, relation by relation."""
        for r in range(self.relations):
            heads, tails, entries = self.adjacency.relation(r)
            observed = self.observed[entries]
            prediction, source = np.zeros(len(heads), dtype=np.float32), np.zeros(len(heads), dtype=np.uint8)
            same = np.full(np.count_nonzero(observed), r, dtype=np.int32)
            prediction[observed], source[observed] = self.fact_values(heads[observed], same, tails[observed])
            yield RelationEdges(heads, tails, self.truth[entries], observed, prediction, source)

    @property
    def flat(self) -> TruthTable:
        """The same table without layers."""
        if not self.changes:
            return self
        made = TruthTable.from_relations(self.entities, self.merge_layers(), self.double, self.threshold)
        views = [self.adjacency.view(v) for v in range(2 * self.relations)]
        return replace(made, row_dropped=np.concatenate([self.row_dropped[v.rows] for v in views]))

    def facts(self) -> Adjacency:
        """The observed edges alone: what the crisp engine joins."""
        return self.adjacency.filter(self.observed)

    def fact_edges(self) -> FactEdges:
        """The observed edges in order of (relation, head, tail), parallel to `fact_prediction`."""
        table = self.flat
        heads, relation, tails, entry = table.adjacency.triples()
        kept = table.observed[entry]
        return FactEdges(heads[kept], relation[kept], tails[kept], table.truth[entry[kept]], table.fact_source)

    def predictions(self) -> Predictions:
        """All edges with a prediction, in order of (relation, head, tail): an observed one as if it were unknown."""
        table = self.flat
        heads, relation, tails, entry = table.adjacency.triples()
        prediction = table.truth[entry].astype(np.float32)
        prediction[table.observed[entry]] = table.fact_prediction
        listed = prediction > 0
        return Predictions(heads[listed], relation[listed], tails[listed], prediction[listed])

    def sizes(self) -> dict[str, Any]:
        """How many edges are listed, and how many of them are observed or predicted."""
        facts = len(self.flat.fact_prediction)
        return {"edges": self.edges, "facts": facts, "predicted": self.edges - facts}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything but the two numbers, by name."""
        a = self.adjacency
        layout: dict[str, NDArray[Any]] = {name: getattr(a, name) for name in LAYOUT}
        return layout | {name: getattr(self, name) for name in _PAYLOAD}

    def save(self, path: str | os.PathLike[str], force: bool = False, progress: Report = silent) -> str:
        """Write the table as a directory, its newer layers merged, relation by relation; returns its content hash."""

        def relations() -> Iterator[RelationEdges]:
            for r, edges in enumerate(self.merge_layers()):
                yield edges
                report_relation(progress, "table", self.adjacency, r)

        def bounds() -> Iterator[Floats]:
            for r in range(self.relations):
                yield np.concatenate([self.row_dropped[self.adjacency.view(view).rows] for view in (2 * r, 2 * r + 1)])

        alike = (self.row_dropped == np.float32(self.threshold)).all()  # then the threshold says it
        with directory_writer(path, KIND, force) as sink:
            write_table(sink, self.entities, relations(), self.double, None if alike else bounds())
            return sink.finish({"entities": self.entities, "threshold": self.threshold})

    @staticmethod
    def open(path: str | os.PathLike[str]) -> TruthTable:
        """The table of a directory, memory-mapped; a relation is checked when it is first asked for."""
        return TruthTable.from_directory(open_directory(path, KIND))

    @staticmethod
    def from_directory(directory: Directory) -> TruthTable:
        """The table in an opened directory; arrays that do not fit together are refused: compiled code trusts them."""
        arrays, meta = directory.arrays, directory.meta
        try:
            entities = int(meta["entities"])
            adjacency = Adjacency.from_directory(directory, entities)
            table = TruthTable._from_arrays(arrays, adjacency, entities, float(meta["threshold"]))
            _check(table)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptStore(f"{Path(directory.path)} is not a whole table: {error}") from None
        return table

    @staticmethod
    def _from_arrays(
        arrays: Mapping[str, NDArray[Any]], adjacency: Adjacency, entities: int, threshold: float
    ) -> TruthTable:
        dropped = arrays.get("row_dropped")
        if dropped is None:
            dropped = np.broadcast_to(np.float32(threshold), len(adjacency.row_entity))
        payload: dict[str, Any] = {name: arrays[name] for name in _PAYLOAD if name != "row_dropped"}
        return TruthTable(entities, adjacency, row_dropped=dropped, threshold=threshold, **payload)


_BY_ENTRY, _BY_ROW = ("truth", "observed", "by_truth"), ("row_best", "row_dropped", "row_order")
_PAYLOAD = (*_BY_ENTRY, *_BY_ROW, "fact_prediction", "fact_source", "fact_ptr")


def _check(table: TruthTable) -> None:
    rows, entries = len(table.adjacency.row_entity), len(table.adjacency.neighbour)
    beside = dict.fromkeys(_BY_ENTRY, entries) | dict.fromkeys(_BY_ROW, rows)
    fits = {name: len(getattr(table, name)) == length for name, length in beside.items()}
    fits["fact_source"] = len(table.fact_source) == len(table.fact_prediction)
    refuse_misfits(**fits, fact_ptr=are_pointers(table.fact_ptr, len(table.fact_source)))


def report_relation(progress: Report, step: str, rows: Adjacency, relation: int) -> None:
    """Report that a relation is done: relations differ in size, so progress is counted in edges."""
    edges = rows.view_entries[::2]
    if rows.edges:
        progress(step, int(edges[: relation + 1].sum()), rows.edges, "edges")
