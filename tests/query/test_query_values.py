"""Queries that filter by attributes, show them, order, count, or ask yes or no: on a small graph, by facts alone."""

from __future__ import annotations

import datetime
import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tuplet
from tuplet.errors import BadInput, ParseError, UnknownName
from tuplet.graph.attributes import FACTS, AttributeColumn, Attributes
from tuplet.store import Graph

PEOPLE = ("alice", "bob", "carol", "dave")
FACTS_STATED = [
    ("alice", "knows", "bob"),
    ("bob", "knows", "carol"),
    ("carol", "knows", "alice"),
    ("dave", "knows", "dave"),
    ("alice", "likes", "carol"),
]


@pytest.fixture(scope="module")
def people() -> Graph:
    graph = tuplet.read(FACTS_STATED)
    ids = {name: graph.entities.find(name) for name in PEOPLE}

    def of(name: str, values: list[tuple[str, object]]) -> AttributeColumn:
        return AttributeColumn.from_values(name, np.array([ids[who] for who, _ in values]), [v for _, v in values])  # type: ignore[misc]

    knows = graph.relations.find("knows")
    pairs = np.array([ids["alice"] * FACTS + ids["bob"], ids["bob"] * FACTS + ids["carol"]])
    columns = (
        of("age", [("alice", 31), ("bob", 28), ("carol", 45)]),
        of("born", [("alice", datetime.date(1990, 5, 1)), ("bob", datetime.date(1993, 1, 1))]),
        of("nick", [("alice", "al"), ("alice", "ali"), ("carol", "caz")]),
        of("retired", [("carol", True), ("bob", False)]),
        AttributeColumn.from_values("since", pairs, [2001, 2010], knows),
    )
    return replace(graph, attributes=Attributes(columns))


def rows(graph: Graph, query: str, **limits: object) -> list[tuple[object, ...]]:
    return [tuple(answer) for answer in graph.ask(query, **{"k": "all", **limits})]  # type: ignore[arg-type]


CASES = {
    "?x, ?y : knows(?x, ?y) & ?x.age > 30": [("alice", "bob"), ("carol", "alice")],
    "?x, ?y : knows(?x, ?y) & !(?x.age > 30)": [("bob", "carol")],  # dave has no age: neither holds
    "?x : exists ?y . knows(?x, ?y) & ?y.age < 30": [("alice",)],
    "?x, ?y : knows(?x, ?y) & ?x.age > ?y.age": [("alice", "bob"), ("carol", "alice")],
    '?x, ?y : knows(?x, ?y) & ?x.born < "1991-01-01"': [("alice", "bob")],
    '?x, ?y : knows(?x, ?y) & ?x.nick starts "al"': [("alice", "bob")],
    '?x, ?y : knows(?x, ?y) & !has(?x.nick, "al")': [("bob", "carol"), ("carol", "alice"), ("dave", "dave")],
    '?x, ?y : knows(?x, ?y) & has(?x.nick, "al") & ?x.nick = "ali"': [("alice", "bob")],
    '?x, ?y : knows(?x, ?y) & ?x.nick ends "li"': [("alice", "bob")],
    '?x, ?y : knows(?x, ?y) & !(?x.nick contains "al")': [("carol", "alice")],
    '?x, ?y : knows(?x, ?y) & ?x.nick matches "^c.z$"': [("carol", "alice")],
    '?x, ?y : knows(?x, ?y) & ?x.nick != "al"': [("alice", "bob"), ("carol", "alice")],  # ali is another one
    "?x, ?y : knows(?x, ?y) & ?x.retired = true": [("carol", "alice")],
    "?x, ?y : knows(?x, ?y) & has(?x.nick)": [("alice", "bob"), ("carol", "alice")],
    "?x, ?y : knows(?x, ?y) & !has(?x.age)": [("dave", "dave")],
    "?x, ?y : knows(?x, ?y) & ?x in {alice, bob}": [("alice", "bob"), ("bob", "carol")],
    "?x, ?y : knows(?x, ?y) & !(?x in {alice, bob})": [("carol", "alice"), ("dave", "dave")],
    "?x, ?y : knows(?x, ?y) & ?x.age in {28, 45}": [("bob", "carol"), ("carol", "alice")],
    "?x, ?y : knows(?x, ?y) & ?x = bob": [("bob", "carol")],
    "?x, ?y : knows(?x, ?y) & ?x = ?y": [("dave", "dave")],
    "?x, ?y : knows(?x, ?y) & knows(?x, ?y).since > 2005": [("bob", "carol")],
    "?y : knows(alice, ?y) & knows(alice, ?y).since < 2005": [("bob",)],
    "?x, ?y : knows(?x, ?y) & <alice>.age > ?x.age": [("bob", "carol")],
    "?x : knows(?x, bob) & <alice>.age > 40": [],
    "?x, ?a : knows(?x, bob) & age(?x, ?a)": [("alice", 31)],
    "?a : exists ?x . knows(?x, ?x) & age(?x, ?a)": [],
    "?a : nick(alice, ?a)": [("al",), ("ali",)],
    "?x, ?p : ?p(?x, carol)": [("alice", "likes"), ("bob", "knows")],
    "?x, ?y : (knows(?x, ?y) & ?x.age > 40) | likes(?x, ?y)": [("alice", "carol"), ("carol", "alice")],
    '?x, ?y : knows(?x, ?y) & ?x starts "al"': [("alice", "bob")],
    "?x, ?y : knows(?x, ?y) show ?y, ?x.age": [("alice", 45), ("bob", 31), ("carol", 28)],
    "?x, ?y : knows(?x, ?y) & ?x.age = 31 show ?x.nick": [("al",), ("ali",)],
    "?x, ?y : knows(?x, ?y) order by ?x.age desc": [
        ("carol", "alice"),
        ("alice", "bob"),
        ("bob", "carol"),
        ("dave", "dave"),
    ],
    "?x, ?y : knows(?x, ?y) order by ?x.age limit 1 offset 1": [("alice", "bob")],
}


@pytest.mark.parametrize("query", CASES)
def test_answers(people: Graph, query: str) -> None:
    limits = {"k": None} if " limit " in query else {}
    assert rows(people, query, **limits) == CASES[query]


@pytest.mark.parametrize(
    "query",
    [
        "count ?x, ?y as n : knows(?x, ?y)",
        "?x : ?x.age > 30 show ?x, ?x.age",
        "?x : exists ?y . knows(?x, ?y) & ?x.age > 99",
        "ask : likes(bob, carol)",
    ],
)
def test_answers_without_facts_are_pickled(people: Graph, query: str) -> None:
    answers = people.ask(query)
    back = pickle.loads(pickle.dumps(answers))
    assert str(back) == str(answers)
    assert back.to_arrow().equals(answers.to_arrow())


def test_a_count_is_a_row_of_a_table(people: Graph) -> None:
    assert people.ask("count ?x, ?y as n : knows(?x, ?y)").to_arrow().to_pylist() == [{"n": 4, "expected": 4.0}]


def test_counts_and_questions_of_yes_or_no(people: Graph) -> None:
    count = people.ask("count ?x, ?y as n : knows(?x, ?y)").to_dict()["count"]
    assert count == {"name": "n", "answers": 4, "expected": 4.0, "complete": True}
    assert people.ask("ask ?x : knows(?x, bob)").holds is True
    assert people.ask("ask ?x : knows(?x, bob) & ?x.age > 40").to_dict()["boolean"] is False


def test_values_in_json_and_in_tables(people: Graph) -> None:
    found = people.ask("?x, ?b : knows(?x, bob) & born(?x, ?b)")
    assert json.loads(found.to_json())["answers"][0]["values"] == {"x": "alice", "b": "1990-05-01"}
    assert found[0].b == datetime.date(1990, 5, 1)
    table = found.to_arrow()
    assert table.column("b").to_pylist() == [datetime.date(1990, 5, 1)]
    assert "b_label" not in table.column_names
    assert "1990-05-01" in str(found)


def test_pages_of_rows(people: Graph) -> None:
    query = "?x, ?n : knows(?x, ?y) & nick(?x, ?n)".replace("knows(?x, ?y)", "exists ?y . knows(?x, ?y)")
    whole = rows(people, query)
    assert whole == [("alice", "al"), ("alice", "ali"), ("carol", "caz")]
    assert [row for offset in range(3) for row in rows(people, query, k=1, offset=offset)] == whole


@pytest.mark.parametrize(
    ("query", "error", "said"),
    [
        ("?x, ?y : knows(?x, ?y) & ?x.agee > 30", UnknownName, "unknown attribute 'agee'; did you mean 'age'?"),
        ("?x, ?a : agee(?x, ?a)", UnknownName, "unknown relation or attribute 'agee'; did you mean 'age'?"),
        ("?x, ?y : employs(?x, ?y)", UnknownName, "unknown relation 'employs'; choose 'knows' or 'likes'"),
        ("?x, ?y : knos(?x, ?y)", UnknownName, "unknown relation 'knos'; did you mean 'knows'?"),
        ('?x, ?y : knows(?x, ?y) & ?x.age > "old"', ParseError, "age holds numbers, and 'old' is text"),
        ("?x, ?y : knows(?x, ?y) & ?x.likes = 3", UnknownName, "is a relation, not an attribute"),
        ("?x, ?y : knows(?x, ?y) & ?x > 3", ParseError, "?x is an entity, which is not larger or smaller"),
        ('?x, ?y : knows(?x, ?y) & ?x.nick matches "("', ParseError, "bad pattern '('"),
        ('?x, ?y : knows(?x, ?y) & ?x.age contains "3"', BadInput, ""),
    ],
)
def test_mistakes(people: Graph, query: str, error: type[Exception], said: str) -> None:
    with pytest.raises((error, ParseError)) as raised:
        people.ask(query)
    assert said in str(raised.value)


def test_the_other_direction_is_offered_where_an_entity_was_never_seen(people: Graph) -> None:
    said = "as head of likes, carol was never seen; did you mean the other direction?"
    assert people.ask("?x : likes(carol, ?x)").summary().endswith(said)
    assert said not in people.ask("?x : likes(?x, carol)").summary()
    some = tuplet.read([("a", "r", "b"), ("c", "s", "a")])
    assert "never seen" not in some.ask("?x, ?p : ?p(?x, a)").summary(), "of a relation that nobody named"


def test_conditions_joined_by_or_are_one_reason(tmp_path: Path) -> None:
    graph = tuplet.read([("a", "r", "x", 0.5), ("b", "r", "x", 0.25), ("a", "s", "b", 0.5)])
    ids = np.array([graph.entities.find(name) for name in "ab"])
    graph = replace(graph, attributes=Attributes((AttributeColumn.from_values("size", ids, [10, 4]),)))
    store = tuplet.index(graph, None, tmp_path / "store", progress=False)

    def truths(query: str) -> dict[str, float]:
        return {answer[0]: answer.truth for answer in store.ask(query)}

    assert truths("?y : r(?y, x) & (?y.size > 5 | ?y.size > 3 | ?y in {a})") == {"a": 0.5, "b": 0.25}
    assert truths("?y : exists ?z . s(?y, ?z) & (?z.size > 1 | ?z in {b})") == {"a": 0.5}
    assert truths("?y : r(?y, x) & (?y.size > 3 | !has(?y.size))") == {"a": 0.5, "b": 0.25}
    # other facts are other reasons
    assert truths("?y : r(?y, x) & ?y.size > 5 | s(?y, b) & ?y.size > 5") == {"a": 0.75}
