"""One deadline from the receipt of a request to its last byte, on a clock that the test drives: what there was no time
for is said, never claimed."""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from tuplet.engines.exact import Exact
from tuplet.errors import BudgetExceeded
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.query.limits import Deadline
from tuplet.query.rows import READ_ANYWAY
from tuplet.query.source import Source
from tuplet.server import models
from tuplet.server.app import Application
from tuplet.server.encoding import SLICE, to_json, to_lines
from tuplet.server.limits import OverLimit, ServerLimits, TooBusy
from tuplet.server.metrics import ServerMetrics
from tuplet.server.scheduling import Places
from tuplet.server.service import Service
from tuplet.server.sparql_results import results
from tuplet.store import Store
from tuplet.truth.table import TruthTable


class Clock:
    """Stands still until it is moved; with `tick` it moves at every look."""

    def __init__(self, tick: float = 0.0) -> None:
        self.now, self.tick = 0.0, tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


def store(half: int = 200, degree: int = 40) -> Store:
    """Two dense halves, stated; predicted bridges from the first to the second, which alone has the mark."""
    rng = np.random.default_rng(0)
    n = 2 * half
    heads = np.repeat(np.arange(n), degree)
    tails = np.concatenate([rng.choice(half, degree, replace=False) + i // half * half for i in range(n)])
    heads = np.concatenate([heads, np.arange(half, n)])
    tails = np.concatenate([tails, np.full(half, n - 1)])
    relation = np.repeat([0, 1], [n * degree, half])
    names, relations = Vocabulary.from_names([f"n{i:03}" for i in range(n)]), Vocabulary.from_names(["r", "s"])
    graph = KnowledgeGraph.from_edges(names, relations, heads, relation, tails)
    columns = [(heads, np.arange(half)), (relation, np.zeros(half, int)), (tails, rng.integers(half, n, half))]
    observed = np.arange(len(heads) + half) < len(heads)
    truth = np.where(observed, 1.0, 0.5)
    table = TruthTable.build(n, 2, *(np.concatenate(pair) for pair in columns), truth, observed)
    return Store(Source(graph, None, table))


def path(hops: int) -> str:
    """From where can the mark be reached? Millions of walks; only a bridge leads over from the first half."""
    variables = ["x", *(f"v{i}" for i in range(hops))]
    steps = " & ".join(f"r(?{a}, ?{b})" for a, b in itertools.pairwise(variables))
    return f"?x : exists {', '.join(f'?{v}' for v in variables[1:])} . {steps} & s(?{variables[-1]}, n399)"


def ring(nodes: int) -> str:
    """A ring over a bridge: there is none, and it takes minutes to be sure of it."""
    variables = [f"v{i}" for i in range(nodes)]
    steps = " & ".join(f"r(?{a}, ?{b})" for a, b in zip(variables, [*variables[1:], variables[0]], strict=True))
    return f"{', '.join(f'?{v}' for v in variables)} : {steps}"


@pytest.fixture(scope="module")
def bridges() -> Store:
    return store()


@pytest.fixture
def service(bridges: Store) -> Service:
    return Service({"bridges": bridges}, ServerLimits(max_time=1.0), ServerMetrics())


def answered(service: Service, deadline: Deadline, **keys: Any) -> dict[str, Any]:
    request = models.AskRequest(**keys)
    answers = service.answer(request, deadline)
    return json.loads(to_json(answers, deadline))  # type: ignore[no-any-return]


@pytest.mark.parametrize("only", [None, "predicted"])
@pytest.mark.parametrize("k", [5, 250])
def test_five_hops_within_the_second_of_the_server(service: Service, k: int, only: str | None) -> None:
    found = answered(service, service.limits.deadline(), query=path(5), k=k, only=only)
    assert found["exact"] or found["pruned"] == "timeout"
    for answer in found["answers"]:
        stated = answer["values"]["x"] >= "n200"
        assert answer["truth"] == (1.0 if stated else 0.5)
        assert answer["status"] in (None, "observed" if stated else "mixed")
        assert not (only and stated)
    if found["pruned"] is None:
        assert len(found["answers"]) == min(k, 200 if only else 400)
        assert None not in {answer["status"] for answer in found["answers"]}


def test_whatever_the_moment_only_what_was_finished_is_claimed(service: Service) -> None:
    whole = answered(service, Deadline(), query=path(3), k=250)
    assert (whole["pruned"], len(whole["answers"])) == (None, 250)
    right = {answer["values"]["x"]: answer for answer in whole["answers"]}
    said = set()
    for looks in (0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100, 1000):
        found = answered(service, Deadline(looks + 0.5, Clock(tick=1.0)), query=path(3), k=250)
        said.add(found["pruned"])
        shown = [answer["values"]["x"] for answer in found["answers"]]
        if found["pruned"] is None:
            assert found["answers"] == whole["answers"]
            continue
        for answer in found["answers"]:
            known = right.get(answer["values"]["x"])
            assert answer["truth"] <= 1.0 if known is None else answer["truth"] == known["truth"]
            assert known is None or answer["status"] in (None, known["status"])
        missing = [answer["truth"] for name, answer in right.items() if name not in shown]
        assert found["bound"] >= max(missing, default=0.0)
    assert said == {"timeout", None}


def test_millions_are_counted_in_time(service: Service) -> None:
    """They do not become rows first, which took minutes; where they must, as many as there is time for do."""
    triangles = "count ?a, ?b, ?c : r(?a, ?b) & r(?b, ?c) & r(?c, ?a)"
    deadline = Deadline(600.0)
    whole = answered(service, deadline, query=triangles)["count"]
    assert whole["complete"]
    assert whole["answers"] > 100_000
    clock = Clock()
    deadline = Deadline(1.0, clock)

    class Late(Exact):
        def run(self, *given: Any) -> Any:
            found = super().run(*given)
            clock.now = 2.0
            return found

    service.engines = lambda _: {"exact": Late()}  # type: ignore[assignment,misc]
    either = "count ?a, ?b, ?c, ?r : r(?a, ?b) & r(?b, ?c) & ?r(?c, ?a)"
    found = answered(service, deadline, query=either)
    assert (found["pruned"], found["count"]["complete"]) == ("timeout", False)
    assert READ_ANYWAY <= found["count"]["answers"] < 3 * READ_ANYWAY


def test_answers_that_were_not_written_are_not_shown(service: Service) -> None:
    clock = Clock()
    answers = service.answer(models.AskRequest(query=path(2), k=1000), Deadline())
    assert (len(answers), answers.bound) == (400, 0.0)
    deadline = Deadline(1.0, clock)
    clock.now = 2.0
    found = json.loads(to_json(answers, deadline))
    head, *lines = [json.loads(line) for piece in to_lines(answers, deadline) for line in piece.splitlines()]
    sparql = json.loads(results(answers, deadline).body)
    assert len(found["answers"]) == len(lines) == len(sparql["results"]["bindings"]) == SLICE
    assert found["answers"] == list(answers.rows(0, SLICE)) == lines
    for said in (found, head, sparql["tuplet"]):
        assert said["pruned"] == "timeout"
        assert said["bound"] == answers.ranking.truth[SLICE] == 0.5, "the best that is not shown"
    assert answers.pruned is None, "the answers themselves are whole"
    whole = json.loads(to_json(answers, Deadline(1.0, clock)))
    assert (whole["pruned"], len(whole["answers"])) == (None, 400)


def test_a_batch_shares_the_time_of_one_request(service: Service) -> None:
    query = {"query": "?x : r(?x, n003)"}
    request = models.AskRequest(queries=[query["query"], {"query": "?x : r(?x, n004)", "k": 1}, query])
    whole = json.loads(service.batch(request, Deadline(1.0, Clock())))["results"]
    assert [len(result["answers"]) for result in whole] == [10, 1, 10]
    clock = Clock()
    deadline = Deadline(1.0, clock)
    seen = []

    class Timed(Service):
        def search(self, *given: Any, **named: Any) -> Any:
            found = super().search(*given, **named)
            seen.append(found)
            clock.now += 0.6
            return found

    timed = Timed(service.stores, service.limits, service.metrics)
    first, second, third = json.loads(timed.batch(request, deadline))["results"]
    assert first["answers"] == whole[0]["answers"]
    assert second["answers"] == whole[1]["answers"]
    assert (third["kind"], third["limit"]) == ("limit", "time")
    assert len(seen) == 2


def test_loading_an_engine_does_not_cost_the_time_of_a_request(service: Service, bridges: Store) -> None:
    clock = Clock()

    class Slow(Exact):
        def load(self, source: object) -> None:
            clock.now += 7.0

    service.engines = lambda _: {"exact": Slow()}  # type: ignore[assignment,misc]
    deadline = Deadline(1.0, clock)
    service.engine(bridges, None, deadline)
    assert deadline.left() == 1.0


def test_a_tuple_that_cannot_be_explained_in_time_is_refused(service: Service) -> None:
    request = models.ExplainRequest(query=path(4), values={"x": "n000"})
    explained = json.loads(service.explain(request, Deadline()))
    assert (explained["truth"], explained["status"]) == (0.5, "mixed")
    for looks in range(30):
        with suppress(BudgetExceeded):
            found = json.loads(service.explain(request, Deadline(looks + 0.5, Clock(tick=1.0))))
            assert found["truth"] == 0.5
            assert found["status"] in (None, "mixed")
    with pytest.raises(BudgetExceeded, match=r"within 0\.5 s"):
        service.explain(request, Deadline(0.5, Clock(tick=1.0)))


def test_waiting_for_a_place_counts(bridges: Store) -> None:
    service = Service({"bridges": bridges}, ServerLimits(max_concurrent=1, max_time=1.0), ServerMetrics())
    service.places = Places(1, 64, service.metrics, short=600.0)
    clock = Clock()

    async def crowd() -> None:
        free, given = asyncio.Event(), service.limits.deadline(clock=clock)
        loop = asyncio.get_running_loop()

        def hold() -> None:
            asyncio.run_coroutine_threadsafe(free.wait(), loop).result()

        def late() -> dict[str, Any]:
            return answered(service, given, query=path(3), k=5)

        holding = asyncio.create_task(service.places.run("", Deadline(), hold))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(service.places.run("", given, late))
        with pytest.raises(TooBusy):
            await service.places.run("", Deadline(0.01), late)
        clock.now = 2.0  # while the second one waits
        free.set()
        await holding
        found = await waiting
        assert found["pruned"] == "timeout"
        assert found["exact"] is False

    asyncio.run(crowd())


def test_a_client_that_goes_away_frees_its_place(bridges: Store) -> None:
    """A query of minutes, and nobody waits for it: its search ends, and the next query finds the place free."""
    service = Service({"bridges": bridges}, ServerLimits(max_concurrent=1, max_time=600.0), ServerMetrics())
    app, sent = Application(service), list[Any]()

    async def asked(query: str, gone: asyncio.Event) -> None:
        body = json.dumps({"query": query, "k": 250, "only": "predicted"}).encode()
        told = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if told:
                return told.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"1")]
        scope = {"type": "http", "method": "POST", "path": "/ask", "query_string": b"", "headers": headers}
        await app(scope, receive, send)

    async def crowd() -> None:
        gone = asyncio.Event()
        slow = asyncio.create_task(asked(ring(6), gone))
        await asyncio.sleep(0.2)
        assert not slow.done()
        gone.set()
        await slow
        assert [message["status"] for message in sent if "status" in message] == [499]
        await asked(path(2), asyncio.Event())
        assert sent[-2]["status"] == 200
        while service.places._long:  # its thread ends at its next look
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(crowd(), 600))


def test_a_timeout_beyond_the_limit_of_the_server_is_refused() -> None:
    with pytest.raises(OverLimit, match="at most 1 s"):
        ServerLimits(max_time=1.0).deadline(1.5)
    assert ServerLimits(max_time=1.0).deadline(0.5, Clock()).left() == 0.5
