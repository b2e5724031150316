"""Scores the candidates of one relation: what every scorer says of its half-links in both directions.

Rows of a predictor that walks the graph are expensive, so where time is limited the most useful ones are computed, and
it is known of which relations some are missing. A row with many known facts has many missing ones, too: those are
computed first; of rows with equally many, some that their ids decide. Needs torch and numpy alone.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.predict.base import LinkPredictor, device_of, has_one_side, row_scores, scores_columns, sees_facts
from tuplet.progress import Report
from tuplet.truth.candidates.rows import HalfLinks, RowLogs
from tuplet.truth.candidates.sources import CandidateSources, TwoStepPairs
from tuplet.truth.edges import EdgeColumns, SearchCheck
from tuplet.truth.known_edges import EdgeCounts, EntityViews
from tuplet.truth.rules import Calibration

Tensor = torch.Tensor
Part: TypeAlias = Mapping[str, NDArray[Any]]  # of what is listed of a relation: heads, tails, logs

_BATCHES = 8  # for each core, between two reports: a few seconds at most, so that Ctrl-C does not wait longer
_BATCH = 64  # of a predictor that does not say how many rows it computes at a time


class RowProgress:
    """How far the scoring of a graph is: in rows, where some are dear, else in relations, or their shards."""

    def __init__(self, progress: Report, dear_rows: Sequence[int], cut: bool = False, until: float = math.inf) -> None:
        """`dear_rows`: how many each task has; `cut`: a relation may be several; `until`: no row is begun later."""
        self.until, self.late = until, Counter[int]()  # by relation: rows that there was no time for
        self.progress, self.note = progress, "rows" if any(dear_rows) else "shards" if cut else "relations"
        self.ends = np.cumsum(dear_rows if any(dear_rows) else np.ones(len(dear_rows), dtype=np.int64)).tolist()
        self.done = 0
        self.rows(0)

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self.until

    def rows(self, number: int) -> None:
        """So many more are computed."""
        self.done += number
        if self.ends:
            self.progress("index", self.done, self.ends[-1], self.note)

    def task(self, number: int) -> None:
        """So many tasks are done, now or in an earlier call."""
        self.rows(self.ends[number - 1] - self.done)


class CountedRows:
    """A predictor of whole rows that says after every few how many it has computed; when the time is up, it stops."""

    def __init__(self, predictor: LinkPredictor, told: RowProgress) -> None:
        self.predictor, self.told = predictor, told
        self.entities, self.relations = predictor.entities, predictor.relations
        self.some = _BATCHES * torch.get_num_threads() * int(getattr(predictor, "batch", _BATCH))

    def tails(self, heads: Tensor, relation: int) -> Tensor:
        return self._count_rows(heads, relation, False)

    def heads(self, tails: Tensor, relation: int) -> Tensor:
        return self._count_rows(tails, relation, True)

    def _count_rows(self, near: Tensor, relation: int, inverse: bool) -> Tensor:
        parts = [torch.zeros(0, self.entities, device=near.device)]
        for some in torch.split(near, self.some):
            if self.told.over:
                parts.append(torch.full((len(some), self.entities), math.nan, device=near.device))
                self.told.late[relation] += len(some)
            else:
                parts.append(row_scores(self.predictor, some, relation, inverse))
            self.told.rows(len(some))
        return torch.cat(parts)

    @property
    def late(self) -> bool:
        """Whether there was no time for some rows: their scores are NaN."""
        return bool(self.told.late)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the predictor's own."""
        return getattr(self.predictor, name)


Ids = TypeVar("Ids", NDArray[np.int64], torch.Tensor)


def usefulness(facts: Ids, entity: Ids) -> Ids:
    """The known facts of rows, and a fraction that tells rows with equally many apart.

    >>> usefulness(np.array([2, 1, 1]), np.array([0, 1, 2])).round(2).tolist()
    [2.0, 1.62, 1.24]
    """
    return facts + (entity * 40503) % 65536 / 65536  # type: ignore[return-value]


@dataclass(frozen=True)
class RowLimit:
    """How many rows of one end there is time for in each of several sweeps, and when the last one must be over."""

    rows: int
    until: float  # by the monotonic clock
    over: float  # the same, when the calibration must be learned

    def within(self, sources: CandidateSources, known: EdgeColumns) -> CandidateSources:
        """The same sources with no more rows than that."""
        useful = usefulness(*_rows_of_one_end(known)[1:])
        if len(useful) <= self.rows:
            return sources
        return replace(sources, useful_from=float(np.sort(useful)[len(useful) - self.rows]))

    def sweep(self, left: int) -> float:
        """When the first of so many sweeps that are left must be over."""
        now = time.monotonic()
        return now + (self.until - now) / left


def _rows_of_one_end(known: EdgeColumns) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Relation, known facts and entity of the rows of each relation's end that has fewer; the heads' if as many."""
    heads, relation, tails = (np.asarray(side, dtype=np.int64) for side in known)
    size = 1 + int(max(heads.max(initial=0), tails.max(initial=0)))
    relations = 1 + int(relation.max(initial=0))
    ends = [np.unique(relation * size + end, return_counts=True) for end in (heads, tails)]
    counts = [np.bincount(row // size, minlength=relations) for row, _ in ends]
    kept = [counts[0] <= counts[1], counts[0] > counts[1]]
    chosen = [(row[mine[row // size]], facts[mine[row // size]]) for (row, facts), mine in zip(ends, kept, strict=True)]
    row, facts = (np.concatenate(column) for column in zip(*chosen, strict=True))
    return row // size, facts, row % size


@dataclass(frozen=True)
class RowsDone:
    """Rows of each relation that were computed, of those that there are.

    >>> done = RowsDone({0: 5, 1: 2}, {0: 5, 1: 10}, 12, 30)
    >>> done.lacking, done.as_dict()
    ([1], {'computed': 7, 'of': 15, 'facts_in_them': 0.4})
    """

    computed: Mapping[int, int] = field(default_factory=dict)
    all: Mapping[int, int] = field(default_factory=dict)
    facts: int = 0  # known ones in the rows that were computed
    of_facts: int = 0

    @staticmethod
    def from_edges(known: EdgeColumns, sources: CandidateSources, late: Mapping[int, int]) -> RowsDone:
        """Of sources with so many rows; of each relation some were `late`."""
        relation, facts, entity = _rows_of_one_end(known)
        kept = usefulness(facts, entity) >= (sources.useful_from or 0.0)
        size = 1 + int(relation.max(initial=0))
        there, done = (np.bincount(some, minlength=size) for some in (relation, relation[kept]))
        computed = {number: int(count) - late.get(number, 0) for number, count in enumerate(done)}
        share = [computed[number] / max(1, int(done[number])) for number in range(len(done))]
        reached = float(np.sum(facts[kept] * np.array(share)[relation[kept]]))
        return RowsDone(computed, dict(enumerate(there.tolist())), round(reached), int(facts.sum()))

    def __add__(self, other: RowsDone) -> RowsDone:
        computed, rows = (
            Counter(one) + Counter(two) for one, two in ((self.computed, other.computed), (self.all, other.all))
        )
        return RowsDone(computed, rows, self.facts + other.facts, self.of_facts + other.of_facts)

    @property
    def lacking(self) -> list[int]:
        """The relations of which rows are missing."""
        return [number for number, rows in self.all.items() if self.computed.get(number, 0) < rows]

    def as_dict(self) -> dict[str, Any]:
        """For the store: how many, and the share of the known facts that lie in them."""
        computed, rows = (sum(side.values()) for side in (self.computed, self.all))
        return {"computed": computed, "of": rows, "facts_in_them": round(self.facts / max(1, self.of_facts), 4)}


@dataclass(frozen=True)
class ShardSize:
    """How much one task computes."""

    cells: int = 1 << 30  # scores: half a minute on one core
    dear_rows: int = 512  # of a predictor that walks the graph for each

    def rows(self, scorer: LinkPredictor, links: HalfLinks) -> int:
        """Of a scorer against these columns."""
        width = links.width if scores_columns(scorer) else scorer.entities
        fits = max(1, self.cells // max(1, width))
        return min(fits, self.dear_rows) if sees_facts(scorer) else fits


class CandidateScorer:
    """Scores one relation at a time; what the relations share is made once.

    What is listed of a relation has parts, each known by its name, so that one made elsewhere stays as it is.
    """

    def __init__(
        self,
        scorers: Mapping[str, LinkPredictor],
        counted: EdgeColumns,
        sources: CandidateSources,
        floor: float,
        rule: Calibration,
        memory: int | None = None,
        workers: int = 1,
        two_step: TwoStepPairs | None = None,
        size: ShardSize | None = None,
    ) -> None:
        """For these scorers and known edges; so many workers share the memory."""
        self.scorers, self.sources, self.floor, self.rule = tuple(scorers.values()), sources, floor, rule
        self.two_step, self.size = two_step, size or ShardSize()
        first, device = self.scorers[0], device_of(self.scorers[0])
        for other in self.scorers:
            if device_of(other) != device:
                raise BadInput(f"scorers lie on several devices: {device} and {device_of(other)}")
        if memory is None:
            memory = int(0.4 * torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else 1 << 30
        if memory < 12 * first.entities:
            raise BadInput(f"{memory:,} bytes of memory do not hold one row: at least {12 * first.entities:,}")
        self.memory = memory // (2 * len(self.scorers) * workers)  # of one scorer in one direction
        self.counts = EdgeCounts(first.entities, first.relations, *counted, device)
        self.views: EntityViews | None = None  # without them every entity is a row and a column
        if not sources.everything:
            # Shares of whole numbers, and the largest of them: the same entities are plausible on every device.
            ids = (torch.from_numpy(np.asarray(side, dtype=np.int64)).to(device) for side in counted)
            self.views = EntityViews.from_edges(first.entities, first.relations, *ids)
        self.shared_links = lru_cache(maxsize=4)(self.links)  # among the shards of a relation
        self.told: RowProgress | None = None

    @property
    def late(self) -> bool:
        """Whether what is made now may lack rows: it is not kept."""
        return self.told is not None and bool(self.told.late)

    def names(self, number: int) -> list[str]:
        """What the parts of a relation are called: half-links, pairs without a fact, pairs of two-step rules."""
        names = [str(number)]
        if self.sources.open_from is not None and self.sources.rows_from is None:
            names += [f"{number}-open-{self.sources.open_from:g}"] if any(map(scores_columns, self.scorers)) else []
        return names if self.two_step is None else [*names, f"{names[-1]}-two-step-{self.two_step.level:g}"]

    def relation(
        self, number: int, without_fact: bool = False, rows: list[list[RowLogs]] | None = None
    ) -> dict[str, NDArray[Any]]:
        """The listed edges of a relation, and the log truth of every scorer in both directions.

        `without_fact`: those between plausible ends without a fact; the logs of scorers that are not cheap are NaN.
        """
        rows = self.rows(self.links(number, without_fact)) if rows is None else rows
        keys = self.reaching(rows)
        listed = self.open_keys(number, keys) if without_fact else keys
        return self.part(listed, rows) | self.check_search(rows, keys)

    def two_step_pairs(
        self, number: int, before: Sequence[Part], rows: Sequence[Sequence[RowLogs]]
    ) -> dict[str, NDArray[Any]]:
        """The same of the pairs of rules that are in none of the parts `before`.

        With the `rows` of the relation all scorers are asked; without, those that are not cheap say nothing.
        """
        listed = [part["heads"].astype(np.int64) * self.counts.entities + part["tails"] for part in before]
        known = self.counts.edges(number)
        fresh = torch.from_numpy(self.two_step_keys(number, listed)).to(known[0].device)
        if rows:
            return self.part(fresh, rows)
        ends, sides = self.ends(fresh), []
        for scorer in self.scorers:
            both = []
            for links in self._half_links(number, scorer) if scores_columns(scorer) else ():
                needed = torch.isin(known[links.inverse], ends[links.inverse])
                few = HalfLinks.from_edges(number, links.inverse, known[0][needed], known[1][needed], links.columns)
                both.append(self.row_logs(scorer, replace(few, per_fact=links.per_fact)).swept())
            sides.append(both)
        return self.part(fresh, sides)

    def two_step_keys(self, number: int, before: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Keys of the pairs of rules, those aside that are listed before."""
        assert self.two_step is not None
        heads, tails = self.two_step.ends(number)
        return np.setdiff1d(heads.astype(np.int64) * self.counts.entities + tails, np.concatenate(before))

    def links(self, number: int, without_fact: bool = False) -> list[list[HalfLinks]]:
        """What every scorer is asked about a relation, in both directions: half-links, or rows without a fact.

        The latter are those that are likely to have one; a scorer whose rows are not cheap is asked nothing there.
        """
        if not without_fact:
            return [self._half_links(number, scorer) for scorer in self.scorers]
        assert self.sources.open_from is not None
        support = self._support(number)
        none = torch.zeros(0, dtype=torch.int64, device=support[0].device)
        links = []
        for inverse in (False, True):
            near, far = support[inverse], support[not inverse]
            rows = torch.nonzero((near >= self.sources.open_from) & (near < 1)).view(-1)
            columns = torch.nonzero(far >= self.sources.least).view(-1)
            links.append(HalfLinks(number, inverse, rows, columns, none, none).looking(self.sources.per_fact))
        return [links if scores_columns(scorer) else [] for scorer in self.scorers]

    def rows(self, links: Sequence[Sequence[HalfLinks]]) -> list[list[RowLogs]]:
        """The rows of every scorer."""
        return [[self.row_logs(one, side) for side in both] for one, both in zip(self.scorers, links, strict=True)]

    def row_logs(self, scorer: LinkPredictor, links: HalfLinks) -> RowLogs:
        """The rows of one scorer."""
        return RowLogs(scorer, links, self.rule, self.memory)

    def reaching(self, rows: Sequence[Sequence[RowLogs]]) -> Tensor:
        """Keys head · entities + tail of the edges that reach the floor in some row, in order."""
        keys = torch.cat([side.reaching(self.floor, self.sources.most) for both in rows for side in both])
        found: Tensor = torch.unique(keys)
        return found

    def open_keys(self, number: int, keys: Tensor) -> Tensor:
        """Those of pairs whose ends both have no fact of the relation."""
        (heads, tails), ends = self.counts.edges(number), self.ends(keys)
        return keys[~torch.isin(ends[0], heads) & ~torch.isin(ends[1], tails)]

    def check_search(self, rows: Sequence[Sequence[RowLogs]], keys: Tensor) -> dict[str, NDArray[Any]]:
        """How much of what reaches the floor is listed, where columns are searched for or rows list their most."""
        checks = (side.check_search(self.floor, self.sources.most, keys) for both in rows for side in both)
        return sum(checks, SearchCheck()).in_part()

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

    def _support(self, number: int) -> list[Tensor]:
        """How surely each entity is a head and a tail of a relation; what is too little to matter may be 0."""
        assert self.views is not None
        levels = self.sources.least, self.sources.open_from, self.sources.rows_from
        least = min(level for level in levels if level is not None)
        return [self.views.support(2 * number + side, least) for side in (0, 1)]

    def _half_links(self, number: int, scorer: LinkPredictor) -> list[HalfLinks]:
        """Those of the heads and of the tails."""
        heads, tails = self.counts.edges(number)
        sources, support = self.sources, None if self.views is None else self._support(number)
        everyone = torch.arange(self.counts.entities, device=heads.device)
        rows, links = None, list[HalfLinks]()
        for inverse in (False, True):
            columns, least = everyone, sources.open_from if scores_columns(scorer) else sources.rows_from
            if support is not None:
                columns = torch.nonzero(support[not inverse] >= sources.least).view(-1)
                if sources.rows_from is not None and least is not None:
                    rows = torch.nonzero(support[inverse] >= least).view(-1)
            elif not sees_facts(scorer) or len(self.scorers) == 1:
                rows = everyone  # those of a predictor that sees the facts are dear: beside another it gets fewer
            links.append(HalfLinks.from_edges(number, inverse, heads, tails, columns, rows).looking(sources.per_fact))
        if rows is not None or sources.rows_from is not None or not has_one_side(scorer):
            return links
        counts = [len(side.rows) for side in links]
        fewer = counts.index(min(counts))  # the heads if there are as many
        for place, side in enumerate(links):
            if place != fewer:
                links[place] = side.only(side.rows[:0])
            elif support is not None and sources.useful_from is not None:  # there is no time for the others
                useful = usefulness(side.facts(), side.rows)
                links[place] = side.only(torch.nonzero(useful >= sources.useful_from).view(-1))
        return links
