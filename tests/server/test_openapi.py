"""The description of the server is true: real answers of every operation, checked against it with nothing left over."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from described import check, operations
from running_server import Server

from repeatable import SOAK

QUERY = "?x, ?y : borders(?x, ?y) & member_of(?y, nato)"
TOLD = "SELECT ?x WHERE { ?x :borders :france } LIMIT 2"
RDF = ("text/turtle", "application/n-triples", "application/ld+json", "application/rdf+xml")
TABLES = ("application/sparql-results+json", "application/sparql-results+xml", "text/csv", "text/tab-separated-values")
# operation → requests that it answers with 200
REQUESTS: dict[str, list[dict[str, Any]]] = {
    "ask": [
        *(
            {"json": {"query": QUERY, "k": 3, "format": form}}
            for form in ("json", "ndjson", "csv", "csv_safe", "parquet")
        ),
        {"json": {"query": QUERY, "k": 3, "only": "predicted", "evidence": True}},
        {"json": {"query": QUERY, "k": 3, "witness": False}},
        {"json": {"query": "ASK { :spain :borders :france }"}},
        {"json": {"query": "SELECT (COUNT(*) AS ?n) WHERE { ?x :borders :france }"}},
        {"json": {"query": "SELECT ?x ?a WHERE { ?x :age ?a }", "store": "people"}},
        {"json": {"queries": [QUERY, "?x : nothing(?x, a)"], "k": 2}},
    ],
    "explain": [{"json": {"query": QUERY, "values": {"x": "spain", "y": "france"}, "evidence": True}}],
    "plan": [{"json": {"query": QUERY}}],
    "parse": [
        {"json": {"query": text}}
        for text in (QUERY, TOLD, "?x : r(", "?x : bordrs(?x, france)", "?x : borders(?x, france) & ?x.age > 3 limit 4")
    ],
    "write": [{"json": {"free": ["x"], "clauses": []}}],  # made below from what /parse gives
    "schema": [{}, {"params": {"store": "people"}}],
    "find_entities": [{"params": {"search": "fra"}}],
    "labels": [{"json": {"names": ["france", "nobody"]}}],
    "entity": [{"params": {"name": "france"}}, {"params": {"name": "ann", "store": "people"}}],
    "health": [{}],
    "ready": [{}],
    "metrics": [{}],
    "sparql": [
        *({"params": {"query": TOLD}, "headers": {"accept": accept}} for accept in TABLES),
        *({"headers": {"accept": accept}} for accept in RDF),
        {"params": {"query": "ASK { :spain :borders :france }"}},
    ],
    "sparql_post": [
        {"data": {"query": TOLD}},
        {"content": TOLD, "headers": {"content-type": "application/sparql-query"}},
    ],
}


@pytest.fixture
def description(client: httpx.Client) -> dict[str, Any]:
    return client.get("/openapi.json").json()  # type: ignore[no-any-return]


def test_every_operation_answers_as_described(client: httpx.Client, description: dict[str, Any]) -> None:
    told = operations(description)
    graph = client.post("/parse", json={"query": QUERY}).json()["graph"]
    requests = {**REQUESTS, "write": [{"json": {**graph, "language": "sparql"}}]}
    assert requests.keys() | {"add", "remove", "reload"} == told.keys(), "each is tried, here or where keys are"
    for name, tried in requests.items():
        method, path, operation = told[name]
        answers = operation["responses"]["200"]["content"]
        seen = set()
        for request in tried:
            response = client.request(method, path, **request)
            assert response.status_code == 200, (name, request, response.text[:300])
            media = response.headers["content-type"].split(";")[0]
            seen.add(media)
            assert media in answers, (name, media)
            if media.endswith(("/json", "results+json")):
                check(response.json(), answers[media]["schema"], description)
            elif media == "application/x-ndjson":
                lines = [json.loads(line) for line in response.text.splitlines()]
                whole = {**lines[0], "answers": lines[1:]}
                check(whole, {"$ref": "#/components/schemas/AnswersBody"}, description)
        if name != "sparql_post":
            assert seen == answers.keys(), name


def test_errors_are_described(client: httpx.Client, description: dict[str, Any]) -> None:
    told = operations(description)
    wrong = [
        ("ask", {"json": {"query": "?x : bordrs(?x, france)"}}, 400),
        ("ask", {"json": {"query": QUERY, "k": 10**9}}, 422),
        ("ask", {"json": {"query": QUERY, "store": "none"}}, 404),
        ("ask", {"content": "{}", "headers": {"content-type": "text/plain"}}, 415),
        ("sparql", {"params": {"query": TOLD}, "headers": {"accept": "image/png"}}, 406),
        ("entity", {"params": {"name": "nobody at all"}}, 400),
    ]
    for name, request, status in wrong:
        method, path, operation = told[name]
        response = client.request(method, path, **request)
        assert response.status_code == status, response.text
        check(
            response.json(), operation["responses"][str(status)]["content"]["application/json"]["schema"], description
        )


def test_what_takes_a_query_tells_how_to_write_one(description: dict[str, Any]) -> None:
    told = {name: operation.get("description", "") for name, operation in _by_name(description).items()}
    assert {name for name, text in told.items() if "?x, ?y : exists ?z" in text} == {"ask", "explain", "plan", "parse"}


def _by_name(description: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["operationId"]: one for path in description["paths"].values() for one in path.values()}


def test_keys_are_described(description: dict[str, Any]) -> None:
    schemes = description["components"]["securitySchemes"]
    assert [scheme["scheme"] for scheme in schemes.values()] == ["bearer"]
    for name, (_, _, operation) in operations(description).items():
        assert ("security" in operation) == (name not in ("health", "ready")), name
        assert operation["summary"]
        assert operation["operationId"].replace("_", "").isalpha()


def test_what_is_asked_for_is_not_echoed_whole(client: httpx.Client) -> None:
    long = "x" * 90_000
    for body in (
        {"query": f"?x : borders(?x, {long})"},
        {"query": QUERY, "engine": long},
        {"query": QUERY, "store": long},
    ):
        response = client.post("/ask", json=body)
        assert 400 <= response.status_code < 500
        assert len(response.content) < 3000, len(response.content)
    response = client.post(
        "/ask",
        content=b'{"query": "?x : borders(?x, france)", "k": %s}' % (b"9" * 4000),
        headers={"content-type": "application/json"},
    )
    assert 400 <= response.status_code < 500
    assert len(response.content) < 1000


def test_a_key_that_is_not_described_is_found(client: httpx.Client, description: dict[str, Any]) -> None:
    answers = client.post("/ask", json={"query": QUERY, "k": 1}).json()
    schema = {"$ref": "#/components/schemas/AnswersBody"}
    check(answers, schema, description)
    answers["answers"][0]["witness"][0]["more"] = 1
    with pytest.raises(jsonschema.ValidationError, match="more"):
        check(answers, schema, description)


@pytest.mark.skipif(not SOAK, reason="a client is generated in the long run (make soak)")
def test_a_generated_client_compiles_and_asks(server: Server, description: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("openapi_python_client")
    generate = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "generated_clients.py"))["python_client"]
    (tmp_path / "openapi.json").write_text(json.dumps(description))
    assert "3 answers" in generate(tmp_path / "openapi.json", server.url, "?x : borders(?x, france)")
