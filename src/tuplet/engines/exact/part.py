"""Clauses bound to a truth table: layouts with their slots filled, ready for the kernels."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.exact.kernels import rows as kernel
from tuplet.engines.exact.kernels.rows import Program, Rows
from tuplet.engines.exact.layout import Layout, Longs, Shape
from tuplet.engines.exact.planning import layout_of
from tuplet.query.query_graph import QueryGraph, connected
from tuplet.truth.table import TruthTable

Names: TypeAlias = tuple[str, ...]

_NO_IDS = np.zeros(0, dtype=np.int32)
_NO_VALUES = np.zeros(0)


class Part(NamedTuple):
    """A connected part of a clause. `members` are the clause's variables behind the part's, the free ones first."""

    members: tuple[int, ...]
    free: int  # how many of them are free; at least one: of a purely existential part the first stands as free
    existential: bool  # purely existential: only its best value counts
    layout: Layout
    program: Program
    names: Names
    select: Longs  # [free] its free variables in the order asked for
    leading: Longs  # [steps] how many of these, from the first on, are known after each step


@dataclass(frozen=True)
class PartOutline:
    """What of a part depends on the form of its clause alone."""

    members: tuple[int, ...]
    free: int
    existential: bool
    edges: tuple[int, ...]  # positions of its atoms in the clause
    different: tuple[int, ...]
    constants: tuple[tuple[int, int], ...]  # atoms with a constant: number in the part, position in the clause
    shape: Shape
    select: Longs
    layouts: dict[tuple[int, ...], tuple[Layout, Longs]]  # with `leading`, by order of the anchors

    def layout(self, spans: dict[int, tuple[int, int]]) -> tuple[Layout, Longs]:
        """The layout for the given rows of the constants: the search starts at the shortest."""
        anchors = self.shape.anchors
        if len(anchors) > 1:
            anchors = tuple(sorted(anchors, key=lambda i: (spans[i][1] - spans[i][0], i)))
        if anchors not in self.layouts:
            layout = layout_of(replace(self.shape, anchors=anchors))
            self.layouts[anchors] = layout, layout.leading(self.select)
        return self.layouts[anchors]


@dataclass(frozen=True)
class Outline:
    """What of a clause depends on its form alone."""

    parts: tuple[PartOutline, ...]
    ground: tuple[int, ...]  # atoms between constants
    ground_different: tuple[int, ...]
    columns: Longs  # where each variable asked for stands among the free variables of the parts, one part after another
    places: tuple[Longs, ...]  # for each part with free variables, where these stand among those asked for
    order: Longs  # where each variable stands among the members of the parts
    in_order: bool  # the variables of the only part are those of the clause, asked for in order


class BoundClause(NamedTuple):
    """The parts of a clause, and the truth values of its atoms between constants."""

    clause: QueryGraph
    outline: Outline
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


def rows_of(table: TruthTable, rank: NDArray[np.int32] | None = None) -> Rows:
    """The arrays of a table as the kernels take them; `rank` is the place of each entity by name (default: by id)."""
    known, made = table.prepared.get("rows", (None, None))
    if made is None or known is not rank:
        a = table.adjacency
        arrays = (a.view_ptr, a.row_entity, a.row_ptr, a.neighbour, table.truth, table.by_truth, table.row_best)
        made = fixed_rows(*arrays, np.arange(table.entities, dtype=np.int32) if rank is None else rank, newer=a.newer)
        table.prepared["rows"] = rank, made
    rows: Rows = made
    return rows


def fixed_rows(*arrays: NDArray[Any], newer: Longs | None = None) -> Rows:
    """Arrays as rows: plain, contiguous, read-only (one compiled version for all)."""

    def fixed(array: NDArray[Any]) -> NDArray[Any]:
        view = np.ascontiguousarray(np.asarray(array)).view()
        view.flags.writeable = False
        return view

    layers = np.zeros((0, len(arrays[0])), dtype=np.int64) if newer is None else newer
    made = [fixed(array) for array in (*arrays, layers)]
    rank = made[-2]
    return Rows._make([*made, bool((rank[1:] > rank[:-1]).all())])


def bind_clause(clause: QueryGraph, rows: Rows) -> BoundClause:
    """The clause as programs on the rows of a table."""
    edges, different = clause.edges, clause.different
    if len(set(edges)) < len(edges):
        edges = tuple(dict.fromkeys(edges))
    outline = _outline(
        len(clause.variables),
        clause.free,
        tuple([(max(e[0], -1), max(e[2], -1), e[3]) for e in edges]),
        tuple([(max(a, -1), max(b, -1)) for a, b in different]),
    )
    ground: list[float] = []
    for i in outline.ground:
        value = value_of(rows, ~edges[i].head, edges[i].relation, ~edges[i].tail)
        ground.append(1.0 - value if edges[i].negated else value)
    for i in outline.ground_different:
        ground.append(float(different[i][0] != different[i][1]))
    parts = []
    for part in outline.parts:
        spans = {}
        for local, i in part.constants:
            head, relation, tail, _ = edges[i]
            spans[local] = span_of(rows, *((~head, 2 * relation) if head < 0 else (~tail, 2 * relation + 1)))
        layout, leading = part.layout(spans)
        unequal = [~min(different[i]) for i in part.different]
        program = _fill(layout, [edges[i].relation for i in part.edges], spans, unequal, rows)
        names = tuple([clause.variables[v] for v in part.members])
        parts.append(Part(part.members, part.free, part.existential, layout, program, names, part.select, leading))
    return BoundClause(clause, outline, tuple(parts), tuple(ground))


def value_of(rows: Rows, head: int, relation: int, tail: int) -> float:
    """The truth of one edge."""
    start, stop = span_of(rows, head, 2 * relation)
    at = bisect_left(rows.neighbour, tail, start, stop)
    return float(rows.truth[at]) if at < stop and rows.neighbour[at] == tail else 0.0


def span_of(rows: Rows, entity: int, view: int) -> tuple[int, int]:
    """Where the neighbours of an entity under a view lie; an empty span if it has none."""
    low, high = int(rows.view_ptr[view]), int(rows.view_ptr[view + 1])
    row = bisect_left(rows.row_entity, entity, low, high)
    if row == high or rows.row_entity[row] != entity:
        return 0, 0
    return int(rows.row_ptr[row]), int(rows.row_ptr[row + 1])


@lru_cache(maxsize=4096)
def _outline(
    variables: int,
    free: tuple[int, ...],
    edges: tuple[tuple[int, int, bool], ...],
    different: tuple[tuple[int, int], ...],
) -> Outline:
    groups = connected(variables, [*((h, t) for h, t, _ in edges), *different])
    parts = tuple(_part_outline(group, free, edges, different) for group in groups)
    asked = [p.members[: p.free] for p in parts if not p.existential]
    flat = [v for members in asked for v in members]
    return Outline(
        parts,
        tuple(i for i, (h, t, _) in enumerate(edges) if h < 0 and t < 0),
        tuple(i for i, (a, b) in enumerate(different) if a == b or (a < 0 and b < 0)),
        np.array([flat.index(v) for v in free], dtype=np.int64),
        tuple(np.array([free.index(v) for v in members], dtype=np.int64) for members in asked),
        np.argsort(np.array([v for p in parts for v in p.members], dtype=np.int64)),
        len(parts) == 1 and free == tuple(range(variables)),
    )


def _part_outline(
    group: list[int],
    free: tuple[int, ...],
    edges: tuple[tuple[int, int, bool], ...],
    different: tuple[tuple[int, int], ...],
) -> PartOutline:
    asked = [v for v in group if v in free]
    # of a purely existential part one variable stands as free: the best value of the part is that of its best tuple
    leading = asked or group[:1]
    members = [*leading, *(v for v in group if v not in leading)]
    number = {v: i for i, v in enumerate(members)}
    own = [i for i, (h, t, _) in enumerate(edges) if h in number or t in number]
    unequal = [i for i, (a, b) in enumerate(different) if a != b and (a in number or b in number)]
    constants = [(local, i) for local, i in enumerate(own) if edges[i][0] < 0 or edges[i][1] < 0]
    shape = Shape(
        len(members),
        len(leading),
        tuple((number.get(edges[i][0], -1), number.get(edges[i][1], -1), edges[i][2]) for i in own),
        tuple((number.get(different[i][0], -1), number.get(different[i][1], -1)) for i in unequal),
        tuple(local for local, i in constants if not edges[i][2]),
    )
    select = np.array([number[v] for v in free if v in number] or [0], dtype=np.int64)
    return PartOutline(
        tuple(members), len(leading), not asked, tuple(own), tuple(unequal), tuple(constants), shape, select, {}
    )


def _fill(
    layout: Layout, relation: list[int], spans: dict[int, tuple[int, int]], unequal: list[int], rows: Rows
) -> Program:
    """The program of a layout: relations of the atoms, rows of the constants, constants of inequalities filled in."""
    entries = layout.template.copy()
    for at, atom in layout.views:
        entries[at, 2] += 2 * relation[atom]
    for at, atom in layout.constants:
        entries[at, 2], entries[at, 3] = spans[atom]
    for at, atom in layout.unequals:
        entries[at, 2] = unequal[atom]
    if not layout.lists:
        return Program._make((entries, *layout.fixed_arrays, _NO_IDS, _NO_VALUES))
    ids, best, where = _lists(layout, relation, rows)
    arrays = {name: array.copy() for name, array in layout.arrays.items()}
    first = {"edges": kernel.SPAN_A, "steps": kernel.LIST_A, "levels": kernel.LIST_A}
    for name, row, variable in layout.list_rows:
        arrays[name][row, first[name] : first[name] + 2] = where[variable]
    return Program._make((entries, *arrays.values(), ids, best))


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
