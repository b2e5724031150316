"""The engines by name, each behind the same small protocol; their modules are imported when they are used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from tuplet.engine.explain import Edges, Stated
from tuplet.engine.logic import PRODUCT, Logic
from tuplet.engine.ranking import Clauses, Ranking
from tuplet.errors import BadInput, nearest
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.graph import KnowledgeGraph
from tuplet.truth.table import Truth, TruthTable

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Source:
    """What is asked: the names and stated facts of a graph, and truth values if there are any."""

    graph: KnowledgeGraph
    splits: tuple[str, ...] | None = None  # the splits that count as observed; None: all
    truth: Truth | None = None
    about: Mapping[str, Any] = field(default_factory=dict)  # what made the truth: threshold, calibration, predictor

    @cached_property
    def facts(self) -> Adjacency:
        """The observed facts."""
        return self.graph.observed(self.splits)

    @cached_property
    def edges(self) -> Edges:
        """Truth values for explanations: the store's, or plain yes and no."""
        return self.truth if self.truth is not None else Stated(self.facts)

    def table(self, clauses: Clauses, engine: str) -> TruthTable:
        """The truth table an engine searches; of rows on demand, the relations that the query names."""
        truth = self.values(engine)
        if isinstance(truth, TruthTable):
            return truth
        made: TruthTable = truth.relation_table(sorted({e.relation for c in clauses for e in c.edges}))  # type: ignore[attr-defined]
        return made

    def values(self, engine: str) -> Truth:
        """The truth values, which a plain graph does not have."""
        if self.truth is None:
            raise BadInput(
                f"engine {engine!r} needs a store with truth values (tuplet build, tuplet index); "
                "a plain graph is asked with engine 'crisp'"
            )
        return self.truth


@dataclass(frozen=True)
class Limits:
    """How much is wanted and how long it may take; the same keys as the flags of `tuplet ask`."""

    k: int | None = 10  # None: all
    logic: Logic = PRODUCT
    timeout: float | None = None
    only: Literal["predicted", "observed"] | None = None

    def count(self, entities: int, clauses: Clauses) -> int:
        """k as a number, for engines that rank: all is everything there can be."""
        return self.k if self.k is not None else min(entities ** len(clauses[0].free), np.iinfo(np.int64).max >> 1)


class Plan(Protocol):
    """How a query will be answered; `text` names entities and relations by the given functions."""

    def text(self, entity: Callable[[int], str], relation: Callable[[int], str]) -> str: ...


class Engine(Protocol):
    """A way to answer: `plan` explains itself, `run` carries it out."""

    def load(self) -> None:
        """Bring in what is compiled, so that the time of an answer is the time of the search."""
        ...

    def plan(self, clauses: Clauses, source: Source) -> Plan: ...
    def run(self, clauses: Clauses, source: Source, limits: Limits) -> Ranking: ...
    def score(
        self, clauses: Clauses, source: Source, tuples: NDArray[np.int32], logic: Logic
    ) -> NDArray[np.float64]: ...


class Crisp:
    """Observed facts only, Boolean."""

    def load(self) -> None:
        import tuplet.engine.kernels.crisp as _  # noqa: F401 - loading is the point

    def plan(self, clauses: Clauses, source: Source) -> Plan:
        from tuplet.engine import crisp

        return crisp.plan(clauses, source.facts)

    def run(self, clauses: Clauses, source: Source, limits: Limits) -> Ranking:
        from tuplet.engine import crisp

        if limits.only == "predicted":
            return nothing(clauses[0].free)  # facts alone predict nothing
        return crisp.run(crisp.plan(clauses, source.facts), source.facts, limits.k, limits.timeout)

    def score(self, clauses: Clauses, source: Source, tuples: NDArray[np.int32], logic: Logic) -> NDArray[np.float64]:
        from tuplet.engine import crisp

        return crisp.holds(clauses, source.facts, tuples).astype(np.float64)


@dataclass(frozen=True)
class Enumeration:
    """The plan of the oracle: everything."""

    entities: int
    free: int

    def text(self, entity: Callable[[int], str], relation: Callable[[int], str]) -> str:
        """One line."""
        return f"enumerate all {self.entities:,}^{self.free} tuples"


class Brute:
    """The oracle: all of E^k, for small graphs."""

    def load(self) -> None:
        import tuplet.engine.brute as _  # noqa: F401 - loading is the point

    def plan(self, clauses: Clauses, source: Source) -> Plan:
        return Enumeration(len(source.graph.entities), len(clauses[0].free))

    def run(self, clauses: Clauses, source: Source, limits: Limits) -> Ranking:
        from tuplet.engine import brute

        truth = source.values("brute")
        return brute.run(clauses, truth, limits.count(truth.entities, clauses), limits.logic, limits.only)

    def score(self, clauses: Clauses, source: Source, tuples: NDArray[np.int32], logic: Logic) -> NDArray[np.float64]:
        from tuplet.engine import brute

        return brute.score(clauses, source.values("brute"), tuples, logic)


class Exact:
    """The exact joint top-k over all of E^k, with a bound on the rest."""

    def load(self) -> None:
        import tuplet.engine.kernels.exact_search as _  # noqa: F401 - loading is the point

    def plan(self, clauses: Clauses, source: Source) -> Plan:
        from tuplet.engine import exact

        return exact.plan(clauses, source.table(clauses, "exact"))

    def run(self, clauses: Clauses, source: Source, limits: Limits) -> Ranking:
        from tuplet.engine import exact

        table = source.table(clauses, "exact")
        facts = source.facts if limits.only else None
        count = limits.count(table.entities, clauses)
        plan = exact.plan(clauses, table)
        return exact.run(plan, table, count, limits.logic, limits.timeout, only=limits.only, facts=facts)

    def score(self, clauses: Clauses, source: Source, tuples: NDArray[np.int32], logic: Logic) -> NDArray[np.float64]:
        from tuplet.engine import exact

        return exact.score(clauses, source.table(clauses, "exact"), tuples, logic)


ENGINES: Mapping[str, Engine] = {"crisp": Crisp(), "brute": Brute(), "exact": Exact()}


def engine_named(name: str) -> Engine:
    """The engine of that name."""
    if name not in ENGINES:
        close = nearest(name, ENGINES) or list(ENGINES)
        raise BadInput(f"unknown engine {name!r}; did you mean {' or '.join(map(repr, close))}?")
    return ENGINES[name]


def nothing(free: Sequence[int]) -> Ranking:
    """The ranking of a query that cannot hold."""
    return Ranking(np.empty((0, len(free)), np.int32), np.empty(0), (), exact=True, bound=0.0)
