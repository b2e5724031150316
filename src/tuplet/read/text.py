"""Delimited text: facts and labels from TSV and CSV files, plain or packed, with the line of every mistake.

The fast path is Arrow's reader; when it refuses a file, or a value is not allowed, a slow pass over the lines finds the
first bad one and says what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from tuplet.errors import BadInput, Option
from tuplet.read.columns import ROLES, Choice
from tuplet.read.dates import seconds
from tuplet.read.facts import FactColumns, NameList
from tuplet.read.headers import Opening, judged, line_of, opening
from tuplet.read.lines import is_quoted, rows
from tuplet.read.load import BOM, CONTENT, Data, load, release
from tuplet.read.rows import LEAVES_OUT, NO_ROW, BadRow, facts_of

DELIMITERS = {".tsv": "\t", ".txt": "\t", ".csv": ","}
_BLOCK = 16 << 20  # bytes read at a time
_GLANCE = 1 << 20  # and while only the first line is in question, which mostly one look decides


def read_tsv(path: Path, columns: Choice | None = None, nodes: bool = False) -> Iterator[FactColumns]:
    """What a file says whose columns are separated by tabs."""
    return read_rows(path, "\t", columns, nodes)


def read_csv(path: Path, columns: Choice | None = None, nodes: bool = False) -> Iterator[FactColumns]:
    """What a file says whose columns are separated by commas."""
    return read_rows(path, ",", columns, nodes)


def read_rows(path: Path, usual: str, choice: Choice | None = None, nodes: bool = False) -> Iterator[FactColumns]:
    """What a delimited file says, some rows at a time; the rows of `nodes` are about entities."""
    data = load(path)
    begin = opening(path, data, usual, choice, nodes)
    if not CONTENT.search(data, begin.start):
        raise BadInput(f"{path}: no {'nodes' if nodes else 'facts'}, only a header line")
    if data.find(b"\0") >= 0:
        _diagnose(path, data, begin, "a name holds a NUL byte")
    seen = 0
    try:
        if not begin.sure:
            looked_at = _parse(data, begin, _GLANCE)
            with suppress(pa.ArrowInvalid):  # a bad line is found again below, a very long one is none
                begin = judged(path, begin, looked_at)
        for table in _tables(data, begin):
            yield from _facts(path, data, begin, table, seen)
            seen += len(table)
            release(data)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError) as error:
        _diagnose(path, data, begin, str(error).splitlines()[0])
    # What is known at the end alone comes with no more facts.
    none = pa.chunked_array([], pa.utf8())
    yield FactColumns(none, none, none, blank_lines=_blank_lines(data, seen + begin.header), remarks=begin.remarks)


def _facts(path: Path, data: Data, begin: Opening, table: pa.Table, seen: int) -> Iterator[FactColumns]:
    """What some rows say."""
    columns = {int(name): table.column(name) for name in table.column_names}
    try:
        yield from facts_of(str(path), columns, begin.layout, text=True)
    except BadRow as error:
        if error.row == NO_ROW:
            raise BadInput(f"{path}: {error.message}") from None
        line = line_of(path, data, begin, seen + error.row)
        raise BadInput(f"{path}:{line}: {error.message}") from None
    except BadInput as error:  # a date
        _diagnose(path, data, begin, error.message)


def read_names(path: Path, delimiter: str) -> NameList:
    """The names of a label file, one per line with its label if it has one, in order."""
    labels: dict[str, str] = {}
    repeated = 0
    for number, fields in rows(path, load(path), delimiter):
        if len(fields) > 2:
            raise BadInput(
                f"{path}:{number}: expected a name and a label, got {len(fields)} columns; ",
                "more about entities comes with ",
                Option("nodes", None),
            )
        if not fields[0]:
            raise BadInput(f"{path}:{number}: the name is empty")
        if fields[0] in labels:
            repeated += 1
        else:
            labels[fields[0]] = fields[1] if len(fields) == 2 else ""
    return NameList(labels, repeated)


def _tables(data: Data, begin: Opening) -> Iterator[pa.Table]:
    """The rows of a file, some at a time; all at once if there are attributes, whose kinds all rows decide."""
    parts = _parse(data, begin)
    if begin.layout.attributes:
        tables = list(parts)
        parts = iter([pa.concat_tables(tables)] if tables else [])
    return parts


def _parse(data: Data, begin: Opening, block: int = _BLOCK) -> Iterator[pa.Table]:
    layout, quoted = begin.layout, is_quoted(begin.separator)
    truth = layout.role.get("truth")
    body: Data | memoryview = memoryview(data)[begin.start :]
    if body[:3] == BOM:
        body = BOM + bytes(body)  # Arrow takes one mark off, but this one belongs to a name
    lines = pacsv.open_csv(
        pa.BufferReader(pa.py_buffer(body)),
        read_options=pacsv.ReadOptions(column_names=[str(i) for i in range(layout.width)], block_size=block),
        parse_options=pacsv.ParseOptions(
            delimiter=begin.separator,
            quote_char='"' if quoted else False,
            double_quote=quoted,
            newlines_in_values=quoted,
        ),
        convert_options=pacsv.ConvertOptions(
            column_types={str(i): pa.float64() if i == truth else pa.utf8() for i in layout.used},
            include_columns=[str(i) for i in layout.used],
            null_values=[],
            strings_can_be_null=False,
        ),
    )
    for batch in lines:
        if len(batch):
            yield pa.Table.from_batches([batch])


def _blank_lines(data: Data, expected: int) -> int:
    view = np.frombuffer(data, np.uint8)
    lines = sum(int(np.count_nonzero(view[i : i + _BLOCK] == 10)) for i in range(0, len(view), _BLOCK))
    if lines + (view[-1] != 10) == expected:
        return 0
    return sum(1 for _ in re.finditer(rb"^\r?\n", data, re.MULTILINE))


def _diagnose(path: Path, data: Data, begin: Opening, otherwise: str) -> NoReturn:
    """Raise the error of the first bad line; `otherwise` if every line looks right."""
    layout = begin.layout
    for number, fields in islice(rows(path, data, begin.separator), int(begin.header), None):
        if len(fields) != layout.width:
            what = f"expected {layout.width} columns as in the first line, got {len(fields)}"
            raise BadInput(f"{path}:{number}: {what}{' (there are no comment lines)' if fields[0][:1] == '#' else ''}")
        for role in ROLES:
            if role in layout.role and not fields[layout.role[role]]:
                raise BadInput(f"{path}:{number}: the {role} is empty{LEAVES_OUT}")
        if "truth" in layout.role:
            _check_truth(f"{path}:{number}", fields[layout.role["truth"]])
        if "date" in layout.role:
            try:
                seconds(fields[layout.role["date"]])
            except ValueError as error:
                raise BadInput(f"{path}:{number}: {error}") from None
    raise BadInput(f"{path}: {otherwise}")


def _check_truth(where: str, text: str) -> None:
    try:
        value = float(text)
    except ValueError:
        raise BadInput(f"{where}: the truth {text!r} is not a number") from None
    if not 0 <= value <= 1:
        raise BadInput(f"{where}: the truth {text} is outside [0, 1]")
