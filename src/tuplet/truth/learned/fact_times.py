"""When facts were stated: how long ago, and how many lately, of an entity, a row or a relation. Needs torch alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch

Tensor = torch.Tensor


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
