"""Bring your own graph: files, folders, tables and tuples in, a `KnowledgeGraph` out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tuplet.errors import BadInput
from tuplet.files import kind_of, make_folder, system_errors
from tuplet.graph.array_folder import directory_writer
from tuplet.graph.graph import KIND, KnowledgeGraph
from tuplet.graph.graph_writer import GraphWriter, graph_of_arrays
from tuplet.graph.views import ArraySink, GrowingArrays
from tuplet.read.columns import Choice, Columns, choice_of
from tuplet.read.facts import FactCollector, ImportReport, NameList
from tuplet.read.headers import lone_header
from tuplet.read.sources import PathLike, Source, each_source, fact_batches, folder_file, is_path, suffix_of
from tuplet.read.text import DELIMITERS, read_names

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
