"""The door of the server: the parent accepts every connection and hands it to the worker that has fewest.

So eight that come at once are spread, a worker that is not ready or is gone gets none, and the caps are counted in one
place. Where a cap is reached, the connection that is idle for longest makes room: who asks something gets in.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from tuplet.server.control import ChannelError, Control

BACKLOG = 2048  # connections that wait to be accepted
AT_ONCE = 64  # connections accepted in one turn of the loop
SLOW = 0.25  # seconds after which a worker that has not taken what it was given gets no more
ROOM_TIME = 0.5  # seconds in which a worker closes idle connections
PAUSE = 0.5  # seconds without accepting after an error such as too many open files
OWN_FILES = 100  # beside connections
_REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
log = logging.getLogger("tuplet.server")


def raise_file_limit() -> int:
    """Let this process and its children open as many files as they may; returns how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = 1 << 16 if sys.platform != "darwin" else 10_240  # macOS takes no more than this
    if soft == resource.RLIM_INFINITY or soft >= hard:
        return hard
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


@dataclass(eq=False)
class Desk:
    """A worker as the door sees it: what it has, and what it was given but has not taken yet."""

    control: Control
    addresses: dict[int, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)  # by address
    untaken: dict[int, tuple[socket.socket, float]] = field(default_factory=dict)
    last: int = 0  # connection it was given

    def slow(self, now: float) -> bool:
        """Whether it does not take what it is given."""
        return bool(self.untaken) and now - next(iter(self.untaken.values()))[1] > SLOW


class Door:
    """Accepts connections while there is a worker for them."""

    def __init__(self, listening: socket.socket, most: int, most_of_one: int) -> None:
        listening.setblocking(False)
        self._listening, self._loop = listening, asyncio.get_running_loop()
        self._most, self._most_of_one = most, most_of_one
        self._desks: list[Desk] = []
        self._from: Counter[str] = Counter()
        self.open = 0  # connections now
        self._homeless: list[tuple[socket.socket, str]] = []  # accepted, but there is no worker now
        self._number = 0
        self._reading = self._listens = self._shut = False
        self._complained = -1e9
        self._making_room: asyncio.Task[None] | None = None
        self.refused = 0

    def add(self, desk: Desk) -> None:
        """Give connections to a worker from now on."""
        self._desks.append(desk)
        desk.control.on("taken", lambda ids: self._taken(desk, ids))
        desk.control.on("closed", lambda ids: self._closed(desk, ids))
        homeless, self._homeless = self._homeless, []
        for connection, address in homeless:
            self._hand_over(connection, address)
        self._read()

    def leave(self, desk: Desk) -> None:
        """Give it no more; what it has it finishes."""
        if desk in self._desks:
            self._desks.remove(desk)
            if not self._desks:
                self._pause()

    def gone(self, desk: Desk) -> None:
        """A worker has ended: what it had is closed, what it had not taken goes to another one."""
        self.leave(desk)
        waiting = [(number, desk.addresses[number], held) for number, (held, _) in desk.untaken.items()]
        desk.untaken.clear()
        for number in set(desk.addresses) - {number for number, _, _ in waiting}:
            self._forget(desk, number)
        for number, address, connection in waiting:
            self._forget(desk, number)
            self._hand_over(connection, address)

    def shut(self) -> None:
        """Accept those that wait, and nothing any more."""
        self._pause()
        self._shut = True
        for _ in range(BACKLOG // AT_ONCE if self._listens and self._desks else 0):
            self._accept()
        for connection, _ in self._homeless:
            connection.close()
        self._listening.close()

    # --- accepting -------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        if self._desks and not self._reading and not self._shut:
            if not self._listens:
                self._listening.listen(BACKLOG)  # not before somebody can answer
                self._listens = True
            self._loop.add_reader(self._listening, self._accept)
            self._reading = True

    def _pause(self) -> None:
        if self._reading:
            self._loop.remove_reader(self._listening)
            self._reading = False

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._complain(error)
                self._pause()
                self._loop.call_later(PAUSE, self._read)
                return
            if self._full(address[0]):
                self._pause()
                self._making_room = self._loop.create_task(self._make_room(connection, address[0]))
                return
            self._hand_over(connection, address[0])

    def _complain(self, error: OSError) -> None:
        """Once a minute: an error that lasts must not fill the disk."""
        now = self._loop.time()
        if now - self._complained > 60:
            self._complained = now
            many = error.errno in (errno.EMFILE, errno.ENFILE)
            advice = "; raise the limit of open files (LimitNOFILE, ulimit -n)" if many else ""
            log.warning("cannot accept connections: %s%s", error.strerror, advice)

    def _hand_over(self, connection: socket.socket, address: str) -> None:
        now = self._loop.time()
        desks = [desk for desk in self._desks if not desk.slow(now)] or self._desks
        for desk in sorted(desks, key=lambda desk: (len(desk.addresses), desk.last)):
            self._number += 1
            number = desk.last = self._number
            try:
                desk.control.tell("connection", connection, id=number)
            except ChannelError:
                continue  # it has just ended
            # Ours until the worker says that it has it: if it ends before, another one gets it.
            desk.untaken[number] = (connection, now)
            self.open += 1
            desk.addresses[number] = address
            desk.counts[address] += 1
            self._from[address] += 1
            return
        self._homeless.append((connection, address))

    # --- caps ------------------------------------------------------------------------------------------------------

    def _full(self, address: str) -> bool:
        return self.open >= self._most or self._from[address] >= self._most_of_one

    async def _make_room(self, connection: socket.socket, address: str) -> None:
        """Have idle connections closed for a new one; where all are busy, it is refused. Others wait meanwhile."""
        whose = address if self._from[address] >= self._most_of_one else None
        for desk in sorted(self._desks, key=lambda desk: -(desk.counts[address] if whose else len(desk.addresses))):
            with suppress(ChannelError):
                reply = await desk.control.ask("shed", ROOM_TIME, count=1 + self._most // 50, address=whose)
                if reply["closed"]:
                    self._hand_over(connection, address)
                    break
        else:
            self.refused += 1
            with suppress(OSError):
                connection.setblocking(False)
                connection.send(_REFUSAL)
            connection.close()
        self._read()

    def _taken(self, desk: Desk, ids: list[int]) -> None:
        for number in ids:
            held = desk.untaken.pop(number, None)
            if held is not None:
                held[0].close()

    def _closed(self, desk: Desk, ids: list[int]) -> None:
        self._taken(desk, ids)
        for number in ids:
            self._forget(desk, number)

    def _forget(self, desk: Desk, number: int) -> None:
        address = desk.addresses.pop(number, None)
        if address is not None:
            self.open -= 1
            for counts in (self._from, desk.counts):
                counts[address] -= 1
                if not counts[address]:
                    del counts[address]
