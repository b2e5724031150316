"""The whole pipeline on one screen: parse → bind → plan → run → explain.

`Question.from_query` parses a text and binds its names (question.py); each of its readings plans and runs on an engine
(`BoundReading.rank`); here the ranking becomes answers with names, witnesses, statuses and evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._version import __version__
from tuplet.errors import BudgetExceeded
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.print import to_logic
from tuplet.query.answers import Answers
from tuplet.query.engine import Engine
from tuplet.query.evidence import find_evidence
from tuplet.query.guarantees import find_guaranteed
from tuplet.query.hints import hints
from tuplet.query.limits import NO_LIMITS, Deadline, Limits, OutOfTime
from tuplet.query.loose import Judge, is_loose, judge_tuples, loose_given, loose_plan
from tuplet.query.question import Question
from tuplet.query.ranking import Clauses, Ranking
from tuplet.query.rows import FoundRows, find_rows
from tuplet.query.schema import Guarantee, Provenance
from tuplet.query.source import Source
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
    limits = limits.settle(question.tree.limit, question.tree.offset)
    if limits.options:  # they may have been typed as text
        settings = engine.settings(limits.options)
        limits = replace(limits, options={name: getattr(settings, name) for name in limits.options})
    guarantee = None
    if limits.guaranteed:
        limits = replace(limits, only="predicted")
        ranking, guarantee = find_guaranteed(question, engine, limits, deadline)
    elif question.plain:
        ranking = question.readings[0].rank(question.source, engine, limits, deadline)
    else:
        found = find_rows(question, engine, limits, deadline)
        return explain(question, found, engine, judge, limits, deadline, start)
    if not engine.arranges:
        ranking = in_name_order(ranking, question.source.graph)
    if limits.offset:
        ranking = ranking.take(slice(limits.offset, None))
    found = FoundRows(question.names, ranking, [ranking])
    return explain(question, found, engine, judge, limits, deadline, start, guarantee)


def explain(
    question: Question,
    found: FoundRows,
    engine: Engine[Any],
    judge: Judge,
    limits: Limits,
    deadline: Deadline,
    start: float,
    guarantee: Guarantee | None = None,
) -> Answers:
    """Rows with names, witnesses and statuses: what people see."""
    source, ranking = question.source, found.ranking
    parts, statuses = list[Witnesses](), list[NDArray[np.int8]]()
    for bound, tuples in zip(question.readings, found.rankings, strict=False):
        parts.append(Witnesses.from_ranking(tuples, bound.clauses, source, stated=not engine.needs_truth))
        known, late = status(parts[-1], tuples, bound.clauses, source, engine, judge, limits.memory, deadline)
        statuses.append(known)
        if late and (found.order is None or not ranking.pruned):
            ranking = replace(ranking, pruned=late)
    if found.order is None:
        witnesses, crisp = parts[0], statuses[0]
    else:
        witnesses = Witnesses.merge(parts, found.order)
        crisp = np.concatenate([np.zeros(0, np.int8), *statuses])[found.order]
    evidence = find_evidence(witnesses, source, deadline) if limits.evidence and limits.witness else {}
    if evidence and deadline.over():
        ranking = replace(ranking, pruned="timeout")  # some was not looked for, or not all of it was found
    if engine.needs_truth not in question.hints:
        # where a relation is a variable, that an entity does not fit one of its choices is no slip
        clauses = question.readings[0].clauses if len(question.readings) == 1 else ()
        question.hints[engine.needs_truth] = tuple(hints(clauses, source, engine.needs_truth))
    return Answers(
        query=question.text,
        variables=found.names,
        engine=engine.name,
        k=None if limits.k == "all" else limits.k,
        ranking=ranking,
        witnesses=witnesses,
        graph=source.graph,
        crisp=crisp,
        evidence=evidence,
        rates=source.base_rates if engine.needs_truth else (),
        with_witness=limits.witness,
        elapsed_ms=round(1000 * (deadline.worked() - start), 3),
        provenance=Provenance(
            __version__,
            source.graph.hash,
            "all" if source.splits is None else source.splits,
            limits,
            source.origin if engine.needs_truth else None,
            question.hints[engine.needs_truth],
            guarantee,
        ),
        columns=found.columns,
        form="select" if found.hides_count else question.tree.form,
        number=found.count,
    )


def status(
    witnesses: Witnesses,
    ranking: Ranking,
    clauses: Clauses,
    source: Source,
    engine: Engine[Any],
    judge: Judge,
    memory: int | None,
    deadline: Deadline,
) -> tuple[NDArray[np.int8], str | None]:
    """Which tuples the facts alone give: 1 yes, 0 no, -1 not known because a limit came first; and what stopped it.

    A witness made of facts settles it at once; the others, whose best witness rests on a prediction although another
    one may not, are judged. Without existential variables there is no other one.
    """
    if not engine.needs_truth:
        return np.ones(len(ranking.tuples), dtype=np.int8), None
    crisp = witnesses.rest_on_facts().astype(np.int8)
    for clause, assigned in zip(clauses, ranking.assignments, strict=False):
        if not clause.edges:  # conditions alone, which are about what is stated
            crisp[(assigned >= 0).all(axis=1)] = 1
    open_cases = (crisp == 0).nonzero()[0]
    if not len(open_cases) or (ranking.exact and all(len(c.free) == len(c.variables) for c in clauses)):
        return crisp, None
    crisp[open_cases] = judge_tuples(clauses, source, ranking.tuples[open_cases], judge, deadline, memory)
    if crisp.min() >= 0:
        return crisp, None
    return crisp, "timeout" if deadline.over() else "memory"


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
