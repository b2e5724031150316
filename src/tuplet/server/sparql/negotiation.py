"""Which of the forms that are offered an Accept header prefers."""

from __future__ import annotations

from collections.abc import Mapping


def negotiated(accept: str, offered: Mapping[str, str]) -> str | None:
    """The best form by the client's quality, then by our order; None if it takes none of them.

    >>> offered = {"application/json": "json", "text/csv": "csv", "text/turtle": "turtle"}
    >>> negotiated("", offered), negotiated("text/*", offered), negotiated("image/png", offered)
    ('json', 'csv', None)

    Of two ranges that fit, the one that says more counts:

    >>> negotiated("text/csv;q=0, text/*;q=0.5, */*;q=0.1", offered)
    'turtle'
    """
    if not accept.strip():
        return next(iter(offered.values()))
    wanted: dict[str, float] = {}
    for part in accept.lower().split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        wanted[kind] = max(wanted.get(kind, 0.0), _quality(parameters))
    best, chosen = 0.0, None
    for media, form in offered.items():
        ranges = (media, f"{media.split('/')[0]}/*", "*/*")
        quality = next((wanted[kind] for kind in ranges if kind in wanted), 0.0)
        if quality > best:
            best, chosen = quality, form
    return chosen


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(1.0, float(value))  # of nan, which is never the larger one, 1
            except ValueError:
                return 0.0
    return 1.0
