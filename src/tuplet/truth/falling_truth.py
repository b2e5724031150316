"""The order of entries within their rows by falling truth, from scratch or after a change."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.adjacency import are_within
from tuplet.graph.versions import RowEdit

Longs = NDArray[np.int64]


def falling(row: Longs, truth: NDArray[np.floating], nearly: Longs | None = None) -> Longs:
    """The places of entries in order of row, falling truth, place; `row` ascends.

    `nearly` is an order that is right but for few of them: sorting then costs one walk along the entries.

    >>> falling(np.array([0, 0, 1, 1]), np.array([0.5, 1.0, 0.25, 0.25], np.float32)).tolist()
    [1, 0, 2, 3]
    """
    if truth.dtype != np.float32:
        return np.lexsort((-truth, row))  # stable: equals stay in order of their places
    if nearly is None:
        return np.argsort(_packed(row, truth), kind="stable")
    key = _packed(row[nearly], truth[nearly])
    sort = np.argsort(key, kind="stable")
    order, key = nearly[sort], key[sort]
    plateau = np.zeros(len(key), dtype=np.int64)
    np.cumsum(key[1:] != key[:-1], out=plateau[1:])
    return order[np.argsort((plateau << 32) | order, kind="stable")]


def _packed(row: Longs, truth: NDArray[np.float32]) -> Longs:
    """Row and falling truth as one number: a truth in [0, 1] is ordered as its bits are."""
    key: Longs = row << 32
    key |= 0x7FFFFFFF - truth.view(np.int32)
    return key


def truth_columns(
    edit: RowEdit, by_truth: NDArray[np.int32]
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """What follows from the entries of touched rows: `by_truth` and `row_best`."""
    truth, row, old = edit.columns["truth"], edit.row, edit.old_entries
    stays = edit.origin < len(old)
    place = np.full(len(old), -1, dtype=np.int64)
    place[edit.origin[stays]] = np.flatnonzero(stays)
    begin = np.repeat(np.cumsum(edit.old_lengths) - edit.old_lengths, edit.old_lengths)
    nearly = None
    before = begin + by_truth[old]
    # Rows are copied unverified: what is no order is not used here, and named when the relation is asked for.
    if _is_permutation(before):
        known = place[before]
        nearly = np.concatenate([known[known >= 0], np.flatnonzero(~stays)])
    order = falling(row, truth, nearly)
    starts = np.cumsum(edit.lengths) - edit.lengths
    best = np.zeros(len(edit.lengths), dtype=truth.dtype)
    filled = edit.lengths > 0
    best[filled] = truth[order[starts[filled]]]
    return {"by_truth": (order - starts[row]).astype(np.int32)}, {"row_best": best}


def _is_permutation(places: NDArray[np.integer]) -> bool:
    """Whether each place from 0 on is there once."""
    met = np.zeros(len(places), dtype=bool)
    if are_within(places, len(places)):
        met[places] = True
    return bool(met.all())
