"""Bring your own graph: files, folders, tables and tuples in, a `KnowledgeGraph` out."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pyarrow as pa

from tuplet import settings
from tuplet.errors import BadInput, hint, unknown
from tuplet.files import kind_of, make_folder, reason, system_errors
from tuplet.graph.adjacency import ArraySink, GrowingArrays
from tuplet.graph.arrays import directory_writer
from tuplet.graph.graph import KIND, GraphWriter, KnowledgeGraph, graph_of_arrays
from tuplet.read.facts import FactCollector, FactColumns, ImportReport, NameList
from tuplet.read.mapping import Choice, Columns, choice_of
from tuplet.read.tables import of_frame, of_table, of_tuples
from tuplet.read.text import DELIMITERS, PACKED, lone_header, read_names

Source: TypeAlias = Any  # a path, a pattern of paths, a DataFrame, an Arrow table, tuples, or a list of the former
PathLike: TypeAlias = str | os.PathLike[str]

_LIBRARIES = ("pandas", "polars", "networkx", "rdflib", "pyoxigraph", "duckdb", "_duckdb", "ladybug")


def each_source(source: Source) -> list[Source]:
    """The sources that a source stands for: the files of a pattern, the members of a list."""
    if is_path(source):
        return _matching(os.fspath(source))
    if isinstance(source, list | tuple) and source and all(map(_stands_alone, source)):
        return [one for several in source for one in each_source(several)]
    return [source]


def fact_batches(source: Source, choice: Choice | None = None, nodes: bool = False) -> Iterator[FactColumns]:
    """What one source says, some at a time; the rows of `nodes` are about entities."""
    if is_path(source):
        path = Path(source)
        reader = settings.find_plugin("readers", suffix_of(path))
        if nodes:
            if "nodes" not in signature(reader).parameters:
                raise BadInput(f"{path}: nodes are read from tables (.csv, .tsv, .parquet), or with the facts")
            yield from fact_batches(reader(path, choice, nodes=True))
        else:
            yield from fact_batches(reader(path, choice))
        return
    package = type(source).__module__.split(".")[0]
    if isinstance(source, FactColumns):
        yield source
    elif isinstance(source, pa.Table):
        yield from of_table("the table", source, choice, nodes)
    elif package == "pandas" and hasattr(source, "columns"):
        yield from of_frame(source, choice, nodes)
    elif package == "networkx":
        from tuplet.read.property_graphs import of_networkx

        yield of_networkx(source, choice)
    elif hasattr(source, "__arrow_c_stream__"):  # polars, DuckDB relations and others
        yield from of_table(f"the {type(source).__name__}", pa.table(source), choice, nodes)
    elif package in ("duckdb", "_duckdb"):
        from tuplet.read.databases import of_duckdb

        yield from of_duckdb(source, choice)
    elif package == "ladybug":
        from tuplet.read.databases import of_ladybug

        yield from of_ladybug(source)
    elif package in ("rdflib", "pyoxigraph") and isinstance(source, Iterable):
        from tuplet.read.rdf import of_graph

        yield from of_graph(source)
    elif isinstance(source, Iterable):
        facts = iter(source)
        first = next(facts, None)
        if isinstance(first, FactColumns):
            yield from chain([first], facts)
        else:
            yield from of_tuples(facts if first is None else chain([first], facts))
    else:
        raise BadInput(f"cannot read facts from a {type(source).__name__}; give a path, table, DataFrame or tuples")


def is_path(source: Source) -> bool:
    """Whether it is the name of a file or folder."""
    return isinstance(source, (str, os.PathLike))


def _stands_alone(source: Source) -> bool:
    """Whether a member of a list is a source and no fact."""
    return is_path(source) or isinstance(source, pa.Table) or type(source).__module__.split(".")[0] in _LIBRARIES


def _matching(path: str) -> list[Source]:
    if os.path.exists(path) or not glob.has_magic(path):
        return [path]
    found = sorted(glob.glob(path))
    if not found:
        raise BadInput(f"no file is called like {path}")
    return list(found)


def suffix_of(path: Path) -> str:
    """The type of a file by its name, without `.gz`; the file must exist. A table of a database follows a colon."""
    database = str(path).rpartition(":")[0]
    if database.lower().endswith(".duckdb") and os.path.exists(database) and not os.path.exists(path):
        return ".duckdb"
    if not os.path.exists(path):  # unlike Path.exists, also for names no system allows
        raise BadInput(f"no such file: {path}{_near_file(path)}")
    if os.path.isdir(path):
        raise BadInput(f"{path} is a folder where a file is expected")
    suffix = _stem_and_type(path.name)[1]
    known = settings.list_plugins("readers")
    if suffix not in known:
        raise unknown("file type", path.suffix, known, f"of {path} is not known")
    return suffix


def _near_file(path: Path) -> str:
    if not os.path.isdir(path.parent):
        return f" (the folder {path.parent} does not exist)"
    return hint(path.name, _listing(path.parent), lambda name: str(path.parent / name))


def folder_file(folder: Path, stems: Sequence[str]) -> Path | None:
    """The file of a dataset folder with one of these names and a known type, if there is one."""
    wanted = {(stem, suffix) for stem in stems for suffix in settings.list_plugins("readers")}
    found = sorted(name for name in _listing(folder) if _stem_and_type(name) in wanted)
    if len(found) > 1:
        raise BadInput(f"{folder} has both {found[0]} and {found[1]}; keep one of them")
    return folder / found[0] if found else None


def _stem_and_type(name: str) -> tuple[str, str]:
    name = name.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return os.path.splitext(name)


def _listing(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError as error:
        raise BadInput(f"cannot read the folder {folder}: {reason(error)}") from None


_LONG_HEADER = 1 << 16  # bytes of a file that is only a header, at most
_FOLDER_NAMES = {"train": ("train",), "valid": ("valid", "dev"), "test": ("test",)}


def read(
    source: Source,
    valid: Source | None = None,
    test: Source | None = None,
    labels: PathLike | Sequence[PathLike] = (),
    columns: Columns | None = None,
    memory: int | None = None,
    header: bool | None = None,
    nodes: Source = (),
) -> KnowledgeGraph:
    """The graph of files, a dataset folder, a DataFrame, an Arrow table or an iterable of tuples.

    A source may be a list of files or tables, or a pattern such as `facts/*.csv`. `columns` says which column is what
    where their own names do not: {"head": "drug", "relation": "does", "tail": "gene", "truth": "score", "date":
    "seen"}, the same as text (`head=drug,…`), or a list of three or four names; of a table with a row for each entity
    {"id": "drug", "relation": ["targets", "treats"], "attribute": "*"}. In a file without a header columns are numbers,
    from 1; `header` says whether the first line is one. A date is kept with the fact. `nodes` are tables of entities:
    an id, perhaps a label and types, attributes. Beyond `memory` bytes (by default a share of the machine's) facts wait
    on disk, and the graph that is returned lies there too.

    >>> graph = read([("paris", "capital_of", "france"), ("lyon", "in", "france")])
    >>> len(graph.entities), len(graph.relations), graph.adjacency.edges
    (3, 2, 2)
    """
    return read_with_report(source, valid, test, labels, columns, memory, header, nodes)[0]


def read_with_report(
    source: Source,
    valid: Source | None = None,
    test: Source | None = None,
    labels: PathLike | Sequence[PathLike] = (),
    columns: Columns | None = None,
    memory: int | None = None,
    header: bool | None = None,
    nodes: Source = (),
) -> tuple[KnowledgeGraph, ImportReport]:
    """The graph and what the import found: sizes, duplicates, self-loops, labels."""
    gathered = _gather((source, valid, test), labels, columns, memory, header, nodes, None)
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
    header: bool | None = None,
    nodes: Source = (),
) -> ImportReport:
    """Write the graph of a source as a directory and say what was found; see `read`."""
    folder = Path(os.path.realpath(path)).parent
    with system_errors(path):
        make_folder(folder)
    return _gather((source, valid, test), labels, columns, memory, header, nodes, folder).save(Path(path), force)


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
    splits: tuple[Source, Source, Source],
    labels: PathLike | Sequence[PathLike],
    columns: Columns | None,
    memory: int | None,
    header: bool | None,
    nodes: Source,
    place: Path | None,
) -> _Gathered:
    if splits[0] is None:
        raise BadInput("nothing to read: give a file, a folder, a data frame, an Arrow table or tuples")
    choice = choice_of(columns, header)
    entity_list = relation_list = None
    sources = dict(zip(("train", "valid", "test"), splits, strict=True))
    if is_path(splits[0]) and os.path.isdir(splits[0]):
        folder = Path(splits[0])
        for split, given in sources.items():
            if split == "train" or given is None:
                sources[split] = folder_file(folder, _FOLDER_NAMES[split])
        if sources["train"] is None:
            raise BadInput(_no_train(folder))
        entity_list, relation_list = (_listed(folder_file(folder, (stem,))) for stem in ("entities", "relations"))
    facts = FactCollector(memory, place)
    nodes_given = not _is_nothing(nodes)
    blank = 0  # nodes without a name so far: those of two files are never the same
    for name, given in sources.items():
        for source in [] if given is None or (nodes_given and _is_nothing(given)) else each_source(given):
            if header_names := _lone_header(source):
                choice = replace(Choice() if choice is None else choice, names=header_names)
                continue
            unnamed = 0
            for part in fact_batches(source, choice):
                facts.add(name, part.after_blank(blank))
                unnamed = max(unnamed, part.blank_nodes)
            blank += unnamed
    for table in each_source(nodes) if nodes_given else []:
        for part in fact_batches(table, None if choice is None else Choice(split=choice.split), nodes=True):
            facts.add("train", part)
    if facts.empty and not nodes_given:
        raise BadInput(f"{splits[0] if is_path(splits[0]) else 'the source'}: no facts, only attributes of entities")
    files = [labels] if isinstance(labels, (str, os.PathLike)) else list(labels)
    names = _merge([_read_names(Path(file)) for file in files])
    return _Gathered(facts, entity_list, relation_list, names)


def _lone_header(source: Source) -> tuple[str, ...]:
    """The column names of a file that is the header of others, as Neo4j's importer takes them."""
    if not is_path(source) or DELIMITERS.get(suffix_of(Path(source))) is None or os.path.getsize(source) > _LONG_HEADER:
        return ()
    return lone_header(Path(source), DELIMITERS[suffix_of(Path(source))])


def _is_nothing(source: Source) -> bool:
    return source is None or (isinstance(source, list | tuple) and not source)


def _no_train(folder: Path) -> str:
    kind = kind_of(folder)
    if kind is not None:
        return f"{folder} is a {kind} already; import reads facts"
    return f"{folder} has no train file (train.tsv, train.tsv.gz, train.txt, train.csv, train.parquet, train.nt, …)"


def _listed(path: Path | None) -> NameList | None:
    return None if path is None else _read_names(path)


def _read_names(path: Path) -> NameList:
    suffix = suffix_of(path)
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
