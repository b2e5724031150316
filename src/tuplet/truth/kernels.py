"""Compiled walks of two steps, and compiled sums for growing trees.

A path of two steps goes from an entity a by view u to a middle b and on by view v to c; a, b and c differ, so an edge
is never part of a path between its own ends. A middle that joins more than `most` pairs by the same two steps is left
out.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tuplet.graph.kernels import compiled, find, gallop, probe

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

# Walks allocate their scratch space, so they keep reference counting.
allocating = njit(cache=True, nogil=True)


class Steps(NamedTuple):
    """Edges in both directions by entity, twice: in order of (view, other end), and in order of (other end, view).

    A row is one entity under one view. The crowd of an entry is how many entities reach its other end by its view.
    """

    entity_ptr: Longs  # [entities + 1] where the rows of an entity begin
    row_entity: Ints  # [rows]
    row_view: Ints  # [rows]
    row_ptr: Longs  # [rows + 1] where the entries of a row begin
    view_rows: Longs  # [rows] the rows in order of (view, entity)
    view_ptr: Longs  # [views + 1] where those of a view begin
    neighbour: Ints  # [2 · edges]
    crowd: Ints  # [2 · edges]
    near_ptr: Longs  # [entities + 1] where the entries of an entity begin, in both orders
    near: Ints  # [2 · edges] the other ends
    near_view: Ints  # [2 · edges]
    near_crowd: Ints  # [2 · edges]


@allocating
def path_work(steps, most):
    """How many paths there are, those through crowded middles left out."""
    total = 0
    for b in range(len(steps.entity_ptr) - 1):
        for i in range(steps.entity_ptr[b], steps.entity_ptr[b + 1]):
            come = steps.row_ptr[i + 1] - steps.row_ptr[i]
            for j in range(steps.entity_ptr[b], steps.entity_ptr[b + 1]):
                joined = come * (steps.row_ptr[j + 1] - steps.row_ptr[j])
                if joined <= most:
                    total += joined
    return total


@allocating
def paths_between(steps, most, a, c, first, second):
    """Writes the two entries of each path (of a, and of c, whose view is the last step walked backwards).

    Returns how many there are; if that is more than there is room for, only the first ones were written.
    """
    count = 0
    if a == c:
        return count
    i, i_end = steps.near_ptr[a], steps.near_ptr[a + 1]
    j, j_end = steps.near_ptr[c], steps.near_ptr[c + 1]
    while i < i_end and j < j_end:
        if steps.near[i] < steps.near[j]:
            i = gallop(steps.near, i, i_end, steps.near[j])
        elif steps.near[j] < steps.near[i]:
            j = gallop(steps.near, j, j_end, steps.near[i])
        else:
            b = steps.near[i]
            j_next = j
            while j_next < j_end and steps.near[j_next] == b:
                j_next += 1
            while i < i_end and steps.near[i] == b:
                if b != a and b != c:
                    for other in range(j, j_next):
                        if np.int64(steps.near_crowd[i]) * steps.near_crowd[other] <= most:
                            if count < len(first):
                                first[count], second[count] = i, other
                            count += 1
                i += 1
            j = j_next
    return count


@allocating
def bodies_between(steps, most, views, heads, tails, start, first, second, out):
    """Writes the distinct bodies u · views + v that join each pair, from pair `start` on, as long as there is room.

    Returns the next pair, how many bodies were written, and how much room that pair needs.
    """
    filled = 0
    for pair in range(start, len(heads)):
        count = paths_between(steps, most, heads[pair], tails[pair], first, second)
        if count > len(first) or filled + count > len(out):
            return pair, filled, count
        for p in range(count):
            u, v = steps.near_view[first[p]], steps.near_view[second[p]] ^ 1
            out[filled + p] = np.int64(u) * views + v
        part = out[filled : filled + count]
        part.sort()
        kept = 0
        for p in range(count):
            if p == 0 or part[p] != part[p - 1]:
                out[filled + kept] = part[p]
                kept += 1
        filled += kept
    return len(heads), filled, 0


@allocating
def _in_row(steps, row, wanted):
    return find(steps.neighbour, steps.row_ptr[row], steps.row_ptr[row + 1], wanted) >= 0


@allocating
def count_pairs(steps, most, body_ptr, body_view, low, high, pairs):
    """Adds to `pairs` how many pairs each body joins whose first view is in low … high; each pair counts once.

    The bodies with first view u are `body_ptr[u] : body_ptr[u + 1]`, their second views ascending in `body_view`.
    """
    seen = np.full(len(steps.entity_ptr) - 1, -1, dtype=np.int64)
    mark = 0
    place = np.full(len(body_ptr) - 1, -1, dtype=np.int64)  # of each second view among the bodies of u
    latest = np.full(len(body_view), -1, dtype=np.int64)  # the last row found for each body, in a chain of rows:
    row_of = np.empty(len(steps.row_view) + 1, dtype=np.int64)
    middle_of = np.empty(len(steps.row_view) + 1, dtype=np.int64)
    before = np.empty(len(steps.row_view) + 1, dtype=np.int64)
    touched = np.empty(len(body_view), dtype=np.int64)
    for u in range(low, high):
        if body_ptr[u] == body_ptr[u + 1]:
            continue
        for body in range(body_ptr[u], body_ptr[u + 1]):
            place[body_view[body]] = body
        for at in range(steps.view_ptr[u], steps.view_ptr[u + 1]):
            row = steps.view_rows[at]
            a = steps.row_entity[row]
            chained, found = 0, 0
            for entry in range(steps.row_ptr[row], steps.row_ptr[row + 1]):
                b = steps.neighbour[entry]
                if b == a:
                    continue
                for on in range(steps.entity_ptr[b], steps.entity_ptr[b + 1]):
                    body = place[steps.row_view[on]]
                    ends = steps.row_ptr[on + 1] - steps.row_ptr[on]
                    if body < 0 or steps.crowd[entry] * ends > most:
                        continue
                    if latest[body] < 0:
                        touched[found] = body
                        found += 1
                    row_of[chained], middle_of[chained], before[chained] = on, b, latest[body]
                    latest[body] = chained
                    chained += 1
            for t in range(found):
                body = touched[t]
                link = latest[body]
                latest[body] = -1
                if before[link] < 0:  # one middle: nothing to tell apart
                    on = row_of[link]
                    joined = steps.row_ptr[on + 1] - steps.row_ptr[on]
                    pairs[body] += joined - _in_row(steps, on, a) - _in_row(steps, on, middle_of[link])
                    continue
                mark += 1
                while link >= 0:
                    on = row_of[link]
                    for entry in range(steps.row_ptr[on], steps.row_ptr[on + 1]):
                        c = steps.neighbour[entry]
                        if c != a and c != middle_of[link] and seen[c] != mark:
                            seen[c] = mark
                            pairs[body] += 1
                    link = before[link]
        for body in range(body_ptr[u], body_ptr[u + 1]):
            place[body_view[body]] = -1


@allocating
def joined_pairs(steps, most, body_ptr, body_view, confidence, start, heads, tails, said):
    """Writes the pairs that some body joins, in order, from head `start` on, as long as every tail would find room.

    Beside each pair the best confidence of a body that joins it. Returns the next head, and how many were written.
    """
    entities = len(steps.entity_ptr) - 1
    seen = np.full(entities, -1, dtype=np.int64)
    best = np.zeros(entities, dtype=said.dtype)
    filled = 0
    for a in range(start, entities):
        if filled + entities > len(heads):
            return a, filled
        first = filled
        for row in range(steps.entity_ptr[a], steps.entity_ptr[a + 1]):
            low, high = body_ptr[steps.row_view[row]], body_ptr[steps.row_view[row] + 1]
            if low == high:
                continue
            for entry in range(steps.row_ptr[row], steps.row_ptr[row + 1]):
                b = steps.neighbour[entry]
                if b == a:
                    continue
                for on in range(steps.entity_ptr[b], steps.entity_ptr[b + 1]):
                    ends = steps.row_ptr[on + 1] - steps.row_ptr[on]
                    body = find(body_view, low, high, steps.row_view[on])
                    if body < 0 or steps.crowd[entry] * ends > most:
                        continue
                    for way in range(steps.row_ptr[on], steps.row_ptr[on + 1]):
                        c = steps.neighbour[way]
                        if c == a or c == b or (seen[c] == a and best[c] >= confidence[body]):  # noqa: SIM109
                            continue
                        if seen[c] != a:
                            seen[c] = a
                            tails[filled] = c
                            filled += 1
                        best[c] = confidence[body]
        heads[first:filled] = a
        tails[first:filled].sort()
        for pair in range(first, filled):
            said[pair] = best[tails[pair]]
    return entities, filled


@allocating
def speak_for(steps, most, views, relation, heads, tails, start, keys, right, pairs, shrink, scratch, out):
    """Fills out[0]: the best confidence, out[1]: log of no rule being right, out[2]: paths of rules, for each pair.

    `keys` is a set of bodies + 1 of the rules of a relation, `right` and `pairs` lie beside it. Returns the next pair
    and the room that it needs, as `bodies_between` does.
    """
    first, second = scratch[0], scratch[1]
    told = np.full(len(keys), -1, dtype=np.int64)
    for pair in range(start, len(heads)):
        a, c = heads[pair], tails[pair]
        count = paths_between(steps, most, a, c, first, second)
        if count > len(first):
            return pair, count
        best, none, paths = 0.0, 0.0, 0
        known = -1
        for p in range(count):
            body = np.int64(steps.near_view[first[p]]) * views + (steps.near_view[second[p]] ^ 1)
            at = probe(keys, body + 1)
            if at < 0:
                continue
            paths += 1
            if told[at] == pair:
                continue
            told[at] = pair
            if known < 0:
                row = find(steps.row_view, steps.entity_ptr[a], steps.entity_ptr[a + 1], 2 * relation)
                known = 1 if row >= 0 and _in_row(steps, row, c) else 0
            # A known edge does not confirm the rules that predict it.
            confidence = (right[at] - known) / (pairs[at] + shrink)
            best = max(best, confidence)
            none += np.log1p(-min(confidence, 0.999))
        out[0, pair], out[1, pair], out[2, pair] = best, none, paths
    return len(heads), 0


@allocating
def fill_set(keys, numbers, places):
    """Puts numbers into an empty set, and writes where each of them is."""
    for i in range(len(numbers)):
        places[i] = ~probe(keys, numbers[i])
        keys[places[i]] = numbers[i]


@compiled
def sum_by_bin(bins, columns, rows, leaf, packed, out):
    """Adds the numbers of rows by (column, leaf, bin). uint8 [all columns, all rows] → int64 [columns, leaves, bins]"""
    fours = len(columns) // 4 * 4
    for place in range(0, fours, 4):
        # Together, because an addition waits for the one before only if both go to the same column's sums.
        one, two = bins[columns[place]], bins[columns[place + 1]]
        three, four = bins[columns[place + 2]], bins[columns[place + 3]]
        first, second, third, fourth = out[place], out[place + 1], out[place + 2], out[place + 3]
        for i in range(len(rows)):
            row, at, number = rows[i], leaf[i], packed[i]
            first[at, one[row]] += number
            second[at, two[row]] += number
            third[at, three[row]] += number
            fourth[at, four[row]] += number
    for place in range(fours, len(columns)):
        column, sums = bins[columns[place]], out[place]
        for i in range(len(rows)):
            sums[leaf[i], column[rows[i]]] += packed[i]
