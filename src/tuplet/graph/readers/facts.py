"""From named facts to a graph: ids, duplicates and the report of an import (needs pyarrow)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuplet.graph.graph import NO_DATE, SPLIT_CODE, SPLITS, KnowledgeGraph
from tuplet.graph.names import Strings, Vocabulary
from tuplet.graph.views import by_relation, edge_key


@dataclass(frozen=True)
class FactColumns:
    """Named facts of one split, as columns."""

    head: pa.ChunkedArray
    relation: pa.ChunkedArray
    tail: pa.ChunkedArray
    truth: NDArray[np.float64] | None = None  # [facts] in [0, 1]
    date: NDArray[np.int64] | None = None  # [facts] seconds since 1970, `NO_DATE` where there is none
    blank_lines: int = 0
    literals: int = 0  # RDF statements about a literal, which is no entity
    labels: dict[str, str] = field(default_factory=dict)  # labels stated among the facts (rdfs:label)
    blank_nodes: int = 0  # nodes without a name, called _:b0, _:b1, … in order of appearance
    maybe_header: bool = False  # the first line may be one: its three names occur nowhere else

    def after_blank(self, number: int) -> FactColumns:
        """The same facts with names for blank nodes that begin at another number."""
        if not (number and self.blank_nodes):
            return self
        return replace(self, head=_renamed(self.head, number), tail=_renamed(self.tail, number))


def _renamed(column: pa.ChunkedArray, number: int) -> pa.ChunkedArray:
    def name(old: str) -> str:
        return f"_:b{int(old[3:]) + number}" if old.startswith("_:b") else old

    return pa.chunked_array(
        [
            pa.DictionaryArray.from_arrays(
                chunk.indices, pa.array(map(name, chunk.dictionary.to_pylist()), pa.large_string())
            )
            for chunk in column.chunks
        ]
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
    literals: int
    labelled_entities: int
    labelled_relations: int
    unlisted: int  # entities and relations that a given list of names lacks
    unused_labels: int  # labels of names that do not occur, and repeated ones
    maybe_headers: int  # files whose first line may be a header: its three names occur nowhere else

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        splits = ", ".join(f"{count:,} {name}" for name, count in self.edges.items() if count)
        lines = [
            f"{self.entities:,} entities ({self.labelled_entities:,} labelled), "
            f"{self.relations:,} relations, {sum(self.edges.values()):,} edges ({splits})"
        ]
        remarks = {
            "duplicates dropped": self.duplicates,
            "repeated in a later split": self.repeated_in_later_split,
            "self-loops": self.self_loops,
            "duplicates with another truth, the largest kept": self.conflicting_weights,
            "facts of truth 0 dropped": self.zero_truth,
            "blank lines ignored": self.blank_lines,
            "literals skipped": self.literals,
            "names not in the given list": self.unlisted,
            "labels not used": self.unused_labels,
            "first lines that may be headers (--columns names the columns)": self.maybe_headers,
        }
        always = ("duplicates dropped", "self-loops")
        lines += [f"{count:,} {text}" for text, count in remarks.items() if count or text in always]
        return "\n".join(lines)


def assemble(
    splits: Mapping[str, FactColumns],
    entity_list: NameList | None = None,
    relation_list: NameList | None = None,
    labels: NameList | None = None,
) -> tuple[KnowledgeGraph, ImportReport]:
    """The graph of the facts of each split.

    A list gives its names the ids of their positions; other names follow in sorted order. `labels` may speak of
    entities and relations alike; if it covers all entities (relations), its order gives their ids too.
    """
    parts = [splits[name] for name in SPLITS if name in splits]
    codes = [SPLIT_CODE[name] for name in SPLITS if name in splits]
    split = np.repeat(np.array(codes, np.uint8), [len(part.head) for part in parts])
    truth, date = _truth(parts), _date(parts)
    known = _known_labels(parts, labels)
    found, (heads, tails) = _encode([[part.head for part in parts], [part.tail for part in parts]])
    entities, of_entity, unlisted_entities = _vocabulary(found, entity_list, known)
    found_relations, (relation,) = _encode([[part.relation for part in parts]])
    relations, of_relation, unlisted_relations = _vocabulary(found_relations, relation_list, known)
    heads, tails, relation = of_entity[heads], of_entity[tails], of_relation[relation]
    order, bounds = by_relation(relation, len(relations))
    order = np.arange(len(relation)) if order is None else order
    counts, chosen = Counter(_NOTHING), [np.zeros(0, np.int64)]
    for begin, end in pairwise(bounds.tolist()):
        mine = order[begin:end]
        found_here = distinct(
            edge_key(heads[mine], tails[mine], len(entities)),
            split[mine],
            None if truth is None else truth[mine],
            None if date is None else date[mine],
        )
        chosen.append(mine[found_here[0]])
        counts.update(found_here[1])
    kept = np.concatenate(chosen)
    heads, relation, tails, split = heads[kept], relation[kept], tails[kept], split[kept]
    per_split = np.bincount(split, minlength=len(SPLITS) + 1)
    report = ImportReport(
        entities=len(entities),
        relations=len(relations),
        edges={name: int(per_split[code]) for name, code in SPLIT_CODE.items()},
        self_loops=int(np.count_nonzero(heads == tails)),
        blank_lines=sum(part.blank_lines for part in parts),
        literals=sum(part.literals for part in parts),
        labelled_entities=entities.labelled,
        labelled_relations=relations.labelled,
        unlisted=unlisted_entities + unlisted_relations,
        unused_labels=_absent(known, found, found_relations) + known.repeated,
        maybe_headers=sum(part.maybe_header for part in parts),
        **counts,
    )
    weight = None if truth is None else truth[kept]
    when = None if date is None else date[kept]
    notes = {"report": report.as_dict()}
    return KnowledgeGraph.of(entities, relations, heads, relation, tails, split, weight, notes, when), report


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


def _truth(parts: Sequence[FactColumns]) -> NDArray[np.float64] | None:
    """Truth of all facts; a split without the column is certain."""
    if all(part.truth is None for part in parts):
        return None
    return np.concatenate([np.ones(len(part.head)) if part.truth is None else part.truth for part in parts])


def _date(parts: Sequence[FactColumns]) -> NDArray[np.int64] | None:
    """Dates of all facts, if any split has them."""
    if all(part.date is None for part in parts):
        return None
    return np.concatenate([np.full(len(part.head), NO_DATE) if part.date is None else part.date for part in parts])


def _known_labels(parts: Sequence[FactColumns], labels: NameList | None) -> NameList:
    """Labels of the files given, then of those stated among the facts; the first one of a name counts."""
    known = dict(labels.labels) if labels else {}
    for part in parts:
        for name, label in part.labels.items():
            known.setdefault(name, label)
    return NameList(known, labels.repeated if labels else 0)


def _absent(known: NameList, *found: pa.Array) -> int:
    """How many labels are of names that do not occur."""
    names = pa.array(list(known.labels), pa.large_string())
    return int(pc.sum(pc.invert(pc.is_in(names, pa.concat_arrays(found)))).as_py() or 0)


def _encode(groups: Sequence[Sequence[pa.ChunkedArray]]) -> tuple[pa.Array, list[NDArray[np.int32]]]:
    """The distinct strings of all groups, and for each group the numbers of its strings.

    Columns come as dictionaries chunk by chunk; only their dictionaries are compared, the indices are looked up.
    """
    chunks = [[chunk for column in group for chunk in column.chunks] for group in groups]
    dictionaries = [chunk.dictionary.cast(pa.large_string()) for group in chunks for chunk in group]
    if not dictionaries:
        return pa.array([], pa.large_string()), [np.zeros(0, np.int32) for _ in groups]
    encoded = pa.chunked_array(dictionaries).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    number = encoded.indices.to_numpy().astype(np.int32, copy=False)
    codes, start = [], 0
    for group in chunks:
        out = np.empty(sum(len(chunk) for chunk in group), np.int32)
        at = 0
        for chunk in group:
            stop = start + len(chunk.dictionary)
            out[at : at + len(chunk)] = number[start:stop][chunk.indices.to_numpy()]
            at, start = at + len(chunk), stop
        codes.append(out)
    return encoded.dictionary, codes


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
