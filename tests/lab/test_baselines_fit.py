"""FIT as published comparisons ran it: one way only, a cap on all candidates; the fair mode does better."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.lab.baselines.engine import FitEngine
from tuplet.lab.baselines.symbolic import one_way
from tuplet.query.limits import NO_DEADLINE, Limits
from tuplet.query.ranking import Clauses, Edge, QueryGraph
from tuplet.query.source import Source
from tuplet.truth.table import TruthTable


def computed(queries: Sequence[Clauses], source: Source, limits: Limits) -> Sequence[np.ndarray]:
    """What the engine computes, before tuples are made of it."""
    engine = FitEngine()
    return engine.marginals([engine.plan(clauses, source, limits) for clauses in queries], limits, NO_DEADLINE)


def asked(edges: list[tuple[int, int, int, float]], entities: int, relations: int) -> Source:
    heads, relation, tails, truth = (np.array(column) for column in zip(*edges, strict=True))
    table = TruthTable.build(entities, relations, heads, relation, tails, truth, truth == 1)
    names = (Vocabulary.from_names([f"{kind}{i}" for i in range(n)]) for kind, n in (("e", entities), ("r", relations)))
    none = np.zeros(0, dtype=int)
    return Source(KnowledgeGraph.from_edges(*names, none, none, none, none.astype(np.uint8)), truth=table)


def marginals(clause: QueryGraph, source: Source, **options: object) -> np.ndarray:
    (found,) = computed([[clause]], source, Limits(options=options))
    return found


def test_in_paper_mode_nothing_flows_back_from_a_free_leaf() -> None:
    # e0 -> e1 (0.5), e0 -> e2 (0.9); only e1 goes on, to e3.
    source = asked([(0, 0, 1, 0.5), (0, 0, 2, 0.9), (1, 1, 3, 1.0)], 4, 2)
    chain = QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 1, 1)))
    fair, paper = marginals(chain, source), marginals(chain, source, mode="paper")
    assert fair == pytest.approx(np.array([[0, 0.5, 0, 0], [0, 0, 0, 0.5]]))
    assert paper == pytest.approx(np.array([[0, 0.5, 0.9, 0], [0, 0, 0, 0.5]]))


def test_a_leaf_stays_if_its_neighbour_would_be_left_bare() -> None:
    # ?e is only joined to the asked variable by a negated edge: without ?y it would have no positive atom.
    edges = (Edge(~0, 0, 0), Edge(2, 1, 1), Edge(2, 0, 0, True))
    clause = QueryGraph(("x", "y", "e"), (0, 1), edges)
    assert one_way(clause, 0).edges == edges
    assert one_way(clause, 0).free == (0,)


def test_free_leaves_go_one_after_the_other() -> None:
    chain = QueryGraph(("x", "y", "z"), (0, 1, 2), (Edge(~0, 0, 0), Edge(0, 0, 1), Edge(1, 0, 2)))
    assert [len(one_way(chain, place).edges) for place in range(3)] == [1, 2, 3]
    last = one_way(chain, 1)
    assert (last.variables, last.free) == (("x", "y"), (1,))


def ladder() -> tuple[QueryGraph, Source]:
    """A triangle of one free variable and two others, in which the tail of a relation decides how good a start is."""
    edges = []
    for i in range(12):  # hubs 1 … 12: all sure from the constant, ever better around the cycle
        edges += [(0, 0, 1 + i, 1.0), (1 + i, 1, 13 + i, 1.0), (13 + i, 2, 25, 0.05 * (i + 1)), (1 + i, 3, 25, 1.0)]
    triangle = (Edge(~0, 0, 1), Edge(1, 1, 2), Edge(2, 2, 0), Edge(1, 3, 0))
    return QueryGraph(("f", "a", "b"), (0,), triangle), asked(edges, 26, 4)


def test_the_cap_on_a_cycle() -> None:
    clause, source = ladder()
    assert marginals(clause, source, most="all")[0, 25] == pytest.approx(0.6)
    for mode in ("fair", "paper"):
        found = [marginals(clause, source, mode=mode, most=most)[0, 25] for most in (1, 5, 12)]
        assert found[0] < found[1] < found[2]
        assert found[2] == pytest.approx(0.6)


def test_certain_candidates_count_beyond_the_cap_only_in_fair_mode() -> None:
    # All of 1 … 4 look certain, as the edge that closes the cycle is beside the spanning tree; only 4 closes it well.
    edges = [(0, 0, i, 1.0) for i in range(1, 5)]
    edges += [(i, 1, 4 + i, 1.0) for i in range(1, 5)] + [(i, 3, 9, 1.0) for i in range(1, 5)]
    edges += [(4 + i, 2, 9, 1.0 if i == 4 else 0.5) for i in range(1, 5)]
    triangle = (Edge(~0, 0, 1), Edge(1, 1, 2), Edge(2, 2, 0), Edge(1, 3, 0))
    clause, source = QueryGraph(("f", "a", "b"), (0,), triangle), asked(edges, 10, 4)
    assert marginals(clause, source, most=1)[0, 9] == 1
    assert marginals(clause, source, mode="paper", most=1)[0, 9] == 0.5
    assert marginals(clause, source, mode="paper", most=4)[0, 9] == 1


def test_a_batch_is_its_queries() -> None:
    rng = np.random.default_rng(0)
    edges = [
        (int(h), int(r), int(t), float(v))
        for h, r, t, v in zip(*rng.integers(0, 3, (3, 20)), rng.random(20), strict=True)
    ]
    source = asked(list({e[:3]: e for e in edges}.values()), 3, 3)
    queries = [[QueryGraph(("x", "y"), (0, 1), (Edge(~(i % 3), i % 3, 0), Edge(0, (i + 1) % 3, 1)))] for i in range(9)]
    for options in ({}, {"mode": "paper"}):
        together = computed(queries, source, Limits(options=options))
        for query, found in zip(queries, together, strict=True):
            assert found == pytest.approx(marginals(query[0], source, **options))
