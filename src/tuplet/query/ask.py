"""The whole pipeline of a question: parse → bind → plan → run → explain.

`Question.from_query` parses a text and binds its names to a source; `BoundReading.rank` plans and runs it on an engine;
`ask` does that for all that the question may mean, and `explain` makes answers of the rankings: names, witnesses,
statuses and evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet._version import __version__
from tuplet.errors import BadInput, BudgetExceeded, Refused, UnknownName, WrongKind, nearest
from tuplet.graph.graph import AttributeWords, KnowledgeGraph
from tuplet.lang.ast import Atom, Column, Constant, Different, Free, Name, Query, atoms
from tuplet.lang.parse import EXAMPLE, parse
from tuplet.lang.print import to_logic, to_sparql, write_name
from tuplet.lang.rewrite import clauses
from tuplet.query.answers import Answers
from tuplet.query.bind import bind, resolve
from tuplet.query.engine import Engine, Plan
from tuplet.query.guarantees import find_guaranteed
from tuplet.query.hints import hints
from tuplet.query.interpretations import Reading, readings
from tuplet.query.limits import NO_LIMITS, Deadline, Limits, OutOfTime
from tuplet.query.loose import Judge, is_loose, judge_tuples, loose_given, loose_plan, loose_ranking
from tuplet.query.ranking import Clauses, Ranking, nothing
from tuplet.query.rows import FoundRows, find_rows
from tuplet.query.schema import Guarantee, Provenance
from tuplet.query.source import Source
from tuplet.query.witness import Witnesses

MOST_TEXTS = 256  # questions that a store keeps, with their plans, for the next time they are asked
LONGEST_TEXT = 4096  # characters of such a question
MOST_PLANS = 4  # that are printed where a query means several things
Accept: TypeAlias = Callable[[Query, KnowledgeGraph], Query]  # looks at a syntax tree before its names are looked up


@dataclass(frozen=True)
class BoundReading:
    """One interpretation of a query on a source: what it shows, and its clauses as query graphs."""

    reading: Reading
    clauses: Clauses
    loose: bool = False  # some variable is in no atom to search for, or there is nothing to search for at all
    plans: dict[type[Engine[Any]], Plan] = field(default_factory=dict, compare=False, repr=False)

    def rank(self, source: Source, engine: Engine[Any], limits: Limits, deadline: Deadline) -> Ranking:
        """The best tuples; a plan that depends on nothing but the source is made once."""
        plan: Any = self.plans.get(type(engine))
        if plan is None:
            if not self.clauses:
                return nothing(len(self.reading.free))
            if self.loose:
                return loose_ranking(self.clauses, source, engine, limits, deadline)
            plan = engine.planned(self.clauses, source, limits)
            if not engine.plans_by_limits and (source.truth is None or source.truth.tabulated):
                self.plans[type(engine)] = plan
        return engine.run(plan, limits, deadline)


@dataclass(frozen=True)
class Question:
    """A query on a source: as text, as a syntax tree, and bound to the names there."""

    source: Source
    text: str
    tree: Query
    readings: tuple[BoundReading, ...]
    plain: bool  # it asks for entities and nothing else
    hints: dict[bool, tuple[str, ...]] = field(default_factory=dict, compare=False, repr=False)  # by needs_truth

    @staticmethod
    def from_query(
        source: Source,
        query: str | Query,
        grounding: Mapping[str, Any] | None = None,
        text: str = "",
        parameters: Mapping[str, Any] | None = None,
        accept: Accept | None = None,
    ) -> Question:
        """Parse a text (or take a syntax tree, read from `text`: errors point into it) and bind it to the source.

        `accept` may refuse the tree that was parsed, or return another one, before its names are looked up.
        """
        graph = source.graph
        try:
            if isinstance(query, Query):
                tree, shown = query, text or to_logic(query)
            elif isinstance(query, str):
                tree, shown, text = read_query(query, grounding, graph, parameters), query, query
                tree = accept(tree, graph) if accept else tree
            else:
                raise BadInput(f"a query is text, not {type(query).__name__}")
            if is_plain(tree, graph):
                columns = tuple(map(Column, map(attrgetter("name"), tree.free), tree.free))
                only = BoundReading(
                    Reading(tree.free, columns), bind(clauses(tree), graph, text, source.attribute_words)
                )
                return Question(source, shown, tree, (only,), tree.form == "select")
            found = _bound_readings(tree, source, text)
        except UnknownName as error:
            raise error.shorten(graph.prefixes.short) if graph.prefixes.known else error from None
        plain = tree.form == "select" and not tree.shown and len(found) == 1
        if plain:  # conditions alone change no answer
            reading = found[0].reading
            plain = reading.free == tree.free == tuple([c.what for c in reading.columns]) and not reading.order
        return Question(source, shown, tree, found, plain)

    @property
    def clauses(self) -> Clauses:
        """The clauses of a question that means one thing."""
        if len(self.readings) > 1:
            raise Refused(
                "this query means several things here (a variable for relations, or values of several kinds); "
                "name the relation"
            )
        return self.readings[0].clauses if self.readings else ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The variables that a tuple of entities has, in order."""
        free = self.readings[0].reading.free if self.readings else self.tree.free
        return tuple(map(attrgetter("name"), free))

    def ids(self, tuples: Sequence[Sequence[str]]) -> NDArray[np.int32]:
        """Given tuples of entity names as ids [n, k]."""
        width = len(self.names)
        if isinstance(tuples, str) or not isinstance(tuples, Iterable):
            raise BadInput(f"the tuples are a list of tuples of names, not {tuples!r}")
        for given in tuples:
            several = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else None
            if several is None or len(several) != width or not all(isinstance(name, str) for name in several):
                names = "one name" if width == 1 else f"{width} names"
                asked = ", ".join(f"?{name}" for name in self.names)
                raise BadInput(f"a tuple has {names}, of {asked}; {given!r} is no such tuple")
        entities = self.source.graph.entities
        found = [[resolve(Name(name), "entity", entities) for name in given] for given in tuples]
        return np.array(found, np.int32).reshape(len(found), width)


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
    evidence = {}
    if limits.evidence and limits.witness:
        from tuplet.query.evidence import find_evidence  # brings in a compiler

        evidence = find_evidence(witnesses, source, deadline)
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


# --- what a text may mean -----------------------------------------------------------------------------------------


def is_plain(query: Query, graph: KnowledgeGraph) -> bool:
    """Whether a query speaks of nothing but relations and entities: then there is one reading, the query itself."""
    if query.shown or query.order:
        return False
    attributes = graph.attributes
    for atom in atoms(query.body):
        if isinstance(atom, Atom):
            name = atom.relation
            if name.kind == "variable":
                return False
            if attributes.columns and (
                graph.relations.find(name.text) < 0 or (not query.links and attributes.of_entities(name.text))
            ):
                return False
        elif not isinstance(atom, Different):
            return False
    return True


def _bound_readings(tree: Query, source: Source, text: str) -> tuple[BoundReading, ...]:
    graph, words = source.graph, source.attribute_words
    misfits: list[WrongKind] = []
    try:
        bound = [
            BoundReading(reading, found, any(is_loose(c) or not (c.variables or c.edges) for c in found))
            for reading in readings(tree, graph, words, text)
            for found in [bind(reading.clauses, graph, text, words, None if reading.alone else misfits)]
        ]
    except UnknownName as error:
        raise _or_attribute(error, words) from None
    possible = tuple(reading for reading in bound if reading.clauses)
    if misfits and not possible:
        raise misfits[0]
    return possible or tuple(bound)


def _or_attribute(error: UnknownName, words: AttributeWords) -> UnknownName:
    """The error for a relation, with the attribute that may be meant: SPARQL writes both alike."""
    if error.kind != "relation" or error.note:
        return error
    known = error.suggestions if error.sure else ()
    attributes = [f"<{name}>" for name in words.short] if "://" in error.name else list(words.short.values())
    best = nearest(error.name, [*known, *attributes], most=1)
    if not best or best[0] in known:
        return error
    return UnknownName(
        "relation or attribute", error.name, [*best, *known], "", error.text, error.position, error.length
    )


def read_query(
    text: str,
    grounding: Mapping[str, Any] | None,
    graph: KnowledgeGraph,
    parameters: Mapping[str, Any] | None = None,
) -> Query:
    """A text as a syntax tree, with the prefixes of the graph."""
    return parse(text, grounding, graph.prefixes.known, parameters, partial(_example, graph))


def _example(graph: KnowledgeGraph) -> str:
    """A query about a fact of the graph, of the relation that has most."""
    relation = int(graph.adjacency.relation_edges.argmax()) if len(graph.adjacency.relation_edges) else -1
    head = graph.adjacency.first_entity(2 * relation) if relation >= 0 else -1
    if head < 0:
        return EXAMPLE
    tail = graph.entities.name(int(graph.adjacency.row(head, 2 * relation)[0]))
    query = Query((Free("x"),), Atom(Name(graph.relations.name(relation)), Free("x"), Constant(Name(tail))))
    logic = f"?x : {write_name(graph.relations.name(relation))}(?x, {write_name(tail)})"
    return f"{logic} or {to_sparql(query)}"
