"""Random walks on a graph: all edges of an entity at once, and shapes that are grounded where a walk went.

The walk is forgotten, but it is an answer of the positive part, so most grounded shapes have answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tuplet.bench.queries import bound
from tuplet.bench.shapes import AbstractEdge, QueryShape, Role, Symbol, symbols
from tuplet.errors import BadInput
from tuplet.graph.adjacency import Adjacency
from tuplet.query.query_graph import QueryGraph

Random = np.random.Generator
Node = TypeVar("Node", bound=str)


@dataclass
class Walker:
    """All edges of an entity at once, whatever their relation: what a random walk needs."""

    adjacency: Adjacency
    _entities: NDArray[np.int32] = field(init=False, repr=False)  # those that have an edge
    _ptr: NDArray[np.int64] = field(init=False, repr=False)
    _row: NDArray[np.int64] = field(init=False, repr=False)
    _view: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.adjacency.edges:
            raise BadInput("a graph without edges has no walks")
        self.adjacency.touch()
        self.adjacency, _ = self.adjacency.flattened()
        self._row = np.argsort(self.adjacency.row_entity, kind="stable")
        self._entities, first = np.unique(self.adjacency.row_entity[self._row], return_index=True)
        self._ptr = np.append(first, len(self._row))
        rows = np.diff(self.adjacency.view_ptr)
        self._view = np.repeat(np.arange(len(rows), dtype=np.int64), rows)

    def anyone(self, rng: Random) -> int:
        """An entity that has an edge, uniformly."""
        return int(self._entities[rng.integers(len(self._entities))])

    def links(self, entity: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Views and neighbours of all edges of an entity."""
        at = int(np.searchsorted(self._entities, np.int32(entity)))
        if at == len(self._entities) or self._entities[at] != entity:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
        rows = self._row[self._ptr[at] : self._ptr[at + 1]]
        starts, stops = self.adjacency.row_ptr[rows], self.adjacency.row_ptr[rows + 1]
        lengths = stops - starts
        ends = np.cumsum(lengths)
        entries = np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths)
        return np.repeat(self._view[rows], lengths), self.adjacency.neighbour[entries]

    def between(self, entity: int, other: int) -> NDArray[np.int64]:
        """The views under which `other` is a neighbour of `entity`."""
        views, neighbours = self.links(entity)
        return np.unique(views[neighbours == other])

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
        joins = [(self, pairs), *([] if among is None else [among])]
        nodes = list(dict.fromkeys(node for pair in pairs for node in pair))
        placed: dict[Node, int] = dict(start or {})
        while len(placed) < len(nodes):
            frontier = [
                n for n in nodes if n not in placed and any({n, p} == {*pair} for pair in pairs for p in placed)
            ]
            if not frontier:
                rest = [n for n in nodes if n not in placed]
                placed[rest[0]] = self.anyone(rng)
                continue
            # The most restricted node first: a cycle closes on a common neighbour, not by luck.
            node = max(frontier, key=lambda n: len({p for pair in pairs if n in pair for p in pair if p in placed}))
            candidates: NDArray[np.int32] | None = None
            for other, entity in placed.items():
                for walker, own in joins:
                    wanted = sum({node, other} == {*pair} for pair in own)
                    if wanted:
                        near, joined = np.unique(walker.links(entity)[1], return_counts=True)
                        fitting = near[joined >= wanted]
                        candidates = fitting if candidates is None else np.intersect1d(candidates, fitting)
            if candidates is None or not len(candidates):
                return None
            placed[node] = int(candidates[rng.integers(len(candidates))])
        return placed


def ground(shape: QueryShape, adjacency: Adjacency | Walker, rng: Random, tries: int = 1000) -> tuple[QueryGraph, ...]:
    """The clauses of a shape with real relations and constants, found by a walk.

    Relations may be walked in either direction. A negated atom takes a relation that its head has, so that it matters.
    Pass a `Walker` to ground many shapes on one graph.
    """
    walker = adjacency if isinstance(adjacency, Walker) else Walker(adjacency)
    positive = list(dict.fromkeys(edge for clause in shape.clauses for edge in clause if not edge.negated))
    negated = [edge for clause in shape.clauses for edge in clause if edge.negated]
    for _ in range(tries):
        placed = walker.place([edge.ends for edge in positive], rng)
        if placed is None:
            continue
        views: dict[Symbol, int] = {
            edge.relation: view for edge, view in zip(positive, _views(walker, positive, placed, rng), strict=True)
        }
        for edge in negated:
            placed.setdefault(edge.head, walker.anyone(rng))
            placed.setdefault(edge.tail, walker.anyone(rng))
            # One that joins this pair already would leave nothing.
            near = np.unique(walker.links(placed[edge.head])[0])
            near = np.setdiff1d(near, [views[e.relation] for e in positive if e.ends == edge.ends])
            view = near[rng.integers(len(near))] if len(near) else rng.integers(2 * walker.adjacency.relations)
            views.setdefault(edge.relation, int(view))
        found = bound(shape.clauses, views | {s: placed[s] for s in symbols(shape.clauses, Role.CONSTANT)})
        # Two constants in one place may make two atoms one: another walk.
        if all(len(graph.edges) == len(clause) for graph, clause in zip(found, shape.clauses, strict=True)):
            return found
    raise BadInput(f"no walk of shape {shape.name} found in {tries} tries")


def _views(walker: Walker, edges: Sequence[AbstractEdge], placed: Mapping[Symbol, int], rng: Random) -> list[int]:
    """A view for each edge, parallel edges getting different ones."""
    used: dict[tuple[Symbol, Symbol], list[int]] = {}
    for edge in edges:
        if edge.ends not in used:
            used[edge.ends] = rng.permutation(walker.between(placed[edge.head], placed[edge.tail])).tolist()
    return [used[edge.ends].pop() for edge in edges]
