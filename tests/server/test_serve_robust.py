"""Whatever is sent, the server answers, never with an error of its own, and does not grow."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis.errors import Unsatisfiable
from running_server import Server
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from repeatable import SEED, count, examples

CASES = count(400, 10_000)
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "serve_fuzz.py"


@pytest.fixture(scope="module")
def fuzz() -> Any:
    spec = importlib.util.spec_from_file_location("serve_fuzz", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["serve_fuzz"] = module  # where its dataclass is looked for
    spec.loader.exec_module(module)
    return module


def test_fuzzed_requests_are_refused_not_failed(server: Server, fuzz: Any) -> None:
    where = urlsplit(server.url)
    codes, wrong = fuzz.run(where.hostname, where.port, 8 + SEED, CASES // 3)
    settled = server.memory()
    more, faults = fuzz.run(where.hostname, where.port, 9 + SEED, CASES - CASES // 3)
    assert wrong + faults == []
    assert server.memory() < settled * 1.3 + 100_000_000
    codes += more
    for code in (200, 400, 422):
        assert codes[code] > CASES // 50, codes
    assert all(status in (0, 400, 403, 408, 415, 431) for status in fuzz.raw(where.hostname, where.port))
    assert httpx.get(f"{server.url}/health").status_code == 200


@pytest.mark.parametrize("path", ["/sparql", "/schema", "/schema/entities"])
def test_odd_parameters_are_refused_not_failed(client: httpx.Client, fuzz: Any, path: str) -> None:
    for odd in [
        *(o.encode("utf-8", "surrogatepass")[:5000] for o in fuzz.ODD),
        b"%00",
        b"%ff",
        b"&&&=",
        b"limit=99999",
    ]:
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

        @examples(10, 100, allow=tuple(HealthCheck), phases=[Phase.generate])
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
