"""Columns that grow at their end without being copied: file pages and memory side by side in one range of addresses.

Compiled kernels read one plain array. Here its beginning is a mapped file, whose pages stay shared by all processes,
and what was appended lies behind it: pages of another file, or memory. Where the system cannot map the pages of a file
a second time (anywhere but on Linux) the same arrays are made by copying.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Pieces that are files begin and end at multiples of so many elements: no page, whatever its size, is of two pieces.
STEP = 1 << 16
# Data of a mapped `.npy` file begin here; so does every column, and the pages of a file keep their alignment.
HEADER = 128

_REMAP = sys.platform == "linux"
_FIXED_AND_MOVING = 3  # MREMAP_FIXED | MREMAP_MAYMOVE
_NO_RESERVE = 0x4000 if _REMAP else 0  # MAP_NORESERVE: room is a promise, not memory

Columns = Mapping[str, NDArray[Any]]


def place_after(length: int) -> int:
    """Where a piece begins that follows so many elements.

    >>> place_after(1), place_after(65536)
    (131072, 131072)
    """
    return (-(-length // STEP) + 1) * STEP


class Segments:
    """Columns of parallel arrays, with room behind them.

    >>> grown = Segments({"a": np.arange(3), "b": np.ones(3, np.float32)}, room=10)
    >>> at = grown.append({"a": np.array([7, 8]), "b": np.zeros(2, np.float32)})
    >>> at, grown.columns["a"][:5].tolist()
    (3, [0, 1, 2, 7, 8])
    """

    def __init__(self, base: Columns, room: int) -> None:
        self._turn = threading.Lock()  # threads may make two states in one space, each with pieces of its own
        self._grows = False  # the last piece is memory, and what follows may be one piece with it
        self._fill([(0, base)], place_after(_length(base)) + place_after(room))

    def _fill(self, pieces: Sequence[tuple[int, Columns]], size: int) -> None:
        """Take a new range of addresses with these pieces at their places."""
        writable = {name: _column(array.dtype, size) for name, array in pieces[0][1].items()}
        columns = {name: _read_only(array) for name, array in writable.items()}
        here = [_put(writable, columns, at, piece) for at, piece in pieces]
        # Others may look at the columns any time: they are shown when they are whole.
        self._pieces, self._writable, self._size, self.columns = here, writable, size, columns

    def append(self, piece: Columns, apart: bool = False) -> int:
        """Put a piece behind the last one and say where it begins; `apart`: at the place that a file would have.

        What was there before stays as it is, so older readers may go on. Where there was no room `columns` are others.
        """
        with self._turn:
            at, last = self._pieces[-1]
            end = at + _length(last)
            alone = apart or _has_files(piece)
            if alone or _has_files(last):
                end = place_after(end)
            stop = end + _length(piece)
            if stop > self._size:
                self._fill(self._pieces, 2 * place_after(stop))
            put = _put(self._writable, self.columns, end, piece)
            if self._grows and not alone:  # a server sees thousands of small ones
                self._pieces[-1] = at, {name: self.columns[name][at:stop] for name in piece}
            else:
                self._pieces.append(put)
            self._grows = not alone
            return end

    def beyond(self, pieces: int) -> int:
        """How many elements lie behind the first pieces."""
        (at, one), (end, last) = self._pieces[pieces - 1], self._pieces[-1]
        return end + _length(last) - at - _length(one)

    def fresh(self, pieces: int, room: int) -> Segments:
        """The first pieces alone, at the same places, in a space of their own."""
        made = Segments(self._pieces[0][1], room)
        at, last = self._pieces[pieces - 1]
        made._fill(self._pieces[:pieces], place_after(at + _length(last)) + place_after(room))
        return made


def _put(
    writable: dict[str, NDArray[Any]], columns: dict[str, NDArray[Any]], at: int, piece: Columns
) -> tuple[int, Columns]:
    """Let a piece lie at a place; returns where it is to be had from when there must be more room.

    What is a file is mapped again then; what is memory is here and nowhere else.
    """
    for name, array in piece.items():
        _place(writable[name], at, array)
    return at, {
        name: array if _is_file(array) else columns[name][at : at + len(array)] for name, array in piece.items()
    }


def _has_files(piece: Columns) -> bool:
    return any(_is_file(array) for array in piece.values())


def _length(columns: Columns) -> int:
    return max((len(array) for array in columns.values()), default=0)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


class _Memory(mmap.mmap):
    """Memory that is no file."""


def _column(dtype: np.dtype[Any], size: int) -> NDArray[Any]:
    """Room for so many elements, zeros that take no memory until they are written; it begins HEADER behind a page."""
    length = HEADER + size * dtype.itemsize
    if _REMAP:
        memory = _Memory(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        return np.frombuffer(memory, dtype=dtype, count=size, offset=HEADER)
    return np.zeros(size, dtype=dtype)


def _place(column: NDArray[Any], at: int, array: NDArray[Any]) -> None:
    """Let `array` be the elements of `column` from `at` on: by mapping its pages, or by copying it."""
    if not len(array):
        return
    if array.nbytes < mmap.PAGESIZE or not _remapped(column, at, array):
        column[at : at + len(array)] = array


def _remapped(column: NDArray[Any], at: int, array: NDArray[Any]) -> bool:
    """Map the pages of a file that `array` shows into the place of the column; False if that cannot be."""
    if not (_REMAP and array.flags.c_contiguous and array.dtype == column.dtype and _is_file(array)):
        return False
    source, target = array.ctypes.data, column.ctypes.data + at * column.itemsize
    inside = source % mmap.PAGESIZE
    if target % mmap.PAGESIZE != inside:
        return False
    length = inside + array.nbytes
    found = _mremap()(source - inside, 0, length, _FIXED_AND_MOVING, target - inside)
    return bool(found == target - inside)


@cache
def _mremap() -> Callable[..., int | None]:
    """The system call that maps the pages of a shared mapping a second time, if told that their old size is 0."""
    call = ctypes.CDLL(None).mremap
    call.restype = ctypes.c_void_p
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    return call


def _is_file(array: NDArray[Any]) -> bool:
    base: Any = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return isinstance(base, mmap.mmap) and not isinstance(base, _Memory)
