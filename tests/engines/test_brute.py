"""The oracle against definitions written out by hand."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from tuplet.engines import brute
from tuplet.errors import BudgetExceeded, UnknownName
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.query.limits import NO_DEADLINE, Deadline, Limits
from tuplet.query.logic import GODEL, PRODUCT, Logic
from tuplet.query.ranking import Edge, QueryGraph, Ranking
from tuplet.query.source import Source
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
    few = TruthTable.build(60, 1, np.arange(59), np.zeros(59, int), np.arange(1, 60), np.ones(59), np.ones(59, bool))
    assert len(brute.run([chain.marginal([0])], few, 1000).truth) == 58


NAMES = ["delta", "Echo", "alpha", "charlie", "bravo"]  # in the order of bytes: Echo, alpha, bravo, charlie, delta


def named(table: TruthTable) -> Source:
    heads, relation, tails, entry = table.adjacency.triples()
    facts = [column[table.observed[entry]] for column in (heads, relation, tails)]
    names = Vocabulary.from_names(NAMES), Vocabulary.from_names([f"r{i}" for i in range(table.relations)])
    return Source(KnowledgeGraph.from_edges(*names, *facts, np.ones(len(facts[0]), dtype=np.uint8)), truth=table)


def ask(clauses: list[QueryGraph], source: Source, deadline: Deadline = NO_DEADLINE, **fields: object) -> Ranking:
    limits, engine = Limits(**fields), brute.Brute()  # type: ignore[arg-type]
    return engine.run(engine.plan(clauses, source, limits), limits, deadline)


@pytest.mark.parametrize("only", [None, "predicted", "observed"])
@pytest.mark.parametrize("name", ["chain", "order of free", "star", "union"])
def test_ties_are_in_the_order_of_names(name: str, only: str | None) -> None:
    """Every list is the beginning of the whole one, which is sorted by falling truth, then by names in SELECT order."""
    tied = 0
    for seed in range(4):
        source = named(random_table(seed))
        whole = ask(QUERIES[name], source, k="all", only=only)
        words = [[NAMES[e] for e in row] for row in whole.tuples.tolist()]
        keys = [(-t, w) for t, w in zip(whole.truth.tolist(), words, strict=True)]
        assert keys == sorted(keys)
        tied += len(keys) - len(set(whole.truth.tolist()))
        assert whole.bound == 0
        for k, offset in ((1, 0), (2, 3), (4, 1)):
            part = ask(QUERIES[name], source, k=k, offset=offset, only=only)
            assert part.tuples.tolist() == whole.tuples[: k + offset].tolist()
            assert part.bound == (whole.truth[k + offset] if len(whole.truth) > k + offset else 0)
    assert tied or only == "predicted"


def test_truths_that_differ_by_rounding_are_one_tie() -> None:
    """The same four factors, multiplied from the left and from the right, differ in their last digit."""
    factors = [0.1, 0.3, 0.1, 0.9]
    edges = [(0, 0, 1, factors[0]), (0, 0, 2, factors[3])]
    for i in (1, 2, 3):
        edges += [(1, i, 1, factors[i]), (2, i, 2, factors[3 - i])]
    heads, relation, tails, truth = (np.array(column) for column in zip(*edges, strict=True))
    table = TruthTable.build(5, 4, heads, relation, tails, truth, truth > 1)
    query = [QueryGraph(("x",), (0,), (Edge(~0, 0, 0), *(Edge(0, i, 0) for i in (1, 2, 3))))]
    dense = brute.Space(table, PRODUCT).combine(query)
    assert dense[1] < dense[2] == pytest.approx(dense[1], rel=1e-12)
    whole, source = ask(query, named(table), k="all"), named(table)
    assert whole.tuples.tolist() == [[1], [2]], "Echo before alpha"
    assert whole.truth.tolist() == [dense[2], dense[2]]
    first = ask(query, source, k=1)
    assert (first.tuples.tolist(), first.bound) == ([[1]], dense[2])


def test_a_deadline_that_passes_anywhere_is_said() -> None:
    source, query = named(random_table(3)), QUERIES["star"]
    whole = ask(query, source)
    for looks in range(1, 2000, 7):  # the clock moves with every look at it
        found = ask(query, source, Deadline(looks, itertools.count().__next__))
        if found.pruned is None:
            break
        assert (found.pruned, found.exact, found.bound, len(found.tuples)) == ("timeout", False, 1.0, 0)
    assert looks > 50
    assert found.tuples.tolist() == whole.tuples.tolist()


def test_the_oracle_knows_no_other_engine() -> None:
    code = "import sys, tuplet.engines.brute; print([m for m in sys.modules if m.startswith('tuplet.engines.')])"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert found.strip() == "['tuplet.engines.brute']"


def test_logic_by_name() -> None:
    assert Logic.from_name("product") is PRODUCT
    assert Logic.from_name(GODEL) is GODEL
    with pytest.raises(UnknownName, match="did you mean 'product'"):
        Logic.from_name("produkt")
    with pytest.raises(UnknownName, match="did you mean 'lukasiewicz'"):
        Logic.from_name("łukasiewicz")
