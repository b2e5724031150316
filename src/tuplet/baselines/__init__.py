"""Other ways to answer, to be compared with: each one file, each a `Baseline` that ranks every variable on its own."""

from __future__ import annotations

from importlib import import_module

from tuplet.baselines.base import MarginalEngine


def engine(name: str) -> MarginalEngine:
    """The engine of a baseline: the `BASELINE` of its module, which is imported only now."""
    return MarginalEngine(import_module(f"tuplet.baselines.{name}").BASELINE)
