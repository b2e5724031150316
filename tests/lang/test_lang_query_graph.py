"""Query graphs: shapes, marginals, hypernodes, independent parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuplet.query.query_graph import Edge, QueryGraph


def graph(*edges: tuple[int, int, int] | tuple[int, int, int, bool], free: int = 2, variables: int = 0) -> QueryGraph:
    made = tuple(Edge(*edge) for edge in edges)
    count = max(variables, free, *(1 + max(edge.head, edge.tail) for edge in made))
    return QueryGraph(tuple(f"v{i}" for i in range(count)), tuple(range(free)), made)


@pytest.mark.parametrize(
    ("edges", "shape"),
    [
        ([(~5, 0, 0), (0, 1, 1)], "tree"),
        ([(~5, 0, 0), (0, 1, 1), (0, 2, 1)], "multi-edge"),
        ([(0, 1, 1), (1, 2, 0)], "multi-edge"),
        ([(0, 1, 1), (0, 2, 1, True)], "multi-edge"),
        ([(2, 0, 0), (2, 1, 1), (0, 2, 1)], "cyclic"),
        ([(0, 0, 1), (1, 0, 2), (2, 0, 3), (3, 0, 0)], "cyclic"),
        ([(~1, 0, 0), (~1, 0, 1), (0, 1, 1)], "tree"),  # a constant closes no cycle
        ([(0, 0, 0), (0, 1, 1)], "tree"),  # a self-loop is a filter
        ([(0, 0, 1), (1, 0, 2), (0, 1, 2), (0, 2, 1)], "cyclic"),  # cyclic outranks multi-edge
    ],
)
def test_shape(edges: list[tuple[int, int, int]], shape: str) -> None:
    assert graph(*edges).shape() == shape


def test_marginal_keeps_edges_and_frees_only_what_is_kept() -> None:
    chain = graph((~5, 0, 0), (0, 1, 1), (1, 2, 2), free=3)
    assert chain.marginal([2]).free == (2,)
    assert chain.marginal([2]).existential == (0, 1)
    assert chain.marginal([2]).edges == chain.edges
    with pytest.raises(ValueError, match="variable 2 is not free"):
        chain.marginal([0, 1]).marginal([2])


def test_merge_turns_edges_between_members_into_self_loops() -> None:
    chain = graph((~5, 0, 0), (0, 1, 1), (1, 2, 2), free=3)
    pair = chain.merge(0, 1)
    assert pair.groups == ((0, 1),)
    assert pair.self_loops() == (Edge(0, 1, 1),)
    triple = pair.merge(1, 2)
    assert triple.groups == ((0, 1, 2),)
    assert set(triple.self_loops()) == {Edge(0, 1, 1), Edge(1, 2, 2)}
    with pytest.raises(ValueError, match="only free variables merge"):
        graph((~5, 0, 2), (2, 1, 0), (2, 1, 1)).merge(0, 2)


def test_components_are_joined_by_negation_and_inequality_too() -> None:
    apart = graph((~5, 0, 0), (~6, 0, 1))
    assert len(apart.components()) == 2
    assert len(graph((~5, 0, 0), (~6, 0, 1), (0, 1, 1, True)).components()) == 1
    unequal = QueryGraph(apart.variables, apart.free, apart.edges, ((0, 1),))
    assert len(unequal.components()) == 1


def test_atoms_between_constants_are_kept_once() -> None:
    parts = graph((~5, 0, 0), (~6, 0, 1), (~1, 3, ~2)).components()
    assert sum(part.edges.count(Edge(~1, 3, ~2)) for part in parts) == 1


node = st.integers(-3, 5)


@given(st.lists(st.tuples(node, st.integers(0, 2), node), min_size=1, max_size=10))
def test_components_partition_variables_and_edges(edges: list[tuple[int, int, int]]) -> None:
    whole = graph(*edges, free=2, variables=6)
    parts = whole.components()
    assert sorted(name for part in parts for name in part.variables) == sorted(whole.variables)
    assert sum(len(part.edges) for part in parts) == len(whole.edges)
    assert sorted(part.variables[v] for part in parts for v in part.free) == ["v0", "v1"]
    # within a part everything hangs together
    assert all(len(part.components()) == 1 for part in parts)
