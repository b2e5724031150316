"""A knowledge graph: names, edges in both directions, the split of each edge, and its truth if it is weighted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import CorruptStore, unknown
from tuplet.files import content_hash, open_directory, write_directory
from tuplet.graph.adjacency import Adjacency, Ints, Longs
from tuplet.graph.names import Vocabulary

KIND = "graph"
SPLITS = ("train", "valid", "test")
SPLIT_CODE = {name: code for code, name in enumerate(SPLITS, start=1)}

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

    def __repr__(self) -> str:
        sizes = f"{len(self.entities):,} entities, {len(self.relations):,} relations, {self.adjacency.edges:,} edges"
        return f"<KnowledgeGraph: {sizes}>"

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
        graph = KnowledgeGraph(entities, relations, adjacency, codes, weights, "", notes or {})
        return replace(graph, hash=content_hash(KIND, graph._arrays(), {}))

    @staticmethod
    def open(path: str | os.PathLike[str]) -> KnowledgeGraph:
        """The graph of a directory, memory-mapped; every byte is checked."""
        directory = open_directory(path, KIND)
        try:
            return KnowledgeGraph.from_arrays(directory.arrays, directory.hash, directory.meta.get("notes", {}))
        except (KeyError, ValueError) as error:
            raise CorruptStore(f"{Path(path)} is not a whole graph: {error}") from None

    @staticmethod
    def from_arrays(arrays: dict[str, NDArray[Any]], hash: str, notes: dict[str, Any]) -> KnowledgeGraph:
        """The graph of the arrays that `save` writes, checked to fit together."""
        adjacency = Adjacency(*(arrays[name] for name in ("view_ptr", "row_entity", "row_ptr", "neighbour")))
        entities = Vocabulary.from_arrays(arrays, "entity_")
        relations = Vocabulary.from_arrays(arrays, "relation_")
        graph = KnowledgeGraph(entities, relations, adjacency, arrays["split"], arrays.get("weight"), hash, notes)
        _check(graph)
        return graph

    def save(self, path: str | os.PathLike[str], force: bool = False) -> None:
        """Write the graph as a directory; an existing one is replaced only with `force`."""
        write_directory(path, KIND, self._arrays(), {"notes": self.notes}, force)

    @property
    def weighted(self) -> bool:
        return self.weight is not None

    @cached_property
    def relation_edges(self) -> Longs:
        """How many edges each relation has. [relations]"""
        entries = self.adjacency.row_ptr[self.adjacency.view_ptr]
        return np.diff(entries)[::2]

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
        if splits is None or set(splits) == set(SPLITS):
            return self.adjacency
        return self.adjacency.filter(self._mark(splits))

    def info(self) -> dict[str, Any]:
        """Sizes and identity of the graph, ready for JSON."""
        per_split = np.bincount(self.split, minlength=len(SPLITS) + 1)[1:] // 2
        heads, _, tails = self.edges()
        return {
            "kind": KIND,
            "entities": len(self.entities),
            "relations": len(self.relations),
            "edges": {name: int(count) for name, count in zip(SPLITS, per_split, strict=True)},
            "self_loops": int(np.count_nonzero(heads == tails)),
            "weighted": self.weighted,
            "labelled_entities": self.entities.labelled,
            "labelled_relations": self.relations.labelled,
            "hash": self.hash,
        }

    def _mark(self, splits: Sequence[str]) -> NDArray[np.bool_]:
        marked = np.zeros(256, dtype=bool)
        for name in splits:
            if name not in SPLIT_CODE:
                raise unknown("split", name, SPLITS)
            marked[SPLIT_CODE[name]] = True
        return marked[self.split]

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
        return arrays | self.entities.arrays("entity_") | self.relations.arrays("relation_")


def _check(graph: KnowledgeGraph) -> None:
    """Refuse arrays that do not fit together: compiled code trusts these bounds."""
    a, entities = graph.adjacency, len(graph.entities)
    rows, entries = len(a.row_entity), len(a.neighbour)
    fits = {
        "view_ptr": len(a.view_ptr) == 2 * len(graph.relations) + 1 and _pointers(a.view_ptr, rows),
        "row_ptr": len(a.row_ptr) == rows + 1 and _pointers(a.row_ptr, entries),
        "row_entity": _within(a.row_entity, entities),
        "neighbour": _within(a.neighbour, entities),
        "split": len(graph.split) == entries,
        "weight": graph.weight is None or len(graph.weight) == entries,
    }
    for vocabulary, prefix in ((graph.entities, "entity_"), (graph.relations, "relation_")):
        for strings, part in ((vocabulary.strings, "name"), (vocabulary.labels, "label")):
            fits[f"{prefix}{part}_offsets"] = _pointers(strings.offsets, len(strings.blob))
            fits[f"{prefix}{part}_order"] = _within(strings.order, len(strings))
    for name, good in fits.items():
        if not good:
            raise ValueError(f"{name} does not fit the other arrays")


def _pointers(pointers: NDArray[np.integer], end: int) -> bool:
    return bool(len(pointers) and pointers[0] == 0 and pointers[-1] == end and (pointers[1:] >= pointers[:-1]).all())


def _within(ids: NDArray[np.integer], count: int) -> bool:
    return not len(ids) or bool(ids.min() >= 0 and ids.max() < count)
