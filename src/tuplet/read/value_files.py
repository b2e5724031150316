"""Files of attributes that are added to a store: one value in a line, or a table with a column for each attribute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from tuplet.errors import BadInput, Option
from tuplet.read.cells import inferred
from tuplet.read.layouts import known_columns
from tuplet.read.lines import rows, separator_of
from tuplet.read.load import load

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
