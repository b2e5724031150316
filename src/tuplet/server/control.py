"""The channel between the parent and a worker: small JSON messages over a socket pair.

Both ends are alike: `ask` sends a message and waits for the reply, `tell` waits for none, `on` sets the handler of a
kind. A handler takes the payload as keywords and may return the reply; it may be a coroutine. Its errors are raised at
the end that asked, as `ChannelError`.

| kind | from → to | payload → reply | what it means |
|---|---|---|---|
| `ready` | worker → parent | `generations` | its stores are open |
| `failed` | worker → parent | `reason` | it could not start, and ends |
| `draining` | worker → parent | | it finishes what it has, and ends |
| `reload` | worker → parent | → done | bring all workers to what is newest on disk; then answer |
| `stats` | worker → parent | → see `Supervisor.stats` | workers, problems |
| `serve` | parent → worker | | all serve its generation: take connections |
| `prepare` | parent → worker | → generations | open what is newest on disk beside what is served |
| `hold` | parent → worker | | queries that come now wait |
| `switch` | parent → worker | | serve what was prepared from now on; those that wait may begin |
| `ping` | parent → worker | | are you there |
| `drain` | parent → worker | | finish what is in flight, then end |

Generations map the name of each store to `[generation, hash]`. The supervisor asks for `prepare` until all workers
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
log = logging.getLogger("tuplet.server")


class ChannelError(TupletError):
    """The other end could not do what it was asked, or has ended."""


class Control(asyncio.Protocol):
    """One end of a channel.

    >>> async def both_ends() -> object:
    ...     ours, theirs = [await Control.open(end) for end in socket.socketpair()]
    ...     theirs.on("double", lambda number: 2 * number)
    ...     return await ours.ask("double", number=21)
    >>> asyncio.run(both_ends())
    42
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._handlers: dict[str, Handler] = {}
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._rest = b""
        self._tasks: set[asyncio.Future[Any]] = set()
        self.closed: asyncio.Future[None] = self._loop.create_future()  # done once the other end is gone

    @classmethod
    async def open(cls, channel: socket.socket) -> Control:
        """Make a socket an end of a channel."""
        _, control = await asyncio.get_running_loop().create_unix_connection(cls, sock=channel)
        return control

    def on(self, kind: str, handler: Handler) -> None:
        self._handlers[kind] = handler

    def tell(self, kind: str, **payload: Any) -> None:
        """Send a message that has no reply."""
        self._send({"kind": kind, "payload": payload})

    async def ask(self, kind: str, timeout: float | None = None, **payload: Any) -> Any:
        """Send a message and wait for the reply."""
        self._number += 1
        number = self._number
        reply = self._asked[number] = self._loop.create_future()
        try:
            self._send({"kind": kind, "number": number, "payload": payload})
            async with asyncio.timeout(timeout):
                return await reply
        except TimeoutError:
            raise ChannelError(f"no reply to {kind!r} within {timeout:g} s") from None
        finally:
            self._asked.pop(number, None)

    async def close(self) -> None:
        """End the channel once everything is sent."""
        self._transport.close()
        await self.closed

    def _send(self, message: Mapping[str, Any]) -> None:
        if self._transport.is_closing():
            raise ChannelError("the other process has ended")
        self._transport.write(json.dumps(message).encode() + b"\n")

    def connection_made(self, transport: Any) -> None:
        self._transport: asyncio.WriteTransport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)
        for reply in self._asked.values():
            if not reply.done():
                reply.set_exception(ChannelError("the other process has ended"))

    def data_received(self, data: bytes) -> None:
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
            answer = {"with": await done if inspect.isawaitable(done) else done}
        except Exception as error:
            if not isinstance(error, TupletError):
                log.error("in the channel", exc_info=error)
            answer = {"error": str(error)}
        if number is not None:
            with suppress(ChannelError):  # whoever asked has ended
                self._send({"reply": number, **answer})
