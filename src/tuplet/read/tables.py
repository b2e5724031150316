"""From an Arrow table and a layout to facts, attributes, labels and types; and the tables of Parquet files, data frames
and tuples.

Remarks say what may not be meant so; nothing is changed. They have no counts of rows that were read in parts: a large
file is, and a remark on several parts is shown once.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuplet.errors import BadInput, Option
from tuplet.read.cells import (
    MISSING,
    NO_ROW,
    BadRow,
    cast_dates,
    cast_words,
    infer_values,
    is_text,
    join_chunks,
    normalize,
)
from tuplet.read.facts import AttributeBatch, FactColumns
from tuplet.read.mapping import (
    ALL_ROLES,
    ROLES,
    TYPE_RELATION,
    Choice,
    TableLayout,
    find_layout,
    layout_of_names,
    plain_layout,
    unused_remark,
)

ByPlace: TypeAlias = Mapping[int, pa.Array | pa.ChunkedArray]  # the columns of a table by their place

LEAVES_OUT = "; missing= among the columns leaves such rows out"
_BATCH = 1 << 18  # rows of a Parquet file
_WORDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "date": "a day",
    "time": "a time",
}
_CODED = pa.dictionary(pa.int32(), pa.large_string())
_LIKE_MISSING = pa.concat_arrays([MISSING, pa.array(["-", "--", "?", "."], pa.large_string())])
_MANY = 20  # cells: of fewer, it says little that each holds something else
_LOOKED_AT = 100_000  # cells
# How some write what would be numbers or days, and how that is written here.
_SPELLINGS = (
    (r"^([+-]?[0-9]+),([0-9]+)$", r"\1.\2", "numbers"),
    (r"^([0-3][0-9])[.]([01][0-9])[.]([0-9]{4})$", r"\3-\2-\1", "days"),
)


# --- rows --------------------------------------------------------------------------------------------------------


def read_rows(
    where: str, tables: Iterable[pa.Table], layout: TableLayout, place: Callable[[int], str], text: bool = False
) -> Generator[FactColumns, None, int]:
    """The facts of tables that follow each other, whose columns are called by their places; returns how many rows.

    Errors name a row as `place` does. In a `text` file the cells are words whose kind must be found out.
    """
    before = 0
    for table in tables:
        columns = {int(name): table.column(name) for name in table.column_names}
        try:
            yield from _read_part(where, columns, layout, text)
        except BadRow as error:
            raise BadInput(f"{where if error.row == NO_ROW else place(before + error.row)}: {error.message}") from None
        before += len(table)
    return before


def _read_part(where: str, columns: ByPlace, layout: TableLayout, text: bool) -> Iterator[FactColumns]:
    """The facts of some rows: of one layout, and of the layout that other rows have."""
    columns, remarks = _clean(where, columns, layout)
    part: TableLayout | None = layout
    while part is not None:
        make = _by_entity if "id" in part.role else _by_fact
        if part.only is None:
            yield make(where, columns, part, text).with_remarks(*remarks)
        elif len(rows := pc.indices_nonzero(_is_filled(cast_names("", columns[part.only], needed=False)))):
            try:
                yield make(where, {i: columns[i].take(rows) for i in part.used}, part, text).with_remarks(*remarks)
            except BadRow as error:
                raise BadRow(rows[error.row].as_py() if error.row >= 0 else NO_ROW, error.message) from None
        part = part.also


def _is_filled(cells: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Which cells hold something."""
    there = pc.is_valid(cells)
    return pc.and_(there, pc.fill_null(pc.not_equal(cells, ""), False)) if is_text(cells.type) else there


def _clean(where: str, columns: ByPlace, layout: TableLayout) -> tuple[ByPlace, list[str]]:
    """The columns without spaces around texts, if asked for; where words stand for nothing, with empty cells instead,
    and only the rows that have the names they need."""
    if layout.trim:
        columns = {i: join_chunks(column) for i, column in columns.items()}
        columns = {i: pc.utf8_trim_whitespace(c) if is_text(c.type) else c for i, c in columns.items()}
    if not layout.missing:
        return columns, []
    found: dict[int, pa.Array] = {}
    for i, column in columns.items():
        cells = join_chunks(column)
        if is_text(cells.type):
            words = pa.array(layout.missing, cells.type)
            cells = pc.if_else(pc.is_in(cells, words), pa.scalar("", cells.type), cells)
        found[i] = cells
    needed = [found[layout.role[role]] for role in ("head", "relation", "tail", "id") if role in layout.role]
    there = np.logical_and.reduce([_is_filled(cells).to_numpy(zero_copy_only=False) for cells in needed])
    if there.all():
        return found, []
    left_out, rows = int(np.count_nonzero(~there)), pa.array(np.flatnonzero(there))
    remark = f"{left_out:,} {'row' if left_out == 1 else 'rows'} without a name where one is needed, left out"
    return {i: cells.take(rows) for i, cells in found.items()}, [f"{where}: {remark}"]


def _by_fact(where: str, columns: ByPlace, layout: TableLayout, text: bool) -> FactColumns:
    role = layout.role
    head, tail = (_in_space(layout, end, cast_names(end, columns[role[end]])) for end in ("head", "tail"))
    remarks = [*_remark_missing(where, "head", head), *_remark_missing(where, "tail", tail)]
    if "relation" in role:
        relation = cast_names("relation", columns[role["relation"]])
        remarks += _remark_missing(where, "relation", relation, "a relation")
    else:
        relation = pa.chunked_array([_repeat(layout.relation_name, len(head))])
        plain = {name: join_chunks(end).cast(pa.large_string()) for name, end in (("head", head), ("tail", tail))}
        remarks += _remark_shared(where, plain)
    truth = cast_truth(columns[role["truth"]]) if "truth" in role else None
    date = cast_dates(columns[role["date"]]) if "date" in role else None
    values, more = _attributes(where, columns, layout, text, None)
    return FactColumns(head, relation, tail, truth, date, values=values, remarks=(*remarks, *more))


def _by_entity(where: str, columns: ByPlace, layout: TableLayout, text: bool) -> FactColumns:
    names = cast_names("id", columns[layout.role["id"]])
    ids = join_chunks(_in_space(layout, "id", names)).cast(pa.large_string())
    facts: list[tuple[pa.Array, str, pa.Array]] = []
    remarks: list[str] = []
    for name, place in layout.relations:
        heads, tails = _link(ids, cast_names(name, columns[place], needed=False), layout.split)
        facts.append((heads, name, tails))
        if text and not layout.split:
            remarks += _remark_lists(where, name, tails)
        remarks += _remark_missing(where, name, tails)
        if name in layout.unnamed:
            remarks += _remark_values(where, name, tails)
    remarks += _remark_shared(where, {"id": ids} | {name: tails for _, name, tails in facts})
    typed = len(facts)
    if "type" in layout.role:
        heads, types = _link(ids, cast_names("type", columns[layout.role["type"]], needed=False), layout.split)
        facts.append((heads, TYPE_RELATION, types))
    if layout.type_name:
        facts.append((ids, TYPE_RELATION, _repeat(layout.type_name, len(ids)).cast(pa.large_string())))
    labels = {}
    if layout.spaces.get("id"):
        labels = dict(zip(ids.to_pylist(), names.to_pylist(), strict=True))
    if "label" in layout.role:
        heads, texts = _link(ids, cast_names("label", columns[layout.role["label"]], needed=False), "")
        labels |= dict(zip(heads.to_pylist(), texts.to_pylist(), strict=True))
    values, more = _attributes(where, columns, layout, text, ids)
    remarks += _remark_mixed(where, ids, {batch.name: batch.values for batch in values})
    head, tail = (pa.chunked_array([part[i] for part in facts], pa.large_string()) for i in (0, 2))
    relation = pa.chunked_array([_repeat(name, len(heads)) for heads, name, _ in facts], _CODED)
    notes = {"type_relation": TYPE_RELATION} if len(facts) > typed else {}
    return FactColumns(
        head, relation, tail, labels=labels, values=values, nodes=ids, remarks=(*remarks, *more), notes=notes
    )


def _repeat(name: str, count: int) -> pa.Array:
    """One name many times."""
    return pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array([name], pa.large_string()))


def _in_space(layout: TableLayout, role: str, names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Names of an id space begin with its name: the same id in two spaces is of two entities."""
    space = layout.spaces.get(role)
    if not space:
        return names
    before, between = (pa.scalar(text, names.type) for text in (f"{space}:", ""))
    return pc.binary_join_element_wise(before, names, between)


def _link(ids: pa.Array, cells: pa.ChunkedArray, split: str) -> tuple[pa.Array, pa.Array]:
    """Each id with what its cell holds, or with each of several values there."""
    cells = join_chunks(cells).cast(pa.large_string())
    if split:
        parts = pc.split_pattern(cells, split)
        ids = ids.take(pc.list_parent_indices(parts))
        cells = pc.utf8_trim_whitespace(pc.list_flatten(parts))
    some = _is_filled(cells)
    return ids.filter(some), cells.filter(some)


def _attributes(
    where: str, columns: ByPlace, layout: TableLayout, text: bool, ids: pa.Array | None
) -> tuple[tuple[AttributeBatch, ...], list[str]]:
    """The attributes of facts, or of the entities with these ids; and remarks on them."""
    found: list[AttributeBatch] = []
    remarks: list[str] = []
    for name, place in layout.attributes.items():
        cells, others = join_chunks(columns[place]), None
        if not text:
            values = normalize(cells)
            if values is None:
                remarks.append(f"{where}: column {name!r} of type {cells.type} not read: it holds no plain values")
        elif name in layout.lists:
            values = _lists(name, cells, layout)
        elif name in layout.kinds:
            values = _without_empty(_cast_said(name, cells, layout, cells))
        else:
            values, others = infer_values(cells)
            remarks += _remark_spellings(where, name, cells)
        if values is not None and values.null_count < len(values):
            found.append(AttributeBatch(name, values, ids))
        if others is not None:
            found.append(AttributeBatch(name, others, ids))
            example = others.drop_null()[0].as_py()
            odd = len(others) - others.null_count
            remarks.append(f"{where}: {odd:,} of {len(others):,} values of {name!r} are texts, such as {example!r}")
    return tuple(found), remarks


def _cast_said(name: str, words: pa.Array, layout: TableLayout, cells: pa.Array) -> pa.Array:
    """Words of cells as values of the kind that the header names."""
    kind = layout.kinds[name]
    values, bad = cast_words(words, kind)
    if bad is not None:
        row = pc.index(cells, bad) if words is cells else pc.index(pc.match_substring(cells, bad), True)
        raise BadRow(row.as_py(), f"{name}: {bad!r} is not {_WORDS[kind]}")
    return values


def _without_empty(values: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values) if is_text(values.type) else values


def _lists(name: str, cells: pa.Array, layout: TableLayout) -> pa.Array:
    """Several values in a cell; no value is empty."""
    parts = pc.split_pattern(cells.cast(pa.large_string()), layout.split)
    inner = pc.utf8_trim_whitespace(parts.values)
    if name in layout.kinds:
        values = _cast_said(name, inner, layout, cells)
    else:
        values, others = infer_values(inner)
        values = inner if others is not None or pa.types.is_dictionary(values.type) else values
    return pa.ListArray.from_arrays(parts.offsets, _without_empty(values))


def cast_names(role: str, column: pa.Array | pa.ChunkedArray, needed: bool = True) -> pa.ChunkedArray:
    """The names in a column; a missing one is an error if it is needed."""
    column = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        known = column.drop_null()
        if not pc.all(pc.equal(pc.round(known), known)).as_py():
            raise BadRow(NO_ROW, f"the {role} column holds numbers with fractions, not names")
        column = column.cast(pa.int64())  # a missing number makes whole ones floating
    try:
        strings = column if pa.types.is_string(column.type) else column.cast(pa.large_string())
    except pa.ArrowException:
        raise BadRow(NO_ROW, f"the {role} column of type {column.type} does not hold names") from None
    if needed and strings.null_count:
        raise BadRow(pc.index(pc.is_null(strings), True).as_py(), f"the {role} is missing{LEAVES_OUT}")
    if needed and len(strings) and pc.min(pc.binary_length(strings)).as_py() == 0:
        raise BadRow(pc.index(strings, "").as_py(), f"the {role} is empty{LEAVES_OUT}")
    return strings


def cast_truth(column: pa.Array | pa.ChunkedArray) -> NDArray[np.float64]:
    """Truth values."""
    try:
        numbers = column.cast(pa.float64())
    except pa.ArrowException:
        raise BadRow(NO_ROW, "the truth column holds something that is not a number") from None
    truth: NDArray[np.float64] = join_chunks(numbers).to_numpy(zero_copy_only=False).astype(np.float64)
    bad = np.flatnonzero(~((truth >= 0) & (truth <= 1)))
    if len(bad):
        row = int(bad[0])
        missing = numbers[row].as_py() is None
        raise BadRow(row, "the truth is missing" if missing else f"the truth {truth[row]:g} is outside [0, 1]")
    return truth


# --- remarks -----------------------------------------------------------------------------------------------------


def _remark_lists(where: str, name: str, tails: pa.Array) -> list[str]:
    """The remark on cells that look as if they held several names."""
    for mark in (";", "|", ","):
        found = pc.sum(pc.match_substring(tails, mark)).as_py() or 0
        if not found:
            continue
        if mark == ",":
            # A comma may be part of a name; it stands between names if what is on its sides comes again and again.
            parts = pc.utf8_trim_whitespace(pc.list_flatten(pc.split_pattern(tails, ",")))
            if pc.count_distinct(parts).as_py() >= pc.count_distinct(tails).as_py():
                continue
        held = f"1 cell of {name!r} holds" if found == 1 else f"{found:,} cells of {name!r} hold"
        return [f"{where}: {held} {mark!r}; split={mark} among the columns reads several names"]
    return []


def _remark_missing(where: str, name: str, cells: pa.Array | pa.ChunkedArray, what: str = "an entity") -> list[str]:
    """The remark on cells that say that there is nothing."""
    words = cells.filter(pc.is_in(cells, _LIKE_MISSING.cast(cells.type)))
    return [
        f"{where}: cells of {name!r} hold {word!r}, which is {what} like any other; "
        f"missing={word} among the columns reads them as empty"
        for word in pc.unique(words).to_pylist()[:1]
    ]


def _remark_values(where: str, name: str, cells: pa.Array) -> list[str]:
    """The remark on a column that nobody called a relation, if it seems to hold values."""
    if not len(cells):
        return []
    values, others = infer_values(cells)
    t, keeps = pa.types, f"attribute={name} among the columns keeps them as values"
    if others is None:
        number = t.is_integer(values.type) or t.is_floating(values.type)
        if number or t.is_date(values.type) or t.is_timestamp(values.type):
            what = "numbers" if number else "dates"
            return [f"{where}: {name!r} holds {what}, and each is an entity now; {keeps} that compare"]
    if len(cells) >= _MANY and 10 * pc.count_distinct(cells).as_py() >= 9 * len(cells):
        return [f"{where}: {name!r} holds something else in nearly every row, so nothing is learnt from it; {keeps}"]
    return []


def _remark_mixed(where: str, ids: pa.Array, attributes: Mapping[str, pa.Array]) -> list[str]:
    """The remark on ids that have several rows with different values: which of these came together is lost."""
    ids = ids[:_LOOKED_AT]
    if pc.count_distinct(ids).as_py() == len(ids):
        return []
    for name, values in attributes.items():
        if pa.types.is_nested(values.type):
            continue
        plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        rows = pa.table({"id": ids, "value": plain[:_LOOKED_AT]})
        distinct = rows.group_by("id").aggregate([("value", "count_distinct", pc.CountOptions("only_valid"))])
        several = distinct.filter(pc.greater(distinct["value_count_distinct"], 1))
        if len(several):
            return [
                f"{where}: {several['id'][0].as_py()!r} has several rows with different {name!r}, and which value is "
                "of which row is lost; if a row is an event, give it an id of its own, or read facts, which keep their "
                f"values: head=…,RELATION=…,attribute={name}"
            ]
    return []


def _remark_spellings(where: str, name: str, cells: pa.Array) -> list[str]:
    """The remark on values that are texts only because numbers or days are written in another way here."""
    some = cells[:_LOOKED_AT].cast(pa.large_string()).drop_null()
    some = some.filter(pc.not_equal(some, ""))
    for pattern, spelling, what in _SPELLINGS:
        like = pc.match_substring_regex(some, pattern)
        if len(some) and 2 * (pc.sum(like).as_py() or 0) > len(some):
            example = some.filter(like)[0].as_py()
            better = re.sub(pattern, spelling, example)
            return [
                f"{where}: {name!r} holds texts such as {example!r}; written {better} they are {what}, which compare"
            ]
    return []


def _remark_shared(where: str, columns: Mapping[str, pa.Array]) -> Iterator[str]:
    """The remarks on columns with some names in common, which are then one entity each.

    A few of many, or numbers, may be so by chance; people who know people are not.
    """
    names = {name: pc.unique(column[:_LOOKED_AT]) for name, column in columns.items()}
    for (one, left), (other, right) in combinations(list(names.items())[:8], 2):
        common = left.filter(pc.is_in(left, right))
        few = 10 * len(common) <= min(len(left), len(right))
        some = 10 * len(common) <= 9 * max(len(left), len(right))
        if len(common) and (few or (some and pc.all(pc.match_substring_regex(common, "^[0-9]+$")).as_py())):
            yield (
                f"{where}: {one!r} and {other!r} have names in common, such as {common[0].as_py()!r}, which are one "
                f"entity each; if they are not, write them differently, such as {other}-{common[0].as_py()}"
            )


# --- tables ------------------------------------------------------------------------------------------------------


def read_parquet(path: Path, columns: Choice | None = None, nodes: bool = False) -> Iterator[FactColumns]:
    """The contents of a Parquet file, some rows at a time; only the columns that matter are read."""
    if path.suffix.lower() in (".gz", ".zst"):
        raise BadInput(f"{path}: Parquet is compressed inside; unpack the {path.suffix}")
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            layout = _table_layout(str(path), names, columns, nodes)
            if not file.metadata.num_rows:
                raise BadInput(f"{path}: no facts")
            batches = file.iter_batches(_BATCH, columns=[names[i] for i in layout.used])
            yield from _read_tables(str(path), (pa.Table.from_batches([batch]) for batch in batches), layout)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]})") from None


def from_table(
    where: str, table: pa.Table, columns: Choice | None = None, nodes: bool = False
) -> Iterator[FactColumns]:
    """What an Arrow table says; `where` is its name in errors."""
    layout = _table_layout(where, table.column_names, columns, nodes)
    if not len(table):
        raise BadInput(f"{where}: no {'nodes' if nodes else 'facts'}")
    return from_layout(where, table, layout)


def from_layout(where: str, table: pa.Table, layout: TableLayout) -> Iterator[FactColumns]:
    """What an Arrow table of a known layout says."""
    return _read_tables(where, [table.select(layout.used)] if len(table) else [], layout)


def _read_tables(where: str, tables: Iterable[pa.Table], layout: TableLayout) -> Iterator[FactColumns]:
    """The facts of tables that have the columns of a layout and no others."""
    yield FactColumns(remarks=unused_remark(where, layout))
    placed = (table.rename_columns(list(map(str, layout.used))) for table in tables)
    yield from read_rows(where, placed, layout, lambda row: f"{where}, row {row + 1}")


def from_frame(frame: Any, columns: Choice | None = None, nodes: bool = False) -> Iterator[FactColumns]:
    """What a pandas DataFrame says."""
    try:
        named = frame.rename(columns=str)
        try:
            table = pa.Table.from_pandas(named, preserve_index=False)
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # some column is a mixture
            table = pa.table({name: _from_series(named[name]) for name in named.columns})
    except (pa.ArrowException, ValueError) as error:
        raise BadInput(f"the DataFrame cannot be read: {'; '.join(map(str, error.args))}") from None
    return from_table("the DataFrame", table, columns, nodes)


def _from_series(series: Any) -> pa.Array:
    """A column of a data frame; a mixture of plain values as texts, of anything else as structs, which nobody reads."""
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        values = [None if missing else value for value, missing in zip(series, series.isna(), strict=True)]
        if all(value is None or isinstance(value, str | int | float | datetime.date) for value in values):
            return pa.array([None if value is None else str(value) for value in values], pa.large_string())
        return pa.nulls(len(values), pa.struct([]))


def from_tuples(facts: Iterable[Any]) -> Iterator[FactColumns]:
    """The facts of tuples (head, relation, tail), perhaps with a truth."""
    columns: list[list[Any]] = []
    for number, fact in enumerate(facts, start=1):
        if isinstance(fact, str) or not isinstance(fact, Sequence) or len(fact) not in (3, 4):
            raise BadInput(f"fact {number}: expected a tuple of 3 or 4 values, got {fact!r}")
        columns = columns or [[] for _ in fact]
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
    return from_table("the facts", pa.table(arrays, names=ALL_ROLES[: len(arrays)]))


def _table_layout(where: str, names: Sequence[str], choice: Choice | None, nodes: bool) -> TableLayout:
    """Where everything stands in a table with columns of these names."""
    if choice is not None and choice.says_something:
        layout = find_layout(where, names, choice)
        if layout.role:
            return layout
    named = layout_of_names(where, names, choice, nodes)
    if named is None and list(names) in (["0", "1", "2"], ["0", "1", "2", "3"]):
        named = plain_layout(names, dict(zip(ALL_ROLES, range(len(names)), strict=False)))
    if named is None:
        found = ", ".join(map(repr, names[:10]))
        raise BadInput(
            f"{where} needs the columns head, relation and tail (perhaps truth); it has {found}; name them with ",
            Option("columns", None),
        )
    return named if choice is None else replace(named, missing=choice.missing, trim=choice.trim)
