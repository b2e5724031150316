"""The whole pipeline on one screen: text → query → clauses → query graphs → plan → ranking → answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, cast

import numpy as np

from tuplet import __version__
from tuplet.engine.answers import Answers
from tuplet.engine.bind import bind
from tuplet.engine.explain import Edges, Stated, crisp_answers
from tuplet.engine.logic import PRODUCT, Logic
from tuplet.engine.ranking import Clauses, Ranking
from tuplet.errors import BadInput, nearest
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.ast import Query
from tuplet.lang.parse import parse
from tuplet.lang.printer import to_logic
from tuplet.truth.table import Truth


@dataclass(frozen=True)
class Source:
    """What is asked: the names and stated facts of a graph, and truth values if there are any."""

    graph: KnowledgeGraph
    splits: tuple[str, ...] | None = None  # the splits that count as observed; None: all
    truth: Truth | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def facts(self) -> Adjacency:
        """The observed facts."""
        return self.graph.observed(self.splits)

    @cached_property
    def edges(self) -> Edges:
        """Truth values for explanations: the store's, or plain yes and no."""
        return self.truth if self.truth is not None else Stated(self.facts)


@dataclass(frozen=True)
class Limits:
    """How much is wanted and how long it may take; the same keys as the flags of `tuplet ask`."""

    k: int | None = 10  # None: all
    logic: Logic = PRODUCT
    timeout: float | None = None
    only: str | None = None


class Engine(Protocol):
    """A way to answer: `plan` prints itself, `run` carries it out."""

    def load(self) -> None:
        """Bring in what is compiled, so that the time of an answer is the time of the search."""
        ...

    def plan(self, clauses: Clauses, source: Source, limits: Limits) -> Any: ...
    def run(self, plan: Any, source: Source, limits: Limits) -> Ranking: ...


class Crisp:
    """Observed facts only, Boolean."""

    def load(self) -> None:
        import tuplet.engine.kernels.crisp as _  # noqa: F401 - loading is the point

    def plan(self, clauses: Clauses, source: Source, limits: Limits) -> Any:
        from tuplet.engine import crisp

        return crisp.plan(clauses, source.facts)

    def run(self, plan: Any, source: Source, limits: Limits) -> Ranking:
        from tuplet.engine import crisp

        if limits.only == "predicted":
            return Ranking(
                np.empty((0, plan.width), np.int32), np.empty(0), (), exact=True, bound=0.0
            )  # facts alone predict nothing
        return crisp.run(plan, source.facts, limits.k, limits.timeout)


class Brute:
    """The oracle: all of E^k, for small graphs."""

    def load(self) -> None:
        import tuplet.engine.brute as _  # noqa: F401 - loading is the point

    def plan(self, clauses: Clauses, source: Source, limits: Limits) -> Any:
        return Enumeration(clauses, len(source.graph.entities))

    def run(self, plan: Any, source: Source, limits: Limits) -> Ranking:
        from tuplet.engine import brute

        clauses = plan.clauses
        k = limits.k if limits.k is not None else len(source.graph.entities) ** len(clauses[0].free)
        return brute.run(clauses, _truth(source, "brute"), k, limits.logic, cast(brute.Only, limits.only))


@dataclass(frozen=True)
class Enumeration:
    """The plan of the oracle: everything."""

    clauses: Clauses
    entities: int

    def __str__(self) -> str:
        return f"enumerate all {self.entities:,}^{len(self.clauses[0].free)} tuples"


def _truth(source: Source, engine: str) -> Truth:
    """The truth values an engine needs."""
    if source.truth is None:
        raise BadInput(f"engine {engine!r} needs a store with truth values; a plain graph is asked with engine 'crisp'")
    return source.truth


ENGINES: Mapping[str, Engine] = {"crisp": Crisp(), "brute": Brute()}


def engine_named(name: str) -> Engine:
    """The engine of that name."""
    if name not in ENGINES:
        close = nearest(name, ENGINES) or list(ENGINES)
        raise BadInput(f"unknown engine {name!r}; did you mean {' or '.join(map(repr, close))}?")
    return ENGINES[name]


def prepare(
    source: Source, query: str | Query, grounding: Mapping[str, Any] | None = None
) -> tuple[Query, str, tuple[Any, ...]]:
    """A query as syntax tree, as text, and as query graphs over the source."""
    if isinstance(query, Query):
        text = to_logic(query)
        return query, text, bind(query, source.graph)
    tree = parse(query, grounding)
    return tree, query, bind(tree, source.graph, query)


def ask(
    source: Source,
    query: str | Query,
    *,
    k: int | Literal["all"] | None = None,
    engine: str = "crisp",
    logic: str = "product",
    timeout: float | None = None,
    only: str | None = None,
    grounding: Mapping[str, Any] | None = None,
) -> Answers:
    """The answers of a query; `k` overrides its LIMIT, and without either there are 10."""
    runner = engine_named(engine)
    tree, text, clauses = prepare(source, query, grounding)
    limits = limits_of(tree, k, logic, timeout, only)
    runner.load()
    start = time.perf_counter()
    if clauses:
        ranking = runner.run(runner.plan(clauses, source, limits), source, limits)
    else:
        ranking = Ranking(np.empty((0, len(tree.free)), np.int32), np.empty(0), (), exact=True, bound=0.0)
    elapsed = 1000 * (time.perf_counter() - start)
    ranking = in_name_order(ranking, source.graph)
    return Answers(
        query=text,
        variables=tuple(variable.name for variable in tree.free),
        engine=engine,
        k=limits.k,
        ranking=ranking,
        clauses=clauses,
        graph=source.graph,
        edges=source.edges if engine != "crisp" else Stated(source.facts),
        crisp=_crisp(ranking, clauses, source, engine),
        elapsed_ms=round(elapsed, 3),
        about={
            "version": __version__,
            "graph": source.graph.hash,
            "observed": list(source.splits) if source.splits is not None else "all",
            "logic": limits.logic.name,
            **({"timeout": timeout} if timeout is not None else {}),
            **({"only": only} if only else {}),
            **(source.about if engine != "crisp" else {}),
        },
    )


def limits_of(
    tree: Query, k: int | Literal["all"] | None, logic: str, timeout: float | None, only: str | None
) -> Limits:
    """Limits as checked values."""
    if k is None:
        k = tree.limit if tree.limit is not None else 10
    if k != "all" and (not isinstance(k, int) or k < 0):
        raise BadInput(f"k must be a whole number from 0, or 'all', not {k!r}")
    count = None if k == "all" else k
    if timeout is not None and not timeout > 0:
        raise BadInput(f"the timeout must be positive, not {timeout}")
    if only not in (None, "predicted", "observed"):
        raise BadInput(f"only must be 'predicted' or 'observed', not {only!r}")
    return Limits(count, Logic.of(logic), timeout, only)


def plan_text(
    source: Source, query: str | Query, *, engine: str = "crisp", grounding: Mapping[str, Any] | None = None
) -> str:
    """What `--plan` prints: the query as understood, its clauses and the steps of the engine."""
    runner = engine_named(engine)
    tree, _, clauses = prepare(source, query, grounding)
    shapes = ", ".join(clause.shape() for clause in clauses) or "no clause can hold"
    head = f"query   {to_logic(tree)}\nclauses {len(clauses)} ({shapes})\nengine  {engine}\n"
    return head + (str(runner.plan(clauses, source, Limits())) if clauses else "nothing to do")


def in_name_order(ranking: Ranking, graph: KnowledgeGraph) -> Ranking:
    """The same ranking with ties in the order of entity names."""
    if len(ranking.tuples) < 2:
        return ranking
    keys = []
    for column in reversed(ranking.tuples.T):
        distinct, index = np.unique(column, return_inverse=True)
        names = np.array(graph.entities.names(distinct), dtype=object)
        rank = np.empty(len(distinct), dtype=np.int64)
        rank[np.argsort(names, kind="stable")] = np.arange(len(distinct))
        keys.append(rank[index])
    order = np.lexsort((*keys, -ranking.truth))
    return Ranking(
        ranking.tuples[order],
        ranking.truth[order],
        tuple(assignment[order] for assignment in ranking.assignments),
        ranking.exact,
        ranking.bound,
        ranking.pruned,
    )


def _crisp(ranking: Ranking, clauses: Clauses, source: Source, engine: str) -> Any:
    if engine == "crisp" or not len(ranking.tuples):
        return np.ones(len(ranking.tuples), dtype=bool)
    from tuplet.engine import crisp

    return crisp_answers(ranking, clauses, source.edges, lambda tuples: crisp.holds(clauses, source.facts, tuples))
