"""Random walks on a graph: all edges of an entity at once, and entities for nodes that are to be joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.graph.adjacency import Adjacency, consecutive

Random = np.random.Generator
Node = TypeVar("Node", bound=str)


class Walker:
    """All edges of an entity at once, whatever their relation: what a random walk needs."""

    def __init__(self, adjacency: Adjacency) -> None:
        if not adjacency.edges:
            raise BadInput("a graph without edges has no walks")
        adjacency.touch()
        self.adjacency, _ = adjacency.flatten()
        self._row = np.argsort(self.adjacency.row_entity, kind="stable")
        self._entities, first = np.unique(self.adjacency.row_entity[self._row], return_index=True)  # that have an edge
        self._ptr = np.append(first, len(self._row))
        rows = np.diff(self.adjacency.view_ptr)
        self._view = np.repeat(np.arange(len(rows), dtype=np.int64), rows)
        lengths = np.diff(self.adjacency.row_ptr)
        entity, view = np.repeat(self.adjacency.row_entity, lengths), np.repeat(self._view, lengths)
        order = np.lexsort((view, self.adjacency.neighbour, entity))
        # The same edges by pairs: the neighbours of each entity once, in order, each with the views that lead there.
        entity, near, self._joint = entity[order], self.adjacency.neighbour[order], view[order]
        new = np.flatnonzero(np.append(True, (np.diff(entity) != 0) | (np.diff(near) != 0)))
        self._near, self._joint_ptr = near[new], np.append(new, len(near))
        self._near_ptr = np.searchsorted(entity[new], np.append(self._entities, self._entities[-1] + 1))

    def anyone(self, rng: Random) -> int:
        """An entity that has an edge, uniformly."""
        return int(self._entities[rng.integers(len(self._entities))])

    def links(self, entity: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Views and neighbours of all edges of an entity."""
        at = self._at(entity)
        if at is None:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
        rows = self._row[self._ptr[at] : self._ptr[at + 1]]
        starts, stops = self.adjacency.row_ptr[rows], self.adjacency.row_ptr[rows + 1]
        entries = consecutive(starts, stops - starts)
        return np.repeat(self._view[rows], stops - starts), self.adjacency.neighbour[entries]

    def near(self, entity: int, times: int = 1) -> NDArray[np.int32]:
        """The neighbours of an entity that at least `times` edges lead to, in order."""
        at = self._at(entity)
        if at is None:
            return self._near[:0]
        own = slice(self._near_ptr[at], self._near_ptr[at + 1])
        if times == 1:
            return self._near[own]
        return self._near[own][np.diff(self._joint_ptr[own.start : own.stop + 1]) >= times]

    def between(self, entity: int, other: int) -> NDArray[np.int64]:
        """The views under which `other` is a neighbour of `entity`, in order."""
        at = self._at(entity)
        if at is None:
            return self._joint[:0]
        first, last = self._near_ptr[at : at + 2].tolist()
        place = first + int(np.searchsorted(self._near[first:last], np.int32(other)))
        if place == last or self._near[place] != other:
            return self._joint[:0]
        return self._joint[self._joint_ptr[place] : self._joint_ptr[place + 1]]

    def _at(self, entity: int) -> int | None:
        """The place of an entity among those that have edges."""
        at = int(np.searchsorted(self._entities, np.int32(entity)))
        return at if at < len(self._entities) and self._entities[at] == entity else None

    def place(
        self,
        pairs: Sequence[tuple[Node, Node]],
        rng: Random,
        start: Mapping[Node, int] | None = None,
        among: tuple[Walker, Sequence[tuple[Node, Node]]] | None = None,
    ) -> dict[Node, int] | None:
        """An entity for each node, such that each pair is joined as often as it is listed; None if the walk got stuck.

        Parts that are not connected are walked separately. `start` are nodes that have a place already. `among` are
        some of the pairs again, which are joined by edges of another walker too.
        """
        around = _around(pairs)
        joins = [(self, around), *([] if among is None else [(among[0], _around(among[1]))])]
        placed: dict[Node, int] = dict(start or {})
        while len(placed) < len(around):
            held = {n: sum(other in placed for other in around[n]) for n in around if n not in placed}
            # The most restricted node first: a cycle closes on a common neighbour, not by luck.
            node = max(held, key=held.__getitem__)
            if not held[node]:
                placed[node] = self.anyone(rng)
                continue
            candidates: NDArray[np.int32] | None = None
            for walker, own in joins:
                for other, wanted in own.get(node, {}).items():
                    if other in placed:
                        fitting = walker.near(placed[other], wanted)
                        candidates = fitting if candidates is None else _common(candidates, fitting)
            if candidates is None or not len(candidates):
                return None
            placed[node] = int(candidates[rng.integers(len(candidates))])
        return placed


def _around(pairs: Sequence[tuple[Node, Node]]) -> dict[Node, dict[Node, int]]:
    """For each node the others that it is joined with, and how often."""
    found: dict[Node, dict[Node, int]] = {node: {} for pair in pairs for node in pair}
    for one, other in pairs:
        if one != other:
            found[one][other] = found[one].get(other, 0) + 1
            found[other][one] = found[other].get(one, 0) + 1
    return found


def _common(one: NDArray[np.int32], other: NDArray[np.int32]) -> NDArray[np.int32]:
    few, many = (one, other) if len(one) <= len(other) else (other, one)
    at = np.minimum(np.searchsorted(many, few), max(len(many) - 1, 0))
    return few[many[at] == few] if len(few) else few
