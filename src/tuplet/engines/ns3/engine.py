"""NS3 behind the protocol of engines: marginalise, merge, budget; or its marginals alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tuplet.engines.marginals import LISTED, MarginalEngine, Scores, admits
from tuplet.query.conditions import ALL_CONDITIONS, Outside, Within
from tuplet.query.engine import Engine, Plan, Tuples, Values
from tuplet.query.limits import Deadline, Limits, OutOfTime
from tuplet.query.ranking import Clauses, Ranking, stop_ranking
from tuplet.query.source import Source
from tuplet.settings import knob, load_class

if TYPE_CHECKING:
    from tuplet.engines.ns3.search import FuzzySearch


@dataclass(frozen=True)
class Ns3Options:
    """Where NS3 runs, and what reduces its domains."""

    device: str = knob("cpu", "auto, cpu or cuda")
    index: str = knob(
        "messages",
        "keeps the B best entities of a variable: by messages, or neural: by a query model's scores",
        choices=("messages", "neural"),
    )
    model: str = knob("", "of index=neural: a folder of `tuplet train --model lmpnn`")


@dataclass(frozen=True)
class MergePlan(Plan):
    """Which tuples are looked at is decided by fuzzy counts while it runs; what is fixed is the order of the ideas."""

    joint: bool
    index: str = "messages"

    def text(self, entity: Callable[[int], str], relation: Callable[[int], str]) -> str:
        """The three ideas in order."""
        graph = self.clauses[0]
        free = [f"?{graph.variables[v]}" for v in graph.free]
        by = "max-product messages on a spanning tree" if self.index == "messages" else "the scores of a query model"
        lines = [
            f"reduce: the best B entities of every variable, by {by}",
            *(f"marginalise: the truth of {name}, all other variables existential" for name in free),
            *(f"keep to {said}" for clause in self.clauses for said in clause.describe_conditions()),
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


class Ns3(Engine[MergePlan]):
    """The paper's search under a budget."""

    name = "ns3"
    summary = "NS3: marginalise, merge, search under a budget; certified where it can be"
    exact = True
    batched = True
    prunes = True
    options = Ns3Options
    conditions = ALL_CONDITIONS
    joint = True

    def load(self, source: Source) -> None:
        from tuplet.engines.ns3 import run as _  # noqa: F401 - loading is the point

    def plan(self, clauses: Clauses, source: Source, limits: Limits) -> MergePlan:
        source.values()
        return MergePlan(clauses, source, self.joint, self.settings(limits.options).index)

    def run(self, plan: MergePlan, limits: Limits, deadline: Deadline) -> Ranking:
        return self._run([plan], limits, deadline, explain=True)[0]

    def run_many(self, plans: Sequence[MergePlan], limits: Limits, deadline: Deadline) -> list[Ranking]:
        """The rankings of several plans; where all tuples are asked for, these are whole boxes without witnesses."""
        return self._run(plans, limits, deadline, explain=limits.k != "all")

    def kept(self, plans: Sequence[MergePlan], limits: Limits, deadline: Deadline, first: int) -> list[Ranking]:
        """Whole boxes without witnesses; `exact` says whether the first tuples are proven to be the best.

        A budget that adapts grows until as many tuples are proven as the limits ask for.
        """
        return self._run(plans, limits, deadline, explain=False, first=first)

    def _run(
        self, plans: Sequence[MergePlan], limits: Limits, deadline: Deadline, explain: bool, first: int | None = None
    ) -> list[Ranking]:
        from tuplet.engines.ns3.algorithm import BoxBudget
        from tuplet.engines.ns3.run import run_many, run_marginal
        from tuplet.engines.ns3.tensors import count_memory

        filters = [admits(limits.only, plan.clauses, plan.source, deadline) for plan in plans]
        queries, rank = [plan.clauses for plan in plans], plans[0].source.graph.entities.sort_rank
        count, budget = limits.count(1 << 62), BoxBudget.from_limits(limits)
        try:
            with count_memory(limits, deadline):
                search = self.search(plans, limits, deadline)
                if self.joint:
                    return run_many(queries, search, count, budget, filters, explain, first, rank)
                both = zip(queries, filters, strict=True)
                return [run_marginal(own, search, limits.count(LISTED), budget, test, rank) for own, test in both]
        except OutOfTime as over:
            return [stop_ranking(clauses, over.why, explain=explain or not self.joint) for clauses in queries]

    def search(self, plans: Sequence[MergePlan], limits: Limits, deadline: Deadline) -> FuzzySearch:
        """The search on what these plans need of their source."""
        from tuplet.engines.ns3.run import make_search
        from tuplet.predict.device import pick_device

        options, source = self.settings(limits.options), plans[0].source
        device = str(pick_device(options.device))
        found = make_search([plan.clauses for plan in plans], source, limits.rules, deadline, device)
        if options.index == "messages":
            return found
        index = load_class("indexes", options.index)
        return replace(found, index=index.from_folder(options.model, source, found.table, deadline))

    def score(self, plan: MergePlan, tuples: Tuples, limits: Limits, deadline: Deadline) -> Values:
        # The truth of a given tuple needs no search: it is the exact engine's.
        from tuplet.engines.exact import Exact

        exact = Exact()
        return exact.score(exact.plan(plan.clauses, plan.source, limits), tuples, limits, deadline)


class Ns3Marginal(Ns3, MarginalEngine[MergePlan]):
    """NS3's marginals, multiplied."""

    name = "ns3-marginal"
    summary = "tuples by the product of NS3's marginals: an estimate of the joint ranking"
    exact = False
    conditions = (Within, Outside)  # its tuples are not judged as a whole
    joint = False

    def marginals(self, plans: Sequence[MergePlan], limits: Limits, deadline: Deadline) -> Sequence[Scores]:
        from tuplet.engines.ns3.algorithm import BoxBudget
        from tuplet.engines.ns3.run import marginal_vectors

        budget = BoxBudget.from_limits(limits)
        return marginal_vectors([plan.clauses for plan in plans], self.search(plans, limits, deadline), budget)
