"""Training of a path network: hide some facts, ask for them, and let it find them by the rest.

A question is an entity and a relation in one direction. A step draws questions, hides some of the answers of each from
the graph, and asks for them against all entities that are no answers. Questions with many answers are drawn more often,
in proportion to how many times `targets` they have, up to a limit: a hub must not be all there is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus
from torch.nn.utils import clip_grad_norm_

from tuplet.errors import BadInput
from tuplet.predict.edges import TrainingEdges
from tuplet.predict.evaluate import KnownAnswers, evaluate
from tuplet.predict.paths.cores import shared
from tuplet.predict.paths.model import PathModel
from tuplet.predict.predictors import trained_class
from tuplet.predict.training import PatientTask, Position
from tuplet.train_config import TrainConfig

MOST_ROUNDS = 8  # a question is drawn at most so many times as often as one with few answers
WARM_UP = 200  # steps in which the learning rate rises, at most a tenth of all
ROUNDS = 10  # measurements of a run
MEASURED_SHARE = 50  # one of so many rows of the training is ranked in each measurement
FEWEST_MEASURED = 100  # edges
NO_ANSWER = -1e9  # in place of the score of an answer, where the others are counted
WIDEST = 256  # rank
QUESTIONS = 4  # of a step that a core takes at a time
DECAY = 1e-5


class Draw(NamedTuple):
    """What a step asks for."""

    asked: NDArray[np.int64]  # [questions] entity
    relation: NDArray[np.int64]  # [questions] r, or r + relations for heads
    row: NDArray[np.int64]  # [answers] question of each known answer, ascending
    answer: NDArray[np.int64]  # [answers]
    hidden: NDArray[np.bool_]  # [answers] whether it is hidden and asked for

    def part(self, first: int, end: int) -> Draw:
        """Some of the questions."""
        answers = slice(*np.searchsorted(self.row, (first, end)))
        questions = slice(first, end)
        row = self.row[answers] - first
        return Draw(self.asked[questions], self.relation[questions], row, self.answer[answers], self.hidden[answers])


class Questions:
    """The questions that train edges answer, with their answers.

    >>> edges = np.array([0, 0, 1]), np.array([0, 0, 0]), np.array([1, 2, 2])
    >>> questions = Questions(edges, relations=1, targets=1)
    >>> len(questions), questions.rounds  # 0 leads to 1 and 2, 1 to 2; 1 is led to by 0, 2 by 0 and 1
    (4, 6.0)
    >>> draw = questions.draw(4, seed=0, step=0)
    >>> int(draw.hidden.sum()), sorted(zip(draw.asked.tolist(), draw.relation.tolist()))
    (4, [(0, 0), (1, 0), (1, 1), (2, 1)])
    """

    def __init__(self, train: tuple[Any, Any, Any], relations: int, targets: int) -> None:
        heads, relation, tails = (np.asarray(part, dtype=np.int64) for part in train)
        self.kinds, self.targets = 2 * relations, targets
        key = np.concatenate([heads, tails]) * self.kinds + np.concatenate([relation, relation + relations])
        answer = np.concatenate([tails, heads])
        order = np.lexsort((answer, key))
        self.answer = answer[order]
        self.key, self.start, self.count = np.unique(key[order], return_index=True, return_counts=True)
        self.until = np.cumsum(np.minimum(-(-self.count // targets), MOST_ROUNDS), dtype=np.float64)

    def __len__(self) -> int:
        return len(self.key)

    @property
    def rounds(self) -> float:
        """How many questions are an epoch."""
        return float(self.until[-1])

    def draw(self, batch: int, seed: int, step: int) -> Draw:
        """`batch` different questions, or all if there are no more, and what is hidden of their answers."""
        chance = np.random.default_rng([seed, step])
        chosen = self._choose(min(batch, len(self)), chance)
        count = self.count[chosen]
        row = np.repeat(np.arange(len(chosen)), count)
        first = np.cumsum(count) - count
        answer = self.answer[np.arange(len(row)) + (self.start[chosen] - first)[row]]
        order = np.lexsort((chance.random(len(row)), row))
        place = np.empty(len(row), dtype=np.int64)
        place[order] = np.arange(len(row)) - first[row]
        return Draw(*np.divmod(self.key[chosen], self.kinds), row, answer, place < self.targets)

    def _choose(self, wanted: int, chance: np.random.Generator) -> NDArray[np.int64]:
        """Different questions by weight: drawn one after the other, and those drawn before are passed over."""
        if wanted == len(self):
            return np.arange(wanted)
        found = np.zeros(0, dtype=np.int64)
        while len(found) < wanted:
            drawn = np.searchsorted(self.until, chance.random(2 * wanted) * self.until[-1], side="right")
            found = np.concatenate([found, drawn])
            found = found[np.sort(np.unique(found, return_index=True)[1])]
        return found[:wanted]


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
        self.model = kind(network, edges.entities, edges.relations, edges)
        fused = self.device.type == "cuda"
        self.optimizer = torch.optim.AdamW(
            network.parameters(), lr=config.learning_rate, weight_decay=DECAY, fused=fused
        )
        self.known = KnownAnswers(edges.splits, edges.entities, edges.relations, self.device)

    def parameters(self) -> Mapping[str, Tensor]:
        return dict(self.model.network.named_parameters())

    def step(self, position: Position) -> tuple[Tensor, int]:
        config, asked = self.config, self.asked_in(position)
        draw = asked.questions.draw(config.batch, config.seed, position.step)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(position.step)
        loss = asked.differentiate(draw)
        clip_grad_norm_(self.model.network.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach(), int(draw.hidden.sum())

    def asked_in(self, position: Position) -> PathTask:
        """Of whose graph a step asks."""
        return self

    def differentiate(self, draw: Draw) -> Tensor:
        """The loss of a step: the mean over the hidden answers; leaves its gradients at the parameters.

        On a CPU the questions are shared out among cores, always in the same parts: how many cores there are does not
        change the result.
        """
        count = int(draw.hidden.sum())
        at = draw.row[draw.hidden]
        heads, relation, tails = map(self._here, (draw.asked[at], draw.relation[at], draw.answer[draw.hidden]))
        visible = self.model.graph.visible(heads, relation, tails, whole_pairs=self.whole_pairs)
        parameters = list(self.model.network.parameters())

        def part(first: int, end: int) -> tuple[Tensor, ...]:
            loss = self.loss(draw.part(first, end), visible) / count
            return loss.detach(), *torch.autograd.grad(loss, parameters)

        size = len(draw.asked) if self.device.type == "cuda" else QUESTIONS
        ranges = [(first, min(first + size, len(draw.asked))) for first in range(0, len(draw.asked), size)]
        found = [part(*ranges[0])] if len(ranges) == 1 else shared(part, ranges)
        total, *slopes = (_sum(parts) for parts in zip(*found, strict=True))
        for parameter, slope in zip(parameters, slopes, strict=True):
            parameter.grad = slope
        return total

    def loss(self, draw: Draw, visible: Tensor) -> Tensor:
        """The sum over the hidden answers of −log(their share among themselves and all that is no answer)."""
        asked, relation, row, answer, at, target = (
            self._here(ids) for ids in (*draw[:4], draw.row[draw.hidden], draw.answer[draw.hidden])
        )
        scores: Tensor = self.model.network(self.model.graph, asked, relation, visible)
        others = scores.index_put((row, answer), torch.full((), NO_ANSWER, device=self.device)).logsumexp(1)
        return softplus(others[at] - scores[at, target]).sum()

    def _here(self, ids: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(ids).to(self.device)

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


def _sum(parts: Sequence[Tensor]) -> Tensor:
    """In their order, so that it is the same every time."""
    return reduce(torch.add, parts)
