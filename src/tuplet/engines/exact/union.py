"""Ranked streams built from others: unions of clauses, and filters."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.exact.stream import ClauseStream, Ids, Stream, Values
from tuplet.query.logic import Logic

# Tuples read from a stream at once.
LARGEST_BLOCK = 1 << 14


class Union:
    """A disjunction of clauses by the threshold algorithm.

    Each clause is read in order of truth, and a tuple that comes up is scored under the other clauses at once. What has
    not come up is at most the disjunction of the clauses' bounds.
    """

    def __init__(self, streams: list[ClauseStream], logic: Logic) -> None:
        self.streams, self.logic = streams, logic
        self.width = streams[0].width
        self.bound, self.done = 1.0, False
        self.stopped: str | None = None
        self.waiting: list[tuple[float, tuple[int, ...]]] = []
        self.seen: set[tuple[int, ...]] = set()

    def _ceiling(self) -> float:
        """A bound on tuples that have not come up."""
        total = 0.0
        for stream in self.streams:
            total = float(self.logic.disjunction(total, 0.0 if stream.done else stream.bound))
        return total

    def take(self, n: int) -> tuple[Ids, Values]:
        tuples: list[tuple[int, ...]] = []
        truth: list[float] = []
        block = min(max(8, n // len(self.streams)), LARGEST_BLOCK)
        while len(truth) < n:
            ceiling = self._ceiling()
            while self.waiting and len(truth) < n and -self.waiting[0][0] >= ceiling:
                value, key = heapq.heappop(self.waiting)
                truth.append(-value)
                tuples.append(key)
            if len(truth) == n:
                break
            open_streams = [s for s in self.streams if not s.done]
            if not open_streams or any(s.stopped is not None for s in self.streams):
                break
            self._read(max(open_streams, key=lambda s: s.bound), block)
        self.stopped = next((s.stopped for s in self.streams if s.stopped is not None), None)
        self.bound = max(self._ceiling(), -self.waiting[0][0] if self.waiting else 0.0)
        self.done = not self.waiting and all(s.done for s in self.streams)
        return np.array(tuples, dtype=np.int32).reshape(len(truth), self.width), np.array(truth)

    def _read(self, stream: ClauseStream, block: int) -> None:
        found, _ = stream.take(block)
        fresh = [key for key in map(tuple, found.tolist()) if key not in self.seen]
        if not fresh:
            return
        self.seen.update(fresh)
        tuples = np.array(fresh, dtype=np.int32).reshape(len(fresh), self.width)
        truth = np.zeros(len(fresh))
        for other in self.streams:
            truth = self.logic.disjunction(truth, other.points(tuples)[0])
        for key, value in zip(fresh, truth.tolist(), strict=True):
            heapq.heappush(self.waiting, (-value, key))

    def unproven(self, n: int) -> tuple[Ids, Values]:
        best = heapq.nsmallest(n, self.waiting)
        return np.array([key for _, key in best], dtype=np.int32).reshape(-1, self.width), np.array(
            [-value for value, _ in best]
        )


class Filtered:
    """The tuples of a stream that pass a test."""

    def __init__(self, stream: Stream, keep: Callable[[Ids], NDArray[np.bool_]]) -> None:
        self.stream, self.keep = stream, keep
        self.bound, self.done = stream.bound, stream.done
        self.stopped: str | None = None
        self.ready: list[tuple[Ids, Values]] = []

    def take(self, n: int) -> tuple[Ids, Values]:
        got = sum(len(values) for _, values in self.ready)
        block = min(max(n, 16), LARGEST_BLOCK)
        while got < n and not self.stream.done and self.stream.stopped is None:
            tuples, truth = self.stream.take(block)
            keep = self.keep(tuples) if len(tuples) else np.zeros(0, dtype=bool)
            self.ready.append((tuples[keep], truth[keep]))
            got += int(keep.sum())
            block = min(2 * block, LARGEST_BLOCK)
        if not self.ready:
            self.ready.append(self.stream.take(0))
        tuples = np.concatenate([t for t, _ in self.ready])
        truth = np.concatenate([v for _, v in self.ready])
        self.ready = [(tuples[n:], truth[n:])]
        self.stopped = self.stream.stopped
        self.done = self.stream.done and len(truth) <= n
        self.bound = max(self.stream.bound, float(truth[n]) if len(truth) > n else 0.0)
        return tuples[:n], truth[:n]

    def unproven(self, n: int) -> tuple[Ids, Values]:
        tuples, truth = self.stream.unproven(4 * n)
        keep = self.keep(tuples) if len(tuples) else np.zeros(0, dtype=bool)
        return tuples[keep][:n], truth[keep][:n]
