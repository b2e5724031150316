"""Which attribute a word names: its own name, the last part of an IRI, or what every entity has: `name` and `label`."""

from __future__ import annotations

import re
from functools import cache, cached_property

import numpy as np

from tuplet.errors import nearest
from tuplet.graph.attributes import FACTS, AttributeColumn, ColumnContent
from tuplet.graph.graph import NO_DATE, KnowledgeGraph
from tuplet.graph.names import Strings, Vocabulary
from tuplet.graph.ranked import Ranked

LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
NAME_WORD, LABEL_WORD, DATE_WORD = "name", "label", "date"
_LOCAL = re.compile(r"[^#/:]+$")
_MICROSECONDS = 1_000_000


class AttributeWords:
    """The attributes of a graph, by the words that people use for them."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._graph = graph
        self._own = {name: name for name in graph.attributes.names}
        local: dict[str, list[str]] = {}
        for name in self._own:
            if (match := _LOCAL.search(name)) and match.group() != name:
                local.setdefault(match.group(), []).append(name)
        self._local = {word: names[0] for word, names in local.items() if len(names) == 1}

    def find(self, word: str, facts: bool = False) -> str | None:
        """The attribute that a word names, if it names one; with `facts`, an attribute of facts."""
        if word in self._own:
            return word
        if word in self._local:
            return self._local[word]
        if facts:
            return DATE_WORD if word == DATE_WORD and self._graph.date is not None else None
        if word == LABEL:
            return LABEL_WORD
        return word if word in (NAME_WORD, LABEL_WORD) else None

    def stated(self, word: str) -> bool:
        """Whether a word names an attribute that was given, not one that every entity has."""
        return word in self._own or word in self._local

    @cached_property
    def short(self) -> dict[str, str]:
        """The attributes that were given, each with the shortest word that names it."""
        return {**self._own, **{name: word for word, name in self._local.items()}}

    def suggest(self, word: str) -> list[str]:
        """The attributes that may be meant; all of a few."""
        known = list(self.short.values())
        return nearest(word, known) or (known if len(known) <= 8 else [])

    def of_entities(self, name: str) -> list[AttributeColumn]:
        """The columns of an attribute that `find` gave, one for each family of values."""
        found = self._graph.attributes.of_entities(name)
        if not found and name in (NAME_WORD, LABEL_WORD):
            return [self._names if name == NAME_WORD else self._labels]
        return found

    def of_facts(self, name: str, relation: int) -> list[AttributeColumn]:
        """The columns of an attribute of the facts of a relation."""
        found = self._graph.attributes.of_facts(name, relation)
        return [self._dates(relation)] if not found and name == DATE_WORD and self._graph.date is not None else found

    @cached_property
    def _names(self) -> AttributeColumn:
        words = self._graph.entities.flat
        return _texts(NAME_WORD, words.strings)

    @cached_property
    def _labels(self) -> AttributeColumn:
        """Labels; an entity that has none is called by its name."""
        words = self._graph.entities.flat
        if not len(words.labels):
            return _texts(LABEL_WORD, words.strings)
        return AttributeColumn.of(LABEL_WORD, np.arange(len(words)), _called(words))

    @cache  # noqa: B019 - lives as long as the graph
    def _dates(self, relation: int) -> AttributeColumn:
        heads, tails, entries = self._graph.adjacency.relation(relation)
        assert self._graph.date is not None
        date = self._graph.date[entries]
        dated = date != NO_DATE
        keys = heads[dated].astype(np.int64) * FACTS + tails[dated]
        values, rank = np.unique(date[dated] * _MICROSECONDS, return_inverse=True)
        order = np.argsort(keys, kind="stable")
        ranked = Ranked(keys[order], rank.astype(np.int32)[order])
        whole = bool((values % (86_400 * _MICROSECONDS) == 0).all())
        content = ColumnContent(ranked, values)
        return AttributeColumn(DATE_WORD, "date" if whole else "time", lambda: content, relation)


def _called(words: Vocabulary) -> list[str]:
    return [words.label(i) or words.name(i) for i in range(len(words))]


def _texts(name: str, strings: Strings) -> AttributeColumn:
    """The column of strings that are all different: key i has string i."""
    rank = np.empty(len(strings), np.int32)
    rank[strings.order] = np.arange(len(strings), dtype=np.int32)
    ordered = Strings.of(strings.texts(strings.order))
    content = ColumnContent(Ranked(np.arange(len(strings)), rank), ordered)
    return AttributeColumn(name, "text", lambda: content)
