"""Clauses bound to a truth table: layouts with their slots filled, ready for the kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np

from tuplet.engines.condition_tests import ConditionTests, list_allowed
from tuplet.engines.exact import kernels as kernel
from tuplet.engines.exact.kernels import Program
from tuplet.engines.exact.planning import ENTITY, SPAN, VIEW, Layout, Longs, Shape, find_layout
from tuplet.engines.exact.rows import SearchRows
from tuplet.engines.kernels import ready
from tuplet.graph.arrays import freeze
from tuplet.graph.attributes import Ids
from tuplet.progress import counted
from tuplet.query.conditions import BoundCondition, Within, describe_condition
from tuplet.query.ranking import QueryGraph, connected, unify

# Of a variable the entities that a condition leaves, where these are few.
Few: TypeAlias = dict[int, tuple[Within, Ids]]

_NO_ROWS = freeze(np.zeros(0, dtype=np.int32))
_NO_CONDITIONS: tuple[tuple[BoundCondition, ...], Few, ConditionTests | None] = (), {}, None
# So many times fewer entities that can fill a variable than rows under one of its views: the search begins there.
SELECTIVE = 32
_LIST_PLACES = {
    "edges": [kernel.SPAN_A, kernel.SPAN_B, kernel.SPAN_ROW],
    "steps": [kernel.LIST_A, kernel.LIST_B, kernel.LIST_ROW],
}


class Part(NamedTuple):
    """A connected part of a clause."""

    outline: PartOutline
    layout: Layout
    program: Program
    leading: Longs  # [steps] how many of the variables asked for, from the first on, are known after each step
    conditions: tuple[BoundCondition, ...]
    few: Few  # where the search begins, by the part's variables
    tests: ConditionTests | None  # what the program looks into


@dataclass(frozen=True)
class PartOutline:
    """What of a part depends on the form of its clause alone."""

    members: tuple[int, ...]  # the clause's variables behind the part's, the free ones first
    free: int  # how many of them are free; at least one: of a purely existential part the first stands as free
    existential: bool  # purely existential: only its best value counts
    edges: tuple[int, ...]  # positions of its atoms in the clause
    different: tuple[int, ...]
    constants: tuple[tuple[int, int], ...]  # atoms with a constant: number in the part, position in the clause
    tests: tuple[int, ...]  # positions of its conditions in the clause
    shape: Shape
    select: Longs  # [free] its free variables in the order asked for
    layouts: dict[tuple[int, ...], tuple[Layout, Longs]]  # with `leading`, by order of the anchors, then the root

    def layout(
        self, spans: dict[int, tuple[int, int]], relation: list[int], rows: SearchRows, few: Few
    ) -> tuple[Layout, Longs]:
        """The layout for the given rows of the constants: the search starts at the shortest."""
        anchors, root = self.shape.anchors, self.shape.root
        if len(anchors) > 1:
            anchors = tuple(sorted(anchors, key=lambda i: (spans[i][1] - spans[i][0], i)))
        elif not anchors:
            root = _begin(self.shape, relation, rows, few)
        key = (*anchors, root)
        if key not in self.layouts:
            layout = find_layout(replace(self.shape, anchors=anchors, root=root))
            self.layouts[key] = layout, layout.leading(self.select)
        return self.layouts[key]


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
    copies: tuple[tuple[int, int], ...]  # variables that no part has, each with the one that it equals
    equal: tuple[tuple[int, int], ...]  # places asked for that must have equal entities


class BoundClause(NamedTuple):
    """The parts of a clause, and the truth values of its atoms between constants."""

    clause: QueryGraph
    rows: SearchRows
    outline: Outline
    parts: tuple[Part, ...]
    ground: tuple[float, ...]

    def describe(self) -> str:
        """Order, bounds and estimated cost, a line per step."""
        lines = []
        for value in self.ground:
            lines.append(f"  atom between constants: truth {value:.6g}")
        for number, part in enumerate(self.parts):
            if len(self.parts) > 1:
                lines.append(f"  part {number + 1} of {len(self.parts)}, combined in order of truth")
            lines += [f"  {line}" for line in _describe(part, self.rows, self.clause.variables)]
        names = self.clause.variables
        lines += [f"  ?{names[copy]} = ?{names[other]}" for copy, other in self.outline.copies]
        return "\n".join(lines)


def bind_clause(clause: QueryGraph, source: SearchRows) -> BoundClause:
    """The clause as programs on the rows of a table."""
    adjacency, truth = source.adjacency, source.rows.truth
    searched, stands = (clause, None) if not clause.conditions else unify(clause)
    edges, different = searched.edges, searched.different
    if searched is clause and len(set(edges)) < len(edges):
        edges = tuple(dict.fromkeys(edges))
    outline = _outline(
        len(clause.variables),
        clause.free,
        tuple([(max(e[0], -1), max(e[2], -1), e[3]) for e in edges]),
        tuple([(max(a, -1), max(b, -1)) for a, b in different]) if different else (),
        tuple([(c.variables[0], c.variables[-1]) for c in searched.conditions]) if searched.conditions else (),
        stands,
    )
    ground: list[float] = []
    for i in outline.ground:
        at = adjacency.find(~edges[i].head, edges[i].relation, ~edges[i].tail)
        value = 0.0 if at < 0 else float(truth[at]) if len(truth) else 1.0
        ground.append(1.0 - value if edges[i].negated else value)
    for i in outline.ground_different:
        ground.append(float(different[i][0] != different[i][1]))
    parts = []
    for part in outline.parts:
        spans = {}
        for local, i in part.constants:
            head, relation, tail, _ = edges[i]
            entity, view = (~head, 2 * relation) if head < 0 else (~tail, 2 * relation + 1)
            spans[local] = adjacency.touched_span(entity, view)
        relations = [edges[i].relation for i in part.edges]
        conditions, few, tests = _NO_CONDITIONS
        if part.tests:
            conditions = tuple([searched.conditions[i] for i in part.tests])
            few, tests = _few(part, conditions, relations, source), ConditionTests(conditions)
            ready(tests.rows)
        layout, leading = part.layout(spans, relations, source, few)
        unequal = [~min(different[i]) for i in part.different] if part.different else []
        program = _fill(layout, relations, spans, unequal, source, few, tests)
        parts.append(Part(part, layout, program, leading, conditions, few, tests))
    return BoundClause(clause, source, outline, tuple(parts), tuple(ground))


@lru_cache(maxsize=4096)
def _outline(
    variables: int,
    free: tuple[int, ...],
    edges: tuple[tuple[int, int, bool], ...],
    different: tuple[tuple[int, int], ...],
    tests: tuple[tuple[int, int], ...],
    stands: tuple[int, ...] | None,
) -> Outline:
    stands = stands or tuple(range(variables))
    searched = tuple(dict.fromkeys(stands[v] for v in free))
    groups = connected(variables, [*((h, t) for h, t, _ in edges), *different, *tests])
    groups = [group for group in ([v for v in group if stands[v] == v] for group in groups) if group]
    parts = tuple(_part_outline(group, searched, edges, different, tests) for group in groups)
    asked = [p.members[: p.free] for p in parts if not p.existential]
    flat = [v for members in asked for v in members]
    place = {v: i for i, v in enumerate(v for p in parts for v in p.members)}
    return Outline(
        parts,
        tuple(i for i, (h, t, _) in enumerate(edges) if h < 0 and t < 0),
        tuple(i for i, (a, b) in enumerate(different) if a == b or (a < 0 and b < 0)),
        np.array([flat.index(stands[v]) for v in free], dtype=np.int64),
        tuple(np.array([free.index(v) for v in members], dtype=np.int64) for members in asked),
        np.array([place[v] for v in stands], dtype=np.int64),
        len(parts) == 1 and free == stands == tuple(range(variables)),
        tuple((v, other) for v, other in enumerate(stands) if v != other),
        tuple((i, free.index(stands[v])) for i, v in enumerate(free) if stands[v] != v),
    )


def _part_outline(
    group: list[int],
    free: tuple[int, ...],
    edges: tuple[tuple[int, int, bool], ...],
    different: tuple[tuple[int, int], ...],
    tests: tuple[tuple[int, int], ...],
) -> PartOutline:
    asked = [v for v in group if v in free]
    # of a purely existential part one variable stands as free: the best value of the part is that of its best tuple
    leading = asked or group[:1]
    members = [*leading, *(v for v in group if v not in leading)]
    number = {v: i for i, v in enumerate(members)}
    own = [i for i, (h, t, _) in enumerate(edges) if h in number or t in number]
    unequal = [i for i, (a, b) in enumerate(different) if a != b and (a in number or b in number)]
    constants = [(local, i) for local, i in enumerate(own) if edges[i][0] < 0 or edges[i][1] < 0]
    tested = [i for i, (a, _) in enumerate(tests) if a in number]
    select = np.array([number[v] for v in free if v in number] or [0], dtype=np.int64)
    shape = Shape(
        len(members),
        len(leading),
        tuple((number.get(edges[i][0], -1), number.get(edges[i][1], -1), edges[i][2]) for i in own),
        tuple((number.get(different[i][0], -1), number.get(different[i][1], -1)) for i in unequal),
        tuple(local for local, i in constants if not edges[i][2]),
        root=int(select[0]),
        tests=tuple((number[tests[i][0]], number[tests[i][1]]) for i in tested),
    )
    return PartOutline(
        members=tuple(members),
        free=len(leading),
        existential=not asked,
        edges=tuple(own),
        different=tuple(unequal),
        constants=tuple(constants),
        tests=tuple(tested),
        shape=shape,
        select=select,
        layouts={},
    )


def _few(part: PartOutline, conditions: tuple[BoundCondition, ...], relation: list[int], rows: SearchRows) -> Few:
    """What conditions leave of variables that no constant leads to, where that is worth knowing."""
    found: Few = {}
    if not part.shape.anchors:
        for v, variable in enumerate(part.members):
            views = _views(part.shape, relation, v)
            own = list_allowed(conditions, variable, min(rows.adjacency.row_counts[view] for view in views))
            if own is not None:
                found[v] = own
    return found


def _begin(shape: Shape, relation: list[int], rows: SearchRows, allows: Few) -> int:
    """The variable to begin with: the first asked for, since equals come in order of its names, unless views or
    conditions of another one leave so few entities that most of a search would be in vain; with none, it ends at once.
    """
    counts = rows.adjacency.row_counts
    shared: dict[int, int] = {}
    for v in range(shape.variables):
        views = _views(shape, relation, v)
        if views and not min(counts[view] for view in views):
            return v
        few = rows.few(views) if len(views) > 1 else None
        sizes = [len(few.order)] if few is not None else []
        sizes += [len(allows[v][1])] if v in allows else []
        if sizes and SELECTIVE * min(sizes) <= max(counts[view] for view in views):
            shared[v] = min(sizes)
    return min(shared, key=shared.__getitem__, default=shape.root)


def _views(shape: Shape, relation: list[int], v: int) -> tuple[int, ...]:
    """The views under which a variable's entity must have a row."""
    atoms = [(i, h, t) for i, (h, t, negated) in enumerate(shape.edges) if not negated]
    views = {2 * relation[i] for i, h, _ in atoms if h == v} | {2 * relation[i] + 1 for i, _, t in atoms if t == v}
    return tuple(sorted(views))


def _fill(
    layout: Layout,
    relation: list[int],
    spans: dict[int, tuple[int, int]],
    unequal: list[int],
    rows: SearchRows,
    few: Few,
    tests: ConditionTests | None,
) -> Program:
    """The program of a layout: relations of the atoms, rows of the constants, constants of inequalities filled in."""
    entries = layout.template.copy()
    addresses = [] if tests is None else tests.addresses
    for at, lacks, atom in layout.slots:
        if lacks == VIEW:
            entries[at, 2] += 2 * relation[atom]
        elif lacks == SPAN:
            entries[at, 2], entries[at, 3] = spans[atom]
        else:
            entries[at, 2] = unequal[atom] if lacks == ENTITY else addresses[atom]
    if not layout.lists:
        return Program._make((entries, *layout.fixed_arrays, _NO_ROWS))
    lists = {}
    for v in layout.lists:
        lists[v] = rows.candidates(_views(layout.shape, relation, v), few[v][1] if v in few else None)
    ends = dict(zip(lists, accumulate(len(own.order) for own in lists.values()), strict=True))
    arrays = {name: array.copy() for name, array in layout.arrays.items()}
    for name, row, v in layout.list_rows:
        places = _LIST_PLACES["edges" if name == "edges" else "steps"]
        arrays[name][row, places] = ends[v] - len(lists[v].order), ends[v], lists[v].first
    orders = [own.order for own in lists.values()]
    order = orders[0] if len(orders) == 1 else freeze(np.concatenate(orders))
    return Program._make((entries, *arrays.values(), order))


def _describe(part: Part, rows: SearchRows, variables: tuple[str, ...]) -> list[str]:
    lines = []
    layout, program = part.layout, part.program
    names = [variables[v] for v in part.outline.members]
    conditions = [describe_condition(condition, lambda v: f"?{variables[v]}") for condition in part.conditions]
    whole, later = 1.0, dict(enumerate(conditions))  # those that no step tests
    for i, step in enumerate(layout.steps):
        low, high = (int(c) for c in program.steps[i, [kernel.CHECK_A, kernel.CHECK_B]])
        drawn = [e for e in range(low, high) if program.entries[e, 0] == kernel.POSITIVE]
        drawn = [e for e in drawn if program.entries[e, 1] != step.variable]
        starts = program.entries[drawn, 1].tolist()
        sources = ["a constant" if start < 0 else f"?{names[start]}" for start in starts]
        candidates = min((_row_length(program.entries[e], rows) for e in drawn), default=float(len(program.order)))
        whole *= max(candidates, 1.0)
        origin = f"the shortest row of {', '.join(sources)}" if sources else "all rows of a relation"
        if not sources and step.variable in part.few:
            origin = "the entities that a condition leaves"
        checks = sum(1 for e in range(low, high) if program.entries[e, 0] not in (kernel.SUPPORT, kernel.TEST))
        tested = [layout.entries[e].edge for e in range(low, high) if program.entries[e, 0] == kernel.TEST]
        for test in tested:
            later.pop(test, None)
        said = ", ".join([counted(checks, "atom"), *(conditions[test] for test in tested)])
        opened = int(program.steps[i, kernel.OPEN_B] - program.steps[i, kernel.OPEN_A])
        lines.append(
            f"{i + 1}. {'hold' if step.held else 'fix'} ?{names[step.variable]} from {origin}"
            f" (about {candidates:,.0f}); {said}, bounded by {counted(opened, 'message')}"
            + ("; each value once" if step.dedupe else "")
        )
    if layout.lazy:
        lines.append(f"{len(layout.steps) + 1}. evaluate each complete tuple over its existentials, then rank it")
    if later:
        lines.append(f"on the values of existentials: {', '.join(later.values())}")
    lines.append(f"without bounds: about {whole:,.0f} assignments; best first stops after the k-th tuple")
    return lines


def _row_length(entry: Longs, rows: SearchRows) -> float:
    """The length of a constant's row, or the mean length of the rows of a view."""
    if entry[1] < 0:
        return float(entry[3] - entry[2])
    return float(rows.adjacency.view_sizes[entry[2]][2])
