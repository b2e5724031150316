"""Ranked streams of tuples: one part of a clause, independent parts combined, unions, filters."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.engine.exact_part import BoundClause, Part, Rows
from tuplet.engine.kernels import exact as kernel
from tuplet.engine.kernels import exact_search as search_kernel
from tuplet.engine.kernels.exact import State
from tuplet.engine.logic import Logic

Ids: TypeAlias = NDArray[np.int32]
Values: TypeAlias = NDArray[np.float64]

# Row entries looked at between two looks at the clock.
SLICE = 300_000
MOST_NODES = 1 << 26


class Budget:
    """Time, memory and work that a query may still use."""

    def __init__(self, timeout: float | None, memory: int | None, work: int | None) -> None:
        self.deadline = None if timeout is None else time.perf_counter() + timeout
        self.memory, self.work = memory, work
        self.used = 0  # work done
        self.held = 0  # bytes of state

    def slice(self, size: int) -> int:
        """How much of a slice may be used."""
        return size if self.work is None else max(1, min(size, self.work - self.used))

    def exceeded(self) -> str | None:
        """The limit that is reached, if any."""
        if self.deadline is not None and time.perf_counter() >= self.deadline:
            return "timeout"
        if self.memory is not None and self.held > self.memory:
            return "memory"
        if self.work is not None and self.used >= self.work:
            return "work"
        return None


class Stream(Protocol):
    """Tuples in order of decreasing truth."""

    bound: float  # no tuple still to come has a larger truth
    done: bool  # nothing is to come
    stopped: str | None  # the limit that ended it early

    def take(self, n: int) -> tuple[Ids, Values]:
        """The next n tuples [n, k] with their truth; fewer at the end or at a limit."""
        ...

    def unproven(self, n: int) -> tuple[Ids, Values]:
        """After a limit: up to n tuples that are known but not proven to come next."""
        ...


def new_state(part: Part, small: bool = False) -> State:
    """Empty memory for a search."""
    variables = len(part.members)
    nodes = 8 if small else 1024
    levels = max(1, len(part.program.levels))
    checks = len(part.program.entries) + 1
    return State(
        count=np.zeros(9, dtype=np.int64),
        nodes=np.empty((nodes, 8), dtype=np.int64),
        worth=np.empty((nodes, 4)),
        heap_bound=np.empty(2 * nodes),
        heap_item=np.empty(2 * nodes, dtype=np.int64),
        memo_key=np.zeros(512 if small else 2048, dtype=np.int64),
        memo_value=np.empty(512 if small else 2048),
        seen=np.zeros(16 if small else 1024, dtype=np.int64),
        assign=np.zeros(variables, dtype=np.int64),
        witness=np.zeros(variables, dtype=np.int64),
        span=np.zeros((checks, 2), dtype=np.int64),
        frame=np.zeros((variables + 2, 7), dtype=np.int64),
        frame_value=np.zeros((variables + 2, 2)),
        level=np.zeros((levels, 4), dtype=np.int64),
        level_value=np.zeros((levels + 1, 2)),
        level_span=np.zeros((levels, checks, 2), dtype=np.int64),
    )


def enlarged(state: State, reason: int) -> State:
    """The state with twice (memo: four times) the room that ran out."""
    if reason == kernel.FULL_MEMO:
        size = 4 * len(state.memo_key)
        keys, values = np.zeros(size, dtype=np.int64), np.empty(size)
        kernel.rehash(state.memo_key, state.memo_value, keys, values)
        return state._replace(memo_key=keys, memo_value=values)
    if reason == kernel.FULL_SEEN:
        keys = np.zeros(4 * len(state.seen), dtype=np.int64)
        kernel.rehash(state.seen, state.seen, keys, np.empty(len(keys), dtype=np.int64))
        return state._replace(seen=keys)

    def longer(array: NDArray[np.generic]) -> NDArray[np.generic]:
        grown = np.empty((2 * len(array), *array.shape[1:]), dtype=array.dtype)
        grown[: len(array)] = array
        return grown

    return state._replace(
        nodes=longer(state.nodes),
        worth=longer(state.worth),
        heap_bound=longer(state.heap_bound),
        heap_item=longer(state.heap_item),
    )


def size_of(state: State) -> int:
    """Bytes of a state."""
    return sum(array.nbytes for array in state)


class PartStream:
    """The tuples of one connected part."""

    def __init__(self, part: Part, rows: Rows, logic: Logic, budget: Budget) -> None:
        self.part, self.rows, self.budget = part, rows, budget
        self.godel = logic.name == "godel"
        self.state = new_state(part)
        self.bound, self.done, self.stopped = 1.0, False, None
        self._held = 0

    done: bool
    stopped: str | None

    def take(self, n: int) -> tuple[Ids, Values]:
        out, truth = np.empty((n, self.part.free), dtype=np.int32), np.empty(n)
        count = self.state.count
        count[kernel.EMITTED] = 0
        slice_size = SLICE
        while True:
            before, commits = int(count[kernel.VISITS]), int(count[kernel.COMMITS])
            count[kernel.LIMIT] = before + self.budget.slice(slice_size)
            status = search_kernel.search(self.rows, self.part.program, self.state, n, out, truth, self.godel)
            self.budget.used += int(count[kernel.VISITS]) - before
            if status in (kernel.FILLED, kernel.EXHAUSTED):
                break
            if status == kernel.SLICE:
                # a step that alone needs more than a slice gets a larger one
                slice_size = 2 * slice_size if count[kernel.COMMITS] == commits else SLICE
            else:
                self.state = enlarged(self.state, status)
                count = self.state.count
            size = size_of(self.state)
            self.budget.held += size - self._held
            self._held = size
            self.stopped = self.budget.exceeded()
            if self.stopped is None and len(self.state.nodes) > MOST_NODES:
                self.stopped = "memory"
            if self.stopped is not None:
                break
        found = int(count[kernel.EMITTED])
        self.done = status == kernel.EXHAUSTED
        self.bound = float(self.state.heap_bound[0]) if count[kernel.HEAP] else 0.0
        return out[:found], truth[:found]

    def unproven(self, n: int) -> tuple[Ids, Values]:
        """Complete tuples that wait in the heap with their true value, best first."""
        state, steps = self.state, self.part.program.steps
        size = int(state.count[kernel.HEAP])
        items, bounds = state.heap_item[:size], state.heap_bound[:size]
        ready = search_kernel.TUPLE if self.part.layout.lazy else search_kernel.NODE
        node = items & kernel.LOWEST_BITS
        complete = ((items >> 40) & 3 == ready) & (state.nodes[node, kernel.STEP] == len(steps) - 1)
        chosen = np.flatnonzero(complete)
        chosen = chosen[np.argsort(-bounds[chosen], kind="stable")]
        found: dict[tuple[int, ...], float] = {}
        for i in chosen:
            at = int(node[i])
            values = [0] * self.part.free
            while at > 0:
                variable = int(steps[state.nodes[at, kernel.STEP], kernel.VARIABLE])
                if variable < self.part.free:
                    values[variable] = int(state.nodes[at, kernel.ENTITY])
                at = int(state.nodes[at, kernel.PARENT])
            key = int(search_kernel.key_of(state.nodes, int(node[i]), len(steps) - 1))
            if steps[-1, kernel.DEDUPE] and ready == search_kernel.NODE and search_kernel.contains(state.seen, key):
                continue
            found.setdefault(tuple(values), float(bounds[i]))
            if len(found) == n:
                break
        return np.array(list(found), dtype=np.int32).reshape(-1, self.part.free), np.array(list(found.values()))


class ClauseStream:
    """The tuples of a clause: its parts' tuples combined in order of truth, columns in the order asked."""

    def __init__(self, clause: BoundClause, rows: Rows, logic: Logic, budget: Budget) -> None:
        self.clause, self.logic, self.budget = clause, logic, budget
        self.rows = rows
        self.factor = float(logic.all(np.array(clause.ground, dtype=np.float64)))
        self.width = len(clause.clause.free)
        self.parts = [PartStream(p, rows, logic, budget) for p in clause.parts if not p.existential]
        self.lists: list[tuple[Ids, Values]] = [
            (np.zeros((0, p.part.free), dtype=np.int32), np.zeros(0)) for p in self.parts
        ]
        columns = [v for p in self.parts for v in p.part.members[: p.part.free]]
        self.columns = [columns.index(v) for v in clause.clause.free]
        self.done = self.factor <= 0
        self.stopped: str | None = None
        self.bound = self.factor
        self.heap: list[tuple[float, tuple[int, ...]]] = []
        self.pushed: set[tuple[int, ...]] = set()
        self._started = False

    def take(self, n: int) -> tuple[Ids, Values]:
        if not self._started and not self.done:
            self._start()
        if self.done or self.stopped is not None:
            return self._none()
        if len(self.parts) != 1:
            return self._combine(n)
        tuples, truth = self.parts[0].take(n)
        self._follow(self.parts[0])
        return tuples[:, self.columns], self.logic.conjunction(truth, self.factor)

    def unproven(self, n: int) -> tuple[Ids, Values]:
        if len(self.parts) != 1 or not self._started:
            return self._none()
        tuples, truth = self.parts[0].unproven(n)
        return tuples[:, self.columns], self.logic.conjunction(truth, self.factor)

    def _none(self) -> tuple[Ids, Values]:
        return np.zeros((0, self.width), dtype=np.int32), np.zeros(0)

    def _start(self) -> None:
        """Purely existential parts give one factor: their best value."""
        self._started = True
        for part in self.clause.parts:
            if part.existential:
                stream = PartStream(part, self.rows, self.logic, self.budget)
                _, truth = stream.take(1)
                best = float(truth[0]) if len(truth) else stream.bound
                self.factor = float(self.logic.conjunction(self.factor, best))
                if stream.stopped is not None and not len(truth):
                    self.stopped = stream.stopped
        self.bound = self.factor
        self.done = self.factor <= 0
        if not self.parts and not self.done:
            heapq.heappush(self.heap, (-self.factor, ()))
        elif len(self.parts) > 1 and not self.done:
            self._push((0,) * len(self.parts))

    def _follow(self, part: PartStream) -> None:
        self.bound = float(self.logic.conjunction(part.bound, self.factor))
        self.done, self.stopped = part.done, part.stopped

    def _combine(self, n: int) -> tuple[Ids, Values]:
        """The next tuples of independent parts: the best combination, then its neighbours one place further."""
        tuples: list[NDArray[np.int32]] = []
        truth: list[float] = []
        while self.heap and len(truth) < n and self.stopped is None:
            value, places = heapq.heappop(self.heap)
            truth.append(-value)
            chosen = [self.lists[i][0][place] for i, place in enumerate(places)]
            tuples.append(np.concatenate(chosen)[self.columns] if chosen else np.zeros(0, dtype=np.int32))
            for i in range(len(places)):
                self._push((*places[:i], places[i] + 1, *places[i + 1 :]))
        self.done = not self.heap and self.stopped is None
        self.bound = -self.heap[0][0] if self.heap else 0.0
        if self.stopped is not None:
            self.bound = max(self.bound, truth[-1] if truth else self.factor)
        return np.array(tuples, dtype=np.int32).reshape(len(truth), self.width), np.array(truth)

    def _push(self, places: tuple[int, ...]) -> None:
        if places in self.pushed:
            return
        value = self.factor
        for i, place in enumerate(places):
            while place >= len(self.lists[i][1]):
                part = self.parts[i]
                if part.done or part.stopped is not None:
                    self.stopped = self.stopped or part.stopped
                    return
                more, truth = part.take(max(16, len(self.lists[i][1])))
                self.lists[i] = (
                    np.concatenate([self.lists[i][0], more]),
                    np.concatenate([self.lists[i][1], truth]),
                )
            value = float(self.logic.conjunction(value, self.lists[i][1][place]))
        self.pushed.add(places)
        heapq.heappush(self.heap, (-value, places))


def point_truth(
    clause: BoundClause, rows: Rows, tuples: Ids, logic: Logic, budget: Budget | None
) -> tuple[Values, Ids]:
    """Truth of tuples [n, k] under one clause, and the best values of all its variables [n, variables]."""
    n = len(tuples)
    godel = logic.name == "godel"
    truth = np.full(n, float(logic.all(np.array(clause.ground, dtype=np.float64))))
    witness = np.full((n, len(clause.clause.variables)), -1, dtype=np.int32)
    for part in clause.parts:
        if part.existential:
            stream = PartStream(part, rows, logic, Budget(None, None, None))
            given, _ = stream.take(1)
            given = np.repeat(given, n, axis=0) if len(given) else np.full((n, 1), -1, dtype=np.int32)
        else:
            places = [clause.clause.free.index(v) for v in part.members[: part.free]]
            given = np.ascontiguousarray(tuples[:, places], dtype=np.int32)
        state = new_state(part, small=True)
        value, found = np.zeros(n), np.full((n, len(part.members)), -1, dtype=np.int32)
        columns = np.arange(part.free)
        done, slice_size = 0, SLICE
        while done < n:
            count = state.count
            count[kernel.LIMIT] = count[kernel.VISITS] + slice_size
            before = done
            done = search_kernel.points(rows, part.program, state, given, columns, done, value, found, godel)
            if done < n and count[kernel.ABORT] == kernel.SLICE:
                slice_size = 2 * slice_size if done == before else SLICE
            elif done < n:
                state = enlarged(state, int(count[kernel.ABORT]))
        truth = logic.conjunction(truth, value)
        witness[:, list(part.members)] = found
    witness[truth <= 0] = -1
    return truth, witness


class Union:
    """A disjunction of clauses by the threshold algorithm: each clause is read in order of truth, and a tuple that comes
    up is scored under the other clauses at once. What has not come up is at most the disjunction of the clauses' bounds.
    """

    def __init__(self, streams: list[ClauseStream], rows: Rows, logic: Logic) -> None:
        self.streams, self.rows, self.logic = streams, rows, logic
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
        block = max(8, n // len(self.streams))
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
            truth = self.logic.disjunction(truth, point_truth(other.clause, self.rows, tuples, self.logic, None)[0])
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
        block = max(n, 16)
        while got < n and not self.stream.done and self.stream.stopped is None:
            tuples, truth = self.stream.take(block)
            keep = self.keep(tuples) if len(tuples) else np.zeros(0, dtype=bool)
            self.ready.append((tuples[keep], truth[keep]))
            got += int(keep.sum())
            block = min(2 * block, 1 << 14)
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
