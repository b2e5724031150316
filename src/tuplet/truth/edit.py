"""Facts added to and removed from a store: at once, without retraining; the predictions stay as they are."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput, UnknownName
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.truth import change
from tuplet.truth.layout import edge_keys
from tuplet.truth.store_folder import StoreFiles, writing
from tuplet.truth.table import ADDED, TRAIN, Facts, TruthTable

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


def add_facts(path: str | os.PathLike[str], facts: Triples, new_entities: bool = False) -> EditReport:
    """Make facts observed: those of a graph (such as `read` gives), or tuples (head, relation, tail[, truth]) of names.

    An entity the store does not have is refused with the nearest names, or with `new_entities` added: nothing is then
    predicted about it. A relation it does not have is always refused.
    """
    with writing(path) as store:
        graph = store.graph
        names = _Names.of(facts)
        entities, fresh = _entities(graph.entities, names, new_entities)
        heads, relation, tails, truth, duplicates = _resolve(graph, names, entities, len(graph.entities) + len(fresh))
        given = Facts(heads, relation, tails, truth, np.full(len(heads), ADDED, dtype=np.uint8))
        if not graph.weighted and (truth < 1).any():
            raise BadInput(f"{store.path} is not weighted: a fact there is true, it has no truth of {truth.min():g}")
        changed = change.add(store.table, given, len(graph.entities) + len(fresh))
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


def remove_facts(path: str | os.PathLike[str], facts: Triples) -> EditReport:
    """Stop observing facts: each shows its prediction again, or is gone where that lies below the threshold."""
    with writing(path) as store:
        graph = store.graph
        names = _Names.of(facts)
        entities, _ = _entities(graph.entities, names, False)
        heads, relation, tails, _, duplicates = _resolve(graph, names, entities, len(graph.entities))
        changed = change.remove(store.table, heads, relation, tails)
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


@dataclass(frozen=True)
class _Names:
    """Facts by name, each distinct name once."""

    entities: list[str]
    relations: list[str]
    edges: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]  # numbers into the two lists
    truth: NDArray[np.float32]

    @staticmethod
    def of(facts: Triples) -> _Names:
        if isinstance(facts, KnowledgeGraph):
            heads, relation, tails, entry = facts.adjacency.triples()
            truth = np.ones(len(entry), np.float32) if facts.weight is None else facts.weight[entry]
            entity_names, relation_names = (v.names(range(len(v))) for v in (facts.entities, facts.relations))
            edges = (heads.astype(np.int64), relation.astype(np.int64), tails.astype(np.int64))
            return _Names(entity_names, relation_names, edges, truth)
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
        return _Names(list(entities), list(relations), columns, np.array(weights, dtype=np.float32))


def _entities(vocabulary: Vocabulary, names: _Names, grow: bool) -> tuple[NDArray[np.int64], list[str]]:
    """Ids of the entity names, and the names that got a new id."""
    ids: list[int] = []
    fresh: list[str] = []
    for name in names.entities:
        found = vocabulary.find(name)
        if found < 0:
            if not grow:
                note = "is not in the store (--new-entities adds it; nothing is then predicted about it)"
                raise UnknownName("entity", name, vocabulary.suggest(name), note)
            if not name:
                raise BadInput("an entity without a name cannot be added")
            found = len(vocabulary) + len(fresh)
            fresh.append(name)
        ids.append(found)
    return np.array(ids, dtype=np.int64), fresh


def _resolve(
    graph: KnowledgeGraph, names: _Names, entity_ids: NDArray[np.int64], entities: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], int]:
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
    return Vocabulary.of([*old.names(range(len(old))), *fresh], labels)


def _with(graph: KnowledgeGraph, entities: Vocabulary, new: Facts) -> KnowledgeGraph:
    """The graph with more facts, all of them train; an edge that another split had moves there."""
    heads, relation, tails, entry = graph.adjacency.triples()
    size = len(entities)
    keep = ~np.isin(edge_keys(size, heads, relation, tails), edge_keys(size, *new[:3]))
    weight = None if graph.weight is None else np.concatenate([graph.weight[entry][keep], new.truth])
    return KnowledgeGraph.of(
        entities,
        graph.relations,
        np.concatenate([heads[keep], new.heads]),
        np.concatenate([relation[keep], new.relation]),
        np.concatenate([tails[keep], new.tails]),
        np.concatenate([graph.split[entry][keep], np.full(len(new.heads), TRAIN, dtype=np.uint8)]),
        weight,
        graph.notes,
    )


def _without(graph: KnowledgeGraph, *gone: NDArray[np.int64]) -> KnowledgeGraph:
    heads, relation, tails, entry = graph.adjacency.triples()
    size = len(graph.entities)
    keep = ~np.isin(edge_keys(size, heads, relation, tails), edge_keys(size, *gone))
    weight = None if graph.weight is None else graph.weight[entry][keep]
    given = (heads[keep], relation[keep], tails[keep], graph.split[entry][keep])
    return KnowledgeGraph.of(graph.entities, graph.relations, *given, weight, graph.notes)


def _counted(store: StoreFiles, report: EditReport, table: TruthTable) -> dict[str, Any]:
    """The meta of the store with its sizes now and the change noted; its reliability is that of before."""
    before = store.meta.get("changes") or {}
    now = {
        "added": before.get("added", 0) + report.added,
        "removed": before.get("removed", 0) + report.removed,
        "new_entities": before.get("new_entities", 0) + len(report.new_entities),
    }
    sizes = table.sizes() | ({"predicted": None} if store.on_demand else {})
    return {**store.meta, "changes": now, "report": {**(store.meta.get("report") or {}), **sizes}}
