"""Whatever is sent, the server answers, never with an error of its own, and does not grow."""

from __future__ import annotations

import json
import random
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from running_server import SOAK, Server
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

CASES = 10_000 if SOAK else 300
PATHS = ("/ask", "/explain", "/plan", "/parse", "/write", "/sparql")
QUERIES = (
    "?x, ?y : exists ?z . borders(?x, ?z) & member_of(?z, ?y) & !borders(?x, ?y) & ?x != ?y",
    'SELECT ?x ?y WHERE { ?x :borders ?y . { ?y :located_in "Europe" } UNION { ?y :borders :spain } FILTER(?x != ?y) }',
    "r1(s1,f1)&!r2(f1,f2)",
    "((3, (4,)), (5, (7, -2)))",
    "?x : borders(?x, france) | member_of(?x, nato)",
)  # fmt: skip
ODD = [
    "\x00",
    "\ud800",
    "🜍",
    "￿",
    "∃",
    "¬",
    "((((",
    "))))",
    "{",
    "}",
    "?",
    "<",
    ">",
    '"',
    "\\",
    "&",
    "|",
    "!",
    " " * 50,
]
ODD += ["?x" * 400, "exists", "limit", "LIMIT 99999999999999999999", "-1", "1e999", "𝕏", "\r\n", "#", "a(b,c)", "/../"]


def broken_text(rng: random.Random) -> str:
    """A query with pieces taken out, doubled, exchanged, or put in."""
    text = rng.choice(QUERIES)
    for _ in range(rng.randint(1, 6)):
        i, j = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        j = min(j, i + 12)
        text = rng.choice(
            (text[:i] + text[j:], text[:i] + text[i:j] * 2 + text[j:], text[:i] + rng.choice(ODD) + text[i:])
        )
    return text or "?"


def odd_value(rng: random.Random, depth: int = 0) -> Any:
    """Something that JSON can hold."""
    simple = [None, True, -1, 0, 10**30, 1e308, float("nan"), float("inf"), "", "world", "x" * 3000, rng.choice(ODD)]
    kind = rng.random()
    if depth > 3 or kind < 0.6:
        return rng.choice([*simple, broken_text(rng)])
    if kind < 0.8:
        return [odd_value(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    return {rng.choice(["query", "k", "kind", "name", "edges", "é", ""]): odd_value(rng, depth + 1) for _ in range(3)}


def body(rng: random.Random, path: str) -> bytes:
    """A body that is nearly right, or not at all."""
    if rng.random() < 0.15:
        return rng.choice((b"", b"{", b"[" * 3000, b"\xff\xfe\x00", b"null", b'"x"', rng.randbytes(200), b"9" * 5000))

    def term() -> dict[str, str]:
        return {"kind": rng.choice(["free", "exists", "constant"]), "name": rng.choice(["x", "y", broken_text(rng)])}

    def edge() -> dict[str, Any]:
        return {"head": term(), "relation": rng.choice(["borders", broken_text(rng)]), "tail": term()}

    values: dict[str, dict[str, Any]] = {
        "/ask": {"query": broken_text(rng), "k": rng.choice([3, 0, -1, 10**9]), "timeout": 0.3},
        "/explain": {"query": rng.choice(QUERIES), "values": {"x": "france", "y": rng.choice(["spain", "?", ""])}},
        "/plan": {"query": broken_text(rng), "engine": rng.choice(["exact", "crisp", "ns3", "brute", "x"])},
        "/parse": {"query": broken_text(rng)},
        "/write": {
            "free": ["x"],
            "clauses": [{"edges": [edge(), edge()], "different": [], "conditions": [{"text": broken_text(rng)}]}],
            "language": rng.choice(["logic", "sparql", "cypher"]),
        },
        "/sparql": {"query": broken_text(rng)},
    }
    value = values[path]
    for _ in range(rng.choice((0, 0, 1, 2))):
        names = [*value, "store", "engine", "only", "logic", "grounding", "queries", "format", "budget", "limit", "odd"]
        names += ["shown", "order", "offset", "form", "counted"]
        value[rng.choice(names)] = odd_value(rng)
    if rng.random() < 0.1:
        value = {"queries": [broken_text(rng) for _ in range(3)], "timeout": 0.3}
    return json.dumps(value).encode("utf-8", "surrogatepass")


def test_malformed_bodies_and_queries_are_refused_not_failed(server: Server) -> None:
    rng = random.Random(8)
    codes: dict[int, int] = {}
    with server.client() as client:
        settled = 0
        for i in range(CASES):
            path = rng.choice(PATHS)
            content = body(rng, path)
            form = rng.choice(["application/json"] * 8 + ["text/plain", "application/sparql-query", "x/y", ""])
            if path == "/sparql":
                form = rng.choice(["application/sparql-query", "application/x-www-form-urlencoded"])
            response = client.post(path, content=content, headers={"content-type": form})
            codes[response.status_code] = codes.get(response.status_code, 0) + 1
            assert response.status_code < 500, (path, form, content)
            json.loads(response.text)  # errors are JSON, and so are answers
            if response.status_code >= 400:
                assert response.json()["error"], response.text
            if i == CASES // 3:
                settled = server.memory()
        assert server.memory() < settled * 1.3 + 100_000_000
        assert client.get("/health").status_code == 200
    for code in (200, 400, 422):
        assert codes[code] > CASES // 50, codes


@pytest.mark.parametrize("path", ["/sparql", "/schema", "/schema/entities"])
def test_odd_parameters_are_refused_not_failed(client: httpx.Client, path: str) -> None:
    for odd in [*(o.encode("utf-8", "surrogatepass") for o in ODD), b"%00", b"%ff", b"&&&=", b"limit=99999"]:
        for name in (b"query", b"search", b"store", b"name"):
            quoted = b"".join(b"%%%02x" % byte for byte in odd)
            response = client.get(f"{path}?{(name + b'=' + quoted).decode()}")
            assert response.status_code < 500, (path, odd)


MODES = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name.lower())
def test_requests_made_from_the_description_are_answered_as_it_says(server: Server, mode: Any) -> None:
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    tried = set()
    for found in schema.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=100 if SOAK else 10,
            deadline=None,
            derandomize=not SOAK,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def holds(case: schemathesis.Case) -> None:
            try:
                response = case.call()
            except requests.exceptions.RequestException:
                # a line of more than 64 KB is cut off before it is a request
                assert case.method.upper() == "GET"
                assert httpx.get(f"{server.url}/health").status_code == 200
                return
            # what a query says is beyond a schema: 400 and 422 tell what is wrong with it
            beyond: list[Any] = [positive_data_acceptance]
            if response.status_code in (413, 431):  # refused for its size; the check does not know that as a refusal
                beyond.append(negative_data_rejection)
            case.validate_response(response, excluded_checks=beyond)
            assert response.status_code < 500

        try:
            holds()
        except Unsatisfiable:
            continue  # an operation without parameters has nothing to get wrong
        tried.add(f"{operation.method.upper()} {operation.path}")
    assert {"POST /ask", "POST /explain", "POST /plan", "POST /parse", "POST /write", "GET /sparql"} <= tried
