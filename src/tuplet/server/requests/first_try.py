"""Short queries, in the event loop itself: they need no thread, and wait for none that a long search keeps busy.

A query has a moment. If that does not do, it begins again in a thread, in the lanes (`places`): little
is lost, and the loop is never held up for long. Owners come in turn, and between two queries the loop does all else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter, thread_time
from typing import Any, Generic, TypeVar

from tuplet.errors import TupletError
from tuplet.query.limits import Brake, Deadline
from tuplet.server.operators.metrics import ServerMetrics
from tuplet.server.requests.fair_queue import FairQueue
from tuplet.server.requests.request_notes import notes

T = TypeVar("T")
# Seconds of the processor's: where a machine is busy, a query that waits for its turn is not long for that. But those
# of the clock are the loop's, whatever they are spent on: so many it gives at most.
MOMENT, AT_MOST = 0.01, 0.05
_SLICE = 5_000  # edges that a search looks at between two looks at the clock: about a millisecond
_RARELY = 16  # where most tries are in vain, only one query in so many is tried


class Unfinished(Exception):
    """A search that was stopped: its moment is over, or nobody waits for it."""


class Try(Brake, Generic[T]):
    """One query and its moment."""

    slice = _SLICE

    def __init__(self, deadline: Deadline, work: Callable[[], T], done: asyncio.Future[T | None]) -> None:
        self._deadline, self._work, self.done = deadline, work, done
        self._end = self.started = 0.0

    def pressed(self) -> bool:
        if not self.stopped and (took := perf_counter() - self.started) >= MOMENT:
            self.stopped = took >= AT_MOST or thread_time() >= self._end
        return self.stopped

    def run(self) -> bool:
        """Do it; whether it was done in time."""
        self.started = perf_counter()
        self._end = thread_time() + MOMENT
        self._deadline.brake = self
        try:
            found = self._work()
        except Unfinished:
            self.done.set_result(None)
            return False
        except TupletError as error:
            self.done.set_exception(error.with_traceback(None))  # as in `places`
        except Exception as error:
            self.done.set_exception(error)
        else:
            self.done.set_result(found)
        finally:
            self._deadline.brake = Brake()  # no circle: what was found is freed as soon as it is sent
        return True


class FirstTries:
    """The queries that wait for their moment."""

    def __init__(self, most_waiting: int, metrics: ServerMetrics) -> None:
        self._metrics = metrics
        self._waiting: FairQueue[Try[Any]] = FairQueue(most_waiting)
        self._luck = 1.0  # the share of the last tries that were done in time
        self._passed = 0

    async def run(self, owner: str, deadline: Deadline, work: Callable[[], T]) -> T | None:
        """What the work gives; None where it takes longer, or most others did."""
        if self._luck < 0.5:
            self._passed += 1
            if self._passed % _RARELY:
                return None
        loop, asked = asyncio.get_running_loop(), perf_counter()
        one = Try(deadline, work, loop.create_future())
        self._waiting.add(owner, one)
        self._metrics.waiting.add()
        if len(self._waiting) == 1:
            loop.call_soon(self._next, loop)
        try:
            return await one.done
        finally:
            notes().queue = (one.started or perf_counter()) - asked

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        one = self._waiting.take()
        self._metrics.waiting.add(-1)
        if self._waiting:
            loop.call_soon(self._next, loop)
        if one is None or one.done.done():  # nobody waits for it
            return
        self._metrics.running.add()
        self._luck += 0.05 * (one.run() - self._luck)
        self._metrics.running.add(-1)
