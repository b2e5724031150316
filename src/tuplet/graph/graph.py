"""A knowledge graph: names, edges in both directions, the split of each edge, its given truth and its date if any."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import CorruptStore, nearest, unknown
from tuplet.graph.adjacency import (
    LAYOUT,
    Adjacency,
    ArraySink,
    GrowingArrays,
    Ints,
    Longs,
    ViewsWriter,
    refuse_misfits,
    relation_slices,
    relation_views,
)
from tuplet.graph.arrays import FolderWriter, content_hash, open_directory, write_directory
from tuplet.graph.attributes import (
    FACTS,
    NO_ATTRIBUTES,
    AttributeColumn,
    Attributes,
    ColumnContent,
    Ranked,
    attributes_of_directory,
    in_order,
    is_read_later,
    open_attributes,
    stored_attributes,
    table_arrays,
    tables_of,
    with_labels,
)
from tuplet.graph.names import WELL_KNOWN, Prefixes, Strings, Vocabulary
from tuplet.graph.versions import EdgeStates, LayeredRows
from tuplet.progress import counted, sizes

KIND = "graph"
SPLITS = ("train", "valid", "test")
SPLIT_CODE = {name: code for code, name in enumerate(SPLITS, start=1)}

NO_DATE = int(np.iinfo(np.int64).min)  # in place of the date of a fact that has none
LOOPS, DATED = "self_loops", "dated"  # what is counted beside the edges of each split

Splits = NDArray[np.uint8]
Floats = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class KnowledgeGraph:
    """Facts with names.

    >>> people, relations = Vocabulary.from_names(["a", "b"]), Vocabulary.from_names(["knows"])
    >>> graph = KnowledgeGraph.from_edges(people, relations, [0, 1], [0, 0], [1, 0], [1, 2])
    >>> graph.adjacency.edges, graph.observed(["train"]).edges, [part.tolist() for part in graph.edges("valid")]
    (2, 1, [[1], [0], [0]])
    """

    entities: Vocabulary
    relations: Vocabulary
    adjacency: Adjacency  # all splits together
    split: Splits  # [entries of adjacency] 1 train, 2 valid, 3 test
    weight: Floats | None  # [entries of adjacency] truth of each edge in a weighted graph, as given (float64)
    hash: str  # content hash: same names, edges, splits and weights, same hash
    counts: dict[str, int]  # edges of each split, loops among them, and if there are dates, dated ones
    notes: dict[str, Any] = field(default_factory=dict)  # provenance, such as the import report; not hashed
    date: Longs | None = None  # [entries of adjacency] seconds since 1970 (UTC), NO_DATE where a fact has none
    layered: LayeredRows | None = None  # where newer layers grow, once there are any
    attributes: Attributes = NO_ATTRIBUTES

    def __post_init__(self) -> None:
        object.__setattr__(self, "entities", with_labels(self.entities, self.attributes, self.notes))

    def __repr__(self) -> str:
        held = sizes(len(self.entities), len(self.relations))
        return f"<KnowledgeGraph: {held}, {counted(self.adjacency.edges, 'edge')}>"

    @staticmethod
    def from_edges(
        entities: Vocabulary,
        relations: Vocabulary,
        heads: Sequence[int] | NDArray[np.integer],
        relation: Sequence[int] | NDArray[np.integer],
        tails: Sequence[int] | NDArray[np.integer],
        split: Sequence[int] | Splits | None = None,
        weight: Sequence[float] | NDArray[np.floating] | None = None,
        notes: dict[str, Any] | None = None,
        date: Sequence[int] | NDArray[np.integer] | None = None,
        attributes: Attributes = NO_ATTRIBUTES,
    ) -> KnowledgeGraph:
        """The graph of distinct edges given by ids; all of them train unless `split` says otherwise."""
        heads, relation, tails = (np.asarray(ids, dtype=np.int32) for ids in (heads, relation, tails))
        given = {"split": (split, np.uint8), "weight": (weight, np.float64), "date": (date, np.int64)}
        columns = {n: np.asarray(column, dtype=dtype) for n, (column, dtype) in given.items() if column is not None}
        columns.setdefault("split", np.ones(len(heads), np.uint8))
        sink = GrowingArrays()
        writer = GraphWriter(sink, entities, relations)
        for near, far, *own in relation_slices(relation, len(relations), heads, tails, *columns.values()):
            writer.relation(near, far, dict(zip(columns, own, strict=True)))
        meta = writer.finish(notes or {}, tables_of(attributes))
        graph = graph_of_arrays(sink.arrays(), entities, relations, meta)
        return graph if attributes is NO_ATTRIBUTES else replace(graph, attributes=attributes)

    @staticmethod
    def open(path: str | os.PathLike[str]) -> KnowledgeGraph:
        """The graph of a directory, memory-mapped; the facts of a relation are checked when they are first read."""
        directory = open_directory(path, KIND)
        arrays, meta = directory.arrays, directory.meta
        try:
            entities, relations = (Vocabulary.from_arrays(arrays, prefix) for prefix in ("entity_", "relation_"))
            adjacency = Adjacency.from_directory(directory, len(entities))
            payload = (arrays["split"], arrays.get("weight"), directory.hash, meta["counts"], meta.get("notes", {}))
            date, attributes = arrays.get("date"), attributes_of_directory(directory)
            graph = KnowledgeGraph(entities, relations, adjacency, *payload, date, attributes=attributes)
            # Arrays that do not fit together are refused: compiled code trusts these bounds.
            entities.check("entity_")
            relations.check("relation_")
            refuse_misfits(view_ptr=adjacency.relations == len(relations))
            entries = len(adjacency.neighbour)
            refuse_misfits(**{name: len(column) == entries for name, column in graph._columns.items()})
        except (KeyError, ValueError) as error:
            raise CorruptStore(f"{Path(path)} is not a whole graph: {error}") from None
        return graph

    def save(self, path: str | os.PathLike[str], force: bool = False) -> str:
        """Write the graph as a directory and return its content hash; one is replaced only with `force`."""
        flat = self.flat
        arrays = flat._arrays()
        rows, entries = flat.adjacency.sections()
        divided = dict.fromkeys(("row_entity", "row_ptr"), rows)
        divided |= dict.fromkeys(("neighbour", *flat._columns), entries)
        more, described = stored_attributes(flat.attributes)
        meta = {"notes": self.notes, "counts": flat.counts, **described}
        return write_directory(path, KIND, arrays | more, meta, force, divided=divided, later=is_read_later)

    def with_splits(self, split: Splits) -> KnowledgeGraph:
        """The same edges with other splits [edges in the order of `adjacency.triples`]."""
        heads, relation, tails, entry = self.adjacency.triples()
        weight = None if self.weight is None else self.weight[entry]
        date = None if self.date is None else self.date[entry]
        edges = (self.entities, self.relations, heads, relation, tails, split, weight)
        return KnowledgeGraph.from_edges(*edges, self.notes, date, self.attributes)

    def edit(
        self, states: EdgeStates, entities: Vocabulary | None = None, counts: dict[str, int] | None = None
    ) -> KnowledgeGraph:
        """The graph in which some edges are as the states say, in a newer layer; nothing else is copied.

        `counts` are those of the edited graph, where they are known.
        """
        rows = self._rows()
        values = {name: getattr(states, name) for name in rows.entry}
        if counts is None:
            counts = self._counts_after(states)
        rows = rows.edit(states.relation, states.heads, states.tails, states.split > 0, values)
        return self._with(rows, counts, entities or self.entities, "")

    def _counts_after(self, states: EdgeStates) -> dict[str, int]:
        """What is counted without reading everything, after an edit."""
        counts, columns = Counter(self.counts), self._columns
        place = self.adjacency.find_many(states.heads, states.relation, states.tails)
        gone, come = states.take(place >= 0), states.take(states.split > 0)
        before = {name: column[place[place >= 0]] for name, column in columns.items()}
        counts.subtract(count_edges(gone.heads, gone.tails, before))
        counts.update(count_edges(come.heads, come.tails, {name: getattr(come, name) for name in columns}))
        return dict(counts)

    def over(
        self, layer: dict[str, NDArray[Any]], counts: dict[str, int], entities: Vocabulary, hash: str
    ) -> KnowledgeGraph:
        """The graph under a layer that `layer` gave."""
        return self._with(self._rows().over(layer), counts, entities, hash)

    def layer(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """All that was edited, as arrays to be written down, in pieces."""
        return self._rows().layer()

    def _rows(self) -> LayeredRows:
        return self.layered or LayeredRows(self.adjacency, self._columns, {})

    def _with(self, rows: LayeredRows, counts: dict[str, int], entities: Vocabulary, hash: str) -> KnowledgeGraph:
        columns: dict[str, Any] = rows.entry
        return replace(
            self, entities=entities, adjacency=rows.adjacency, hash=hash, layered=rows, counts=counts, **columns
        )

    @property
    def flat(self) -> KnowledgeGraph:
        adjacency, entries = self.adjacency.flatten()
        if adjacency is self.adjacency:
            return self
        columns: dict[str, Any] = {name: column[entries] for name, column in self._columns.items()}
        return replace(self, adjacency=adjacency, layered=None, **columns)

    @cached_property
    def prefixes(self) -> Prefixes:
        """The prefixes of the file it came from, and those that everybody knows."""
        own = self.notes.get("prefixes")
        return Prefixes({**WELL_KNOWN, **own} if own else {})

    @property
    def types(self) -> int:
        """The relation of node labels and RDF types, -1 if there is none: a fact like others, but not predicted."""
        return -1 if (name := self.notes.get("type_relation")) is None else self.relations.find(name)

    @property
    def unpredicted(self) -> int:
        """The relation of which nothing is predicted, -1 if there is none."""
        return -1 if self.notes.get("predict_types") else self.types

    def predicting_types(self) -> KnowledgeGraph:
        """The same graph, in which types are predicted as other relations are."""
        return replace(self, notes={**self.notes, "predict_types": True})

    @property
    def weighted(self) -> bool:
        return self.weight is not None

    @property
    def split_edges(self) -> dict[str, int]:
        return {name: self.counts[name] for name in SPLITS}

    def edges(self, *splits: str) -> tuple[Ints, Ints, Ints]:
        """Heads, relations and tails of the edges of the named splits (of all if none is named)."""
        heads, relation, tails, entry = self.adjacency.triples()
        if not splits:
            return heads, relation, tails
        keep = self._mark(splits)[entry]
        return heads[keep], relation[keep], tails[keep]

    def observed(self, splits: Sequence[str] | None = None) -> Adjacency:
        """The edges that count as known facts: those of the named splits, all if None.

        Splits of a benchmark are cumulative: what is known when testing is `observed(["train", "valid"])`.
        """
        return self.adjacency.filter(self._mark(splits)) if hides(self, splits) else self.adjacency

    def info(self) -> dict[str, Any]:
        """Sizes and identity of the graph, ready for JSON."""
        return {
            "kind": KIND,
            "entities": len(self.entities),
            "relations": len(self.relations),
            "edges": dict(self.split_edges),
            LOOPS: self.counts[LOOPS],
            "weighted": self.weighted,
            **({} if self.date is None else {DATED: self.counts[DATED]}),
            "labelled_entities": self.entities.labelled,
            "labelled_relations": self.relations.labelled,
            "hash": self.hash,
        }

    def _mark(self, splits: Sequence[str] | None) -> NDArray[np.bool_]:
        self.adjacency.touch()
        return marked_splits(splits)[self.split]

    def relation_facts(self, relation: int) -> tuple[Ints, Ints, dict[str, NDArray[Any]]]:
        """Heads and tails of the facts of a relation, in order, and what is known of each: split, weight, date."""
        heads, tails, entries = self.adjacency.relation(relation)
        return heads, tails, {name: column[entries] for name, column in self._columns.items()}

    @property
    def _columns(self) -> dict[str, NDArray[Any]]:
        """What lies beside the entries of the adjacency."""
        columns = {"split": self.split, "weight": self.weight, "date": self.date}
        return {name: array for name, array in columns.items() if array is not None}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        rows: dict[str, NDArray[Any]] = {name: getattr(self.adjacency, name) for name in LAYOUT}
        return rows | self._columns | self.entities.arrays("entity_") | self.relations.arrays("relation_")


def known_splits(splits: Sequence[str]) -> tuple[str, ...]:
    """The splits in their usual order; an unknown one is refused by name.

    >>> known_splits(["valid", "train"])
    ('train', 'valid')
    """
    for name in splits:
        if name not in SPLITS:
            raise unknown("split", name, SPLITS)
    return tuple(name for name in SPLITS if name in splits)


def hides(graph: KnowledgeGraph, splits: Sequence[str] | None) -> bool:
    """Whether a graph has edges outside the named splits."""
    known = SPLITS if splits is None else known_splits(splits)
    return any(count and name not in known for name, count in graph.split_edges.items())


def marked_splits(splits: Sequence[str] | None) -> NDArray[np.bool_]:
    """For each code whether it is one of the splits (of any if None).

    >>> marked_splits(["train"])[:4].tolist()
    [False, True, False, False]
    """
    marked = np.zeros(256, dtype=bool)
    marked[[SPLIT_CODE[name] for name in (SPLITS if splits is None else known_splits(splits))]] = True
    return marked


def count_edges(
    heads: NDArray[np.integer], tails: NDArray[np.integer], columns: Mapping[str, NDArray[Any]]
) -> dict[str, int]:
    """How many edges each split has, how many are loops, and if there are dates, how many have one."""
    counts = {name: int(np.count_nonzero(columns["split"] == code)) for name, code in SPLIT_CODE.items()}
    counts[LOOPS] = int(np.count_nonzero(heads == tails))
    if "date" in columns:
        counts[DATED] = int(np.count_nonzero(columns["date"] != NO_DATE))
    return counts


class GraphWriter:
    """Writes a graph into a sink, one relation after the other."""

    def __init__(self, sink: ArraySink, entities: Vocabulary, relations: Vocabulary) -> None:
        self._sink, self._views = sink, ViewsWriter(sink)
        self.entities, self.relations = entities, relations
        self.counts = Counter(dict.fromkeys((*SPLITS, LOOPS), 0))

    def relation(
        self, heads: NDArray[np.integer], tails: NDArray[np.integer], columns: Mapping[str, NDArray[Any]]
    ) -> None:
        """Add the distinct edges of the next relation, with their split and perhaps weight and date."""
        self.counts.update(count_edges(heads, tails, columns))
        views = relation_views(heads, tails, len(self.entities))
        self._views.relation(views, {name: column[views.edge] for name, column in columns.items()})

    def finish(self, notes: Mapping[str, Any], attributes: Iterable[Sequence[AttributeColumn]] = ()) -> dict[str, Any]:
        """Add names, attributes, and where relations begin; what is returned is the meta of a folder."""
        if not len(self.relations):  # nodes alone
            none = np.zeros(0, np.int32)
            layout: dict[str, NDArray[Any]] = {"row_entity": none, "row_ptr": none.astype(np.int64), "neighbour": none}
            self._sink.section({**layout, "split": none.astype(np.uint8)})
        self._views.finish()
        for vocabulary, prefix in ((self.entities, "entity_"), (self.relations, "relation_")):
            for name, array in vocabulary.arrays(prefix).items():
                self._sink.append(name, array)
        meta: dict[str, Any] = {"notes": dict(notes), "counts": dict(self.counts)}
        described = []
        for number, columns in enumerate(attributes):  # one after another: none waits for the others in memory
            arrays, about = table_arrays(number, columns)
            for name, array in arrays.items():
                self._sink.append(name, array, is_read_later(name))
            described.append(about)
        return meta | ({"attributes": described} if described else {})


def graph_of_arrays(
    arrays: Mapping[str, NDArray[Any]], entities: Vocabulary, relations: Vocabulary, meta: Mapping[str, Any]
) -> KnowledgeGraph:
    """The graph that was written into `GrowingArrays`."""
    adjacency = Adjacency(*(arrays[name] for name in LAYOUT))
    payload = (arrays["split"], arrays.get("weight"), content_hash(KIND, arrays, meta), meta["counts"], meta["notes"])
    attributes = open_attributes(arrays, meta.get("attributes", ()))
    return KnowledgeGraph(entities, relations, adjacency, *payload, arrays.get("date"), attributes=attributes)


FACT_ROWS = "facts"


def write_facts(folder: Path, graph: KnowledgeGraph, splits: Sequence[str] | None) -> str:
    """Write the edges of these splits (of all if None), relation by relation; returns the content hash."""
    marked = marked_splits(splits)
    with FolderWriter(folder, FACT_ROWS) as sink:
        writer = ViewsWriter(sink)
        for relation in range(len(graph.relations)):
            heads, tails, entries = graph.adjacency.relation(relation)
            keep = marked[graph.split[entries]]
            writer.relation(relation_views(heads[keep], tails[keep], len(graph.entities)), {})
        writer.finish()
        return sink.finish({})


def open_facts(folder: Path, graph: KnowledgeGraph) -> tuple[LayeredRows, str]:
    """The facts of a folder, memory-mapped, without what was edited since, and their content hash."""
    opened = open_directory(folder, FACT_ROWS)
    try:
        adjacency = Adjacency.from_directory(opened, len(graph.entities))
    except (KeyError, ValueError) as error:
        raise CorruptStore(f"{folder} is not a whole list of facts: {error}") from None
    if adjacency.relations != len(graph.relations):
        raise CorruptStore(f"{folder}: facts and graph differ in the number of relations")
    return LayeredRows(adjacency, {}, {}), opened.hash


LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
NAME_WORD, LABEL_WORD, DATE_WORD = "name", "label", "date"
_LOCAL = re.compile(r"[^#/:]+$")
_MICROSECONDS = 1_000_000


class AttributeWords:
    """The attributes of a graph, by the words that people use for them."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._graph = graph
        self._own = {name: name for name in graph.attributes.names}
        local: dict[str, list[str]] = {}
        for name in self._own:
            if (match := _LOCAL.search(name)) and match.group() != name:
                local.setdefault(match.group(), []).append(name)
        self._local = {word: names[0] for word, names in local.items() if len(names) == 1}

    def find(self, word: str, facts: bool = False) -> str | None:
        """The attribute that a word names, if it names one; with `facts`, an attribute of facts."""
        if word in self._own:
            return word
        if word in self._local:
            return self._local[word]
        if facts:
            return DATE_WORD if word == DATE_WORD and self._graph.date is not None else None
        if word == LABEL:
            return LABEL_WORD
        return word if word in (NAME_WORD, LABEL_WORD) else None

    def is_stated(self, word: str) -> bool:
        """Whether a word names an attribute that was given, not one that every entity has."""
        return word in self._own or word in self._local

    @cached_property
    def short(self) -> dict[str, str]:
        """The attributes that were given, each with the shortest word that names it."""
        return {**self._own, **{name: word for word, name in self._local.items()}}

    def suggest(self, word: str) -> list[str]:
        """The attributes that may be meant; all of a few."""
        known = list(self.short.values())
        return nearest(word, known) or (known if len(known) <= 8 else [])

    def of_entities(self, name: str) -> list[AttributeColumn]:
        """The columns of an attribute that `find` gave, one for each family of values."""
        found = self._graph.attributes.of_entities(name)
        if not found and name in (NAME_WORD, LABEL_WORD):
            return [self._names if name == NAME_WORD else self._labels]
        return found

    def of_facts(self, name: str, relation: int) -> list[AttributeColumn]:
        found = self._graph.attributes.of_facts(name, relation)
        return [self._dates(relation)] if not found and name == DATE_WORD and self._graph.date is not None else found

    @cached_property
    def _names(self) -> AttributeColumn:
        return _column_of_names(NAME_WORD, self._graph.entities.flat)

    @cached_property
    def _labels(self) -> AttributeColumn:
        """Labels; an entity that has none is called by its name."""
        words = self._graph.entities.flat
        if not len(words.labels):
            return _column_of_names(LABEL_WORD, words)
        called = [words.label(i) or words.name(i) for i in range(len(words))]
        return AttributeColumn.from_values(LABEL_WORD, np.arange(len(words)), called)

    @cache  # noqa: B019 - lives as long as the graph
    def _dates(self, relation: int) -> AttributeColumn:
        heads, tails, entries = self._graph.adjacency.relation(relation)
        assert self._graph.date is not None
        date = self._graph.date[entries]
        dated = date != NO_DATE
        keys = heads[dated].astype(np.int64) * FACTS + tails[dated]
        values, rank = np.unique(date[dated] * _MICROSECONDS, return_inverse=True)
        whole = bool((values % (86_400 * _MICROSECONDS) == 0).all())
        content = in_order(keys, rank.astype(np.int32), values)
        return AttributeColumn.from_content(DATE_WORD, "date" if whole else "time", content, relation)


def _column_of_names(word: str, words: Vocabulary) -> AttributeColumn:
    ordered = Strings.from_texts(words.strings.texts(words.strings.order))
    content = ColumnContent(Ranked(np.arange(len(words)), words.sort_rank), ordered)
    return AttributeColumn.from_content(word, "text", content)
