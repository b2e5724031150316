"""Truth tables made elsewhere: a Parquet file of named edges with their truth, read batch by batch (needs pyarrow)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuplet.errors import BadInput, UnknownName, nearest
from tuplet.graph.adjacency import ArraySink, GrowingArrays, among, edge_key
from tuplet.graph.arrays import RelationSpill, spill_memory
from tuplet.graph.attributes import tables_of
from tuplet.graph.graph import NO_DATE, SPLIT_CODE, SPLITS, GraphWriter, KnowledgeGraph, graph_of_arrays, known_splits
from tuplet.graph.name_table import NameTable
from tuplet.graph.versions import pair_key
from tuplet.truth.edges import HIGHEST_PREDICTION, OBSERVED
from tuplet.truth.table import RelationEdges, RelationFacts, TruthTable, given_truth, graph_facts, overlay

Ids = NDArray[np.int32]

_BATCH = 1 << 18  # rows
_ENDS = ("head", "relation", "tail")


@dataclass
class GivenTable:
    """A Parquet file with the columns `head, relation, tail` (names), `truth` and perhaps `source`, over a graph.

    `source` (0 predicted, 1 train, 2 valid, 3 test) decides what is observed; without it, the graph does. Edges of the
    graph's observed splits that the file does not list are added. Predictions below `threshold` are dropped; if it is
    not given, it is the smallest predicted truth.
    """

    path: Path
    graph: KnowledgeGraph
    observed: tuple[str, ...]
    given: RelationSpill  # head, tail, truth and perhaps source
    threshold: float | None = None  # known at the latest when all relations were merged
    differing: set[int] = field(default_factory=set)  # relations whose observed facts are not those of the graph

    @staticmethod
    def read(
        file: str | os.PathLike[str],
        graph: KnowledgeGraph,
        observed: Sequence[str] = OBSERVED,
        threshold: float | None = None,
        memory: int | None = None,
        folder: Path | None = None,
    ) -> GivenTable:
        """Read the file; what exceeds `memory` (bytes) goes to a temporary file in `folder`."""
        rows = RelationSpill(spill_memory(memory), folder)
        for batch in _batches(Path(file), graph):
            rows.append(batch.pop("relation"), batch)
        return GivenTable(Path(file), graph, known_splits(observed), rows, threshold)

    def close(self) -> None:
        self.given.close()

    @property
    def double(self) -> bool:
        return given_truth(self.graph, self.observed)

    def table(self) -> TruthTable:
        return TruthTable.from_relations(len(self.graph.entities), self.relations(), self.double, lambda: self.least)

    @property
    def least(self) -> float:
        """The threshold, after the last relation."""
        return self.threshold or 0.0

    def relations(self) -> Iterator[RelationEdges]:
        """All that the table says, relation by relation."""
        least = np.inf
        for relation in range(len(self.graph.relations)):
            # What they are made of is gone before they are laid out: a relation may be big.
            edges = self._edges(relation)
            least = float(np.min(edges.truth, where=~edges.observed, initial=least))
            yield edges
            del edges
        if self.threshold is None:
            self.threshold = least if least < np.inf else 0.0

    def _edges(self, relation: int) -> RelationEdges:
        stated = graph_facts(self.graph, relation, self.observed)
        facts, (heads, tails, prediction) = self._relation(relation, stated)
        if not self._same(stated, facts):
            self.differing.add(relation)
        return overlay(facts, heads, tails, prediction, len(self.graph.entities))

    def agreeing_graph(self) -> KnowledgeGraph:
        """The graph whose observed facts are those of the table, so that joins and truth values never contradict."""
        if not self.differing:
            return self.graph
        sink = GrowingArrays()
        meta = self.write_graph(sink)
        return graph_of_arrays(sink.arrays(), self.graph.entities, self.graph.relations, meta)

    def write_graph(self, sink: ArraySink) -> dict[str, Any]:
        """The same graph, relation by relation, and the meta of its folder."""
        graph = self.graph
        writer = GraphWriter(sink, graph.entities, graph.relations)
        kept = {}
        for relation in range(len(graph.relations)):
            heads, tails, known = graph.relation_facts(relation)
            if relation in self.differing:
                heads, tails, known = self._agreeing(relation, heads, tails, known)
                kept[relation] = pair_key(heads, tails)
            writer.relation(heads, tails, known)
        return writer.finish(graph.notes, tables_of(graph.attributes.among_facts(kept)))

    def _agreeing(self, relation: int, heads: Ids, tails: Ids, known: dict[str, Any]) -> tuple[Ids, Ids, Any]:
        stated = graph_facts(self.graph, relation, self.observed)
        facts, _ = self._relation(relation, stated)
        key, wanted, old = (self._key(part) for part in ((heads, tails), facts, stated))
        keep = ~(among(key, np.sort(wanted)) | among(key, old))
        more: dict[str, NDArray[Any]] = {"split": facts.source, "weight": facts.truth}
        if "date" in known:
            at = np.minimum(np.searchsorted(key, wanted), max(len(key) - 1, 0))
            dated = among(wanted, key)
            more["date"] = np.full(len(wanted), NO_DATE)
            more["date"][dated] = known["date"][at[dated]]
        columns = {
            name: np.concatenate([column[keep], more[name].astype(column.dtype)]) for name, column in known.items()
        }
        ends = [np.concatenate([old[keep], new]) for old, new in ((heads, facts.heads), (tails, facts.tails))]
        return ends[0], ends[1], columns

    def _relation(self, relation: int, stated: RelationFacts) -> tuple[RelationFacts, tuple[Ids, Ids, Any]]:
        """The facts of a relation as file and graph have them, and the listed predictions (heads, tails, truth)."""
        given = self.given.relation(relation)
        if not given:
            return stated, (np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32))
        key = self._key((given["head"], given["tail"]))
        if not (key[1:] > key[:-1]).all():
            order = np.argsort(key, kind="stable")  # files are mostly written in runs of ascending edges
            key, given = key[order], {name: column[order] for name, column in given.items()}
        self._refuse_duplicates(relation, key)
        facts = self._by_source(key, given, stated) if "source" in given else stated
        prediction = np.minimum(given["truth"], HIGHEST_PREDICTION)
        ends = (given["head"], given["tail"], prediction)
        listed = prediction > 0 if self.threshold is None else prediction >= np.float32(self.threshold)
        return facts, ends if listed.all() else (ends[0][listed], ends[1][listed], ends[2][listed])

    def _by_source(self, key: NDArray[np.int64], given: dict[str, Any], stated: RelationFacts) -> RelationFacts:
        """Facts as the codes say; the graph adds those that the file does not list, and the truth of weighted facts."""
        codes = given["source"]
        marked = np.isin(codes, [SPLIT_CODE[name] for name in self.observed])
        old = self._key(stated)
        wanted = key[marked]
        truth: NDArray[np.floating] = np.ones(len(wanted), dtype=np.float32)
        if len(old) and self.graph.weight is not None:
            at = np.minimum(np.searchsorted(old, wanted), len(old) - 1)
            truth = np.where(old[at] == wanted, stated.truth[at], truth)
        more = ~among(old, key)
        listed = (given["head"][marked], given["tail"][marked], truth, codes[marked])
        if not more.any():
            return RelationFacts(*listed)
        return RelationFacts(*(np.concatenate([new, rest[more]]) for new, rest in zip(listed, stated, strict=True)))

    def _key(self, ends: Sequence[Any]) -> NDArray[np.int64]:
        return edge_key(ends[0], ends[1], len(self.graph.entities))

    def _same(self, stated: RelationFacts, facts: RelationFacts) -> bool:
        """Whether these are the same edges, in whatever order."""
        if stated is facts:
            return True
        return len(stated.heads) == len(facts.heads) and np.array_equal(np.sort(self._key(facts)), self._key(stated))

    def _refuse_duplicates(self, relation: int, key: NDArray[np.int64]) -> None:
        same = key[1:] == key[:-1]
        if not same.any():
            return
        head, tail = divmod(int(key[int(np.argmax(same))]), len(self.graph.entities))
        rows: list[int] = []
        seen = 0
        for batch in _batches(self.path, self.graph):  # where they stand is not kept, so it is looked up
            found = (batch["relation"] == relation) & (batch["head"] == head) & (batch["tail"] == tail)
            rows += (seen + 1 + np.flatnonzero(found)).tolist()
            seen += len(found)
        raise BadInput(f"{self.path}: row {rows[1]} repeats the edge of row {rows[0]}")


def _batches(path: Path, graph: KnowledgeGraph) -> Iterator[dict[str, NDArray[Any]]]:
    """Ids, truth and perhaps source of the rows, some at a time."""
    names = {"entity": graph.entities, "relation": graph.relations}
    tables = {kind: NameTable.from_strings(known.strings) for kind, known in names.items()}
    seen = 0
    for batch in _read_batches(path):
        rows: dict[str, NDArray[Any]] = {}
        for role in _ENDS:
            kind, column = "relation" if role == "relation" else "entity", batch[role]
            rows[role] = tables[kind].find(_plain(path, column, role, seen))
            if len(column) and rows[role].min() < 0:
                row = int(np.argmin(rows[role] >= 0))
                name, where = str(column[row].as_py()), f"in row {seen + row + 1} of {path} is not in the graph"
                raise UnknownName(kind, name, names[kind].suggest(name), where)
        rows["truth"] = _truth(path, batch["truth"], seen)
        if "source" in batch.schema.names:
            rows["source"] = _source(path, batch["source"], seen)
        seen += len(batch)
        yield rows


def _read_batches(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise BadInput(f"no such file: {path}")
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            for wanted in (*_ENDS, "truth"):
                if wanted not in names:
                    close = nearest(wanted, names, 1)
                    hint = f" (is it {close[0]!r}?)" if close else ""
                    raise BadInput(f"{path}: no column {wanted!r}{hint}; it has {', '.join(map(repr, names))}")
            chosen = [name for name in (*_ENDS, "truth", "source") if name in names]
            for batch in file.iter_batches(_BATCH, columns=chosen, use_threads=False):
                batch.validate(full=True)  # a damaged file may decode into text that is none
                yield batch
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInput(f"{path}: not a readable Parquet file: {reason}") from None


def _plain(path: Path, column: Any, role: str, seen: int) -> Any:
    """A column of names without a dictionary."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise BadInput(f"{path}: column {role!r} holds {kind}, not names")
    _refuse_nulls(path, column, role, seen)
    return column.cast(kind) if pa.types.is_dictionary(column.type) else column


def _truth(path: Path, column: Any, seen: int) -> NDArray[np.float32]:
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        raise BadInput(f"{path}: column 'truth' holds {column.type}, not numbers")
    _refuse_nulls(path, column, "truth", seen)
    truth = column.to_numpy(zero_copy_only=False).astype(np.float32)
    good = (truth >= 0) & (truth <= 1)
    if not good.all():
        row = int(np.argmin(good))
        raise BadInput(f"{path}: truth {truth[row]} in row {seen + row + 1} is not between 0 and 1")
    return np.asarray(truth)


def _source(path: Path, column: Any, seen: int) -> NDArray[np.uint8]:
    if not pa.types.is_integer(column.type) or column.null_count:
        raise BadInput(f"{path}: column 'source' must hold 0 predicted, 1 train, 2 valid or 3 test in every row")
    codes = column.to_numpy(zero_copy_only=False)
    wrong = (codes < 0) | (codes > len(SPLITS))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BadInput(f"{path}: source {codes[row]} in row {seen + row + 1}; 0 predicted, 1 train, 2 valid, 3 test")
    return np.asarray(codes.astype(np.uint8))


def _refuse_nulls(path: Path, column: Any, role: str, seen: int) -> None:
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise BadInput(f"{path}: row {seen + row + 1} has no {role}")
