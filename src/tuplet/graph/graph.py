"""A knowledge graph: names, edges in both directions, the split of each edge, its given truth and its date if any."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import CorruptStore, unknown
from tuplet.graph.adjacency import Adjacency, Ints, Longs, refuse_misfits
from tuplet.graph.aliases import with_labels
from tuplet.graph.array_folder import Directory, content_hash, open_directory, write_directory
from tuplet.graph.attribute_tables import is_read_later, of_directory, tables_of
from tuplet.graph.attributes import NO_ATTRIBUTES, Attributes
from tuplet.graph.edge_states import EdgeStates, pair_key
from tuplet.graph.layers import LayeredRows
from tuplet.graph.names import Vocabulary
from tuplet.graph.prefixes import WELL_KNOWN, Prefixes
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

    >>> graph = KnowledgeGraph.of(Vocabulary.of(["a", "b"]), Vocabulary.of(["knows"]), [0, 1], [0, 0], [1, 0], [1, 2])
    >>> graph.adjacency.edges, graph.observed(["train"]).edges, [part.tolist() for part in graph.edges("valid")]
    (2, 1, [[1], [0], [0]])
    """

    entities: Vocabulary
    relations: Vocabulary
    adjacency: Adjacency  # all splits together
    split: Splits  # [entries of adjacency] 1 train, 2 valid, 3 test
    weight: Floats | None  # [entries of adjacency] truth of each edge in a weighted graph, as given (float64)
    hash: str  # content hash: same names, edges, splits and weights, same hash
    notes: dict[str, Any] = field(default_factory=dict)  # provenance, such as the import report; not hashed
    date: Longs | None = None  # [entries of adjacency] seconds since 1970 (UTC), NO_DATE where a fact has none
    layered: LayeredRows | None = None  # where newer layers grow, once there are any
    counts: dict[str, int] | None = None  # what was counted when it was written: edges of each split and others
    attributes: Attributes = NO_ATTRIBUTES

    def __post_init__(self) -> None:
        object.__setattr__(self, "entities", with_labels(self.entities, self.attributes, self.notes))

    def __repr__(self) -> str:
        held = sizes(len(self.entities), len(self.relations))
        return f"<KnowledgeGraph: {held}, {counted(self.adjacency.edges, 'edge')}>"

    @staticmethod
    def of(
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
        adjacency, edge = Adjacency.build(
            np.asarray(heads, dtype=np.int32),
            np.asarray(relation, dtype=np.int32),
            np.asarray(tails, dtype=np.int32),
            len(relations),
        )
        codes = np.ones(len(edge), np.uint8) if split is None else np.asarray(split, dtype=np.uint8)[edge]
        weights = None if weight is None else np.asarray(weight, dtype=np.float64)[edge]
        dates = None if date is None else np.asarray(date, dtype=np.int64)[edge]
        payload = (codes, weights, "", notes or {}, dates)
        graph = KnowledgeGraph(entities, relations, adjacency, *payload, attributes=attributes)
        arrays, described = graph._attribute_arrays()
        return replace(graph, hash=content_hash(KIND, graph._arrays() | arrays, described))

    @staticmethod
    def open(path: str | os.PathLike[str]) -> KnowledgeGraph:
        """The graph of a directory, memory-mapped; the facts of a relation are checked when they are first read."""
        directory = open_directory(path, KIND)
        try:
            return KnowledgeGraph._of_directory(directory)
        except (KeyError, ValueError) as error:
            raise CorruptStore(f"{Path(path)} is not a whole graph: {error}") from None

    @staticmethod
    def _of_directory(directory: Directory) -> KnowledgeGraph:
        arrays, notes = directory.arrays, directory.meta.get("notes", {})
        entities = Vocabulary.from_arrays(arrays, "entity_")
        relations = Vocabulary.from_arrays(arrays, "relation_")
        adjacency = Adjacency.of_directory(directory, len(entities))
        payload = (arrays["split"], arrays.get("weight"), directory.hash, notes, arrays.get("date"))
        counts = directory.meta.get("counts")
        attributes = of_directory(directory)
        graph = KnowledgeGraph(entities, relations, adjacency, *payload, counts=counts, attributes=attributes)
        _check(graph)
        return graph

    def save(self, path: str | os.PathLike[str], force: bool = False) -> str:
        """Write the graph as a directory and return its content hash; one is replaced only with `force`."""
        flat = self.flat
        arrays = flat._arrays()
        rows, entries = flat.adjacency.sections()
        divided = dict.fromkeys(("row_entity", "row_ptr"), rows)
        divided |= {name: entries for name in ("neighbour", "split", "weight", "date") if name in arrays}
        more, described = flat._attribute_arrays()
        meta = {"notes": self.notes, "counts": flat.split_edges | flat.other_counts, **described}
        return write_directory(path, KIND, arrays | more, meta, force, divided=divided, later=is_read_later)

    def with_splits(self, split: Splits) -> KnowledgeGraph:
        """The same edges with other splits [edges in the order of `adjacency.triples`]."""
        heads, relation, tails, entry = self.adjacency.triples()
        return KnowledgeGraph.of(
            self.entities,
            self.relations,
            heads,
            relation,
            tails,
            split,
            None if self.weight is None else self.weight[entry],
            self.notes,
            None if self.date is None else self.date[entry],
            self.attributes,
        )

    def replaced(
        self,
        keep: NDArray[np.bool_],
        heads: Sequence[int] | NDArray[np.integer] = (),
        relation: Sequence[int] | NDArray[np.integer] = (),
        tails: Sequence[int] | NDArray[np.integer] = (),
        split: Sequence[int] | Splits = (),
        truth: Sequence[float] | NDArray[np.floating] = (),
        entities: Vocabulary | None = None,
    ) -> KnowledgeGraph:
        """The edges marked in `keep` [in the order of `adjacency.triples`], and more.

        The date of an edge stays with it, and so do its attributes.
        """
        h, r, t, entry = (column[keep] for column in self.adjacency.triples())
        heads, relation, tails = (np.asarray(column, dtype=np.int32) for column in (heads, relation, tails))
        date = None
        if self.date is not None:
            place = self.adjacency.find_many(heads, relation, tails)
            date = np.concatenate([self.date[entry], np.where(place >= 0, self.date[place], NO_DATE)])
        heads, relation, tails = (
            np.concatenate(pair, dtype=np.int32) for pair in ((h, heads), (r, relation), (t, tails))
        )
        of_facts = {column.relation for column in self.attributes.columns if column.relation >= 0}
        kept = {r: pair_key(heads[relation == r], tails[relation == r]) for r in of_facts}
        return KnowledgeGraph.of(
            entities or self.entities,
            self.relations,
            heads,
            relation,
            tails,
            np.concatenate([self.split[entry], np.asarray(split, dtype=np.uint8)]),
            None if self.weight is None else np.concatenate([self.weight[entry], truth]),
            self.notes,
            date,
            self.attributes.among_facts(kept),
        )

    def edited(
        self, states: EdgeStates, entities: Vocabulary | None = None, counts: dict[str, int] | None = None
    ) -> KnowledgeGraph:
        """The graph in which some edges are as the states say, in a newer layer; nothing else is copied.

        `counts` are those of the edited graph, where they are known.
        """
        rows = self._rows()
        values = {name: getattr(states, name) for name in rows.entry}
        if counts is None:
            counts = self._counts_after(states)
        rows = rows.edited(states.relation, states.heads, states.tails, states.split > 0, values)
        return self._with(rows, counts, entities or self.entities, "")

    def _counts_after(self, states: EdgeStates) -> dict[str, int]:
        """What is counted without reading everything, after an edit."""
        place = self.adjacency.find_many(states.heads, states.relation, states.tails)
        there, stays, known = place >= 0, states.split > 0, self.counts or {}
        before, after = (
            np.bincount(split, minlength=len(SPLITS) + 1)[1:].tolist()
            for split in (self.split[place[there]], states.split)
        )
        counted = zip(self.split_edges.items(), before, after, strict=True)
        counts = {name: old - gone + come for (name, old), gone, come in counted}
        if LOOPS in known:
            loop = states.heads == states.tails
            counts[LOOPS] = known[LOOPS] + int((loop & stays).sum()) - int((loop & there).sum())
        if DATED in known and self.date is not None:
            gone, come = self.date[place[there]], states.date[stays]
            counts[DATED] = known[DATED] + int((come != NO_DATE).sum()) - int((gone != NO_DATE).sum())
        return counts

    def over(
        self, layer: dict[str, NDArray[Any]], counts: dict[str, int], entities: Vocabulary, hash: str
    ) -> KnowledgeGraph:
        """The graph under a layer that `layer` gave."""
        return self._with(self._rows().over(layer), counts, entities, hash)

    def layer(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """All that was edited, as arrays to be written down, in pieces."""
        return self._rows().layer()

    def _rows(self) -> LayeredRows:
        if self.layered is not None:
            return self.layered
        columns = {"split": self.split, "weight": self.weight, "date": self.date}
        return LayeredRows(self.adjacency, {name: array for name, array in columns.items() if array is not None}, {})

    def _with(self, rows: LayeredRows, counts: dict[str, int], entities: Vocabulary, hash: str) -> KnowledgeGraph:
        columns: dict[str, Any] = rows.entry
        return replace(
            self, entities=entities, adjacency=rows.adjacency, hash=hash, layered=rows, counts=counts, **columns
        )

    @property
    def flat(self) -> KnowledgeGraph:
        """The same graph without layers."""
        adjacency, entries = self.adjacency.flattened()
        if adjacency is self.adjacency:
            return self
        weight = None if self.weight is None else self.weight[entries]
        date = None if self.date is None else self.date[entries]
        return replace(self, adjacency=adjacency, split=self.split[entries], weight=weight, date=date, layered=None)

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

    @cached_property
    def relation_edges(self) -> Longs:
        """How many edges each relation has. [relations]"""
        return self.adjacency.view_entries[::2]

    @cached_property
    def split_edges(self) -> dict[str, int]:
        """How many edges each split has."""
        if self.counts is not None:
            return {name: self.counts[name] for name in SPLITS}
        _, entries = self.adjacency.flattened()
        per_split = np.bincount(self.split[entries], minlength=len(SPLITS) + 1)[1:] // 2
        return {name: int(count) for name, count in zip(SPLITS, per_split, strict=True)}

    @cached_property
    def other_counts(self) -> dict[str, int]:
        """How many edges are loops, and if there are dates, how many have one."""
        wanted = (LOOPS,) if self.date is None else (LOOPS, DATED)
        known = self.counts or {}
        if all(name in known for name in wanted):
            return {name: known[name] for name in wanted}
        found = dict.fromkeys(wanted, 0)
        for relation in range(len(self.relations)):
            heads, tails, entries = self.adjacency.relation(relation)
            found[LOOPS] += int(np.count_nonzero(heads == tails))
            if self.date is not None:
                found[DATED] += int(np.count_nonzero(self.date[entries] != NO_DATE))
        return found

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
            LOOPS: self.other_counts[LOOPS],
            "weighted": self.weighted,
            **{name: count for name, count in self.other_counts.items() if name == DATED},
            "labelled_entities": self.entities.labelled,
            "labelled_relations": self.relations.labelled,
            "hash": self.hash,
        }

    def _attribute_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """The arrays of the attributes, and what the meta says of them: nothing if there are none."""
        tables = list(tables_of(self.attributes))
        arrays = {name: array for i, table in enumerate(tables) for name, array in table.arrays(i).items()}
        return arrays, {"attributes": [table.described() for table in tables]} if tables else {}

    def _mark(self, splits: Sequence[str] | None) -> NDArray[np.bool_]:
        self.adjacency.touch()
        return marked_splits(splits)[self.split]

    def _arrays(self) -> dict[str, NDArray[Any]]:
        a = self.adjacency
        arrays: dict[str, NDArray[Any]] = {
            "view_ptr": a.view_ptr,
            "row_entity": a.row_entity,
            "row_ptr": a.row_ptr,
            "neighbour": a.neighbour,
            "split": self.split,
        }
        if self.weight is not None:
            arrays["weight"] = self.weight
        if self.date is not None:
            arrays["date"] = self.date
        return arrays | self.entities.arrays("entity_") | self.relations.arrays("relation_")


def _check(graph: KnowledgeGraph) -> None:
    """Refuse arrays that do not fit together: compiled code trusts these bounds."""
    graph.entities.check("entity_")
    graph.relations.check("relation_")
    entries = len(graph.adjacency.neighbour)
    refuse_misfits(
        view_ptr=graph.adjacency.relations == len(graph.relations),
        split=len(graph.split) == entries,
        weight=graph.weight is None or len(graph.weight) == entries,
        date=graph.date is None or len(graph.date) == entries,
    )


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
