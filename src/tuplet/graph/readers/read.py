"""Bring your own graph: files, folders, tables and tuples in, a `KnowledgeGraph` out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from tuplet import registry
from tuplet.array_folder import directory_writer
from tuplet.errors import BadInput, hint, unknown
from tuplet.files import kind_of, make_folder, reason, system_errors
from tuplet.graph.graph import KIND, KnowledgeGraph
from tuplet.graph.graph_writer import GraphWriter, graph_of_arrays
from tuplet.graph.readers.columns import Choice, Columns, choice_of
from tuplet.graph.readers.facts import FactCollector, FactColumns, ImportReport, NameList
from tuplet.graph.readers.tables import of_frame, of_table, of_tuples
from tuplet.graph.readers.text import DELIMITERS, read_names
from tuplet.graph.views import ArraySink, GrowingArrays

_FOLDER_NAMES = {"train": ("train",), "valid": ("valid", "dev"), "test": ("test",)}

Source = Any  # a path, a pandas DataFrame, an Arrow table, or an iterable of tuples
PathLike = str | os.PathLike[str]


def read(
    source: Source,
    valid: Source | None = None,
    test: Source | None = None,
    labels: PathLike | Sequence[PathLike] = (),
    columns: Columns | None = None,
    memory: int | None = None,
) -> KnowledgeGraph:
    """The graph of a file, a dataset folder, a DataFrame, an Arrow table or an iterable of tuples.

    `columns` says which column is what where their own names do not: {"head": "drug", "relation": "does", "tail":
    "gene", "truth": "score", "date": "seen"}, the same as text (`head=drug,…`), or a list of three or four names. In a
    file without a header columns are numbers, from 1. A date is kept with the fact. Beyond `memory` bytes
    (by default a share of the machine's) facts wait on disk, and the graph that is returned lies there too.

    >>> graph = read([("paris", "capital_of", "france"), ("lyon", "in", "france")])
    >>> len(graph.entities), len(graph.relations), graph.adjacency.edges
    (3, 2, 2)
    """
    return read_with_report(source, valid, test, labels, columns, memory)[0]


def read_with_report(
    source: Source,
    valid: Source | None = None,
    test: Source | None = None,
    labels: PathLike | Sequence[PathLike] = (),
    columns: Columns | None = None,
    memory: int | None = None,
) -> tuple[KnowledgeGraph, ImportReport]:
    """The graph and what the import found: sizes, duplicates, self-loops, labels."""
    gathered = _gather(source, valid, test, labels, columns, memory, None)
    if gathered.facts.spilled:
        with TemporaryDirectory() as folder:  # what is mapped stays when its name is gone
            report = gathered.save(Path(folder, "graph"), force=False)
            return KnowledgeGraph.open(Path(folder, "graph")), report
    sink = GrowingArrays()
    report, writer, meta = gathered.write(sink)
    return graph_of_arrays(sink.arrays(), writer.entities, writer.relations, meta), report


def import_graph(
    source: Source,
    path: PathLike,
    valid: Source | None = None,
    test: Source | None = None,
    labels: PathLike | Sequence[PathLike] = (),
    columns: Columns | None = None,
    memory: int | None = None,
    force: bool = False,
) -> ImportReport:
    """Write the graph of a source as a directory and say what was found; see `read`."""
    folder = Path(os.path.realpath(path)).parent
    with system_errors(path):
        make_folder(folder)
    return _gather(source, valid, test, labels, columns, memory, folder).save(Path(path), force)


@dataclass(frozen=True)
class _Gathered:
    """All that a graph is made of."""

    facts: FactCollector
    entity_list: NameList | None
    relation_list: NameList | None
    labels: NameList | None

    def write(self, sink: ArraySink) -> tuple[ImportReport, GraphWriter, dict[str, Any]]:
        return self.facts.write(sink, self.entity_list, self.relation_list, self.labels)

    def save(self, path: Path, force: bool) -> ImportReport:
        with directory_writer(path, KIND, force) as folder:
            report, _, meta = self.write(folder)
            folder.finish(meta)
        return report


def _gather(
    source: Source,
    valid: Source | None,
    test: Source | None,
    labels: PathLike | Sequence[PathLike],
    columns: Columns | None,
    memory: int | None,
    place: Path | None,
) -> _Gathered:
    if source is None:
        raise BadInput("nothing to read: give a file, a folder, a data frame, an Arrow table or tuples")
    choice = choice_of(columns)
    entity_list = relation_list = None
    sources = {"train": source, "valid": valid, "test": test}
    if _is_path(source) and os.path.isdir(source):
        folder = Path(source)
        for split, given in sources.items():
            if split == "train" or given is None:
                sources[split] = _folder_file(folder, _FOLDER_NAMES[split])
        if sources["train"] is None:
            raise BadInput(_no_train(folder))
        entity_list, relation_list = (_listed(_folder_file(folder, (stem,))) for stem in ("entities", "relations"))
    facts = FactCollector(memory, place)
    blank = 0  # nodes without a name so far: those of two files are never the same
    for name, given in sources.items():
        if given is not None:
            nodes = 0
            for part in fact_batches(given, choice):
                facts.add(name, part.after_blank(blank))
                nodes = max(nodes, part.blank_nodes)
            blank += nodes
    files = [labels] if isinstance(labels, (str, os.PathLike)) else list(labels)
    names = _merge([_read_names(Path(file)) for file in files])
    return _Gathered(facts, entity_list, relation_list, names)


def fact_batches(source: Source, columns: Choice | None = None) -> Iterator[FactColumns]:
    """The facts of one source, some at a time."""
    if _is_path(source):
        path = Path(source)
        yield from fact_batches(registry.find("readers", _suffix(path))(path, columns))
        return
    package = type(source).__module__.split(".")[0]
    if isinstance(source, FactColumns):
        yield source
    elif isinstance(source, pa.Table):
        yield of_table("the table", source, columns)
    elif package == "pandas" and hasattr(source, "columns"):
        yield of_frame(source, columns)
    elif package == "rdflib":
        raise BadInput("an rdflib graph is read from a file: graph.serialize('facts.nt', format='nt')")
    elif isinstance(source, Iterable):
        facts = iter(source)
        first = next(facts, None)
        if isinstance(first, FactColumns):
            yield from chain([first], facts)
        else:
            yield of_tuples(facts if first is None else chain([first], facts))
    else:
        raise BadInput(f"cannot read facts from a {type(source).__name__}; give a path, table, DataFrame or tuples")


def _is_path(source: Source) -> bool:
    return isinstance(source, (str, os.PathLike))


def _suffix(path: Path) -> str:
    """The type of a file by its name, without `.gz`; the file must exist."""
    if not os.path.exists(path):  # unlike Path.exists, also for names no system allows
        raise BadInput(f"no such file: {path}{_near_file(path)}")
    if os.path.isdir(path):
        raise BadInput(f"{path} is a folder where a file is expected")
    suffix = _stem_and_type(path.name)[1]
    known = registry.names("readers")
    if suffix not in known:
        raise unknown("file type", path.suffix, known, f"of {path} is not known")
    return suffix


def _near_file(path: Path) -> str:
    if not os.path.isdir(path.parent):
        return f" (the folder {path.parent} does not exist)"
    return hint(path.name, _listing(path.parent), lambda name: str(path.parent / name))


def _folder_file(folder: Path, stems: Sequence[str]) -> Path | None:
    """The file of a dataset folder with one of these names and a known type, if there is one."""
    wanted = {(stem, suffix) for stem in stems for suffix in registry.names("readers")}
    found = sorted(name for name in _listing(folder) if _stem_and_type(name) in wanted)
    if len(found) > 1:
        raise BadInput(f"{folder} has both {found[0]} and {found[1]}; keep one of them")
    return folder / found[0] if found else None


def _stem_and_type(name: str) -> tuple[str, str]:
    return os.path.splitext(name.lower().removesuffix(".gz"))


def _listing(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError as error:
        raise BadInput(f"cannot read the folder {folder}: {reason(error)}") from None


def _no_train(folder: Path) -> str:
    kind = kind_of(folder)
    if kind is not None:
        return f"{folder} is a {kind} already; import reads facts"
    return f"{folder} has no train file (train.tsv, train.tsv.gz, train.txt, train.csv, train.parquet, train.nt, …)"


def _listed(path: Path | None) -> NameList | None:
    return None if path is None else _read_names(path)


def _read_names(path: Path) -> NameList:
    suffix = _suffix(path)
    if suffix not in DELIMITERS:
        raise BadInput(f"{path}: labels are read from .tsv, .txt or .csv files, not {suffix}")
    return read_names(path, DELIMITERS[suffix])


def _merge(files: Sequence[NameList]) -> NameList | None:
    if not files:
        return None
    labels: dict[str, str] = {}
    for names in files:
        for name, label in names.labels.items():
            if not labels.get(name):
                labels[name] = label
    total = sum(len(names.labels) + names.repeated for names in files)
    return NameList(labels, total - len(labels))
