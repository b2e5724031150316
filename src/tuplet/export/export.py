"""Exports a graph or store: facts relation by relation, labels and values; the ending of the file is the format."""

from __future__ import annotations

import datetime
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput, Option, unknown
from tuplet.files import replacing
from tuplet.graph.attributes import AttributeColumn, Plain
from tuplet.graph.graph import NO_DATE, KnowledgeGraph
from tuplet.graph.versions import pair_key
from tuplet.progress import counted
from tuplet.query.source import Source

_CHUNK = 1 << 16  # entities at a time
FORMATS = (".nt", ".ttl", ".parquet", ".csv", ".graphml")
Tagged = tuple[str, Plain, str]  # attribute, value, language tag


@dataclass(frozen=True)
class ExportReport:
    """What was written."""

    files: tuple[str, ...]
    facts: int
    predictions: int
    labels: int
    values: int  # of attributes

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        several = ((self.predictions, "prediction"), (self.labels, "label"), (self.values, "value"))
        parts = [counted(self.facts, "fact"), *(counted(number, word) for number, word in several if number)]
        return "\n".join([", ".join(parts), *self.files])


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

    @property
    def weighted(self) -> bool:
        """Whether truth is worth a column."""
        return self.predicted or self.graph.weighted

    def facts(self) -> Iterator[ExportedFacts]:
        """The facts, one relation after the other."""
        graph, truth = self.graph, self.source.truth
        for r in range(len(graph.relations)):
            if truth is not None and truth.tabulated:
                table = truth.table((r,))
                heads, tails, entries = table.adjacency.relation(r)
                value, stated = table.truth[entries].astype(np.float64), table.observed[entries]
                kept = np.flatnonzero(stated | (value >= self.threshold) if self.predicted else stated)
            else:
                heads, tails, _ = self.source.facts.relation(r)
                value, stated, kept = np.ones(len(heads)), np.ones(len(heads), dtype=bool), np.arange(len(heads))
                if graph.weight is not None:
                    value = graph.weight[self._places(r, heads, tails)].astype(np.float64)
            kept = kept[np.lexsort((tails[kept], heads[kept]))]
            heads, tails, value, stated, date = heads[kept], tails[kept], value[kept], stated[kept], None
            if graph.date is not None:
                place = self._places(r, heads, tails)
                date = np.where(place >= 0, graph.date[place], NO_DATE)
            number = int(np.count_nonzero(stated))
            self.counts.update(stated=number, predicted=len(stated) - number)
            yield ExportedFacts(r, heads, tails, value, stated, date)

    def entities(self) -> Iterator[tuple[str, str, list[Tagged]]]:
        """Name, label and values of each entity."""
        words = self.graph.entities
        for start in range(0, len(words), _CHUNK):
            numbers = np.arange(start, min(start + _CHUNK, len(words)))
            values = self.values(-1, numbers)
            for i, name in zip(numbers.tolist(), words.names(numbers), strict=True):
                yield name, words.label(i), values.get(i, [])

    def _places(self, r: int, heads: NDArray[np.int32], tails: NDArray[np.int32]) -> NDArray[np.int64]:
        return self.graph.adjacency.find_many(heads, np.full(len(heads), r, np.int32), tails)

    def columns(self, relation: int | None = -1) -> list[AttributeColumn]:
        """The attributes of entities (-1), of the facts of a relation, or of all facts (None)."""
        columns = [column for column in self.graph.attributes.columns if len(column)]
        return [c for c in columns if (c.relation >= 0 if relation is None else c.relation == relation)]

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


def export(
    source: Source,
    path: str | os.PathLike[str],
    predicted: bool = False,
    threshold: float = 0.0,
    force: bool = False,
) -> ExportReport:
    """Write what is stated, and perhaps predicted, to a file whose ending is its format.

    Tables (.parquet, .csv) of entities with labels or values are a second file: `facts.nodes.csv` beside `facts.csv`.
    """
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in FORMATS:
        raise unknown("format of an export", target.suffix or target.name, FORMATS)
    content = ExportContent(source, predicted, threshold)
    from tuplet.export import graphml, rdf, tables

    writers = {".nt": rdf.write_ntriples, ".ttl": rdf.write_turtle, ".graphml": graphml.write_graphml}
    write = writers.get(suffix, partial(tables.write_facts, as_text=suffix == ".csv"))
    files, graph = [target], content.graph
    with ExitStack() as stack:
        write(content, stack.enter_context(replacing(target, force)))
        nodes = None if suffix in writers else tables.nodes(content)
        if nodes is not None:
            files.append(target.with_name(f"{target.stem}.nodes{target.suffix}"))
            tables.write_nodes(nodes, stack.enter_context(replacing(files[-1], force)), as_text=suffix == ".csv")
    labels, values = graph.entities.labelled + graph.relations.labelled, sum(map(len, graph.attributes.columns))
    return ExportReport(tuple(map(str, files)), content.counts["stated"], content.counts["predicted"], labels, values)


def typed_text(value: Plain) -> tuple[str, str]:
    """The XML Schema type of a value, and the value as text.

    >>> typed_text(True), typed_text(datetime.date(1990, 5, 1)), typed_text(float("inf"))
    (('boolean', 'true'), ('date', '1990-05-01'), ('double', 'INF'))
    """
    match value:
        case bool():
            return "boolean", str(value).lower()
        case int():
            return "integer", str(value)
        case float():
            return "double", repr(value).replace("inf", "INF").replace("nan", "NaN")
        case datetime.date():
            return ("dateTime" if isinstance(value, datetime.datetime) else "date"), value.isoformat()
    return "string", value
