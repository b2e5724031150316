"""LogicE (Luus et al. 2021): entities and queries are vectors of truth values, combined by fuzzy logic.

A state is [lower, upper], two bounds on each truth value; unbounded, it is 2 · dim truth values of their own.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tuplet.errors import BadInput
from tuplet.lab.baselines.trained.baseline import QueryModelBaseline
from tuplet.lab.baselines.trained.embedding import QueryEmbedding, QueryModelSettings
from tuplet.lab.baselines.trained.layers import distances, narrow, perceptron, uniform


class LogicE(QueryEmbedding):
    """Projection by a perceptron with a sigmoid, intersection by a weighted t-norm, negation 1 − x."""

    kind = "logice"

    def __init__(
        self,
        entities: int,
        relations: int,
        settings: QueryModelSettings,
        bounded: bool = True,
        norm: str = "lukasiewicz",
    ) -> None:
        super().__init__(entities, relations, settings)
        if norm not in ("lukasiewicz", "product"):
            raise BadInput(f"unknown t-norm {norm!r} for LogicE; choose lukasiewicz or product")
        dim, self.bounded, self.norm = settings.dim, bounded, norm
        self.entity = nn.Parameter(self._bounds(torch.rand(entities, 2 * dim)))
        self.relation = uniform(2 * relations, dim, (settings.gamma + 2) / dim)
        self.projection = perceptron(3 * dim, settings.hidden, settings.layers, 2 * dim)
        self.attention = perceptron(2 * dim, 2 * dim, 1, dim if bounded else 2 * dim)

    def entities(self, ids: Tensor) -> Tensor:
        return self.entity.index_select(0, ids)

    def project(self, state: Tensor, view: Tensor) -> Tensor:
        relation = self.relation.index_select(0, view)
        return self._bounds(self.projection(torch.cat([state, relation], -1)).sigmoid())

    def _bounds(self, truth: Tensor) -> Tensor:
        """Two numbers in [0, 1] as a lower bound and the share of what is above it."""
        if not self.bounded:
            return truth
        lower, share = truth.chunk(2, -1)
        return torch.cat([lower, lower + share * (1 - lower)], -1)

    def intersect(self, states: Tensor) -> Tensor:
        score: Tensor = self.attention(states)
        weight = (score - score.amax(0)).exp()  # the most important one counts fully
        if self.bounded:
            weight = torch.cat([weight, weight], -1)
        if self.norm == "product":
            return (weight * (states.clamp(0, 1) + 1e-6).log()).sum(0).exp()
        return (1 - (weight * (1 - states)).sum(0)).clamp(0, 1)

    def negate(self, state: Tensor) -> Tensor:
        if self.bounded:
            lower, upper = state.chunk(2, -1)
            state = torch.cat([upper, lower], -1)
        return 1 - state

    def logits(self, state: Tensor, candidates: Tensor | None = None) -> Tensor:
        mean = distances(difference, state, *narrow(self.entity, candidates)) / state.shape[-1]
        return 100 * (self.settings.gamma - mean)

    def after_step(self) -> None:
        self.entity.clamp_(0, 1)


def difference(query: Tensor, rows: Tensor) -> Tensor:
    """Sum of absolute differences.

    >>> difference(torch.tensor([0.25, 1.0]), torch.tensor([0.5, 0.25]))
    tensor(1.)
    """
    return (query - rows).abs().sum(-1)


BASELINE = QueryModelBaseline(
    "logice",
    "each node a vector of truth values: project along edges, intersect by a weighted t-norm, negate by 1 − x",
)
