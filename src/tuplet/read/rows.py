"""From the columns of a table to facts, attributes, labels and types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuplet.read.cells import inferred, normal, of_kind, whole
from tuplet.read.dates import seconds_of
from tuplet.read.doubts import like_missing, like_values, mixed, other_spellings, shared
from tuplet.read.facts import AttributeBatch, FactColumns
from tuplet.read.layouts import TYPE_RELATION, TableLayout

ByPlace: TypeAlias = Mapping[int, pa.Array | pa.ChunkedArray]  # the columns of a table by their place

_WORDS = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "date": "a day",
    "time": "a time",
}


NO_ROW = -1
LEAVES_OUT = "; missing= among the columns leaves such rows out"


class BadRow(Exception):
    """What is wrong in a row, which is counted from 0; NO_ROW: in a whole column."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row, self.message = row, message


def facts_of(where: str, columns: ByPlace, layout: TableLayout, text: bool) -> Iterator[FactColumns]:
    """All that some rows of a table say; in a `text` file the cells are words whose kind must be found out."""
    if layout.trim:
        trimmed = {place: _trimmed(whole(column)) for place, column in columns.items()}
        yield from facts_of(where, trimmed, replace(layout, trim=False), text)
        return
    if layout.missing:
        whole_rows, remarks = _without_missing(where, columns, layout)
        filled = replace(layout, missing=())
        yield from (part.said(*remarks) for part in facts_of(where, whole_rows, filled, text))
        return
    if layout.only is None:
        yield _said_by(where, columns, layout, text)
    else:
        there = names_of("", columns[layout.only], needed=False)
        rows = pc.indices_nonzero(pc.and_(pc.is_valid(there), pc.fill_null(pc.not_equal(there, ""), False)))
        if len(rows):
            try:
                yield _said_by(where, {i: columns[i].take(rows) for i in layout.used}, layout, text)
            except BadRow as error:
                raise BadRow(rows[error.row].as_py() if error.row >= 0 else NO_ROW, error.message) from None
    if layout.also is not None:
        yield from facts_of(where, columns, layout.also, text)


def _is_text(cells: pa.Array) -> bool:
    return bool(pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type))


def _trimmed(cells: pa.Array) -> pa.Array:
    return pc.utf8_trim_whitespace(cells) if _is_text(cells) else cells


def _without_missing(where: str, columns: ByPlace, layout: TableLayout) -> tuple[ByPlace, list[str]]:
    """The columns with empty cells where a word stands for nothing, and only the rows that have the names they need."""
    found: dict[int, pa.Array] = {}
    for i, column in columns.items():
        cells = whole(column)
        if _is_text(cells):
            words = pa.array(layout.missing, cells.type)
            cells = pc.if_else(pc.is_in(cells, words), pa.scalar("", cells.type), cells)
        found[i] = cells
    there: NDArray[np.bool_] | None = None
    for place in (layout.role[role] for role in ("head", "relation", "tail", "id") if role in layout.role):
        cells = found[place]
        some = pc.is_valid(cells)
        if _is_text(cells):
            some = pc.and_(some, pc.fill_null(pc.not_equal(cells, ""), False))
        kept = some.to_numpy(zero_copy_only=False)
        there = kept if there is None else there & kept
    if there is None or there.all():
        return found, []
    left_out = int(np.count_nonzero(~there))
    rows = pa.array(np.flatnonzero(there))
    return {i: cells.take(rows) for i, cells in found.items()}, [
        f"{where}: {left_out:,} {'row' if left_out == 1 else 'rows'} without a name where one is needed, left out"
    ]


def _said_by(where: str, columns: ByPlace, layout: TableLayout, text: bool) -> FactColumns:
    return _by_entity(where, columns, layout, text) if layout.by_entity else _by_fact(where, columns, layout, text)


def _by_fact(where: str, columns: ByPlace, layout: TableLayout, text: bool) -> FactColumns:
    role = layout.role
    ends = [_in_space(layout, r, names_of(r, columns[role[r]])) for r in ("head", "tail")]
    relation = (
        names_of("relation", columns[role["relation"]])
        if "relation" in role
        else _same(layout.relation_name, len(ends[0]))
    )
    truth = truth_of(columns[role["truth"]]) if "truth" in role else None
    date = seconds_of(where, _chunked(columns[role["date"]])) if "date" in role else None
    values, remarks = _attributes(where, columns, layout, text, None)
    said = [*like_missing(where, "head", ends[0]), *like_missing(where, "tail", ends[1])]
    if "relation" in role:
        said += like_missing(where, "relation", _chunked(relation), "a relation")
    else:
        plain = [whole(end).cast(pa.large_string()) for end in ends]
        said += shared(where, dict(zip(("head", "tail"), plain, strict=True)))
    remarks = (*said, *remarks)
    return FactColumns(ends[0], _chunked(relation), ends[1], truth, date, values=values, remarks=remarks)


def _by_entity(where: str, columns: ByPlace, layout: TableLayout, text: bool) -> FactColumns:
    ids = whole(_in_space(layout, "id", names_of("id", columns[layout.role["id"]]))).cast(pa.large_string())
    facts: list[tuple[pa.Array, str, pa.Array]] = []
    remarks: list[str] = []
    for name, place in layout.relations:
        heads, tails = _linked(ids, names_of(name, columns[place], needed=False), layout.split)
        facts.append((heads, name, tails))
        if text and not layout.split:
            remarks += _several(where, name, tails)
        remarks += like_missing(where, name, tails)
        if name in layout.unnamed:
            remarks += like_values(where, name, tails)
    remarks += shared(where, {"id": ids} | {name: tails for _, name, tails in facts})
    notes = {}
    if "type" in layout.role:
        heads, types = _linked(ids, names_of("type", columns[layout.role["type"]], needed=False), layout.split)
        facts.append((heads, TYPE_RELATION, types))
        notes["type_relation"] = TYPE_RELATION
    if layout.type_name:
        facts.append((ids, TYPE_RELATION, _same(layout.type_name, len(ids)).cast(pa.large_string())))
        notes["type_relation"] = TYPE_RELATION
    labels = {}
    if "label" in layout.role:
        heads, texts = _linked(ids, names_of("label", columns[layout.role["label"]], needed=False), "")
        labels = dict(zip(heads.to_pylist(), texts.to_pylist(), strict=True))
    if layout.spaces.get("id"):
        plain = whole(names_of("id", columns[layout.role["id"]])).to_pylist()
        labels = dict(zip(ids.to_pylist(), plain, strict=True)) | labels
    values, said = _attributes(where, columns, layout, text, ids)
    remarks += mixed(where, ids, {batch.name: batch.values for batch in values})
    head, tail = (pa.chunked_array([part[i] for part in facts], pa.large_string()) for i in (0, 2))
    relation = pa.chunked_array([_same(name, len(heads)) for heads, name, _ in facts], _CODED)
    return FactColumns(
        head, relation, tail, labels=labels, values=values, nodes=ids, remarks=(*remarks, *said), notes=notes
    )


_CODED = pa.dictionary(pa.int32(), pa.large_string())


def _same(name: str, count: int) -> pa.Array:
    """One name many times."""
    return pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array([name], pa.large_string()))


def _chunked(column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def _in_space(layout: TableLayout, role: str, names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Names of an id space begin with its name: the same id in two spaces is of two entities."""
    space = layout.spaces.get(role)
    if not space:
        return names
    before, between = (pa.scalar(text, names.type) for text in (f"{space}:", ""))
    return pc.binary_join_element_wise(before, names, between)


def _linked(ids: pa.Array, cells: pa.ChunkedArray, split: str) -> tuple[pa.Array, pa.Array]:
    """Each id with what its cell holds, or with each of several values there."""
    cells = whole(cells).cast(pa.large_string())
    if split:
        parts = pc.split_pattern(cells, split)
        ids = ids.take(pc.list_parent_indices(parts))
        cells = pc.utf8_trim_whitespace(pc.list_flatten(parts))
    some = pc.and_(pc.is_valid(cells), pc.fill_null(pc.not_equal(cells, ""), False))
    return ids.filter(some), cells.filter(some)


def _several(where: str, name: str, tails: pa.Array) -> list[str]:
    """What is said where cells look as if they held several names."""
    for mark in (";", "|"):
        found = pc.sum(pc.match_substring(tails, mark)).as_py() or 0
        if found:
            return [_split_at(where, name, found, mark)]
    # A comma may be part of a name; it stands between names if what is on its sides comes again and again.
    lists = pc.match_substring(tails, ",")
    found = pc.sum(lists).as_py() or 0
    parts = pc.utf8_trim_whitespace(pc.list_flatten(pc.split_pattern(tails, ",")))
    if found and pc.count_distinct(parts).as_py() < pc.count_distinct(tails).as_py():
        return [_split_at(where, name, found, ",")]
    return []


def _split_at(where: str, name: str, found: int, mark: str) -> str:
    several = f"split={mark} among the columns reads several names"
    held = f"1 cell of {name!r} holds" if found == 1 else f"{found:,} cells of {name!r} hold"
    return f"{where}: {held} {mark!r}; {several}"


def _attributes(
    where: str, columns: ByPlace, layout: TableLayout, text: bool, ids: pa.Array | None
) -> tuple[tuple[AttributeBatch, ...], tuple[str, ...]]:
    """The attributes of facts, or of the entities with these ids; and what is to be said about them."""
    found: list[AttributeBatch] = []
    remarks: list[str] = []
    for name, place in layout.attributes.items():
        cells, others = whole(columns[place]), None
        if not text:
            values = normal(cells)
            if values is None:
                remarks.append(f"{where}: column {name!r} of type {cells.type} not read: it holds no plain values")
        elif name in layout.lists:
            values = _lists(name, cells, layout)
        elif name in layout.kinds:
            values = _said(name, cells, layout)
        else:
            values, others = inferred(cells)
            remarks += other_spellings(where, name, cells)
        if values is not None and values.null_count < len(values):
            found.append(AttributeBatch(name, values, ids))
        if others is not None:
            found.append(AttributeBatch(name, others, ids))
            example = others.drop_null()[0].as_py()
            odd = len(others) - others.null_count
            remarks.append(f"{where}: {odd:,} of {len(others):,} values of {name!r} are texts, such as {example!r}")
    return tuple(found), tuple(remarks)


def _said(name: str, cells: pa.Array, layout: TableLayout) -> pa.Array:
    """Values of the kind that the header names."""
    kind = layout.kinds[name]
    values, bad = of_kind(cells, kind)
    if bad is not None:
        raise BadRow(pc.index(cells, bad).as_py(), f"{name}: {bad!r} is not {_WORDS[kind]}")
    return pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values) if kind == "text" else values


def _lists(name: str, cells: pa.Array, layout: TableLayout) -> pa.Array:
    """Several values in a cell; no value is empty."""
    parts = pc.split_pattern(cells.cast(pa.large_string()), layout.split)
    inner = pc.utf8_trim_whitespace(parts.values)
    if name in layout.kinds:
        values, bad = of_kind(inner, layout.kinds[name])
        if bad is not None:
            row = pc.index(pc.match_substring(cells, bad), True).as_py()
            raise BadRow(row, f"{name}: {bad!r} is not {_WORDS[layout.kinds[name]]}")
    else:
        values, others = inferred(inner)
        values = inner if others is not None or pa.types.is_dictionary(values.type) else values
    if pa.types.is_large_string(values.type):
        values = pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)
    return pa.ListArray.from_arrays(parts.offsets, values)


def names_of(role: str, column: pa.Array | pa.ChunkedArray, needed: bool = True) -> pa.ChunkedArray:
    """The names in a column; a missing one is an error if it is needed."""
    column = _chunked(column)
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
    if needed:
        _refuse_missing(role, strings)
    return strings


def _refuse_missing(role: str, strings: pa.ChunkedArray) -> None:
    if strings.null_count:
        raise BadRow(pc.index(pc.is_null(strings), True).as_py(), f"the {role} is missing{LEAVES_OUT}")
    if len(strings) and pc.min(pc.binary_length(strings)).as_py() == 0:
        raise BadRow(pc.index(strings, "").as_py(), f"the {role} is empty{LEAVES_OUT}")


def truth_of(column: pa.Array | pa.ChunkedArray) -> NDArray[np.float64]:
    """Truth values."""
    try:
        numbers = column.cast(pa.float64())
    except pa.ArrowException:
        raise BadRow(NO_ROW, "the truth column holds something that is not a number") from None
    truth: NDArray[np.float64] = whole(numbers).to_numpy(zero_copy_only=False).astype(np.float64)
    bad = np.flatnonzero(~((truth >= 0) & (truth <= 1)))
    if len(bad):
        row = int(bad[0])
        missing = numbers[row].as_py() is None
        raise BadRow(row, "the truth is missing" if missing else f"the truth {truth[row]:g} is outside [0, 1]")
    return truth
