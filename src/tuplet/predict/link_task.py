"""Training of link predictors that are tables of embeddings: 1-vs-all cross entropy, relation prediction, N3.

CE(t | h, r) + w · CE(r | h, t) + λ · Σ|·|³ / batch        (Lacroix et al. 2018; Chen et al. 2021)

A round is an epoch over the reciprocal edges, measured by the filtered MRR of the valid edges. The order of the edges
in an epoch depends on (seed, epoch) alone. With valid edges the model is the best one by valid MRR; without, the last.
On large graphs the cross entropy is sampled: a step knows the entities of its batch, which it reads in any case, and
some drawn at random, each of which counts for as many as it stands for. The run itself is in `training`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from tuplet.errors import BadInput
from tuplet.predict.base import TrainingEdges, Triples
from tuplet.predict.config import PRESETS, TrainConfig, count_ranked
from tuplet.predict.device import Adagrad, Adam
from tuplet.predict.embeddings import EmbeddingModel
from tuplet.predict.evaluate import KnownAnswers, LinkMetrics, evaluate
from tuplet.predict.model_folder import model_class
from tuplet.predict.training import PatientTask, Position
from tuplet.progress import counted


class SampledRows(NamedTuple):
    """The entities that one step reads and changes."""

    rows: Tensor  # ids, rising [n]
    log_chance: Tensor  # log of the chance of each to be drawn [n]


class EntitySampler:
    """Draws the entities of each step of an epoch; what it draws depends on the generator of the epoch alone.

    >>> edges = torch.tensor([[0, 0, 1], [1, 1, 0], [1, 0, 2], [2, 1, 1]])
    >>> sampler = EntitySampler(edges, entities=5, negatives=2)
    >>> sampler.shuffle(torch.Generator().manual_seed(2))
    >>> drawn = sampler.draw(edges[:2], 0)  # their 0 and 1, and two at random
    >>> drawn.rows.tolist()
    [0, 1, 3, 4]
    >>> [round(chance, 3) for chance in drawn.log_chance.exp().tolist()]  # of 0: 1 - (1 - 2/3) * (1 - 2/5)
    [0.8, 1.0, 0.4, 0.4]
    """

    def __init__(self, edges: Tensor, entities: int, negatives: int) -> None:
        self.edges, self.entities, self.negatives = len(edges), entities, min(negatives, entities)
        heads, tails = edges[:, 0], edges[:, 2]
        # In how many edges each entity is: a loop is one edge.
        self.degree = torch.bincount(torch.cat([heads, tails[tails != heads]]), minlength=entities).double()
        self.log_chance = lru_cache(maxsize=2)(self._log_chance)  # the last batch of an epoch is smaller

    def shuffle(self, generator: torch.Generator) -> None:
        """Begin an epoch: another order of the entities, from which each step takes the next ones."""
        self.order = torch.randperm(self.entities, generator=generator).to(self.degree.device)

    def draw(self, batch: Tensor, number: int) -> SampledRows:
        """The entities of the step with that number in its epoch. [n, 3]"""
        where = torch.arange(number * self.negatives, (number + 1) * self.negatives, device=batch.device)
        negatives = self.order[where % self.entities]
        rows = torch.unique(torch.cat([batch[:, 0], batch[:, 2], negatives]))
        return SampledRows(rows, self.log_chance(len(batch))[rows])

    def _log_chance(self, size: int) -> Tensor:
        """log of the chance that an entity comes to an edge without it: with the rest of the batch or at random."""
        rest, drawn = self.edges - 1, size - 1
        others = rest - self.degree  # edges without the entity; it stays away if the batch is of these alone
        missed = torch.lgamma(others + 1) - torch.lgamma((others - drawn).clamp_min(0) + 1)
        missed += math.lgamma(rest - drawn + 1) - math.lgamma(rest + 1)
        missed = torch.where(others >= drawn, missed.exp(), 0.0)
        return (1 - missed * (1 - self.negatives / self.entities)).log().float()


@torch.no_grad()
def update_rows(optimizer: torch.optim.Adagrad, table: Tensor, rows: Tensor, values: Tensor, gradient: Tensor) -> None:
    """A step of Adagrad on some rows of a table, whose values are at hand: no other row is read or written."""
    settings, total = optimizer.param_groups[0], optimizer.state[table]["sum"]
    squares = total.index_select(0, rows).addcmul_(gradient, gradient)
    total.index_copy_(0, rows, squares)
    root = squares.sqrt_().add_(settings["eps"])
    table.index_copy_(0, rows, values.addcdiv(gradient, root, value=-settings["lr"]))


def objective(
    model: EmbeddingModel,
    edges: Tensor,
    regularisation: float,
    relation_weight: float,
    entity_block: int,
    sampled: tuple[Tensor, SampledRows] | None = None,
) -> Tensor:
    """Loss of a batch of reciprocal edges [n, 3] → a scalar. `entity_block` ≥ entities scores all of them at once.

    With `sampled` rows [m, width] of some entities, only these are read. The sum of exp(score) over all entities is
    estimated from them, each divided by its chance to be drawn. The head and the tail of an edge are always among them
    and count once. So the estimate has the right mean, and if all are drawn it is the sum itself.
    """
    head_id, relation_id, tail_id = edges.unbind(1)
    entity = model.entity
    if sampled is not None:
        entity, drawn = sampled
        head_id, tail_id = torch.searchsorted(drawn.rows, edges[:, ::2].T.contiguous())
    # One gather for both ends: its way back fills one table-sized gradient instead of two.
    head, tail = entity.index_select(0, torch.cat([head_id, tail_id])).chunk(2)
    relation = model.relation.index_select(0, relation_id)
    query = model.query(head, relation)
    if sampled is not None:
        weight = -drawn.log_chance.expand(len(edges), -1)
        weight = weight.scatter(1, torch.stack([head_id, tail_id], 1), 0.0)
        loss = cross_entropy(model.score_all(query, entity) + weight, tail_id)
    elif entity_block >= model.entities:
        loss = cross_entropy(model.score_all(query, entity), tail_id)
    else:
        loss = (logsumexp(model, query, entity_block) - model.score(query, tail)).mean()
    further = head.new_zeros(())
    if relation_weight:
        further = further + relation_weight * cross_entropy(model.relation_scores(head, tail), relation_id)
    if regularisation:
        further = further + regularisation / len(head) * model.penalty(head, relation, tail)
    return loss + further


def logsumexp(model: EmbeddingModel, query: Tensor, entity_block: int) -> Tensor:
    """log Σ exp of the scores of each query against all entities [n], never holding more than one block of scores.

    A block's scores are recomputed on the way back: memory is that of one block, for one more matrix product.
    """

    def of_block(query: Tensor, rows: Tensor) -> Tensor:
        return model.score_all(query, rows).float().logsumexp(1)

    parts = [checkpoint(of_block, query, rows, use_reentrant=False) for rows in torch.split(model.entity, entity_block)]
    return torch.stack(parts).logsumexp(0)


def choose_block(model: EmbeddingModel, batch: int, memory: int) -> int:
    """How many entities can be scored at once within `memory` bytes: scores, their softmax and their gradient."""
    return max(1, min(model.entities, memory // (batch * model.cells_per_score * 3 * 4)))


class LinkTask(PatientTask):
    """A link predictor: a round is an epoch."""

    config: TrainConfig
    model: EmbeddingModel
    keeps_best = True
    advice = "a lower rank and fewer epochs are faster, a GPU (device cuda) much faster"

    def __init__(self, edges: TrainingEdges, config: TrainConfig, device: torch.device) -> None:
        if device.type != "cuda" and config.precision not in ("auto", "float32"):
            raise BadInput(f"precision {config.precision} needs a CUDA device; on the CPU only float32 is fast")
        self.edges, self.config, self.device = edges, config, device
        self.steps_per_epoch = -(-2 * edges.count("train") // config.batch)
        self.steps = config.steps or config.epochs * self.steps_per_epoch
        self.epochs = -(-self.steps // self.steps_per_epoch)
        self.kind = model_class(config.model)
        scored = min(edges.entities, 2 * config.batch + config.negatives) if config.negatives else edges.entities
        self.products = config.batch * scored * config.rank * self.kind.entity_parts
        self.bilinear = self.kind.bilinear
        self.epoch = -1  # whose batches are at hand
        self.best: LinkMetrics | None = None  # of the measurements in this process

    def memory(self) -> int:
        """Tables with what the optimizer keeps (and, unless sampled, their gradient), edges in order, scores."""
        config, edges = self.config, self.edges
        copies = 2 if config.negatives else 3 + (config.optimizer == "adam")
        table = 4 * edges.entities * config.rank * self.kind.entity_parts
        scored = min(3 * 4 * self.products // (config.rank * self.kind.entity_parts), 1 << 30)
        return copies * table + 2 * 2 * 3 * 8 * edges.count("train") + scored

    def prepare(self) -> None:
        config, device, edges = self.config, self.device, self.edges
        generator = torch.Generator().manual_seed(_mix(config.seed, -1))
        sizes = edges.entities, edges.relations, config.rank
        self.model = self.kind.create(*sizes, config.init_scale, config.norm, generator).to(device)
        tables = [table.requires_grad_(True) for table in (self.model.entity, self.model.relation)]
        kind = Adam if config.optimizer == "adam" else Adagrad
        self.optimizer = kind(tables, lr=config.learning_rate)
        self.triples = add_reciprocal(edges.splits["train"], edges.relations).to(device)
        self.sampler = EntitySampler(self.triples, edges.entities, config.negatives) if config.negatives else None
        self.known = KnownAnswers(edges.splits, edges.entities, edges.relations, device)
        memory = torch.cuda.get_device_properties(device).total_memory // 8 if device.type == "cuda" else 1 << 30
        self.block = config.entity_block or choose_block(self.model, config.batch, memory)

    def parameters(self) -> Mapping[str, Tensor]:
        return {"entity": self.model.entity, "relation": self.model.relation}

    def step(self, position: Position) -> tuple[Tensor, int]:
        model, config = self.model, self.config
        epoch, number = divmod(position.step, self.steps_per_epoch)
        if epoch != self.epoch:
            generator = torch.Generator().manual_seed(_mix(config.seed, epoch))
            order = torch.randperm(len(self.triples), generator=generator)
            if self.sampler is not None:
                self.sampler.shuffle(generator)
            self.epoch, self.batches = epoch, torch.split(self.triples[order.to(self.device)], config.batch)
        batch, sampled = self.batches[number], None
        if self.sampler is not None:  # only the rows of some entities are read and changed
            drawn = self.sampler.draw(batch, number)
            entity = model.entity.detach().index_select(0, drawn.rows).requires_grad_(True)
            sampled = entity, drawn
        loss = objective(model, batch, config.regularisation, config.relation_weight, self.block, sampled)
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        self.optimizer.step()  # if sampled, of the relations alone: the entity table has no gradient
        if self.sampler is not None:
            assert isinstance(self.optimizer, torch.optim.Adagrad)
            assert entity.grad is not None
            update_rows(self.optimizer, model.entity, drawn.rows, entity.detach(), entity.grad)
        return loss.detach(), len(batch)

    def amount(self, position: Position) -> tuple[float, float, str]:
        return position.step, self.steps, f"steps, epoch {self._epoch(position)}/{self.epochs}"

    def rounds(self, position: Position) -> int:
        return position.step // self.steps_per_epoch

    def measure(self) -> tuple[float, Mapping[str, float]] | None:
        if not self.edges.count("valid"):
            return None
        metrics = self._evaluate("valid")
        if self.best is None or metrics.mrr > self.best.mrr:
            self.best = metrics
        return metrics.mrr, metrics.to_json()

    def _evaluate(self, split: str) -> LinkMetrics:
        ranked = count_ranked(self.edges.count(split), self.edges.entities)
        return evaluate(self.model, self.edges.splits[split], self.known, self.device, ranked)

    def results(self, position: Position) -> dict[str, Any]:
        for table in self.parameters().values():
            table.requires_grad_(False)
        metrics = {}
        if self.edges.count("valid"):  # the model is the best one: if it was measured here, it is not measured again
            known = self.best if self.best is not None and self.best.mrr == position.best else None
            metrics["valid"] = (known or self._evaluate("valid")).to_json()
        if self.edges.count("test"):
            metrics["test"] = self._evaluate("test").to_json()
        best = position.best_round or position.round
        return {"epochs": position.round, "best_epoch": best, "metrics": metrics}

    def headline(self) -> str:
        config = self.config
        settings = f"rank {config.rank:,}, {counted(self.epochs, 'epoch')} of {counted(self.steps_per_epoch, 'step')}"
        sampled = f", {config.negatives:,} negatives" if config.negatives else ""
        return f"{config.model}, {settings}, batch {config.batch:,}{sampled}"

    def where(self, position: Position) -> str:
        return f"in epoch {self._epoch(position)} of {self.epochs}"

    def _epoch(self, position: Position) -> int:
        return min(position.step // self.steps_per_epoch + 1, self.epochs)

    def for_gpu(self) -> bool:
        wanted = [replace(preset, epochs=1, seed=0) for name, preset in PRESETS.items() if name != "small"]
        return replace(self.config, epochs=1, seed=0) in wanted


def add_reciprocal(edges: Triples, relations: int) -> Tensor:
    """Each edge (h, r, t) and its reciprocal (t, r + relations, h) → [2n, 3].

    >>> add_reciprocal((np.array([0]), np.array([1]), np.array([2])), relations=3).tolist()
    [[0, 1, 2], [2, 4, 0]]
    """
    heads, relation, tails = (torch.from_numpy(np.asarray(part, dtype=np.int64)) for part in edges)
    forward = torch.stack([heads, relation, tails], 1)
    backward = torch.stack([tails, relation + relations, heads], 1)
    return torch.cat([forward, backward])


def _mix(seed: int, epoch: int) -> int:
    """Neighbouring seeds and epochs share no order."""
    return (seed * 1_000_003 + epoch + 1) % (1 << 62)
