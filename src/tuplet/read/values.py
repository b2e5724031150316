"""Attributes as they are read: values by kind, with the numbers of their subjects (needs pyarrow)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.graph.attribute_tables import AttributeTable, texts_of_arrow
from tuplet.graph.attributes import FACTS, FAMILIES, STORED, ColumnContent, Family, Kind, in_order, widest
from tuplet.graph.name_table import NameTable
from tuplet.graph.ranked import Ranked
from tuplet.graph.spill import RelationSpill

Ids = NDArray[np.integer]


@dataclass(frozen=True)
class AttributeBatch:
    """Values of one attribute: of entities by their names, or of the facts that they come with.

    The Arrow type of the values is their kind: integers, floating-point numbers, booleans, dates, timestamps, strings
    (also with a dictionary), or lists of these for several values. A null is no value.
    """

    name: str
    values: pa.Array | pa.ChunkedArray
    subjects: pa.Array | pa.ChunkedArray | None = None  # [values] names of entities; None: value i is of fact i
    languages: pa.Array | pa.ChunkedArray | None = None  # [values] language tags of texts, null where there is none


@dataclass(frozen=True)
class FoundAttribute:
    """An attribute that was found, in the report of an import."""

    name: str
    kind: str  # several kinds, joined by "and", if its values are a mixture
    values: int
    of: str = "entities"  # or facts

    @property
    def mixed(self) -> bool:
        """Whether it has numbers here and texts there."""
        return " and " in self.kind

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}, {self.values:,} of {self.of})"


@dataclass
class _KindValues:
    """The values of one kind of an attribute."""

    rows: RelationSpill
    texts: NameTable = field(default_factory=NameTable)
    tags: dict[str, int] = field(default_factory=lambda: {"": 0})


class ValueCollector:
    """Values as they come; beyond `memory` bytes for each attribute they wait in a file."""

    def __init__(self, memory: int, folder: Path | None = None) -> None:
        self._memory, self._folder = memory, folder
        self._found: dict[tuple[str, bool, Kind], _KindValues] = {}

    def add(self, batch: AttributeBatch, subject: Callable[[pa.Array], Ids], facts: Sequence[Ids]) -> None:
        """Take the values of a batch.

        `subject` gives the numbers of entities by name, also of those without a value here; `facts` are the heads,
        relations and tails of the facts that the batch came with.
        """
        values, rows = _flat(batch.values)
        if len(values) == 0:
            return
        kind, stored = _stored(batch.name, values)
        of_facts = batch.subjects is None
        gathered = self._found.get((batch.name, of_facts, kind))
        if gathered is None:
            spill = RelationSpill(self._memory, self._folder, defaults={"language": 0})
            gathered = self._found[batch.name, of_facts, kind] = _KindValues(spill)
        columns: dict[str, NDArray[Any]] = {"value": _texts(gathered.texts, stored) if kind == "text" else stored}
        if of_facts:
            head, relation, tail = (column if rows is None else column[rows] for column in facts)
            columns |= {"head": head, "tail": tail}
        else:
            names = _whole(batch.subjects)
            columns["head"] = subject(names) if rows is None else subject(names)[rows]
            relation = np.zeros(len(values), np.uint8)
        if batch.languages is not None and kind == "text":
            tags = _whole(batch.languages).fill_null("")
            columns["language"] = _tags(gathered.tags, tags if rows is None else tags.take(pa.array(rows)))
        if len({len(column) for column in (*columns.values(), relation)}) > 1:
            raise ValueError(f"{len(values)} values of {batch.name!r} for {len(columns['head'])} subjects")
        gathered.rows.append(relation, columns)

    def tables(
        self, of_entity: Ids, of_relation: Ids, dropped: Callable[[int, NDArray[np.int64]], NDArray[np.bool_]]
    ) -> Iterator[AttributeTable]:
        """The tables of all values, one after another, given the ids of entities and relations by number.

        `dropped` says of the keys of a relation's facts which of them did not become edges.
        """
        groups: dict[tuple[str, bool, Family], dict[Kind, _KindValues]] = {}
        for (name, of_facts, kind), gathered in self._found.items():
            groups.setdefault((name, of_facts, FAMILIES[kind]), {})[kind] = gathered
        by_id: list[int] = np.argsort(of_relation).tolist()
        orders: dict[int, tuple[Ids, Ids]] = {}  # of facts that have several attributes, sorted once
        for (name, of_facts, _), kinds in sorted(groups.items()):
            kind = widest(list(kinds))
            numbers = by_id if of_facts else [0]
            parts, relations = [], []
            for number in numbers:
                part = _ValueRows.of([k.rows.relation(number) for k in kinds.values()], kind, of_entity, of_facts)
                if of_facts and len(part.keys):
                    part = part.in_order_of(orders, number)
                    part = part.only(~dropped(int(of_relation[number]), part.keys.astype(np.int64)))
                if len(part.keys):
                    parts.append(part)
                    relations.append(int(of_relation[number]) if of_facts else -1)
            if parts:
                first = kinds[kind]
                yield _table(name, kind, parts, relations, first)

    def found(self) -> tuple[FoundAttribute, ...]:
        """What was gathered, for the report: by name, those of entities before those of facts."""
        counts: dict[tuple[str, bool], dict[Kind, int]] = {}
        for (name, of_facts, kind), gathered in self._found.items():
            counts.setdefault((name, of_facts), {})[kind] = gathered.rows.rows
        report = []
        for (name, of_facts), kinds in sorted(counts.items()):
            families = sorted({widest([k for k in kinds if FAMILIES[k] == f]) for f in {FAMILIES[k] for k in kinds}})
            of = "facts" if of_facts else "entities"
            report.append(FoundAttribute(name, " and ".join(families), sum(kinds.values()), of))
        return tuple(report)


@dataclass(frozen=True)
class _ValueRows:
    """The rows of one relation, or of all entities, in any order."""

    keys: Ids
    values: NDArray[Any]
    languages: NDArray[np.int16] | None

    @staticmethod
    def of(parts: Sequence[dict[str, NDArray[Any]]], kind: Kind, of_entity: Ids, of_facts: bool) -> _ValueRows:
        parts = [rows for rows in parts if "head" in rows]
        if not parts:
            return _ValueRows(np.zeros(0, np.int64), np.zeros(0, np.int64), None)
        keys, values = [], []
        for rows in parts:
            key: Ids = of_entity[rows["head"]]
            if of_facts:
                key = key.astype(np.int64) * FACTS + of_entity[rows["tail"]]
            keys.append(key)
            values.append(rows["value"].astype(np.int32 if kind == "text" else STORED.get(kind, np.int64), copy=False))
        languages = None
        if any("language" in rows for rows in parts):
            tags = [rows.get("language", np.zeros(len(rows["head"]), np.int16)) for rows in parts]
            languages = np.concatenate(tags)
        if len(parts) == 1:
            return _ValueRows(keys[0], values[0], languages)
        return _ValueRows(np.concatenate(keys), np.concatenate(values), languages)

    def in_order_of(self, orders: dict[int, tuple[Ids, Ids]], number: int) -> _ValueRows:
        """The rows in order of their keys, which is known if those of another attribute have the same keys."""
        if number not in orders or not np.array_equal(orders[number][0], self.keys):
            orders[number] = self.keys, np.argsort(self.keys)
        return self.only(orders[number][1])

    def only(self, rows: NDArray[np.bool_] | Ids) -> _ValueRows:
        if rows.dtype == bool and rows.all():
            return self
        return _ValueRows(self.keys[rows], self.values[rows], None if self.languages is None else self.languages[rows])


def _table(
    name: str, kind: Kind, parts: Sequence[_ValueRows], relations: Sequence[int], gathered: _KindValues
) -> AttributeTable:
    """The table of all rows of an attribute and family."""
    everything = np.concatenate([part.values for part in parts])
    values: Any
    if kind == "text":
        # only texts that some row has: those of dropped facts are gone
        used = np.unique(everything)
        texts = gathered.texts.names().take(pa.array(used))
        order = pc.sort_indices(texts).to_numpy()
        values = texts_of_arrow(texts.take(pa.array(order)))
        rank_of = np.zeros(len(gathered.texts), np.int32)
        rank_of[used[order]] = np.arange(len(used))
        ranks = rank_of[everything]
    else:
        coded = pa.array(everything).dictionary_encode()
        distinct = coded.dictionary.to_numpy(zero_copy_only=False)
        order = np.argsort(distinct)
        rank_of = np.empty(len(order), np.int32)
        rank_of[order] = np.arange(len(order))
        values, ranks = distinct[order], rank_of[coded.indices.to_numpy()]
    tags: tuple[str, ...] = ()
    tag_of = np.zeros(1, np.int16)
    if len(gathered.tags) > 1 and any(part.languages is not None for part in parts):
        tags = tuple(sorted(gathered.tags))
        tag_of = np.array([tags.index(tag) for tag in gathered.tags], np.int16)
    contents, begin = [], 0
    for part in parts:
        own = ranks[begin : begin + len(part.keys)]
        begin += len(part.keys)
        spoken = tag_of[part.languages] if tags and part.languages is not None else None
        contents.append(in_order(part.keys, own, values, spoken))
    ranked = Ranked(
        np.concatenate([content.ranked.keys for content in contents]),
        np.concatenate([content.ranked.rank for content in contents]),
    )
    languages = None
    if tags:
        languages = np.concatenate(
            [np.zeros(len(c.ranked.keys), np.int16) if c.languages is None else c.languages for c in contents]
        )
    content = ColumnContent(ranked, values, languages)
    if relations[0] < 0:
        return AttributeTable(name, kind, partial(_same_content, content), tags=tags)
    bounds = np.cumsum([0, *(len(c.ranked.keys) for c in contents)], dtype=np.int64)
    return AttributeTable(name, kind, partial(_same_content, content), np.array(relations, np.int32), bounds, tags)


def _same_content(content: ColumnContent) -> ColumnContent:
    return content


def _whole(column: pa.Array | pa.ChunkedArray | None) -> pa.Array:
    """A column in one piece, without a dictionary."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # of no chunks
            column = pa.array([], column.type)
    assert column is not None
    return column


def _flat(column: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int64] | None]:
    """The values that are there, and the row of each; None where every row has one."""
    values = _whole(column)
    rows: NDArray[np.int64] | None = None
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        rows = pc.list_parent_indices(values).to_numpy(zero_copy_only=False).astype(np.int64)
        values = pc.list_flatten(values)
    missing = values.null_count > 0
    there = values.is_valid() if missing else None
    if pa.types.is_floating(values.type):
        number = pc.fill_null(pc.invert(pc.is_nan(values)), False)
        if not pc.all(number).as_py():
            there = number
    if there is not None:
        keep = np.flatnonzero(there.to_numpy(zero_copy_only=False))
        values, rows = values.take(pa.array(keep)), keep if rows is None else rows[keep]
    return values, rows


def _stored(name: str, values: pa.Array) -> tuple[Kind, Any]:
    """The kind of some values by their Arrow type, and the values as they are stored; texts stay as they are."""
    t = pa.types
    kind = values.type
    if t.is_null(kind):
        return "text", values.cast(pa.large_string())
    if t.is_dictionary(kind):
        return ("text", values) if _is_text(kind.value_type) else _stored(name, values.dictionary_decode())
    if _is_text(kind):
        return "text", values
    if t.is_boolean(kind):
        return "boolean", values.to_numpy(zero_copy_only=False)
    try:
        if t.is_integer(kind):
            return "integer", values.cast(pa.int64()).to_numpy()
        if t.is_floating(kind) or t.is_decimal(kind):
            return "number", values.cast(pa.float64()).to_numpy()
        if t.is_date(kind):
            moments = values.cast(pa.timestamp("us"))
            return "date", moments.cast(pa.int64()).to_numpy()
        if t.is_timestamp(kind):
            return "time", values.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64()).to_numpy()
        return "text", values.cast(pa.large_string())
    except pa.ArrowException as error:
        raise BadInput(f"attribute {name}: {str(error).splitlines()[0]}") from None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _texts(table: NameTable, values: pa.Array) -> NDArray[np.int32]:
    """The numbers of texts; only those that differ are looked up."""
    coded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    return np.asarray(table.number(coded.dictionary)[coded.indices.to_numpy()])


def _tags(known: dict[str, int], tags: pa.Array) -> NDArray[np.int16]:
    coded = tags if pa.types.is_dictionary(tags.type) else tags.dictionary_encode()
    numbers = [known.setdefault(tag or "", len(known)) for tag in coded.dictionary.to_pylist()]
    return np.asarray(np.array(numbers, np.int16)[coded.indices.to_numpy()])
