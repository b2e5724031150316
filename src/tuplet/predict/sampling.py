"""Sampled softmax: which entities a step knows, how likely each was to be among them, and how only they are changed.

A step knows the heads and tails of its batch, which it reads in any case, and some entities drawn at random.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class SampledRows(NamedTuple):
    """The entities that one step reads and changes."""

    rows: Tensor  # ids, rising [n]
    log_chance: Tensor  # log of the chance of each to be drawn [n]


class EntitySampler:
    """Draws the entities of each step of an epoch; what it draws depends on the generator of the epoch alone.

    >>> edges = torch.tensor([[0, 0, 1], [1, 1, 0], [1, 0, 2], [2, 1, 1]])
    >>> sampler = EntitySampler(edges, entities=5, negatives=2)
    >>> sampler.shuffle(torch.Generator().manual_seed(2))
    >>> drawn = sampler.draw(edges[:2], 0)  # their 0 and 1, and two by lot
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
        self.log_chance: dict[int, Tensor] = {}  # by the size of the batch: the last one of an epoch is smaller

    def shuffle(self, generator: torch.Generator) -> None:
        """Begin an epoch: another order of the entities, from which each step takes the next ones."""
        self.order = torch.randperm(self.entities, generator=generator).to(self.degree.device)

    def draw(self, batch: Tensor, number: int) -> SampledRows:
        """The entities of the step with that number in its epoch. [n, 3]"""
        where = torch.arange(number * self.negatives, (number + 1) * self.negatives, device=batch.device)
        negatives = self.order[where % self.entities]
        rows = torch.unique(torch.cat([batch[:, 0], batch[:, 2], negatives]))
        if len(batch) not in self.log_chance:
            self.log_chance[len(batch)] = self._log_chance(len(batch))
        return SampledRows(rows, self.log_chance[len(batch)][rows])

    def _log_chance(self, size: int) -> Tensor:
        """log of the chance that an entity comes to an edge without it: with the rest of the batch or by lot."""
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
