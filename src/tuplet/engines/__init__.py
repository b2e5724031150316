"""Ways to answer a question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tuplet import settings
from tuplet.errors import BadInput
from tuplet.query.display import Listing
from tuplet.query.engine import Engine
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
    return Listing([_row(name) for name in settings.list_plugins("engines")], EngineRow)


def _row(name: str) -> EngineRow:
    """What is known of an engine; of one that another package offers and that does not load, why."""
    try:
        engine: Engine[Any] = settings.find_plugin("engines", name)
    except BadInput as error:
        return EngineRow(name, str(error), False, False, False, False, {})
    options = {key: default for key, _, default, _ in describe(engine.options)}
    return EngineRow(
        name, engine.summary, engine.exact, engine.needs_truth, engine.needs_model, engine.batched, options
    )
