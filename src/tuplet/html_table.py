"""Tables for notebooks: everything is escaped, headers are headers, and the colours are those of the page."""

from __future__ import annotations

import html
from collections.abc import Sequence

from tuplet.text_table import printable


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> Markup:
    """A table of cells; a row of one cell spans all columns.

    >>> html_table(["name"], [["<b>"]])
    '<table><thead><tr><th scope="col">name</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    title = f"<caption>{escaped(caption)}</caption>" if caption else ""
    names = "".join(f'<th scope="col">{escaped(name)}</th>' for name in head)
    body = "".join(f"<tr>{_cells(row, len(head))}</tr>" for row in rows)
    return Markup(f"<table>{title}<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>")


def escaped(text: str) -> Markup:
    """Text as HTML; what is HTML already stays."""
    return text if isinstance(text, Markup) else Markup(html.escape(printable(text)))


def tag(name: str, text: str) -> Markup:
    """An element around a text.

    >>> tag("code", "a < b")
    '<code>a &lt; b</code>'
    """
    return Markup(f"<{name}>{escaped(text)}</{name}>")


def measured(text: str, share: float) -> Markup:
    """A number with a bar behind it, as long as its share of 1; grey that light and dark pages show alike.

    >>> measured("0.5", 0.5)
    '<div style="background:linear-gradient(90deg,#8885 50.0%,transparent 0)">0.5</div>'
    """
    bar = f"background:linear-gradient(90deg,#8885 {100 * share:.1f}%,transparent 0)"
    return Markup(f'<div style="{bar}">{escaped(text)}</div>')


def _cells(row: Sequence[str], columns: int) -> str:
    if len(row) == 1 < columns:
        return f'<td colspan="{columns}">{escaped(row[0])}</td>'
    return "".join(f"<td>{escaped(cell)}</td>" for cell in row)
