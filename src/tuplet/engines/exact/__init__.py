"""The exact engine: the true joint top-k over E^k, with proof.

Under a conjunction that only lowers truth and a maximum over existentials, ranking tuples is best-first search: a
prefix of a tuple is worth the best completion it can have, and max-product messages over the clause tell that exactly
on trees and from above on cycles. Tuples leave the search in order of decreasing truth, so the k-th one ends it. Among
equals those that come first by name are shown.

>>> table = TruthTable.build(4, 1, np.array([0, 0, 1]), np.array([0, 0, 0]), np.array([1, 2, 3]),
...                          np.array([1.0, 0.9, 0.5]), np.array([True, False, False]))
>>> ranking = run(plan([QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 0, 1)))], table), k=3)
>>> ranking.tuples.tolist(), ranking.truth.tolist(), ranking.exact, ranking.bound
([[1, 3]], [0.5], True, 0.0)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.effort import Effort, tuple_size
from tuplet.engines.exact.kernels import FULL_MEMO, FULL_NODES, FULL_SEEN
from tuplet.engines.exact.lexical import first_by_name
from tuplet.engines.exact.part import BoundClause, bind_clause
from tuplet.engines.exact.rows import SearchRows, are_doubted, freeze_rows, load_rows, missing_clauses, split_rows
from tuplet.engines.exact.stream import (
    EQUAL,
    ClauseStream,
    Filter,
    Ids,
    Maximum,
    Stream,
    Union,
    Values,
    enlarge,
    new_state,
)
from tuplet.graph.adjacency import Adjacency
from tuplet.query.conditions import ALL_CONDITIONS
from tuplet.query.engine import Engine, Plan
from tuplet.query.limits import Deadline, Limits, Only, OutOfMemory, OutOfTime
from tuplet.query.logic import PRODUCT, Logic
from tuplet.query.ranking import Clauses, Edge, QueryGraph, Ranking
from tuplet.query.source import Source
from tuplet.truth.table import TruthTable

# Which tuples the facts give, under a deadline: `Checker.holds`; which are wanted.
Holds: TypeAlias = Callable[[Ids, Deadline], NDArray[np.bool_]]
Test: TypeAlias = Callable[[Ids], NDArray[np.bool_]]

# Tuples of one truth that are listed to find the first ones by name, before another way is taken.
LISTED = 512
# Tuples that are explained at once.
BLOCK = 1 << 12


class ExactPlan(NamedTuple):
    """How a query will be searched; printing it shows the order, the bounds and the estimated cost."""

    table: TruthTable
    bound: tuple[BoundClause, ...]

    @property
    def rank(self) -> Ids:
        """The place of each entity in order of names."""
        rank: Ids = self.bound[0].rows.rows.rank
        return rank

    @property
    def size(self) -> int:
        """Bytes of a tuple that is found."""
        return tuple_size(max(len(own.clause.variables) for own in self.bound))

    def __str__(self) -> str:
        if len(self.bound) == 1:
            return self.bound[0].describe()
        lines = []
        for i, clause in enumerate(self.bound, start=1):
            lines += [f"clause {i} of {len(self.bound)}", clause.describe()]
        return "\n".join([*lines, "union: threshold algorithm, tuples missing from a clause's list are scored there"])


def plan(clauses: Clauses, table: TruthTable, rank: NDArray[np.int32] | None = None) -> ExactPlan:
    """The plan of a query on a table; `rank` is the place of each entity in order of names (default: of ids)."""
    rows = load_rows(table, rank)
    return ExactPlan(table, tuple([bind_clause(clause, rows) for clause in clauses]))


def run(
    plan: ExactPlan,
    k: int,
    logic: Logic = PRODUCT,
    effort: Effort | None = None,
    only: Only | None = None,
    holds: Holds | None = None,
) -> Ranking:
    """The `k` best tuples with their witnesses; what a limit cuts short is marked and bounded.

    `holds` tells what the facts give, where `only` asks for it.
    """
    effort = effort or Effort()
    streams = [ClauseStream(clause, logic, effort) for clause in plan.bound]
    stream: Stream
    if len(streams) == 1 and only is None and streams[0].single:
        stream = streams[0]
        tuples, truth, witness, proven = streams[0].best(k)
        if proven:
            streams[0].parts[0].release()
            return Ranking(tuples, truth, (witness,), exact=True, bound=stream.bound)
        witnesses = [witness]
    else:
        test: Test | None = None
        if only is not None:
            assert holds is not None
            test = lambda tuples: holds(tuples, effort.search) == (only == "observed")  # noqa: E731
        stream = _combine_streams(plan, streams, logic, effort, only, test)
        best, proven = _take_best(plan, stream, k, logic, effort, test)
        tuples, truth, witnesses = _explain(streams, best, logic, effort)
        if proven and len(tuples) == len(best):
            return _put_in_order(plan, tuples, truth, witnesses, exact=True, bound=stream.bound)
        if len(tuples) < len(best):
            # Tuples that there was no time to explain are not shown; they come after those that are.
            stream.bound = max(stream.bound, min(1.0, float(truth[-1]) * (1 + EQUAL)) if len(tuples) else 1.0)
    # A limit stopped the search: after what is proven comes what was found but not proven to come next.
    if len(tuples) < k:
        room = effort.fit_rows(k - len(tuples), plan.size)
        more, values, found_there = _explain(streams, stream.unproven(room)[0], logic, effort)
        true = values > 0
        tuples, truth = np.concatenate([tuples, more[true]]), np.concatenate([truth, values[true]])
        witnesses = [np.concatenate([own, new[true]]) for own, new in zip(witnesses, found_there, strict=True)]
    # the limit may have come when nothing could change any more
    proven = len(tuples) == k > 0 and bool(truth.min() * (1 - EQUAL) > stream.bound)
    why = None if proven else stream.stopped or effort.exceeded() or "timeout"
    return _put_in_order(plan, tuples, truth, witnesses, exact=proven, bound=stream.bound, pruned=why)


def _put_in_order(
    plan: ExactPlan, tuples: Ids, truth: Values, witnesses: list[Ids], exact: bool, bound: float,
    pruned: str | None = None,
) -> Ranking:  # fmt: skip
    """A ranking by falling truth, then by names; nearly equal truths become equal."""
    order = np.argsort(-truth, kind="stable")
    truth = truth[order]
    falls = truth[1:] < truth[:-1] * (1 - EQUAL)
    if not falls.all():
        group = np.concatenate([[0], np.cumsum(falls)])
        inside = np.lexsort((*plan.rank[tuples[order]].T[::-1], group))
        first = np.flatnonzero(np.concatenate([[True], falls]))
        order, truth = order[inside], truth[first][group]
    return Ranking(tuples[order], truth, tuple([witness[order] for witness in witnesses]), exact, bound, pruned)


def _combine_streams(
    plan: ExactPlan, streams: list[ClauseStream], logic: Logic, effort: Effort, only: Only | None, test: Test | None
) -> Stream:
    """The stream of a query that is more than one part of one clause, or that is filtered."""
    found: list[Stream] = list(streams)
    if only == "predicted":  # for each clause, what it gives beyond the facts
        found = []
        for clause in (own.clause for own in plan.bound):
            weighted = are_doubted(plan.table, {edge.relation for edge in clause.edges if edge.negated})
            rows, clauses = split_rows(plan.table, missing_clauses(clause, weighted), plan.rank)
            own = [ClauseStream(bind_clause(c, rows), logic, effort) for c in clauses]
            found.append(Maximum(own, streams[0].width, effort))
    stream = found[0] if len(found) == 1 else Union(found, streams, logic, effort)
    return stream if test is None else Filter(stream, test, effort, plan.size)


def _take_best(
    plan: ExactPlan, stream: Stream, k: int, logic: Logic, effort: Effort, test: Test | None
) -> tuple[Ids, bool]:
    """The k best tuples, and whether that is proven: those of the least truth are the first by name."""
    tuples, truth = stream.take(k + 1)
    if len(truth) <= k:
        return tuples, stream.stopped is None
    if k == 0 or truth[k] < truth[k - 1] * (1 - EQUAL):
        stream.bound = float(truth[k])
        return tuples[:k], True
    level, bound = float(truth[k - 1]), float(truth[k])
    above = int(np.count_nonzero(truth[:k] > level * (1 + EQUAL)))
    sure, blocks, listed = tuples[:above], [tuples[above:]], len(tuples) - above
    ended = False  # a plateau ends inside a block
    while not ended and stream.bound >= level * (1 - EQUAL) and not stream.done and listed < LISTED + 4 * k:
        if stream.stopped is not None:
            stream.bound = bound
            return np.concatenate([sure, np.concatenate(blocks)[: k - above]]), False
        more, values = stream.take(256)
        same = values >= level * (1 - EQUAL)
        ended = not same.all()
        blocks.append(more[same])
        listed += len(blocks[-1])
    tied = np.concatenate(blocks)
    in_order = tied[np.lexsort(plan.rank[tied].T[::-1])][: k - above]
    if ended or stream.done or stream.bound < level * (1 - EQUAL):
        stream.bound = bound
        return np.concatenate([sure, in_order]), True
    # The plateau is too large to be listed: its first tuples by name are looked for in another way.
    surely = {tuple(row) for row in sure.tolist()}

    def admit(tuples: Ids) -> NDArray[np.bool_]:
        fresh = np.array([tuple(row) not in surely for row in tuples.tolist()], dtype=bool)
        if test is not None and fresh.any():
            fresh[fresh] = test(tuples[fresh])
        return fresh

    first, proven = first_by_name(stream.alternatives(), logic, effort, level * (1 - EQUAL), k - above, admit)
    stream.bound = level
    # without proof a tuple of the plateau is as good as another; only their order by name is not known
    return np.concatenate([sure, first if proven else in_order]), proven


def _explain(streams: list[ClauseStream], tuples: Ids, logic: Logic, effort: Effort) -> tuple[Ids, Values, list[Ids]]:
    """Tuples with truth and witnesses, in blocks; those that the time does not suffice for are left out."""
    blocks: list[list[NDArray[Any]]] = []
    for start in range(0, max(1, len(tuples)), BLOCK):
        some = tuples[start : start + BLOCK]
        done, found = len(some), []
        for stream in streams:
            truth, witness, done = stream.points(some[:done], effort.deadline)
            found.append((truth, witness))
        whole = reduce(logic.disjunction, [truth[:done] for truth, _ in found])
        blocks.append([whole, *(witness[:done] for _, witness in found)])
        if done < len(some):
            break
    truth, *witnesses = blocks[0] if len(blocks) == 1 else map(np.concatenate, zip(*blocks, strict=True))
    return tuples[: len(truth)], truth, witnesses


def explain(
    plan: ExactPlan, tuples: NDArray[np.integer], logic: Logic = PRODUCT, deadline: Deadline | None = None
) -> tuple[Values, tuple[Ids, ...]]:
    """Truth [n] and best witnesses of given tuples [n, k]; raises `OutOfTime` at the deadline."""
    effort = Effort(deadline) if deadline is not None else Effort()
    streams = [ClauseStream(clause, logic, effort) for clause in plan.bound]
    ids = np.asarray(tuples, dtype=np.int32).reshape(len(tuples), streams[0].width)
    found, truth, witnesses = _explain(streams, ids, logic, effort)
    if len(found) < len(ids):
        raise OutOfTime
    return truth, tuple(witnesses)


def score(clauses: Clauses, table: TruthTable, tuples: NDArray[np.integer], logic: Logic = PRODUCT) -> Values:
    """The truth of each of the given tuples [n, k] → [n]."""
    return explain(plan(clauses, table), tuples, logic)[0]


@cache
def warm(weighted: bool = False) -> None:
    """Compiles the kernels, or loads them from the cache, so that the first query is as fast as the next.

    Stores of weighted graphs have truth values in double precision, and so kernels of their own.
    """
    heads, tails = np.array([0, 0, 1, 2]), np.array([1, 2, 2, 0])
    zeros = np.zeros(4, dtype=np.int64)
    table = TruthTable.build(3, 1, heads, zeros, tails, np.array([1.0, 0.5, 0.5, 0.5]), np.full(4, weighted))
    star = QueryGraph(("e", "x", "y"), (1, 2), (Edge(~0, 0, 0), Edge(0, 0, 1), Edge(0, 0, 2)))
    planned = plan([star], table)
    run(planned, 1)
    explain(planned, np.array([[0, 0]]))
    state = new_state(planned.bound[0].parts[0])
    for reason in (FULL_NODES, FULL_MEMO, FULL_SEEN):
        state = enlarge(state, reason)


@dataclass(frozen=True)
class BestFirst(Plan):
    """A planned best-first search."""

    program: ExactPlan

    def text(self, entity: Callable[[int], str], relation: Callable[[int], str]) -> str:
        """The order of the variables, the bounds and the estimated cost."""
        return str(self.program)


class Exact(Engine[BestFirst]):
    """The exact joint top-k over all of E^k, with a bound on the rest."""

    name = "exact"
    summary = "the true joint top-k, proven, with a bound on every tuple that is not shown (default)"
    exact = True
    forks = True
    looks_often = True
    arranges = True
    plans_by_limits = False
    conditions = ALL_CONDITIONS

    def load(self, source: Source) -> None:
        warm()  # the facts are searched, too
        if source.truth is not None and source.truth.double:
            warm(weighted=True)

    def plan(self, clauses: Clauses, source: Source, limits: Limits) -> BestFirst:
        return BestFirst(clauses, source, plan(clauses, source.table(clauses), source.graph.entities.sort_rank))

    def run(self, plan: BestFirst, limits: Limits, deadline: Deadline) -> Ranking:
        effort = Effort(deadline, limits.memory, limits.work)
        holds = Checker.from_source(plan.clauses, plan.source, effort.beside()).holds if limits.only else None
        count = limits.count(plan.program.table.entities ** len(plan.clauses[0].free))
        return run(plan.program, count, limits.rules, effort, limits.only, holds)

    def score(self, plan: BestFirst, tuples: Ids, limits: Limits, deadline: Deadline) -> Values:
        return explain(plan.program, tuples, limits.rules, deadline)[0]


class Checker:
    """A query on the facts of a source; what it learns of one tuple serves the next."""

    def __init__(self, clauses: Clauses, rows: SearchRows, effort: Effort | None = None) -> None:
        self.width = len(clauses[0].free)
        self.effort = effort or Effort()
        self.streams = [ClauseStream(bind_clause(c, rows), PRODUCT, self.effort) for c in clauses]

    @staticmethod
    def from_source(clauses: Clauses, source: Source, effort: Effort | None = None) -> Checker:
        """The checker of a query on a source, whose rows are made once; it keeps to the memory of `effort`."""
        if effort is not None:
            with effort.deadline.paused():
                warm()  # an engine of another kind has not brought in what is compiled
        source.facts_of(clauses)
        if "facts" not in source.prepared:
            source.prepared["facts"] = load_fact_rows(source.facts, source.graph.entities.sort_rank)
        return Checker(clauses, source.prepared["facts"], effort)

    def judge(self, tuples: NDArray[np.integer], deadline: Deadline) -> NDArray[np.int8]:
        """For each tuple [n, k] 1 if it is an answer on the facts, 0 if not, -1 where a limit came first."""
        ids = np.asarray(tuples, dtype=np.int32).reshape(len(tuples), self.width)
        found = np.zeros(len(ids), dtype=np.int8)
        known = len(ids)
        self.effort.search = deadline  # a purely existential part is searched, once
        for stream in self.streams:
            open_ = np.flatnonzero(found[:known] == 0)
            truth, _, done = stream.points(ids[open_], deadline)
            found[open_[:done]] = truth[:done] > 0
            known = known if done == len(open_) else int(open_[done])
        found[known:][found[known:] == 0] = -1
        return found

    def holds(self, tuples: NDArray[np.integer], deadline: Deadline) -> NDArray[np.bool_]:
        """Which tuples are answers on the facts; raises `OutOfTime` or `OutOfMemory` at a limit."""
        found = self.judge(tuples, deadline)
        self._refuse_part((found < 0).any())
        return found > 0

    def explain(self, tuples: NDArray[np.integer], deadline: Deadline) -> tuple[NDArray[np.bool_], tuple[Ids, ...]]:
        """Which tuples are answers, and for each clause the values of all variables [n, variables], -1 if it fails."""
        ids = np.asarray(tuples, dtype=np.int32).reshape(len(tuples), self.width)
        self.effort.search = deadline
        truths, witnesses, done = zip(*(stream.points(ids, deadline) for stream in self.streams), strict=True)
        self._refuse_part(min(done) < len(ids))
        return np.logical_or.reduce([truth > 0 for truth in truths]), witnesses

    def _refuse_part(self, part: bool | np.bool_) -> None:
        if part:
            raise OutOfMemory if self.effort.exceeded() == "memory" else OutOfTime


def load_fact_rows(facts: Adjacency, rank: NDArray[np.int32]) -> SearchRows:
    """Facts as rows: no truth beside them means 1."""
    none = np.zeros(0, dtype=np.float32)
    return SearchRows(freeze_rows(facts, none, none.astype(np.int32), none, rank), facts)


def holds(clauses: Clauses, source: Source, tuples: NDArray[np.integer], deadline: Deadline) -> NDArray[np.bool_]:
    """Which tuples [n, k] are answers on the facts; raises `OutOfTime` at the deadline."""
    return Checker.from_source(clauses, source).holds(tuples, deadline)
