"""Limits, deadlines, plans and errors of the crisp engine, where enumerating everything would never end."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tuplet.engines import crisp
from tuplet.engines.crisp import collect, plan, run
from tuplet.engines.crisp.planning import FAILED, SUCCEEDED, ClauseAtoms, ClausePlan, CrispPlan, JoinStep, assemble
from tuplet.engines.effort import Effort
from tuplet.errors import BudgetExceeded, UnsafeQuery
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.query.limits import Deadline, OutOfTime
from tuplet.query.ranking import Edge, QueryGraph
from tuplet.query.source import Source

SIDE = 60


def make(facts: list[tuple[int, int, int]], relations: int) -> Adjacency:
    array = np.array(facts, dtype=np.int64)
    return Adjacency.build(array[:, 0], array[:, 1], array[:, 2], relations)[0]


@pytest.fixture(scope="module")
def source() -> Source:
    """0…59 and 60…119: relation 0 joins everything of one half with everything of the other; names run backwards."""
    pairs = np.array(list(itertools.product(range(SIDE), range(SIDE, 2 * SIDE))))
    heads, tails = np.concatenate([pairs[:, 0], pairs[:, 1]]), np.concatenate([pairs[:, 1], pairs[:, 0]])
    entities = Vocabulary.from_names([f"e{2 * SIDE - i:03}" for i in range(2 * SIDE)])
    return Source(KnowledgeGraph.from_edges(entities, Vocabulary.from_names(["r"]), heads, np.zeros_like(heads), tails))


@pytest.fixture(scope="module")
def halves(source: Source) -> Adjacency:
    return source.facts


def names(n: int) -> tuple[str, ...]:
    return tuple(f"v{i}" for i in range(n))


def path(n: int, free: tuple[int, ...], *extra: Edge) -> QueryGraph:
    return QueryGraph(names(n), free, (*(Edge(i, 0, i + 1) for i in range(n - 1)), *extra))


def after(looks: int) -> Deadline:
    """A deadline that passes after so many looks at the clock."""
    return Deadline(looks, clock=itertools.count().__next__)


def test_collecting_stops_at_once(halves: Adjacency) -> None:
    six = path(6, tuple(range(6)))  # 2 · 60^6 answers
    found = collect(plan([six], halves), halves, 10)
    assert found.tuples.shape == (10, 6)
    assert len({tuple(row) for row in found.tuples.tolist()}) == 10
    assert not found.complete
    assert (abs(np.diff(found.tuples // SIDE, axis=1)) == 1).all()


def test_collecting_stops_at_once_with_a_projected_hub(halves: Adjacency) -> None:
    star = QueryGraph(names(7), (1, 2, 3, 4, 5, 6), tuple(Edge(0, 0, i) for i in range(1, 7)))
    found = collect(plan([star], halves), halves, 1000)
    assert len({tuple(row) for row in found.tuples.tolist()}) == 1000
    small = QueryGraph(names(3), (1, 2), (Edge(0, 0, 1), Edge(0, 0, 2)))
    assert len(collect(plan([small], halves), halves).tuples) == 2 * SIDE**2


def test_collecting_stops_at_once_with_independent_parts_and_unions(halves: Adjacency) -> None:
    parts = QueryGraph(names(6), tuple(range(6)), (Edge(0, 0, 1), Edge(2, 0, 3), Edge(4, 0, 5)))
    found = collect(plan([parts, path(6, tuple(range(6)))], halves), halves, 500)
    assert len({tuple(row) for row in found.tuples.tolist()}) == 500
    assert len(collect(plan([parts], halves), halves, 7).tuples) == 7


def test_the_first_by_name_are_found_without_the_others(source: Source, halves: Adjacency) -> None:
    """There are 2 · 60^6 paths, 60^3 times 2^3 products and 2 · 60^4 stars; names run backwards."""
    top, low = 2 * SIDE - 1, SIDE - 1
    six = run(plan([path(6, tuple(range(6)))], halves), source, 3)
    assert six.tuples.tolist() == [[top, low, top, low, top, low - i] for i in range(3)]
    assert (six.exact, six.bound, six.pruned) == (True, 1.0, None)
    assert (six.assignments[0] == six.tuples).all()
    star = QueryGraph(names(5), (4, 2, 3, 1), tuple(Edge(0, 0, i) for i in range(1, 5)))
    found = run(plan([star], halves), source, 3)
    assert found.tuples.tolist() == [[top, top, top, top - i] for i in range(3)]
    assert (found.assignments[0][:, [4, 2, 3, 1]] == found.tuples).all()
    assert (found.assignments[0][:, 0] < SIDE).all()
    parts = QueryGraph(names(6), tuple(range(6)), (Edge(0, 0, 1), Edge(2, 0, 3), Edge(4, 0, 5)))
    cycle = path(6, tuple(range(6)), Edge(5, 0, 0))
    both = run(plan([cycle, parts], halves), source, 70)
    assert both.tuples.tolist() == [[top, low, top, low, top, low - i] for i in range(60)] + [
        [top, low, top, low, top - 1, low - i] for i in range(10)
    ]
    assert all((assignment >= 0).all() for assignment in both.assignments)


def test_paths_that_meet_are_followed_once(halves: Adjacency) -> None:
    """60^9 paths lead to 60 answers."""
    chain = path(10, (9,), Edge(~0, 0, 0))
    assert len(collect(plan([chain], halves), halves).tuples) == SIDE
    two_ends = path(10, (9, 0), Edge(~0, 0, 0))
    assert len(collect(plan([two_ends], halves), halves).tuples) == SIDE**2


def test_existential_variables_that_nothing_follows_stop_at_the_first_witness(halves: Adjacency) -> None:
    hanging = QueryGraph(names(8), (0,), (Edge(~0, 0, 0), *(Edge(0, 0, i) for i in range(1, 8))))
    assert len(collect(plan([hanging], halves), halves).tuples) == SIDE


def test_a_failing_part_is_not_tried_again_for_each_tuple(source: Source) -> None:
    """Nothing has two neighbours in different halves; the 60^4 other tuples need not be seen to know it."""
    hopeless = (Edge(5, 0, ~0), Edge(5, 0, ~SIDE))
    query = QueryGraph(names(6), (0, 1, 2, 3), (*(Edge(i, 0, i + 1) for i in range(4)), *hopeless))
    ranking = run(plan([query], source.facts), source, 10)
    assert (len(ranking.tuples), ranking.bound, ranking.exact) == (0, 0.0, True)


def test_a_failure_goes_back_to_the_last_variable_that_matters(halves: Adjacency) -> None:
    """The last variable never fits and touches the first alone: the 60^2 values between are not tried again."""
    hopeless = (Edge(3, 0, 0), Edge(3, 0, ~0), Edge(3, 0, ~SIDE))
    query = QueryGraph(names(4), (0, 1, 2), (Edge(0, 0, 1), Edge(1, 0, 2), *hopeless))
    part = assemble(ClauseAtoms(query, halves), [JoinStep(v, 1.0) for v in range(4)], query.free)
    assert part.program.steps[:, FAILED].tolist() == [-1, 0, 1, 0, -1]
    assert part.program.steps[:, SUCCEEDED].tolist() == [-1, 0, 1, 2, 2]
    found = collect(CrispPlan((ClausePlan(query, (part,)),)), halves, deadline=after(5))
    assert (len(found.tuples), found.complete) == (0, True)


def test_at_the_deadline_nothing_is_claimed(source: Source, halves: Adjacency) -> None:
    n = 7  # a cycle of odd length: none in a graph of two halves
    cycle = path(n, tuple(range(n)), Edge(n - 1, 0, 0))
    ranking = run(plan([cycle], halves), source, 10, after(20))
    assert (len(ranking.tuples), ranking.bound, ranking.exact, ranking.pruned) == (0, 1.0, False, "timeout")
    some = run(plan([path(6, tuple(range(6)))], halves), source, None, after(20))
    assert (some.bound, some.exact, some.pruned) == (1.0, False, "timeout")
    assert len(some.tuples) > 1000
    assert (abs(np.diff(some.tuples // SIDE, axis=1)) == 1).all()


def test_the_deadline_holds_inside_products_and_growing_sets(
    halves: Adjacency, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = QueryGraph(names(6), tuple(range(6)), (Edge(0, 0, 1), Edge(2, 0, 3), Edge(4, 0, 5)))
    assert collect(plan([parts], halves), halves, deadline=after(30)).pruned == "timeout"
    monkeypatch.setattr(crisp, "_PIECE", 16)
    known = crisp.RowSet(1, Effort())
    known.admit(np.arange(1000, dtype=np.int32)[:, None])
    known.effort = Effort(after(600))
    table = known.table
    with pytest.raises(OutOfTime):
        known.grow()
    assert known.table is table


def test_a_deadline_also_holds_for_the_witnesses_of_other_clauses(source: Source, halves: Adjacency) -> None:
    n = 9
    odd = QueryGraph(names(n), (0,), (Edge(~0, 0, 0), *(Edge(i, 0, i + 1) for i in range(n - 1)), Edge(n - 1, 0, 0)))
    ranking = run(plan([QueryGraph(("x",), (0,), (Edge(~0, 0, 0),)), odd], halves), source, 5, after(12))
    assert ranking.pruned == "timeout"
    assert len(ranking.tuples) == 5
    assert (ranking.assignments[0] >= 0).all()
    assert (ranking.assignments[1] == -1).all()


def test_the_bound_is_zero_where_all_is_shown(source: Source, halves: Adjacency) -> None:
    made = plan([QueryGraph(("x",), (0,), (Edge(~0, 0, 0),))], halves)
    assert run(made, source, SIDE).bound == 0.0
    assert run(made, source, SIDE - 1).bound == 1.0
    assert run(made, source, SIDE + 1).bound == 0.0
    assert run(made, source, 0).bound == 1.0
    assert run(made, source).tuples[:, 0].tolist() == list(range(2 * SIDE - 1, SIDE - 1, -1))
    assert run(made, source, 3).tuples[:, 0].tolist() == [2 * SIDE - 1, 2 * SIDE - 2, 2 * SIDE - 3]


def test_a_query_without_free_variables_is_a_yes_or_no(source: Source, halves: Adjacency) -> None:
    yes, no = QueryGraph(("x",), (), (Edge(~0, 0, 0),)), QueryGraph(("x",), (), (Edge(0, 0, 0),))
    assert run(plan([yes, no], halves), source).tuples.shape == (1, 0)
    assert run(plan([yes, no], halves), source).bound == 0.0
    assert run(plan([no], halves), source).tuples.shape == (0, 0)
    assert run(plan([], halves), source).bound == 0.0


def test_a_set_that_would_not_fit_is_refused(halves: Adjacency, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crisp, "_LARGEST_SET", 1 << 18)
    star = QueryGraph(names(4), (1, 2, 3), tuple(Edge(0, 0, i) for i in range(1, 4)))
    with pytest.raises(BudgetExceeded, match="ask with a limit"):
        collect(plan([star], halves), halves)
    limited = collect(plan([star], halves), halves, SIDE**3)
    assert (limited.pruned, limited.complete) == ("memory", False)
    assert len(limited.tuples)


def test_a_variable_that_nothing_binds_is_refused(halves: Adjacency) -> None:
    unsafe = QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 0, 1, True)))
    with pytest.raises(UnsafeQuery, match=r"\?y"):
        plan([unsafe], halves)


def test_kernels_run_as_plain_python() -> None:
    """What a debugger needs: without the compiler the same answers."""
    code = """
import numpy as np
from tuplet.engines.crisp import collect, plan
from tuplet.graph.adjacency import Adjacency
from tuplet.query.ranking import Edge, QueryGraph
heads, tails = np.array([0, 0, 1, 2, 3, 3]), np.array([1, 2, 3, 3, 3, 0])
a, _ = Adjacency.build(heads, np.zeros(6, np.int64), tails, relations=1)
edges = (Edge(~0, 0, 1), Edge(1, 0, 0), Edge(0, 0, 0), Edge(1, 0, ~2, True))
print(collect(plan([QueryGraph(("x", "e"), (0,), edges, ((0, 1),))], a), a).tuples.tolist())
"""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "[[3]]\n", done.stderr


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
        "  2. ?y free, ~1.5 candidates per ?z: r1(?z, ?y) ∩ r2(?y, ·); check not r0(?z, ?y), r2(?y, ?y), ?y != ?z\n"
        "  distinct (?y)"
    )
    assert collect(plan([query], adjacency), adjacency).tuples.tolist() == [[3, 6]]
    named = plan([query], adjacency).text(lambda e: f"entity{e}", lambda r: f"relation{r}")
    assert "relation0(entity0, ?z)" in named
    contradiction = QueryGraph(("x",), (0,), (Edge(~0, 0, 0), Edge(~0, 0, ~5)))
    assert "no answers: r0(#0, #5) is not observed" in str(plan([contradiction], adjacency))


def test_memory_mapped_graphs_answer_alike(world: KnowledgeGraph, tmp_path: Path) -> None:
    world.save(tmp_path / "world")
    opened = KnowledgeGraph.open(tmp_path / "world")
    relation = world.relations.find("borders")
    triangle = QueryGraph(names(3), (0, 1, 2), tuple(Edge(a, relation, b) for a, b in ((0, 1), (1, 2), (0, 2))))
    expected = run(plan([triangle], world.adjacency), Source(world)).tuples.tolist()
    assert expected
    assert run(plan([triangle], opened.adjacency), Source(opened)).tuples.tolist() == expected
