"""How much NS3 may search."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tuplet.query.limits import DEFAULT_BUDGET, Limits


@dataclass(frozen=True)
class BoxBudget:
    """How much of E^k is searched. `B` entities per variable, n·B tuples for a hypernode of n variables; None: all."""

    B: int | None = DEFAULT_BUDGET
    merge: str = "progressive"
    enumerate: int | None = 10  # rows tried where a cycle is cut, besides those of truth 1; None: all
    rows: int = 1 << 27  # joint domains larger than this are refused

    @staticmethod
    def all(merge: str = "progressive") -> BoxBudget:
        """No caps: domains are all that can be true."""
        return BoxBudget(B=None, merge=merge, enumerate=None)

    @staticmethod
    def within(limits: Limits) -> BoxBudget:
        """The budget that a question allows."""
        return BoxBudget.all(limits.merge) if limits.budget == "all" else BoxBudget(limits.budget, limits.merge)

    @property
    def grows(self) -> bool:
        """Whether a larger budget is tried where this one proves too little."""
        return self.merge == "adaptive" and self.B is not None

    def grown(self, times: int = 4) -> BoxBudget:
        """A larger budget; all, once it passes the limit of rows."""
        if self.B is None or self.B * times > self.rows:
            return replace(self, B=None, enumerate=None)
        return replace(self, B=self.B * times, enumerate=None if self.enumerate is None else self.enumerate * times)

    def of(self, variables: int) -> int | None:
        """B_γ = n_γ · B."""
        return None if self.B is None else variables * self.B
