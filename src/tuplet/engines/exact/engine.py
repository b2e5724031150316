"""The exact engine behind the protocol of engines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from tuplet.query.conditions import ALL_CONDITIONS
from tuplet.query.engine import Engine, Plan, Tuples, Values
from tuplet.query.limits import Deadline, Limits
from tuplet.query.ranking import Clauses, Ranking
from tuplet.query.source import Source

if TYPE_CHECKING:
    from tuplet.engines.exact import ExactPlan


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
    plans_by_limits = False
    looks_often = True
    arranges = True
    conditions = ALL_CONDITIONS

    def load(self, source: Source) -> None:
        _warm(source.truth is not None and source.truth.double)

    def plan(self, clauses: Clauses, source: Source, limits: Limits) -> BestFirst:
        from tuplet.engines import exact

        return BestFirst(clauses, source, exact.plan(clauses, source.table(clauses), source.graph.entities.sort_rank))

    def run(self, plan: BestFirst, limits: Limits, deadline: Deadline) -> Ranking:
        from tuplet.engines import exact
        from tuplet.engines.exact.effort import Effort
        from tuplet.engines.facts import Checker

        count = limits.count(len(plan.source.graph.entities) ** len(plan.clauses[0].free))
        effort = Effort(deadline, limits.memory, limits.work)
        holds = Checker.of(plan.clauses, plan.source, effort.beside()).holds if limits.only else None
        return exact.run(plan.program, count, limits.rules, effort, limits.only, holds)

    def score(self, plan: BestFirst, tuples: Tuples, limits: Limits, deadline: Deadline) -> Values:
        from tuplet.engines import exact

        return exact.explain(plan.program, tuples, limits.rules, deadline)[0]


@cache
def _warm(weighted: bool) -> None:
    from tuplet.engines import exact

    exact.warm()  # the facts are searched, too
    if weighted:
        exact.warm(weighted=True)
