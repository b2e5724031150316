"""Scores the candidates of one relation: what every scorer says of its half-links in both directions.

Needs torch and numpy alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.predict.base import LinkPredictor, device_of, has_one_side, scores_columns, sees_facts
from tuplet.truth.candidates.counted_rows import CountedRows, RowProgress
from tuplet.truth.candidates.row_limit import usefulness
from tuplet.truth.candidates.row_logs import HalfLinks, RowLogs
from tuplet.truth.candidates.sources import CandidateSources
from tuplet.truth.edge_counts import EdgeCounts
from tuplet.truth.entity_views import EntityViews
from tuplet.truth.rules import Calibration
from tuplet.truth.scored import EdgeColumns, SearchCheck

Tensor = torch.Tensor


@dataclass(frozen=True)
class CandidateScorer:
    """Scores one relation at a time; what the relations share is made once."""

    scorers: tuple[LinkPredictor, ...]
    counts: EdgeCounts
    views: EntityViews | None  # None: every entity is a row and a column
    sources: CandidateSources
    floor: float
    rule: Calibration
    memory: int  # of one scorer in one direction

    @staticmethod
    def of(
        scorers: Mapping[str, LinkPredictor],
        counted: EdgeColumns,
        sources: CandidateSources,
        floor: float,
        rule: Calibration,
        memory: int | None = None,
        workers: int = 1,
    ) -> CandidateScorer:
        """For these scorers and known edges; so many workers share the memory."""
        predictors = tuple(scorers.values())
        first, device = predictors[0], device_of(predictors[0])
        for other in predictors:
            if device_of(other) != device:
                raise BadInput(f"scorers lie on several devices: {device} and {device_of(other)}")
        if memory is None:
            memory = int(0.4 * torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else 1 << 30
        if memory < 12 * first.entities:
            raise BadInput(f"{memory:,} bytes of memory do not hold one row: at least {12 * first.entities:,}")
        counts = EdgeCounts.of(first.entities, first.relations, *counted, device)
        views = None
        if not sources.everything:
            # Shares of whole numbers, and the largest of them: the same entities are plausible on every device.
            ids = (torch.from_numpy(np.asarray(side, dtype=np.int64)).to(device) for side in counted)
            views = EntityViews.of(first.entities, first.relations, *ids)
        share = memory // (2 * len(predictors) * workers)
        return CandidateScorer(predictors, counts, views, sources, floor, rule, share)

    def relation(self, number: int) -> dict[str, NDArray[Any]]:
        """The listed edges of a relation, and the log truth of every scorer in both directions."""
        return self.listed(self.rows(self.links(number)))

    def counting(self, told: RowProgress) -> CandidateScorer:
        """The same, saying how many of these rows are done."""
        counted = tuple(CountedRows(scorer, told) if sees_facts(scorer) else scorer for scorer in self.scorers)
        return replace(self, scorers=counted)

    def links(self, number: int, without_fact: bool = False) -> list[list[HalfLinks]]:
        """What every scorer is asked about a relation, in both directions: half-links, or rows that have no fact.

        Of the latter a scorer is asked nothing whose rows are not cheap.
        """
        if not without_fact:
            return [self._half_links(number, scorer) for scorer in self.scorers]
        open_links = self._open_links(number)
        return [open_links if scores_columns(scorer) else [] for scorer in self.scorers]

    def rows(self, links: Sequence[Sequence[HalfLinks]]) -> list[list[RowLogs]]:
        """The rows of every scorer."""
        return [[self.row_logs(place, side) for side in both] for place, both in enumerate(links)]

    def row_logs(self, place: int, links: HalfLinks) -> RowLogs:
        """The rows of one scorer."""
        return RowLogs.of(self.scorers[place], links, self.rule, self.memory)

    def reaching(self, rows: Sequence[Sequence[RowLogs]]) -> Tensor:
        """Keys head · entities + tail of the edges that reach the floor in some row, in order."""
        keys = torch.cat([side.reaching(self.floor, self.sources.most) for both in rows for side in both])
        found: Tensor = torch.unique(keys)
        return found

    def open_keys(self, number: int, keys: Tensor) -> Tensor:
        """Those of pairs whose ends both have no fact of the relation."""
        heads, tails = self.counts.edges(number)
        keep = ~torch.isin(keys // self.counts.entities, heads) & ~torch.isin(keys % self.counts.entities, tails)
        return keys[keep]

    def searched(self, rows: Sequence[Sequence[RowLogs]], keys: Tensor) -> dict[str, NDArray[Any]]:
        """How much of what reaches the floor is listed, where columns are searched for or rows list their most."""
        return sum(
            (side.checked(self.floor, self.sources.most, keys) for both in rows for side in both), SearchCheck()
        ).in_part()

    def listed(self, rows: list[list[RowLogs]]) -> dict[str, NDArray[Any]]:
        """The edges that reach the floor in some row."""
        keys = self.reaching(rows)
        return self.part(keys, rows) | self.searched(rows, keys)

    def open_pairs(self, number: int) -> dict[str, NDArray[Any]]:
        """The same of pairs of plausible ends without a fact; the logs of scorers that are not cheap are NaN."""
        rows = self.rows(self.links(number, without_fact=True))
        keys = self.reaching(rows)
        return self.part(self.open_keys(number, keys), rows) | self.searched(rows, keys)

    def two_step_pairs(
        self, number: int, keys: NDArray[np.int64], rows: Sequence[Sequence[RowLogs]]
    ) -> dict[str, NDArray[Any]]:
        """The same of given pairs, by their keys.

        With the `rows` of the relation all scorers are asked; without, those that are not cheap say nothing.
        """
        known = self.counts.edges(number)
        fresh = torch.from_numpy(keys).to(known[0].device)
        if rows:
            return self.part(fresh, rows)
        ends, sides = self.ends(fresh), []
        for place, scorer in enumerate(self.scorers):
            both = []
            for links in self._half_links(number, scorer) if scores_columns(scorer) else ():
                needed = torch.isin(known[links.inverse], ends[links.inverse])
                few = HalfLinks.of(number, links.inverse, known[0][needed], known[1][needed], links.columns)
                few = replace(few, per_fact=links.per_fact)
                both.append(self.row_logs(place, few).swept())
            sides.append(both)
        return self.part(fresh, sides)

    def part(self, keys: Tensor, sides: Sequence[Sequence[RowLogs]]) -> dict[str, NDArray[Any]]:
        """What the rows of each scorer say about the edges of these keys; NaN for one that has none."""
        heads, tails = self.ends(keys)
        logs = torch.full((len(self.scorers), 2, len(keys)), torch.nan, device=keys.device)
        for place, both in enumerate(sides):
            for direction, side in enumerate(both):
                logs[place, direction] = side.at(heads, tails)
        return {"heads": heads.int().cpu().numpy(), "tails": tails.int().cpu().numpy(), "logs": logs.cpu().numpy()}

    def ends(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Heads and tails of the edges of keys."""
        return keys // self.counts.entities, keys % self.counts.entities

    def _open_links(self, number: int) -> list[HalfLinks]:
        """Rows without a fact that are likely to have one, in both directions."""
        assert self.sources.open_from is not None
        support = self._support(number)
        none = torch.zeros(0, dtype=torch.int64, device=support[0].device)
        links = []
        for inverse in (False, True):
            near, far = support[inverse], support[not inverse]
            rows = torch.nonzero((near >= self.sources.open_from) & (near < 1)).view(-1)
            columns = torch.nonzero(far >= self.sources.least).view(-1)
            links.append(self._looking(HalfLinks(number, inverse, rows, columns, none, none)))
        return links

    def _looking(self, links: HalfLinks) -> HalfLinks:
        return links.looking(self.sources.per_fact) if self.sources.per_fact is not None else links

    def _support(self, number: int) -> list[Tensor]:
        """How surely each entity is a head and a tail of a relation; what is too little to matter may be 0."""
        assert self.views is not None
        levels = self.sources.least, self.sources.open_from, self.sources.rows_from
        least = min(level for level in levels if level is not None)
        return [self.views.support(2 * number + side, least) for side in (0, 1)]

    def _half_links(self, number: int, scorer: LinkPredictor) -> list[HalfLinks]:
        """Those of the heads and of the tails."""
        heads, tails = self.counts.edges(number)
        if self.views is None:
            everyone = torch.arange(self.counts.entities, device=heads.device)
            # The rows of a predictor that sees the facts are dear: beside another one it gets those that have a fact.
            rows = None if sees_facts(scorer) and len(self.scorers) > 1 else everyone
            both = [HalfLinks.of(number, inverse, heads, tails, everyone, rows) for inverse in (False, True)]
            return fewer_rows(both) if rows is None and has_one_side(scorer) else both
        links, support = list[HalfLinks](), self._support(number)
        for inverse in (False, True):
            near, far = support[inverse], support[not inverse]
            columns = torch.nonzero(far >= self.sources.least).view(-1)
            least = self.sources.open_from if scores_columns(scorer) else self.sources.rows_from
            rows = None
            if self.sources.rows_from is not None and least is not None:
                rows = torch.nonzero(near >= least).view(-1)
            links.append(self._looking(HalfLinks.of(number, inverse, heads, tails, columns, rows)))
        if self.sources.rows_from is not None or not has_one_side(scorer):
            return links
        return [self._useful(side) for side in fewer_rows(links)]

    def _useful(self, links: HalfLinks) -> HalfLinks:
        """The same without rows that there is no time for."""
        if self.sources.useful_from is None:
            return links
        useful = usefulness(links.facts(), links.rows)
        return links.only(torch.nonzero(useful >= self.sources.useful_from).view(-1))


def fewer_rows(both: Sequence[HalfLinks]) -> list[HalfLinks]:
    """The same with rows of one direction alone, that with fewer; those of the heads if there are as many."""
    counts = [len(links.rows) for links in both]
    kept = counts.index(min(counts))
    return [links if side == kept else links.without_rows() for side, links in enumerate(both)]
