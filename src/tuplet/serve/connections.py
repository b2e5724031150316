"""The connections of one worker: uvicorn's protocol with patience that ends, and a head that fits.

Nothing is timed per request: once a second all connections are looked at, and those that wait for too long are closed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from email.utils import formatdate
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from tuplet.serve.control import Control

HEAD_TIME = 10.0  # seconds for the head of a request to arrive, from the connection or from its first byte
IDLE_TIME = 30.0  # seconds between two requests
SEND_TIME, SEND_LEAST = 30.0, 1 << 16  # a client that reads takes so many bytes in so many seconds
HEAD_SIZE, HEAD_LINES = 1 << 16, 100  # bytes, and header fields, of the head of a request
_TOO_LARGE = (431, f"the head of the request has more than {HEAD_SIZE:,} bytes or {HEAD_LINES} fields")
log = logging.getLogger("tuplet.serve")


class Connection(HttpToolsProtocol):
    """One connection. It is idle before its first request and between two."""

    def __init__(self, number: int, connections: OpenConnections) -> None:
        super().__init__(connections.config, connections.state, {})
        self.number, self._all = number, connections
        self.since = self.loop.time()  # when it became idle, or the head of its request began
        self._heading = self._fresh = True  # a head is awaited, the first one
        self._chunk = self._head = 0  # bytes that arrived last; of a head, after those it began with
        self._refusal = (400, "this is not HTTP")
        self._unsent, self._unsent_since = 0, 0.0

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
        super().connection_lost(exc)
        self._all.lost(self)

    def data_received(self, data: bytes) -> None:
        self._chunk = len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self.cycle is not None:
                self.cycle.keep_alive = False  # answered as if it had not asked for another protocol
        except httptools.HttpParserError:
            self.refuse(*self._refusal)
            return
        if self._heading:
            self._head += self._chunk
            if self._head > HEAD_SIZE:  # of a field that does not end, the parser says nothing
                self.refuse(*_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._heading, self._fresh, self._head = True, False, -self._chunk
        self.since = self.loop.time()

    def on_headers_complete(self) -> None:
        self._heading = False
        large = len(self.headers) > HEAD_LINES
        if self._chunk + self._head > HEAD_SIZE or self._chunk > HEAD_SIZE:  # or else it fits
            large |= len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > HEAD_SIZE
        if large:
            self._refusal = _TOO_LARGE
            raise httptools.HttpParserError  # the parser stops
        super().on_headers_complete()

    def refuse(self, status: int, reason: str) -> None:
        """Say what is wrong before there is a request, and close."""
        log.info("%s: %s", self.address, reason)
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
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())

    def look(self, now: float) -> None:
        """End what waits for too long."""
        unsent = self.transport.get_write_buffer_size()
        if not unsent or self._unsent - unsent >= SEND_LEAST or not self._unsent:
            self._unsent, self._unsent_since = unsent, now
        elif now - self._unsent_since > SEND_TIME:
            log.info("%s: reads nothing of its answer", self.address)
            self.transport.abort()
        if self.busy or self.transport.is_closing():
            return
        if self._heading and now - self.since > HEAD_TIME:
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
        self._draining = False
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
            if self._draining:
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
        self._draining = True
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
