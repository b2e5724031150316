"""Delimited text: facts, labels and values from TSV and CSV files, plain or packed, with the line of every mistake.

A file is *sniffed*: what separates its columns, whether its first line is a header, what its columns are. Then Arrow
reads it; when Arrow refuses it, or a value is not allowed, a slow pass over the lines finds the first bad one and says
what is wrong with it.
"""

from __future__ import annotations

import csv
import gzip
import io
import mmap
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from tuplet.errors import BadInput, Option
from tuplet.read.cells import infer_values
from tuplet.read.facts import FactColumns, NameList
from tuplet.read.mapping import (
    ALL_ROLES,
    Choice,
    TableLayout,
    find_layout,
    header_unnamed,
    is_neo4j_header,
    known_columns,
    layout_of_names,
    neo4j_layout,
    unused_remark,
)
from tuplet.read.tables import read_rows

Data: TypeAlias = bytes | mmap.mmap

BOM = b"\xef\xbb\xbf"
DELIMITERS = {".tsv": "\t", ".txt": "\t", ".csv": ","}
_SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars", " ": "spaces"}
_QUOTED = ",;|"  # with these, quotation marks hold a field together
_PACKED = (".gz", ".zst")  # what may follow the suffix of a file
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_CONTENT = re.compile(rb"[^\r\n]")
_FIRST = re.compile(rb"[\r\n]*([^\r\n]+)(?:\r\n|\r|\n|$)")
_LOOKED_AT = 20  # lines that show what separates columns
_SAMPLE = 100  # rows from which it is guessed what columns may be
_FEW = 10  # facts: of so few, many names occur once
_BLOCK = 16 << 20  # bytes read at a time
_GLANCE = 1 << 20  # and while only the first line is in question, which mostly one look decides
_LONG_HEADER = 1 << 16  # bytes of a file that is only a header, at most


# --- bytes and lines ---------------------------------------------------------------------------------------------


def stem_and_type(name: str) -> tuple[str, str]:
    """The name of a file without its type, and its type without `.gz`.

    >>> stem_and_type("Train.TSV.gz")
    ('train', '.tsv')
    """
    name = name.lower()
    for packed in _PACKED:
        name = name.removesuffix(packed)
    return os.path.splitext(name)


def load(path: Path) -> Data:
    """The bytes of a file, unpacked if it is gzip or zstd, mapped if it is not."""
    try:
        with open(path, "rb") as stream:
            start = stream.read(4)
            if start[:2] == _GZIP or path.suffix.lower() == ".gz":
                data: Data = gzip.decompress(start + stream.read())
            elif start == _ZSTD or path.suffix.lower() == ".zst":
                data = _unpack_zstd(path)
            else:
                data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if start else b""
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        reason = "it ends too early" if isinstance(error, EOFError) else str(error)
        raise BadInput(f"{path}: broken gzip file ({reason})") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise BadInput(f"{path}: this is UTF-16; save it as UTF-8")
    if not _CONTENT.search(data, _start(data)):
        raise BadInput(f"{path} is empty")
    return data


def _unpack_zstd(path: Path) -> bytes:
    try:
        with pa.input_stream(str(path), compression="zstd") as stream:
            unpacked: bytes = stream.read()
    except OSError as error:
        raise BadInput(f"{path}: broken zstd file ({error})") from None
    return unpacked


def _start(data: Data) -> int:
    return len(BOM) if data[:3] == BOM else 0


def _rows(path: Path, data: Data, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and fields of all lines that are not blank."""
    lines = _lines(path, data)
    if separator not in _QUOTED:
        yield from ((number, line.split(separator)) for number, line in lines if line)
        return
    reader = csv.reader((line + "\n" for _, line in lines), strict=True, delimiter=separator)
    try:
        for fields in reader:
            if fields:
                yield reader.line_num, fields
    except csv.Error as error:
        raise BadInput(f"{path}:{reader.line_num}: {error}") from None


def _lines(path: Path, data: Data) -> Iterator[tuple[int, str]]:
    stream = io.BytesIO(data) if isinstance(data, bytes) else data
    stream.seek(_start(data))
    for number, raw in enumerate(iter(stream.readline, b""), start=1):
        line = raw.rstrip(b"\r\n")
        if b"\r" in line:
            raise BadInput(f"{path}:{number}: carriage return inside the line at column {line.index(13) + 1}")
        if b"\0" in line:
            raise BadInput(f"{path}:{number}: NUL byte at column {line.index(0) + 1}; is this a text file?")
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise BadInput(
                f"{path}:{number}: not UTF-8 (byte 0x{line[error.start]:02x} at column {error.start + 1}); save it as"
                " UTF-8, or if it is Latin-1: iconv -f latin1 -t utf-8"
            ) from None
        yield number, text


# --- what kind of a file it is -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sniffed:
    """What the beginning of a file says about the rest."""

    separator: str
    layout: TableLayout
    start: int  # bytes before the first row
    header: bool  # whether the first line is a header
    sure: bool  # whether that is certain
    first: tuple[str, ...] = ()
    after: int = 0  # bytes before the second line
    remarks: tuple[str, ...] = ()


def sniff(path: Path, data: Data, choice: Choice | None, nodes: bool = False) -> Sniffed:
    """The separator, the header and the layout of a file."""
    usual = DELIMITERS.get(stem_and_type(path.name)[1], ",")
    separator = _separator(path, data, usual, 2 if nodes or (choice is not None and choice.pairs) else 3)
    remarks: tuple[str, ...] = ()
    if separator != usual:
        remarks = (f"{path}: the columns are separated by {_SEPARATORS[separator]}",)
    match = _FIRST.match(data, _start(data))
    assert match is not None, "load refuses files without a line"
    sample = islice(_rows(path, data, separator), _SAMPLE)
    line, first = next(sample)
    place, after = f"{path}:{line}", match.end()
    if choice is not None and choice.names and not is_neo4j_header(first):
        if len(first) != len(choice.names):
            raise BadInput(f"{place}: {len(first)} columns where the header before it has {len(choice.names)}")
        layout = neo4j_layout(place, choice.names)
        return Sniffed(separator, layout, _start(data), False, True, tuple(first), after, remarks)
    layout, header, sure = _layout(path, place, separator, first, choice, nodes, [fields for _, fields in sample])
    if choice is not None:
        layout = replace(layout, missing=choice.missing, trim=choice.trim)
    if header:
        remarks += unused_remark(str(path), layout)
    return Sniffed(separator, layout, after if header else _start(data), header, sure, tuple(first), after, remarks)


def _separator(path: Path, data: Data, usual: str, needed: int) -> str:
    """What separates the columns: the usual mark, or another if only with it there are `needed` columns."""
    for mark in dict.fromkeys((usual, *_SEPARATORS)):
        with suppress(BadInput):
            lines = islice(_rows(path, data, mark), 1 if mark == usual else _LOOKED_AT)
            widths = {len(fields) for _, fields in lines}
            if len(widths) == 1 and widths.pop() >= needed:
                return mark
    return usual


def _layout(
    path: Path,
    place: str,
    separator: str,
    first: Sequence[str],
    choice: Choice | None,
    nodes: bool,
    sample: Sequence[Sequence[str]],
) -> tuple[TableLayout, bool, bool]:
    """Where everything stands, whether the first line is a header, and whether that is certain."""
    flag = None if choice is None else choice.header
    if choice is not None and choice.says_something:
        header = flag if flag is not None else bool(known_columns(first)) or not choice.by_position or choice.rest != ""
        if not header and not choice.by_position:
            raise BadInput(f"{path}: columns have names only in a header; write numbers in ", Option("columns", None))
        layout = find_layout(f"the first line of {path}", first, choice, numbers_are_names=False)
        # Numbers say nothing of a header: a first line that stands alone is one here as elsewhere.
        if layout.role:
            return layout, header, header or flag is not None or len(_ends(layout)) < 2
        if len(first) > 1:
            raise header_unnamed(place, first, sample)
    if flag is not False and (named := layout_of_names(place, first, choice, nodes)):
        return named, True, True
    width = f"{place}: expected 3 or 4 {_SEPARATORS[separator].removesuffix('s')}-separated columns, got {len(first)}"
    if len(first) == 2:
        headed = sample and not any(name in row for name in first for row in sample)
        raise BadInput(
            f"{width}; if all are of one relation NAME, say ",
            Option("columns", f"head={first[0]},NAME={first[1]}" if headed else "head=1,NAME=2"),
        )
    if len(first) < 2:
        raise BadInput(f"{width}{_other_separator(first[0], separator)}")
    numbers = list(map(_is_number, first))
    if flag is not False and ((len(first) == 4 and not numbers[3]) or (len(first) > 4 and not any(numbers))):
        raise header_unnamed(place, first, sample)
    if len(first) > 4:
        raise BadInput(f"{width}; choose some with ", Option("columns", None))
    role = dict(zip(ALL_ROLES, range(len(first)), strict=False))
    return TableLayout(len(first), role), flag is True, flag is not None


def _other_separator(line: str, separator: str) -> str:
    """The remark on a line with one column, if another mark seems to separate several.

    >>> _other_separator("a r b", ",")
    '; it has 2 spaces'
    """
    if line.startswith("#"):
        return "; there are no comment lines"
    found = {word: line.count(mark) for mark, word in _SEPARATORS.items() if mark != separator}
    word = max(found, key=found.__getitem__)
    return f"; it has {found[word]} {word if found[word] > 1 else word[:-1]}" if found[word] else ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _ends(layout: TableLayout) -> list[int]:
    """The columns of entities, by which a first line is recognised as a header."""
    roles = [layout.role[end] for end in ("head", "tail", "id", "type") if end in layout.role]
    return [*roles, *(place for _, place in layout.relations)]


def _judge_first_row(path: Path, begin: Sniffed, parts: Iterable[pa.Table]) -> Sniffed:
    """The same after a look at the rows: the first one is a header if its names occur nowhere else."""
    places, link = _ends(begin.layout), begin.layout.role.get("relation")
    names = [begin.first[place] for place in places]
    named = [*names, *([] if link is None else [begin.first[link]])]
    alone = len(set(names)) == len(names) and not any("://" in name or not name for name in named)
    rows = relations = among = 0  # all rows; those of the first part, and how many different relations they have
    again = False  # whether entities occur again among these
    found = 0  # how often the names in the first row occur
    for part in parts:
        ends = pa.chunked_array([chunk for place in places for chunk in part.column(str(place)).chunks])
        found += pc.sum(pc.is_in(ends, pa.array(names))).as_py()
        if link is not None:
            found += pc.sum(pc.equal(part.column(str(link)), begin.first[link])).as_py()
        if not rows:
            among, again = len(part), pc.count_distinct(ends).as_py() < len(ends)
            relations = 0 if link is None else pc.count_distinct(part.column(str(link))).as_py()
        rows += len(part)
        alone = alone and found == len(named)
        if not alone:
            break
    remarks = begin.remarks
    if among > _FEW and 2 * relations > among:
        remarks += (
            f"{path}: {relations:,} different relations in {among:,} facts; is the second column the relation?",
        )
    line = f"{path}: the first line ({' '.join(begin.first)})"
    # other relations occur twice on average
    if alone and rows > _FEW and among > 2 and 0 <= 2 * (relations - 1) <= among - 1:
        how = "is taken as a header: its names occur nowhere else; if it is a fact, say --no-header"
        return replace(
            begin, start=begin.after, header=True, remarks=(*remarks, f"{line} {how} (in Python header=False)")
        )
    # other names occur again, or might well, so that one would expect it of these
    if alone and (again if not relations else relations < among or rows > _FEW):
        how = "is read as a fact; if it is a header, say --header (in Python header=True)"
        remarks += (f"{line} {how}",)
    return replace(begin, remarks=remarks)


def lone_header(path: Path) -> tuple[str, ...]:
    """The names of the columns if a file has a Neo4j header and nothing else: it belongs to the files after it."""
    usual = DELIMITERS.get(stem_and_type(path.name)[1])
    if usual is None or os.path.getsize(path) > _LONG_HEADER:
        return ()
    data = load(path)
    found = [fields for _, fields in islice(_rows(path, data, _separator(path, data, usual, 2)), 2)]
    return tuple(found[0]) if len(found) == 1 and is_neo4j_header(found[0]) else ()


# --- facts -------------------------------------------------------------------------------------------------------


def read_text(path: Path, choice: Choice | None = None, nodes: bool = False) -> Iterator[FactColumns]:
    """The contents of a delimited file, some rows at a time; the rows of `nodes` are about entities."""
    data = load(path)
    begin = sniff(path, data, choice, nodes)
    if not _CONTENT.search(data, begin.start):
        raise BadInput(f"{path}: no {'nodes' if nodes else 'facts'}, only a header line")
    if data.find(b"\0") >= 0:
        _diagnose(path, data, begin, "a name holds a NUL byte")

    def place(row: int) -> str:
        rows = _rows(path, data, begin.separator)
        return f"{path}:{next(islice(rows, row + begin.header, None))[0]}"

    try:
        if not begin.sure:
            with suppress(pa.ArrowInvalid):  # a bad line is found again below, a very long one is none
                begin = _judge_first_row(path, begin, _parse(data, begin, _GLANCE))
        tables = _parse(data, begin)
        if begin.layout.attributes:  # all at once: all rows decide which kinds of values they are
            everything = list(tables)
            tables = iter([pa.concat_tables(everything)] if everything else [])
        rows = yield from read_rows(str(path), tables, begin.layout, place, text=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError) as error:
        _diagnose(path, data, begin, str(error).splitlines()[0])
    # What is known at the end alone comes with no more facts.
    yield FactColumns(blank_lines=_count_blank_lines(data, rows + begin.header), remarks=begin.remarks)


def _parse(data: Data, begin: Sniffed, block: int = _BLOCK) -> Iterator[pa.Table]:
    """The rows as tables whose columns are called by their places."""
    layout, quoted = begin.layout, begin.separator in _QUOTED
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
        if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            data.madvise(mmap.MADV_DONTNEED)  # pages that were read need not stay in memory


def _count_blank_lines(data: Data, expected: int) -> int:
    view = np.frombuffer(data, np.uint8)
    lines = sum(int(np.count_nonzero(view[i : i + _BLOCK] == 10)) for i in range(0, len(view), _BLOCK))
    if lines + (view[-1] != 10) == expected:
        return 0
    return sum(1 for _ in re.finditer(rb"^\r?\n", data, re.MULTILINE))


def _diagnose(path: Path, data: Data, begin: Sniffed, otherwise: str) -> NoReturn:
    """Raise the error of the first bad line; `otherwise` if every line looks right."""
    role = begin.layout.role
    for number, fields in islice(_rows(path, data, begin.separator), int(begin.header), None):
        where = f"{path}:{number}"
        if len(fields) != begin.layout.width:
            what = f"expected {begin.layout.width} columns as in the first line, got {len(fields)}"
            raise BadInput(f"{where}: {what}{' (there are no comment lines)' if fields[0][:1] == '#' else ''}")
        if "truth" in role and not _is_number(text := fields[role["truth"]]):
            raise BadInput(f"{where}: the truth {text!r} is not a number")
    raise BadInput(f"{path}: {otherwise}")


# --- labels and values -------------------------------------------------------------------------------------------


def read_names(path: Path) -> NameList:
    """The names of a label file, one per line with its label if it has one, in order."""
    labels: dict[str, str] = {}
    repeated = 0
    for number, fields in _rows(path, load(path), DELIMITERS[stem_and_type(path.name)[1]]):
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


def read_values(path: Path) -> list[tuple[Any, ...]]:
    """The values of a delimited file, each with its entity and attribute.

    With the header `entity, attribute, value` every line is one value; with any other header the first column has the
    entities, and each further one the values of the attribute that it is named after. An empty cell is no value. The
    values of an attribute are numbers, dates, or true and false if they look so, and texts otherwise. A file of
    `entity, attribute` alone has pairs, of which all values are meant.
    """
    data = load(path)
    lines = _rows(path, data, _separator(path, data, "\t" if ".tsv" in path.suffixes else ",", 2))
    _, header = next(lines)
    if len(header) < 2:
        raise BadInput(f"{path}:1: expected the header entity, attribute, value, or the names of several columns")
    first = next(lines, None)
    if first is None:
        raise BadInput(f"{path}: no values, only a header line; it is entity, attribute, value, or names the columns")
    if known_columns(header):
        facts = f"{path}: the header is that of facts; facts bring their attributes along if they are added with "
        raise BadInput(facts, Option("columns", "attribute=*"))
    repeated = next((name for name in header if header.count(name) > 1), None)
    if repeated is not None:
        raise BadInput(f"{path}:1: two columns are called {repeated!r}")
    lines = chain([first], lines)
    names = [name.strip() for name in header]
    words = [name.lower() for name in names]
    if words == ["entity", "attribute"]:
        return [(row[0], row[1]) for _, row in lines]
    cells: dict[str, list[tuple[str, str]]] = {}  # of each attribute, entities and values
    for number, row in lines:
        if len(row) != len(names):
            raise BadInput(f"{path}:{number}: {len(row)} columns where the header has {len(names)}")
        long = words == ["entity", "attribute", "value"]
        for attribute, value in [(row[1], row[2])] if long else zip(names[1:], row[1:], strict=True):
            if not (row[0] and attribute):
                raise BadInput(f"{path}:{number}: the {'attribute' if row[0] else 'entity'} is missing")
            if value:
                cells.setdefault(attribute, []).append((row[0], value))
    found: list[tuple[Any, ...]] = []
    for attribute, pairs in cells.items():
        for part in infer_values(pa.array([value for _, value in pairs], pa.large_string())):
            typed = [] if part is None else part.to_pylist()
            found += [(e, attribute, v) for (e, _), v in zip(pairs, typed, strict=False) if v is not None]
    return found
