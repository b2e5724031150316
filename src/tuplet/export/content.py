"""What is exported: facts relation by relation, with truth and values; labels; values of entities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput, Option
from tuplet.graph.attributes import AttributeColumn, Plain
from tuplet.graph.graph import NO_DATE, KnowledgeGraph
from tuplet.graph.versions import pair_key
from tuplet.query.source import Source

Tagged = tuple[str, Plain, str]  # attribute, value, language tag


@dataclass(frozen=True)
class ExportedFacts:
    """Facts of one relation, in order of head and tail."""

    relation: int
    heads: NDArray[np.int32]
    tails: NDArray[np.int32]
    truth: NDArray[np.float64]
    stated: NDArray[np.bool_]
    date: NDArray[np.int64] | None  # seconds since 1970, NO_DATE where there is none

    @property
    def keys(self) -> NDArray[np.int64]:
        return pair_key(self.heads, self.tails)


@dataclass(frozen=True)
class ExportContent:
    """A graph or store, as it is exported."""

    source: Source
    predicted: bool = False  # whether predictions of truth `threshold` or more are exported too
    threshold: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)  # facts that were given out

    def __post_init__(self) -> None:
        truth = self.source.truth
        if self.predicted and truth is None:
            raise BadInput("a plain graph has no predictions to export; leave out ", Option("predicted"))
        if self.predicted and truth is not None and not truth.tabulated:
            raise BadInput("this store computes predictions when asked: it has no list of them to export")
        if not 0 <= self.threshold <= 1:
            raise BadInput(f"the threshold {self.threshold:g} is outside [0, 1]")

    @property
    def graph(self) -> KnowledgeGraph:
        return self.source.graph

    @cached_property
    def weighted(self) -> bool:
        """Whether truth is worth a column."""
        return self.predicted or self.graph.weighted

    def facts(self) -> Iterator[ExportedFacts]:
        """Those of one relation after the other."""
        for relation in range(len(self.graph.relations)):
            yield self._relation(relation)

    def _relation(self, r: int) -> ExportedFacts:
        graph, truth = self.graph, self.source.truth
        if truth is not None and truth.tabulated:
            table = truth.table((r,))
            heads, tails, entries = table.adjacency.relation(r)
            value, stated = table.truth[entries].astype(np.float64), table.observed[entries]
            keep = stated | (value >= self.threshold) if self.predicted else stated
            heads, tails, value, stated = heads[keep], tails[keep], value[keep], stated[keep]
        else:
            heads, tails, _ = self.source.facts.relation(r)
            value, stated = np.ones(len(heads)), np.ones(len(heads), dtype=bool)
            if graph.weight is not None:
                value = graph.weight[self._places(r, heads, tails)].astype(np.float64)
        date = None
        if graph.date is not None:
            place = self._places(r, heads, tails)
            date = np.where(place >= 0, graph.date[place], NO_DATE)
        order = np.lexsort((tails, heads))
        self.counts["stated"] += int(np.count_nonzero(stated))
        self.counts["predicted"] += int(np.count_nonzero(~stated))
        ends, date = (heads[order], tails[order]), None if date is None else date[order]
        return ExportedFacts(r, *ends, value[order], stated[order], date)

    def _places(self, r: int, heads: NDArray[np.int32], tails: NDArray[np.int32]) -> NDArray[np.int64]:
        return self.graph.adjacency.find_many(heads, np.full(len(heads), r, np.int32), tails)

    def columns(self, relation: int = -1) -> list[AttributeColumn]:
        """The attributes of entities, or of the facts of a relation."""
        return [column for column in self.graph.attributes.columns if column.relation == relation and len(column)]

    def fact_columns(self) -> list[AttributeColumn]:
        """The attributes of facts."""
        return [column for column in self.graph.attributes.columns if column.relation >= 0 and len(column)]

    def values(self, relation: int, keys: NDArray[np.integer]) -> dict[int, list[Tagged]]:
        """All values of some entities or facts, by key."""
        found: dict[int, list[Tagged]] = {}
        for column in self.columns(relation):
            start, count = column.ranked.spans(keys)
            for place in np.flatnonzero(count).tolist():
                several = found.setdefault(int(keys[place]), [])
                for row in range(int(start[place]), int(start[place] + count[place])):
                    several.append((column.name, column.value(int(column.ranked.rank[row])), column.tag(row)))
        return found

    @cached_property
    def label_names(self) -> tuple[str, ...]:
        """The attributes that are labels."""
        return tuple(self.graph.notes.get("label_attributes", ()))
