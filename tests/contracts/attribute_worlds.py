"""Small random graphs with predictions and attributes, kept in plain dictionaries beside the store that is asked."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import TypeAlias

import numpy as np

from tuplet.graph.attributes import FACTS, AttributeColumn, Attributes
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.query.source import Source
from tuplet.store import Store
from tuplet.truth.table import TruthTable

Plain: TypeAlias = bool | int | float | str | datetime.date | datetime.datetime
Edge: TypeAlias = tuple[str, str, str]  # head, relation, tail

DAYS = [datetime.date(1990, 1, 1) + datetime.timedelta(days=step) for step in (0, 31, 365)]
# What the values of an attribute are chosen from: so few that they repeat.
ENTITY_VALUES: dict[str, list[Plain]] = {
    "age": [28, 30, 31, 45],
    "score": [0.5, 1, 1.5, 30],
    "born": [*DAYS],
    "seen": [datetime.datetime(1990, 1, 1, 12, tzinfo=datetime.UTC), DAYS[1], DAYS[2]],
    "active": [True, False],
    "note": ["ab", "abc", "bc", "Ünï", ""],
    "mixed": [28, 30, "ab", "28", True],
}
FACT_VALUES: dict[str, list[Plain]] = {"since": [28, 30, 2001, 2010], "by": ["ab", "bc"], "age": [30, 45]}


def family(value: Plain) -> str:
    """Values of one family compare with each other."""
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case datetime.date():
            return "time"
        case _:
            return "text"


@dataclass
class World:
    """Facts and predictions with their truth, and attributes of entities and of facts."""

    entities: list[str]
    relations: list[str]
    truth: dict[Edge, float]
    stated: set[Edge]
    of_entities: dict[str, dict[str, list[Plain]]] = field(default_factory=dict)  # attribute, entity
    of_facts: dict[str, dict[Edge, list[Plain]]] = field(default_factory=dict)  # attribute, fact

    @staticmethod
    def random(rng: Random) -> World:
        """A world of three to five entities."""
        entities = [f"e{i}" for i in range(rng.randint(3, 5))]
        relations = [f"r{i}" for i in range(rng.randint(1, 3))]
        density, share = rng.choice([0.25, 0.4, 0.6]), rng.choice([0.3, 0.7, 1.0])
        edges = [(h, r, t) for h in entities for r in relations for t in entities if rng.random() < density]
        edges = edges or [(entities[0], relations[0], entities[1])]
        stated = {edge for edge in edges if rng.random() < share} or {edges[0]}
        truth = {edge: 1.0 if edge in stated else rng.randint(1, 7) / 8 for edge in edges}

        def some(values: list[Plain]) -> list[Plain]:
            return rng.sample(values, min(len(values), rng.choices([0, 1, 2, 3], [3, 5, 2, 1])[0]))

        world = World(entities, relations, truth, stated)
        for name, values in ENTITY_VALUES.items():
            world.of_entities[name] = {entity: some(values) for entity in entities} | {entities[0]: [values[0]]}
        for name, values in FACT_VALUES.items():
            world.of_facts[name] = {fact: some(values) for fact in sorted(stated)} | {min(stated): [values[0]]}
        return world

    def values(self, name: str, of: str | Edge) -> list[Plain]:
        """The values of an attribute; those of one column are of one type, as they are kept."""
        if name == "name":
            return [str(of)]
        found = self.of_entities[name].get(of, []) if isinstance(of, str) else self.of_facts[name].get(of, [])
        return [self._kept(name, value) if isinstance(of, str) else value for value in found]

    @staticmethod
    def _kept(name: str, value: Plain) -> Plain:
        if name == "score":
            return float(value)  # type: ignore[arg-type]
        if name == "seen" and not isinstance(value, datetime.datetime):
            return datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC)  # type: ignore[union-attr]
        return value

    @cached_property
    def graph(self) -> KnowledgeGraph:
        """The stated facts with their attributes."""
        entity = {name: i for i, name in enumerate(self.entities)}
        relation = {name: i for i, name in enumerate(self.relations)}
        columns: list[AttributeColumn] = []

        def add(name: str, rows: list[tuple[int, Plain]], of: int = -1) -> None:
            for kind in dict.fromkeys(family(value) for _, value in rows):
                own = [(key, value) for key, value in rows if family(value) == kind]
                keys = np.array([key for key, _ in own], np.int64)
                columns.append(AttributeColumn.from_values(name, keys, [value for _, value in own], of))

        for name, values in self.of_entities.items():
            add(name, [(entity[who], value) for who, found in values.items() for value in found])
        for name, facts in self.of_facts.items():
            for number, word in enumerate(self.relations):
                own = {(h, t): found for (h, r, t), found in facts.items() if r == word}
                rows = [(entity[h] * FACTS + entity[t], value) for (h, t), found in own.items() for value in found]
                add(name, rows, number)
        facts_stated = sorted(self.stated)
        return KnowledgeGraph.from_edges(
            Vocabulary.from_names(self.entities),
            Vocabulary.from_names(self.relations),
            [entity[h] for h, _, _ in facts_stated],
            [relation[r] for _, r, _ in facts_stated],
            [entity[t] for _, _, t in facts_stated],
            attributes=Attributes(tuple(columns)),
        )

    @cached_property
    def facts_store(self) -> Store:
        """What is stated, to be asked with crisp."""
        return Store(Source(self.graph))

    @cached_property
    def store(self) -> Store:
        """What is stated and what is predicted."""
        edges = sorted(self.truth)
        ids = [
            (self.entities.index(h), self.relations.index(r), self.entities.index(t), self.truth[h, r, t])
            for h, r, t in edges
        ]
        heads, relations, tails, truth = (np.array(column) for column in zip(*ids, strict=True))
        observed = np.array([edge in self.stated for edge in edges])
        table = TruthTable.build(
            len(self.entities), len(self.relations), heads, relations, tails, truth.astype(np.float64), observed
        )
        return Store(Source(self.graph, None, table))
