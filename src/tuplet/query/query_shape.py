"""The shape of a bound query: what is left of it when relations, directions and constants are forgotten.

Queries of one shape are alike in how many links they join and how; guarantees are learned shape by shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from tuplet.query.query_graph import Edge, QueryGraph
from tuplet.query.ranking import Clauses

MOST_VARIABLES = 6  # of a clause whose variables are tried in every order; a larger one has no shape


def query_shape(clauses: Clauses) -> str | None:
    """The same text for queries that differ only in relations, directions, constants and the names of variables.

    None for queries that no sample of shapes holds: with conditions or inequalities, or with many variables. Of a
    constant only its place counts: two of them may be the same entity.

    >>> query_shape([QueryGraph(("x", "y"), (0, 1), (Edge(0, 5, 1), Edge(~7, 3, 0)))])
    'r(f1,f2)&r(f1,s)'
    >>> query_shape([QueryGraph(("y", "x"), (0, 1), (Edge(~9, 1, 1), Edge(0, 2, 1)))])
    'r(f1,f2)&r(f1,s)'
    """
    if any(len(c.variables) > MOST_VARIABLES or c.different or c.conditions for c in clauses):
        return None
    places = permutations(range(len(clauses[0].free)))
    return min("|".join(sorted(min(_written(clause, order)) for clause in clauses)) for order in places)


def query_family(clauses: Clauses) -> str:
    """What shapes have in common that are used for each other where a shape was not measured itself.

    >>> query_family([QueryGraph(("x",), (0,), (Edge(~7, 3, 0), Edge(~8, 3, 0, True)))])
    '1 free variable, negation'
    """
    free = len(clauses[0].free)
    negated = any(edge.negated for clause in clauses for edge in clause.edges)
    return f"{free} free variable{'s' if free > 1 else ''}, {'' if negated else 'no '}negation"


def _written(clause: QueryGraph, order: tuple[int, ...]) -> Iterator[str]:
    """The clause with its free variables numbered in an order, and the others in every order."""
    free = {variable: f"f{place + 1}" for variable, place in zip(clause.free, order, strict=True)}
    inner = clause.existential
    for numbers in permutations(range(1, len(inner) + 1)):
        name = free | {variable: f"e{number}" for variable, number in zip(inner, numbers, strict=True)}
        yield "&".join(sorted(_atom(edge, name) for edge in clause.edges))


def _atom(edge: Edge, name: dict[int, str]) -> str:
    ends = sorted(name.get(end, "s") for end in (edge.head, edge.tail))
    return f"{'!' if edge.negated else ''}r({','.join(ends)})"
