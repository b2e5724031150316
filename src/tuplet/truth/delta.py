"""What was changed in a store since its folders were written.

The last changes are one small file, replaced by every edit. Many changes become a *layer*: a folder with the rows that
they touch, which readers map instead of making them.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.array_folder import open_directory
from tuplet.array_writer import FolderWriter
from tuplet.errors import CorruptStore
from tuplet.graph.edge_states import EdgeStates
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.layers import LayeredRows
from tuplet.graph.names import Strings
from tuplet.truth.table import TruthTable

LAYER = "layer"


@dataclass(frozen=True)
class Delta:
    """The states of changed edges, and the names of entities that came since.

    >>> Delta.decoded(Delta(names=("a", "b")).encoded(), "here").names
    ('a', 'b')
    """

    states: EdgeStates = field(default_factory=EdgeStates.none)
    names: tuple[str, ...] = ()
    counts: dict[str, int] | None = None  # what is counted in the graph that has it: opening need not look

    def then(self, states: EdgeStates, names: Sequence[str] = ()) -> Delta:
        """This delta and what came later."""
        return Delta(self.states.then(states), (*self.names, *names))

    def since(self, older: Delta) -> Delta:
        """What came after an older state of the same delta."""
        return Delta(self.states.differing(older.states), self.names[len(older.names) :])

    def continues(self, older: Delta) -> bool:
        """Whether it says something of every edge and name of another one, over the same folders: then `since` is all.

        A compaction may lead back to folders that were there before, and begins a new delta.
        """
        edges = older.states
        known = (self.states.find(edges.relation, edges.heads, edges.tails) >= 0).all()
        return bool(known) and self.names[: len(older.names)] == older.names

    @property
    def empty(self) -> bool:
        return not self.names and not self.states.edges

    def encoded(self) -> bytes:
        """The bytes of its file: arrays in a zip archive, the same for the same content."""
        stream = io.BytesIO()
        np.savez(stream, **self.arrays())
        return stream.getvalue()

    def arrays(self) -> dict[str, Any]:
        """Everything as arrays."""
        names = Strings.of(self.names)
        arrays = {"name_blob": names.blob, "name_offsets": names.offsets, **self.states.arrays()}
        if self.counts is not None:
            arrays["counts"] = np.frombuffer(json.dumps(self.counts).encode(), dtype=np.uint8)
        return arrays

    @staticmethod
    def of_arrays(arrays: Mapping[str, NDArray[Any]]) -> Delta:
        """The inverse of `arrays`."""
        names = Strings(arrays["name_blob"], arrays["name_offsets"], np.zeros(0, dtype=np.int32))
        states = EdgeStates(**{name: arrays[name] for name in EdgeStates._fields})
        counts = json.loads(arrays["counts"].tobytes()) if "counts" in arrays else None
        return Delta(states, tuple(names.texts(range(len(names)))), counts)

    @staticmethod
    def decoded(data: bytes, where: object) -> Delta:
        """The inverse of `encoded`; `where` is the file, for errors."""
        try:
            with np.load(io.BytesIO(data)) as arrays:
                return Delta.of_arrays(arrays)
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise CorruptStore(f"{where} is damaged: {error}") from None


def write_layer(folder: Path, layer: Delta, graph: KnowledgeGraph, table: TruthTable, facts: LayeredRows | None) -> str:
    """Write a delta with the rows that it touches in a graph and a table that have it; returns the content hash."""
    parts = [("graph_", graph.layer()), ("table_", table.layer())]
    if facts is not None:
        parts.append(("facts_", facts.layer()))
    with FolderWriter(folder, LAYER) as sink:
        for name, array in layer.arrays().items():
            sink.append(name, array)
        for prefix, pieces in parts:
            for name, piece in pieces:
                sink.append(prefix + name, piece)
        return sink.finish({"counts": graph.counts})


def read_layer(
    folder: Path, graph: KnowledgeGraph, table: TruthTable, facts: LayeredRows | None
) -> tuple[Delta, KnowledgeGraph, TruthTable, LayeredRows | None]:
    """The delta that `write_layer` wrote, and graph, table and facts with it."""
    opened = open_directory(folder, LAYER)
    try:
        layer = Delta.of_arrays(opened.arrays)
        entities = graph.entities.extended(layer.names)
        layer.states.check(len(entities), len(graph.relations))
        rows = graph.over(_part(opened.arrays, "graph_"), opened.meta["counts"], entities, "")
        edges = table.over(_part(opened.arrays, "table_"), layer.states, len(entities))
        return layer, rows, edges, None if facts is None else facts.over(_part(opened.arrays, "facts_"))
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptStore(f"{folder} is not a whole layer: {error}") from None


def _part(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
