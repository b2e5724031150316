"""What training minimises: 1-vs-all cross entropy on reciprocal edges, relation prediction, N3.

CE(t | h, r) + w · CE(r | h, t) + λ · Σ|·|³ / batch        (Lacroix et al. 2018; Chen et al. 2021)

On large graphs the cross entropy is sampled: a step knows only the entities of its batch and some drawn at random, and
each counts for as many as it stands for (`sampling`).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from tuplet.predict.embeddings import EmbeddingModel
from tuplet.predict.sampling import SampledRows


def objective(
    model: EmbeddingModel, edges: Tensor, regularisation: float, relation_weight: float, entity_block: int
) -> Tensor:
    """Loss of a batch of reciprocal edges [n, 3] → a scalar. `entity_block` ≥ entities scores all of them at once."""
    head_id, relation_id, tail_id = edges.unbind(1)
    # One gather for both ends: its way back fills one table-sized gradient instead of two.
    head, tail = model.entity.index_select(0, torch.cat([head_id, tail_id])).chunk(2)
    relation = model.relation.index_select(0, relation_id)
    query = model.query(head, relation)
    if entity_block >= model.entities:
        loss = cross_entropy(model.score_all(query, model.entity), tail_id)
    else:
        loss = (logsumexp(model, query, entity_block) - model.score(query, tail)).mean()
    return loss + _further(model, head, relation, tail, relation_id, regularisation, relation_weight)


def _further(
    model: EmbeddingModel,
    head: Tensor,
    relation: Tensor,
    tail: Tensor,
    relation_id: Tensor,
    regularisation: float,
    relation_weight: float,
) -> Tensor:
    """Relation prediction and N3."""
    loss = head.new_zeros(())
    if relation_weight:
        loss = loss + relation_weight * cross_entropy(model.relation_scores(head, tail), relation_id)
    if regularisation:
        loss = loss + regularisation / len(head) * model.penalty(head, relation, tail)
    return loss


def sampled_objective(
    model: EmbeddingModel,
    entity: Tensor,
    drawn: SampledRows,
    edges: Tensor,
    regularisation: float,
    relation_weight: float,
) -> Tensor:
    """`objective` on the rows of some entities alone, `entity` [n, width] → a scalar.

    The sum of exp(score) over all entities is estimated from those drawn, each divided by its chance. The head and the
    tail of an edge are always among them and count once. So the estimate has the right mean, and if all are drawn it is
    the sum itself.
    """
    head_id, tail_id = torch.searchsorted(drawn.rows, edges[:, ::2].T.contiguous())
    relation_id = edges[:, 1]
    head, tail = entity.index_select(0, torch.cat([head_id, tail_id])).chunk(2)
    relation = model.relation.index_select(0, relation_id)
    query = model.query(head, relation)
    weight = -drawn.log_chance.expand(len(edges), -1)
    weight = weight.scatter(1, torch.stack([head_id, tail_id], 1), 0.0)
    loss = cross_entropy(model.score_all(query, entity) + weight, tail_id)
    return loss + _further(model, head, relation, tail, relation_id, regularisation, relation_weight)


def logsumexp(model: EmbeddingModel, query: Tensor, entity_block: int) -> Tensor:
    """log Σ exp of the scores of each query against all entities [n], never holding more than one block of scores.

    A block's scores are recomputed on the way back: memory is that of one block, for one more matrix product.
    """

    def of_block(query: Tensor, rows: Tensor) -> Tensor:
        return model.score_all(query, rows).float().logsumexp(1)

    parts = [checkpoint(of_block, query, rows, use_reentrant=False) for rows in torch.split(model.entity, entity_block)]
    return torch.stack(parts).logsumexp(0)


def fitting_block(model: EmbeddingModel, batch: int, memory: int) -> int:
    """How many entities can be scored at once within `memory` bytes: scores, their softmax and their gradient."""
    return max(1, min(model.entities, memory // (batch * model.cells_per_score * 3 * 4)))
