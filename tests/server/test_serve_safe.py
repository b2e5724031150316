"""Safe by default: addresses, keys, limits, headers, paths, and an orderly end."""

from __future__ import annotations

import concurrent.futures
import gzip
import itertools
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from running_server import Server, Start

EASY = {"query": "?x : borders(?x, france)"}
# A chain of eight unknowns has some ten million observed answers; only after them come the predicted ones.
VARIABLES = "abcdefgh"
HOSTILE = f"{', '.join(f'?{v}' for v in VARIABLES)} : " + " & ".join(
    f"borders(?{a}, ?{b})" for a, b in itertools.pairwise(VARIABLES)
)


def tuplet(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tuplet", *words], capture_output=True, text=True, timeout=60)


def test_other_addresses_need_keys(store_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        ended = tuplet("serve", str(store_path), "--host", host)
        assert ended.returncode == 1
        assert "keys are needed" in ended.stderr
        assert "Traceback" not in ended.stderr


def test_wrong_starts_are_told_in_one_line(tmp_path: Path, store_path: Path) -> None:
    (tmp_path / "bad").write_text("secret\n")
    for words, told in (
        (("serve",), "name at least one STORE"),
        (("serve", str(tmp_path / "nothing")), "nothing"),
        (("serve", str(store_path), "--max-k", "0"), "--max-k must be positive"),
        (("serve", str(store_path), "--max-time", "nan"), "--max-time must be positive, not nan"),
        (("serve", str(store_path), "--workers", "-3"), "--workers must be positive"),
        (("serve", str(store_path), "--api-key-file", str(tmp_path / "bad")), "bad:1: expected name:hash"),
        (("serve", str(store_path), "--api-key-file", str(tmp_path / "none")), "cannot read the key file"),
        (("serve", "--new-key", "anna"), "--new-key needs --api-key-file"),
        (("serve", str(store_path), "--scope", "read"), "are of a new key"),
        (("serve", "--new-key", "anna", "--api-key-file", "keys", "--expires", "2020-01-01"), "that day has come"),
        (("serve", f"a={store_path}", f"a={store_path}"), "two stores are named 'a'"),
    ):
        ended = tuplet(*words)
        assert (ended.returncode, ended.stderr.count("\n")) == (1, 1), ended.stderr
        assert told in ended.stderr


@pytest.fixture(scope="module")
def keyed(start: Start, tmp_path_factory: pytest.TempPathFactory) -> tuple[Server, str]:
    """A server that wants a key, on every address of the machine, and its key."""
    file = tmp_path_factory.mktemp("keys") / "keys"
    key = tuplet("serve", "--new-key", "anna", "--api-key-file", str(file)).stdout.strip()
    assert key
    assert key not in file.read_text(), "only the hash is kept"
    assert re.fullmatch(r"anna:[0-9a-f]{64}\n", file.read_text())
    assert file.stat().st_mode & 0o077 == 0
    return start("--host", "0.0.0.0", "--api-key-file", str(file)), key


def test_keys(keyed: tuple[Server, str]) -> None:
    server, key = keyed
    with server.client() as client:
        for headers in (
            {},
            {"Authorization": "Bearer tup_wrong"},
            {"Authorization": key},
            {"Authorization": "Basic eA=="},
        ):
            for method, path in (("POST", "/ask"), ("GET", "/schema"), ("GET", "/metrics"), ("GET", "/sparql?query=x")):
                response = client.request(method, path, headers=headers, json=EASY if method == "POST" else None)
                assert response.status_code == 401, (path, headers)
                assert response.json()["kind"] == "key"
                assert response.headers["www-authenticate"] == "Bearer"
        right = {"Authorization": f"Bearer {key}"}
        assert client.post("/ask", json=EASY, headers=right).status_code == 200
        assert client.get("/schema", headers=right).status_code == 200
        # the page itself holds no data
        assert client.get("/").status_code == client.get("/web/page.js").status_code == 200
        assert client.get("/health").status_code == 200


def test_without_keys_only_this_machine_is_answered(client: httpx.Client) -> None:
    for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""):
        response = client.post("/ask", json=EASY, headers={"Host": host})
        assert response.status_code in (400, 403), host
    assert client.post("/ask", json=EASY, headers={"Host": "localhost:1"}).status_code == 200
    assert client.post("/ask", json=EASY, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    # a browser that does not say the site says the origin
    assert client.post("/ask", json=EASY, headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.post("/ask", json=EASY, headers={"Origin": str(client.base_url).rstrip("/")}).status_code == 200
    refused = client.post("/ask", content=b'{"query": "x"}', headers={"content-type": "text/plain"})
    assert (refused.status_code, refused.json()["error"]) == (415, "send application/json, not text/plain")
    packed = {"content-type": "application/json", "content-encoding": "gzip"}
    refused = client.post("/ask", content=gzip.compress(json.dumps(EASY).encode()), headers=packed)
    assert (refused.status_code, refused.json()["error"]) == (415, "send the body as it is, not packed with gzip")


def test_security_headers_are_on_every_answer(client: httpx.Client) -> None:
    for response in (
        client.get("/"),
        client.get("/nothing"),
        client.post("/ask", json=EASY),
        client.get("/web/page.js"),
    ):
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"
        assert "server" not in response.headers
        assert "access-control-allow-origin" not in response.headers


def test_the_page_loads_nothing_from_elsewhere_and_nothing_inline(client: httpx.Client) -> None:
    page = client.get("/").text
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page)
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", page)
    for name in re.findall(r'(?:src|href)="(web/[^"]+)"', page):
        assert client.get(name).status_code == 200


def test_no_file_can_be_reached_by_a_path(server: Server) -> None:
    import http.client

    for path in (
        "/web/../app.py", "/web/%2e%2e/app.py", "/web/..%2fapp.py", "/web//etc/passwd", "/web/....//app.py",
        "/../../etc/passwd", "/web/%2e%2e%2f%2e%2e%2fcli.py", "/web/\\..\\app.py", "/web/", "/web/vendor",
    ):  # fmt: skip
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status in (400, 404, 405), path
        assert b"import" not in answer.read()
        connection.close()
    with server.client() as client:
        for store in ("/etc/passwd", "../world", "world/../facts"):
            assert client.post("/ask", json={**EASY, "store": store}).status_code == 404
        assert client.post("/ask", json={"query": "@/etc/passwd"}).status_code == 400


@pytest.fixture(scope="module")
def small(start: Start) -> Server:
    """A server with small limits."""
    flags = "--max-body 5000 --max-atoms 3 --max-variables 3 --max-k 20 --max-time 1.5 --max-batch 4"
    return start(*flags.split(), "--max-concurrent", "1", "--max-waiting", "2")


def test_each_limit_is_a_clear_refusal(small: Server) -> None:
    chain = "?a : exists ?b, ?c, ?d . borders(?a, ?b) & borders(?b, ?c) & borders(?c, ?d)"
    cases = (
        ({"query": "?x : borders(?x, france)" + " & borders(?x, spain)" * 3}, 422, "atoms"),
        ({"query": chain}, 422, "variables"),
        ({**EASY, "k": 21}, 422, "k"),
        ({**EASY, "k": "all"}, 422, "k"),
        ({"query": "SELECT ?x { ?x :borders :france } LIMIT 21"}, 422, "k"),
        ({**EASY, "timeout": 2}, 422, "time"),
        ({"queries": [EASY["query"]] * 5}, 422, "batch"),
        ({"query": "?x : borders(?x, france) # " + "x" * 6000}, 413, "body"),
    )
    with small.client() as client:
        for body, status, limit in cases:
            response = client.post("/ask", json=body)
            assert (response.status_code, response.json().get("limit")) == (status, limit), response.text
            assert len(response.json()["error"]) > 20
        assert client.post("/ask", json=EASY).status_code == 200
        # a body without a length is counted as it comes
        pieces = (b"x" * 1000 for _ in range(20))
        response = client.post("/ask", content=pieces, headers={"content-type": "application/json"})
        assert (response.status_code, response.json()["limit"]) == (413, "body")


def test_a_query_out_of_time_gives_its_best_with_a_bound(client: httpx.Client) -> None:
    response = client.post("/ask", json={"query": HOSTILE, "k": 10000, "timeout": 0.05, "only": "predicted"})
    assert response.status_code == 200, response.text
    body = response.json()
    assert (body["exact"], body["pruned"]) == (False, "timeout")
    assert 0 < body["bound"] <= 1
    assert len(body["answers"]) < 10000


def test_too_many_at_once_are_told_to_come_back(small: Server) -> None:
    slow = {"query": "?a, ?b, ?c : borders(?a, ?b) & borders(?b, ?c) & borders(?c, ?a)", "only": "predicted", "k": 20}

    def one(_: int) -> int:
        with small.client() as client:
            return client.post("/ask", json=slow).status_code

    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        codes = list(pool.map(one, range(120)))
    assert set(codes) <= {200, 429}
    assert codes.count(200) >= 3
    assert codes.count(429) >= 1
    with small.client() as client:
        values = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines() if line[0] != "#")
        assert float(values['tuplet_requests_total{route="/ask",status="429"}']) == codes.count(429)
        assert float(values["tuplet_queries_running"]) == float(values["tuplet_requests_waiting"]) == 0


def _asked(client: httpx.Client) -> float:
    """How many queries run or wait."""
    values = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines() if line[0] != "#")
    return float(values["tuplet_queries_running"]) + float(values["tuplet_requests_waiting"])


def test_requests_in_flight_are_finished_before_the_end(start: Start) -> None:
    server = start()
    with concurrent.futures.ThreadPoolExecutor(3) as pool, server.client() as client:
        body = {"query": HOSTILE, "k": 10000, "timeout": 2, "only": "predicted"}
        sent = [pool.submit(client.post, "/ask", json=body) for _ in range(2)]
        while not all(future.done() for future in sent):
            if _asked(client) == 2:
                break
            time.sleep(0.05)
        server.process.send_signal(signal.SIGTERM)
        responses = [future.result() for future in sent]
    assert [response.status_code for response in responses] == [200, 200]
    assert responses[0].json()["pruned"] == "timeout"
    assert server.process.wait(300) is not None
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{server.url}/health")
