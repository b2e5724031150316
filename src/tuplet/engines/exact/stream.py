"""The memory of a search: made for a part, enlarged when an array is full."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import prod
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.effort import SLICE, SLOWEST, WAITING, Effort, tuple_size
from tuplet.engines.exact import kernels as kernel
from tuplet.engines.exact import search_kernels
from tuplet.engines.exact.kernels import NODE, TUPLE, Rows, State
from tuplet.engines.exact.part import BoundClause, Part
from tuplet.query.limits import Deadline, OutOfTime
from tuplet.query.logic import Logic

MOST_NODES = 1 << 26
NODES, MEMO, SEEN = 1024, 2048, 1024  # places in the first arrays
_SEARCHED = ("nodes", "worth", "heap_bound", "heap_item")  # what grows with the nodes

# Memory of finished searches by size; most queries are small and alike, and clearing is cheaper than making.
_spare: dict[tuple[int, ...], list[State]] = {}


def new_state(part: Part) -> State:
    """Empty memory for a search: used again, or made."""
    with suppress(KeyError, IndexError):
        state = _spare[part.layout.sizes].pop()
        state.count.base.fill(0)  # and all that begins as 0 beside it
        state.floor[0] = 0.0
        return state._replace(select=part.outline.select, leading=part.leading)
    return _make_state(part)


def _make_state(part: Part) -> State:
    variables, levels, checks, free = part.layout.sizes
    levels, checks, depth = max(1, levels), checks + 1, variables + 2
    zeros = {
        "count": (kernel.COUNTS,), "memo_key": (MEMO,), "seen": (SEEN,), "assign": (variables,),
        "witness": (variables,), "span": (checks, 2), "level": (levels, 4), "level_span": (levels, checks, 2),
        "cut": (1 + free,),
    }  # fmt: skip
    longs = {"nodes": (NODES, 8), "heap_item": (2 * NODES,), "frame": (depth, 8), "frame_span": (depth, checks, 2)}
    reals = {
        "worth": (NODES, 4), "heap_bound": (2 * NODES,), "memo_value": (MEMO,), "frame_value": (depth, 2),
        "level_value": (levels + 1, 2), "floor": (1,),
    }  # fmt: skip
    made: dict[str, NDArray[Any]] = {"select": part.outline.select, "leading": part.leading}
    # Arrays share three blocks: making an array costs more than filling a small one.
    for make, kind, shapes in ((np.zeros, np.int64, zeros), (np.empty, np.int64, longs), (np.empty, np.float64, reals)):
        block, at = make(sum(map(prod, shapes.values())), kind), 0
        for name, shape in shapes.items():
            made[name] = block[at : at + prod(shape)].reshape(shape)
            at += prod(shape)
    made["floor"][0] = 0.0
    return State(**made)


def enlarge(state: State, reason: int) -> State:
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
    return state._replace(**{name: extend(getattr(state, name)) for name in _SEARCHED})


def extend(array: NDArray[Any], more: int | None = None) -> NDArray[Any]:
    """The array with room for so many rows more, or for as many again."""
    grown = np.empty((len(array) + (len(array) if more is None else more), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown


def count_bytes(state: State) -> int:
    """Bytes of a state."""
    return sum(array.nbytes for array in state)


Ids: TypeAlias = NDArray[np.int32]
Values: TypeAlias = NDArray[np.float64]

# Tuples that fit into the first arrays of a result; they grow if more are asked for and found.
FIRST_ROOM = 4096
EQUAL = search_kernels.EQUAL
# Working space of a search whose tuples are taken as they come.
NO_ORDER, NO_SPARE = np.empty(0, dtype=np.int64), np.empty((0, 0), dtype=np.int32)


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

    def alternatives(self) -> list[list[ClauseStream]]:
        """What gives a tuple truth: for each clause of a disjunction the streams whose maximum counts."""
        ...


class PartStream:
    """The tuples of one connected part, as the best values of all its variables [n, variables], free ones first."""

    done: bool
    stopped: str | None

    def __init__(self, part: Part, rows: Rows, logic: Logic, effort: Effort) -> None:
        self.part, self.rows, self.effort = part, rows, effort
        self.code = logic.code
        self.state: State = new_state(part)
        self.bound, self.done, self.stopped = 1.0, False, None
        self._held = 0

    def take(self, n: int) -> tuple[Ids, Values]:
        """The next n tuples with their truth."""
        if self.done or self.stopped is not None:
            n = 0
        room = min(n, FIRST_ROOM)
        out, truth = np.empty((room, len(self.part.outline.members)), dtype=np.int32), np.empty(room)
        self.state.count[kernel.EMITTED] = 0
        while True:
            status = self._work(len(out), out, truth, NO_ORDER, NO_SPARE)
            if status != kernel.FILLED or len(out) >= n:
                break
            wanted, size = min(len(out), n - len(out)), tuple_size(len(self.part.outline.members))
            more = self.effort.fit_rows(wanted, size)
            if more < wanted and more <= len(out) // 16:  # not worth copying what there is
                self.effort.memory.full = True
                self.stopped = "memory"
                break
            self.effort.memory.held += more * size
            out, truth = extend(out, more), extend(truth, more)
        return self._found(status, out, truth)

    def best(self, n: int) -> tuple[Ids, Values, bool]:
        """The n best tuples in their order, and whether they are proven: those of the least truth are first by name.

        Nothing can be taken afterwards: of the last plateau of equal truths only what comes first by name is kept.
        """
        known = self.take(n + 1) if n > FIRST_ROOM else None
        if known is not None:
            n = min(n, len(known[0]))
            if self.stopped is not None:  # who asked puts in order what there is
                return known[0][:n], known[1][:n], False
        out, truth = np.empty((2 * n + 64, len(self.part.outline.members)), dtype=np.int32), np.empty(2 * n + 64)
        count = self.state.count
        count[kernel.EMITTED] = 0
        if known is not None:
            out[: len(known[0])], truth[: len(known[0])] = known
            count[kernel.EMITTED] = len(known[0])
        order, spare = np.empty(2 * len(out), dtype=np.int64), np.empty_like(out)
        status = self._work(n, out, truth, order, spare)
        tuples, values = self._found(status, out, truth)
        if status == kernel.FILLED:
            # the next one is known: it follows the list, or it shares the truth of the last
            count = self.state.count
            self.bound = float(truth[n - 1] if count[kernel.PLATEAU] else truth[n])
        return tuples[:n], values[:n], self.stopped is None

    def _found(self, status: int, out: Ids, truth: Values) -> tuple[Ids, Values]:
        count = self.state.count
        found = int(count[kernel.EMITTED])
        self.done = status == kernel.EXHAUSTED
        self.bound = float(self.state.heap_bound[0]) if count[kernel.HEAP] else 0.0 if count[kernel.NODES] else 1.0
        return out[:found], truth[:found]

    def _work(self, *arguments: Any) -> int:
        """Searches until what was asked for is found, nothing is left, or a limit is reached (`stopped`)."""
        slice_size = SLICE
        while True:
            room = self.effort.slice(slice_size)
            self.stopped = self.effort.exceeded()  # the last look before a step
            if self.stopped is not None:
                return int(kernel.SLICE)
            count = self.state.count
            before, commits = int(count[kernel.VISITS]), int(count[kernel.COMMITS])
            count[kernel.LIMIT] = before + room
            status = int(search_kernels.best(self.rows, self.part.program, self.state, *arguments, self.code))
            self.effort.used += int(count[kernel.VISITS]) - before
            if status in (kernel.FILLED, kernel.EXHAUSTED):
                return status
            if status == kernel.SLICE:
                # a step that alone needs more than a slice gets a larger one
                slice_size = 2 * slice_size if count[kernel.COMMITS] == commits else SLICE
            elif self.effort.too_late_for(count_bytes(self.state)):
                self.stopped = "timeout"
                return status
            elif not self.effort.grow(self._growth(status)):
                self.stopped = "memory"
                return status
            else:
                self._enlarge(status)
                if len(self.state.nodes) > MOST_NODES:
                    self.stopped = "memory"
                    return status

    def release(self) -> None:
        """The search is over: its memory may serve the next one, unless it has grown."""
        state = self.state
        if len(state.nodes) == NODES and len(state.memo_key) == MEMO and len(state.seen) == SEEN:
            kept = _spare.setdefault(self.part.layout.sizes, [])
            if len(kept) < 4:
                kept.append(state)

    def _growth(self, reason: int) -> int:
        """Bytes that enlarging takes; the first arrays, which are too small to matter, count from then on."""
        state, held = self.state, count_bytes(self.state) - self._held
        if reason == kernel.FULL_MEMO:
            return held + 4 * int(state.memo_key.nbytes + state.memo_value.nbytes)
        if reason == kernel.FULL_SEEN:
            return held + 8 * int(state.seen.nbytes)
        return held + 2 * sum(int(getattr(state, name).nbytes) for name in _SEARCHED)

    def _enlarge(self, reason: int) -> None:
        self.state = enlarge(self.state, reason)
        size = count_bytes(self.state)
        self.effort.memory.held += size - self._held
        self._held = size

    def points(self, tuples: Ids, until: Deadline) -> tuple[Values, Ids, int]:
        """Truth of tuples [n, free], the best values of all variables, how many are done.

        All are, unless the time is up, or one of them needs more memory than there is: before that, what was learned
        of others is forgotten.
        """
        n = len(tuples)
        most, truth, witness = np.ones(n), np.empty(n), np.empty((n, len(self.part.outline.members)), dtype=np.int32)
        done, slice_size, forgotten = 0, SLICE, -1
        while done < n:
            room = slice_size if until.seconds is None else min(slice_size, SLICE + int(SLOWEST * until.left()))
            if until.over():  # the last look before a step
                break
            state, count, before = self.state, self.state.count, done
            visits = int(count[kernel.VISITS])
            count[kernel.LIMIT] = visits + room
            given = self.rows, self.part.program, state, tuples, most, done, truth, witness, self.code
            done = int(search_kernels.points(*given))
            self.effort.used += int(count[kernel.VISITS]) - visits
            if done == n:
                break
            reason = int(count[kernel.ABORT])
            if reason == kernel.SLICE:
                slice_size = 2 * slice_size if done == before else SLICE
            elif self.effort.room_for(self._growth(reason)):
                self._enlarge(reason)
            elif forgotten == done:
                self.effort.memory.full = True
                break
            else:  # what the memo held is computed again where it is needed
                state.memo_key.fill(0)
                count[kernel.MEMO], forgotten = 0, done
        return truth, witness, done

    def unproven(self, n: int) -> tuple[Ids, Values]:
        """Complete tuples that wait in the heap with their true value, best first."""
        state, steps = self.state, self.part.program.steps
        size, last = int(state.count[kernel.HEAP]), len(steps) - 1
        items, bounds = state.heap_item[:size], state.heap_bound[:size]
        ready = TUPLE if self.part.layout.lazy else NODE
        node = items & kernel.LOWEST_BITS
        complete = ((items >> kernel.NODE_BITS) & 3 == ready) & (state.nodes[node, kernel.STEP] == last)
        # a tuple may wait several times, with several values of an existential
        repeated = ready == NODE and bool(steps[last, kernel.DEDUPE])
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
        values = np.zeros((len(chosen), self.part.outline.free), dtype=np.int32)
        for step in range(last, -1, -1):
            if not steps[step, kernel.HELD]:
                values[:, steps[step, kernel.VARIABLE]] = state.nodes[at, kernel.ENTITY]
            at = state.nodes[at, kernel.PARENT]
        return values, bounds[chosen]


class ClauseStream:
    """The tuples of a clause: its parts' tuples combined in order of truth, columns in the order asked."""

    done: bool
    stopped: str | None

    def __init__(self, clause: BoundClause, logic: Logic, effort: Effort) -> None:
        self.clause, self.logic, self.effort = clause, logic, effort
        self.factor = float(logic.all(np.array(clause.ground))) if clause.ground else 1.0
        self.width = len(clause.clause.free)
        self.columns, self.places = clause.outline.columns, clause.outline.places
        self.done, self.stopped = self.factor <= 0, None
        self.bound = 0.0 if self.done else self.factor
        self.parts: list[PartStream] = []
        self.aside: list[PartStream] = []
        for part in clause.parts:
            streams = self.aside if part.outline.existential else self.parts
            streams.append(PartStream(part, clause.rows.rows, logic, effort))
        self.best_aside: list[Ids] = []  # the best values of the first variable of each purely existential part
        self.lists: list[tuple[Ids, Values]] = []  # what was taken from each part
        self.heap: list[tuple[float, tuple[int, ...]]] = []
        self.pushed: set[tuple[int, ...]] = set()
        self._started = False
        # one part and nothing aside: its order is that of the clause, whatever factor comes to it
        self.single = len(self.parts) == 1 and not self.aside and (self.factor == 1.0 or logic.strict)

    def alternatives(self) -> list[list[ClauseStream]]:
        return [[self]]

    def points(self, tuples: Ids, until: Deadline) -> tuple[Values, Ids, int]:
        """Truth of tuples [n, k], the best values of all variables, how many are done.

        None are done where a limit kept the best of a purely existential part from being known.
        """
        if not self._started:
            self._start()
        n = done = len(tuples)
        witness = np.full((n, len(self.clause.clause.variables)), -1, dtype=np.int32)
        truth = np.full(n, float(self.logic.all(np.array(self.clause.ground))))
        if self._unknown_aside():
            return truth, witness, 0
        for part, places in zip(self.parts, self.places, strict=True):
            value, found, done = part.points(np.ascontiguousarray(tuples[:done, places], dtype=np.int32), until)
            truth[:done] = self.logic.conjunction(truth[:done], value[:done])
            witness[:done, part.part.outline.members] = found[:done]
        for part, best in zip(self.aside, self.best_aside, strict=True):
            value, found, finished = part.points(best, until)
            done = done if finished == len(best) else 0
            truth = self.logic.conjunction(truth, value[0] if len(value) else 0.0)
            witness[:, part.part.outline.members] = found if len(best) else -1
        for a, b in self.clause.outline.equal:
            truth[tuples[:, a] != tuples[:, b]] = 0.0
        for copy, other in self.clause.outline.copies:
            witness[:, copy] = witness[:, other]
        witness[truth <= 0] = -1
        return truth, witness, done

    def take(self, n: int) -> tuple[Ids, Values]:
        if not self._started and not self.done:
            self._start()
        if self.done or self.stopped is not None:
            return self._none()
        if len(self.parts) != 1:
            return self._combine(n)
        values, truth = self.parts[0].take(n)
        self._follow(self.parts[0])
        if self.factor == 1.0:
            return values[:, self.columns], truth
        truth = self.logic.conjunction(truth, self.factor)
        positive = truth > 0
        return values[positive][:, self.columns], truth[positive]

    def best(self, n: int) -> tuple[Ids, Values, Ids, bool]:
        """Of a single part, the n best tuples with their truth, the best values of all variables, whether proven.

        Among equals of the least truth those that come first by name are chosen.
        """
        self._started = True
        if self.done:
            return (*self._none(), np.zeros((0, len(self.clause.clause.variables)), dtype=np.int32), True)
        part = self.parts[0]
        values, truth, proven = part.best(n)
        self._follow(part)
        if self.factor != 1.0:
            truth = self.logic.conjunction(truth, self.factor)
        if self.clause.outline.in_order:
            return values, truth, values, proven
        return values[:, self.columns], truth, values[:, self.clause.outline.order], proven

    def unproven(self, n: int) -> tuple[Ids, Values]:
        if len(self.parts) != 1 or not self._started or self._unknown_aside():
            return self._none()
        tuples, truth = self.parts[0].unproven(n)
        return tuples[:, self.columns], self.logic.conjunction(truth, self.factor)

    def _none(self) -> tuple[Ids, Values]:
        return np.zeros((0, self.width), dtype=np.int32), np.zeros(0)

    def _unknown_aside(self) -> bool:
        """Whether a limit kept the best value of a purely existential part from being known."""
        return any(not len(best) and part.stopped for part, best in zip(self.aside, self.best_aside, strict=True))

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
            self.lists = [(np.zeros((0, p.part.outline.free), dtype=np.int32), np.zeros(0)) for p in self.parts]
            self._push((0,) * len(self.parts))

    def _follow(self, part: PartStream) -> None:
        self.bound = part.bound if self.factor == 1.0 else float(self.logic.conjunction(part.bound, self.factor))
        self.done, self.stopped = part.done, part.stopped
        if self.bound <= 0:  # with the factor nothing is true any more
            self.done, self.stopped = True, None

    def _combine(self, n: int) -> tuple[Ids, Values]:
        """The next tuples of independent parts: the best combination, then its neighbours one place further."""
        tuples: list[Ids] = []
        truth: list[float] = []
        while self.heap and len(truth) < n and self.stopped is None:
            if len(truth) % 256 == 0:
                self.stopped = self.effort.exceeded()
                if self.stopped is None and self.effort.too_late_for_more(len(truth)):
                    self.stopped = "timeout"
                if self.stopped is not None:
                    break
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
        return _ids(tuples, self.width), np.array(truth)

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
                    np.concatenate([self.lists[i][0], more[:, : part.part.outline.free]]),
                    np.concatenate([self.lists[i][1], truth]),
                )
            value = float(self.logic.conjunction(value, self.lists[i][1][place]))
        if value <= 0:
            return
        self.pushed.add(places)
        self.effort.memory.held += WAITING
        heapq.heappush(self.heap, (-value, places))


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
        self.effort.memory.held += WAITING * len(found)  # the streams look at it
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
        self.effort.memory.held += WAITING * done  # the streams look at it
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
            self.effort.memory.held += int(keep.sum()) * self.size
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


def _ids(keys: Sequence[tuple[int, ...] | Ids], width: int) -> Ids:
    return np.array(keys, dtype=np.int32).reshape(len(keys), width)
