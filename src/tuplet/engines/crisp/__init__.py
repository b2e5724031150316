"""Complete answers on the observed facts: any EFO_k query, Boolean, by a compiled join.

    plan(clauses, adjacency)     how it will be done; `str` of it explains
    run(plan, adjacency, k)      at most k answers with their witnesses
    stream(plan, adjacency)      all answers in batches
    count(plan, adjacency)       how many there are
    holds(clauses, adjacency, tuples)   which of the given tuples are answers

The compiled search (`kernels.crisp`) is resumable: it runs in slices, so that a limit stops it at once and a deadline
is looked at between slices.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.crisp.planning import OPENING, REGISTERS, ClausePlan, CrispPlan, Part, plan, plan_given
from tuplet.errors import BudgetExceeded
from tuplet.graph.adjacency import Adjacency
from tuplet.query.query_graph import QueryGraph
from tuplet.query.ranking import Clauses, Ranking

__all__ = ["CrispPlan", "count", "holds", "plan", "run", "stream", "witnesses"]

Tuples = NDArray[np.int32]
Mask = NDArray[np.bool_]

_SLICE = 1 << 18  # candidates between two looks at the clock: a few milliseconds
_PROBE = 1 << 12  # candidates spent after the limit to learn whether anything is left
_BATCH = 1 << 16
_LARGEST_TABLE = 1 << 32  # bytes
_ENDLESS = (1 << 63) - 1
_NO_TABLE = np.full((1, 1), -1, dtype=np.int32)
_NO_TUPLE = np.empty(0, dtype=np.int32)


class _OutOfTime(Exception):
    """The deadline passed."""


@dataclass
class _Clock:
    deadline: float | None

    def check(self) -> None:
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise _OutOfTime


class _Seen:
    """The tuples found so far: an open-addressing table that the kernel fills and this side grows."""

    def __init__(self, width: int, rows: int = 1 << 11) -> None:
        self.table: Tuples = np.full((rows, max(1, width)), -1, dtype=np.int32)
        self.size = 0

    def grow(self) -> None:
        from tuplet.engines.crisp.kernels import rehash

        rows, width = self.table.shape
        rows *= 4 if rows < 1 << 20 else 2
        if 4 * rows * width > _LARGEST_TABLE:
            raise BudgetExceeded(f"more than {self.size:,} different tuples to remember; ask with a limit")
        larger: Tuples = np.full((rows, width), -1, dtype=np.int32)
        rehash(self.table, larger)
        self.table = larger

    def admit(self, tuples: Tuples) -> Mask:
        """Which of the tuples are new; they are known from now on."""
        from tuplet.engines.crisp.kernels import admit

        while 2 * (self.size + len(tuples)) >= len(self.table):
            self.grow()
        fresh = np.zeros(len(tuples), dtype=np.bool_)
        self.size += admit(self.table, np.ascontiguousarray(tuples), fresh)
        return fresh


class _Search:
    """A search under way in one part of a clause."""

    def __init__(self, clause: ClausePlan, part: Part, adjacency: Adjacency, seen: _Seen | None) -> None:
        from tuplet.engines.crisp import kernels

        self.kernels, self.clause, self.part = kernels, clause, part
        self.seen = seen or (_Seen(len(part.free)) if part.distinct else None)
        self.visited = _Seen(part.memo_width, 1 << 10) if part.memo_width else None
        self.variables = len(clause.graph.variables)
        self.fixed = (*_arrays(adjacency), _NO_TUPLE, part.steps, part.lists, part.checks, part.memo)
        self.fixed = (*self.fixed, np.array(part.free, dtype=np.int64))
        self.state = _state(self.variables, part)
        self.registers = self.state[-1]
        self.done = False

    def fill(self, out: Tuples, clock: _Clock, budget: int | None = None) -> int:
        """Writes the next assignments into `out` [n, variables]; fewer than n only at the end or when out of budget."""
        kernels, registers = self.kernels, self.registers
        registers[kernels.WRITTEN] = 0
        while not self.done:
            clock.check()
            if self.seen:
                registers[kernels.SEEN] = self.seen.size
            seen = self.seen.table if self.seen else _NO_TABLE
            visited = self.visited.table if self.visited else _NO_TABLE
            status = kernels.search(*self.fixed, *self.state, seen, visited, out, budget or _SLICE)
            if self.seen:
                self.seen.size = registers.item(kernels.SEEN)
            if status == kernels.DONE:
                self.done = True
            elif status == kernels.OUTPUT_FULL:
                break
            elif status == kernels.SEEN_FULL and self.seen:
                self.seen.grow()
            elif status == kernels.MEMO_FULL and self.visited:
                self.visited.grow()
            elif budget is not None:
                break
        return registers.item(kernels.WRITTEN)


def _arrays(adjacency: Adjacency) -> tuple[NDArray[np.integer], ...]:
    return adjacency.view_ptr, adjacency.row_entity, adjacency.row_ptr, adjacency.neighbour


def _state(variables: int, part: Part) -> tuple[NDArray[np.int64], ...]:
    """value, cursor, end, leader, mark, key, registers: where a search stands at its beginning."""
    depths, lists = len(part.steps), len(part.lists)
    key = max(len(part.free), part.memo_width, 1)
    state = tuple(np.zeros(size, dtype=np.int64) for size in (variables, lists, lists, depths, depths, key, REGISTERS))
    state[0][:] = -1
    state[-1][OPENING] = 1
    return state


class _Answers:
    """The distinct assignments of a query in blocks, at most `limit`; afterwards `complete` says if those are all."""

    def __init__(self, plan: CrispPlan, adjacency: Adjacency, limit: int | None, batch: int, clock: _Clock) -> None:
        self.plan, self.adjacency, self.batch, self.clock = plan, adjacency, batch, clock
        self.clauses = [(i, clause) for i, clause in enumerate(plan.clauses) if clause.empty is None]
        # A query without free variables has one answer or none.
        self.left = limit if plan.width else 1
        self.seen = _Seen(plan.width) if len(self.clauses) > 1 and plan.width else None
        self.complete = False

    def __iter__(self) -> Iterator[tuple[int, Tuples]]:
        for number, clause in self.clauses:
            blocks = self._single(clause) if len(clause.parts) == 1 else self._product(clause)
            for block in blocks:
                if self.left is not None:
                    self.left -= len(block)
                yield number, block
            if self.left == 0:
                last = number == self.clauses[-1][0]
                self.complete = (self.complete and last) or not self.plan.width
                return
        self.complete = True

    def _room(self) -> int:
        return self.batch if self.left is None else min(self.batch, self.left)

    def _single(self, clause: ClausePlan) -> Iterator[Tuples]:
        search = _Search(clause, clause.parts[0], self.adjacency, self.seen)
        while not search.done and self.left != 0:
            out = np.empty((self._room(), search.variables), dtype=np.int32)
            try:
                written = search.fill(out, self.clock)
            except _OutOfTime:
                yield out[: search.registers.item(search.kernels.WRITTEN)]
                raise
            yield out[:written]
        if not search.done:
            # The limit is reached; a short look tells whether anything is left.
            more = search.fill(np.empty((1, search.variables), dtype=np.int32), self.clock, _PROBE)
            self.complete = search.done and not more
        else:
            self.complete = True

    def _product(self, clause: ClausePlan) -> Iterator[Tuples]:
        """Independent parts are answered alone, and their product is never stored."""
        searches = [_Search(clause, part, self.adjacency, None) for part in clause.parts]
        answers = []
        for search in searches:
            # One answer each: an empty part ends it all before another one is answered in full.
            answers.append(_collect(search, 1, self.clock))
            if not len(answers[-1]):
                self.complete = True
                return
        # Among so many of a part, enough are new.
        enough = None if self.left is None else self.left + (self.seen.size if self.seen else 0)
        for i, search in enumerate(searches):
            rest = _collect(search, None if enough is None else enough - 1, self.clock)
            answers[i] = np.concatenate([answers[i], rest])
        total, start = math.prod(map(len, answers)), 0
        while start < total and self.left != 0:
            self.clock.check()
            stop = min(start + self._room(), total)
            number = np.arange(start, stop, dtype=np.int64)
            start = stop
            block = np.full((len(number), len(clause.graph.variables)), -1, dtype=np.int32)
            for part, answered in zip(clause.parts, answers, strict=True):
                columns = [step.variable for step in part.order]
                block[:, columns] = answered[number % len(answered)][:, columns]
                number //= len(answered)
            yield block if self.seen is None else block[self.seen.admit(block[:, list(clause.graph.free)])]
        self.complete = start >= total and all(search.done for search in searches)


def _columns(block: Tuples, columns: tuple[int, ...]) -> Tuples:
    if columns == tuple(range(len(columns))):
        return np.ascontiguousarray(block[:, : len(columns)])  # as a rule: free variables come first
    return block[:, list(columns)]


def _collect(search: _Search, limit: int | None, clock: _Clock) -> Tuples:
    """The next assignments of one part, at most `limit`."""
    blocks = [np.empty((0, search.variables), dtype=np.int32)]
    left = limit
    while not search.done and left != 0:
        out = np.empty((_BATCH if left is None else min(_BATCH, left), search.variables), dtype=np.int32)
        blocks.append(out[: search.fill(out, clock)])
        left = None if left is None else left - len(blocks[-1])
    return np.concatenate(blocks)


def run(plan: CrispPlan, adjacency: Adjacency, k: int | None = None, timeout: float | None = None) -> Ranking:
    """At most k answers (all without k), each with a witness in every clause that gives it.

    All answers have truth 1, so any order of them is right. The bound is 0 if these are known to be all, else 1; after
    `timeout` seconds the answers found until then are returned, with the reason in `pruned`.

    >>> from tuplet.query.query_graph import Edge, QueryGraph
    >>> a, _ = Adjacency.build(np.array([0, 0]), np.array([0, 0]), np.array([1, 2]), relations=1)
    >>> run(plan([QueryGraph(("x",), (0,), (Edge(~0, 0, 0),))], a), a, k=5).tuples.tolist()
    [[1], [2]]
    """
    clock = _Clock(None if timeout is None else time.monotonic() + timeout)
    answers = _Answers(plan, adjacency, k, _BATCH, clock)
    found: list[tuple[int, Tuples]] = []
    pruned = None
    try:
        found.extend(answers)
    except _OutOfTime:
        pruned = "timeout"
    blocks = [_columns(block, plan.clauses[number].graph.free) for number, block in found]
    tuples = blocks[0] if len(blocks) == 1 else np.concatenate([np.empty((0, plan.width), dtype=np.int32), *blocks])
    assignments = [block for _, block in found] if len(plan.clauses) == len(found) == 1 else []
    for number, clause in enumerate(plan.clauses if not assignments else ()):
        own = np.full((len(tuples), len(clause.graph.variables)), -1, dtype=np.int32)
        missing = np.ones(len(tuples), dtype=np.bool_)
        start = 0
        for source, block in found:
            if source == number:
                own[start : start + len(block)] = block
                missing[start : start + len(block)] = False
            start += len(block)
        if missing.any() and clause.empty is None:
            own[missing], in_time = _witnesses(clause.graph, adjacency, tuples[missing], clock)
            pruned = pruned if in_time else "timeout"
        assignments.append(own)
    return Ranking(
        tuples=tuples,
        truth=np.ones(len(tuples)),
        assignments=tuple(assignments),
        exact=True,
        bound=0.0 if answers.complete else 1.0,
        pruned=pruned,
    )


def stream(plan: CrispPlan, adjacency: Adjacency, batch: int = _BATCH, limit: int | None = None) -> Iterator[Tuples]:
    """All answers (at most `limit`) as arrays of distinct tuples [n, k], n at most `batch`."""
    for number, block in _Answers(plan, adjacency, limit, batch, _Clock(None)):
        if len(block):
            yield _columns(block, plan.clauses[number].graph.free)


def count(plan: CrispPlan, adjacency: Adjacency, limit: int | None = None, timeout: float | None = None) -> int:
    """The number of answers; at most `limit`, or what was counted when the time was over."""
    clock = _Clock(None if timeout is None else time.monotonic() + timeout)
    total = 0
    try:
        for _, block in _Answers(plan, adjacency, limit, _BATCH, clock):
            total += len(block)
    except _OutOfTime:
        pass
    return total


def holds(clauses: Clauses, adjacency: Adjacency, tuples: NDArray[np.integer]) -> Mask:
    """Which of the tuples [n, k] are answers.

    >>> from tuplet.query.query_graph import Edge, QueryGraph
    >>> a, _ = Adjacency.build(np.array([0, 0]), np.array([0, 0]), np.array([1, 2]), relations=1)
    >>> holds([QueryGraph(("x",), (0,), (Edge(~0, 0, 0),))], a, np.array([[2], [3]])).tolist()
    [True, False]
    """
    given = np.ascontiguousarray(tuples, dtype=np.int32)
    found = np.zeros(len(given), dtype=np.bool_)
    for graph in clauses:
        open_ = np.flatnonzero(~found)
        if len(open_):
            found[open_] = (witnesses(graph, adjacency, given[open_]) >= 0).all(axis=1)
    return found


def witnesses(graph: QueryGraph, adjacency: Adjacency, tuples: NDArray[np.integer]) -> Tuples:
    """An assignment of all variables of a clause [n, variables] for each tuple [n, k], or -1 everywhere."""
    return _witnesses(graph, adjacency, tuples, _Clock(None))[0]


def _witnesses(
    graph: QueryGraph, adjacency: Adjacency, tuples: NDArray[np.integer], clock: _Clock
) -> tuple[Tuples, bool]:
    """The assignments, and whether there was time for all of them."""
    from tuplet.engines.crisp import kernels

    witness: Any = kernels.witness
    given = np.ascontiguousarray(tuples, dtype=np.int32)
    assignment = np.full((len(given), len(graph.variables)), -1, dtype=np.int32)
    (clause,) = plan_given([graph], adjacency).clauses
    found = np.full(len(given), clause.empty is None)
    # With a deadline, tuples go in small groups and none may take more than a slice.
    group, budget = (len(given), _ENDLESS) if clock.deadline is None else (64, _SLICE)
    in_time = True
    for part in clause.parts:
        columns = [step.variable for step in part.order]
        out = np.full_like(assignment, -1)
        here = np.zeros(len(given), dtype=np.bool_)
        try:
            if not part.free:  # the same for all tuples
                first = _collect(_Search(clause, part, adjacency, None), 1, clock)
                out[:], here[:] = first if len(first) else -1, len(first) == 1
            else:
                program = (part.steps, part.lists, part.checks, part.memo, np.array(graph.free, dtype=np.int64))
                state = _state(len(graph.variables), part)
                for start in range(0, len(given), group):
                    clock.check()
                    span = slice(start, start + group)
                    fixed = (*_arrays(adjacency), given[span].reshape(-1), *program)
                    in_time &= witness(*fixed, *state, _NO_TABLE, out[span], here[span], budget) == 0
        except _OutOfTime:
            in_time = False
        found &= here
        assignment[:, columns] = out[:, columns]
    assignment[~found] = -1
    return assignment, in_time
