"""Ranked streams made of others: disjunctions of clauses, maxima of several streams, and filters."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.exact.effort import WAITING, Effort
from tuplet.engines.exact.stream import ClauseStream, Ids, Stream, Values
from tuplet.query.limits import OutOfTime
from tuplet.query.logic import Logic

# Tuples read from a stream at once.
LARGEST_BLOCK = 1 << 12


class Maximum:
    """The tuples of several streams, each at the largest truth it has in any of them.

    A tuple whose truth reaches the bounds of all streams has its largest truth: a larger one would have come up.
    """

    def __init__(self, streams: Sequence[Stream], width: int, effort: Effort) -> None:
        self.streams, self.width, self.effort = streams, width, effort
        self.bound, self.done = 1.0, False
        self.stopped: str | None = None
        self.waiting: list[tuple[float, tuple[int, ...]]] = []
        self.seen: set[tuple[int, ...]] = set()

    def take(self, n: int) -> tuple[Ids, Values]:
        tuples: list[tuple[int, ...]] = []
        truth: list[float] = []
        block = min(max(8, n // len(self.streams)), LARGEST_BLOCK)
        while len(truth) < n:
            ceiling = self._ceiling()
            while self.waiting and len(truth) < n and -self.waiting[0][0] >= ceiling:
                value, key = heapq.heappop(self.waiting)
                if self._admit(key):
                    truth.append(-value)
                    tuples.append(key)
            if len(truth) == n:
                break
            readable = [s for s in self.streams if not s.done]
            if not readable or self.stopped is not None:
                break
            self._read(max(readable, key=lambda s: s.bound), block)
            self.stopped = self.stopped or next((s.stopped for s in self.streams if s.stopped is not None), None)
        self.bound = max(self._ceiling(), -self.waiting[0][0] if self.waiting else 0.0)
        self.done = not self.waiting and self.stopped is None and all(s.done for s in self.streams)
        return _ids(tuples, self.width), np.array(truth)

    def _ceiling(self) -> float:
        """A bound on tuples that have not come up."""
        return max(0.0 if stream.done else stream.bound for stream in self.streams)

    def _admit(self, key: tuple[int, ...]) -> bool:
        """Whether a tuple comes up for the first time."""
        fresh = key not in self.seen
        self.seen.add(key)
        return fresh

    def _read(self, stream: Stream, block: int) -> None:
        found, truth = stream.take(block)
        self.effort.held += WAITING * len(found)  # the streams look at it
        for key, value in zip(map(tuple, found.tolist()), truth.tolist(), strict=True):
            if key not in self.seen:
                heapq.heappush(self.waiting, (-value, key))

    def unproven(self, n: int) -> tuple[Ids, Values]:
        best: dict[tuple[int, ...], float] = {}
        for value, key in heapq.nsmallest(2 * n, self.waiting):
            if key not in self.seen:
                best.setdefault(key, -value)
        keys = list(best)[:n]
        return _ids(keys, self.width), np.array([best[key] for key in keys])

    def alternatives(self) -> list[list[ClauseStream]]:
        return [[c for stream in self.streams for own in stream.alternatives() for c in own]]


class Union(Maximum):
    """A disjunction of clauses by the threshold algorithm.

    Each clause is read in order of truth, and a tuple that comes up is scored under all clauses at once. What has not
    come up is at most the disjunction of the clauses' bounds.
    """

    def __init__(
        self, streams: Sequence[Stream], clauses: Sequence[ClauseStream], logic: Logic, effort: Effort
    ) -> None:
        super().__init__(streams, clauses[0].width, effort)
        self.clauses, self.logic = clauses, logic
        self.unscored = 0.0  # a bound on tuples that came up when there was no time left to score them

    def _ceiling(self) -> float:
        total = 0.0
        for stream in self.streams:
            total = float(self.logic.disjunction(total, 0.0 if stream.done else stream.bound))
        return max(total, self.unscored)

    def _admit(self, key: tuple[int, ...]) -> bool:
        return True

    def _read(self, stream: Stream, block: int) -> None:
        ceiling = self._ceiling()
        found, _ = stream.take(block)
        fresh = [key for key in map(tuple, found.tolist()) if key not in self.seen]
        if not fresh:
            return
        tuples = _ids(fresh, self.width)
        truth, done = np.zeros(len(fresh)), len(fresh)
        for clause in self.clauses:
            value, _, done = clause.points(tuples[:done], self.effort.search)
            truth[:done] = self.logic.disjunction(truth[:done], value[:done])
        if done < len(fresh):
            # Their truth is not known, so they are not shown; they had not come up before.
            self.unscored = ceiling
            reasons = [c.stopped for c in self.clauses if c.stopped is not None]
            self.stopped = reasons[0] if reasons else self.effort.exceeded() or "timeout"
        self.seen.update(fresh[:done])
        self.effort.held += WAITING * done  # the streams look at it
        for key, value in zip(fresh[:done], truth[:done].tolist(), strict=True):
            heapq.heappush(self.waiting, (-value, key))

    def unproven(self, n: int) -> tuple[Ids, Values]:
        best = heapq.nsmallest(n, self.waiting)
        return _ids([key for _, key in best], self.width), np.array([-value for value, _ in best])

    def alternatives(self) -> list[list[ClauseStream]]:
        return [own for stream in self.streams for own in stream.alternatives()]


class Filter:
    """The tuples of a stream that pass a test, which may run out of time or memory; each of them holds `size` bytes."""

    def __init__(self, stream: Stream, keep: Callable[[Ids], NDArray[np.bool_]], effort: Effort, size: int) -> None:
        self.stream, self.keep, self.effort, self.size = stream, keep, effort, size
        self.bound, self.done = stream.bound, stream.done
        self.stopped: str | None = None
        self.ready: list[tuple[Ids, Values]] = []

    def take(self, n: int) -> tuple[Ids, Values]:
        got = sum(len(values) for _, values in self.ready)
        block = min(max(n, 16), LARGEST_BLOCK)
        ceiling = self.stream.bound
        while got < n and not self.stream.done and self.stream.stopped is None and self.stopped is None:
            tuples, truth = self.stream.take(block)
            try:
                keep = self.keep(tuples) if len(tuples) else np.zeros(0, dtype=bool)
            except OutOfTime as over:
                # What was just taken is neither shown nor excluded.
                self.stopped, ceiling = over.why, float(truth[0])
                break
            self.ready.append((tuples[keep], truth[keep]))
            got += int(keep.sum())
            self.effort.held += int(keep.sum()) * self.size
            block = min(2 * block, LARGEST_BLOCK)
            ceiling = self.stream.bound
            self.stopped = self.effort.exceeded()
        if not self.ready:
            self.ready.append(self.stream.take(0))
        tuples = np.concatenate([t for t, _ in self.ready])
        truth = np.concatenate([v for _, v in self.ready])
        self.ready = [(tuples[n:], truth[n:])]
        self.stopped = self.stopped or self.stream.stopped
        self.done = self.stream.done and self.stopped is None and len(truth) <= n
        self.bound = max(ceiling, float(truth[n]) if len(truth) > n else 0.0)
        return tuples[:n], truth[:n]

    def unproven(self, n: int) -> tuple[Ids, Values]:
        tuples, truth = self.stream.unproven(4 * n)
        try:
            keep = self.keep(tuples) if len(tuples) else np.zeros(0, dtype=bool)
        except OutOfTime:
            keep = np.zeros(len(tuples), dtype=bool)
        return tuples[keep][:n], truth[keep][:n]

    def alternatives(self) -> list[list[ClauseStream]]:
        return self.stream.alternatives()


def _ids(keys: Sequence[tuple[int, ...]], width: int) -> Ids:
    return np.array(keys, dtype=np.int32).reshape(len(keys), width)
