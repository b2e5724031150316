"""The edges a model learns from: ids by split, and how many entities and relations there are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph
from tuplet.progress import counted

Ids: TypeAlias = NDArray[np.integer[Any]]
Triples: TypeAlias = tuple[Ids, Ids, Ids]  # heads, relations, tails
Splits: TypeAlias = Mapping[str, Triples]


@dataclass(frozen=True)
class TrainingEdges:
    """Edges by split (`train`, and where there are any `valid` and `test`), checked.

    >>> ids = np.arange(3)
    >>> TrainingEdges({"train": (ids, ids, ids + 1)}, entities=3, relations=3)
    Traceback (most recent call last):
    tuplet.errors.BadInput: train: a tail id is outside 0 … 2
    """

    splits: Splits
    entities: int
    relations: int
    hash: str | None = None  # of the graph they are from; `fingerprint` without one

    def __post_init__(self) -> None:
        if not self.count("train"):
            raise BadInput("the graph has no train edges: there is nothing to learn from")
        for split, (heads, relation, tails) in self.splits.items():
            if not len(heads) == len(relation) == len(tails):
                raise BadInput(f"{split}: heads, relations and tails differ in length")
            columns = (
                ("head", heads, self.entities),
                ("relation", relation, self.relations),
                ("tail", tails, self.entities),
            )
            for what, ids, count in columns:
                if len(ids) and not (int(np.min(ids)) >= 0 and int(np.max(ids)) < count):
                    raise BadInput(f"{split}: a {what} id is outside 0 … {count - 1}")

    @staticmethod
    def of(graph: KnowledgeGraph | TrainingEdges) -> TrainingEdges:
        """The edges of a graph."""
        if isinstance(graph, TrainingEdges):
            return graph
        splits = {split: graph.edges(split) for split in SPLIT_CODE}
        return TrainingEdges(splits, len(graph.entities), len(graph.relations), graph.hash)

    def count(self, split: str) -> int:
        """How many edges a split has."""
        return len(self.splits[split][0]) if split in self.splits else 0

    @cached_property
    def graph(self) -> str:
        """What tells the graph from others."""
        return self.hash or fingerprint(self.splits)

    @cached_property
    def half_links(self) -> int:
        """How many (entity, relation, direction) have a train fact: the rows of a path network."""
        return int(self._by_relation.sum())

    @cached_property
    def half_links_of_one_end(self) -> int:
        """The same, of each relation those of the end that has fewer."""
        return int(self._by_relation.min(0).sum())

    @cached_property
    def _by_relation(self) -> NDArray[np.int64]:
        """How many heads and tails each relation has. [2, relations]"""
        heads, relation, tails = (np.asarray(side, dtype=np.int64) for side in self.splits["train"])
        pairs = [np.unique(end * self.relations + relation) for end in (heads, tails)]
        return np.stack([np.bincount(each % self.relations, minlength=self.relations) for each in pairs])

    def __str__(self) -> str:
        ends = counted(self.entities, "entity", "entities")
        return f"{counted(self.count('train'), 'edge')} of {ends} and {counted(self.relations, 'relation')}"


def fingerprint(edges: Splits) -> str:
    """A hash of the edges of all splits, for callers without a graph hash."""
    digest = hashlib.sha256()
    for split in sorted(edges):
        digest.update(split.encode())
        for part in edges[split]:
            digest.update(np.ascontiguousarray(part, dtype=np.int64).data)
    return digest.hexdigest()
