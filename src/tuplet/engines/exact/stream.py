"""Ranked streams of tuples: one part of a clause, and independent parts combined."""

from __future__ import annotations

import heapq
import time
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.exact.kernels import point as point_kernel
from tuplet.engines.exact.kernels import rows as kernel
from tuplet.engines.exact.kernels import search as search_kernel
from tuplet.engines.exact.kernels.rows import Rows, State
from tuplet.engines.exact.part import BoundClause, Part
from tuplet.query.logic import Logic

Ids: TypeAlias = NDArray[np.int32]
Values: TypeAlias = NDArray[np.float64]

# Row entries looked at between two looks at the clock.
SLICE = 300_000
# Entries a second on a slow machine, to size slices near a deadline.
SLOWEST = 2_000_000
COPIED = 5e8  # bytes a second, on a slow machine
# Tuples that fit into the first arrays of a result; they grow if more are asked for and found.
FIRST_ROOM = 4096
MOST_NODES = 1 << 26


class Budget:
    """Time, memory and work that a query may still use."""

    def __init__(self, timeout: float | None = None, memory: int | None = None, work: int | None = None) -> None:
        # The search ends a little before its time: the best so far still has to be sorted and explained.
        self.deadline = None if timeout is None else time.perf_counter() + timeout - min(0.15 * timeout, 0.6)
        self.memory, self.work = memory, work
        self.used = 0  # work done
        self.held = 0  # bytes of state

    def slice(self, size: int) -> int:
        """How much of a slice may be used: not beyond the work left, and not far beyond the deadline."""
        if self.deadline is not None:
            size = min(size, SLICE + int(SLOWEST * max(0.0, self.deadline - time.perf_counter())))
        return size if self.work is None else max(1, min(size, self.work - self.used))

    def too_late_for(self, size: int) -> bool:
        """Whether copying so many bytes into a larger place would outlast the time."""
        return self.deadline is not None and time.perf_counter() + size / COPIED >= self.deadline

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


def new_state(part: Part) -> State:
    """Empty memory for a search."""
    variables = len(part.members)
    nodes = 1024
    levels = max(1, len(part.program.levels))
    checks = len(part.program.entries) + 1
    return State(
        count=np.zeros(9, dtype=np.int64),
        nodes=np.empty((nodes, 8), dtype=np.int64),
        worth=np.empty((nodes, 4)),
        heap_bound=np.empty(2 * nodes),
        heap_item=np.empty(2 * nodes, dtype=np.int64),
        memo_key=np.zeros(2048, dtype=np.int64),
        memo_value=np.empty(2048),
        seen=np.zeros(1024, dtype=np.int64),
        assign=np.zeros(variables, dtype=np.int64),
        witness=np.zeros(variables, dtype=np.int64),
        span=np.zeros((checks, 2), dtype=np.int64),
        frame=np.empty((variables + 2, 8), dtype=np.int64),
        frame_value=np.empty((variables + 2, 2)),
        frame_span=np.empty((variables + 2, checks, 2), dtype=np.int64),
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
    names = ("nodes", "worth", "heap_bound", "heap_item")
    return state._replace(**{name: _longer(getattr(state, name)) for name in names})


def _longer(array: NDArray[Any]) -> NDArray[Any]:
    """The array with room for as many rows again."""
    grown = np.empty((2 * len(array), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown


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
        """The next n tuples, as the best values of all variables of the part [n, variables], the free ones first."""
        room = min(n, FIRST_ROOM)
        out, truth = np.empty((room, len(self.part.members)), dtype=np.int32), np.empty(room)
        count = self.state.count
        count[kernel.EMITTED] = 0
        slice_size = SLICE
        while True:
            before, commits = int(count[kernel.VISITS]), int(count[kernel.COMMITS])
            count[kernel.LIMIT] = before + self.budget.slice(slice_size)
            status = search_kernel.search(self.rows, self.part.program, self.state, len(out), out, truth, self.godel)
            self.budget.used += int(count[kernel.VISITS]) - before
            if status == kernel.FILLED and len(out) < n:
                out, truth = (_longer(array)[:n] for array in (out, truth))
                continue
            if status in (kernel.FILLED, kernel.EXHAUSTED):
                break
            if status == kernel.SLICE:
                # a step that alone needs more than a slice gets a larger one
                slice_size = 2 * slice_size if count[kernel.COMMITS] == commits else SLICE
            elif self.budget.too_late_for(size_of(self.state)):
                self.stopped = "timeout"
                break
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

    def points(self, tuples: Ids, most: Values) -> tuple[Values, Ids]:
        """Truth of tuples [n, free], none of it above `most` [n], and the best values of all variables."""
        n = len(tuples)
        truth, witness = np.empty(n), np.empty((n, len(self.part.members)), dtype=np.int32)
        done, slice_size = 0, SLICE
        while done < n:
            count, before = self.state.count, done
            count[kernel.LIMIT] = count[kernel.VISITS] + slice_size
            done = point_kernel.points(
                self.rows, self.part.program, self.state, tuples, most, done, truth, witness, self.godel
            )
            if done < n and count[kernel.ABORT] == kernel.SLICE:
                slice_size = 2 * slice_size if done == before else SLICE
            elif done < n:
                self.state = enlarged(self.state, int(count[kernel.ABORT]))
        return truth, witness

    def unproven(self, n: int) -> tuple[Ids, Values]:
        """Complete tuples that wait in the heap with their true value, best first."""
        state, steps = self.state, self.part.program.steps
        size, last = int(state.count[kernel.HEAP]), len(steps) - 1
        items, bounds = state.heap_item[:size], state.heap_bound[:size]
        ready = search_kernel.TUPLE if self.part.layout.lazy else search_kernel.NODE
        node = items & kernel.LOWEST_BITS
        complete = ((items >> 40) & 3 == ready) & (state.nodes[node, kernel.STEP] == last)
        # a tuple may wait several times, with several values of an existential
        repeated = ready == search_kernel.NODE and bool(steps[last, kernel.DEDUPE])
        if repeated:
            stage = state.nodes[state.nodes[node, kernel.PARENT], kernel.STAGE]
            keys = ((((stage << 5) | last) << 31) | state.nodes[node, kernel.ENTITY]) + 1
            complete &= ~np.isin(keys, state.seen)
        chosen = np.flatnonzero(complete)
        chosen = chosen[np.argsort(-bounds[chosen], kind="stable")]
        if repeated:
            _, first = np.unique(keys[chosen], return_index=True)
            chosen = chosen[np.sort(first)]
        chosen = chosen[:n]
        at = node[chosen]
        values = np.zeros((len(chosen), self.part.free), dtype=np.int32)
        for step in range(last, -1, -1):
            if not steps[step, kernel.HELD]:
                values[:, steps[step, kernel.VARIABLE]] = state.nodes[at, kernel.ENTITY]
            at = state.nodes[at, kernel.PARENT]
        return values, bounds[chosen]


class ClauseStream:
    """The tuples of a clause: its parts' tuples combined in order of truth, columns in the order asked."""

    done: bool
    stopped: str | None

    def __init__(self, clause: BoundClause, rows: Rows, logic: Logic, budget: Budget) -> None:
        self.clause, self.logic = clause, logic
        self.factor = float(logic.all(np.array(clause.ground))) if clause.ground else 1.0
        self.width = len(clause.clause.free)
        streams = [PartStream(p, rows, logic, budget) for p in clause.parts]
        self.parts = [s for s in streams if not s.part.existential]
        self.aside = [s for s in streams if s.part.existential]
        self.best_aside: list[Ids] = []  # the best values of the first variable of each purely existential part
        self.lists: list[tuple[Ids, Values]] = [
            (np.zeros((0, p.part.free), dtype=np.int32), np.zeros(0)) for p in self.parts
        ]
        self.columns, self.places = clause.outline.columns, clause.outline.places
        self.done, self.stopped = self.factor <= 0, None
        self.bound = 0.0 if self.done else self.factor
        self.heap: list[tuple[float, tuple[int, ...]]] = []
        self.pushed: set[tuple[int, ...]] = set()
        self._started = False

    def points(self, tuples: Ids, most: Values | None = None) -> tuple[Values, Ids]:
        """Truth of tuples [n, k], none of it above `most` [n], and the best values of all variables [n, variables]."""
        if not self._started:
            self._start()
        n = len(tuples)
        single = most is not None and len(self.parts) == 1 and self.factor == 1.0
        limit = most if single and most is not None else np.ones(n)
        witness = np.full((n, len(self.clause.clause.variables)), -1, dtype=np.int32)
        truth = np.full(n, float(self.logic.all(np.array(self.clause.ground))))
        for part, places in zip(self.parts, self.places, strict=True):
            value, found = part.points(np.ascontiguousarray(tuples[:, places], dtype=np.int32), limit)
            truth = self.logic.conjunction(truth, value)
            witness[:, part.part.members] = found
        for part, best in zip(self.aside, self.best_aside, strict=True):
            value, found = part.points(best, np.ones(len(best)))
            truth = self.logic.conjunction(truth, value[0] if len(value) else 0.0)
            witness[:, part.part.members] = found if len(best) else -1
        witness[truth <= 0] = -1
        return truth, witness

    def take(self, n: int) -> tuple[Ids, Values]:
        if len(self.parts) == 1 and not self.aside:
            values, truth, _ = self._take_single(n)
            return values, truth
        if not self._started and not self.done:
            self._start()
        if self.done or self.stopped is not None:
            return self._none()
        if len(self.parts) != 1:
            return self._combine(n)
        values, truth = self.parts[0].take(n)
        self._follow(self.parts[0])
        return values[:, self.columns], self.logic.conjunction(truth, self.factor)

    def take_explained(self, n: int) -> tuple[Ids, Values, Ids]:
        """The next n tuples with their truth and the best values of all variables of the clause."""
        if len(self.parts) == 1 and not self.aside:
            return self._take_single(n)
        tuples, found = self.take(n)
        return (tuples, *self.points(tuples, found))

    def _take_single(self, n: int) -> tuple[Ids, Values, Ids]:
        """A clause of one part needs no combining."""
        self._started = True
        if self.done or self.stopped is not None:
            return (*self._none(), np.zeros((0, len(self.clause.clause.variables)), dtype=np.int32))
        part = self.parts[0]
        values, truth = part.take(n)
        self._follow(part)
        if self.factor != 1.0:
            truth = self.logic.conjunction(truth, self.factor)
        if self.clause.outline.in_order:
            return values, truth, values
        return values[:, self.columns], truth, values[:, self.clause.outline.order]

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
        for part in self.aside:
            values, truth = part.take(1)
            self.best_aside.append(values[:, :1])
            self.factor = float(self.logic.conjunction(self.factor, truth[0] if len(truth) else part.bound))
            self.stopped = self.stopped or (None if len(truth) else part.stopped)
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
                    np.concatenate([self.lists[i][0], more[:, : part.part.free]]),
                    np.concatenate([self.lists[i][1], truth]),
                )
            value = float(self.logic.conjunction(value, self.lists[i][1][place]))
        self.pushed.add(places)
        heapq.heappush(self.heap, (-value, places))
