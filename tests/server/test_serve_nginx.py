"""Behind a real nginx: answers, caches, a path of a larger site; and two replicas that are changed under load."""

from __future__ import annotations

import re
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from balancing import balanced, needs_nginx
from running_server import Server, Start

from conftest import free_port
from repeatable import SOAK
from tuplet.store import open_store

pytestmark = needs_nginx
QUERY = {"query": "?x, ?y : borders(?x, ?y) & member_of(?y, nato)", "k": 3}


@pytest.fixture(scope="module")
def proxied(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    port = int(server.url.rpartition(":")[2])
    with (
        balanced(tmp_path_factory.mktemp("nginx"), free_port(), [port]) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        yield client


def test_answers_pass_and_ids_are_one(proxied: httpx.Client) -> None:
    reply = proxied.post("/ask", json=QUERY)
    assert reply.status_code == 200
    assert len(reply.json()["answers"]) == 3
    assert re.fullmatch(r"[0-9a-f]{32}", reply.headers["x-request-id"]), "the one that nginx made"


def test_what_is_cached_is_asked_for_again_and_has_not_changed(proxied: httpx.Client, server: Server) -> None:
    sparql = {"query": "SELECT ?x WHERE { ?x :borders :france }"}
    first = proxied.get("/sparql", params=sparql)
    assert first.headers["x-cache"] == "MISS"
    time.sleep(2.1)  # nginx counts whole seconds
    second = proxied.get("/sparql", params=sparql)
    assert second.headers["x-cache"] == "REVALIDATED"
    for _ in range(500):  # within a second of the one before, unless the machine is busy
        third = proxied.get("/sparql", params=sparql)
        if third.headers["x-cache"] == "HIT":
            break
    assert third.headers["x-cache"] == "HIT"
    assert first.content == second.content == third.content


def test_changes_below_a_path_have_their_own_place_too(proxied: httpx.Client) -> None:
    """Where nothing is sent twice: it is the only one that takes them without a cache or a second try."""
    assert proxied.post("/kg/reload").json()["changed"] is False
    for path in ("/add", "/kg/add"):
        reply = proxied.post(f"{path}?new_entities=true", content="a,b,c\n", headers={"content-type": "text/csv"})
        assert (reply.status_code, reply.json()["kind"]) == (403, "scope")
    conf = (Path(__file__).parents[2] / "packaging" / "nginx.conf").read_text()
    assert re.search(r"location ~ \^/kg\(/\(\?:add\|remove\|reload\)\)\$ \{[^}]*proxy_next_upstream off;", conf)


def test_below_a_path_of_a_larger_site_every_file_is_found(proxied: httpx.Client) -> None:
    """M24: the page asks for nothing at the root."""
    page = proxied.get("/kg/")
    assert page.status_code == 200
    named = re.findall(r'(?:src|href)="([^"#]+)"', page.text)
    assert len(named) > 2
    for address in named:
        assert not address.startswith("/"), address
        assert proxied.get(str(page.url.join(address))).status_code == 200, address
    assert proxied.post("/kg/ask", json=QUERY).status_code == 200


class Load:
    """Clients that ask one after another until told to stop; what came back, counted."""

    def __init__(self, url: str, clients: int) -> None:
        self.seen: Counter[str] = Counter()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(url,)) for _ in range(clients)]

    def _ask(self, url: str) -> None:
        with httpx.Client(base_url=url, timeout=60) as client:
            while not self._stop.is_set():
                try:
                    reply = client.post("/ask", json=QUERY)
                    self.seen[f"{reply.status_code} {len(reply.json().get('answers', ()))}"] += 1
                except (httpx.TransportError, ValueError) as error:
                    self.seen[repr(error)] += 1

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="two replicas under load: TUPLET_SOAK=1")
def test_two_replicas_are_reloaded_and_restarted_one_by_one_and_no_request_is_lost(
    start: Start, store_path: Path, tmp_path: Path
) -> None:
    store = tmp_path / "world.store"
    shutil.copytree(store_path, store)
    ports = [free_port(), free_port()]

    def replica(port: int) -> Server:
        return start("--no-watch", stores=(str(store),), port=port)

    replicas = [replica(port) for port in ports]
    with balanced(tmp_path, free_port(), ports) as url, Load(url, 4) as load:
        for number in range(1, 4):  # a newer generation, taken by one replica after the other
            changed = open_store(store)
            changed.add([(f"new_{number}", "borders", "france")], new_entities=True)
            for server in replicas:
                server.process.send_signal(signal.SIGHUP)
                while generation(server) != changed.generation:  # the test has its time from outside
                    time.sleep(0.1)
        for at, port in enumerate(ports):  # and restarted, each in turn
            replicas[at].process.send_signal(signal.SIGTERM)
            assert replicas[at].process.wait(60) == 0
            replicas[at] = replica(port)
        time.sleep(1)
    print(dict(load.seen))  # noqa: T201
    assert list(load.seen) == ["200 3"], load.seen
    assert load.seen["200 3"] > 200


def generation(server: Server) -> int:
    return int(httpx.get(f"{server.url}/health").json()["stores"]["world"]["generation"])
