"""Compiled intersection of two ascending lists."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from numba import njit, types

from tuplet.graph.kernels import OPTIONS, READ_INTS, gallop

INTS = types.Array(types.int32, 1, "C")


@njit(types.int64(READ_INTS, READ_INTS, INTS), **OPTIONS)
def common_places(short, long, found):
    """Writes where in `short` the values stand that `long` has, too, until `found` is full; returns their number."""
    count, i, j = 0, 0, 0
    while i < len(short) and j < len(long) and count < len(found):
        if short[i] == long[j]:
            found[count] = i
            count += 1
            i += 1
        elif short[i] < long[j]:
            i = gallop(short, i, len(short), long[j])
        else:
            j = gallop(long, j, len(long), short[i])
    return count
