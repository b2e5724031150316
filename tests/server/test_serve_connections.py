"""The connections of a worker: who waits for too long is closed, and what is not HTTP is refused."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from uvicorn.loops.auto import auto_loop_factory

from tuplet.server.connections import (
    HEAD_SIZE,
    HEAD_TIME,
    IDLE_TIME,
    LAST_TIME,
    LINGER_TIME,
    SEND_TIME,
    Connection,
    OpenConnections,
)
from tuplet.server.metrics import ServerMetrics

REQUEST = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
CLOSE = b"connection: close\r\n\r\n"
GONE: list[str] = []
LARGE = 20 << 20  # bytes, more than the buffers of the system hold


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Says its path; or much, to whoever reads it."""
    if scope["path"] == "/wait":
        while (await receive())["type"] != "http.disconnect":
            pass
        GONE.append(scope["path"])
        return
    body = b"x" * LARGE if scope["path"] == "/large" else scope["path"].encode()
    if scope["path"] == "/echo":
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        body += b"".join(b"|%b=%b" % pair for pair in scope["headers"])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


class Watched(OpenConnections):
    """Notes which connections have ended, by their number."""

    def __init__(self) -> None:
        super().__init__(app, ServerMetrics())
        self.numbers: dict[Connection, int] = {}
        self.closed: list[int] = []

    def forget(self, connection: Connection) -> None:
        if connection in self.open:
            self.closed.append(self.numbers[connection])
        super().forget(connection)


class Worker:
    """Connections of a worker, and their clients."""

    def __init__(self) -> None:
        self.connections = Watched()
        self.closed = self.connections.closed

    async def connect(self, sent: bytes = b"") -> socket.socket:
        """A client that has sent something."""
        client, served = socket.socketpair()
        before = self.connections.open.copy()
        self.connections.take(served, "")
        while not (new := self.connections.open - before):
            await asyncio.sleep(0)
        self.connections.numbers[new.pop()] = len(self.connections.numbers) + 1
        client.setblocking(False)
        await asyncio.get_running_loop().sock_sendall(client, sent)
        await asyncio.sleep(0.02)
        return client

    def pass_time(self, seconds: float) -> None:
        """As if so much time had passed."""
        self.connections.look(asyncio.get_running_loop().time() + seconds)


async def received(client: socket.socket) -> bytes:
    """All that comes until the connection is closed."""
    loop, parts = asyncio.get_running_loop(), [b""]
    async with asyncio.timeout(120):
        while part := await loop.sock_recv(client, 1 << 16):
            parts.append(part)
    return b"".join(parts)


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what the other side brings about."""
    async with asyncio.timeout(120):
        while not holds():
            await asyncio.sleep(0.005)


def with_worker(test: Callable[[Worker], Awaitable[None]]) -> Callable[[], None]:
    """Runs a test inside an event loop."""

    async def run() -> None:
        await test(Worker())

    def running() -> None:
        with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
            runner.run(run())

    running.__doc__ = test.__doc__
    return running


@with_worker
async def test_who_sends_nothing_or_half_a_head_is_closed(worker: Worker) -> None:
    silent, half = await worker.connect(), await worker.connect(REQUEST[:20])
    asked = await worker.connect(REQUEST)
    worker.pass_time(HEAD_TIME - 1)
    await asyncio.sleep(0.02)
    assert worker.closed == []
    worker.pass_time(HEAD_TIME + 1)
    assert await received(silent) == b""
    assert (await received(half)).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    await until(lambda: len(worker.closed) == 2)
    assert sorted(worker.closed) == [1, 2]
    worker.pass_time(IDLE_TIME + 1)
    assert (await received(asked)).startswith(b"HTTP/1.1 200 OK\r\n")


@with_worker
async def test_who_does_not_read_is_cut_off(worker: Worker) -> None:
    client = await worker.connect(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n")
    worker.pass_time(0)
    worker.pass_time(SEND_TIME - 1)
    await asyncio.sleep(0.02)
    assert worker.closed == []
    worker.pass_time(SEND_TIME + 1)
    await until(lambda: worker.closed == [1])
    with client:
        pass
    reader = await worker.connect(b"GET /large HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    taken = 0
    for i in range(20):  # one that reads slowly is not
        worker.pass_time(20.0 * i)
        for _ in range(32):
            taken += len(await asyncio.get_running_loop().sock_recv(reader, 1 << 15))
        await asyncio.sleep(0)
    assert taken + len(await received(reader)) > LARGE


@with_worker
async def test_the_longest_idle_make_room_and_the_busy_stay(worker: Worker) -> None:
    busy = await worker.connect(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n")
    idle = [await worker.connect(REQUEST) for _ in range(3)]
    assert worker.connections.make_room(2) == 2
    assert worker.closed == [2, 3]
    assert worker.connections.make_room(5, "192.0.2.1") == 0
    assert worker.connections.make_room(5) == 1
    assert all([(await received(one)).startswith(b"HTTP/1.1 200") for one in idle])
    assert busy.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00", 400),  # TLS
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\nabcd", 400),
        (b"GET / HTTP/1.1\r\nhost: a\r\na: " + b"b" * HEAD_SIZE, 431),
        (b"GET /" + b"b" * HEAD_SIZE + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 101 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\na: b\r\n\r\n", 400),  # for no host
        (b"POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\nzz\r\n", 400),
    ],
)  # fmt: skip
def test_what_is_not_a_request_is_refused_and_closed(sent: bytes, status: int) -> None:
    @with_worker
    async def check(worker: Worker) -> None:
        answer = await received(await worker.connect(sent + REQUEST))
        assert answer.startswith(b"HTTP/1.1 %d " % status), answer
        assert answer.count(b"HTTP/1.1 ") == 1, "and what came behind it is not served"
        assert b'{"error": ' in answer

    check()


def test_a_client_that_leaves_within_its_body_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    @with_worker
    async def check(worker: Worker) -> None:
        client = await worker.connect(b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 500\r\n\r\n{")
        client.close()
        await asyncio.sleep(0.1)
        assert b"200 OK" in await received(await worker.connect(REQUEST[:-2] + CLOSE))

    check()
    assert not [record for record in caplog.records if record.exc_info], caplog.text


@with_worker
async def test_a_head_behind_a_large_body_is_not_taken_for_a_part_of_it(worker: Worker) -> None:
    first = b"POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % HEAD_SIZE + b"x" * HEAD_SIZE
    client = await worker.connect(first + REQUEST[:20])
    await asyncio.get_running_loop().sock_sendall(client, REQUEST[20:-2] + b"connection: close\r\n\r\n")
    assert (await received(client)).count(b"HTTP/1.1 200 OK") == 2


@with_worker
async def test_what_is_left_of_a_refused_body_is_dropped_and_its_answer_is_seen(worker: Worker) -> None:
    client = await worker.connect(b"POST /unread HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999\r\n\r\n" + b"x" * 5000)
    await asyncio.get_running_loop().sock_sendall(client, b"x" * 500_000)
    answer = await received(client)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"connection: close" in answer
    worker.pass_time(LINGER_TIME + 1)
    await until(lambda: worker.closed == [1])


@with_worker
async def test_of_several_requests_at_once_the_first_learns_that_the_client_went(worker: Worker) -> None:
    client = await worker.connect((REQUEST * 3).replace(b" / ", b" /wait "))
    client.close()
    await until(lambda: GONE == ["/wait"])


@with_worker
async def test_the_end_waits_for_requests_that_are_on_their_way(worker: Worker) -> None:
    idle, new = await worker.connect(REQUEST), await worker.connect()
    silent = await worker.connect()
    ending = asyncio.ensure_future(worker.connections.drain(10))
    assert (await received(idle)).startswith(b"HTTP/1.1 200 OK\r\n")
    await asyncio.get_running_loop().sock_sendall(new, REQUEST)
    answer = await received(new)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"connection: close" in answer
    assert not ending.done()
    worker.pass_time(LAST_TIME + 1)
    assert await received(silent) == b""
    await ending


@with_worker
async def test_another_protocol_is_not_taken_up_and_not_complained_about(worker: Worker) -> None:
    head = b"GET /a HTTP/1.1\r\nhost: a\r\nconnection: upgrade, close\r\nupgrade: websocket\r\n\r\n"
    answer = await received(await worker.connect(head))
    assert answer.endswith(b"\r\n\r\n/a")
    # as Java's HttpClient and `curl --http2` send it
    head = b"POST /echo HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 4\r\n\r\n"
    answer = await received(
        await worker.connect(500 * (head + b"body") + REQUEST.replace(b"/", b"/last", 1)[:-2] + CLOSE)
    )
    assert answer.count(b"/echobody|") == 500
    assert answer.endswith(b"/last")
    answer = await received(await worker.connect(b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n"))
    assert answer.startswith(b"HTTP/1.1 400 ")


@with_worker
async def test_what_stands_behind_a_body_is_dropped_and_does_not_go_on_for_ever(worker: Worker) -> None:
    head = b"POST /echo HTTP/1.1\r\nhost: a\r\nauthorization: a\r\ntransfer-encoding: chunked\r\n" + CLOSE
    answer = await received(await worker.connect(head + b"4\r\nbody\r\n0\r\nauthorization: b\r\n\r\n"))
    assert b"/echobody|host=a|authorization=a|" in answer
    assert b"authorization=b" not in answer
    for begun, endless in ((b"0\r\nx: ", b"yyyyyy"), (b"0\r\n", b"x: y\r\n"), (b"4;", b"xxxxxx")):
        client = await worker.connect(head + begun)
        with pytest.raises(ConnectionError):
            await asyncio.get_running_loop().sock_sendall(client, endless * 1_000_000)
