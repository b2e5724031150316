"""Compiled walks over stated facts: what joins two entities, how often such a path is right, who shares what.

They read the facts where they lie, with their newer layers, and make no copy. All entities of a path differ.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import njit

from tuplet.graph.kernels import find, find_edge, find_row

compiled = njit(cache=True, nogil=True)


@compiled
def rows_of(arrays, entity, starts, stops):
    """Writes where the neighbours of an entity begin and end, for each view."""
    for view in range(len(starts)):
        row = find_row(arrays, entity, view)
        if row >= 0:
            starts[view], stops[view] = arrays.row_ptr[row], arrays.row_ptr[row + 1]


@compiled
def _neighbours(arrays, entity, view):
    """How many neighbours an entity has."""
    row = find_row(arrays, entity, view)
    return arrays.row_ptr[row + 1] - arrays.row_ptr[row] if row >= 0 else 0


@compiled
def two_steps(arrays, head, tail, near, far, starts, stops, found, crowd):
    """Writes the paths of two steps: the number of the near step, and the view by which the far end reaches the middle.

    `near` [n, 2] are view and neighbour of the steps of the end that has fewer, `far` the views of the other end, with
    their rows. `crowd`: how many paths of the same views lead through the middle. Returns how many were written.
    """
    count = 0
    for i in range(len(near)):
        middle = near[i, 1]
        if middle in (head, tail):
            continue
        for j in range(len(far)):
            if count < len(found) and find(arrays.neighbour, starts[j], stops[j], middle) >= 0:
                found[count, 0], found[count, 1] = i, far[j]
                come, go = _neighbours(arrays, middle, near[i, 0] ^ 1), _neighbours(arrays, middle, far[j] ^ 1)
                crowd[count] = come * go
                count += 1
    return count


@compiled
def three_steps(arrays, views, head, tail, near, far, first, longest, found, crowd):
    """Writes the paths of three steps: a step of the head, the view between the middles, a step of the tail.

    `near` and `far` [n, 2] are view and neighbour of steps of the two ends, `far` in order of neighbours, and
    `first[x] - 1` the first of them that leads to x. Rows longer than `longest` are not walked.
    """
    count = 0
    for i in range(len(near)):
        b = near[i, 1]
        if b in (head, tail):
            continue
        come = _neighbours(arrays, b, near[i, 0] ^ 1)
        for view in range(views):
            row = find_row(arrays, b, view)
            if row < 0 or arrays.row_ptr[row + 1] - arrays.row_ptr[row] > longest:
                continue
            between = arrays.row_ptr[row + 1] - arrays.row_ptr[row]
            for entry in range(arrays.row_ptr[row], arrays.row_ptr[row + 1]):
                x = arrays.neighbour[entry]
                j = first[x] - 1
                if j < 0 or x in (b, head, tail):
                    continue
                while j < len(far) and far[j, 1] == x and count < len(found):
                    found[count, 0], found[count, 1], found[count, 2] = i, view, j
                    crowd[count] = come * between * _neighbours(arrays, x, far[j, 0] ^ 1)
                    count += 1
                    j += 1
    return count


@compiled
def count_body(arrays, body, relation, heads, seen, pairs_enough, work_enough, work_each):
    """How many pairs the views of `body` join, one after another, and how many of these have the relation.

    Goes through `heads` until there are enough pairs, or there was enough work. Of a head that leads to very many ends
    those that are found first count. `seen` [entities] is zero at first.
    """
    last = len(body) - 1
    node, at, stop = (np.empty(last + 1, np.int64), np.empty(last + 1, np.int64), np.empty(last + 1, np.int64))
    pairs, right, work = 0, 0, 0
    for number in range(len(heads)):
        if pairs >= pairs_enough or work >= work_enough:
            break
        mark, spent, joined, depth = number + 1, 1, 0, 0
        node[0] = heads[number]
        row = find_row(arrays, node[0], body[0])
        if row < 0:
            continue
        at[0], stop[0] = arrays.row_ptr[row], arrays.row_ptr[row + 1]
        while depth >= 0 and spent < work_each:
            if at[depth] == stop[depth]:
                depth -= 1
                continue
            x = arrays.neighbour[at[depth]]
            at[depth] += 1
            spent += 1
            visited = False
            for earlier in range(depth + 1):
                visited |= node[earlier] == x
            if visited:
                continue
            if depth == last:
                if seen[x] != mark:
                    seen[x] = mark
                    joined += 1
            else:
                row = find_row(arrays, x, body[depth + 1])
                spent += 1
                if row >= 0:
                    depth += 1
                    node[depth], at[depth], stop[depth] = x, arrays.row_ptr[row], arrays.row_ptr[row + 1]
        work += spent
        pairs += joined
        row = find_row(arrays, node[0], 2 * relation) if joined else -1
        if row >= 0:
            for entry in range(arrays.row_ptr[row], arrays.row_ptr[row + 1]):
                right += seen[arrays.neighbour[entry]] == mark
    return pairs, right


@compiled
def _rarity(sharing):
    """What it is worth to share something with others: less, the more they are (Adamic and Adar)."""
    return 1.0 / np.log2(1.0 + sharing)


@compiled
def share_with(arrays, near, others, shared):
    """Adds for each of `others` (ascending) the rarity of the steps in `near` that it has, too.

    Returns the rarity of all steps together.
    """
    total = 0.0
    for i in range(len(near)):
        row = find_row(arrays, near[i, 1], near[i, 0] ^ 1)
        low, high = arrays.row_ptr[row], arrays.row_ptr[row + 1]
        worth = _rarity(high - low)
        total += worth
        if high - low < len(others):
            for entry in range(low, high):
                place = find(others, 0, len(others), arrays.neighbour[entry])
                if place >= 0:
                    shared[place] += worth
        else:
            for place in range(len(others)):
                if find(arrays.neighbour, low, high, others[place]) >= 0:
                    shared[place] += worth
    return total


@compiled
def step_worth(arrays, entity, near, worth):
    """Writes the rarity of each step in `near` that an entity has, too; 0 where it has not."""
    for i in range(len(near)):
        if find_edge(arrays, entity, near[i, 0], near[i, 1]) >= 0:
            worth[i] = _rarity(_neighbours(arrays, near[i, 1], near[i, 0] ^ 1))
