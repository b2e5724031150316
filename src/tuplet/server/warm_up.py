"""What is done before the first request, so that nothing is imported or compiled while clients wait."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import product
from typing import Any

from tuplet.engines.given import judge
from tuplet.errors import TupletError
from tuplet.query.ask import ask
from tuplet.query.engine import Engine
from tuplet.query.examples import examples
from tuplet.query.limits import Limits, Only
from tuplet.store import Store

_FILTERS: tuple[Only | None, ...] = (None, "predicted", "observed")
_EXAMPLES = 2


def ask_all(store: Store, engines: Iterable[Engine[Any]], memory: int | None) -> None:
    """Ask some engines a few examples, with all filters."""
    truth = store.source.truth
    for engine in engines:
        engine.load(store.source)
        if truth is not None and not truth.tabulated and engine.needs_truth and not engine.looks_often:
            continue  # it would bring in whole relations, whose rows are computed one by one here
        for example, only in product(examples(store.source)[:_EXAMPLES], _FILTERS):
            with suppress(TupletError):
                ask(store.question(example["query"]), engine, judge, Limits(k=3, only=only, timeout=1.0, memory=memory))
