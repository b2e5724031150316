"""The first try of a query in the event loop: done in a moment, or begun again in a thread; owners come in turn."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tuplet.query.limits import Deadline
from tuplet.server import scheduling
from tuplet.server.app import Application
from tuplet.server.limits import ServerLimits, TooBusy
from tuplet.server.metrics import ServerMetrics
from tuplet.server.scheduling import FirstTries, Unfinished
from tuplet.server.service import Service
from tuplet.store import open_store


def endless(deadline: Deadline) -> Callable[[], str]:
    def search() -> str:
        while not deadline.over():
            pass
        raise Unfinished

    return search


def test_a_short_query_is_answered_in_the_loop() -> None:
    tries = FirstTries(64, ServerMetrics())
    assert asyncio.run(tries.run("a", Deadline(), threading.get_ident)) == threading.get_ident()


def test_a_long_query_has_a_moment_and_no_more() -> None:
    async def ask() -> str | None:
        deadline = Deadline(600.0)
        found = await FirstTries(64, ServerMetrics()).run("a", deadline, endless(deadline))
        assert not deadline.brake.stopped  # it may begin again
        return found

    assert asyncio.run(ask()) is None


@pytest.mark.parametrize(
    ("clock", "processor", "over"), [(0.02, 0.001, False), (0.02, 0.02, True), (0.06, 0.001, True), (0.009, 0.0, False)]
)
def test_what_others_take_is_not_the_querys_but_the_loop_is_not_held_up(
    monkeypatch: pytest.MonkeyPatch, clock: float, processor: float, over: bool
) -> None:
    now = {"perf_counter": 7.0, "thread_time": 3.0}
    for name in now:
        monkeypatch.setattr(scheduling, name, partial(now.__getitem__, name))
    deadline = Deadline()

    def work() -> bool:
        now["perf_counter"] += clock
        now["thread_time"] += processor
        return deadline.over()

    assert asyncio.run(FirstTries(64, ServerMetrics()).run("a", deadline, work)) is over


def test_an_error_is_the_answer() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(FirstTries(64, ServerMetrics()).run("a", Deadline(), lambda: 1 // 0))


def test_owners_come_in_turn_and_the_loop_goes_on_between_two() -> None:
    async def crowd() -> list[str]:
        tries, order = FirstTries(64, ServerMetrics()), list[str]()
        names = ("a1", "a2", "a3", "b1", "c1")
        asked = [tries.run(name[0], Deadline(), lambda name=name: order.append(name)) for name in names]  # type: ignore[misc]
        tasks = [asyncio.create_task(one) for one in asked]

        async def others() -> None:
            while not all(task.done() for task in tasks):
                order.append("-")
                await asyncio.sleep(0)

        await others()
        return order

    order = asyncio.run(crowd())
    assert [name for name in order if name != "-"] == ["a1", "b1", "c1", "a2", "a3"]
    places = [place for place, name in enumerate(order) if name != "-"]
    assert all(after > before + 1 for before, after in pairwise(places))


def test_too_many_wait() -> None:
    async def crowd() -> None:
        tries = FirstTries(4, ServerMetrics())
        tasks = [asyncio.create_task(tries.run("a", Deadline(), int)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(TooBusy, match="2 requests are waiting already"):
            await tries.run("a", Deadline(), int)  # half of the row is this owner's
        tasks[0].cancel()
        assert await tries.run("b", Deadline(), int) == 0
        assert await tasks[1] == 0

    asyncio.run(crowd())


def test_where_most_tries_are_in_vain_few_are_made() -> None:
    async def crowd() -> int:
        tries, made = FirstTries(64, ServerMetrics()), list[int]()

        def in_vain() -> None:
            made.append(1)
            raise Unfinished

        for _ in range(200):
            assert await tries.run("a", Deadline(), in_vain) is None
        few = len(made)
        for _ in range(16 * 20):
            await tries.run("a", Deadline(), str)
        assert await tries.run("a", Deadline(), lambda: "again") == "again"  # they are worth it once more
        return few

    assert 10 < asyncio.run(crowd()) < 40


ANCHORED = "?x, ?y : borders(?x, ?y) & located_in(?x, western_africa)"


def served(service: Service, **body: Any) -> dict[str, Any]:
    """The answer of the application, without a server around it."""
    content, sent = json.dumps(body).encode(), list[Any]()

    messages = [{"type": "http.request", "body": content}]

    async def receive() -> Any:
        # a client that stays says nothing more; one that answered at once, again and again, would keep the loop busy
        return messages.pop() if messages else await asyncio.Future()

    async def send(message: Any) -> None:
        sent.append(message)

    length = str(len(content)).encode()
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", length)]
    scope = {"type": "http", "method": "POST", "path": "/ask", "query_string": b"", "headers": headers}
    asyncio.run(Application(service)(scope, receive, send))  # type: ignore[arg-type]
    return json.loads(b"".join(message.get("body", b"") for message in sent))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("moment", "body", "threads"),
    [
        (60.0, {"query": ANCHORED}, 0),
        (0.0, {"query": ANCHORED}, 1),  # no time: it begins again in a thread
        (60.0, {"query": "?x, ?y : borders(?x, ?y)"}, 1),  # begins nowhere in particular
        (60.0, {"query": ANCHORED, "k": 1000}, 1),
        (60.0, {"query": ANCHORED, "evidence": True}, 1),
        (60.0, {"query": f"{ANCHORED} | borders(?x, ?y) & located_in(?x, europe)"}, 1),
        (60.0, {"query": f"count {ANCHORED}"}, 1),
        (60.0, {"query": ANCHORED, "timeout": 1e-9}, 0),  # its own time is over, not its moment
        (60.0, {"query": "?x : borders(?x, nowhere)"}, 0),
    ],
)
def test_it_is_the_same_answer(
    store_path: Path, monkeypatch: pytest.MonkeyPatch, moment: float, body: dict[str, Any], threads: int
) -> None:
    monkeypatch.setattr(scheduling, "MOMENT", moment)
    service = Service({"world": open_store(store_path)}, ServerLimits(), ServerMetrics())
    found = served(service, **body)
    assert len(service.places._threads._threads) == threads
    monkeypatch.setattr(Service, "may_be_short", lambda self, asked: False)
    beside = served(Service({"world": open_store(store_path)}, ServerLimits(), ServerMetrics()), **body)
    assert {**found, "elapsed_ms": 0} == {**beside, "elapsed_ms": 0}
    counted = [line for line in service.metrics.text().splitlines() if line.startswith("tuplet_queries_total{")]
    assert [line.split()[-1] for line in counted] == (["1.0"] if "answers" in found else [])
