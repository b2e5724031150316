"""What was changed in a store since its folders were written.

The last changes are one small file, replaced by every edit. Many changes become a *layer*: a folder with the rows that
they touch, which readers map instead of making them.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import CorruptStore
from tuplet.files import reason
from tuplet.graph.arrays import FolderWriter, open_directory, write_directory
from tuplet.graph.attributes import Attributes, attributes_of_directory, is_read_later, stored_attributes
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Strings
from tuplet.graph.versions import AttributeStates, EdgeStates, LayeredRows
from tuplet.truth.table import TruthTable

LAYER, ATTRIBUTES = "layer", "attributes"


def folder_name(part: str, digest: str) -> str:
    """Parts are named by their content."""
    return f"{part}-{digest[:16]}"


def is_named(folder: str, part: str, digest: str) -> bool:
    """Whether a folder is named by a hash."""
    return folder == folder_name(part, digest)


@dataclass(frozen=True)
class Delta:
    """The states of changed edges and attributes, and the names of entities that came since.

    >>> Delta.decode(Delta(names=("a", "b")).encode(), "here").names
    ('a', 'b')
    """

    states: EdgeStates = field(default_factory=EdgeStates.none)
    names: tuple[str, ...] = ()
    counts: dict[str, int] | None = None  # what is counted in the graph that has it: opening need not look
    attributes: AttributeStates = field(default_factory=AttributeStates)

    def then(self, later: Delta) -> Delta:
        """This delta and what came later."""
        attributes = self.attributes.then(later.attributes)
        return Delta(self.states.then(later.states), (*self.names, *later.names), attributes=attributes)

    def since(self, older: Delta) -> Delta:
        """What came after an older state of the same delta."""
        attributes = self.attributes.select_changes(older.attributes)
        return Delta(self.states.select_changes(older.states), self.names[len(older.names) :], attributes=attributes)

    def continues(self, older: Delta) -> bool:
        """Whether it says something of every edge and name of another one, over the same folders: then `since` is all.

        A compaction may lead back to folders that were there before, and begins a new delta.
        """
        edges = older.states
        known = (self.states.find(edges.relation, edges.heads, edges.tails) >= 0).all()
        same_names = self.names[: len(older.names)] == older.names
        return bool(known) and same_names and self.attributes.continues(older.attributes)

    @property
    def empty(self) -> bool:
        return not self.names and not self.changes

    @property
    def changes(self) -> int:
        """How many edges and attributes of subjects are changed."""
        return self.states.edges + len(self.attributes)

    def refuse_misfit(self, file: Path, entities: int, relations: int) -> None:
        """Refuse what does not fit a graph of these sizes, naming the file."""
        try:
            self.states.check(entities, relations)
            self.attributes.check(entities, relations)
        except (TypeError, ValueError) as error:
            raise CorruptStore(f"{file} does not belong to its store: {error}") from None

    def encode(self) -> bytes:
        """The bytes of its file: arrays in a zip archive, the same for the same content."""
        stream = io.BytesIO()
        np.savez(stream, **self.arrays())
        return stream.getvalue()

    def arrays(self) -> dict[str, Any]:
        """Everything as arrays."""
        names = Strings.from_texts(self.names)
        arrays = {"name_blob": names.blob, "name_offsets": names.offsets, **self.states.arrays()}
        if self.counts is not None:
            arrays["counts"] = np.frombuffer(json.dumps(self.counts).encode(), dtype=np.uint8)
        if self.attributes:
            arrays["attributes"] = self.attributes.array()
        return arrays

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Delta:
        """The inverse of `arrays`."""
        names = Strings(arrays["name_blob"], arrays["name_offsets"], np.zeros(0, dtype=np.int32))
        states = EdgeStates(**{name: arrays[name] for name in EdgeStates._fields})
        counts = json.loads(arrays["counts"].tobytes()) if "counts" in arrays else None
        attributes = AttributeStates.from_array(arrays["attributes"]) if "attributes" in arrays else AttributeStates()
        return Delta(states, tuple(names.texts(range(len(names)))), counts, attributes)

    @staticmethod
    def decode(data: bytes, where: object) -> Delta:
        """The inverse of `encode`; `where` is the file, for errors."""
        try:
            with np.load(io.BytesIO(data)) as arrays:
                return Delta.from_arrays(arrays)
        except (OSError, ValueError, TypeError, KeyError, zipfile.BadZipFile) as error:
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
        layer = Delta.from_arrays(opened.arrays)
        entities = graph.entities.extend_names(layer.names)
        layer.states.check(len(entities), len(graph.relations))
        rows = graph.over(_part(opened.arrays, "graph_"), opened.meta["counts"], entities, "")
        edges = table.over(_part(opened.arrays, "table_"), layer.states, len(entities))
        return layer, rows, edges, None if facts is None else facts.over(_part(opened.arrays, "facts_"))
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptStore(f"{folder} is not a whole layer: {error}") from None


def _part(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def read_delta(root: Path, name: str | None, manifest: Path) -> Delta:
    """What was changed since the folders of a store were written: the file that its manifest names, if any."""
    if name is None:
        return Delta()
    file = root / name
    try:
        data = file.read_bytes()
    except OSError as error:
        raise CorruptStore(f"{file}, which {manifest} names, cannot be read: {reason(error)}") from None
    if name != delta_name(data):
        raise CorruptStore(f"{file}: edited or damaged; its content is not what its name says")
    return Delta.decode(data, file)


def delta_name(data: bytes) -> str:
    """The name of the file with these bytes."""
    return f"{folder_name('delta', hashlib.sha256(data).hexdigest())}.npz"


def write_attributes(folder: Path, attributes: Attributes) -> str:
    """Write all attributes of a store into a folder of their own; returns the content hash."""
    arrays, described = stored_attributes(attributes)
    return write_directory(folder, ATTRIBUTES, arrays, {"attributes": []} | described, later=is_read_later)


def read_attributes(folder: Path, manifest: Path) -> Attributes:
    """The attributes that `write_attributes` wrote into the folder that a manifest names."""
    opened = open_directory(folder, ATTRIBUTES)
    if not is_named(folder.name, ATTRIBUTES, opened.hash):
        raise CorruptStore(f"{folder}: not the attributes that {manifest} names")
    try:
        return attributes_of_directory(opened)
    except (KeyError, ValueError) as error:
        raise CorruptStore(f"{folder} does not hold whole attributes: {error}") from None
