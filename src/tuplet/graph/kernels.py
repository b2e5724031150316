"""Looking up many edges at once, compiled: what explanations ask for."""

from __future__ import annotations

import numpy as np
from numba import njit, types

_ints = types.Array(types.int32, 1, "C", readonly=True)
_longs = types.Array(types.int64, 1, "C", readonly=True)


@njit(types.int64(_ints, types.int64, types.int64, types.int64), cache=True, nogil=True)
def _search(values, low, high, wanted):  # type: ignore[no-untyped-def]
    """The place of `wanted` in an ascending stretch, -1 if it is not there."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < end and values[low] == wanted else -1


@njit(types.Array(types.int64, 1, "C")(_longs, _ints, _longs, _ints, _ints, _ints, _ints), cache=True, nogil=True)
def find_edges(view_ptr, row_entity, row_ptr, neighbour, heads, relations, tails):  # type: ignore[no-untyped-def]
    """The forward entry of each edge in an adjacency, or -1. [n]"""
    found = np.full(len(heads), -1, dtype=np.int64)
    for i in range(len(heads)):
        view = 2 * relations[i]
        row = _search(row_entity, view_ptr[view], view_ptr[view + 1], heads[i])
        if row >= 0:
            found[i] = _search(neighbour, row_ptr[row], row_ptr[row + 1], tails[i])
    return found
