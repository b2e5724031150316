"""Query graphs: shapes, marginals, independent parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuplet.query.ranking import Edge, QueryGraph


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


def test_parts_are_joined_by_negation_and_inequality_too() -> None:
    apart = graph((~5, 0, 0), (~6, 0, 1), (~1, 3, ~2))
    assert apart.parts() == [[0], [1]]
    assert graph((~5, 0, 0), (~6, 0, 1), (0, 1, 1, True)).parts() == [[0, 1]]
    assert QueryGraph(apart.variables, apart.free, apart.edges, ((0, 1),)).parts() == [[0, 1]]


node = st.integers(-3, 5)


@given(st.lists(st.tuples(node, st.integers(0, 2), node), min_size=1, max_size=10))
def test_parts_are_the_connected_components(edges: list[tuple[int, int, int]]) -> None:
    reached = [{v} for v in range(6)]
    for _ in range(6):
        for head, _, tail in edges:
            if head >= 0 and tail >= 0:
                reached[head] |= reached[tail]
                reached[tail] |= reached[head]
        reached = [set().union(*(reached[w] for w in near)) for near in reached]
    expected = sorted({tuple(sorted(near)) for near in reached})
    assert [tuple(part) for part in graph(*edges, free=2, variables=6).parts()] == expected
