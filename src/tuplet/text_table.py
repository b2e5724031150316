"""Tables of text for terminals: columns in line whatever the names are made of."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines with columns two spaces apart; a name may hold line breaks and wide characters.

    >>> for line in aligned([["#", "city"], ["1", "東京"], ["2", "New\\nYork"]]):
    ...     print(line)
    #  city
    1  東京
    2  New\\nYork
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    padded = ((cell + " " * (most - width(cell)) for cell, most in zip(row, widths, strict=True)) for row in cells)
    return ["  ".join(row).rstrip() for row in padded]


def printable(text: str) -> str:
    """The text on one line: what would move the cursor is written out.

    >>> printable("a\\tb\\x1b[0m")
    'a\\\\tb\\\\x1b[0m'
    """
    if text.isprintable():
        return text
    return "".join(_ESCAPES.get(c) or (c if c.isprintable() else f"\\x{ord(c):02x}") for c in text)


def width(text: str) -> int:
    """How many columns of a terminal a text takes.

    >>> width("Tokyo"), width("東京"), width("e\\u0301")
    (5, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun.

    >>> counted(1, "relation"), counted(1200, "relation"), counted(1, "entity", "entities")
    ('1 relation', '1,200 relations', '1 entity')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def in_bytes(number: int) -> str:
    """A number of bytes as people say it.

    >>> in_bytes(512), in_bytes(7_400_000_000), in_bytes(36_000_000)
    ('512 B', '7.4 GB', '36 MB')
    """
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}" if number < 10 * size else f"{number / size:.0f} {unit}"
    return f"{number} B"


def sizes(entities: int, relations: int) -> str:
    """What a graph is made of.

    >>> sizes(241, 1)
    '241 entities, 1 relation'
    """
    return f"{counted(entities, 'entity', 'entities')}, {counted(relations, 'relation')}"


def shortened(count: int, most: int, first: int, last: int) -> tuple[range, range]:
    """Which of `count` rows to show, from the start and from the end, if there are more than `most`.

    >>> shortened(8, 60, 20, 5), shortened(500, 60, 20, 5)
    ((range(0, 8), range(8, 8)), (range(0, 20), range(495, 500)))
    """
    return (range(count), range(count, count)) if count <= most else (range(first), range(count - last, count))
