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
    """A conjunction with its dual disjunction, on numbers in [0, 1] and arrays of them, of NumPy or of torch.

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
        if self.name == "product":
            return a * b
        return a.minimum(b) if hasattr(a, "minimum") else np.minimum(a, b)  # torch has it as a method

    def disjunction(self, a: Any, b: Any) -> Any:
        """Truth of `a or b`. The product form is a + b − ab, written so that small truths keep their digits."""
        if self.name == "product":
            return a + b * (1.0 - a)
        return a.maximum(b) if hasattr(a, "maximum") else np.maximum(a, b)

    @property
    def idempotent(self) -> bool:
        """Whether `a or a` is a: then a disjunction is no truer than its truest part."""
        return self.name == "godel"

    @property
    def word(self) -> str:
        """What a conjunction is, in one word."""
        return "product" if self.name == "product" else "minimum"

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
