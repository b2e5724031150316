"""Values added to and removed from the attributes of a store's entities and facts."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput, UnknownName, nearest
from tuplet.graph.attributes import FACTS, Attributes, Plain
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.versions import AttributeStates, EdgeStates, StoredValue, Subject, united, values_now

Fact = tuple[str, str, str]


@dataclass(frozen=True)
class NamedValue:
    """A value of an attribute of an entity, or of a fact, by name; without a value all of them are meant."""

    subject: str | Fact
    attribute: str
    value: Plain | None
    tag: str = ""  # language


def named_values(given: Any, removing: bool = False) -> list[NamedValue]:
    """What a user gave: tuples (entity, attribute, value), or a graph that has attributes.

    In place of the entity a fact (head, relation, tail) may stand, and a language tag may follow a text. To remove,
    the value may be left out.
    """
    if given is None:
        return []
    if isinstance(given, KnowledgeGraph):
        return list(_of_graph(given))
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise BadInput(f"attributes are a list of (entity, attribute, value), not {given!r}")
    return [_named(number, row, removing) for number, row in enumerate(given, start=1)]


def _named(number: int, row: Any, removing: bool) -> NamedValue:
    wanted = "(entity, attribute) or (entity, attribute, value)" if removing else "(entity, attribute, value)"
    fits = isinstance(row, tuple | list) and (2 if removing else 3) <= len(row) <= 4
    if not fits or not isinstance(row[1], str) or not row[1]:
        raise BadInput(f"attribute {number}: expected {wanted}, not {row!r}")
    subject = tuple(row[0]) if isinstance(row[0], tuple | list) else row[0]
    names = (subject,) if isinstance(subject, str) else subject
    if not isinstance(names, tuple) or len(names) not in (1, 3) or not all(isinstance(name, str) for name in names):
        raise BadInput(f"attribute {number}: {row[0]!r} is no entity, and no fact (head, relation, tail)")
    tag = row[3] if len(row) == 4 else ""
    value = _plain(row[2]) if len(row) > 2 else None
    if len(row) > 2 and value is None:
        raise BadInput(f"attribute {number}: {row[2]!r} is no number, text, date, true or false")
    if not isinstance(tag, str) or (tag and not isinstance(value, str)):
        raise BadInput(f"attribute {number}: only a text has a language tag, not {row[2:]!r}")
    return NamedValue(subject, row[1], value, tag)


def _plain(value: Any) -> Plain | None:
    """A value as it is kept; None if it cannot be."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return None
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return None
    return value if isinstance(value, bool | int | float | str | datetime.date) else None


def _of_graph(graph: KnowledgeGraph) -> Iterator[NamedValue]:
    name = graph.entities.name
    for column in graph.attributes.columns:
        keys, rank = column.ranked.keys.tolist(), column.ranked.rank.tolist()
        for row, key in enumerate(keys):
            subject: str | Fact = name(key)
            if column.relation >= 0:
                head, tail = divmod(key, FACTS)
                subject = (name(head), graph.relations.name(column.relation), name(tail))
            yield NamedValue(subject, column.name, column.value(rank[row]), column.tag(row))


def entity_names(values: Iterable[NamedValue]) -> Iterator[str]:
    """The entities that values speak of."""
    for value in values:
        if isinstance(value.subject, str):
            yield value.subject
        else:
            yield from (value.subject[0], value.subject[2])


class Resolver:
    """Subjects by id, in a store to which facts are being added."""

    def __init__(self, graph: KnowledgeGraph, entities: Mapping[str, int], more: EdgeStates | None = None) -> None:
        self._graph, self._entities, self._more = graph, entities, more

    def subject(self, value: NamedValue) -> Subject:
        """The subject of a value; a fact must be a stated one."""
        if isinstance(value.subject, str):
            return Subject(value.attribute, -1, self._entities[value.subject])
        head, name, tail = value.subject
        relation = self._graph.relations.find(name)
        if relation < 0:
            raise UnknownName("relation", name, self._graph.relations.suggest(name))
        edge = [np.array([i], np.int32) for i in (relation, self._entities[head], self._entities[tail])]
        given = self._more is not None and self._more.find(*edge)[0] >= 0
        if not given and self._graph.adjacency.find_many(edge[1], edge[0], edge[2])[0] < 0:
            raise BadInput(f"{name}({head}, {tail}) is not stated: only stated facts have attributes")
        return Subject(value.attribute, relation, self._entities[head] * FACTS + self._entities[tail])


@dataclass(frozen=True)
class ValueChanges:
    """The attributes that change, and in how many values."""

    states: AttributeStates
    added: int = 0
    removed: int = 0
    not_found: int = 0


def with_values(graph: KnowledgeGraph, values: list[NamedValue], resolver: Resolver, instead: bool) -> ValueChanges:
    """Add values to those that are there; `instead` of those that are there if so asked."""
    given: dict[Subject, list[StoredValue]] = {}
    for value in values:
        assert value.value is not None
        given.setdefault(resolver.subject(value), []).append(StoredValue.of(value.value, value.tag))
    states, added, removed = {}, 0, 0
    for subject, new in given.items():
        old = values_now(graph.attributes, subject)
        now = united(new if instead else (*old, *new))
        before, after = {value.same for value in old}, {value.same for value in now}
        if before != after:
            states[subject] = now
            added, removed = added + len(after - before), removed + len(before - after)
    return ValueChanges(AttributeStates(states), added, removed)


def without_values(graph: KnowledgeGraph, values: list[NamedValue], resolver: Resolver) -> ValueChanges:
    """Remove single values, or all of an attribute."""
    states: dict[Subject, tuple[StoredValue, ...]] = {}
    removed = not_found = 0
    for value in values:
        if value.attribute not in graph.attributes.names:
            raise unknown_attribute(graph.attributes, value.attribute)
        subject = resolver.subject(value)
        old = states.get(subject, values_now(graph.attributes, subject))
        if value.value is None:
            now: tuple[StoredValue, ...] = ()
        else:
            gone = StoredValue.of(value.value, value.tag)
            # without a tag the text is meant in any language
            now = tuple(v for v in old if v.same[:2] != gone.same[:2] or (gone.tag and v.tag != gone.tag))
        removed, not_found = removed + len(old) - len(now), not_found + (len(old) == len(now))
        if len(now) < len(old):
            states[subject] = now
    return ValueChanges(AttributeStates(states), 0, removed, not_found)


def of_gone_facts(graph: KnowledgeGraph, gone: EdgeStates) -> AttributeStates:
    """A fact that is gone has no attributes any more."""
    states: dict[Subject, tuple[StoredValue, ...]] = {}
    relations = set(np.unique(gone.relation).tolist())
    for column in graph.attributes.columns:
        if column.relation in relations:
            keys: NDArray[np.int64] = gone.key[gone.relation == column.relation]
            for key in keys[np.isin(keys, column.ranked.keys)].tolist():
                states[Subject(column.name, column.relation, key)] = ()
    return AttributeStates(states)


def unknown_attribute(attributes: Attributes, name: str) -> UnknownName:
    """The error for an attribute that no entity and no fact has, with the nearest names."""
    return UnknownName("attribute", name, nearest(name, attributes.names))
