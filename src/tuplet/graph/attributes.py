"""Attributes: numbers, dates, texts and truth values of entities or of stated facts; kept in columns, never predicted.

A column holds the distinct values of one attribute in ascending order, and for each key the rank of its value. The key
of an entity is its id, that of a fact `head · 2³² + tail` in the column of its relation. An attribute whose values are
of several families (numbers here, texts there) has a column for each. What a column holds is read when it is first
looked at.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput
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
# Of two kinds of one family the later one holds the values of both.
KINDS: tuple[Kind, ...] = ("integer", "boolean", "date", "text", "number", "time")
STORED: dict[Kind, Any] = {"number": np.float64, "boolean": np.bool_}  # others are int64
FACTS = 1 << 32  # the key of a fact is head · FACTS + tail
_START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


class ColumnContent(NamedTuple):
    """The rows of a column, and the values that their ranks stand for."""

    ranked: Ranked
    values: NDArray[Any] | Strings  # distinct, ascending: int64, float64, bool; times in microseconds since 1970
    languages: NDArray[np.int16] | None = None  # [rows] which of the column's tags a text has; None: no text has one


@dataclass(frozen=True, eq=False)
class AttributeColumn:
    """The values of one family of an attribute, of entities or of the facts of a relation.

    >>> ages = AttributeColumn.of("age", np.array([7, 3]), [31, 28])
    >>> ages.values_of(7), ages.place(30), ages.kind
    ([31], 1, 'integer')
    """

    name: str
    kind: Kind
    load: Callable[[], ColumnContent] = field(repr=False)  # called once, when something is looked at
    relation: int = -1  # of whose facts; -1: of entities
    tags: tuple[str, ...] = ()  # the language tags of texts, the first one "": none

    @staticmethod
    def of(
        name: str, keys: Ids, values: Sequence[Plain], relation: int = -1, languages: Sequence[str] | None = None
    ) -> AttributeColumn:
        """The column of values of one family, in any order; `languages` are the tags of texts."""
        kind = widest([kind_of(value) for value in values])
        stored, rank = ranks_of(kind, values)
        tags = tuple(sorted({"", *(languages or ())}))
        codes = np.array([tags.index(tag) for tag in languages or [""] * len(values)], np.int16)
        content = in_order(np.asarray(keys), rank, stored, codes if len(tags) > 1 else None)
        return AttributeColumn(name, kind, lambda: content, relation, tags if len(tags) > 1 else ())

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.name, self.kind, self.content, self.relation, self.tags)

    @cached_property
    def content(self) -> ColumnContent:
        """All that it holds."""
        return self.load()

    @property
    def ranked(self) -> Ranked:
        """The rank of each key's value."""
        return self.content.ranked

    @property
    def values(self) -> NDArray[Any] | Strings:
        """The distinct values, ascending."""
        return self.content.values

    @property
    def family(self) -> Family:
        """The values it can be compared with."""
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
            key = str(value).encode("utf-8", "surrogatepass")
            low = self.values.before(key)
            return low + (after and low < len(self.values) and self.values.raw(low) == key)
        return int(np.searchsorted(self.values, comparable(value), "right" if after else "left"))

    def value(self, rank: int) -> Plain:
        """The value of a rank."""
        if isinstance(self.values, Strings):
            return self.values.text(rank)
        return plain(self.kind, self.values[rank].item())

    def values_of(self, key: int) -> list[Plain]:
        """The values of an entity or a fact, ascending."""
        return [value for value, _ in self.tagged_values_of(key)]

    def tagged_values_of(self, key: int) -> list[tuple[Plain, str]]:
        """The same, each with its language tag ("" if it has none)."""
        low, high = np.searchsorted(self.ranked.keys, [key, key + 1]).tolist()
        return [(self.value(int(self.ranked.rank[row])), self.tag(row)) for row in range(low, high)]

    def tag(self, row: int) -> str:
        """The language tag of a row."""
        languages = self.content.languages
        return "" if languages is None else self.tags[languages[row]]

    def only(self, rows: NDArray[np.bool_]) -> AttributeColumn:
        """The column of some of the rows."""
        ranked, values, languages = self.content
        own = Ranked(ranked.keys[rows], ranked.rank[rows])
        content = ColumnContent(own, values, None if languages is None else languages[rows])
        return AttributeColumn(self.name, self.kind, lambda: content, self.relation, self.tags)

    def range(self) -> tuple[Plain, Plain] | None:
        """The smallest and the largest value that some key has."""
        rank = self.ranked.rank
        return (self.value(int(rank.min())), self.value(int(rank.max()))) if len(rank) else None


def _unpickled(name: str, kind: Kind, content: ColumnContent, relation: int, tags: tuple[str, ...]) -> AttributeColumn:
    return AttributeColumn(name, kind, lambda: content, relation, tags)


def in_order(
    keys: Ids,
    rank: NDArray[np.int32],
    values: NDArray[Any] | Strings,
    languages: NDArray[np.int16] | None = None,
) -> ColumnContent:
    """The content of rows in any order; the same row again does not count."""
    keys = keys.astype(np.int32 if keys.dtype == np.int32 else np.int64, copy=False)
    ascending = bool((keys[1:] > keys[:-1]).all())
    if not ascending and keys.dtype == np.int32 and languages is None:
        both = np.sort(keys.astype(np.int64) << 32 | rank)  # one plain sort is much quicker than that of two columns
        both = both[np.append(True, both[1:] != both[:-1])]
        keys, rank = (both >> 32).astype(np.int32), (both & 0xFFFFFFFF).astype(np.int32)
    elif not ascending:
        order = np.argsort(keys)
        ordered = keys[order]
        if (ordered[1:] > ordered[:-1]).all():  # mostly a key has one value
            return ColumnContent(Ranked(ordered, rank[order]), values, None if languages is None else languages[order])
        order = np.lexsort((rank, keys) if languages is None else (languages, rank, keys))
        columns = [column[order] for column in (keys, rank, *(() if languages is None else (languages,)))]
        new = np.ones(len(keys), dtype=bool)
        new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
        keys, rank, *more = (column[new] for column in columns)
        languages = more[0] if more else None
    return ColumnContent(Ranked(keys, rank.astype(np.int32, copy=False)), values, languages)


def ranks_of(kind: Kind, values: Sequence[Plain]) -> tuple[NDArray[Any] | Strings, NDArray[np.int32]]:
    """The distinct values, ascending, as they are stored, and the rank of each value."""
    if kind == "text":
        encoded = [str(value).encode() for value in values]
        distinct = sorted(set(encoded))
        number = {value: i for i, value in enumerate(distinct)}
        return texts_of(distinct), np.array([number[value] for value in encoded], np.int32)
    try:
        stored: NDArray[Any] = np.array([comparable(value) for value in values], dtype=STORED.get(kind, np.int64))
    except OverflowError:
        raise BadInput("a whole number is too large to be kept: 64 bits are the most") from None
    found, rank = np.unique(stored, return_inverse=True)
    return found, rank.astype(np.int32)


def texts_of(encoded: Sequence[bytes]) -> Strings:
    """Distinct texts in ascending order; unlike a name, one of them may be empty."""
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return ordered_texts(np.frombuffer(b"".join(encoded), np.uint8), offsets)


def ordered_texts(blob: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Strings:
    """The same of their bytes."""
    return Strings(blob, offsets, np.arange(len(offsets) - 1, dtype=np.int32))


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


def widest(kinds: Sequence[Kind]) -> Kind:
    """The kind that holds the values of several kinds of one family.

    >>> widest(["number", "integer"])
    'number'
    """
    return max(kinds, key=KINDS.index)


def comparable(value: Plain) -> bool | int | float | str:
    """A value as it is stored: times as microseconds since 1970 in universal time."""
    if isinstance(value, datetime.datetime):
        return ((value if value.tzinfo else value.replace(tzinfo=datetime.UTC)) - _START) // _MICROSECOND
    if isinstance(value, datetime.date):
        return comparable(datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC))
    return value


def plain(kind: Kind, stored: bool | int | float | str) -> Plain:
    """The inverse of `comparable`.

    >>> plain("date", comparable(datetime.date(1990, 5, 1)))
    datetime.date(1990, 5, 1)
    """
    if kind in ("date", "time"):
        moment = _START + int(stored) * _MICROSECOND
        return moment.date() if kind == "date" else moment
    return stored


@dataclass(frozen=True, eq=False)
class Attributes:
    """All attributes of a graph."""

    columns: tuple[AttributeColumn, ...] = ()
    _found: dict[str, list[AttributeColumn]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        for column in self.columns:
            self._found.setdefault(column.name, []).append(column)

    def __reduce__(self) -> tuple[Any, ...]:
        return Attributes, (self.columns,)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def names(self) -> list[str]:
        """The names of all attributes, of entities and of facts, in the order of the columns."""
        return list(self._found)

    def of_entities(self, name: str) -> list[AttributeColumn]:
        """The columns of an attribute of entities, one for each family of values, if there are any."""
        return self.of_facts(name, -1)

    def of_facts(self, name: str, relation: int) -> list[AttributeColumn]:
        """The columns of an attribute of the facts of a relation."""
        return [column for column in self._found.get(name, []) if column.relation == relation]

    def among_facts(self, kept: Mapping[int, Ids]) -> Attributes:
        """The same, where of some relations only these facts are left, by their keys."""
        columns = []
        for column in self.columns:
            if column.relation in kept:
                there = np.isin(column.ranked.keys, kept[column.relation])
                column = column if there.all() else column.only(there)
            columns.append(column)
        return Attributes(tuple(columns)) if kept else self

    def values_of(self, name: str, key: int, relation: int = -1) -> list[tuple[Plain, str]]:
        """All values of an attribute of an entity or a fact, with their language tags."""
        return [pair for column in self.of_facts(name, relation) for pair in column.tagged_values_of(key)]


NO_ATTRIBUTES = Attributes()
