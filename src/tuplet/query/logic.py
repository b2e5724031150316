"""Fuzzy logics: how truth values combine. Existentials are always the maximum, negation is always 1 − x."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import unknown

LogicName: TypeAlias = Literal["product", "godel", "lukasiewicz"]
Values: TypeAlias = NDArray[np.float64]
Operation: TypeAlias = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Logic:
    """A conjunction with its laws, on numbers in [0, 1] and arrays of them, of NumPy or of torch.

    Searches rely on these laws: the conjunction is associative, commutative and monotone, 1 is neutral, and it is dual
    to the disjunction. What they may not rely on is said here: `idempotent`, `zero_divisors`. Compiled code, which
    takes no objects, has `code` and the same operations (`engines/kernels.py`).

    >>> [float(logic.conjunction(0.75, 0.5)) for logic in (PRODUCT, GODEL, LUKASIEWICZ)]
    [0.375, 0.5, 0.25]
    >>> [float(logic.disjunction(0.75, 0.5)) for logic in (PRODUCT, GODEL, LUKASIEWICZ)]
    [0.875, 0.75, 1.0]
    """

    name: LogicName
    code: int
    conjunction: Operation  # of `a and b`
    disjunction: Operation  # of `a or b`
    residuum: Operation  # of a positive a and a b not above it: the least truth x for which `a and x` is b
    word: str  # what a conjunction is, in one word
    idempotent: bool = False  # `a or a` is a: then a disjunction is no truer than its truest part
    zero_divisors: bool = False  # a conjunction of positive truths may be 0

    @property
    def strict(self) -> bool:
        """A conjunction with a positive truth keeps positive truths positive, and different ones different."""
        return not self.idempotent and not self.zero_divisors

    names: ClassVar[tuple[LogicName, ...]] = get_args(LogicName)

    def all(self, values: Values, axis: int = -1) -> Values:
        """Conjunction along an axis; 1 of nothing."""
        parts = np.moveaxis(np.asarray(values, dtype=np.float64), axis, 0)
        return np.asarray(reduce(self.conjunction, parts, np.ones(parts.shape[1:])))

    @staticmethod
    def from_name(value: Logic | str) -> Logic:
        """The logic of a name; a logic is itself.

        >>> Logic.from_name("goedl")
        Traceback (most recent call last):
            ...
        tuplet.errors.UnknownName: unknown logic 'goedl'; did you mean 'godel'?
        """
        if isinstance(value, Logic):
            return value
        if value in LOGICS:
            return LOGICS[value]
        raise unknown("logic", value, LOGICS)


def _smaller(a: Any, b: Any) -> Any:
    return a.minimum(b) if hasattr(a, "minimum") else np.minimum(a, b)  # torch has it as a method


def _larger(a: Any, b: Any) -> Any:
    return a.maximum(b) if hasattr(a, "maximum") else np.maximum(a, b)


# Sums of truths keep their absolute error where the sum is small. So they are sums of multiples of this: those have
# none, and equal tuples have equal truths in whatever order their atoms are taken.
GRID = 2.0**36


def _on_grid(a: Any) -> Any:
    if hasattr(a, "detach"):
        return a + ((a * GRID).floor() / GRID - a).detach()  # with the gradient of a
    return np.floor(a * GRID) / GRID


def _bounded_difference(a: Any, b: Any) -> Any:
    total = _on_grid(a) + _on_grid(b) - 1.0
    return total.clamp(min=0.0) if hasattr(total, "clamp") else np.maximum(total, 0.0)


def _bounded_sum(a: Any, b: Any) -> Any:
    total = a + b
    return total.clamp(max=1.0) if hasattr(total, "clamp") else np.minimum(total, 1.0)


PRODUCT = Logic(
    "product",
    0,
    lambda a, b: a * b,
    lambda a, b: a + b * (1.0 - a),  # a + b − ab, written so that small truths keep their digits
    lambda a, b: b / a,
    "product",
)
GODEL = Logic("godel", 1, _smaller, _larger, lambda a, b: b, "minimum", idempotent=True)
LUKASIEWICZ = Logic(
    "lukasiewicz",
    2,
    _bounded_difference,
    _bounded_sum,
    lambda a, b: 1.0 - a + b,
    "Łukasiewicz conjunction",
    zero_divisors=True,
)
LOGICS: dict[str, Logic] = {logic.name: logic for logic in (PRODUCT, GODEL, LUKASIEWICZ)}
