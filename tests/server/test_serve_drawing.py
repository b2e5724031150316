"""Texts become drawings and drawings texts; nothing of a query is lost on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tuplet
from tuplet.errors import BadInput, BudgetExceeded
from tuplet.query.source import Source
from tuplet.server import models
from tuplet.server.drawing import PRINTERS, draw, write
from tuplet.server.limits import ServerLimits

LIMITS = ServerLimits()


@pytest.fixture(scope="module")
def people(people_path: Any) -> Source:
    return Source(tuplet.read(people_path))


def request(graph: dict[str, Any], **changes: Any) -> models.WriteRequest:
    """What the page sends to have a drawing written."""
    return models.WriteRequest(**{**graph, **changes})


def drawn(text: str, people: Source) -> dict[str, Any]:
    found = draw(text, people, LIMITS)
    assert found["problem"] is None, found["problem"]
    graph: dict[str, Any] = found["graph"]
    for clause in graph["clauses"]:
        for edge in clause["edges"]:
            del edge["position"], edge["length"]
    return graph


QUERIES = (
    "?x : knows(?x, bob) & !likes(?x, cid) & ?x != cid | likes(?x, ann) limit 4",
    "?x, ?y : knows(?x, ?y) & ?x.age > 20 & !(?y.age < 3) show ?x, ?x.age, ?y.born optional as b"
    " order by ?x.age desc, truth limit 5 offset 1",
    "?x : ?x.age >= 30",
    '?x : exists ?y . knows(?x, ?y) & knows(?x, ?y).since > 2000 & ?y.nick contains "i"',
    "?x : knows(?x, bob) & (?x.age in {30, 31} | has(?x.born) & ?x.born < 2000-01-01)",
    "?x, ?p, ?y : ?p(?x, ?y) & ?p != likes & ?x not in {bob, cid}",
    "?x, ?p : ?p(?x, ann) show ?p, ?x.age",
    "?x : exists ?p . ?p(?x, ann)",
    "ask : knows(ann, bob)",
    "ask ?x : knows(?x, bob) & ?x.age > 20",
    'count ?x as "how many" : exists ?y . knows(?x, ?y) & ?x.age > ?y.age',
)


@pytest.mark.parametrize("text", QUERIES)
def test_what_is_drawn_is_written_back_whole(people: Source, text: str) -> None:
    graph = drawn(text, people)
    written = write(request(graph), people, LIMITS)
    assert drawn(written, people) == graph


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?x WHERE { ?x :knows :bob . FILTER(?x != :cid) } LIMIT 2",
        "MATCH (x)-[k:knows]->(y) WHERE x.age > 3 AND k.since > 1990 AND NOT (y)-[:likes]->(x)"
        " RETURN x, x.age AS a ORDER BY a SKIP 1 LIMIT 2",
    ],
)
def test_other_languages_are_drawn_alike(people: Source, text: str) -> None:
    found = draw(text, people, LIMITS)
    assert found["language"] == ("cypher" if text.startswith("MATCH") else "sparql")
    assert found["problem"] is None
    assert drawn(found["logic"], people) == drawn(text, people)
    assert found.keys() >= PRINTERS.keys()


@pytest.mark.parametrize("text", ["?x : knows(?x, bob) & likes(cid, ann)", "?x : knows(?x, bob) | likes(?x, ann)"])
def test_entities_are_drawn_as_such_whatever_the_language(people: Source, text: str) -> None:
    cypher = draw(text, people, LIMITS)["cypher"]
    assert "id(" in cypher
    found = draw(cypher, people, LIMITS)
    assert (found["language"], found["logic"]) == ("cypher", text)
    assert found["graph"] == draw(text, people, LIMITS)["graph"] | {"clauses": found["graph"]["clauses"]}
    written = write(request(found["graph"], language="cypher"), people, LIMITS)
    assert draw(written, people, LIMITS)["logic"] == text


def test_a_drawing_that_grows_keeps_its_conditions(people: Source) -> None:
    graph = drawn("?x : knows(?x, bob) & ?x.age > 20 show ?x, ?x.age order by ?x.age limit 3", people)
    x, y = graph["clauses"][0]["edges"][0]["head"], {"kind": "exists", "name": "y", "form": "name", "label": ""}
    edge = {"head": y, "relation": "likes", "form": "name", "tail": x, "negated": False}
    graph["clauses"][0]["edges"].append(edge)
    assert write(request(graph), people, LIMITS) == (
        "?x : exists ?y . knows(?x, bob) & likes(?y, ?x) & ?x.age > 20 show ?x, ?x.age order by ?x.age limit 3"
    )


def test_a_condition_may_bring_its_own_variable(people: Source) -> None:
    graph = drawn("?x : knows(?x, bob)", people)
    graph["clauses"][0]["conditions"] = [{"text": "exists ?w . likes(?x, ?w)"}, {"text": "?v.age > 3 & ?v != ?x"}]
    written = write(request(graph), people, LIMITS)
    assert written == "?x : exists ?w, ?v . knows(?x, bob) & likes(?x, ?w) & ?v.age > 3 & ?v != ?x"


def test_problems_are_those_of_asking(people: Source) -> None:
    found = draw("?x : knows(?x, bob) & ?x.ag > 3", people, LIMITS)
    assert found["graph"] is not None
    assert found["problem"]["error"] == "unknown attribute 'ag'; did you mean 'age'?"
    assert (found["problem"]["position"], found["problem"]["length"]) == (25, 2)
    found = draw("MATCH (x)-[:knows]->() WHERE x.nick > 3 RETURN x", people, LIMITS)
    assert (found["language"], found["problem"]["position"]) == ("cypher", 38)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"conditions": ["?x.age >"]}, "?x.age >: expected a variable, a name or a value, found ')'"),
        ({"conditions": ["?x.age > 3)"]}, "?x.age > 3): expected"),
        ({"conditions": ['"open']}, '"open'),
        ({"shown": ["?x.age as"]}, "?x.age as: expected a name for the column"),
        ({"order": ["?q.age"]}, "?q.age: ?q is neither asked for nor quantified"),
        ({"free": []}, "at least one node has to be free"),
        ({"edges": []}, "draw at least one edge"),
        ({"relation": "kn ows", "form": "id"}, "has digits only, not 'kn ows'"),
        ({"relation": "a b", "form": "variable"}, "named with letters, digits and _, not 'a b'"),
    ],
)
def test_what_cannot_be_written_is_refused_in_a_line(people: Source, change: dict[str, Any], words: str) -> None:
    graph = drawn("?x : knows(?x, bob)", people)
    clause = graph["clauses"][0]
    clause["conditions"] = [{"text": text} for text in change.pop("conditions", [])]
    if "relation" in change:
        clause["edges"][0].update(change)
        change = {}
    clause["edges"] = change.pop("edges", clause["edges"])
    with pytest.raises(BadInput) as refused:
        write(request(graph, **change), people, LIMITS)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_language_without_words_for_it_gives_way_to_logic_text(people: Source) -> None:
    text = "?x : knows(?x, bob) & knows(?x, bob).since > 1990"
    found = draw(text, people, LIMITS)
    assert found["sparql"] is None
    assert found["refused"]["sparql"].startswith("SPARQL has no words for attributes of facts")
    assert write(request(found["graph"], language="sparql"), people, LIMITS) == text


def test_prefixes_of_the_graph_are_read_and_written(tmp_path: Path) -> None:
    turtle = "@prefix ex: <http://example.org/> . ex:ann ex:knows ex:bob ; ex:age 30 . ex:bob ex:knows ex:ann ."
    (tmp_path / "people.ttl").write_text(turtle)
    people = Source(tuplet.read(tmp_path / "people.ttl"))
    found = draw("?x : ex:knows(?x, ex:bob) & ?x.ex:age > 3", people, LIMITS)
    assert found["problem"] is None
    assert found["logic"] == "?x : ex:knows(?x, ex:bob) & ?x.ex:age > 3"
    assert found["sparql"].startswith("SELECT ?x WHERE { ?x ex:knows ex:bob . ?x ex:age ?age .")
    [clause] = found["graph"]["clauses"]
    assert (clause["edges"][0]["label"], clause["edges"][0]["tail"]["label"]) == ("ex:knows", "ex:bob")
    assert clause["conditions"][0]["text"] == "?x.ex:age > 3"
    assert write(request(found["graph"]), people, LIMITS) == found["logic"]


def test_a_drawing_that_is_too_large_is_refused(people: Source) -> None:
    graph = drawn("?x : knows(?x, bob) & ?x.age > 3", people)
    with pytest.raises(BudgetExceeded, match="2 atoms"):
        write(request(graph), people, ServerLimits(max_atoms=1))
