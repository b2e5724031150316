"""From scores to truth: small named rules.

Every rule turns the scores of a row into truth by one number, the *shift* of the row: truth = exp(score − shift). A row
is an entity with a relation in one direction; an edge lies in two rows, and its truth is the mean of both. Needs torch
and numpy alone, so that tables can be built on a bare GPU machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from tuplet import settings
from tuplet.errors import unknown
from tuplet.truth.edges import HIGHEST_PREDICTION
from tuplet.truth.store_meta import LEARNED

Tensor = torch.Tensor

# (number of observed ends [n], log of their summed exp(score) [n], log-sum-exp over all entities [n]) → shift [n]
Rule: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]


def softmax_count(count: Tensor, log_observed: Tensor, normaliser: Tensor) -> Tensor:
    """QTO: truth = softmax over all entities × max(number of observed ends, 1)."""
    return normaliser - count.clamp(min=1).log()


def observed_mass(count: Tensor, log_observed: Tensor, normaliser: Tensor) -> Tensor:
    """FIT: softmax scaled so that the n observed ends hold mass n together; plain softmax where there are none."""
    return torch.where(count > 0, log_observed - count.clamp(min=1).log(), normaliser)


@dataclass(frozen=True)
class Calibration:
    """How scores become truth, by the name of a rule: one of ours, of an entry point, or `module:function`.

    >>> Calibration("observed-mass").name
    'observed-mass'
    >>> Calibration("softmax-cuont")
    Traceback (most recent call last):
    tuplet.errors.UnknownName: unknown calibration 'softmax-cuont'; did you mean 'softmax-count'?
    """

    name: str = "softmax-count"

    def __post_init__(self) -> None:
        if ":" not in self.name and self.name not in (names := settings.list_plugins("calibrations")):
            raise unknown("calibration", self.name, (*names, LEARNED))
        self.rule()

    def rule(self) -> Rule:
        """The function of that name."""
        found: Rule = settings.find_plugin("calibrations", self.name, modules=True)
        return found

    def shift(self, count: Tensor, log_observed: Tensor, normaliser: Tensor) -> Tensor:
        """The number that turns the scores of a row into truth: exp(score − shift)."""
        return self.rule()(count, log_observed, normaliser)

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name}


def combine(forward: Tensor, backward: Tensor) -> Tensor:
    """Truth from (score − shift) of the two rows of an edge; each direction stays below 1."""
    sides = [torch.exp(side).clamp(max=float(HIGHEST_PREDICTION)) for side in (forward, backward)]
    return (sides[0] + sides[1]) / 2
