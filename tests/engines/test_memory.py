"""`memory` is a limit of every engine: it holds, and what it cuts short claims nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_ns3 import CHAIN, STAR, ask, random_table, source_of

from tuplet import registry
from tuplet.engines import brute
from tuplet.engines.ns3.tensor_memory import TensorMemory, counted, make_room
from tuplet.errors import BudgetExceeded
from tuplet.query.limits import Brake, Deadline, Limits, OutOfMemory
from tuplet.query.query_graph import Edge, QueryGraph

ENGINES = ["exact", "crisp", "ns3", "ns3-marginal", "fit", "qto"]
OPEN = QueryGraph(("x", "y", "z"), (0, 1, 2), (Edge(0, 0, 1), Edge(1, 1, 2)))
MB = 1 << 20


@settings(max_examples=15, deadline=None)
@given(
    engine=st.sampled_from(ENGINES),
    clause=st.sampled_from([CHAIN, STAR, OPEN]),
    memory=st.sampled_from([1, 5_000, 50_000, 150_000, 300_000, 600_000, 1_200_000, 1 << 40]),
    seed=st.integers(0, 3),
)
def test_what_memory_cuts_short_claims_nothing(engine: str, clause: QueryGraph, memory: int, seed: int) -> None:
    table = random_table(seed, entities=24)
    found = ask(engine, clause, table, k=20, memory=memory)
    oracle = brute.run([clause], source_of(table).table([clause]), 40)
    if engine == "crisp":
        assert found.exact or found.pruned == "memory"
        return
    if found.exact:
        np.testing.assert_allclose(found.truth, oracle.truth[:20])
    elif registry.find("engines", engine).exact:
        shown = {tuple(row) for row in found.tuples.tolist()}
        missed = [t for row, t in zip(oracle.tuples.tolist(), oracle.truth, strict=True) if tuple(row) not in shown]
        assert found.bound >= max(missed, default=0.0) * (1 - 1e-9), "the bound holds for all that is not shown"
    if memory == 1 and engine != "exact":  # its first arrays are there before anything is asked
        assert (found.exact, found.pruned) == (False, "memory")
    if memory == 1 << 40:
        assert found.pruned != "memory"


def test_the_oracle_refuses_what_does_not_fit() -> None:
    table = random_table()
    with pytest.raises(BudgetExceeded, match="more than its limit"):
        ask("brute", CHAIN, table, memory=100_000)
    assert len(ask("brute", CHAIN, table, memory=10 * MB).truth) == 10


def peak(work: Callable[[], object]) -> float:
    """Bytes by which what this process holds grows at most while it works."""

    def status(name: str) -> int:
        with open("/proc/self/status") as lines:
            return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])

    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak starts anew
    before = status("VmRSS")
    work()
    return status("VmHWM") - before


@pytest.mark.parametrize(("engine", "density"), [("ns3", 0.1), ("crisp", 0.45)])
def test_the_limit_holds(engine: str, density: float) -> None:
    """About a million tuples, all of them asked for: some 100 MB where nothing is said."""
    source = source_of(random_table(0, entities=400, density=density))
    runner = registry.find("engines", engine)

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
    with counted(Limits(memory=MB), Deadline()):
        make_room(MB // 2)
        with pytest.raises(OutOfMemory):
            make_room(MB)
    with suppress(OutOfMemory):
        make_room(1 << 60)  # outside of searches nobody counts
