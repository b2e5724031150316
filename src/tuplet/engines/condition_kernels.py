"""Compiled look-ups of conditions, in arrays that are given by their addresses: see `condition_tests`."""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def"
from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from tuplet.engines.condition_tests import (
    AT_LEAST,
    AT_MOST,
    COUNT,
    EQUAL,
    HIGH,
    KEYS,
    KIND,
    LESS,
    LOW,
    MORE,
    OTHER_COUNT,
    OTHER_KEYS,
    OTHER_RANKS,
    OTHER_WIDE,
    OUTSIDE,
    PAIRED,
    RANKS,
    WIDE,
    WITHIN,
)
from tuplet.graph.kernels import compiled, inlined

TESTS = types.Array(types.int64, 2, "C")


def _reader(bits: int, plain: Any) -> Any:
    """Reads the whole number at a place of an array that is given by its address."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return lambda address, place: plain.from_address(address + bits // 8 * place).value

    @intrinsic
    def read(typing_context, address, place):
        def code(context, builder, signature, arguments):
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = builder.load(builder.gep(pointer, [arguments[1]]))
            return value if bits == 64 else builder.sext(value, ir.IntType(64))

        return types.int64(types.int64, types.int64), code

    return read


_int_at = _reader(32, ctypes.c_int32)
_long_at = _reader(64, ctypes.c_int64)


@inlined
def key_at(keys, wide, place):
    """The key at a place."""
    return _long_at(keys, place) if wide else _int_at(keys, place)


@inlined
def first_of(keys, count, wide, key):
    """The first place of a key among ascending ones, or where it would be."""
    # as a rule entities have one value each: then the key is its own place
    if key < count and key_at(keys, wide, key) == key and (key == 0 or key_at(keys, wide, key - 1) < key):
        return np.int64(key)
    low, high = np.int64(0), np.int64(count)
    while low < high:
        middle = (low + high) >> 1
        if key_at(keys, wide, middle) < key:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def holds(tests, test, x, y):
    """Whether a test lets through entity x of its left variable and y of its right one."""
    kind = tests[test, KIND]
    keys, count, wide = tests[test, KEYS], tests[test, COUNT], tests[test, WIDE]
    key = np.int64(x)
    if kind == PAIRED:
        key = (key << 32) + y
    at = first_of(keys, count, wide, key)
    if kind == OUTSIDE:
        return not (at < count and key_at(keys, wide, at) == key)
    ranks = tests[test, RANKS]
    if kind in (WITHIN, PAIRED):
        while at < count and key_at(keys, wide, at) == key:
            rank = _int_at(ranks, at)
            if tests[test, LOW] <= rank < tests[test, HIGH]:
                return True
            at += 1
        return False
    others, size, broad = tests[test, OTHER_KEYS], tests[test, OTHER_COUNT], tests[test, OTHER_WIDE]
    start = first_of(others, size, broad, np.int64(y))
    while at < count and key_at(keys, wide, at) == key:
        rank = _int_at(ranks, at)
        other = start
        while other < size and key_at(others, broad, other) == y:
            if compares(kind, rank, _int_at(tests[test, OTHER_RANKS], other)):
                return True
            other += 1
        at += 1
    return False


@inlined
def compares(kind, rank, other):
    """Whether two ranks compare as a test says."""
    if kind == LESS:
        return rank < other
    if kind == AT_MOST:
        return rank <= other
    if kind == MORE:
        return rank > other
    if kind == AT_LEAST:
        return rank >= other
    return (rank == other) == (kind == EQUAL)
