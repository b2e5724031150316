"""The memory of a search: made for a part, enlarged when an array is full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.exact.kernels import rows as kernel
from tuplet.engines.exact.kernels.rows import State
from tuplet.engines.exact.part import Part

MOST_NODES = 1 << 26


def new_state(part: Part) -> State:
    """Empty memory for a search. Arrays share three blocks: making an array costs more than filling a small one."""
    variables, levels = len(part.members), max(1, len(part.program.levels))
    checks, depth, nodes = len(part.program.entries) + 1, len(part.members) + 2, 1024
    count, memo_key, seen, assign, witness, span, level, level_span, cut = _pieces(
        np.zeros, np.int64, 9, 2048, 1024, variables, variables, 2 * checks, 4 * levels, 2 * levels * checks,
        1 + part.free,
    )  # fmt: skip
    node, heap_item, frame, frame_span = _pieces(
        np.empty, np.int64, 8 * nodes, 2 * nodes, 8 * depth, 2 * depth * checks
    )
    worth, heap_bound, memo_value, frame_value, level_value, floor = _pieces(
        np.empty, np.float64, 4 * nodes, 2 * nodes, 2048, 2 * depth, 2 * levels + 2, 1
    )
    floor[0] = 0.0
    return State(
        count=count,
        nodes=node.reshape(nodes, 8),
        worth=worth.reshape(nodes, 4),
        heap_bound=heap_bound,
        heap_item=heap_item,
        memo_key=memo_key,
        memo_value=memo_value,
        seen=seen,
        assign=assign,
        witness=witness,
        span=span.reshape(checks, 2),
        frame=frame.reshape(depth, 8),
        frame_value=frame_value.reshape(depth, 2),
        frame_span=frame_span.reshape(depth, checks, 2),
        level=level.reshape(levels, 4),
        level_value=level_value.reshape(levels + 1, 2),
        level_span=level_span.reshape(levels, checks, 2),
        floor=floor,
        cut=cut,
        select=part.select,
        leading=part.leading,
    )


def _pieces(make: Callable[..., NDArray[Any]], kind: type, *sizes: int) -> list[NDArray[Any]]:
    """Arrays of the given sizes, one after another in one block."""
    block, found, at = make(sum(sizes), kind), [], 0
    for size in sizes:
        found.append(block[at : at + size])
        at += size
    return found


def enlarged(state: State, reason: int) -> State:
    """The state with twice (memo: four times) the room that ran out."""
    if reason == kernel.FULL_MEMO:
        size = 4 * len(state.memo_key)
        keys, values = np.zeros(size, dtype=np.int64), np.empty(size)
        kernel.rehash(state.memo_key, state.memo_value, keys, values)
        return state._replace(memo_key=keys, memo_value=values)
    if reason == kernel.FULL_SEEN:
        keys = np.zeros(4 * len(state.seen), dtype=np.int64)
        kernel.rehash(state.seen, state.seen, keys, np.empty(len(keys), dtype=np.int64))
        return state._replace(seen=keys)
    names = ("nodes", "worth", "heap_bound", "heap_item")
    return state._replace(**{name: longer(getattr(state, name)) for name in names})


def longer(array: NDArray[Any]) -> NDArray[Any]:
    """The array with room for as many rows again."""
    grown = np.empty((2 * len(array), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown


def size_of(state: State) -> int:
    """Bytes of a state."""
    return sum(array.nbytes for array in state)
