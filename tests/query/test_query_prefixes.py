"""Prefixes of an RDF file: asked with, printed with, and in errors."""

from __future__ import annotations

from pathlib import Path

import pytest

import tuplet
from tuplet.errors import UnknownName

TURTLE = """
@prefix ex: <http://example.org/> .
@prefix foaf: <http://xmlns.com/foaf/0.1/> .
ex:alice a foaf:Person ; foaf:age 31 ; foaf:knows ex:bob .
ex:bob a foaf:Person ; foaf:age 28 ; foaf:knows ex:carol .
ex:carol foaf:age 45 ; foaf:knows ex:alice .
"""


@pytest.fixture
def graph(tmp_path: Path) -> tuplet.Graph:
    file = tmp_path / "people.ttl"
    file.write_text(TURTLE)
    return tuplet.read(file)


@pytest.mark.parametrize(
    "query",
    [
        "?x : foaf:knows(?x, ex:bob)",
        "SELECT ?x { ?x foaf:knows ex:bob }",
        "?x : knows(?x, ex:bob)",  # the last part of an IRI is enough where it is that of one relation
    ],
)
def test_asked_and_printed_with_prefixes(graph: tuplet.Graph, query: str) -> None:
    found = graph.ask(query)
    assert [answer.x for answer in found] == ["http://example.org/alice"]
    assert "ex:alice" in str(found)
    assert "foaf:knows(ex:alice, ex:bob)" in str(found[0].explain())
    assert "http" not in str(found)


def test_node_labels_of_cypher_are_types(graph: tuplet.Graph) -> None:
    found = graph.ask("MATCH (x:Person)-[:knows]->(y) WHERE x.age > 30 RETURN x, y.age")
    assert [tuple(answer) for answer in found] == [("http://example.org/alice", 28)]


def test_unknown_names_are_said_as_they_are_written(graph: tuplet.Graph) -> None:
    with pytest.raises(UnknownName, match="unknown entity 'ex:carl'; did you mean 'ex:carol'"):
        graph.ask("?x : foaf:knows(ex:carl, ?x)")
    with pytest.raises(UnknownName, match="unknown relation or attribute 'foaf:agee'; did you mean 'foaf:age'"):
        graph.ask("SELECT ?x { ?x foaf:agee ?a }")
