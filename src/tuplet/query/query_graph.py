"""One clause as a graph of variables and constants: what engines plan and search.

Nodes are numbers: `0, 1, …` are variables, negative numbers are constants (`~entity`). Names were resolved before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

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

    def self_loops(self) -> tuple[Edge, ...]:
        """Edges inside one node: r(x, x), or between members of one hypernode."""
        return tuple(
            e for e in self.edges if e.head >= 0 and e.tail >= 0 and self.node_of(e.head) == self.node_of(e.tail)
        )

    def shape(self) -> Shape:
        """`cyclic` if the joined variable pairs form a cycle, else `multi-edge` if a pair is joined twice, else `tree`.

        Constants never close a cycle (they are known), self-loops r(x, x) are filters; negated edges count.
        """
        pairs = [frozenset((e.head, e.tail)) for e in self.edges if e.head >= 0 and e.tail >= 0 and e.head != e.tail]
        root = list(range(len(self.variables)))

        def find(v: int) -> int:
            while root[v] != v:
                root[v] = root[root[v]]
                v = root[v]
            return v

        for pair in sorted(set(pairs), key=sorted):
            a, b = (find(v) for v in pair)
            if a == b:
                return "cyclic"
            root[a] = b
        return "multi-edge" if len(set(pairs)) < len(pairs) else "tree"

    def components(self) -> tuple[QueryGraph, ...]:
        """The independent parts: no edge or inequality joins variables of two parts. Variables are renumbered.

        Atoms between constants belong to no variable; they go with the first part, so that no atom is lost.
        """
        root = list(range(len(self.variables)))

        def find(v: int) -> int:
            while root[v] != v:
                v = root[v]
            return v

        for a, b in [(e.head, e.tail) for e in self.edges] + list(self.different):
            if a >= 0 and b >= 0:
                root[max(find(a), find(b))] = min(find(a), find(b))
        parts: dict[int, list[int]] = {}
        for v in range(len(self.variables)):
            parts.setdefault(find(v), []).append(v)
        return tuple(self._part(members, ground=i == 0) for i, members in enumerate(parts.values()))

    def _part(self, members: list[int], ground: bool) -> QueryGraph:
        number = {v: i for i, v in enumerate(members)}

        def renumber(node: int) -> int:
            return number[node] if node >= 0 else node

        def inside(a: int, b: int) -> bool:
            return a in number or b in number or (ground and a < 0 and b < 0)

        return QueryGraph(
            variables=tuple(self.variables[v] for v in members),
            free=tuple(number[v] for v in self.free if v in number),
            edges=tuple(
                Edge(renumber(e.head), e.relation, renumber(e.tail), e.negated)
                for e in self.edges
                if inside(e.head, e.tail)
            ),
            different=tuple((renumber(a), renumber(b)) for a, b in self.different if inside(a, b)),
            groups=tuple(tuple(number[v] for v in g) for g in self.groups if g[0] in number),
        )
