"""The primitives and the one-unknown search, against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ns3_runs import run
from tuplet.engines.ns3.algorithm import BoxBudget
from tuplet.engines.ns3.batch import ClauseBatch
from tuplet.engines.ns3.run import run_many
from tuplet.engines.ns3.search import FuzzySearch, reduce_domains, spanning_tree
from tuplet.engines.ns3.tensors import TensorTable, best_of, blocks, find, order_falling, ranks
from tuplet.errors import BadInput, BudgetExceeded
from tuplet.predict.base import ranges
from tuplet.query.logic import PRODUCT
from tuplet.query.ranking import Edge, QueryGraph
from tuplet.truth.table import TruthTable

# r0: 0→1 .5, 0→2 1, 1→3 .8, 2→3 .4, 2→4 .9; r1: 3→1 .5, 3→2 .25, 4→2 1, 2→2 .6
EDGES = [(0, 0, 1, 0.5), (0, 0, 2, 1), (1, 0, 3, 0.8), (2, 0, 3, 0.4), (2, 0, 4, 0.9)]
EDGES += [(3, 1, 1, 0.5), (3, 1, 2, 0.25), (4, 1, 2, 1), (2, 1, 2, 0.6)]


@pytest.fixture
def truth() -> TruthTable:
    heads, relation, tails, values = (np.array(column) for column in zip(*EDGES, strict=True))
    return TruthTable.build(5, 2, heads, relation, tails, values, values == 1)


def truths(query: QueryGraph, table: TruthTable, **options: object) -> dict[tuple[int, ...], float]:
    ranking = run([query], table, None, BoxBudget.all(), **options)  # type: ignore[arg-type]
    return {tuple(t): v for t, v in zip(ranking.tuples.tolist(), ranking.truth.tolist(), strict=True)}


def test_table_reads_like_the_truth(truth: TruthTable) -> None:
    table = TensorTable.from_table(truth)
    every = torch.cartesian_prod(torch.arange(2), torch.arange(5), torch.arange(5))
    relation, head, tail = every.T
    expected = [truth.value(h, r, t) for r, h, t in every.tolist()]
    assert table.value(2 * relation, head, tail).tolist() == pytest.approx(expected)
    assert table.value(2 * relation + 1, tail, head).tolist() == pytest.approx(expected)
    view, entity = torch.cartesian_prod(torch.arange(4), torch.arange(5)).T
    source, at = ranges(*table.spans(view, entity))
    neighbour, value = table.neighbour[at], table.truth[at]
    rows = [truth.row(e, v // 2, bool(v % 2)) for v, e in zip(view.tolist(), entity.tolist(), strict=True)]
    assert neighbour.tolist() == [i for row in rows for i in row.ids.tolist()]
    assert value.tolist() == [v for row in rows for v in row.truth.tolist()]
    assert source.tolist() == [n for n, row in enumerate(rows) for _ in row.ids]
    assert table.best(view, entity).tolist() == [float(max(row.truth, default=0)) for row in rows]
    assert table.members(torch.tensor([2]))[1].tolist() == [2, 3, 4]
    assert table.edges(torch.tensor([0, 3])).tolist() == [5, 4]


def test_a_table_of_some_relations(truth: TruthTable) -> None:
    table = TensorTable.from_table(truth, [1])
    assert table.number.tolist() == [-1, 0]
    one = torch.tensor([0])
    assert table.value(one, torch.tensor([4]), torch.tensor([2])).tolist() == [1]
    assert len(table.truth) == 8


def test_flat_lists() -> None:
    length = torch.tensor([3, 0, 2, 9, 1])
    source, at = ranges(torch.tensor([5, 0, 1, 0, 7]), length)
    assert source.tolist() == [0] * 3 + [2] * 2 + [3] * 9 + [4]
    assert at.tolist() == [5, 6, 7, 1, 2, *range(9), 7]
    for most in (1, 4, 100):
        parts = list(blocks(length, most))
        assert [i for part in parts for i in range(part.start, part.stop)] == list(range(5))
        assert all(int(length[part].sum()) <= most + 9 for part in parts)
    assert list(blocks(length[:0], 5)) == [slice(0, 0)]
    place, there = find(torch.tensor([2, 4, 4 + 3]), torch.tensor([1, 4, 9]))
    assert there.tolist() == [False, True, False]
    assert place[1] == 1
    assert find(torch.tensor([], dtype=torch.int64), torch.tensor([3]))[1].tolist() == [False]
    assert best_of(torch.tensor([1, 1, 3]), torch.tensor([0.2, 0.7, 0.1]), 4).tolist() == pytest.approx(
        [0, 0.7, 0, 0.1]
    )
    query, value, tie = torch.tensor([0, 0, 0, 2]), torch.tensor([1.0, 3, 3, 0]), torch.tensor([0.0, 1, 2, 0])
    assert order_falling(query, value, tie).tolist() == [2, 1, 0, 3]
    assert ranks(query, 3, value, tie).tolist() == [2, 1, 0, 0]
    assert ranks(query, 3, value).tolist() == [2, 0, 1, 0]


def test_constants_and_leaves(truth: TruthTable) -> None:
    chain = QueryGraph(("y", "e"), (0,), (Edge(~0, 0, 1), Edge(1, 0, 0)))
    assert truths(chain, truth) == pytest.approx({(3,): 0.4, (4,): 0.9})  # 3: max(.5·.8, 1·.4)
    assert truths(chain, truth, logic="godel") == pytest.approx({(3,): 0.5, (4,): 0.9})
    backwards = QueryGraph(("y", "e"), (0,), (Edge(0, 0, 1), Edge(1, 1, ~2)))
    assert truths(backwards, truth) == pytest.approx({(2,): 0.9, (1,): 0.2, (0,): 0.6})


def test_self_loops_and_inequalities(truth: TruthTable) -> None:
    assert truths(QueryGraph(("x",), (0,), (Edge(0, 1, 0),)), truth) == pytest.approx({(2,): 0.6})
    edge = (Edge(0, 1, 1),)
    assert set(truths(QueryGraph(("x", "y"), (0, 1), edge), truth)) == {(3, 1), (3, 2), (4, 2), (2, 2)}
    assert set(truths(QueryGraph(("x", "y"), (0, 1), edge, ((0, 1),)), truth)) == {(3, 1), (3, 2), (4, 2)}
    assert set(truths(QueryGraph(("x", "y"), (0, 1), edge, ((0, ~3),)), truth)) == {(4, 2), (2, 2)}


def test_parallel_and_negated_edges(truth: TruthTable) -> None:
    both = QueryGraph(("x", "y"), (0, 1), (Edge(0, 0, 1), Edge(1, 1, 0)))
    assert truths(both, truth) == pytest.approx({(1, 3): 0.4, (2, 3): 0.1, (2, 4): 0.9})
    but = QueryGraph(("x", "y"), (0, 1), (Edge(0, 0, 1), Edge(1, 1, 0, True)))
    assert truths(but, truth) == pytest.approx({(0, 1): 0.5, (0, 2): 1, (1, 3): 0.4, (2, 3): 0.3})


def test_variables_joined_by_negation_alone(truth: TruthTable) -> None:
    """y gets the best x that r0 does not lead from: x in {1: .5, 2: 1}, y in {1: .5, 2: .25}."""
    apart = QueryGraph(("y", "e"), (0,), (Edge(~0, 0, 1), Edge(~3, 1, 0), Edge(1, 1, 0, True)))
    assert truths(apart, truth) == pytest.approx({(1,): 0.5, (2,): 0.25 * 0.5})


def test_ground_atoms_and_separate_parts(truth: TruthTable) -> None:
    ground = QueryGraph(("x",), (0,), (Edge(~0, 0, ~1), Edge(~0, 0, 0)))
    assert truths(ground, truth) == pytest.approx({(1,): 0.25, (2,): 0.5})
    apart = QueryGraph(("x", "y", "e"), (0, 1), (Edge(~0, 0, 0), Edge(~3, 1, 1), Edge(2, 1, 2)))
    assert truths(apart, truth) == pytest.approx(
        {(x, y): p * q * 0.6 for x, p in ((1, 0.5), (2, 1)) for y, q in ((1, 0.5), (2, 0.25))}
    )


def test_no_free_variable(truth: TruthTable) -> None:
    ranking = run([QueryGraph(("e",), (), (Edge(~3, 1, 0),))], truth, 5)
    assert ranking.tuples.shape == (1, 0)
    assert ranking.truth.tolist() == [0.5]
    assert ranking.assignments[0].tolist() == [[1]]
    assert ranking.exact
    assert not len(run([QueryGraph(("e",), (), (Edge(~1, 1, 0),))], truth, 5).tuples)


def test_a_cut_cycle_tries_the_best_rows() -> None:
    """A triangle x → a → b → x: with one row tried per cut, the loss is bounded; with all, nothing is lost."""
    rng = np.random.default_rng(0)
    heads, tails = np.nonzero(rng.random((12, 12)) < 0.5)
    values = rng.uniform(0.1, 0.9, len(heads))
    table = TruthTable.build(12, 1, heads, 0 * heads, tails, values, values > 1)
    triangle = QueryGraph(("x", "a", "b"), (0,), (Edge(0, 0, 1), Edge(1, 0, 2), Edge(2, 0, 0)))
    full = run([triangle], table, None, BoxBudget.all())
    few = run([triangle], table, None, BoxBudget(enumerate=1))
    assert full.exact
    assert not few.exact
    assert len(few.tuples) < len(full.tuples)
    assert few.bound >= full.truth[0] * (1 - 1e-9) or few.truth[0] == pytest.approx(full.truth[0])


def test_domains_are_the_best_of_the_index(truth: TruthTable) -> None:
    table = TensorTable.from_table(truth)
    chain = QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 0, 1)))
    search, clause = FuzzySearch(table, PRODUCT), ClauseBatch.from_graphs([chain], table)
    domains = reduce_domains(search, clause, 1)
    assert {v: rows.columns[0].tolist() for v, rows in domains.rows.items()} == {0: [2], 1: [4]}
    assert {v: float(d) for v, d in domains.dropped.items()} == pytest.approx({0: 0.4, 1: 0.4})
    every = reduce_domains(search, clause, None)
    assert every.index[1].tolist() == pytest.approx([0.4, 0.9])
    assert all(not float(lost) for lost in every.dropped.values())


def test_the_spanning_tree_starts_at_constants_and_prefers_doubled_edges(truth: TruthTable) -> None:
    edges = (Edge(0, 0, 1), Edge(1, 0, 2), Edge(0, 0, 2), Edge(2, 1, 0), Edge(1, 0, ~0))
    clause = ClauseBatch.from_graphs([QueryGraph(("a", "b", "c"), (0,), edges)], TensorTable.from_table(truth))
    assert [tuple(branch) for branch in spanning_tree(clause)] == [(None, 1), (1, 0), (0, 2)]


def test_batches_hold_queries_written_either_way(truth: TruthTable) -> None:
    one = [QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 0, 1)))]
    other = [QueryGraph(("x", "y"), (0, 1), (Edge(0, 1, ~2), Edge(1, 0, 0)))]
    queries = [one, other, one]
    search = FuzzySearch(TensorTable.from_table(truth), PRODUCT)
    for query, found in zip(queries, run_many(queries, search, 4), strict=True):
        assert found.tuples.tolist() == run(query, truth, 4).tuples.tolist()
    with pytest.raises(BadInput, match="one shape"):
        ClauseBatch.from_graphs([one[0], one[0].marginal([0])], TensorTable.from_table(truth))


def test_keys_that_do_not_fit_are_refused() -> None:
    huge = TruthTable.build(2**31 - 1, 8, *(np.array([0]) for _ in range(3)), np.array([0.5]), np.array([False]))
    with pytest.raises(BudgetExceeded, match="63-bit"):
        TensorTable.from_table(huge)
