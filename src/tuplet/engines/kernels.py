"""Compiled code that searches share: how truths combine, and look-ups of conditions.

Conditions lie in arrays that are given by their addresses: see `condition_tests`. Searches call `holds` by its address,
too: inlined where conditions are looked at, it would make them slow to compile.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import cfunc, types
from numba.extending import intrinsic

from tuplet.engines.condition_tests import (
    AT_LEAST,
    AT_MOST,
    CODE,
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
    Longs,
)
from tuplet.graph.kernels import compiled, inlined
from tuplet.query.logic import GODEL, GRID, PRODUCT

_PRODUCT, _GODEL = PRODUCT.code, GODEL.code
_INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"  # for debugging, see `graph.kernels`
_LONG = ir.IntType(64)


@inlined
def conj(a, b, logic):
    """The conjunction of a logic, by its code."""
    if logic == _PRODUCT:
        return a * b
    return min(a, b) if logic == _GODEL else bounded_difference(a, b)


@inlined
def residuum(a, b, logic):
    """The least truth x for which `a and x` is b, which is not above a."""
    if logic == _GODEL or a <= 0.0:
        return b
    return b / a if logic == _PRODUCT else 1.0 - a + b


@compiled
def bounded_difference(a, b):
    """The conjunction of Łukasiewicz."""
    return max(0.0, (np.floor(a * GRID) + np.floor(b * GRID)) / GRID - 1.0)


def _reader(bits: int, plain: Any) -> Any:
    """Reads the whole number at a place of an array that is given by its address."""
    if _INTERPRETED:
        return lambda address, place: plain.from_address(int(address) + bits // 8 * int(place)).value

    @intrinsic
    def read(typing_context, address, place):
        def code(context, builder, signature, arguments):
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = builder.load(builder.gep(pointer, [arguments[1]]))
            return value if bits == 64 else builder.sext(value, _LONG)

        return types.int64(types.int64, types.int64), code

    return read


int_at = _reader(32, ctypes.c_int32)
long_at = _reader(64, ctypes.c_int64)


@inlined
def key_at(keys, wide, place):
    """The key at a place."""
    return long_at(keys, place) if wide else int_at(keys, place)


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


def holds(test, x, y):
    """1 if the test at an address lets through entity x of its left variable and y of its right one, else 0."""
    kind = long_at(test, KIND)
    keys, count, wide, ranks = long_at(test, KEYS), long_at(test, COUNT), long_at(test, WIDE), long_at(test, RANKS)
    key = (x << 32) + y if kind == PAIRED else x
    at = first_of(keys, count, wide, key)
    if kind == OUTSIDE:
        return 0 if at < count and key_at(keys, wide, at) == key else 1
    if kind in (WITHIN, PAIRED):
        low, high = long_at(test, LOW), long_at(test, HIGH)
        while at < count and key_at(keys, wide, at) == key:
            if low <= int_at(ranks, at) < high:
                return 1
            at += 1
        return 0
    others, size, broad = long_at(test, OTHER_KEYS), long_at(test, OTHER_COUNT), long_at(test, OTHER_WIDE)
    start, beside = first_of(others, size, broad, y), long_at(test, OTHER_RANKS)
    while at < count and key_at(keys, wide, at) == key:
        other = start
        while other < size and key_at(others, broad, other) == y:
            if compares(kind, int_at(ranks, at), int_at(beside, other)):
                return 1
            other += 1
        at += 1
    return 0


if _INTERPRETED:
    call_test = holds

    def ready(tests: Longs) -> None:
        """Makes tests callable."""
else:
    _compiled = cfunc(types.int64(types.int64, types.int64, types.int64), cache=True)(holds)
    _ADDRESS = int(_compiled.address or 0)

    @intrinsic
    def call_test(typing_context, test, x, y):
        """Calls the code whose address a test begins with."""

        def code(context, builder, signature, arguments):
            address = builder.load(builder.inttoptr(arguments[0], _LONG.as_pointer()))
            kind = ir.FunctionType(_LONG, [_LONG, _LONG, _LONG])
            return builder.call(builder.inttoptr(address, kind.as_pointer()), arguments)

        return types.int64(types.int64, types.int64, types.int64), code

    def ready(tests: Longs) -> None:
        """Makes tests callable: an address is of this process alone, so it is never compiled in."""
        tests[:, CODE] = _ADDRESS
