"""What a path network learns from in one step: a graph, and questions whose answers are hidden from it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from tuplet.predict.paths.cores import shared
from tuplet.predict.paths.model import PathModel
from tuplet.predict.paths.questions import Draw, Questions

NO_ANSWER = -1e9  # in place of the score of an answer, where the others are counted
QUESTIONS = 4  # of a step that a core takes at a time


class Lesson:
    """The model on a graph, and what is asked there."""

    def __init__(self, model: PathModel, questions: Questions, whole_pairs: bool) -> None:
        self.model, self.questions, self.whole_pairs = model, questions, whole_pairs

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

        size = len(draw.asked) if self.model.device.type == "cuda" else QUESTIONS
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
        others = scores.index_put((row, answer), torch.full((), NO_ANSWER, device=self.model.device)).logsumexp(1)
        return softplus(others[at] - scores[at, target]).sum()

    def _here(self, ids: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(ids).to(self.model.device)


def _sum(parts: Sequence[Tensor]) -> Tensor:
    """In their order, so that it is the same every time."""
    return reduce(torch.add, parts)
