"""QTO: query computation tree optimisation (Bai et al. 2023): exact max-product on trees, negation made stricter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuplet.baselines.base import Baseline, refuse_cycles
from tuplet.baselines.symbolic.fit import EVERYTHING, searching
from tuplet.engines.ns3.run import marginal_vectors
from tuplet.query.limits import Limits
from tuplet.query.query_graph import QueryGraph
from tuplet.query.ranking import Clauses
from tuplet.query.source import Source
from tuplet.settings import knob


@dataclass(frozen=True)
class QtoOptions:
    """How QTO counts negation."""

    neg_scale: float = knob(1.0, "a negated atom counts 1 − min(1, neg_scale · truth)", least=0)


class Qto(Baseline[QtoOptions]):
    """Max-product messages on a tree."""

    name = "qto"
    steps = (
        "from the leaves of the tree to its root: v[b] *= max_a u[a] · P(a, b), 1 − min(1, scale · P) where negated",
    )
    settings = QtoOptions

    def refuse(self, clause: QueryGraph) -> None:
        refuse_cycles(clause, self.name)

    def marginals(self, clauses: Clauses, source: Source, limits: Limits) -> NDArray[np.float64]:
        return self.marginals_batch([clauses], source, limits)[0]

    def marginals_batch(self, queries: Sequence[Clauses], source: Source, limits: Limits) -> list[NDArray[np.float64]]:
        search = searching(queries, source, limits, self.name)
        return marginal_vectors(queries, search, EVERYTHING, self.options(limits).neg_scale)


BASELINE = Qto()
