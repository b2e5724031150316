"""Who shares ends with an entity, and what else do those have? A predictor that is counted, not trained.

An entity has *items*: its views (a relation in one direction, 2r or 2r + 1) with the entity at the other end. Others
with the same items are similar to it, the more so the rarer the items are, and what they have beside is likely:
item-item similarity, with counts shrunk by 5. New entities have few facts, and this needs few.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.graph.adjacency import consecutive
from tuplet.truth.scored import EdgeColumns

Tensor = torch.Tensor
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
