"""How much NS3 may search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tuplet.errors import BadInput, nearest

Merge = Literal["progressive", "simultaneous", "adaptive"]
Index = Literal["global", "local"]
_CHOICES = {"merge": ("progressive", "simultaneous", "adaptive"), "index": ("global", "local")}


@dataclass(frozen=True)
class Budget:
    """How much of E^k is searched. `B` entities per variable, n·B tuples for a hypernode of n variables; None: all."""

    B: int | None = 4000
    merge: Merge = "progressive"
    enumerate: int | None = 10  # rows tried where a cycle is cut, besides those of truth 1; None: all
    index: Index = "global"
    normalise: bool = False  # divide by the maximum after each slicing: values are then relative, never certified
    pad: bool = False  # fill a joint domain that rounding left short with the next best products
    rows: int = 1 << 27  # joint domains larger than this are refused

    def __post_init__(self) -> None:
        if self.B is not None and self.B < 1:
            raise BadInput(f"the budget must be at least 1, or 'all', not {self.B}")
        if self.enumerate is not None and self.enumerate < 1:
            raise BadInput(f"at least 1 row must be tried on a cycle, not {self.enumerate}")
        for key, choices in _CHOICES.items():
            given = getattr(self, key)
            if given not in choices:
                near = nearest(given, choices) or list(choices)
                raise BadInput(f"unknown {key} {given!r}; did you mean {' or '.join(map(repr, near))}?")

    @staticmethod
    def all(merge: Merge = "progressive") -> Budget:
        """No caps: domains are all that can be true."""
        return Budget(B=None, merge=merge, enumerate=None)

    def grown(self, times: int = 4) -> Budget:
        """A larger budget; all, once it passes the limit of rows."""
        if self.B is None or self.B * times > self.rows:
            return replace(self, B=None, enumerate=None)
        return replace(self, B=self.B * times, enumerate=None if self.enumerate is None else self.enumerate * times)

    def of(self, variables: int) -> int | None:
        """B_γ = n_γ · B."""
        return None if self.B is None else variables * self.B


DEFAULT = Budget()
