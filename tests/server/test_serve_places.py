"""Places: owners come in turn, long queries make room for short ones, and a query that nobody waits for ends."""

from __future__ import annotations

import asyncio
import gc
import math
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress

import pytest

from tuplet.query.limits import Deadline
from tuplet.server.limits import LARGE, Sending, TooBusy
from tuplet.server.metrics import ServerMetrics
from tuplet.server.scheduling import Places

Work = Callable[[], object]


def nothing() -> None:
    pass


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that other threads bring about."""
    for _ in range(12_000):
        if holds():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen within a minute")


def asking(lane: Places, owner: str, work: Work, deadline: Deadline | None = None) -> asyncio.Task[object]:
    return asyncio.create_task(lane.run(owner, deadline or Deadline(), work))


def test_owners_come_in_turn() -> None:
    async def crowd() -> list[str]:
        lane, go, order = Places(1, 64, ServerMetrics(), short=math.inf), threading.Event(), list[str]()
        first = asking(lane, "a", go.wait)
        await asyncio.sleep(0)
        names = ("a1", "a2", "a3", "b1", "b2", "c1")
        others = [asking(lane, name[0], lambda name=name: order.append(name)) for name in names]  # type: ignore[misc]
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(first, *others)
        return order

    assert asyncio.run(crowd()) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_an_owner_has_at_most_half_of_the_places() -> None:
    async def crowd() -> tuple[list[int], int]:
        lane, go, inside = Places(4, 64, ServerMetrics(), short=math.inf), threading.Event(), list[int]()

        def stay() -> None:
            inside.append(1)
            go.wait()

        greedy = [asking(lane, "greedy", stay) for _ in range(6)]
        await until(lambda: len(inside) == 2)
        await lane.run("other", Deadline(), nothing)  # finds a place at once
        seen = len(inside)
        go.set()
        await asyncio.gather(*greedy)
        return inside, seen

    inside, seen = asyncio.run(crowd())
    assert (len(inside), seen) == (6, 2)


def test_who_does_not_read_gets_no_other_search() -> None:
    async def crowd() -> list[str]:
        sending, started = Sending(4 * LARGE), list[str]()
        lane = Places(4, 64, ServerMetrics(), unread=sending.unread)
        assert sending.takes("deaf", 2 * LARGE)  # half of what there may be
        waiting = asking(lane, "deaf", lambda: started.append("deaf"))
        with pytest.raises(TooBusy, match="read the answers"):
            await lane.run("deaf", Deadline(0.01), nothing)
        await lane.run("other", Deadline(), lambda: started.append("other"))
        sending.sent("deaf", 2 * LARGE)
        await waiting  # who has read goes on
        return started

    assert asyncio.run(crowd()) == ["other", "deaf"]


def test_what_was_found_is_freed_without_the_collector() -> None:
    """An answer may have megabytes; many of them may come before the collector does."""

    class Found:
        pass

    refs: list[weakref.ref[Found]] = []

    def refused() -> None:
        found = Found()
        refs.append(weakref.ref(found))
        raise TooBusy("too many large answers are on their way")

    async def asked() -> None:
        gc.disable()
        try:
            found = weakref.ref(await Places(1, 64, ServerMetrics(), short=math.inf).run("a", Deadline(), Found))
            await until(lambda: found() is None)
            with suppress(TooBusy):
                await Places(1, 64, ServerMetrics(), short=math.inf).run("a", Deadline(), refused)
            await until(lambda: refs[0]() is None)
        finally:
            gc.enable()

    asyncio.run(asked())


def test_searches_of_one_owner_share_what_one_may_hold() -> None:
    async def crowd() -> tuple[bool, bool, bool]:
        lane, go = Places(8, 64, ServerMetrics(), memory=100, short=math.inf), threading.Event()
        deadlines = [Deadline(), Deadline(), Deadline()]
        tasks = [asking(lane, owner, go.wait, deadline) for owner, deadline in zip("aab", deadlines, strict=True)]
        await asyncio.sleep(0)
        one, two, other = (deadline.brake.may_hold(60) for deadline in deadlines)
        go.set()
        await asyncio.gather(*tasks)
        return one, two, other

    assert asyncio.run(crowd()) == (True, False, True)


def test_long_queries_step_aside_and_take_turns() -> None:
    """Five searches without end on four places: a short query of the same owner does not wait for any of them."""

    async def crowd() -> list[int]:
        places = Places(4, 64, ServerMetrics(), short=0.05, turn=0.1)
        looks, stop = [0] * 5, threading.Event()

        def search(number: int, deadline: Deadline) -> None:
            while not deadline.over() and not stop.is_set():
                looks[number] += 1
                time.sleep(0.002)

        searches = []
        for number in range(5):
            deadline = Deadline(600.0)
            searches.append(asking(places, "one", lambda n=number, d=deadline: search(n, d), deadline))  # type: ignore[misc]
        await until(lambda: all(looks))  # each was let in while all the others went on
        for _ in range(3):
            await places.run("one", Deadline(), nothing)
        before = list(looks)
        await until(lambda: all(now > then for now, then in zip(looks, before, strict=True)))  # each has its turn
        stop.set()
        for task in searches:
            task.cancel()
        await asyncio.gather(*searches, return_exceptions=True)
        return looks

    assert all(asyncio.run(crowd()))


def test_a_query_that_waits_in_the_middle_ends_in_time() -> None:
    async def crowd() -> None:
        places = Places(2, 64, ServerMetrics(), short=0.0, turn=600.0)
        stop = threading.Event()
        endless = asking(places, "one", stop.wait)
        await until(lambda: len(places._long) == 1)
        held = Deadline(2.0)

        def search() -> str:
            while not held.over():
                time.sleep(0.002)
            return "best so far"

        assert await places.run("one", held, search) == "best so far"
        stop.set()
        await endless

    asyncio.run(crowd())


def test_a_search_ends_when_nobody_waits_for_it() -> None:
    async def crowd() -> None:
        lane, ended, deadline = Places(1, 64, ServerMetrics(), short=math.inf), threading.Event(), Deadline(600.0)

        def search() -> None:
            while not deadline.over():
                time.sleep(0.002)
            ended.set()

        gone = asking(lane, "a", search, deadline)
        waiting, never = asking(lane, "b", nothing), asking(lane, "c", nothing)
        await asyncio.sleep(0.01)
        never.cancel()
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        await waiting
        assert ended.is_set()
        assert (len(lane._waiting), len(lane._inside), len(lane._owners)) == (0, 0, 0)

    asyncio.run(crowd())


def test_too_many_and_too_long() -> None:
    async def crowd() -> None:
        lane, go = Places(1, 4, ServerMetrics(), short=math.inf), threading.Event()
        inside = asking(lane, "a", go.wait)
        await asyncio.sleep(0)
        waiting = [asking(lane, "a", nothing) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(TooBusy, match="2 requests are waiting already"):
            await lane.run("a", Deadline(), nothing)  # half of those who may wait are this owner's
        with pytest.raises(TooBusy, match=r"no place for this query within 0\.01 s"):
            await lane.run("b", Deadline(0.01), nothing)
        go.set()
        await asyncio.gather(inside, *waiting)
        with pytest.raises(ZeroDivisionError):
            await lane.run("a", Deadline(), lambda: 1 // 0)
        assert await lane.run("a", Deadline(), lambda: 7) == 7

    asyncio.run(crowd())
