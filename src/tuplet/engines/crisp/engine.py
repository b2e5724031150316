"""The crisp join as an engine: observed facts only, Boolean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuplet.engines.crisp.planning import CrispPlan, plan
from tuplet.query.conditions import ALL_CONDITIONS
from tuplet.query.engine import Engine, Plan, Tuples, Values
from tuplet.query.limits import Deadline, Limits
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
        from tuplet.engines import crisp

        if limits.only == "predicted":
            return nothing(len(plan.clauses[0].free))  # facts alone predict nothing
        wanted = None if limits.k == "all" else limits.count(1 << 62)
        return crisp.run(plan.program, plan.source, wanted, deadline, limits.memory)

    def score(self, plan: Join, tuples: Tuples, limits: Limits, deadline: Deadline) -> Values:
        from tuplet.engines.facts import holds

        return holds(plan.clauses, plan.source, tuples, deadline).astype(float)
