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
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.effort import Effort, found_size
from tuplet.engines.exact.kernels import FULL_MEMO, FULL_NODES, FULL_SEEN, Rows
from tuplet.engines.exact.lexical import first_by_name
from tuplet.engines.exact.part import BoundClause, bind_clause
from tuplet.engines.exact.rows import SearchRows, are_doubted, fixed_rows, missing_clauses, rows_of, split_rows
from tuplet.engines.exact.stream import (
    EQUAL,
    ClauseStream,
    Filter,
    Ids,
    Maximum,
    Stream,
    Union,
    Values,
    enlarged,
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

# Which tuples the facts give, under a deadline: `Checker.holds`.
Holds: TypeAlias = Callable[[Ids, Deadline], NDArray[np.bool_]]

# Tuples of one truth that are listed to find the first ones by name, before another way is taken.
LISTED = 512
# Tuples that are explained at once.
BLOCK = 1 << 12


class ExactPlan(NamedTuple):
    """How a query will be searched; printing it shows the order, the bounds and the estimated cost."""

    clauses: tuple[QueryGraph, ...]
    table: TruthTable | None  # None: facts alone, of which nothing is missing
    rows: Rows
    bound: tuple[BoundClause, ...]

    def __str__(self) -> str:
        lines = []
        for i, clause in enumerate(self.bound):
            if len(self.bound) > 1:
                lines.append(f"clause {i + 1} of {len(self.bound)}")
            lines.append(clause.describe())
        if len(self.bound) > 1:
            lines.append("union: threshold algorithm, tuples missing from a clause's list are scored there")
        return "\n".join(lines)


def plan(clauses: Clauses, table: TruthTable, rank: NDArray[np.int32] | None = None) -> ExactPlan:
    """The plan of a query on a table; `rank` is the place of each entity in order of names (default: of ids)."""
    rows = rows_of(table, rank)
    return ExactPlan(tuple(clauses), table, rows.rows, tuple([bind_clause(clause, rows) for clause in clauses]))


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
    if len(streams) == 1 and only is None and streams[0].single:
        tuples, truth, witness, proven = streams[0].best(k)
        if proven:
            streams[0].parts[0].release()
            return Ranking(tuples, truth, (witness,), exact=True, bound=streams[0].bound)
        return _cut_short(plan, streams, streams[0], k, (tuples, truth, [witness]), logic, effort)
    search = _CombinedSearch(plan, streams, logic, effort, only, holds)
    tuples, proven = search.best(k)
    found = _explained(streams, tuples, logic, effort)
    if proven and len(found[0]) == len(tuples):
        return _ordered(plan, *found, exact=True, bound=search.stream.bound)
    if len(found[0]) < len(tuples):
        # Tuples that there was no time to explain are not shown; they come after those that are.
        least = min(1.0, float(found[1][-1]) * (1 + EQUAL)) if len(found[0]) else 1.0
        search.stream.bound = max(search.stream.bound, least)
    return _cut_short(plan, streams, search.stream, k, found, logic, effort)


def _cut_short(
    plan: ExactPlan,
    streams: list[ClauseStream],
    stream: Stream,
    k: int,
    found: tuple[Ids, Values, list[Ids]],
    logic: Logic,
    effort: Effort,
) -> Ranking:
    """The ranking of a search that a limit stopped: what is proven, and what was found but not proven to come next."""
    tuples, truth, witnesses = found
    if len(tuples) < k:
        room = effort.fitting(k - len(tuples), _size(plan))
        more, values, found_there = _explained(streams, stream.unproven(room)[0], logic, effort)
        true = values > 0
        tuples, truth = np.concatenate([tuples, more[true]]), np.concatenate([truth, values[true]])
        witnesses = [np.concatenate([own, new[true]]) for own, new in zip(witnesses, found_there, strict=True)]
    # the limit may have come when nothing could change any more
    proven = len(tuples) == k > 0 and bool(truth.min() * (1 - EQUAL) > stream.bound)
    why = None if proven else stream.stopped or effort.exceeded() or "timeout"
    return _ordered(plan, tuples, truth, witnesses, exact=proven, bound=stream.bound, pruned=why)


def _ordered(
    plan: ExactPlan,
    tuples: Ids,
    truth: Values,
    witnesses: list[Ids],
    exact: bool,
    bound: float,
    pruned: str | None = None,
) -> Ranking:
    """A ranking by falling truth, then by names; nearly equal truths become equal."""
    order = np.argsort(-truth, kind="stable")
    truth = truth[order]
    falls = truth[1:] < truth[:-1] * (1 - EQUAL)
    if not falls.all():
        group = np.concatenate([[0], np.cumsum(falls)])
        inside = np.lexsort((*plan.rows.rank[tuples[order]].T[::-1], group))
        first = np.flatnonzero(np.concatenate([[True], falls]))
        order, truth = order[inside], truth[first][group]
    assignments = tuple([witness[order] for witness in witnesses])
    return Ranking(tuples[order], truth, assignments, exact, bound, pruned)


class _CombinedSearch:
    """The search of a query that is more than one part of one clause, or that is filtered."""

    def __init__(
        self,
        plan: ExactPlan,
        streams: list[ClauseStream],
        logic: Logic,
        effort: Effort,
        only: Only | None,
        holds: Holds | None,
    ) -> None:
        self.plan, self.logic, self.effort = plan, logic, effort
        self.width = streams[0].width
        self.test: Callable[[Ids], NDArray[np.bool_]] | None = None
        found: list[Stream] = list(streams)
        if only is not None:
            assert holds is not None
            given, wanted = holds, only == "observed"
            self.test = lambda tuples: given(tuples, effort.search) == wanted
        if only == "predicted":
            found = self._missing()
        self.stream: Stream = found[0] if len(found) == 1 else Union(found, streams, logic, effort)
        if self.test is not None:
            self.stream = Filter(self.stream, self.test, effort, _size(plan))

    def _missing(self) -> list[Stream]:
        """For each clause, what it gives beyond the facts."""
        table = self.plan.table
        assert table is not None
        found: list[Stream] = []
        for clause in self.plan.clauses:
            weighted = are_doubted(table, {edge.relation for edge in clause.edges if edge.negated})
            rows, clauses = split_rows(table, missing_clauses(clause, weighted), self.plan.rows.rank)
            own = [ClauseStream(bind_clause(c, rows), self.logic, self.effort) for c in clauses]
            found.append(Maximum(own, self.width, self.effort))
        return found

    def best(self, k: int) -> tuple[Ids, bool]:
        """The k best tuples, and whether that is proven: those of the least truth are the first by name."""
        stream = self.stream
        tuples, truth = stream.take(k + 1)
        if len(truth) <= k:
            return tuples, stream.stopped is None
        if k == 0 or truth[k] < truth[k - 1] * (1 - EQUAL):
            stream.bound = float(truth[k])
            return tuples[:k], True
        level, bound = float(truth[k - 1]), float(truth[k])
        above = int(np.count_nonzero(truth[:k] > level * (1 + EQUAL)))
        sure, tied = tuples[:above], [tuples[above:]]
        listed = len(tuples) - above
        while stream.bound >= level * (1 - EQUAL) and not stream.done and listed < LISTED + 4 * k:
            if stream.stopped is not None:
                stream.bound = bound
                return np.concatenate([sure, np.concatenate(tied)[: k - above]]), False
            more, values = stream.take(256)
            # a plateau ends inside a block
            same = values >= level * (1 - EQUAL)
            tied.append(more[same])
            listed += int(same.sum())
            if not same.all():
                break
        else:
            if not stream.done and stream.bound >= level * (1 - EQUAL):
                known = np.concatenate([sure, *tied])
                return self._by_name(known, above, k, level)
        stream.bound = bound
        equal = np.concatenate(tied)
        order = np.lexsort(self.plan.rows.rank[equal].T[::-1])[: k - above]
        return np.concatenate([sure, equal[order]]), True

    def _by_name(self, known: Ids, above: int, k: int, level: float) -> tuple[Ids, bool]:
        """Of a plateau that is too large to be listed, the first tuples by name."""
        surely = {tuple(row) for row in known[:above].tolist()}

        def admit(tuples: Ids) -> NDArray[np.bool_]:
            fresh = np.array([tuple(row) not in surely for row in tuples.tolist()], dtype=bool)
            if self.test is not None and fresh.any():
                fresh[fresh] = self.test(tuples[fresh])
            return fresh

        alternatives = self.stream.alternatives()
        found, proven = first_by_name(alternatives, self.logic, self.effort, level * (1 - EQUAL), k - above, admit)
        self.stream.bound = level
        if not proven:
            # a tuple of the plateau is as good as another; only their order by name is not proven
            order = np.lexsort(self.plan.rows.rank[known[above:]].T[::-1])[: k - above]
            found = known[above:][order]
        return np.concatenate([known[:above], found]), proven


def _size(plan: ExactPlan) -> int:
    return found_size(max(len(clause.variables) for clause in plan.clauses))


def _explained(streams: list[ClauseStream], tuples: Ids, logic: Logic, effort: Effort) -> tuple[Ids, Values, list[Ids]]:
    """Tuples with truth and witnesses; those that the time does not suffice for are left out."""
    blocks = [_explained_block(streams, tuples[:BLOCK], logic, effort)]
    done = len(blocks[0][0])
    while done == BLOCK * len(blocks) < len(tuples):
        blocks.append(_explained_block(streams, tuples[done : done + BLOCK], logic, effort))
        done += len(blocks[-1][0])
    if len(blocks) == 1:
        return blocks[0]
    witnesses = [np.concatenate(own) for own in zip(*(block[2] for block in blocks), strict=True)]
    return tuples[:done], np.concatenate([block[1] for block in blocks]), witnesses


def _explained_block(
    streams: list[ClauseStream], tuples: Ids, logic: Logic, effort: Effort
) -> tuple[Ids, Values, list[Ids]]:
    """The same for a block: part after part, so that none is explained where the time ends before the last part."""
    done = len(tuples)
    truths, witnesses = [], []
    for stream in streams:
        truth, witness, done = stream.points(tuples[:done], effort.deadline)
        truths.append(truth)
        witnesses.append(witness)
    truth = reduce(logic.disjunction, [value[:done] for value in truths])
    return tuples[:done], truth, [witness[:done] for witness in witnesses]


def explain(
    plan: ExactPlan, tuples: NDArray[np.integer], logic: Logic = PRODUCT, deadline: Deadline | None = None
) -> tuple[Values, tuple[Ids, ...]]:
    """Truth [n] and best witnesses of given tuples [n, k]; raises `OutOfTime` at the deadline."""
    effort = Effort(deadline) if deadline is not None else Effort()
    ids = np.asarray(tuples, dtype=np.int32).reshape(len(tuples), len(plan.clauses[0].free))
    streams = [ClauseStream(clause, logic, effort) for clause in plan.bound]
    found, truth, witnesses = _explained(streams, ids, logic, effort)
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
        state = enlarged(state, reason)


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
        count = limits.count(len(plan.source.graph.entities) ** len(plan.clauses[0].free))
        effort = Effort(deadline, limits.memory, limits.work)
        holds = Checker.of(plan.clauses, plan.source, effort.beside()).holds if limits.only else None
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
    def of(clauses: Clauses, source: Source, effort: Effort | None = None) -> Checker:
        """The checker of a query on a source; what it holds is within the memory of `effort`."""
        source.facts_of(clauses)
        return Checker(clauses, facts_rows(source), effort)

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
        if (found < 0).any():
            raise self._over()
        return found > 0

    def explain(self, tuples: NDArray[np.integer], deadline: Deadline) -> tuple[NDArray[np.bool_], tuple[Ids, ...]]:
        """Which tuples are answers, and for each clause the values of all variables [n, variables], -1 if it fails."""
        ids = np.asarray(tuples, dtype=np.int32).reshape(len(tuples), self.width)
        self.effort.search = deadline
        found = [stream.points(ids, deadline) for stream in self.streams]
        if any(done < len(ids) for _, _, done in found):
            raise self._over()
        return np.logical_or.reduce([truth > 0 for truth, _, _ in found]), tuple(witness for _, witness, _ in found)

    def _over(self) -> OutOfTime:
        return OutOfMemory() if self.effort.exceeded() == "memory" else OutOfTime()


def facts_rows(source: Source) -> SearchRows:
    """The facts of a source as rows of truth 1, made once."""
    made: SearchRows | None = source.prepared.get("facts")
    if made is None:
        made = source.prepared["facts"] = rows_of_facts(source.facts, source.graph.entities.sort_rank)
    return made


def rows_of_facts(facts: Adjacency, rank: NDArray[np.int32]) -> SearchRows:
    """Facts as rows: no truth beside them means 1."""
    none = np.zeros(0, dtype=np.float32)
    return SearchRows(fixed_rows(facts, none, none.astype(np.int32), none, rank), facts)


def holds(clauses: Clauses, source: Source, tuples: NDArray[np.integer], deadline: Deadline) -> NDArray[np.bool_]:
    """Which tuples [n, k] are answers on the facts; raises `OutOfTime` at the deadline."""
    return Checker.of(clauses, source).holds(tuples, deadline)
