"""Compiled messages of the exact engine: the best completion beyond an edge, and the factors of one value."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from tuplet.engines.condition_kernels import call_test
from tuplet.engines.exact.kernels.rows import (
    ABORT,
    ALWAYS_A,
    DIFFERENT,
    EXACT_A,
    F_EDGE,
    F_GENERATOR,
    F_NEXT,
    F_ORIGIN,
    F_POSITION,
    F_START,
    F_STOP,
    F_TARGET,
    LEFT,
    LIMIT,
    NEGATIVE,
    NEXT_A,
    NEXT_B,
    PARALLEL_A,
    PARALLEL_B,
    POSITIVE,
    SLICE,
    SPAN_A,
    SPAN_B,
    SPAN_ROW,
    SUPPORT,
    TARGET,
    UNARY_END,
    VISITS,
    best_of,
    conj,
    entity_at,
    entry_of,
    known_message,
    lookup,
    place_of,
    recall,
    remember,
    truth_at,
    truth_of,
)
from tuplet.graph.kernels import compiled, find_row, inlined


@inlined
def factor(rows, program, entry, kind, x, y, start, stop):
    """Truth of one atom or condition at y; x is the entity at its other end, start:stop the row of that end."""
    if kind == POSITIVE:
        return lookup(rows, start, stop, y)
    if kind == NEGATIVE:
        return 1.0 - lookup(rows, start, stop, y)
    if kind == DIFFERENT:
        return 0.0 if x == y else 1.0
    side = program.entries[entry, 3]
    left, right = y if side else x, x if side == LEFT else y
    return 1.0 if call_test(program.entries[entry, 2], left, right) else 0.0


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
        return factor(rows, program, entry, kind, y, y, rows.row_ptr[row], rows.row_ptr[row + 1])
    return factor(rows, program, entry, kind, a, y, a, b)


@inlined
def support(rows, program, state, entry, y):
    """The largest truth among y's neighbours that satisfy the unary atoms of the variable at the other end."""
    view, memo, other = program.entries[entry, 2], program.entries[entry, 3], program.entries[entry, 4] - 1
    row = find_row(rows, y, view)
    if row < 0:
        return 0.0
    first, last = program.unary[other, EXACT_A], program.unary[other, ALWAYS_A]
    if first == last:
        return best_of(rows, row)
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
            at = entry_of(rows, start, i)
            if supported(rows, program, first, last, rows.neighbour[at]):
                best = truth_of(rows, at)
                break
    remember(state, key, best)
    return best


@inlined
def supported(rows, program, first, last, z):
    """Whether an entity satisfies some unary atoms at all."""
    for e in range(first, last):  # noqa: SIM110, no generators in kernels
        if own(rows, program, e, z) <= 0.0:
            return False
    return True


@compiled
def message(rows, program, state, edge, origin, godel):
    """The best completion beyond a directed edge from an entity: the max-product message, memoised; -1 if aborted.

    m(x) = max over y of P(x, y) · unary(y) · product of the messages from y onwards. Rows are read in order of
    decreasing truth, so the first y with nothing left to lose ends the row.
    """
    count = state.count
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
                generator = frame[depth, F_GENERATOR]
                place = place_of(rows, program, generator, frame[depth, F_START], at)
                y, given = entity_at(rows, generator, place), truth_at(rows, generator, place)
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
            known = known_message(rows, program, state, program.nexts[j], y)
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
        if kind >= DIFFERENT:
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
    frame[depth, F_GENERATOR], frame[depth, F_POSITION], frame[depth, F_STOP] = chosen, start, stop
    frame[depth, F_START] = start if chosen >= 0 else program.edges[edge, SPAN_ROW]


@inlined
def arrive(rows, program, state, depth, x, y, given, least, godel):
    """The factors of reaching y along an edge from x, or something not above `least`."""
    edge, generator = state.frame[depth, F_EDGE], state.frame[depth, F_GENERATOR]
    total = given if generator >= 0 else 1.0
    first = program.edges[edge, PARALLEL_A]
    for e in range(first, program.edges[edge, PARALLEL_B]):
        if e != generator:
            low, high = state.frame_span[depth, e - first, 0], state.frame_span[depth, e - first, 1]
            total = conj(total, factor(rows, program, e, program.entries[e, 0], x, y, low, high), godel)
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
        value = known_message(rows, program, state, program.opens[i, 0], x)
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
        if truth_of(rows, entry_of(rows, start, middle)) >= least:
            low = middle + 1
        else:
            high = middle
    return low - start


@inlined
def resolve(rows, program, state, span, first, last, variable, least):
    """Finds the rows of the checks first:last and picks one to draw candidates from; -2 if none can hold.

    It is the row with the fewest entries of at least the truth that matters now, the shorter one among equals.
    """
    chosen, several = -1, False
    for e in range(first, last):
        kind, source = program.entries[e, 0], program.entries[e, 1]
        start, stop = program.entries[e, 2], program.entries[e, 3]
        if kind >= DIFFERENT or source == variable:
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
            several = chosen >= 0
            chosen = e
    if several:
        best, length = 0, 0
        chosen = -1
        for e in range(first, last):
            if program.entries[e, 0] == POSITIVE and program.entries[e, 1] != variable:
                start, stop = span[e - first, 0], span[e - first, 1]
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
    x = np.int64(0)
    if kind >= DIFFERENT:
        x = state.assign[source] if source >= 0 else program.entries[e, 2]
    return factor(rows, program, e, kind, x, y, span[e - first, 0], span[e - first, 1])
