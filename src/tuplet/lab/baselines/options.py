"""The options of the baselines; they need no torch, so that engines can be listed without it."""

from __future__ import annotations

from dataclasses import dataclass

from tuplet.settings import knob


@dataclass(frozen=True)
class FitOptions:
    """How FIT searches."""

    most: int | None = knob(10, "candidates tried where a cycle is cut, besides those of truth 1; all: exact", least=1)
    mode: str = knob("fair", "fair, or paper: one way only, most candidates in all", choices=("fair", "paper"))


@dataclass(frozen=True)
class QtoOptions:
    """How QTO counts negation."""

    neg_scale: float = knob(1.0, "a negated atom counts 1 − min(1, neg_scale · truth)", least=0)


@dataclass(frozen=True)
class CqdOptions:
    """How CQD searches."""

    method: str = knob("beam", "beam (on the truth table, or on a model) or co (gradient)", choices=("beam", "co"))
    beam: int = knob(64, "of beam: entities of a variable that are carried on", least=1)
    model: str = knob("", "the folder of a bilinear link predictor (tuplet train); beam can do without")
    steps: int = knob(1000, "of co: gradient steps at most", least=1)
    learning_rate: float = knob(0.1, "of co: step size of AdamW", least=0)
    regularisation: float = knob(0.05, "of co: weight of Σ|·|³ over the vectors of the variables", least=0)
    seed: int = knob(0, "of co: decides the initial vectors", least=0)
    device: str = knob("cpu", "of a model: cpu or cuda")


@dataclass(frozen=True)
class TrainedOptions:
    """Where a query model is, and where it runs."""

    model: str = knob("", "a folder of `tuplet train --model NAME`")
    device: str = knob("auto", "auto, cpu or cuda")
