"""Complete answers on the observed facts: any EFO_k query, Boolean, by a compiled join.

    plan(clauses, adjacency)          how it will be done; `str` of it explains
    run(plan, source, k, deadline)    the first k answers in the order of names, with their witnesses
    collect(plan, adjacency, most)    answers in no particular order

The compiled search (`kernels.search`) is resumable: it runs in slices, so that a limit stops it at once and the
deadline is looked at between slices.
"""

from __future__ import annotations

import numpy as np

from tuplet.engines.crisp.order import name_order
from tuplet.engines.crisp.planning import CrispPlan, plan
from tuplet.engines.crisp.points import holds, witnesses
from tuplet.engines.crisp.search import Found, Tuples, collect
from tuplet.query.limits import NO_DEADLINE, Deadline, OutOfTime
from tuplet.query.ranking import Ranking
from tuplet.query.source import Source

__all__ = ["CrispPlan", "Found", "collect", "holds", "plan", "run", "witnesses"]

# So many answers, and four times those wanted, are collected in the hope that they are all.
SPARE = 1 << 12


def run(plan: CrispPlan, source: Source, wanted: int | None = None, deadline: Deadline = NO_DEADLINE) -> Ranking:
    """The first `wanted` answers (all if None) in the order of their names, each with a witness in every clause.

    All answers have truth 1. The bound is 0 if every answer is shown, else 1. At the deadline the answers found until
    then are returned, with the reason in `pruned`; they are exact only if the order is proven over all answers.
    """
    found = collect(plan, source.facts, None, deadline)
    shown = found.take(name_order(found.tuples, source.graph.entities.sort_rank, wanted))
    assignments, in_time = _witnesses(plan, source, shown, deadline)
    return Ranking(
        tuples=shown.tuples,
        truth=np.ones(len(shown.tuples)),
        assignments=assignments,
        exact=found.complete,
        bound=0.0 if found.complete and len(shown.tuples) == len(found.tuples) else 1.0,
        pruned=found.pruned or (None if in_time else "timeout"),
    )


def _witnesses(plan: CrispPlan, source: Source, shown: Found, deadline: Deadline) -> tuple[tuple[Tuples, ...], bool]:
    """The assignments of each clause; of clauses that did not give a tuple themselves, they are looked for."""
    assignments = []
    in_time = True
    for number, clause in enumerate(plan.clauses):
        own = np.full((len(shown.tuples), len(clause.graph.variables)), -1, dtype=np.int32)
        mine = shown.clause == number
        own[mine] = shown.assignment[mine, : own.shape[1]]
        if clause.empty is None and in_time and not mine.all():
            try:
                own[~mine] = witnesses(clause.graph, source.facts, shown.tuples[~mine], deadline)
            except OutOfTime:
                in_time = False
        assignments.append(own)
    return tuple(assignments), in_time
