"""NS3 behind the protocol of engines: marginalise, merge, budget; or its marginals alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuplet.engines.ns3.budget import Budget
from tuplet.query.engine import Engine, Plan, Tuples, Values
from tuplet.query.limits import Deadline, Limits
from tuplet.query.ranking import Clauses, Ranking
from tuplet.query.source import Source


def budget_of(limits: Limits) -> Budget:
    """How much may be searched."""
    return Budget.all(limits.merge) if limits.budget == "all" else Budget(int(limits.budget), limits.merge)


@dataclass(frozen=True)
class Merging(Plan):
    """Which tuples are looked at is decided by fuzzy counts while it runs; what is fixed is the order of the ideas."""

    joint: bool

    def text(self, entity: Callable[[int], str], relation: Callable[[int], str]) -> str:
        """The three ideas in order."""
        graph = self.clauses[0]
        free = [f"?{graph.variables[v]}" for v in graph.free]
        lines = [
            "reduce: the best B entities of every variable, by max-product messages on a spanning tree",
            *(f"marginalise: the truth of {name}, all other variables existential" for name in free),
        ]
        if self.joint and len(free) > 1:
            lines += [
                f"merge {len(free) - 1} times: the two nodes of smallest fuzzy counts form a hypernode",
                "  of n·B tuples, shared between them in proportion to their counts; all atoms are applied again",
                "certify: no tuple outside the box lies above the best marginal that was cut",
            ]
        elif len(free) > 1:
            lines.append("rank tuples by the product of the marginals of their members")
        return "\n".join(lines)


class Ns3(Engine[Merging]):
    """The paper's search under a budget."""

    name = "ns3"
    summary = "NS3: marginalise, merge, search under a budget; certified where it can be"
    exact = True
    batched = True
    prunes = True
    joint = True

    def load(self) -> None:
        import tuplet.engines.ns3.run as _  # noqa: F401 - loading is the point

    def plan(self, clauses: Clauses, source: Source, limits: Limits) -> Merging:
        source.values()
        return Merging(clauses, source, self.joint)

    def run(self, plan: Merging, limits: Limits, deadline: Deadline) -> Ranking:
        from tuplet.engines.ns3 import run as ns3_run

        table = plan.source.table(plan.clauses)
        search = ns3_run.run if self.joint else ns3_run.run_marginal
        count = limits.count(min(table.entities ** len(plan.clauses[0].free), 1 << 62))
        timeout = None if deadline.seconds is None else max(1e-6, deadline.left())
        return search(plan.clauses, table, count, budget_of(limits), limits.rules, limits.only, timeout)

    def score(self, plan: Merging, tuples: Tuples, limits: Limits, deadline: Deadline) -> Values:
        # The truth of a given tuple needs no search: it is the exact engine's.
        from tuplet.engines.exact.engine import Exact

        exact = Exact()
        return exact.score(exact.plan(plan.clauses, plan.source, limits), tuples, limits, deadline)


class Ns3Marginal(Ns3):
    """NS3's marginals, multiplied."""

    name = "ns3-marginal"
    summary = "tuples by the product of NS3's marginals: an estimate of the joint ranking"
    exact = False
    marginal = True
    joint = False
