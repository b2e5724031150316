"""Attributes: numbers, dates, texts and truth values of entities or of stated facts; kept in columns, never predicted.

A column holds the distinct values of one attribute in ascending order, and for each key the rank of its value. The key
of an entity is its id, that of a fact `head · 2³² + tail` in the column of its relation. An attribute whose values are
of several families (numbers here, texts there) has a column for each.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.names import Strings
from tuplet.graph.ranked import Ids, Ranked

Plain: TypeAlias = bool | int | float | str | datetime.date | datetime.datetime
Kind: TypeAlias = Literal["integer", "number", "boolean", "date", "time", "text"]
Family: TypeAlias = Literal["number", "boolean", "time", "text"]  # kinds whose values compare with each other

FAMILIES: dict[Kind, Family] = {
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "date": "time",
    "time": "time",
    "text": "text",
}
FACTS = 1 << 32  # the key of a fact is head · FACTS + tail
_START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass(frozen=True, eq=False)
class AttributeColumn:
    """The values of one family of an attribute, of entities or of the facts of a relation.

    >>> ages = AttributeColumn.of("age", np.array([7, 3]), [31, 28])
    >>> ages.values_of(7), ages.place(30), ages.kind
    ([31], 1, 'integer')
    """

    name: str
    kind: Kind
    ranked: Ranked
    values: NDArray[Any] | Strings  # distinct, ascending: int64, float64, bool; times in microseconds since 1970
    relation: int = -1  # of whose facts; -1: of entities
    languages: Strings | None = None  # the language tag of each text, where there are any

    @staticmethod
    def of(name: str, keys: Ids, values: Sequence[Plain], relation: int = -1) -> AttributeColumn:
        """The column of values of one family, in any order."""
        kind = max(
            (kind_of(value) for value in values), key=["integer", "boolean", "date", "text", "number", "time"].index
        )
        if kind == "text":
            distinct = sorted({str(value) for value in values}, key=str.encode)
            number = {value: i for i, value in enumerate(distinct)}
            rank = np.array([number[str(value)] for value in values], np.int32)
            stored: NDArray[Any] | Strings = Strings.of(distinct)
        else:
            dtype = {"integer": np.int64, "number": np.float64, "boolean": np.bool_}.get(kind, np.int64)
            plain: NDArray[Any] = np.array([comparable(value) for value in values], dtype=dtype)
            stored, inverse = np.unique(plain, return_inverse=True)
            rank = inverse.astype(np.int32)
        order = np.lexsort((rank, keys))
        keys, rank = np.asarray(keys)[order], rank[order]
        new = np.ones(len(keys), dtype=bool)
        new[1:] = (keys[1:] != keys[:-1]) | (rank[1:] != rank[:-1])
        return AttributeColumn(name, kind, Ranked(keys[new], rank[new]), stored, relation)

    @property
    def family(self) -> Family:
        return FAMILIES[self.kind]

    def __len__(self) -> int:
        return len(self.ranked.keys)

    @property
    def distinct(self) -> int:
        """How many distinct values there are."""
        return len(self.values)

    def place(self, value: Plain, after: bool = False) -> int:
        """How many distinct values are below a value of the family, the value itself counted if `after`."""
        if isinstance(self.values, Strings):
            key = str(value).encode()
            low = self.values.before(key)
            return low + (after and low < len(self.values) and self.values.raw(low) == key)
        return int(np.searchsorted(self.values, comparable(value), "right" if after else "left"))

    def value(self, rank: int) -> Plain:
        """The value of a rank."""
        if isinstance(self.values, Strings):
            return self.values.text(rank)
        stored: bool | int | float = self.values[rank].item()
        if self.kind in ("date", "time"):
            moment = _START + stored * _MICROSECOND
            return moment.date() if self.kind == "date" else moment
        return stored

    def values_of(self, key: int) -> list[Plain]:
        """The values of an entity or a fact, ascending."""
        _, rank = self.ranked.gathered(np.array([key]))
        return [self.value(int(r)) for r in rank]


def kind_of(value: Plain) -> Kind:
    """What kind of value this is."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case datetime.datetime():
            return "time"
        case datetime.date():
            return "date"
        case _:
            return "text"


def comparable(value: Plain) -> bool | int | float | str:
    """A value as it is stored: times as microseconds since 1970 in universal time."""
    if isinstance(value, datetime.datetime):
        return ((value if value.tzinfo else value.replace(tzinfo=datetime.UTC)) - _START) // _MICROSECOND
    if isinstance(value, datetime.date):
        return comparable(datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC))
    return value


@dataclass(frozen=True, eq=False)
class Attributes:
    """All attributes of a graph."""

    columns: tuple[AttributeColumn, ...] = ()
    _found: dict[str, list[AttributeColumn]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        for column in self.columns:
            self._found.setdefault(column.name, []).append(column)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def names(self) -> list[str]:
        """The names of all attributes, of entities and of facts, in the order of the columns."""
        return list(self._found)

    def of_entities(self, name: str) -> list[AttributeColumn]:
        """The columns of an attribute of entities, one for each family of values, if there are any."""
        return [column for column in self._found.get(name, []) if column.relation < 0]

    def of_facts(self, name: str, relation: int) -> list[AttributeColumn]:
        """The columns of an attribute of the facts of a relation."""
        return [column for column in self._found.get(name, []) if column.relation == relation]


NO_ATTRIBUTES = Attributes()
