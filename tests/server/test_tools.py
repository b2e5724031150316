"""The tools as functions: what they give fits their schemas, and mistakes come back with what mends them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import tuplet
from tuplet.query.limits import Deadline
from tuplet.server import tools
from tuplet.server.limits import ServerLimits
from tuplet.server.models import ErrorBody
from tuplet.server.tools import DEFINITIONS

NEIGHBOURS = "?x : borders(?x, france)"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("schema", {}),
    ("schema", {"k": 2}),
    ("find", {"text": "burkina"}),
    ("find", {"text": "bordrs", "relations": True}),
    ("ask", {"query": NEIGHBOURS, "k": 3, "evidence": True}),
    ("ask", {"query": "?x, ?y : borders(?x, ?y) & !member_of(?x, nato)", "only": "predicted", "witness": False}),
    ("ask", {"query": "ASK { :france :borders :spain }"}),
    ("ask", {"query": "count ?x : borders(?x, france)"}),
    ("explain", {"query": NEIGHBOURS, "values": {"x": "spain"}}),
    ("score", {"query": NEIGHBOURS, "tuples": [["spain"], ["japan"]]}),
]
WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    ("ask", {"query": "?x : borders(?x, france"}, "syntax", "expected ')'"),
    ("ask", {"query": "which countries border France?"}, "syntax", "this is not a query"),
    ("ask", {"query": "?x : boders(?x, france)"}, "unknown", "did you mean 'borders'"),
    ("ask", {"query": "?x : !borders(?x, france)"}, "unsafe", "?x"),
    ("ask", {"query": NEIGHBOURS, "k": 100}, "limit", "at most 50"),
    ("ask", {"query": NEIGHBOURS, "timeout": 1000}, "limit", "at most 10 s"),
    ("ask", {"query": NEIGHBOURS, "timeout": "soon"}, "input", "timeout must be a positive number"),
    ("ask", {"query": 5}, "input", "a query is text"),
    ("ask", {}, "input", "ask needs 'query'"),
    ("ask", {"query": NEIGHBOURS, "kk": 1}, "unknown", "did you mean 'k'"),
    ("find", {"text": "x", "k": 0}, "input", "k must be"),
    ("explain", {"query": NEIGHBOURS, "values": {"y": "spain"}}, "input", "x"),
    ("explain", {"query": NEIGHBOURS, "values": {"x": "spian"}}, "unknown", "did you mean"),
    ("score", {"query": NEIGHBOURS, "tuples": "spain"}, "input", "tuples"),
    ("score", {"query": NEIGHBOURS, "tuples": [["spain"]] * 51}, "input", "at most 50"),
    ("aks", {"query": NEIGHBOURS}, "unknown", "did you mean 'ask'"),
    ("ask", {"query": NEIGHBOURS, "store": "wrld"}, "store", "did you mean 'world'"),
]


@pytest.fixture(scope="module")
def box(store_path: Path) -> tools.Toolbox:
    return tools.Toolbox({"world": tuplet.open(store_path)}, ServerLimits(max_k=50))


@pytest.mark.parametrize(("name", "arguments"), CALLS)
def test_what_a_tool_takes_and_gives_fits_its_schemas(box: tools.Toolbox, name: str, arguments: dict[str, Any]) -> None:
    jsonschema.validate(arguments, DEFINITIONS[name].parameters())
    given = box.call(name, arguments)
    assert "error" not in given
    jsonschema.validate(json.loads(json.dumps(given)), DEFINITIONS[name].gives)
    known = DEFINITIONS[name].gives["properties"]
    assert set(given) <= set(known), "nothing that the schema does not tell"
    assert getattr(tools, name)(box.store(), **arguments).keys() == given.keys(), "the function alone gives the same"


@pytest.mark.parametrize(("name", "arguments", "kind", "said"), WRONG)
def test_a_mistake_is_told_so_that_it_can_be_mended(
    box: tools.Toolbox, name: str, arguments: dict[str, Any], kind: str, said: str
) -> None:
    told = box.call(name, arguments)
    assert (told["kind"], said in told["error"]) == (kind, True), told
    jsonschema.validate(told, ErrorBody.model_json_schema())


def test_the_place_of_a_mistake_and_what_was_meant(box: tools.Toolbox) -> None:
    told = box.call("ask", {"query": "?x : boders(?x, france)"})
    assert (told["position"], told["length"], told["suggestions"]) == (5, 6, ["borders"])
    assert told["excerpt"] == "  ?x : boders(?x, france)\n       ^^^^^^"
    assert "?x, ?y : exists ?z" in box.call("ask", {"query": "?x : borders(?x"})["hint"]
    nothing = box.call("find", {"text": "Frannce"})
    assert (nothing["found"], nothing["suggestions"][:2]) == ([], ["France", "france"])


def test_answers_are_those_of_the_store(box: tools.Toolbox) -> None:
    query = "?x, ?y : borders(?x, ?y) & official_language(?y, french)"
    given, asked = box.call("ask", {"query": query, "k": 7})["answers"], box.store().ask(query, k=7)
    assert [answer["values"] for answer in given] == [dict(answer.values) for answer in asked]
    assert [answer["truth"] for answer in given] == pytest.approx(list(asked.ranking.truth), rel=1e-3)
    assert [answer["status"] for answer in given] == [answer.status for answer in asked]
    page = box.call("ask", {"query": query, "k": 3, "offset": 4})["answers"]
    assert page == given[4:]


def test_time_that_was_not_the_questions_is_not_counted(box: tools.Toolbox) -> None:
    deadline = Deadline(10.0)
    deadline.idle = 5.0  # compiling, before the question began
    given = tools.ask(box.store(), NEIGHBOURS, deadline=deadline)
    assert 0 <= given["elapsed_ms"] < 5000


def test_why_not(box: tools.Toolbox) -> None:
    told = box.call("explain", {"query": NEIGHBOURS, "values": {"x": "japan"}})
    assert (told["truth"], told["status"], told["witness"]) == (0.0, "none", [])
    [missing] = told["missing"]
    assert (missing["head"], missing["relation"], missing["tail"]) == ("japan", "borders", "france")


def test_an_answer_that_is_too_long_says_so(store_path: Path) -> None:
    box = tools.Toolbox(tuplet.open(store_path), ServerLimits(max_answer_bytes=2000))
    told = box.call("ask", {"query": "?x, ?y : borders(?x, ?y)", "k": 100})
    assert told["pruned"] == "bytes"
    assert 0 < len(told["answers"]) < 100
    assert told["bound"] == 1.0


def test_definitions_teach_the_language_with_queries_of_this_store(store_path: Path, people_path: Path) -> None:
    people, world = tuplet.open(people_path), tuplet.open(store_path)
    [ask] = [tool for tool in tools.Toolbox(people).definitions() if tool["name"] == "ask"]
    examples = ask["description"].partition("Queries that work here:\n")[2].splitlines()
    assert len(examples) == 3
    assert [len(people.ask(query)) > 0 for query in examples][:2] == [True, True], "and they do work"
    assert "store" not in ask["parameters"]["properties"]
    several = tools.Toolbox({"world": world, "people": people})
    assert several.definitions()[0]["parameters"]["properties"]["store"]["enum"] == ["world", "people"]
    assert several.call("ask", {"query": "?x : knows(?x, bob)", "store": "people"})["answers"]
    assert several.limited_to(["people"]).call("schema", {})["entities"] == len(people.graph.entities)
    assert several.limited_to([]).call("schema", {})["kind"] == "scope"


def test_the_grammar_is_that_of_the_docs() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "reference" / "language.md").read_text("utf-8")
    rules = [line for line in tools.grammar().splitlines() if line.startswith("    ")]
    assert len(rules) > 10
    assert "\n".join(rules) in docs


def test_a_newer_generation_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuplet.build([("a", "r", "b", 0.9), ("b", "r", "c", 0.8)], tmp_path / "s", progress=False)
    box = tools.Toolbox(tuplet.open(tmp_path / "s"))
    tuplet.open(tmp_path / "s").add([("a", "r", "c", 0.7)])
    monkeypatch.setattr("tuplet.server.tools.toolbox._LOOK", 0.0)
    assert box.call("score", {"query": "?x : r(a, ?x)", "tuples": [["b"], ["c"]]})["truth"] == [0.9, 0.7]


def test_facts_for_a_text(store_path: Path) -> None:
    store = tuplet.open(store_path)
    retriever = tools.Retriever(store)
    text = "Is Burkina Faso, which borders Côte d’Ivoire or Mali, a member of the African Union?"
    assert retriever.mentions(text)[0] == "burkina_faso"
    assert "african_union" in retriever.mentions(text)
    facts = retriever.retrieve(text, k=60)
    first = facts[0]
    assert {first.head, first.tail} <= set(retriever.mentions(text)), "first what joins two that are named"
    assert {fact.status for fact in facts} == {"observed", "predicted"}
    assert all(fact.truth >= 0.05 for fact in facts)
    for fact in facts:
        query = f"?x : {fact.relation}({fact.head}, ?x)"
        assert store.score(query, [[fact.tail]])[0] == pytest.approx(fact.truth), "the truth is that of the store"
    assert retriever.context(text, k=1) == str(first)
    assert "predicted, truth 0." in retriever.context(text, k=60)
    assert json.dumps([fact.to_dict() for fact in facts])
    assert retriever.retrieve("nothing of that kind") == []
