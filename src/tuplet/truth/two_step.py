"""Rules of two steps: if view u leads from h to some middle and view v from there to t, how often does r(h, t) hold?

A *view* is a relation in one direction: 2r from head to tail, 2r + 1 back. Rules are counted over pairs, not over
paths: ten middles between the same two ends are one pair. Confidence = right / (pairs + 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.truth.kernels import (
    Ints,
    Longs,
    Steps,
    bodies_between,
    count_pairs,
    fill_set,
    joined_pairs,
    path_work,
    speak_for,
)

SHRINK = 5.0  # a confidence is that of a rule which failed this many times more
# Two entities of one country, two people of one sex: a middle that joins more than so many pairs by the same two steps
# says next to nothing of any of them, and would cost the most.
_MOST_JOINED = 1 << 20
_MOST_PATHS = 1_000_000_000  # with more paths in the graph the number above is lowered until they are fewer
_ROOM = 1 << 20
_THREADS = 2

Column = NDArray[np.float32]


class TwoStepColumns(NamedTuple):
    """What rules say of each candidate: the best confidence, log of no rule being right, how many paths they have."""

    best: Column
    none: Column
    paths: Column


class SpokenPairs(NamedTuple):
    """Pairs that rules join, and the best confidence of one that does."""

    heads: Ints
    tails: Ints
    confidence: NDArray[np.float64]


@dataclass(frozen=True)
class TwoStepRules:
    """The counted rules of all relations, over the edges that they were counted on.

    Relation 0 then relation 1 lead where relation 2 leads, two times of three.

    >>> heads, relation, tails = [0, 1, 2, 3, 4, 5, 0, 1], [0, 0, 0, 1, 1, 1, 2, 2], [3, 4, 5, 6, 7, 8, 6, 7]
    >>> rules = TwoStepRules.from_edges(9, 3, heads, relation, tails)
    >>> rules.confidence(2).tolist(), [column.tolist() for column in rules.pairs(2, least=0.2)]
    ([0.25], [[0, 1, 2], [6, 7, 8], [0.25, 0.25, 0.25]])
    """

    entities: int
    relations: int
    steps: Steps
    most: int  # a middle that joins more pairs by the same two steps is left out
    rule_ptr: Longs  # [relations + 1] where the rules of a relation begin
    body: Longs  # [rules] u · views + v, ascending within a relation
    right: Longs  # [rules] pairs that the body joins and that have the relation
    joined: Longs  # [rules] pairs that the body joins

    @property
    def views(self) -> int:
        return 2 * self.relations

    @staticmethod
    def from_edges(
        entities: int,
        relations: int,
        heads: Sequence[int] | NDArray[np.integer],
        relation: Sequence[int] | NDArray[np.integer],
        tails: Sequence[int] | NDArray[np.integer],
    ) -> TwoStepRules:
        """All rules that are right at least once, counted on distinct edges."""
        h, r, t = (np.asarray(column, dtype=np.int32) for column in (heads, relation, tails))
        steps = _steps(entities, relations, h, r, t)
        most = _MOST_JOINED
        while path_work(steps, most) > _MOST_PATHS and most > 1:
            most //= 4
        order = np.argsort(r, kind="stable")
        ends = np.searchsorted(r[order], np.arange(relations + 1))
        body, right = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for number in range(relations):
            edges = order[ends[number] : ends[number + 1]]
            found, count = _bodies(steps, most, 2 * relations, h[edges], t[edges])
            body.append(found)
            right.append(count)
        rule_ptr = np.cumsum([len(part) for part in body])
        bodies = np.concatenate(body)
        pairs = _pairs(steps, most, 2 * relations, bodies)
        return TwoStepRules(entities, relations, steps, most, rule_ptr, bodies, np.concatenate(right), pairs)

    def __len__(self) -> int:
        return len(self.body)

    def confidence(self, relation: int) -> NDArray[np.float64]:
        """The confidence of each rule of a relation."""
        span = self._span(relation)
        return np.asarray(self.right[span] / (self.joined[span] + SHRINK))

    def _span(self, relation: int) -> slice:
        return slice(int(self.rule_ptr[relation]), int(self.rule_ptr[relation + 1]))

    def columns(
        self, heads: NDArray[np.integer], relation: NDArray[np.integer], tails: NDArray[np.integer]
    ) -> TwoStepColumns:
        """What the rules say of candidates in order of their relation; of a known edge as if it were unknown."""
        out = np.zeros((3, len(heads)), dtype=np.float32)
        ends = np.searchsorted(relation, np.arange(self.relations + 1))
        jobs = []
        for number in range(self.relations):
            cuts = np.linspace(ends[number], ends[number + 1], _THREADS + 1).astype(int)
            jobs += [(number, slice(low, high)) for low, high in pairwise(cuts.tolist()) if low < high]

        def fill(job: tuple[int, slice]) -> None:
            number, part = job
            self._speak(number, heads[part].astype(np.int32), tails[part].astype(np.int32), out[:, part])

        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(fill, jobs))
        return TwoStepColumns(*out)

    def _speak(self, relation: int, heads: Ints, tails: Ints, out: Column) -> None:
        span = self._span(relation)
        body = self.body[span]
        if not len(body):
            return
        keys, places = _number_set(body + 1)
        right, pairs = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        right[places], pairs[places] = self.right[span], self.joined[span]
        rules = keys, right, pairs
        scratch = np.empty((2, _ROOM // 64), dtype=np.int64)
        done = 0
        while done < len(heads):
            asked = heads, tails, done, *rules, SHRINK, scratch, out
            done, need = speak_for(self.steps, self.most, self.views, relation, *asked)
            if need:
                scratch = np.empty((2, need), dtype=np.int64)

    def pairs(self, relation: int, least: float) -> SpokenPairs:
        """The pairs that some rule of a confidence of at least `least` joins, in order of (head, tail)."""
        confidence = self.confidence(relation)
        kept = confidence >= least
        body_ptr, body_view = _by_first_view(self.body[self._span(relation)][kept], self.views)
        room = self.entities + _ROOM
        heads, tails, said = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.float64)
        found, done = [(heads[:0], tails[:0], said[:0])], 0
        while kept.any() and done < self.entities:
            rules = body_ptr, body_view, confidence[kept]
            done, filled = joined_pairs(self.steps, self.most, *rules, done, heads, tails, said)
            found.append((heads[:filled].copy(), tails[:filled].copy(), said[:filled].copy()))
        first, second, best = zip(*found, strict=True)
        return SpokenPairs(np.concatenate(first), np.concatenate(second), np.concatenate(best))

    def least_within(self, relation: int, least: float, most: int) -> float:
        """The confidence, `least` or higher, from which on the rules of a relation join no more than `most` pairs.

        Counted by rule, so a pair that two rules join counts twice; nothing is walked.
        """
        confidence = self.confidence(relation)
        order = np.argsort(-confidence, kind="stable")
        beyond = np.cumsum(self.joined[self._span(relation)][order]) > most
        if not beyond.any():
            return least
        return max(least, float(np.nextafter(confidence[order[int(np.argmax(beyond))]], np.inf)))


def _steps(entities: int, relations: int, heads: Ints, relation: Ints, tails: Ints) -> Steps:
    """The edges, sorted for walks."""
    views = 2 * relations
    entity, other = np.concatenate([heads, tails]), np.concatenate([tails, heads])
    view = np.concatenate([2 * relation, 2 * relation + 1])
    near_ptr = np.concatenate([[0], np.cumsum(np.bincount(entity, minlength=entities))]).astype(np.int64)
    order = np.lexsort((other, view, entity))
    row_code = entity[order].astype(np.int64) * views + view[order]
    codes, first = np.unique(row_code, return_index=True)
    row_ptr = np.append(first, len(entity)).astype(np.int64)
    lengths = np.diff(row_ptr)
    back = np.searchsorted(codes, other.astype(np.int64) * views + (view ^ 1))
    crowd = lengths[back].astype(np.int32) if len(lengths) else np.zeros(0, np.int32)
    row_entity, row_view = (part.astype(np.int32) for part in np.divmod(codes, max(views, 1)))
    by_other = np.lexsort((view, other, entity))
    return Steps(
        entity_ptr=np.searchsorted(codes, np.arange(entities + 1, dtype=np.int64) * views).astype(np.int64),
        row_entity=row_entity,
        row_view=row_view,
        row_ptr=row_ptr,
        view_rows=np.argsort(row_view, kind="stable").astype(np.int64),
        view_ptr=np.concatenate([[0], np.cumsum(np.bincount(row_view, minlength=views))]).astype(np.int64),
        neighbour=other[order],
        crowd=crowd[order],
        near_ptr=near_ptr,
        near=other[by_other],
        near_view=view[by_other],
        near_crowd=crowd[by_other],
    )


def _bodies(steps: Steps, most: int, views: int, heads: Ints, tails: Ints) -> tuple[Longs, Longs]:
    """The bodies that join some of the pairs, ascending, and how many pairs each joins."""
    room, done = _ROOM, 0
    first, second, out = (np.empty(room, dtype=np.int64) for _ in range(3))
    bodies, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
    while done < len(heads):
        done, filled, need = bodies_between(steps, most, views, heads, tails, done, first, second, out)
        found, count = np.unique(out[:filled], return_counts=True)
        bodies, place = np.unique(np.concatenate([bodies, found]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([counts, count]), minlength=len(bodies)).astype(np.int64)
        if need > room:
            room = need
            first, second, out = (np.empty(room, dtype=np.int64) for _ in range(3))
    return bodies, counts


def _pairs(steps: Steps, most: int, views: int, body: Longs) -> Longs:
    """How many pairs each body joins; every distinct body is counted once."""
    distinct, place = np.unique(body, return_inverse=True)
    body_ptr, body_view = _by_first_view(distinct, views)
    pairs = np.zeros(len(distinct), dtype=np.int64)
    cost = np.cumsum(np.diff(steps.view_ptr) * np.diff(body_ptr))
    cuts = np.searchsorted(cost, np.linspace(0, cost[-1] if len(cost) else 0, 8 * _THREADS + 1)[1:-1])
    bounds = [0, *np.unique(cuts).tolist(), views]

    def count(part: tuple[int, int]) -> None:  # each first view has bodies of its own: no two threads write one count
        count_pairs(steps, most, body_ptr, body_view, part[0], part[1], pairs)

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(count, pairwise(bounds)))
    counted: Longs = pairs[place]
    return counted


def _by_first_view(body: Longs, views: int) -> tuple[Longs, Ints]:
    """Where the bodies of each first view begin [views + 1], and all second views."""
    start = np.searchsorted(body, np.arange(views + 1, dtype=np.int64) * views).astype(np.int64)
    return start, (body % max(views, 1)).astype(np.int32)


def _number_set(numbers: Longs) -> tuple[Longs, Longs]:
    """A set that compiled code probes, and the place of each number in it."""
    keys = np.zeros(1 << int(2 * len(numbers)).bit_length(), dtype=np.int64)
    places = np.empty(len(numbers), dtype=np.int64)
    fill_set(keys, numbers, places)
    return keys, places
