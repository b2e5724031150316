"""The program of a shape, with slots for relations and constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.exact import kernels as kernel
from tuplet.errors import BudgetExceeded

Longs: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """A connected part: variables 0 … n−1 (the free ones first), atoms by position; constants are negative slots."""

    variables: int
    free: int
    edges: tuple[tuple[int, int, bool], ...]  # head, tail, negated
    different: tuple[tuple[int, int], ...]
    anchors: tuple[int, ...]  # positive atoms with a constant, the one with the shortest row first
    root: int = 0  # the variable to begin with where no constant leads to one
    tests: tuple[tuple[int, int], ...] = ()  # conditions by position: left and right variable, perhaps the same


@dataclass(frozen=True)
class Entry:
    """A factor of a variable as in the kernels; `edge` is the position of the atom, inequality or condition."""

    kind: int
    source: int
    edge: int
    inverse: int  # 1 if the atom is walked from its tail; of a condition the side of the variable
    extra: int


@dataclass
class SearchStep:
    """One variable of the search; `previous` is what it is reached from: a variable, or -1 at a root."""

    variable: int
    previous: int
    held: bool
    dedupe: bool = False
    closes: bool = False
    fixed: frozenset[int] = frozenset()  # free variables fixed before
    entered: frozenset[int] = frozenset()  # existentials of the groups entered so far, whose worth is counted
    following: int = -1  # the next variable of the same stage


# What an entry lacks: the view of its relation, the row of a constant, a constant, the address of a test.
VIEW, SPAN, ENTITY, ADDRESS = range(4)


@dataclass
class Layout:
    """The program of a shape with slots for relations and constants."""

    shape: Shape
    steps: list[SearchStep]
    lazy: bool
    lists: list[int] = field(default_factory=list)  # variables whose candidates no constant or variable gives
    entries: list[Entry] = field(default_factory=list)
    arrays: dict[str, Longs] = field(default_factory=dict)
    template: Longs = field(default_factory=lambda: np.zeros((0, 5), dtype=np.int64))
    slots: list[tuple[int, int, int]] = field(default_factory=list)  # entry, what it lacks, its atom or condition
    fixed_arrays: tuple[Longs, ...] = ()  # `arrays` in the order of the program
    sizes: tuple[int, int, int, int] = (0, 0, 0, 0)  # variables, levels, entries, free variables
    list_rows: list[tuple[str, int, int]] = field(default_factory=list)  # table, row, variable: where lists go

    def leading(self, select: Longs) -> Longs:
        """How many of the variables that are asked for first are known after each step. [steps]"""
        found = []
        for step in self.steps:
            known = step.fixed if step.held else step.fixed | {step.variable}
            found.append(next((i for i, v in enumerate(select.tolist()) if v not in known), len(select)))
        return np.array(found, dtype=np.int64)

    def finish(self) -> None:
        """Writes the entries as an array; the slots are filled when relations and constants are known."""
        rows, edges = [], len(self.arrays["edges"])
        for i, e in enumerate(self.entries):
            if e.kind == kernel.TEST:
                self.slots.append((i, ADDRESS, e.edge))
            elif e.kind != kernel.DIFFERENT:
                self.slots.append((i, SPAN if e.source < 0 else VIEW, e.edge))
            elif e.source < 0:
                self.slots.append((i, ENTITY, e.edge))
            inner = (0, e.inverse) if e.kind == kernel.TEST else (e.inverse, edges + i)
            rows.append([e.kind, e.source, *inner, e.extra])
        self.template = int_table(rows, 5)
        self.sizes = self.shape.variables, len(self.arrays["levels"]), len(self.entries), self.shape.free
        self.fixed_arrays = tuple(self.arrays.values())


def int_table(rows: list[list[int]] | list[tuple[int, int]], columns: int) -> Longs:
    """Rows of numbers as an array, also when there are none."""
    return np.array(rows, dtype=np.int64).reshape(-1, columns)


MOST_VARIABLES = 30


class _Builder:
    """Builds the layout of one shape."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        n = shape.variables
        self.pairs: dict[tuple[int, int], list[tuple[int, int]]] = {}  # (u, v), u < v → (kind, atom)
        self.unary: list[list[Entry]] = [[] for _ in range(n)]
        kinds = kernel.POSITIVE, kernel.NEGATIVE
        factors = [(kinds[negated], i, a, b) for i, (a, b, negated) in enumerate(shape.edges)]
        factors += [(kernel.DIFFERENT, i, a, b) for i, (a, b) in enumerate(shape.different)]
        factors += [(kernel.TEST, i, a, b) for i, (a, b) in enumerate(shape.tests)]
        for kind, i, a, b in factors:
            if a != b and min(a, b) >= 0:
                self.pairs.setdefault((min(a, b), max(a, b)), []).append((kind, i))
            elif kind == kernel.TEST:
                self.unary[a].append(Entry(kind, -1, i, kernel.BOTH, 1))
            else:
                inverse = kind != kernel.DIFFERENT and b < 0
                self.unary[max(a, b)].append(Entry(kind, a if a == b else -1, i, inverse, 1))
        self.positive = {p for p, atoms in self.pairs.items() if any(kind == kernel.POSITIVE for kind, _ in atoms)}
        self.roots: list[tuple[int, bool]] = []  # root variable, whether a constant leads to it
        self.tree: list[list[int]] = [[] for _ in range(n)]
        self.depth = [0] * n
        self._grow_forest()
        self.steps = self._order()

    def is_free(self, v: int) -> bool:
        return v < self.shape.free

    # --- forest -------------------------------------------------------------------------------------------------

    def _grow_forest(self) -> None:
        reached: set[int] = set()
        anchored = [max(self.shape.edges[i][:2]) for i in self.shape.anchors]
        for root in [*anchored, self.shape.root, *range(self.shape.variables)]:
            if root in reached:
                continue
            self.roots.append((root, root in anchored))
            reached.add(root)
            members = [root]
            while True:
                frontier = [
                    (self._edge_cost(u, v), members.index(u), u, v)
                    for u in members
                    for v in range(self.shape.variables)
                    if v not in reached and (min(u, v), max(u, v)) in self.positive
                ]
                if not frontier:
                    break
                _, _, u, v = min(frontier)
                self.tree[u].append(v)
                self.tree[v].append(u)
                self.depth[v] = self.depth[u] + 1
                reached.add(v)
                members.append(v)

    def _edge_cost(self, u: int, v: int) -> int:
        """Free variables joined directly are cheaper to search than through an existential."""
        return 2 - self.is_free(u) - self.is_free(v)

    def reach(self, start: int, passes: Callable[[int, int], bool]) -> set[int]:
        """The variables that steps of the tree lead to, as far as these may be taken."""
        found, stack = {start}, [start]
        while stack:
            at = stack.pop()
            for w in self.tree[at]:
                if w not in found and passes(at, w):
                    found.add(w)
                    stack.append(w)
        return found

    def beyond(self, u: int, v: int) -> set[int]:
        """The variables on v's side of the tree edge between u and v."""
        return self.reach(v, lambda at, w: at != v or w != u)

    # --- order --------------------------------------------------------------------------------------------------

    def _order(self) -> list[SearchStep]:
        steps: list[SearchStep] = []
        fixed: list[int] = []
        self.exact_stages = True
        for root, _ in self.roots:
            members = self.beyond(-1, root)
            if not any(self.is_free(v) for v in members):
                continue
            path = self._path_to_free(root, self.is_free)
            self._stage(steps, fixed, path, -1)
            while not all(v in fixed for v in members if self.is_free(v)):
                path, previous = self._next_stage(members, fixed, path)
                self._stage(steps, fixed, path, previous)
        return steps

    def _stage(self, steps: list[SearchStep], fixed: list[int], path: list[int], previous: int) -> None:
        """Steps over the existentials of `path` to the free variable at its end."""
        component = self._component(path[0]) if len(path) > 1 else set()
        boundary = {w for e in component for w in self.tree[e] if self.is_free(w)}
        before = frozenset(fixed)
        entered = frozenset(component) | (steps[-1].entered if steps else frozenset())
        for i, v in enumerate(path):
            last = i == len(path) - 1
            steps.append(
                SearchStep(
                    v,
                    previous if i == 0 else path[i - 1],
                    held=not last,
                    dedupe=i > 0,
                    closes=last and (not component or boundary <= before | {v}),
                    fixed=before,
                    entered=entered,
                    following=-1 if last else path[i + 1],
                )
            )
        touched = {w for e in path[:-1] for w in self.tree[e]}
        if component and not (boundary & before) <= touched:
            self.exact_stages = False
        fixed.append(path[-1])

    def _all_held(self) -> bool:
        """Whether the stage that closes a group of existentials holds all of them: then it has found the best ones."""
        held: set[int] = set()
        closed: set[int] = set()
        for step in self.steps:
            held = {*(held if step.dedupe else ()), step.variable}
            if step.closes:
                closed |= held
        return set(range(self.shape.free, self.shape.variables)) <= closed

    def _component(self, existential: int) -> set[int]:
        return self.reach(existential, lambda _, w: not self.is_free(w))

    def _path_to_free(self, start: int, goal: Callable[[int], bool]) -> list[int]:
        """The shortest path from `start` to a goal that passes existentials only."""
        paths = [[start]]
        seen = {start}
        while paths:
            path = paths.pop(0)
            if goal(path[-1]):
                return path
            if path[-1] == start or not self.is_free(path[-1]):
                for w in self.tree[path[-1]]:
                    if w not in seen:
                        seen.add(w)
                        paths.append([*path, w])
        return []

    def _next_stage(self, members: set[int], fixed: list[int], last: list[int]) -> tuple[list[int], int]:
        """The path to the next free variable, and the fixed variable it starts from."""
        options = []
        entered = self._component(last[0]) if len(last) > 1 else set()
        for y in members:
            if not self.is_free(y) or y in fixed:
                continue
            path = self._path_to_free(y, fixed.__contains__)
            if path:
                inside = len(path) > 2
                # finish a group of existentials once it is entered, then take direct neighbours
                continues = inside and path[1] in entered
                options.append((not continues, len(path), fixed.index(path[-1]), y, path))
        *_, path = min(options)
        return path[-2::-1], path[-1]

    # --- program ------------------------------------------------------------------------------------------------

    def supports(self, v: int, order: dict[int, int]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Positive atoms beside the forest that are bounded at v, as (atom, other): always, or inside messages only."""
        always: list[tuple[int, int]] = []
        inside: list[tuple[int, int]] = []
        for (a, b), atoms in self.pairs.items():
            if v not in (a, b) or b in self.tree[a]:
                continue
            other = b if v == a else a
            if self.is_free(v) and self.is_free(other):
                mine, target = order[v] > order[other], inside
            elif self.is_free(v) != self.is_free(other):
                mine, target = self.is_free(v), always
            else:
                mine, target = (self.depth[v], v) > (self.depth[other], other), always
            if mine:
                target.extend((i, other) for kind, i in atoms if kind == kernel.POSITIVE)
        return always, inside

    def entry(self, kind: int, source: int, target: int, atom: int, extra: int) -> Entry:
        """The factor of an atom or condition between two variables at its `target` end."""
        if kind == kernel.TEST:
            side = kernel.LEFT if self.shape.tests[atom][0] == target else kernel.RIGHT
            return Entry(kind, source, atom, side, extra)
        inverse = kind != kernel.DIFFERENT and self.shape.edges[atom][0] != source
        return Entry(kind, source, atom, inverse, extra)

    def between(self, source: int, target: int, extra: int) -> list[Entry]:
        atoms = self.pairs.get((min(source, target), max(source, target)), [])
        return [self.entry(kind, source, target, i, extra) for kind, i in atoms]

    def build(self) -> Layout:
        shape = self.shape
        beside_existential = any(
            b not in self.tree[a] and not (self.is_free(a) and self.is_free(b)) for a, b in self.pairs
        )
        free_roots = [r for r, _ in self.roots if any(self.is_free(v) for v in self.beyond(-1, r))]
        lazy = beside_existential or not self.exact_stages or len(free_roots) < len(self.roots)
        layout = Layout(shape, self.steps, lazy)
        order = {s.variable: i for i, s in enumerate(self.steps) if not s.held}

        # unary entries; supports get numbers in the memo after the directed edges
        pointers, supports = [], []
        for v in range(shape.variables):
            always, inside = self.supports(v, order)
            bounds = [Entry(kernel.SUPPORT, v, i, shape.edges[i][0] != v, o + 1) for i, o in [*always, *inside]]
            first = len(layout.entries)
            layout.entries += [*self.unary[v], *bounds]
            middle = first + len(self.unary[v])
            pointers.append([first, middle, middle + len(always), len(layout.entries)])
            supports.append(layout.entries[first : middle + len(always)])

        numbers: dict[tuple[int, int], int] = {}
        for u in range(shape.variables):
            for v in self.tree[u]:
                numbers[u, v] = len(numbers)
        for root, anchored in self.roots:
            numbers[-1, root] = len(numbers)
            if not anchored:
                layout.lists.append(root)
        nexts: list[int] = []
        edges: list[list[int]] = []
        for u, v in numbers:
            first = len(layout.entries)
            layout.entries += self.between(u, v, 1) if u >= 0 else []
            onward = [numbers[v, w] for w in self.tree[v] if w != u]
            alone = len(layout.entries) - first == 1 and not onward and pointers[v][0] == pointers[v][-1]
            leaf = (kernel.ONE_LEAF if self.is_free(u) else kernel.REPEATED_LEAF) if alone else 0
            edges.append([v, 0, 0, first, len(layout.entries), len(nexts), len(nexts) + len(onward), leaf, 0])
            if u < 0 and v in layout.lists:
                layout.list_rows.append(("edges", len(edges) - 1, v))
            nexts += onward

        opens: list[tuple[int, int]] = []

        def put(edges: Iterable[tuple[int, int]]) -> list[int]:
            first = len(opens)
            opens.extend((numbers[u, v], u) for u, v in edges)
            return [first, len(opens)]

        step_rows = []
        for i, s in enumerate(self.steps):
            assigned = [*s.fixed, *([s.previous] if s.previous >= 0 and s.previous not in s.fixed else [])]
            first = len(layout.entries)
            layout.entries += supports[s.variable]
            for u in assigned:
                if u in self.tree[s.variable] or (self.is_free(u) and self.is_free(s.variable)):
                    permanent = self.is_free(u) and self.is_free(s.variable)
                    layout.entries += self.between(u, s.variable, int(permanent))
            checks = [first, len(layout.entries)]
            opened, side, following = self._open_edges(i)
            if not any(e.kind == kernel.POSITIVE and e.source != s.variable for e in layout.entries[first:]):
                layout.list_rows.append(("steps", i, s.variable))
            step_rows.append(
                [s.variable, s.held, s.dedupe, s.closes, *checks, *put(opened), *put(side), *put(following), 0, 0, 0]
            )
        levels, parts = self._levels(layout, supports, put)
        fixed: list[int] = []
        targets: list[int] = []
        for v in range(shape.free):
            first = len(layout.entries)
            layout.entries += self.unary[v]
            for u in range(v):
                layout.entries += self.between(u, v, 1)
            fixed += range(first, len(layout.entries))
            targets += [v] * (len(layout.entries) - first)
        layout.arrays = {
            "unary": int_table(pointers, 4),
            "edges": int_table(edges, kernel.EDGE_COLUMNS),
            "nexts": np.array(nexts, dtype=np.int64),
            "steps": int_table(step_rows, kernel.STEP_COLUMNS),
            "opens": int_table(opens, 2),
            "levels": int_table(levels, kernel.STEP_COLUMNS),
            "parts": int_table(parts, 2),
            "fixed": np.array(fixed, dtype=np.int64),
            "fixed_target": np.array(targets, dtype=np.int64),
            "lazy": np.array([lazy, not lazy and self._all_held()], dtype=np.int64),
        }
        layout.finish()
        return layout

    def _open_edges(self, i: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[tuple[int, int]]]:
        """Messages that bound step i, that stay when its existential is forgotten, and that bound the next step."""
        step = self.steps[i]
        fixed = set(step.fixed)
        v = step.variable

        def fresh(u: int, w: int) -> bool:
            """No variable beyond the edge is assigned."""
            return not (self.beyond(u, w) & (fixed | {v, step.previous}))

        mine = [(v, w) for w in self.tree[v] if (step.held or w not in step.entered) and fresh(v, w)]
        others = [(u, w) for u in sorted(fixed) for w in self.tree[u] if w not in step.entered and fresh(u, w)]
        started = fixed | {v}
        others += [(-1, r) for r, _ in self.roots if not self.beyond(-1, r) & started]
        side = [(v, w) for _, w in mine if w != step.following] if step.held else []
        # what the next step draws from is replaced by its rows
        rest = others if step.held else [*mine, *others]
        if not step.held and i + 1 < len(self.steps):
            nxt = self.steps[i + 1]
            taken = (nxt.previous, nxt.variable)
            rest = [e for e in rest if e != taken]
        return [*mine, *others], side, rest

    def _levels(
        self, layout: Layout, supports: list[list[Entry]], put: Callable[[Iterable[tuple[int, int]]], list[int]]
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The order in which existentials are found when the free variables are given."""
        shape = self.shape
        rows: list[list[int]] = []
        parts: list[list[int]] = []
        remaining = set(range(shape.free, shape.variables))
        known = set(range(shape.free))
        while remaining:
            first_level = len(rows)
            part: set[int] = set()

            def links(v: int, part: set[int] = part) -> tuple[int, int]:
                joined = [u for u in known | part if (min(u, v), max(u, v)) in self.positive]
                constants = sum(e.kind == kernel.POSITIVE and e.source < 0 for e in self.unary[v])
                return -min(1, len(joined) + constants), -len(joined) - constants

            start = min(remaining, key=lambda v: (*links(v), v))
            queue = {start}
            while queue:
                v = min(queue, key=lambda v: (*links(v), v))
                queue.remove(v)
                first = len(layout.entries)
                layout.entries += [e for e in supports[v] if e.kind != kernel.SUPPORT]
                for u in sorted(known | part):
                    layout.entries += self.between(u, v, 1)
                part.add(v)
                remaining.discard(v)
                if not any(e.kind == kernel.POSITIVE and e.source != v for e in layout.entries[first:]):
                    layout.list_rows.append(("levels", len(rows), v))
                    if v not in layout.lists:
                        layout.lists.append(v)
                checks = [first, len(layout.entries)]
                hanging = [
                    (u, w)
                    for u in sorted(part)
                    for w in self.tree[u]
                    if not self.is_free(w)
                    and not (self.beyond(u, w) & part)
                    and not any(self.is_free(x) for x in self.beyond(u, w))
                ]
                rows.append([v, 0, 0, 0, *checks, *put(hanging), *[0] * 7])
                queue |= {w for w in remaining if any(p in self.pairs for p in ((min(v, w), max(v, w)),))}
            parts.append([first_level, len(rows)])
        return rows, parts


@lru_cache(maxsize=4096)
def find_layout(shape: Shape) -> Layout:
    """The layout of a shape, made once."""
    if shape.variables > MOST_VARIABLES:
        raise BudgetExceeded(
            f"a connected part of the query has {shape.variables} variables;"
            f" the exact engine takes up to {MOST_VARIABLES}"
        )
    return _Builder(shape).build()
