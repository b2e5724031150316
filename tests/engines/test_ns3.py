"""Marginalise, allocate, merge: the steps of NS3 and the ways to run it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ns3_runs import run
from repeatable import examples
from tuplet.engines import brute
from tuplet.engines.ns3.algorithm import BoxBudget, allocate, marginalise, merge, pose, solve
from tuplet.engines.ns3.batch import ClauseBatch
from tuplet.engines.ns3.run import run_many
from tuplet.engines.ns3.search import FuzzySearch
from tuplet.engines.ns3.tensors import TensorTable
from tuplet.errors import BudgetExceeded
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.query.limits import NO_DEADLINE, Deadline, Limits
from tuplet.query.logic import PRODUCT
from tuplet.query.ranking import Edge, QueryGraph, Ranking
from tuplet.query.source import Source
from tuplet.settings import find_plugin
from tuplet.truth.table import TruthTable

CHAIN = QueryGraph(("x", "y", "z"), (0, 1, 2), (Edge(~0, 0, 0), Edge(0, 1, 1), Edge(1, 0, 2)))
STAR = QueryGraph(("x", "y", "e"), (0, 1), (Edge(~0, 0, 2), Edge(2, 1, 0), Edge(2, 0, 1)))


def random_table(seed: int = 0, entities: int = 30, density: float = 0.15) -> TruthTable:
    rng = np.random.default_rng(seed)
    heads, relation, tails = np.nonzero(rng.random((entities, 2, entities)) < density)
    observed = rng.random(len(heads)) < 0.3
    truth = np.where(observed, 1, rng.uniform(0.01, 0.99, len(heads)))
    return TruthTable.build(entities, 2, heads, relation, tails, truth, observed)


def source_of(table: TruthTable) -> Source:
    """A table as something that can be asked: its observed edges are the facts."""
    heads, relation, tails, entry = table.adjacency.triples()
    facts = [column[table.observed[entry]] for column in (heads, relation, tails)]
    names = (
        Vocabulary.from_names([f"{kind}{i}" for i in range(n)])
        for kind, n in (("e", table.entities), ("r", table.relations))
    )
    return Source(KnowledgeGraph.from_edges(*names, *facts, np.ones(len(facts[0]), dtype=np.uint8)), truth=table)


def ask(engine: str, clause: QueryGraph, table: TruthTable, deadline: Deadline = NO_DEADLINE, **fields: Any) -> Ranking:
    """What an engine finds, asked as users ask it."""
    runner, limits = find_plugin("engines", engine), Limits(**fields)
    found: Ranking = runner.run(runner.plan([clause], source_of(table), limits), limits, deadline)
    return found


def marginals(clause: QueryGraph, table: TruthTable, **fields: Any) -> np.ndarray:
    """NS3's marginals [k, entities]."""
    runner, limits = find_plugin("engines", "ns3-marginal"), Limits(**fields)
    plans = [runner.plan([clause], source_of(table), limits)]
    vectors: np.ndarray = runner.truth(runner.marginals(plans, limits, NO_DEADLINE)[0])
    return vectors


def whole(*numbers: int) -> list[torch.Tensor]:
    return [torch.tensor([n]) for n in numbers]


def fuzzy(*counts: float) -> list[torch.Tensor]:
    return [torch.tensor([c], dtype=torch.float64) for c in counts]


@pytest.mark.parametrize(
    ("counts", "rows", "size", "expected"),
    [
        ((10, 10), (1000, 1000), 8000, (89, 89)),  # λ = sqrt(8000 / 100)
        ((2, 8), (1000, 1000), 100, (5, 20)),
        ((2, 8), (3, 1000), 100, (3, 33)),  # b_u hits its rows: b_v = floor(S / b_u)
        ((8, 2), (1000, 3), 100, (33, 3)),
        ((1, 1000), (50, 5000), 100, (1, 100)),  # λ c_u < 1
        ((5, 5), (2, 3), 100, (2, 3)),
        ((0, 0), (0, 0), 100, (0, 0)),
        ((1e-9, 1e-9), (40, 40), 100, (10, 10)),
        ((4, 4, 4), (99, 99, 99), 1000, (10, 10, 10)),
        ((4, 4, 4), (99, 99, 2), 1000, (22, 22, 2)),
        ((1, 4, 16), (1, 2, 99), 30, (1, 2, 15)),
        ((3, 3), (7, 9), None, (7, 9)),
    ],
)
def test_allocation_by_hand(
    counts: tuple[float, ...], rows: tuple[int, ...], size: int | None, expected: tuple[int, ...]
) -> None:
    assert [b.item() for b in allocate(fuzzy(*counts), whole(*rows), size)] == list(expected)


@examples(200)
@given(
    nodes=st.lists(st.tuples(st.floats(1e-6, 1e6), st.integers(1, 5000)), min_size=2, max_size=4),
    size=st.integers(2, 30_000),
)
def test_allocation_keeps_to_rows_and_budget(nodes: list[tuple[float, int]], size: int) -> None:
    counts, rows = zip(*nodes, strict=True)
    share = [int(b) for b in allocate(fuzzy(*counts), whole(*rows), size)]
    assert all(1 <= b <= most for b, most in zip(share, rows, strict=True))
    # Rounding up may exceed the budget, by less than half a row of each node; the domain itself is then cut.
    assert np.prod([b - 0.5 if b > 1 else 1 for b in share]) <= size * (1 + 1e-6)


def problem(clauses: list[QueryGraph], table: TruthTable, budget: BoxBudget):  # type: ignore[no-untyped-def]
    listed = TensorTable.from_table(table)
    asked = [ClauseBatch.from_graphs([clause], listed) for clause in clauses]
    return pose(FuzzySearch(listed, PRODUCT), asked, budget)[0]


def test_a_joint_domain_is_the_product_of_the_best_rows_within_the_budget() -> None:
    table = random_table()
    asked = problem([STAR], table, BoxBudget(B=20))
    u, v = (marginalise(asked, place)[0] for place in (0, 1))
    rows, _, cut = merge(asked, (u, v))
    share = [int(b) for b in allocate([u.value.sum()[None], v.value.sum()[None]], whole(len(u.rows), len(v.rows)), 40)]
    pairs = set(zip(rows.columns[0].tolist(), rows.columns[1].tolist(), strict=True))
    assert len(pairs) == len(rows) <= 40
    best = [
        set(node.rows.columns[0][torch.argsort(node.value, descending=True, stable=True)[:b]].tolist())
        for node, b in zip((u, v), share, strict=True)
    ]
    product = {(a, b) for a in best[0] for b in best[1]}
    assert pairs <= product
    assert len(pairs) == min(40, len(product))
    others = [float(c) for node, b in zip((u, v), share, strict=True) for c in sorted(node.value.tolist())[::-1][b:]]
    assert float(cut[0]) >= max(others, default=0) * (1 - 1e-9)


# The truths of three variables that nothing joins; the first of each is 1, so that the marginal of an entity is its own
# truth.
LISTS = [[0.96**i for i in range(9)], [0.93**i for i in range(16)], [0.97**i for i in range(31)]]


def published(lists: Sequence[Sequence[float]], B: int, merge: str) -> set[tuple[int, ...]]:
    """The box of three independent variables, by the published loop; rounding never meets an end here.

    Nodes are (members, rows with their truth, best first); b_i = λ c_i, λ = (size / Π c)^(1/m), size = n · B.
    """
    nodes = [((v,), [((i,), truth) for i, truth in enumerate(values)]) for v, values in enumerate(lists)]

    def count(node: Any) -> float:
        return sum(truth for _, truth in node[1])

    while len(nodes) > 1:
        pairs = itertools.combinations(nodes, 2)
        chosen = nodes if merge == "simultaneous" else min(pairs, key=lambda two: count(two[0]) * count(two[1]))
        members = tuple(v for node in chosen for v in node[0])
        size = len(members) * B
        scale = (size / np.prod([count(node) for node in chosen])) ** (1 / len(chosen))
        parts = []
        for node in chosen:
            assert 1 <= scale * count(node) <= len(node[1])
            parts.append(node[1][: round(scale * count(node))])
        rows = [
            (tuple(i for key, _ in row for i in key), float(np.prod([truth for _, truth in row])))
            for row in itertools.product(*parts)
        ]
        rows.sort(key=lambda row: -row[1])
        nodes = [node for node in nodes if node not in chosen] + [(members, rows[:size])]
    (members, rows) = nodes[0]
    return {tuple(key[members.index(v)] for v in range(3)) for key, _ in rows}


@pytest.mark.parametrize("merge", ["progressive", "simultaneous"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_box_is_that_of_the_published_loop(order: tuple[int, ...], merge: str) -> None:
    lists = [LISTS[i] for i in order]
    edges = [(0, r, 1 + i, truth) for r, values in enumerate(lists) for i, truth in enumerate(values)]
    heads, relation, tails, truth = (np.array(column) for column in zip(*edges, strict=True))
    table = TruthTable.build(40, 3, heads, relation, tails, truth, truth == 1)
    apart = QueryGraph(("x", "y", "z"), (0, 1, 2), tuple(Edge(~0, r, r) for r in range(3)))
    boxes = {how: published(lists, 36, how) for how in ("progressive", "simultaneous")}
    assert boxes["progressive"] != boxes["simultaneous"]
    found = ask("ns3", apart, table, k="all", budget=36, merge=merge)
    assert {tuple(e - 1 for e in row) for row in found.tuples.tolist()} == boxes[merge]


def test_a_truth_that_may_be_higher_is_not_certified() -> None:
    """The best ?e by its index loses to !2(?e, ?g), which the index does not see; with B = 1 it alone is left."""
    edges = [(0, 0, 1, 1.0), (0, 0, 2, 0.7), (0, 1, 3, 1.0), (1, 2, 3, 0.9), (4, 3, 0, 1.0)]
    heads, relation, tails, truth = (np.array(column) for column in zip(*edges, strict=True))
    table = TruthTable.build(5, 4, heads, relation, tails, truth, truth == 1)
    query = QueryGraph(("x", "e", "g"), (0,), (Edge(~4, 3, 0), Edge(0, 0, 1), Edge(0, 1, 2), Edge(1, 2, 2, True)))
    cut = ask("ns3", query, table, k=1, budget=1)
    assert (cut.tuples.tolist(), cut.truth) == ([[0]], pytest.approx([0.1]))
    assert not cut.exact
    assert cut.pruned == "a budget of 1 per variable"
    for fields in ({"budget": 2}, {"budget": 1, "merge": "adaptive"}, {"budget": "all"}):
        whole = ask("ns3", query, table, k=1, **fields)
        assert (whole.truth, whole.exact) == (pytest.approx([0.7]), True)


def test_progressive_and_simultaneous_agree_for_two_variables() -> None:
    for seed in range(5):
        table = random_table(seed)
        one, two = (run([STAR], table, 20, BoxBudget(B=6, merge=how)) for how in ("progressive", "simultaneous"))
        assert one.tuples.tolist() == two.tuples.tolist()


def test_progressive_keeps_n_times_b_tuples() -> None:
    table = TensorTable.from_table(random_table(3, 40, 0.2))
    for size in (2, 5, 10):
        for how in ("progressive", "simultaneous"):
            asked = [ClauseBatch.from_graphs([CHAIN], table)]
            box, _ = solve(FuzzySearch(table, PRODUCT), asked, BoxBudget(B=size, merge=how))
            assert len(box.rows) <= 3 * size


def test_only_filters_before_the_best_are_cut() -> None:
    for seed in range(6):
        table = random_table(seed, 8, 0.3)
        for only in ("predicted", "observed"):
            ours = ask("ns3", STAR, table, k=4, budget="all", only=only)
            theirs = brute.run([STAR], table, 4, only=only)  # type: ignore[arg-type]
            assert ours.exact
            np.testing.assert_allclose(ours.truth, theirs.truth, rtol=1e-9)
            assert ours.bound == pytest.approx(theirs.bound) or ours.bound >= theirs.bound


def test_marginals_rank_each_variable() -> None:
    table = random_table(1, 10, 0.3)
    for place, vector in enumerate(marginals(STAR, table)):
        theirs = brute.run([STAR.marginal([STAR.free[place]])], table, 100)
        expected = np.zeros(table.entities)
        expected[theirs.tuples[:, 0]] = theirs.truth
        assert vector == pytest.approx(expected)


def test_tuples_ranked_by_marginals() -> None:
    table = random_table(2, 10, 0.3)
    first, second = marginals(STAR, table)
    products = np.sort(np.outer(first, second).ravel())[::-1]
    ranking = ask("ns3-marginal", STAR, table, k=12)
    np.testing.assert_allclose(ranking.truth, products[:12])
    assert not ranking.exact
    assert ranking.pruned
    assert ranking.bound >= brute.run([STAR], table, 1).truth[0]
    for (x, y), truth in zip(ranking.tuples.tolist(), ranking.truth, strict=True):
        assert truth == pytest.approx(first[x] * second[y])
    observed = ask("ns3-marginal", STAR, table, k=5, only="observed")
    crisp = {tuple(t) for t in brute.run([STAR], table, 100, only="observed").tuples.tolist()}
    assert {tuple(t) for t in observed.tuples.tolist()} <= crisp
    assert len(observed.tuples)
    alone = ask("ns3-marginal", STAR.marginal([0]), table, k=5)
    assert alone.exact
    nothing = TruthTable.build(4, 2, *(np.array([1]) for _ in range(3)), np.array([0.5]), np.array([False]))
    empty = ask("ns3-marginal", STAR, nothing, k=5)
    assert empty.exact
    assert not len(empty.tuples)


def test_the_same_question_gets_the_same_answer() -> None:
    table = random_table(5, 40, 0.2)
    for budget in (BoxBudget(B=7), BoxBudget(B=7, merge="simultaneous"), BoxBudget(B=3, merge="adaptive")):
        one, two = (run([CHAIN], table, 15, budget) for _ in range(2))
        assert one.tuples.tolist() == two.tuples.tolist()
        assert one.truth.tolist() == two.truth.tolist()
        assert one.bound == two.bound


def test_twenty_atoms_do_not_underflow() -> None:
    edges = [Edge(~0, 0, 0), *(Edge(i, 0, i + 1) for i in range(19))]
    query = QueryGraph(tuple(f"v{i}" for i in range(20)), (0, 19), tuple(edges))
    line = np.arange(20)
    small = TruthTable.build(21, 1, line, 0 * line, line + 1, np.full(20, 0.001), line < 0)
    ranking = run([query], small, 5)
    assert ranking.tuples.tolist() == [[1, 20]]
    assert ranking.truth[0] == pytest.approx(1e-60, rel=1e-5)
    assert ranking.exact


@pytest.mark.parametrize("engine", ["ns3", "ns3-marginal"])
def test_a_deadline_that_passes_anywhere_is_said(engine: str) -> None:
    """The clock moves with every look at it, so the time is up at each of the places in turn that look."""
    table = random_table(7, 12, 0.4)
    fields = {"k": 5, "budget": 3, "merge": "adaptive", "only": "predicted"}
    whole = ask(engine, STAR, table, **fields)
    stopped = some = 0
    for looks in range(1, 400):
        found = ask(engine, STAR, table, Deadline(looks, itertools.count().__next__), **fields)
        if found.pruned != "timeout":
            assert found.tuples.tolist() == whole.tuples.tolist()
            break
        assert not found.exact
        assert len(found.assignments[0]) == len(found.tuples)
        true = brute.score([STAR], table, found.tuples)
        if engine == "ns3":
            assert found.truth == pytest.approx(true)
            assert found.bound >= whole.truth[0] * (1 - 1e-9) or len(found.tuples)
        stopped += 1
        some += len(found.tuples) > 0
    assert found.pruned != "timeout"
    assert stopped > 5
    assert some or engine != "ns3", "an adaptive search shows what it had"


def test_size_limits() -> None:
    table = random_table(7, 60, 0.5)
    with pytest.raises(BudgetExceeded, match="joint domain"):
        run([STAR], table, 5, BoxBudget(B=None, rows=100))
    # The adaptive mode keeps what it has when the next box would be too large.
    kept = run([STAR], table, 2000, BoxBudget(B=2, merge="adaptive", rows=100))
    assert not kept.exact
    assert len(kept.tuples)
    assert "joint domain" in str(kept.pruned)


def test_budgets() -> None:
    assert BoxBudget(B=5).tuples(3) == 15
    assert BoxBudget.all().tuples(3) is None
    assert BoxBudget(B=100, rows=50).grow() == replace(BoxBudget.all(), rows=50)


def test_unions_are_scored_in_every_clause() -> None:
    """A tuple of one clause is scored in the other too, never assumed 0 there."""
    table = random_table(8, 8, 0.35)
    other = QueryGraph(("x", "y"), (1, 0), (Edge(0, 1, 1), Edge(0, 0, ~2)))
    ours, theirs = run([STAR, other], table, 200, BoxBudget.all()), brute.run([STAR, other], table, 200)
    np.testing.assert_allclose(ours.truth, theirs.truth, rtol=1e-9)
    listed = TensorTable.from_table(table)
    box, asked = solve(
        FuzzySearch(listed, PRODUCT), [ClauseBatch.from_graphs([c], listed) for c in (STAR, other)], BoxBudget(B=3)
    )
    assert asked.unknowns == 2
    true = brute.score([STAR, other], table, torch.stack(box.rows.columns, 1).numpy())
    assert (box.value.numpy() <= true * (1 + 1e-9)).all()
    assert (box.upper.numpy() >= true * (1 - 1e-9)).all()


@pytest.mark.parametrize("fields", [{"k": 6}, {"k": 6, "offset": 2, "only": "predicted"}, {"k": "all"}])
def test_many_plans_are_their_single_ones(fields: dict[str, Any]) -> None:
    """Two shapes mixed; where all tuples are asked for, a ranking is the whole box without witnesses."""
    source, limits = source_of(random_table(9, 20, 0.2)), Limits(budget=5, **fields)
    engine = find_plugin("engines", "ns3")
    clauses = [
        QueryGraph(shape.variables, shape.free, (shape.edges[0]._replace(head=~i), *shape.edges[1:]))
        for i in range(6)
        for shape in (CHAIN, STAR)
    ]
    plans = [engine.plan([clause], source, limits) for clause in clauses]
    together = engine.run_many(plans, limits, NO_DEADLINE)
    assert [key for key in source.prepared if "ns3" in key] == ["ns3 on cpu"]
    for plan, found in zip(plans, together, strict=True):
        alone = engine.run(plan, limits, NO_DEADLINE)
        assert found.tuples.tolist() == alone.tuples.tolist()
        assert found.truth == pytest.approx(alone.truth, rel=1e-12)
        assert (found.exact, found.pruned) == (alone.exact, alone.pruned)
        assert len(found.assignments) == (0 if fields["k"] == "all" else 1)
    assert max(len(found.tuples) for found in together) > 5
    late = engine.run_many(plans, limits, Deadline(1, itertools.count().__next__))
    assert {(found.pruned, found.exact, len(found.tuples)) for found in late} == {("timeout", False, 0)}
    cut = (engine.run_many(plans, limits, Deadline(n, itertools.count().__next__)) for n in range(20, 400, 5))
    kept = next(some for some in cut if some[0].pruned != "timeout")
    assert kept[-1].pruned == "timeout", "one shape was answered by then, the other was not"


@pytest.mark.parametrize("engine", ["ns3", "ns3-marginal", "fit"])
def test_a_short_list_is_the_beginning_of_a_longer_one(engine: str) -> None:
    """Many ties, and names that are not in the order of ids."""
    rng = np.random.default_rng(3)
    heads, relation, tails = np.nonzero(rng.random((14, 2, 14)) < 0.3)
    table = TruthTable.build(14, 2, heads, relation, tails, rng.choice([0.5, 1.0], len(heads)), heads < 0)
    source = source_of(table)
    names = source.graph.entities
    assert (np.diff(names.sort_rank) < 0).any()
    runner = find_plugin("engines", engine)

    def shown(**fields: Any) -> tuple[list[list[str]], list[float]]:
        limits = Limits(budget=20, **fields)
        found = runner.run(runner.plan([STAR], source, limits), limits, NO_DEADLINE)
        return [[names.name(e) for e in row] for row in found.tuples.tolist()], found.truth.tolist()

    tuples, truth = shown(k=60)
    assert len(set(truth)) < len(tuples) / 4
    keys = list(zip((-t for t in truth), tuples, strict=True))
    assert keys == sorted(keys)
    for k in (1, 7, 30):
        assert shown(k=k)[0] == tuples[:k]
    assert shown(k=5, offset=3)[0] == tuples[:8]


@pytest.mark.parametrize("merge", ["progressive", "adaptive"])
def test_where_a_cycle_is_cut_does_not_depend_on_the_other_queries(merge: str) -> None:
    """Each query cuts its own smallest variable; with one row tried there, another cut would find something else."""
    table = random_table(11, 30, 0.12)
    queries = [
        [QueryGraph(("x", "y", "z"), (0, 1, 2), (Edge(~i, 0, 0), Edge(0, 1, 1), Edge(1, 0, 2), Edge(2, 1, 0)))]
        for i in range(30)
    ]
    budget = BoxBudget(B=20, merge=merge, enumerate=1)
    search = FuzzySearch(TensorTable.from_table(table), PRODUCT)
    for clauses, found in zip(queries, run_many(queries, search, 5, budget), strict=True):
        alone = run(clauses, table, 5, budget)
        assert found.tuples.tolist() == alone.tuples.tolist()
        assert (found.exact, found.pruned) == (alone.exact, alone.pruned)
        assert found.bound == pytest.approx(alone.bound, rel=1e-12)
