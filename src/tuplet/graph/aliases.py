"""Further labels of entities: texts of those attributes that say what a thing is called, in any language."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tuplet.graph.attributes import AttributeColumn, Attributes
from tuplet.graph.names import Strings, Vocabulary

NOTE = "label_attributes"  # under which a graph names its own
USUAL = ("label", "alias", "aliases")  # attributes of any graph that are labels


@dataclass(frozen=True, eq=False)
class LabelColumns:
    """Entities by their further labels.

    >>> column = AttributeColumn.of("alias", np.array([4, 7, 4]), ["Parigi", "Paris", "Paris"])
    >>> labels = LabelColumns(Attributes((column,)), ("alias",))
    >>> labels.find("Paris"), labels.find("paris"), labels.beginning("Par", 5)
    ([4, 7], [], [('Parigi', 4), ('Paris', 4), ('Paris', 7)])
    """

    attributes: Attributes
    names: tuple[str, ...]

    @staticmethod
    def of(attributes: Attributes, notes: Mapping[str, Any]) -> LabelColumns | None:
        """Those of a graph, if it has any."""
        wanted = (*notes.get(NOTE, ()), *USUAL)
        names = tuple(name for name in dict.fromkeys(wanted) if attributes.of_entities(name))
        return LabelColumns(attributes, names) if names else None

    @cached_property
    def _columns(self) -> list[AttributeColumn]:
        found = (column for name in self.names for column in self.attributes.of_entities(name))
        return [column for column in found if column.kind == "text"]

    def strings(self) -> Iterator[Strings]:
        """All labels."""
        for column in self._columns:
            assert isinstance(column.values, Strings)
            yield column.values

    def find(self, label: str) -> list[int]:
        """The entities that have a label, ascending."""
        found: set[int] = set()
        for column in self._columns:
            rank = column.place(label)
            if column.place(label, after=True) > rank:
                found.update(_having(column, rank))
        return sorted(found)

    def beginning(self, text: str, most: int) -> list[tuple[str, int]]:
        """Labels that begin with a text, each with an entity that has it."""
        return [
            (column.values.text(rank), entity)
            for column in self._columns
            if isinstance(column.values, Strings)
            for rank in column.values.beginning(text, most)
            for entity in _having(column, rank)[:most]
        ]


def _having(column: AttributeColumn, rank: int) -> list[int]:
    entities: list[int] = column.ranked.keys[np.flatnonzero(column.ranked.rank == rank)].tolist()
    return entities


def with_labels(entities: Vocabulary, attributes: Attributes, notes: Mapping[str, Any]) -> Vocabulary:
    """The same names, which further labels find too."""
    known = entities.aliases
    if isinstance(known, LabelColumns) and known.attributes is attributes:
        return entities
    found = LabelColumns.of(attributes, notes) if attributes else None
    return entities if found is None and known is None else entities.called(found)
