"""The connections of one worker: uvicorn's protocol with patience that ends, and a head that fits.

Nothing is timed per request: once a second all connections are looked at, and those that wait for too long are closed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Callable
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from tuplet.server.control import Control

HEAD_TIME = 10.0  # seconds for the head of a request to arrive, from the connection or from its first byte
IDLE_TIME = 30.0  # seconds between two requests
LAST_TIME = 1.0  # seconds for a request that was on its way when the server was told to stop
LINGER_TIME = 2.0  # seconds in which what nobody wants of a request is read and dropped, so that its answer is seen
SEND_TIME, SEND_LEAST = 30.0, 1 << 16  # a client that reads takes so many bytes in so many seconds
HEAD_SIZE, HEAD_LINES = 1 << 16, 100  # bytes, and header fields, of the head of a request
_TOO_LARGE = (431, f"the head of the request has more than {HEAD_SIZE:,} bytes or {HEAD_LINES} fields")
log = logging.getLogger("tuplet.server")


class Exchange(RequestResponseCycle):
    """One request and its answer, whose head leaves together with the first bytes of its body: one call, one packet."""

    _pending = b""  # the head, until then
    linger: Callable[[], None]
    _left: int | None = None  # bytes of the body that are still to come; None where their number was not told

    async def send(self, message: Any) -> None:
        """Take a message of the application."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if not self.response_started:
            self.response_started = True
            self.waiting_for_100_continue = False
            self._pending = self._head(message["status"], message["headers"])
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if self.scope["method"] == "HEAD":
            body = b""
        elif self._left is not None:
            self._left -= len(body)
            if self._left < 0 or (self._left and not more):
                raise RuntimeError("the body is not as long as was told")
        elif self.chunked_encoding:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"" if more else b"0\r\n\r\n")
        if self._pending:
            body, self._pending = self._pending + body, b""
        self.transport.write(body)
        if not more:
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self.linger() if self.more_body else self.transport.close()
            self.on_response()

    def _head(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        closing = (b"connection", b"close")
        if self.more_body or closing in headers:  # the rest of the request is not waited for
            self.keep_alive = False
        headers = [*self.default_headers, *(pair for pair in headers if pair != closing)]
        if self.scope["method"] != "HEAD" and status not in (204, 304):
            told = [int(value) for name, value in headers if name == b"content-length"]
            if told:
                [self._left] = told
            else:
                self.chunked_encoding = True
                headers.append((b"transfer-encoding", b"chunked"))
        if not self.keep_alive:
            headers.append(closing)
        head = STATUS_LINE[status] + b"".join([b"%b: %b\r\n" % pair for pair in headers]) + b"\r\n"
        if not head.count(b"\n") == head.count(b"\r") == len(headers) + 2 or b"\0" in head:
            raise RuntimeError("a header breaks its line")
        return head


class Connection(HttpToolsProtocol):
    """One connection. It is idle before its first request and between two."""

    def __init__(self, number: int, connections: OpenConnections) -> None:
        super().__init__(connections.config, connections.state, {})
        self.number, self._all = number, connections
        self.since = self.loop.time()  # when it became idle, or the head of its request began
        self._heading = self._fresh = True  # a head is awaited, the first one
        self._chunk = self._head = 0  # bytes that arrived last; after those, bytes that are no body
        self._refusal = (400, "this is not HTTP")
        self._unsent, self._unsent_since = 0, 0.0
        self._running: RequestResponseCycle | None = None  # of several that were sent at once, not the last
        self._lingering = False

    @property
    def busy(self) -> bool:
        """Whether a request is being answered, to the last byte."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return answering or self.transport.get_write_buffer_size() > 0

    @property
    def address(self) -> str:
        """Who is at the other end."""
        return self.client[0] if self.client else ""

    # --- what arrives ----------------------------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)
        self._all.lost(self)

    def data_received(self, data: bytes) -> None:
        if self._lingering:
            return
        try:
            while data:
                data = self._fed(data)
        except httptools.HttpParserError:
            self.refuse(*self._refusal)
            return
        self._head += self._chunk
        if self._head > HEAD_SIZE:  # of a field that does not end, in a head or behind a body, the parser says nothing
            self.refuse(*_TOO_LARGE)

    def _fed(self, data: bytes) -> bytes:
        """Let the parser have what arrived; returns what is to be read again.

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
        address = httptools.parse_url(self.url)
        path = address.path.decode("ascii")
        self.scope["method"] = self.parser.get_method().decode("ascii")
        self.scope["http_version"] = version = self.parser.get_http_version()
        self.scope["path"] = unquote(path) if "%" in path else path
        self.scope["raw_path"], self.scope["query_string"] = address.path, address.query or b""
        before, self.cycle = self.cycle, Exchange(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=version != "1.0" and self.parser.should_keep_alive() and not self._all.draining,
            on_response=self.on_response_complete,
        )  # fmt: skip
        self.cycle.linger = self._linger
        self._head = -self._chunk
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:  # one after another
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def refuse(self, status: int, reason: str) -> None:
        """Say what is wrong before there is a request, or in its body, and close."""
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
        """As before, but without a timer."""
        self.since = self.loop.time()
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _linger(self) -> None:
        """Send nothing more, but let the other end see what was sent before it learns that the rest is not read."""
        self._lingering = True
        self.transport.write_eof()

    def shutdown(self) -> None:
        """End after what is in flight; a request may be on its way over a connection that is new."""
        if self.busy or not self._heading:
            super().shutdown()

    def look(self, now: float) -> None:
        """End what waits for too long."""
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


class OpenConnections:
    """All connections of a worker; its parent accepts them, and is told of each that it is taken, and that it ended."""

    def __init__(self, app: Any, control: Control) -> None:
        self.config = uvicorn.Config(
            app, http=Connection, ws="none", lifespan="off", interface="asgi3", log_config=None, access_log=False,
            server_header=False, proxy_headers=False,
        )  # fmt: skip
        self.config.load()
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
        self.state = ServerState()
        self._control, self._loop = control, asyncio.get_running_loop()
        self._taken: list[int] = []
        self._closed: list[int] = []
        self._open: dict[int, Connection | None] = {}  # None while it is being made
        self._tasks: set[asyncio.Task[None]] = set()
        self._empty = asyncio.Event()
        self.draining = False
        control.on("connection", self.take)
        control.on("shed", self.shed)
        self._tick()

    def take(self, id: int, connection: socket.socket) -> None:
        """Serve a connection."""
        self._open[id] = None
        self._later(self._taken, id)
        task = self._loop.create_task(self._serve(id, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, number: int, connection: socket.socket) -> None:
        try:
            connection.setblocking(False)
            _, made = await self._loop.connect_accepted_socket(lambda: Connection(number, self), connection)
        except OSError:  # gone already
            connection.close()
            self._forget(number)
            return
        if number in self._open:
            self._open[number] = made
            if self.draining:
                made.shutdown()

    def lost(self, connection: Connection) -> None:
        """A connection has ended."""
        self._forget(connection.number)

    def _forget(self, number: int) -> None:
        if self._open.pop(number, self) is not self:
            self._later(self._closed, number)
        if not self._open:
            self._empty.set()

    def _later(self, numbers: list[int], number: int) -> None:
        """Tell the parent, of all that happens in one turn of the loop at once."""
        if not self._taken and not self._closed:
            self._loop.call_soon(self._report)
        numbers.append(number)

    def _report(self) -> None:
        for kind, numbers in (("taken", self._taken), ("closed", self._closed)):
            if numbers and not self._control.closed.done():
                self._control.tell(kind, ids=numbers.copy())
            numbers.clear()

    def shed(self, count: int, address: str | None = None) -> dict[str, int]:
        """Close so many idle connections, those that are idle for longest, if given of one address."""
        idle = [one for one in self._open.values() if one is not None and not one.busy]
        if address is not None:
            idle = [one for one in idle if one.address == address]
        chosen = sorted(idle, key=lambda one: one.since)[:count]
        for one in chosen:
            self._forget(one.number)
            one.transport.abort()
        self._report()  # before the reply
        return {"closed": len(chosen)}

    def _tick(self) -> None:
        self.state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        now = self._loop.time()
        for one in list(self._open.values()):
            if one is not None:
                one.look(now)
        self._loop.call_later(1.0, self._tick)

    async def drain(self, patience: float) -> None:
        """Close what is idle, finish what is not; what takes longer than `patience` is cut off."""
        self.draining = True
        for one in list(self._open.values()):
            if one is not None:
                one.shutdown()
        self._empty.clear()
        if self._open:
            try:
                await asyncio.wait_for(self._empty.wait(), patience)
            except TimeoutError:
                log.warning("%d requests were cut off", len(self._open))
        self._report()
