"""The engines that can be asked, as a table."""

from __future__ import annotations

from dataclasses import dataclass

from tuplet import registry
from tuplet.listing import Listing
from tuplet.settings import describe


@dataclass(frozen=True)
class EngineRow:
    """An engine: what it is, what it can do, and its own options with their defaults."""

    engine: str
    summary: str
    exact: bool  # may prove that its order is the true one
    needs_truth: bool  # wants a store; facts alone are not enough
    needs_model: bool  # wants a trained model of its own
    batched: bool  # answers many queries faster than one by one
    options: dict[str, str | int | float | bool | None]


def engines() -> Listing[EngineRow]:
    """All engines, installed ones included, with their capabilities and options.

    >>> [row.engine for row in engines() if not row.needs_truth]
    ['crisp']
    """
    found = [registry.find("engines", name) for name in registry.names("engines")]
    rows = [
        EngineRow(
            engine.name,
            engine.summary,
            engine.exact,
            engine.needs_truth,
            engine.needs_model,
            engine.batched,
            {key: default for key, _, default, _ in describe(engine.options)},
        )
        for engine in found
    ]
    return Listing(rows, EngineRow)
