"""Planning the crisp join: in which order variables are bound, and the integer program that does it.

The order is greedy by estimated cost, from real sizes: the rows of constants are measured, other rows are taken at the
average of their view. An existential variable is bound early when that is cheaper than checking it late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.crisp.text import describe
from tuplet.errors import UnsafeQuery
from tuplet.graph.adjacency import Adjacency
from tuplet.query.query_graph import Edge, QueryGraph
from tuplet.query.ranking import Clauses

Program2D = NDArray[np.int64]

# The same numbers as in `kernels.crisp`, which is imported only to run: planning needs no compiler.
SPAN, POINTED, LOOKED_UP, GIVEN = range(4)
ROW_ENTITY, NEIGHBOUR, TUPLE = range(3)
LOOP, NO_LOOP, DIFFERENT, DIFFERENT_ENTITY = range(4)
OPENING, REGISTERS = 1, 7


class Step(NamedTuple):
    """One variable of the order: how many candidates are expected, and over how many partial answers."""

    variable: int
    candidates: float
    partial: float


class Part(NamedTuple):
    """The program of one independent part of a clause; variables keep their numbers in the clause."""

    order: tuple[Step, ...]
    free: tuple[int, ...]  # those of the clause's free variables that are in this part, in its order
    distinct: bool  # the same tuple may be reached twice
    steps: Program2D
    lists: Program2D
    checks: Program2D
    memo: NDArray[np.int64]
    memo_width: int = 0  # columns of the table of visited parts; 0 if none is needed


@dataclass(frozen=True)
class ClausePlan:
    """A clause and its parts; `empty` is the ground atom or inequality that already fails, if there is one."""

    graph: QueryGraph
    parts: tuple[Part, ...]
    empty: str | None = None


@dataclass(frozen=True)
class CrispPlan:
    """How the complete answer set of a query is found; `str(plan)` explains it with ids, `text` with names."""

    clauses: tuple[ClausePlan, ...]

    @property
    def width(self) -> int:
        """The number of free variables."""
        return len(self.clauses[0].graph.free) if self.clauses else 0

    def __str__(self) -> str:
        return self.text()

    def text(self, entity: Callable[[int], str] = "#{}".format, relation: Callable[[int], str] = "r{}".format) -> str:
        """The plan in words, with entities and relations named by the given functions."""
        lines = []
        for number, clause in enumerate(self.clauses, start=1):
            lines.append(f"clause {number} of {len(self.clauses)}: crisp join, variable at a time")
            if clause.empty is not None:
                lines.append(f"  no answers: {clause.empty}")
            for part_number, part in enumerate(clause.parts, start=1):
                if len(clause.parts) > 1:
                    kind = "answers combine freely" if part.free else "one witness suffices"
                    lines.append(f"  independent part {part_number} of {len(clause.parts)} ({kind})")
                lines += describe(clause.graph, part, entity, relation)
        if len(self.clauses) > 1:
            lines.append("union: a tuple found before is skipped")
        return "\n".join(lines)


def plan(clauses: Clauses, adjacency: Adjacency) -> CrispPlan:
    """The plan of a query in disjunctive normal form on the observed facts.

    >>> a, _ = Adjacency.build(np.array([0, 0, 1]), np.array([0, 0, 1]), np.array([1, 2, 3]), relations=2)
    >>> print(plan([QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 1, 1)))], a))
    clause 1 of 1: crisp join, variable at a time
      1. ?x free, ~1 candidate: r0(#0, ?x) ∩ r1(?x, ·)
      2. ?y free, ~1 candidate per ?x: r1(?x, ?y)
    """
    return CrispPlan(tuple(_plan_clause(graph, adjacency, given=False) for graph in clauses))


def plan_given(clauses: Clauses, adjacency: Adjacency) -> CrispPlan:
    """The plan of the point query: the free variables are given, only a witness is sought."""
    return CrispPlan(tuple(_plan_clause(graph, adjacency, given=True) for graph in clauses))


class _Sizes:
    """Sizes of rows and views, looked up once per query."""

    def __init__(self, adjacency: Adjacency) -> None:
        self.adjacency = adjacency
        self.views = adjacency.view_sizes

    def view(self, view: int) -> tuple[int, int, float]:
        """First and last row of a view, and the average length of its rows."""
        return self.views[view]

    def row(self, entity: int, view: int) -> tuple[int, int]:
        """Where the row of an entity begins and ends."""
        low, high, _ = self.view(view)
        # searchsorted copies the whole array unless the needle has its type
        at = low + int(self.adjacency.row_entity[low:high].searchsorted(np.int32(entity)))
        if at == high or self.adjacency.row_entity.item(at) != entity:
            return 0, 0
        return self.adjacency.row_ptr.item(at), self.adjacency.row_ptr.item(at + 1)

    def holds(self, edge: Edge) -> bool:
        """Whether an edge between two constants is observed."""
        start, stop = self.row(~edge.head, 2 * edge.relation)
        row = self.adjacency.neighbour[start:stop]
        at = int(row.searchsorted(np.int32(~edge.tail)))
        return at < len(row) and row.item(at) == ~edge.tail


# A positive edge seen from one of its variables: the other node, the view whose row at the other node lists the
# candidates, the view in which a candidate has its own row, and the span of the row if the other node is a constant.
_Link = tuple[int, int, int, tuple[int, int]]


class _Clause:
    """The atoms of a clause, sorted by the variable they restrict."""

    def __init__(self, graph: QueryGraph, sizes: _Sizes) -> None:
        n = len(graph.variables)
        self.graph, self.sizes = graph, sizes
        self.links: list[list[_Link]] = [[] for _ in range(n)]
        self.negated: list[list[_Link]] = [[] for _ in range(n)]
        self.loops: list[list[tuple[int, bool]]] = [[] for _ in range(n)]
        self.different: list[list[int]] = [[] for _ in range(n)]
        self.touching = [0] * n  # bit mask of the variables that share an atom with this one
        self.empty: str | None = None
        for edge in dict.fromkeys(graph.edges):
            self._add(edge)
        for left, right in graph.different:
            if left == right:
                self.empty = "a thing never differs from itself"
            if left >= 0:
                self.different[left].append(right)
            if right >= 0:
                self.different[right].append(left)
            self._touch(left, right)
        for v in range(n):
            if not self.links[v] and not any(not negated for _, negated in self.loops[v]):
                raise UnsafeQuery(graph.variables[v], "no positive atom contains it")

    def _add(self, edge: Edge) -> None:
        head, relation, tail, negated = edge
        forward, backward = 2 * relation, 2 * relation + 1
        if head < 0 and tail < 0:
            if self.sizes.holds(edge) == negated:
                self.empty = f"the atom between #{~head} and #{~tail} " + ("is" if negated else "is not") + " observed"
        elif head == tail:
            self.loops[head].append((forward, negated))
        else:
            links = self.negated if negated else self.links
            if tail >= 0:
                span = self.sizes.row(~head, forward) if head < 0 else (0, 0)
                links[tail].append((head, forward, backward, span))
            if head >= 0:
                span = self.sizes.row(~tail, backward) if tail < 0 else (0, 0)
                links[head].append((tail, backward, forward, span))
            self._touch(head, tail)

    def _touch(self, a: int, b: int) -> None:
        if a >= 0 and b >= 0 and a != b:
            self.touching[a] |= 1 << b
            self.touching[b] |= 1 << a

    def parts(self) -> list[int]:
        """The variables of each independent part, as bit masks."""
        parts: list[int] = []
        for v in range(len(self.touching)):
            mask = 1 << v | self.touching[v]
            apart = []
            for part in parts:
                if part & mask:
                    mask |= part
                else:
                    apart.append(part)
            parts = [*apart, mask]
        return parts

    def estimate(self, variable: int, placed: int) -> tuple[float, float, bool]:
        """Length of the shortest list, expected candidates, and whether a constant or placed variable restricts it."""
        shortest, fraction, lead_fraction, bound = float("inf"), 1.0, 1.0, False
        for other, toward, away, span in self.links[variable]:
            low, high, _ = self.sizes.view(away)
            rows = high - low
            if other < 0:
                size: float = span[1] - span[0]
            elif placed >> other & 1:
                size = self.sizes.view(toward)[2]
            else:
                if rows < shortest:
                    shortest, lead_fraction = rows, 1.0
                continue
            bound = True
            part = size / rows if rows > size else 1.0
            fraction *= part
            if size < shortest:
                shortest, lead_fraction = size, part
        for view, negated in self.loops[variable]:
            if not negated:
                low, high, _ = self.sizes.view(view)
                if high - low < shortest:
                    shortest, lead_fraction = high - low, 1.0
        return shortest, shortest * (fraction / lead_fraction if lead_fraction else 0.0), bound


def _plan_clause(graph: QueryGraph, adjacency: Adjacency, given: bool) -> ClausePlan:
    clause = _Clause(graph, _Sizes(adjacency))
    if clause.empty is not None:
        return ClausePlan(graph, (), clause.empty)
    parts = [_plan_part(clause, mask, given) for mask in clause.parts()]
    # Parts without a free variable decide whether there are answers at all: first.
    return ClausePlan(graph, tuple(sorted(parts, key=lambda part: (bool(part.free), part.order[0].candidates))))


def _plan_part(clause: _Clause, mask: int, given: bool) -> Part:
    members = [v for v in range(len(clause.touching)) if mask >> v & 1]
    free = tuple(v for v in clause.graph.free if mask >> v & 1)
    free_mask = sum(1 << v for v in free)
    if given and free:
        return _program(clause, _greedy(clause, members, free[0], free_mask, free_mask)[1], free, given)
    starts = []
    for v in members:
        shortest, _, bound = clause.estimate(v, 0)
        starts.append((not bound, shortest, v))
    starts.sort()
    # A part with constants starts at one of them, one without starts at the rarest variable.
    few = [v for unbound, _, v in starts if not unbound][:3] or [starts[0][2]]
    return _program(clause, min(_greedy(clause, members, v, free_mask, 0) for v in few)[1], free, given=False)


def _greedy(
    clause: _Clause, members: Sequence[int], start: int, free: int, pinned: int
) -> tuple[float, list[tuple[int, float, float]]]:
    """The cheapest next variable again and again; the total cost, and (variable, candidates, partial answers) each."""
    cost, partial, placed = 0.0, 1.0, 0
    order = []
    remaining = list(members)
    while remaining:
        best: tuple[bool, float, bool, int] | None = None
        best_scan = 0.0
        for v in remaining if placed else [start]:
            if pinned >> v & 1:
                scan, candidates, bound = 1.0, 1.0, True
            else:
                scan, candidates, bound = clause.estimate(v, placed)
                # Existential and nothing later depends on it: the first witness suffices.
                if not free >> v & 1 and not clause.touching[v] & ~placed:
                    scan, candidates = scan / (1.0 + candidates), min(1.0, candidates)
            key = (not bound, candidates, not free >> v & 1, v)
            if best is None or key < best:
                best, best_scan = key, scan
        assert best is not None
        _, candidates, _, v = best
        order.append((v, candidates, partial))
        cost += partial * (1.0 + best_scan)
        placed |= 1 << v
        remaining.remove(v)
        # After the last free variable only one witness is followed.
        partial *= candidates if any(free >> u & 1 for u in remaining) or free >> v & 1 else min(1.0, candidates)
    return cost, order


def _program(clause: _Clause, order: list[tuple[int, float, float]], free: tuple[int, ...], given: bool) -> Part:
    """The integer program of an order; see `kernels.crisp` for the meaning of the columns."""
    sizes, n = clause.sizes, len(order)
    depth_of = {v: depth for depth, (v, _, _) in enumerate(order)}
    position = {v: i for i, v in enumerate(clause.graph.free)}
    pointing: dict[tuple[int, int], int] = {}  # (variable, view) -> the list that points at the variable's row
    lists: list[tuple[int, int, int, int]] = []
    checks: list[tuple[int, int]] = []
    spans: list[tuple[int, int, int, int, int]] = []

    def point(variable: int, view: int) -> None:
        if (variable, view) not in pointing:
            pointing[variable, view] = len(lists)
            low, high, _ = sizes.view(view)
            lists.append((SPAN, ROW_ENTITY, low, high))

    for depth, (v, _, _) in enumerate(order):
        first_list, first_check = len(lists), len(checks)
        if given and v in position:
            lists.append((GIVEN, TUPLE, position[v], 0))
        for other, toward, away, span in clause.links[v]:
            if other < 0:
                lists.append((SPAN, NEIGHBOUR, *span))
            elif depth_of[other] < depth:
                lists.append((POINTED, NEIGHBOUR, pointing[other, toward], 0))
            else:
                point(v, away)
        for view, negated in clause.loops[v]:
            if not negated:
                point(v, view)
                checks.append((LOOP, pointing[v, view]))
        first_negated = len(lists)
        for other, toward, _, span in clause.negated[v]:
            if other < 0:
                lists.append((SPAN, NEIGHBOUR, *span))
            elif depth_of[other] < depth:
                lists.append((LOOKED_UP, NEIGHBOUR, other, toward))
        checks += [(NO_LOOP, view) for view, negated in clause.loops[v] if negated]
        for other in clause.different[v]:
            if other < 0:
                checks.append((DIFFERENT_ENTITY, ~other))
            elif depth_of[other] < depth:
                checks.append((DIFFERENT, other))
        spans.append((first_list, first_negated, len(lists), first_check, len(checks)))

    # Depths as bit masks: which earlier depths the rest depends on, and which are free.
    touching = [0] * n
    for depth, (v, _, _) in enumerate(order):
        for other, at in depth_of.items():
            if clause.touching[v] >> other & 1:
                touching[depth] |= 1 << at
    free_depths = 0 if given else sum(1 << depth_of[v] for v in free)
    needs = [0] * (n + 1)
    rest = 0
    for depth in range(n - 1, -1, -1):
        rest |= touching[depth]
        needs[depth] = rest & ((1 << depth) - 1)
    succeeded = [((needs[d] | free_depths) & ((1 << d) - 1)).bit_length() - 1 for d in range(n + 1)]
    # Existential depths that are varied after a success: they may lead to the same tuple again.
    repeated, depth = 0, succeeded[n]
    while depth >= 0:
        repeated |= 1 << depth & ~free_depths
        depth = succeeded[depth]
    last_free = free_depths.bit_length() - 1

    numbers: list[int] = []  # all tables in one block: one array to make instead of four
    memo: list[int] = []
    memo_width = 0
    for depth, (v, _, _) in enumerate(order):
        below = (1 << depth) - 1
        kept = (needs[depth] | free_depths) & below
        first_memo = len(memo)
        if repeated & below & ~kept:
            # What follows does not see all that was varied: each combination of what it sees is visited once.
            memo += [order[d][0] for d in range(depth) if kept >> d & 1]
            memo_width = max(memo_width, 1 + len(memo) - first_memo)
        early = int(depth == last_free and depth < n - 1)
        jumps = needs[depth].bit_length() - 1, succeeded[depth]
        numbers += (v, *spans[depth], *jumps, first_memo, len(memo), early)
    numbers += (-1, 0, 0, 0, 0, 0, -1, succeeded[n], 0, 0, 0)
    ends = [len(numbers)]
    for table in (lists, checks):
        numbers += chain.from_iterable(table)
        ends.append(len(numbers))
    block = np.array(numbers + memo, dtype=np.int64)
    return Part(
        order=tuple(map(Step._make, order)),
        free=free,
        distinct=bool(repeated),
        steps=block[: ends[0]].reshape(n + 1, -1),
        lists=block[ends[0] : ends[1]].reshape(-1, 4),
        checks=block[ends[1] : ends[2]].reshape(-1, 2),
        memo=block[ends[2] :],
        memo_width=memo_width,
    )
