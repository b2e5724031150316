"""Planning the crisp join: in which order variables are bound.

The order is greedy by estimated cost, from real sizes: the rows of constants are measured, other rows are taken at the
average of their view. An existential variable is bound early when that is cheaper than checking it late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tuplet.engines.crisp.assemble import JoinPart, JoinStep, assemble
from tuplet.engines.crisp.atoms import ClauseAtoms
from tuplet.engines.crisp.text import describe, failure
from tuplet.graph.adjacency import Adjacency
from tuplet.query.ranking import Clauses, Edge, QueryGraph


@dataclass(frozen=True)
class ClausePlan:
    """A clause and its parts, which are none if a ground atom or inequality already fails."""

    graph: QueryGraph
    parts: tuple[JoinPart, ...]
    fails: Edge | tuple[int, int] | None = None
    copies: tuple[tuple[int, int], ...] = ()  # variables that no part has, each with the one that it equals


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
            if clause.fails is not None:
                lines.append("  no answers: " + failure(clause.graph.variables, clause.fails, entity, relation))
            for part_number, part in enumerate(clause.parts, start=1):
                if len(clause.parts) > 1:
                    kind = "answers combine freely" if part.free else "one witness suffices"
                    lines.append(f"  independent part {part_number} of {len(clause.parts)} ({kind})")
                lines += describe(clause.graph.variables, part, entity, relation)
            names = clause.graph.variables
            lines += [f"  ?{names[copy]} = ?{names[other]}" for copy, other in clause.copies]
        if len(self.clauses) > 1:
            lines.append("union: a tuple found before is skipped")
        return "\n".join(lines)


def plan(clauses: Clauses, adjacency: Adjacency) -> CrispPlan:
    """The plan of a query in disjunctive normal form on the observed facts.

    >>> import numpy as np
    >>> a, _ = Adjacency.build(np.array([0, 0, 1]), np.array([0, 0, 1]), np.array([1, 2, 3]), relations=2)
    >>> print(plan([QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 1, 1)))], a))
    clause 1 of 1: crisp join, variable at a time
      1. ?x free, ~1 candidate: r0(#0, ?x) ∩ r1(?x, ·)
      2. ?y free, ~1 candidate per ?x: r1(?x, ?y)
    """
    adjacency.touch({edge.relation for graph in clauses for edge in graph.edges})
    return CrispPlan(tuple(_plan_clause(graph, adjacency) for graph in clauses))


def _plan_clause(graph: QueryGraph, adjacency: Adjacency) -> ClausePlan:
    atoms = ClauseAtoms(graph, adjacency)
    if atoms.fails is not None:
        return ClausePlan(graph, (), atoms.fails)
    groups = [[v for v in members if atoms.stands[v] == v] for members in atoms.graph.parts()]
    parts = [_plan_part(atoms, members) for members in groups if members]
    copies = tuple((v, other) for v, other in enumerate(atoms.stands) if v != other)
    # Parts without a free variable decide whether there are answers at all: first.
    ordered = sorted(parts, key=lambda part: (bool(part.free), part.order[0].candidates))
    return ClausePlan(graph, tuple(ordered), copies=copies)


def _plan_part(atoms: ClauseAtoms, members: Sequence[int]) -> JoinPart:
    free = tuple([atoms.stands[v] for v in atoms.graph.free if atoms.stands[v] in members])
    free_mask = sum(1 << v for v in set(free))
    starts = []
    for v in members:
        shortest, _, bound = atoms.estimate(v, 0)
        starts.append((not bound, shortest, v))
    starts.sort()
    # A part with constants starts at one of them, one without starts at the rarest variable.
    few = [v for unbound, _, v in starts if not unbound][:3] or [starts[0][2]]
    _, order = min(_greedy(atoms, members, v, free_mask) for v in few)
    return assemble(atoms, order, free)


def _greedy(atoms: ClauseAtoms, members: Sequence[int], start: int, free: int) -> tuple[float, list[JoinStep]]:
    """The cheapest next variable again and again: the total cost and the order. `free` is a bit mask of variables."""
    cost, partial, placed = 0.0, 1.0, 0
    order = []
    remaining = list(members)
    while remaining:
        best: tuple[bool, float, bool, int] | None = None
        best_scan = 0.0
        for v in remaining if placed else [start]:
            scan, candidates, bound = atoms.estimate(v, placed)
            # Existential and nothing later depends on it: the first witness suffices.
            if not free >> v & 1 and not atoms.touching[v] & ~placed:
                scan, candidates = scan / (1.0 + candidates), min(1.0, candidates)
            key = (not bound, candidates, not free >> v & 1, v)
            if best is None or key < best:
                best, best_scan = key, scan
        assert best is not None
        _, candidates, _, v = best
        order.append(JoinStep(v, candidates))
        cost += partial * (1.0 + best_scan)
        placed |= 1 << v
        remaining.remove(v)
        # After the last free variable only one witness is followed.
        partial *= candidates if any(free >> u & 1 for u in remaining) or free >> v & 1 else min(1.0, candidates)
    return cost, order
