"""A word that names a relation and an attribute is read both ways; what does not fit one of them is no mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

import tuplet
from tuplet.errors import UnknownName, WrongKind
from tuplet.store import Graph

BOOKS = """@prefix ex: <http://e.org/> .
ex:a ex:creator ex:bob ; ex:pages 90 ; ex:cites ex:b .
ex:b ex:creator "Bob" ; ex:cites ex:c .
ex:c ex:creator "Zoe", 7 ; ex:cites ex:d .
ex:d ex:creator ex:carl, ex:bob, "Carl" ; ex:born "1990-01-01"^^<http://www.w3.org/2001/XMLSchema#date> .
"""


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    path: Path = tmp_path_factory.mktemp("books") / "books.ttl"
    path.write_text(BOOKS)
    return tuplet.read(path)


def rows(books: Graph, query: str) -> set[str]:
    answers = books.ask(query, k="all")
    return {
        " ".join(str(answer[name]).removeprefix("http://e.org/") for name in answers.variables) for answer in answers
    }


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ('?x ex:creator "Bob"', "b"),
        ("?x ex:creator ex:bob", "a d"),
        ("?x ex:creator 7", "c"),
        ("?x ex:cites ?y FILTER NOT EXISTS { ?x ex:creator ex:bob }", "b c"),
        ('?x ex:cites ?y FILTER NOT EXISTS { ?x ex:creator "Bob" }', "a c"),
        ("?y ex:cites ?x FILTER NOT EXISTS { ?y ex:creator ?x }", "b c d"),
    ],
)
def test_which_reading_a_constant_chooses(books: Graph, pattern: str, expected: str) -> None:
    assert rows(books, f"SELECT ?x {{ {pattern} }}") == set(expected.split())


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("", ["a bob", "b Bob", "c Zoe", "c 7", "d carl", "d bob", "d Carl"]),
        ('FILTER(?c = "Bob")', ["b Bob"]),
        ('FILTER(?c != "Bob")', ["a bob", "c Zoe", "d carl", "d bob", "d Carl"]),
        ('FILTER(?c IN (ex:bob, "Bob"))', ["a bob", "b Bob", "d bob"]),
        ("FILTER(?c > 5)", ["c 7"]),
        ("FILTER(?c = ex:bob)", ["a bob", "d bob"]),
    ],
)
def test_values_and_entities_of_one_variable(books: Graph, condition: str, expected: list[str]) -> None:
    query = f"SELECT ?x ?c {{ ?x ex:creator ?c {condition} }}"
    assert rows(books, query) == set(expected)
    number = books.ask(query.replace("?x ?c {", "(COUNT(*) AS ?n) {", 1)).number
    assert number is not None
    assert number.answers == len(expected)


def test_a_variable_for_relations_passes_over_what_does_not_compare(books: Graph) -> None:
    assert rows(books, "SELECT ?x ?p ?v { ?x ?p ?v FILTER(?v > 5) }") == {"a pages 90", "c creator 7"}


def test_cypher_relationships_are_no_attributes(books: Graph) -> None:
    assert rows(books, "MATCH (x)-[:creator]->(y) RETURN x, y") == {"a bob", "d bob", "d carl"}


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("SELECT ?x { ?x ex:creator ex:bbo }", UnknownName),
        ("SELECT ?x { ?x ex:creator 2.5 ; ex:born ?d FILTER(?d > 5) }", WrongKind),
        ("?x : exists ?y . cites(?x, ?y) & (?x.born > 5 | ?x.pages > 1)", WrongKind),
    ],
)
def test_what_fits_no_reading_is_a_mistake(books: Graph, query: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        books.ask(query)


def test_values_of_facts_beside_such_a_word(tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    path.write_text("head,relation,tail,since\na,knows,b,1990\na,knows,c,2000\n")
    nodes = tmp_path / "nodes.csv"
    nodes.write_text("id,knows\na,7\n")
    graph = tuplet.read(path, columns={"attribute": "*"}, nodes=nodes)
    query = "?y : knows(a, ?y) & knows(a, ?y).since < 1995 show ?y, knows(a, ?y).since"
    assert rows(graph, query) == {"b 1990"}


def test_a_name_with_a_dot_was_perhaps_meant_as_an_attribute(books: Graph) -> None:
    with pytest.raises(WrongKind, match=r"such as <a>\.pages"):
        books.ask("?x : exists ?y . cites(?x, ?y) & a.pages > 3")
