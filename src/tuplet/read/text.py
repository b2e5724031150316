"""Delimited text: facts and labels from TSV and CSV files, plain or packed, with the line of every mistake.

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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from tuplet.errors import BadInput, Option
from tuplet.read.cells import inferred, seconds
from tuplet.read.facts import FactColumns, NameList
from tuplet.read.mapping import (
    ALL_ROLES,
    ROLES,
    Choice,
    TableLayout,
    apoc_layout,
    header_unnamed,
    is_apoc_header,
    is_neo4j_header,
    known_columns,
    layout_of,
    neo4j_layout,
    node_choice,
    plain,
    unused_remark,
)
from tuplet.read.tables import LEAVES_OUT, NO_ROW, BadRow, facts_of

Data: TypeAlias = bytes | mmap.mmap

BOM = b"\xef\xbb\xbf"
CONTENT = re.compile(rb"[^\r\n]")
PACKED = (".gz", ".zst")  # what may follow the suffix of a file
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def load(path: Path) -> Data:
    """The bytes of a file, unpacked if it is gzip or zstd, mapped if it is not."""
    try:
        with open(path, "rb") as stream:
            start = stream.read(4)
            if start[:2] == _GZIP or path.suffix.lower() == ".gz":
                data: Data = gzip.decompress(start + stream.read())
            elif start == _ZSTD or path.suffix.lower() == ".zst":
                data = _zstd(path)
            else:
                data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if start else b""
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        reason = "it ends too early" if isinstance(error, EOFError) else str(error)
        raise BadInput(f"{path}: broken gzip file ({reason})") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise BadInput(f"{path}: this is UTF-16; save it as UTF-8")
    if not CONTENT.search(data, len(BOM) if data[:3] == BOM else 0):
        raise BadInput(f"{path} is empty")
    return data


def _zstd(path: Path) -> bytes:
    try:
        with pa.input_stream(str(path), compression="zstd") as stream:
            unpacked: bytes = stream.read()
    except OSError as error:
        raise BadInput(f"{path}: broken zstd file ({error})") from None
    return unpacked


def release(data: Data) -> None:
    """Pages that were read need not stay in memory."""
    if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        data.madvise(mmap.MADV_DONTNEED)


SEPARATORS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars", " ": "spaces"}
_QUOTED = ",;|"  # with these, quotation marks hold a field together
_LOOKED_AT = 20  # lines


def is_quoted(separator: str) -> bool:
    """Whether fields may be in quotation marks: not where tabs or spaces separate them."""
    return separator in _QUOTED


def rows(path: Path, data: Data, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and fields of all lines that are not blank."""
    lines = _lines(path, data)
    if not is_quoted(separator):
        for number, line in lines:
            if line:
                yield number, line.split(separator)
        return
    reader = csv.reader((line + "\n" for _, line in lines), strict=True, delimiter=separator)
    try:
        for fields in reader:
            if fields:
                yield reader.line_num, fields
    except csv.Error as error:
        raise BadInput(f"{path}:{reader.line_num}: {error}") from None


def separator_of(path: Path, data: Data, usual: str, needed: int) -> str:
    """What separates the columns: the usual mark, or another if only with it there are `needed` columns."""
    if _width(path, data, usual, lines=1) >= needed:
        return usual
    for other in SEPARATORS:
        if other != usual and _width(path, data, other) >= needed:
            return other
    return usual


def wrong_separator(fields: Sequence[str], separator: str) -> str:
    """What is said of a line with too few columns, if another mark seems to separate them.

    >>> wrong_separator(["a r b"], ",")
    '; it has 2 spaces'
    """
    found = {word: fields[0].count(mark) for mark, word in SEPARATORS.items() if mark != separator}
    word = max(found, key=found.__getitem__)
    if fields[0].startswith("#"):
        return "; there are no comment lines"
    return f"; it has {found[word]} {word if found[word] > 1 else word[:-1]}" if found[word] else ""


def _width(path: Path, data: Data, separator: str, lines: int = _LOOKED_AT) -> int:
    """How many columns the first lines have; 1 if they differ."""
    try:
        widths = {len(fields) for _, fields in islice(rows(path, data, separator), lines)}
    except BadInput:
        return 1
    return widths.pop() if len(widths) == 1 else 1


def _lines(path: Path, data: Data) -> Iterator[tuple[int, str]]:
    stream = io.BytesIO(data) if isinstance(data, bytes) else data
    stream.seek(len(BOM) if data[:3] == BOM else 0)
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


_FIRST = re.compile(rb"[\r\n]*([^\r\n]+)(?:\r\n|\r|\n|$)")
_FEW = 10  # facts: of so few, many names occur once
_SAMPLE = 100  # rows from which it is guessed what columns may be


@dataclass(frozen=True)
class Opening:
    """What the beginning of a file says about the rest."""

    separator: str
    layout: TableLayout
    start: int  # bytes before the first row
    header: bool  # whether the first line is a header
    sure: bool  # whether that is certain
    first: tuple[str, ...]
    after: int  # bytes before the second line
    remarks: tuple[str, ...] = ()

    def with_header(self) -> Opening:
        """The same file, if its first line is a header."""
        return replace(self, start=self.after, header=True)


def opening(path: Path, data: Data, usual: str, choice: Choice | None, nodes: bool = False) -> Opening:
    """The separator, the header and the layout of a file; `usual` is what its name lets expect between columns."""
    separator = separator_of(path, data, usual, 2 if nodes or (choice is not None and choice.pairs) else 3)
    remarks: tuple[str, ...] = ()
    if separator != usual:
        remarks = (f"{path}: the columns are separated by {SEPARATORS[separator]}",)
    start = len(BOM) if data[:3] == BOM else 0
    match = _FIRST.match(data, start)
    assert match is not None, "load refuses files without a line"
    line, first = next(rows(path, data, separator))
    place = f"{path}:{line}"
    if choice is not None and choice.names and not is_neo4j_header(first):
        if len(first) != len(choice.names):
            raise BadInput(f"{place}: {len(first)} columns where the header before it has {len(choice.names)}")
        layout = neo4j_layout(place, choice.names)
        return Opening(separator, layout, start, False, True, tuple(first), match.end(), remarks)
    sample = [fields for _, fields in islice(rows(path, data, separator), 1, _SAMPLE)]
    layout, header, sure = _layout(path, place, separator, first, choice, nodes, sample)
    if choice is not None:
        layout = replace(layout, missing=choice.missing, trim=choice.trim)
    return Opening(
        separator,
        layout,
        match.end() if header else start,
        header,
        sure,
        tuple(first),
        match.end(),
        remarks + (unused_remark(str(path), layout) if header else ()),
    )


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
    said = None if choice is None else choice.header
    chosen = choice is not None and choice.says_something
    known = known_columns(first)
    if is_neo4j_header(first) and not chosen and said is not False:
        return neo4j_layout(place, first), True, True
    if is_apoc_header(first) and not chosen and said is not False:
        return apoc_layout(first), True, True
    if nodes and not chosen:
        return layout_of(str(path), first, node_choice(first, choice), numbers_are_names=False), True, True
    if chosen:
        assert choice is not None
        header = said if said is not None else bool(known) or not choice.by_position or choice.rest != ""
        if not header and not choice.by_position:
            raise BadInput(f"{path}: columns have names only in a header; write numbers in ", Option("columns", None))
        layout = layout_of(f"the first line of {path}", first, choice, numbers_are_names=False)
        if not layout.role:
            raise header_unnamed(place, first, sample)
        # Numbers say nothing of a header: a first line that stands alone is one here as elsewhere.
        return layout, header, header or said is not None or len(_ends(layout)) < 2
    if known and said is not False:
        return plain(first, known), True, True
    if len(first) == 2:
        headed = sample and not any(name in row for name in first for row in sample)
        raise BadInput(
            f"{place}: {_wrong_width(first, separator)}; if all are of one relation NAME, say ",
            Option("columns", f"head={first[0]},NAME={first[1]}" if headed else "head=1,NAME=2"),
        )
    if len(first) < 2:
        raise BadInput(f"{place}: {_wrong_width(first, separator)}{wrong_separator(first, separator)}")
    if len(first) == 4 and not _is_number(first[3]) and said is not False:
        raise header_unnamed(place, first, sample)
    if len(first) > 4:
        if said is not False and not any(map(_is_number, first)):
            raise header_unnamed(place, first, sample)
        raise BadInput(f"{place}: {_wrong_width(first, separator)}; choose some with ", Option("columns", None))
    role = dict(zip(ALL_ROLES, range(len(first)), strict=False))
    return TableLayout(len(first), role), said is True, said is not None


def lone_header(path: Path, usual: str) -> tuple[str, ...]:
    """The names of the columns if a file has a Neo4j header and nothing else: it belongs to the files after it."""
    data = load(path)
    separator = separator_of(path, data, usual, 2)
    found = [fields for _, fields in islice(rows(path, data, separator), 2)]
    return tuple(found[0]) if len(found) == 1 and is_neo4j_header(found[0]) else ()


@dataclass
class FirstRow:
    """Whether the names of the first row occur nowhere else, as those of a header."""

    names: list[str] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    rows: int = 0
    relations: int = 0  # distinct ones among the first rows; 0 if no column has them
    among: int = 0
    again: bool = False  # other entities occur again among the first rows

    @property
    def alone(self) -> bool:
        """Whether they do, as far as was looked."""
        return all(count == 1 for count in self.counts) and not any("://" in name or not name for name in self.names)

    def look_at(self, ends: Sequence[pa.ChunkedArray], relation: pa.ChunkedArray | None) -> None:
        """Count the names in more rows."""
        groups = [(end, ends) for end in ends] + ([] if relation is None else [(relation, [relation])])
        if not self.names:
            self.names, self.counts = [column[0].as_py() for column, _ in groups], [0] * len(groups)
            self.relations, self.among = 0 if relation is None else pc.count_distinct(relation).as_py(), len(ends[0])
            entities = pa.chunked_array([chunk for end in ends for chunk in end.chunks])
            self.again = pc.count_distinct(entities).as_py() < len(entities)
        for i, (_, columns) in enumerate(groups):
            self.counts[i] += sum(int(pc.sum(pc.equal(column, self.names[i])).as_py() or 0) for column in columns)
        self.rows += len(ends[0])

    @property
    def repeated(self) -> bool:
        """Whether other relations occur twice on average."""
        return self.among > 2 and 0 <= 2 * (self.relations - 1) <= self.among - 1

    @property
    def doubtful(self) -> bool:
        """Whether other names occur again, or might well, so that one would expect it of these."""
        return self.again if not self.relations else self.relations < self.among or self.rows > _FEW


def _ends(layout: TableLayout) -> list[int]:
    """The columns of entities, by which a first line can be told from the others."""
    return [
        *(layout.role[end] for end in ("head", "tail", "id", "type") if end in layout.role),
        *(place for _, place in layout.relations),
    ]


def judged(path: Path, begin: Opening, parts: Iterable[pa.Table]) -> Opening:
    """The opening of a file whose first line may be a header, after a look at its rows."""
    row, ends, relation = FirstRow(), _ends(begin.layout), begin.layout.role.get("relation")
    for part in parts:
        row.look_at([part.column(str(end)) for end in ends], None if relation is None else part.column(str(relation)))
        if not row.alone:
            break
    if row.among > _FEW and 2 * row.relations > row.among:
        remark = (
            f"{path}: {row.relations:,} different relations in {row.among:,} facts; is the second column the relation?"
        )
        begin = replace(begin, remarks=(*begin.remarks, remark))
    if not row.alone:
        return begin
    line = " ".join(begin.first)
    if row.repeated and row.rows > _FEW:
        remark = (
            f"{path}: the first line ({line}) is taken as a header: its names occur nowhere else; "
            "if it is a fact, say --no-header (in Python header=False)"
        )
        return replace(begin.with_header(), remarks=(*begin.remarks, remark))
    if row.doubtful:
        remark = (
            f"{path}: the first line ({line}) is read as a fact; "
            "if it is a header, say --header (in Python header=True)"
        )
        return replace(begin, remarks=(*begin.remarks, remark))
    return begin


def line_of(path: Path, data: Data, begin: Opening, row: int) -> int:
    """The line of a row, which is counted from 0."""
    return next(islice(rows(path, data, begin.separator), row + begin.header, None))[0]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _wrong_width(fields: Sequence[str], separator: str) -> str:
    return f"expected 3 or 4 {SEPARATORS[separator].removesuffix('s')}-separated columns, got {len(fields)}"


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


LONG = ("entity", "attribute", "value")


def read_values(path: Path) -> list[tuple[Any, ...]]:
    """The values of a delimited file, each with its entity and attribute.

    With the header `entity, attribute, value` every line is one value; with any other header the first column has the
    entities, and each further one the values of the attribute that it is named after. An empty cell is no value. The
    values of an attribute are numbers, dates, or true and false if they look so, and texts otherwise. A file of
    `entity, attribute` alone has pairs, of which all values are meant.
    """
    data = load(path)
    lines = rows(path, data, separator_of(path, data, "\t" if ".tsv" in path.suffixes else ",", 2))
    _, header = next(lines)
    if len(header) < 2:
        raise BadInput(f"{path}:1: expected the header entity, attribute, value, or the names of several columns")
    first = next(lines, None)
    if first is None:
        raise BadInput(f"{path}: no values, only a header line; it is entity, attribute, value, or names the columns")
    lines = chain([first], lines)
    if known_columns(header):
        said = f"{path}: the header is that of facts; facts bring their attributes along if they are added with "
        raise BadInput(said, Option("columns", "attribute=*"))
    repeated = next((name for name in header if header.count(name) > 1), None)
    if repeated is not None:
        raise BadInput(f"{path}:1: two columns are called {repeated!r}")
    if _words(header) == LONG[:2]:
        return [(row[0], row[1]) for _, row in lines]
    cells: dict[str, tuple[list[str], list[str]]] = {}  # of each attribute, entities and values
    for entity, attribute, value in _cells(path, [name.strip() for name in header], lines):
        entities, values = cells.setdefault(attribute, ([], []))
        entities.append(entity)
        values.append(value)
    found: list[tuple[Any, ...]] = []
    for attribute, (entities, values) in cells.items():
        for part in inferred(pa.array(values, pa.large_string())):
            typed = [] if part is None else part.to_pylist()
            found += [(e, attribute, v) for e, v in zip(entities, typed, strict=False) if v is not None]
    return found


def _cells(path: Path, header: list[str], lines: Iterable[tuple[int, list[str]]]) -> Iterator[tuple[str, str, str]]:
    long = _words(header) == LONG
    for number, row in lines:
        if len(row) != len(header):
            raise BadInput(f"{path}:{number}: {len(row)} columns where the header has {len(header)}")
        pairs = [(row[1], row[2])] if long else zip(header[1:], row[1:], strict=True)
        for attribute, value in pairs:
            if not (row[0] and attribute):
                raise BadInput(f"{path}:{number}: the {'attribute' if row[0] else 'entity'} is missing")
            if value:
                yield row[0], attribute, value


def _words(header: list[str]) -> tuple[str, ...]:
    return tuple(name.strip().lower() for name in header)
