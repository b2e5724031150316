"""The truth table: calibrated truth of every edge above a threshold, sparse, in both directions.

It is the only thing an engine sees of graph and predictor. An edge that is not listed has truth 0.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import CorruptStore
from tuplet.graph.adjacency import (
    LAYOUT,
    Adjacency,
    GrowingArrays,
    Ints,
    Longs,
    are_pointers,
    refuse_misfits,
    relation_places,
    relation_slices,
)
from tuplet.graph.arrays import Columns, Directory, open_directory, write_directory
from tuplet.graph.versions import EdgeStates, LayeredRows, RowEdit
from tuplet.truth.assemble import RelationEdges, RelationFacts, overlaid, row_order, write_table
from tuplet.truth.edges import TRAIN, Bools, FactEdges, Floats, Predictions, Sources, truth_columns

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
    # Of the observed edges in order of (relation, head, tail): the prediction as if the edge were not observed (0 if
    # below the threshold), which shows again when the fact is removed, and where the fact comes from.
    fact_prediction: Floats = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    fact_source: Sources = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))
    layered: LayeredRows | None = None  # where newer layers grow, once there are any
    changes: tuple[EdgeStates, ...] = ()  # the edges that newer layers have changed, the newest ones last
    stored_row_order: Ints | None = None  # older folders have neither of the two: they follow from the rest
    stored_fact_ptr: Longs | None = None
    tabulated = True

    @cached_property
    def row_order(self) -> Ints:
        """The rows of each view of the base, numbered within it, by falling best truth, ties by id. [rows]"""
        if self.stored_row_order is not None:
            return self.stored_row_order
        base = self.base
        views = np.split(base.row_best, base.adjacency.view_ptr[1:-1])
        return np.concatenate([row_order(best) for best in views])

    @cached_property
    def fact_ptr(self) -> Longs:
        """How many facts there were before each relation when the table was made. [relations + 1]"""
        if self.stored_fact_ptr is not None:
            return self.stored_fact_ptr
        base = self.base
        marked = np.concatenate([[0], np.cumsum(base.observed & forward_entries(base.adjacency))])
        return np.asarray(marked[base.adjacency.row_ptr[base.adjacency.view_ptr[::2]]], dtype=np.int64)

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
        return TruthTable.of_relations(entities, edges, bool((truth[given] != 1).any()), threshold)

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
        return TruthTable.of_relations(entities, edges, bool((facts.truth != 1).any()), threshold)

    @staticmethod
    def of_relations(
        entities: int, edges: Iterable[RelationEdges], double: bool, threshold: float | Callable[[], float]
    ) -> TruthTable:
        """The table of the edges of each relation in turn; `double` if facts have a truth that is to be kept.

        The threshold may be known after the last relation alone.
        """
        sink = GrowingArrays()
        write_table(sink, entities, edges, double)
        made, least = sink.arrays(), threshold() if callable(threshold) else threshold
        return TruthTable._of_arrays(made, Adjacency(*(made[name] for name in LAYOUT)), entities, least)

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
        """The largest truth of a row, 0 if it has no edge."""
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

    @property
    def flat(self) -> TruthTable:
        """The same table without layers."""
        if not self.changes:
            return self
        adjacency, entries = self.adjacency.flatten()
        changes = reduce(EdgeStates.then, self.changes)
        views = [self.adjacency.view(v) for v in range(2 * self.relations)]
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(self, name)[v.rows] for v in views]) for name in ("row_best", "row_dropped")
        }
        columns |= {name: getattr(self, name)[entries] for name in ("truth", "observed", "by_truth")}
        base = self.base.fact_edges()
        kept = changes.find(base.relation, base.heads, base.tails) < 0
        facts = changes.take(changes.observed)
        ends = (np.concatenate([old[kept], new]) for old, new in zip(base[:3], _ends(facts), strict=True))
        heads, relation, tails = ends
        order = np.lexsort((tails, heads, relation))
        prediction = np.concatenate([self.fact_prediction[kept], facts.prediction])[order]
        source = np.concatenate([self.fact_source[kept], facts.source])[order]
        return replace(
            self,
            adjacency=adjacency,
            fact_prediction=prediction,
            fact_source=source,
            layered=None,
            changes=(),
            stored_row_order=None,
            stored_fact_ptr=None,
            **columns,
        )

    def facts(self) -> Adjacency:
        """The observed edges alone: what the crisp engine joins."""
        return self.adjacency.filter(self.observed)

    def fact_edges(self) -> FactEdges:
        """The observed edges in order of (relation, head, tail), parallel to `fact_prediction`."""
        table = self.flat
        heads, relation, tails, _ = table.facts().triples()
        truth = table.truth[table.observed & forward_entries(table.adjacency)]
        return FactEdges(heads, relation, tails, truth, table.fact_source)

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
        return layout | {name: getattr(self, name) for name in (*_PAYLOAD, *_DERIVED)}

    def save(self, path: str | os.PathLike[str], force: bool = False) -> str:
        """Write the table as a directory and return its content hash."""
        flat = self.flat
        arrays = flat.arrays()
        if (flat.row_dropped == np.float32(self.threshold)).all():
            del arrays["row_dropped"]  # the threshold says it
        rows, entries = flat.adjacency.sections()
        bounds = {"row": rows, "entry": entries, "fact": flat.fact_ptr}
        divided = {name: bounds[beside] for name, beside in _DIVIDED.items() if name in arrays}
        meta = {"entities": self.entities, "threshold": self.threshold}
        return write_directory(path, KIND, arrays, meta, force, divided=divided)

    @staticmethod
    def open(path: str | os.PathLike[str]) -> TruthTable:
        """The table of a directory, memory-mapped; a relation is checked when it is first asked for."""
        return TruthTable.of_directory(open_directory(path, KIND))

    @staticmethod
    def of_directory(directory: Directory) -> TruthTable:
        """The table in an opened directory; arrays that do not fit together are refused: compiled code trusts them."""
        arrays, meta = directory.arrays, directory.meta
        try:
            entities = int(meta["entities"])
            adjacency = Adjacency.from_directory(directory, entities)
            table = TruthTable._of_arrays(arrays, adjacency, entities, float(meta["threshold"]))
            _check(table)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptStore(f"{Path(directory.path)} is not a whole table: {error}") from None
        return table

    @staticmethod
    def _of_arrays(
        arrays: Mapping[str, NDArray[Any]], adjacency: Adjacency, entities: int, threshold: float
    ) -> TruthTable:
        dropped = arrays.get("row_dropped")
        if dropped is None:
            dropped = np.broadcast_to(np.float32(threshold), len(adjacency.row_entity))
        payload: dict[str, Any] = {name: arrays[name] for name in _PAYLOAD if name != "row_dropped"}
        payload |= {f"stored_{name}": arrays[name] for name in _DERIVED if name in arrays}
        return TruthTable(entities, adjacency, row_dropped=dropped, threshold=threshold, **payload)


_DERIVED = ("row_order", "fact_ptr")
# What the arrays that are divided by relation lie beside.
_DIVIDED = {
    **dict.fromkeys(("row_entity", "row_ptr", "row_best", "row_dropped", "row_order"), "row"),
    **dict.fromkeys(("neighbour", "truth", "observed", "by_truth"), "entry"),
    **dict.fromkeys(("fact_prediction", "fact_source"), "fact"),
}
_PAYLOAD = ("truth", "observed", "by_truth", "row_best", "row_dropped", "fact_prediction", "fact_source")


def _check(table: TruthTable) -> None:
    rows, entries = len(table.adjacency.row_entity), len(table.adjacency.neighbour)
    refuse_misfits(
        truth=len(table.truth) == entries,
        observed=len(table.observed) == entries,
        by_truth=len(table.by_truth) == entries,
        row_best=len(table.row_best) == rows,
        row_dropped=len(table.row_dropped) == rows,
        fact_source=len(table.fact_source) == len(table.fact_prediction),
        row_order=table.stored_row_order is None or len(table.stored_row_order) == rows,
        fact_ptr=are_pointers(table.fact_ptr, len(table.fact_source)),
    )


def _ends(states: EdgeStates) -> tuple[Ints, Ints, Ints]:
    return states.heads, states.relation, states.tails


def forward_entries(adjacency: Adjacency) -> Bools:
    """Marks the entries of the views that go from head to tail."""
    adjacency.touch()
    per_view = np.diff(adjacency.row_ptr[adjacency.view_ptr])
    return np.repeat(np.arange(len(per_view)) % 2 == 0, per_view)
