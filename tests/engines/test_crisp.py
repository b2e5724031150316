"""Limits, streams, deadlines, plans and errors of the crisp engine, where enumerating everything would never end."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import tuplet
from tuplet.engines import crisp
from tuplet.engines.crisp import count, holds, plan, run, stream
from tuplet.errors import BudgetExceeded, UnsafeQuery
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.graph import KnowledgeGraph
from tuplet.query.query_graph import Edge, QueryGraph

SIDE = 60


def make(facts: list[tuple[int, int, int]], relations: int) -> Adjacency:
    array = np.array(facts, dtype=np.int64)
    return Adjacency.build(array[:, 0], array[:, 1], array[:, 2], relations)[0]


@pytest.fixture(scope="module")
def halves() -> Adjacency:
    """0…59 and 60…119: relation 0 joins everything of one half with everything of the other, both ways."""
    pairs = list(itertools.product(range(SIDE), range(SIDE, 2 * SIDE)))
    return make([(a, 0, b) for a, b in pairs] + [(b, 0, a) for a, b in pairs], 1)


def names(n: int) -> tuple[str, ...]:
    return tuple(f"v{i}" for i in range(n))


def path(n: int, free: tuple[int, ...], *extra: Edge) -> QueryGraph:
    return QueryGraph(names(n), free, (*(Edge(i, 0, i + 1) for i in range(n - 1)), *extra))


def test_a_limit_stops_at_once(halves: Adjacency) -> None:
    six = path(6, tuple(range(6)))  # 2 · 60^6 answers
    ranking = run(plan([six], halves), halves, 10)
    assert ranking.tuples.shape == (10, 6)
    assert len({tuple(row) for row in ranking.tuples.tolist()}) == 10
    assert (ranking.bound, ranking.exact, ranking.pruned) == (1.0, True, None)
    assert holds([six], halves, ranking.tuples).all()
    assert run(plan([six], halves), halves, 0).tuples.shape == (0, 6)


def test_a_limit_stops_at_once_with_a_projected_hub(halves: Adjacency) -> None:
    star = QueryGraph(names(7), (1, 2, 3, 4, 5, 6), tuple(Edge(0, 0, i) for i in range(1, 7)))
    ranking = run(plan([star], halves), halves, 1000)
    assert len({tuple(row) for row in ranking.tuples.tolist()}) == 1000
    small = QueryGraph(names(3), (1, 2), (Edge(0, 0, 1), Edge(0, 0, 2)))
    assert count(plan([small], halves), halves) == 2 * SIDE**2


def test_a_limit_stops_at_once_with_independent_parts_and_unions(halves: Adjacency) -> None:
    parts = QueryGraph(names(6), tuple(range(6)), (Edge(0, 0, 1), Edge(2, 0, 3), Edge(4, 0, 5)))
    ranking = run(plan([parts, path(6, tuple(range(6)))], halves), halves, 500)
    assert len({tuple(row) for row in ranking.tuples.tolist()}) == 500
    assert all((assignment >= 0).all(axis=1).sum() for assignment in ranking.assignments)
    assert count(plan([parts], halves), halves, limit=7) == 7


def test_a_stream_is_lazy(halves: Adjacency) -> None:
    batches = stream(plan([path(6, tuple(range(6)))], halves), halves, batch=100)
    first, second = next(batches), next(batches)
    assert first.shape == second.shape == (100, 6)
    assert not {tuple(row) for row in first.tolist()} & {tuple(row) for row in second.tolist()}


def test_paths_that_meet_are_followed_once(halves: Adjacency) -> None:
    """60^9 paths lead to 60 answers."""
    chain = path(10, (9,), Edge(~0, 0, 0))
    assert count(plan([chain], halves), halves) == SIDE
    two_ends = path(10, (9, 0), Edge(~0, 0, 0))
    assert count(plan([two_ends], halves), halves) == SIDE**2


def test_existential_variables_that_nothing_follows_stop_at_the_first_witness(halves: Adjacency) -> None:
    hanging = QueryGraph(names(8), (0,), (Edge(~0, 0, 0), *(Edge(0, 0, i) for i in range(1, 8))))
    assert count(plan([hanging], halves), halves) == SIDE


def test_a_failing_part_is_not_tried_again_for_each_tuple(halves: Adjacency) -> None:
    """Nothing has two neighbours in different halves; the 60^4 other tuples need not be seen to know it."""
    hopeless = (Edge(5, 0, ~0), Edge(5, 0, ~SIDE))
    query = QueryGraph(names(6), (0, 1, 2, 3), (*(Edge(i, 0, i + 1) for i in range(4)), *hopeless))
    ranking = run(plan([query], halves), halves, 10)
    assert (len(ranking.tuples), ranking.bound) == (0, 0.0)


def test_a_deadline_returns_what_was_found(halves: Adjacency) -> None:
    n = 7  # a cycle of odd length: none in a graph of two halves
    cycle = path(n, tuple(range(n)), Edge(n - 1, 0, 0))
    ranking = run(plan([cycle], halves), halves, 10, timeout=0.05)
    assert (len(ranking.tuples), ranking.bound, ranking.pruned) == (0, 1.0, "timeout")
    assert count(plan([cycle], halves), halves, timeout=0.05) == 0
    some = run(plan([path(6, tuple(range(6)))], halves), halves, None, timeout=0.05)
    assert some.pruned == "timeout"
    assert some.bound == 1.0
    assert holds([path(6, tuple(range(6)))], halves, some.tuples[:1000]).all()


def test_a_deadline_also_holds_for_the_witnesses_of_other_clauses(halves: Adjacency) -> None:
    n = 9
    odd = QueryGraph(names(n), (0,), (*(Edge(i, 0, i + 1) for i in range(n - 1)), Edge(n - 1, 0, 0)))
    ranking = run(plan([QueryGraph(("x",), (0,), (Edge(~0, 0, 0),)), odd], halves), halves, 5, timeout=0.1)
    assert len(ranking.tuples) == 5
    assert (ranking.assignments[0] >= 0).all()
    assert (ranking.assignments[1] == -1).all()
    assert ranking.pruned == "timeout"


def test_complete_answers_say_so_even_at_the_limit(halves: Adjacency) -> None:
    query = QueryGraph(("x",), (0,), (Edge(~0, 0, 0),))
    made = plan([query], halves)
    assert run(made, halves, SIDE).bound == 0.0
    assert run(made, halves, SIDE - 1).bound == 1.0
    assert run(made, halves, SIDE + 1).bound == 0.0
    assert run(made, halves).tuples[:, 0].tolist() == list(range(SIDE, 2 * SIDE))


def test_a_query_without_free_variables_is_a_yes_or_no(halves: Adjacency) -> None:
    yes, no = QueryGraph(("x",), (), (Edge(~0, 0, 0),)), QueryGraph(("x",), (), (Edge(0, 0, 0),))
    assert run(plan([yes, no], halves), halves).tuples.shape == (1, 0)
    assert run(plan([no], halves), halves).tuples.shape == (0, 0)
    assert run(plan([], halves), halves).bound == 0.0


def test_a_table_that_would_not_fit_is_refused(halves: Adjacency, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crisp, "_LARGEST_TABLE", 1 << 18)
    star = QueryGraph(names(4), (1, 2, 3), tuple(Edge(0, 0, i) for i in range(1, 4)))
    with pytest.raises(BudgetExceeded, match="ask with a limit"):
        count(plan([star], halves), halves)


def test_a_variable_that_nothing_binds_is_refused(halves: Adjacency) -> None:
    unsafe = QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 0, 1, True)))
    with pytest.raises(UnsafeQuery, match=r"\?y"):
        plan([unsafe], halves)


def test_planner_and_kernel_speak_the_same_numbers() -> None:
    from tuplet.engines.crisp import kernels
    from tuplet.engines.crisp import planning as crisp_plan

    shared = "SPAN POINTED LOOKED_UP GIVEN ROW_ENTITY NEIGHBOUR TUPLE LOOP NO_LOOP DIFFERENT DIFFERENT_ENTITY OPENING"
    for name in [*shared.split(), "REGISTERS"]:
        assert getattr(crisp_plan, name) == getattr(kernels, name), name
    assert (kernels.MEMO, kernels.MEMO_END, kernels.STEP_COLUMNS) == (8, 9, 11)


def test_the_plan_explains_itself() -> None:
    facts = [(0, 0, 1), (0, 0, 2), (1, 1, 3), (2, 1, 3), (2, 1, 4), (3, 2, 3), (5, 2, 6)]
    adjacency = make(facts, 3)
    edges = (Edge(~0, 0, 0), Edge(0, 1, 1), Edge(1, 2, 1), Edge(0, 0, 1, True), Edge(~0, 0, ~1))
    query = QueryGraph(("z", "y", "w"), (1, 2), (*edges, Edge(~5, 2, 2)), ((0, 1),))
    assert str(plan([query], adjacency)) == (
        "clause 1 of 1: crisp join, variable at a time\n"
        "  independent part 1 of 2 (answers combine freely)\n"
        "  1. ?w free, ~1 candidate: r2(#5, ?w)\n"
        "  independent part 2 of 2 (answers combine freely)\n"
        "  1. ?z exists, ~2 candidates: r0(#0, ?z) ∩ r1(?z, ·)\n"
        "  2. ?y free, ~1.5 candidates per ?z: r1(?z, ?y); check r2(?y, ?y), not r0(?z, ?y), ?z != ?y\n"
        "  distinct (?y)"
    )
    assert run(plan([query], adjacency), adjacency).tuples.tolist() == [[3, 6]]
    named = plan([query], adjacency).text(lambda e: f"entity{e}", lambda r: f"relation{r}")
    assert "relation0(entity0, ?z)" in named
    contradiction = QueryGraph(("x",), (0,), (Edge(~0, 0, 0), Edge(~0, 0, ~5)))
    assert "no answers: the atom between #0 and #5 is not observed" in str(plan([contradiction], adjacency))


def test_memory_mapped_graphs_answer_alike(tmp_path: Path) -> None:
    from tuplet.graph.readers.read import read

    graph = read(Path(tuplet.__file__).parent / "data" / "world" / "facts.tsv")
    graph.save(tmp_path / "world")
    opened = KnowledgeGraph.open(tmp_path / "world")
    relation = graph.relations.find("borders")
    triangle = QueryGraph(names(3), (0, 1, 2), tuple(Edge(a, relation, b) for a, b in ((0, 1), (1, 2), (0, 2))))
    expected = run(plan([triangle], graph.adjacency), graph.adjacency).tuples.tolist()
    assert expected
    assert run(plan([triangle], opened.adjacency), opened.adjacency).tuples.tolist() == expected
    assert holds([triangle], opened.adjacency, np.array(expected)).all()
