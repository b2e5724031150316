"""ConE (Zhang et al. 2021): a query is a product of sectors of the plane, an entity a product of rays.

A state is [axis, aperture]: a sector reaches from axis − aperture to axis + aperture; of an entity the aperture is 0.
"""

from __future__ import annotations

from math import pi

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from tuplet.lab.baselines.trained.baseline import QueryModelBaseline
from tuplet.lab.baselines.trained.embedding import QueryEmbedding, QueryModelSettings
from tuplet.lab.baselines.trained.layers import distances, narrow, perceptron, uniform

INSIDE = 0.02  # what the distance to the axis counts beside the distance to the sector


class ConE(QueryEmbedding):
    """Projection by a perceptron on state + relation, intersection by a mean on the circle, negation by the rest."""

    kind = "cone"

    def __init__(self, entities: int, relations: int, settings: QueryModelSettings) -> None:
        super().__init__(entities, relations, settings)
        dim, self.bound = settings.dim, (settings.gamma + 2) / settings.dim
        self.entity = uniform(entities, dim, self.bound)
        self.relation = uniform(2 * relations, 2 * dim, self.bound)
        self.projection = perceptron(2 * dim, settings.hidden, settings.layers, 2 * dim)
        self.axis_attention = perceptron(2 * dim, dim, 1, dim)
        self.aperture_inner = perceptron(2 * dim, dim, 0, dim)
        self.aperture_gate = perceptron(dim, dim, 0, dim)
        self.modulus = nn.Parameter(torch.tensor(self.bound / 2))  # the learned scale of the distance

    def entities(self, ids: Tensor) -> Tensor:
        axis = angle(self.entity.index_select(0, ids) / self.bound)
        return torch.cat([axis, torch.zeros_like(axis)], -1)

    def project(self, state: Tensor, view: Tensor) -> Tensor:
        relation = angle(self.relation.index_select(0, view) / self.bound)
        axis, aperture = self.projection(state + relation).chunk(2, -1)
        return torch.cat([angle(axis), (angle(2 * aperture) + pi) / 2], -1)

    def intersect(self, states: Tensor) -> Tensor:
        axis, aperture = states.chunk(2, -1)
        ends = torch.cat([axis - aperture, axis + aperture], -1)
        weight = self.axis_attention(ends).softmax(0)
        across, up = (weight * axis.cos()).sum(0), (weight * axis.sin()).sum(0)
        # Opposite axes cancel out; the direction of nothing has no gradient.
        across = across.where(across.abs() >= 1e-3, 1e-3)
        gate = self.aperture_gate(self.aperture_inner(ends).relu().mean(0)).sigmoid()
        narrowest = dropout(aperture, self.settings.dropout, self.training).amin(0)
        return torch.cat([torch.atan2(up, across), narrowest * gate], -1)

    def negate(self, state: Tensor) -> Tensor:
        axis, aperture = state.chunk(2, -1)
        return torch.cat([axis - torch.where(axis >= 0, pi, -pi), pi - aperture], -1)

    def logits(self, state: Tensor, candidates: Tensor | None = None) -> Tensor:
        axis, aperture = (state / 2).chunk(2, -1)
        query = torch.cat([axis.sin(), axis.cos(), aperture.sin(), aperture.cos()], -1)
        rows, places = narrow(self.entity, candidates)
        half = angle(rows / self.bound) / 2
        apart = distances(distance, query, torch.cat([half.sin(), half.cos()], -1), places)
        return self.settings.gamma - apart * self.modulus


def angle(number: Tensor) -> Tensor:
    """Any number as an angle between −π and π."""
    return number.tanh() * pi


def distance(query: Tensor, rows: Tensor) -> Tensor:
    """From rays to sectors, summed: the way to the nearest side counts outside, a little of the way to the axis inside.

    With half angles θ between ray and axis and φ of the aperture, both at most a right angle, a dimension adds
    max(0, sin(θ − φ)) + 0.02 · min(sin θ, sin φ). Sines of differences come from those of both sides: no sine a pair.
    """
    sine, cosine = rows.chunk(2, -1)
    axis_sine, axis_cosine, sin_aperture, cos_aperture = query.chunk(4, -1)
    sin_apart = (sine * axis_cosine - cosine * axis_sine).abs()
    cos_apart = (cosine * axis_cosine + sine * axis_sine).abs()
    outside = (sin_apart * cos_aperture - cos_apart * sin_aperture).relu()
    return (outside + INSIDE * torch.minimum(sin_apart, sin_aperture)).sum(-1)


BASELINE = QueryModelBaseline(
    "cone",
    "each node a product of sectors: project along edges, intersect by a mean on the circle, negate by the rest",
)
