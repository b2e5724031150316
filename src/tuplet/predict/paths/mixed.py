"""Training of one path network on several graphs, so that it learns what holds on all of them.

A step asks questions of one graph. Which one depends on (seed, step) alone; large graphs are asked more often, in
proportion to the root of how many questions they have: the largest must not be all there is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tuplet.errors import BadInput
from tuplet.predict.edges import TrainingEdges
from tuplet.predict.evaluate import evaluate
from tuplet.predict.paths.model import AnyGraphModel
from tuplet.predict.paths.task import PathTask
from tuplet.predict.training import Position
from tuplet.train_config import TrainConfig

_CHOICE = 1  # sets the random numbers of the choice apart from those of the questions


class MixedPathTask(PathTask):
    """A path network of any graph, trained on several; the run is measured by the mean of their valid MRR."""

    model: AnyGraphModel

    def __init__(self, graphs: Mapping[str, TrainingEdges], config: TrainConfig, device: torch.device) -> None:
        if config.model != AnyGraphModel.kind:
            raise BadInput(f"{config.model} learns the names of relations; several graphs need {AnyGraphModel.kind}")
        self.names, self.tasks = list(graphs), [PathTask(edges, config, device) for edges in graphs.values()]
        super().__init__(next(iter(graphs.values())), config, device)
        weight = np.sqrt([task.questions.rounds for task in self.tasks])
        self.until = np.cumsum(weight / weight.sum())
        self.steps_per_epoch = sum(task.steps_per_epoch for task in self.tasks)
        self.steps = config.steps or config.epochs * self.steps_per_epoch

    def prepare(self) -> None:
        super().prepare()
        for task in self.tasks:
            task.prepare()
            task.model = self.model.on(task.edges)

    def asked_in(self, position: Position) -> PathTask:
        chance = np.random.default_rng([self.config.seed, position.step, _CHOICE]).random()
        return self.tasks[min(int(np.searchsorted(self.until, chance, side="right")), len(self.tasks) - 1)]

    def measure(self) -> tuple[float, Mapping[str, float]] | None:
        found = [task.measure() for task in self.tasks]
        each = {name: one[0] for name, one in zip(self.names, found, strict=True) if one is not None}
        return (math.fsum(each.values()) / len(each), each) if each else None

    def results(self, position: Position) -> dict[str, Any]:
        metrics = {
            f"{name} {split}": evaluate(task.model, task.edges.splits[split], task.known, self.device).to_json()
            for name, task in zip(self.names, self.tasks, strict=True)
            for split in ("valid", "test")
            if task.edges.count(split)
        }
        return {"epochs": round(position.step / self.steps_per_epoch, 2), "metrics": metrics, "graphs": self.names}

    def headline(self) -> str:
        return f"{super().headline()} of {_listed(self.names)}"


def _listed(names: Sequence[str]) -> str:
    """
    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
