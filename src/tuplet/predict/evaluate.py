"""Filtered link prediction: for each held-out edge, where do its tail and its head rank among all entities?

Other known answers (of all splits) are taken out of the ranking. Equal scores count by expectation: an edge that ties
with n others ranks n / 2 places after the better ones, so a model that scores everything alike gains nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor

from tuplet.errors import BadInput
from tuplet.predict.base import LinkPredictor, Splits, Triples, device_of, ranges, row_scores

_ON_GPU = 512 << 20  # bytes of scores and masks at a time
_CACHED = 32 << 20  # on a CPU, which looks at them several times: about as many as its caches hold,
_LEAST_ROWS = 16  # but so many rows at least, since all entities are read for them


@dataclass(frozen=True)
class LinkMetrics:
    """Means over both directions of all ranked edges."""

    mrr: float
    hits_at_1: float
    hits_at_3: float
    hits_at_10: float
    edges: int

    def to_json(self) -> dict[str, float]:
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"MRR {self.mrr:.4f}  Hits@1 {self.hits_at_1:.4f}  Hits@3 {self.hits_at_3:.4f}  "
            f"Hits@10 {self.hits_at_10:.4f}  ({self.edges:,} edges)"
        )


class KnownAnswers:
    """The known answers of every (entity, relation) question, forwards and backwards, as sorted rows on a device."""

    def __init__(self, splits: Splits, entities: int, relations: int, device: torch.device | str = "cpu") -> None:
        heads, relation, tails = (
            torch.from_numpy(np.concatenate([split[side] for split in splits.values()]).astype(np.int64)).to(device)
            for side in range(3)
        )
        self.relations = relations
        question = torch.cat([heads, tails]) * (2 * relations) + torch.cat([relation, relation + relations])
        answer, order = torch.sort(torch.cat([tails, heads]), stable=True)
        question, by_question = torch.sort(question[order], stable=True)
        self.keys, count = torch.unique_consecutive(question, return_counts=True)
        self.start = torch.cat([count.new_zeros(1), torch.cumsum(count, 0)])
        self.answer = answer[by_question]

    def mask(self, scores: Tensor, asked: Tensor, relation: Tensor) -> None:
        """Set the scores [n, entities] of all known answers of each (asked, relation) [n] to −∞, in place."""
        if not len(self.keys):
            return
        question = asked * (2 * self.relations) + relation
        row = torch.searchsorted(self.keys, question).clamp_max(len(self.keys) - 1)
        found = self.keys[row] == question
        start = self.start[row]
        count = torch.where(found, self.start[row + 1] - start, 0)
        which, place = ranges(start, count)
        scores[which, self.answer[place]] = -torch.inf


def score_rows(model: LinkPredictor, asked: Tensor, relation: Tensor) -> Tensor:
    """Scores of all entities for each (asked, relation) [n] → [n, entities]; ids from `relations` on ask for heads."""
    mixed = getattr(model, "mixed_rows", None)
    if mixed is not None:
        found: Tensor = mixed(asked, relation)
        return found
    scores = torch.empty(len(asked), model.entities, device=asked.device)
    for r in sorted(set(relation.tolist())):
        mine = relation == r
        some = asked[mine]
        scores[mine] = row_scores(model, some, r % model.relations, r >= model.relations)
    return scores


@torch.inference_mode()
def ranks(
    model: LinkPredictor,
    edges: Triples,
    known: KnownAnswers,
    device: torch.device | str | None = None,
    memory: int | None = None,
) -> Tensor:
    """Expected filtered ranks of the tail and the head of each edge [n] → [n, 2], float64 on the CPU.

    `memory` bounds the bytes of scores and masks held at a time (by default as much as suits the device); `device` is
    where the model is, if it does not say so. Edges are taken by row, so that each row is computed once.
    """
    device = device or device_of(model)
    heads, relation, tails = (torch.as_tensor(np.asarray(a, dtype=np.int64), device=device) for a in edges)
    questions = ((heads, relation, tails), (tails, relation + model.relations, heads))
    result = torch.empty(len(heads), 2, dtype=torch.float64, device=device)
    if memory is None:
        memory = max(_CACHED, _LEAST_ROWS * model.entities * 8) if torch.device(device).type == "cpu" else _ON_GPU
    step = max(1, memory // (model.entities * 8))
    for direction, (asked, by, target) in enumerate(questions):
        question = asked * (2 * model.relations) + by
        for part in torch.split(torch.argsort(question, stable=True), step):
            rows, row = torch.unique_consecutive(question[part], return_inverse=True)
            scores = score_rows(model, rows // (2 * model.relations), rows % (2 * model.relations))[row]
            right = scores.gather(1, target[part, None])
            known.mask(scores, asked[part], by[part])
            scores.scatter_(1, target[part, None], -torch.inf)
            better = (scores <= right).logical_not().sum(1)  # so that a score that is no number counts as better
            equal = (scores == right).sum(1)
            rank = 1.0 + better + equal / 2.0
            result[part, direction] = torch.where(right[:, 0].isfinite(), rank, torch.nan).double()
    if bool(result.isnan().any()):
        raise BadInput("the model gives scores that are not finite numbers; it cannot be ranked")
    return result.cpu()


def evaluate(
    model: LinkPredictor,
    edges: Triples,
    known: KnownAnswers | Splits,
    device: torch.device | str | None = None,
    sample: int | None = None,
    seed: int = 0,
) -> LinkMetrics:
    """Filtered metrics of `edges`; `known` are the edges of all splits, `sample` ranks only so many edges, by seed."""
    device = device or device_of(model)
    if not isinstance(known, KnownAnswers):
        known = KnownAnswers(known, model.entities, model.relations, device)
    if sample is not None and sample < len(edges[0]):
        chosen = np.sort(np.random.default_rng(seed).choice(len(edges[0]), sample, replace=False))
        edges = (edges[0][chosen], edges[1][chosen], edges[2][chosen])
    if not len(edges[0]):
        raise BadInput("there are no edges to rank")
    rank = ranks(model, edges, known, device)
    hits = {f"hits_at_{k}": float((rank <= k).double().mean()) for k in (1, 3, 10)}
    return LinkMetrics(mrr=float((1.0 / rank).mean()), edges=len(rank), **hits)
