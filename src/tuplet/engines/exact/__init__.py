"""The exact engine: the true joint top-k over E^k, with proof.

Under a conjunction that only lowers truth and a maximum over existentials, ranking tuples is best-first search: a
prefix of a tuple is worth the best completion it can have, and max-product messages over the clause tell that exactly
on trees and from above on cycles. Tuples leave the search in order of decreasing truth, so the k-th one ends it.

>>> table = TruthTable.build(4, 1, np.array([0, 0, 1]), np.array([0, 0, 0]), np.array([1, 2, 3]),
...                          np.array([1.0, 0.9, 0.5]), np.array([True, False, False]))
>>> ranking = run(plan([QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 0, 1)))], table), table, k=3)
>>> ranking.tuples.tolist(), ranking.truth.tolist(), ranking.exact, ranking.bound
([[1, 3]], [0.5], True, 0.0)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.exact.kernels.rows import FULL_MEMO, FULL_NODES, FULL_SEEN, Rows
from tuplet.engines.exact.part import BoundClause, bind_clause, rows_of
from tuplet.engines.exact.stream import Budget, ClauseStream, Stream, enlarged, new_state
from tuplet.engines.exact.union import Filtered, Union
from tuplet.graph.adjacency import Adjacency
from tuplet.query.logic import PRODUCT, Logic
from tuplet.query.query_graph import Edge, QueryGraph
from tuplet.query.ranking import Clauses, Ranking
from tuplet.truth.table import TruthTable

Only: TypeAlias = Literal["predicted", "observed"] | None
Values: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class ExactPlan:
    """How a query will be searched; printing it shows the order, the bounds and the estimated cost."""

    clauses: tuple[QueryGraph, ...]
    bound: tuple[BoundClause, ...]
    rows: Rows

    def __str__(self) -> str:
        lines = []
        for i, clause in enumerate(self.bound):
            if len(self.bound) > 1:
                lines.append(f"clause {i + 1} of {len(self.bound)}")
            lines.append(clause.describe(self.rows))
        if len(self.bound) > 1:
            lines.append("union: threshold algorithm, tuples missing from a clause's list are scored there")
        return "\n".join(lines)


def plan(clauses: Clauses, table: TruthTable) -> ExactPlan:
    """The plan of a query on a table; what depends on the shape of a clause alone is made once."""
    rows = rows_of(table)
    return ExactPlan(tuple(clauses), tuple(bind_clause(clause, table, rows) for clause in clauses), rows)


def run(
    plan: ExactPlan,
    table: TruthTable,
    k: int,
    logic: Logic | str = PRODUCT,
    timeout: float | None = None,
    memory: int | None = None,
    work: int | None = None,
    only: Only = None,
    facts: Adjacency | None = None,
) -> Ranking:
    """The `k` best tuples with their witnesses; what a limit cuts short is marked and bounded.

    `timeout` is in seconds, `memory` in bytes of search state, `work` in row entries looked at. `facts` are the
    observed facts for `only` (made from the table if not given).
    """
    rules = Logic.of(logic)
    budget = Budget(timeout, memory, work)
    streams = [ClauseStream(clause, plan.rows, rules, budget) for clause in plan.bound]
    stream = _joined(streams, rules)
    if only is not None:
        from tuplet.engines import crisp

        adjacency = table.facts() if facts is None else facts
        stream = Filtered(stream, lambda tuples: crisp.holds(plan.clauses, adjacency, tuples) == (only == "observed"))
    if stream is streams[0]:
        tuples, truth, witness = streams[0].take_explained(k)
        witnesses = [witness]
    else:
        tuples, _ = stream.take(k)
        truth, witnesses = _explain(streams, tuples, rules)
    stopped, bound = stream.stopped, stream.bound
    if stopped is not None and len(tuples) < k:
        # what was found but not yet proven to come next
        extra, _ = stream.unproven(k - len(tuples))
        more, more_witnesses = _explain(streams, extra, rules)
        tuples, truth = np.concatenate([tuples, extra]), np.concatenate([truth, more])
        witnesses = [np.concatenate(pair) for pair in zip(witnesses, more_witnesses, strict=True)]
    # equal up to rounding of the bounds; the order is that of the recomputed truth, ties by ids
    order = np.lexsort((*tuples.T[::-1], -truth)) if tuples.shape[1] else np.arange(len(tuples))
    exact = len(tuples) == k or stopped is None
    if stopped is not None and len(tuples) == k > 0:
        exact = bool(truth.min() >= bound * (1 - 1e-9))
    return Ranking(
        tuples[order],
        truth[order],
        tuple([witness[order] for witness in witnesses]),
        exact=exact,
        bound=bound,
        pruned=None if exact else stopped,
    )


def _explain(
    streams: list[ClauseStream], tuples: NDArray[np.int32], logic: Logic
) -> tuple[Values, list[NDArray[np.int32]]]:
    """Truth and witnesses of tuples."""
    points = [stream.points(tuples) for stream in streams]
    return reduce(logic.disjunction, [value for value, _ in points]), [witness for _, witness in points]


def _joined(streams: list[ClauseStream], logic: Logic) -> Stream:
    return streams[0] if len(streams) == 1 else Union(streams, logic)


def score(clauses: Clauses, table: TruthTable, tuples: NDArray[np.integer], logic: Logic | str = PRODUCT) -> Values:
    """The truth of each of the given tuples [n, k] → [n]."""
    rules = Logic.of(logic)
    ids = np.asarray(tuples, dtype=np.int32).reshape(len(tuples), len(clauses[0].free))
    streams = _streams(clauses, table, rules, Budget())
    truth: Values = reduce(rules.disjunction, [stream.points(ids)[0] for stream in streams])
    return truth


def _streams(clauses: Clauses, table: TruthTable, logic: Logic, budget: Budget) -> list[ClauseStream]:
    made = plan(clauses, table)
    return [ClauseStream(clause, made.rows, logic, budget) for clause in made.bound]


@dataclass(frozen=True)
class Ranks:
    """Expected ranks (from 1) of tuples under random order among equals; `known` is False where the cap came first."""

    rank: Values  # [n]; where not known, a lower bound
    known: NDArray[np.bool_]  # [n]
    truth: Values  # [n]


def rank(
    clauses: Clauses,
    table: TruthTable,
    tuples: NDArray[np.integer],
    logic: Logic | str = PRODUCT,
    cap: int = 100_000,
    timeout: float | None = None,
) -> Ranks:
    """The rank of each tuple [n, k] among all of E^k: 1 + those with larger truth + half of the other equals.

    Tuples above are only counted, and only until the least of the given ones is passed or `cap` tuples were counted.
    """
    rules = Logic.of(logic)
    truth = score(clauses, table, tuples, rules)
    stream = _joined(_streams(clauses, table, rules, Budget(timeout)), rules)
    # rounding differs between the order of the search and that of the atoms
    low, high = truth * (1 - 1e-9), truth * (1 + 1e-9)
    above, equal = np.zeros(len(truth)), np.zeros(len(truth))
    counted, block = 0, 256
    positive = truth > 0
    least = float(low[positive].min()) if positive.any() else np.inf
    while counted < cap and stream.bound >= least and not stream.done and stream.stopped is None:
        _, values = stream.take(min(block, cap - counted))
        ascending = values[::-1]
        beyond = len(values) - np.searchsorted(ascending, high, side="right")
        above += beyond
        equal += len(values) - np.searchsorted(ascending, low, side="left") - beyond
        counted += len(values)
        block = min(2 * block, 1 << 16)
    known = positive & ((stream.bound < low) | stream.done)
    if stream.done:
        # truth 0: after everything, in random order among the rest of E^k
        rest = float(table.entities) ** tuples.shape[1] - counted
        above = np.where(positive, above, counted)
        equal = np.where(positive, equal, rest)
        known = known | ~positive
    return Ranks(1 + above + np.maximum(equal - 1, 0) / 2, known, truth)


def ask_many(
    queries: Sequence[Clauses],
    table: TruthTable,
    k: int,
    logic: Logic | str = PRODUCT,
    timeout: float | None = None,
    memory: int | None = None,
    work: int | None = None,
    only: Only = None,
    workers: int | None = None,
) -> list[Ranking]:
    """The rankings of many queries, on all cores."""
    facts = table.facts() if only is not None else None

    def one(clauses: Clauses) -> Ranking:
        return run(plan(clauses, table), table, k, logic, timeout, memory, work, only, facts)

    threads = workers or os.cpu_count() or 1
    if threads == 1 or len(queries) < 2:
        return [one(clauses) for clauses in queries]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, queries))


def warm() -> None:
    """Compiles the kernels, or loads them from the cache, so that the first query is as fast as the next."""
    heads, tails = np.array([0, 0, 1, 2]), np.array([1, 2, 2, 0])
    zeros = np.zeros(4, dtype=np.int64)
    table = TruthTable.build(3, 1, heads, zeros, tails, np.array([1.0, 0.5, 0.5, 0.5]), zeros > 0)
    star = QueryGraph(("e", "x", "y"), (1, 2), (Edge(~0, 0, 0), Edge(0, 0, 1), Edge(0, 0, 2)))
    run(plan([star], table), table, 3)
    score([star], table, np.array([[0, 0]]))
    state = new_state(plan([star], table).bound[0].parts[0])
    for reason in (FULL_NODES, FULL_MEMO, FULL_SEEN):
        state = enlarged(state, reason)
