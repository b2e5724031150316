"""LMPNN (Wang et al. 2023): messages along the edges of the query graph, on a frozen link predictor (ComplEx).

A constant starts as its entity's vector, every existential variable as one learned vector, the variable asked for as
another. In each layer an edge r(h, t) sends h ∘ r to t and t ∘ r⁻¹ to h, with the sign turned where it is negated; the
sum of what a node receives and a tenth of what it was go through one perceptron, the same in all layers. There are as
many layers as variables. Entities are ranked by their cosine with the vector of the variable asked for.

The published code has conj(r) for r⁻¹. Our predictors have a reciprocal row for each relation, which was trained to
find heads from tails; it takes that place: view 2r is row r, view 2r + 1 is row r + relations.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from tuplet.errors import BadInput
from tuplet.lab.baselines.trained.baseline import QueryModelBaseline
from tuplet.lab.baselines.trained.embedding import Pattern, QueryModel, QueryModelSettings
from tuplet.lab.baselines.trained.layers import perceptron
from tuplet.predict.embeddings import EmbeddingModel, multiply

KEPT = 0.1  # of what a node was, beside the messages it receives


class LMPNN(QueryModel):
    """Message passing with the vectors of a frozen ComplEx; `dim` is its rank, a state is real and imaginary parts."""

    kind = "lmpnn"
    rests_on_predictor = own_loss = True

    entity: Tensor
    relation: Tensor

    def __init__(self, entities: int, relations: int, settings: QueryModelSettings) -> None:
        super().__init__(entities, relations, settings)
        width = 2 * settings.dim
        if not width:
            raise BadInput("LMPNN rests on a link predictor; give one (--predictor MODEL)")
        self.register_buffer("entity", torch.zeros(entities, width))
        self.register_buffer("relation", torch.zeros(2 * relations, width))
        self.exists = nn.Parameter(torch.randn(width) / width**0.5)
        self.free = nn.Parameter(torch.randn(width) / width**0.5)
        self.update = perceptron(width, settings.hidden, settings.layers, width)

    def adopt(self, predictor: EmbeddingModel) -> None:
        if predictor.kind != "complex":
            raise BadInput(f"LMPNN rests on ComplEx, not on {predictor.kind}; train one with --model complex")
        if (predictor.entities, predictor.relations) != (self.entity_count, self.relation_count):
            raise BadInput(
                f"the link predictor has {predictor.entities:,} entities and {predictor.relations:,} relations, "
                f"the graph {self.entity_count:,} and {self.relation_count:,}"
            )
        # Of unit length on average, so that one learning rate fits predictors of any scale; cosines stay as they are.
        self.entity.copy_(predictor.entity / predictor.entity.norm(dim=1).mean())
        self.relation.copy_(predictor.relation / predictor.relation.norm(dim=1).mean() * self.settings.dim**0.5)

    def row(self, view: Tensor) -> Tensor:
        """The vectors of views [n] → [n, width]."""
        return self.relation[(view >> 1) + (view & 1) * self.relation_count]

    def embed(self, pattern: Pattern, target: int, constants: Tensor, views: Tensor) -> Tensor:
        states = {~place: self.entity[column] for place, column in enumerate(constants.T)}
        for variable in range(pattern.variables):
            states[variable] = (self.free if variable == target else self.exists).expand(len(constants), -1)
        towards = [self.row(views[:, i]) for i in range(len(pattern.edges))]
        back = [self.row(views[:, i] ^ 1) for i in range(len(pattern.edges))]
        for wanted in layers(pattern, target):
            received = {node: KEPT * states[node] for node in wanted}
            for i, (head, tail, negated) in enumerate(pattern.edges):
                sign = -1 if negated else 1
                if tail in received:
                    received[tail] = received[tail] + sign * multiply(states[head], towards[i])
                if head in received:
                    received[head] = received[head] + sign * multiply(states[tail], back[i])
            updated = self.update(torch.stack(list(received.values())))
            states = dict(zip(received, updated, strict=True))
        return states[target]

    def logits(self, state: Tensor, candidates: Tensor | None = None) -> Tensor:
        query = normalize(state, dim=-1)
        if candidates is None or candidates.dim() == 1:
            rows = self.entity if candidates is None else self.entity[candidates]
            return query @ normalize(rows, dim=-1).T / self.settings.temperature
        rows = normalize(self.entity[candidates], dim=-1)
        return (rows @ query[:, :, None])[..., 0] / self.settings.temperature

    def loss(self, positive: Tensor, negative: Tensor, weight: Tensor) -> Tensor:
        """InfoNCE: the answer among random entities; each query counts the same."""
        logits = torch.cat([positive[:, None], negative], 1)
        return cross_entropy(logits, logits.new_zeros(len(logits), dtype=torch.int64))


@lru_cache(maxsize=4096)
def layers(pattern: Pattern, target: int) -> tuple[tuple[int, ...], ...]:
    """The nodes that each layer updates, as many layers as variables: only what can still reach the target.

    >>> from tuplet.lab.baselines.trained.embedding import Link
    >>> layers(Pattern(2, (Link(~0, 1), Link(1, 0))), 0)  # s → e → f
    ((0, 1), (0,))
    """
    wanted: list[tuple[int, ...]] = [(target,)]
    for _ in range(1, pattern.variables):
        near = {node for edge in pattern.edges for node in edge[:2] if {*edge[:2]} & {*wanted[-1]}}
        wanted.append((*wanted[-1], *sorted(near - {*wanted[-1]}, reverse=True)))
    return tuple(reversed(wanted))


BASELINE = QueryModelBaseline(
    "lmpnn",
    "messages along all edges in both directions, as many layers as variables, on a frozen ComplEx",
    needs_constants=False,
)
