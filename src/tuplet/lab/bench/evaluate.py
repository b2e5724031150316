"""A unit of queries of one shape under one engine: rows of numbers.

What the engine says of itself decides how its answers are judged:

marginal   It ranks each variable on its own. Tuples are ranked over all of E^k by the product of one number for each
           variable; beside that come Marginal, Multiply and Joint (`metrics.from_marginals`).
prunes     Its list is all it has: a hard tuple that is not listed is missed, whatever its truth.
otherwise  Hard tuples are scored one by one, and the list is as long as their ranks need.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from resource import RUSAGE_SELF, getrusage
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BudgetExceeded, Refused
from tuplet.lab.bench.metrics import CUTS, TupleRanks, from_marginals, joint_ranks, product_ranks, tuple_keys
from tuplet.lab.bench.queries import BenchQuery
from tuplet.lab.bench.results import ResultRow, RunSettings
from tuplet.lab.bench.shapes import topology
from tuplet.query.engine import Plan
from tuplet.query.limits import Deadline, OutOfTime
from tuplet.query.ranking import Ranking
from tuplet.query.source import Source

if TYPE_CHECKING:
    from tuplet.engines.marginals import MarginalEngine

Scores: TypeAlias = NDArray[np.floating[Any]]  # [k, entities]


class Evaluator:
    """An engine on a source, for many units: what the engine makes of the source is kept."""

    def __init__(self, source: Source, settings: RunSettings) -> None:
        self.source, self.settings = source, settings
        self.engine, self.limits = settings.runner(), settings.limits
        self.engine.load(self.source)

    def warm(self) -> Evaluator:
        """Answer one small query, so that times are those of the search; returns itself."""
        (head,), (relation,), _ = (part[:1].tolist() for part in self.source.graph.edges())
        nothing, any_ = np.empty((0, 1), dtype=np.int32), np.zeros((1, 1), dtype=np.int32)
        self.evaluate([BenchQuery("1p", "r1(s1,f1)", {"r1": 2 * relation, "s1": head}, nothing, any_)])
        return self

    def evaluate(self, queries: Sequence[BenchQuery]) -> list[ResultRow]:
        """The rows of some queries of one shape; at once if the engine can and no query has a time of its own."""
        judged_by_points = not (self.engine.marginal or self.engine.prunes)
        at_once = self.engine.batched and not judged_by_points and self.limits.timeout is None
        groups = [queries] if at_once else [[query] for query in queries]
        rows = [row for group in groups for row in self._group(group)]
        # ru_maxrss counts KiB on Linux and bytes on macOS.
        peak = getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6
        return [replace(row, peak_mb=peak) for row in rows]

    def _group(self, queries: Sequence[BenchQuery]) -> list[ResultRow]:
        """Queries that are answered together; those that are refused or too large are missed, with the reason."""
        judge = self._by_marginals if self.engine.marginal else self._by_list if self.engine.prunes else self._by_points
        start = time.perf_counter()
        try:
            plans = [self.engine.planned(query.clauses(), self.source, self.limits) for query in queries]
            return judge(queries, plans, lambda: 1e3 * (time.perf_counter() - start) / len(queries))
        except Refused as error:  # one shape: all are refused or none
            return [make_missed_row(query, str(error)) for query in queries]
        except (BudgetExceeded, MemoryError, OutOfTime) as error:
            if len(queries) == 1:
                why = "timeout" if isinstance(error, OutOfTime) else str(error) or "out of memory"
                return [make_missed_row(queries[0], why, 1e3 * (time.perf_counter() - start))]
        return [row for query in queries for row in self._group([query])]

    def _by_marginals(
        self, queries: Sequence[BenchQuery], plans: Sequence[Plan], ms: Callable[[], float]
    ) -> list[ResultRow]:
        engine = cast("MarginalEngine[Any]", self.engine)
        scores = engine.marginals(plans, self.limits, Deadline(self.limits.timeout))
        return marginal_rows(queries, scores, [engine.truth(own) for own in scores], ms, self.settings.reach)

    def _by_list(
        self, queries: Sequence[BenchQuery], plans: Sequence[Plan], ms: Callable[[], float]
    ) -> list[ResultRow]:
        # Budgets that adapt grow until as many are proven as the filtered HIT@10 may need.
        needed = max(CUTS) + max(len(query.filtered) + len(query.scored) for query in queries)
        deadline = Deadline(self.limits.timeout)
        # An engine that prunes may have a list that is longer than what it proves: everything that was not pruned.
        kept = getattr(self.engine, "kept", None)
        if kept is not None:
            rankings = kept(plans, replace(self.limits, k=needed), deadline, max(CUTS))
        else:
            rankings = self.engine.run_many(plans, replace(self.limits, k="all"), deadline)
        ranks = [
            joint_ranks(found.tuples, found.truth, query.filtered, query.scored, complete=True)
            for query, found in zip(queries, rankings, strict=True)
        ]
        each = ms()
        return [
            self._list_row(query, own, ranking, each, recall=share(ranking.tuples, query.scored))
            for query, own, ranking in zip(queries, ranks, rankings, strict=True)
        ]

    def _by_points(
        self, queries: Sequence[BenchQuery], plans: Sequence[Plan], ms: Callable[[], float]
    ) -> list[ResultRow]:
        """The list is as long as `reach` and the answers need. If it ends among ties that could decide HIT@10, it is
        asked for again, four times as long."""
        (query,), (plan,) = queries, plans
        deadline = Deadline(self.limits.timeout)
        points = self.engine.score(plan, query.scored, self.limits, deadline)
        wanted = self.settings.reach + len(query.filtered) + len(query.scored)
        while True:
            ranking = self.engine.run(plan, replace(self.limits, k=wanted), deadline)
            ranks = ranks_of(query, ranking, wanted, points)
            if ranks.is_decided(max(CUTS)).all() or ranking.pruned is not None or wanted >= self.settings.most:
                return [self._list_row(query, ranks, ranking, ms())]
            wanted = min(4 * wanted, self.settings.most)

    def _list_row(self, query: BenchQuery, ranks: TupleRanks, ranking: Ranking, ms: float, **more: float) -> ResultRow:
        found = {"exact": ranking.exact, "pruned": ranking.pruned, "listed": len(ranking.tuples), **more}
        alone = self.marginal_metrics(query) if self.settings.marginals else {}
        return make_row(query, ranks, ms=ms, **found, **alone)

    def marginal_metrics(self, query: BenchQuery) -> dict[str, Any]:
        """The metrics made from one ranking for each free variable, the others existential; none if that is refused."""
        entities = len(self.source.graph.entities)
        limits = replace(self.limits, k=entities)
        scores = np.zeros((query.k, entities))
        try:
            for variable, own in enumerate(scores):
                asked = [clause.marginal([variable]) for clause in query.clauses()]
                plan = self.engine.planned(asked, self.source, limits)
                ranking = self.engine.run(plan, limits, Deadline(limits.timeout))
                own[ranking.tuples[:, 0]] = ranking.truth
        except (BudgetExceeded, MemoryError, OutOfTime):
            return {}
        return from_marginals(list(scores), query.filtered, query.scored)


def ranks_of(query: BenchQuery, ranking: Ranking, wanted: int, points: NDArray[np.float64]) -> TupleRanks:
    """The ranks of the hard tuples, whose truth is `points`, in a list of at most `wanted` tuples.

    A list that is shorter is all there is, unless the search was stopped.
    """
    complete = (len(ranking.tuples) < wanted and ranking.pruned is None) or ranking.bound == 0
    return joint_ranks(ranking.tuples, ranking.truth, query.filtered, query.scored, points, complete)


def share(listed: NDArray[np.integer], hard: NDArray[np.int32]) -> float:
    """The share of hard tuples that are listed."""
    kept, wanted = tuple_keys(np.asarray(listed), hard)
    return float(np.isin(wanted, kept).mean())


def make_missed_row(query: BenchQuery, why: str | None, ms: float = 0.0) -> ResultRow:
    """The row of a query that was not answered, for the reason given."""
    clauses = query.clauses()
    return ResultRow(
        shape=query.shape,
        index=query.index,
        k=query.k,
        e=max(len(clause.existential) for clause in clauses),
        topology=topology(clauses),
        easy=len(query.easy),
        hard=len(query.scored),
        pruned=why,
        ms=ms,
        **by_stratum(query, None),
    )


def make_row(query: BenchQuery, ranks: TupleRanks, **columns: Any) -> ResultRow:
    """The row of a query whose hard tuples have ranks, with further columns."""
    decided = float(np.mean(ranks.is_decided(max(CUTS))))
    values = {**ranks.values(), **by_stratum(query, ranks), **columns}
    return replace(make_missed_row(query, None), answered=True, decided=decided, **values)


def by_stratum(query: BenchQuery, ranks: TupleRanks | None) -> dict[str, Any]:
    """The columns of the strata that the scored answers are in; without ranks all of them are missed."""
    found: dict[str, Any] = {}
    if query.strata is None:
        return found
    for stratum in np.unique(query.strata).tolist():
        own = query.strata == stratum
        found[f"links{stratum}_mrr"] = 0.0 if ranks is None else float(ranks.reciprocal[own].mean())
        found[f"links{stratum}_hit10"] = 0.0 if ranks is None else float(ranks.hits(10)[own].mean())
    return found


def marginal_rows(
    queries: Sequence[BenchQuery],
    scores: Sequence[Scores],
    truth: Sequence[NDArray[np.float64]],
    ms: Callable[[], float] = lambda: 0.0,
    reach: int = 100,
) -> list[ResultRow]:
    """The rows of queries from their scores, and from the same as numbers that may be multiplied.

    What has truth 0 was pruned: recall is the share of hard tuples that no member's marginal prunes.
    """
    ranks = [product_ranks(list(own), q.filtered, q.scored, reach) for own, q in zip(truth, queries, strict=True)]
    each = ms()
    rows = []
    for query, found, vectors, own in zip(queries, ranks, scores, truth, strict=True):
        kept = np.stack([vector[query.scored[:, place]] > 0 for place, vector in enumerate(own)], axis=1)
        columns = from_marginals(list(vectors), query.filtered, query.scored) | {
            "listed": min(int((vector > 0).sum()) for vector in own),
            "recall": float(kept.all(axis=1).mean()),
            "recall_variable": float(kept.mean()),
        }
        rows.append(make_row(query, found, ms=each, **columns))
    return rows
