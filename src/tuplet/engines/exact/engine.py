"""The exact engine behind the protocol of engines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from tuplet.query.engine import Engine, Plan, Tuples, Values
from tuplet.query.limits import Deadline, Limits
from tuplet.query.ranking import Clauses, Ranking
from tuplet.query.source import Source

if TYPE_CHECKING:
    from tuplet.engines.exact import ExactPlan


@dataclass(frozen=True)
class Search(Plan):
    """A planned best-first search."""

    program: ExactPlan

    def text(self, entity: Callable[[int], str], relation: Callable[[int], str]) -> str:
        """The order of the variables, the bounds and the estimated cost."""
        return str(self.program)


class Exact(Engine[Search]):
    """The exact joint top-k over all of E^k, with a bound on the rest."""

    name = "exact"
    summary = "the true joint top-k, proven, with a bound on every tuple that is not shown (default)"
    exact = True
    forks = True

    def load(self) -> None:
        _warm()

    def plan(self, clauses: Clauses, source: Source, limits: Limits) -> Search:
        from tuplet.engines import exact

        return Search(clauses, source, exact.plan(clauses, source.table(clauses)))

    def run(self, plan: Search, limits: Limits, deadline: Deadline) -> Ranking:
        from tuplet.engines import exact

        table = plan.source.table(plan.clauses)
        count = limits.count(table.entities ** len(plan.clauses[0].free))
        timeout = None if deadline.seconds is None else max(1e-6, deadline.left())
        facts = plan.source.facts if limits.only else None
        return exact.run(
            plan.program, table, count, limits.rules, timeout, limits.memory, limits.work, limits.only, facts
        )

    def score(self, plan: Search, tuples: Tuples, limits: Limits, deadline: Deadline) -> Values:
        from tuplet.engines import exact

        return exact.score(plan.clauses, plan.source.table(plan.clauses), tuples, limits.rules)


@cache
def _warm() -> None:
    from tuplet.engines import exact

    exact.warm()
