"""The channel between the parent and a worker: small JSON messages over a socket pair.

Both ends are alike: `ask` sends a message and waits for the reply, `tell` waits for none, `on` says who handles a kind.
A handler is called with the payload as keywords and may return a mapping, the reply; it may be a coroutine. What it
raises is raised at the end that asked, as `ChannelError`.

| kind | from → to | payload → reply | what it means |
|---|---|---|---|
| `ready` | worker → parent | `generations` | its stores are open |
| `failed` | worker → parent | `reason` | it could not start, and ends |
| `draining` | worker → parent | | it finishes what it has, and ends |
| `reload` | worker → parent | → `generations` | bring all workers to what is newest on disk; then answer |
| `stats` | worker → parent | → see `Supervisor.stats` | workers, problems |
| `serve` | parent → worker | | all serve its generation: take connections |
| `prepare` | parent → worker | → `generations` | open what is newest on disk beside what is served |
| `hold` | parent → worker | | queries that come now wait |
| `switch` | parent → worker | | serve what was prepared from now on; those that wait may begin |
| `ping` | parent → worker | | are you there |
| `drain` | parent → worker | | finish what is in flight, then end |

`generations` maps the name of each store to `[generation, hash]`. The supervisor asks for `prepare` until all workers
have the same, then for `hold` and `switch`, each of all and each when the one before is done. So no two workers ever
begin queries on different generations.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tuplet.errors import TupletError

Handler = Callable[..., Any]
Generations = dict[str, list[Any]]
_AT_ONCE = 1 << 16  # bytes read in one go
log = logging.getLogger("tuplet.server")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop for `asyncio.Runner`: uvloop where it is installed, which is about twice as quick."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


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
        self._rest = b""
        self._tasks: set[asyncio.Future[Any]] = set()
        self._loop.add_reader(channel, self._readable)
        self.closed: asyncio.Future[None] = self._loop.create_future()  # done once the other end is gone

    def on(self, kind: str, handler: Handler) -> None:
        """Handle messages of a kind."""
        self._handlers[kind] = handler

    def tell(self, kind: str, **payload: Any) -> None:
        """Send a message that has no reply."""
        self._send({"kind": kind, "payload": payload})

    async def ask(self, kind: str, timeout: float | None = None, **payload: Any) -> dict[str, Any]:
        """Send a message and wait for the reply."""
        self._number += 1
        number = self._number
        reply: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._asked[number] = reply
        try:
            self._send({"kind": kind, "number": number, "payload": payload})
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
        self._channel.close()
        for reply in self._asked.values():
            if not reply.done():
                reply.set_exception(ChannelError("the other process has ended"))

    def _send(self, message: Mapping[str, Any]) -> None:
        """Send a message whole: it is small, and who leaves so many unread that one does not fit is as good as gone."""
        data = json.dumps(message).encode() + b"\n"
        try:
            if self.closed.done() or self._channel.send(data) < len(data):
                raise OSError
        except OSError:
            self.close()
            raise ChannelError("the other process has ended") from None

    def _readable(self) -> None:
        try:
            data = self._channel.recv(_AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._receive(json.loads(line))

    def _receive(self, message: dict[str, Any]) -> None:
        if "reply" in message:
            reply = self._asked.get(message["reply"])
            if reply is not None and not reply.done():
                if "error" in message:
                    reply.set_exception(ChannelError(message["error"]))
                else:
                    reply.set_result(message["with"])
            return
        task = self._loop.create_task(self._handle(**message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle(self, kind: str, payload: Mapping[str, Any], number: int | None = None) -> None:
        """Do what a message asks and reply; an error of a message without a reply is logged here."""
        try:
            done = self._handlers[kind](**payload)
            answer = {"with": (await done if inspect.isawaitable(done) else done) or {}}
        except Exception as error:
            if not isinstance(error, TupletError):
                log.error("in the channel", exc_info=error)
            answer = {"error": str(error)}
        if number is not None:
            with suppress(ChannelError):  # whoever asked has ended
                self._send({"reply": number, **answer})
