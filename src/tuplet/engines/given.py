"""Given tuples instead of the best ones: their truth and what they rest on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tuplet.query.limits import NO_LIMITS, Deadline, Limits
from tuplet.query.ranking import Clauses, Ranking
from tuplet.query.source import Source


def explain_tuples(
    clauses: Clauses,
    source: Source,
    tuples: NDArray[np.int32],
    limits: Limits = NO_LIMITS,
    deadline: Deadline | None = None,
) -> Ranking:
    """Tuples [n, k] in the order given, with truth and best witnesses; facts alone count where there is no more.

    Raises `OutOfTime` at the deadline.
    """
    deadline = deadline or Deadline(limits.timeout)
    if source.truth is None:
        from tuplet.engines.facts import Checker

        found, witnesses = Checker.of(clauses, source).explain(tuples, deadline)
        truth = found.astype(np.float64)
    else:
        from tuplet.engines import exact

        plan = exact.plan(clauses, source.table(clauses), source.graph.entities.sort_rank)
        truth, witnesses = exact.explain(plan, tuples, limits.rules, deadline)
    return Ranking(tuples, truth, witnesses, exact=True, bound=1.0)
