"""Where facts come from: files by their suffix, patterns of names, tables, graphs of other libraries."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from tuplet import settings
from tuplet.errors import BadInput, hint, unknown
from tuplet.files import reason
from tuplet.read.columns import Choice
from tuplet.read.facts import FactColumns
from tuplet.read.load import PACKED
from tuplet.read.tables import of_frame, of_table, of_tuples

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
