"""The known edges, counted and arranged for lookups: rows, types, rules, dates. Sums are the same on every device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.predict.base import portions, ranges, together

if TYPE_CHECKING:
    from tuplet.truth.two_step import TwoStepRules


Tensor = torch.Tensor


class EdgeCounts:
    """The observed edges a calibration counts, by relation, on the device of the predictor.

    >>> basis = EdgeCounts(4, 1, [0, 0], [0, 0], [1, 2])
    >>> basis.count(0, inverse=False).tolist(), basis.count(0, inverse=True).tolist()
    ([2.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0])
    """

    def __init__(
        self,
        entities: int,
        relations: int,
        heads: NDArray[np.integer] | list[int],
        relation: NDArray[np.integer] | list[int],
        tails: NDArray[np.integer] | list[int],
        device: torch.device | str = "cpu",
    ) -> None:
        self.entities, which = entities, np.asarray(relation, dtype=np.int64)
        order = np.argsort(which, kind="stable")
        self._start = np.searchsorted(which[order], np.arange(relations + 1)).tolist()
        self._heads, self._tails = (
            torch.from_numpy(np.asarray(side, dtype=np.int64)[order]).to(device) for side in (heads, tails)
        )

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


def find_places(ids: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Place of each wanted number among ascending ones, and whether it is there."""
    if not len(ids):
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    place = torch.searchsorted(ids, wanted).clamp(max=len(ids) - 1)
    return place, ids[place] == wanted


SHRINK = 5.0  # a confidence is that of a rule which failed this many times more
_MOST_VIEWS = 8192  # with more, what goes together would be too large a matrix; rules and types then say nothing


@dataclass(frozen=True)
class EntityViews:
    """The views of every entity in known edges, and how surely one view comes with another.

    >>> heads, relation, tails = torch.tensor([[0, 1, 2, 0], [0, 0, 0, 1], [3, 3, 3, 4]])
    >>> known = EntityViews.from_edges(5, 2, heads, relation, tails)  # 0, 1 and 2 are heads of relation 0; 0 also of 1
    >>> known.support(2).tolist()  # that they are heads of relation 1: 1 of 3, shrunk
    [1.0, 0.125, 0.125, 0.0, 0.0]
    """

    start: Tensor  # [entities + 1] where the views of each entity begin
    views: Tensor  # ascending for each entity
    confidence: Tensor  # [views, views] of the entities that have view u, the share that has v

    @staticmethod
    def from_edges(entities: int, relations: int, heads: Tensor, relation: Tensor, tails: Tensor) -> EntityViews:
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
    def from_dates(group: Tensor, date: Tensor, groups: int, since: float) -> GroupDates:
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


@dataclass(frozen=True)
class TrainEdges:
    """The edges that were learned from, arranged for lookups. A view is a relation in one direction: 2r, or 2r + 1."""

    entities: int
    relations: int
    keys: Tensor  # ascending numbers of the edges
    rows: Tensor  # ascending numbers view · entities + entity of the rows that have edges
    row_count: Tensor  # edges of each
    degree: Tensor  # [entities]
    types: EntityViews
    pairs: tuple[Tensor, Tensor]  # ascending pairs of entities, and a view that links them
    view_edges: Tensor  # [views]
    view_entities: Tensor  # [views]
    rule_counts: Tensor  # [views, views] pairs linked by u and v; the diagonal: by u
    two_step: TwoStepRules | None = None
    times: FactTimes | None = None

    @staticmethod
    def from_edges(entities: int, relations: int, heads: Tensor, relation: Tensor, tails: Tensor) -> TrainEdges:
        views = 2 * relations
        view = torch.cat([2 * relation, 2 * relation + 1])
        entity, other = torch.cat([heads, tails]), torch.cat([tails, heads])
        rows, row_count = torch.unique(view * entities + entity, return_counts=True)
        types = EntityViews.from_edges(entities, relations, heads, relation, tails)
        by_pair = torch.sort((entity * entities + other) * views + view).values
        pair, pair_view = by_pair // views, by_pair % views
        counts = torch.unique_consecutive(pair, return_counts=True)[1]
        pair_start = torch.cat([counts.new_zeros(1), torch.cumsum(counts, 0)])
        return TrainEdges(
            entities,
            relations,
            torch.sort((relation * entities + heads) * entities + tails).values,
            rows,
            row_count,
            torch.bincount(entity, minlength=entities),
            types,
            (pair, pair_view),
            torch.bincount(view, minlength=views),
            torch.bincount(types.views, minlength=views),
            views_together(pair_start, pair_view, views),
        )

    def with_dates(self, edges: Sequence[Tensor], date: Tensor, now: float, unit: float) -> TrainEdges:
        """The same with the dates of these very edges (float64 seconds, NaN: none) as seen from `now`."""
        heads, relation, tails = edges
        known = torch.nonzero(~torch.isnan(date)).view(-1)
        h, r, t, when = heads[known], relation[known], tails[known], date[known]
        both, since = torch.cat([when, when]), now - unit
        row = torch.searchsorted(self.rows, torch.cat([2 * r * self.entities + h, (2 * r + 1) * self.entities + t]))
        order = torch.argsort((relation * self.entities + heads) * self.entities + tails)
        times = FactTimes(
            now,
            unit,
            date[order],
            GroupDates.from_dates(torch.cat([h, t]), both, self.entities, since),
            GroupDates.from_dates(row, both, len(self.rows), since),
            GroupDates.from_dates(r, when, self.relations, since),
        )
        return replace(self, times=times)

    def own_date(self, heads: Tensor, relation: Tensor, tails: Tensor) -> Tensor:
        """The date of each edge that is known and has one, else NaN. float64 [n]"""
        assert self.times is not None
        place, there = find_places(self.keys, (relation * self.entities + heads) * self.entities + tails)
        none = torch.full((len(heads),), torch.nan, dtype=torch.float64, device=heads.device)
        return torch.where(there, self.times.own[place], none) if len(self.keys) else none

    def row_ages(self, rows: Tensor, row: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        """Age of the last fact and how many lately, of some rows (view · entities + entity), for each of `row`. [n]"""
        assert self.times is not None
        place, there = find_places(self.rows, rows)
        if not len(self.rows):
            return torch.full_like(own, torch.nan).float(), torch.zeros_like(own).float()
        age, _, lately = self.times.ages(self.times.rows, place[row], own)
        return torch.where(there[row], age, torch.nan), torch.where(there[row], lately, 0)

    def has(self, heads: Tensor, relation: Tensor, tails: Tensor) -> Tensor:
        """Marks the edges that are known. bool [n]"""
        return find_places(self.keys, (relation * self.entities + heads) * self.entities + tails)[1]

    def count(self, rows: Tensor) -> Tensor:
        """How many edges some rows have, each view · entities + entity. [n]"""
        place, there = find_places(self.rows, rows)
        return torch.where(there, self.row_count[place], 0) if len(self.rows) else place

    def type_support(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """How much the other views of the entity of a row speak for its view: the best, and log of none being right."""
        best, none = (torch.zeros(len(rows), device=rows.device) for _ in range(2))
        view, entity = rows // self.entities, rows % self.entities
        start, views = self.types.start, self.types.views
        count = start[entity + 1] - start[entity]
        for begin, end in portions(count):
            part = slice(begin, end)
            owner, place = ranges(start[entity[part]], count[part])
            other, mine = views[place], view[part][owner]
            confidence = torch.where(other == mine, 0, self.types.confidence[other, mine])
            best[part], none[part] = _best_and_none(confidence, owner, end - begin)
        return best, none

    def rule_support(self, heads: Tensor, relation: Tensor, tails: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """How much other relations between two ends speak for one: the best, log of none being right, how many."""
        best, none, links = (torch.zeros(len(heads), device=heads.device) for _ in range(3))
        marked = self.has(heads, relation, tails)
        pair, views = self.pairs
        wanted = heads * self.entities + tails
        start = torch.searchsorted(pair, wanted)
        count = torch.searchsorted(pair, wanted, right=True) - start
        linked = torch.nonzero(count).view(-1)
        for begin, end in portions(count[linked]):
            part = linked[begin:end]
            owner, place = ranges(start[part], count[part])
            other, mine = views[place], 2 * relation[part][owner]
            # A known edge does not confirm the rules that predict it.
            both = self.rule_counts[other, mine] - marked[part][owner].float()
            confidence = (both / (self.rule_counts[other, other] + SHRINK)).clamp(0, 1)
            confidence = torch.where(other == mine, 0, confidence)
            best[part], none[part] = _best_and_none(confidence, owner, end - begin)
            links[part] = torch.bincount(owner[other != mine], minlength=end - begin).float()
        return best, none, links


def _best_and_none(confidence: Tensor, owner: Tensor, owners: int) -> tuple[Tensor, Tensor]:
    best = torch.zeros(owners, device=owner.device).scatter_reduce_(0, owner, confidence, "amax")
    return best, sum_by_row(torch.log1p(-confidence.clamp(max=0.999)), owner, owners)
