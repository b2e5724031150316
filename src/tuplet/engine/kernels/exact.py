"""Compiled heart of the exact engine: max-product messages, ranked search over prefixes, and point evaluation.

All state lives in arrays owned by the caller, so a search can stop after any step and go on later. An aborted step (its
budget of visits is spent, or an array is full) leaves the state as it was before the step, except that finished messages
stay in the memo: doing the step again makes progress.

An *entry* is one factor of one variable's value y, a row of `entries`:
    kind (below), source (a variable, or -1 for a constant), a, b, permanent
where a row of neighbours is given by (view a of the source's entity) or, for constants, by the span a:b. A SUPPORT entry
bounds an atom whose other end is not fixed yet: view a, number b in the memo, and 1 + the other variable as last column.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

# kinds of entries
POSITIVE, NEGATIVE, DIFFERENT, SUPPORT = 0, 1, 2, 3
# columns of `edges`: directed edges along which messages flow
TARGET, SPAN_A, SPAN_B, PARALLEL_A, PARALLEL_B, NEXT_A, NEXT_B = range(7)
# columns of `frame`: messages being computed
F_EDGE, F_ORIGIN, F_GENERATOR, F_START, F_STOP, F_POSITION, F_TARGET, F_NEXT = range(8)
# columns of `unary`: entries of a variable: exact ones, bounds that always hold, bounds used inside messages only
EXACT_A, ALWAYS_A, INSIDE_A, UNARY_END = range(4)
# columns of `steps` (outer search) and `levels` (point evaluation)
(
    VARIABLE,
    HELD,
    DEDUPE,
    CLOSES,
    CHECK_A,
    CHECK_B,
    OPEN_A,
    OPEN_B,
    SIDE_A,
    SIDE_B,
    NEXT_OPEN_A,
    NEXT_OPEN_B,
    LIST_A,
    LIST_B,
) = range(14)
# columns of `nodes`
PARENT, ENTITY, STEP, STAGE, GENERATOR, START, STOP, POSITION = range(8)
# columns of `worth`: bound on the whole, permanent product, product over held existentials, product for the next step
BOUND, PERMANENT, TRANSIENT, BASE = range(4)
# places of `count`
NODES, HEAP, MEMO, SEEN, VISITS, LIMIT, ABORT, COMMITS, EMITTED = range(9)
# why `search` returned
FILLED, EXHAUSTED, SLICE, FULL_NODES, FULL_MEMO, FULL_SEEN = range(6)

# Passing the state to a function that is not inlined costs more than most functions here do.
inlined = njit(cache=True, nogil=True, forceinline=True, _nrt=False)

LOWEST_BITS = (1 << 40) - 1


class Rows(NamedTuple):
    """The arrays of a truth table."""

    view_ptr: Any
    row_entity: Any
    row_ptr: Any
    neighbour: Any
    truth: Any
    by_truth: Any
    row_best: Any


class Program(NamedTuple):
    """One connected clause, bound to relations and constants."""

    entries: Any  # [·, 5]
    unary: Any  # [variables, 4]
    edges: Any  # [directed edges, 7]
    nexts: Any  # [·] directed edges that follow a directed edge
    steps: Any  # [·, 14]
    opens: Any  # [·, 2] directed edge, source variable
    levels: Any  # [existentials, 14]
    parts: Any  # [·, 2] ranges of levels that are independent given the free variables
    fixed: Any  # [·] entries among free variables
    fixed_target: Any  # [·] their variables
    lazy: Any  # [1] whether complete tuples still have to be evaluated
    list_ids: Any  # [·] candidates of variables that neither a constant nor another variable gives
    list_best: Any  # [·] a bound on each


class State(NamedTuple):
    """Everything a search remembers."""

    count: Any
    nodes: Any
    worth: Any
    heap_bound: Any
    heap_item: Any
    memo_key: Any
    memo_value: Any
    seen: Any
    assign: Any  # [variables] entities of the node at hand
    witness: Any  # [variables]
    span: Any  # [·, 2] rows of the checks of the node at hand
    frame: Any  # [depth, 8]
    frame_value: Any  # [depth, 2]
    frame_span: Any  # [depth, ·, 2]
    level: Any  # [levels, 4]
    level_value: Any  # [levels, 2]
    level_span: Any  # [levels, ·, 2]


@inlined
def find_row(rows, entity, view):
    """The row of an entity under a view, or -1."""
    low, high = rows.view_ptr[view], rows.view_ptr[view + 1]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if rows.row_entity[middle] < entity:
            low = middle + 1
        else:
            high = middle
    if low < end and rows.row_entity[low] == entity:
        return low
    return -1


@inlined
def lookup(rows, start, stop, entity):
    """The truth at an entity within a row of neighbours, 0 if it is not there."""
    low, high = start, stop
    while low < high:
        middle = (low + high) >> 1
        if rows.neighbour[middle] < entity:
            low = middle + 1
        else:
            high = middle
    if low < stop and rows.neighbour[low] == entity:
        return np.float64(rows.truth[low])
    return 0.0


@inlined
def conj(a, b, godel):
    """Conjunction."""
    return min(a, b) if godel else a * b


@inlined
def hash_of(key, mask):
    """A place for a key in a table of mask + 1 places."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed >> np.uint64(29)) & np.uint64(mask))


@inlined
def recall(keys, values, key):
    """A remembered value, or -1."""
    mask = len(keys) - 1
    at = hash_of(key, mask)
    while keys[at] != 0:
        if keys[at] == key:
            return values[at]
        at = (at + 1) & mask
    return -1.0


@inlined
def remember(state, key, value):
    """Keeps a value; when the memo is too full the step is aborted, so that the caller can enlarge it."""
    keys, count = state.memo_key, state.count
    if 2 * count[MEMO] >= len(keys):
        count[ABORT] = FULL_MEMO
        return
    mask = len(keys) - 1
    at = hash_of(key, mask)
    while keys[at] != 0:
        at = (at + 1) & mask
    keys[at] = key
    state.memo_value[at] = value
    count[MEMO] += 1


@inlined
def contains(keys, key):
    """Whether a set holds a key."""
    mask = len(keys) - 1
    at = hash_of(key, mask)
    while keys[at] != 0:
        if keys[at] == key:
            return True
        at = (at + 1) & mask
    return False


@njit(cache=True, nogil=True, _nrt=False)
def rehash(keys, values, new_keys, new_values):
    """Moves a memo into larger arrays."""
    mask = len(new_keys) - 1
    for i in range(len(keys)):
        if keys[i] != 0:
            at = hash_of(keys[i], mask)
            while new_keys[at] != 0:
                at = (at + 1) & mask
            new_keys[at] = keys[i]
            new_values[at] = values[i]


@inlined
def insert(keys, key):
    """Adds a key to a set that has room."""
    mask = len(keys) - 1
    at = hash_of(key, mask)
    while keys[at] != 0:
        at = (at + 1) & mask
    keys[at] = key


@inlined
def factor(rows, kind, x, y, start, stop):
    """Truth of one atom at y; x is the entity at its other end, start:stop the row of that end."""
    if kind == POSITIVE:
        return lookup(rows, start, stop, y)
    if kind == NEGATIVE:
        return 1.0 - lookup(rows, start, stop, y)
    return 0.0 if x == y else 1.0


@inlined
def own(rows, program, entry, y):
    """Truth of a unary entry (constant at the other end, or y itself) at y."""
    kind, source, a, b = (
        program.entries[entry, 0],
        program.entries[entry, 1],
        program.entries[entry, 2],
        program.entries[entry, 3],
    )
    if source >= 0:
        row = find_row(rows, y, a)
        if row < 0:
            return 1.0 if kind == NEGATIVE else 0.0
        return factor(rows, kind, y, y, rows.row_ptr[row], rows.row_ptr[row + 1])
    return factor(rows, kind, a, y, a, b)


@inlined
def support(rows, program, state, entry, y):
    """The largest truth among y's neighbours that satisfy the unary atoms of the variable at the other end."""
    view, memo, other = program.entries[entry, 2], program.entries[entry, 3], program.entries[entry, 4] - 1
    row = find_row(rows, y, view)
    if row < 0:
        return 0.0
    first, last = program.unary[other, EXACT_A], program.unary[other, ALWAYS_A]
    if first == last:
        return np.float64(rows.row_best[row])
    key = ((memo << 32) | y) + 1
    known = recall(state.memo_key, state.memo_value, key)
    if known >= 0:
        return known
    start, stop = rows.row_ptr[row], rows.row_ptr[row + 1]
    # a short row of a constant is the cheaper side to walk
    lead = -1
    for e in range(first, last):
        if program.entries[e, 0] == POSITIVE and program.entries[e, 1] < 0:
            length = program.entries[e, 3] - program.entries[e, 2]
            if 4 * length < stop - start and (lead < 0 or length < program.entries[lead, 3] - program.entries[lead, 2]):
                lead = e
    best = 0.0
    if lead >= 0:
        for i in range(program.entries[lead, 2], program.entries[lead, 3]):
            state.count[VISITS] += 1
            z = rows.neighbour[i]
            value = lookup(rows, start, stop, z)
            if value > best and supported(rows, program, first, last, z):
                best = value
    else:
        for i in range(start, stop):
            state.count[VISITS] += 1
            at = start + rows.by_truth[i]
            if supported(rows, program, first, last, rows.neighbour[at]):
                best = np.float64(rows.truth[at])
                break
    remember(state, key, best)
    return best


@inlined
def supported(rows, program, first, last, z):
    """Whether an entity satisfies some unary atoms at all."""
    for e in range(first, last):
        if own(rows, program, e, z) <= 0.0:
            return False
    return True


@njit(cache=True, nogil=True, _nrt=False)
def message(rows, program, state, edge, origin, godel):
    """The best completion beyond a directed edge from an entity: the max-product message, memoised; -1 if aborted.

    m(x) = max over y of P(x, y) · unary(y) · product of the messages from y onwards. Rows are read in order of
    decreasing truth, so the first y with nothing left to lose ends the row.
    """
    keys, values, count = state.memo_key, state.memo_value, state.count
    frame, value = state.frame, state.frame_value
    depth = 0
    begin_message(rows, program, state, 0, edge, origin)
    while True:
        edge, x = frame[depth, F_EDGE], frame[depth, F_ORIGIN]
        best = value[depth, 0]
        y = frame[depth, F_TARGET]
        if y < 0:
            # take the next y of the row
            at = frame[depth, F_POSITION]
            given = 0.0
            if at < frame[depth, F_STOP]:
                count[VISITS] += 1
                if count[VISITS] > count[LIMIT]:
                    count[ABORT] = SLICE
                    return -1.0
                if frame[depth, F_GENERATOR] < 0:
                    y = np.int64(program.list_ids[at])
                    given = program.list_best[at]
                else:
                    place = frame[depth, F_START] + rows.by_truth[at]
                    y = np.int64(rows.neighbour[place])
                    given = np.float64(rows.truth[place])
            if given <= best:
                remember(state, ((edge << 32) | x) + 1, best)
                if count[ABORT]:
                    return -1.0
                if depth == 0:
                    return best
                depth -= 1
                continue
            frame[depth, F_POSITION] = at + 1
            total = arrive(rows, program, state, depth, x, y, given, best, godel)
            if count[ABORT]:
                return -1.0
            if total <= best:
                continue
            value[depth, 1] = total
            frame[depth, F_TARGET] = y
            frame[depth, F_NEXT] = program.edges[edge, NEXT_A]
        # multiply the messages from y onwards
        total = value[depth, 1]
        j = frame[depth, F_NEXT]
        known = 0.0
        while j < program.edges[edge, NEXT_B] and total > best:
            known = recall(keys, values, ((program.nexts[j] << 32) | y) + 1)
            if known < 0.0:
                break
            total = conj(total, known, godel)
            j += 1
        if known < 0.0:
            frame[depth, F_NEXT] = j
            value[depth, 1] = total
            depth += 1
            begin_message(rows, program, state, depth, program.nexts[j], y)
            continue
        if total > best:
            value[depth, 0] = total
        frame[depth, F_TARGET] = -1


@inlined
def begin_message(rows, program, state, depth, edge, x):
    """Opens a message at the shortest row that holds all its candidates: of x, or of a constant at the other end."""
    frame, span = state.frame, state.frame_span
    frame[depth, F_EDGE], frame[depth, F_ORIGIN], frame[depth, F_TARGET] = edge, x, -1
    state.frame_value[depth, 0] = 0.0
    first, last = program.edges[edge, PARALLEL_A], program.edges[edge, PARALLEL_B]
    chosen, start, stop = -1, program.edges[edge, SPAN_A], program.edges[edge, SPAN_B]
    for e in range(first, last):
        kind = program.entries[e, 0]
        if kind == DIFFERENT:
            continue
        low, high = np.int64(0), np.int64(0)
        row = find_row(rows, x, program.entries[e, 2])
        if row >= 0:
            low, high = rows.row_ptr[row], rows.row_ptr[row + 1]
        span[depth, e - first, 0], span[depth, e - first, 1] = low, high
        if kind == POSITIVE and (chosen < 0 or high - low < stop - start):
            chosen, start, stop = e, low, high
    target = program.edges[edge, TARGET]
    for e in range(program.unary[target, EXACT_A], program.unary[target, ALWAYS_A]):
        if program.entries[e, 0] == POSITIVE and program.entries[e, 1] < 0:
            low, high = program.entries[e, 2], program.entries[e, 3]
            if chosen < 0 or 2 * (high - low) < stop - start:
                chosen, start, stop = e, low, high
    frame[depth, F_GENERATOR], frame[depth, F_START], frame[depth, F_STOP] = chosen, start, stop
    frame[depth, F_POSITION] = start


@inlined
def arrive(rows, program, state, depth, x, y, given, least, godel):
    """The factors of reaching y along an edge from x, or something not above `least`."""
    edge, generator = state.frame[depth, F_EDGE], state.frame[depth, F_GENERATOR]
    total = given if generator >= 0 else 1.0
    first = program.edges[edge, PARALLEL_A]
    for e in range(first, program.edges[edge, PARALLEL_B]):
        if e != generator:
            low, high = state.frame_span[depth, e - first, 0], state.frame_span[depth, e - first, 1]
            total = conj(total, factor(rows, program.entries[e, 0], x, y, low, high), godel)
            if total <= least:
                return total
    target = program.edges[edge, TARGET]
    for e in range(program.unary[target, EXACT_A], program.unary[target, UNARY_END]):
        if e == generator:
            continue
        if program.entries[e, 0] == SUPPORT:
            total = conj(total, support(rows, program, state, e, y), godel)
            if state.count[ABORT]:
                return 0.0
        else:
            total = conj(total, own(rows, program, e, y), godel)
        if total <= least:
            return total
    return total


@inlined
def opened(rows, program, state, total, first, last, godel):
    """`total` and the messages of a range of open edges from the assigned variables."""
    for i in range(first, last):
        if total <= 0.0:
            return 0.0
        source = program.opens[i, 1]
        x = state.assign[source] if source >= 0 else 0
        value = recall(state.memo_key, state.memo_value, ((program.opens[i, 0] << 32) | x) + 1)
        if value < 0.0:
            value = message(rows, program, state, program.opens[i, 0], x, godel)
            if state.count[ABORT]:
                return 0.0
        total = conj(total, value, godel)
    return total


@inlined
def reaching(rows, start, stop, least):
    """How many entries of a row have at least a given truth."""
    low, high = start, stop
    while low < high:
        middle = (low + high) >> 1
        if rows.truth[start + rows.by_truth[middle]] >= least:
            low = middle + 1
        else:
            high = middle
    return low - start


@inlined
def resolve(rows, program, state, span, first, last, variable, least):
    """Finds the rows of the checks first:last and picks one to draw candidates from; -2 if none can hold.

    It is the row with the fewest entries of at least the truth that matters now, the shorter one among equals.
    """
    best, length, chosen = 0, 0, -1
    for e in range(first, last):
        kind, source = program.entries[e, 0], program.entries[e, 1]
        start, stop = program.entries[e, 2], program.entries[e, 3]
        if kind == SUPPORT or kind == DIFFERENT or source == variable:
            continue
        if source >= 0:
            row = find_row(rows, state.assign[source], program.entries[e, 2])
            if row < 0:
                start, stop = 0, 0
            else:
                start, stop = rows.row_ptr[row], rows.row_ptr[row + 1]
        span[e - first, 0], span[e - first, 1] = start, stop
        if kind == POSITIVE:
            if start == stop:
                return -2
            reach = reaching(rows, start, stop, least)
            if chosen < 0 or reach < best or (reach == best and stop - start < length):
                best, length, chosen = reach, stop - start, e
    return chosen


@inlined
def check(rows, program, state, span, e, first, variable, y):
    """The truth of entry e at y."""
    kind, source = program.entries[e, 0], program.entries[e, 1]
    if kind == SUPPORT:
        return support(rows, program, state, e, y)
    if source == variable:
        return own(rows, program, e, y)
    if kind == DIFFERENT:
        return 0.0 if y == (state.assign[source] if source >= 0 else program.entries[e, 2]) else 1.0
    return factor(rows, kind, 0, y, span[e - first, 0], span[e - first, 1])
