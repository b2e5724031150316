"""What operators see: a line for each request, slow queries, refused keys, the life of the server."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from running_server import Server, Start, request

from tuplet.server.keys import add_key
from tuplet.server.logs import AccessLog, LogSettings, PlainLines

QUERY = "?x, ?y : borders(?x, ?y) & member_of(?y, nato)"


@pytest.fixture(scope="module")
def logged(start: Start, tmp_path_factory: pytest.TempPathFactory) -> tuple[Server, Path, str]:
    """A server with keys that logs everything as JSON, every query a slow one; its access log; a key."""
    folder = tmp_path_factory.mktemp("logs")
    key = add_key(folder / "keys", "anna")
    flags = ("--access-log", str(folder / "access.log"), "--log-format", "json", "--slow", "0")
    flags += ("--trusted-proxy", "127.0.0.1")
    return start(*flags, "--api-key-file", str(folder / "keys")), folder / "access.log", key


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def asked(path: Path, request: str) -> dict[str, Any]:
    """The line of a request; it is written after the answer was sent."""
    for _ in range(1200):
        found = [line for line in lines(path) if line["id"] == request]
        if found:
            return found[0]
        time.sleep(0.05)
    raise AssertionError(f"no line of {request}")


def test_each_request_has_a_line_and_an_id(logged: tuple[Server, Path, str]) -> None:
    server, access, key = logged
    bearer = {"authorization": f"Bearer {key}"}
    with server.client(headers=bearer) as client:
        reply = client.post("/ask", json={"query": QUERY, "k": 3}, headers={"x-request-id": "proxy-7"})
        assert reply.headers["x-request-id"] == "proxy-7"
        line = asked(access, "proxy-7")
        assert line["time"].endswith("Z")
        assert (line["client"], line["key"], line["method"], line["path"]) == ("127.0.0.1", "anna", "POST", "/ask")
        assert (line["status"], line["bytes"]) == (200, int(reply.headers["content-length"]))
        assert (line["store"], line["engine"]) == ("world", "exact")
        assert 0 <= line["queue"] < line["seconds"]
        assert line["seconds"] * 1000 > reply.json()["elapsed_ms"], "until the last byte"
        batch = client.post("/ask", json={"queries": [QUERY, QUERY]})
        line = asked(access, batch.headers["x-request-id"])
        assert line["queries"] == 2
        said = {"x-forwarded-for": "6.6.6.6, 203.0.113.9", "x-request-id": "proxy-8"}
        client.get("/health", headers=said)
        assert asked(access, "proxy-8")["client"] == "203.0.113.9", "who spoke to the proxy"
        made = client.get("/no%0A%22such%22", headers={"x-request-id": "a b"}).headers["x-request-id"]
        assert len(made) == 16, "what is no id is not taken"
        assert asked(access, made)["status"] == 404


def test_refused_keys_and_slow_queries_are_told_but_do_not_fill_the_disk(logged: tuple[Server, Path, str]) -> None:
    server, access, key = logged
    with server.client() as client:
        for _ in range(50):
            assert client.get("/schema", headers={"authorization": "Bearer tup_wrong"}).status_code == 401
        refused = client.get("/schema").headers["x-request-id"]
        bearer = {"authorization": f"Bearer {key}"}
        slowly = client.post("/ask", json={"query": QUERY + " " * 5000}, headers=bearer).headers["x-request-id"]
        text = client.get("/metrics", headers={"authorization": f"Bearer {key}"}).text
    assert asked(access, refused)["key"] is None
    assert asked(access, slowly)["key"] == "anna"
    assert 'tuplet_keys_refused_total{reason="wrong"} 50' in text
    assert 'tuplet_requests_by_key_total{key="anna"}' in text
    said = [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]
    assert 10 <= sum("wrong" in line["message"] for line in said) < 50, "ten in ten seconds"
    slow = [line for line in said if line["message"] == "slow" and line.get("query")]
    assert slow[-1]["query"].startswith(QUERY)
    assert len(slow[-1]["query"]) == 2000
    assert slow[-1]["engine"] == "exact"
    assert "tup_" not in server.log.read_text() + access.read_text(), "no key, right or wrong, is written down"
    [ready] = [line["message"] for line in said if line["message"].startswith("ready: tuplet ")]
    assert "1 of 1 workers serve world (" in ready


def test_what_a_client_sends_stays_on_its_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    asked = request("GET", '/a"b\nGET /fake 200\x1b[2J' + "c" * 300, client=("::1", 1))
    asked.notes.id = "7"
    asked.notes.asked("world", "exact", "?x : r(?x,\n a)", None)
    log = AccessLog(LogSettings(access_log=str(tmp_path / "log"), slow=0.1))
    assert not log.request(asked, 200, 12, 0.05)
    assert log.request(asked, 200, 12, 0.5)
    written = (tmp_path / "log").read_text()
    assert written.count("\n") == 2
    assert '::1 - "GET /a\\"b\\nGET /fake 200\\x1b[2J' in written
    assert written.rstrip().endswith('" 200 bytes=12 seconds=0.5 store=world engine=exact id=7')
    assert len(written) < 700
    told = PlainLines().format(caplog.records[-1])
    assert told.count("\n") == 0
    assert told.endswith("id=7 ?x : r(?x,\\n a)")


def test_a_log_that_is_moved_away_is_made_anew(logged: tuple[Server, Path, str]) -> None:
    server, access, _ = logged
    access.rename(access.with_suffix(".1"))
    for _ in range(1200):
        httpx.get(f"{server.url}/health", timeout=60)
        if access.exists() and access.read_text().endswith("\n"):
            break
        time.sleep(0.05)
    assert lines(access)[-1]["path"] == "/health"


def test_the_death_of_a_worker_is_told_and_counted(logged: tuple[Server, Path, str]) -> None:
    server, _, key = logged
    with server.client(headers={"authorization": f"Bearer {key}"}) as client:
        text = client.get("/metrics").text
    [worker] = [line.split('"')[1] for line in text.splitlines() if 'role="worker"' in line and "_threads{" in line]
    os.kill(int(worker), signal.SIGKILL)
    for _ in range(1200):
        with contextlib.suppress(httpx.TransportError):
            text = httpx.get(f"{server.url}/metrics", headers={"authorization": f"Bearer {key}"}, timeout=60).text
            if 'tuplet_worker_deaths_total{reason="SIGKILL"} 1.0' in text:
                break
        time.sleep(0.1)
    else:
        raise AssertionError(text)
    assert f"worker {worker} died of SIGKILL" in server.log.read_text()
    assert 'tuplet_keys_refused_total{reason="wrong"} 50.0' in text, "what it counted stays"
