"""QTO: query computation tree optimisation (Bai et al. 2023): exact max-product on trees, negation made stricter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.ns3.algorithm import BoxBudget
from tuplet.engines.ns3.run import marginal_vectors, search_of
from tuplet.lab.baselines.base import Baseline, refuse_cycles
from tuplet.lab.baselines.options import QtoOptions
from tuplet.query.limits import Deadline, Limits
from tuplet.query.ranking import Clauses, QueryGraph
from tuplet.query.source import Source


class Qto(Baseline[QtoOptions]):
    """Max-product messages on a tree."""

    name = "qto"
    steps = (
        "from the leaves of the tree to its root: v[b] *= max_a u[a] · P(a, b), 1 − min(1, scale · P) where negated",
    )
    settings = QtoOptions

    def refuse(self, clause: QueryGraph) -> None:
        refuse_cycles(clause, self.name)

    def marginals_batch(
        self, queries: Sequence[Clauses], source: Source, limits: Limits, deadline: Deadline
    ) -> list[NDArray[np.float64]]:
        search = search_of(queries, source, limits.rules, deadline)
        return marginal_vectors(queries, search, BoxBudget.all(), self.options(limits).neg_scale)


BASELINE = Qto()
