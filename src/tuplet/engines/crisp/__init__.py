"""Complete answers on the observed facts: any EFO_k query, Boolean, by a compiled join.

    plan(clauses, adjacency)          how it will be done; `str` of it explains
    run(plan, source, k, deadline)    the first k answers in the order of names, with their witnesses
    collect(plan, adjacency, most)    answers in no particular order

The compiled search (`kernels.search`) is resumable: it runs in slices, so that a limit stops it at once and the
deadline is looked at between slices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.crisp.planning import (
    DONE,
    MEMO_FULL,
    OUTPUT_FULL,
    SEEN,
    SEEN_FULL,
    WRITTEN,
    ClausePlan,
    CrispPlan,
    JoinPart,
    new_join_state,
    plan,
)
from tuplet.engines.effort import Effort
from tuplet.errors import BudgetExceeded
from tuplet.graph.adjacency import Adjacency
from tuplet.query.conditions import ALL_CONDITIONS
from tuplet.query.engine import Engine, Plan, Tuples, Values
from tuplet.query.limits import NO_DEADLINE, Deadline, Limits, OutOfTime
from tuplet.query.logic import PRODUCT
from tuplet.query.ranking import Clauses, Ranking, nothing
from tuplet.query.source import Source


@dataclass(frozen=True)
class Join(Plan):
    """A planned join over the observed facts."""

    program: CrispPlan

    def text(self, entity: Callable[[int], str], relation: Callable[[int], str]) -> str:
        """The order of the variables and the lists they come from."""
        return self.program.text(entity, relation)


class Crisp(Engine[Join]):
    """Observed facts only, Boolean."""

    name = "crisp"
    summary = "every answer that the observed facts imply, and nothing else"
    exact = True
    needs_truth = False
    forks = True
    plans_by_limits = False
    conditions = ALL_CONDITIONS

    def load(self, source: Source) -> None:
        from tuplet.engines.crisp import kernels as _  # noqa: F401 - loading is the point

    def plan(self, clauses: Clauses, source: Source, limits: Limits) -> Join:
        return Join(clauses, source, plan(clauses, source.facts))

    def run(self, plan: Join, limits: Limits, deadline: Deadline) -> Ranking:
        if limits.only == "predicted":
            return nothing(len(plan.clauses[0].free))  # facts alone predict nothing
        wanted = None if limits.k == "all" else limits.count(1 << 62)
        return run(plan.program, plan.source, wanted, deadline, limits.memory)

    def score(self, plan: Join, tuples: Tuples, limits: Limits, deadline: Deadline) -> Values:
        from tuplet.engines.exact import holds

        return holds(plan.clauses, plan.source, tuples, deadline).astype(float)


def order_by_name(tuples: NDArray[np.int32], rank: NDArray[np.int32], wanted: int | None = None) -> NDArray[np.int64]:
    """The places of the first `wanted` tuples [n, k] in the order of names, column by column; `rank` is that of ids.

    >>> tuples, rank = (np.array(ids, dtype=np.int32) for ids in ([[0, 1], [2, 0], [2, 2]], [2, 1, 0]))
    >>> order_by_name(tuples, rank, 2).tolist()
    [2, 1]
    """
    n, width = tuples.shape
    wanted = n if wanted is None else min(wanted, n)
    bits = max(1, (len(rank) - 1).bit_length())
    if width * bits > 63:
        return np.lexsort(rank[tuples].T[::-1])[:wanted]
    # One number per tuple that sorts like the tuple: ten times faster than its columns.
    key = np.zeros(n, dtype=np.int64)
    for column in tuples.T:
        key <<= bits
        key |= rank[column]
    if wanted == n:
        return np.argsort(key)
    few = np.argpartition(key, wanted)[:wanted]
    return few[np.argsort(key[few])]


Mask: TypeAlias = NDArray[np.bool_]

_SLICE = 1 << 16  # candidates between two looks at the clock: some milliseconds
_FIRST, _BATCH = 1 << 10, 1 << 16  # answers in a block: few at first, for they are held before they are found
_PIECE = 1 << 20  # places of a set that are copied between two looks at the clock
_LARGEST_SET = 1 << 32  # bytes
_FIXED, _EACH = 24, 20  # bytes of an answer and of each variable of it: three copies, and the keys of its order
_FINISHED = 5e5  # answers a second that a slow machine puts in order and explains


class RowSet:
    """A set of rows of ids that the kernels fill and this side enlarges; one of a single place is not needed."""

    def __init__(self, width: int, effort: Effort, places: int = 1 << 11) -> None:
        self.table: Tuples = np.full((places, max(1, width)), -1, dtype=np.int32)
        self.size, self.effort = 0, effort

    def grow(self) -> None:
        """Room for more; raises `OutOfTime` or `OutOfMemory` with the set as it was."""
        from tuplet.engines.crisp.kernels import rehash_rows

        places, width = self.table.shape
        larger = places * (4 if places < 1 << 20 else 2)
        if 4 * larger * width > _LARGEST_SET:
            raise BudgetExceeded(f"more than {places // 2:,} different tuples to remember; ask with a limit")
        self.effort.hold(4 * larger * width)
        table: Tuples = np.empty((larger, width), dtype=np.int32)
        for start in range(0, larger, _PIECE):
            self.effort.deadline.check()
            table[start : start + _PIECE] = -1
        for start in range(0, places, _PIECE):
            self.effort.deadline.check()
            rehash_rows(self.table, table, start, min(places, start + _PIECE))
        self.effort.memory.held -= self.table.nbytes
        self.table = table

    def admit(self, rows: Tuples) -> Mask:
        """Which of the rows are new; they are known from now on."""
        from tuplet.engines.crisp.kernels import admit_rows

        while 2 * (self.size + len(rows)) >= len(self.table):
            self.grow()
        fresh = np.zeros(len(rows), dtype=np.bool_)
        self.size += admit_rows(self.table, np.ascontiguousarray(rows), fresh)
        return fresh


class JoinSearch:
    """A search under way in one part of a clause."""

    def __init__(
        self, clause: ClausePlan, part: JoinPart, adjacency: Adjacency, effort: Effort, seen: RowSet | None = None
    ) -> None:
        from tuplet.engines.crisp.kernels import search
        from tuplet.engines.kernels import ready

        if part.tests is not None:
            ready(part.tests.rows)
        self.search, self.part, self.arrays = search, part, adjacency.arrays
        self.variables = len(clause.graph.variables)
        self.effort, self.size = effort, _FIXED + _EACH * self.variables
        self.seen = seen or RowSet(len(part.free), effort, 1 << 11 if part.distinct else 1)
        self.visited = RowSet(part.memo_width, effort, 1 << 10 if part.memo_width else 1)
        self.state = new_join_state(part.program, self.variables, part.memo_width)
        self.done = False

    @property
    def written(self) -> int:
        """Rows of the output that are filled."""
        return self.state.registers.item(WRITTEN)

    def fill(self, out: Tuples) -> Tuples:
        """The next assignments, written into `out` [n, variables]; fewer than n only at the end.

        They are held before the search, and those that it did not find are given back.
        """
        registers = self.state.registers
        registers[WRITTEN] = 0
        self.effort.hold(len(out) * self.size)
        try:
            while not self.done:
                self.effort.deadline.check()
                registers[SEEN] = self.seen.size
                sets = self.seen.table, self.visited.table
                status = self.search(self.arrays, self.part.program, self.state, *sets, out, _SLICE)
                self.seen.size = registers.item(SEEN)
                self.done = status == DONE
                if status == OUTPUT_FULL:
                    break
                if status == SEEN_FULL:
                    self.seen.grow()
                elif status == MEMO_FULL:
                    self.visited.grow()
        finally:
            self.effort.memory.held -= (len(out) - self.written) * self.size
        return out[: self.written]

    def blocks(self, most: int | None, given: int = 0) -> Iterator[Tuples]:
        """The next assignments, at most so many, after so many; at a limit first those that were found until then."""
        while not self.done and most != 0:
            out = np.empty((choose_room(self.effort, given, most, self.size), self.variables), dtype=np.int32)
            try:
                block = self.fill(out)
            except (OutOfTime, BudgetExceeded):
                yield out[: self.written]
                raise
            given += len(block)
            most = None if most is None else most - len(block)
            yield block

    def take(self, most: int | None) -> Tuples:
        """The next assignments, at most so many."""
        return np.concatenate([np.empty((0, self.variables), dtype=np.int32), *self.blocks(most)])


class DistinctAnswers:
    """The distinct answers of a query in blocks (clause, assignments), at most `most`; `complete`: those are all."""

    def __init__(self, plan: CrispPlan, adjacency: Adjacency, most: int | None, effort: Effort) -> None:
        self.plan, self.adjacency, self.effort = plan, adjacency, effort
        self.clauses = [(i, clause) for i, clause in enumerate(plan.clauses) if clause.fails is None]
        # A query without free variables has one answer or none.
        self.left = most if plan.width else 1
        self.seen = RowSet(plan.width, self.effort) if len(self.clauses) > 1 and plan.width else None
        self.given = 0  # answers until here
        self.complete = False

    def __iter__(self) -> Iterator[tuple[int, Tuples]]:
        complete = True
        for number, clause in self.clauses:
            if self.left == 0:
                complete = False
                break
            self.complete = False
            for block in self._single(clause) if len(clause.parts) == 1 else self._product(clause):
                if self.left is not None:
                    self.left -= len(block)
                self.given += len(block)
                yield number, block
            complete = self.complete
        self.complete = complete or (not self.plan.width and self.left == 0)

    def _check(self) -> None:
        """Raises `OutOfTime` when the answers until here need the rest of the time."""
        self.effort.deadline.check()
        if self.given / _FINISHED >= self.effort.deadline.left():
            raise OutOfTime

    def _single(self, clause: ClausePlan) -> Iterator[Tuples]:
        search = JoinSearch(clause, clause.parts[0], self.adjacency, self.effort, self.seen)
        self._check()
        for block in search.blocks(self.left, self.given):
            yield _copy_equals(clause, block)
            if not search.done and self.left != 0:
                self._check()
        self.complete = search.done

    def _product(self, clause: ClausePlan) -> Iterator[Tuples]:
        """Independent parts are answered alone, and their product is never stored."""
        searches = [JoinSearch(clause, part, self.adjacency, self.effort) for part in clause.parts]
        answers = []
        for search in searches:
            # One answer each: an empty part ends it all before another one is answered in full.
            answers.append(search.take(1))
            if not len(answers[-1]):
                self.complete = True
                return
        # Among so many of a part, enough are new.
        enough = None if self.left is None else self.left + (self.seen.size if self.seen else 0)
        for i, search in enumerate(searches):
            rest = search.take(None if enough is None else enough - 1)
            answers[i] = np.concatenate([answers[i], rest])
        total, start = math.prod(map(len, answers)), 0
        size = _FIXED + _EACH * len(clause.graph.variables)
        while start < total and self.left != 0:
            self._check()
            room = min(choose_room(self.effort, self.given, self.left, size), total - start)
            self.effort.hold(room * size)
            stop = start + room
            number = np.arange(start, stop, dtype=np.int64)
            start = stop
            block = np.full((len(number), len(clause.graph.variables)), -1, dtype=np.int32)
            for part, answered in zip(clause.parts, answers, strict=True):
                columns = [step.variable for step in part.order]
                block[:, columns] = answered[number % len(answered)][:, columns]
                number //= len(answered)
            block = _copy_equals(clause, block)
            if self.seen is not None:
                block = block[self.seen.admit(block[:, list(clause.graph.free)])]
                self.effort.memory.held -= (room - len(block)) * size
            yield block
        self.complete = start >= total and all(search.done for search in searches)


@dataclass(frozen=True)
class Found:
    """Distinct answers in no particular order, each with the clause that gave it and all its variables there."""

    tuples: Tuples  # [n, k]
    clause: NDArray[np.int64]  # [n]
    assignment: Tuples  # [n, variables of the largest clause]; -1 behind those of the answer's own clause
    complete: bool  # these are all answers
    pruned: str | None  # what stopped the search early, if anything did

    @property
    def nbytes(self) -> int:
        """Bytes of it."""
        return self.tuples.nbytes + self.clause.nbytes + self.assignment.nbytes


def choose_room(effort: Effort, given: int, left: int | None, size: int) -> int:
    """Rows of the next block after so many, where so many are left: what fits, but at least one."""
    room = min(_BATCH, max(_FIRST, given))
    return max(1, effort.fit_rows(room if left is None else min(room, left), size))


def collect(
    plan: CrispPlan,
    adjacency: Adjacency,
    most: int | None = None,
    deadline: Deadline = NO_DEADLINE,
    memory: int | None = None,
) -> Found:
    """At most `most` answers (all if None); what was found until then at the deadline or when memory is short.

    >>> from tuplet.engines.crisp.planning import plan
    >>> from tuplet.query.ranking import Edge, QueryGraph
    >>> a, _ = Adjacency.build(np.array([0, 0]), np.array([0, 0]), np.array([1, 2]), relations=1)
    >>> made = plan([QueryGraph(("x",), (0,), (Edge(~0, 0, 0),))], a)
    >>> collect(made, a).tuples.tolist(), collect(made, a, most=1).complete
    ([[1], [2]], False)
    """
    answers = DistinctAnswers(plan, adjacency, most, Effort(deadline, memory))
    blocks: list[tuple[int, Tuples]] = []
    pruned = None
    try:
        blocks.extend(answers)
    except OutOfTime as over:
        pruned = over.why
    except BudgetExceeded:
        if most is None:
            raise
        pruned = "memory"
    widest = max((len(clause.graph.variables) for clause in plan.clauses), default=0)
    return Found(
        _join([_columns(block, plan.clauses[number].graph.free) for number, block in blocks], plan.width),
        np.concatenate([np.empty(0, np.int64), *(np.full(len(block), number) for number, block in blocks)]),
        _join([_pad(block, widest) for _, block in blocks], widest),
        answers.complete,
        pruned,
    )


def _copy_equals(clause: ClausePlan, block: Tuples) -> Tuples:
    """A block with the variables that equal others."""
    for copy, other in clause.copies:
        block[:, copy] = block[:, other]
    return block


def _columns(block: Tuples, columns: tuple[int, ...]) -> Tuples:
    if columns == tuple(range(len(columns))):
        return np.ascontiguousarray(block[:, : len(columns)])  # as a rule: free variables come first
    return block[:, list(columns)]


def _pad(block: Tuples, width: int) -> Tuples:
    missing = width - block.shape[1]
    return np.pad(block, ((0, 0), (0, missing)), constant_values=-1) if missing else block


def _join(blocks: list[Tuples], width: int) -> Tuples:
    return blocks[0] if len(blocks) == 1 else np.concatenate([np.empty((0, width), dtype=np.int32), *blocks])


__all__ = ["CrispPlan", "Found", "collect", "plan", "run"]

# So many answers, and four times those wanted, are collected in the hope that they are all. That takes about as long
# as finding the first ones by name without the others.
SPARE = 1 << 14


def run(
    plan: CrispPlan,
    source: Source,
    wanted: int | None = None,
    deadline: Deadline = NO_DEADLINE,
    memory: int | None = None,
) -> Ranking:
    """The first `wanted` answers (all if None) in the order of their names, each with a witness in every clause.

    All answers have truth 1. The bound is 0 if every answer is shown, else 1. At a limit the answers found until
    then are returned, with the reason in `pruned`; `exact` says that they are proven to be the first.
    """
    most = None if wanted is None else 4 * wanted + SPARE
    # The search ends a little before its time: what was found still has to be put in order and explained.
    found = collect(plan, source.facts, most, deadline.before(0.15, 0.6), memory)
    effort = Effort(deadline, memory)
    effort.memory.held = found.nbytes
    ranking = None
    if wanted and plan.width and not found.complete and found.pruned != "timeout":
        ranking = _first(plan, source, wanted, effort)
    ranking = ranking or _put_in_order(plan, source, found, wanted, effort)
    return _add_witnesses(plan, source, ranking, effort)


def _put_in_order(plan: CrispPlan, source: Source, found: Found, wanted: int | None, effort: Effort) -> Ranking:
    """The first of the answers that were collected; a witness in the clause that gave them."""
    order = order_by_name(found.tuples, source.graph.entities.sort_rank, wanted)
    clause, assignment = found.clause[order], found.assignment[order]
    assignments = []
    for number, own in enumerate(plan.clauses):
        mine = assignment[:, : len(own.graph.variables)]
        assignments.append(mine if len(plan.clauses) == 1 else np.where((clause == number)[:, None], mine, -1))
    return Ranking(
        tuples=found.tuples[order],
        truth=np.ones(len(order)),
        assignments=tuple(assignments),
        exact=found.complete or wanted == 0,
        bound=0.0 if found.complete and len(order) == len(found.tuples) else 1.0,
        pruned=found.pruned if found.complete or found.pruned or wanted == 0 else effort.exceeded() or "timeout",
    )


def _first(plan: CrispPlan, source: Source, wanted: int, effort: Effort) -> Ranking | None:
    """The first answers by name where there are too many to collect, without witnesses; None at a limit."""
    from tuplet.engines.exact import Checker
    from tuplet.engines.exact.lexical import first_by_name

    graphs = [clause.graph for clause in plan.clauses]
    streams = Checker.from_source(graphs, source, effort).streams
    every = lambda tuples: np.ones(len(tuples), dtype=bool)  # noqa: E731
    tuples, proven = first_by_name([streams], PRODUCT, effort.beside(), 0.5, wanted, every)
    if not proven:
        return None
    unknown = tuple(np.full((len(tuples), len(graph.variables)), -1, dtype=np.int32) for graph in graphs)
    return Ranking(tuples, np.ones(len(tuples)), unknown, exact=True, bound=float(len(tuples) == wanted))


def _add_witnesses(plan: CrispPlan, source: Source, ranking: Ranking, effort: Effort) -> Ranking:
    """The ranking with the witnesses that it lacks; the join gives a tuple one clause only."""
    from tuplet.engines.exact import Checker

    if not any((assignment < 0).any() for assignment in ranking.assignments):
        return ranking
    checker = Checker.from_source([clause.graph for clause in plan.clauses], source, effort)
    try:
        return replace(ranking, assignments=checker.explain(ranking.tuples, effort.deadline)[1])
    except OutOfTime as over:
        return replace(ranking, pruned=ranking.pruned or over.why)
