"""The exact engine against the oracle."""

import numpy as np
import pytest
from engine_contract import (
    DATA,
    SHAPES,
    SMALL_GRAPHS,
    benchmark_table,
    check,
    check_cut_short,
    random_query,
    random_table,
    shape_query,
)
from hypothesis import given
from hypothesis import strategies as st

from repeatable import SOAK, examples, seeds
from tuplet.engines import exact
from tuplet.engines.effort import Effort
from tuplet.engines.exact import Checker, load_fact_rows
from tuplet.query.limits import NO_DEADLINE, Deadline, Only
from tuplet.query.logic import Logic
from tuplet.query.ranking import Clauses, Ranking
from tuplet.truth.table import TruthTable

needs_data = pytest.mark.skipif(not DATA, reason="TUPLET_DATA does not name the folder of benchmark graphs")
LOGICS = Logic.names


def run(
    clauses: Clauses,
    table: TruthTable,
    k: int,
    logic: str,
    only: Only | None = None,
    rank: np.ndarray | None = None,
    deadline: Deadline = NO_DEADLINE,
    **limits: int,
) -> Ranking:
    checker = Checker(clauses, load_fact_rows(table.facts(), np.arange(table.entities, dtype=np.int32)))
    plan = exact.plan(clauses, table, rank)
    return exact.run(plan, k, Logic.from_name(logic), Effort(deadline, **limits), only, checker.holds)


def random_case(seed: int) -> tuple[np.random.Generator, TruthTable, int, str]:
    rng = np.random.default_rng(seed)
    density = float(rng.choice([0.15, 0.3, 0.6]))
    coarse, weighted = bool(rng.random() < 0.5), bool(rng.random() < 0.3)
    table = random_table(rng, int(rng.integers(3, 8)), int(rng.integers(1, 4)), density, coarse, weighted)
    return rng, table, int(rng.choice([0, 1, 3, 5, 20, 100])), str(rng.choice(LOGICS))


BLOCKS = seeds(4, 100)
PER_BLOCK = 45


@pytest.mark.parametrize("block", BLOCKS)
def test_random_queries_on_random_graphs(block: int) -> None:
    answered = 0
    for seed in range(PER_BLOCK * block, PER_BLOCK * (block + 1)):
        rng, table, k, logic = random_case(seed)
        only = (None, None, "predicted", "observed")[seed % 4]
        answered += check(run, random_query(rng, table), table, k, logic, only, seed) > 0
    assert answered > PER_BLOCK / 5


@pytest.mark.parametrize("block", BLOCKS)
def test_searches_cut_short_stay_honest(block: int) -> None:
    stopped = 0
    for seed in range(10_000 + 20 * block, 10_000 + 20 * (block + 1)):
        rng, table, k, logic = random_case(seed)
        work = int(rng.choice([1, 10, 40, 150]))
        only = (None, None, "predicted", "observed")[seed % 4]
        stopped += check_cut_short(run, random_query(rng, table), table, k, logic, only, work=work)
    assert stopped


@examples(20, 400)
@given(seed=st.integers(0, 2**32 - 1), logic=st.sampled_from(LOGICS), k=st.integers(1, 40))
def test_any_seed(seed: int, logic: str, k: int) -> None:
    rng, table, _, _ = random_case(seed)
    check(run, random_query(rng, table), table, k, logic)


@needs_data
@pytest.mark.parametrize("logic", LOGICS)
@pytest.mark.parametrize("graph", SMALL_GRAPHS)
def test_the_fourteen_shapes(graph: str, logic: str) -> None:
    table = benchmark_table(graph)
    for shape in SHAPES:
        # three free variables over a hundred entities cost the oracle a second
        large = shape[0] == "3" and table.entities > 50
        times = (4 if large else 10) if SOAK else int(not large or logic == "product")
        for seed in range(times):
            rng = np.random.default_rng([ord(graph[0]), seed])
            check(run, shape_query(shape, rng, table), table, 50, logic)


@needs_data
@pytest.mark.parametrize("graph", SMALL_GRAPHS)
def test_random_queries_on_small_graphs(graph: str) -> None:
    table = benchmark_table(graph)
    most_free = 3 if table.entities < 50 else 2
    for seed in seeds(10, 150):
        rng = np.random.default_rng([seed, 7])
        check(run, random_query(rng, table, most_free), table, 30, LOGICS[seed % len(LOGICS)])
