"""The channel between the parent and a worker: small JSON messages over a socket pair, some with a connection.

Both ends are alike: `ask` sends a message and waits for the reply, `tell` waits for none, `on` says who handles a kind.
A handler is called with the payload as keywords and may return a mapping, the reply; it may be a coroutine. What it
raises is raised at the end that asked, as `ChannelError`.

| kind | from → to | payload → reply | what it means |
|---|---|---|---|
| `ready` | worker → parent | `generations` | its stores are open; connections come once all serve its generation |
| `failed` | worker → parent | `reason` | it could not start, and ends |
| `taken`, `closed` | worker → parent | `ids` | connections it has, and has no more |
| `draining` | worker → parent | | it finishes what it has, and ends |
| `reload` | worker → parent | → `generations` | bring all workers to what is newest on disk; then answer |
| `stats` | worker → parent | → see `Supervisor.stats` | workers, restarts, connections |
| `prepare` | parent → worker | → `generations` | open what is newest on disk beside what is served |
| `hold` | parent → worker | | queries that come now wait |
| `switch` | parent → worker | → `generations` | serve what was prepared, from now on |
| `go` | parent → worker | | those that wait may begin; without a `switch` before, what was prepared is let go |
| `connection` | parent → worker | `id`, `connection` (a socket) | serve it |
| `shed` | parent → worker | `count`, `address` → `closed` | close so many idle connections, the longest idle first |
| `ping` | parent → worker | | are you there |
| `drain` | parent → worker | | finish what is in flight, then end |

`generations` maps the name of each store to `[generation, hash]`. The supervisor asks for `prepare` until all workers
have the same, then for `hold`, `switch` and `go`, each of all and each when the one before is done. So no two workers
ever begin queries on different generations.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import socket
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tuplet.errors import TupletError

Handler = Callable[..., Any]
Generations = dict[str, list[Any]]
_AT_ONCE = 1 << 16  # bytes read in one go
_FLAGS = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
log = logging.getLogger("tuplet.server")


class ChannelError(TupletError):
    """The other end could not do what it was asked, or is gone."""


class Control:
    """One end of a channel; belongs to the event loop it is made in.

    >>> async def both_ends() -> object:
    ...     ours, theirs = (Control(end) for end in socket.socketpair())
    ...     theirs.on("double", lambda number: {"number": 2 * number})
    ...     return await ours.ask("double", number=21)
    >>> asyncio.run(both_ends())
    {'number': 42}
    """

    def __init__(self, channel: socket.socket) -> None:
        channel.setblocking(False)
        self._channel, self._loop = channel, asyncio.get_running_loop()
        self._handlers: dict[str, Handler] = {}
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self._read = bytearray()
        self._arrived: deque[socket.socket] = deque()  # connections, in the order of the messages that speak of them
        self._unsent: deque[tuple[bytes, socket.socket | None]] = deque()
        self._tasks: set[asyncio.Future[Any]] = set()
        self._loop.add_reader(channel, self._readable)
        self.closed: asyncio.Future[None] = self._loop.create_future()  # done once the other end is gone

    def on(self, kind: str, handler: Handler) -> None:
        """Handle messages of a kind."""
        self._handlers[kind] = handler

    def tell(self, kind: str, connection: socket.socket | None = None, **payload: Any) -> None:
        """Send a message that has no reply, perhaps with a connection."""
        self._send({"kind": kind, "with": payload}, connection)

    async def ask(self, kind: str, timeout: float | None = None, **payload: Any) -> dict[str, Any]:
        """Send a message and wait for the reply."""
        self._number += 1
        number = self._number
        reply: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._asked[number] = reply
        try:
            self._send({"kind": kind, "id": number, "with": payload})
            async with asyncio.timeout(timeout):
                return await reply
        except TimeoutError:
            raise ChannelError(f"no reply to {kind!r} within {timeout:g} s") from None
        finally:
            self._asked.pop(number, None)

    def close(self) -> None:
        """End the channel; the other end sees it."""
        if self.closed.done():
            return
        self.closed.set_result(None)
        self._loop.remove_reader(self._channel)
        self._loop.remove_writer(self._channel)
        self._channel.close()
        for connection in self._arrived:
            connection.close()
        for reply in self._asked.values():
            if not reply.done():
                reply.set_exception(ChannelError("the other process has ended"))

    # --- sending ---------------------------------------------------------------------------------------------------

    def _send(self, message: Mapping[str, Any], connection: socket.socket | None = None) -> None:
        if self.closed.done():
            raise ChannelError("the other process has ended")
        self._unsent.append((json.dumps(message).encode() + b"\n", connection))
        if len(self._unsent) == 1:
            self._writable()

    def _writable(self) -> None:
        """Send as much as goes without waiting."""
        while self._unsent:
            data, connection = self._unsent[0]
            try:
                if connection is None:
                    sent = self._channel.send(data)
                else:
                    sent = socket.send_fds(self._channel, [data], [connection.fileno()])
            except (BlockingIOError, InterruptedError):
                self._loop.add_writer(self._channel, self._writable)
                return
            except OSError:
                self.close()
                return
            if sent < len(data):
                self._unsent[0] = (data[sent:], None)  # the connection went with the first bytes
            else:
                self._unsent.popleft()
        self._loop.remove_writer(self._channel)

    # --- receiving -------------------------------------------------------------------------------------------------

    def _readable(self) -> None:
        try:
            data, numbers, _, _ = socket.recv_fds(self._channel, _AT_ONCE, 16, _FLAGS)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data, numbers = b"", []
        self._arrived.extend(socket.socket(fileno=number) for number in numbers)
        if not data:
            self.close()
            return
        self._read += data
        *lines, rest = self._read.split(b"\n")
        self._read = rest
        for line in lines:
            self._received(json.loads(line))

    def _received(self, message: dict[str, Any]) -> None:
        if "reply" in message:
            reply = self._asked.get(message["reply"])
            if reply is not None and not reply.done():
                if "error" in message:
                    reply.set_exception(ChannelError(message["error"]))
                else:
                    reply.set_result(message["with"])
            return
        kind, number, payload = message["kind"], message.get("id"), message["with"]
        if kind == "connection":
            payload["connection"] = self._arrived.popleft()
        handler = self._handlers.get(kind)
        if handler is None:
            self._reply(number, ChannelError(f"nobody handles {kind!r}"))
            return
        try:
            done = handler(**payload)
        except Exception as error:
            self._reply(number, error)
            return
        if inspect.isawaitable(done):
            task = asyncio.ensure_future(done)
            self._tasks.add(task)
            task.add_done_callback(lambda task: self._finished(task, number))
        else:
            self._reply(number, done)

    def _finished(self, task: asyncio.Future[Any], number: int | None) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            self._reply(number, task.exception() or task.result())

    def _reply(self, number: int | None, done: Any) -> None:
        """Say what came of a message; an error of a message without a reply is logged here."""
        if isinstance(done, BaseException) and not isinstance(done, TupletError):
            log.error("in the channel", exc_info=done)
        if number is None:
            return
        answer = {"error": str(done)} if isinstance(done, BaseException) else {"with": done or {}}
        with suppress(ChannelError):  # whoever asked has ended
            self._send({"reply": number, **answer})
