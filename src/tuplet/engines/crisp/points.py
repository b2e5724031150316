"""Given tuples, one by one: each is put in place of the free variables, and a witness is sought."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.crisp.planning import plan
from tuplet.engines.crisp.search import Mask, Tuples, collect
from tuplet.graph.adjacency import Adjacency
from tuplet.query.limits import NO_DEADLINE, Deadline
from tuplet.query.query_graph import Edge, QueryGraph
from tuplet.query.ranking import Clauses


def holds(clauses: Clauses, adjacency: Adjacency, tuples: NDArray[np.integer]) -> Mask:
    """Which of the tuples [n, k] are answers."""
    found = np.zeros(len(tuples), dtype=np.bool_)
    for graph in clauses:
        rest = np.flatnonzero(~found)
        found[rest] = (witnesses(graph, adjacency, tuples[rest]) >= 0).all(axis=1)
    return found


def witnesses(
    graph: QueryGraph, adjacency: Adjacency, tuples: NDArray[np.integer], deadline: Deadline = NO_DEADLINE
) -> Tuples:
    """An assignment of all variables of a clause [n, variables] for each tuple [n, k], or -1 everywhere."""
    out = np.full((len(tuples), len(graph.variables)), -1, dtype=np.int32)
    for i, row in enumerate(np.asarray(tuples).tolist()):
        deadline.check()
        given = dict(zip(graph.free, row, strict=True))
        number = {v: i for i, v in enumerate(graph.existential)}

        def node(n: int, given: dict[int, int] = given, number: dict[int, int] = number) -> int:
            return n if n < 0 else ~given[n] if n in given else number[n]

        edges = tuple(Edge(node(e.head), e.relation, node(e.tail), e.negated) for e in graph.edges)
        different = tuple((node(a), node(b)) for a, b in graph.different)
        rest = tuple(graph.variables[v] for v in graph.existential)
        point = replace(graph, variables=rest, free=(), edges=edges, different=different, groups=())
        found = collect(plan([point], adjacency), adjacency, 1, deadline)
        if len(found.tuples):
            out[i, list(graph.free)] = row
            out[i, list(graph.existential)] = found.assignment[0]
    return out
