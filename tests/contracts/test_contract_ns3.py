"""NS3 judged by the oracle: exact without a budget, honest with one."""

from __future__ import annotations

from itertools import combinations
from typing import TypeAlias

import numpy as np
import pytest
from engine_contract import (
    SHAPES,
    atom_product,
    check,
    check_listed,
    random_query,
    random_table,
    shape_query,
)
from numpy.typing import NDArray

from ns3_runs import run
from repeatable import seeds
from tuplet.engines import brute
from tuplet.engines.ns3.algorithm import BoxBudget
from tuplet.engines.ns3.run import marginal_vectors, run_many
from tuplet.engines.ns3.search import FuzzySearch
from tuplet.engines.ns3.tensors import TensorTable
from tuplet.query.logic import Logic
from tuplet.query.ranking import Edge, QueryGraph, Ranking
from tuplet.truth.table import TruthTable

TRUTHS = Logic.names
Ranks: TypeAlias = NDArray[np.int32]


def unlimited(clauses: list[QueryGraph], table: TruthTable, k: int, logic: str, only: None, rank: Ranks) -> Ranking:
    return run(clauses, table, k, BoxBudget.all(), logic, rank=rank)


def check_adaptive(clauses: list[QueryGraph], table: TruthTable, k: int, logic: str) -> int:
    """The truths shown are the true best ones; which of several equal tuples are shown is open."""
    ranking = run(clauses, table, k, BoxBudget(B=2, merge="adaptive", enumerate=1), logic)
    tensor = dense(clauses, table, logic)
    ranked = np.sort(tensor[tensor > 0].reshape(-1))[::-1]
    assert (ranking.exact, ranking.pruned) == (True, None)
    np.testing.assert_allclose(ranking.truth, ranked[:k], rtol=1e-9, atol=1e-12)
    check_listed(ranking, tensor, clauses, table, Logic.from_name(logic))
    if len(ranked) > k:
        assert ranked[k] * (1 - 1e-9) <= ranking.bound <= ranking.truth[-1] * (1 + 1e-9)
    return len(ranked)


def some_table(rng: np.random.Generator, most: int = 9) -> TruthTable:
    while True:
        size = int(rng.integers(4, most)), int(rng.integers(1, 4))
        table = random_table(rng, *size, float(rng.choice([0.2, 0.3, 0.5])), bool(rng.random() < 0.5))
        if table.edges:
            return table


def some_query(rng: np.random.Generator, table: TruthTable) -> list[QueryGraph]:
    if rng.random() < 0.4:
        return shape_query(str(rng.choice(list(SHAPES))), rng, table)
    return random_query(rng, table, 3)


def dense(clauses: list[QueryGraph], table: TruthTable, logic: str = "product") -> np.ndarray:
    return brute.Space(table, Logic.from_name(logic)).combine(clauses)


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_is_exact_without_caps(name: str) -> None:
    answers = 0
    for seed in seeds(3, 30):
        rng = np.random.default_rng(seed)
        table = random_table(rng, 9, 3, 0.3, coarse=bool(seed % 2))
        clauses = shape_query(name, rng, table)
        answers += check(unlimited, clauses, table, 10, TRUTHS[seed % len(TRUTHS)])
        check_adaptive(clauses, table, 10, TRUTHS[seed % len(TRUTHS)])
    assert answers


def test_random_queries_are_exact_without_caps() -> None:
    answers = 0
    for seed in seeds(100, 3000):
        rng = np.random.default_rng(1000 + seed)
        table = some_table(rng)
        k = int(rng.choice([1, 3, 10, 50]))
        clauses = random_query(rng, table, 4)
        answers += check(unlimited, clauses, table, k, TRUTHS[seed % len(TRUTHS)])
        check_adaptive(clauses, table, k, TRUTHS[seed % len(TRUTHS)])
    assert answers > 1000


def test_certificates_are_never_wrong_and_values_never_too_high() -> None:
    certified = uncertified = 0
    for seed in seeds(300, 5000):
        rng = np.random.default_rng(20_000 + seed)
        table = some_table(rng)
        clauses, logic, k = some_query(rng, table), TRUTHS[seed % len(TRUTHS)], int(rng.choice([1, 2, 5, 10]))
        budget = BoxBudget(
            B=int(rng.choice([1, 2, 3, 5, 20])),
            merge=str(rng.choice(["progressive", "simultaneous"])),
            enumerate=int(rng.choice([1, 2, 10])),
        )
        tensor = dense(clauses, table, logic)
        ranking = run(clauses, table, k, budget, logic)
        true = np.array([tensor[tuple(t)] for t in ranking.tuples.tolist()])
        assert (ranking.truth <= true * (1 + 1e-9)).all()
        rest = tensor.copy()
        for key in map(tuple, ranking.tuples.tolist()):
            rest[key] = 0
        assert rest.max() <= ranking.bound * (1 + 1e-9)
        assert ranking.exact == (ranking.pruned is None)
        if ranking.exact:
            best = np.sort(tensor[tensor > 0].reshape(-1))[::-1][:k]
            np.testing.assert_allclose(ranking.truth, best, rtol=1e-8)
            check_listed(ranking, tensor, clauses, table, Logic.from_name(logic))
        certified += ranking.exact
        uncertified += not ranking.exact
    assert min(certified, uncertified) > 50


def test_cliques_with_nested_cuts_are_bounded() -> None:
    """Cycles inside cycles: what an inner cut leaves out is bounded too."""
    cut = 0
    for seed in seeds(25, 300):
        rng = np.random.default_rng(seed)
        table = random_table(rng, 6, 2, 0.7, coarse=False)
        edges = tuple(Edge(a, int(rng.integers(2)), b) for a, b in combinations(range(4 + seed % 2), 2))
        clauses = [QueryGraph(tuple(f"v{i}" for i in range(4 + seed % 2)), (0, 1)[: 1 + seed % 2], edges)]
        tensor = dense(clauses, table)
        ranking = run(clauses, table, 2, BoxBudget(B=4, enumerate=1))
        rest = tensor.copy()
        for key in map(tuple, ranking.tuples.tolist()):
            rest[key] = 0
        assert rest.max() <= ranking.bound * (1 + 1e-9)
        cut += not ranking.exact
    assert cut


@pytest.mark.parametrize("name", SHAPES)
def test_values_are_exact_where_no_existential_domain_is_cut(name: str) -> None:
    """With B = |E| no domain is cut, but the joint box of n·B tuples is: every value inside is the oracle's."""
    listed = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        table = random_table(rng, 9, 3, 0.35, coarse=False)
        clauses = shape_query(name, rng, table)
        tensor = dense(clauses, table)
        ranking = run(clauses, table, None, BoxBudget(B=table.entities, enumerate=None))
        assert len(ranking.tuples) <= len(clauses[0].free) * table.entities
        np.testing.assert_allclose(ranking.truth, [tensor[tuple(t)] for t in ranking.tuples.tolist()], rtol=1e-9)
        listed += len(ranking.tuples)
    assert listed


def test_recall_rises_with_the_budget() -> None:
    shares = []
    for size in (1, 3, 10, 40, 160):
        found = wanted = 0
        for seed in range(28):
            rng = np.random.default_rng(seed)
            table = random_table(rng, 40, 3, 0.08, coarse=False)
            clauses = shape_query(list(SHAPES)[seed % 14], rng, table)
            best = {tuple(t) for t in run(clauses, table, 30, BoxBudget.all()).tuples.tolist()}
            box = run(clauses, table, None, BoxBudget(B=size))
            found += len(best & {tuple(t) for t in box.tuples.tolist()})
            wanted += len(best)
        shares.append(found / wanted)
    assert shares == sorted(shares)
    assert shares[0] < 0.5 < 0.95 < shares[-1]


def test_witnesses_of_a_budgeted_box_explain_what_is_shown() -> None:
    shown = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        table = some_table(rng)
        clauses = some_query(rng, table)
        ranking = run(clauses, table, 10, BoxBudget(B=3, enumerate=1))
        for i, truth in enumerate(ranking.truth):
            total = 0.0
            for clause, assignment in zip(clauses, ranking.assignments, strict=True):
                if (assignment[i] >= 0).all():
                    assert assignment[i][list(clause.free)].tolist() == ranking.tuples[i].tolist()
                    value = atom_product(clause, assignment[i].tolist(), table, Logic.from_name("product"))
                    total = total + value * (1 - total)
            np.testing.assert_allclose(truth, total, rtol=1e-9)
            shown += 1
    assert shown > 50


def crisp(table: TruthTable) -> TruthTable:
    """Its observed edges alone."""
    heads, relation, tails = table.facts().triples()[:3]
    ones = np.ones(len(heads))
    return TruthTable.build(table.entities, table.relations, heads, relation, tails, ones, ones > 0)


def test_marginalisation_commutes_with_answers() -> None:
    """A[M[φ, S]] = M[A[φ], S] on crisp tables, for every subset S of the free variables."""
    subsets = 0
    for seed in seeds(40, 300):
        rng = np.random.default_rng(seed)
        table = crisp(some_table(rng))
        if not table.edges:
            continue
        clauses = some_query(rng, table)
        answers = {tuple(t) for t in run(clauses, table, None, BoxBudget.all()).tuples.tolist()}
        places = range(len(clauses[0].free))
        for size in range(1, len(places) + 1):
            for keep in combinations(places, size):
                smaller = [clause.marginal([clause.free[i] for i in keep]) for clause in clauses]
                projected = {tuple(t[i] for i in keep) for t in answers}
                found = run(smaller, table, None, BoxBudget.all())
                assert {tuple(t) for t in found.tuples.tolist()} == projected
                assert (found.truth == 1).all()
                subsets += 1
    assert subsets > 50


@pytest.mark.parametrize("logic", TRUTHS)
def test_fuzzy_marginals(logic: str) -> None:
    """For one clause C_i[a] is the maximum of T over tuples with y_i = a; for several, an upper bound of it."""
    single = several = 0
    for seed in seeds(60, 300):
        rng = np.random.default_rng(seed)
        table = some_table(rng)
        clauses = some_query(rng, table)
        tensor = dense(clauses, table, logic)
        search = FuzzySearch(TensorTable.from_table(table), Logic.from_name(logic), enumerate=None)
        for place, found in enumerate(marginal_vectors([clauses], search, BoxBudget.all())[0]):
            others = tuple(i for i in range(tensor.ndim) if i != place)
            best = tensor.max(axis=others) if others else tensor
            if len(clauses) == 1 or Logic.from_name(logic).idempotent:
                np.testing.assert_allclose(found, best, rtol=1e-9)
                single += 1
            else:
                assert (found >= best * (1 - 1e-9)).all()
                several += int((found > best * (1 + 1e-9)).any())
    assert single
    assert several or not Logic.from_name(logic).strict


@pytest.mark.parametrize("merge", ["progressive", "simultaneous", "adaptive"])
def test_a_batch_is_its_queries(merge: str) -> None:
    for name in ("3fp", "2fd", "2fcn", "3fc", "3fdm"):
        rng = np.random.default_rng(7)
        table = random_table(rng, 25, 3, 0.12, coarse=True)
        queries = [shape_query(name, rng, table) for _ in range(12)]
        budget = BoxBudget(B=6, merge=merge)
        search = FuzzySearch(TensorTable.from_table(table, block=16), Logic.from_name("product"))
        for k in (7, None):
            together = run_many(queries, search, k, budget)
            bare = run_many(queries, search, k, budget, explain=False)
            for clauses, found, unexplained in zip(queries, together, bare, strict=True):
                alone = run(clauses, table, k, budget)
                for one in (found, unexplained):
                    assert one.tuples.tolist() == alone.tuples.tolist()
                    np.testing.assert_allclose(one.truth, alone.truth, rtol=1e-12)
                    assert (one.exact, one.pruned) == (alone.exact, alone.pruned)
                    np.testing.assert_allclose(one.bound, alone.bound, rtol=1e-12)
                for ours, theirs in zip(found.assignments, alone.assignments, strict=True):
                    assert ours.tolist() == theirs.tolist()
                assert unexplained.assignments == ()
