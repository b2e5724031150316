"""The connections of one worker: uvicorn's protocol with limits on time, on the size of a head, and on connections.

These limits are part of the protocol, since they hold before there is a request that a middleware could see. Nothing is
timed per request: once a second all connections are looked at, and those that wait for too long are closed.

All workers accept from one listening socket. A worker that has more connections than another one leaves a new one to
the others for a moment, so that eight that come at once are spread; a worker that is gone or not ready takes none.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import mmap
import socket
from collections import Counter
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from tuplet.server.metrics import ServerMetrics

BACKLOG = 2048  # connections that wait to be accepted
LEFT_TIME = 0.25  # seconds for which new connections are left to workers that have fewer
MOMENT = 0.001  # seconds between two looks whether they have taken one
ALONE_TIME = 1.0  # seconds without leaving any to others, after they did not take one
PAUSE = 0.5  # seconds without accepting after an error such as too many open files
HEAD_TIME = 10.0  # seconds for the head of a request to arrive, from the connection or from its first byte
IDLE_TIME = 30.0  # seconds between two requests
LAST_TIME = 1.0  # seconds for a request that was on its way when the server began to stop
LINGER_TIME = 2.0  # seconds in which what nobody wants of a request is read and dropped, so that its answer is seen
SEND_TIME, SEND_LEAST = 30.0, 1 << 16  # a client that reads takes so many bytes in so many seconds
HEAD_SIZE, HEAD_LINES = 1 << 16, 100  # bytes, and header fields, of the head of a request
_REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LARGE = (431, f"the head of the request has more than {HEAD_SIZE:,} bytes or {HEAD_LINES} fields")
log = logging.getLogger("tuplet.server")


class Connection(HttpToolsProtocol):
    """One connection; it is idle before its first request and between two."""

    def __init__(self, connections: OpenConnections, address: str) -> None:
        super().__init__(connections.config, connections.state, {})
        self._all, self.address = connections, address
        self.since = self.loop.time()  # when it became idle, or the head of its request began
        self._heading = self._fresh = True  # a head is awaited, the first one
        self._chunk = self._head = 0  # bytes that came last; bytes since the last body
        self._refusal = (400, "this is not HTTP")
        self._unsent, self._unsent_since = 0, 0.0
        self._running: RequestResponseCycle | None = None  # of several that were sent at once, not the last
        self._unread = self._lingering = False  # the rest of a request is not read; it is dropped

    @property
    def busy(self) -> bool:
        """Whether a request is being answered, to the last byte."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return answering or self.transport.get_write_buffer_size() > 0

    # --- what arrives ----------------------------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)
        self._all.forget(self)

    def data_received(self, data: bytes) -> None:
        if self._lingering:
            return
        try:
            while data:
                data = self._feed(data)
        except httptools.HttpParserError:
            self.refuse(*self._refusal)
            return
        self._head += self._chunk
        if self._head > HEAD_SIZE:  # of a field that does not end, in a head or behind a body, the parser says nothing
            self.refuse(*_TOO_LARGE)

    def _feed(self, data: bytes) -> bytes:
        """Feed the parser with new bytes; returns bytes to be read again.

        A request may want another protocol, such as h2c, which HTTP lets a server pass over. But the parser then takes
        its body for that protocol: so it is read again without the wish.
        """
        self._chunk = len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            first = self.parser.get_method(), self.url, self.parser.get_http_version().encode()
            self.parser = httptools.HttpRequestParser(self)  # where the connection is to be closed, the old one is deaf
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            fields = [b"%b: %b\r\n" % pair for pair in self.headers if pair[0] != b"upgrade"]
            return b"%b %b HTTP/%b\r\n%b\r\n" % (*first, b"".join(fields)) + data[upgrade.args[0] :]
        return b""

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._heading:  # what stands behind a body is nothing that was checked, and nobody needs it
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._head = -self._chunk
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head = -self._chunk
        if not self._heading:
            super().on_message_complete()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._heading, self._fresh, self._head = True, False, -self._chunk
        self.since = self.loop.time()

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise httptools.HttpParserError
            return
        self._heading = False
        large = len(self.headers) > HEAD_LINES
        if self._chunk + self._head > HEAD_SIZE or self._chunk > HEAD_SIZE:  # or else it fits
            large |= len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > HEAD_SIZE
        if large:
            self._refusal = _TOO_LARGE
            raise httptools.HttpParserError  # the parser stops
        if self.parser.get_http_version() == "1.1" and not any(name == b"host" for name, _ in self.headers):
            self._refusal = (400, "a request has to say which host it is for")
            raise httptools.HttpParserError
        super().on_headers_complete()
        self._head = -self._chunk
        if self._all.draining:
            self.cycle.keep_alive = False

    def refuse(self, status: int, reason: str) -> None:
        """Answer an error that has no request yet, or lies in its body, and close."""
        log.info("%s: %s", self.address, reason)
        cycle = self.cycle
        if cycle is not None and cycle.more_body and not cycle.response_started and self._running is cycle:
            cycle.response_complete = cycle.disconnected = True  # nothing else is answered
            cycle.message_event.set()
        if self.busy or self.transport.is_closing():
            self.transport.abort()  # it would be read as a part of the answer that is being sent
            return
        body = json.dumps({"error": reason, "kind": "request"}).encode()
        head = "content-type: application/json\r\nx-content-type-options: nosniff\r\n"
        head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head.encode() + body)
        self.transport.close()

    # --- patience --------------------------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        """Go on with the next request, as uvicorn does, but without a timer."""
        self.since = self.loop.time()
        if self.transport.is_closing():
            return
        if self._unread:  # the other end sees what was sent before it learns that the rest is not read
            self._lingering = True
            self.transport.write_eof()
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            async def send_and_linger(message: Any) -> None:
                if cycle.more_body and message["type"] == "http.response.start":
                    # the rest of the request is not waited for
                    message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
                    await send(message)
                    self._unread = cycle.keep_alive = True  # uvicorn would close at once
                    return
                await send(message)

            await app(scope, receive, send_and_linger)

        super()._start_asgi_task(cycle, answer)

    def shutdown(self) -> None:
        """End after what is in flight; a request may be on its way over a connection that is new."""
        if self.busy or not self._heading:
            super().shutdown()

    def look(self, now: float) -> None:
        unsent = self.transport.get_write_buffer_size()
        if not unsent or self._unsent - unsent >= SEND_LEAST or not self._unsent:
            self._unsent, self._unsent_since = unsent, now
        elif now - self._unsent_since > SEND_TIME:
            log.info("%s: reads nothing of its answer", self.address)
            self.transport.abort()
        if self._lingering and now - self.since > LINGER_TIME:
            self.transport.abort()
        if self.busy or self.transport.is_closing():
            return
        if self._heading and now - self.since > (LAST_TIME if self._all.draining else HEAD_TIME):
            if not self._fresh:
                self.refuse(408, f"the head of the request took more than {HEAD_TIME:g} s")
            else:
                self.transport.close()
        elif now - self.since > IDLE_TIME:
            self.transport.close()


class ConnectionCounts:
    """The number of connections of each worker, in a file that all share; -1 for one that takes none."""

    def __init__(self, path: Path, slot: int = 0) -> None:
        with path.open("r+b") as file:
            self._slot, self._counts = slot, memoryview(mmap.mmap(file.fileno(), 0)).cast("i")

    def set(self, count: int, slot: int | None = None) -> None:
        self._counts[self._slot if slot is None else slot] = count

    def is_least(self) -> bool:
        return all(count < 0 or count >= self._counts[self._slot] for count in self._counts)


class OpenConnections:
    """All connections of a worker: at most `most`, and `most_each` from one address.

    Where there are as many, the connections that are idle for longest make room: a client that asks something gets in.
    """

    def __init__(
        self,
        app: Any,
        metrics: ServerMetrics,
        most: int = 4096,
        most_each: int = 3072,
        counts: ConnectionCounts | None = None,
    ) -> None:
        self.config = uvicorn.Config(
            app, http=Connection, ws="none", lifespan="off", interface="asgi3", log_config=None, access_log=False,
            server_header=False, proxy_headers=False,
        )  # fmt: skip
        self.config.load()
        self.state = ServerState()
        self._loop, self._metrics, self._counts = asyncio.get_running_loop(), metrics, counts
        self._most, self._most_each = most, most_each
        self.open: set[Connection] = set()
        self._count, self._from = 0, Counter[str]()  # those that are being made count, too
        self._tasks: set[asyncio.Task[None]] = set()
        self._empty = asyncio.Event()
        self._listening: socket.socket | None = None
        self._alone_until = self._complained = self._left_since = self._left_last = -1e9
        self.draining = False
        self._tick()

    # --- accepting -------------------------------------------------------------------------------------------------

    def listen(self, listening: socket.socket) -> None:
        """Accept connections from a socket from now on."""
        self._listening = listening
        listening.setblocking(False)
        self._add(0)
        self._loop.add_reader(listening, self._accept)

    def _accept(self) -> bool:
        """Take a connection, or leave it to others; returns whether there was one to take."""
        listening, now = self._listening, self._loop.time()
        if listening is None or self._leave(now):
            return False
        try:
            connection, address = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False
        except OSError as error:
            self._complain(error)
            self._pause(PAUSE)
            return False
        self.take(connection, address[0])
        return True

    def _leave(self, now: float) -> bool:
        """Whether a connection is left to workers that have fewer: while they take them in time."""
        if self.draining or self._counts is None or now < self._alone_until or self._counts.is_least():
            return False
        if now - self._left_last > 10 * MOMENT:  # another connection than the last time
            self._left_since = now
        self._left_last = now
        if now - self._left_since > LEFT_TIME:
            self._alone_until = now + ALONE_TIME
            return False
        self._pause(MOMENT)
        return True

    def _pause(self, seconds: float) -> None:
        assert self._listening is not None
        self._loop.remove_reader(self._listening)
        self._loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        if self._listening is not None:
            self._loop.add_reader(self._listening, self._accept)

    def _complain(self, error: OSError) -> None:
        """Once a minute: an error that lasts must not fill the disk."""
        now = self._loop.time()
        if now - self._complained > 60:
            self._complained = now
            many = error.errno in (errno.EMFILE, errno.ENFILE)
            advice = "; raise the limit of open files (LimitNOFILE, ulimit -n)" if many else ""
            log.warning("cannot accept connections: %s%s", error.strerror, advice)

    def take(self, connection: socket.socket, address: str) -> None:
        full = self._from[address] >= self._most_each
        if (full or self._count >= self._most) and not self.make_room(1 + self._most // 50, address if full else None):
            self._metrics.count("tuplet_connections_refused_total")
            with suppress(OSError):
                connection.setblocking(False)
                connection.send(_REFUSAL)
            connection.close()
            return
        self._add(1, address)
        task = self._loop.create_task(self._serve(connection, address))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: socket.socket, address: str) -> None:
        try:
            connection.setblocking(False)
            _, made = await self._loop.connect_accepted_socket(lambda: Connection(self, address), connection)
        except OSError:  # gone already
            connection.close()
            self._add(-1, address)
            return
        if made.transport.is_closing():
            self._add(-1, address)
            return
        self.open.add(made)
        if self.draining:
            made.shutdown()

    def forget(self, connection: Connection) -> None:
        if connection in self.open:
            self.open.discard(connection)
            self._add(-1, connection.address)

    def _add(self, change: int, address: str = "") -> None:
        self._count += change
        self._from[address] += change
        if not self._from[address]:
            del self._from[address]
        if self._counts is not None and not self.draining:
            self._counts.set(self._count)
        if not self._count:
            self._empty.set()

    def make_room(self, count: int, address: str | None = None) -> int:
        """Close the connections that are idle longest, of one address if given; returns their number."""
        idle = [one for one in self.open if not one.busy and address in (None, one.address)]
        chosen = sorted(idle, key=lambda one: one.since)[:count]
        for one in chosen:
            self.forget(one)
            one.transport.abort()
        return len(chosen)

    # --- time ------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        self._metrics.connections.set(self._count)
        self.look(self._loop.time())
        self._loop.call_later(1.0, self._tick)

    def look(self, now: float) -> None:
        for one in list(self.open):
            one.look(now)

    async def drain(self, patience: float) -> None:
        """Accept waiting connections, close idle ones, finish the others within `patience` seconds."""
        self.draining = True
        for _ in range(BACKLOG):
            if not self._accept():
                break
        if self._listening is not None:
            self._loop.remove_reader(self._listening)
            self._listening.close()
            self._listening = None
        if self._counts is not None:
            self._counts.set(-1)
        for one in list(self.open):
            one.shutdown()
        self._empty.clear()
        if self._count:
            try:
                await asyncio.wait_for(self._empty.wait(), patience)
            except TimeoutError:
                log.warning("%d requests were cut off", self._count)
