"""Numbers of many names at once: a compiled table over the bytes of names (needs numba and pyarrow).

A place of the table holds the number of a name and 32 bits of its hash; a name that is found there is compared byte by
byte, so equal hashes of different names do no harm.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit, types
from numpy.typing import NDArray

from tuplet.graph.kernels import LONGS, OPTIONS, READ_LONGS, inlined
from tuplet.graph.names import Ints, Strings, arrow_bytes

_BYTES = types.Array(types.uint8, 1, "C")
_READ_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_INTS = types.Array(types.int32, 1, "C")
_FREE = -1
_AHEAD = 32  # names that are looked up together


class NameTable:
    """Names with numbers in order of their first appearance.

    >>> table = NameTable()
    >>> table.number(pa.array(["b", "a", "b"])).tolist(), table.find(pa.array(["a", "c"])).tolist(), len(table)
    ([0, 1, 0], [1, -1], 2)
    >>> table.names().to_pylist()
    ['b', 'a']
    """

    def __init__(self) -> None:
        self._blob, self._offsets = np.zeros(1 << 16, np.uint8), np.zeros(1 << 12, np.int64)
        self._places = np.full(1 << 12, _FREE, np.int64)
        self._count = 0

    @staticmethod
    def from_strings(strings: Strings) -> NameTable:
        """The table of distinct names, numbered as they stand."""
        table = NameTable()
        table._blob, table._offsets = _grow(strings.blob, 0), _grow(strings.offsets, 0)
        table._count = len(strings)
        table._rehash()
        return table

    def __len__(self) -> int:
        return self._count

    def find(self, names: pa.Array) -> Ints:
        """The number of each name, -1 where it is unknown."""
        return self._numbers(names, add=False)

    def number(self, names: pa.Array) -> Ints:
        """The same, where unknown names get the next numbers."""
        return self._numbers(names, add=True)

    def _numbers(self, names: pa.Array, add: bool) -> Ints:
        blob, offsets = arrow_bytes(names)
        found, done, more = np.empty(len(names), np.int32), 0, int(offsets[-1] - offsets[0])
        while done < len(names):
            if add and len(self._blob) < int(self._offsets[self._count]) + more:
                self._blob = _grow(self._blob, more)
            if add and len(self._offsets) < self._count + 2:
                self._offsets = _grow(self._offsets, 1 << 12)
            if add and len(self._places) < 2 * (self._count + 1):
                self._rehash()
            table, state = (self._places, self._blob, self._offsets), np.array([self._count, done, 0], np.int64)
            _number(*table, blob, offsets, found, state, np.empty(_AHEAD, np.int64), add)
            self._count, done = state[:2].tolist()
        return found

    def names(self) -> pa.Array:
        offsets = self._offsets[: self._count + 1].copy()
        blob = self._blob[: offsets[-1]].copy()
        return pa.LargeStringArray.from_buffers(self._count, pa.py_buffer(offsets), pa.py_buffer(blob))

    def _rehash(self) -> None:
        size = 1 << max(12, (4 * (self._count + 1) - 1).bit_length())
        self._places = np.full(size, _FREE, np.int64)
        _insert(self._places, self._blob, self._offsets, self._count)


def _grow(array: NDArray[Any], by: int) -> NDArray[Any]:
    fresh = np.zeros(max(16, 2 * len(array) if by else len(array)) + by, array.dtype)
    fresh[: len(array)] = array
    return fresh


# --- kernels: a place is number << 32 | upper half of the hash, or _FREE


@inlined
def _hash(blob, start, stop):
    mixed = np.uint64(0xCBF29CE484222325) ^ np.uint64(stop - start)
    at = start
    while at < stop:
        word = np.uint64(0)
        for shift in range(min(8, stop - at)):
            word |= np.uint64(blob[at + shift]) << np.uint64(8 * shift)
        mixed = (mixed ^ word) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        at += 8
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return mixed ^ (mixed >> np.uint64(32))


@inlined
def _same(blob, start, stop, others, begin, end):
    if stop - start != end - begin:
        return False
    for i in range(stop - start):  # noqa: SIM110 (compiled: a loop is what it becomes)
        if blob[start + i] != others[begin + i]:
            return False
    return True


@inlined
def _place(places, blob, offsets, hashed, others, begin, end):
    """Where a name is, or `~place` of the free place where it belongs."""
    mask = np.int64(len(places) - 1)
    tag = np.int64(hashed >> np.uint64(32))
    at = np.int64(hashed & np.uint64(mask))
    while places[at] != -1:
        if (places[at] & 0xFFFFFFFF) == tag:
            number = places[at] >> 32
            if _same(blob, offsets[number], offsets[number + 1], others, begin, end):
                return at
        at = (at + 1) & mask
    return ~at


@inlined
def _look_ahead(places, blob, offsets, others, ends, first, last, hashes):
    """Hash the next names and read what they will be compared with; returns a number that nobody needs.

    A large table lies in no cache. Reads that do not depend on each other wait for memory together, not in turn.
    """
    mask, seen = np.int64(len(places) - 1), np.int64(0)
    for i in range(first, last):
        hashes[i - first] = np.int64(_hash(others, ends[i], ends[i + 1]))
        seen += places[hashes[i - first] & mask]
    for i in range(last - first):
        seen += offsets[max(np.int64(0), places[hashes[i] & mask] >> 32)]
    for i in range(last - first):
        seen += blob[offsets[max(np.int64(0), places[hashes[i] & mask] >> 32)]]
    return seen


@njit(types.void(LONGS, _BYTES, LONGS, _READ_BYTES, READ_LONGS, _INTS, LONGS, LONGS, types.boolean), **OPTIONS)
def _number(places, blob, offsets, others, ends, found, state, hashes, add):
    """Finds names from `state[1]` on; with `add`, numbers new ones until there is no more room; `state[0]` counts."""
    count, first = state[0], state[1]
    while first < len(found):
        last = min(first + len(hashes), len(found))
        state[2] += _look_ahead(places, blob, offsets, others, ends, first, last, hashes)
        for i in range(first, last):
            begin, end = ends[i], ends[i + 1]
            if i > 0 and _same(others, ends[i - 1], begin, others, begin, end):  # names often come in runs
                found[i] = found[i - 1]
                continue
            hashed = np.uint64(hashes[i - first])
            at = _place(places, blob, offsets, hashed, others, begin, end)
            if at >= 0:
                found[i] = places[at] >> 32
                continue
            if not add:
                found[i] = -1
                continue
            if count + 2 > len(offsets) or 2 * (count + 1) > len(places):
                state[0], state[1] = count, i
                return
            start = offsets[count]
            for j in range(end - begin):
                blob[start + j] = others[begin + j]
            offsets[count + 1] = start + end - begin
            places[~at] = (np.int64(count) << 32) | np.int64(hashed >> np.uint64(32))
            found[i] = count
            count += 1
        first = last
    state[0], state[1] = count, len(found)


@njit(types.void(LONGS, _BYTES, LONGS, types.int64), **OPTIONS)
def _insert(places, blob, offsets, count):
    mask = np.int64(len(places) - 1)
    for number in range(count):
        hashed = _hash(blob, offsets[number], offsets[number + 1])
        at = np.int64(hashed & np.uint64(mask))
        while places[at] != -1:
            at = (at + 1) & mask
        places[at] = (np.int64(number) << 32) | np.int64(hashed >> np.uint64(32))
