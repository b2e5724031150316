"""Compiled look-ups that all engines share: binary search, galloping, rows of an adjacency, sets of numbers.

To debug a kernel, set `NUMBA_DISABLE_JIT=1`: everything here and everything built on it runs as plain Python, slowly,
with breakpoints and bounds checks. Compiled code is cached by the file it stands in: after an edit of a function that
is inlined elsewhere, delete the `__pycache__` folders.

Spans are half-open: `low` is the first place, `high` the place after the last.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from tuplet.graph.adjacency import AdjacencyArrays

# Kernels keep no references and allocate nothing: without reference counting they are up to five times faster.
OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
compiled = njit(**OPTIONS)
# Passing many arrays to a function that is not inlined costs more than most small functions do.
inlined = njit(forceinline=True, **OPTIONS)

READ_INTS = types.Array(types.int32, 1, "C", readonly=True)
READ_LONGS = types.Array(types.int64, 1, "C", readonly=True)
LONGS = types.Array(types.int64, 1, "C")
READ_LAYERS = types.Array(types.int64, 2, "C", readonly=True)
ARRAYS = types.NamedTuple((READ_LONGS, READ_INTS, READ_LONGS, READ_INTS, READ_LAYERS), AdjacencyArrays)


@inlined
def lower_bound(values, low, high, wanted):
    """The first place in `values[low:high]` (ascending) whose value is at least `wanted`; `high` if there is none."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def find(values, low, high, wanted):
    """The place of `wanted` in `values[low:high]` (ascending), -1 if it is not there."""
    at = lower_bound(values, low, high, wanted)
    return at if at < high and values[at] == wanted else -1


@compiled
def gallop(values, low, high, wanted):
    """The same place as `lower_bound`, in time that grows with the distance from `low`: for a cursor that moves on."""
    if low >= high or values[low] >= wanted:
        return low
    step = 1
    while low + step < high and values[low + step] < wanted:
        low += step
        step *= 2
    # values[low] < wanted, and values[low + step] >= wanted or lies behind the end
    return lower_bound(values, low + 1, min(high, low + step), wanted)


@inlined
def find_row(arrays, entity, view):
    """The row of an entity under a view, or -1; `arrays` has `view_ptr`, `row_entity` and `newer`, as an adjacency."""
    for layer in range(len(arrays.newer)):
        low, high = arrays.newer[layer, view], arrays.newer[layer, view + 1]
        if low < high:
            row = find(arrays.row_entity, low, high, entity)
            if row >= 0:
                return row
    return find(arrays.row_entity, arrays.view_ptr[view], arrays.view_ptr[view + 1], entity)


@inlined
def find_edge(arrays, entity, view, other):
    """The entry of `other` among the neighbours of `entity` under `view`, or -1."""
    row = find_row(arrays, entity, view)
    return find(arrays.neighbour, arrays.row_ptr[row], arrays.row_ptr[row + 1], other) if row >= 0 else row


@njit(types.void(ARRAYS, READ_INTS, READ_INTS, READ_INTS, LONGS), **OPTIONS)
def find_edges(arrays, heads, relations, tails, found):
    """Writes the forward entry of each edge, or -1, into `found` [n]."""
    for i in range(len(heads)):
        found[i] = find_edge(arrays, heads[i], 2 * relations[i], tails[i])


# A set of numbers: a power of two places, never full; 0 marks a free place, so a key is never 0.


@inlined
def probe(keys, key):
    """The place of `key` in a set of numbers, or `~place` of the free place where it belongs."""
    mask = len(keys) - 1
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    at = np.int64((mixed >> np.uint64(29)) & np.uint64(mask))
    while keys[at] != 0:
        if keys[at] == key:
            return at
        at = (at + 1) & mask
    return ~at
