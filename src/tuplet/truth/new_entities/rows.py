"""The rows of some entities, scored: half-links that they have, and those that their types speak for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.graph.adjacency import consecutive
from tuplet.predict.base import LinkPredictor
from tuplet.truth.calibration.train_edges import TrainEdges
from tuplet.truth.candidates.rows import HalfLinks, RowLogs
from tuplet.truth.candidates.score import joined
from tuplet.truth.rules import Calibration
from tuplet.truth.scored import EdgeColumns, ScoredEdges

Tensor = torch.Tensor
Longs = NDArray[np.int64]

LIKELY = 0.2  # how surely an entity has a view, by its other ones, so that it gets a row without a fact of it
WALKED = 8  # rows of one entity that the network walks; those of more are judged by what similar entities have
FLOOR = 0.002  # truth in a row from which on an end is listed
_ROWS = 64  # computed at a time, between two looks at the clock


@dataclass(frozen=True)
class EntityRows:
    """Rows (entity, view), by entity. A view is a relation in one direction: 2r, or 2r + 1."""

    entity: Longs  # [rows]
    view: Longs  # [rows]
    walked: NDArray[np.bool_]  # [rows] whether the network computes it, which takes long

    def __len__(self) -> int:
        return len(self.entity)

    @staticmethod
    def of(known: TrainEdges, entities: Sequence[int]) -> EntityRows:
        """The rows of some entities that have a fact or are likely to have one.

        What is a tail of relation 0 is one of relation 1 in 9 of 9 + 5 cases.

        >>> edges = [(0, 0, end) for end in range(3, 12)] + [(1, 1, end) for end in range(3, 12)] + [(2, 0, 3)]
        >>> rows = EntityRows.of(TrainEdges.of(12, 2, *torch.tensor(edges).T), [2, 3])
        >>> list(zip(rows.entity.tolist(), rows.view.tolist()))
        [(2, 0), (3, 1), (3, 3)]
        """
        types = known.types
        near, found, walked = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, dtype=bool)]
        for entity in entities:
            own = types.views[types.start[entity] : types.start[entity + 1]]
            if not len(own):
                continue
            said = types.confidence[own].amax(0)
            said[own] = known.count(own * known.entities + entity).float()  # where it has a fact it has often more
            rows = torch.nonzero(said >= LIKELY).view(-1)
            best = torch.zeros(len(rows), dtype=torch.bool)
            best[torch.argsort(said[rows], descending=True, stable=True)[:WALKED]] = True
            near.append(np.full(len(rows), entity, dtype=np.int64))
            found.append(rows.numpy())
            walked.append(best.numpy())
        return EntityRows(np.concatenate(near), np.concatenate(found), np.concatenate(walked))

    @property
    def walks(self) -> int:
        """How many rows the network computes."""
        return int(np.count_nonzero(self.walked))

    def where(self, keep: NDArray[np.bool_] | slice) -> EntityRows:
        """Some of them."""
        return EntityRows(self.entity[keep], self.view[keep], self.walked[keep])

    def portions(self, most: int) -> Iterator[EntityRows]:
        """Rows of whole entities, about so many walks at a time.

        >>> rows = EntityRows(np.array([7, 7, 2, 2, 5]), np.arange(5), np.array([True, True, True, False, True]))
        >>> [part.view.tolist() for part in rows.portions(3)]
        [[0, 1, 2, 3], [4]]
        """
        ends = np.flatnonzero(np.diff(self.entity, append=-1)) + 1
        walks = np.cumsum(self.walked)[ends - 1]
        at = 0
        while at < len(ends):
            start, before = (int(ends[at - 1]), int(walks[at - 1])) if at else (0, 0)
            at = max(at + 1, int(np.searchsorted(walks, before + most, side="right")))
            yield self.where(slice(start, int(ends[at - 1])))


@dataclass
class ComputedRows:
    """A predictor of rows that were computed together: rows of many relations share the cores."""

    entities: int
    relations: int
    places: Mapping[tuple[int, int], int]  # entity and view → its row
    scores: Tensor  # [rows, entities]

    sees_facts = True

    @staticmethod
    def of(network: LinkPredictor, rows: EntityRows, told: Callable[[int], None]) -> ComputedRows:
        """The rows of a network with `mixed_rows`; `told` how many are done now and then."""
        order = np.lexsort((rows.entity, rows.view))  # rows of one relation together describe it once
        entity, view = (torch.from_numpy(side[order]) for side in (rows.entity, rows.view))
        number = view // 2 + network.relations * (view % 2)
        parts = [torch.zeros(0, network.entities)]
        for start in range(0, len(rows), _ROWS):
            some = slice(start, start + _ROWS)
            parts.append(network.mixed_rows(entity[some], number[some]))  # type: ignore[attr-defined]
            told(min(len(rows), start + _ROWS))
        places = {key: place for place, key in enumerate(zip(entity.tolist(), view.tolist(), strict=True))}
        return ComputedRows(network.entities, network.relations, places, torch.cat(parts))

    def tails(self, heads: Tensor, relation: int) -> Tensor:
        """Scores of (h, relation, ·) for each h of `heads` [n] → [n, entities]."""
        return self._rows(heads, 2 * relation)

    def heads(self, tails: Tensor, relation: int) -> Tensor:
        """Scores of (·, relation, t) for each t of `tails` [n] → [n, entities]."""
        return self._rows(tails, 2 * relation + 1)

    def pairs(self, heads: Tensor, relation: Tensor, tails: Tensor) -> Tensor:
        """Scores of single edges [n] → [n]."""
        found = zip(heads.tolist(), relation.tolist(), tails.tolist(), strict=True)
        return torch.stack([self.scores[self.places[h, 2 * r], t] for h, r, t in found])

    def _rows(self, near: Tensor, view: int) -> Tensor:
        return self.scores[[self.places[entity, view] for entity in near.tolist()]]


def score_rows(scorers: Mapping[str, tuple[LinkPredictor, EntityRows]], known: EdgeColumns) -> ScoredEdges:
    """The edges in the rows of each scorer that reach the floor, each as if it were unknown whether it is a fact.

    An edge is in the row of its other end too; where a scorer has no such row, its log there is NaN.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the steps are too short to be shared
    try:
        return _scored(scorers, known)
    finally:
        torch.set_num_threads(threads)


def _scored(scorers: Mapping[str, tuple[LinkPredictor, EntityRows]], known: EdgeColumns) -> ScoredEdges:
    entities = next(iter(scorers.values()))[0].entities
    asked = np.zeros(entities, dtype=bool)
    for _, rows in scorers.values():
        asked[rows.entity] = True
    own = asked[known[0]] | asked[known[2]]
    heads, relation, tails = (torch.from_numpy(np.asarray(side[own], dtype=np.int64)) for side in known)
    everyone, found = torch.arange(entities), {}
    for number in np.unique(np.concatenate([rows.view // 2 for _, rows in scorers.values()])).tolist():
        mine = relation == number
        sides = [
            [
                RowLogs(scorer, side, Calibration(), 1 << 30)
                for side in _half_links(number, heads[mine], tails[mine], rows, everyone)
            ]
            for scorer, rows in scorers.values()
        ]
        keys = torch.unique(torch.cat([side.reaching(FLOOR) for both in sides for side in both]))
        ends = keys // entities, keys % entities
        logs = torch.full((len(scorers), 2, len(keys)), torch.nan)
        for place, both in enumerate(sides):
            for side in both:
                logs[place, int(side.links.inverse)] = side.at(*ends)
        unknown = ~logs.isnan().all(1).all(0)
        found[number] = {
            "heads": ends[0][unknown].int().numpy(),
            "tails": ends[1][unknown].int().numpy(),
            "logs": logs[:, :, unknown].numpy(),
        }
    return joined(tuple(scorers), found)


def _half_links(number: int, heads: Tensor, tails: Tensor, rows: EntityRows, everyone: Tensor) -> list[HalfLinks]:
    """The rows of one relation with their known facts, in each direction that has some."""
    found = []
    for inverse in (False, True):
        near = torch.from_numpy(np.unique(rows.entity[rows.view == 2 * number + inverse]))
        own = torch.isin(tails if inverse else heads, near)
        if len(near):
            found.append(HalfLinks.of(number, inverse, heads[own], tails[own], everyone, near))
    return found


def put_together(parts: Sequence[ScoredEdges]) -> ScoredEdges:
    """Parts with the same scorers in one; of an edge that two parts list, both ends being asked about, the first."""
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in ("relation", "heads", "tails")]
    relation, heads, tails = columns
    order = np.lexsort((tails, heads, relation))
    first = np.ones(len(order), dtype=bool)
    first[1:] = np.logical_or.reduce([(column[order][1:] != column[order][:-1]) for column in columns])
    kept = order[first]
    logs = np.concatenate([part.logs for part in parts], axis=2)[:, :, kept]
    return ScoredEdges(heads[kept], relation[kept], tails[kept], parts[0].scorers, logs)


Weights = NDArray[np.float64]

_SHRINK = 5.0
_KEPT = 1 << 25  # numbers
_POPULAR = 1e-6  # what nobody similar has is ordered by how many have it


@dataclass
class SimilarEnds:
    """Implements `LinkPredictor`: the exponential of a score is how much the similar ones speak for an end.

    0 and 1 share end 3 of relation 0; 1 also has 4, which speaks for 4 where 0 is asked about.

    >>> edges = np.array([[0, 0, 3], [1, 0, 3], [1, 0, 4], [2, 0, 5]]).T
    >>> similar = SimilarEnds.of(6, 1, (edges[0], edges[1], edges[2]))
    >>> np.argsort(-similar.tails(torch.tensor([0]), 0)[0])[:2].tolist()
    [4, 3]
    """

    entities: int
    relations: int
    entity_ptr: NDArray[np.int64]  # [entities + 1] where the steps of an entity begin
    step_view: NDArray[np.int64]  # [steps] by entity and view
    step_end: NDArray[np.int64]  # [steps] the other end
    rows: NDArray[np.int64]  # ascending numbers entity · views + view of the rows that have steps
    row_ptr: NDArray[np.int64]  # [rows + 1] where each begins
    by_view: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]  # [views] near and far end of all its steps

    kept: dict[int, Weights] = field(default_factory=dict)  # who is similar to the entities asked about lately

    sees_facts = True  # the known ends of a row are the ones it is most sure of

    @staticmethod
    def of(entities: int, relations: int, edges: EdgeColumns) -> SimilarEnds:
        """Of known edges."""
        heads, relation, tails = (np.asarray(side, dtype=np.int64) for side in edges)
        near, far = np.concatenate([heads, tails]), np.concatenate([tails, heads])
        view = np.concatenate([2 * relation, 2 * relation + 1])
        code = near * (2 * relations) + view
        order = np.argsort(code, kind="stable")
        rows, first = np.unique(code[order], return_index=True)
        entity_ptr = np.searchsorted(near[order], np.arange(entities + 1))
        parts = np.split(np.argsort(view, kind="stable"), np.cumsum(np.bincount(view, minlength=2 * relations))[:-1])
        by_view = tuple((near[part], far[part]) for part in parts)
        row_ptr = np.append(first, len(code))
        return SimilarEnds(entities, relations, entity_ptr, view[order], far[order], rows, row_ptr, by_view)

    def tails(self, heads: Tensor, relation: int) -> NDArray[np.float32]:
        """Scores of (h, relation, ·) for each h of `heads` [n] → [n, entities]."""
        return self._scores(heads, 2 * relation)

    def heads(self, tails: Tensor, relation: int) -> NDArray[np.float32]:
        """Scores of (·, relation, t) for each t of `tails` [n] → [n, entities]."""
        return self._scores(tails, 2 * relation + 1)

    def pairs(self, heads: Tensor, relation: Tensor, tails: Tensor) -> NDArray[np.float32]:
        """Scores of single edges [n] → [n], read off their rows."""
        found = np.empty(len(heads), dtype=np.float32)
        for number in torch.unique(relation).tolist():
            mine = torch.nonzero(relation == number).view(-1)
            found[mine.numpy()] = self.tails(heads[mine], number)[np.arange(len(mine)), tails[mine].numpy()]
        return found

    def _scores(self, near: Tensor, view: int) -> NDArray[np.float32]:
        holders, items = self.by_view[view]
        popular = np.bincount(items, minlength=self.entities)
        scale = 1 / np.sqrt(popular + _SHRINK)
        found = np.empty((len(near), self.entities), dtype=np.float32)
        for place, entity in enumerate(near.tolist()):
            if entity not in self.kept:
                if len(self.kept) * self.entities > _KEPT:
                    self.kept.clear()
                self.kept[entity] = self._alike(entity)
            alike = self.kept[entity]
            said = np.bincount(items, alike[holders], minlength=self.entities) * scale
            found[place] = np.log(said + _POPULAR * popular + _POPULAR**2)
        return found

    def _alike(self, entity: int) -> Weights:
        """How similar every entity is to one: the sum over common items, each 1 / √(how many have it + 5)."""
        own = slice(int(self.entity_ptr[entity]), int(self.entity_ptr[entity + 1]))
        back = np.searchsorted(self.rows, self.step_end[own] * (2 * self.relations) + (self.step_view[own] ^ 1))
        crowd = self.row_ptr[back + 1] - self.row_ptr[back]
        holders = self.step_end[consecutive(self.row_ptr[back], crowd)]
        alike = np.bincount(holders, np.repeat(1 / np.sqrt(crowd + _SHRINK), crowd), self.entities)
        alike[entity] = 0
        return np.asarray(alike, dtype=np.float64)
