"""Tuples of equal truth in the order of their names."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def name_order(tuples: NDArray[np.int32], rank: NDArray[np.int32], wanted: int | None = None) -> NDArray[np.int64]:
    """The places of the first `wanted` tuples [n, k] in the order of names, column by column; `rank` is that of ids.

    >>> name_order(np.array([[0, 1], [2, 0], [2, 2]], dtype=np.int32), np.array([2, 1, 0], dtype=np.int32), 2).tolist()
    [2, 1]
    """
    n, width = tuples.shape
    wanted = n if wanted is None else min(wanted, n)
    bits = max(1, (len(rank) - 1).bit_length())
    if width * bits > 63:
        return np.lexsort(rank[tuples].T[::-1])[:wanted]
    # One number per tuple that sorts like the tuple: ten times faster than its columns.
    key = np.zeros(n, dtype=np.int64)
    for column in tuples.T:
        key <<= bits
        key |= rank[column]
    if wanted == n:
        return np.argsort(key)
    few = np.argpartition(key, wanted)[:wanted]
    return few[np.argsort(key[few])]
