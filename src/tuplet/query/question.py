"""A question: a query on a source, with all that it means there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput, Refused, UnknownName, WrongKind, nearest
from tuplet.graph.graph import AttributeWords, KnowledgeGraph
from tuplet.lang.ast import Atom, Column, Constant, Free, Name, Query
from tuplet.lang.parse import EXAMPLE, parse
from tuplet.lang.printer import to_logic, written
from tuplet.lang.sparql_printer import to_sparql
from tuplet.query.bind import bind, bind_clauses, resolve
from tuplet.query.interpretations import Reading, is_plain, readings
from tuplet.query.ranking import Clauses
from tuplet.query.source import Source

KEPT = 256  # texts whose meaning is kept, for those who ask again
LONGEST_KEPT = 4096  # characters of such a text


@dataclass(frozen=True)
class BoundReading:
    """One thing that a query means on a source: what it shows, and its clauses as query graphs."""

    reading: Reading
    clauses: Clauses


@dataclass(frozen=True)
class Question:
    """A query on a source: as text, as a syntax tree, and as what it means there."""

    source: Source
    text: str
    tree: Query
    readings: tuple[BoundReading, ...]
    plain: bool  # it asks for entities and nothing else

    @staticmethod
    def of(
        source: Source,
        query: str | Query,
        grounding: Mapping[str, Any] | None = None,
        text: str = "",
        parameters: Mapping[str, Any] | None = None,
    ) -> Question:
        """The question of a text or a syntax tree; `text` is what a tree was read from: errors point into it."""
        graph = source.graph
        try:
            if isinstance(query, Query):
                shown = text or to_logic(query)
                tree, found = query, _as_it_stands(query, graph, text)
            elif isinstance(query, str):
                shown = text = query
                tree, found = _read(source, query, grounding, parameters)
            else:
                raise BadInput(f"a query is text, not {type(query).__name__}")
            plain = found is not None
            found = _meant(tree, source, text) if found is None else found
        except UnknownName as error:
            raise error.worded(graph.prefixes.short) if graph.prefixes.known else error from None
        return Question(source, shown, tree, found, tree.form == "select" and (plain or _shows_entities(tree, found)))

    @property
    def clauses(self) -> Clauses:
        """The clauses of a question that means one thing."""
        if len(self.readings) > 1:
            raise Refused(
                "this query means several things here (a variable for relations, or values of several kinds); "
                "name the relation"
            )
        return self.readings[0].clauses if self.readings else ()

    @property
    def free(self) -> tuple[Free, ...]:
        """The variables that a tuple of entities has, in order."""
        return self.readings[0].reading.free if self.readings else self.tree.free

    def ids(self, tuples: Sequence[Sequence[str]]) -> NDArray[np.int32]:
        """Given tuples of entity names as ids [n, k]."""
        asked = [f"?{variable.name}" for variable in self.free]
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


def _shows_entities(tree: Query, found: tuple[BoundReading, ...]) -> bool:
    """Whether a query means one thing, and shows the entities that it asks for: conditions alone change no answer."""
    if len(found) != 1 or tree.shown:
        return False
    reading = found[0].reading
    return reading.free == tree.free and not reading.order and tuple(c.what for c in reading.columns) == tree.free


def _read(
    source: Source, text: str, grounding: Mapping[str, Any] | None, parameters: Mapping[str, Any] | None
) -> tuple[Query, tuple[BoundReading, ...] | None]:
    """A text as a syntax tree, with its reading if it is plain; of the last texts both are kept."""
    if grounding is not None or parameters is not None or len(text) > LONGEST_KEPT:
        return _read_plain(source.graph, text, grounding, parameters)
    kept: Callable[[str], tuple[Query, tuple[BoundReading, ...] | None]] | None = source.prepared.get("texts")
    if kept is None:  # holds the graph alone: a cycle would keep an old source in memory
        kept = source.prepared["texts"] = lru_cache(KEPT)(partial(_read_plain, source.graph))
    return kept(text)


def _read_plain(
    graph: KnowledgeGraph,
    text: str,
    grounding: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> tuple[Query, tuple[BoundReading, ...] | None]:
    tree = read_query(text, grounding, graph, parameters)
    return tree, _as_it_stands(tree, graph, text)


def _as_it_stands(tree: Query, graph: KnowledgeGraph, text: str) -> tuple[BoundReading, ...] | None:
    """The one reading of a query that speaks of nothing but entities and relations; None for any other query."""
    if not is_plain(tree, graph):
        return None
    columns = tuple(Column(variable.name, variable) for variable in tree.free)
    return (BoundReading(Reading(tree.free, columns), bind(tree, graph, text)),)


def _meant(tree: Query, source: Source, text: str) -> tuple[BoundReading, ...]:
    graph, words = source.graph, source.attribute_words
    misfits: list[WrongKind] = []
    try:
        bound = [
            BoundReading(reading, bind_clauses(reading.clauses, graph, text, words, None if reading.alone else misfits))
            for reading in readings(tree, graph, words, text)
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
    relation = int(graph.relation_edges.argmax()) if len(graph.relation_edges) else -1
    head = graph.adjacency.first_entity(2 * relation) if relation >= 0 else -1
    if head < 0:
        return EXAMPLE
    tail = graph.entities.name(int(graph.adjacency.row(head, 2 * relation)[0]))
    query = Query((Free("x"),), Atom(Name(graph.relations.name(relation)), Free("x"), Constant(Name(tail))))
    logic = f"?x : {written(graph.relations.name(relation))}(?x, {written(tail)})"
    return f"{logic} or {to_sparql(query)}"


def _is_tuple(given: object, width: int) -> bool:
    """Whether these are as many names as the query asks for."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        return False
    names = list(given)
    return len(names) == width and all(isinstance(name, str) for name in names)
