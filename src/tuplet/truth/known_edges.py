"""The known edges that a calibration counts, and sums by row that come out the same on every device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.predict.base import ranges, together

Tensor = torch.Tensor


class EdgeCounts:
    """The observed edges a calibration counts, by relation, on the device of the predictor.

    >>> basis = EdgeCounts.of(4, 1, [0, 0], [0, 0], [1, 2])
    >>> basis.count(0, inverse=False).tolist(), basis.count(0, inverse=True).tolist()
    ([2.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0])
    """

    def __init__(self, entities: int, heads: Tensor, tails: Tensor, start: list[int]) -> None:
        self.entities, self._heads, self._tails, self._start = entities, heads, tails, start

    @staticmethod
    def of(
        entities: int,
        relations: int,
        heads: NDArray[np.integer] | list[int],
        relation: NDArray[np.integer] | list[int],
        tails: NDArray[np.integer] | list[int],
        device: torch.device | str = "cpu",
    ) -> EdgeCounts:
        """The basis of the given edges."""
        which = np.asarray(relation, dtype=np.int64)
        order = np.argsort(which, kind="stable")
        start = np.searchsorted(which[order], np.arange(relations + 1)).tolist()
        near, far = (torch.from_numpy(np.asarray(side, dtype=np.int64)[order]).to(device) for side in (heads, tails))
        return EdgeCounts(entities, near, far, start)

    def edges(self, relation: int) -> tuple[Tensor, Tensor]:
        """Heads and tails of the observed edges of a relation."""
        part = slice(self._start[relation], self._start[relation + 1])
        return self._heads[part], self._tails[part]

    def count(self, relation: int, inverse: bool) -> Tensor:
        """Number of observed edges per row. [entities]"""
        return torch.bincount(self.edges(relation)[inverse], minlength=self.entities).float()


def sum_by_row(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Sums of the values of each row, in fixed point: on a GPU integers add up the same in any order, floats do not.

    >>> sum_by_row(torch.tensor([0.5, 0.25, -1.0]), torch.tensor([0, 0, 2]), 3).tolist()
    [0.75, 0.0, -1.0]
    """
    scaled = (values.double() * 2.0**40).round().long()
    total = torch.zeros(rows, dtype=torch.int64, device=values.device).index_add_(0, row, scaled)
    return (total.double() / 2.0**40).float()


SHRINK = 5.0  # a confidence is that of a rule which failed this many times more
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
        both = views_together(start, views, size)
        return EntityViews(start, views, both / (both.diagonal()[:, None] + SHRINK))

    def support(self, view: int, least: float = 0.0) -> Tensor:
        """How surely each entity has a view: 1 where it is known to, else the best that its views say. [entities]

        What is below `least` may be 0: views that say less are not looked at.
        """
        start, members = self.members
        said = self.confidence[:, view].clone()
        said[view] = 1.0
        speak = torch.nonzero((said > 0) & (said >= least)).view(-1)
        owner, place = ranges(start[speak], (start[1:] - start[:-1])[speak])
        out = torch.zeros(len(self.start) - 1, device=said.device)
        return out.scatter_reduce_(0, members[place], said[speak][owner], "amax")

    @cached_property
    def members(self) -> tuple[Tensor, Tensor]:
        """Where the entities of each view begin [views + 1], and those entities."""
        count = self.start[1:] - self.start[:-1]
        owner = torch.repeat_interleave(count)
        views, order = torch.sort(self.views, stable=True)
        begin = torch.searchsorted(views, torch.arange(len(self.confidence) + 1, device=views.device))
        return begin, owner[order]


def views_together(start: Tensor, views: Tensor, size: int) -> Tensor:
    """`together` of views; all zeros where there are too many. [groups + 1], [n] → [size, size]"""
    if size > _MOST_VIEWS:
        return torch.zeros(size, 1, device=views.device).expand(size, size)
    return together(start, views, size)


@dataclass(frozen=True)
class GroupDates:
    """First and last date of the facts of each group, without one of them too, and how many came lately. [groups]

    A known fact is left out of its own description; so the second date is what remains where it is the first itself.
    """

    first: Tensor  # float64 seconds, NaN: there is none
    second: Tensor
    last: Tensor
    last_but_one: Tensor
    lately: Tensor  # float32

    @staticmethod
    def of(group: Tensor, date: Tensor, groups: int, since: float) -> GroupDates:
        """From the group and the date of dated facts. [n]"""
        order = torch.argsort(date, stable=True)
        order = order[torch.argsort(group[order], stable=True)]
        group, date = group[order], date[order]
        count = torch.bincount(group, minlength=groups)
        end = torch.cumsum(count, 0)
        start = end - count

        def at(place: Tensor, least: int) -> Tensor:
            if not len(date):
                return torch.full((groups,), torch.nan, dtype=torch.float64, device=group.device)
            return torch.where(count >= least, date[place.clamp(0, len(date) - 1)], torch.nan)

        lately = torch.bincount(group[date >= since], minlength=groups).float()
        return GroupDates(at(start, 1), at(start + 1, 2), at(end - 1, 1), at(end - 2, 2), lately)


@dataclass(frozen=True)
class FactTimes:
    """The dates of known facts as seen from `now`. Ages are counted in units, and lately is the last unit."""

    now: float
    unit: float  # seconds
    own: Tensor  # float64 [known edges in order of their keys] NaN: no date
    entities: GroupDates
    rows: GroupDates  # in order of the rows of known edges
    relations: GroupDates

    def ages(self, dates: GroupDates, group: Tensor, own: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Age of the last fact, age of the first, how many lately; `own` is the date of a known fact, NaN else. [n]"""
        last = torch.where(dates.last[group] == own, dates.last_but_one[group], dates.last[group])
        first = torch.where(dates.first[group] == own, dates.second[group], dates.first[group])
        lately = dates.lately[group] - (own >= self.now - self.unit).float()
        return ((self.now - last) / self.unit).float(), ((self.now - first) / self.unit).float(), lately
