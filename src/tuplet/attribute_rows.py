"""Attributes as people see them: which there are, of what kind and range, and those of one entity."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuplet.graph.attributes import FACTS, AttributeColumn, Plain, comparable, widest
from tuplet.graph.graph import KnowledgeGraph
from tuplet.query.display import Listing

LONGEST = 40  # characters of a text that are shown


@dataclass(frozen=True)
class AttributeRow:
    """An attribute: of what, how many values it has, from where to where they reach, and one of them."""

    attribute: str
    of: str  # entities, or a relation whose facts have it
    kind: str
    values: int
    distinct: int
    low: str
    high: str
    example: str


@dataclass(frozen=True)
class EntityValue:
    """A value of an entity."""

    attribute: str
    value: bool | int | float | str  # dates and times as text
    kind: str
    language: str = ""


class EntityValues(Listing[EntityValue]):
    """All values of an entity; numbers are shown as they are, since a year is no amount."""

    def _shown(self) -> list[list[str]]:
        return [["attribute", "value"], *([row.attribute, _with_tag(row)] for row in self)]


def _with_tag(row: EntityValue) -> str:
    return shown(row.value) + (f" @{row.language}" if row.language else "")


def attributes(graph: KnowledgeGraph) -> Listing[AttributeRow]:
    """All attributes of a graph, those of entities before those of facts; prints as a table."""
    groups: dict[tuple[bool, str, str], list[AttributeColumn]] = {}
    for column in graph.attributes.columns:
        if len(column):
            groups.setdefault((column.relation >= 0, column.name, column.family), []).append(column)
    rows = [_row(graph, columns) for _, columns in sorted(groups.items(), key=lambda group: group[0])]
    return Listing(rows, AttributeRow, prefixes=graph.prefixes)


def _row(graph: KnowledgeGraph, columns: Sequence[AttributeColumn]) -> AttributeRow:
    first = columns[0]
    of = "entities" if first.relation < 0 else graph.relations.name(first.relation)
    if len(columns) > 1:
        of = f"{len(columns):,} relations"
    ranges = [found for column in columns if (found := column.range()) is not None]
    low, high = min((low for low, _ in ranges), key=comparable), max((high for _, high in ranges), key=comparable)
    value, key = first.value(int(first.ranked.rank[0])), int(first.ranked.keys[0])
    ends = divmod(key, FACTS) if first.relation >= 0 else (key,)
    subject = ", ".join(graph.entities.name(end) for end in ends)
    return AttributeRow(
        first.name,
        of,
        widest([column.kind for column in columns]),
        sum(map(len, columns)),
        max(column.distinct for column in columns),
        shown(low),
        shown(high),
        f"{subject} = {shown(value)}",
    )


def told(graph: KnowledgeGraph) -> dict[str, str]:
    """Each attribute in a few words."""
    found: dict[str, list[str]] = {}
    for row in attributes(graph):
        found.setdefault(row.attribute, []).append(f"{row.kind}, {row.values:,} of {row.of}")
    return {name: "; ".join(words) for name, words in sorted(found.items())}


def values_of_entity(graph: KnowledgeGraph, entity: int) -> EntityValues:
    """All values of an entity, by attribute."""
    columns: Iterable[AttributeColumn] = (column for column in graph.attributes.columns if column.relation < 0)
    rows = [
        EntityValue(column.name, written(value), column.kind, tag)
        for column in columns
        for value, tag in column.tagged_values_of(entity)
    ]
    return EntityValues(sorted(rows, key=lambda row: row.attribute), EntityValue, prefixes=graph.prefixes)


def written(value: Plain) -> bool | int | float | str:
    """A value as JSON has it: dates and times are texts.

    >>> written(datetime.date(1990, 5, 1)), written(31)
    ('1990-05-01', 31)
    """
    return value.isoformat() if isinstance(value, datetime.date) else value


def shown(value: Plain) -> str:
    """A value for people; a long text is cut.

    >>> shown(True), shown(0.1), shown(2001), shown("word " * 20)
    ('true', '0.1', '2001', 'word word word word word word word word…')
    """
    if isinstance(value, bool):
        return str(value).lower()
    text = f"{value:.6g}" if isinstance(value, float) else str(written(value))
    text = " ".join(text.split()) if "\n" in text else text
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"
