"""Clauses bound to a truth table: layouts with their slots filled, ready for the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.engine.exact_plan import Layout, Longs, Shape, layout_of
from tuplet.engine.kernels import exact as kernel
from tuplet.engine.kernels.exact import Program, Rows
from tuplet.lang.query_graph import QueryGraph
from tuplet.truth.table import TruthTable

Names: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """A connected part of a clause. `members` are the clause's variables behind the part's, the free ones first."""

    members: tuple[int, ...]
    free: int  # how many of them are free; at least one: of a purely existential part the first stands as free
    existential: bool  # purely existential: only its best value counts
    layout: Layout
    program: Program
    names: Names


@dataclass(frozen=True)
class BoundClause:
    """The parts of a clause, and the truth values of its atoms between constants."""

    clause: QueryGraph
    parts: tuple[Part, ...]
    ground: tuple[float, ...]

    def describe(self, rows: Rows) -> str:
        """Order, bounds and estimated cost, a line per step."""
        lines = []
        for value in self.ground:
            lines.append(f"  atom between constants: truth {value:.6g}")
        for number, part in enumerate(self.parts):
            if len(self.parts) > 1:
                lines.append(f"  part {number + 1} of {len(self.parts)}, combined in order of truth")
            lines += [f"  {line}" for line in _describe(part, rows)]
        return "\n".join(lines)


def rows_of(table: TruthTable) -> Rows:
    """The table's arrays as the kernels take them: plain, contiguous, read-only (one compiled version for all)."""

    def fixed(array: NDArray[np.generic]) -> NDArray[np.generic]:
        view = np.ascontiguousarray(np.asarray(array)).view()
        view.flags.writeable = False
        return view

    a = table.adjacency
    return Rows(
        *map(fixed, (a.view_ptr, a.row_entity, a.row_ptr, a.neighbour, table.truth, table.by_truth, table.row_best))
    )


def bind_clause(clause: QueryGraph, table: TruthTable, rows: Rows) -> BoundClause:
    """The clause as programs on a table."""
    ground = tuple(
        1.0 - table.value(~e.head, e.relation, ~e.tail) if e.negated else table.value(~e.head, e.relation, ~e.tail)
        for e in clause.edges
        if e.head < 0 and e.tail < 0
    ) + tuple(float(a != b) for a, b in clause.different if (a < 0 and b < 0) or a == b)
    return BoundClause(clause, tuple(_bind_part(clause, m, table, rows) for m in _groups(clause)), ground)


def _groups(clause: QueryGraph) -> list[list[int]]:
    """The variables of each connected part."""
    root = list(range(len(clause.variables)))

    def find(v: int) -> int:
        while root[v] != v:
            v = root[v]
        return v

    for a, b in [*((e.head, e.tail) for e in clause.edges), *clause.different]:
        if a >= 0 and b >= 0:
            root[max(find(a), find(b))] = min(find(a), find(b))
    groups: dict[int, list[int]] = {}
    for v in range(len(clause.variables)):
        groups.setdefault(find(v), []).append(v)
    return list(groups.values())


def _bind_part(clause: QueryGraph, group: list[int], table: TruthTable, rows: Rows) -> Part:
    asked = set(clause.free)
    free = [v for v in group if v in asked]
    existential = not free
    members = [*(free or group[:1]), *(v for v in group if v not in asked and (free or v != group[0]))]
    number = {v: i for i, v in enumerate(members)}
    edges = [e for e in dict.fromkeys(clause.edges) if e.head in number or e.tail in number]
    different = [d for d in dict.fromkeys(clause.different) if (d[0] in number or d[1] in number) and d[0] != d[1]]
    spans = {}
    for i, e in enumerate(edges):
        if e.head < 0 or e.tail < 0:
            constant, view = (~e.head, 2 * e.relation) if e.head < 0 else (~e.tail, 2 * e.relation + 1)
            spans[i] = table.adjacency.span(constant, view)
    anchors = sorted((i for i in spans if not edges[i].negated), key=lambda i: (spans[i][1] - spans[i][0], i))
    shape = Shape(
        len(members),
        len(free) or 1,
        tuple((number.get(e.head, -1), number.get(e.tail, -1), e.negated) for e in edges),
        tuple((number.get(a, -1), number.get(b, -1)) for a, b in different),
        tuple(anchors),
    )
    layout = layout_of(shape)
    program = _fill(layout, [e.relation for e in edges], spans, [~min(a, b) for a, b in different], rows)
    names = tuple(clause.variables[v] for v in members)
    return Part(tuple(members), len(free) or 1, existential, layout, program, names)


def _fill(
    layout: Layout, relation: list[int], spans: dict[int, tuple[int, int]], unequal: list[int], rows: Rows
) -> Program:
    """The program of a layout with the given relation of each atom, rows of the constants, and constants of inequalities."""
    entries = layout.template.copy()
    views, constants, unequals = layout.views, layout.constants, layout.unequals
    entries[views[0], 2] += 2 * np.array(relation, dtype=np.int64)[views[1]]
    if len(constants[0]):
        entries[constants[0], 2:4] = [spans[i] for i in constants[1].tolist()]
    if len(unequals[0]):
        entries[unequals[0], 2] = [unequal[i] for i in unequals[1].tolist()]
    ids, best, where = _lists(layout, relation, rows)
    arrays = layout.arrays
    if layout.list_rows:
        arrays = {name: array.copy() for name, array in arrays.items()}
        first = {"edges": kernel.SPAN_A, "steps": kernel.LIST_A, "levels": kernel.LIST_A}
        for name, row, variable in layout.list_rows:
            arrays[name][row, first[name] : first[name] + 2] = where[variable]
    return Program(entries=entries, list_ids=ids, list_best=best, **arrays)


def _lists(
    layout: Layout, relation: list[int], rows: Rows
) -> tuple[NDArray[np.int32], NDArray[np.float64], dict[int, tuple[int, int]]]:
    """Candidates of variables that nothing else gives: the entities of the view with the fewest rows, best first."""
    ids: list[NDArray[np.int32]] = [np.zeros(0, dtype=np.int32)]
    best: list[NDArray[np.float64]] = [np.zeros(0)]
    where: dict[int, tuple[int, int]] = {}
    at = 0
    for v in layout.lists:
        views = [
            2 * relation[i] + (h != v)
            for i, (h, t, negated) in enumerate(layout.shape.edges)
            if not negated and v in (h, t)
        ]
        view = min(views, key=lambda view: int(rows.view_ptr[view + 1] - rows.view_ptr[view]))
        low, high = int(rows.view_ptr[view]), int(rows.view_ptr[view + 1])
        value = rows.row_best[low:high].astype(np.float64)
        order = np.argsort(-value, kind="stable")
        ids.append(rows.row_entity[low:high][order])
        best.append(value[order])
        where[v] = (at, at + high - low)
        at += high - low
    return np.concatenate(ids), np.concatenate(best), where


def _describe(part: Part, rows: Rows) -> list[str]:
    lines = []
    layout, program = part.layout, part.program
    whole = 1.0
    for i, step in enumerate(layout.steps):
        low, high = (int(c) for c in program.steps[i, [kernel.CHECK_A, kernel.CHECK_B]])
        drawn = [e for e in range(low, high) if program.entries[e, 0] == kernel.POSITIVE]
        drawn = [e for e in drawn if program.entries[e, 1] != step.variable]
        sources = [
            "a constant" if program.entries[e, 1] < 0 else f"?{part.names[program.entries[e, 1]]}" for e in drawn
        ]
        candidates = min((_row_length(program.entries[e], rows) for e in drawn), default=float(len(program.list_ids)))
        whole *= max(candidates, 1.0)
        origin = f"the shortest row of {', '.join(sources)}" if sources else "all rows of a relation"
        checks = sum(1 for e in range(low, high) if program.entries[e, 0] != kernel.SUPPORT)
        opened = int(program.steps[i, kernel.OPEN_B] - program.steps[i, kernel.OPEN_A])
        lines.append(
            f"{i + 1}. {'hold' if step.held else 'fix'} ?{part.names[step.variable]} from {origin}"
            f" (about {candidates:,.0f}); {_plural(checks, 'atom')}, bounded by {_plural(opened, 'message')}"
            + ("; each value once" if step.dedupe else "")
        )
    if layout.lazy:
        lines.append(f"{len(layout.steps) + 1}. evaluate each complete tuple over its existentials, then rank it")
    lines.append(f"without bounds: about {whole:,.0f} assignments; best first stops after the k-th tuple")
    return lines


def _row_length(entry: Longs, rows: Rows) -> float:
    """The length of a constant's row, or the mean length of the rows of a view."""
    if entry[1] < 0:
        return float(entry[3] - entry[2])
    low, high = int(rows.view_ptr[entry[2]]), int(rows.view_ptr[entry[2] + 1])
    return float(rows.row_ptr[high] - rows.row_ptr[low]) / max(1, high - low)


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" + ("" if count == 1 else "s")
