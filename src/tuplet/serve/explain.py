"""A given tuple instead of the best ones: its truth and what it rests on."""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray

from tuplet.query.ask import Question
from tuplet.query.limits import Deadline, Limits
from tuplet.query.ranking import Ranking


def explain_tuples(question: Question, tuples: NDArray[np.int32], limits: Limits, deadline: Deadline) -> Ranking:
    """The tuples [n, k] in the order given, with their truth and best witnesses; raises `OutOfTime` at the deadline."""
    clauses, source = question.clauses, question.source
    deadline.check()
    if source.truth is None:
        from tuplet.engines import crisp

        witnesses = [crisp.witnesses(clause, source.facts, tuples) for clause in clauses]
        truth = np.logical_or.reduce([(witness >= 0).all(axis=1) for witness in witnesses]).astype(np.float64)
    else:
        from tuplet.engines import exact
        from tuplet.engines.exact.stream import Budget, ClauseStream

        plan = exact.plan(clauses, source.table(clauses))
        points = [ClauseStream(clause, plan.rows, limits.rules, Budget()).points(tuples) for clause in plan.bound]
        truth = reduce(limits.rules.disjunction, [value for value, _ in points])
        witnesses = [witness for _, witness in points]
    deadline.check()
    return Ranking(tuples, truth, tuple(witnesses), exact=True, bound=1.0)
