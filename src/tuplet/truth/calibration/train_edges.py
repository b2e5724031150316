"""The edges that predictors learned from, arranged for lookups: rows, types and rules. Needs torch and numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from tuplet.predict.base import portions, ranges
from tuplet.truth.known_edges import SHRINK, EntityViews, FactTimes, GroupDates, sum_by_row, views_together

if TYPE_CHECKING:
    from tuplet.truth.two_step import TwoStepRules

Tensor = torch.Tensor


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
    def of(entities: int, relations: int, heads: Tensor, relation: Tensor, tails: Tensor) -> TrainEdges:
        """The known edges, each given once."""
        views = 2 * relations
        view = torch.cat([2 * relation, 2 * relation + 1])
        entity, other = torch.cat([heads, tails]), torch.cat([tails, heads])
        rows, row_count = torch.unique(view * entities + entity, return_counts=True)
        types = EntityViews.of(entities, relations, heads, relation, tails)
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

    def dated(self, edges: Sequence[Tensor], date: Tensor, now: float, unit: float) -> TrainEdges:
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
            GroupDates.of(torch.cat([h, t]), both, self.entities, since),
            GroupDates.of(row, both, len(self.rows), since),
            GroupDates.of(r, when, self.relations, since),
        )
        return replace(self, times=times)

    def own_date(self, heads: Tensor, relation: Tensor, tails: Tensor) -> Tensor:
        """The date of each edge that is known and has one, else NaN. float64 [n]"""
        assert self.times is not None
        place, there = _find(self.keys, (relation * self.entities + heads) * self.entities + tails)
        none = torch.full((len(heads),), torch.nan, dtype=torch.float64, device=heads.device)
        return torch.where(there, self.times.own[place], none) if len(self.keys) else none

    def row_ages(self, rows: Tensor, row: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        """Age of the last fact and how many lately, of some rows (view · entities + entity), for each of `row`. [n]"""
        assert self.times is not None
        place, there = _find(self.rows, rows)
        if not len(self.rows):
            return torch.full_like(own, torch.nan).float(), torch.zeros_like(own).float()
        age, _, lately = self.times.ages(self.times.rows, place[row], own)
        return torch.where(there[row], age, torch.nan), torch.where(there[row], lately, 0)

    def has(self, heads: Tensor, relation: Tensor, tails: Tensor) -> Tensor:
        """Marks the edges that are known. bool [n]"""
        return _find(self.keys, (relation * self.entities + heads) * self.entities + tails)[1]

    def count(self, rows: Tensor) -> Tensor:
        """How many edges some rows have, each view · entities + entity. [n]"""
        place, there = _find(self.rows, rows)
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


def _find(keys: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Place of each wanted number in ascending ones, and whether it is there."""
    if not len(keys):
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    place = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    return place, keys[place] == wanted


def _best_and_none(confidence: Tensor, owner: Tensor, owners: int) -> tuple[Tensor, Tensor]:
    best = torch.zeros(owners, device=owner.device).scatter_reduce_(0, owner, confidence, "amax")
    return best, sum_by_row(torch.log1p(-confidence.clamp(max=0.999)), owner, owners)
