"""The plan of a crisp join in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tuplet.query.query_graph import QueryGraph

if TYPE_CHECKING:
    from tuplet.engines.crisp.planning import Part


def describe(graph: QueryGraph, part: Part, entity: Callable[[int], str], relation: Callable[[int], str]) -> list[str]:
    """The steps of a part in words."""

    def name(node: int, placed: set[int]) -> str:
        return entity(~node) if node < 0 else f"?{graph.variables[node]}" if node in placed else "·"

    lines = []
    placed: set[int] = set()
    memo, memo_end = 8, 9  # columns of the program
    memo_steps = {i for i, step in enumerate(part.steps[:-1].tolist()) if step[memo_end] > step[memo]}
    for number, step in enumerate(part.order):
        v = step.variable
        before, placed = placed, placed | {v}
        rows: list[str] = []
        filters: list[str] = []
        checks: list[str] = []
        for e in dict.fromkeys(graph.edges):
            if v not in (e.head, e.tail):
                continue
            atom = f"{relation(e.relation)}({name(e.head, placed)}, {name(e.tail, placed)})"
            other = e.tail if e.head == v else e.head
            if e.negated:
                checks += [f"not {atom}"] if other < 0 or other in placed else []
            elif other == v:
                checks.append(atom)
            else:
                (rows if other < 0 or other in before else filters).append(atom)
        checks += [
            f"{name(a, placed)} != {name(b, placed)}"
            for a, b in graph.different
            if v in (a, b) and all(x < 0 or x in placed for x in (a, b))
        ]
        loops = [f"{relation(e.relation)}(·, ·)" for e in graph.edges if e.head == e.tail == v and not e.negated]
        amount = f"~{step.candidates:.3g} candidate" + ("" if f"{step.candidates:.3g}" == "1" else "s")
        if before:
            amount += " per " + ", ".join(f"?{graph.variables[s.variable]}" for s in part.order[:number])
        text = f"  {number + 1}. ?{graph.variables[v]} {'free' if v in part.free else 'exists'}, {amount}: "
        text += " ∩ ".join(dict.fromkeys(rows + filters or loops))
        if checks:
            text += "; check " + ", ".join(checks)
        if number in memo_steps:
            text += "; each combination of what follows once"
        if number > max((i for i, s in enumerate(part.order) if s.variable in part.free), default=-1):
            text += "; first witness suffices"
        lines.append(text)
    if part.distinct:
        lines.append(f"  distinct ({', '.join(f'?{graph.variables[v]}' for v in part.free)})")
    return lines
