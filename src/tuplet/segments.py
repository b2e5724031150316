"""Columns that grow at their end without being copied: file pages and memory side by side in one range of addresses.

Compiled kernels read one plain array. Here its beginning is a mapped file, whose pages stay shared by all processes,
and what was appended lies behind it: pages of another file, or memory. Where the system cannot map the pages of a file
a second time (anywhere but on Linux) the same arrays are made by copying.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Mapping
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
        self._pieces: list[tuple[int, Columns]] = []
        self._dtypes = {name: array.dtype for name, array in base.items()}
        self._reserve(place_after(_length(base)) + place_after(room))
        self._put(0, base)

    def _reserve(self, size: int) -> None:
        self._size = size
        self._writable = {name: _column(dtype, size) for name, dtype in self._dtypes.items()}
        self.columns = {name: _read_only(array) for name, array in self._writable.items()}

    def _put(self, at: int, piece: Columns) -> None:
        for name, array in piece.items():
            _place(self._writable[name], at, array)
        self._used = at + _length(piece)
        self._mapped = any(_is_file(array) for array in piece.values())
        # What is a file is mapped again when there must be more room; what is memory is here and nowhere else.
        here = {
            name: array if _is_file(array) else self.columns[name][at : at + len(array)]
            for name, array in piece.items()
        }
        self._pieces.append((at, here))

    def append(self, piece: Columns, apart: bool = False) -> int:
        """Put a piece behind the last one and say where it begins; `apart`: at the place that a file would have.

        What was there before stays as it is, so older readers may go on. Where there was no room `columns` are others.
        """
        apart = apart or self._mapped or any(_is_file(array) for array in piece.values())
        at = place_after(self._used) if apart else self._used
        needed = at + _length(piece)
        if needed > self._size:
            pieces, self._pieces = self._pieces, []
            self._reserve(2 * place_after(needed))
            for place, older in pieces:
                self._put(place, older)
        self._put(at, piece)
        return at

    def beyond(self, pieces: int) -> int:
        """How many elements lie behind the first pieces."""
        at, last = self._pieces[pieces - 1]
        return self._used - at - _length(last)

    def fresh(self, pieces: int, room: int) -> Segments:
        """The first pieces alone, at the same places, in a space of their own."""
        first, *others = self._pieces[:pieces]
        made = Segments(first[1], room)
        for _, piece in others:
            made.append(piece, apart=True)
        return made


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
