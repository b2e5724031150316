"""Small charts as SVG text, with nothing but the standard library: one logarithmic and one plain axis."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

COLOURS = ("#0b6bcb", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#be123c", "#0f766e", "#475569")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 340, 56, 180, 32, 48


@dataclass(frozen=True)
class Series:
    """Points (x, y, low, high) under one name; several are joined by a line."""

    name: str
    points: tuple[tuple[float, float, float, float], ...]


def chart(title: str, x_label: str, y_label: str, series: Sequence[Series]) -> str:
    """An SVG chart with a logarithmic x axis and a y axis from 0; bars are the intervals.

    >>> chart("t", "x", "y", [Series("a", ((1, 2, 1, 3), (10, 4, 3, 5)))]).count("<title>")
    2
    """
    exponents = [math.log10(x) for s in series for x, *_ in s.points]
    first, last = math.floor(min(exponents)), max(math.ceil(max(exponents)), math.floor(min(exponents)) + 1)
    top = _ceiling(max(high for s in series for *_, high in s.points))

    def across(x: float) -> float:
        return LEFT + (math.log10(x) - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def up(y: float) -> float:
        return HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM)

    parts = [f'<text x="{LEFT}" y="18" font-weight="600">{html.escape(title)}</text>']
    for step in range(5):
        y = top * step / 4
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up(y):.1f}" y2="{up(y):.1f}" stroke="#8884"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for exponent in range(first, last + 1):
        x = across(10.0**exponent)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#8884"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{10.0**exponent:g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{html.escape(x_label)}</text>')
    centre = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text transform="translate(14 {centre}) rotate(-90)" text-anchor="middle">{html.escape(y_label)}</text>'
    )
    for i, s in enumerate(series):
        colour = COLOURS[i % len(COLOURS)]
        if len(s.points) > 1:
            path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y, *_ in s.points)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, y, low, high in s.points:
            at = f"{across(x):.1f}"
            parts.append(f'<line x1="{at}" x2="{at}" y1="{up(low):.1f}" y2="{up(high):.1f}" stroke="{colour}"/>')
            shown = html.escape(f"{s.name}: {y:.1f} at {x:.3g}")
            parts.append(f'<circle cx="{at}" cy="{up(y):.1f}" r="4" fill="{colour}"><title>{shown}</title></circle>')
        line = TOP + 8 + 18 * i
        parts.append(f'<circle cx="{WIDTH - RIGHT + 18}" cy="{line}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 28}" y="{line + 4}">{html.escape(s.name[:24])}</text>')
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" aria-label="{html.escape(title)}" '
        f'font-family="system-ui,sans-serif" font-size="12" fill="currentColor">{"".join(parts)}</svg>'
    )


def _ceiling(value: float) -> float:
    """A round number not below the value."""
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(factor * unit for factor in (1, 2, 4, 5, 8, 10) if factor * unit >= value)
