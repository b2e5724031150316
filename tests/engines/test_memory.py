"""`memory` is a limit of every engine: it holds, and what it cuts short claims nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from test_ns3 import CHAIN, STAR, ask, random_table, source_of

import tuplet
from repeatable import examples
from tuplet.engines import brute
from tuplet.engines.effort import Effort
from tuplet.engines.exact import Checker
from tuplet.engines.given import judge
from tuplet.engines.ns3.tensors import TensorMemory, count_memory, make_room
from tuplet.errors import BudgetExceeded
from tuplet.query.ask import status
from tuplet.query.limits import Brake, Deadline, Limits, Only, OutOfMemory
from tuplet.query.ranking import Clauses, Edge, QueryGraph, Ranking
from tuplet.query.source import Source
from tuplet.query.witness import Witnesses
from tuplet.server.allocator import give_back
from tuplet.settings import find_plugin
from tuplet.truth.table import TruthTable

ENGINES = ["exact", "crisp", "ns3", "ns3-marginal", "fit", "qto"]
OPEN = QueryGraph(("x", "y", "z"), (0, 1, 2), (Edge(0, 0, 1), Edge(1, 1, 2)))
# Three independent parts: their product is large where each of them is small.
APART = QueryGraph(("a", "b", "c", "x", "y", "z"), (0, 1, 2), (Edge(0, 0, 3), Edge(1, 1, 4), Edge(2, 0, 5)))
MB = 1 << 20


@examples(15)
@given(
    engine=st.sampled_from(ENGINES),
    clause=st.sampled_from([CHAIN, STAR, OPEN]),
    memory=st.sampled_from([1, 5_000, 50_000, 150_000, 300_000, 600_000, 1_200_000, 1 << 40]),
    seed=st.integers(0, 3),
    k=st.sampled_from([20, 2_000]),  # the second is more than the first arrays hold
    only=st.sampled_from([None, "predicted", "observed"]),
)
def test_what_memory_cuts_short_claims_nothing(
    engine: str, clause: QueryGraph, memory: int, seed: int, k: int, only: Only | None
) -> None:
    table = random_table(seed, entities=24)
    found = ask(engine, clause, table, k=k, memory=memory, only=None if engine == "crisp" else only)
    oracle = brute.run([clause], source_of(table).table([clause]), 24**3, only=only)
    if engine == "crisp":
        assert found.exact or found.pruned == "memory"
        return
    if found.exact:
        np.testing.assert_allclose(found.truth, oracle.truth[:k])
    elif find_plugin("engines", engine).exact:
        shown = {tuple(row) for row in found.tuples.tolist()}
        missed = [t for row, t in zip(oracle.tuples.tolist(), oracle.truth, strict=True) if tuple(row) not in shown]
        assert found.bound >= max(missed, default=0.0) * (1 - 1e-9), "the bound holds for all that is not shown"
    if memory == 1 and engine != "exact":  # its first arrays are there before anything is asked
        assert (found.exact, found.pruned) == (False, "memory")
    if memory == 1 << 40:
        assert found.pruned != "memory"


def check_parts(table: TruthTable, found: Ranking, why: str) -> None:
    """What a limit cut short in independent parts is right, and claims no more than is so."""
    alone = []  # the truth of every entity in each part
    for relation in (0, 1, 0):
        part = QueryGraph(("a", "x"), (0,), (Edge(0, relation, 1),))
        oracle = brute.run([part], source_of(table).table([part]), table.entities)
        alone.append(np.zeros(table.entities))
        alone[-1][oracle.tuples[:, 0]] = oracle.truth
    truth = alone[0][:, None, None] * alone[1][:, None] * alone[2]
    places, shown = tuple(found.tuples.T), np.zeros(truth.shape, dtype=bool)
    shown[places] = True
    assert (found.exact, found.pruned) == (False, why)
    assert 0 < len(found.truth) == np.count_nonzero(shown), "each once"
    np.testing.assert_allclose(found.truth, truth[places])  # of crisp, too: facts have truth 1
    truth[shown] = 0
    assert found.bound >= truth.max() * (1 - 1e-9) > 0


@pytest.mark.parametrize("engine", ["exact", "crisp"])
def test_products_of_parts_hold_the_limit(engine: str) -> None:
    table = random_table(0, entities=30)
    found = ask(engine, APART, table, k="all", memory=MB)
    check_parts(table, found, "memory")
    assert 100 * len(found.truth) < MB


@pytest.mark.parametrize(("engine", "entities", "times"), [("exact", 30, (4.0, 8.0)), ("crisp", 80, (0.5, 1.0))])
def test_products_of_parts_leave_time_to_be_finished(engine: str, entities: int, times: tuple[float, ...]) -> None:
    """More time gives no fewer answers: those that there is no time to put in order and explain are not shown."""
    table = random_table(0, entities)
    shown = [0]
    for seconds in times:
        ticks = count()
        deadline = Deadline(seconds, clock=partial(lambda ticks: 0.04 * next(ticks), ticks))  # 40 ms each look
        found = ask(engine, APART, table, deadline, k="all")
        check_parts(table, found, "timeout")
        assert shown[-1] <= len(found.truth) < 5e5 * seconds
        shown.append(len(found.truth))


@pytest.mark.parametrize("engine", ["exact", "crisp"])
@pytest.mark.parametrize("memory", [1, 100])
def test_questions_with_yes_or_no_hold_the_limit(engine: str, memory: int) -> None:
    """There is no variable whose names could be looked through in order, and no time limit that could be named."""
    store = tuplet.Store(source_of(random_table()))
    for query in ("ASK { :e0 :r0 :e1 }", "ASK { ?x :r0 ?y . ?z :r1 ?w }"):
        free, found = (store.ask(query, engine=engine, memory=most) for most in (None, memory))
        assert found.holds in (free.holds, None)
        assert found.pruned in (None, "memory")
        assert found.summary().startswith(
            "not known: memory" if found.holds is None else "yes" if found.holds else "no"
        )
    assert store.ask("ASK { ?x :r0 ?y . ?z :r1 ?w }", engine=engine, memory=100).holds is None


def test_the_oracle_refuses_what_does_not_fit() -> None:
    table = random_table()
    with pytest.raises(BudgetExceeded, match="more than the memory of 100,000; use the exact engine or give") as caught:
        ask("brute", CHAIN, table, memory=100_000)
    named = int(str(caught.value).rpartition("memory=")[2])
    assert 100_000 < named < 10 * MB
    with pytest.raises(BudgetExceeded, match="more than the memory"):
        ask("brute", CHAIN, table, memory=named - 1)
    assert len(ask("brute", CHAIN, table, memory=named).truth) == 10, "what it names will do"


def peak(work: Callable[[], object]) -> float:
    """Bytes by which what this process holds grows at most while it works."""

    def status(name: str) -> int:
        with open("/proc/self/status") as lines:
            return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])

    give_back()  # what earlier tests freed would be used first, and nothing would grow
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak starts anew
    before = status("VmRSS")
    work()
    return status("VmHWM") - before


@pytest.mark.parametrize(
    ("engine", "density"),
    [("ns3", 0.1), ("crisp", 0.45), ("exact", 0.15)],
)
def test_the_limit_holds(engine: str, density: float) -> None:
    """About a million tuples, all of them asked for: some 100 MB where nothing is said."""
    source = source_of(random_table(0, entities=400, density=density))
    runner = find_plugin("engines", engine)

    def search(memory: int | None) -> str | None:
        limits = Limits(k=None if engine == "ns3" else "all", budget="all", memory=memory)
        pruned: str | None = runner.run(runner.plan([OPEN], source, limits), limits, Deadline()).pruned
        return pruned

    assert search(MB) == "memory"  # whatever is loaded is loaded now
    try:
        most = peak(lambda: search(24 * MB))
        free = peak(lambda: search(None))
    except PermissionError:
        pytest.skip("the peak of this process cannot be read")
    assert most < 40 * MB
    assert free > 60 * MB, "or else this shows nothing"


def test_what_checks_the_facts_holds_the_limit() -> None:
    """It forgets what it learned of other tuples before it gives up."""
    chain = QueryGraph(tuple("xyabc"), (0, 1), (Edge(0, 0, 1), Edge(0, 1, 2), Edge(2, 0, 3), Edge(3, 1, 4)))
    source = source_of(random_table(0, entities=2_000, density=0.004))
    heads, _, tails = source.graph.edges("train")
    tuples = np.stack([heads, tails], axis=1)
    free = Effort()
    wanted = Checker.from_source([chain], source, free).judge(tuples, Deadline())
    assert free.memory.held > 250_000, "or else this shows nothing"
    for memory in (0, 100_000, 250_000):
        effort = Effort(memory=memory)
        np.testing.assert_array_equal(Checker.from_source([chain], source, effort).judge(tuples, Deadline()), wanted)
        assert effort.memory.held <= memory
        np.testing.assert_array_equal(judge([chain], source, tuples, Deadline(), memory), wanted)


def test_a_status_that_memory_leaves_open_is_said() -> None:
    """The best witness rests on a prediction, and there is no room to look for one of facts."""
    rows = [(0, 0, 1, 1.0), (0, 0, 2, 1.0), (1, 1, 3, 0.5), (2, 1, 3, 0.4)]
    heads, relation, tails, truth = (np.array(column) for column in zip(*rows, strict=True))
    table = TruthTable.build(4, 2, heads, relation, tails, truth, truth == 1)
    clause = QueryGraph(("x", "z", "y"), (0, 1), (Edge(0, 0, 2), Edge(2, 1, 1)))
    runner, source = find_plugin("engines", "exact"), source_of(table)
    ranking = ask("exact", clause, table)
    witnesses = Witnesses.from_ranking(ranking, [clause], source, stated=False)
    told: list[int | None] = []

    def unknown(
        clauses: Clauses, source: Source, tuples: NDArray[np.int32], deadline: Deadline, memory: int | None
    ) -> NDArray[np.int8]:
        told.append(memory)
        return np.full(len(tuples), -1, dtype=np.int8)

    crisp, why = status(witnesses, ranking, [clause], source, runner, unknown, 7, Deadline())
    assert (crisp.tolist(), why, told) == ([-1], "memory", [7])


def test_what_checks_the_facts_names_the_limit() -> None:
    """The search has used all memory, and the existential part apart cannot begin: that is not the time."""
    apart = QueryGraph(("x", "y"), (0,), (Edge(0, 0, ~1), Edge(~0, 1, 1)))
    effort = Effort(memory=1)
    effort.memory.held = 2
    with pytest.raises(OutOfMemory):
        Checker.from_source([apart], source_of(random_table()), effort.beside()).holds(np.zeros((1, 1)), Deadline())


def test_tensors_count_from_their_making_to_their_end() -> None:
    told: list[int] = []

    class Told(Brake):
        def may_hold(self, size: int) -> bool:
            told.append(size)
            return size < 40 * MB

    memory = TensorMemory(100 * MB, Told())
    with memory:
        one = torch.zeros(MB, dtype=torch.int64)
        assert memory.held == 8 * MB
        view, other = one[:10_000], one + 1
        assert memory.held == 16 * MB
        del one
        assert memory.held == 16 * MB, "a part of it is in use"
        del view
        assert memory.held == 8 * MB
        with pytest.raises(OutOfMemory):
            torch.cat([other] * 20)  # before it is made
        with pytest.raises(OutOfMemory):  # others leave less than that
            torch.zeros(5 * MB, dtype=torch.int64)
    assert memory.held == 8 * MB
    assert max(told) == 48 * MB
    with count_memory(Limits(memory=MB), Deadline()):
        make_room(MB // 2)
        with pytest.raises(OutOfMemory):
            make_room(MB)
    with suppress(OutOfMemory):
        make_room(1 << 60)  # outside of searches nobody counts
