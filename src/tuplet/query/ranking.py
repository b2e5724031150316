"""What an engine returns, in ids: ranked tuples with their truth, their witnesses and what is known of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.query.query_graph import QueryGraph

# A bound query: its clauses (DNF). All clauses ask for the same free variables in the same order.
Clauses: TypeAlias = Sequence[QueryGraph]


@dataclass(frozen=True)
class Ranking:
    """The best tuples in order of decreasing truth.

    `assignments[c][i]` holds the entity of each variable of clause c in the best witness of tuple i (its free variables
    included), or -1 everywhere if the clause gives the tuple no truth.
    """

    tuples: NDArray[np.int32]  # [n, k], columns in the order of the free variables
    truth: NDArray[np.float64]  # [n]
    assignments: tuple[NDArray[np.int32], ...]  # per clause [n, variables of the clause]
    exact: bool  # the order shown is provably the order over all of E^k, ties aside
    bound: float  # no tuple that is not shown has a larger truth
    pruned: str | None = None  # what stopped the search early, if anything did

    def take(self, places: NDArray[np.integer] | slice) -> Ranking:
        """The tuples at some places, in that order."""
        assignments = tuple([assignment[places] for assignment in self.assignments])
        return replace(self, tuples=self.tuples[places], truth=self.truth[places], assignments=assignments)

    def after(self, offset: int) -> Ranking:
        """The tuples behind the first ones, which are not shown."""
        return self.take(slice(offset, None)) if offset else self


def nothing(free: int) -> Ranking:
    """The ranking of a query that cannot hold."""
    return Ranking(np.empty((0, free), np.int32), np.empty(0), (), exact=True, bound=0.0)
