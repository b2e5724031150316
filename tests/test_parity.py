"""Every limit means the same on the command line, in Python and over HTTP: the same answers, the same refusals."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tuplet
from tuplet.cli.commands import main
from tuplet.errors import TupletError
from tuplet.query.limits import Limits
from tuplet.query.ranking import query_family, query_shape
from tuplet.server.app import Application
from tuplet.server.limits import ServerLimits
from tuplet.server.metrics import ServerMetrics
from tuplet.server.service import Service
from tuplet.settings import flag, types
from tuplet.truth.guarantees import Guarantees, ShapeScores
from tuplet.truth.store_folder import writing

QUERY = "?a, ?b, ?c, ?d : r(?a, ?b) & r(?b, ?c) & r(?c, ?d) & r(?d, ?a)"
FIELDS = {field.name: field for field in fields(Limits)}


class Value(NamedTuple):
    """A value of a limit: in Python and JSON, and as it is typed; and the engine that it is for."""

    value: Any
    typed: str
    engine: str = "exact"


# For each field of `Limits` values that change the answers, and values that are wrong. A new field needs some, too.
GOOD: dict[str, list[Value]] = {
    "k": [Value(3, "3"), Value(0, "0")],
    "offset": [Value(4, "4")],
    "timeout": [Value(5.0, "5")],
    "memory": [Value(2048, "2048"), Value(2048, "2K")],  # bytes; typed, also with a unit
    "work": [Value(200, "200")],
    "only": [Value("predicted", "predicted"), Value("observed", "observed")],
    "ask_threshold": [Value(0.5, "0.5")],
    "confidence": [Value(0.8, "0.8"), Value(0.95, "0.95")],  # a set, and everything
    "max_false": [Value(0.5, "0.5")],
    "evidence": [Value(True, "")],
    "witness": [Value(False, "")],
    "logic": [Value("godel", "godel")],
    "budget": [Value(3, "3", "ns3")],
    "merge": [Value("simultaneous", "simultaneous", "ns3")],
    "options": [Value({"beam": 3}, "beam=3", "cqd")],
}
# What is asked for beside: enough answers for limits to matter, and a budget that divides the ways to merge.
BESIDE: dict[str, dict[str, Any]] = {"k": {}, "memory": {"k": 3000}, "merge": {"k": 200, "budget": 3}}
WRONG: dict[str, list[Value]] = {
    "k": [Value(-1, "-1"), Value("many", "many")],
    "offset": [Value(-1, "-1"), Value("x", "x")],
    "timeout": [Value(0.0, "0"), Value(float("inf"), "inf"), Value(float("nan"), "nan"), Value("soon", "soon")],
    "memory": [Value(0, "0")],
    "work": [Value(0, "0"), Value("x", "x")],
    "only": [Value("predictd", "predictd"), Value("x", "x")],
    "ask_threshold": [Value(0.0, "0"), Value("x", "x")],
    "confidence": [Value(1.5, "1.5"), Value(0.0, "0"), Value("x", "x")],
    "max_false": [Value(1.0, "1"), Value("x", "x")],
    "evidence": [],  # a flag has no value; below, of Python and HTTP
    "witness": [],
    "logic": [Value("goedel", "goedel")],
    "budget": [Value(0, "0", "ns3"), Value("x", "x", "ns3")],
    "merge": [Value("x", "x", "ns3")],
    "options": [Value({"mots": 2}, "mots=2", "fit"), Value({"most": "x"}, "most=x", "fit"), Value({"a": 1}, "a=1")],
}


def test_every_field_has_values() -> None:
    assert FIELDS.keys() == GOOD.keys() == WRONG.keys()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of stated facts and predictions with many ties."""
    folder = tmp_path_factory.mktemp("parity")
    names = [f"n{i:02}" for i in range(12)]
    edges = [(h, "r", t) for h in names for t in names if h != t]
    stated = set(random.Random(0).sample(edges, 40))
    graph = tuplet.read(sorted(stated))
    truth = [1.0 if edge in stated else (i * 7 % 9 + 1) / 10 for i, edge in enumerate(edges)]
    source = pa.array([int(edge in stated) for edge in edges], pa.uint8())
    columns = dict(zip(("head", "relation", "tail"), map(list, zip(*edges, strict=True)), strict=True))
    pq.write_table(pa.table({**columns, "truth": truth, "source": source}), folder / "truth.parquet")
    tuplet.index(graph, None, folder / "s", table=folder / "truth.parquet", progress=False)
    clauses = tuplet.open(folder / "s").question(QUERY).clauses
    scores = np.arange(20) / 2000  # of 20 hidden answers, one of them out of reach
    held = ShapeScores(query_shape(clauses) or "", query_family(clauses), "ring", 20, scores, np.ones(20))
    with writing(folder / "s") as files:
        files.note(files.meta, guarantees=Guarantees.from_shapes([held], {}).save)
    return folder / "s"


@pytest.fixture(scope="module")
def store(path: Path) -> tuplet.Store:
    return tuplet.open(path)


Post = Callable[[dict[str, Any]], "tuple[int, dict[str, Any]]"]


@pytest.fixture(scope="module")
def post(store: tuplet.Store) -> Iterator[Post]:
    """`POST /ask` to an application in this process."""
    app = Application(Service({"s": store}, ServerLimits(), ServerMetrics()))
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")
    with asyncio.Runner() as runner:

        def ask(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
            content = json.dumps(body)  # which writes NaN, too
            response = runner.run(client.post("/ask", content=content, headers={"content-type": "application/json"}))
            return response.status_code, response.json()

        yield ask
        runner.run(client.aclose())


def words(name: str, given: Value) -> list[str]:
    """The flag of a limit with its value, as one word: -1 alone would be a flag."""
    written = FIELDS[name].metadata.get("flag") or flag(name, types(Limits)[name])
    joined = f"{written}{given.typed}" if len(written) == 2 or not given.typed else f"{written}={given.typed}"
    return [joined, "--engine", given.engine]


def plain(answers: dict[str, Any], name: str) -> dict[str, Any]:
    """All that is the same however one asks: not the time, nor what the server sets where nothing is said."""
    about = {key: value for key, value in answers["about"].items() if key == name or key not in ("timeout", "memory")}
    return {key: value for key, value in answers.items() if key != "elapsed_ms"} | {"about": about}


CASES = [(name, given) for name, values in GOOD.items() for given in values]


@pytest.mark.parametrize(("name", "given"), CASES, ids=[f"{name}={given.typed}" for name, given in CASES])
def test_a_limit_gives_the_same_answers(
    name: str, given: Value, path: Path, store: tuplet.Store, post: Post, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = BESIDE.get(name, {"k": 200})
    python = store.ask(QUERY, given.engine, **beside, **{name: given.value}).to_dict()
    more = [word for other, value in beside.items() for word in (flag(other), str(value))]
    assert main(["ask", str(path), QUERY, "--json", *words(name, given), *more]) == 0
    shell = json.loads(capsys.readouterr().out)
    code, served = post({"query": QUERY, "engine": given.engine, **beside, name: given.value})
    assert code == 200, served
    assert plain(shell, name) == plain(python, name)
    assert plain(served, name) == plain(python, name)
    assert (python if name == "k" else python["about"])[name] == given.value
    usual = store.ask(QUERY, given.engine, **beside).to_dict()
    # how far a search comes in a moment is not always the same; a threshold is for questions of yes or no
    if name not in ("timeout", "ask_threshold"):
        assert python["answers"] != usual["answers"] or python["pruned"] != usual["pruned"], "this value does nothing"


WRONG_CASES = [(name, given) for name, values in WRONG.items() for given in values]


@pytest.mark.parametrize(("name", "given"), WRONG_CASES, ids=[f"{name}={given.typed}" for name, given in WRONG_CASES])
def test_a_wrong_value_gets_the_same_words(
    name: str, given: Value, path: Path, store: tuplet.Store, post: Post, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(TupletError) as refused:
        store.ask(QUERY, given.engine, **{name: given.value})
    said = str(refused.value)
    assert main(["ask", str(path), QUERY, "--json", *words(name, given)]) == 1
    printed = capsys.readouterr()
    # the command line speaks of flags
    flags = said.replace(f"{name} must", f"{flag(name)} must")
    assert (printed.out, printed.err) == ("", f"error: {flags}\n")
    code, served = post({"query": QUERY, "engine": given.engine, name: given.value})
    assert (code, served["error"]) == (400 if name == "options" else 422, said)


def test_types_are_those_of_python_over_http(post: Post) -> None:
    for given in (
        {"k": "5"},
        {"evidence": 1},
        {"witness": "no"},
        {"k": True},
        {"k": 2.0},
        {"timeout": "5"},
        {"options": []},
        {"logic": []},
        {"only": {}},
    ):
        code, served = post({"query": QUERY, **given})
        assert (code, served["kind"]) == (422, "request"), given
    assert post({"query": QUERY, "kk": 5})[0] == 422


def test_sizes_on_the_command_line(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", str(path), QUERY, "--memory", "much"]) == 1
    assert capsys.readouterr().err == "error: --memory takes bytes, such as 512M or 2G, not 'much'\n"


def test_defaults_are_the_same(path: Path, store: tuplet.Store, post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", str(path), QUERY, "--json"]) == 0
    shell, python = json.loads(capsys.readouterr().out), store.ask(QUERY).to_dict()
    assert plain(shell, "") == plain(python, "") == plain(post({"query": QUERY})[1], "")
    given = {name: f.default for name, f in FIELDS.items() if f.default is not MISSING}
    assert plain(store.ask(QUERY, **given).to_dict(), "") == plain(python, "")
    assert plain(post({"query": QUERY, **given})[1], "") == plain(python, "")
