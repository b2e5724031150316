"""The observed facts of a graph in rows of their own, where some of its splits are hidden.

Processes that ask the same store share the pages of these files; the edges of a graph that count as observed could
only be marked in a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tuplet.errors import CorruptStore
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.array_folder import open_directory
from tuplet.graph.array_writer import FolderWriter
from tuplet.graph.graph import KnowledgeGraph, marked_splits
from tuplet.graph.layers import LayeredRows
from tuplet.graph.views import NO_VIEWS, ViewsWriter, relation_views

KIND = "facts"


def write_facts(folder: Path, graph: KnowledgeGraph, splits: Sequence[str] | None) -> str:
    """Write the edges of these splits (of all if None), relation by relation; returns the content hash."""
    marked = marked_splits(splits)
    with FolderWriter(folder, KIND) as sink:
        writer = ViewsWriter(sink)
        for relation in range(len(graph.relations)):
            heads, tails, entries = graph.adjacency.relation(relation)
            keep = marked[graph.split[entries]]
            views = relation_views(heads[keep], tails[keep], len(graph.entities)) if keep.any() else NO_VIEWS
            writer.relation(views, {})
        writer.finish()
        return sink.finish({})


def open_facts(folder: Path, graph: KnowledgeGraph) -> tuple[LayeredRows, str]:
    """The facts of a folder, memory-mapped, without what was edited since, and their content hash."""
    opened = open_directory(folder, KIND)
    try:
        adjacency = Adjacency.of_directory(opened, len(graph.entities))
    except (KeyError, ValueError) as error:
        raise CorruptStore(f"{folder} is not a whole list of facts: {error}") from None
    if adjacency.relations != len(graph.relations):
        raise CorruptStore(f"{folder}: facts and graph differ in the number of relations")
    return LayeredRows(adjacency, {}, {}), opened.hash
