"""Training queries of ten types with all their answers, drawn from a graph on the device where they will be used.

A query is drawn backwards from an answer, as the published training sets are: an entity, one of the directions in which
an edge leaves it, one of its neighbours that way, and so on to the constants. Then its answers are computed forwards as
sets of entities, so that the number of answers is exact. A negated branch is drawn backwards from an entity that the
rest of the query admits, so that it takes something away, and what remains is never empty.

The pool holds, for each query, some of its answers (drawn with equal chance) and how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tuplet.errors import BadInput
from tuplet.lab.baselines.embedding import Pattern, pattern_of
from tuplet.lab.bench.shapes import ground_clauses, shape
from tuplet.predict.base import Triples, ranges

F, E1, S1, S2 = 0, 1, ~0, ~1

TYPES = ("1p", "2p", "3p", "2i", "3i", "2in", "3in", "inp", "pin", "pni")


def _pattern(name: str) -> Pattern:
    (clause,) = shape(name).clauses
    return pattern_of(
        *ground_clauses((clause,), {symbol: 2 * symbol.number for edge in clause for symbol in edge[:3]})
    )[0]


PATTERNS: Mapping[str, Pattern] = {name: _pattern(name) for name in TYPES}
KEPT = 16  # answers kept of each query


COLUMNS = ("constants", "views", "answers", "count")  # the fields of `Queries`


@dataclass(frozen=True)
class Queries:
    """Queries of one type; `answers` repeat when a query has fewer than are kept."""

    constants: Tensor  # [n, ·]
    views: Tensor  # [n, edges]
    answers: Tensor  # [n, kept]
    count: Tensor  # [n] of all answers

    def __len__(self) -> int:
        return len(self.count)

    def take(self, rows: Tensor) -> Queries:
        """Some of them [m], as 64-bit ids."""
        return Queries(*(getattr(self, column)[rows].long() for column in COLUMNS))


class Neighbours:
    """The edges of a graph in both directions, by (view, entity), on a device."""

    def __init__(self, edges: Triples, entities: int, relations: int, device: torch.device | str = "cpu") -> None:
        heads, relation, tails = (torch.as_tensor(np.asarray(part, np.int64), device=device) for part in edges)
        self.entities, self.views, self.device = entities, 2 * relations, torch.device(device)
        view = torch.cat([2 * relation, 2 * relation + 1])
        start, end = torch.cat([heads, tails]), torch.cat([tails, heads])
        row, order = (view * entities + start).sort()
        self.end = end[order]
        self.pointer = torch.zeros(self.views * entities + 1, dtype=torch.int64, device=device)
        self.pointer[1:] = torch.bincount(row, minlength=self.views * entities).cumsum(0)
        # The rows that leave each entity: its directions.
        rows = torch.unique_consecutive(row)
        self.rows = rows[(rows % entities).argsort(stable=True)]
        directions = torch.bincount(rows % entities, minlength=entities)
        self.first = torch.cat([directions.new_zeros(1), directions.cumsum(0)])
        self.inhabited = directions.nonzero()[:, 0]

    def backwards(self, entity: Tensor, chance: Callable[[int], Tensor]) -> tuple[Tensor, Tensor]:
        """A random edge that ends in each entity [n]: (view, where it starts)."""
        first, last = self.first[entity], self.first[entity + 1]
        row = self.rows[first + (chance(len(entity)) * (last - first)).long()]
        begin, end = self.pointer[row], self.pointer[row + 1]
        return row // self.entities ^ 1, self.end[begin + (chance(len(entity)) * (end - begin)).long()]

    def reach(self, members: Tensor, view: Tensor) -> Tensor:
        """Sets [n, entities] through views [n] → how many members have an edge to each entity [n, entities]."""
        query, entity = members.nonzero(as_tuple=True)
        row = view[query] * self.entities + entity
        begin = self.pointer[row]
        degree = self.pointer[row + 1] - begin
        which, place = ranges(begin, degree)
        reached = torch.zeros(members.numel(), dtype=torch.int32, device=self.device)
        target = query[which] * self.entities + self.end[place]
        reached.index_add_(0, target, torch.ones_like(target, dtype=torch.int32))
        return reached.view(members.shape)

    def one(self, entity: Tensor) -> Tensor:
        sets = torch.zeros(len(entity), self.entities, dtype=torch.bool, device=self.device)
        return sets.scatter_(1, entity[:, None], True)


def answers(graph: Neighbours, name: str, constants: Tensor, views: Tensor) -> Tensor:
    """The answers of queries of a training type as sets [n, entities].

    A negated edge from an existential variable is read as everywhere here: ∃e r(s,e) ∧ ¬r'(e,f), which fails only where
    all e have the edge.
    """
    pattern = PATTERNS[name]
    found: dict[int, Tensor] = {~place: graph.one(constants[:, place]) for place in range(constants.shape[1])}
    for number, (head, tail, negated) in enumerate(pattern.edges):
        reached = graph.reach(found[head], views[:, number])
        allowed = reached < found[head].sum(1, keepdim=True) if negated else reached > 0
        found[tail] = found[tail] & allowed if tail in found else allowed
    return found[F]


def draw(graph: Neighbours, name: str, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Groundings of a type: constants [n, ·] and views [n, edges], with n at most `count`.

    Those whose negated branch takes nothing away or everything, or that repeat themselves, are left out.
    """

    def chance(n: int) -> Tensor:
        return torch.rand(n, generator=generator, device=graph.device, dtype=torch.float64)

    pattern = PATTERNS[name]
    entity = graph.inhabited[(chance(count) * len(graph.inhabited)).long()]
    nodes: dict[int, Tensor] = {F: entity}
    views = torch.zeros(count, len(pattern.edges), dtype=torch.int64, device=graph.device)
    positive = [i for i, edge in enumerate(pattern.edges) if not edge.negated]
    denied = [i for i, edge in enumerate(pattern.edges) if edge.negated]
    if name == "pni":  # its negated edge ends the path s1 → e → f: the path is drawn from another answer of r(s2, f)
        views[:, 2], nodes[S2] = graph.backwards(entity, chance)
        other = _members(graph.reach(graph.one(nodes[S2]), views[:, 2]) > 0, 1, generator)[:, 0]
        views[:, 1], nodes[E1] = graph.backwards(other, chance)
        views[:, 0], nodes[S1] = graph.backwards(nodes[E1], chance)
    else:
        for i in reversed(positive):  # edges are written from the constants on
            head, tail, _ = pattern.edges[i]
            views[:, i], nodes[head] = graph.backwards(nodes[tail], chance)
        for i in denied:
            head, tail, _ = pattern.edges[i]
            other = _members(_admit(graph, pattern, tail, nodes, views), 1, generator)[:, 0]
            views[:, i], nodes[head] = graph.backwards(other, chance)
    constants = torch.stack([nodes[~place] for place in range(pattern.constants)], 1)
    keep = _distinct(pattern, nodes, views)
    for i in denied:
        head, tail, _ = pattern.edges[i]
        admitted = _admit(graph, pattern, tail, nodes, views)
        start = graph.one(nodes[head]) if head < 0 else _admit(graph, pattern, head, nodes, views)
        removed = graph.reach(start, views[:, i]) == start.sum(1, keepdim=True)
        keep &= (admitted & removed).any(1) & (admitted & ~removed).any(1)
    return constants[keep], views[keep]


def _admit(graph: Neighbours, pattern: Pattern, node: int, nodes: Mapping[int, Tensor], views: Tensor) -> Tensor:
    """The entities that the positive edges into a node admit there, as sets [n, entities]."""
    sets: Tensor | None = None
    for i, (head, tail, negated) in enumerate(pattern.edges):
        if tail == node and not negated:
            start = graph.one(nodes[head]) if head < 0 else _admit(graph, pattern, head, nodes, views)
            reached = graph.reach(start, views[:, i]) > 0
            sets = reached if sets is None else sets & reached
    assert sets is not None, "each node of the training types has a positive edge"
    return sets


def _distinct(pattern: Pattern, nodes: Mapping[int, Tensor], views: Tensor) -> Tensor:
    """Queries without a step straight back and without the same branch twice [n]."""
    keep = torch.ones(len(views), dtype=torch.bool, device=views.device)
    for i, (head, tail, _) in enumerate(pattern.edges):
        for j, (other, end, _) in enumerate(pattern.edges):
            if other == tail:
                keep &= views[:, j] != views[:, i] ^ 1
            if i < j and end == tail and head < 0 and other < 0:
                keep &= (views[:, i] != views[:, j]) | (nodes[head] != nodes[other])
    return keep


def _members(sets: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Random members of each non-empty set, with repetition: [n, entities] → [n, count]."""
    query, entity = sets.nonzero(as_tuple=True)
    size = torch.bincount(query, minlength=len(sets))
    chance = torch.rand(len(sets), count, generator=generator, device=sets.device, dtype=torch.float64)
    place = (chance * size[:, None]).long() + (size.cumsum(0) - size)[:, None]
    return entity[place.clamp_max(len(entity) - 1)]


def make_pool(
    edges: Triples,
    entities: int,
    relations: int,
    per_type: int = 100_000,
    seed: int = 0,
    device: torch.device | str = "cpu",
    types: tuple[str, ...] = tuple(PATTERNS),
    block: int | None = None,
) -> dict[str, Queries]:
    """A pool of `per_type` queries of each type over the given edges; fewer where the graph has not as many to find.

    Of the type 1p the pool holds all there are, whatever `per_type` says.
    """
    graph = Neighbours(edges, entities, relations, device)
    block = block or max(16, min(4096, (1 << (27 if graph.device.type == "cuda" else 22)) // entities))
    pool = {}
    for number, name in enumerate(types):
        generator = torch.Generator(device).manual_seed(seed * 1_000_003 + number)
        parts: list[Queries] = []
        found = tried = 0
        # There are few queries of one edge, and each holds facts that no other holds: all of them are taken.
        simple = graph.rows.split(block) if name == "1p" else None
        wanted = len(graph.rows) if name == "1p" else per_type
        while found < wanted and tried < 40 * wanted + 64 * block:
            if simple is not None:
                rows = simple[tried // block]
                constants, views = (rows % entities)[:, None], (rows // entities)[:, None]
            else:
                constants, views = draw(graph, name, block, generator)
            tried += block
            sets = answers(graph, name, constants, views)
            full = sets.any(1)
            sets = sets[full]
            if len(sets):
                kept = _members(sets, KEPT, generator)
                parts.append(Queries(constants[full], views[full], kept, sets.sum(1)))
                found += len(sets)
        if not found:
            raise BadInput(f"the graph has no training query of type {name}; train without it")
        joined = (torch.cat([getattr(part, column) for part in parts]) for column in COLUMNS)
        pool[name] = Queries(*(column[:wanted].to(torch.int32) for column in joined))
    return pool


# --- queries to watch ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WatchedQueries:
    """Queries of one type with the answers that only the held-out edges give."""

    constants: Tensor  # [n, ·]
    views: Tensor  # [n, edges]
    query: Tensor  # [m] the query of each hard answer
    hard: Tensor  # [m]
    known: Tensor  # [l, 2] (query, entity): all answers, with or without the held-out edges; they do not compete


def make_watched(
    splits: Mapping[str, Triples],
    entities: int,
    relations: int,
    per_type: int = 50,
    seed: int = 0,
    device: torch.device | str = "cpu",
    hard: int = 20,
) -> dict[str, WatchedQueries]:
    """Queries over train and valid that train alone does not answer, for the learning curve.

    Types of which none is found are left out. At most `hard` answers of a query are ranked, so that a few broad queries
    do not decide the number.
    """
    train = splits["train"]
    both: Any = tuple(np.concatenate([splits["train"][i], splits["valid"][i]]) for i in range(3))
    before, after = (Neighbours(part, entities, relations, device) for part in (train, both))
    block = max(16, min(1024, (1 << 22) // entities))
    watched = {}
    for number, name in enumerate(PATTERNS):
        generator = torch.Generator(device).manual_seed(seed * 1_000_003 + 500 + number)
        parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        found = 0
        for _ in range(200):
            constants, views = draw(after, name, block, generator)
            old, new = (answers(graph, name, constants, views) for graph in (before, after))
            chosen = (new & ~old).any(1).nonzero()[: per_type - found, 0]
            if len(chosen):
                parts.append((constants[chosen], views[chosen], (new & ~old)[chosen], (new | old)[chosen]))
                found += len(chosen)
            if found >= per_type:
                break
        if parts:
            constants, views, fresh, known = (torch.cat(column) for column in zip(*parts, strict=True))
            first = fresh & (fresh.cumsum(1) <= hard)
            query, entity = first.nonzero(as_tuple=True)
            watched[name] = WatchedQueries(constants, views, query, entity, known.nonzero())
    return watched
