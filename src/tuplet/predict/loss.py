"""What training minimises: 1-vs-all cross entropy on reciprocal edges, relation prediction, N3.

CE(t | h, r) + w · CE(r | h, t) + λ · Σ|·|³ / batch        (Lacroix et al. 2018; Chen et al. 2021)
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from tuplet.predict.embeddings import EmbeddingModel


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
    if relation_weight:
        loss = loss + relation_weight * cross_entropy(model.relation_scores(head, tail), relation_id)
    if regularisation:
        loss = loss + regularisation / len(edges) * model.penalty(head, relation, tail)
    return loss


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
