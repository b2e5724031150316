"""Training of a path network of any graph: on one graph, or on several, so that it learns what holds on all of them.

A step asks questions of a view of a graph (`views`): what it asks for is not there, so neither facts nor the meetings
of relations tell it. Some views are at hand at a time, and one of them is replaced every so many steps. Which they are
depends on (seed, step) alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from tuplet.errors import BadInput
from tuplet.predict.config import TrainConfig
from tuplet.predict.edges import TrainingEdges
from tuplet.predict.evaluate import KnownAnswers, evaluate
from tuplet.predict.paths.lesson import Lesson
from tuplet.predict.paths.model import AnyGraphModel
from tuplet.predict.paths.questions import Questions
from tuplet.predict.paths.task import PathTask, hides_pairs
from tuplet.predict.paths.views import GraphView, told_less, view_of
from tuplet.predict.training import Position

AT_HAND = 16  # views
EVERY = 16  # steps one of them is replaced
WHOLE = 0.12  # of the views of several graphs
MEASURED = 2000  # valid edges of each graph
_STEP, _VIEW = 1, 2  # set their random numbers apart from those of the questions


class AnyGraphTask(PathTask):
    """A path network of any graph, trained on one."""

    model: AnyGraphModel
    views: dict[int, Lesson]

    def prepare(self) -> None:
        super().prepare()
        self.views = {}

    def lesson(self, position: Position) -> Lesson:
        replaced, chance = position.step // EVERY, np.random.default_rng([self.config.seed, position.step, _STEP])
        number = view_number(replaced, int(chance.integers(AT_HAND)))
        if number not in self.views:
            self.views = {key: view for key, view in self.views.items() if key > replaced}  # those still at hand
            view = self.view(np.random.default_rng([self.config.seed, number, _VIEW]))
            questions = Questions(view.facts, view.relations, self.config.targets, view.hidden)
            model = self.model.on(view.visible).telling(view.telling)
            self.views[number] = Lesson(model, questions, whole_pairs=False)
        return self.views[number]

    def view(self, chance: np.random.Generator) -> GraphView:
        """A random view."""
        return view_of(self.edges, 1.0, self.whole_pairs, chance)


class MixedTask(AnyGraphTask):
    """The same, trained on several graphs, and measured by the mean of their valid MRR.

    Large ones are asked more often, in proportion to the root of how many facts they have: the largest must not be all
    there is.
    """

    def __init__(self, graphs: Mapping[str, TrainingEdges], config: TrainConfig, device: torch.device) -> None:
        if config.model != AnyGraphModel.kind:
            raise BadInput(f"{config.model} learns the names of relations; several graphs need {AnyGraphModel.kind}")
        self.graphs, each = graphs, list(graphs.values())
        super().__init__(each[0], config, device)
        weight = np.sqrt([edges.count("train") for edges in each])
        self.share = weight / weight.sum()
        self.pairs = [hides_pairs(edges) for edges in each]
        rounds = sum(Questions(edges.splits["train"], edges.relations, config.targets).rounds for edges in each)
        self.steps_per_epoch = max(1, math.ceil(rounds / config.batch))
        self.steps = config.steps or config.epochs * self.steps_per_epoch

    def prepare(self) -> None:
        super().prepare()
        self.answers = {
            name: KnownAnswers(edges.splits, edges.entities, edges.relations, self.device)
            for name, edges in self.graphs.items()
        }

    def view(self, chance: np.random.Generator) -> GraphView:
        graph = int(chance.choice(len(self.share), p=self.share))
        view = view_of(list(self.graphs.values())[graph], WHOLE, self.pairs[graph], chance)
        return view._replace(telling=told_less(chance))

    def measure(self) -> tuple[float, Mapping[str, float]] | None:
        each = {name: found["mrr"] for name, found in self._measured("valid", MEASURED).items()}
        return (math.fsum(each.values()) / len(each), each) if each else None

    def _measured(self, split: str, sample: int | None = None) -> dict[str, dict[str, Any]]:
        asked = {name: edges for name, edges in self.graphs.items() if edges.count(split)}
        return {
            name: evaluate(self.model.on(edges), edges.splits[split], self.answers[name], self.device, sample).to_json()
            for name, edges in asked.items()
        }

    def results(self, position: Position) -> dict[str, Any]:
        metrics = {
            f"{name} {split}": found for split in ("valid", "test") for name, found in self._measured(split).items()
        }
        epochs = round(position.step / self.steps_per_epoch, 2)
        return {"epochs": epochs, "metrics": metrics, "graphs": list(self.graphs)}

    def headline(self) -> str:
        return f"{super().headline()} of {_listed(list(self.graphs))}"


def view_number(replaced: int, place: int) -> int:
    """Which view is at a place after so many were replaced, one place after the other.

    >>> [view_number(0, place) for place in (0, 1, 15)], [view_number(17, place) for place in (0, 1, 2)]
    ([16, 1, 15], [32, 33, 18])
    """
    return replaced + AT_HAND - (replaced - place) % AT_HAND


def _listed(names: Sequence[str]) -> str:
    """
    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
