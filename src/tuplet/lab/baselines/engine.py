"""The baselines as engines: tuples are ranked by the product of their members' marginals.

A baseline answers marginally, one score vector over all entities for each free variable, computed in `symbolic.py` or
`models.py`; ranking tuples, options and refusals are written once for all of them. What it computes with is imported
when it is first used: listing engines needs no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.marginals import LISTED, MarginalEngine, Scores, admits, top_products
from tuplet.errors import BadInput
from tuplet.query.conditions import Outside, Within
from tuplet.query.engine import Plan, Tuples, Values
from tuplet.query.limits import Deadline, Limits, OutOfTime
from tuplet.query.ranking import Clauses, QueryGraph, Ranking, stop_ranking
from tuplet.query.source import Source
from tuplet.settings import knob

M = TypeVar("M")
Load: TypeAlias = Callable[[str, str], M]  # a folder and a device → a model


def open_once(load: Load[M], path: str, device: str, source: Source) -> M:
    """The model in a folder, opened once; it must be of the graph that is asked."""
    from tuplet.predict.model_folder import DESCRIPTION, describe, find_model_folder

    about = describe(path)
    sizes = len(source.graph.entities), len(source.graph.relations)
    if (about["entities"], about["relations"]) != sizes:
        raise BadInput(
            f"the model {path} has {about['entities']:,} entities and {about['relations']:,} relations, "
            f"the graph {sizes[0]:,} and {sizes[1]:,}"
        )
    opened: M = _open(load, path, device, (find_model_folder(path) / DESCRIPTION).stat().st_mtime_ns)
    return opened


@lru_cache(maxsize=2)
def _open(load: Load[M], path: str, device: str, changed: int) -> M:
    return load(path, device)


@dataclass(frozen=True)
class FitOptions:
    """How FIT searches."""

    most: int | None = knob(10, "candidates tried where a cycle is cut, besides those of truth 1; all: exact", least=1)
    mode: str = knob("fair", "fair, or paper: one way only, most candidates in all", choices=("fair", "paper"))


@dataclass(frozen=True)
class QtoOptions:
    """How QTO counts negation."""

    neg_scale: float = knob(1.0, "a negated atom counts 1 − min(1, neg_scale · truth)", least=0)


@dataclass(frozen=True)
class CqdOptions:
    """How CQD searches."""

    method: str = knob("beam", "beam (on the truth table, or on a model) or co (gradient)", choices=("beam", "co"))
    beam: int = knob(64, "of beam: entities of a variable that are carried on", least=1)
    model: str = knob("", "the folder of a bilinear link predictor (tuplet train); beam can do without")
    steps: int = knob(1000, "of co: gradient steps at most", least=1)
    learning_rate: float = knob(0.1, "of co: step size of AdamW", least=0)
    regularisation: float = knob(0.05, "of co: weight of Σ|·|³ over the vectors of the variables", least=0)
    seed: int = knob(0, "of co: decides the initial vectors", least=0)
    device: str = knob("cpu", "of a model: cpu or cuda")


@dataclass(frozen=True)
class TrainedOptions:
    """Where a query model is, and where it runs."""

    model: str = knob("", "a folder of `tuplet train --model NAME`")
    device: str = knob("auto", "auto, cpu or cuda")


@dataclass(frozen=True)
class BaselinePlan(Plan):
    """A plan of fixed lines: every baseline does the same for every query."""

    lines: tuple[str, ...]

    def text(self, entity: Callable[[int], str], relation: Callable[[int], str]) -> str:
        return "\n".join(self.lines)


class BaselineEngine(MarginalEngine[BaselinePlan]):
    """A baseline as an engine: tuples by the product (godel: the minimum) of their members' marginals; never exact.

    It has `marginals`; its scores are made numbers in 0 … 1 that may be multiplied by `truth`, a monotone map.
    """

    steps: ClassVar[tuple[str, ...]]  # what it does, as `--plan` prints it
    values: ClassVar[str] = "truth values"  # what the marginals that are multiplied are: e.g. "sigmoid of the scores"
    module: ClassVar[str]  # of this package: what computes

    @property
    def code(self) -> Any:
        """The module that computes, imported when it is first used."""
        return import_module(f"tuplet.lab.baselines.{self.module}")

    def load(self, source: Source) -> None:
        _ = self.code

    def refuse(self, clause: QueryGraph) -> None:
        """Raise `Refused` for a clause that this method cannot answer, naming what it is that it cannot."""

    def plan(self, clauses: Clauses, source: Source, limits: Limits) -> BaselinePlan:
        source.values()
        for clause in clauses:
            self.refuse(clause)
        free = [f"?{clauses[0].variables[v]}" for v in clauses[0].free]
        lines = [*self.steps, *(f"marginal: every entity for {name}, the others existential" for name in free)]
        lines += [f"keep to {said}" for clause in clauses for said in clause.describe_conditions()]
        if len(free) > 1:
            lines.append(f"rank tuples by the product of the marginals of their members ({self.values})")
        return BaselinePlan(clauses, source, tuple(lines))

    def run(self, plan: BaselinePlan, limits: Limits, deadline: Deadline) -> Ranking:
        return self.run_many([plan], limits, deadline)[0]

    def run_many(self, plans: Sequence[BaselinePlan], limits: Limits, deadline: Deadline) -> list[Ranking]:
        from tuplet.engines.ns3.tensors import count_memory

        with count_memory(limits, deadline):
            try:
                scores = self.marginals(plans, limits, deadline)
            except OutOfTime as over:
                return [stop_ranking(plan.clauses, over.why) for plan in plans]
            return [self._ranking(plan, own, limits, deadline) for plan, own in zip(plans, scores, strict=True)]

    def _ranking(self, plan: BaselinePlan, scores: Scores, limits: Limits, deadline: Deadline) -> Ranking:
        """The tuples of one query, with the witnesses that the truth table has for them."""
        from tuplet.engines.ns3.batch import ClauseBatch
        from tuplet.engines.ns3.run import explain_tuples, make_search

        clauses, source, rules = plan.clauses, plan.source, limits.rules
        try:
            admitted = admits(limits.only, clauses, source, deadline)
            tuples, value = top_products(
                self.truth(scores), limits.count(LISTED), rules, admitted, source.graph.entities.sort_rank
            )
            search = make_search([clauses], source, rules, deadline)
            asked = [ClauseBatch.from_graphs([clause], search.table) for clause in clauses]
            found = explain_tuples(asked, search, tuples)
        except OutOfTime as over:
            return stop_ranking(clauses, over.why)
        how = f"truth is the {rules.word} of marginals ({self.values}), and this is not an exact engine"
        return Ranking(tuples, value, found, exact=False, bound=1.0, pruned=how)

    def score(self, plan: BaselinePlan, tuples: Tuples, limits: Limits, deadline: Deadline) -> Values:
        vectors = self.truth(self.marginals([plan], limits, deadline)[0])
        return limits.rules.all(np.stack([v[column] for v, column in zip(vectors, tuples.T, strict=True)], axis=1))


class SymbolicEngine(BaselineEngine):
    """A baseline that searches: entities that a condition excludes have no truth."""

    conditions = (Within, Outside)

    module = "symbolic"

    def marginals(self, plans: Sequence[BaselinePlan], limits: Limits, deadline: Deadline) -> Sequence[Scores]:
        asked = [plan.clauses for plan in plans], plans[0].source, self.settings(limits.options), limits.rules, deadline
        found: Sequence[Scores] = getattr(self.code, self.name)(*asked)  # the function of that name
        return found


class FitEngine(SymbolicEngine):
    name = "fit"
    summary = "FIT: max-marginals of each variable on the truth table"
    options = FitOptions
    steps = (
        "absorb constants, then leaves: C[v][b] *= max_a C[u][a] · P(a, b), 1 − P where negated",
        "cut a cycle at its smallest variable: try the best candidates, keep the maximum",
    )


class QtoEngine(SymbolicEngine):
    name = "qto"
    summary = "QTO: exact max-product on trees, negation made stricter"
    options = QtoOptions
    steps = (
        "from the leaves of the tree to its root: v[b] *= max_a u[a] · P(a, b), 1 − min(1, scale · P) where negated",
    )

    def refuse(self, clause: QueryGraph) -> None:
        self.code.refuse_cycles(clause, self.name)


class CqdEngine(SymbolicEngine):
    name = "cqd"
    summary = "CQD: beam search or gradient over the scores of a link predictor"
    options = CqdOptions
    steps = (
        "beam: from the constants outward, carry on the best entities of each variable",
        "co: optimise one vector for each variable, then put every entity in its place",
    )
    values = "truth values; with a model, sigmoids of its scores"


class TrainedEngine(BaselineEngine):
    """A query model: it needs a model of its own, so it is for the command line and Python.

    It answers any query graph, unions by the best of their clauses.
    """

    needs_model = True
    options = TrainedOptions
    served = False
    values = "softmax of the scores over all entities"

    module = "models"

    def refuse(self, clause: QueryGraph) -> None:
        self.code.refuse_unreached(self.name, clause)

    def marginals(self, plans: Sequence[BaselinePlan], limits: Limits, deadline: Deadline) -> Sequence[Scores]:
        options, queries = self.settings(limits.options), [plan.clauses for plan in plans]
        found: Sequence[Scores] = self.code.marginals(self.name, queries, plans[0].source, options, deadline)
        return found

    def truth(self, scores: Scores) -> NDArray[np.float64]:
        share: NDArray[np.float64] = self.code.softmax(scores)
        return share


UNSEEN = "inequalities and atoms r(x, x) are not seen by the model"


class LmpnnEngine(TrainedEngine):
    name = "lmpnn"
    summary = "LMPNN: logical message passing over a link predictor's embeddings"
    steps = ("messages along all edges in both directions, as many layers as variables, on a frozen ComplEx", UNSEEN)


class BetaEEngine(TrainedEngine):
    name = "betae"
    summary = "BetaE: queries as Beta distributions"
    steps = (
        "each node a product of Beta distributions: project along edges, intersect by attention, "
        "negate by the reciprocal",
        UNSEEN,
    )


class LogicEEngine(TrainedEngine):
    name = "logice"
    summary = "LogicE: queries as truth intervals of latent features"
    steps = (
        "each node a vector of truth values: project along edges, intersect by a weighted t-norm, negate by 1 − x",
        UNSEEN,
    )


class ConEEngine(TrainedEngine):
    name = "cone"
    summary = "ConE: queries as cones"
    steps = (
        "each node a product of sectors: project along edges, intersect by a mean on the circle, negate by the rest",
        UNSEEN,
    )
