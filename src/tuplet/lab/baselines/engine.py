"""The baselines as engines: tuples are ranked by the product of their members' marginals.

What a baseline computes is imported when it is first used, so that listing engines brings in no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.marginals import LISTED, MarginalEngine, Scores, admits, top_products
from tuplet.lab.baselines.options import CqdOptions, FitOptions, QtoOptions, TrainedOptions
from tuplet.query.conditions import Outside, Within
from tuplet.query.engine import Plan, Tuples, Values
from tuplet.query.limits import Deadline, Limits, OutOfTime
from tuplet.query.ranking import Clauses, Ranking
from tuplet.query.source import Source

if TYPE_CHECKING:
    from tuplet.lab.baselines.base import Baseline


@dataclass(frozen=True)
class BaselinePlan(Plan):
    """A plan of fixed lines: every baseline does the same for every query."""

    lines: tuple[str, ...]

    def text(self, entity: Callable[[int], str], relation: Callable[[int], str]) -> str:
        """The lines."""
        return "\n".join(self.lines)


class BaselineEngine(MarginalEngine[BaselinePlan]):
    """A baseline as an engine: tuples by the product (godel: the minimum) of their members' marginals; never exact."""

    module: ClassVar[str]  # where its `BASELINE` is

    @cached_property
    def baseline(self) -> Baseline[Any]:
        """What computes the marginals."""
        found: Baseline[Any] = import_module(self.module).BASELINE
        return found

    def load(self, source: Source) -> None:
        self.baseline.load()

    def plan(self, clauses: Clauses, source: Source, limits: Limits) -> BaselinePlan:
        source.values()
        for clause in clauses:
            self.baseline.refuse(clause)
        free = [f"?{clauses[0].variables[v]}" for v in clauses[0].free]
        lines = [*self.baseline.steps, *(f"marginal: every entity for {name}, the others existential" for name in free)]
        lines += [f"keep to {said}" for clause in clauses for said in clause.described()]
        if len(free) > 1:
            lines.append(f"rank tuples by the product of the marginals of their members ({self.baseline.values})")
        return BaselinePlan(clauses, source, tuple(lines))

    def marginals(self, plans: Sequence[BaselinePlan], limits: Limits, deadline: Deadline) -> Sequence[Scores]:
        return self.baseline.marginals_batch([p.clauses for p in plans], plans[0].source, limits, deadline)

    def truth(self, scores: Scores) -> NDArray[np.float64]:
        return self.baseline.truth(scores)

    def run(self, plan: BaselinePlan, limits: Limits, deadline: Deadline) -> Ranking:
        return self.run_many([plan], limits, deadline)[0]

    def run_many(self, plans: Sequence[BaselinePlan], limits: Limits, deadline: Deadline) -> list[Ranking]:
        from tuplet.engines.ns3.run import stopped
        from tuplet.engines.ns3.tensors import counted

        with counted(limits, deadline):
            try:
                scores = self.marginals(plans, limits, deadline)
            except OutOfTime as over:
                return [stopped(plan.clauses, over.why) for plan in plans]
            return [self._ranking(plan, own, limits, deadline) for plan, own in zip(plans, scores, strict=True)]

    def _ranking(self, plan: BaselinePlan, scores: Scores, limits: Limits, deadline: Deadline) -> Ranking:
        """The tuples of one query, with the witnesses that the truth table has for them."""
        from tuplet.engines.ns3.run import explain_tuples, search_of, stopped

        clauses, source, rules = plan.clauses, plan.source, limits.rules
        try:
            admitted = admits(limits.only, clauses, source, deadline)
            tuples, value = top_products(
                self.truth(scores), limits.count(LISTED), rules, admitted, source.graph.entities.sort_rank
            )
            found = explain_tuples(clauses, search_of([clauses], source, rules, deadline), tuples)
        except OutOfTime as over:
            return stopped(clauses, over.why)
        how = f"truth is the {rules.word} of marginals ({self.baseline.values}), and this is not an exact engine"
        return Ranking(tuples, value, found, exact=False, bound=1.0, pruned=how)

    def score(self, plan: BaselinePlan, tuples: Tuples, limits: Limits, deadline: Deadline) -> Values:
        vectors = self.truth(self.marginals([plan], limits, deadline)[0])
        return limits.rules.all(np.stack([v[column] for v, column in zip(vectors, tuples.T, strict=True)], axis=1))


class SymbolicEngine(BaselineEngine):
    """A baseline that searches: entities that a condition excludes have no truth."""

    conditions = (Within, Outside)


class FitEngine(SymbolicEngine):
    """FIT."""

    name = "fit"
    summary = "FIT: max-marginals of each variable on the truth table"
    module = "tuplet.lab.baselines.symbolic.fit"
    options = FitOptions


class QtoEngine(SymbolicEngine):
    """QTO."""

    name = "qto"
    summary = "QTO: exact max-product on trees, negation made stricter"
    module = "tuplet.lab.baselines.symbolic.qto"
    options = QtoOptions


class CqdEngine(SymbolicEngine):
    """CQD."""

    name = "cqd"
    summary = "CQD: beam search or gradient over the scores of a link predictor"
    module = "tuplet.lab.baselines.symbolic.cqd"
    options = CqdOptions


class TrainedEngine(BaselineEngine):
    """A query model: it needs a model of its own, so it is for the command line and Python."""

    needs_model = True
    options = TrainedOptions
    served = False


class LmpnnEngine(TrainedEngine):
    """LMPNN."""

    name = "lmpnn"
    summary = "LMPNN: logical message passing over a link predictor's embeddings"
    module = "tuplet.lab.baselines.trained.lmpnn"


class BetaEEngine(TrainedEngine):
    """BetaE."""

    name = "betae"
    summary = "BetaE: queries as Beta distributions"
    module = "tuplet.lab.baselines.trained.betae"


class LogicEEngine(TrainedEngine):
    """LogicE."""

    name = "logice"
    summary = "LogicE: queries as truth intervals of latent features"
    module = "tuplet.lab.baselines.trained.logice"


class ConEEngine(TrainedEngine):
    """ConE."""

    name = "cone"
    summary = "ConE: queries as cones"
    module = "tuplet.lab.baselines.trained.cone"
