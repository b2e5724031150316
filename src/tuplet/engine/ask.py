"""The whole pipeline on one screen: text → query → clauses → query graphs → plan → ranking → answers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from tuplet import __version__
from tuplet.engine.answers import Answers
from tuplet.engine.bind import bind, resolve
from tuplet.engine.engines import Limits, Option, Source, check_options, engine_named, nothing
from tuplet.engine.explain import Edges, Stated, Witnesses, crisp_answers
from tuplet.engine.logic import Logic
from tuplet.engine.ns3.budget import Budget, Merge
from tuplet.engine.ranking import Clauses, Ranking
from tuplet.errors import BadInput
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.ast import Name, Query
from tuplet.lang.parse import parse
from tuplet.lang.printer import to_logic


def prepare(
    source: Source, query: str | Query, grounding: Mapping[str, Any] | None = None, text: str | None = None
) -> tuple[Query, str, Clauses]:
    """A query as syntax tree, as text, and as query graphs over the source; `text` is what a tree was read from."""
    if isinstance(query, Query):
        return query, text or to_logic(query), bind(query, source.graph, text or "")
    if not isinstance(query, str):
        raise BadInput(f"a query is text, not {type(query).__name__}")
    tree = parse(query, grounding)
    return tree, query, bind(tree, source.graph, query)


def ask(
    source: Source,
    query: str | Query,
    *,
    k: int | Literal["all"] | None = None,
    engine: str = "exact",
    logic: str = "product",
    timeout: float | None = None,
    only: str | None = None,
    budget: Budget | int | Literal["all"] | None = None,
    merge: str = "progressive",
    memory: int | None = None,
    work: int | None = None,
    options: Mapping[str, Option] | None = None,
    grounding: Mapping[str, Any] | None = None,
    text: str | None = None,
) -> Answers:
    """The answers of a query; `k` overrides its LIMIT, and without either there are 10.

    `options` are those of a baseline. `text` is what a syntax tree was read from: errors point into it.
    """
    runner = engine_named(engine)
    tree, text, clauses = prepare(source, query, grounding, text)
    limits = replace(checked(tree, k, logic, timeout, only, budget, merge, memory, work), options=options or {})
    check_options(engine, limits.options)
    runner.load()
    start = time.perf_counter()
    ranking = runner.run(clauses, source, limits) if clauses else nothing(range(len(tree.free)))
    elapsed = 1000 * (time.perf_counter() - start)
    ranking = in_name_order(ranking, source.graph)
    # Of rows on demand, the table that was searched: thousands of values one by one would take long.
    edges: Edges = Stated(source.facts) if engine == "crisp" or not clauses else source.table(clauses, engine)
    witnesses = Witnesses.of(ranking, clauses, edges)
    return Answers(
        query=text,
        variables=tuple(variable.name for variable in tree.free),
        engine=engine,
        k=limits.k,
        ranking=ranking,
        witnesses=witnesses,
        graph=source.graph,
        crisp=_crisp(witnesses, ranking, clauses, source, engine),
        elapsed_ms=round(elapsed, 3),
        about={
            "version": __version__,
            "graph": source.graph.hash,
            "observed": list(source.splits) if source.splits is not None else "all",
            **({"logic": limits.logic.name, **_made(source.about)} if engine != "crisp" else {}),
            **({"budget": limits.budget.B or "all", "merge": limits.budget.merge} if engine.startswith("ns3") else {}),
            **{
                name: cap for name, cap in (("timeout", timeout), ("memory", memory), ("work", work)) if cap is not None
            },
            **({"only": only} if only else {}),
            **({"options": dict(options)} if options else {}),
        },
    )


def _made(about: Mapping[str, Any]) -> dict[str, Any]:
    """What made the truth values; of a learned calibration its name, for `tuplet info` tells the rest."""
    calibration: Mapping[str, Any] = about.get("calibration") or {}
    return {**about, "calibration": {"name": calibration["name"]}} if "names" in calibration else dict(about)


def score(
    source: Source,
    query: str | Query,
    tuples: Sequence[Sequence[str]],
    *,
    engine: str = "exact",
    logic: str = "product",
    options: Mapping[str, Option] | None = None,
    grounding: Mapping[str, Any] | None = None,
) -> NDArray[np.float64]:
    """The truth of given tuples of entity names, in the order of the free variables [n]."""
    runner = engine_named(engine)
    limits = Limits(logic=Logic.of(logic), options=options or {})
    check_options(engine, limits.options)
    tree, _, clauses = prepare(source, query, grounding)
    width = len(tree.free)
    for given in tuples:
        if isinstance(given, str) or len(given) != width:
            raise BadInput(f"the query asks for {width} variables, the tuple {given!r} does not have as many names")
    ids = [[resolve(Name(name), "entity", source.graph.entities) for name in given] for given in tuples]
    if not clauses:
        return np.zeros(len(tuples))
    return runner.score(clauses, source, np.array(ids, np.int32).reshape(len(ids), width), limits)


def plan_text(
    source: Source, query: str | Query, *, engine: str = "exact", grounding: Mapping[str, Any] | None = None
) -> str:
    """What `--plan` prints: the query as understood, its clauses and the steps of the engine."""
    runner = engine_named(engine)
    tree, _, clauses = prepare(source, query, grounding)
    shapes = ", ".join(clause.shape() for clause in clauses) or "no clause can hold"
    head = f"query   {to_logic(tree)}\nclauses {len(clauses)} ({shapes})\nengine  {engine}\n"
    if not clauses:
        return head + "nothing to do"
    return head + runner.plan(clauses, source).text(source.graph.entities.name, source.graph.relations.name)


def checked(
    tree: Query,
    k: int | Literal["all"] | None,
    logic: str,
    timeout: float | None,
    only: str | None,
    budget: Budget | int | Literal["all"] | None = None,
    merge: str = "progressive",
    memory: int | None = None,
    work: int | None = None,
) -> Limits:
    """Limits as checked values."""
    if k is None:
        k = tree.limit if tree.limit is not None else 10
    if k != "all" and (not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 0):
        raise BadInput(f"k must be a whole number from 0, or 'all', not {k!r}")
    if timeout is not None and not timeout > 0:
        raise BadInput(f"the timeout must be positive, not {timeout}")
    if only not in (None, "predicted", "observed"):
        raise BadInput(f"only must be 'predicted' or 'observed', not {only!r}")
    kept = cast(Literal["predicted", "observed"] | None, only)
    for name, cap in (("memory", memory), ("work", work)):
        if cap is not None and not cap > 0:
            raise BadInput(f"the cap on {name} must be positive, not {cap}")
    return Limits(None if k == "all" else int(k), Logic.of(logic), timeout, kept, _budget(budget, merge), memory, work)


def _budget(budget: Budget | int | Literal["all"] | None, merge: str) -> Budget:
    """How much NS3 may search; a budget that is one already brings its own way of merging."""
    if isinstance(budget, Budget):
        return budget
    way = cast(Merge, merge)  # checked by the budget itself
    if budget == "all":
        return Budget.all(way)
    if budget is None:
        return Budget(merge=way)
    if not isinstance(budget, int | np.integer) or isinstance(budget, bool):
        raise BadInput(f"the budget must be a whole number from 1, or 'all', not {budget!r}")
    return Budget(int(budget), way)


def in_name_order(ranking: Ranking, graph: KnowledgeGraph) -> Ranking:
    """The same ranking with ties in the order of entity names."""
    n, width = ranking.tuples.shape
    if n < 2 or bool((ranking.truth[1:] < ranking.truth[:-1]).all()):
        return ranking
    if n <= 256:  # a few names are sorted faster than arrays are made
        names = graph.entities.names(ranking.tuples.ravel())
        truth = ranking.truth.tolist()
        order = np.array(sorted(range(n), key=lambda i: (-truth[i], names[i * width : (i + 1) * width])))
        return _reordered(ranking, order)
    keys = []
    for column in reversed(ranking.tuples.T):
        distinct, index = np.unique(column, return_inverse=True)
        words = np.array(graph.entities.names(distinct), dtype=object)
        rank = np.empty(len(distinct), dtype=np.int64)
        rank[np.argsort(words, kind="stable")] = np.arange(len(distinct))
        keys.append(rank[index])
    return _reordered(ranking, np.lexsort((*keys, -ranking.truth)))


def _reordered(ranking: Ranking, order: NDArray[np.int64]) -> Ranking:
    assignments = tuple(assignment[order] for assignment in ranking.assignments)
    return replace(ranking, tuples=ranking.tuples[order], truth=ranking.truth[order], assignments=assignments)


def _crisp(witnesses: Witnesses, ranking: Ranking, clauses: Clauses, source: Source, engine: str) -> NDArray[np.bool_]:
    if engine == "crisp" or not len(ranking.tuples):
        return np.ones(len(ranking.tuples), dtype=bool)
    from tuplet.engine import crisp

    return crisp_answers(witnesses, ranking.tuples, lambda tuples: crisp.holds(clauses, source.facts, tuples))
