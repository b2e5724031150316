"""Answers are bounded in bytes and compressed; queries are bounded in words; memory is shared."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import re
import threading
from collections.abc import Iterator
from contextvars import copy_context
from typing import Any

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest
from running_server import request

from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.query.source import Source
from tuplet.server import models
from tuplet.server.app import Application
from tuplet.server.encoding import json_pieces, to_lines
from tuplet.server.limits import LARGE, Outgoing, Sending, ServerLimits, TooBusy
from tuplet.server.logs import NOTES, RequestNotes
from tuplet.server.metrics import ServerMetrics
from tuplet.server.service import Service
from tuplet.store import Store

ROWS, MOST = 2000, 100_000
ALL = {"query": "?x : r(?x, hub)", "k": ROWS}


@pytest.fixture(scope="module")
def service() -> Service:
    names = Vocabulary.from_names(["hub", *(f"node-{i:05}" for i in range(ROWS))])
    heads, none = np.arange(1, ROWS + 1), np.zeros(ROWS, int)
    graph = KnowledgeGraph.from_edges(names, Vocabulary.from_names(["r"]), heads, none, none)
    limits = ServerLimits(max_answer_bytes=MOST, max_sending=4 * MOST)
    return Service({"hub": Store(Source(graph))}, limits, ServerMetrics())


@pytest.fixture(scope="module")
def application(service: Service) -> Application:
    return Application(service)


class Client:
    """Asks an application in this process; `encoding` is what it takes, and nothing is unpacked."""

    def __init__(self, app: Application) -> None:
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")
        self._runner = asyncio.Runner()

    def post(self, body: dict[str, Any], path: str = "/ask", encoding: str = "") -> httpx.Response:
        return self._runner.run(self._client.post(path, json=body, headers={"accept-encoding": encoding}))

    def get(self, path: str, encoding: str = "") -> httpx.Response:
        return self._runner.run(self._client.get(path, headers={"accept-encoding": encoding}))


@pytest.fixture(scope="module")
def client(application: Application) -> Iterator[Client]:
    client = Client(application)
    with client._runner:
        yield client


def test_what_does_not_fit_is_left_out_and_said(client: Client, service: Service) -> None:
    whole = client.post({**ALL, "k": 300}).json()
    assert (len(whole["answers"]), whole["pruned"], whole["bound"]) == (300, None, 1.0)
    response = client.post(ALL)
    found = response.json()
    assert (found["pruned"], found["bound"]) == ("bytes", 1.0)
    assert 300 < len(found["answers"]) < ROWS
    assert found["answers"][:300] == whole["answers"]
    assert MOST - 1000 < len(response.content) < MOST + 1000
    assert int(response.headers["content-length"]) == len(response.content)
    head, *lines = client.post({**ALL, "format": "ndjson"}).text.splitlines()
    assert (json.loads(head)["pruned"], len(lines)) == ("bytes", len(found["answers"]))
    sparql = client.get("/sparql?query=SELECT%20%3Fx%20%7B%20%3Fx%20%3Ar%20%3Ahub%20%7D%20LIMIT%202000").json()
    assert (sparql["tuplet"]["pruned"], len(sparql["results"]["bindings"]) < ROWS) == ("bytes", True)


def test_tables_are_cut_to_whole_rows(client: Client, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "limits", ServerLimits(max_answer_bytes=20_000))
    response = client.post({**ALL, "format": "csv"})
    assert response.headers["tuplet-pruned"] == "bytes"
    header, *rows = response.text.splitlines()
    assert header.startswith('"x"')
    assert 100 < len(rows) < ROWS
    assert all(row.count(",") == header.count(",") for row in rows)
    monkeypatch.setattr(service, "limits", ServerLimits(max_answer_bytes=8_000))
    response = client.post({**ALL, "format": "parquet"})
    assert response.headers["tuplet-pruned"] == "bytes"
    assert 1 <= pq.read_table(io.BytesIO(response.content)).num_rows < ROWS


def test_a_batch_shares_the_bytes_of_one_request(client: Client) -> None:
    one = {"query": ALL["query"], "k": 300}
    whole, cut, *others = client.post({"queries": [one] * 5}).json()["results"]
    assert (whole["pruned"], cut["pruned"]) == (None, "bytes")
    assert [other["limit"] for other in others] == ["bytes"] * 3


@pytest.mark.parametrize("form", ["json", "ndjson", "csv"])
def test_gzip_where_it_is_taken(client: Client, form: str) -> None:
    body = {**ALL, "k": 500, "format": form}
    plain, packed = client.post(body), client.post(body, encoding="gzip, br")
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert "accept-encoding" in packed.headers["vary"]
    sizes = int(packed.headers["content-length"]), int(plain.headers["content-length"])
    assert sizes[0] < sizes[1] / 5

    def same(text: bytes) -> bytes:
        return re.sub(rb'"elapsed_ms":[0-9.]+', b"", text)

    assert same(packed.content) == same(plain.content)  # httpx unpacks it


def test_small_answers_are_not_compressed(client: Client) -> None:
    response = client.post({**ALL, "k": 1}, encoding="gzip")
    assert len(response.content) < 1024
    assert "content-encoding" not in response.headers
    assert client.get("/schema", encoding="gzip").json() == client.get("/schema").json()


def test_answers_on_their_way_are_bounded(service: Service, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """For clients that do not read: what waits for them is counted, and beyond a limit nothing more is sent."""
    monkeypatch.setattr("tuplet.server.limits.LARGE", 2000)
    sending = Sending(100_000)
    monkeypatch.setattr(service, "sending", sending)
    assert client.post({**ALL, "k": 200}).status_code == 200
    assert not sending.owners, "all was sent"
    assert sending.takes("somebody", 90_000)
    refused = client.post({**ALL, "k": 200})
    assert (refused.status_code, refused.json()["kind"]) == (429, "busy")
    assert client.post({**ALL, "k": 2}).status_code == 200
    sending.sent("somebody", 90_000)
    assert len(client.post({**ALL, "k": 200}).json()["answers"]) == 200


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_answers_are_counted_while_they_are_written(service: Service, form: str) -> None:
    """For clients that do not read nothing is written either, from the first slice on for which there is no room."""
    sending = Sending(4 << 20)
    whole = Service(service.stores, ServerLimits(max_answer_bytes=1 << 30), ServerMetrics())
    answers = whole.answer(models.AskRequest(query=ALL["query"], k=ROWS), whole.limits.deadline())
    write = {"json": json_pieces, "ndjson": to_lines}[form]

    def written() -> int:
        outgoing = Outgoing(sending, "somebody")
        NOTES.set(RequestNotes(outgoing=outgoing))
        try:
            return sum(map(len, write(answers, whole.limits.deadline())))
        finally:
            most.append(sending.owners["somebody"])
            outgoing.close()

    most: list[int] = []
    context = copy_context()
    size = context.run(written)
    assert LARGE < size < 2 << 20, "or else this tests nothing"
    assert 0 <= size - most[0] < 1000, "all but the head was counted"
    assert sending.takes("somebody", (2 << 20) - size // 2)
    with pytest.raises(TooBusy, match="on their way"):
        context.run(written)
    assert most[1] < 2 << 20
    assert sending.owners == {"somebody": (2 << 20) - size // 2}, "what was refused is not counted any more"


def test_an_answer_that_is_closed_while_it_grows_is_not_counted() -> None:
    """Nobody waits for it any more, at the moment at which a thread that writes it has taken its room."""

    class Interrupted(Sending):
        def takes(self, owner: str, size: int, already: int = 0) -> bool:
            taken = super().takes(owner, size, already)
            closing.start()
            closing.join(0.1)  # it may wait for the end of this
            return taken

    sending = Interrupted(4 * LARGE)
    outgoing = Outgoing(sending, "somebody")
    closing = threading.Thread(target=outgoing.close)
    outgoing.add(2 * LARGE)
    closing.join()
    assert not sending.owners
    with pytest.raises(TooBusy):
        outgoing.add(1)


def test_requests_on_their_way_are_bounded(application: Application, service: Service) -> None:
    """For clients that send slowly: what they have sent is counted, and that of strangers is not even read."""

    async def asked(path: str, *headers: tuple[bytes, bytes], read: bool = True) -> int:
        async def receive() -> dict[str, Any]:
            assert read
            assert service.arriving.owners == {"127.0.0.1": 300_000}
            return {"type": "http.request", "body": b"{}", "more_body": False}

        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "client": ("127.0.0.1", 1)}
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        fields = [(b"host", b"localhost"), (b"content-type", b"application/json"), *headers]
        await application({**scope, "headers": fields}, receive, send)
        return int(sent[0]["status"])

    async def run() -> None:
        large = (b"content-length", b"300000")
        assert await asked("/ask", large) == 400
        assert not service.arriving.owners, "it has arrived"
        assert await asked("/ready", large, read=False) == 405
        assert service.arriving.takes("127.0.0.1", 300_000)
        assert await asked("/ask", large, read=False) == 429
        assert await asked("/ask", (b"transfer-encoding", b"chunked"), read=False) == 429
        service.arriving.sent("127.0.0.1", 300_000)

    asyncio.run(run())


def test_words_are_counted_before_a_tree_is_made(client: Client) -> None:
    long = "?x : " + "&".join(["(r(?x,a)|s(?x,b))"] * 5500)
    for path in ("/ask", "/plan"):
        response = client.post({"query": long}, path)
        assert (response.status_code, response.json()["limit"]) == (422, "tokens")
    assert client.post({"query": long}, "/parse").json()["problem"]["limit"] == "tokens"
    names = " ".join(f":node-{i:05}" for i in range(ROWS))
    listed = client.post({"query": f"SELECT ?x {{ VALUES ?x {{ {names} }} ?x :r :hub }} LIMIT 3"}).json()
    assert len(listed["answers"]) == 3


def test_neither_the_loop_nor_a_search_waits_for_what_is_no_search(application: Application, service: Service) -> None:
    """Reading, writing and looking things up is done in one thread, one after another."""
    held = threading.Event()

    def long() -> bytes:
        assert held.wait(60)
        return b""

    async def run() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://localhost") as client:
            drawn = (await client.post("/parse", json={"query": ALL["query"]})).json()["graph"]
            busy = asyncio.create_task(service.aside(request("POST", "/parse"), long))
            await asyncio.sleep(0)
            others = [
                asyncio.create_task(one)
                for one in (
                    client.post("/parse", json={"query": ALL["query"]}),
                    client.post("/write", json=drawn),
                    client.get("/schema"),
                    client.get("/schema/entities?search=node"),
                    client.post("/schema/labels", json={"names": ["hub"]}),
                )
            ]
            assert (await client.post("/ask", json={**ALL, "k": 1})).status_code == 200
            assert (await client.get("/health")).status_code == 200
            assert not any(one.done() for one in others)
            held.set()
            assert [(await one).status_code for one in others] == [200] * 5
            await busy

    asyncio.run(run())


def test_what_there_is_is_described_once(service: Service) -> None:
    assert service.describe("hub")["relations"] is service.describe("hub")["relations"]


def test_memory_is_shared_among_the_searches() -> None:
    settled = ServerLimits().settled(workers=1000).max_memory
    assert settled is not None
    assert settled <= (ServerLimits().settled(workers=1).max_memory or 0)
    assert ServerLimits(max_memory=5).settled(workers=2).max_memory == 5


def test_no_plug_in_is_loaded_because_a_request_names_it(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.warm()
    looked_up = list[str]()
    monkeypatch.setattr("tuplet.settings._load_object", lambda place: looked_up.append(place))
    for engine in ("crisp", "os:system", "betae", "tuplet.engines.brute:Brute"):
        client.post({**ALL, "k": 1, "engine": engine})
    assert looked_up == []


def test_packed_bytes_are_gzip(service: Service) -> None:
    from tuplet.server.encoding import packed

    pieces = [b"a" * 5000, b"b" * 5000, b""]
    assert gzip.decompress(b"".join(packed(pieces))) == b"".join(pieces)


def test_a_body_that_breaks_off_is_not_taken_for_a_whole_one(application: Application) -> None:
    """Half a table would change half of the facts."""
    messages = [{"type": "http.disconnect"}, {"type": "http.request", "body": b"{", "more_body": True}]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"9")]
    scope = {"type": "http", "method": "POST", "path": "/ask", "query_string": b"", "headers": headers}
    asyncio.run(application(scope, receive, send))
    assert sent[0]["status"] == 499
