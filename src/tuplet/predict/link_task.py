"""Training of link predictors that are tables of embeddings.

A round is an epoch over the reciprocal edges, measured by the filtered MRR of the valid edges.
The order of the edges in an epoch depends on (seed, epoch) alone. With valid edges the model is the best one by valid
MRR; without, the last. Everything about the run itself is in `training`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuplet.errors import BadInput
from tuplet.predict.config import PRESETS, TrainConfig, ranked_edges
from tuplet.predict.edges import TrainingEdges, Triples
from tuplet.predict.embeddings import EmbeddingModel
from tuplet.predict.evaluate import KnownAnswers, LinkMetrics, evaluate
from tuplet.predict.loss import fitting_block, objective, sampled_objective
from tuplet.predict.optimizers import Adagrad, Adam
from tuplet.predict.predictors import model_class
from tuplet.predict.sampling import EntitySampler, update_rows
from tuplet.predict.training import PatientTask, Position
from tuplet.progress import counted


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
        self.model = self.kind.create(*sizes, config.init_scale, config.norm, generator).to(self.tables_on)
        tables = [table.requires_grad_(True) for table in (self.model.entity, self.model.relation)]
        kind = Adam if config.optimizer == "adam" else Adagrad
        self.optimizer = kind(tables, lr=config.learning_rate)
        self.triples = self.reciprocal_edges()
        self.sampler = EntitySampler(self.triples, edges.entities, config.negatives) if config.negatives else None
        self.known = KnownAnswers(edges.splits, edges.entities, edges.relations, device)
        memory = torch.cuda.get_device_properties(device).total_memory // 8 if device.type == "cuda" else 1 << 30
        self.block = config.entity_block or fitting_block(self.model, config.batch, memory)

    @property
    def tables_on(self) -> torch.device:
        """Where the tables of the model lie."""
        return self.device

    def reciprocal_edges(self) -> Tensor:
        """The train edges in both directions, where they are used."""
        return reciprocal(self.edges.splits["train"], self.edges.relations).to(self.device)

    def parameters(self) -> Mapping[str, Tensor]:
        return {"entity": self.model.entity, "relation": self.model.relation}

    def step(self, position: Position) -> tuple[Tensor, int]:
        config = self.config
        batch, number = self.batch_of(position.step)
        if self.sampler is not None:
            return self._sampled_step(self.sampler, batch, number), len(batch)
        loss = objective(self.model, batch, config.regularisation, config.relation_weight, self.block)
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        self.optimizer.step()
        return loss.detach(), len(batch)

    def batch_of(self, step: int) -> tuple[Tensor, int]:
        """The edges of a step, and its number in its epoch."""
        epoch, number = divmod(step, self.steps_per_epoch)
        if epoch != self.epoch:
            self.epoch, self.batches = epoch, self._batches(epoch)
        return self.batches[number], number

    def _sampled_step(self, sampler: EntitySampler, batch: Tensor, number: int) -> Tensor:
        """A step that reads and changes the rows of some entities alone."""
        config, table = self.config, self.model.entity
        drawn = sampler.draw(batch, number)
        entity = table.detach().index_select(0, drawn.rows).requires_grad_(True)
        loss = sampled_objective(self.model, entity, drawn, batch, config.regularisation, config.relation_weight)
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        self.optimizer.step()  # of the relations: the entity table has no gradient
        assert isinstance(self.optimizer, torch.optim.Adagrad)
        assert entity.grad is not None
        update_rows(self.optimizer, table, drawn.rows, entity.detach(), entity.grad)
        return loss.detach()

    def _batches(self, epoch: int) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(_mix(self.config.seed, epoch))
        order = torch.randperm(len(self.triples), generator=generator)
        if self.sampler is not None:
            self.sampler.shuffle(generator)
        return torch.split(self.triples[order.to(self.device)], self.config.batch)

    def amount(self, position: Position) -> tuple[float, float, str]:
        return position.step, self.steps, f"steps, epoch {self._epoch(position)}/{self.epochs}"

    def rounds(self, position: Position) -> int:
        return position.step // self.steps_per_epoch

    def measure(self) -> tuple[float, Mapping[str, float]] | None:
        if not self.edges.count("valid"):
            return None
        metrics = self._evaluated("valid")
        if self.best is None or metrics.mrr > self.best.mrr:
            self.best = metrics
        return metrics.mrr, metrics.to_json()

    def _evaluated(self, split: str) -> LinkMetrics:
        ranked = ranked_edges(self.edges.count(split), self.edges.entities)
        return evaluate(self.model.to(self.device), self.edges.splits[split], self.known, self.device, ranked)

    def results(self, position: Position) -> dict[str, Any]:
        for table in self.parameters().values():
            table.requires_grad_(False)
        metrics = {}
        if self.edges.count("valid"):  # the model is the best one: if it was measured here, it is not measured again
            known = self.best if self.best is not None and self.best.mrr == position.best else None
            metrics["valid"] = (known or self._evaluated("valid")).to_json()
        if self.edges.count("test"):
            metrics["test"] = self._evaluated("test").to_json()
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


def reciprocal(edges: Triples, relations: int) -> Tensor:
    """Each edge (h, r, t) and its reciprocal (t, r + relations, h) → [2n, 3].

    >>> reciprocal((np.array([0]), np.array([1]), np.array([2])), relations=3).tolist()
    [[0, 1, 2], [2, 4, 0]]
    """
    heads, relation, tails = (torch.from_numpy(np.asarray(part, dtype=np.int64)) for part in edges)
    forward = torch.stack([heads, relation, tails], 1)
    backward = torch.stack([tails, relation + relations, heads], 1)
    return torch.cat([forward, backward])


def _mix(seed: int, epoch: int) -> int:
    """Neighbouring seeds and epochs share no order."""
    return (seed * 1_000_003 + epoch + 1) % (1 << 62)
