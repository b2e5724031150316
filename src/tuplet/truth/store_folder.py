"""The store on disk: graph, truth and what made them, switched as a whole by replacing one small file.

    my.store/
      store.json         which of the folders below are current, and everything known about them; sealed
      graph-1f3a…/       the graph (kind "graph")
      table-9c02…/       the truth table; on demand, the observed facts alone (kind "table")
      facts-3d0e…/       the observed facts, where the graph has others that are hidden (kind "facts")
      rows-77aa…/        on demand: the edges that the calibration counts (kind "rows")
      model-51be…/       on demand: the predictor
      calibration-02d4…/ a learned calibration (kind "calibration"); the rest of it is in store.json
      newcomers-5e10…/   the calibration of entities that came since (kind "newcomers"); likewise
      guarantees-6ad2…/  scores of held-out queries, where `tuplet guarantee` was run (kind "guarantees")
      attributes-81c9…/  all attributes, where many were changed since the graph was written (kind "attributes")
      layer-4b7d…/       many changes since graph and table were written, with the rows they touch (kind "layer")
      delta-e01c….npz    the last changes; read over all that
      cache/             on demand: what was computed about relations so far; may be deleted

A writer holds a lock, writes what is new, replaces store.json, then deletes what is no longer current. Each time is a
new *generation*, with a number and a hash. A reader holds one generation as a whole: its files may be deleted, but the
system keeps them as long as somebody has them mapped. What a killed writer left is deleted by the next one.

Compaction writes folders in which all changes are merged, beside the current ones, while others read and edit the
store. Then it switches to them in one step, and what was edited meanwhile becomes the delta over them.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from tuplet import files
from tuplet.errors import BadInput, CorruptStore, StoreBusy, TupletError
from tuplet.files import (
    clean_leftovers,
    locked,
    read_sealed,
    reason,
    refuse_timeout,
    remove,
    rename,
    render,
    replacing,
    sealed,
    system_errors,
    write_bytes,
)
from tuplet.graph.arrays import FolderWriter, open_directory, verify, write_directory
from tuplet.graph.attributes import (
    NO_ATTRIBUTES,
    Attributes,
    attributes_of_directory,
    is_read_later,
    stored_attributes,
    tables_of,
)
from tuplet.graph.graph import KIND as GRAPH
from tuplet.graph.graph import GraphWriter, KnowledgeGraph, hides, open_facts, write_facts
from tuplet.graph.names import Strings
from tuplet.graph.versions import AttributeStates, EdgeStates, LayeredRows
from tuplet.progress import Report, silent
from tuplet.truth.edges import Floats, Predictions
from tuplet.truth.store_meta import StoreMeta
from tuplet.truth.table import KIND as TABLE
from tuplet.truth.table import TruthTable, given_truth, graph_facts, overlaid, report_relation, write_table

if TYPE_CHECKING:
    from tuplet.truth.calibration.fit import LearnedCalibration
    from tuplet.truth.on_demand import TruthOnDemand


MANIFEST = "store.json"
FORMAT = "tuplet store"
FORMAT_VERSION = 3
CACHE = "cache"
COMPACTING = "compact"  # who compacts a store holds this lock in it, and works in a hidden folder of this name
PATIENCE = 60.0  # seconds that a change waits for another one to end
LAYER, ATTRIBUTES = "layer", "attributes"

# More changes than these become a layer: until then each edit writes all of them, and each reader applies them.
# A store whose layer is large waits a little longer.
RECENT, RECENT_SHARE = 10_000, 0.02

PARTS = ("graph", "table", "facts", "layer", "rows", "model", "calibration", "newcomers", "attributes", "guarantees")

# Fills a new folder and returns its content hash: what is too big for memory is written piece by piece.
FolderMaker: TypeAlias = Callable[[Path], str]
# What is only known of a graph and a table that are written, such as how reliable the truth values are.
MetaMaker: TypeAlias = Callable[[KnowledgeGraph, TruthTable], StoreMeta]

# Models in use by the parts they come from: a change of the facts does not load that of a store on demand again.
_models: WeakValueDictionary[tuple[object, ...], Any] = WeakValueDictionary()


def folder_name(part: str, digest: str) -> str:
    """Parts are named by their content."""
    return f"{part}-{digest[:16]}"


def _refuse_other(folder: Path, part: str, digest: str) -> None:
    """Refuse a part that is not named by its content."""
    if folder.name != folder_name(part, digest):
        raise CorruptStore(f"{folder}: not the {part} that {folder.parent / MANIFEST} names")


def place(root: Path, part: str, write: Callable[[Path], str]) -> str:
    """Let `write` fill a new folder, named by the hash that it returns."""
    fresh = root / f".{part}-{os.urandom(4).hex()}"
    name = folder_name(part, write(fresh))
    try:
        _digest(root / name, part)
        shutil.rmtree(fresh)  # the same content is there already
    except TupletError:
        rename(fresh, root / name)
    return name


def arrays_writer(part: str, arrays: Mapping[str, NDArray[Any]]) -> FolderMaker:
    """What writes arrays into the folder of a part."""
    return partial(write_directory, kind=part, arrays=arrays, meta={})


def copy_model(source: Path, folder: Path) -> str:
    """Write the folder of a predictor again; returns its content hash."""
    from tuplet.predict import model_folder

    digest = str(model_folder.describe(source)["sha256"])
    folder.mkdir()
    for name in (model_folder.TENSORS, model_folder.CARD, model_folder.DESCRIPTION):
        if (source / name).exists():
            shutil.copyfile(source / name, folder / name)
    return digest


# --- changes since the folders were written --------------------------------------------------------------------------


@dataclass(frozen=True)
class Delta:
    """The states of changed edges and attributes, and the names of entities that came since.

    >>> Delta.from_arrays(Delta(names=("a", "b")).arrays()).names
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


def read_delta(root: Path, name: str | None) -> Delta:
    """The changes since the folders of a store were written: the file that its manifest names, if any."""
    if name is None:
        return Delta()
    file = root / name
    try:
        data = file.read_bytes()
    except OSError as error:
        raise CorruptStore(f"{file}, which {root / MANIFEST} names, cannot be read: {reason(error)}") from None
    if name != delta_name(data):
        raise CorruptStore(f"{file}: edited or damaged; its content is not what its name says")
    try:
        with np.load(io.BytesIO(data)) as arrays:
            return Delta.from_arrays(arrays)
    except (OSError, ValueError, TypeError, KeyError, zipfile.BadZipFile) as error:
        raise CorruptStore(f"{file} is damaged: {error}") from None


def delta_name(data: bytes) -> str:
    """The name of the file with these bytes."""
    return f"{folder_name('delta', hashlib.sha256(data).hexdigest())}.npz"


def write_attributes(folder: Path, attributes: Attributes) -> str:
    """Write all attributes of a store into a folder of their own; returns the content hash."""
    arrays, described = stored_attributes(attributes)
    return write_directory(folder, ATTRIBUTES, arrays, {"attributes": []} | described, later=is_read_later)


def read_attributes(folder: Path) -> Attributes:
    """The attributes that `write_attributes` wrote."""
    opened = open_directory(folder, ATTRIBUTES)
    _refuse_other(folder, ATTRIBUTES, opened.hash)
    try:
        return attributes_of_directory(opened)
    except (KeyError, ValueError) as error:
        raise CorruptStore(f"{folder} does not hold whole attributes: {error}") from None


# --- a store ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoreContent:
    """All that a new store is made of."""

    graph: KnowledgeGraph | FolderMaker
    table: TruthTable | FolderMaker
    meta: StoreMeta | MetaMaker
    rows: Mapping[str, NDArray[Any]] | None = None  # on demand: heads, relation and tails that the calibration counts
    model: Path | None = None  # on demand: the folder of the predictor
    calibration: Mapping[str, NDArray[Any]] | None = None  # the arrays of a learned one


@dataclass(frozen=True)
class StoreFiles:
    """An opened store; `table` holds everything, or on demand the observed facts alone."""

    path: Path
    graph: KnowledgeGraph
    table: TruthTable
    meta: StoreMeta
    folders: dict[str, str]  # part → its current folder
    hash: str  # of graph, truth, model, calibration and threshold together
    generation: int = 0
    layer: Delta = field(default_factory=Delta)  # what graph and table have beyond their folders
    delta: Delta = field(default_factory=Delta)  # and beyond their layer
    facts: LayeredRows | None = None  # the observed facts, where they have a folder of their own
    attributes: Attributes = NO_ATTRIBUTES  # those of the folders; those of the graph have the delta too

    @property
    def on_demand(self) -> bool:
        """Whether truth is computed from the model when asked."""
        return "rows" in self.folders

    def rows(self, device: str = "cpu", memory: int | None = None) -> TruthOnDemand:
        """The truth of a store on demand; loads the model."""
        from tuplet.predict import model_folder
        from tuplet.predict.base import TrainingEdges
        from tuplet.truth.calibration.reliability import MeasuredBounds
        from tuplet.truth.on_demand import TruthOnDemand
        from tuplet.truth.rules import Calibration

        basis = open_directory(self.path / self.folders["rows"], "rows").arrays
        edges = (basis["heads"], basis["relation"], basis["tails"])
        whole = TrainingEdges({"train": edges}, len(self.graph.entities), len(self.graph.relations))
        folder = self.folders["model"]
        key = (self.path, folder, self.folders["rows"], whole.entities, whole.relations, device)
        if (model := _models.get(key)) is None:
            model = _models[key] = model_folder.load_for(whole, self.path / folder, device)
        if (known := self.meta.calibration) is None:
            raise CorruptStore(f"{self.path / MANIFEST}: it does not say how the truth is calibrated")
        if ":" in known["name"]:  # a store must not make us import a module that it names
            raise CorruptStore(f"{self.path / MANIFEST}: {known['name']!r} is not the name of a calibration")
        return TruthOnDemand(
            model,
            self.table,
            edges,
            Calibration(known["name"]),
            self.meta.threshold,
            self.path / CACHE if os.access(self.path, os.W_OK) else None,
            folder,
            memory,
            bounds=MeasuredBounds.from_dict(known["bounds"]) if "bounds" in known else None,
            unpredicted=self.graph.unpredicted,
        )

    def load_calibration(self, part: str = "calibration") -> LearnedCalibration | None:
        """The learned calibration of the store, or of its `newcomers`, if there is one."""
        from tuplet.truth.calibration.fit import LearnedCalibration

        about = self.meta.new.calibration if part == "newcomers" else self.meta.calibration
        if part not in self.folders or about is None:
            return None
        return LearnedCalibration.from_arrays(open_directory(self.path / self.folders[part], part).arrays, about)

    @staticmethod
    def create(path: str | os.PathLike[str], content: StoreContent, force: bool = False) -> StoreFiles:
        """Write a new store; an existing one is replaced only with `force`, anything else never."""
        target = Path(os.path.realpath(path))
        refuse_existing(target, force)
        with locked(target):
            clean_leftovers(target)
            if is_store(target):
                refuse_existing(target, force)
                try:
                    generation = int(read_store(target)["generation"])
                except TupletError:  # a damaged store may be replaced too
                    generation = 0
                with system_errors(target):
                    _commit(target, content, {}, generation)
            else:
                # A new store is written beside its place and renamed in: there is never half a store.
                with replacing(target, force, _not_a_store) as fresh:
                    fresh.mkdir()
                    _commit(fresh, content, {}, 0)
        return StoreFiles.open(path)

    @staticmethod
    def open(path: str | os.PathLike[str], held: StoreFiles | None = None) -> StoreFiles:
        """The newest generation of a store, memory-mapped; from one that is held, only what has changed is read."""
        root = Path(path)
        while True:
            manifest = read_store(root)
            if held is not None and (manifest["hash"], manifest["generation"]) == (held.hash, held.generation):
                return held
            try:
                delta = read_delta(root, manifest.get("delta"))
                same = held is not None and manifest["folders"] == held.folders and delta.continues(held.delta)
                base = held if held is not None and same else _open_folders(root, manifest)
                entities = len(base.graph.entities) - len(base.delta.names) + len(delta.names)
                delta.refuse_misfit(root / str(manifest.get("delta")), entities, len(base.graph.relations))
                return base._apply_delta(delta)._describe(manifest)
            except (BadInput, CorruptStore):
                # A writer may have replaced the state between the steps; then there is another one to be read.
                if read_store(root) == manifest:
                    for folder in manifest["folders"].values():
                        if not (root / folder).is_dir():
                            raise CorruptStore(f"{root / folder} is missing, {root / MANIFEST} names it") from None
                    raise

    def replace_tables(self, graph: KnowledgeGraph, table: TruthTable, meta: StoreMeta) -> StoreFiles:
        """The same store with another graph and table; the caller holds `writing(path)`."""
        with system_errors(self.path):
            content = StoreContent(graph, table, meta)
            _commit(Path(os.path.realpath(self.path)), content, self.folders, self.generation)
        return StoreFiles.open(self.path)

    def apply_changes(
        self,
        states: EdgeStates,
        names: Sequence[str],
        meta: StoreMeta,
        attributes: AttributeStates | None = None,
    ) -> StoreFiles:
        """The next generation: some edges and attributes are as the states say, and there are more entities.

        The caller holds `writing(path)` and has this state from it.
        """
        root, folders = Path(os.path.realpath(self.path)), dict(self.folders)
        delta = self.delta.then(Delta(states, tuple(names), attributes=attributes or AttributeStates()))
        after = self._apply_delta(delta)
        rest = replace(delta, counts=after.graph.counts)
        with system_errors(self.path):
            if len(delta.attributes) > RECENT:
                write = partial(write_attributes, attributes=after.graph.attributes)
                folders["attributes"] = place(root, "attributes", write)
                rest = replace(rest, attributes=AttributeStates())
            if delta.states.edges > max(RECENT, RECENT_SHARE * self.layer.states.edges):
                layer = self.layer.then(replace(delta, attributes=AttributeStates()))
                write = partial(write_layer, layer=layer, graph=after.graph, table=after.table, facts=after.facts)
                folders["layer"] = place(root, "layer", write)
                rest = Delta(attributes=rest.attributes)
            manifest = _switch(root, folders, meta, rest, self.generation)
        return after._describe(manifest) if folders == self.folders else StoreFiles.open(self.path)

    def note(self, meta: StoreMeta, **parts: FolderMaker) -> StoreFiles:
        """The next generation, in which the meta is another one, and some parts, if any are given.

        The caller holds `writing(path)`.
        """
        root = Path(os.path.realpath(self.path))
        with system_errors(self.path):
            folders = self.folders | {part: place(root, part, write) for part, write in parts.items()}
            manifest = _switch(root, folders, meta, replace(self.delta, counts=self.graph.counts), self.generation)
        return replace(self, folders=folders)._describe(manifest)

    def switch_to_merged(self, work: Path, hashes: Mapping[str, str], older: StoreFiles) -> bool:
        """Switch to folders in `work` that have all of an older generation; what came since is the delta over them.

        The caller holds `writing(path)`. False, and nothing is changed, if there are other folders meanwhile.
        """
        known, now = (files.layer.then(files.delta) for files in (older, self))
        parts = ("graph", "table", "facts", "attributes")
        same = all(self.folders.get(part) == older.folders.get(part) for part in parts)
        if not (same and now.continues(known)):
            return False
        root = Path(os.path.realpath(self.path))
        later = replace(now.since(known), counts=self.graph.counts)
        merged = ("layer", "facts", "attributes")
        folders = {part: folder for part, folder in self.folders.items() if part not in merged}
        with system_errors(self.path):
            for part, digest in hashes.items():
                folders[part] = folder_name(part, digest)
                if folders[part] != self.folders.get(part):  # the changes may have undone each other
                    rename(work / part, root / folders[part])
            _switch(root, folders, self.meta, later, self.generation)
        return True

    def _apply_delta(self, delta: Delta) -> StoreFiles:
        """The state with a later delta over the same folders; only what it changes is made anew."""
        new = delta.since(self.delta)
        if new.empty:
            return self
        entities = self.graph.entities.extend_names(new.names)
        graph = self.graph.edit(new.states, entities, delta.counts)
        table = self.table.edit(new.states, len(entities))
        s = new.states
        facts = None if self.facts is None else self.facts.edit(s.relation, s.heads, s.tails, s.observed, {})
        if new.attributes:
            graph = replace(graph, attributes=delta.attributes.apply_to(self.attributes))
        return replace(self, graph=graph, table=table, facts=facts, delta=delta)

    def _describe(self, manifest: Mapping[str, Any]) -> StoreFiles:
        """The state as store.json describes it."""
        graph, meta = self.graph, StoreMeta.from_dict(manifest["meta"], self.path / MANIFEST)
        folders = manifest["folders"]
        if not (self.delta.empty and self.layer.empty and "attributes" not in folders):
            parts = [folders.get(part) for part in ("graph", "layer")]
            parts += [folders["attributes"]] if "attributes" in folders else []
            digest = hashlib.sha256(render({"made_of": [*parts, manifest.get("delta")]})).hexdigest()
            graph = replace(graph, hash=digest)
        return replace(self, graph=graph, meta=meta, hash=manifest["hash"], generation=manifest["generation"])


def _open_folders(root: Path, manifest: Mapping[str, Any]) -> StoreFiles:
    """The folders of a store, without its delta."""
    folders = manifest["folders"]
    graph = KnowledgeGraph.open(root / folders["graph"])
    opened = open_directory(root / folders["table"], "table")
    facts, digest = open_facts(root / folders["facts"], graph) if "facts" in folders else (None, "")
    for part, found in (("graph", graph.hash), ("table", opened.hash), ("facts", digest)):
        if part in folders:
            _refuse_other(root / folders[part], part, found)
    table = TruthTable.from_directory(opened)
    if (table.entities, table.relations) != (len(graph.entities), len(graph.relations)):
        raise CorruptStore(f"{root}: table and graph differ in the number of entities or relations")
    meta = StoreMeta.from_dict(manifest["meta"], root / MANIFEST)
    layer, attributes = Delta(), graph.attributes
    if "layer" in folders:
        layer, graph, table, facts = read_layer(root / folders["layer"], graph, table, facts)
    if "attributes" in folders:
        attributes = read_attributes(root / folders["attributes"])
        graph = replace(graph, attributes=attributes)
    payload = (graph, table, meta, folders, manifest["hash"])
    return StoreFiles(root, *payload, layer=layer, facts=facts, attributes=attributes)


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether there is a store at `path`, whole or not."""
    return os.path.exists(Path(path) / MANIFEST)  # a folder that may not be read is not one


@contextmanager
def writing(
    path: str | os.PathLike[str], timeout: float = PATIENCE, held: StoreFiles | None = None
) -> Iterator[StoreFiles]:
    """The newest generation with the right to change it; others wait their turn, then it is `StoreBusy`.

    `held` is a state that is open already.
    """
    read_store(path)
    with locked(path, timeout):
        target = Path(os.path.realpath(path))
        clean_leftovers(target)
        _collect(target, read_store(target))
        yield StoreFiles.open(path, held)


def read_store(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The checked content of store.json; a store of another format is refused."""
    return read_sealed(Path(path) / MANIFEST, FORMAT, FORMAT_VERSION, "store")


def refuse_existing(target: str | os.PathLike[str], force: bool) -> None:
    """An error if a store may not be written there: said before the work, not after it."""
    files.refuse_existing(target, force, _not_a_store)


def _not_a_store(place: Path) -> str | None:
    return None if is_store(place) else "it is not a store"


def _commit(root: Path, content: StoreContent, keep: Mapping[str, str], generation: int) -> None:
    """Write what is new into `root`, then switch store.json, then delete what is no longer current."""
    graph, table, meta = content.graph, content.table, content.meta
    kept = ("rows", "model", "calibration", "newcomers", "guarantees")
    folders = {part: keep[part] for part in kept if part in keep}
    # The table first: only when it is made, it is known whether the graph of the store is the one that was given.
    folders["table"] = place(root, "table", table.save if isinstance(table, TruthTable) else table)
    folders["graph"] = place(root, "graph", graph.save if isinstance(graph, KnowledgeGraph) else graph)
    written = graph if isinstance(graph, KnowledgeGraph) else KnowledgeGraph.open(root / folders["graph"])
    if not isinstance(meta, StoreMeta):
        meta = meta(written, TruthTable.open(root / folders["table"]))
    if hides(written, meta.observed):
        folders["facts"] = place(root, "facts", partial(write_facts, graph=written, splits=meta.observed))
    for part, arrays in (("rows", content.rows), ("calibration", content.calibration)):
        if arrays is not None:
            folders[part] = place(root, part, arrays_writer(part, arrays))
    if content.model is not None:
        folders["model"] = place(root, "model", partial(copy_model, content.model))
    _switch(root, folders, meta, Delta(), generation)


def _switch(root: Path, folders: dict[str, str], meta: StoreMeta, delta: Delta, generation: int) -> dict[str, Any]:
    """Make the generation after `generation` the current one; returns what store.json says now."""
    known = meta.as_dict()
    made_of: list[Any] = [folders[part] for part in PARTS if part in folders]
    made_of += [known[key] for key in ("model", "models", "calibration", "threshold") if key in known]
    content: dict[str, Any] = {"folders": folders, "generation": generation + 1, "meta": known}
    if not delta.empty:
        data = delta.encode()
        content["delta"] = delta_name(data)
        made_of.append(content["delta"])
        write_bytes(root / content["delta"], data, force=True)
    content["hash"] = hashlib.sha256(render({"made_of": made_of})).hexdigest()
    write_bytes(root / MANIFEST, sealed(FORMAT, FORMAT_VERSION, content), force=True)
    _collect(root, content)
    return content


def _collect(root: Path, manifest: Mapping[str, Any]) -> None:
    """Delete parts that store.json does not name: an older state, or what a killed writer left."""
    current = {*manifest["folders"].values(), manifest.get("delta")}
    for entry in root.iterdir():
        ours = entry.name.lstrip(".").startswith(tuple(f"{part}-" for part in (*PARTS, "delta")))
        if (ours and entry.name not in current) or entry.name.startswith(f".{MANIFEST}."):
            remove(entry)
        elif entry.name.startswith(f".{COMPACTING}-"):
            with suppress(StoreBusy), locked(root / COMPACTING):  # unless the compaction goes on
                remove(entry)


def generation(store: StoreFiles) -> dict[str, Any]:
    """Its number and hash, and how many changed edges and attributes are not merged into graph and table yet."""
    waiting = {"layer": store.layer.changes, "delta": store.delta.changes}
    return {"number": store.generation, "hash": store.hash, "waiting": waiting}


def verify_store(path: str | os.PathLike[str]) -> None:
    """Read every byte of the newest generation; an error names the first file that is not as it was written."""
    root = Path(path)
    while True:
        store = StoreFiles.open(root)  # this reads store.json and the delta
        try:
            for part, folder in store.folders.items():
                _refuse_other(root / folder, part, _digest(root / folder, part))
            return
        except TupletError:
            # Somebody may have changed the store meanwhile; then there is another generation to be read.
            if read_store(root)["hash"] == store.hash:
                raise


def _digest(folder: Path, part: str) -> str:
    return verify_model(folder) if part == "model" else verify(folder)


def verify_model(folder: Path) -> str:
    """The hash of a model's tables, which are as they were written."""
    from tuplet.predict import model_folder

    digest = str(model_folder.describe(folder)["sha256"])
    model_folder.read_tensors(folder / model_folder.TENSORS, sha256=digest)
    return digest


def table_writer(
    graph: KnowledgeGraph,
    observed: Sequence[str],
    predicted: Predictions | None,
    threshold: float,
    may_miss: Floats | None = None,
) -> FolderMaker:
    """What writes the table of the observed facts of a graph over predicted edges, relation by relation.

    `may_miss` [relations]: an edge that is not listed may have this truth; by default it is below the threshold.
    """
    if predicted is not None and graph.unpredicted >= 0:
        predicted = predicted.where(predicted.relation != graph.unpredicted)

    def write(folder: Path) -> str:
        entities, relations = graph_sizes(graph)
        facts = (graph_facts(graph, relation, observed) for relation in range(relations))
        with FolderWriter(folder, TABLE) as writer:
            edges = overlaid(facts, predicted, entities, relations)
            write_table(writer, entities, edges, given_truth(graph, observed), may_miss)
            return writer.finish({"entities": entities, "threshold": threshold})

    return write


def graph_sizes(graph: KnowledgeGraph) -> tuple[int, int]:
    """How many entities and relations it has."""
    return len(graph.entities), len(graph.relations)


# A store is compacted in the background when more of its edges than this share are changed, and enough to matter.
SHARE, ENOUGH = 0.05, 20_000


def compact(path: str | os.PathLike[str], timeout: float = PATIENCE, progress: Report = silent) -> bool:
    """Merge all changes into new folders; `StoreBusy` after `timeout` seconds in which others compact or change it.

    False if there are none, or if the store was made anew meanwhile.
    """
    refuse_timeout(timeout)
    root = Path(os.path.realpath(path))
    StoreFiles.open(path)  # a wrong path is said before anything is written
    with locked(root / COMPACTING, timeout, called=path):
        store = StoreFiles.open(path)
        if store.layer.empty and store.delta.empty and "attributes" not in store.folders:
            return False
        work = root / f".{COMPACTING}-{os.urandom(4).hex()}"
        try:
            with system_errors(path):
                work.mkdir()
                hashes = {
                    "graph": write_graph(work / "graph", store.graph, progress),
                    "table": store.table.save(work / "table", progress=progress),
                }
                if hides(store.graph, store.meta.observed):
                    hashes["facts"] = write_facts(work / "facts", store.graph, store.meta.observed)
            with writing(path, timeout, store) as now:
                return now.switch_to_merged(work, hashes, store)
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


def write_graph(folder: Path, graph: KnowledgeGraph, progress: Report = silent) -> str:
    """Write a graph with its newer layers merged, relation by relation; returns its content hash."""
    with FolderWriter(folder, GRAPH) as sink:
        writer = GraphWriter(sink, graph.entities.flat, graph.relations)
        for r in range(len(graph.relations)):
            writer.relation(*graph.relation_facts(r))
            report_relation(progress, "graph", graph.adjacency, r)
        return sink.finish(writer.finish(graph.notes, tables_of(graph.attributes)))
