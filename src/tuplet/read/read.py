"""Bring your own graph: files, folders, tables and tuples in, a `KnowledgeGraph` out."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from inspect import signature
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from tuplet import settings
from tuplet.errors import BadInput, hint, unknown
from tuplet.files import kind_of, make_folder, reason, system_errors
from tuplet.graph.adjacency import GrowingArrays
from tuplet.graph.arrays import directory_writer
from tuplet.graph.graph import KIND, KnowledgeGraph, graph_of_arrays
from tuplet.read.facts import FactCollector, FactColumns, ImportReport, NameList
from tuplet.read.mapping import Choice, Columns, choose_columns
from tuplet.read.tables import from_frame, from_table, from_tuples
from tuplet.read.text import DELIMITERS, lone_header, read_names, stem_and_type

Source: TypeAlias = Any  # a path, a pattern of paths, a DataFrame, an Arrow table, tuples, or a list of the former
PathLike: TypeAlias = str | os.PathLike[str]

_FOLDER_NAMES = {"train": ("train",), "valid": ("valid", "dev"), "test": ("test",)}
_LIBRARIES = ("pandas", "polars", "networkx", "rdflib", "pyoxigraph", "duckdb", "_duckdb", "ladybug")


def read(source: Source, *splits: Source, **choices: Any) -> KnowledgeGraph:
    """The graph of a source; the further arguments are those of `gather`.

    >>> graph = read([("paris", "capital_of", "france"), ("lyon", "in", "france")])
    >>> len(graph.entities), len(graph.relations), graph.adjacency.edges
    (3, 2, 2)
    """
    return gather(source, *splits, **choices).graph()[0]


class Gathered(NamedTuple):
    """All that a graph is made of."""

    facts: FactCollector
    entity_list: NameList | None
    relation_list: NameList | None
    labels: NameList | None

    def graph(self) -> tuple[KnowledgeGraph, ImportReport]:
        """The graph and what the import found: sizes, duplicates, self-loops, labels."""
        if self.facts.spilled:
            with TemporaryDirectory() as folder:  # what is mapped stays when its name is gone
                report = self.save(Path(folder, "graph"))
                return KnowledgeGraph.open(Path(folder, "graph")), report
        sink = GrowingArrays()
        report, writer, meta = self.facts.write(sink, *self[1:])
        return graph_of_arrays(sink.arrays(), writer.entities, writer.relations, meta), report

    def save(self, path: PathLike, force: bool = False) -> ImportReport:
        """Write the graph as a directory and return what the import found."""
        with directory_writer(path, KIND, force) as folder:
            report, _, meta = self.facts.write(folder, *self[1:])
            folder.finish(meta)
        return report


def gather(
    source: Source,
    valid: Source | None = None,
    test: Source | None = None,
    labels: PathLike | Sequence[PathLike] = (),
    columns: Columns | None = None,
    memory: int | None = None,
    header: bool | None = None,
    nodes: Source = (),
    path: PathLike | None = None,
) -> Gathered:
    """The facts of files, a dataset folder, a DataFrame, an Arrow table or an iterable of tuples.

    A source may be a list of files or tables, or a pattern such as `facts/*.csv`. `columns` says which column is what
    where their own names do not: {"head": "drug", "relation": "does", "tail": "gene", "truth": "score", "date":
    "seen"}, the same as text (`head=drug,…`), or a list of three or four names; of a table with a row for each entity
    {"id": "drug", "relation": ["targets", "treats"], "attribute": "*"}. In a file without a header columns are numbers,
    from 1; `header` says whether the first line is one. A date is kept with the fact. `nodes` are tables of entities:
    an id, perhaps a label and types, attributes. Beyond `memory` bytes (by default a share of the machine's) facts wait
    on disk, beside `path` if the graph will be saved there, and the graph that is made of them lies on disk too.
    """
    place = None
    if path is not None:
        place = Path(os.path.realpath(path)).parent
        with system_errors(path):
            make_folder(place)
    if source is None:
        raise BadInput("nothing to read: give a file, a folder, a data frame, an Arrow table or tuples")
    choice = choose_columns(columns, header)
    entity_list = relation_list = None
    sources = dict(zip(_FOLDER_NAMES, (source, valid, test), strict=True))
    if _is_path(source) and os.path.isdir(source):
        folder = Path(source)
        for split, given in sources.items():
            if split == "train" or given is None:
                sources[split] = _folder_file(folder, _FOLDER_NAMES[split])
        if sources["train"] is None:
            kind = kind_of(folder)
            if kind is not None:
                raise BadInput(f"{folder} is a {kind} already; import reads facts")
            known = "train.tsv, train.tsv.gz, train.txt, train.csv, train.parquet, train.nt, …"
            raise BadInput(f"{folder} has no train file ({known})")
        files = (_folder_file(folder, (stem,)) for stem in ("entities", "relations"))
        entity_list, relation_list = (None if file is None else _read_names(file) for file in files)
    facts = FactCollector(memory, place)
    nodes_given = not _is_nothing(nodes)
    blank = 0  # nodes without a name so far: those of two files are never the same
    for name, given in sources.items():
        for one in [] if given is None or (nodes_given and _is_nothing(given)) else _each_source(given):
            if _is_path(one) and _reader_suffix(Path(one)) and (header_names := lone_header(Path(one))):
                choice = replace(choice or Choice(), names=header_names)
                continue
            unnamed = 0
            for part in fact_batches(one, choice):
                facts.add(name, part.after_blank(blank))
                unnamed = max(unnamed, part.blank_nodes)
            blank += unnamed
    for table in _each_source(nodes) if nodes_given else []:
        for part in fact_batches(table, None if choice is None else Choice(split=choice.split), nodes=True):
            facts.add("train", part)
    if facts.empty and not nodes_given:
        raise BadInput(f"{source if _is_path(source) else 'the source'}: no facts, only attributes of entities")
    given_labels = [labels] if isinstance(labels, (str, os.PathLike)) else labels
    return Gathered(facts, entity_list, relation_list, _merge([_read_names(Path(file)) for file in given_labels]))


def _is_nothing(source: Source) -> bool:
    return source is None or (isinstance(source, list | tuple) and not source)


def _read_names(path: Path) -> NameList:
    if (suffix := _reader_suffix(path)) not in DELIMITERS:
        raise BadInput(f"{path}: labels are read from .tsv, .txt or .csv files, not {suffix}")
    return read_names(path)


def _merge(files: Sequence[NameList]) -> NameList | None:
    if not files:
        return None
    labels: dict[str, str] = {}
    for names in files:
        for name, label in names.labels.items():
            labels[name] = labels.get(name) or label
    total = sum(len(names.labels) + names.repeated for names in files)
    return NameList(labels, total - len(labels))


# --- sources: files by their suffix, patterns of names, tables, graphs of other libraries ------------------------


def fact_batches(source: Source, choice: Choice | None = None, nodes: bool = False) -> Iterator[FactColumns]:
    """What one source says, some at a time; the rows of `nodes` are about entities."""
    package = type(source).__module__.split(".")[0]
    if _is_path(source):
        path = Path(source)
        reader = settings.find_plugin("readers", _reader_suffix(path))
        if nodes and "nodes" not in signature(reader).parameters:
            raise BadInput(f"{path}: nodes are read from tables (.csv, .tsv, .parquet), or with the facts")
        yield from fact_batches(reader(path, choice, nodes=True) if nodes else reader(path, choice))
    elif isinstance(source, FactColumns):
        yield source
    elif isinstance(source, pa.Table):
        yield from from_table("the table", source, choice, nodes)
    elif package == "pandas" and hasattr(source, "columns"):
        yield from from_frame(source, choice, nodes)
    elif package == "networkx":
        from tuplet.read.property_graphs import from_networkx

        yield from_networkx(source, choice)
    elif hasattr(source, "__arrow_c_stream__"):  # polars, DuckDB relations and others
        yield from from_table(f"the {type(source).__name__}", pa.table(source), choice, nodes)
    elif package in ("duckdb", "_duckdb"):
        from tuplet.read.databases import from_duckdb

        yield from from_duckdb(source, choice)
    elif package == "ladybug":
        from tuplet.read.databases import from_ladybug

        yield from from_ladybug(source)
    elif package in ("rdflib", "pyoxigraph") and isinstance(source, Iterable):
        from tuplet.read.rdf import from_rdf_graph

        yield from from_rdf_graph(source)
    elif isinstance(source, Iterable):
        facts = iter(source)
        first = next(facts, None)
        facts = facts if first is None else chain([first], facts)
        yield from facts if isinstance(first, FactColumns) else from_tuples(facts)
    else:
        raise BadInput(f"cannot read facts from a {type(source).__name__}; give a path, table, DataFrame or tuples")


def _is_path(source: Source) -> bool:
    return isinstance(source, (str, os.PathLike))


def _each_source(source: Source) -> list[Source]:
    """The sources that a source stands for: the files of a pattern, the members of a list."""
    if _is_path(source):
        path = os.fspath(source)
        if os.path.exists(path) or not glob.has_magic(path):
            return [path]
        if not (found := sorted(glob.glob(path))):
            raise BadInput(f"no file is called like {path}")
        return list(found)
    if isinstance(source, list | tuple) and source and all(map(_stands_alone, source)):
        return [one for several in source for one in _each_source(several)]
    return [source]


def _stands_alone(source: Source) -> bool:
    """Whether a member of a list is a source and no fact."""
    return _is_path(source) or isinstance(source, pa.Table) or type(source).__module__.split(".")[0] in _LIBRARIES


def _reader_suffix(path: Path) -> str:
    """The type of a file by its name, without `.gz`; the file must exist. A table of a database follows a colon."""
    database = str(path).rpartition(":")[0]
    if database.lower().endswith(".duckdb") and os.path.exists(database) and not os.path.exists(path):
        return ".duckdb"
    if not os.path.exists(path):  # unlike Path.exists, also for names no system allows
        near = f" (the folder {path.parent} does not exist)"
        if os.path.isdir(path.parent):
            near = hint(path.name, _listing(path.parent), lambda name: str(path.parent / name))
        raise BadInput(f"no such file: {path}{near}")
    if os.path.isdir(path):
        raise BadInput(f"{path} is a folder where a file is expected")
    suffix = stem_and_type(path.name)[1]
    known = settings.list_plugins("readers")
    if suffix not in known:
        raise unknown("file type", path.suffix, known, f"of {path} is not known")
    return suffix


def _folder_file(folder: Path, stems: Sequence[str]) -> Path | None:
    """The file of a dataset folder with one of these names and a known type, if there is one."""
    wanted = {(stem, suffix) for stem in stems for suffix in settings.list_plugins("readers")}
    found = sorted(name for name in _listing(folder) if stem_and_type(name) in wanted)
    if len(found) > 1:
        raise BadInput(f"{folder} has both {found[0]} and {found[1]}; keep one of them")
    return folder / found[0] if found else None


def _listing(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError as error:
        raise BadInput(f"cannot read the folder {folder}: {reason(error)}") from None
