"""A question: a query on a source, with all that it means there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput, Refused, UnknownName, WrongKind, nearest
from tuplet.graph.graph import AttributeWords, KnowledgeGraph
from tuplet.lang.ast import Atom, Column, Constant, Different, Free, Name, Query, atoms
from tuplet.lang.parse import EXAMPLE, parse
from tuplet.lang.print import to_logic, to_sparql, write_name
from tuplet.lang.rewrite import clauses
from tuplet.query.bind import bind, resolve
from tuplet.query.engine import Engine, Plan
from tuplet.query.interpretations import Reading, readings
from tuplet.query.limits import Deadline, Limits
from tuplet.query.loose import is_loose, loose_ranking
from tuplet.query.ranking import Clauses, Ranking, nothing
from tuplet.query.source import Source

MOST_TEXTS = 256  # questions that a store keeps, with their plans, for the next time they are asked
LONGEST_TEXT = 4096  # characters of such a question
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
