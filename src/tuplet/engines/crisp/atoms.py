"""The atoms of a clause, sorted by the variable they restrict: what orders of a join are judged by and made from."""

from __future__ import annotations

from typing import TypeAlias

from tuplet.engines.condition_tests import allowed
from tuplet.errors import UnsafeQuery
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.attributes import Ids
from tuplet.query.conditions import BoundCondition, Within
from tuplet.query.ranking import Edge, QueryGraph, unified

# An atom seen from one of its variables: the other node, the view whose row at the other node lists the candidates, the
# view in which a candidate has its own row, that row of the other node if it is a constant, the atom. A plain tuple,
# because named ones cost each plan some 4 µs of 50.
Link: TypeAlias = tuple[int, int, int, tuple[int, int], Edge]


class ClauseAtoms:
    """The atoms of one clause; `fails` is the ground atom or inequality that already does, if there is one.

    Of variables that must be equal one stands for the others (`stands`), which are not searched.
    """

    def __init__(self, clause: QueryGraph, adjacency: Adjacency) -> None:
        graph, self.stands = unified(clause)
        n = len(graph.variables)
        self.graph, self.adjacency = graph, adjacency
        self.views = adjacency.view_sizes
        self.rows = adjacency.row_counts
        self.changed = adjacency.is_changed
        self.links: list[list[Link]] = [[] for _ in range(n)]
        self.negated: list[list[Link]] = [[] for _ in range(n)]
        self.loops: list[list[Edge]] = [[] for _ in range(n)]
        self.different: list[list[int]] = [[] for _ in range(n)]
        self.touching = [0] * n  # bit mask of the variables that share an atom with this one
        self.fails: Edge | tuple[int, int] | None = None
        for edge in dict.fromkeys(graph.edges):
            self._add(edge)
        for left, right in graph.different:
            if left == right:
                self.fails = left, right
            if left >= 0:
                self.different[left].append(right)
            if right >= 0:
                self.different[right].append(left)
            self._touch(left, right)
        for condition in graph.conditions:
            self._touch(*condition.variables[:1], *condition.variables[-1:])
        for v in range(n):
            if self.stands[v] == v and not self.links[v] and all(loop.negated for loop in self.loops[v]):
                raise UnsafeQuery(graph.variables[v], "no positive atom contains it")
        # what conditions leave of a variable, where that is few: the condition and the entities
        self.allowed: dict[int, tuple[Within, Ids]] = {}
        for v in {condition.variables[0] for condition in graph.conditions if isinstance(condition, Within)}:
            found = allowed(graph.conditions, v, self.estimate(v, 0)[0])
            if found is not None:
                self.allowed[v] = found

    def tested(self) -> list[BoundCondition]:
        """The conditions that candidates are tested by: all but those whose entities are listed."""
        listed = [condition for condition, _ in self.allowed.values()]
        return [condition for condition in self.graph.conditions if condition not in listed]

    def _add(self, edge: Edge) -> None:
        head, relation, tail, negated = edge
        forward, backward = 2 * relation, 2 * relation + 1
        if head < 0 and tail < 0:
            if (self.adjacency.find(~head, relation, ~tail) >= 0) == negated:
                self.fails = edge
        elif head == tail:
            self.loops[head].append(edge)
        else:
            links = self.negated if negated else self.links
            if tail >= 0:
                span = self.adjacency.span(~head, forward) if head < 0 else (0, 0)
                links[tail].append((head, forward, backward, span, edge))
            if head >= 0:
                span = self.adjacency.span(~tail, backward) if tail < 0 else (0, 0)
                links[head].append((tail, backward, forward, span, edge))
            self._touch(head, tail)

    def _touch(self, a: int, b: int) -> None:
        if a >= 0 and b >= 0 and a != b:
            self.touching[a] |= 1 << b
            self.touching[b] |= 1 << a

    def estimate(self, variable: int, placed: int) -> tuple[float, float, bool]:
        """Length of the shortest list, expected candidates, and whether a constant or placed variable restricts it.

        A set of entities restricts it as a constant does.
        """
        shortest, fraction, lead_fraction, bound = float("inf"), 1.0, 1.0, False
        if variable in self.allowed:
            shortest, bound = float(len(self.allowed[variable][1])), True
        for other, toward, away, span, _ in self.links[variable]:
            rows = self.rows[away]
            if other < 0:
                size: float = span[1] - span[0]
            elif placed >> other & 1:
                size = self.views[toward][2]
            else:
                if rows < shortest:
                    shortest, lead_fraction = rows, 1.0
                continue
            bound = True
            share = size / rows if rows > size else 1.0
            fraction *= share
            if size < shortest:
                shortest, lead_fraction = size, share
        for loop in self.loops[variable]:
            if not loop.negated:
                rows = self.rows[2 * loop.relation]
                if rows < shortest:
                    shortest, lead_fraction = rows, 1.0
        return shortest, shortest * (fraction / lead_fraction if lead_fraction else 0.0), bound
