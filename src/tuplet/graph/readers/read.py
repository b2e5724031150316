"""Bring your own graph: files, folders, tables and tuples in, a `KnowledgeGraph` out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tuplet.errors import BadInput, nearest
from tuplet.files import MANIFEST
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.readers.facts import ROLES, Facts, ImportReport, Names, assemble
from tuplet.graph.readers.rdf import FORMATS, BlankNodes, read_rdf
from tuplet.graph.readers.text import chosen_columns, known_columns, read_facts, read_names

__all__ = ["ImportReport", "read", "read_with_report"]

_DELIMITERS = {".tsv": "\t", ".txt": "\t", ".csv": ","}
_PARQUET = (".parquet", ".pq")
_TYPES = (*_DELIMITERS, *_PARQUET, *FORMATS)
_FOLDER_NAMES = {"train": ("train",), "valid": ("valid", "dev"), "test": ("test",)}

Source = Any  # a path, a pandas DataFrame, an Arrow table, or an iterable of tuples


def read(
    source: Source,
    valid: Source | None = None,
    test: Source | None = None,
    labels: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    columns: Sequence[str] | None = None,
) -> KnowledgeGraph:
    """The graph of a file, a dataset folder, a DataFrame, an Arrow table or an iterable of tuples.

    >>> graph = read([("paris", "capital_of", "france"), ("lyon", "in", "france")])
    >>> len(graph.entities), len(graph.relations), graph.adjacency.edges
    (3, 2, 2)
    """
    return read_with_report(source, valid, test, labels, columns)[0]


def read_with_report(
    source: Source,
    valid: Source | None = None,
    test: Source | None = None,
    labels: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    columns: Sequence[str] | None = None,
) -> tuple[KnowledgeGraph, ImportReport]:
    """The graph and what the import found: sizes, duplicates, self-loops, labels.

    `columns` names the columns of head, relation, tail and perhaps truth where their own names do not say it.
    """
    entity_list = relation_list = None
    sources = {"train": source, "valid": valid, "test": test}
    if _is_path(source) and os.path.isdir(source):
        folder = Path(source)
        for split, given in sources.items():
            if split == "train" or given is None:
                sources[split] = _folder_file(folder, _FOLDER_NAMES[split])
        if sources["train"] is None:
            raise BadInput(_no_train(folder))
        entity_list = _listed(_folder_file(folder, ("entities",)))
        relation_list = _listed(_folder_file(folder, ("relations",)))
    blank = BlankNodes()
    splits = {name: _facts(given, columns, blank) for name, given in sources.items() if given is not None}
    files = [labels] if isinstance(labels, (str, os.PathLike)) else list(labels)
    return assemble(splits, entity_list, relation_list, _merge([_read_names(Path(file)) for file in files]))


def _facts(source: Source, columns: Sequence[str] | None, blank: BlankNodes) -> Facts:
    if _is_path(source):
        return _file_facts(Path(source), columns, blank)
    if isinstance(source, pa.Table):
        return _table_facts("the table", source, columns)
    if type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "columns"):
        return _table_facts("the DataFrame", _from_pandas(source), columns)
    if isinstance(source, Iterable):
        return _tuple_facts(source)
    raise BadInput(f"cannot read facts from a {type(source).__name__}; give a path, table, DataFrame or tuples")


def _file_facts(path: Path, columns: Sequence[str] | None, blank: BlankNodes) -> Facts:
    suffix = _type_of(path)
    if suffix in _DELIMITERS:
        return read_facts(path, _DELIMITERS[suffix], columns)
    if suffix in FORMATS:
        return read_rdf(path, suffix, blank)
    try:
        with pq.ParquetFile(path) as file:
            role = _columns_of(str(path), file.schema_arrow.names, columns)
            names = [file.schema_arrow.names[i] for i in role.values()]
            table = file.read(columns=names)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]})") from None
    return _table_facts(str(path), table.select(names).rename_columns(list(role)), None)


def _table_facts(where: str, table: pa.Table, columns: Sequence[str] | None) -> Facts:
    role = _columns_of(where, table.column_names, columns)
    if not len(table):
        raise BadInput(f"{where}: no facts")
    head, relation, tail = (_name_column(where, r, table.column(role[r])) for r in ROLES)
    truth = None
    if "truth" in role:
        try:
            column = table.column(role["truth"]).cast(pa.float64())
        except pa.ArrowException:
            raise BadInput(f"{where}: the truth column holds something that is not a number") from None
        truth = column.to_numpy().astype(np.float64)
        bad = np.flatnonzero(~((truth >= 0) & (truth <= 1)))
        if len(bad):
            raise BadInput(f"{where}, row {bad[0] + 1}: the truth {truth[bad[0]]} is outside [0, 1]")
    return Facts(head, relation, tail, truth)


def _name_column(where: str, role: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_floating(column.type):
            raise BadInput(f"{where}: the {role} column holds numbers with fractions, not names")
        strings = column.cast(pa.large_string())
    except pa.ArrowException:
        raise BadInput(f"{where}: the {role} column of type {column.type} does not hold names") from None
    missing = pc.or_kleene(pc.is_null(strings), pc.equal(strings, ""))
    if pc.any(missing).as_py():
        row = pc.index(missing, True).as_py() + 1
        raise BadInput(f"{where}, row {row}: the {role} is empty")
    return pa.chunked_array([chunk.dictionary_encode() for chunk in strings.chunks])


def _columns_of(where: str, names: Sequence[str], columns: Sequence[str] | None) -> dict[str, int]:
    if columns is not None:
        return chosen_columns(where, names, columns)
    role = known_columns(names)
    if not role and list(names) in (["0", "1", "2"], ["0", "1", "2", "3"]):
        role = dict(zip((*ROLES, "truth"), range(len(names)), strict=False))
    if not role:
        found = ", ".join(map(repr, names[:10]))
        raise BadInput(f"{where} needs the columns head, relation and tail (perhaps truth); it has {found}")
    return role


def _from_pandas(frame: Any) -> pa.Table:
    try:
        return pa.Table.from_pandas(frame.rename(columns=str), preserve_index=False)
    except (pa.ArrowException, ValueError) as error:
        raise BadInput(f"the DataFrame cannot be read: {str(error).splitlines()[0]}") from None


def _tuple_facts(facts: Iterable[Any]) -> Facts:
    columns: list[list[Any]] = []
    for number, fact in enumerate(facts, start=1):
        if isinstance(fact, str) or not isinstance(fact, Sequence) or len(fact) not in (3, 4):
            raise BadInput(f"fact {number}: expected a tuple of 3 or 4 values, got {fact!r}")
        if not columns:
            columns = [[] for _ in fact]
        if len(fact) != len(columns):
            raise BadInput(f"fact {number}: {len(fact)} values where the first fact has {len(columns)}")
        for role, value in zip(ROLES, fact, strict=False):
            if not isinstance(value, (str, int, np.integer)) or isinstance(value, bool):
                raise BadInput(f"fact {number}: the {role} {value!r} is not a name")
        if len(fact) == 4 and not isinstance(fact[3], (int, float, np.floating, np.integer)):
            raise BadInput(f"fact {number}: the truth {fact[3]!r} is not a number")
        for column, value in zip(columns, fact, strict=True):
            column.append(value)
    if not columns:
        raise BadInput("no facts: the iterable is empty")
    try:
        arrays = [pa.array([str(name) for name in column], pa.large_string()) for column in columns[:3]]
    except UnicodeEncodeError as error:
        raise BadInput(f"the name {error.object!r} cannot be written as UTF-8") from None
    if len(columns) == 4:
        arrays.append(pa.array([float(truth) for truth in columns[3]], pa.float64()))
    names = [*ROLES, "truth"][: len(arrays)]
    return _table_facts("the facts", pa.table(arrays, names=names), None)


def _is_path(source: Source) -> bool:
    return isinstance(source, (str, os.PathLike))


def _type_of(path: Path) -> str:
    """The file type by its name, without `.gz`; the file must exist."""
    if not os.path.exists(path):  # unlike Path.exists, also for names no system allows
        raise BadInput(f"no such file: {path}{_near_file(path)}")
    if os.path.isdir(path):
        raise BadInput(f"{path} is a folder where a file is expected")
    suffix = _stem_and_type(path.name)[1]
    zipped_parquet = suffix in _PARQUET and path.name.lower().endswith(".gz")
    if suffix not in _TYPES or zipped_parquet:
        known = ", ".join(_TYPES)
        raise BadInput(f"{path}: unknown file type {path.suffix!r}; known are {known}, text types also with .gz")
    return suffix


def _near_file(path: Path) -> str:
    if not os.path.isdir(path.parent):
        return f" (the folder {path.parent} does not exist)"
    close = nearest(path.name, _listing(path.parent), 1)
    return f"; did you mean {path.parent / close[0]}?" if close else ""


def _folder_file(folder: Path, stems: Sequence[str]) -> Path | None:
    """The file of a dataset folder with one of these names and a known type, if there is one."""
    wanted = {(stem, suffix) for stem in stems for suffix in _TYPES}
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
        raise BadInput(f"cannot read the folder {folder}: {error.strerror}") from None


def _no_train(folder: Path) -> str:
    if (folder / MANIFEST).exists():
        return f"{folder} is a tuplet directory already; import reads facts, not graphs"
    return f"{folder} has no train file (train.tsv, train.tsv.gz, train.txt, train.csv, train.parquet, train.nt, …)"


def _listed(path: Path | None) -> Names | None:
    return None if path is None else _read_names(path)


def _read_names(path: Path) -> Names:
    suffix = _type_of(path)
    if suffix not in _DELIMITERS:
        raise BadInput(f"{path}: labels are read from .tsv, .txt or .csv files, not {suffix}")
    return read_names(path, _DELIMITERS[suffix])


def _merge(files: Sequence[Names]) -> Names | None:
    if not files:
        return None
    labels: dict[str, str] = {}
    for names in files:
        for name, label in names.labels.items():
            if not labels.get(name):
                labels[name] = label
    total = sum(len(names.labels) + names.repeated for names in files)
    return Names(labels, total - len(labels))
