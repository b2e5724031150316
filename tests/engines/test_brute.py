"""The oracle against definitions written out by hand."""

import itertools

import numpy as np
import pytest

from tuplet.engines import brute
from tuplet.errors import BudgetExceeded, UnknownName
from tuplet.query.logic import GODEL, PRODUCT, Logic
from tuplet.query.query_graph import Edge, QueryGraph
from tuplet.truth.table import TruthTable


def random_table(seed: int, entities: int = 5, relations: int = 3, density: float = 0.5) -> TruthTable:
    rng = np.random.default_rng(seed)
    heads, relation, tails = np.nonzero(rng.random((entities, relations, entities)) < density)
    observed = rng.random(len(heads)) < 0.4
    truth = np.where(observed, 1.0, rng.integers(1, 10, len(heads)) / 10)
    return TruthTable.build(entities, relations, heads, relation, tails, truth, observed)


def by_definition(clauses: list[QueryGraph], table: TruthTable, logic: str) -> dict[tuple[int, ...], float]:
    """Every tuple's truth from nested loops."""
    result: dict[tuple[int, ...], float] = {}
    everything = range(table.entities)
    for answer in itertools.product(everything, repeat=len(clauses[0].free)):
        parts = []
        for clause in clauses:
            best = 0.0
            for rest in itertools.product(everything, repeat=len(clause.existential)):
                at = dict(zip(clause.free, answer, strict=True)) | dict(zip(clause.existential, rest, strict=False))
                node = lambda n: at[n] if n >= 0 else ~n  # noqa: E731, B023
                values = [
                    1 - table.value(node(e.head), e.relation, node(e.tail))
                    if e.negated
                    else table.value(node(e.head), e.relation, node(e.tail))
                    for e in clause.edges
                ] + [float(node(a) != node(b)) for a, b in clause.different]
                best = max(best, float(np.prod(values)) if logic == "product" else min(values))
            parts.append(best)
        total = 1 - np.prod([1 - p for p in parts]) if logic == "product" else max(parts)
        if total > 0:
            result[answer] = float(total)
    return result


QUERIES = {
    "chain": [QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 1, 1)))],
    "order of free": [QueryGraph(("x", "y"), (1, 0), (Edge(~0, 0, 0), Edge(0, 1, 1)))],
    "star": [QueryGraph(("x", "y", "e"), (0, 1), (Edge(~1, 0, 2), Edge(2, 1, 0), Edge(2, 2, 1)))],
    "negated cycle": [
        QueryGraph(("x", "y", "e"), (0, 1), (Edge(~1, 0, 2), Edge(2, 1, 1), Edge(2, 2, 0, True), Edge(0, 0, 1)))
    ],
    "loop and difference": [QueryGraph(("x", "y"), (0, 1), (Edge(0, 0, 0), Edge(0, 1, 1)), ((0, 1), (0, ~3)))],
    "ground and apart": [QueryGraph(("x", "y"), (0, 1), (Edge(~0, 1, ~1), Edge(~2, 0, 0), Edge(1, 1, ~4)))],
    "parallel": [QueryGraph(("x", "y"), (0, 1), (Edge(0, 0, 1), Edge(1, 1, 0), Edge(0, 2, 1, True)))],
    "two existentials": [
        QueryGraph(("x", "e", "g"), (0,), (Edge(0, 0, 1), Edge(1, 1, 2), Edge(2, 2, ~0), Edge(2, 0, 0)))
    ],
    "union": [
        QueryGraph(("x",), (0,), (Edge(~0, 0, 0),)),
        QueryGraph(("e", "x"), (1,), (Edge(~1, 1, 0), Edge(0, 2, 1))),
    ],
}


@pytest.mark.parametrize("logic", ["product", "godel"])
@pytest.mark.parametrize("name", QUERIES)
def test_matches_the_definition(name: str, logic: str) -> None:
    answered = 0
    for seed in range(6):
        table = random_table(seed)
        clauses = QUERIES[name]
        expected = by_definition(clauses, table, logic)
        ranking = brute.run(clauses, table, 10_000, logic)
        assert {
            tuple(t): v for t, v in zip(ranking.tuples.tolist(), ranking.truth.tolist(), strict=True)
        } == pytest.approx(expected)
        assert ranking.exact
        assert ranking.bound == 0
        assert ranking.pruned is None
        short = brute.run(clauses, table, 3, logic)
        assert short.tuples.tolist() == ranking.tuples[:3].tolist()
        assert short.bound == pytest.approx(ranking.truth[3] if len(ranking.truth) > 3 else 0)
        keys = [(-v, t) for t, v in zip(ranking.tuples.tolist(), ranking.truth.tolist(), strict=True)]
        assert keys == sorted(keys)
        assert brute.score(clauses, table, ranking.tuples, logic) == pytest.approx(ranking.truth)
        answered += len(expected)
    assert answered


@pytest.mark.parametrize("name", QUERIES)
def test_witness_explains_the_truth(name: str) -> None:
    table = random_table(1)
    clauses = QUERIES[name]
    ranking = brute.run(clauses, table, 20)
    for i, value in enumerate(ranking.truth):
        parts = []
        for clause, witness in zip(clauses, ranking.assignments, strict=True):
            if (witness[i] < 0).all():
                continue
            assert [witness[i][v] for v in clause.free] == ranking.tuples[i].tolist()
            node = lambda n: witness[i][n] if n >= 0 else ~n  # noqa: E731, B023
            truth = [table.value(node(e.head), e.relation, node(e.tail)) for e in clause.edges]
            parts.append(np.prod([1 - t if e.negated else t for t, e in zip(truth, clause.edges, strict=True)]))
        assert 1 - np.prod([1 - p for p in parts]) == pytest.approx(value)


def test_only_splits_the_answers_in_two() -> None:
    for seed in range(5):
        table = random_table(seed)
        clauses = QUERIES["negated cycle"]
        everything, predicted, observed = (
            {tuple(t) for t in brute.run(clauses, table, 1000, only=only).tuples.tolist()}
            for only in (None, "predicted", "observed")
        )
        assert predicted | observed == everything
        assert not predicted & observed
    fact = TruthTable.build(2, 1, np.array([0]), np.array([0]), np.array([1]), np.array([0.3]), np.array([True]))
    edge = [QueryGraph(("x",), (0,), (Edge(~0, 0, 0),))]
    assert brute.run(edge, fact, 5, only="observed").truth == pytest.approx([0.3])
    assert len(brute.run(edge, fact, 5, only="predicted").truth) == 0


def test_asks_without_free_variables() -> None:
    table = random_table(2)
    ranking = brute.run([QueryGraph(("e",), (), (Edge(~0, 0, 0),))], table, 5)
    assert ranking.tuples.shape == (1, 0)
    assert ranking.truth == pytest.approx([table.row_max(0, 0, False)])


def test_large_graphs_are_refused_with_numbers() -> None:
    table = TruthTable.build(
        500, 1, np.arange(499), np.zeros(499, int), np.arange(1, 500), np.ones(499), np.ones(499, bool)
    )
    chain = QueryGraph(("x", "y", "z"), (0, 1, 2), (Edge(0, 0, 1), Edge(1, 0, 2)))
    with pytest.raises(BudgetExceeded, match=r"3 variables over 500 entities: 125,000,000 cells"):
        brute.run([chain], table, 5)
    assert len(brute.run([chain.marginal([0])], table, 1000).truth) == 498


def test_logic_by_name() -> None:
    assert Logic.of("product") is PRODUCT
    assert Logic.of(GODEL) is GODEL
    with pytest.raises(UnknownName, match="did you mean 'product'"):
        Logic.of("produkt")
    with pytest.raises(UnknownName, match="'product' or 'godel'"):
        Logic.of("łukasiewicz")
