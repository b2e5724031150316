"""Generations: changed over HTTP and on disk, and all workers serve one of them; keys that may write."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
import weakref
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
from described import check, operations
from running_server import Server, Start, request

import tuplet
from tuplet.files import locked
from tuplet.server.keys import add_key
from tuplet.server.limits import ServerLimits, problem
from tuplet.server.metrics import ServerMetrics
from tuplet.server.routes import Editor
from tuplet.server.service import Service

QUERY = {"query": "?x : borders(?x, portugal)"}
FACT = ["iceland", "borders", "portugal"]


def until(true: Callable[[], bool]) -> None:
    for _ in range(3000):
        if true():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen within a minute")


@pytest.fixture(scope="module")
def path(store_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that may be changed."""
    return Path(shutil.copytree(store_path, tmp_path_factory.mktemp("changed") / "world.store"))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    file = tmp_path_factory.mktemp("keys") / "keys"
    scopes = {"reader": [], "writer": ["scopes=read,write"], "admin": ["scopes=admin"]}
    scopes |= {"facts": ["scopes=read,write", "stores=facts"], "other": ["stores=gone"], "old": ["expires=2020-01-01"]}
    return {name: add_key(file, name, fields) for name, fields in scopes.items()} | {"file": str(file)}


@pytest.fixture(scope="module")
def two(start: Start, path: Path, world_directory: Path, keys: dict[str, str]) -> Server:
    """Two workers, two stores, keys."""
    stores = (f"world={path}", f"facts={world_directory}")
    server = start("--workers", "2", "--drain", "1", "--api-key-file", keys["file"], stores=stores)
    with server.client() as client:
        until(lambda: client.get("/health").json()["status"] == "ok")
    return server


@pytest.fixture
def by(two: Server, keys: dict[str, str]) -> Iterator[Any]:
    """A client with the key of a name; each has a connection of its own."""
    opened: list[httpx.Client] = []

    def client(name: str) -> httpx.Client:
        opened.append(two.client(headers={"authorization": f"Bearer {keys[name]}"}))
        return opened[-1]

    yield client
    for one in opened:
        one.close()


def names(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 200, answer.text
    return {row["values"]["x"] for row in answer.json()["answers"]}


def test_what_is_added_all_workers_know_before_the_answer(by: Any) -> None:
    readers, writer = [by("reader") for _ in range(4)], by("writer")  # two connections for each worker
    before = [reader.post("/ask", json=QUERY) for reader in readers]
    assert {frozenset(names(answer)) for answer in before} == {frozenset({"spain"})}
    said = writer.post("/add", json={"facts": [FACT, ["spain", "borders", "portugal"]]})
    assert said.status_code == 200, said.text
    done = said.json()
    assert (done["added"], done["already"], done["store"]) == (1, 1, "world")
    for reader in readers:
        answer = reader.post("/ask", json=QUERY)
        assert names(answer) == {"spain", "iceland"}
        assert answer.json()["about"]["generation"] == done["generation"] == before[0].json()["about"]["generation"] + 1
        assert answer.json()["about"]["graph"] == done["graph"] != before[0].json()["about"]["graph"]
        health = reader.get("/health").json()
        assert (health["status"], health["serving"], health["problem"]) == ("ok", 2, None)
        assert health["stores"]["world"]["generation"] == done["generation"]
        assert reader.get("/schema").json()["generation"]["number"] == done["generation"]
    gone = writer.post(
        "/remove", content="iceland\tborders\tportugal\n", headers={"content-type": "text/tab-separated-values"}
    )
    assert gone.json()["removed"] == 1
    assert [names(reader.post("/ask", json=QUERY)) for reader in readers] == [{"spain"}] * 4


def test_tables_new_entities_and_attributes(by: Any) -> None:
    writer, reader, csv = by("writer"), by("reader"), {"content-type": "text/csv"}
    table = "head,relation,tail\natlantis,borders,portugal\n"
    refused = writer.post("/add", content=table, headers=csv)
    assert (refused.status_code, refused.json()["kind"]) == (400, "unknown"), refused.text
    done = writer.post("/add", params={"new_entities": "true"}, content=table, headers=csv).json()
    assert (done["new_entities"], done["added"]) == (["atlantis"], 1)
    assert names(reader.post("/ask", json=QUERY)) == {"spain", "atlantis"}
    assert writer.post("/add", json={"attributes": [["atlantis", "depth", 4000]]}).json()["values_added"] == 1
    deep = {"query": "?x : borders(?x, portugal) & ?x.depth > 3000"}
    assert names(reader.post("/ask", json=deep)) == {"atlantis"}
    for wrong, status in (
        ({"facts": [["spain", "bordres", "portugal"]]}, 400),
        ({"facts": [["spain", "borders"]]}, 422),
        ({"facts": [FACT], "sotre": "world"}, 422),
        ({"facts": [[*FACT, 0.5]]}, 400),
        ({"facts": [FACT], "store": "facts"}, 400),  # a plain graph
    ):
        answer = writer.post("/add", json=wrong)
        assert answer.status_code == status, answer.text
    for body, kind, status in ((b"", "text/csv", 400), (b"a,b\n", "text/csv", 400), (b"x", "text/plain", 415)):
        answer = writer.post("/add", content=body, headers={"content-type": kind})
        assert answer.status_code == status, answer.text
        assert "tmp" not in answer.json()["error"]
    gone = writer.post("/remove", json={"facts": [["atlantis", "borders", "portugal"]]})
    assert (gone.json()["removed"], names(reader.post("/ask", json=QUERY))) == (1, {"spain"})


def test_what_others_change_on_disk_comes_with_reload(by: Any, path: Path) -> None:
    readers, writer = [by("reader") for _ in range(4)], by("writer")
    tuplet.open(path).add([tuple(FACT)])
    again = writer.post("/reload").json()  # the watch may have been quicker
    assert all(names(reader.post("/ask", json=QUERY)) == {"spain", "iceland"} for reader in readers)
    tuplet.open(path).remove([tuple(FACT)])
    until(lambda: names(readers[0].post("/ask", json=QUERY)) == {"spain"})  # the folder is watched
    assert all(names(reader.post("/ask", json=QUERY)) == {"spain"} for reader in readers)
    assert readers[0].get("/health").json()["stores"]["world"]["generation"] > again["stores"]["world"]["generation"]
    assert writer.post("/reload").json()["changed"] is False


def test_a_worker_that_comes_back_serves_what_all_serve(by: Any, two: Server, keys: dict[str, str], path: Path) -> None:
    """A store is changed on disk and a worker is killed: at no time do answers go back to the state before."""
    reader, writer = by("reader"), by("writer")
    headers = {"authorization": f"Bearer {keys['reader']}", "content-type": "application/json"}

    def generation() -> int:
        connection = HTTPConnection(two.url.removeprefix("http://"))  # a new one each time
        connection.request("POST", "/ask", json.dumps(QUERY), headers)
        answer = json.load(connection.getresponse())
        connection.close()
        number: int = answer["about"]["generation"]
        assert (number > first) == any(row["values"]["x"] == "iceland" for row in answer["answers"])
        return number

    def restarted() -> bool:
        healthy = reader.get("/health").json()["status"] == "ok"
        seen.append(generation())
        return healthy and seen[-1] > first

    assert writer.post("/reload").status_code == 200  # what was changed before is served
    first = tuplet.open(path).generation
    seen: list[int] = []
    assert generation() == first
    os.kill(two.workers()[0], signal.SIGKILL)
    tuplet.open(path).add([tuple(FACT)])
    seen += [generation() for _ in range(20)]
    until(restarted)
    seen += [generation() for _ in range(1000)]
    assert seen == sorted(seen)
    assert set(seen[-1000:]) == {first + 1}
    assert writer.post("/remove", json={"facts": [FACT]}).json()["removed"] == 1


def test_a_store_that_cannot_be_opened_stays_as_it_is(by: Any, path: Path) -> None:
    reader, writer = by("reader"), by("writer")
    manifest = path / "store.json"
    kept = manifest.read_bytes()
    manifest.write_bytes(b"{}")
    answer = writer.post("/reload")
    assert (answer.status_code, "stays" in answer.json()["error"]) == (503, True), answer.text
    assert reader.get("/health").json()["status"] == "degraded"
    assert str(path) in reader.get("/health").json()["problem"]
    for told in (by("facts").get("/health"), by("facts").post("/reload")):
        assert "the log says more" in told.text, "its key opens another store"
        assert str(path) not in told.text
    assert names(reader.post("/ask", json=QUERY)) == {"spain"}
    assert reader.get("/ready").json() == {"ready": True}  # it answers, with what it had
    manifest.write_bytes(kept)
    assert writer.post("/reload").status_code == 200
    assert reader.get("/health").json()["status"] == "ok"


def test_scopes_stores_and_expiry_of_keys(by: Any, two: Server, keys: dict[str, str]) -> None:
    allowed = {
        "reader": {"/ask": 200, "/add": 403, "/remove": 403, "/reload": 403},
        "writer": {"/ask": 200, "/add": 200, "/remove": 200, "/reload": 200},
        "admin": {"/ask": 200, "/add": 200, "/remove": 200, "/reload": 200},
        "facts": {"/ask": 200, "/add": 400, "/remove": 400, "/reload": 200},  # the plain graph cannot be changed
        "other": {"/ask": 403, "/add": 403, "/remove": 403, "/reload": 403},
        "old": {"/ask": 401, "/add": 401, "/remove": 401, "/reload": 401},
    }
    bodies: dict[str, Any] = {"/ask": QUERY, "/add": {"facts": []}, "/remove": {"facts": []}, "/reload": None}
    for name, wanted in allowed.items():
        client = by(name)
        found = {route: client.post(route, json=bodies[route]).status_code for route in wanted}
        assert found == wanted, name
    facts = by("facts")
    schema = facts.get("/schema").json()
    assert (schema["stores"], schema["store"]) == (["facts"], "facts")
    hidden = facts.post("/ask", json={**QUERY, "store": "world"})
    assert (hidden.status_code, "world" in hidden.json()["error"].split(";")[-1]) == (404, False)
    assert list(facts.get("/health").json()["stores"]) == ["facts"]
    assert facts.post("/ask", json=QUERY).json()["engine"] == "crisp"
    assert (facts.get("/metrics").status_code, by("reader").get("/metrics").status_code) == (403, 200)
    for host in ("[", "a b", "a%zz"):
        answer = facts.get("/sparql", headers={"host": host, "accept": "application/n-triples"})
        assert (answer.status_code, answer.json()["kind"]) == (400, "input"), host
    with two.client() as nobody:
        assert nobody.get("/health").json().keys() == {"status", "version", "workers", "serving"}
        assert nobody.get("/ready").status_code == 200
    # a new key opens at once, and a line that is gone closes
    key = add_key(keys["file"], "new")
    with two.client(headers={"authorization": f"Bearer {key}"}) as new:
        until(lambda: new.post("/ask", json=QUERY).status_code == 200)
        path = Path(keys["file"])
        path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("new:")))
        until(lambda: new.post("/ask", json=QUERY).status_code == 401)


def test_answers_are_tagged_by_generation_and_query(by: Any) -> None:
    reader, writer, other = by("reader"), by("writer"), by("reader")
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/ask", {"json": QUERY}),
        ("GET", "/schema", {}),
        ("GET", "/entity", {"params": {"name": "portugal"}}),
        ("GET", "/sparql", {"params": {"query": "SELECT ?x { ?x :borders :portugal }"}}),
    ]
    tags = []
    for method, route, given in asked:
        first = reader.request(method, route, **given)
        tags.append(first.headers["etag"])
        same = other.request(method, route, headers={"if-none-match": tags[-1]}, **given)
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tags[-1]), route
        assert same.headers["cache-control"] == "private, no-cache"
    assert len(set(tags)) == len(tags)
    changed = reader.post("/ask", json={**QUERY, "k": 3}, headers={"if-none-match": tags[0]})
    assert (changed.status_code, changed.headers["etag"] != tags[0]) == (200, True)
    cut = reader.post("/ask", json={"query": "?x, ?y : borders(?x, ?y) & borders(?y, ?x)", "k": 4000, "work": 1})
    assert (cut.json()["pruned"], "etag" in cut.headers) == ("work", False)  # another time it may go further
    cut = reader.get("/entity", params={"name": "portugal", "timeout": 1e-6})
    assert (cut.json()["pruned"], "etag" in cut.headers) == ("timeout", False)
    assert writer.post("/add", json={"facts": [FACT]}).status_code == 200
    for (method, route, given), tag in zip(asked, tags, strict=True):
        assert other.request(method, route, headers={"if-none-match": tag}, **given).status_code == 200, route
    writer.post("/remove", json={"facts": [FACT]})


def test_without_keys_nothing_is_changed(client: httpx.Client) -> None:
    answer = client.post("/add", json={"facts": [FACT]})
    assert (answer.status_code, answer.json()["kind"]) == (403, "scope")
    assert client.post("/reload").json()["changed"] is False


def test_an_older_generation_is_let_go(path: Path) -> None:
    service = Service({"world": tuplet.open(path)}, ServerLimits(), ServerMetrics())
    service.warm()
    old = weakref.ref(service.served.current["world"])
    tuplet.open(path).add([tuple(FACT)])
    service.served.prepare()
    assert service.served.current["world"] is old()
    service.served.switch()
    assert old() is None
    tuplet.open(path).remove([tuple(FACT)])


def test_what_changes_a_store_answers_as_described(by: Any) -> None:
    admin = by("admin")
    description = admin.get("/openapi.json").json()
    told = operations(description)
    fact = ["norway", "borders", "portugal"]
    table = {"content": "norway\tborders\tportugal\n", "headers": {"content-type": "text/tab-separated-values"}}
    tried: tuple[tuple[str, dict[str, Any]], ...] = (
        ("add", {"json": {"facts": [fact]}}),
        ("remove", {"json": {"facts": [fact]}}),
        ("add", table),
        ("remove", table),
        ("reload", {}),
        ("health", {}),
        ("add", {"json": {"facts": [["nowhere", "borders", "portugal"]]}}),
    )
    for name, sent in tried:
        method, path, operation = told[name]
        answer = admin.request(method, path, **sent)
        assert (answer.status_code == 200) == ("nowhere" not in str(sent)), answer.text
        described = operation["responses"][str(answer.status_code)]["content"]["application/json"]["schema"]
        check(answer.json(), described, description)


def test_writers_take_turns(path: Path) -> None:
    service = Service({"world": tuplet.open(path)}, ServerLimits(), ServerMetrics())
    editor = Editor(service.served)
    facts = [[(name, "borders", "portugal")] for name in ("iceland", "malta", "cyprus")]

    async def at_once() -> list[Any]:
        changes = (editor.change("world", lambda store, new=new: store.add(new, timeout=0.05)) for new in facts)
        return await asyncio.gather(*changes, return_exceptions=True)

    async def gone() -> None:
        task = asyncio.create_task(
            editor.change("world", lambda store: store.remove([fact for new in facts for fact in new]))
        )
        await asyncio.sleep(0)
        task.cancel()  # its client went away
        while service.served.current["world"].generation < first + 4:
            await asyncio.sleep(0.01)

    with asyncio.Runner() as loop:
        with locked(path):
            busy = loop.run(at_once())
        assert [problem(error)[0] for error in busy] == [409, 409, 409]
        assert str(path) not in str(busy[0])
        first = service.served.current["world"].generation
        done = loop.run(at_once())
        assert sorted(json.loads(reply.body)["generation"] for reply in done) == [first + 1, first + 2, first + 3]
        assert len(service.served.current["world"].ask(QUERY["query"], only="observed")) == 4
        loop.run(gone())
        assert len(service.served.current["world"].ask(QUERY["query"], only="observed")) == 1


def test_a_server_that_ends_says_so_first(by: Any, two: Server) -> None:  # the last test of this server
    reader = by("reader")
    assert reader.get("/ready").status_code == 200
    two.process.send_signal(signal.SIGTERM)
    until(lambda: reader.get("/ready").status_code == 503)
    assert reader.get("/ready").json()["kind"] == "stopping"
    assert "spain" in names(reader.post("/ask", json=QUERY))  # it answers nevertheless
    assert two.process.wait(60) == 0


def test_a_server_with_other_settings_has_other_tags() -> None:
    asked = request("GET", "/schema")
    assert asked.tag(b"one") == asked.tag(b"one") != asked.tag(b"two")
