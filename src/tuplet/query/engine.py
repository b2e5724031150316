"""What an engine is: it plans a bound query on a source, and runs the plan. Capabilities are attributes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.query.conditions import BoundCondition
from tuplet.query.limits import Deadline, Limits, Option
from tuplet.query.ranking import Clauses, Ranking
from tuplet.query.source import Source
from tuplet.settings import from_options

Tuples: TypeAlias = NDArray[np.int32]  # [n, k]
Values: TypeAlias = NDArray[np.float64]  # [n]


@dataclass(frozen=True)
class Plan:
    """How one engine will answer one query: what `--plan` prints is the object that runs."""

    clauses: Clauses
    source: Source

    def text(self, entity: Callable[[int], str], relation: Callable[[int], str]) -> str:
        """The plan for people; entities and relations are named by the given functions."""
        return ""


P = TypeVar("P", bound=Plan)


@dataclass(frozen=True)
class NoOptions:
    """An engine without settings of its own."""


class Engine(ABC, Generic[P]):
    """A way to answer. Subclass it, name it in an entry point of the group `tuplet.engines`, and it can be asked."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line: what it is
    exact: ClassVar[bool] = False  # may prove that its order is the true one
    needs_truth: ClassVar[bool] = True  # wants truth values; False: facts are enough
    needs_model: ClassVar[bool] = False  # wants a trained model of its own (an option)
    batched: ClassVar[bool] = False  # `run_many` is more than a loop
    forks: ClassVar[bool] = False  # many queries may be divided among forked processes (no torch inside)
    marginal: ClassVar[bool] = False  # ranks each variable on its own: has `marginals`
    prunes: ClassVar[bool] = False  # what it does not list counts as missed, whatever its truth
    served: ClassVar[bool] = True  # may be asked over HTTP
    looks_often: ClassVar[bool] = False  # its searches look at their deadline often, whatever they compute
    plans_by_limits: ClassVar[bool] = True  # False: the same plan serves every call with the same query
    arranges: ClassVar[bool] = False  # among equals its tuples come in the order of their names
    conditions: ClassVar[tuple[type[BoundCondition], ...]] = ()  # the kinds of conditions on variables that it keeps to
    options: ClassVar[type[Any]] = NoOptions  # a frozen dataclass of knobs

    def load(self, source: Source) -> None:
        """Bring in what is compiled for a source, so that the time of an answer is the time of the search."""

    def settings(self, given: Mapping[str, Option]) -> Any:
        """The options, checked."""
        return from_options(self.options, given, f"engine {self.name!r}")

    def planned(self, clauses: Clauses, source: Source, limits: Limits) -> P:
        """The plan of a query; an engine that does not know a condition of it refuses, never ignores it."""
        for clause in clauses:
            for condition in clause.conditions:
                if not isinstance(condition, self.conditions):
                    what = "conditions on pairs of variables" if self.conditions else "conditions on variables"
                    raise BadInput(f"engine {self.name!r} does not know {what}; ask engine 'exact' or 'crisp'")
        return self.plan(clauses, source, limits)

    @abstractmethod
    def plan(self, clauses: Clauses, source: Source, limits: Limits) -> P:
        """How a query (at least one clause) will be answered."""

    @abstractmethod
    def run(self, plan: P, limits: Limits, deadline: Deadline) -> Ranking:
        """The best tuples, `limits.count` of them; what the deadline cuts short is said in `pruned`."""

    def run_many(self, plans: Sequence[P], limits: Limits, deadline: Deadline) -> list[Ranking]:
        """The rankings of several plans; rankings of a batched engine may come without witnesses."""
        return [self.run(plan, limits, deadline) for plan in plans]

    @abstractmethod
    def score(self, plan: P, tuples: Tuples, limits: Limits, deadline: Deadline) -> Values:
        """The truth of given tuples [n]; raises `OutOfTime` at the deadline."""
