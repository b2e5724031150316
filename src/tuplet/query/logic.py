"""Fuzzy logics: how truth values combine. Existentials are always the maximum, negation is always 1 − x."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import unknown

LogicName: TypeAlias = Literal["product", "godel"]
Values: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Logic:
    """A conjunction with its dual disjunction, on numbers or arrays of numbers in [0, 1].

    >>> float(PRODUCT.conjunction(0.5, 0.5)), float(PRODUCT.disjunction(0.5, 0.5))
    (0.25, 0.75)
    >>> float(GODEL.conjunction(0.5, 0.2)), float(GODEL.disjunction(0.5, 0.2))
    (0.2, 0.5)
    """

    name: LogicName

    @property
    def minimum(self) -> bool:
        """Whether a conjunction is the minimum: for compiled code, which takes no objects."""
        return self.name == "godel"

    def conjunction(self, a: Any, b: Any) -> Any:
        """Truth of `a and b`."""
        return np.multiply(a, b) if self.name == "product" else np.minimum(a, b)

    def disjunction(self, a: Any, b: Any) -> Any:
        """Truth of `a or b`. The product form is a + b − ab, written so that small truths keep their digits."""
        return np.add(a, np.multiply(b, np.subtract(1.0, a))) if self.name == "product" else np.maximum(a, b)

    def all(self, values: Values, axis: int = -1) -> Values:
        """Conjunction along an axis; 1 of nothing."""
        result: Values = (
            np.multiply.reduce(values, axis=axis)
            if self.name == "product"
            else np.minimum.reduce(values, axis=axis, initial=1.0)
        )
        return result

    @staticmethod
    def of(value: Logic | str) -> Logic:
        """The logic of a name; a logic is itself.

        >>> Logic.of("goedl")
        Traceback (most recent call last):
            ...
        tuplet.errors.UnknownName: unknown logic 'goedl'; did you mean 'godel'?
        """
        if isinstance(value, Logic):
            return value
        if value in _KNOWN:
            return _KNOWN[value]
        raise unknown("logic", value, _KNOWN)


PRODUCT = Logic("product")
GODEL = Logic("godel")
_KNOWN: dict[str, Logic] = {logic.name: logic for logic in (PRODUCT, GODEL)}
