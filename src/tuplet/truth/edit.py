"""Facts added to and removed from a store: at once, without retraining; the predictions stay as they are."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput, Option, UnknownName
from tuplet.graph.adjacency import Adjacency, Longs
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.truth.store_folder import PATIENCE, StoreFiles, writing
from tuplet.truth.store_meta import StoreChanges, StoreMeta
from tuplet.truth.table import ADDED, TRAIN, Bools, FactEdges, Floats, Sources, TruthTable, edge_keys, forward_entries

Triples = KnowledgeGraph | Iterable[tuple[Any, ...]]


@dataclass(frozen=True)
class EditReport:
    """What a change did, in facts."""

    added: int = 0
    already: int = 0  # were observed
    updated: int = 0  # were observed with another truth
    removed: int = 0
    shown_as_predicted: int = 0  # of the removed: how many the predictor still holds for true above the threshold
    not_found: int = 0  # were not observed
    duplicates: int = 0  # given more than once
    new_entities: tuple[str, ...] = ()  # known by their facts alone: the predictor says nothing about them

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def add_facts(
    path: str | os.PathLike[str], facts: Triples, new_entities: bool = False, timeout: float = PATIENCE
) -> EditReport:
    """Make facts observed: those of a graph (such as `read` gives), or tuples (head, relation, tail[, truth]) of names.

    An entity the store does not have is refused with the nearest names, or with `new_entities` added: nothing is then
    predicted about it. A relation it does not have is always refused. Changes wait their turn: after `timeout` seconds
    it is `StoreBusy`, and nothing has changed.
    """
    with writing(path, timeout) as store:
        graph = store.graph
        names = _NamedFacts.of(facts)
        entities, fresh = _entities(graph.entities, names, new_entities)
        heads, relation, tails, truth, duplicates = _resolve(graph, names, entities, len(graph.entities) + len(fresh))
        given = FactEdges(heads, relation, tails, truth, np.full(len(heads), ADDED, dtype=np.uint8))
        if not graph.weighted and (truth < 1).any():
            raise BadInput(f"{store.path} is not weighted: a fact there is true, it has no truth of {truth.min():g}")
        changed = add(store.table, given, len(graph.entities) + len(fresh))
        report = EditReport(
            added=int(changed.changed.sum()),
            already=int((~changed.changed & ~changed.updated).sum()),
            updated=int(changed.updated.sum()),
            duplicates=duplicates,
            new_entities=tuple(fresh),
        )
        if report.added or report.updated:
            new = given.where(changed.changed | changed.updated)
            store.replaced(
                _with(graph, _wider(graph, fresh), new), changed.table, _counted(store, report, changed.table)
            )
        return report


def remove_facts(path: str | os.PathLike[str], facts: Triples, timeout: float = PATIENCE) -> EditReport:
    """Stop observing facts: each shows its prediction again, or is gone where that lies below the threshold."""
    with writing(path, timeout) as store:
        graph = store.graph
        names = _NamedFacts.of(facts)
        entities, _ = _entities(graph.entities, names, False)
        heads, relation, tails, _, duplicates = _resolve(graph, names, entities, len(graph.entities))
        changed = remove(store.table, heads, relation, tails)
        gone = changed.changed
        shown = sum(
            changed.table.adjacency.find(h, r, t) >= 0
            for h, r, t in zip(heads[gone].tolist(), relation[gone].tolist(), tails[gone].tolist(), strict=True)
        )
        report = EditReport(
            removed=int(gone.sum()),
            shown_as_predicted=shown,
            not_found=int((~gone).sum()),
            duplicates=duplicates,
        )
        if report.removed:
            left = _without(graph, heads[gone], relation[gone], tails[gone])
            store.replaced(left, changed.table, _counted(store, report, changed.table))
        return report


class NewEntity(UnknownName):
    """An entity that the store does not have and was not allowed to add.

    >>> print(NewEntity("asprin", ["aspirin"]))
    entity 'asprin' is not in the store; did you mean 'aspirin'? (new_entities=True adds it, with no predictions)
    """

    def __init__(self, name: str, suggestions: Iterable[str]) -> None:
        super().__init__("entity", name, suggestions, "is not in the store")
        self.parts = (*self.parts, " (", Option("new_entities"), " adds it, with no predictions)")
        self.args = (self.message,)


@dataclass(frozen=True)
class _NamedFacts:
    """Facts by name, each distinct name once."""

    entities: list[str]
    relations: list[str]
    edges: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]  # numbers into the two lists
    truth: Floats

    @staticmethod
    def of(facts: Triples) -> _NamedFacts:
        if isinstance(facts, KnowledgeGraph):
            heads, relation, tails, entry = facts.adjacency.triples()
            truth = np.ones(len(entry), np.float32) if facts.weight is None else facts.weight[entry]
            entity_names, relation_names = (v.names(range(len(v))) for v in (facts.entities, facts.relations))
            edges = (heads.astype(np.int64), relation.astype(np.int64), tails.astype(np.int64))
            return _NamedFacts(entity_names, relation_names, edges, truth)
        entities: dict[str, int] = {}
        relations: dict[str, int] = {}
        rows, weights = [], []
        for number, fact in enumerate(facts, start=1):
            if len(fact) not in (3, 4) or not all(isinstance(name, str) for name in fact[:3]):
                raise BadInput(f"fact {number}: expected (head, relation, tail), perhaps with a truth, not {fact!r}")
            weight = float(fact[3]) if len(fact) == 4 else 1.0
            if not 0 < weight <= 1:
                raise BadInput(f"fact {number}: its truth {weight:g} is not above 0 and at most 1")
            head, relation_name, tail = fact[:3]
            rows.append(
                (
                    entities.setdefault(head, len(entities)),
                    relations.setdefault(relation_name, len(relations)),
                    entities.setdefault(tail, len(entities)),
                )
            )
            weights.append(weight)
        table = np.array(rows, dtype=np.int64).reshape(-1, 3)
        columns = (table[:, 0], table[:, 1], table[:, 2])
        return _NamedFacts(list(entities), list(relations), columns, np.array(weights, dtype=np.float64))


def _entities(vocabulary: Vocabulary, names: _NamedFacts, grow: bool) -> tuple[NDArray[np.int64], list[str]]:
    """Ids of the entity names, and the names that got a new id."""
    ids: list[int] = []
    fresh: list[str] = []
    for name in names.entities:
        found = vocabulary.find(name)
        if found < 0:
            if not grow:
                raise NewEntity(name, vocabulary.suggest(name))
            if not name:
                raise BadInput("an entity without a name cannot be added")
            found = len(vocabulary) + len(fresh)
            fresh.append(name)
        ids.append(found)
    return np.array(ids, dtype=np.int64), fresh


def _resolve(
    graph: KnowledgeGraph, names: _NamedFacts, entity_ids: NDArray[np.int64], entities: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Floats, int]:
    """Heads, relations, tails, truth of the distinct edges, and how many were given again (the last truth counts)."""
    relation_ids = np.zeros(len(names.relations), dtype=np.int64)
    for i, name in enumerate(names.relations):
        relation_ids[i] = graph.relations.find(name)
        if relation_ids[i] < 0:
            raise UnknownName("relation", name, graph.relations.suggest(name))
    heads, relation, tails = entity_ids[names.edges[0]], relation_ids[names.edges[1]], entity_ids[names.edges[2]]
    _, last = np.unique(edge_keys(entities, heads, relation, tails)[::-1], return_index=True)
    keep = len(heads) - 1 - last
    return heads[keep], relation[keep], tails[keep], names.truth[keep], len(heads) - len(keep)


def _wider(graph: KnowledgeGraph, fresh: list[str]) -> Vocabulary:
    if not fresh:
        return graph.entities
    old = graph.entities
    labels = [old.label(i) for i in range(len(old))] + [""] * len(fresh) if old.labelled else None
    return Vocabulary.of([*old, *fresh], labels)


def _with(graph: KnowledgeGraph, entities: Vocabulary, new: FactEdges) -> KnowledgeGraph:
    """The graph with more facts, all of them train; an edge that another split had moves there."""
    heads, relation, tails, _ = graph.adjacency.triples()
    size = len(entities)
    keep = ~np.isin(edge_keys(size, heads, relation, tails), edge_keys(size, *new[:3]))
    train = np.full(len(new.heads), TRAIN, dtype=np.uint8)
    return graph.replaced(keep, *new[:3], train, new.truth, entities)


def _without(graph: KnowledgeGraph, *gone: NDArray[np.int64]) -> KnowledgeGraph:
    heads, relation, tails, _ = graph.adjacency.triples()
    size = len(graph.entities)
    return graph.replaced(~np.isin(edge_keys(size, heads, relation, tails), edge_keys(size, *gone)))


def _counted(store: StoreFiles, report: EditReport, table: TruthTable) -> StoreMeta:
    """The meta of the store with its sizes now and the change noted; its reliability is that of before."""
    before = store.meta.changes
    changes = StoreChanges(
        before.added + report.added, before.removed + report.removed, before.new_entities + len(report.new_entities)
    )
    sizes = table.sizes() | ({"predicted": None} if store.on_demand else {})
    return replace(store.meta, changes=changes, report=replace(store.meta.report, **sizes))


# --- the table, changed by merging: what did not change is not sorted again


class TableChange(NamedTuple):
    """A table after a change, and which of the given edges did what (marks parallel to the input)."""

    table: TruthTable
    changed: Bools  # became observed, or stopped being observed
    updated: Bools  # were observed already and got another truth


class _Entries(NamedTuple):
    """All entries of a table as parallel arrays, both directions."""

    key: Longs
    truth: Floats
    observed: Bools
    prediction: Floats  # read at forward entries alone
    source: Sources  # likewise
    by_truth: NDArray[np.int32]


def add(table: TruthTable, facts: FactEdges, entities: int | None = None) -> TableChange:
    """The table in which the given edges are observed; `entities` may be larger than before.

    >>> old = TruthTable.build(3, 1, *(np.array(c) for c in ([0], [0], [1], [0.3], [False])))
    >>> new = add(old, FactEdges(*(np.array([x]) for x in (0, 0, 1, 1.0)), np.array([4], np.uint8))).table
    >>> new.value(0, 0, 1), new.fact_prediction.round(2).tolist()
    (1.0, [0.30000001192092896])
    """
    size = entities or table.entities
    entries = _unpack(table, size)
    forward = edge_keys(size, facts.heads, 2 * np.asarray(facts.relation, np.int64), facts.tails)
    backward = edge_keys(size, facts.tails, 2 * np.asarray(facts.relation, np.int64) + 1, facts.heads)
    at, listed = _find(entries.key, forward)
    was_observed = np.zeros(len(forward), dtype=bool)
    was_observed[listed] = entries.observed[at[listed]]
    if (facts.truth != 1).any():
        entries = entries._replace(truth=entries.truth.astype(np.float64))  # given truth is kept as it is
    truth = np.asarray(facts.truth, dtype=entries.truth.dtype)
    updated = np.zeros(len(forward), dtype=bool)
    updated[was_observed] = entries.truth[at[was_observed]] != truth[was_observed]
    changed = ~was_observed

    touched = listed & (changed | updated)
    back, _ = _find(entries.key, backward)
    fresh = touched & changed
    entries.prediction[at[fresh]] = entries.truth[at[fresh]]
    entries.source[at[fresh]] = facts.source[fresh]
    for where in (at[touched], back[touched]):
        entries.truth[where] = truth[touched]
        entries.observed[where] = True
    more = ~listed
    keys = np.concatenate([forward[more], backward[more]])
    order = np.argsort(keys)
    place = np.searchsorted(entries.key, keys[order])

    def insert(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        return np.insert(old, place, np.concatenate([new, new])[order]) if len(place) else old

    zeros = np.zeros(np.count_nonzero(more))
    merged = _Entries(
        np.insert(entries.key, place, keys[order]),
        insert(entries.truth, truth[more]),
        insert(entries.observed, zeros == 0),
        insert(entries.prediction, zeros),
        insert(entries.source, facts.source[more]),
        insert(entries.by_truth, zeros),
    )
    rows = np.unique(np.concatenate([forward[touched | more], backward[touched | more]]) // size)
    return TableChange(_repack(table, merged, size, rows), changed, updated)


def remove(
    table: TruthTable, heads: NDArray[np.integer], relation: NDArray[np.integer], tails: NDArray[np.integer]
) -> TableChange:
    """The table in which the given edges are not observed: each shows its prediction again, or is gone.

    >>> old = TruthTable.build(3, 1, *(np.array(c) for c in ([0, 1], [0, 0], [1, 2], [1.0, 1.0], [True, True])),
    ...                        prediction=np.array([0.25, 0.0]))
    >>> new = remove(old, np.array([0, 1]), np.array([0, 0]), np.array([1, 2])).table
    >>> new.value(0, 0, 1), new.value(1, 0, 2), new.edges
    (0.25, 0.0, 1)
    """
    size = table.entities
    entries = _unpack(table, size)
    forward = edge_keys(size, heads, 2 * np.asarray(relation, np.int64), tails)
    backward = edge_keys(size, tails, 2 * np.asarray(relation, np.int64) + 1, heads)
    at, listed = _find(entries.key, forward)
    changed = listed.copy()
    changed[listed] = entries.observed[at[listed]]
    at, back = at[changed], _find(entries.key, backward)[0][changed]
    prediction = entries.prediction[at]
    for where in (at, back):
        entries.truth[where] = prediction
        entries.observed[where] = False
    keep = np.ones(len(entries.key), dtype=bool)
    gone = prediction <= 0
    keep[at[gone]] = keep[back[gone]] = False
    parts: list[NDArray[Any]] = [part[keep] for part in entries]
    rows = np.unique(np.concatenate([forward[changed], backward[changed]]) // size)
    return TableChange(_repack(table, _Entries(*parts), size, rows), changed, np.zeros(len(forward), dtype=bool))


def _unpack(table: TruthTable, entities: int) -> _Entries:
    if not _packable(entities, table.relations):
        raise BadInput(f"{entities:,} entities and {table.relations:,} relations are too many for changes in place")
    view, entity = table.adjacency.entry_rows()
    key = edge_keys(entities, entity, view, table.adjacency.neighbour)
    fact = np.flatnonzero(table.observed & forward_entries(table.adjacency))
    prediction, source = np.zeros(len(key), np.float32), np.zeros(len(key), np.uint8)
    prediction[fact], source[fact] = table.fact_prediction, table.fact_source
    return _Entries(key, table.truth.copy(), table.observed.copy(), prediction, source, table.by_truth)


def _find(keys: Longs, wanted: Longs) -> tuple[Longs, Bools]:
    """Place of each wanted key, and whether it is there."""
    at = np.searchsorted(keys, wanted)
    listed = at < len(keys)
    listed[listed] = keys[at[listed]] == wanted[listed]
    return at, listed


def _repack(table: TruthTable, entries: _Entries, entities: int, rows: Longs) -> TruthTable:
    """The table of the entries; `rows` are the numbers (view · entities + entity) of the rows that differ."""
    adjacency = _adjacency_of_keys(entries.key, entities, table.relations)
    row_key = _row_keys(adjacency.view_ptr, adjacency.row_entity, entities)
    old_key = _row_keys(table.adjacency.view_ptr, table.adjacency.row_entity, entities)
    by_truth = entries.by_truth.astype(np.int32)
    place, there = _find(row_key, rows)
    for row in place[there].tolist():
        part = slice(adjacency.row_ptr[row], adjacency.row_ptr[row + 1])
        by_truth[part] = np.argsort(-entries.truth[part], kind="stable")
    row_dropped = np.full(len(row_key), table.threshold, dtype=np.float32)
    place, there = _find(old_key, row_key)
    row_dropped[there] = table.row_dropped[place[there]]
    first = adjacency.row_ptr[:-1]
    fact = entries.observed & forward_entries(adjacency)
    return TruthTable(
        entities,
        adjacency,
        entries.truth,
        entries.observed,
        by_truth,
        entries.truth[first + by_truth[first]],
        row_dropped,
        table.threshold,
        entries.prediction[fact],
        entries.source[fact],
    )


def _row_keys(view_ptr: Longs, row_entity: NDArray[np.int32], entities: int) -> Longs:
    view = np.repeat(np.arange(len(view_ptr) - 1, dtype=np.int64), np.diff(view_ptr))
    keys: Longs = view * entities + row_entity
    return keys


def _packable(entities: int, relations: int) -> bool:
    """Whether view, entity and neighbour fit into one 63-bit number."""
    return 2 * relations * entities**2 < 2**63


def _adjacency_of_keys(keys: Longs, entities: int, relations: int) -> Adjacency:
    """The adjacency of ascending entry numbers (view · entities + entity) · entities + neighbour."""
    row_key = keys // entities
    first = np.ones(len(keys), dtype=bool)
    np.not_equal(row_key[1:], row_key[:-1], out=first[1:])
    row_start = np.flatnonzero(first)
    row_view = row_key[row_start] // entities
    return Adjacency(
        np.searchsorted(row_view, np.arange(2 * relations + 1)).astype(np.int64),
        (row_key[row_start] - row_view * entities).astype(np.int32),
        np.append(row_start, len(keys)).astype(np.int64),
        (keys - row_key * entities).astype(np.int32),
    )
