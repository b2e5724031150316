"""The engines by name, each behind the same small protocol; their modules are imported when they are used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np

from tuplet.engine.explain import Edges, Stated
from tuplet.engine.logic import PRODUCT, Logic
from tuplet.engine.ns3.budget import DEFAULT, Budget
from tuplet.engine.ranking import Clauses, Ranking
from tuplet.errors import BadInput, nearest
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.graph import KnowledgeGraph
from tuplet.truth.table import Truth, TruthTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tuplet.engine.ns3.sparse import Table

Option: TypeAlias = str | int | float


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

    @cached_property
    def tensors(self) -> Table | None:
        """The whole truth table in torch, for many queries at once; None if truth is computed on demand."""
        from tuplet.engine.ns3.sparse import Table

        return Table.of(self.truth) if isinstance(self.truth, TruthTable) else None

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
    budget: Budget = DEFAULT  # of ns3; the other engines have none
    memory: int | None = None  # bytes of search state that exact may hold
    work: int | None = None  # edges that exact may look at
    options: Mapping[str, Option] = field(default_factory=dict)  # of a baseline, by name

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
        self, clauses: Clauses, source: Source, tuples: NDArray[np.int32], limits: Limits
    ) -> NDArray[np.float64]: ...


class Crisp:
    """Observed facts only, Boolean."""

    def load(self) -> None:
        import tuplet.engine.crisp.kernels as _  # noqa: F401 - loading is the point

    def plan(self, clauses: Clauses, source: Source) -> Plan:
        from tuplet.engine import crisp

        return crisp.plan(clauses, source.facts)

    def run(self, clauses: Clauses, source: Source, limits: Limits) -> Ranking:
        from tuplet.engine import crisp

        if limits.only == "predicted":
            return nothing(clauses[0].free)  # facts alone predict nothing
        return crisp.run(crisp.plan(clauses, source.facts), source.facts, limits.k, limits.timeout)

    def score(self, clauses: Clauses, source: Source, tuples: NDArray[np.int32], limits: Limits) -> NDArray[np.float64]:
        from tuplet.engine import crisp

        return crisp.holds(clauses, source.facts, tuples).astype(np.float64)


@dataclass(frozen=True)
class Printed:
    """A plan that says itself what it will do, without names."""

    plan: object

    def text(self, entity: Callable[[int], str], relation: Callable[[int], str]) -> str:
        """What the plan prints."""
        return str(self.plan)


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

        truth = source.table(clauses, "brute")  # everything is looked at: rows computed one by one would take minutes
        return brute.run(clauses, truth, limits.count(truth.entities, clauses), limits.logic, limits.only)

    def score(self, clauses: Clauses, source: Source, tuples: NDArray[np.int32], limits: Limits) -> NDArray[np.float64]:
        from tuplet.engine import brute

        return brute.score(clauses, source.values("brute"), tuples, limits.logic)


class Exact:
    """The exact joint top-k over all of E^k, with a bound on the rest."""

    @cache  # noqa: B019 - the only engine of its kind lives as long as the process
    def load(self) -> None:
        from tuplet.engine import exact

        exact.warm()

    def plan(self, clauses: Clauses, source: Source) -> Plan:
        from tuplet.engine import exact

        return Printed(exact.plan(clauses, source.table(clauses, "exact")))

    def run(self, clauses: Clauses, source: Source, limits: Limits) -> Ranking:
        from tuplet.engine import exact

        table = source.table(clauses, "exact")
        facts = source.facts if limits.only else None
        count = limits.count(table.entities, clauses)
        plan = exact.plan(clauses, table)
        return exact.run(
            plan, table, count, limits.logic, limits.timeout, limits.memory, limits.work, only=limits.only, facts=facts
        )

    def score(self, clauses: Clauses, source: Source, tuples: NDArray[np.int32], limits: Limits) -> NDArray[np.float64]:
        from tuplet.engine import exact

        return exact.score(clauses, source.table(clauses, "exact"), tuples, limits.logic)


@dataclass(frozen=True)
class Merging:
    """The plan of NS3: which tuples are looked at is decided by fuzzy counts while it runs."""

    clauses: Clauses
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


@dataclass(frozen=True)
class Ns3:
    """The paper's search: marginalise, merge, budget (`joint`), or its marginals alone."""

    joint: bool

    def load(self) -> None:
        import tuplet.engine.ns3.run as _  # noqa: F401 - loading is the point

    def plan(self, clauses: Clauses, source: Source) -> Plan:
        return Merging(clauses, self.joint)

    def run(self, clauses: Clauses, source: Source, limits: Limits) -> Ranking:
        from tuplet.engine.ns3 import run as ns3_run

        table = source.table(clauses, "ns3")
        search = ns3_run.run if self.joint else ns3_run.run_marginal
        count = limits.count(table.entities, clauses)
        return search(clauses, table, count, limits.budget, limits.logic, limits.only, limits.timeout)

    def score(self, clauses: Clauses, source: Source, tuples: NDArray[np.int32], limits: Limits) -> NDArray[np.float64]:
        # The truth of a given tuple needs no search: it is the exact engine's.
        return Exact().score(clauses, source, tuples, limits)


@dataclass(frozen=True)
class Elsewhere:
    """An engine of a layer above this one: `tuplet.baselines` makes it when it is first used."""

    name: str

    @cached_property
    def engine(self) -> Any:
        """The engine itself, a `tuplet.baselines.base.MarginalEngine`."""
        return import_module("tuplet.baselines").engine(self.name)

    def load(self) -> None:
        self.engine.load()

    def plan(self, clauses: Clauses, source: Source) -> Plan:
        plan: Plan = self.engine.plan(clauses, source)
        return plan

    def run(self, clauses: Clauses, source: Source, limits: Limits) -> Ranking:
        ranking: Ranking = self.engine.run(clauses, source, limits)
        return ranking

    def score(self, clauses: Clauses, source: Source, tuples: NDArray[np.int32], limits: Limits) -> NDArray[np.float64]:
        truth: NDArray[np.float64] = self.engine.score(clauses, source, tuples, limits)
        return truth


BASELINES = ("fit", "qto", "cqd", "lmpnn", "betae", "logice", "cone")

ENGINES: Mapping[str, Engine] = {
    "crisp": Crisp(),
    "brute": Brute(),
    "exact": Exact(),
    "ns3": Ns3(joint=True),
    "ns3-marginal": Ns3(joint=False),
    **{name: Elsewhere(name) for name in BASELINES},
}


def engine_named(name: str) -> Engine:
    """The engine of that name."""
    if name not in ENGINES:
        close = nearest(name, ENGINES) or list(ENGINES)
        raise BadInput(f"unknown engine {name!r}; did you mean {' or '.join(map(repr, close))}?")
    return ENGINES[name]


def check_options(name: str, options: Mapping[str, Option]) -> None:
    """Refuse options that the engine does not have; all engines but the baselines have none."""
    engine = engine_named(name)
    if isinstance(engine, Elsewhere):
        engine.engine.settings(options)
    elif options:
        raise BadInput(f"engine {name!r} takes no options (given: {', '.join(options)}); only the baselines do")


def nothing(free: Sequence[int]) -> Ranking:
    """The ranking of a query that cannot hold."""
    return Ranking(np.empty((0, len(free)), np.int32), np.empty(0), (), exact=True, bound=0.0)
