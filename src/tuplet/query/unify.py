"""Variables that must be one entity: one of them takes over what is asked of the others."""

from __future__ import annotations

from dataclasses import replace

from tuplet.query.conditions import BoundCondition, Compared, Equal, Paired
from tuplet.query.query_graph import QueryGraph, connected


def unified(clause: QueryGraph) -> tuple[QueryGraph, tuple[int, ...]]:
    """The clause without equalities, and for each variable the one that stands for it: itself, or an equal one.

    Those that others stand for keep their numbers, with no atoms left. The first one asked for stands for the others.

    >>> from tuplet.query.query_graph import Edge
    >>> clause = QueryGraph(("x", "y"), (0, 1), (Edge(~7, 0, 0), Edge(1, 1, ~7)), conditions=(Equal(0, 1),))
    >>> found, stands = unified(clause)
    >>> found.edges, found.conditions, stands
    ((Edge(head=-8, relation=0, tail=0, negated=False), Edge(head=0, relation=1, tail=-8, negated=False)), (), (0, 0))
    """
    variables = len(clause.variables)
    equal = [condition.variables for condition in clause.conditions if isinstance(condition, Equal)]
    if not equal:
        return clause, tuple(range(variables))
    stands = list(range(variables))
    first = {v: place for place, v in reversed(list(enumerate(clause.free)))}
    for members in connected(variables, equal):
        leader = min(members, key=lambda v: (first.get(v, variables), v))
        for v in members:
            stands[v] = leader

    def node(number: int) -> int:
        return stands[number] if number >= 0 else number

    def moved(condition: BoundCondition) -> BoundCondition:
        if isinstance(condition, Compared | Paired | Equal):
            return replace(condition, left=node(condition.left), right=node(condition.right))
        return replace(condition, variable=node(condition.variable))

    return replace(
        clause,
        # atoms that become the same one count as often as they were written
        edges=tuple(e._replace(head=node(e.head), tail=node(e.tail)) for e in dict.fromkeys(clause.edges)),
        different=tuple(dict.fromkeys((node(a), node(b)) for a, b in clause.different)),
        conditions=tuple(moved(condition) for condition in clause.conditions if not isinstance(condition, Equal)),
    ), tuple(stands)
