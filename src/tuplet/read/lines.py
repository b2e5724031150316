"""Lines of delimited text: what separates their columns, and their fields one by one, with line numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from tuplet.errors import BadInput
from tuplet.read.load import BOM, Data

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
