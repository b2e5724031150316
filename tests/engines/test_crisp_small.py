"""The crisp engine against plain enumeration on tiny graphs: every construct, every limit, the order of names."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repeatable import examples
from tuplet.engines import crisp
from tuplet.engines.crisp import collect, plan, run
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.query.ranking import Edge, QueryGraph
from tuplet.query.source import Source

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


def source_of(facts: Facts, names: list[str], relations: int) -> Source:
    array = np.array(sorted(facts), dtype=np.int64).reshape(-1, 3)
    words = Vocabulary.from_names(names), Vocabulary.from_names([f"r{i}" for i in range(relations)])
    return Source(KnowledgeGraph.from_edges(*words, array[:, 0], array[:, 1], array[:, 2]))


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
def cases(draw: st.DrawFn) -> tuple[list[QueryGraph], Facts, list[str], int]:
    entities, relations, width = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(0, 4))
    names = draw(st.permutations(["b", "a", "aa", "Z", "é"][:entities]))
    end = st.integers(0, entities - 1)
    facts = draw(st.sets(st.tuples(end, st.integers(0, relations - 1), end), max_size=30))
    clauses = draw(st.lists(clause_over(width, entities, relations), min_size=1, max_size=3))
    return clauses, facts, list(names), relations


@examples(400, 5000)
@given(cases(), st.integers(0, 40), st.sampled_from([1, 7, 4096]))
def test_answers_equal_plain_enumeration(
    case: tuple[list[QueryGraph], Facts, list[str], int], wanted: int, spare: int
) -> None:
    clauses, facts, names, relations = case
    source = source_of(facts, names, relations)
    answers = enumerate_answers(clauses, facts, len(names))
    expected = sorted(answers, key=lambda answer: [names[e].encode() for e in answer])
    made = plan(clauses, source.facts)
    assert str(made)
    ranking = run(made, source)
    assert [tuple(row) for row in ranking.tuples.tolist()] == expected
    assert (ranking.exact, ranking.bound, ranking.pruned) == (True, 0.0, None)

    # every witness satisfies its clause, and is absent exactly where the clause does not hold
    for graph, assignment in zip(clauses, ranking.assignments, strict=True):
        mine = enumerate_answers([graph], facts, len(names))
        for answer, values in zip(expected, assignment.tolist(), strict=True):
            if answer in mine:
                assert satisfies(graph, facts, tuple(values))
                assert tuple(values[v] for v in graph.free) == answer
            else:
                assert set(values) <= {-1}

    # a limit shows the beginning of the same list, and claims to be complete exactly where it is
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crisp, "SPARE", spare)
        short = run(made, source, wanted)
    assert [tuple(row) for row in short.tuples.tolist()] == expected[:wanted]
    assert short.exact
    assert short.bound == (0.0 if len(expected) <= wanted else 1.0)

    some = collect(made, source.facts, wanted)
    found = [tuple(row) for row in some.tuples.tolist()]
    assert len(found) == len(set(found)) == min(wanted, len(expected)) or not made.width
    assert set(found) <= set(expected)
    assert not some.complete or len(found) == len(expected)
