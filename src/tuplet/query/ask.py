"""The whole pipeline on one screen: text → query → clauses → query graphs → plan → ranking → answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BudgetExceeded
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.printer import to_logic
from tuplet.query.answers import Answers
from tuplet.query.ask_values import ask_values, ranked
from tuplet.query.engine import Engine
from tuplet.query.evidence import find_evidence
from tuplet.query.guarantees import guaranteed
from tuplet.query.limits import NO_LIMITS, Deadline, Limits, OutOfTime
from tuplet.query.loose import is_loose, loose_given, loose_plan
from tuplet.query.question import Question
from tuplet.query.ranking import Ranking
from tuplet.query.status import Judge, about, status
from tuplet.query.witness import Witnesses

MOST_PLANS = 4  # that are printed where a query means several things


def ask(
    question: Question,
    engine: Engine[Any],
    judge: Judge,
    limits: Limits = NO_LIMITS,
    deadline: Deadline | None = None,
) -> Answers:
    """The answers of a question. Without a deadline one is started here, from the timeout of the limits."""
    deadline = deadline or Deadline(limits.timeout)
    start = deadline.worked()
    limits = typed(limits.settled(question.tree.limit, question.tree.offset), engine)
    if limits.guaranteed:
        limits = replace(limits, only="predicted")
        ranking, guarantee = guaranteed(question, engine, limits, deadline)
        return explained(question, ranking, engine, judge, limits, deadline, start, {"guarantee": asdict(guarantee)})
    if not question.plain:
        return ask_values(question, engine, judge, limits, deadline, start)
    ranking = ranked(question.readings[0], question.source, engine, limits, deadline)
    return explained(question, ranking, engine, judge, limits, deadline, start)


def typed(limits: Limits, engine: Engine[Any]) -> Limits:
    """The same limits with the options of the engine checked and in their types: they may have been typed as text."""
    if not limits.options:
        return limits
    settings = engine.settings(limits.options)
    return replace(limits, options={name: getattr(settings, name) for name in limits.options})


def explained(
    question: Question,
    ranking: Ranking,
    engine: Engine[Any],
    judge: Judge,
    limits: Limits,
    deadline: Deadline,
    start: float,
    promised: Mapping[str, Any] = {},
) -> Answers:
    """A ranking with names, witnesses and statuses: what people see."""
    source, clauses = question.source, question.clauses
    ranking = (ranking if engine.arranges else in_name_order(ranking, source.graph)).after(limits.offset)
    witnesses = Witnesses.of(ranking, clauses, source, stated=not engine.needs_truth)
    crisp, pruned = status(witnesses, ranking, clauses, source, engine, judge, limits.memory, deadline)
    evidence = find_evidence(witnesses, source, deadline) if limits.evidence and limits.witness else {}
    if evidence and deadline.over():
        pruned = "timeout"  # some was not looked for, or not all of it was found
    return Answers(
        query=question.text,
        variables=tuple(variable.name for variable in question.free),
        engine=engine.name,
        k=None if limits.k == "all" else limits.k,
        ranking=replace(ranking, pruned=pruned) if pruned else ranking,
        witnesses=witnesses,
        graph=source.graph,
        crisp=crisp,
        evidence=evidence,
        rates=source.base_rates if engine.needs_truth else (),
        with_witness=limits.witness,
        elapsed_ms=round(1000 * (deadline.worked() - start), 3),
        about={**about(source, engine, limits, clauses), **promised},
    )


def score(
    question: Question,
    tuples: Sequence[Sequence[str]],
    engine: Engine[Any],
    limits: Limits = NO_LIMITS,
    deadline: Deadline | None = None,
) -> NDArray[np.float64]:
    """The truth of given tuples of entity names, in the order of the free variables [n]."""
    engine.settings(limits.options)
    ids = question.ids(tuples)
    if not question.clauses:
        return np.zeros(len(ids))
    deadline = deadline or Deadline(limits.timeout)
    try:
        if any(map(is_loose, question.clauses)):
            return loose_given(question.clauses, ids, question.source, engine, limits, deadline).truth
        return engine.score(engine.planned(question.clauses, question.source, limits), ids, limits, deadline)
    except OutOfTime:
        raise BudgetExceeded(f"no truth values within {deadline.seconds:g} s", limit="timeout") from None


def plan_text(question: Question, engine: Engine[Any], limits: Limits = NO_LIMITS) -> str:
    """What `--plan` prints: the query as understood, its clauses and the steps of the engine, for all that it means."""
    graph, meanings = question.source.graph, question.readings
    lines = [f"query   {to_logic(question.tree)}"]
    for number, bound in enumerate(meanings[:MOST_PLANS], 1):
        if len(meanings) > 1:
            stands = ", ".join(f"?{variable} = {name}" for variable, name in bound.reading.relations.items())
            lines.append(
                f"meaning {number} of {len(meanings)}" + (f": {graph.prefixes.short(stands)}" if stands else "")
            )
        shapes = ", ".join(clause.shape() for clause in bound.clauses) or "no clause can hold"
        lines += [f"clauses {len(bound.clauses)} ({shapes})", f"engine  {engine.name}"]
        if any(map(is_loose, bound.clauses)):
            for clause in bound.clauses:
                plan, listed = loose_plan(clause, question.source, engine, limits)
                lines += [plan.text(graph.entities.name, graph.relations.name)] if plan is not None else []
                lines += [listed] if is_loose(clause) else []
        elif bound.clauses:
            plan = engine.planned(bound.clauses, question.source, limits)
            lines.append(plan.text(graph.entities.name, graph.relations.name))
        else:
            lines.append("nothing to do")
    if not meanings:
        lines += ["clauses 0 (no clause can hold)", f"engine  {engine.name}", "nothing to do"]
    if len(meanings) > MOST_PLANS:
        lines.append(f"… {len(meanings) - MOST_PLANS} more meanings")
    return "\n".join(lines)


def in_name_order(ranking: Ranking, graph: KnowledgeGraph) -> Ranking:
    """The same ranking with ties in the order of entity names."""
    n = len(ranking.tuples)
    if n < 2 or bool((ranking.truth[1:] < ranking.truth[:-1]).all()):
        return ranking
    rank = graph.entities.sort_rank
    return ranking.take(np.lexsort((*rank[ranking.tuples].T[::-1], -ranking.truth)))
