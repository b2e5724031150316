"""A shape forgets names, relations, directions and constants, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repeatable import examples
from tuplet.lab.bench.shapes import JOINT, Role, ground_clauses, parse_formula, shape, symbols
from tuplet.query.ranking import Clauses, Edge, QueryGraph, query_shape

FORMULAS = [
    "(r1(s1,f1))&(r2(f1,f2))",
    "(r1(s1,e1))&((r2(e1,f1))&(!(r3(f1,f2))&(r4(e1,f2))))",
    "((r1(s1,f1))&(r2(f1,f2)))|((r3(s2,f2))&(r4(f1,f2)))",
]


def grounded(formula: str, rng: np.random.Generator) -> list[QueryGraph]:
    clauses = parse_formula(formula)
    chosen = {s: int(rng.integers(50)) for role in (Role.RELATION, Role.CONSTANT) for s in symbols(clauses, role)}
    chosen |= {s: 2 * i + int(rng.integers(2)) for i, s in enumerate(symbols(clauses, Role.RELATION))}
    return list(ground_clauses(clauses, chosen))


def renamed(clauses: Clauses, rng: np.random.Generator) -> list[QueryGraph]:
    """The same query with its variables, atoms and clauses in another order."""
    free = rng.permutation(len(clauses[0].free))
    found = []
    for clause in clauses:
        number = rng.permutation(len(clause.variables))
        edges = [
            Edge(
                *(int(number[e]) if e >= 0 else e for e in (edge.head,)),
                edge.relation,
                *(int(number[e]) if e >= 0 else e for e in (edge.tail,)),
                edge.negated,
            )
            for edge in clause.edges
        ]
        rng.shuffle(edges)  # type: ignore[arg-type]
        names = tuple(f"v{i}" for i in range(len(number)))
        found.append(
            QueryGraph(names, tuple(int(number[clause.free[i]]) for i in free), tuple(Edge(*e) for e in edges))
        )
    return [found[i] for i in rng.permutation(len(found))]


@examples(60)
@given(st.sampled_from(FORMULAS), st.integers(0, 2**32))
def test_names_relations_directions_and_order_do_not_matter(formula: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert query_shape(renamed(grounded(formula, rng), rng)) == query_shape(grounded(formula, np.random.default_rng(1)))


def test_benchmark_shapes_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    found = {name: query_shape(grounded(efok(name), rng)) for name in JOINT}
    assert len(set(found.values())) == len(JOINT)


def efok(name: str) -> str:
    return shape(name).formula


def test_conditions_and_large_queries_have_no_shape() -> None:
    x_not_y = QueryGraph(("x", "y"), (0, 1), (Edge(0, 0, 1),), different=((0, 1),))
    long = QueryGraph(tuple("abcdefg"), (0,), tuple(Edge(i, 0, i + 1) for i in range(6)))
    assert query_shape([x_not_y]) is None
    assert query_shape([long]) is None


@pytest.mark.parametrize("negated", [False, True])
def test_a_negation_matters(negated: bool) -> None:
    clause = QueryGraph(("x",), (0,), (Edge(~1, 0, 0), Edge(~2, 1, 0, negated)))
    assert query_shape([clause]) == ("!r(f1,s)&r(f1,s)" if negated else "r(f1,s)&r(f1,s)")
