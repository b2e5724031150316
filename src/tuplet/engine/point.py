"""Given tuples instead of the best ones: their truth and what they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from tuplet.engine.engines import Source
from tuplet.engine.logic import Logic
from tuplet.engine.ranking import Clauses, Ranking


def explain_tuples(clauses: Clauses, source: Source, tuples: Sequence[Sequence[int]], logic: Logic) -> Ranking:
    """The tuples in the order given, with their truth and best witnesses; facts alone count where there is no more."""
    ids = np.array(tuples, dtype=np.int32).reshape(len(tuples), len(clauses[0].free))
    if source.truth is None:
        from tuplet.engine import crisp

        witnesses = [crisp.witnesses(clause, source.facts, ids) for clause in clauses]
        truth = np.logical_or.reduce([(witness >= 0).all(axis=1) for witness in witnesses]).astype(np.float64)
    else:
        from tuplet.engine import exact
        from tuplet.engine.exact.stream import Budget, ClauseStream

        plan = exact.plan(clauses, source.table(clauses, "exact"))
        points = [ClauseStream(clause, plan.rows, logic, Budget()).points(ids) for clause in plan.bound]
        truth = reduce(logic.disjunction, [value for value, _ in points])
        witnesses = [witness for _, witness in points]
    return Ranking(ids, truth, tuple(witnesses), exact=True, bound=1.0)
