"""One clause as a graph of variables and constants: what engines plan and search.

Nodes are numbers: `0, 1, …` are variables, negative numbers are constants (`~entity`). Names were resolved before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from tuplet.query.conditions import BoundCondition, described

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

    `groups` are hypernodes: sets of free variables that are searched as one node (`merge`). Edges keep the member they
    touch, so an edge between two members of a group is a self-loop of the hypernode.

    >>> chain = QueryGraph(("x", "y"), (0, 1), (Edge(~7, 0, 0), Edge(0, 1, 1)))
    >>> chain.shape(), chain.marginal([1]).free, chain.merge(0, 1).groups
    ('tree', (1,), ((0, 1),))
    """

    variables: tuple[str, ...]
    free: tuple[int, ...]
    edges: tuple[Edge, ...]
    different: tuple[tuple[int, int], ...] = ()
    conditions: tuple[BoundCondition, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()

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
        groups = tuple(g for g in self.groups if all(v in kept for v in g))
        return replace(self, free=kept, groups=groups)

    def described(self) -> list[str]:
        """The conditions in words."""
        return [described(condition, lambda v: f"?{self.variables[v]}") for condition in self.conditions]

    def node_of(self, variable: int) -> tuple[int, ...]:
        """The hypernode a variable belongs to: its group, or itself alone."""
        return next((group for group in self.groups if variable in group), (variable,))

    def merge(self, first: int, second: int) -> QueryGraph:
        """The graph in which the nodes of two free variables are one hypernode."""
        a, b = self.node_of(first), self.node_of(second)
        if not {*a, *b} <= set(self.free):
            raise ValueError("only free variables merge")
        merged = tuple(sorted({*a, *b}))
        return replace(self, groups=(*(g for g in self.groups if g not in (a, b)), merged))

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
