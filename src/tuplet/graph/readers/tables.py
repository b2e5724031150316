"""Facts from Parquet files, Arrow tables, data frames and tuples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tuplet.errors import BadInput, Option
from tuplet.graph.readers.columns import ALL_ROLES, ROLES, Choice, known_columns, places
from tuplet.graph.readers.dates import seconds_of
from tuplet.graph.readers.facts import FactColumns

_BATCH = 1 << 18  # rows


def read_parquet(path: Path, columns: Choice | None = None) -> Iterator[FactColumns]:
    """The facts of a Parquet file, some at a time; only the columns that matter are read."""
    if path.suffix.lower() == ".gz":
        raise BadInput(f"{path}: Parquet is compressed inside; unpack the .gz")
    seen = 0
    try:
        with pq.ParquetFile(path) as file:
            role = _roles(str(path), file.schema_arrow.names, columns)
            names = [file.schema_arrow.names[i] for i in role.values()]
            for batch in file.iter_batches(_BATCH, columns=names):
                table = pa.Table.from_batches([batch]).select(names).rename_columns(list(role))
                yield of_table(str(path), table, before=seen)
                seen += len(batch)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]})") from None
    if not seen:
        raise BadInput(f"{path}: no facts")


def of_table(where: str, table: pa.Table, columns: Choice | None = None, before: int = 0) -> FactColumns:
    """The facts of an Arrow table; `where` is its name in errors, which count rows from `before` on."""
    role = _roles(where, table.column_names, columns)
    if not len(table):
        raise BadInput(f"{where}: no facts")
    head, relation, tail = (_names(where, r, table.column(role[r]), before) for r in ROLES)
    truth = None
    if "truth" in role:
        try:
            column = table.column(role["truth"]).cast(pa.float64())
        except pa.ArrowException:
            raise BadInput(f"{where}: the truth column holds something that is not a number") from None
        truth = column.to_numpy().astype(np.float64)
        bad = np.flatnonzero(~((truth >= 0) & (truth <= 1)))
        if len(bad):
            raise BadInput(f"{where}, row {before + bad[0] + 1}: the truth {truth[bad[0]]} is outside [0, 1]")
    date = seconds_of(where, table.column(role["date"])) if "date" in role else None
    return FactColumns(head, relation, tail, truth, date)


def of_frame(frame: Any, columns: Choice | None = None) -> FactColumns:
    """The facts of a pandas DataFrame."""
    try:
        table = pa.Table.from_pandas(frame.rename(columns=str), preserve_index=False)
    except (pa.ArrowException, ValueError) as error:
        raise BadInput(f"the DataFrame cannot be read: {str(error).splitlines()[0]}") from None
    return of_table("the DataFrame", table, columns)


def of_tuples(facts: Iterable[Any]) -> FactColumns:
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


def _roles(where: str, names: Sequence[str], columns: Choice | None) -> dict[str, int]:
    if columns is not None:
        return places(where, names, columns)
    role = known_columns(names)
    if not role and list(names) in (["0", "1", "2"], ["0", "1", "2", "3"]):
        role = dict(zip(ALL_ROLES, range(len(names)), strict=False))
    if not role:
        found = ", ".join(map(repr, names[:10]))
        raise BadInput(
            f"{where} needs the columns head, relation and tail (perhaps truth); it has {found}; name them with ",
            Option("columns", None),
        )
    return role


def _names(where: str, role: str, column: pa.ChunkedArray, before: int) -> pa.ChunkedArray:
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
        row = before + pc.index(missing, True).as_py() + 1
        raise BadInput(f"{where}, row {row}: the {role} is empty")
    return strings
