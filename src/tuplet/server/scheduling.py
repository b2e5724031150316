"""Schedule searches: a first try in the event loop, then a short lane and a long one, fair between clients."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic, perf_counter, thread_time
from typing import Any, Generic, TypeVar

from tuplet.errors import TupletError
from tuplet.query.limits import Brake, Deadline
from tuplet.server.limits import HELD, TooBusy
from tuplet.server.logs import notes
from tuplet.server.metrics import ServerMetrics

T = TypeVar("T")


class FairQueue(Generic[T]):
    """What waits, by owner; owners come in turn. Where there is a limit, one owner has at most half of the row.

    >>> waiting = FairQueue[str]()
    >>> for owner, what in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1")):
    ...     waiting.add(owner, what)
    >>> [waiting.take() for _ in range(4)], len(waiting)
    (['a1', 'b1', 'a2', 'a3'], 0)
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._by_owner: OrderedDict[str, deque[T]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        return (what for own in self._by_owner.values() for what in own)

    def add(self, owner: str, what: T) -> None:
        """Add at the end of what the owner has here; `TooBusy` where the queue is full."""
        own = self._by_owner.get(owner, ())
        if self._most is not None and (self._count >= self._most or len(own) >= max(1, self._most // 2)):
            raise TooBusy(f"{self._count} requests are waiting already; try again in a moment")
        self._by_owner.setdefault(owner, deque()).append(what)
        self._count += 1

    def remove(self, owner: str, what: T) -> None:
        own = self._by_owner[owner]
        own.remove(what)
        self._count -= 1
        if not own:
            del self._by_owner[owner]

    def take(self, may: Callable[[str], bool] = lambda owner: True) -> T | None:
        """Pop from the next owner that may (round robin)."""
        for owner, own in self._by_owner.items():
            if may(owner):
                self._count -= 1
                what = own.popleft()
                if own:
                    self._by_owner.move_to_end(owner)
                else:
                    del self._by_owner[owner]
                return what
        return None


SHORT = 0.1  # seconds that a query has in the short lane
TURN = 0.5  # seconds that a long query goes on while others wait
_TICK = 0.05  # seconds between two looks at who has had his time
_TO_END = (0.2, 1.0)  # share of the time, at most so many seconds, in which a query that was held shows what it has


class ClientGone(Exception):
    """No client waits for this answer any more."""


class OwnersMemory:
    """What the searches of one owner hold together: not more than one of them may, unless all are small.

    >>> memory = OwnersMemory(100)
    >>> memory.fits("a", "one", 60), memory.fits("a", "two", 60), memory.fits("a", "three", 30)
    (True, False, True)
    >>> memory.fits("b", "one", 60)
    True
    >>> memory.over("a", "one")
    >>> memory.fits("a", "two", 60)
    True
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._held: dict[str, dict[object, int]] = {}

    def fits(self, owner: str, search: object, size: int) -> bool:
        """Whether a search may hold `size` bytes; one that holds no more than its share always may."""
        if self._most is None:
            return True
        held = self._held.setdefault(owner, {})
        searches, others = len(held) + (search not in held), sum(held.values()) - held.get(search, 0)
        fits = size * searches <= self._most or others + size <= self._most
        if fits:  # what it may not hold leaves no less to others
            held[search] = size
        return fits

    def over(self, owner: str, search: object) -> None:
        held = self._held.get(owner)
        if held is not None:
            held.pop(search, None)
            if not held:
                del self._held[owner]


# Seconds of processor time, since on a busy machine a query that waits for its turn is not long for that; and seconds
# of the clock, since the loop gives no more, whatever they are spent on.
MOMENT, AT_MOST = 0.01, 0.05
_SLICE = 5_000  # edges that a search looks at between two looks at the clock: about a millisecond
_RARELY = 16  # where most tries are in vain, one query in this number is tried


class Unfinished(Exception):
    """A first try whose moment is over: the query begins again in a thread."""


class Try(Brake, Generic[T]):
    """A first try of a query in the event loop, which spares it the way to a thread and back."""

    slice = _SLICE

    def __init__(self, deadline: Deadline, work: Callable[[], T], done: asyncio.Future[T | None]) -> None:
        self._deadline, self._work, self.done = deadline, work, done
        self._end = self.started = 0.0

    def pressed(self) -> bool:
        if not self.stopped and (took := perf_counter() - self.started) >= MOMENT:
            self.stopped = took >= AT_MOST or thread_time() >= self._end
        return self.stopped

    def run(self) -> bool:
        """Search; returns whether the search ended in time."""
        self.started = perf_counter()
        self._end = thread_time() + MOMENT
        self._deadline.brake = self
        try:
            self.done.set_result(self._work())
        except Unfinished:
            self.done.set_result(None)
            return False
        except TupletError as error:
            self.done.set_exception(error.with_traceback(None))  # as in `Places`
        except Exception as error:
            self.done.set_exception(error)
        finally:
            self._deadline.brake = Brake()  # no circle: what was found is freed as soon as it is sent
        return True


class FirstTries:
    """First tries, one between two rounds of the event loop; owners come in turn."""

    def __init__(self, most_waiting: int, metrics: ServerMetrics) -> None:
        self._metrics = metrics
        self._waiting: FairQueue[Try[Any]] = FairQueue(most_waiting)
        self._luck = 1.0  # the share of the last tries that ended in time
        self._passed = 0

    async def run(self, owner: str, deadline: Deadline, work: Callable[[], T]) -> T | None:
        """The result of the work; None if it takes longer, or if most others did."""
        if self._luck < 0.5:
            self._passed += 1
            if self._passed % _RARELY:
                return None
        loop, asked = asyncio.get_running_loop(), perf_counter()
        one = Try(deadline, work, loop.create_future())
        self._waiting.add(owner, one)
        self._metrics.waiting.inc()
        if len(self._waiting) == 1:
            loop.call_soon(self._next, loop)
        try:
            return await one.done
        finally:
            notes().queue = (one.started or perf_counter()) - asked

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        one = self._waiting.take()
        self._metrics.waiting.dec()
        if self._waiting:
            loop.call_soon(self._next, loop)
        if one is None or one.done.done():  # its client has gone
            return
        self._metrics.running.inc()
        self._luck += 0.05 * (one.run() - self._luck)
        self._metrics.running.dec()


class Turn(Brake, Generic[T]):
    """A scheduled search: held while others have their turn, ended when its client has gone."""

    def __init__(
        self,
        owner: str,
        deadline: Deadline,
        work: Callable[[], T],
        done: asyncio.Future[T],
        memory: OwnersMemory,
    ) -> None:
        self.owner, self.deadline, self.work, self.done, self.memory = owner, deadline, work, done, memory
        self.asked = self.started = self.since = monotonic()
        self.lane: Any = None
        self.gone: Callable[[], Awaitable[None]] | None = None
        self.watcher: asyncio.Task[None] | None = None
        self._gate: threading.Event | None = None

    def hold(self) -> None:
        """Wait at the next look at the clock."""
        self._gate = threading.Event()

    def free(self) -> None:
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.set()

    def stop(self) -> None:
        super().stop()
        self.free()

    def pressed(self) -> bool:
        gate = self._gate
        if gate is not None:
            left, share = self.deadline.left(), (self.deadline.seconds or math.inf) * _TO_END[0]
            gate.wait(None if left == math.inf else max(0.0, left - min(share, _TO_END[1])))
        return self.stopped

    def may_hold(self, size: int) -> bool:
        return self.memory.fits(self.owner, self, size)


class Places:
    """A few places for searches in threads, and beside them half as many for searches that take long.

    A search that is longer than `short` seconds leaves its place to others and waits, in the middle, for its turn among
    the long ones. Everything but the work itself happens in the event loop.
    """

    def __init__(
        self,
        places: int,
        most_waiting: int,
        metrics: ServerMetrics,
        memory: int | None = None,
        short: float = SHORT,
        turn: float = TURN,
        unread: Callable[[str], bool] = lambda owner: False,
    ) -> None:
        self._places, self._long_places, self._most_held = places, max(1, places // 2), HELD * places
        self._metrics, self._memory = metrics, OwnersMemory(memory)
        self._short, self._turn = short, turn
        self._unread = unread  # who does not read his answers: he gets no others until he does
        self._waiting: FairQueue[Turn[Any]] = FairQueue(most_waiting)
        self._inside: dict[Turn[Any], None] = {}
        self._long: dict[Turn[Any], None] = {}
        self._held: FairQueue[Turn[Any]] = FairQueue()
        self._owners: Counter[str] = Counter()
        self._threads = ThreadPoolExecutor(places + self._long_places + self._most_held, "query")
        self._ticking = False

    async def run(
        self, owner: str, deadline: Deadline, work: Callable[[], T], gone: Callable[[], Awaitable[None]] | None = None
    ) -> T:
        """Do work in a thread once there is a place; refuse if too many wait already, or for too long.

        `gone` returns when nobody waits for the answer any more: the search ends, and `ClientGone` is raised.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        turn = Turn(owner, deadline, work, done, self._memory)
        turn.gone, deadline.brake = gone, turn
        if self._may(owner):
            self._start(turn)
        else:
            self._waiting.add(turn.owner, turn)
            turn.lane = self._waiting
            self._metrics.waiting.inc()
        if not self._ticking:
            self._ticking = True
            loop.call_later(_TICK, self._tick, loop)
        try:
            return await done
        except asyncio.CancelledError:
            self._abandon(turn)
            raise
        finally:
            notes().queue = turn.started - turn.asked

    # --- time ------------------------------------------------------------------------------------------------------

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = monotonic()
        self._admit()  # those that have read their answers meanwhile
        for turn in [turn for turn in self._waiting if turn.deadline.left() <= 0]:
            self._refuse(turn)
        for turn in [turn for turn in self._inside if now - turn.started >= self._short]:
            self._step_aside(turn, now)
        for turn in [turn for turn in self._long if now - turn.since >= self._turn and self._held]:
            del self._long[turn]
            self._hold(turn)
            self._resume(now)
        turns = [*self._inside, *self._long, *self._waiting, *self._held]
        for turn in turns:
            # most queries are done by now; only for the others it is worth to watch whether somebody still waits
            if turn.watcher is None and turn.gone is not None and now - turn.asked >= _TICK:
                turn.watcher = loop.create_task(self._watch(turn, turn.gone))
        self._ticking = bool(turns)
        if self._ticking:
            loop.call_later(_TICK, self._tick, loop)

    async def _watch(self, turn: Turn[Any], gone: Callable[[], Awaitable[None]]) -> None:
        await gone()
        if not turn.done.done():
            turn.done.set_exception(ClientGone)
            self._abandon(turn)

    # --- those who wait for a place --------------------------------------------------------------------------------

    def _may(self, owner: str) -> bool:
        room = len(self._inside) < self._places and self._owners[owner] < max(1, self._places // 2)
        return room and not self._unread(owner)

    def _refuse(self, turn: Turn[Any]) -> None:
        """Refuse a search that has waited for all of its time."""
        self._waiting.remove(turn.owner, turn)
        self._stop_waiting(turn)
        if turn.done.done():
            return
        text = f"no place for this query within {turn.deadline.seconds:g} s; try again in a moment"
        if self._unread(turn.owner):
            text = "read the answers that are on their way to you; the next large one comes after them"
        turn.done.set_exception(TooBusy(text))

    def _stop_waiting(self, turn: Turn[Any]) -> None:
        turn.lane = None
        self._metrics.waiting.dec()

    def _abandon(self, turn: Turn[Any]) -> None:
        """Drop a search whose client has gone."""
        if turn.lane is self._waiting:
            self._waiting.remove(turn.owner, turn)
            self._stop_waiting(turn)
        else:
            turn.stop()

    def _admit(self) -> None:
        while len(self._inside) < self._places and (turn := self._waiting.take(self._may)) is not None:
            self._stop_waiting(turn)
            self._start(turn)

    # --- those who have one ----------------------------------------------------------------------------------------

    def _start(self, turn: Turn[Any]) -> None:
        turn.started = monotonic()
        turn.lane = self._inside
        self._inside[turn] = None
        self._owners[turn.owner] += 1
        self._metrics.running.inc()
        self._threads.submit(self._work, turn)

    def _work(self, turn: Turn[Any]) -> None:
        result: Any = None
        failed: BaseException | None = None
        try:
            result = turn.work()
        except TupletError as error:
            failed = error.with_traceback(None)  # its frames hold what was found so far, until the collector comes
        except BaseException as error:
            failed = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            turn.done.get_loop().call_soon_threadsafe(self._finish, turn, result, failed)

    def _finish(self, turn: Turn[Any], result: Any, error: BaseException | None) -> None:
        self._memory.over(turn.owner, turn)
        turn.deadline.brake = Brake()  # no circle: what was found is freed as soon as it is sent
        if turn.watcher is not None:
            turn.watcher.cancel()
        self._metrics.running.dec()
        if turn.lane is self._inside:
            self._leave(turn)
        elif turn.lane is self._long:
            del self._long[turn]
            self._resume(monotonic())
        else:
            self._held.remove(turn.owner, turn)
        if turn.done.done():
            return
        if error is not None:
            turn.done.set_exception(error)
        else:
            turn.done.set_result(result)

    def _leave(self, turn: Turn[Any]) -> None:
        del self._inside[turn]
        self._owners[turn.owner] -= 1
        if not self._owners[turn.owner]:
            del self._owners[turn.owner]
        self._admit()

    def _step_aside(self, turn: Turn[Any], now: float) -> None:
        """Move a search to the long lane or the queue for it; if both are full it stays."""
        if len(self._long) >= self._long_places and len(self._held) >= self._most_held:
            return
        self._leave(turn)
        self._hold(turn)
        self._resume(now)

    def _hold(self, turn: Turn[Any]) -> None:
        turn.lane = self._held
        turn.hold()
        self._held.add(turn.owner, turn)

    def _resume(self, now: float) -> None:
        while len(self._long) < self._long_places and (turn := self._held.take()) is not None:
            turn.lane, turn.since = self._long, now
            self._long[turn] = None
            turn.free()
