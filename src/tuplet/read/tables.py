"""Facts from Parquet files, Arrow tables, data frames and tuples."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tuplet.errors import BadInput, Option
from tuplet.read.columns import ALL_ROLES, ROLES, Choice
from tuplet.read.facts import FactColumns
from tuplet.read.layouts import TableLayout, known_columns, layout_of, node_choice, plain, unused_remark
from tuplet.read.neo4j import is_neo4j_header, neo4j_layout
from tuplet.read.rows import NO_ROW, BadRow, facts_of

_BATCH = 1 << 18  # rows


def read_parquet(path: Path, columns: Choice | None = None, nodes: bool = False) -> Iterator[FactColumns]:
    """What a Parquet file says, some rows at a time; only the columns that matter are read."""
    if path.suffix.lower() in (".gz", ".zst"):
        raise BadInput(f"{path}: Parquet is compressed inside; unpack the {path.suffix}")
    seen = 0
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            layout = table_layout(str(path), names, columns, nodes)
            for batch in file.iter_batches(_BATCH, columns=[names[i] for i in layout.used]):
                yield from _parts(str(path), pa.Table.from_batches([batch]), names, layout, seen)
                seen += len(batch)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]})") from None
    if not seen:
        raise BadInput(f"{path}: no facts")


def of_table(where: str, table: pa.Table, columns: Choice | None = None, nodes: bool = False) -> Iterator[FactColumns]:
    """What an Arrow table says; `where` is its name in errors."""
    layout = table_layout(where, table.column_names, columns, nodes)
    if not len(table):
        raise BadInput(f"{where}: no {'nodes' if nodes else 'facts'}")
    return _parts(where, table, table.column_names, layout, 0)


def of_layout(where: str, table: pa.Table, layout: TableLayout) -> Iterator[FactColumns]:
    """What an Arrow table of a known layout says."""
    return _parts(where, table, table.column_names, layout, 0) if len(table) else iter(())


def _parts(
    where: str, table: pa.Table, names: Sequence[str], layout: TableLayout, before: int
) -> Iterator[FactColumns]:
    try:
        columns = {i: table.column(names[i]) for i in layout.used}
        for part in facts_of(where, columns, layout, text=False):
            yield part if before else part.said(*unused_remark(where, layout))
    except BadRow as error:
        row = "" if error.row == NO_ROW else f", row {before + error.row + 1}"
        raise BadInput(f"{where}{row}: {error.message}") from None


def of_frame(frame: Any, columns: Choice | None = None, nodes: bool = False) -> Iterator[FactColumns]:
    """What a pandas DataFrame says."""
    try:
        named = frame.rename(columns=str)
        try:
            table = pa.Table.from_pandas(named, preserve_index=False)
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # some column is a mixture
            table = pa.table({name: _of_series(named[name]) for name in named.columns})
    except (pa.ArrowException, ValueError) as error:
        raise BadInput(f"the DataFrame cannot be read: {'; '.join(map(str, error.args))}") from None
    return of_table("the DataFrame", table, columns, nodes)


def _of_series(series: Any) -> pa.Array:
    """A column of a data frame; a mixture of plain values as texts, of anything else as structs, which nobody reads."""
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        values = [None if missing else value for value, missing in zip(series, series.isna(), strict=True)]
        if all(value is None or isinstance(value, str | int | float | datetime.date) for value in values):
            return pa.array([None if value is None else str(value) for value in values], pa.large_string())
        return pa.nulls(len(values), pa.struct([]))


def of_tuples(facts: Iterable[Any]) -> Iterator[FactColumns]:
    """The facts of tuples (head, relation, tail), perhaps with a truth."""
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
    return of_table("the facts", pa.table(arrays, names=ALL_ROLES[: len(arrays)]))


def table_layout(where: str, names: Sequence[str], choice: Choice | None, nodes: bool) -> TableLayout:
    """Where everything stands in a table with columns of these names."""
    if choice is not None and choice.says_something:
        layout = layout_of(where, names, choice)
        if layout.role:
            return layout
    elif is_neo4j_header(names):
        return neo4j_layout(where, names)
    elif nodes:
        return layout_of(where, names, node_choice(names, choice), numbers_are_names=False)
    role = known_columns(names)
    if not role and list(names) in (["0", "1", "2"], ["0", "1", "2", "3"]):
        role = dict(zip(ALL_ROLES, range(len(names)), strict=False))
    if not role:
        found = ", ".join(map(repr, names[:10]))
        raise BadInput(
            f"{where} needs the columns head, relation and tail (perhaps truth); it has {found}; name them with ",
            Option("columns", None),
        )
    layout = plain(names, role)
    return layout if choice is None else replace(layout, missing=choice.missing, trim=choice.trim)
