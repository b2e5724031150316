"""Attributes: numbers, dates, texts and truth values of entities or of stated facts; kept in columns, never predicted.

A column holds the distinct values of one attribute in ascending order, and for each key the rank of its value. The key
of an entity is its id, that of a fact `head · 2³² + tail` in the column of its relation. An attribute whose values are
of several families (numbers here, texts there) has a column for each. What a column holds is read when it is first
looked at.

On disk there is one table for each attribute and family, of entities or of the facts of all relations together: a few
arrays of the graph's folder, `attribute_3_keys.npy` and so on. They are mapped when the folder is opened, and verified
when a query first asks for them. The rows of a table of facts are grouped by relation.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput, CorruptStore
from tuplet.graph.adjacency import are_pointers, are_within, consecutive, refuse_misfits
from tuplet.graph.arrays import Directory
from tuplet.graph.names import Strings, Vocabulary, arrow_bytes

Plain: TypeAlias = bool | int | float | str | datetime.date | datetime.datetime
Kind: TypeAlias = Literal["integer", "number", "boolean", "date", "time", "text"]
Family: TypeAlias = Literal["number", "boolean", "time", "text"]  # kinds whose values compare with each other
Ids: TypeAlias = NDArray[np.integer]
Marks: TypeAlias = NDArray[np.bool_]
Values: TypeAlias = NDArray[Any] | Strings

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
LABELS_NOTE = "label_attributes"  # the note under which a graph names the attributes that are labels
LABELS = ("label", "alias", "aliases")  # attributes of any graph that are labels
_START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


# --- values ------------------------------------------------------------------------------------------------------


def kind_of(value: Plain) -> Kind:
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


def widest(kinds: Iterable[Kind]) -> Kind:
    """The kind that holds the values of several kinds of one family."""
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


def rank_values(kind: Kind, values: Sequence[Plain]) -> tuple[Values, NDArray[np.int32]]:
    """The distinct values, ascending, as they are stored, and the rank of each value."""
    if kind == "text":
        encoded = [str(value).encode() for value in values]
        distinct = sorted(set(encoded))
        number = {value: i for i, value in enumerate(distinct)}
        places = np.array([number[value] for value in encoded], np.int32)
        return Strings.from_bytes(distinct, range(len(distinct))), places
    try:
        stored: NDArray[Any] = np.array([comparable(value) for value in values], dtype=STORED.get(kind, np.int64))
    except OverflowError:
        raise BadInput("a whole number is too large to be kept: 64 bits are the most") from None
    found, rank = np.unique(stored, return_inverse=True)
    return found, rank.astype(np.int32)


def ordered_texts(blob: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Strings:
    return Strings(blob, offsets, np.arange(len(offsets) - 1, dtype=np.int32))


# --- columns -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Ranked:
    """Keys in ascending order, each with the place of its value in the order of all values.

    >>> ages = Ranked(np.array([2, 5, 5]), np.array([0, 1, 3], np.int32))
    >>> ages.within(np.array([2, 3, 5]), 1, 3)
    array([False, False,  True])
    """

    keys: Ids  # [n] int32 or int64; repeated where a key has several values, their ranks ascending
    rank: NDArray[np.int32]  # [n]

    def __reduce__(self) -> tuple[type[Ranked], tuple[Ids, NDArray[np.int32]]]:
        return Ranked, (self.keys, self.rank)  # addresses are of one process

    @cached_property
    def located(self) -> tuple[int, int, int, int]:
        """Where compiled code finds it: address and number of the keys, 1 if these are int64, address of the ranks."""
        for name, kind in (("keys", np.int64 if self.keys.dtype.itemsize == 8 else np.int32), ("rank", np.int32)):
            # as compiled code reads them: as they are, as a rule
            object.__setattr__(self, name, np.require(getattr(self, name), kind, ["C", "A"]))
        return self.keys.ctypes.data, len(self.keys), int(self.keys.dtype.itemsize == 8), self.rank.ctypes.data

    def spans(self, wanted: Ids) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the values of each key begin, and how many there are."""
        start = np.searchsorted(self.keys, wanted, "left")
        return start, np.searchsorted(self.keys, wanted, "right") - start

    def gather(self, wanted: Ids) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """All values of the keys, as the place of the key in `wanted` and the rank."""
        start, count = self.spans(wanted)
        return np.repeat(np.arange(len(start)), count), self.rank[consecutive(start, count)]

    def count(self, low: int, high: int) -> int:
        """How many values have a rank of at least `low` and below `high`."""
        return int(np.count_nonzero((self.rank >= low) & (self.rank < high)))

    def within(self, wanted: Ids, low: int, high: int) -> Marks:
        """Which keys have a value whose rank is at least `low` and below `high`."""
        place, rank = self.gather(wanted)
        found = np.zeros(len(wanted), dtype=bool)
        found[place[(rank >= low) & (rank < high)]] = True
        return found


def members(keys: Ids) -> Ranked:
    """A plain set of keys, ascending: all have rank 0."""
    return Ranked(keys, np.zeros(len(keys), np.int32))


class ColumnContent(NamedTuple):
    """The rows of a column, and the values that their ranks stand for."""

    ranked: Ranked
    values: Values  # distinct, ascending: int64, float64, bool; times in microseconds since 1970
    languages: NDArray[np.int16] | None = None  # [rows] which of the column's tags a text has; None: no text has one

    def take(self, rows: NDArray[np.bool_] | slice) -> ColumnContent:
        own = Ranked(self.ranked.keys[rows], self.ranked.rank[rows])
        return ColumnContent(own, self.values, None if self.languages is None else self.languages[rows])


@dataclass(frozen=True, eq=False)
class AttributeColumn:
    """The values of one family of an attribute, of entities or of the facts of a relation.

    >>> ages = AttributeColumn.from_values("age", np.array([7, 3]), [31, 28])
    >>> ages.tagged_values_of(7), ages.place(30), ages.kind
    ([(31, '')], 1, 'integer')
    """

    name: str
    kind: Kind
    load: Callable[[], ColumnContent] = field(repr=False)  # called once, when something is looked at
    relation: int = -1  # of whose facts; -1: of entities
    tags: tuple[str, ...] = ()  # the language tags of texts, the first one "": none

    @staticmethod
    def from_values(name: str, keys: Ids, values: Sequence[Plain], relation: int = -1) -> AttributeColumn:
        """The column of values of one family, in any order."""
        kind = widest(map(kind_of, values))
        stored, rank = rank_values(kind, values)
        return AttributeColumn.from_content(name, kind, in_order(np.asarray(keys), rank, stored), relation)

    @staticmethod
    def from_content(
        name: str, kind: Kind, content: ColumnContent, relation: int = -1, tags: tuple[str, ...] = ()
    ) -> AttributeColumn:
        return AttributeColumn(name, kind, lambda: content, relation, tags)

    def __reduce__(self) -> tuple[Any, ...]:
        return AttributeColumn.from_content, (self.name, self.kind, self.content, self.relation, self.tags)

    @cached_property
    def content(self) -> ColumnContent:
        return self.load()

    @property
    def ranked(self) -> Ranked:
        return self.content.ranked

    @property
    def values(self) -> Values:
        return self.content.values

    @property
    def family(self) -> Family:
        """The values it can be compared with."""
        return FAMILIES[self.kind]

    def __len__(self) -> int:
        return len(self.ranked.keys)

    @property
    def distinct(self) -> int:
        return len(self.values)

    def place(self, value: Plain, after: bool = False) -> int:
        """How many distinct values are below a value of the family, the value itself counted if `after`."""
        if isinstance(self.values, Strings):
            key = str(value).encode("utf-8", "surrogatepass")
            low = self.values.before(key)
            return low + (after and low < len(self.values) and self.values.raw(low) == key)
        return int(np.searchsorted(self.values, comparable(value), "right" if after else "left"))

    def value(self, rank: int) -> Plain:
        if isinstance(self.values, Strings):
            return self.values.text(rank)
        return plain(self.kind, self.values[rank].item())

    def tagged_values_of(self, key: int) -> list[tuple[Plain, str]]:
        """The values of an entity or a fact, ascending, each with its language tag ("" if it has none)."""
        low, high = np.searchsorted(self.ranked.keys, [key, key + 1]).tolist()
        return [(self.value(int(self.ranked.rank[row])), self.tag(row)) for row in range(low, high)]

    def tag(self, row: int) -> str:
        languages = self.content.languages
        return "" if languages is None else self.tags[languages[row]]

    def only(self, rows: NDArray[np.bool_]) -> AttributeColumn:
        return AttributeColumn.from_content(self.name, self.kind, self.content.take(rows), self.relation, self.tags)

    def range(self) -> tuple[Plain, Plain] | None:
        """The smallest and the largest value that some key has."""
        rank = self.ranked.rank
        return (self.value(int(rank.min())), self.value(int(rank.max()))) if len(rank) else None


def in_order(
    keys: Ids, rank: NDArray[np.int32], values: Values, languages: NDArray[np.int16] | None = None
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


@dataclass(frozen=True, eq=False)
class Attributes:
    """All attributes of a graph."""

    columns: tuple[AttributeColumn, ...] = ()

    @cached_property
    def _found(self) -> dict[str, list[AttributeColumn]]:
        found: dict[str, list[AttributeColumn]] = {}
        for column in self.columns:
            found.setdefault(column.name, []).append(column)
        return found

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


# --- labels ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LabelColumns:
    """Entities by their further labels: texts of those attributes that say what a thing is called, in any language.

    >>> column = AttributeColumn.from_values("alias", np.array([4, 7, 4]), ["Parigi", "Paris", "Paris"])
    >>> labels = LabelColumns((column,))
    >>> labels.find("Paris"), labels.find("paris"), labels.beginning("Par", 5)
    ([4, 7], [], [('Parigi', 4), ('Paris', 4), ('Paris', 7)])
    """

    columns: tuple[AttributeColumn, ...]

    def strings(self) -> Iterator[Strings]:
        for column in self.columns:
            assert isinstance(column.values, Strings)
            yield column.values

    def find(self, label: str) -> list[int]:
        """The entities that have a label, ascending."""
        found: set[int] = set()
        for column in self.columns:
            rank = column.place(label)
            if column.place(label, after=True) > rank:
                found.update(_entities_of(column, rank))
        return sorted(found)

    def beginning(self, text: str, most: int) -> list[tuple[str, int]]:
        """Labels that begin with a text, each with an entity that has it."""
        return [
            (column.values.text(rank), entity)
            for column in self.columns
            if isinstance(column.values, Strings)
            for rank in column.values.beginning(text, most)
            for entity in _entities_of(column, rank)[:most]
        ]


def _entities_of(column: AttributeColumn, rank: int) -> list[int]:
    entities: list[int] = column.ranked.keys[np.flatnonzero(column.ranked.rank == rank)].tolist()
    return entities


def with_labels(entities: Vocabulary, attributes: Attributes, notes: Mapping[str, Any]) -> Vocabulary:
    """The same names, which further labels find too."""
    wanted = dict.fromkeys((*notes.get(LABELS_NOTE, ()), *LABELS))
    found = tuple(column for name in wanted for column in attributes.of_entities(name) if column.kind == "text")
    if found == (entities.aliases.columns if entities.aliases else ()):
        return entities
    return entities.with_aliases(LabelColumns(found) if found else None)


# --- tables on disk ----------------------------------------------------------------------------------------------


def is_read_later(name: str) -> bool:
    """Whether an array of a graph is verified when it is first read, not when the graph is opened.

    >>> is_read_later("attribute_3_rank"), is_read_later("attribute_3_bounds"), is_read_later("neighbour")
    (True, False, False)
    """
    return name.startswith("attribute_") and not name.endswith(("_relations", "_bounds"))


def tables_of(attributes: Attributes) -> Iterator[list[AttributeColumn]]:
    """The columns that lie in one table, table by table: those of one attribute and family."""
    groups: dict[tuple[str, bool, Family], list[AttributeColumn]] = {}
    for column in attributes.columns:
        if len(column):
            groups.setdefault((column.name, column.relation >= 0, column.family), []).append(column)
    for _, columns in sorted(groups.items()):
        yield sorted(columns, key=lambda column: column.relation)


def table_arrays(number: int, columns: Sequence[AttributeColumn]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays of a table, and what is known without reading them, ready for JSON.

    Columns without rows, and values without a row, are not among them.
    """
    kind = widest(column.kind for column in columns)
    values, ranks = _common_values(columns, kind)
    tags, languages = _common_tags(columns)
    arrays: dict[str, NDArray[Any]] = {
        "keys": np.concatenate([column.ranked.keys for column in columns]),
        "rank": np.concatenate(ranks).astype(np.int32, copy=False),
    }
    arrays |= {"blob": values.blob, "offsets": values.offsets} if isinstance(values, Strings) else {"values": values}
    about: dict[str, Any] = {"name": columns[0].name, "kind": kind}
    if languages is not None:
        arrays["languages"] = languages
    if columns[0].relation >= 0:
        arrays["relations"] = np.array([column.relation for column in columns], np.int32)
        arrays["bounds"] = np.cumsum([0, *map(len, columns)], dtype=np.int64)
        about["of"] = "facts"
    return {_array(number, part): array for part, array in arrays.items()}, (
        about | {"languages": list(tags)} if tags else about
    )


def stored_attributes(attributes: Attributes) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays of all tables, and what the meta of a folder says of them: nothing if there are none."""
    tables = [table_arrays(number, columns) for number, columns in enumerate(tables_of(attributes))]
    arrays = {name: array for own, _ in tables for name, array in own.items()}
    return arrays, {"attributes": [about for _, about in tables]} if tables else {}


def _array(number: int, part: str) -> str:
    return f"attribute_{number}_{part}"


def open_attributes(
    arrays: Mapping[str, NDArray[Any]],
    described: Iterable[Mapping[str, Any]],
    read: Callable[[Callable[[], ColumnContent], Sequence[str]], ColumnContent] = lambda load, names: load(),
) -> Attributes:
    """The attributes of arrays; `read` is given the names of those that are about to be read."""
    columns: list[AttributeColumn] = []
    for number, about in enumerate(described):
        name, kind, tags = about["name"], about["kind"], tuple(about.get("languages", ()))
        parts = ("keys", "rank", "blob", "offsets", "values", "languages")
        names = [array for part in parts if (array := _array(number, part)) in arrays]
        load = cache(partial(read, partial(_read_table, arrays, number, kind), names))
        if "of" not in about:
            columns.append(AttributeColumn(name, kind, load, tags=tags))
            continue
        relations, bounds = (arrays[_array(number, part)] for part in ("relations", "bounds"))
        ascending = bool((relations[1:] > relations[:-1]).all()) and len(bounds) == len(relations) + 1
        rows = len(arrays[_array(number, "keys")])
        refuse_misfits(**{_array(number, "bounds"): ascending and are_pointers(bounds, rows)})
        for i, relation in enumerate(relations.tolist()):
            own = partial(_take, load, slice(*bounds[i : i + 2].tolist()))
            columns.append(AttributeColumn(name, kind, own, relation, tags))
    return Attributes(tuple(columns))


def _take(load: Callable[[], ColumnContent], rows: slice) -> ColumnContent:
    return load().take(rows)


def _read_table(arrays: Mapping[str, NDArray[Any]], number: int, kind: Kind) -> ColumnContent:
    keys, rank = (arrays[_array(number, part)] for part in ("keys", "rank"))
    languages = arrays.get(_array(number, "languages"))
    values: Values
    if kind == "text":
        blob, offsets = (arrays[_array(number, part)] for part in ("blob", "offsets"))
        refuse_misfits(**{_array(number, "offsets"): are_pointers(offsets, len(blob))})
        values = ordered_texts(blob, offsets)
    else:
        values = arrays[_array(number, "values")]
        refuse_misfits(**{_array(number, "values"): values.dtype == STORED.get(kind, np.int64)})
    refuse_misfits(
        **{
            _array(number, "rank"): len(rank) == len(keys) and are_within(rank, len(values)),
            _array(number, "languages"): languages is None or len(languages) == len(keys),
        }
    )
    return ColumnContent(Ranked(keys, rank), values, languages)


def attributes_of_directory(directory: Directory) -> Attributes:
    """The attributes of a graph's folder; an array that does not fit is an error with its name."""

    def read(load: Callable[[], ColumnContent], names: Sequence[str]) -> ColumnContent:
        directory.verify_later(names)
        try:
            return load()
        except (KeyError, ValueError) as error:
            raise CorruptStore(f"{directory.path} is not a whole graph: {error}") from None

    return open_attributes(directory.arrays, directory.meta.get("attributes", ()), read)


def _common_values(columns: Sequence[AttributeColumn], kind: Kind) -> tuple[Values, list[NDArray[Any]]]:
    """The values that some row of the columns has, and the ranks of each column's rows among them."""
    distinct: dict[int, tuple[Values, Marks]] = {}
    for column in columns:  # the columns of one table share their values
        marked = distinct.setdefault(id(column.values), (column.values, np.zeros(len(column.values), dtype=bool)))[1]
        marked[column.ranked.rank] = True
    used = {number: np.flatnonzero(marked) for number, (_, marked) in distinct.items()}
    parts = [_take_values(values, used[number], kind) for number, (values, _) in distinct.items()]
    if len(parts) == 1 and len(parts[0]) == len(columns[0].values):
        return parts[0], [column.ranked.rank for column in columns]
    whole, places = (parts[0], [np.arange(len(parts[0]))]) if len(parts) == 1 else union_of(parts)
    rank_of = {}
    for number, place in zip(distinct, places, strict=True):
        rank_of[number] = np.zeros(len(distinct[number][0]), np.int32)
        rank_of[number][used[number]] = place
    return whole, [rank_of[id(column.values)][column.ranked.rank] for column in columns]


def _take_values(values: Values, ids: NDArray[np.int64], kind: Kind) -> Values:
    if not isinstance(values, Strings):
        some = values if len(ids) == len(values) else values[ids]
        return some.astype(STORED.get(kind, np.int64), copy=False)
    if len(ids) == len(values):
        return values
    lengths = np.diff(values.offsets)[ids]
    offsets = np.zeros(len(ids) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return ordered_texts(values.blob[consecutive(values.offsets[ids], lengths)], offsets)


def union_of(parts: Sequence[Values]) -> tuple[Values, list[NDArray[Any]]]:
    """All distinct values, and where those of each part are among them."""
    cuts = np.cumsum([len(part) for part in parts])[:-1]
    if not isinstance(parts[0], Strings):
        numbers = np.concatenate([part for part in parts if not isinstance(part, Strings)])
        everything, place = np.unique(numbers, return_inverse=True)
        return everything, np.split(place, cuts)
    import pyarrow as pa

    texts = [
        pa.LargeStringArray.from_buffers(len(part), pa.py_buffer(part.offsets), pa.py_buffer(part.blob))
        for part in parts
        if isinstance(part, Strings)
    ]
    coded = pa.concat_arrays(texts).dictionary_encode()
    both, rank = sorted_texts(coded.dictionary)
    return both, np.split(rank[coded.indices.to_numpy()], cuts)


def sorted_texts(texts: Any) -> tuple[Strings, NDArray[np.int32]]:
    """Distinct Arrow strings in ascending order, and where each of them is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    order = pc.sort_indices(texts).to_numpy()
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return ordered_texts(*arrow_bytes(texts.take(pa.array(order)))), rank


def joined_texts(one: Strings, other: Strings) -> tuple[Strings, NDArray[np.int64], NDArray[np.int64]]:
    """The texts of both in order, and where those of each are; both are distinct and in ascending order.

    It takes time by those of the other: a few texts are put among many.

    >>> both, old, new = joined_texts(Strings.from_texts(["a", "c"]), Strings.from_texts(["b", "c"]))
    >>> both.texts(range(3)), old.tolist(), new.tolist()
    (['a', 'b', 'c'], [0, 2], [1, 2])
    """
    before = np.array([one.before(other.raw(i)) for i in range(len(other))], np.int64)
    known = np.array(
        [at < len(one) and one.raw(int(at)) == other.raw(i) for i, at in enumerate(before.tolist())], dtype=bool
    )
    fresh = np.flatnonzero(~known)
    at, lengths = before[fresh], np.diff(other.offsets)[fresh]
    pieces = b"".join(other.raw(int(i)) for i in fresh)
    blob = np.insert(one.blob, np.repeat(one.offsets[at], lengths), np.frombuffer(pieces, np.uint8))
    offsets = np.zeros(len(one) + len(fresh) + 1, np.int64)
    np.cumsum(np.insert(np.diff(one.offsets), at, lengths), out=offsets[1:])
    old = np.arange(len(one)) + np.searchsorted(at, np.arange(len(one)), "right")
    new = before + np.searchsorted(fresh, np.arange(len(other)))
    return ordered_texts(blob, offsets), old, new


def _common_tags(columns: Sequence[AttributeColumn]) -> tuple[tuple[str, ...], NDArray[np.int16] | None]:
    """The language tags of some columns, and which of them each row has."""
    tags = tuple(sorted({"", *(tag for column in columns for tag in column.tags)}))
    if len(tags) == 1:
        return (), None
    parts = []
    for column in columns:
        codes, languages = (
            np.array([tags.index(tag) for tag in column.tags or ("",)], np.int16),
            column.content.languages,
        )
        parts.append(codes[np.zeros(len(column), np.int16) if languages is None else languages])
    return tags, np.concatenate(parts)
