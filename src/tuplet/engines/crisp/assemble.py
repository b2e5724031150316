"""From an order of variables to the program of the join, and the dataflow that tells where to go back to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np

from tuplet.engines.condition_tests import ConditionTests
from tuplet.engines.crisp.atoms import ClauseAtoms
from tuplet.engines.crisp.program import (
    DIFFERENT,
    DIFFERENT_ENTITY,
    HAS_ROW,
    LISTED,
    LOOKED_UP,
    LOOKED_UP_LOOP,
    LOOP,
    NEIGHBOUR,
    NO_LOOP,
    POINTED,
    ROW_ENTITY,
    SPAN,
    TEST,
    Ints,
    JoinProgram,
)
from tuplet.query.conditions import BoundCondition, Within

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
        conditions = [c for c in atoms.tested() if c.variables[0] in self.depth_of]
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
            self._merge(v, min(changed, key=atoms.rows.__getitem__))
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

    def _merge(self, variable: int, view: int) -> None:
        """The list of the entities that have a row in a view that newer layers have changed."""
        self._entities(self.atoms.adjacency.view(view).entities, _row_atom(variable, view))

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
    repeated: int  # existential depths that are varied after a success: they may lead to the same tuple again

    @staticmethod
    def of(atoms: ClauseAtoms, order: Sequence[JoinStep], free: Sequence[int]) -> _Flow:
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
        repeated, depth = 0, succeeded[n]
        while depth >= 0:
            repeated |= 1 << depth & ~free_depths
            depth = succeeded[depth]
        return _Flow(free_depths, needs, succeeded, repeated)

    def memo(self, depth: int) -> int:
        """The depths that decide what lies at and below a depth, if something else was varied before it; else none.

        Then what follows does not see all that was varied, and each combination of what it sees is searched once.
        """
        below = (1 << depth) - 1
        kept = (self.needs[depth] | self.free) & below
        return kept if self.repeated & below & ~kept else 0


def assemble(atoms: ClauseAtoms, order: Sequence[JoinStep], free: tuple[int, ...]) -> JoinPart:
    """The program that binds variables in the given order; `program.py` says what its numbers mean."""
    n = len(order)
    lists, flow = _Lists(atoms, order), _Flow.of(atoms, order, free)
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
        _program(steps, lists, memo, free),
        tuple(lists.origin),
        lists.tested,
        lists.tests,
        memo_width,
    )


def _program(
    steps: Sequence[int],
    made: _Lists,
    memo: Sequence[int],
    free: Sequence[int],
) -> JoinProgram:
    """All tables as parts of one block: one array to make instead of five."""
    lists, checks = made.lists, made.checks
    numbers = [*steps, *chain.from_iterable(lists), *chain.from_iterable(checks), *memo, *free]
    block = np.array(numbers, dtype=np.int64)
    at = len(steps)
    ends = [at := at + size for size in (4 * len(lists), 2 * len(checks), len(memo))]
    return JoinProgram(
        steps=block[: len(steps)].reshape(-1, 11),
        lists=block[len(steps) : ends[0]].reshape(-1, 4),
        checks=block[ends[0] : ends[1]].reshape(-1, 2),
        memo=block[ends[1] : ends[2]],
        free=block[ends[2] :],
        entities=_read_only(made.listed) if made.listed else _NO_ENTITIES,
    )


def _read_only(lists: Sequence[Ints]) -> Ints:
    """Lists one after another, as the kernels take them."""
    joined = np.ascontiguousarray(lists[0] if len(lists) == 1 else np.concatenate(lists)).view()
    joined.flags.writeable = False
    return joined


_NO_ENTITIES = _read_only([np.zeros(0, dtype=np.int32)])
