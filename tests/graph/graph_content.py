"""What a graph holds, as plain values to compare."""

from __future__ import annotations

from typing import Any

from tuplet.graph.attributes import FACTS, Plain
from tuplet.graph.graph import KnowledgeGraph

Fact = tuple[str, str, str]


def facts(graph: KnowledgeGraph) -> set[Fact]:
    """All facts by their names."""
    return set(truths(graph))


def truths(graph: KnowledgeGraph) -> dict[Fact, float]:
    """The truth of each fact."""
    heads, relation, tails, entry = graph.adjacency.triples()
    names = graph.entities.names
    keys = zip(names(heads), graph.relations.names(relation), names(tails), strict=True)
    truth = [1.0] * len(entry) if graph.weight is None else graph.weight[entry].tolist()
    return dict(zip(keys, truth, strict=True))


def values(graph: KnowledgeGraph, entity: str) -> dict[str, Any]:
    """The attributes of an entity; several values of one are a list."""
    return _found(graph, graph.entities.find(entity), -1)


def fact_values(graph: KnowledgeGraph, *fact: str) -> dict[str, Any]:
    """The attributes of a fact."""
    head, tail = (graph.entities.find(fact[i]) for i in (0, 2))
    return _found(graph, head * FACTS + tail, graph.relations.find(fact[1]))


def tagged(graph: KnowledgeGraph, entity: str, name: str) -> set[tuple[Plain, str]]:
    """The values of an attribute with their languages."""
    return set(graph.attributes.values_of(name, graph.entities.find(entity)))


def _found(graph: KnowledgeGraph, key: int, relation: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in graph.attributes.names:
        several = [value for value, _ in graph.attributes.values_of(name, key, relation)]
        if several:
            found[name] = several[0] if len(several) == 1 else several
    return found
