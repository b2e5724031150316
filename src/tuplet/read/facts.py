"""From named facts to a graph: ids, duplicates and the report of an import (needs pyarrow)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.graph.adjacency import ArraySink, among, edge_key
from tuplet.graph.arrays import RelationSpill, spill_memory
from tuplet.graph.attributes import (
    FACTS,
    FAMILIES,
    STORED,
    AttributeTable,
    ColumnContent,
    Family,
    Kind,
    Ranked,
    in_order,
    texts_of_arrow,
    widest,
)
from tuplet.graph.graph import NO_DATE, SPLIT_CODE, GraphWriter
from tuplet.graph.name_table import NameTable
from tuplet.graph.names import Strings, Vocabulary
from tuplet.graph.versions import pair_key
from tuplet.progress import counted

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


@dataclass(frozen=True)
class FactColumns:
    """Some of the named facts of one split, as columns of strings, with dictionaries or without."""

    head: pa.ChunkedArray
    relation: pa.ChunkedArray
    tail: pa.ChunkedArray
    truth: NDArray[np.float64] | None = None  # [facts] in [0, 1]
    date: NDArray[np.int64] | None = None  # [facts] seconds since 1970, `NO_DATE` where there is none
    blank_lines: int = 0
    labels: dict[str, str] = field(default_factory=dict)  # labels stated among the facts (rdfs:label)
    blank_nodes: int = 0  # nodes without a name, called _:b0, _:b1, … in order of appearance
    values: tuple[AttributeBatch, ...] = ()  # attributes of the facts, or of entities
    nodes: pa.Array | pa.ChunkedArray | None = None  # names of entities that need not occur in a fact
    remarks: tuple[str, ...] = ()  # what the report says of the source, each in words
    notes: Mapping[str, Any] = field(default_factory=dict)  # what the graph keeps: prefixes, type_relation

    def said(self, *remarks: str) -> FactColumns:
        """The same with more remarks."""
        return replace(self, remarks=(*self.remarks, *remarks)) if remarks else self

    def after_blank(self, number: int) -> FactColumns:
        """The same facts with names for blank nodes that begin at another number."""
        if not (number and self.blank_nodes):
            return self
        values = tuple(
            batch if batch.subjects is None else replace(batch, subjects=_renamed(batch.subjects, number))
            for batch in self.values
        )
        labels = {_after(name, number): label for name, label in self.labels.items()}
        head, tail = _renamed(self.head, number), _renamed(self.tail, number)
        return replace(self, head=head, tail=tail, values=values, labels=labels)


def _after(name: str, number: int) -> str:
    return f"_:b{int(name[3:]) + number}" if name.startswith("_:b") else name


def _renamed(column: pa.Array | pa.ChunkedArray, number: int) -> pa.ChunkedArray:
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    coded = [chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode() for chunk in chunks]
    return pa.chunked_array(
        [
            pa.DictionaryArray.from_arrays(
                chunk.indices,
                pa.array([_after(name, number) for name in chunk.dictionary.to_pylist()], pa.large_string()),
            )
            for chunk in coded
        ],
        pa.dictionary(pa.int32(), pa.large_string()),
    )


@dataclass(frozen=True)
class NameList:
    """NameList with labels, in the order of their file."""

    labels: dict[str, str] = field(default_factory=dict)
    repeated: int = 0  # lines about a name that an earlier line has


@dataclass(frozen=True)
class ImportReport:
    """What an import found; `duplicates` and the like were dropped, `self_loops` were kept."""

    entities: int
    relations: int
    edges: dict[str, int]
    duplicates: int  # the same edge again in its split
    repeated_in_later_split: int  # the same edge in a later split; the earliest split has it
    self_loops: int
    conflicting_weights: int  # dropped duplicates with another truth; the largest truth was kept
    zero_truth: int  # facts with truth 0, which are no edges
    blank_lines: int
    labelled_entities: int
    labelled_relations: int
    unlisted: int  # entities and relations that a given list of names lacks
    unused_labels: int  # labels of names that do not occur, and repeated ones
    remarks: list[str]  # what else is to be said, source by source
    attributes: tuple[FoundAttribute, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        splits = ", ".join(f"{count:,} {name}" for name, count in self.edges.items() if count)
        lines = [
            f"{counted(self.entities, 'entity', 'entities')} ({self.labelled_entities:,} labelled), "
            f"{counted(self.relations, 'relation')}, {counted(sum(self.edges.values()), 'edge')} ({splits})"
        ]
        remarks = {
            "duplicates dropped": self.duplicates,
            "repeated in a later split": self.repeated_in_later_split,
            "self-loops": self.self_loops,
            "duplicates with another truth, the largest kept": self.conflicting_weights,
            "facts of truth 0 dropped": self.zero_truth,
            "blank lines ignored": self.blank_lines,
            "names not in the given list": self.unlisted,
            "labels not used": self.unused_labels,
        }
        always = ("duplicates dropped", "self-loops")
        lines += [f"{count:,} {text}" for text, count in remarks.items() if count or text in always]
        if self.attributes:
            lines.append(f"attributes: {', '.join(map(str, self.attributes))}")
        lines += [
            f"doubtful: the values of {found.name} are of different kinds ({found.kind}), which do not compare"
            for found in self.attributes
            if found.mixed
        ]
        return "\n".join([*lines, *self.remarks])


class FactCollector:
    """Facts as they are read, some at a time; beyond `memory` bytes they wait in a file, only names are kept."""

    def __init__(self, memory: int | None = None, folder: Path | None = None) -> None:
        self._entities, self._relations = NameTable(), NameTable()
        self._facts = RelationSpill(spill_memory(memory), folder, defaults={"truth": 1.0, "date": NO_DATE})
        self._values = ValueCollector(spill_memory(memory), folder)
        self._looked_up: tuple[pa.Array, NDArray[np.int32]] | None = None
        self._labels: dict[str, str] = {}
        self._blank_lines = self._rows = 0
        self._remarks: dict[str, None] = {}  # each once, in order
        self._notes: dict[str, Any] = {}

    @property
    def spilled(self) -> bool:
        """Whether facts wait on disk."""
        return self._facts.spilled

    @property
    def empty(self) -> bool:
        """Whether there is no fact yet, perhaps attributes."""
        return not self._rows

    def add(self, split: str, part: FactColumns) -> None:
        """Take facts of a split; they come in the order of the splits."""
        columns: dict[str, NDArray[Any]] = {
            "head": numbers(self._entities, part.head),
            "tail": numbers(self._entities, part.tail),
            "split": np.full(len(part.head), SPLIT_CODE[split], np.uint8),
        }
        if part.truth is not None:
            columns["truth"] = part.truth
        if part.date is not None:
            columns["date"] = part.date
        relation = numbers(self._relations, part.relation)
        self._facts.append(relation, columns)
        for batch in part.values:
            self._values.add(batch, self._subjects, (columns["head"], relation, columns["tail"]))
        self._looked_up = None
        for name, label in part.labels.items():
            self._labels.setdefault(name, label)
        if part.nodes is not None:
            nodes = part.nodes
            numbers(self._entities, nodes if isinstance(nodes, pa.ChunkedArray) else pa.chunked_array([nodes]))
        self._remarks |= dict.fromkeys(part.remarks)
        for name, note in part.notes.items():
            self._notes[name] = _joined(self._notes.get(name), note)
        self._blank_lines += part.blank_lines
        self._rows += len(part.head)

    def _subjects(self, names: pa.Array) -> NDArray[np.int32]:
        """The numbers of entities; the attributes of a table are all about the same ones."""
        if self._looked_up is None or self._looked_up[0] is not names:
            self._looked_up = names, numbers(self._entities, pa.chunked_array([names]))
        return self._looked_up[1]

    def write(
        self,
        sink: ArraySink,
        entity_list: NameList | None = None,
        relation_list: NameList | None = None,
        labels: NameList | None = None,
    ) -> tuple[ImportReport, GraphWriter, dict[str, Any]]:
        """Write the graph of all facts, relation by relation; returns the report, the writer and the folder's meta.

        A list gives its names the ids of their positions; other names follow in sorted order. `labels` may speak of
        entities and relations alike; if it covers all entities (relations), its order gives their ids too.
        """
        # Labels of the files given, then of those stated among the facts; the first one of a name counts.
        files = labels or NameList()
        known = NameList({**files.labels, **self._labels} | files.labels, files.repeated)
        found, found_relations = self._entities.names(), self._relations.names()
        entities, of_entity, unlisted = _vocabulary(found, entity_list, known)
        relations, of_relation, unlisted_relations = _vocabulary(found_relations, relation_list, known)
        appeared = np.full(len(relations), -1, np.int64)
        appeared[of_relation] = np.arange(len(of_relation))
        writer = GraphWriter(sink, entities, relations)
        counts, loops = Counter(_NOTHING), 0
        without = {}  # relations of which facts were dropped, with the keys of those that were not
        for number in appeared.tolist():
            facts = self._facts.relation(number)
            heads, tails = of_entity[facts.pop("head")], of_entity[facts.pop("tail")]
            key = edge_key(heads, tails, len(entities))
            kept, dropped = distinct(key, facts["split"], facts.get("truth"), facts.get("date"))
            counts.update(dropped)
            heads, tails = heads[kept], tails[kept]
            if dropped["zero_truth"]:
                without[int(of_relation[number])] = pair_key(heads, tails)
            loops += int(np.count_nonzero(heads == tails))
            names = {"truth": "weight"}
            writer.relation(heads, tails, {names.get(name, name): column[kept] for name, column in facts.items()})
        report = ImportReport(
            entities=len(entities),
            relations=len(relations),
            edges=writer.counts,
            self_loops=loops,
            labelled_entities=entities.labelled,
            labelled_relations=relations.labelled,
            unlisted=unlisted + unlisted_relations,
            unused_labels=_absent(known, found, found_relations) + known.repeated,
            remarks=[*self._remarks, *spaced(found), *spaced(found_relations), *in_other_letters(found)],
            attributes=self._values.found(),
            blank_lines=self._blank_lines,
            **counts,
        )

        def dropped_facts(relation: int, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
            return ~among(keys, without[relation]) if relation in without else np.zeros(len(keys), dtype=bool)

        tables = self._values.tables(of_entity, of_relation, dropped_facts)
        return report, writer, writer.finish({"report": report.as_dict(), **self._notes}, tables)


def _joined(known: Any, note: Any) -> Any:
    """Notes of two sources under one name: of prefixes and the like the first meaning counts."""
    if isinstance(note, Mapping):
        return dict(note) | (known or {})
    return list(dict.fromkeys([*(known or []), *note])) if isinstance(note, list) else note


def numbers(table: NameTable, column: pa.ChunkedArray) -> NDArray[np.int32]:
    """The numbers of the names of a column; where it has dictionaries, only those are looked up."""
    parts = [np.zeros(0, np.int32)]
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            parts.append(table.number(chunk.dictionary)[chunk.indices.to_numpy()])
        else:
            parts.append(table.number(chunk))
    return parts[1] if len(parts) == 2 else np.concatenate(parts)


def strings_of(array: pa.Array, sorted_already: bool = False) -> Strings:
    """Arrow strings without nulls as a blob with offsets."""
    large = array.cast(pa.large_string())
    _, offset_buffer, data = large.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[large.offset : large.offset + len(large) + 1]
    blob = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None else np.zeros(0, np.uint8)
    if sorted_already:
        order = np.arange(len(large), dtype=np.int32)
    else:
        order = pc.sort_indices(large).to_numpy().astype(np.int32)
        order = order[np.diff(offsets)[order] > 0]
    return Strings(blob, offsets - offsets[0], order)


def _absent(known: NameList, *found: pa.Array) -> int:
    """How many labels are of names that do not occur."""
    names = pa.array(list(known.labels), pa.large_string())
    return int(pc.sum(pc.invert(pc.is_in(names, pa.concat_arrays(found)))).as_py() or 0)


def _vocabulary(found: pa.Array, listed: NameList | None, known: NameList) -> tuple[Vocabulary, NDArray[np.int32], int]:
    """The vocabulary of the names found, the id of each of them, and how many of them the given list lacks."""
    if listed is None and known.labels:
        names = pa.array(list(known.labels), pa.large_string())
        if pc.all(pc.is_in(found, value_set=names)).as_py() is not False:
            listed = NameList({name: known.labels[name] for name in names.filter(pc.is_in(names, found)).to_pylist()})
    if listed is None:
        order = pc.sort_indices(found)
        everything, unlisted = found.take(order), 0
        strings = strings_of(everything, sorted_already=True)
        ids = np.empty(len(found), np.int32)
        ids[order.to_numpy()] = np.arange(len(found), dtype=np.int32)
    else:
        given = pa.array(list(listed.labels), pa.large_string())
        others = found.filter(pc.invert(pc.is_in(found, value_set=given)))
        others = others.take(pc.sort_indices(others))
        everything, unlisted = pa.concat_arrays([given, others]), len(others)
        strings = strings_of(everything)
        ids = pc.index_in(found, value_set=everything).to_numpy().astype(np.int32)
    label_of = known.labels | (listed.labels if listed else {})
    # A list without a label does not hide the label that a label file has.
    label_of = {name: label or known.labels.get(name, "") for name, label in label_of.items()}
    if not any(label_of.values()):
        return Vocabulary(strings, Strings.of([])), ids, unlisted
    labels = pa.array([label_of.get(name, "") for name in everything.to_pylist()], pa.large_string())
    some = pc.any(pc.not_equal(labels, "")).as_py()
    return Vocabulary(strings, strings_of(labels) if some else Strings.of([])), ids, unlisted


def distinct(
    key: NDArray[np.int64],
    split: NDArray[np.uint8],
    truth: NDArray[np.float64] | None,
    date: NDArray[np.int64] | None,
) -> tuple[NDArray[np.int64], dict[str, int]]:
    """The facts of a relation to keep, in order of their keys, and counts of the dropped ones.

    Of the same edge the earliest split counts, in it the largest truth, and of equal ones the earliest date.
    """
    order = np.argsort(key, kind="stable")
    if truth is not None:
        order = order[truth[order] > 0]
    ordered = key[order]
    again = np.zeros(len(order), dtype=bool)
    again[1:] = ordered[1:] == ordered[:-1]
    # Only edges that occur more than once need the order of split, truth and date.
    at = np.flatnonzero(again | np.append(again, False)[1:])
    several = order[at]
    preference: list[NDArray[Any]] = [split[several], key[several]]
    if truth is not None:
        preference.insert(0, -truth[several])
    if date is not None:
        # as unsigned numbers one less, a missing date comes last
        preference.insert(0, (date[several] - 1).view(np.uint64) + np.uint64(1 << 63))
    order[at] = several[np.lexsort(preference)]
    first = order[np.maximum.accumulate(np.where(again, 0, np.arange(len(order))))]
    same = again & (split[first] == split[order])
    return order[~again], {
        "duplicates": int(np.count_nonzero(same)),
        "repeated_in_later_split": int(np.count_nonzero(again & ~same)),
        "conflicting_weights": 0 if truth is None else int(np.count_nonzero(again & (truth[first] != truth[order]))),
        "zero_truth": len(key) - len(order),
    }


_NOTHING = {"duplicates": 0, "repeated_in_later_split": 0, "conflicting_weights": 0, "zero_truth": 0}


def spaced(names: pa.Array) -> list[str]:
    """What is said of names that differ from others only by spaces before or after them."""
    around = names.filter(pc.or_(pc.starts_with(names, " "), pc.ends_with(names, " ")))
    doubtful = around.filter(pc.is_in(pc.utf8_trim(around, " "), names))
    if not len(doubtful):
        return []
    many = f"{len(doubtful):,}, as {doubtful[0].as_py()!r}"
    return [
        f"names that differ from others only by spaces around them: {many}; spaces=trim among the columns removes them"
    ]


def in_other_letters(names: pa.Array) -> list[str]:
    """What is said of names that differ from others only by capital letters."""
    if len(names) > 100_000:
        return []
    lowered = pc.utf8_lower(names)
    counts = pc.value_counts(lowered)
    several = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    if not len(several):
        return []
    one, other = names.filter(pc.equal(lowered, several[0]))[:2].to_pylist()
    return [f"names that differ from others only by capital letters: {len(several):,}, as {one!r} and {other!r}"]
