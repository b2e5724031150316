"""The baselines as engines: tuples are ranked by the product of their members' marginals.

What a baseline computes is imported when it is first used, so that listing engines brings in no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tuplet.query.engine import Engine, Plan, Tuples, Values
from tuplet.query.limits import Deadline, Limits, Option, OutOfTime
from tuplet.query.ranking import Clauses, Ranking
from tuplet.query.source import Source

if TYPE_CHECKING:
    from tuplet.baselines.base import Baseline, Scores


@dataclass(frozen=True)
class Marginals(Plan):
    """A plan of fixed lines: every baseline does the same for every query."""

    lines: tuple[str, ...]

    def text(self, entity: Callable[[int], str], relation: Callable[[int], str]) -> str:
        """The lines."""
        return "\n".join(self.lines)


class MarginalEngine(Engine[Marginals]):
    """A baseline as an engine: tuples by the product (godel: the minimum) of their members' marginals; never exact."""

    module: ClassVar[str]  # where its `BASELINE` is
    batched = True
    marginal = True

    @cached_property
    def baseline(self) -> Baseline[Any]:
        """What computes the marginals."""
        found: Baseline[Any] = import_module(self.module).BASELINE
        return found

    def settings(self, given: Mapping[str, Option]) -> Any:
        from tuplet.settings import from_options

        return from_options(self.baseline.settings, given, f"engine {self.name!r}")

    def load(self) -> None:
        self.baseline.load()

    def plan(self, clauses: Clauses, source: Source, limits: Limits) -> Marginals:
        source.values()
        for clause in clauses:
            self.baseline.refuse(clause)
        free = [f"?{clauses[0].variables[v]}" for v in clauses[0].free]
        lines = [*self.baseline.steps, *(f"marginal: every entity for {name}, the others existential" for name in free)]
        if len(free) > 1:
            lines.append(f"rank tuples by the product of the marginals of their members ({self.baseline.values})")
        return Marginals(clauses, source, tuple(lines))

    def marginals(self, plans: Sequence[Marginals], limits: Limits, deadline: Deadline) -> Sequence[Scores]:
        """The scores of every entity for each free variable, of queries of one shape: [k, entities] each."""
        return self.baseline.marginals_batch([p.clauses for p in plans], plans[0].source, limits, deadline)

    def truth(self, scores: Scores) -> NDArray[np.float64]:
        """Scores as numbers that may be multiplied."""
        return self.baseline.truth(scores)

    def run(self, plan: Marginals, limits: Limits, deadline: Deadline) -> Ranking:
        import torch

        from tuplet.engines.marginals import LISTED, Members, top_products
        from tuplet.engines.ns3.run import explain_tuples, stopped

        table = plan.source.table(plan.clauses)  # for the witnesses, also of baselines that do not search it
        try:
            vectors = self.truth(self.marginals([plan], limits, deadline)[0])
            members = []
            for vector in vectors:
                entities = np.flatnonzero(vector > 0)
                members.append(Members(torch.as_tensor(entities), torch.as_tensor(vector[entities])))
            found, value = top_products(
                members, limits.count(LISTED), limits.rules, plan.clauses, limits.only, plan.source, deadline
            )
            tuples = found.numpy().astype(np.int32)
            assignments = explain_tuples(plan.clauses, table, tuples, limits.rules, deadline)
        except OutOfTime:
            return stopped(None, plan.clauses)
        return Ranking(tuples, value.numpy(), assignments, exact=False, bound=1.0, pruned=self.note(limits))

    def note(self, limits: Limits) -> str:
        """What every list of this engine says of itself."""
        how = "product" if limits.logic == "product" else "minimum"
        return f"truth is the {how} of marginals ({self.baseline.values}), and this is not an exact engine"

    def score(self, plan: Marginals, tuples: Tuples, limits: Limits, deadline: Deadline) -> Values:
        vectors = self.truth(self.marginals([plan], limits, deadline)[0])
        return limits.rules.all(np.stack([v[column] for v, column in zip(vectors, tuples.T, strict=True)], axis=1))


class Fit(MarginalEngine):
    """FIT."""

    name = "fit"
    summary = "FIT: max-marginals of each variable on the truth table"
    module = "tuplet.baselines.symbolic.fit"


class Qto(MarginalEngine):
    """QTO."""

    name = "qto"
    summary = "QTO: exact max-product on trees, negation made stricter"
    module = "tuplet.baselines.symbolic.qto"


class Cqd(MarginalEngine):
    """CQD."""

    name = "cqd"
    summary = "CQD: beam search or gradient over the scores of a link predictor"
    module = "tuplet.baselines.symbolic.cqd"


class TrainedEngine(MarginalEngine):
    """A query model: it needs a model of its own, so it is for the command line and Python."""

    needs_model = True
    served = False


class Lmpnn(TrainedEngine):
    """LMPNN."""

    name = "lmpnn"
    summary = "LMPNN: logical message passing over a link predictor's embeddings"
    module = "tuplet.baselines.trained.lmpnn"


class BetaE(TrainedEngine):
    """BetaE."""

    name = "betae"
    summary = "BetaE: queries as Beta distributions"
    module = "tuplet.baselines.trained.betae"


class LogicE(TrainedEngine):
    """LogicE."""

    name = "logice"
    summary = "LogicE: queries as truth intervals of latent features"
    module = "tuplet.baselines.trained.logice"


class ConE(TrainedEngine):
    """ConE."""

    name = "cone"
    summary = "ConE: queries as cones"
    module = "tuplet.baselines.trained.cone"
