"""Small charts as SVG text, with nothing but the standard library: one logarithmic and one plain axis."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

COLOURS = ("#0b6bcb", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#be123c", "#0f766e", "#475569")
WIDTH, PLOT, LEFT, RIGHT, TOP, BOTTOM = 560, 240, 56, 16, 32, 48
LEGEND = 18  # height of a line of the legend, which stands below the chart


@dataclass(frozen=True)
class Series:
    """Points (x, y, low, high) under one name; several are joined by a line."""

    name: str
    points: tuple[tuple[float, float, float, float], ...]
    dashed: bool = False  # a level to compare with: a line without marks


def chart(
    title: str, x_label: str, y_label: str, series: Sequence[Series], colours: Mapping[str, str] | None = None
) -> str:
    """An SVG chart with a logarithmic x axis and a y axis from 0; bars are the intervals, colours go by name.

    >>> chart("t", "x", "y", [Series("a", ((1, 2, 1, 3), (10, 4, 3, 5)))]).count("<title>")
    2
    """
    logs = [math.log10(x) for s in series for x, *_ in s.points]
    first, last = min(logs), max(logs)
    margin = max(0.05 * (last - first), 0.1)
    first, last = first - margin, last + margin
    top = _ceiling(max(high for s in series for *_, high in s.points))
    bottom = TOP + PLOT

    def across(x: float) -> float:
        return LEFT + (math.log10(x) - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def up(y: float) -> float:
        return bottom - y / top * PLOT

    parts = [f'<text x="{LEFT}" y="18" font-weight="600">{html.escape(title)}</text>']
    for step in range(5):
        y = top * step / 4
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up(y):.1f}" y2="{up(y):.1f}" stroke="#8884"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for value in _ticks(first, last):
        x = across(value)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}" stroke="#8884"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{value:,g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{bottom + 34}" text-anchor="middle">{html.escape(x_label)}</text>')
    centre = TOP + PLOT / 2
    parts.append(
        f'<text transform="translate(14 {centre}) rotate(-90)" text-anchor="middle">{html.escape(y_label)}</text>'
    )
    for i, s in enumerate(series):
        colour = (colours or {}).get(s.name, COLOURS[i % len(COLOURS)])
        line = bottom + BOTTOM + LEGEND * i
        if len(s.points) > 1:
            path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y, *_ in s.points)
            dashes = ' stroke-dasharray="6 4"' if s.dashed else ""
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        for x, y, low, high in () if s.dashed else s.points:
            at = f"{across(x):.1f}"
            parts.append(f'<line x1="{at}" x2="{at}" y1="{up(low):.1f}" y2="{up(high):.1f}" stroke="{colour}"/>')
            shown = html.escape(f"{s.name}: {y:.1f} at {x:.3g}")
            parts.append(f'<circle cx="{at}" cy="{up(y):.1f}" r="4" fill="{colour}"><title>{shown}</title></circle>')
        parts.append(f'<circle cx="{LEFT + 4}" cy="{line}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + 14}" y="{line + 4}">{html.escape(s.name[:72])}</text>')
    height = bottom + BOTTOM + LEGEND * len(series)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" aria-label="{html.escape(title)}" '
        f'font-family="system-ui,sans-serif" font-size="12" fill="currentColor">{"".join(parts)}</svg>'
    )


def _ticks(first: float, last: float) -> list[float]:
    """Round numbers between two powers of ten: 1, 2, 5 of each decade, or the decades alone if these are many.

    >>> _ticks(2.9, 4.05)
    [1000.0, 2000.0, 5000.0, 10000.0]
    """
    steps = (1, 2, 5) if last - first < 3 else (1,)
    decades = range(math.floor(first), math.ceil(last) + 1)
    return [step * 10.0**e for e in decades for step in steps if first <= math.log10(step) + e <= last]


def _ceiling(value: float) -> float:
    """A round number not below the value."""
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(factor * unit for factor in (1, 2, 4, 5, 8, 10) if factor * unit >= value)
