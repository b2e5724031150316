"""Given tuples instead of the best ones: whether the facts give them, their truth, and what they rest on.

What is compiled is imported when a question needs it, so that a cold start does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput, BudgetExceeded
from tuplet.query import ask as asking
from tuplet.query.answers import Answer
from tuplet.query.ask import Question
from tuplet.query.engine import Engine
from tuplet.query.hints import missing_facts
from tuplet.query.limits import Deadline, Limits, OutOfTime
from tuplet.query.loose import is_loose, loose_given
from tuplet.query.ranking import Clauses, Ranking
from tuplet.query.rows import FoundRows
from tuplet.query.source import Source

# A tuple by the names of its variables, or in their order.
GivenTuple: TypeAlias = Mapping[str, str] | Sequence[str]


def judge(
    clauses: Clauses, source: Source, tuples: NDArray[np.int32], deadline: Deadline, memory: int | None
) -> NDArray[np.int8]:
    """For each tuple [n, k] 1 if it is an answer on the facts, 0 if not, -1 where a limit came first."""
    from tuplet.engines.effort import Effort
    from tuplet.engines.exact import Checker

    return Checker.from_source(clauses, source, Effort(deadline, memory)).judge(tuples, deadline)


def explain(
    question: Question, given: Sequence[GivenTuple], engine: Engine[Any], limits: Limits, deadline: Deadline
) -> list[Answer]:
    """Given tuples as answers: truth, status and witness of each."""
    tuples = question.ids([_in_order(question.names, names) for names in given])
    if not question.clauses:
        raise BadInput("the query contradicts itself: it has no answers")
    clauses, source = question.clauses, question.source
    try:
        if any(map(is_loose, clauses)):
            ranking = loose_given(clauses, tuples, source, engine, limits, deadline)
        else:
            ranking = explain_tuples(clauses, source, tuples, limits, deadline)
    except OutOfTime:
        raise BudgetExceeded(f"no explanation within {deadline.seconds:g} s", limit="timeout") from None
    start = deadline.worked()
    found = []
    for i in range(len(tuples)):  # each keeps its place
        one = ranking.take(slice(i, i + 1))
        rows = FoundRows(question.names, one, [one])
        found.append(asking.explain(question, rows, engine, judge, limits, deadline, start)[0])
    return [
        answer if answer.truth else replace(answer, status="none", missing=missing_facts(clauses, source, ids))
        for answer, ids in zip(found, tuples.tolist(), strict=True)
    ]


def _in_order(variables: Sequence[str], given: GivenTuple) -> Sequence[str]:
    if not isinstance(given, Mapping):
        return given
    if set(given) != set(variables):
        raise BadInput(f"a tuple names an entity for {', '.join(variables)} and for nothing else")
    return [given[variable] for variable in variables]


def explain_tuples(
    clauses: Clauses, source: Source, tuples: NDArray[np.int32], limits: Limits, deadline: Deadline
) -> Ranking:
    """Tuples [n, k] in the order given, with truth and best witnesses; facts alone count where there is no more.

    Raises `OutOfTime` at the deadline.
    """
    from tuplet.engines import exact

    if source.truth is None:
        found, witnesses = exact.Checker.from_source(clauses, source).explain(tuples, deadline)
        truth = found.astype(np.float64)
    else:
        plan = exact.plan(clauses, source.table(clauses), source.graph.entities.sort_rank)
        truth, witnesses = exact.explain(plan, tuples, limits.rules, deadline)
    return Ranking(tuples, truth, witnesses, exact=True, bound=1.0)
