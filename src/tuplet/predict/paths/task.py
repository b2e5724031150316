"""Training of a path network: hide some facts, ask for them, and let it find them by the rest.

A step draws questions (`questions`), hides some of the answers of each from the graph, and asks for them against all
entities that are no answers (`lesson`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from tuplet.errors import BadInput
from tuplet.predict.config import TrainConfig
from tuplet.predict.edges import TrainingEdges
from tuplet.predict.evaluate import KnownAnswers, evaluate
from tuplet.predict.model_folder import describe, load_for
from tuplet.predict.optimizers import AdamW
from tuplet.predict.paths.lesson import Lesson
from tuplet.predict.paths.model import AnyGraphModel, PathModel
from tuplet.predict.paths.questions import Questions
from tuplet.predict.predictors import trained_class
from tuplet.predict.training import PatientTask, Position

WARM_UP = 200  # steps in which the learning rate rises, at most a tenth of all
ROUNDS = 10  # measurements of a run
MEASURED_SHARE = 50  # one of so many rows of the training is ranked in each measurement
FEWEST_MEASURED = 100  # edges
WIDEST = 256  # rank
DECAY = 1e-5


class PathTask(PatientTask):
    """A path network: a round is a tenth of the run."""

    config: TrainConfig
    model: PathModel
    keeps_best = True
    bilinear = False
    advice = "fewer steps, fewer layers and a lower rank are faster, a GPU (device cuda) much faster"

    def __init__(self, edges: TrainingEdges, config: TrainConfig, device: torch.device) -> None:
        if config.precision != "auto":
            raise BadInput("a path network has its own precision (bfloat16 on a GPU, else float32): leave it at auto")
        if config.rank > WIDEST:
            raise BadInput(f"rank is {config.rank}; a path network is at most {WIDEST} wide")
        if config.start:
            refuse_start(config, edges)
        self.edges, self.config, self.device = edges, config, device
        self.questions = Questions(edges.splits["train"], edges.relations, config.targets)
        self.steps_per_epoch = max(1, math.ceil(self.questions.rounds / config.batch))
        self.steps = config.steps or config.epochs * self.steps_per_epoch
        self.whole_pairs = config.hide == "pair" or (config.hide == "auto" and hides_pairs(edges))
        self.products = 0  # of what torch should share out: the questions are, in `cores`

    def prepare(self) -> None:
        edges, config = self.edges, self.config
        torch.manual_seed(config.seed)  # on the CPU, so a seed means the same on every device
        kind = trained_class(config.model)
        network = kind.network_of(edges.relations, config.rank, config.layers).to(self.device)
        if config.start:
            start: Any = load_for(edges, config.start)
            network.load_state_dict(start.network.state_dict())
        self.model = kind(network, edges.entities, edges.relations, edges)
        fused = self.device.type == "cuda"
        self.optimizer = AdamW(network.parameters(), lr=config.learning_rate, weight_decay=DECAY, fused=fused)
        self.known = KnownAnswers(edges.splits, edges.entities, edges.relations, self.device)

    def parameters(self) -> Mapping[str, Tensor]:
        return dict(self.model.network.named_parameters())

    def step(self, position: Position) -> tuple[Tensor, int]:
        config, lesson = self.config, self.lesson(position)
        draw = lesson.questions.draw(config.batch, config.seed, position.step)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(position.step)
        loss = lesson.differentiate(draw)
        clip_grad_norm_(self.model.network.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach(), int(draw.hidden.sum())

    def lesson(self, position: Position) -> Lesson:
        """What a step asks, and of which graph."""
        return Lesson(self.model, self.questions, self.whole_pairs)

    def learning_rate(self, step: int) -> float:
        """Rises in the first steps, falls along a cosine to nothing in the last."""
        rise = max(1, min(WARM_UP, self.steps // 10))
        return self.config.learning_rate * min(1.0, (step + 1) / rise) * (1 + math.cos(math.pi * step / self.steps)) / 2

    def amount(self, position: Position) -> tuple[float, float, str]:
        return position.step, self.steps, "steps"

    def rounds(self, position: Position) -> int:
        return position.step * ROUNDS // self.steps

    def measure(self) -> tuple[float, Mapping[str, float]] | None:
        if not self.edges.count("valid"):
            return None
        sample = max(FEWEST_MEASURED, self.steps * self.config.batch // (2 * MEASURED_SHARE))
        metrics = evaluate(self.model, self.edges.splits["valid"], self.known, self.device, sample)
        return metrics.mrr, metrics.to_json()

    def results(self, position: Position) -> dict[str, Any]:
        splits = [split for split in ("valid", "test") if self.edges.count(split)]
        metrics = {s: evaluate(self.model, self.edges.splits[s], self.known, self.device).to_json() for s in splits}
        best = (position.best_round or position.round) / ROUNDS * self.steps
        epochs = {"epochs": position.step, "best_epoch": best}
        return {**{key: round(at / self.steps_per_epoch, 2) for key, at in epochs.items()}, "metrics": metrics}

    def headline(self) -> str:
        config = self.config
        sizes = f"width {config.rank:,}, {config.layers:,} layers"
        passes = self.steps / self.steps_per_epoch
        return f"{config.model}, {sizes}, {self.steps:,} steps ({passes:.3g} epochs) of {config.batch:,} questions"

    def where(self, position: Position) -> str:
        return f"at step {position.step:,} of {self.steps:,}"


def refuse_start(config: TrainConfig, edges: TrainingEdges) -> None:
    """A training begins with the numbers of a model of the same kind and sizes alone."""
    about = describe(config.start)
    wanted = {"kind": config.model, "rank": config.rank, "layers": config.layers}
    if config.model != AnyGraphModel.kind:
        wanted |= {"relations": edges.relations}
    for what, value in wanted.items():
        if about.get(what) != value:
            raise BadInput(f"{config.start} cannot be the start: its {what} is {about.get(what)}, not {value}")


def hides_pairs(edges: TrainingEdges) -> bool:
    """Whether valid facts are rarely between two entities that train facts join, though those often join them twice.

    Then the network has to learn to find facts without another edge between their ends. FB15k-237 was made so.
    """
    if not edges.count("valid"):
        return False
    train, valid = (_pair_keys(edges, split) for split in ("train", "valid"))
    pairs, count = np.unique(train, return_counts=True)
    twice = (count[np.searchsorted(pairs, train)] > 1).mean()
    return bool(np.isin(valid, pairs).mean() < twice / 2)


def _pair_keys(edges: TrainingEdges, split: str) -> NDArray[np.int64]:
    """The two ends of each edge as one number, whichever is the head."""
    heads, _, tails = (np.asarray(part, dtype=np.int64) for part in edges.splits[split])
    return np.minimum(heads, tails) * edges.entities + np.maximum(heads, tails)
