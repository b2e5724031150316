"""The whole pipeline on one screen: text → query → clauses → query graphs → plan → ranking → answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet._version import __version__
from tuplet.errors import BadInput, BudgetExceeded
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.ast import Name, Query
from tuplet.lang.parse import parse
from tuplet.lang.printer import to_logic
from tuplet.query.answers import Answers
from tuplet.query.bind import bind, resolve
from tuplet.query.engine import Engine
from tuplet.query.evidence import find_evidence
from tuplet.query.limits import NO_LIMITS, Deadline, Limits, OutOfTime
from tuplet.query.ranking import Clauses, Ranking, nothing
from tuplet.query.source import Source
from tuplet.query.witness import Witnesses

# Which given tuples are answers on the stated facts alone: 1 yes, 0 no, -1 where the time was up.
Judge: TypeAlias = Callable[[Clauses, Source, NDArray[np.int32], Deadline], NDArray[np.int8]]


@dataclass(frozen=True)
class Question:
    """A query on a source: as text, as a syntax tree, and as query graphs."""

    source: Source
    text: str
    tree: Query
    clauses: Clauses

    @staticmethod
    def of(source: Source, query: str | Query, grounding: Mapping[str, Any] | None = None, text: str = "") -> Question:
        """The question of a text or a syntax tree; `text` is what a tree was read from: errors point into it."""
        if isinstance(query, Query):
            return Question(source, text or to_logic(query), query, bind(query, source.graph, text))
        if not isinstance(query, str):
            raise BadInput(f"a query is text, not {type(query).__name__}")
        tree = parse(query, grounding)
        return Question(source, query, tree, bind(tree, source.graph, query))

    def ids(self, tuples: Sequence[Sequence[str]]) -> NDArray[np.int32]:
        """Given tuples of entity names as ids [n, k]."""
        asked = [f"?{variable.name}" for variable in self.tree.free]
        width = len(asked)
        if isinstance(tuples, str) or not isinstance(tuples, Iterable):
            raise BadInput(f"the tuples are a list of tuples of names, not {tuples!r}")
        for given in tuples:
            if not _is_tuple(given, width):
                names = "one name" if width == 1 else f"{width} names"
                raise BadInput(f"a tuple has {names}, of {', '.join(asked)}; {given!r} is no such tuple")
        entities = self.source.graph.entities
        found = [[resolve(Name(name), "entity", entities) for name in given] for given in tuples]
        return np.array(found, np.int32).reshape(len(found), width)


def _is_tuple(given: object, width: int) -> bool:
    """Whether these are as many names as the query asks for."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        return False
    names = list(given)
    return len(names) == width and all(isinstance(name, str) for name in names)


def ask(
    question: Question,
    engine: Engine[Any],
    judge: Judge,
    limits: Limits = NO_LIMITS,
    deadline: Deadline | None = None,
) -> Answers:
    """The answers of a question. Without a deadline one is started here, from the timeout of the limits."""
    deadline = deadline or Deadline(limits.timeout)
    start = deadline.clock()
    limits = typed(limits.settled(question.tree.limit), engine)
    if question.clauses:
        plan = engine.planned(question.clauses, question.source, limits)
        ranking = engine.run(plan, limits, deadline)
    else:
        ranking = nothing(len(question.tree.free))
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
) -> Answers:
    """A ranking with names, witnesses and statuses: what people see."""
    source, clauses = question.source, question.clauses
    ranking = in_name_order(ranking, source.graph).after(limits.offset)
    witnesses = Witnesses.of(ranking, clauses, source, stated=not engine.needs_truth)
    crisp, pruned = status(witnesses, ranking, question, engine, judge, deadline)
    evidence = find_evidence(witnesses, source, deadline) if limits.evidence else {}
    if evidence and deadline.over():
        pruned = "timeout"  # some was not looked for, or not all of it was found
    return Answers(
        query=question.text,
        variables=tuple(variable.name for variable in question.tree.free),
        engine=engine.name,
        k=None if limits.k == "all" else limits.k,
        ranking=replace(ranking, pruned=pruned) if pruned else ranking,
        witnesses=witnesses,
        graph=source.graph,
        crisp=crisp,
        evidence=evidence,
        rates=source.base_rates if engine.needs_truth else (),
        elapsed_ms=round(1000 * (deadline.clock() - start - deadline.idle), 3),
        about=about(source, engine, limits),
    )


def about(source: Source, engine: Engine[Any], limits: Limits) -> dict[str, Any]:
    """What a reader needs to repeat an answer: version, hashes, what made the truth, limits."""
    made: dict[str, Any] = {}
    if engine.needs_truth:
        calibration: Mapping[str, Any] = source.about.get("calibration") or {}
        # `tuplet info` tells the rest
        named = {"calibration": {"name": calibration["name"]}} if calibration else {}
        made = {"logic": limits.logic, **source.about, **named}
    return {
        "version": __version__,
        "graph": source.graph.hash,
        "observed": list(source.splits) if source.splits is not None else "all",
        **made,
        **{name: value for name, value in limits.given().items() if name not in ("k", "logic")},
    }


def status(
    witnesses: Witnesses, ranking: Ranking, question: Question, engine: Engine[Any], judge: Judge, deadline: Deadline
) -> tuple[NDArray[np.int8], str | None]:
    """Which tuples the facts alone give: 1 yes, 0 no, -1 not known because the time was up; and what stopped it.

    A witness made of facts settles it at once; the others, whose best witness rests on a prediction although another
    one may not, are judged.
    """
    if not engine.needs_truth:
        return np.ones(len(ranking.tuples), dtype=np.int8), None
    crisp = witnesses.rest_on_facts().astype(np.int8)
    open_cases = np.flatnonzero(crisp == 0)
    if len(open_cases):
        crisp[open_cases] = judge(question.clauses, question.source, ranking.tuples[open_cases], deadline)
    return crisp, "timeout" if (crisp < 0).any() else None


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
        return engine.score(engine.planned(question.clauses, question.source, limits), ids, limits, deadline)
    except OutOfTime:
        raise BudgetExceeded(f"no truth values within {deadline.seconds:g} s", limit="timeout") from None


def plan_text(question: Question, engine: Engine[Any], limits: Limits = NO_LIMITS) -> str:
    """What `--plan` prints: the query as understood, its clauses and the steps of the engine."""
    clauses, graph = question.clauses, question.source.graph
    shapes = ", ".join(clause.shape() for clause in clauses) or "no clause can hold"
    head = f"query   {to_logic(question.tree)}\nclauses {len(clauses)} ({shapes})\nengine  {engine.name}\n"
    if not clauses:
        return head + "nothing to do"
    plan = engine.planned(clauses, question.source, limits)
    steps: str = plan.text(graph.entities.name, graph.relations.name)
    return head + steps


def in_name_order(ranking: Ranking, graph: KnowledgeGraph) -> Ranking:
    """The same ranking with ties in the order of entity names."""
    n = len(ranking.tuples)
    if n < 2 or bool((ranking.truth[1:] < ranking.truth[:-1]).all()):
        return ranking
    rank = graph.entities.sort_rank
    return ranking.take(np.lexsort((*rank[ranking.tuples].T[::-1], -ranking.truth)))
