"""Delimited text: facts and labels from TSV and CSV files, plain or gzip, with the line of every mistake.

The fast path is Arrow's reader; when it refuses a file, or a value is not allowed, a slow pass over the lines finds the
first bad one and says what is wrong with it.
"""

from __future__ import annotations

import csv
import gzip
import io
import mmap
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from tuplet.errors import BadInput, Option
from tuplet.graph.readers.columns import (
    ALL_ROLES,
    ROLES,
    Choice,
    header_unnamed,
    is_neo4j_header,
    known_columns,
    named_by_position,
    places,
)
from tuplet.graph.readers.dates import seconds, seconds_of
from tuplet.graph.readers.facts import FactColumns, NameList

Data = bytes | mmap.mmap

_OTHERS = {";": "semicolons", "\t": "tabs", ",": "commas", "|": "bars"}
DELIMITERS = {".tsv": "\t", ".txt": "\t", ".csv": ","}
_BOM = b"\xef\xbb\xbf"
_BLOCK = 16 << 20
_FEW = 10  # facts: of so few, many names occur once
_CONTENT = re.compile(rb"[^\r\n]")


@dataclass(frozen=True)
class _Layout:
    """Where each role stands in a line."""

    delimiter: str
    width: int  # columns
    role: dict[str, int]  # column of each role
    header: int  # bytes before the first fact
    header_lines: int


def read_tsv(path: Path, columns: Choice | None = None) -> Iterator[FactColumns]:
    """The facts of a file whose columns are separated by tabs."""
    return read_facts(path, "\t", columns)


def read_csv(path: Path, columns: Choice | None = None) -> Iterator[FactColumns]:
    """The facts of a file whose columns are separated by commas."""
    return read_facts(path, ",", columns)


def read_facts(path: Path, delimiter: str, columns: Choice | None = None) -> Iterator[FactColumns]:
    """The facts of a delimited file, some at a time."""
    data = load(path)
    layout = _layout(path, data, delimiter, columns)
    if not _CONTENT.search(data, layout.header):
        raise BadInput(f"{path}: no facts, only a header line")
    if data.find(b"\0") >= 0:
        _diagnose(path, data, layout, "a name holds a NUL byte")
    seen, first = 0, _FirstFact()
    try:
        for table in _parse(data, layout):
            part = _facts(path, data, layout, table)
            first.look_at(part)
            seen += len(table)
            yield part
            _release(data)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError) as error:
        _diagnose(path, data, layout, str(error).splitlines()[0])
    # What is known at the end alone comes with no more facts.
    none = pa.chunked_array([], pa.utf8())
    yield FactColumns(
        none,
        none,
        none,
        blank_lines=_blank_lines(data, seen + layout.header_lines),
        maybe_header=not layout.header_lines and seen > _FEW and first.stands_alone,
    )


def _facts(path: Path, data: Data, layout: _Layout, table: pa.Table) -> FactColumns:
    """The facts of some lines."""
    head, relation, tail = (table.column(role) for role in ROLES)
    truth = None
    if "truth" in layout.role:
        truth = table.column("truth").to_numpy()
        if not ((truth >= 0) & (truth <= 1)).all():
            _diagnose(path, data, layout, "a truth value is outside [0, 1]")
    date = None
    if "date" in layout.role:
        try:
            date = seconds_of(str(path), table.column("date"))
        except BadInput as error:
            _diagnose(path, data, layout, error.message)
    if any(pc.min(pc.binary_length(column)).as_py() == 0 for column in (head, relation, tail)):
        _diagnose(path, data, layout, "a name is empty")
    return FactColumns(head, relation, tail, truth, date)


@dataclass
class _FirstFact:
    """Whether the three names of the first fact occur nowhere else, as those of a header."""

    names: list[str] = field(default_factory=list)
    counts: list[int] = field(default_factory=lambda: [0, 0, 0])

    @property
    def stands_alone(self) -> bool:
        return self.counts == [1, 1, 1]

    def look_at(self, part: FactColumns) -> None:
        """Count the names in more facts, until one occurs again."""
        self.names = self.names or [column[0].as_py() for column in (part.head, part.relation, part.tail)]
        for i, columns in enumerate(((part.head, part.tail), (part.relation,), (part.head, part.tail))):
            if max(self.counts) <= 1:
                self.counts[i] += sum(_times(column, self.names[i]) for column in columns)


def _times(column: pa.ChunkedArray, name: str) -> int:
    return int(pc.sum(pc.equal(column, name)).as_py() or 0)


def _release(data: Data) -> None:
    """Pages that were read need not stay in memory."""
    if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        data.madvise(mmap.MADV_DONTNEED)


def read_names(path: Path, delimiter: str) -> NameList:
    """The names of a label file, one per line with its label if it has one, in order."""
    labels: dict[str, str] = {}
    repeated = 0
    for number, fields in _rows(path, load(path), delimiter):
        if len(fields) > 2:
            raise BadInput(f"{path}:{number}: expected a name and a label, got {len(fields)} columns")
        if not fields[0]:
            raise BadInput(f"{path}:{number}: the name is empty")
        if fields[0] in labels:
            repeated += 1
        else:
            labels[fields[0]] = fields[1] if len(fields) == 2 else ""
    return NameList(labels, repeated)


def load(path: Path) -> Data:
    """The bytes of a file, decompressed if it is gzip, mapped if it is not."""
    try:
        with open(path, "rb") as stream:
            start = stream.read(2)
            if start == b"\x1f\x8b" or path.suffix.lower() == ".gz":
                data: Data = gzip.decompress(start + stream.read())
            else:
                data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if start else b""
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        reason = "it ends too early" if isinstance(error, EOFError) else str(error)
        raise BadInput(f"{path}: broken gzip file ({reason})") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if not _CONTENT.search(data, len(_BOM) if data[:3] == _BOM else 0):
        raise BadInput(f"{path} is empty")
    return data


def _layout(path: Path, data: Data, delimiter: str, columns: Choice | None) -> _Layout:
    start = len(_BOM) if data[:3] == _BOM else 0
    match = re.compile(rb"[\r\n]*([^\r\n]+)(?:\r\n|\r|\n|$)").match(data, start)
    assert match is not None, "load refuses files without a line"
    line = 1 + data[start : match.start(1)].count(b"\n")
    try:
        first = _split(match[1].decode(), delimiter)
    except UnicodeDecodeError as error:
        raise _not_utf8(path, line, error) from None
    except csv.Error as error:
        raise BadInput(f"{path}:{line}: {error}") from None
    other = next((word for mark, word in _OTHERS.items() if mark != delimiter and first[0].count(mark) >= 2), None)
    if len(first) == 1 and other is not None:
        raise BadInput(
            f"{path}:{line}: the columns look separated by {other}; a .csv file has commas there, a .tsv file tabs"
        )
    place, role = f"{path}:{line}", known_columns(first)
    header = bool(role)
    if columns is not None:
        role = places(f"the first line of {path}", first, columns, numbers_are_names=False)
        header = header or not named_by_position(columns)
    if role:
        return _Layout(delimiter, len(first), role, match.end() if header else start, int(header))
    if is_neo4j_header(first) or (len(first) == 4 and not _is_number(first[3])):
        raise header_unnamed(place)
    if len(first) > 4:
        raise BadInput(f"{place}: {_wrong_width(first, delimiter)}; choose some with ", Option("columns", None))
    if len(first) < 3:
        raise BadInput(f"{place}: {_wrong_width(first, delimiter)}")
    role = dict(zip(ALL_ROLES, range(len(first)), strict=False))
    return _Layout(delimiter, len(first), role, start, 0)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parse(data: Data, layout: _Layout) -> Iterator[pa.Table]:
    quoted = layout.delimiter == ","
    physical = [f"column{i}" for i in range(layout.width)]
    types = {physical[i]: pa.float64() if role == "truth" else pa.utf8() for role, i in layout.role.items()}
    facts: Data | memoryview = memoryview(data)[layout.header :]
    if facts[:3] == _BOM:
        facts = _BOM + bytes(facts)  # Arrow takes one mark off, but this one belongs to a name
    lines = pacsv.open_csv(
        pa.BufferReader(pa.py_buffer(facts)),
        read_options=pacsv.ReadOptions(column_names=physical, block_size=_BLOCK),
        parse_options=pacsv.ParseOptions(
            delimiter=layout.delimiter,
            quote_char='"' if quoted else False,
            double_quote=quoted,
            newlines_in_values=quoted,
        ),
        convert_options=pacsv.ConvertOptions(
            column_types=types,
            include_columns=[physical[i] for i in layout.role.values()],
            null_values=[],
            strings_can_be_null=False,
        ),
    )
    for batch in lines:
        if len(batch):
            yield pa.Table.from_batches([batch]).rename_columns(list(layout.role))


def _blank_lines(data: Data, expected: int) -> int:
    view = np.frombuffer(data, np.uint8)
    lines = sum(int(np.count_nonzero(view[i : i + _BLOCK] == 10)) for i in range(0, len(view), _BLOCK))
    if lines + (view[-1] != 10) == expected:
        return 0
    return sum(1 for _ in re.finditer(rb"^\r?\n", data, re.MULTILINE))


def _diagnose(path: Path, data: Data, layout: _Layout, otherwise: str) -> NoReturn:
    """Raise the error of the first bad line; `otherwise` if every line looks right."""
    for number, fields in islice(_rows(path, data, layout.delimiter), layout.header_lines, None):
        if len(fields) != layout.width:
            what = f"expected {layout.width} columns as in the first line, got {len(fields)}"
            raise BadInput(f"{path}:{number}: {what}")
        for role in ROLES:
            if not fields[layout.role[role]]:
                raise BadInput(f"{path}:{number}: the {role} is empty")
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


def _rows(path: Path, data: Data, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and fields of all lines that are not blank."""
    lines = _lines(path, data)
    if delimiter != ",":
        for number, line in lines:
            if line:
                yield number, line.split(delimiter)
        return
    reader = csv.reader((line + "\n" for _, line in lines), strict=True)
    try:
        for fields in reader:
            if fields:
                yield reader.line_num, fields
    except csv.Error as error:
        raise BadInput(f"{path}:{reader.line_num}: {error}") from None


def _lines(path: Path, data: Data) -> Iterator[tuple[int, str]]:
    stream = io.BytesIO(data) if isinstance(data, bytes) else data
    stream.seek(len(_BOM) if data[:3] == _BOM else 0)
    for number, raw in enumerate(iter(stream.readline, b""), start=1):
        line = raw.rstrip(b"\r\n")
        if b"\r" in line:
            raise BadInput(f"{path}:{number}: carriage return inside the line at column {line.index(13) + 1}")
        if b"\0" in line:
            raise BadInput(f"{path}:{number}: NUL byte at column {line.index(0) + 1}; is this a text file?")
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise _not_utf8(path, number, error) from None
        yield number, text


def _split(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], strict=True)) if delimiter == "," else line.split(delimiter)


def _wrong_width(fields: Sequence[str], delimiter: str) -> str:
    name = "comma" if delimiter == "," else "tab"
    return f"expected 3 or 4 {name}-separated columns, got {len(fields)}"


def _not_utf8(path: Path, line: int, error: UnicodeDecodeError) -> BadInput:
    return BadInput(f"{path}:{line}: not UTF-8 (byte 0x{error.object[error.start]:02x} at column {error.start + 1})")
