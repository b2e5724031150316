"""Complete answers on the observed facts: any EFO_k query, Boolean, by a compiled join.

    plan(clauses, adjacency)          how it will be done; `str` of it explains
    run(plan, source, k, deadline)    the first k answers in the order of names, with their witnesses
    collect(plan, adjacency, most)    answers in no particular order

The compiled search (`kernels.search`) is resumable: it runs in slices, so that a limit stops it at once and the
deadline is looked at between slices.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tuplet.engines.crisp.order import name_order
from tuplet.engines.crisp.planning import CrispPlan, plan
from tuplet.engines.crisp.search import Found, collect
from tuplet.engines.exact.effort import Effort
from tuplet.query.limits import NO_DEADLINE, Deadline, OutOfTime
from tuplet.query.ranking import Ranking
from tuplet.query.source import Source

__all__ = ["CrispPlan", "Found", "collect", "plan", "run"]

# So many answers, and four times those wanted, are collected in the hope that they are all. That takes about as long
# as finding the first ones by name without the others.
SPARE = 1 << 14


def run(
    plan: CrispPlan,
    source: Source,
    wanted: int | None = None,
    deadline: Deadline = NO_DEADLINE,
    memory: int | None = None,
) -> Ranking:
    """The first `wanted` answers (all if None) in the order of their names, each with a witness in every clause.

    All answers have truth 1. The bound is 0 if every answer is shown, else 1. At a limit the answers found until
    then are returned, with the reason in `pruned`; `exact` says that they are proven to be the first.
    """
    most = None if wanted is None else 4 * wanted + SPARE
    # The search ends a little before its time: what was found still has to be put in order and explained.
    found = collect(plan, source.facts, most, deadline.before(0.15, 0.6), memory)
    effort = Effort(deadline, memory)
    effort.held = found.nbytes
    ranking = None
    if wanted and plan.width and not found.complete and found.pruned != "timeout":
        ranking = _first(plan, source, wanted, effort)
    ranking = ranking or _in_order(plan, source, found, wanted, effort)
    return _explained(plan, source, ranking, effort)


def _in_order(plan: CrispPlan, source: Source, found: Found, wanted: int | None, effort: Effort) -> Ranking:
    """The first of the answers that were collected; a witness in the clause that gave them."""
    order = name_order(found.tuples, source.graph.entities.sort_rank, wanted)
    clause, assignment = found.clause[order], found.assignment[order]
    assignments = []
    for number, own in enumerate(plan.clauses):
        mine = assignment[:, : len(own.graph.variables)]
        assignments.append(mine if len(plan.clauses) == 1 else np.where((clause == number)[:, None], mine, -1))
    return Ranking(
        tuples=found.tuples[order],
        truth=np.ones(len(order)),
        assignments=tuple(assignments),
        exact=found.complete or wanted == 0,
        bound=0.0 if found.complete and len(order) == len(found.tuples) else 1.0,
        pruned=found.pruned if found.complete or found.pruned or wanted == 0 else effort.exceeded() or "timeout",
    )


def _first(plan: CrispPlan, source: Source, wanted: int, effort: Effort) -> Ranking | None:
    """The first answers by name where there are too many to collect, without witnesses; None at a limit."""
    from tuplet.engines.exact.lexical import first_by_name
    from tuplet.engines.facts import Checker
    from tuplet.query.logic import PRODUCT

    _load_exact(source, effort.deadline)
    graphs = [clause.graph for clause in plan.clauses]
    streams = Checker.of(graphs, source).streams
    every = lambda tuples: np.ones(len(tuples), dtype=bool)  # noqa: E731
    tuples, proven = first_by_name([streams], PRODUCT, effort.beside(), 0.5, wanted, every)
    if not proven:
        return None
    unknown = tuple(np.full((len(tuples), len(graph.variables)), -1, dtype=np.int32) for graph in graphs)
    return Ranking(tuples, np.ones(len(tuples)), unknown, exact=True, bound=float(len(tuples) == wanted))


def _explained(plan: CrispPlan, source: Source, ranking: Ranking, effort: Effort) -> Ranking:
    """The ranking with the witnesses that it lacks; the join gives a tuple one clause only."""
    from tuplet.engines.facts import Checker

    if not any((assignment < 0).any() for assignment in ranking.assignments):
        return ranking
    _load_exact(source, effort.deadline)
    checker = Checker.of([clause.graph for clause in plan.clauses], source, effort)
    try:
        return replace(ranking, assignments=checker.explain(ranking.tuples, effort.deadline)[1])
    except OutOfTime as over:
        return replace(ranking, pruned=ranking.pruned or over.why)


def _load_exact(source: Source, deadline: Deadline) -> None:
    """Loads the kernels of the exact engine, which few questions need; that is not the time of the question."""
    from tuplet.engines.exact.engine import Exact

    with deadline.paused():
        Exact().load(source)
