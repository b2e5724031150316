"""The exact engine: limits, filters, point queries, ranks, batches and plans."""

import threading

import numpy as np
import pytest

from tuplet.engines import brute, exact
from tuplet.engines.effort import Effort
from tuplet.engines.exact import Checker, load_fact_rows
from tuplet.errors import BudgetExceeded
from tuplet.graph.adjacency import LAYOUT
from tuplet.query.limits import Deadline, Only
from tuplet.query.logic import Logic
from tuplet.query.ranking import Edge, QueryGraph, Ranking
from tuplet.truth.table import TruthTable

CHAIN = QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 1, 1)))
STAR = QueryGraph(("e", "x", "y"), (1, 2), (Edge(~1, 0, 0), Edge(0, 1, 1), Edge(0, 2, 2)))
TRIANGLE = QueryGraph(("x", "y", "z"), (0, 1), (Edge(0, 0, 1), Edge(1, 1, 2), Edge(2, 2, 0), Edge(0, 1, 2, True)))
UNION = [CHAIN, QueryGraph(("y", "x"), (1, 0), (Edge(~2, 1, 1), Edge(1, 2, 0)))]


def random_table(seed: int, entities: int = 12, relations: int = 3, density: float = 0.25) -> TruthTable:
    rng = np.random.default_rng(seed)
    heads, relation, tails = np.nonzero(rng.random((entities, relations, entities)) < density)
    observed = rng.random(len(heads)) < 0.4
    truth = np.where(observed, 1.0, rng.integers(1, 10, len(heads)) / 10)
    return TruthTable.build(entities, relations, heads, relation, tails, truth, observed)


def dense_table(entities: int) -> TruthTable:
    """One relation, almost every edge, all truths below one: no bound is ever tight."""
    rng = np.random.default_rng(0)
    heads, tails = np.nonzero(rng.random((entities, entities)) < 0.5)
    truth = rng.uniform(0.01, 0.9, len(heads))
    return TruthTable.build(
        entities, 1, heads, np.zeros(len(heads), dtype=int), tails, truth, np.zeros(len(heads), dtype=bool)
    )


def six_cycle() -> QueryGraph:
    names = tuple("abcdef")
    return QueryGraph(names, tuple(range(6)), tuple(Edge(i, 0, (i + 1) % 6) for i in range(6)))


def run(
    query: list[QueryGraph],
    table: TruthTable,
    k: int,
    logic: str = "product",
    only: Only | None = None,
    timeout: float | None = None,
    **caps: int,
) -> Ranking:
    checker = Checker(query, load_fact_rows(table.facts(), np.arange(table.entities, dtype=np.int32)))
    effort = Effort(Deadline(timeout), **caps)
    return exact.run(exact.plan(query, table), k, Logic.from_name(logic), effort, only, checker.holds)


@pytest.mark.parametrize("logic", ["product", "godel"])
@pytest.mark.parametrize("only", ["predicted", "observed"])
@pytest.mark.parametrize("query", [[CHAIN], [STAR], [TRIANGLE], UNION])
def test_only_filters_before_the_top_k(query: list[QueryGraph], only: str, logic: str) -> None:
    listed = 0
    for seed in range(4):
        table = random_table(seed)
        expected = brute.run(query, table, 7, logic, only=only)  # type: ignore[arg-type]
        got = run(query, table, 7, logic, only=only)  # type: ignore[arg-type]
        assert got.truth == pytest.approx(expected.truth)
        assert got.exact
        assert got.bound >= expected.bound * (1 - 1e-9)
        listed += len(got.truth)
    assert listed


def test_score_gives_the_truth_of_any_tuple() -> None:
    table = random_table(3)
    everything = np.stack(np.meshgrid(np.arange(12), np.arange(12), indexing="ij"), axis=-1).reshape(-1, 2)
    for query in ([CHAIN], [STAR], [TRIANGLE], UNION):
        for logic in ("product", "godel"):
            expected = brute.score(query, table, everything, logic)
            assert exact.score(query, table, everything, Logic.from_name(logic)) == pytest.approx(expected)
            assert (expected > 0).any()
    assert exact.score([CHAIN], table, np.zeros((0, 2), dtype=int)).shape == (0,)


def test_a_timeout_leaves_a_valid_bound() -> None:
    table = dense_table(400)
    ranking = run([six_cycle()], table, 100_000, timeout=0.5)
    assert not ranking.exact
    assert ranking.pruned == "timeout"
    assert 0 < ranking.bound <= 1
    # a cycle that goes to and fro along the best edge pair is a tuple: it is shown or below the bound
    weight = np.zeros((400, 400))
    heads, _, tails, entry = table.adjacency.triples()
    weight[heads, tails] = table.truth[entry]
    there_and_back = weight * weight.T
    a, b = np.unravel_index(there_and_back.argmax(), weight.shape)
    known = np.array([[a, b, a, b, a, b]])
    shown = {tuple(t) for t in ranking.tuples.tolist()}
    assert tuple(known[0].tolist()) in shown or exact.score([six_cycle()], table, known)[0] <= ranking.bound * (
        1 + 1e-9
    )


@pytest.mark.parametrize(("limit", "reason"), [({"memory": 300_000}, "memory"), ({"work": 5_000}, "work")])
def test_memory_and_work_caps(limit: dict[str, int], reason: str) -> None:
    table = dense_table(200)
    ranking = run([six_cycle()], table, 1_000_000, **limit)  # type: ignore[arg-type]
    assert ranking.pruned == reason
    assert not ranking.exact
    assert ranking.bound > 0


def test_a_cut_in_independent_parts_is_bounded_too() -> None:
    table = dense_table(60)
    apart = QueryGraph(("x", "y", "z", "w"), (0, 1, 2, 3), (Edge(0, 0, 1), Edge(2, 0, 3)))
    full = run([apart], table, 50)
    assert full.exact
    best = np.sort(table.truth[table.adjacency.triples()[3]].astype(float))[::-1]
    expected = np.sort(np.outer(best[:60], best[:60]).reshape(-1))[::-1][:50]
    assert full.truth == pytest.approx(expected)
    cut = run([apart], table, 5000, work=600)
    assert cut.pruned == "work"
    assert len(cut.truth) > 0
    complete = run([apart], table, len(cut.truth) + 1)
    assert cut.bound >= complete.truth[-1] * (1 - 1e-9)
    assert cut.truth == pytest.approx(complete.truth[:-1])


def test_all_answers_can_be_asked_for() -> None:
    table = dense_table(100)
    pairs = QueryGraph(("x", "y"), (0, 1), (Edge(0, 0, 1),))
    ranking = run([pairs], table, 10**12)
    assert len(ranking.truth) == table.edges > 4096
    assert ranking.truth == pytest.approx(np.sort(table.truth[table.adjacency.triples()[3]])[::-1])
    assert (ranking.exact, ranking.bound) == (True, 0.0)


def test_twenty_atoms_do_not_underflow() -> None:
    n = 21
    table = TruthTable.build(
        n, 1, np.arange(n - 1), np.zeros(n - 1, int), np.arange(1, n), np.full(n - 1, 1e-9), np.zeros(n - 1, bool)
    )
    names = tuple(f"v{i}" for i in range(20))
    chain = QueryGraph(names, tuple(range(20)), (Edge(~0, 0, 0), *(Edge(i, 0, i + 1) for i in range(19))))
    ranking = run([chain], table, 5)
    assert ranking.tuples.tolist() == [list(range(1, 21))]
    assert ranking.truth[0] == pytest.approx(float(np.float32(1e-9)) ** 20)
    assert ranking.truth[0] > 0


def test_too_many_variables_are_refused() -> None:
    table = random_table(0)
    names = tuple(f"v{i}" for i in range(40))
    chain = QueryGraph(names, (0,), tuple(Edge(i, 0, i + 1) for i in range(39)))
    with pytest.raises(BudgetExceeded, match="40 variables"):
        exact.plan([chain], table)


def test_no_answers_is_a_short_exact_list() -> None:
    table = random_table(0)
    nothing = QueryGraph(("x",), (0,), (Edge(~0, 0, 0), Edge(0, 0, 0), Edge(0, 1, 0), Edge(0, 2, 0), Edge(~0, 1, 0)))
    ranking = run([nothing], table, 5)
    expected = brute.run([nothing], table, 5)
    assert ranking.truth == pytest.approx(expected.truth)
    impossible = QueryGraph(("x",), (0,), (Edge(~0, 0, 0),), ((0, 0),))
    ranking = run([impossible], table, 5)
    assert (len(ranking.truth), ranking.exact, ranking.bound) == (0, True, 0.0)
    assert ranking.tuples.shape == (0, 1)


def test_questions_without_free_variables() -> None:
    table = random_table(2)
    query = [QueryGraph(("e", "g"), (), (Edge(~0, 0, 0), Edge(0, 1, 1)))]
    ranking, expected = run(query, table, 5), brute.run(query, table, 5)
    assert ranking.truth == pytest.approx(expected.truth)
    assert ranking.tuples.shape == (1, 0)
    assert ranking.assignments[0].tolist()[0][0] >= 0


def test_threads_share_a_table() -> None:
    table = random_table(4)
    queries = [[CHAIN], [STAR], [TRIANGLE], UNION] * 8
    single = [run(q, table, 9) for q in queries]
    failures: list[Exception] = []

    def hammer() -> None:
        try:
            for query, expected in zip(queries, single, strict=True):
                assert run(query, table, 9).tuples.tolist() == expected.tuples.tolist()
        except Exception as error:  # a thread's failure must reach the test
            failures.append(error)

    threads = [threading.Thread(target=hammer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_plans_read_well() -> None:
    table = random_table(1)
    text = str(exact.plan([STAR], table))
    assert "hold ?e" in text
    assert "fix ?x" in text
    assert "fix ?y" in text
    assert "each value once" in text
    assert "about" in text
    assert "evaluate each complete tuple" in str(exact.plan([TRIANGLE], table))
    assert "threshold algorithm" in str(exact.plan(UNION, table))
    nowhere = QueryGraph(("x", "y"), (0, 1), (Edge(0, 0, 1),))
    assert "all rows of a relation" in str(exact.plan([nowhere], table))


def test_memory_mapped_tables_use_the_same_kernels(tmp_path) -> None:  # type: ignore[no-untyped-def]
    table = random_table(6)
    mapped = {}
    for name in table.arrays().keys() - set(LAYOUT):
        np.save(tmp_path / f"{name}.npy", getattr(table, name))
        mapped[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    again = TruthTable(table.entities, table.adjacency, threshold=0.0, **mapped)
    before = len(exact_signatures())
    a, b = (run([STAR], t, 9) for t in (table, again))
    assert a.truth.tolist() == b.truth.tolist()
    assert len(exact_signatures()) == max(1, before)


def test_warming_leaves_nothing_to_compile() -> None:
    from tuplet.engines.exact import kernels, search_kernels

    exact.warm()
    compiled = [exact_signatures(), list(search_kernels.points.signatures), list(kernels.rehash.signatures)]
    assert all(compiled)
    table = dense_table(60)
    run([six_cycle()], table, 2000, work=200_000)
    assert [exact_signatures(), list(search_kernels.points.signatures), list(kernels.rehash.signatures)] == compiled


def exact_signatures() -> list[object]:
    from tuplet.engines.exact.search_kernels import best

    return list(best.signatures)


def test_a_tuple_that_left_at_once_does_not_disturb_the_next_of_its_row() -> None:
    """Evaluating a tuple tries other values of its existentials; the row goes on with the value it was drawn from."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 6))
        heads, relation, tails = np.nonzero(rng.random((n, 2, n)) < 0.5)
        if not len(heads):
            continue
        truth = np.where(rng.random(len(heads)) < 0.7, 1.0, 0.5)
        table = TruthTable.build(n, 2, heads, relation, tails, truth, truth == 1)
        edges = (Edge(1, 0, 0), Edge(2, 1, 1, True), Edge(1, 0, 2), Edge(1, 0, ~0))
        query = [QueryGraph(("f", "e", "g"), (0,), edges, ((0, 1),))]
        got, expected = run(query, table, 50), brute.run(query, table, 50)
        assert got.tuples.tolist() == expected.tuples.tolist()
        assert got.truth == pytest.approx(expected.truth)
