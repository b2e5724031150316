"""Planning the crisp join: the program that the kernels run, its arrays, and the order in which variables are bound.

One variable is bound at each depth. Its candidates are the intersection of sorted *lists*; *checks* look at a candidate
that is in all lists. This file needs no compiled code, so that a plan can be made and printed without it.

The order is greedy by estimated cost, from real sizes: the rows of constants are measured, other rows are taken at the
average of their view. An existential variable is bound early when that is cheaper than checking it late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.condition_tests import ConditionTests, list_allowed
from tuplet.errors import UnsafeQuery
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.arrays import freeze
from tuplet.graph.attributes import Ids
from tuplet.query.conditions import BoundCondition, Within, describe_condition
from tuplet.query.ranking import Clauses, Edge, QueryGraph, unify

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

# Columns of `steps` [depths + 1, 11]; the last row stands for "all variables bound" and has only SUCCEEDED.
#   VARIABLE             the variable bound at this depth
#   LISTS … LISTS_END    its lists: LISTS:NEGATED must hold the candidate, NEGATED:LISTS_END must not
#   CHECKS … CHECKS_END  its checks
#   FAILED, SUCCEEDED    the depth to go back to if nothing was found below, and if something was; -1 ends the search
#   MEMO … MEMO_END      variables in `memo` that decide what lies at and below this depth; an empty span: no memo here
#   EARLY                1 at the last free variable if existential ones follow: a known tuple needs no further witness
VARIABLE, LISTS, NEGATED, LISTS_END, CHECKS, CHECKS_END, FAILED, SUCCEEDED, MEMO, MEMO_END, EARLY = range(11)

# Columns of `lists` [lists, 4], and the sources of a list:
#   SPAN       the places FIRST:SECOND of the array, known beforehand: the row of a constant, or the rows of a view
#   POINTED    the neighbours in the row at which the cursor of list FIRST stands; that list is one of row entities
#   LOOKED_UP  the neighbours of variable FIRST under view SECOND, none if it has no row there: in negated lists, and
#              where a newer layer has changed the view, so that no list of row entities points at the row
SOURCE, ARRAY, FIRST, SECOND = range(4)
SPAN, POINTED, LOOKED_UP = range(3)
# The arrays a list lies in; LISTED are `entities` of the program. Values ascend within each list.
ROW_ENTITY, NEIGHBOUR, LISTED = range(3)

# Columns of `checks` [checks, 2], and the kinds of a check with their operand:
#   LOOP              r(x, x): x is a neighbour in the row at which the list OPERAND points
#   NO_LOOP           not r(x, x) under view OPERAND
#   LOOKED_UP_LOOP    r(x, x) under view OPERAND
#   HAS_ROW           x has a neighbour under view OPERAND
#   DIFFERENT         x differs from variable OPERAND
#   DIFFERENT_ENTITY  x differs from entity OPERAND
#   TEST              the test at address OPERAND (see `condition_tests`) lets x through
KIND, OPERAND = range(2)
LOOP, NO_LOOP, DIFFERENT, DIFFERENT_ENTITY, LOOKED_UP_LOOP, HAS_ROW, TEST = range(7)

# Places of `registers`: where a search stands between two slices.
#   DEPTH, OPENING    the depth at hand, and 1 if its lists must be opened first
#   REACHED           how often a tuple was reached, known or new; see `mark`
#   WRITTEN           rows of the output that are filled
#   SEEN, REMEMBERED  entries of the two sets
DEPTH, OPENING, REACHED, WRITTEN, SEEN, REMEMBERED = range(6)

# Why a search returned.
DONE, OUTPUT_FULL, SEEN_FULL, MEMO_FULL, PAUSED = range(5)


class JoinProgram(NamedTuple):
    """The join of one independent part of a clause; variables keep their numbers in the clause."""

    steps: Longs  # [depths + 1, 11]
    lists: Longs  # [lists, 4], those of a depth side by side, depths in order
    checks: Longs  # [checks, 2], likewise
    memo: Longs  # [·] variables, in the order they are bound
    free: Longs  # [k] the free variables of the part, in the order asked
    entities: Ints  # [·] those with a row under views that newer layers have changed, and those that conditions allow


class JoinState(NamedTuple):
    """Where a search stands. Entries of a depth mean something from its opening until the search goes back past it."""

    value: Longs  # [variables] the entity of each variable that is bound
    cursor: Longs  # [lists] the place in the list's array; never beyond `end`
    end: Longs  # [lists] the place after the last
    leader: Longs  # [depths] the shortest list: its cursor stands at the candidate
    mark: Longs  # [depths] REACHED when the depth was opened: if it is larger now, something was found below
    key: Longs  # [·] room for a row of one of the sets
    registers: Longs  # [6]


def new_join_state(program: JoinProgram, variables: int, memo_width: int) -> JoinState:
    """The state before the first step, for a clause of so many variables."""
    depths, lists = len(program.steps), len(program.lists)
    key = max(len(program.free), memo_width, 1)
    state = JoinState._make(np.zeros(n, dtype=np.int64) for n in (variables, lists, lists, depths, depths, key, 6))
    state.value[:] = -1
    state.registers[OPENING] = 1
    return state


_NO_ENTITIES: Ints = freeze(np.zeros(0, dtype=np.int32))

# An atom seen from one of its variables: the other node, the view whose row at the other node lists the candidates, the
# view in which a candidate has its own row, that row of the other node if it is a constant, the atom. A plain tuple,
# because named ones cost each plan some 4 µs of 50.
Link: TypeAlias = tuple[int, int, int, tuple[int, int], Edge]


class ClauseAtoms:
    """The atoms of one clause; `fails` is the ground atom or inequality that already does, if there is one.

    Of variables that must be equal one stands for the others (`stands`), which are not searched.
    """

    def __init__(self, clause: QueryGraph, adjacency: Adjacency) -> None:
        graph, self.stands = unify(clause)
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
            found = list_allowed(graph.conditions, v, self.estimate(v, 0)[0])
            if found is not None:
                self.allowed[v] = found

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


# The atom behind a list as head, relation, tail; None stands for a variable that is bound later. Or a condition.
ListAtom: TypeAlias = tuple[int | None, int, int | None]
Origin: TypeAlias = ListAtom | Within


class JoinStep(NamedTuple):
    """One variable of the order, and how many candidates are expected for it."""

    variable: int
    candidates: float


class JoinPart(NamedTuple):
    """The program of one independent part of a clause, with what planning knows about it."""

    order: tuple[JoinStep, ...]
    free: tuple[int, ...]  # those of the clause's free variables that are in this part, in its order
    distinct: bool  # the same tuple may be reached twice
    varied: int  # bit mask of the depths to which the search goes back after a success
    program: JoinProgram
    atoms: tuple[Origin, ...]  # of each list of the program
    tested: dict[int, BoundCondition]  # by the address of the test
    tests: ConditionTests | None
    memo_width: int  # columns of the set of searched depths; 0 if none is needed


class _Lists:
    """The lists and checks of all depths, in order."""

    def __init__(self, atoms: ClauseAtoms, order: Sequence[JoinStep]) -> None:
        self.atoms = atoms
        self.depth_of = {step.variable: depth for depth, step in enumerate(order)}
        self.pointing: dict[tuple[int, int], int] = {}  # (variable, view) -> the list that points at the variable's row
        self.lists: list[tuple[int, int, int, int]] = []
        self.origin: list[Origin] = []
        self.checks: list[tuple[int, int]] = []
        self.listed: list[Ints] = []
        listed = [condition for condition, _ in atoms.allowed.values()]  # these need no test
        conditions = [c for c in atoms.graph.conditions if c not in listed and c.variables[0] in self.depth_of]
        self.tests = ConditionTests(conditions) if conditions else None
        self.tested = dict(zip(self.tests.addresses, conditions, strict=True)) if self.tests else {}

    def step(self, depth: int, v: int) -> tuple[int, int, int, int, int]:
        """Adds what restricts variable v at its depth; returns the columns LISTS to CHECKS_END of the step."""
        atoms, first_list, first_check = self.atoms, len(self.lists), len(self.checks)
        if v in atoms.allowed:
            within, entities = atoms.allowed[v]
            self._entities(entities.astype(np.int32), within)
        changed = []  # views that a newer layer has changed: no list of row entities points at their rows
        for other, toward, away, span, edge in atoms.links[v]:
            if other < 0:
                self._list((SPAN, NEIGHBOUR, *span), edge[:3])
            elif self.depth_of[other] < depth:
                at = self.pointing.get((other, toward))
                source = (LOOKED_UP, NEIGHBOUR, other, toward) if at is None else (POINTED, NEIGHBOUR, at, 0)
                self._list(source, edge[:3])
            elif atoms.changed(away):
                changed.append(away)
            else:
                self._point(v, away)
        for loop in atoms.loops[v]:
            view = 2 * loop.relation
            if not loop.negated and atoms.changed(view):
                self.checks.append((LOOKED_UP_LOOP, view))
                changed.append(view)
            elif not loop.negated:
                self.checks.append((LOOP, self._point(v, view)))
        if len(self.lists) == first_list:
            view = min(changed, key=atoms.rows.__getitem__)
            self._entities(atoms.adjacency.view(view).entities, _row_atom(v, view))
        self.checks += [(HAS_ROW, view) for view in dict.fromkeys(changed)]
        first_negated = len(self.lists)
        for other, toward, _, span, edge in atoms.negated[v]:
            if other < 0:
                self._list((SPAN, NEIGHBOUR, *span), edge[:3])
            elif self.depth_of[other] < depth:
                self._list((LOOKED_UP, NEIGHBOUR, other, toward), edge[:3])
        self.checks += [(NO_LOOP, 2 * loop.relation) for loop in atoms.loops[v] if loop.negated]
        for other in atoms.different[v]:
            if other < 0:
                self.checks.append((DIFFERENT_ENTITY, ~other))
            elif self.depth_of[other] < depth:
                self.checks.append((DIFFERENT, other))
        for address, condition in self.tested.items():
            if v in condition.variables and all(self.depth_of[u] <= depth for u in condition.variables):
                self.checks.append((TEST, address))
        return first_list, first_negated, len(self.lists), first_check, len(self.checks)

    def _list(self, row: tuple[int, int, int, int], origin: Origin) -> None:
        self.lists.append(row)
        self.origin.append(origin)

    def _point(self, variable: int, view: int) -> int:
        """The list of the entities that have a row in a view; its cursor ends up at the row of the variable's value."""
        if (variable, view) not in self.pointing:
            self.pointing[variable, view] = len(self.lists)
            low, high, _ = self.atoms.views[view]
            self._list((SPAN, ROW_ENTITY, low, high), _row_atom(variable, view))
        return self.pointing[variable, view]

    def _entities(self, entities: Ints, origin: Origin) -> None:
        """A list of its own."""
        first = sum(map(len, self.listed))
        self.listed.append(entities)
        self._list((SPAN, LISTED, first, first + len(entities)), origin)


def _row_atom(variable: int, view: int) -> ListAtom:
    return (None, view // 2, variable) if view % 2 else (variable, view // 2, None)


class _Flow(NamedTuple):
    """Where the search goes back to; sets of depths are bit masks.

    A depth d that failed fails again as long as the values of needs[d] stay, so the search goes back to the last of
    them. One that succeeded gives a new tuple only if a value of needs[d] or a free variable before d changes.
    """

    free: int
    needs: list[int]  # of each depth, the earlier ones that share an atom with it or a later one; last: none
    succeeded: list[int]  # of each depth and of the end, the depth to vary next after a success; -1: none
    varied: int  # depths that are varied after a success
    repeated: int  # those of them that are existential: they may lead to the same tuple again

    @staticmethod
    def from_order(atoms: ClauseAtoms, order: Sequence[JoinStep], free: Sequence[int]) -> _Flow:
        n = len(order)
        depth_of = {step.variable: depth for depth, step in enumerate(order)}
        free_depths = sum(1 << depth_of[v] for v in set(free))
        needs = [0] * (n + 1)
        rest = 0
        for depth in range(n - 1, -1, -1):
            touching = atoms.touching[order[depth].variable]
            for other, at in depth_of.items():
                if touching >> other & 1:
                    rest |= 1 << at
            needs[depth] = rest & ((1 << depth) - 1)
        succeeded = [((needs[d] | free_depths) & ((1 << d) - 1)).bit_length() - 1 for d in range(n + 1)]
        varied, depth = 0, succeeded[n]
        while depth >= 0:
            varied |= 1 << depth
            depth = succeeded[depth]
        return _Flow(free_depths, needs, succeeded, varied, varied & ~free_depths)

    def memo(self, depth: int) -> int:
        """The depths that decide what lies at and below a depth, if something else was varied before it; else none.

        Then what follows does not see all that was varied, and each combination of what it sees is searched once.
        """
        below = (1 << depth) - 1
        kept = (self.needs[depth] | self.free) & below
        return kept if self.repeated & below & ~kept else 0


def assemble(atoms: ClauseAtoms, order: Sequence[JoinStep], free: tuple[int, ...]) -> JoinPart:
    """The program that binds variables in the given order."""
    n = len(order)
    lists, flow = _Lists(atoms, order), _Flow.from_order(atoms, order, free)
    last_free = flow.free.bit_length() - 1
    steps: list[int] = []
    memo: list[int] = []
    memo_width = 0
    for depth, (v, _) in enumerate(order):
        spans, first_memo = lists.step(depth, v), len(memo)
        if flow.repeated and (kept := flow.memo(depth)):
            memo += [order[d].variable for d in range(depth) if kept >> d & 1]
            memo_width = max(memo_width, 1 + len(memo) - first_memo)
        early = int(depth == last_free and depth < n - 1)
        failed = flow.needs[depth].bit_length() - 1
        steps += (v, *spans, failed, flow.succeeded[depth], first_memo, len(memo), early)
    steps += (-1, 0, 0, 0, 0, 0, -1, flow.succeeded[n], 0, 0, 0)
    return JoinPart(
        tuple(order),
        free,
        bool(flow.repeated),
        flow.varied,
        _program(steps, lists, memo, free),
        tuple(lists.origin),
        lists.tested,
        lists.tests,
        memo_width,
    )


def _program(steps: Sequence[int], made: _Lists, memo: Sequence[int], free: Sequence[int]) -> JoinProgram:
    """All tables as parts of one block: one array to make instead of five."""
    lists, checks = made.lists, made.checks
    numbers = [*steps, *chain.from_iterable(lists), *chain.from_iterable(checks), *memo, *free]
    block = np.array(numbers, dtype=np.int64)
    at = len(steps)
    ends = [at := at + size for size in (4 * len(lists), 2 * len(checks), len(memo))]
    entities = _NO_ENTITIES
    if made.listed:  # a single list may be long: it is not copied
        entities = freeze(made.listed[0] if len(made.listed) == 1 else np.concatenate(made.listed))
    return JoinProgram(
        steps=block[: len(steps)].reshape(-1, 11),
        lists=block[len(steps) : ends[0]].reshape(-1, 4),
        checks=block[ends[0] : ends[1]].reshape(-1, 2),
        memo=block[ends[1] : ends[2]],
        free=block[ends[2] :],
        entities=entities,
    )


Naming: TypeAlias = Callable[[int], str]


def describe(variables: Sequence[str], part: JoinPart, entity: Naming, relation: Naming) -> list[str]:
    """The steps of a part, a line each."""
    program = part.program

    def node(number: int | None) -> str:
        return "·" if number is None else entity(~number) if number < 0 else f"?{variables[number]}"

    def atom(parts: Origin) -> str:
        if isinstance(parts, Within):
            return describe_condition(parts, node)
        head, name, tail = parts
        return f"{relation(name)}({node(head)}, {node(tail)})"

    def check(kind: int, operand: int, v: int) -> str:
        if kind == DIFFERENT:
            return f"{node(v)} != {node(operand)}"
        if kind == DIFFERENT_ENTITY:
            return f"{node(v)} != {entity(operand)}"
        if kind == LOOP:
            looped = part.atoms[operand]
            return atom(looped if isinstance(looped, Within) else (v, looped[1], v))
        if kind == TEST:
            return describe_condition(part.tested[operand], node)
        if kind == HAS_ROW:
            return atom((None, operand // 2, v) if operand % 2 else (v, operand // 2, None))
        return ("" if kind == LOOKED_UP_LOOP else "not ") + atom((v, operand // 2, v))

    def all_of(numbers: Sequence[int]) -> str:
        return ", ".join(node(v) for v in numbers)

    lines = []
    for depth, step in enumerate(program.steps[:-1].tolist()):
        v, expected = step[VARIABLE], f"{part.order[depth].candidates:.3g}"
        text = f"  {depth + 1}. {node(v)} {'free' if v in part.free else 'exists'}, ~{expected} candidate"
        text += "" if expected == "1" else "s"
        if depth:
            text += f" per {all_of(program.steps[:depth, VARIABLE].tolist())}"
        text += ": " + " ∩ ".join(atom(part.atoms[j]) for j in range(step[LISTS], step[NEGATED]))
        checks = [f"not {atom(part.atoms[j])}" for j in range(step[NEGATED], step[LISTS_END])]
        checks += [
            check(kind, operand, v) for kind, operand in program.checks[step[CHECKS] : step[CHECKS_END]].tolist()
        ]
        if checks:
            text += "; check " + ", ".join(checks)
        if step[MEMO_END] > step[MEMO]:
            text += f"; once for each ({all_of(program.memo[step[MEMO] : step[MEMO_END]].tolist())})"
        if not part.varied >> depth & 1:
            text += "; first witness suffices"
        lines.append(text)
    if part.distinct:
        lines.append(f"  distinct ({all_of(part.free)})")
    return lines


def explain_failure(variables: Sequence[str], fails: Edge | tuple[int, int], entity: Naming, relation: Naming) -> str:
    """Why a clause has no answers: a ground atom that is not as it says, or something that differs from itself."""
    if not isinstance(fails, Edge):
        name = entity(~fails[0]) if fails[0] < 0 else f"?{variables[fails[0]]}"
        return f"{name} != {name} never holds"
    verb = "is" if fails.negated else "is not"
    return f"{relation(fails.relation)}({entity(~fails.head)}, {entity(~fails.tail)}) {verb} observed"


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
                lines.append("  no answers: " + explain_failure(clause.graph.variables, clause.fails, entity, relation))
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
