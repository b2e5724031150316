"""Stated facts that speak for a predicted one: paths between its two ends, and similar entities that have the fact.

A path is worth what it was worth elsewhere: of all pairs of entities that the same steps join, how many have the
relation? Its weight is right / (pairs + 5), as the two-step rules of `tuplet.truth.two_step` have it. Nothing is
learned beforehand: what a fact needs is counted when it is asked for, on the facts as they are then.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.adjacency import Adjacency
from tuplet.graph.graph import KnowledgeGraph
from tuplet.query.evidence_kernels import count_body, rows_of, share_with, step_worth, three_steps, two_steps
from tuplet.query.limits import Deadline, OutOfTime
from tuplet.query.schema import Evidence, StatedFact
from tuplet.query.source import Source
from tuplet.query.witness import Triple, Witnesses

Steps: TypeAlias = NDArray[np.int64]  # [n, 2] view and neighbour

# Views one after another, and the entities of one path along them.
Paths: TypeAlias = dict[tuple[int, ...], tuple[int, ...]]

MOST = 5  # reasons for one fact
LEAST = 0.01  # what has less weight is no reason
_CLEAR = 0.1  # where no shorter path has this weight, those of three steps are looked at
_SHRINK = 5.0  # a share is that of something which failed this many times more
_SHOWN = 3  # things that two similar entities share
# Limits that only hubs of large graphs reach, so that the clock is looked at every few milliseconds: neighbours of an
# end (those of short rows first), of an end of a long path, paths, bodies that are counted, look-ups without a pause.
_NEAR, _NEAR_FAR, _PATHS, _BODIES, _LOOK_UPS = 4096, 512, 1 << 14, 48, 1 << 18
# A body is counted over so many heads, until so many pairs are found or entries are read, of one head and in all.
_HEADS, _PAIRS, _WORK_EACH, _WORK = 1 << 16, 1 << 14, 1 << 15, 1 << 18
_KEPT = 1 << 16  # counted bodies


class Reason(NamedTuple):
    """Stated facts that together speak for a predicted one, in ids."""

    kind: Literal["path", "similar"]
    facts: tuple[Triple, ...]
    weight: float


@dataclass(frozen=True)
class EvidenceFinder:
    """Finds reasons on the stated facts of one source; any number of threads may use it."""

    facts: Adjacency
    entities: int
    counted: dict[tuple[int, ...], float] = field(default_factory=dict)  # the weight of (relation, *views)

    @staticmethod
    def from_source(source: Source) -> EvidenceFinder:
        """The finder of a source, made once; what is compiled is loaded and all facts are verified here."""
        made = source.prepared.get("evidence")
        if made is None:
            source.facts.touch()
            made = source.prepared["evidence"] = EvidenceFinder(source.facts, len(source.graph.entities))
            load()
        assert isinstance(made, EvidenceFinder)
        return made

    def reasons(self, head: int, relation: int, tail: int, deadline: Deadline) -> list[Reason] | None:
        """What speaks for a fact that is not stated, best first; None if the time was up before anything was found."""
        found: list[Reason] = []
        try:
            for reason in self._all(head, relation, tail, deadline):
                found.append(reason)
        except OutOfTime:
            if not found:
                return None
        found.sort(key=lambda reason: (-reason.weight, reason.kind, reason.facts))
        distinct: dict[Any, Reason] = {}  # where a relation is stated in both directions, one of them is enough
        for reason in found:
            distinct.setdefault((reason.kind, *map(_drop_direction, reason.facts)), reason)
        return list(distinct.values())[:MOST]

    def _all(self, head: int, relation: int, tail: int, deadline: Deadline) -> Iterable[Reason]:
        deadline.check()
        ends = _End.from_entity(self, head), _End.from_entity(self, tail)
        if head != tail:  # a path comes to no entity twice
            yield from self._paths(relation, *ends, deadline)
        yield from self._similar(ends[0], 2 * relation, tail, deadline)
        yield from self._similar(ends[1], 2 * relation + 1, head, deadline)

    def _paths(self, relation: int, head: _End, tail: _End, deadline: Deadline) -> Iterable[Reason]:
        clear, joining = False, np.flatnonzero(head.stops > head.starts).tolist()
        one_step: Paths = {(view,): (head.entity, tail.entity) for view in joining if head.reaches(view, tail.entity)}
        for paths in (one_step, self._two_steps(head, tail)):
            for reason in self._weigh(relation, paths, deadline):
                clear |= reason.weight >= _CLEAR
                yield reason
        if not clear:
            yield from self._weigh(relation, self._three_steps(head, tail), deadline)

    def _weigh(self, relation: int, paths: Paths, deadline: Deadline) -> Iterable[Reason]:
        """A reason for each body that joins the ends, with one path; those of rare middles are tried first."""
        for body, nodes in list(paths.items())[:_BODIES]:
            deadline.check()
            weight = self.weight(body, relation)
            if weight >= LEAST:
                yield Reason("path", tuple(map(_fact, nodes[:-1], body, nodes[1:])), weight)

    def weight(self, body: tuple[int, ...], relation: int) -> float:
        """Of the pairs that some views join, one after another, the share that has a relation, shrunk."""
        key = (relation, *body)
        known = self.counted.get(key)
        if known is None:
            if len(self.counted) >= _KEPT:
                self.counted.clear()
            heads = _scatter(self.facts.view(body[0]).entities, _HEADS)
            seen = np.zeros(self.entities, dtype=np.int32)
            views = np.array(body, dtype=np.int64)
            pairs, right = count_body(self.facts.arrays, views, relation, heads, seen, _PAIRS, _WORK, _WORK_EACH)
            known = self.counted[key] = right / (pairs + _SHRINK)
        return known

    def _two_steps(self, head: _End, tail: _End) -> Paths:
        """The bodies of two views that join the ends, each with the path through its rarest middle, rare ones first."""
        backwards = tail.degree < head.degree
        near, far = (tail, head) if backwards else (head, tail)
        views = np.flatnonzero(far.stops > far.starts)
        steps = near.steps(min(_NEAR, _LOOK_UPS // max(1, len(views))))
        found, crowd = np.empty((_PATHS, 2), dtype=np.int64), np.empty(_PATHS, dtype=np.int64)
        count = two_steps(
            self.facts.arrays, head.entity, tail.entity, steps, views, far.starts[views], far.stops[views], found, crowd
        )
        paths: Paths = {}
        for at in np.argsort(crowd[:count], kind="stable").tolist():
            view, middle = steps[found[at, 0]].tolist()
            other = int(found[at, 1])
            body = (other, view ^ 1) if backwards else (view, other ^ 1)
            paths.setdefault(body, (head.entity, middle, tail.entity))
        return paths

    def _three_steps(self, head: _End, tail: _End) -> Paths:
        """The same with three views."""
        near, far = head.steps(_NEAR_FAR), tail.steps(_NEAR_FAR)
        far = far[np.argsort(far[:, 1], kind="stable")]
        first = np.zeros(self.entities, dtype=np.int32)
        first[far[::-1, 1]] = np.arange(len(far), 0, -1)
        found, crowd = np.empty((_PATHS, 3), dtype=np.int64), np.empty(_PATHS, dtype=np.int64)
        views = 2 * self.facts.relations
        count = three_steps(self.facts.arrays, views, head.entity, tail.entity, near, far, first, _NEAR, found, crowd)
        paths: Paths = {}
        for at in np.argsort(crowd[:count], kind="stable").tolist():
            i, between, j = found[at].tolist()
            (view, b), (last, c) = near[i].tolist(), far[j].tolist()
            paths.setdefault((view, between, last ^ 1), (head.entity, b, c, tail.entity))
        return paths

    def _similar(self, end: _End, view: int, other: int, deadline: Deadline) -> Iterable[Reason]:
        """Entities that have the view to the other end, as is predicted of this one, by what they share with it.

        The weight is the share of what both have among all that one of them has, by rarity, shrunk.
        """
        deadline.check()
        arrays, steps = self.facts.arrays, end.steps(_NEAR)
        others = np.sort(_scatter(self.facts.row(other, view ^ 1), _LOOK_UPS // max(1, len(steps))))
        shared = np.zeros(len(others))
        total = share_with(arrays, steps, others, shared)
        for place in np.argsort(-shared, kind="stable")[:MOST].tolist():
            if not shared[place]:
                break
            deadline.check()
            one = int(others[place])
            own = share_with(arrays, _End.from_entity(self, one).steps(_NEAR), others[:0], shared[:0])
            worth = np.zeros(len(steps))
            step_worth(arrays, one, steps, worth)
            best: dict[int, int] = {}  # what both have, by the rarest view
            for at in np.argsort(-worth, kind="stable")[: np.count_nonzero(worth)].tolist():
                best.setdefault(int(steps[at, 1]), int(steps[at, 0]))
            both = [_fact(x, by, far) for far, by in list(best.items())[:_SHOWN] for x in (end.entity, one)]
            weight = float(shared[place]) / (total + own - float(shared[place]) + _SHRINK)
            if weight >= LEAST:
                yield Reason("similar", (_fact(one, view, other), *both), weight)


class _End(NamedTuple):
    """One end of a fact with its rows in all views."""

    entity: int
    starts: NDArray[np.int64]  # [views]
    stops: NDArray[np.int64]
    neighbour: NDArray[np.int32]

    @staticmethod
    def from_entity(finder: EvidenceFinder, entity: int) -> _End:
        views = 2 * finder.facts.relations
        starts, stops = np.zeros(views, dtype=np.int64), np.zeros(views, dtype=np.int64)
        rows_of(finder.facts.arrays, entity, starts, stops)
        return _End(entity, starts, stops, finder.facts.arrays.neighbour)

    @property
    def degree(self) -> int:
        return int((self.stops - self.starts).sum())

    def reaches(self, view: int, other: int) -> bool:
        """Whether a view leads to another entity."""
        row = self.neighbour[self.starts[view] : self.stops[view]]
        at = int(np.searchsorted(row, np.int32(other)))
        return at < len(row) and int(row[at]) == other

    def steps(self, most: int) -> Steps:
        """View and neighbour of its steps; if there are more than `most`, those of the shortest rows."""
        lengths = self.stops - self.starts
        order = np.argsort(lengths, kind="stable")
        order = order[(lengths[order] > 0) & (np.cumsum(lengths[order]) <= most)]
        views = np.sort(order)
        ends = [self.neighbour[self.starts[view] : self.stops[view]] for view in views.tolist()]
        return np.stack([np.repeat(views, lengths[views]), np.concatenate([np.zeros(0, np.int32), *ends])], axis=1)


def _fact(near: int, view: int, far: int) -> Triple:
    """A step as the fact that it walks along."""
    return (far, view // 2, near) if view % 2 else (near, view // 2, far)


def _drop_direction(fact: Triple) -> Triple:
    """The same for a fact and its reverse."""
    return min(fact, fact[::-1])


def _scatter(entities: NDArray[np.int32], most: int) -> NDArray[np.int32]:
    """Entities in an order in which each beginning is spread over all of them; at most so many.

    >>> _scatter(np.arange(10, dtype=np.int32), 5).tolist()
    [0, 7, 4, 1, 8]
    """
    count = len(entities)
    stride = max(1, round(count * 0.618))
    while count and math.gcd(stride, count) > 1:
        stride += 1
    return np.ascontiguousarray(entities[np.arange(min(count, most)) * stride % max(count, 1)])


def find_evidence(
    witnesses: Witnesses, source: Source, deadline: Deadline
) -> dict[Triple, tuple[Evidence, ...] | None]:
    """Evidence in names for each predicted fact that witnesses rest on; None where the time was up."""
    predicted = witnesses.counts & ~witnesses.observed & ~witnesses.negated
    found: dict[Triple, tuple[Evidence, ...] | None] = {}
    if not predicted.any():
        return found
    with deadline.paused():
        finder = EvidenceFinder.from_source(source)
    for i, j in np.argwhere(predicted).tolist():
        fact = int(witnesses.heads[i, j]), witnesses.edges[j].relation, int(witnesses.tails[i, j])
        if fact not in found:
            reasons = finder.reasons(*fact, deadline)
            found[fact] = None if reasons is None else tuple([_name(reason, source.graph) for reason in reasons])
    return found


def _name(reason: Reason, graph: KnowledgeGraph) -> Evidence:
    """A reason with names in place of ids."""
    facts = []
    for head, relation, tail in reason.facts:
        ends, labels = graph.entities.names([head, tail]), graph.entities.labels_of([head, tail])
        facts.append(StatedFact(ends[0], graph.relations.name(relation), ends[1], *labels))
    return Evidence(reason.kind, tuple(facts), reason.weight)


def load() -> None:
    """Load what is compiled, by finding what speaks for 1(0, 3): entity 4 has it, and shares 0(·, 1) with 0."""
    heads, relation, tails = np.array([(0, 0, 1), (1, 0, 2), (2, 0, 3), (4, 0, 1), (4, 1, 3)]).T
    facts, _ = Adjacency.build(heads.astype(np.int32), relation, tails.astype(np.int32), relations=2)
    EvidenceFinder(facts, 5).reasons(0, 1, 3, Deadline())
