"""Entities are found by all their labels, in any language."""

from __future__ import annotations

from pathlib import Path

import pytest

import tuplet
from tuplet.errors import UnknownName
from tuplet.graph.graph import KnowledgeGraph

FILE = """
@prefix ex: <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
ex:alice rdfs:label "Alice"@en, "Alicia"@es ; skos:altLabel "Ali" ; ex:knows ex:bob .
ex:bob rdfs:label "Bob" ; skos:altLabel "Ali" ; ex:knows ex:carl .
"""


@pytest.fixture
def graph(tmp_path: Path) -> KnowledgeGraph:
    (tmp_path / "people.ttl").write_text(FILE)
    graph = tuplet.read(tmp_path / "people.ttl")
    graph.save(tmp_path / "g")
    return tuplet.open(tmp_path / "g").graph


def test_any_label_finds_its_entity(graph: KnowledgeGraph) -> None:
    alice, bob = (graph.entities.find(f"http://example.org/{name}") for name in ("alice", "bob"))
    assert graph.entities.label(alice) == "Alice"
    assert graph.entities.find_label("Alice") == graph.entities.find_label("Alicia") == [alice]
    assert graph.entities.find_label("Ali") == sorted([alice, bob])
    assert graph.entities.find_label("Al") == []
    assert "Alicia" in graph.entities.suggest("Alcia")
    assert graph.entities.extend_names(["x"]).find_label("Alicia") == [alice]
    assert graph.entities.extend_names(["x"]).flat.find_label("Alicia") == [alice]


def test_queries_and_search_know_them(tmp_path: Path, graph: KnowledgeGraph) -> None:
    store = tuplet.open(tmp_path / "g")
    assert [answer["x"] for answer in store.ask('?x : knows("Alicia", ?x)')] == ["http://example.org/bob"]
    with pytest.raises(UnknownName, match="is the label of 2 entities"):
        store.ask('?x : knows("Ali", ?x)')
    assert [found.label for found in store.find("alici")] == ["Alice"]
    assert len(store.entity("Alicia")) == 1
