"""Compiled sets of rows: the answers a join has seen. Apart from the shared look-ups, so that only joins load them."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import njit, types

from tuplet.graph.kernels import OPTIONS, inlined

FLAGS = types.Array(types.boolean, 1, "C")
TABLE = types.Array(types.int32, 2, "C")
READ_TABLE = types.Array(types.int32, 2, "C", readonly=True)

# A set of rows [places, width]: a power of two places, never full; -1 in the first column marks a free place.


@inlined
def probe_row(table, key, width):
    """The place of `key[:width]` in a set of rows, or `~place` of the free place where it belongs."""
    mixed = np.uint64(0x9E3779B97F4A7C15)
    for i in range(width):
        mixed = (mixed ^ np.uint64(key[i])) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    mask = len(table) - 1
    at = np.int64(mixed >> np.uint64(3)) & mask
    while table[at, 0] >= 0:
        same = True
        for i in range(width):
            if table[at, i] != key[i]:
                same = False
                break
        if same:
            return at
        at = (at + 1) & mask
    return ~at


@inlined
def insert_row(table, key, width):
    """Puts `key[:width]` into a set of rows that has room; false if it was there."""
    at = probe_row(table, key, width)
    if at >= 0:
        return False
    for i in range(width):
        table[~at, i] = key[i]
    return True


@njit(types.void(TABLE, TABLE, types.int64, types.int64), **OPTIONS)
def rehash_rows(old, new, low, high):
    """Copies the rows at the places `low:high` of a set into a larger one; called for all places piece by piece."""
    width = old.shape[1]
    for i in range(low, high):
        if old[i, 0] >= 0:
            insert_row(new, old[i], width)


@njit(types.int64(TABLE, READ_TABLE, FLAGS), **OPTIONS)
def admit_rows(table, rows, fresh):
    """Inserts the rows [n, width] into a set with room for them; marks the new ones in `fresh` and counts them."""
    count = 0
    for i in range(len(rows)):
        fresh[i] = insert_row(table, rows[i], rows.shape[1])
        count += fresh[i]
    return count
