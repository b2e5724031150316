"""The types of entities, learned from relations: which views an entity has, and which other views they speak for.

A view is a relation in one direction: 2r (as a head of r), or 2r + 1 (as a tail). Needs torch and numpy alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch

Tensor = torch.Tensor

SHRINK = 5.0  # a confidence is that of a rule which failed this many times more
_PAIRS = 1 << 20  # pairs expanded at a time: their columns stay in the caches of a CPU
_MOST_VIEWS = 8192  # with more, what goes together would be too large a matrix; rules and types then say nothing


@dataclass(frozen=True)
class EntityViews:
    """The views of every entity in known edges, and how surely one view comes with another.

    >>> heads, relation, tails = torch.tensor([[0, 1, 2, 0], [0, 0, 0, 1], [3, 3, 3, 4]])
    >>> known = EntityViews.of(5, 2, heads, relation, tails)  # 0, 1 and 2 are heads of relation 0; 0 also of 1
    >>> known.support(2).tolist()  # that they are heads of relation 1: 1 of 3, shrunk
    [1.0, 0.125, 0.125, 0.0, 0.0]
    """

    start: Tensor  # [entities + 1] where the views of each entity begin
    views: Tensor  # ascending for each entity
    confidence: Tensor  # [views, views] of the entities that have view u, the share that has v

    @staticmethod
    def of(entities: int, relations: int, heads: Tensor, relation: Tensor, tails: Tensor) -> EntityViews:
        """From known edges."""
        size = 2 * relations
        codes = torch.unique(torch.cat([heads * size + 2 * relation, tails * size + 2 * relation + 1]))
        start = torch.searchsorted(codes // size, torch.arange(entities + 1, device=heads.device))
        views = codes % size
        both = together(start, views, size)
        return EntityViews(start, views, both / (both.diagonal()[:, None] + SHRINK))

    def support(self, view: int, least: float = 0.0) -> Tensor:
        """How surely each entity has a view: 1 where it is known to, else the best that its views say. [entities]

        What is below `least` may be 0: views that say less are not looked at.
        """
        start, members = self.members
        said = self.confidence[:, view].clone()
        said[view] = 1.0
        speak = torch.nonzero((said > 0) & (said >= least)).view(-1)
        owner, place = expand(start[speak], (start[1:] - start[:-1])[speak])
        out = torch.zeros(len(self.start) - 1, device=said.device)
        return out.scatter_reduce_(0, members[place], said[speak][owner], "amax")

    @cached_property
    def members(self) -> tuple[Tensor, Tensor]:
        """Where the entities of each view begin [views + 1], and those entities."""
        count = self.start[1:] - self.start[:-1]
        owner = torch.repeat_interleave(torch.arange(len(count), device=count.device), count)
        views, order = torch.sort(self.views, stable=True)
        begin = torch.searchsorted(views, torch.arange(len(self.confidence) + 1, device=views.device))
        return begin, owner[order]


def together(start: Tensor, views: Tensor, size: int) -> Tensor:
    """How often two views are in one group (a range of `views`). [groups + 1], [n] → [size, size]"""
    if size > _MOST_VIEWS:
        return torch.zeros(size, 1, device=views.device).expand(size, size)
    count = start[1:] - start[:-1]
    group_start, group_count = torch.repeat_interleave(start[:-1], count), torch.repeat_interleave(count, count)
    total = torch.zeros(size * size, dtype=torch.int64, device=views.device)
    for begin, end in portions(group_count):
        owner, place = expand(group_start[begin:end], group_count[begin:end])
        total += torch.bincount(views[begin:end][owner] * size + views[place], minlength=size * size)
    return total.view(size, size).float()


def expand(start: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """The ranges start … start + count written out: who owns each element, and its place."""
    owner = torch.repeat_interleave(torch.arange(len(count), device=count.device), count)
    before = torch.cumsum(count, 0) - count
    return owner, torch.arange(len(owner), device=count.device) + (start - before)[owner]


def portions(count: Tensor) -> Iterator[tuple[int, int]]:
    """Ranges of elements whose counts add up to a few million."""
    total = torch.cumsum(count, 0)
    begin = 0
    while begin < len(count):
        reached = int(total[begin - 1]) if begin else 0
        end = max(begin + 1, int(torch.searchsorted(total, reached + _PAIRS, right=True)))
        yield begin, end
        begin = end
