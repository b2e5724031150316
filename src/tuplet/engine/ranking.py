"""What an engine returns, in ids: ranked tuples with their truth, their witnesses and what is known of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.lang.query_graph import QueryGraph

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
