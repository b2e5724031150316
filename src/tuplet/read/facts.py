"""From named facts and values to a graph: ids, duplicates, attributes and the report of an import (needs pyarrow)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
    AttributeColumn,
    Family,
    Ids,
    Kind,
    Values,
    in_order,
    sorted_texts,
    widest,
)
from tuplet.graph.graph import NO_DATE, SPLIT_CODE, SPLITS, GraphWriter
from tuplet.graph.name_table import NameTable
from tuplet.graph.names import Strings, Vocabulary, arrow_bytes
from tuplet.graph.versions import pair_key
from tuplet.progress import counted
from tuplet.read.cells import find_kind, is_text, join_chunks


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


def _no_names() -> pa.ChunkedArray:
    return pa.chunked_array([], pa.large_string())


@dataclass(frozen=True)
class FactColumns:
    """Some of the named facts of one split, as columns of strings, with dictionaries or without."""

    head: pa.ChunkedArray = field(default_factory=_no_names)
    relation: pa.ChunkedArray = field(default_factory=_no_names)
    tail: pa.ChunkedArray = field(default_factory=_no_names)
    truth: NDArray[np.float64] | None = None  # [facts] in [0, 1]
    date: NDArray[np.int64] | None = None  # [facts] seconds since 1970, `NO_DATE` where there is none
    blank_lines: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)  # labels stated among the facts (rdfs:label)
    blank_nodes: int = 0  # nodes without a name, called _:b0, _:b1, … in order of appearance
    values: tuple[AttributeBatch, ...] = ()  # attributes of the facts, or of entities
    nodes: pa.Array | pa.ChunkedArray | None = None  # names of entities that need not occur in a fact
    remarks: tuple[str, ...] = ()  # what the report says of the source, each in words
    notes: Mapping[str, Any] = field(default_factory=dict)  # what the graph keeps: prefixes, type_relation

    @staticmethod
    def from_triples(facts: Iterable[tuple[str, str, str]], **others: Any) -> FactColumns:
        """The columns of facts given as head, relation and tail."""
        names = (pa.array(column, pa.large_string()).dictionary_encode() for column in zip(*facts, strict=True))
        return FactColumns(*(pa.chunked_array([column]) for column in names), **others)

    def with_remarks(self, *remarks: str) -> FactColumns:
        """The same with more remarks."""
        return replace(self, remarks=(*self.remarks, *remarks)) if remarks else self

    def with_names(self, rename: Callable[[str], str]) -> FactColumns:
        """The same of entities and relations by other names."""
        values = tuple(
            batch if batch.subjects is None else replace(batch, subjects=_rename(batch.subjects, rename))
            for batch in self.values
        )
        ends = {name: _rename(getattr(self, name), rename) for name in ("head", "relation", "tail")}
        return replace(self, values=values, labels={rename(name): text for name, text in self.labels.items()}, **ends)

    def after_blank(self, number: int) -> FactColumns:
        """The same facts with names for blank nodes that begin at another number."""
        if not (number and self.blank_nodes):
            return self
        return self.with_names(lambda name: f"_:b{int(name[3:]) + number}" if name.startswith("_:b") else name)


def _rename(column: pa.Array | pa.ChunkedArray, rename: Callable[[str], str]) -> pa.ChunkedArray:
    made = []
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        names = pa.array(map(rename, coded.dictionary.to_pylist()), pa.large_string())
        made.append(pa.DictionaryArray.from_arrays(coded.indices, names))
    return pa.chunked_array(made, pa.dictionary(pa.int32(), pa.large_string()))


@dataclass(frozen=True)
class NameList:
    """Names with labels, in the order of their file."""

    labels: dict[str, str] = field(default_factory=dict)
    repeated: int = 0  # lines about a name that an earlier line has


@dataclass(frozen=True)
class FoundAttribute:
    """An attribute that was found, in the report of an import."""

    name: str
    kind: str  # several kinds, joined by "and", if its values are a mixture
    values: int
    of: str = "entities"  # or facts

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}, {self.values:,} of {self.of})"


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
    remarks: list[str]  # further findings, source by source
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
            if " and " in found.kind
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
            "head": number_names(self._entities, part.head),
            "tail": number_names(self._entities, part.tail),
            "split": np.full(len(part.head), SPLIT_CODE[split], np.uint8),
        }
        columns |= {name: array for name, array in (("truth", part.truth), ("date", part.date)) if array is not None}
        relation = number_names(self._relations, part.relation)
        self._facts.append(relation, columns)
        for batch in part.values:
            self._values.add(batch, self._subjects, (columns["head"], relation, columns["tail"]))
        self._looked_up = None
        for name, label in part.labels.items():
            self._labels.setdefault(name, label)
        if part.nodes is not None:
            number_names(self._entities, part.nodes)
        self._remarks |= dict.fromkeys(part.remarks)
        for name, note in part.notes.items():
            self._notes[name] = _join_notes(self._notes.get(name), note)
        self._blank_lines += part.blank_lines
        self._rows += len(part.head)

    def _subjects(self, names: pa.Array) -> NDArray[np.int32]:
        """The numbers of entities; the attributes of a table are all about the same ones."""
        if self._looked_up is None or self._looked_up[0] is not names:
            self._looked_up = names, number_names(self._entities, names)
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
        counts = Counter({"duplicates": 0, "repeated_in_later_split": 0, "conflicting_weights": 0, "zero_truth": 0})
        loops = 0
        without = {}  # relations of which facts were dropped, with the keys of those that were not
        for number in appeared.tolist():
            facts = self._facts.relation(number)
            heads, tails = of_entity[facts.pop("head")], of_entity[facts.pop("tail")]
            key = edge_key(heads, tails, len(entities))
            kept, dropped = drop_duplicates(key, facts["split"], facts.get("truth"), facts.get("date"))
            counts.update(dropped)
            heads, tails = heads[kept], tails[kept]
            if dropped["zero_truth"]:
                without[int(of_relation[number])] = pair_key(heads, tails)
            loops += int(np.count_nonzero(heads == tails))
            columns = {"weight" if name == "truth" else name: column[kept] for name, column in facts.items()}
            writer.relation(heads, tails, columns)
        names = pa.array(list(known.labels), pa.large_string())
        used = pc.sum(pc.is_in(names, pa.concat_arrays([found, found_relations]))).as_py() or 0
        report = ImportReport(
            entities=len(entities),
            relations=len(relations),
            edges={name: writer.counts[name] for name in SPLITS},
            self_loops=loops,
            labelled_entities=entities.labelled,
            labelled_relations=relations.labelled,
            unlisted=unlisted + unlisted_relations,
            unused_labels=len(names) - used + known.repeated,
            remarks=[*self._remarks, *_remark_spaces(found), *_remark_spaces(found_relations), *_remark_letters(found)],
            attributes=self._values.list_found(),
            blank_lines=self._blank_lines,
            **counts,
        )

        def dropped_facts(relation: int, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
            return ~among(keys, without[relation]) if relation in without else np.zeros(len(keys), dtype=bool)

        tables = self._values.tables(of_entity, of_relation, dropped_facts)
        return report, writer, writer.finish({"report": report.as_dict(), **self._notes}, tables)


def _join_notes(known: Any, note: Any) -> Any:
    """Notes of two sources under one name: of prefixes and the like the first meaning counts."""
    if isinstance(note, Mapping):
        return dict(note) | (known or {})
    return list(dict.fromkeys([*(known or []), *note])) if isinstance(note, list) else note


def number_names(table: NameTable, column: pa.Array | pa.ChunkedArray) -> NDArray[np.int32]:
    """The numbers of the names of a column; where it has dictionaries, only those are looked up."""
    parts = [np.zeros(0, np.int32)]
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        if pa.types.is_dictionary(chunk.type):
            parts.append(table.number(chunk.dictionary)[chunk.indices.to_numpy()])
        else:
            parts.append(table.number(chunk))
    return parts[1] if len(parts) == 2 else np.concatenate(parts)


def _strings(array: pa.Array, order: NDArray[np.int32] | None = None) -> Strings:
    """Arrow strings without nulls as a blob with offsets; `order` is that of their bytes, where it is known."""
    blob, offsets = arrow_bytes(array)
    if order is None:
        order = pc.sort_indices(array.cast(pa.large_string())).to_numpy().astype(np.int32)
        order = order[np.diff(offsets)[order] > 0]
    return Strings(blob, offsets, order)


def _vocabulary(found: pa.Array, listed: NameList | None, known: NameList) -> tuple[Vocabulary, NDArray[np.int32], int]:
    """The vocabulary of the names found, the id of each of them, and how many of them the given list lacks."""
    if listed is None and known.labels:
        names = pa.array(list(known.labels), pa.large_string())
        if pc.all(pc.is_in(found, value_set=names)).as_py() is not False:
            listed = NameList({name: known.labels[name] for name in names.filter(pc.is_in(names, found)).to_pylist()})
    if listed is None:
        order = pc.sort_indices(found)
        everything, unlisted = found.take(order), 0
        strings = _strings(everything, np.arange(len(found), dtype=np.int32))
        ids = np.empty(len(found), np.int32)
        ids[order.to_numpy()] = np.arange(len(found), dtype=np.int32)
    else:
        given = pa.array(list(listed.labels), pa.large_string())
        others = found.filter(pc.invert(pc.is_in(found, value_set=given)))
        everything, unlisted = pa.concat_arrays([given, others.take(pc.sort_indices(others))]), len(others)
        strings = _strings(everything)
        ids = pc.index_in(found, value_set=everything).to_numpy().astype(np.int32)
    # A list without a label does not hide the label that a label file has.
    label_of = known.labels | {name: text for name, text in (listed.labels if listed else {}).items() if text}
    labels = [label_of.get(name, "") for name in everything.to_pylist()] if any(label_of.values()) else []
    texts = _strings(pa.array(labels, pa.large_string())) if any(labels) else Strings.from_texts([])
    return Vocabulary(strings, texts), ids, unlisted


def drop_duplicates(
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


def _remark_spaces(names: pa.Array) -> list[str]:
    """The remark on names that differ from others only by spaces before or after them."""
    around = names.filter(pc.or_(pc.starts_with(names, " "), pc.ends_with(names, " ")))
    doubtful = around.filter(pc.is_in(pc.utf8_trim(around, " "), names))
    if not len(doubtful):
        return []
    many = f"{len(doubtful):,}, as {doubtful[0].as_py()!r}"
    return [
        f"names that differ from others only by spaces around them: {many}; spaces=trim among the columns removes them"
    ]


def _remark_letters(names: pa.Array) -> list[str]:
    """The remark on names that differ from others only by capital letters."""
    if len(names) > 100_000:
        return []
    lowered = pc.utf8_lower(names)
    counts = pc.value_counts(lowered)
    several = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    if not len(several):
        return []
    one, other = names.filter(pc.equal(lowered, several[0]))[:2].to_pylist()
    return [f"names that differ from others only by capital letters: {len(several):,}, as {one!r} and {other!r}"]


# --- attributes --------------------------------------------------------------------------------------------------


@dataclass
class _KindValues:
    """The values of one kind of an attribute, of entities or of facts."""

    rows: RelationSpill
    texts: NameTable = field(default_factory=NameTable)
    tags: dict[str, int] = field(default_factory=lambda: {"": 0})


class ValueCollector:
    """Values as they come; beyond `memory` bytes for each attribute they wait in a file."""

    def __init__(self, memory: int, folder: Path | None = None) -> None:
        self._memory, self._folder = memory, folder
        # by name, whether they are of facts, and family
        self._found: dict[tuple[str, bool, Family], dict[Kind, _KindValues]] = {}

    def add(self, batch: AttributeBatch, subject: Callable[[pa.Array], Ids], facts: Sequence[Ids]) -> None:
        """Take the values of a batch.

        `subject` gives the numbers of entities by name, also of those without a value here; `facts` are the heads,
        relations and tails of the facts that the batch came with.
        """
        values, rows = _flatten(batch.values)
        if len(values) == 0:
            return
        kind, stored = _store(batch.name, values)
        kinds = self._found.setdefault((batch.name, batch.subjects is None, FAMILIES[kind]), {})
        if kind not in kinds:
            kinds[kind] = _KindValues(RelationSpill(self._memory, self._folder, defaults={"language": 0}))
        gathered = kinds[kind]
        if kind == "text":  # only texts that differ are looked up
            coded = stored if pa.types.is_dictionary(stored.type) else stored.dictionary_encode()
            stored = number_names(gathered.texts, coded)
        columns: dict[str, NDArray[Any]] = {"value": stored}
        if batch.subjects is None:
            head, relation, tail = (column if rows is None else column[rows] for column in facts)
            columns |= {"head": head, "tail": tail}
        else:
            names = join_chunks(batch.subjects)
            columns["head"] = subject(names) if rows is None else subject(names)[rows]
            relation = np.zeros(len(values), np.uint8)
        if batch.languages is not None and kind == "text":
            tags = join_chunks(batch.languages).fill_null("").dictionary_encode()
            known = gathered.tags
            codes = np.array([known.setdefault(tag, len(known)) for tag in tags.dictionary.to_pylist()], np.int16)
            columns["language"] = codes[(tags if rows is None else tags.take(pa.array(rows))).indices.to_numpy()]
        if len({len(column) for column in (*columns.values(), relation)}) > 1:
            raise ValueError(f"{len(values)} values of {batch.name!r} for {len(columns['head'])} subjects")
        gathered.rows.append(relation, columns)

    def tables(
        self, of_entity: Ids, of_relation: Ids, dropped: Callable[[int, NDArray[np.int64]], NDArray[np.bool_]]
    ) -> Iterator[list[AttributeColumn]]:
        """The columns of all values, table by table, given the ids of entities and relations by number.

        `dropped` says of the keys of a relation's facts which of them did not become edges.
        """
        by_id: list[int] = np.argsort(of_relation).tolist()
        orders: dict[int, tuple[Ids, Ids]] = {}  # of facts that have several attributes, sorted once
        for (name, of_facts, _), kinds in sorted(self._found.items()):
            kind = widest(kinds)
            parts: list[tuple[int, _Rows]] = []
            for number in by_id if of_facts else [0]:
                rows = _join_rows([k.rows.relation(number) for k in kinds.values()], kind, of_entity)
                if of_facts and len(rows["key"]):
                    key = rows["key"]
                    if number not in orders or not np.array_equal(orders[number][0], key):
                        orders[number] = key, np.argsort(key)
                    rows = {part: column[orders[number][1]] for part, column in rows.items()}
                    gone = dropped(int(of_relation[number]), rows["key"])
                    rows = {part: column[~gone] for part, column in rows.items()} if gone.any() else rows
                if len(rows["key"]):
                    parts.append((int(of_relation[number]) if of_facts else -1, rows))
            if parts:
                yield list(_columns(name, kind, parts, kinds[kind]))

    def list_found(self) -> tuple[FoundAttribute, ...]:
        """What was gathered, for the report: by name, those of entities before those of facts."""
        counts: dict[tuple[str, bool], dict[str, int]] = {}
        for (name, of_facts, _), kinds in sorted(self._found.items()):
            rows = sum(gathered.rows.rows for gathered in kinds.values())
            counts.setdefault((name, of_facts), {})[widest(kinds)] = rows
        return tuple(
            FoundAttribute(name, " and ".join(sorted(rows)), sum(rows.values()), "facts" if of_facts else "entities")
            for (name, of_facts), rows in counts.items()
        )


# The rows of one relation, or of all entities, in any order: `key`, `value` and perhaps `language`.
_Rows = dict[str, NDArray[Any]]


def _join_rows(parts: Sequence[_Rows], kind: Kind, of_entity: Ids) -> _Rows:
    """The rows of the kinds of a family; of several kinds the values are stored as the widest is."""
    made: dict[str, list[NDArray[Any]]] = {"key": [], "value": []}
    spoken = any("language" in rows for rows in parts)
    for rows in parts:
        if "head" not in rows:
            continue
        key = of_entity[rows["head"]]
        if "tail" in rows:
            key = key.astype(np.int64) * FACTS + of_entity[rows["tail"]]
        made["key"].append(key)
        dtype = np.int32 if kind == "text" else STORED.get(kind, np.int64)
        made["value"].append(rows["value"].astype(dtype, copy=False))
        if spoken:
            made.setdefault("language", []).append(rows.get("language", np.zeros(len(key), np.int16)))
    if not made["key"]:
        return {"key": np.zeros(0, np.int64)}
    return {name: part[0] if len(part) == 1 else np.concatenate(part) for name, part in made.items()}


def _columns(
    name: str, kind: Kind, parts: Sequence[tuple[int, _Rows]], gathered: _KindValues
) -> Iterator[AttributeColumn]:
    """The columns of an attribute and family, which share their values."""
    values: Values
    if kind == "text":
        values, rank_of = sorted_texts(gathered.texts.names())
        ranks = [rank_of[rows["value"]] for _, rows in parts]
    else:
        coded = pa.array(np.concatenate([rows["value"] for _, rows in parts])).dictionary_encode()
        found = coded.dictionary.to_numpy(zero_copy_only=False)
        order = np.argsort(found)
        rank_of = np.empty(len(order), np.int32)
        rank_of[order] = np.arange(len(order))
        values, cuts = found[order], np.cumsum([len(rows["key"]) for _, rows in parts])[:-1]
        ranks = np.split(rank_of[coded.indices.to_numpy()], cuts)
    tags = tuple(sorted(gathered.tags)) if len(gathered.tags) > 1 else ()
    tag_of = np.array([tags.index(tag) if tags else 0 for tag in gathered.tags], np.int16)
    for (relation, rows), rank in zip(parts, ranks, strict=True):
        spoken = tag_of[rows["language"]] if tags and "language" in rows else None
        content = in_order(rows["key"], rank, values, spoken)
        yield AttributeColumn.from_content(name, kind, content, relation, tags)


def _flatten(column: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int64] | None]:
    """The values that are there, and the row of each; None where every row has one."""
    values = join_chunks(column)
    rows: NDArray[np.int64] | None = None
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        rows = pc.list_parent_indices(values).to_numpy(zero_copy_only=False).astype(np.int64)
        values = pc.list_flatten(values)
    there = values.is_valid() if values.null_count > 0 else None
    if pa.types.is_floating(values.type):
        number = pc.fill_null(pc.invert(pc.is_nan(values)), False)
        if not pc.all(number).as_py():
            there = number
    if there is not None:
        keep = np.flatnonzero(there.to_numpy(zero_copy_only=False))
        values, rows = values.take(pa.array(keep)), keep if rows is None else rows[keep]
    return values, rows


def _store(name: str, values: pa.Array) -> tuple[Kind, Any]:
    """The kind of some values by their Arrow type, and the values as they are stored; texts stay as they are."""
    held = values.type
    if pa.types.is_dictionary(held) and not is_text(held.value_type):
        return _store(name, values.dictionary_decode())
    kind = find_kind(held) or "text"
    try:
        match kind:
            case "integer" | "number":
                values = values.cast(pa.int64() if kind == "integer" else pa.float64())
            case "date" | "time":
                values = values.cast(pa.timestamp("us", getattr(held, "tz", None)), safe=False).cast(pa.int64())
            case "text" if not (is_text(held) or pa.types.is_dictionary(held)):
                values = values.cast(pa.large_string())
    except pa.ArrowException as error:
        raise BadInput(f"attribute {name}: {str(error).splitlines()[0]}") from None
    return kind, values if kind == "text" else values.to_numpy(zero_copy_only=False)
