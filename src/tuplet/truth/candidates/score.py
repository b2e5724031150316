"""Scores of the candidates: what every scorer says in both directions, relation by relation.

A relation's candidates are its half-links (entities that are known as a head, or as a tail) against the ends that are
plausible on the other side. Every scorer gives its rows; the edges that reach the floor by any of them in any direction
are listed, and each scorer is then asked about all of those. Pairs that rules of two steps speak for are listed
whatever scorers say. Only one relation is ever held. Needs torch and numpy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.predict.base import LinkPredictor, device_of, has_one_side, scores_columns, sees_facts
from tuplet.progress import Report
from tuplet.truth.candidates.counted_rows import CountedRows, RowProgress
from tuplet.truth.candidates.row_logs import HalfLinks, RowLogs
from tuplet.truth.candidates.sources import EVERYTHING, CandidateSources
from tuplet.truth.edge_counts import EdgeCounts
from tuplet.truth.entity_views import EntityViews
from tuplet.truth.relation_cache import RelationCache
from tuplet.truth.rules import Calibration
from tuplet.truth.scored import EdgeColumns, ScoredEdges

Tensor = torch.Tensor
Result = TypeVar("Result")

FLOOR = 0.002  # truth in one direction from which on an edge is listed


class TwoStepSource(Protocol):
    """Pairs of each relation that rules of two steps speak for."""

    @property
    def level(self) -> float:
        """How surely they do, at least; parts are named by it."""
        ...

    def ends(self, relation: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Heads and tails."""
        ...


def score_candidates(
    scorers: Mapping[str, LinkPredictor],
    counted: EdgeColumns,
    sources: CandidateSources = EVERYTHING,
    floor: float = FLOOR,
    rule: Calibration | None = None,
    memory: int | None = None,
    cache: RelationCache | None = None,
    progress: Report | None = None,
    two_step: TwoStepSource | None = None,
) -> ScoredEdges:
    """All candidates that reach the floor, each as if it were unknown whether it is a fact.

    `counted` are the known edges (heads, relations, tails): they make the half-links, the types and the counts of the
    rule. The scorers compute where they lie. With a `cache` every finished relation is kept there, and a later call
    goes on where the earlier one stopped. `two_step` pairs are listed beside those that reach the floor. `memory`
    (bytes; default 1 GiB, on a GPU 40 % of what is free) bounds the blocks; beside it the rows of one relation are held
    in half precision if a scorer gives whole rows alone.
    """
    if not 0 < floor < 1:
        raise BadInput(f"the threshold lies between 0 and 1, not {floor:g}")
    workers = workers_for(scorers.values())
    scorer = CandidateScorer.of(scorers, counted, sources, floor, rule or Calibration(), memory, workers)
    relations, found = scorer.scorers[0].relations, {}
    told = RowProgress(progress, [scorer.dear_rows(number) for number in range(relations)])
    work = RelationParts(scorer.counting(told), two_step)

    def one(number: int) -> Mapping[str, NDArray[Any]]:
        parts = list(work.parts(number, cache).values())
        return parts[0] if len(parts) == 1 else _merged(*parts)

    for number, part in enumerate(_side_by_side(one, range(relations), workers)):
        found[number] = part
        told.relation(number)
    return joined(tuple(scorers), found)


def workers_for(scorers: Iterable[LinkPredictor]) -> int:
    """How many relations at a time.

    On the CPU as many as torch has threads, each with one: the steps of a small relation are too short to be shared.
    Predictors of whole rows take turns, since nobody knows whether they may be called from several threads.
    """
    alone = any(device_of(scorer).type == "cuda" or not scores_columns(scorer) for scorer in scorers)
    return 1 if alone else torch.get_num_threads()


def _side_by_side(work: Callable[[int], Result], items: Iterable[int], workers: int) -> Iterator[Result]:
    """The results of all items in their order; what has not begun when the reader stops is left undone."""
    if workers == 1:
        yield from map(work, items)
        return
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def finished_relations(
    root: Path,
    models: Sequence[str | None],
    sources: CandidateSources,
    floor: float,
    rule: Calibration,
    counted: EdgeColumns,
    small: bool = False,
) -> RelationCache | None:
    """Where `score_candidates` of these models (by hash) keeps what it finished; None for a model without a hash."""
    if None in models:
        return None
    key = " ".join([*(model for model in models if model), str(sources.first_part)])
    return RelationCache.of(root, key, floor, rule, *counted, small=small)


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
            # On the CPU: where this is chosen and where it is scored, the same entities are plausible.
            ids = (torch.from_numpy(np.asarray(side, dtype=np.int64)) for side in counted)
            views = EntityViews.of(first.entities, first.relations, *ids)
        share = memory // (2 * len(predictors) * workers)
        return CandidateScorer(predictors, counts, views, sources, floor, rule, share)

    def relation(self, number: int) -> dict[str, NDArray[Any]]:
        """The listed edges of a relation, and the log truth of every scorer in both directions."""
        return self.listed(self.rows(number))

    def dear_rows(self, number: int) -> int:
        """How many rows of a relation are computed by predictors that see the facts."""
        links = [self._half_links(number, scorer) for scorer in self.scorers if sees_facts(scorer)]
        return sum(len(side.rows) for both in links for side in both)

    def counting(self, told: RowProgress) -> CandidateScorer:
        """The same, saying how many of these rows are done."""
        counted = tuple(CountedRows(scorer, told) if sees_facts(scorer) else scorer for scorer in self.scorers)
        return replace(self, scorers=counted)

    def rows(self, number: int) -> list[list[RowLogs]]:
        """The rows of every scorer in both directions."""
        return [
            [RowLogs.of(scorer, links, self.rule, self.memory) for links in self._half_links(number, scorer)]
            for scorer in self.scorers
        ]

    def listed(self, rows: list[list[RowLogs]]) -> dict[str, NDArray[Any]]:
        """The edges that reach the floor in some row."""
        return self._part(torch.unique(torch.cat([side.reaching(self.floor) for both in rows for side in both])), rows)

    def open_pairs(self, number: int) -> dict[str, NDArray[Any]]:
        """The same of pairs of plausible ends without a fact; the logs of scorers that are not cheap are NaN."""
        assert self.views is not None
        assert self.sources.open_from is not None
        device = self.counts.edges(number)[0].device
        support = [self.views.support(2 * number + side).to(device) for side in (0, 1)]
        none = torch.zeros(0, dtype=torch.int64, device=device)
        links = []
        for inverse in (False, True):
            near, far = support[inverse], support[not inverse]
            rows = torch.nonzero((near >= self.sources.open_from) & (near < 1)).view(-1)
            columns = torch.nonzero(far >= self.sources.least).view(-1)
            links.append(HalfLinks(number, inverse, rows, columns, none, none))
        sides = [
            [RowLogs.of(scorer, link, self.rule, self.memory) for link in links if scores_columns(scorer)]
            for scorer in self.scorers
        ]
        keys = torch.unique(torch.cat([side.reaching(self.floor) for both in sides for side in both]))
        heads, tails = keys // self.counts.entities, keys % self.counts.entities
        return self._part(keys[(support[0][heads] < 1) & (support[1][tails] < 1)], sides)

    def two_step_pairs(
        self,
        number: int,
        heads: NDArray[np.integer],
        tails: NDArray[np.integer],
        listed: Sequence[Mapping[str, NDArray[Any]]],
        rows: list[list[RowLogs]],
    ) -> dict[str, NDArray[Any]]:
        """The same of given pairs, those aside that are listed in other parts.

        With the `rows` of the relation all scorers are asked; without, those that are not cheap say nothing.
        """
        size = self.counts.entities
        before = [part["heads"].astype(np.int64) * size + part["tails"] for part in listed]
        fresh = np.setdiff1d(np.asarray(heads, dtype=np.int64) * size + tails, np.concatenate(before))
        known = self.counts.edges(number)
        keys = torch.from_numpy(fresh).to(known[0].device)
        if rows:
            return self._part(keys, rows)
        ends = keys // size, keys % size
        sides = []
        for scorer in self.scorers:
            both = []
            for links in self._half_links(number, scorer) if scores_columns(scorer) else ():
                needed = torch.isin(known[links.inverse], ends[links.inverse])
                few = HalfLinks.of(number, links.inverse, known[0][needed], known[1][needed], links.columns)
                both.append(RowLogs.of(scorer, few, self.rule, self.memory).swept())
            sides.append(both)
        return self._part(keys, sides)

    def _part(self, keys: Tensor, sides: list[list[RowLogs]]) -> dict[str, NDArray[Any]]:
        """What the rows of each scorer say about the edges of these keys; NaN for one that has none."""
        heads, tails = keys // self.counts.entities, keys % self.counts.entities
        logs = torch.full((len(self.scorers), 2, len(keys)), torch.nan, device=keys.device)
        for place, both in enumerate(sides):
            for direction, side in enumerate(both):
                logs[place, direction] = side.at(heads, tails)
        return {"heads": heads.int().cpu().numpy(), "tails": tails.int().cpu().numpy(), "logs": logs.cpu().numpy()}

    def _half_links(self, number: int, scorer: LinkPredictor) -> Iterable[HalfLinks]:
        """Those of the heads and of the tails."""
        heads, tails = self.counts.edges(number)
        if self.views is None:
            everyone = torch.arange(self.counts.entities, device=heads.device)
            # The rows of a predictor that sees the facts are dear: beside another one it gets those that have a fact.
            rows = None if sees_facts(scorer) and len(self.scorers) > 1 else everyone
            both = [HalfLinks.of(number, inverse, heads, tails, everyone, rows) for inverse in (False, True)]
            return fewer_rows(both) if rows is None and has_one_side(scorer) else both
        links = []
        for inverse in (False, True):
            near, far = (self.views.support(2 * number + side) for side in (inverse, not inverse))
            columns = torch.nonzero(far >= self.sources.least).view(-1).to(heads.device)
            least = self.sources.open_from if scores_columns(scorer) else self.sources.rows_from
            rows = None
            if self.sources.rows_from is not None and least is not None:
                rows = torch.nonzero(near >= least).view(-1).to(heads.device)
            links.append(HalfLinks.of(number, inverse, heads, tails, columns, rows))
        return fewer_rows(links) if self.sources.rows_from is None and has_one_side(scorer) else links


def fewer_rows(both: Sequence[HalfLinks]) -> list[HalfLinks]:
    """The same with rows of one direction alone, that with fewer; those of the heads if there are as many."""
    counts = [len(links.rows) for links in both]
    kept = counts.index(min(counts))
    return [links if side == kept else links.without_rows() for side, links in enumerate(both)]


def part_names(
    number: int, sources: CandidateSources, scorers: Iterable[LinkPredictor], two_step: TwoStepSource | None
) -> list[str]:
    """What the parts of a relation are called."""
    names = [str(number)]
    if sources.open_from is not None and sources.rows_from is None and any(map(scores_columns, scorers)):
        names.append(f"{names[-1]}-open-{sources.open_from:g}")
    if two_step is not None:
        names.append(f"{names[-1]}-two-step-{two_step.level:g}")
    return names


@dataclass(frozen=True)
class RelationParts:
    """What is listed of a relation, in parts: each is kept by its name, so that one made elsewhere stays as it is."""

    scorer: CandidateScorer
    two_step: TwoStepSource | None

    def parts(self, number: int, cache: RelationCache | None = None) -> dict[str, Mapping[str, NDArray[Any]]]:
        """All parts of a relation by name; those in the cache are not computed again, the others are kept there."""
        rows: list[list[RowLogs]] = []  # of the first part, unless it was made before, or elsewhere
        made: dict[str, Mapping[str, NDArray[Any]]] = {}

        def first() -> Mapping[str, NDArray[Any]]:
            rows.extend(self.scorer.rows(number))
            listed = self.scorer.listed(rows)
            if self.two_step is None:
                rows.clear()
            return listed

        def two_step() -> Mapping[str, NDArray[Any]]:
            assert self.two_step is not None
            return self.scorer.two_step_pairs(number, *self.two_step.ends(number), list(made.values()), rows)

        for name in part_names(number, self.scorer.sources, self.scorer.scorers, self.two_step):
            part = cache.load(name) if cache else None
            if part is None:
                kind = first if not made else two_step if "-two-step-" in name else self._open_pairs(number)
                with torch.inference_mode():
                    part = dict(kind())
                if cache:
                    cache.save(name, part)
            made[name] = part
        return made

    def _open_pairs(self, number: int) -> Callable[[], Mapping[str, NDArray[Any]]]:
        return lambda: self.scorer.open_pairs(number)


def _merged(*parts: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Parts of one relation that have no edge in common, in order."""
    heads, tails = (np.concatenate([part[name] for part in parts]) for name in ("heads", "tails"))
    order = np.lexsort((tails, heads))
    logs = np.concatenate([np.asarray(part["logs"], dtype=np.float32) for part in parts], axis=2)
    return {"heads": heads[order], "tails": tails[order], "logs": logs[:, :, order]}


def joined(names: tuple[str, ...], found: Mapping[int, Mapping[str, NDArray[Any]]]) -> ScoredEdges:
    """The parts of some relations, in ascending order, in one."""
    parts = list(found.values())
    which = np.repeat(np.array(list(found), dtype=np.int32), [len(part["heads"]) for part in parts])
    none = np.zeros(0, dtype=np.int32)
    heads, tails = (np.concatenate([none, *(part[name] for part in parts)]) for name in ("heads", "tails"))
    logs = np.empty((len(names), 2, len(which)), dtype=np.float32)
    end = 0
    for part in parts:
        start, end = end, end + len(part["heads"])
        logs[:, :, start:end] = part["logs"]
    return ScoredEdges(heads, which, tails, names, logs)
