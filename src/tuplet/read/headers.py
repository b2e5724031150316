"""The first line of a file: is it a header, and what does it say about the columns?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tuplet.errors import BadInput, Option
from tuplet.read.columns import ALL_ROLES, Choice
from tuplet.read.layouts import (
    TableLayout,
    header_unnamed,
    known_columns,
    layout_of,
    node_choice,
    plain,
    unused_remark,
)
from tuplet.read.lines import SEPARATORS, rows, separator_of, wrong_separator
from tuplet.read.load import BOM, Data, load
from tuplet.read.neo4j import apoc_layout, is_apoc_header, is_neo4j_header, neo4j_layout

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
