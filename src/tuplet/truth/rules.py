"""From scores to truth: small named rules, and the power that fits them to held-out facts.

Every rule turns the scores of a row into truth by one number, the *shift* of the row: truth = exp(score − shift). A row
is an entity with a relation in one direction; an edge lies in two rows, and its truth is the mean of both (or one of
them). Needs torch and numpy alone, so that tables can be built on a bare GPU machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.errors import BadInput, nearest
from tuplet.truth.table import HIGHEST_PREDICTION

Tensor = torch.Tensor

# (number of observed ends [n], log of their summed exp(score) [n], log-sum-exp over all entities [n]) → shift [n]
Rule = Callable[[Tensor, Tensor, Tensor], Tensor]

DIRECTIONS = ("both", "forward", "backward")

LEARNED = "learned"  # on top of these rules, see `learned`
GIVEN = "given"  # the values of a table made elsewhere, as they are


def softmax_count(count: Tensor, log_observed: Tensor, normaliser: Tensor) -> Tensor:
    """QTO: truth = softmax over all entities × max(number of observed ends, 1)."""
    return normaliser - count.clamp(min=1).log()


def observed_mass(count: Tensor, log_observed: Tensor, normaliser: Tensor) -> Tensor:
    """FIT: softmax scaled so that the n observed ends hold mass n together; plain softmax where there are none."""
    return torch.where(count > 0, log_observed - count.clamp(min=1).log(), normaliser)


CALIBRATIONS: dict[str, Rule] = {"softmax-count": softmax_count, "observed-mass": observed_mass}


@dataclass(frozen=True)
class Calibration:
    """How scores become truth: the rule, the directions that count, and a power fitted on valid edges (1 = none).

    >>> Calibration("observed-mass").name
    'observed-mass'
    >>> Calibration("softmax-cuont")
    Traceback (most recent call last):
    tuplet.errors.BadInput: unknown calibration 'softmax-cuont'; did you mean 'softmax-count'?
    """

    name: str = "softmax-count"
    direction: str = "both"
    power: float = 1.0

    def __post_init__(self) -> None:
        known_name("calibration", self.name, CALIBRATIONS, LEARNED)
        known_name("direction of calibration", self.direction, DIRECTIONS)
        if not 0 < self.power < float("inf"):
            raise BadInput(f"the power of a calibration is a positive number, not {self.power}")

    @property
    def forward(self) -> bool:
        return self.direction != "backward"

    @property
    def backward(self) -> bool:
        return self.direction != "forward"

    def shift(self, count: Tensor, log_observed: Tensor, normaliser: Tensor) -> Tensor:
        """The number that turns the scores of a row into truth: exp(score − shift)."""
        return CALIBRATIONS[self.name](count, log_observed, normaliser)

    def combine(self, forward: Tensor | None, backward: Tensor | None) -> Tensor:
        """Truth from (score − shift) of the two rows of an edge; each direction stays below 1."""
        logs = [side for side in (forward, backward) if side is not None]
        sides = [torch.exp(side).clamp(max=float(HIGHEST_PREDICTION)) for side in logs]
        mean = sides[0] if len(sides) == 1 else (sides[0] + sides[1]) / 2
        return mean if self.power == 1 else mean**self.power

    def floor(self, threshold: float) -> float:
        """What a direction must reach, before the power, for an edge to reach the threshold."""
        return float(min(threshold ** (1 / self.power), float(HIGHEST_PREDICTION)))

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "direction": self.direction, "power": self.power}


def known_name(kind: str, name: str, choices: Iterable[str], *more: str) -> None:
    """An error with the nearest names if a name is none of the choices; `more` are named too, but live elsewhere."""
    names = list(choices)
    if name not in names:
        near = nearest(name, [*names, *more]) or [*names, *more]
        raise BadInput(f"unknown {kind} {name!r}; did you mean {' or '.join(repr(n) for n in near)}?")


def fit_power(truth: NDArray[np.floating], is_fact: NDArray[np.bool_]) -> float:
    """The power p in [1/4, 4] for which truth**p gives held-out facts the best log-likelihood.

    A power is monotone and commutes with products and maxima, so it repairs the scale without reordering edges.

    >>> rng = np.random.default_rng(0)
    >>> truth = rng.uniform(0.01, 0.9, 20_000)
    >>> abs(fit_power(truth, rng.random(20_000) < truth**2) - 2) < 0.1
    True
    """
    if not is_fact.any():
        return 1.0
    # A fine histogram of log truth stands for the entries: the fit then costs the same for ten million of them.
    log_truth = np.log(np.clip(np.asarray(truth, dtype=np.float64), 1e-9, float(HIGHEST_PREDICTION)))
    edges = np.linspace(log_truth.min() - 1e-9, log_truth.max() + 1e-9, 4001)
    centre = (edges[:-1] + edges[1:]) / 2
    entries = np.histogram(log_truth, edges)[0]
    facts = np.histogram(log_truth[is_fact], edges)[0]

    def loss(log_power: float) -> float:
        log_value = np.minimum(centre * np.exp(log_power), -1e-9)
        return float(-(facts * log_value + (entries - facts) * np.log(-np.expm1(log_value))).sum())

    return float(np.exp(_minimum(loss, float(np.log(0.25)), float(np.log(4.0)))))


def _minimum(loss: Callable[[float], float], low: float, high: float, steps: int = 40) -> float:
    """Golden-section search of a function with one minimum."""
    ratio = (5**0.5 - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    loss_a, loss_b = loss(a), loss(b)
    for _ in range(steps):
        if loss_a <= loss_b:
            high, b, loss_b = b, a, loss_a
            a = high - ratio * (high - low)
            loss_a = loss(a)
        else:
            low, a, loss_a = a, b, loss_b
            b = low + ratio * (high - low)
            loss_b = loss(b)
    return (low + high) / 2
