"""What an engine returns, in ids: ranked tuples with their truth, their witnesses and what is known of the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.query.conditions import BoundCondition, Equal, describe_condition, renumber

Shape: TypeAlias = Literal["tree", "multi-edge", "cyclic"]


class Edge(NamedTuple):
    """`relation(head, tail)`, or its negation."""

    head: int
    relation: int
    tail: int
    negated: bool = False


@dataclass(frozen=True)
class QueryGraph:
    """The edges of one clause over `variables`; `free` are the variables asked for, in the order asked.

    >>> chain = QueryGraph(("x", "y"), (0, 1), (Edge(~7, 0, 0), Edge(0, 1, 1)))
    >>> chain.shape(), chain.marginal([1]).free
    ('tree', (1,))
    """

    variables: tuple[str, ...]
    free: tuple[int, ...]
    edges: tuple[Edge, ...]
    different: tuple[tuple[int, int], ...] = ()
    conditions: tuple[BoundCondition, ...] = ()

    @property
    def existential(self) -> tuple[int, ...]:
        """The variables not asked for."""
        free = set(self.free)
        return tuple(v for v in range(len(self.variables)) if v not in free)

    @property
    def constants(self) -> tuple[int, ...]:
        """The entities named in the clause, ascending."""
        return tuple(sorted({~node for edge in self.edges for node in (edge.head, edge.tail) if node < 0}))

    def marginal(self, keep: Iterable[int]) -> QueryGraph:
        """The same clause asking only for `keep`: the other free variables become existential."""
        kept = tuple(keep)
        stray = [v for v in kept if v not in self.free]
        if stray:
            raise ValueError(f"variable {stray[0]} is not free")
        return replace(self, free=kept)

    def describe_conditions(self) -> list[str]:
        """The conditions in words."""
        return [describe_condition(condition, lambda v: f"?{self.variables[v]}") for condition in self.conditions]

    def shape(self) -> Shape:
        """`cyclic` if the joined variable pairs form a cycle, else `multi-edge` if a pair is joined twice, else `tree`.

        Constants never close a cycle (they are known), self-loops r(x, x) are filters; negated edges count.
        """
        pairs = [frozenset((e.head, e.tail)) for e in self.edges if e.head >= 0 and e.tail >= 0 and e.head != e.tail]
        distinct = set(pairs)
        joined = connected(len(self.variables), [sorted(pair) for pair in distinct])
        if len(distinct) > len(self.variables) - len(joined):  # a forest has as many edges as nodes less trees
            return "cyclic"
        return "multi-edge" if len(distinct) < len(pairs) else "tree"

    def parts(self) -> list[list[int]]:
        """The variables of each independent part: no edge, inequality or condition joins variables of two parts."""
        joined = [condition.variables for condition in self.conditions if len(condition.variables) == 2]
        return connected(len(self.variables), [*((e.head, e.tail) for e in self.edges), *self.different, *joined])


def connected(nodes: int, pairs: Iterable[Sequence[int]]) -> list[list[int]]:
    """The connected parts of the nodes 0, 1, …, each in ascending order; pairs with a constant join nothing.

    >>> connected(4, [(0, 2), (3, ~7)])
    [[0, 2], [1], [3]]
    """
    part = [[node] for node in range(nodes)]
    for a, b in pairs:
        if a >= 0 and b >= 0 and (joined := part[a]) is not (other := part[b]):
            joined += other
            for node in other:
                part[node] = joined
    # the first member of a list is in no other
    return sorted([sorted(members) for node, members in enumerate(part) if members[0] == node])


# A bound query: its clauses (DNF). All clauses ask for the same free variables in the same order.
Clauses: TypeAlias = Sequence[QueryGraph]


@dataclass(frozen=True)
class Ranking:
    """The best tuples in order of decreasing truth.

    `assignments[c][i]` holds the entity of each variable of clause c in the best witness of tuple i (its free variables
    included), or -1 everywhere if the clause gives the tuple no truth.
    """

    tuples: NDArray[np.int32]  # [n, k], columns in the order of the free variables
    truth: NDArray[np.float64]  # [n]
    assignments: tuple[NDArray[np.int32], ...]  # per clause [n, variables of the clause]
    exact: bool  # the order shown is provably the order over all of E^k, ties aside
    bound: float  # no tuple that is not shown has a larger truth
    pruned: str | None = None  # what stopped the search early, if anything did

    def take(self, places: NDArray[np.integer] | slice) -> Ranking:
        """The tuples at some places, in that order."""
        assignments = tuple([assignment[places] for assignment in self.assignments])
        return replace(self, tuples=self.tuples[places], truth=self.truth[places], assignments=assignments)

    def first(self, count: int) -> Ranking:
        """The first tuples, with the bound of all others."""
        if count >= len(self.tuples):
            return self
        return replace(self.take(slice(count)), bound=max(self.bound, float(self.truth[count])))


def nothing(free: int) -> Ranking:
    """The ranking of a query that cannot hold."""
    return Ranking(np.empty((0, free), np.int32), np.empty(0), (), exact=True, bound=0.0)


def stop_ranking(clauses: Clauses, why: str = "timeout", best: Ranking | None = None, explain: bool = True) -> Ranking:
    """What there is when the search was stopped: the best so far, or nothing."""
    if best is not None:
        return replace(best, exact=False, pruned=why)
    nothing = np.zeros((0, len(clauses[0].free)), dtype=np.int32)
    none = tuple(np.zeros((0, len(clause.variables)), dtype=np.int32) for clause in clauses) if explain else ()
    return Ranking(nothing, np.zeros(0), none, exact=False, bound=1.0, pruned=why)


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


def unify(clause: QueryGraph) -> tuple[QueryGraph, tuple[int, ...]]:
    """The clause without equalities, and for each variable the one that stands for it: itself, or an equal one.

    Those that others stand for keep their numbers, with no atoms left. The first one asked for stands for the others.

    >>> from tuplet.query.ranking import Edge
    >>> clause = QueryGraph(("x", "y"), (0, 1), (Edge(~7, 0, 0), Edge(1, 1, ~7)), conditions=(Equal(0, 1),))
    >>> found, stands = unify(clause)
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

    return replace(
        clause,
        # atoms that become the same one count as often as they were written
        edges=tuple(e._replace(head=node(e.head), tail=node(e.tail)) for e in dict.fromkeys(clause.edges)),
        different=tuple(dict.fromkeys((node(a), node(b)) for a, b in clause.different)),
        conditions=tuple(renumber(c, node) for c in clause.conditions if not isinstance(c, Equal)),
    ), tuple(stands)
