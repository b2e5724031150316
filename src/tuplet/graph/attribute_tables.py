"""Attributes as they are stored: one table for each attribute and family, of entities or of all facts together.

A table is a few arrays of the graph's folder, `attribute_3_keys.npy` and so on. They are mapped when the folder is
opened, and verified when a query first asks for them. The rows of a table of facts are grouped by relation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import CorruptStore
from tuplet.graph.adjacency import are_pointers, are_within, refuse_misfits
from tuplet.graph.array_folder import Directory
from tuplet.graph.attributes import (
    FAMILIES,
    STORED,
    AttributeColumn,
    Attributes,
    ColumnContent,
    Family,
    Kind,
    ordered_texts,
    widest,
)
from tuplet.graph.names import Strings
from tuplet.graph.ranked import Ranked

Values = NDArray[Any] | Strings


@dataclass(frozen=True, eq=False)
class AttributeTable:
    """All values of one family of an attribute: of entities, or of the facts of all relations."""

    name: str
    kind: Kind
    load: Callable[[], ColumnContent] = field(repr=False)
    relations: NDArray[np.int32] | None = None  # those whose facts have values; None: it is about entities
    bounds: NDArray[np.int64] | None = None  # [relations + 1] where their rows begin
    tags: tuple[str, ...] = ()

    @cached_property
    def content(self) -> ColumnContent:
        """The rows of all relations; keys ascend within one."""
        return self.load()

    @property
    def order(self) -> tuple[str, bool, Family]:
        """Tables of a graph come in this order."""
        return self.name, self.relations is not None, FAMILIES[self.kind]

    def columns(self) -> Iterator[AttributeColumn]:
        """The columns that queries ask for."""
        if self.relations is None or self.bounds is None:
            yield AttributeColumn(self.name, self.kind, lambda: self.content, tags=self.tags)
            return
        for i, relation in enumerate(self.relations.tolist()):
            part = partial(self._part, slice(*self.bounds[i : i + 2].tolist()))
            yield AttributeColumn(self.name, self.kind, part, relation, self.tags)

    def _part(self, rows: slice) -> ColumnContent:
        ranked, values, languages = self.content
        own = Ranked(ranked.keys[rows], ranked.rank[rows])
        return ColumnContent(own, values, None if languages is None else languages[rows])

    def arrays(self, number: int) -> dict[str, NDArray[Any]]:
        """What is stored of it, by the names of the arrays."""
        ranked, values, languages = self.content
        found: dict[str, NDArray[Any]] = {"keys": ranked.keys, "rank": ranked.rank}
        if isinstance(values, Strings):
            found |= {"blob": values.blob, "offsets": values.offsets}
        else:
            found["values"] = values
        if languages is not None:
            found["languages"] = languages
        if self.relations is not None and self.bounds is not None:
            found |= {"relations": self.relations, "bounds": self.bounds}
        return {_named(number, part): array for part, array in found.items()}

    def described(self) -> dict[str, Any]:
        """What is known of it without reading its arrays, ready for JSON."""
        about: dict[str, Any] = {"name": self.name, "kind": self.kind}
        if self.relations is not None:
            about["of"] = "facts"
        return about | ({"languages": list(self.tags)} if self.tags else {})


def _named(number: int, part: str) -> str:
    return f"attribute_{number}_{part}"


def is_read_later(name: str) -> bool:
    """Whether an array of a graph is verified when it is first read, not when the graph is opened.

    >>> is_read_later("attribute_3_rank"), is_read_later("attribute_3_bounds"), is_read_later("neighbour")
    (True, False, False)
    """
    return name.startswith("attribute_") and not name.endswith(("_relations", "_bounds"))


def opened_tables(
    arrays: Mapping[str, NDArray[Any]],
    described: Sequence[Mapping[str, Any]],
    verify: Callable[[Sequence[str]], None] = lambda names: None,
) -> Iterator[AttributeTable]:
    """The tables of arrays; `verify` is called with the names of those that are about to be read."""
    for number, about in enumerate(described):
        relations, bounds = (
            (arrays[_named(number, part)] for part in ("relations", "bounds")) if "of" in about else [None] * 2
        )
        if relations is not None and bounds is not None:
            ascending = bool((relations[1:] > relations[:-1]).all()) and len(bounds) == len(relations) + 1
            rows = len(arrays[_named(number, "keys")])
            refuse_misfits(**{_named(number, "bounds"): ascending and are_pointers(bounds, rows)})
        load = partial(_read, arrays, number, about["kind"], verify)
        yield AttributeTable(about["name"], about["kind"], load, relations, bounds, tuple(about.get("languages", ())))


def _read(
    arrays: Mapping[str, NDArray[Any]], number: int, kind: Kind, verify: Callable[[Sequence[str]], None]
) -> ColumnContent:
    names = {part: _named(number, part) for part in ("keys", "rank", "blob", "offsets", "values", "languages")}
    verify([name for name in names.values() if name in arrays])
    own = {part: arrays[name] for part, name in names.items() if name in arrays}
    values: Values
    if kind == "text":
        refuse_misfits(**{names["offsets"]: are_pointers(own["offsets"], len(own["blob"]))})
        values = ordered_texts(own["blob"], own["offsets"])
    else:
        values = own["values"]
        refuse_misfits(**{names["values"]: values.dtype == STORED.get(kind, np.int64)})
    rows, languages = len(own["keys"]), own.get("languages")
    refuse_misfits(
        **{
            names["rank"]: len(own["rank"]) == rows and are_within(own["rank"], len(values)),
            names["languages"]: languages is None or len(languages) == rows,
        }
    )
    return ColumnContent(Ranked(own["keys"], own["rank"]), values, languages)


def of_directory(directory: Directory) -> Attributes:
    """The attributes of a graph's folder."""
    described = directory.meta.get("attributes", ())

    def verify(names: Sequence[str]) -> None:
        directory.verify_later(names)

    return of_tables(map(partial(_checked, directory), opened_tables(directory.arrays, described, verify)))


def _checked(directory: Directory, table: AttributeTable) -> AttributeTable:
    """The same table; what does not fit in it is said with the name of its folder."""

    def load() -> ColumnContent:
        try:
            return table.load()
        except (KeyError, ValueError) as error:
            raise CorruptStore(f"{directory.path} is not a whole graph: {error}") from None

    return AttributeTable(table.name, table.kind, load, table.relations, table.bounds, table.tags)


def of_tables(tables: Iterable[AttributeTable]) -> Attributes:
    """The attributes of tables."""
    return Attributes(tuple(column for table in tables for column in table.columns()))


def tables_of(attributes: Attributes) -> Iterator[AttributeTable]:
    """The tables that hold some attributes: rows without a value, and values without a row, are not among them."""
    groups: dict[tuple[str, bool, Family], list[AttributeColumn]] = {}
    for column in attributes.columns:
        if len(column):
            groups.setdefault((column.name, column.relation >= 0, column.family), []).append(column)
    for (name, of_facts, _), columns in sorted(groups.items()):
        columns.sort(key=lambda column: column.relation)
        kind = widest([column.kind for column in columns])
        values, ranks = _common(columns, kind)
        keys = np.concatenate([column.ranked.keys for column in columns])
        tags, languages = _common_tags(columns)
        ranked = Ranked(keys, np.concatenate(ranks).astype(np.int32))
        content = ColumnContent(ranked, values, languages)
        relations, bounds = None, None
        if of_facts:
            relations = np.array([column.relation for column in columns], np.int32)
            bounds = np.cumsum([0, *map(len, columns)], dtype=np.int64)
        yield AttributeTable(name, kind, partial(_same, content), relations, bounds, tags)


def _same(content: ColumnContent) -> ColumnContent:
    return content


def _common(columns: Sequence[AttributeColumn], kind: Kind) -> tuple[Values, list[NDArray[Any]]]:
    """The values that some row of the columns has, and the ranks of each column's rows among them."""
    distinct: dict[int, tuple[Values, list[NDArray[Any]]]] = {}
    for column in columns:  # the columns of one table share their values
        distinct.setdefault(id(column.values), (column.values, []))[1].append(column.ranked.rank)
    used = {}
    for number, (values, ranks) in distinct.items():
        marked = np.zeros(len(values), dtype=bool)
        for rank in ranks:
            marked[rank] = True
        used[number] = np.flatnonzero(marked)
    parts = [_taken(values, used[number], kind) for number, (values, _) in distinct.items()]
    whole, places = (parts[0], [np.arange(len(parts[0]))]) if len(parts) == 1 else _union(parts)
    rank_of = {}
    for number, place in zip(distinct, places, strict=True):
        rank_of[number] = np.zeros(len(distinct[number][0]), np.int32)
        rank_of[number][used[number]] = place
    return whole, [rank_of[id(column.values)][column.ranked.rank] for column in columns]


def _taken(values: Values, ids: NDArray[np.int64], kind: Kind) -> Values:
    """Some of the values."""
    if len(ids) == len(values):
        return values if isinstance(values, Strings) else values.astype(STORED.get(kind, np.int64), copy=False)
    if isinstance(values, Strings):
        lengths = np.diff(values.offsets)[ids]
        offsets = np.zeros(len(ids) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        places = np.repeat(values.offsets[ids] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return ordered_texts(values.blob[places], offsets)
    return values[ids].astype(STORED.get(kind, np.int64), copy=False)


def _union(parts: Sequence[Values]) -> tuple[Values, list[NDArray[Any]]]:
    """All distinct values, and where those of each part are among them."""
    first = parts[0]
    if not isinstance(first, Strings):
        numbers = np.concatenate([part for part in parts if not isinstance(part, Strings)])
        everything, place = np.unique(numbers, return_inverse=True)
        return everything, np.split(place, np.cumsum([len(part) for part in parts])[:-1])
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = [
        pa.LargeStringArray.from_buffers(len(part), pa.py_buffer(part.offsets), pa.py_buffer(part.blob))
        for part in parts
        if isinstance(part, Strings)
    ]
    coded = pa.concat_arrays(texts).dictionary_encode()
    order = pc.sort_indices(coded.dictionary).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    place = rank[coded.indices.to_numpy()]
    lengths = np.cumsum([len(part) for part in parts])[:-1]
    return texts_of_arrow(coded.dictionary.take(pa.array(order))), np.split(place, lengths)


def texts_of_arrow(texts: Any) -> Strings:
    """Distinct Arrow strings in ascending order."""
    import pyarrow as pa

    large = texts.cast(pa.large_string())
    _, places, data = large.buffers()
    offsets = np.zeros(1, np.int64)
    if len(large):
        offsets = np.frombuffer(places, np.int64)[large.offset : large.offset + len(large) + 1]
    blob = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    return ordered_texts(blob, offsets - offsets[0])


def joined_texts(one: Strings, other: Strings) -> tuple[Strings, NDArray[np.int64], NDArray[np.int64]]:
    """The texts of both in order, and where those of each are; both are distinct and in ascending order.

    >>> both, old, new = joined_texts(Strings.of(["a", "c"]), Strings.of(["b", "c"]))
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
    found = [column.content.languages for column in columns]
    used = {
        column.tags[code]
        for column, languages in zip(columns, found, strict=True)
        if languages is not None
        for code in np.unique(languages).tolist()
    }
    if not used - {""}:
        return (), None
    tags = tuple(sorted({"", *used}))
    parts = []
    for column, languages in zip(columns, found, strict=True):
        if languages is None:
            parts.append(np.zeros(len(column), np.int16))
        else:
            codes = [tags.index(tag) if tag in tags else 0 for tag in column.tags]
            parts.append(np.array(codes, np.int16)[languages])
    return tags, np.concatenate(parts)
