"""BetaE (Ren and Leskovec 2020): entities and queries are independent Beta distributions, near where their KL is small.

A state is [alpha, beta]. The distance KL(entity ‖ query) splits into matrix products: with E[log x] = ψ(α) − ψ(α+β),
the mean log-odds statistics of an entity, KL = log B(query) − log B(entity) + (entity − query) · E[log x, log(1−x)].
"""

from __future__ import annotations

import torch
from torch import Tensor

from tuplet.lab.baselines.trained.baseline import QueryModelBaseline
from tuplet.lab.baselines.trained.embedding import QueryEmbedding, QueryModelSettings
from tuplet.lab.baselines.trained.layers import narrow, perceptron, uniform


class BetaE(QueryEmbedding):
    """Projection by a perceptron on [state, relation], intersection by attention, negation by the reciprocal."""

    kind = "betae"

    def __init__(self, entities: int, relations: int, settings: QueryModelSettings) -> None:
        super().__init__(entities, relations, settings)
        dim, bound = settings.dim, (settings.gamma + 2) / settings.dim
        self.entity = uniform(entities, 2 * dim, bound)
        self.relation = uniform(2 * relations, dim, bound)
        self.projection = perceptron(3 * dim, settings.hidden, settings.layers, 2 * dim)
        self.attention = perceptron(2 * dim, 2 * dim, 1, dim)
        self._kept: tuple[tuple[int, int], tuple[Tensor, Tensor]] | None = None

    def entities(self, ids: Tensor) -> Tensor:
        return positive(self.entity.index_select(0, ids))

    def project(self, state: Tensor, view: Tensor) -> Tensor:
        relation = self.relation.index_select(0, view)
        return positive(self.projection(torch.cat([state, relation], -1)))

    def intersect(self, states: Tensor) -> Tensor:
        weight = self.attention(states).softmax(0)
        return (torch.cat([weight, weight], -1) * states).sum(0)

    def negate(self, state: Tensor) -> Tensor:
        return 1 / state

    def logits(self, state: Tensor, candidates: Tensor | None = None) -> Tensor:
        return self.settings.gamma - self.divergence(state, candidates)

    def divergence(self, state: Tensor, candidates: Tensor | None = None) -> Tensor:
        """KL(entity ‖ query), summed over dimensions; candidates as in `logits` → [n, m]."""
        rows, places = narrow(self.entity, candidates)
        mean, information = self._statistics() if rows is self.entity else statistics(positive(rows))
        every = log_beta(state)[:, None] + information - (state - 1) @ mean.T
        return every if places is None else every.gather(1, places)

    def after_step(self) -> None:
        self._kept = None  # not every optimizer counts the versions of what it changes

    def _statistics(self) -> tuple[Tensor, Tensor]:
        """The statistics of all entities; kept between rankings, as long as the table is the same."""
        if torch.is_grad_enabled():
            return statistics(positive(self.entity))
        key = self.entity.data_ptr(), self.entity._version
        if self._kept is None or self._kept[0] != key:
            self._kept = key, statistics(positive(self.entity))
        return self._kept[1]


def positive(raw: Tensor) -> Tensor:
    """Parameters of Beta distributions from numbers around 0.

    >>> positive(torch.tensor([-3.0, 0.0, 2.0]))
    tensor([0.0500, 1.0000, 3.0000])
    """
    return (raw + 1).clamp(0.05, 1e9)


def statistics(state: Tensor) -> tuple[Tensor, Tensor]:
    """What KL needs of its first distribution [m, 2d]: E[log x, log(1 − x)] [m, 2d] and minus the entropy [m].

    Both count parameters from 1, the uniform distribution, so that sums of large terms do not cancel each other.
    """
    alpha, beta = state.chunk(2, -1)
    both = torch.digamma(alpha + beta)
    mean = torch.cat([torch.digamma(alpha) - both, torch.digamma(beta) - both], -1)
    return mean, ((state - 1) * mean).sum(-1) - log_beta(state)


def log_beta(state: Tensor) -> Tensor:
    """log B(alpha, beta), summed over dimensions: [n, 2d] → [n]."""
    alpha, beta = state.chunk(2, -1)
    return (torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(alpha + beta)).sum(-1)


BASELINE = QueryModelBaseline(
    "betae",
    "each node a product of Beta distributions: project along edges, intersect by attention, negate by the reciprocal",
)
