"""Compiled end of a search: the best tuples in their order, the last ones among equals chosen by name."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from tuplet.engines.exact.kernels.rows import (
    ABOVE,
    BELOW,
    EMITTED,
    EXHAUSTED,
    FILLED,
    PLATEAU,
)
from tuplet.engines.exact.kernels.search import search
from tuplet.graph.kernels import compiled, inlined

# Truths this near to each other, relatively, are equal: products differ in the order of their factors.
EQUAL = 1e-12


@compiled
def best(rows, program, state, wanted, out, truth, order, spare, godel):
    """Finds the `wanted` best tuples; among equals of the least truth those that come first by name.

    `out` and `truth` hold more than `wanted` tuples, `spare` is working space of that size, `order` of twice. FILLED
    means that the first EMITTED rows are the list, in order; more is there unless EXHAUSTED is returned. After any
    other status the state has to be given room or time, and the search goes on where it was. With no working space the
    next tuples are written as they come, until `out` is full.
    """
    count = state.count
    while True:
        room = wanted + 1 if len(order) and not count[PLATEAU] else len(out)
        status = search(rows, program, state, room, out, truth, godel)  # one call: it is inlined, and it is large
        if not len(order) or status not in (FILLED, BELOW, EXHAUSTED):
            return status
        if not count[PLATEAU]:
            if status == EXHAUSTED:
                break
            if wanted == 0 or truth[wanted] < truth[wanted - 1] * (1.0 - EQUAL):
                count[EMITTED] = wanted
                break
            above = 0
            while truth[above] > truth[wanted - 1] * (1.0 + EQUAL):
                above += 1
            state.floor[0] = truth[wanted - 1] * (1.0 - EQUAL)
            count[ABOVE], count[PLATEAU] = above, 1
        keep_first(rows, state, wanted, out, truth, order, spare)
        if status != FILLED:
            status = FILLED
            break
    arrange(rows, state, out, truth, 0, count[EMITTED], order, spare)
    return status


@inlined
def keep_first(rows, state, wanted, out, truth, order, spare):
    """Keeps the first tuples by name of the plateau, as many as are wanted, and cuts the search behind the last."""
    count = state.count
    arrange(rows, state, out, truth, count[ABOVE], count[EMITTED], order, spare)
    count[EMITTED] = min(count[EMITTED], wanted)
    state.cut[0] = 1
    for i in range(len(state.select)):
        state.cut[1 + i] = rows.rank[out[count[EMITTED] - 1, state.select[i]]]


@inlined
def before(rows, state, out, a, b):
    """Whether tuple a comes before tuple b by name."""
    for i in range(len(state.select)):
        left, right = rows.rank[out[a, state.select[i]]], rows.rank[out[b, state.select[i]]]
        if left != right:
            return left < right
    return False


@compiled
def arrange(rows, state, out, truth, first, end, order, spare):
    """Orders rows first:end, whose truths fall up to rounding, by truth, then name; near truths are made equal."""
    low = first
    while low < end:
        high = low + 1
        highest = truth[low]
        while high < end and truth[high] >= highest * (1.0 - EQUAL):
            highest = max(highest, truth[high])
            high += 1
        if high - low > 1:
            sort(rows, state, out, low, high, order)
            for i in range(low, high):
                for j in range(out.shape[1]):
                    spare[i, j] = out[order[i], j]
            for i in range(low, high):
                truth[i] = highest
                for j in range(out.shape[1]):
                    out[i, j] = spare[i, j]
        low = high


@inlined
def sort(rows, state, out, low, high, order):
    """Writes the places low:high in order of names to `order`: merges of runs, which are long as a rule."""
    half = len(order) // 2
    for i in range(low, high):
        order[i] = i
    while True:
        at = low
        while at < high:
            middle = run_end(rows, state, out, order, at, high)
            if at == low and middle == high:
                return
            end = run_end(rows, state, out, order, middle, high)
            left, right = at, middle
            for to in range(at, end):
                if right == end or (left < middle and not before(rows, state, out, order[right], order[left])):
                    order[half + to] = order[left]
                    left += 1
                else:
                    order[half + to] = order[right]
                    right += 1
            at = end
        for i in range(low, high):
            order[i] = order[half + i]


@inlined
def run_end(rows, state, out, order, start, high):
    """The end of the ascending run from `start` on."""
    end = start + 1
    while end < high and not before(rows, state, out, order[end], order[end - 1]):
        end += 1
    return min(end, high)
