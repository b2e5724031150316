"""Compaction: new folders of graph, table and facts in which all changes so far are merged.

They are written beside the current ones, relation by relation, while others read and edit the store. Then the store is
switched to them in one step, and what was edited meanwhile becomes the delta over them.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tuplet.errors import StoreBusy, TupletError
from tuplet.files import locked, refuse_timeout, remove, system_errors
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.arrays import FolderWriter
from tuplet.graph.attributes import tables_of
from tuplet.graph.graph import KIND as GRAPH
from tuplet.graph.graph import GraphWriter, KnowledgeGraph, hides, write_facts
from tuplet.progress import Report
from tuplet.truth.assemble import RelationEdges, write_table
from tuplet.truth.store_folder import COMPACTING, PATIENCE, StoreFiles, newest, writing
from tuplet.truth.table import KIND as TABLE
from tuplet.truth.table import TruthTable

# A store is compacted in the background when more of its edges than this share are changed, and enough to matter.
SHARE, ENOUGH = 0.05, 20_000


def compact(path: str | os.PathLike[str], timeout: float = PATIENCE, progress: Report | None = None) -> bool:
    """Merge all changes into new folders; `StoreBusy` after `timeout` seconds in which others compact or change it.

    False if there are none, or if the store was made anew meanwhile.
    """
    refuse_timeout(timeout)
    root = Path(os.path.realpath(path))
    newest(path)  # a wrong path is said before anything is written
    with locked(root / COMPACTING, timeout, called=path):
        store = newest(path)
        if store.layer.empty and store.delta.empty and "attributes" not in store.folders:
            return False
        work = root / f".{COMPACTING}-{os.urandom(4).hex()}"
        try:
            with system_errors(path):
                work.mkdir()
                hashes = {
                    "graph": write_graph(work / "graph", store.graph, progress),
                    "table": write_merged(work / "table", store.table, progress),
                }
                if hides(store.graph, store.meta.observed):
                    hashes["facts"] = write_facts(work / "facts", store.graph, store.meta.observed)
            with writing(path, timeout, store) as now:
                return now.merged(work, hashes, store)
        finally:
            remove(work)


def due(store: StoreFiles) -> bool:
    """Whether so much was changed that the store should be compacted."""
    changed = store.layer.changes + store.delta.changes
    return changed > max(ENOUGH, SHARE * store.table.edges)


def compact_behind(store: StoreFiles) -> threading.Thread:
    """Compact a store while the program goes on; what goes wrong leaves the store as it is."""

    def work() -> None:
        try:
            compact(store.path)
        except StoreBusy:
            return  # somebody else does it, or edits all the time: the next edit tries again
        except TupletError as error:
            warnings.warn(f"the changes of {store.path} could not be merged: {error}", RuntimeWarning, stacklevel=2)

    thread = threading.Thread(target=work, name=f"compact {store.path}", daemon=True)
    thread.start()
    return thread


def write_graph(folder: Path, graph: KnowledgeGraph, progress: Report | None = None) -> str:
    """Write a graph with its newer layers merged, relation by relation; returns its content hash."""
    columns = {"split": graph.split, "weight": graph.weight, "date": graph.date}
    with FolderWriter(folder, GRAPH) as sink:
        writer = GraphWriter(sink, graph.entities.flat, graph.relations)
        for r in range(len(graph.relations)):
            heads, tails, entries = graph.adjacency.relation(r)
            writer.relation(
                heads, tails, {name: array[entries] for name, array in columns.items() if array is not None}
            )
            _tell(progress, "graph", graph.adjacency, r)
        return sink.finish(writer.finish(graph.notes, tables_of(graph.attributes)))


def write_merged(folder: Path, table: TruthTable, progress: Report | None = None) -> str:
    """The same for a truth table."""
    if table.row_dropped.strides != (0,) and (table.row_dropped != np.float32(table.threshold)).any():
        return table.save(folder)  # bounds of single rows are kept as they are
    with FolderWriter(folder, TABLE) as sink:
        write_table(sink, table.entities, _relations(table, progress), table.double)
        return sink.finish({"entities": table.entities, "threshold": table.threshold})


def _relations(table: TruthTable, progress: Report | None) -> Iterator[RelationEdges]:
    for r in range(table.relations):
        heads, tails, entries = table.adjacency.relation(r)
        observed = table.observed[entries]
        prediction, source = np.zeros(len(heads), dtype=np.float32), np.zeros(len(heads), dtype=np.uint8)
        same = np.full(np.count_nonzero(observed), r, dtype=np.int32)
        prediction[observed], source[observed] = table.fact_values(heads[observed], same, tails[observed])
        yield RelationEdges(heads, tails, table.truth[entries], observed, prediction, source)
        _tell(progress, "table", table.adjacency, r)


def _tell(progress: Report | None, step: str, rows: Adjacency, relation: int) -> None:
    """Relations differ in size: what is done is told in edges."""
    edges = rows.view_entries[::2]
    if progress is not None and rows.edges:
        progress(step, int(edges[: relation + 1].sum()), rows.edges, "edges")
