"""The crisp engine against plain enumeration on tiny graphs: every construct, every part of the interface."""

from __future__ import annotations

import itertools
import os

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tuplet.engines.crisp import count, holds, plan, run, stream, witnesses
from tuplet.graph.adjacency import Adjacency
from tuplet.query.query_graph import Edge, QueryGraph

SOAK = os.environ.get("TUPLET_SOAK") == "1"
Facts = set[tuple[int, int, int]]


def satisfies(graph: QueryGraph, facts: Facts, values: tuple[int, ...]) -> bool:
    def entity(node: int) -> int:
        return ~node if node < 0 else values[node]

    return all(((entity(e.head), e.relation, entity(e.tail)) in facts) != e.negated for e in graph.edges) and all(
        entity(a) != entity(b) for a, b in graph.different
    )


def enumerate_answers(clauses: list[QueryGraph], facts: Facts, entities: int) -> set[tuple[int, ...]]:
    return {
        tuple(values[v] for v in graph.free)
        for graph in clauses
        for values in itertools.product(range(entities), repeat=len(graph.variables))
        if satisfies(graph, facts, values)
    }


def adjacency_of(facts: Facts, relations: int) -> Adjacency:
    array = np.array(sorted(facts), dtype=np.int64).reshape(-1, 3)
    return Adjacency.build(array[:, 0], array[:, 1], array[:, 2], relations)[0]


@st.composite
def clause_over(draw: st.DrawFn, width: int, entities: int, relations: int) -> QueryGraph:
    n = draw(st.integers(max(1, width), 5))
    node = st.one_of(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(~(entities - 1), -1))
    relation = st.integers(0, relations - 1)
    edges = []
    for v in range(n):
        ends = [v, draw(node)]
        head, tail = ends if draw(st.booleans()) else ends[::-1]
        edges.append(Edge(head, draw(relation), tail))
    for _ in range(draw(st.integers(0, 3))):
        edges.append(Edge(draw(node), draw(relation), draw(node), draw(st.booleans())))
    different = draw(st.lists(st.tuples(node, node), max_size=2))
    free = draw(st.permutations(range(n)))[:width]
    return QueryGraph(tuple(f"v{i}" for i in range(n)), tuple(free), tuple(edges), tuple(different))


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[QueryGraph], Facts, int, int]:
    entities, relations, width = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(0, 4))
    end = st.integers(0, entities - 1)
    facts = draw(st.sets(st.tuples(end, st.integers(0, relations - 1), end), max_size=30))
    clauses = draw(st.lists(clause_over(width, entities, relations), min_size=1, max_size=3))
    return clauses, facts, entities, relations


@settings(max_examples=5000 if SOAK else 400, deadline=None)
@given(cases())
def test_answers_equal_plain_enumeration(case: tuple[list[QueryGraph], Facts, int, int]) -> None:
    clauses, facts, entities, relations = case
    adjacency = adjacency_of(facts, relations)
    expected = enumerate_answers(clauses, facts, entities)
    made = plan(clauses, adjacency)
    assert str(made)
    ranking = run(made, adjacency, None)
    found = [tuple(row) for row in ranking.tuples.tolist()]
    assert len(found) == len(set(found)), "an answer twice"
    assert set(found) == expected
    assert ranking.exact
    assert ranking.bound == 0.0
    assert count(made, adjacency) == len(expected)

    # every witness satisfies its clause, and is absent exactly where the clause does not hold
    for graph, assignment in zip(clauses, ranking.assignments, strict=True):
        mine = enumerate_answers([graph], facts, entities)
        for answer, values in zip(found, assignment.tolist(), strict=True):
            if answer in mine:
                assert satisfies(graph, facts, tuple(values))
                assert tuple(values[v] for v in graph.free) == answer
            else:
                assert set(values) <= {-1}

    # a limit gives a subset of the right size, and never claims to be complete when it is not
    limit = max(1, len(expected) // 2)
    short = run(made, adjacency, limit)
    shown = {tuple(row) for row in short.tuples.tolist()}
    assert shown <= expected
    assert len(shown) == len(short.tuples) == min(limit, len(expected))
    assert short.bound == 1.0 or len(expected) <= limit

    batches = list(stream(made, adjacency, batch=3))
    assert all(0 < len(batch) <= 3 for batch in batches)
    assert sorted(tuple(row) for batch in batches for row in batch.tolist()) == sorted(expected)

    everything = np.array(list(itertools.product(range(entities), repeat=made.width)), dtype=np.int32)
    everything = everything.reshape(entities**made.width, made.width)
    assert holds(clauses, adjacency, everything).tolist() == [tuple(row) in expected for row in everything.tolist()]
    for graph in clauses:
        for row, values in zip(everything.tolist(), witnesses(graph, adjacency, everything).tolist(), strict=True):
            assert -1 in values or (satisfies(graph, facts, tuple(values)) and [values[v] for v in graph.free] == row)
