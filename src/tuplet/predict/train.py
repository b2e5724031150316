"""One trainer for all models. A run is a folder that can be continued after Ctrl-C or a crash.

    config.json             settings and what they are for (graph, sizes)
    log.jsonl               one line per epoch, only ever appended to
    checkpoint.safetensors  tables, optimizer and position, replaced as a whole; gone when the run is done
    best.safetensors        the tables with the best valid MRR so far; gone when the run is done
    model.safetensors, model.json, MODEL.md   the result

The order of the edges in an epoch depends on (seed, epoch) alone, so a position is two numbers and a continued run
takes exactly the steps the uninterrupted one would have taken: on the CPU the result is the same to the last bit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuplet.errors import BadInput, TupletError
from tuplet.files import locked
from tuplet.predict import runs
from tuplet.predict.embeddings import EmbeddingModel, model_class
from tuplet.predict.evaluate import Known, Metrics, Splits, evaluate
from tuplet.predict.loss import fitting_block, objective
from tuplet.predict.model_folder import load, save
from tuplet.settings import TrainConfig, suitable

Progress = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Trained:
    """A finished run: the best model by valid MRR (the last one without valid edges) and its filtered metrics."""

    model: EmbeddingModel
    metrics: dict[str, Metrics]
    epochs: int
    train_seconds: float
    evaluate_seconds: float
    folder: Path


@dataclass
class State:
    """All that a step changes besides the tables: where the run is and what it has seen."""

    epoch: int = 0  # finished epochs
    step: int = 0  # finished steps of the next epoch
    best: float = -1.0
    best_epoch: int = 0
    waiting: int = 0  # measurements since the best one
    train_seconds: float = 0.0
    evaluate_seconds: float = 0.0
    loss: Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.float64))  # sum over the epoch so far


def train(
    edges: Splits,
    entities: int,
    relations: int,
    config: TrainConfig | None = None,
    folder: str | Path = "model",
    device: str | torch.device = "auto",
    resume: bool = False,
    progress: Progress | None = None,
    graph_hash: str | None = None,
    force: bool = False,
) -> Trained:
    """Train on `edges["train"]`, watch `edges["valid"]`, measure both and `edges["test"]`, leave a model in `folder`.

    Each split is (heads, relations, tails) by id. `resume` continues the run in `folder` (and takes its settings when
    `config` is None); other settings or another graph are refused. `force` starts over in a folder that holds a run.
    """
    folder, device = Path(folder), pick_device(device)
    check_edges(edges, entities, relations)
    if config is None:
        config = runs.stored_config(folder) if resume else suitable(len(edges["train"][0]))
    plan = runs.Plan(config, graph_hash or runs.fingerprint(edges), entities, relations, len(edges["train"][0]))
    products = config.batch * entities * config.rank * model_class(config.model).entity_parts
    with locked(folder), runs.tuned_cpu(device, products), runs.interrupts() as interrupted:
        finished = runs.prepare(folder, plan, resume, force)
        if finished is not None:
            metrics = {split: Metrics(**values) for split, values in finished["metrics"].items()}
            seconds = finished["train_seconds"], finished["evaluate_seconds"]
            return Trained(load(folder, device), metrics, finished["epochs"], *seconds, folder)
        return _Run(edges, plan, folder, device, progress, interrupted).complete()


class _Run:
    """A run in progress."""

    def __init__(
        self,
        edges: Splits,
        plan: runs.Plan,
        folder: Path,
        device: torch.device,
        progress: Progress | None,
        interrupted: Callable[[], bool],
    ) -> None:
        self.edges, self.plan, self.config, self.folder, self.device = edges, plan, plan.config, folder, device
        self.progress, self.interrupted = progress, interrupted
        self.model = _create(plan, device)
        self.optimizer = _optimizer(self.config, self.model)
        self.state = State(loss=torch.zeros((), dtype=torch.float64, device=device))
        if (folder / runs.CHECKPOINT).exists():
            runs.read_checkpoint(folder, self.model, self.optimizer, self.state)
        self.triples = reciprocal(edges["train"], plan.relations).to(device)
        self.known = Known(edges, plan.entities, plan.relations, device)
        self.watching = len(edges.get("valid", ((),))[0]) > 0
        memory = torch.cuda.get_device_properties(device).total_memory // 8 if device.type == "cuda" else 1 << 30
        self.block = self.config.entity_block or fitting_block(self.model, self.config.batch, memory)
        self.saved = time.monotonic()

    def complete(self) -> Trained:
        """Run to the end, from wherever the run is."""
        config, state = self.config, self.state
        runs.log(self.folder, {"event": "resumed" if state.epoch or state.step else "started", "epoch": state.epoch})
        while state.epoch < config.epochs and not (config.patience and state.waiting >= config.patience):
            self._epoch()
            if time.monotonic() - self.saved >= config.checkpoint_seconds:
                self._save()
            if self.interrupted():
                self._stop()
        return self._finish()

    def _epoch(self) -> None:
        state, config = self.state, self.config
        began = time.monotonic()
        order = torch.randperm(
            len(self.triples), generator=torch.Generator().manual_seed(_mix(config.seed, state.epoch))
        )
        batches = torch.split(self.triples[order.to(self.device)], config.batch)
        with precision(config.precision, self.model, self.device):
            for batch in batches[state.step :]:
                loss = objective(self.model, batch, config.regularisation, config.relation_weight, self.block)
                self.optimizer.zero_grad(set_to_none=True)
                torch.autograd.backward(loss)
                self.optimizer.step()
                # Summed on the device: asking for the number would make the GPU wait for Python at every step.
                state.loss += loss.detach() * len(batch)
                state.step += 1
                if self.interrupted():
                    state.train_seconds += time.monotonic() - began
                    self._stop()
        mean = float(state.loss) / len(self.triples)
        seconds = time.monotonic() - began
        state.train_seconds += seconds
        state.epoch, state.step = state.epoch + 1, 0
        state.loss.zero_()
        if not math.isfinite(mean):
            raise TupletError(
                f"training diverged in epoch {state.epoch}: the loss is {mean}; try a lower learning_rate"
            )
        record: dict[str, Any] = {
            "epoch": state.epoch,
            "epochs": config.epochs,
            "loss": mean,
            "seconds": round(seconds, 4),
        }
        record["eta_seconds"] = round(state.train_seconds / state.epoch * (config.epochs - state.epoch), 1)
        if self.watching and config.evaluate_every and state.epoch % config.evaluate_every == 0:
            record["valid"] = self._watch().to_json()
        runs.log(self.folder, record)
        if self.progress is not None:
            self.progress(record)

    def _watch(self) -> Metrics:
        """Measure the valid edges; keep the tables if they are the best so far."""
        metrics = self._measure("valid")
        if metrics.mrr > self.state.best:
            self.state.best, self.state.best_epoch, self.state.waiting = metrics.mrr, self.state.epoch, 0
            runs.write_best(self.folder, self.model)
        else:
            self.state.waiting += 1
        return metrics

    def _measure(self, split: str) -> Metrics:
        began = time.monotonic()
        metrics = evaluate(self.model, self.edges[split], self.known, self.device)
        self.state.evaluate_seconds += time.monotonic() - began
        return metrics

    def _save(self) -> None:
        runs.write_checkpoint(self.folder, self.model, self.optimizer, self.state)
        self.saved = time.monotonic()

    def _stop(self) -> None:
        self._save()
        raise runs.Interrupted(self.folder, self.state.epoch, self.config.epochs)

    def _finish(self) -> Trained:
        state = self.state
        if self.watching and state.best_epoch != state.epoch:
            if not self.config.evaluate_every or state.epoch % self.config.evaluate_every:
                self._watch()
            if state.best_epoch != state.epoch:
                runs.read_best(self.folder, self.model)
        self.model.entity.requires_grad_(False)
        self.model.relation.requires_grad_(False)
        metrics = {s: self._measure(s) for s in ("valid", "test") if len(self.edges.get(s, ((),))[0])}
        meta = {
            "graph": self.plan.graph,
            "config": self.plan.config_json(),
            "epochs": state.epoch,
            "best_epoch": state.best_epoch if self.watching else state.epoch,
            "train_seconds": round(state.train_seconds, 3),
            "evaluate_seconds": round(state.evaluate_seconds, 3),
            "device": str(self.device),
            "metrics": {split: m.to_json() for split, m in metrics.items()},
        }
        save(self.model, self.folder, meta)
        runs.log(self.folder, {"event": "finished", **{split: m.to_json() for split, m in metrics.items()}})
        runs.clean(self.folder)
        return Trained(self.model, metrics, state.epoch, state.train_seconds, state.evaluate_seconds, self.folder)


def pick_device(device: str | torch.device) -> torch.device:
    """`auto` is the GPU if there is one; asking for a GPU that is not there is an error."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise BadInput(f"unknown device {str(device)!r}; choose auto, cpu, cuda or cuda:N") from None
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise BadInput("no CUDA device is available here; choose --device cpu")
    return chosen


def reciprocal(edges: tuple[Any, Any, Any], relations: int) -> Tensor:
    """Each edge (h, r, t) and its reciprocal (t, r + relations, h) → [2n, 3].

    >>> reciprocal((np.array([0]), np.array([1]), np.array([2])), relations=3).tolist()
    [[0, 1, 2], [2, 4, 0]]
    """
    heads, relation, tails = (torch.from_numpy(np.asarray(part, dtype=np.int64)) for part in edges)
    forward = torch.stack([heads, relation, tails], 1)
    backward = torch.stack([tails, relation + relations, heads], 1)
    return torch.cat([forward, backward])


def check_edges(edges: Splits, entities: int, relations: int) -> None:
    """Refuse splits that are empty, ragged or out of range, before anything is written."""
    if "train" not in edges or not len(edges["train"][0]):
        raise BadInput("there are no training edges")
    for split, (heads, relation, tails) in edges.items():
        if not len(heads) == len(relation) == len(tails):
            raise BadInput(f"{split}: heads, relations and tails differ in length")
        for what, ids, count in (
            ("head", heads, entities),
            ("relation", relation, relations),
            ("tail", tails, entities),
        ):
            if len(ids) and not (int(np.min(ids)) >= 0 and int(np.max(ids)) < count):
                raise BadInput(f"{split}: a {what} id is outside 0 … {count - 1}")


@contextmanager
def precision(name: str, model: EmbeddingModel, device: torch.device) -> Iterator[None]:
    """The precision of matrix products while training; evaluation is always float32."""
    if device.type != "cuda":
        if name not in ("auto", "float32"):
            raise BadInput(f"precision {name} needs a CUDA device; on the CPU only float32 is fast")
        yield
        return
    # Distances subtract nearly equal products: tf32 would leave noise where the small distances are.
    tf32 = name == "tf32" or (name == "auto" and model.bilinear)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    mixed: AbstractContextManager[Any] = torch.autocast("cuda", torch.bfloat16) if name == "bf16" else nullcontext()
    try:
        with mixed:
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def _create(plan: runs.Plan, device: torch.device) -> EmbeddingModel:
    config = plan.config
    kind, generator = model_class(config.model), torch.Generator().manual_seed(_mix(config.seed, -1))
    model = kind.create(plan.entities, plan.relations, config.rank, config.init_scale, config.norm, generator).to(
        device
    )
    model.entity.requires_grad_(True)
    model.relation.requires_grad_(True)
    return model


def _optimizer(config: TrainConfig, model: EmbeddingModel) -> torch.optim.Optimizer:
    tables = [model.entity, model.relation]
    if config.optimizer == "adam":
        return torch.optim.Adam(tables, lr=config.learning_rate)
    return torch.optim.Adagrad(tables, lr=config.learning_rate)


def _mix(seed: int, epoch: int) -> int:
    """Neighbouring seeds and epochs share no order."""
    return (seed * 1_000_003 + epoch + 1) % (1 << 62)
