"""The memory of a search: made for a part, enlarged when an array is full."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.exact.kernels import rows as kernel
from tuplet.engines.exact.kernels.rows import State
from tuplet.engines.exact.part import Part

MOST_NODES = 1 << 26
NODES, MEMO, SEEN = 1024, 2048, 1024  # places in the first arrays
_SEARCHED = ("nodes", "worth", "heap_bound", "heap_item")  # what grows with the nodes

# Memory of finished searches by size; most queries are small and alike, and clearing is cheaper than making.
_spare: dict[tuple[int, ...], list[tuple[NDArray[np.int64], State]]] = {}


def new_state(part: Part) -> State:
    """Empty memory for a search: used again, or made."""
    size = len(part.members), len(part.program.levels), len(part.program.entries), part.free
    with suppress(KeyError, IndexError):
        zeros, state = _spare[size].pop()
        zeros.fill(0)
        state.floor[0] = 0.0
        return state._replace(select=part.select, leading=part.leading)
    return _made(part)[1]


def release(part: Part, state: State) -> None:
    """Gives back the memory of a search that is over, unless it has grown."""
    size = len(part.members), len(part.program.levels), len(part.program.entries), part.free
    if len(state.nodes) == NODES and len(state.memo_key) == MEMO and len(state.seen) == SEEN:
        kept = _spare.setdefault(size, [])
        if len(kept) < 4:
            kept.append((state.count.base, state))


def _made(part: Part) -> tuple[NDArray[np.int64], State]:
    # Arrays share three blocks: making an array costs more than filling a small one.
    variables, levels = len(part.members), max(1, len(part.program.levels))
    checks, depth = len(part.program.entries) + 1, len(part.members) + 2
    zeros, (count, memo_key, seen, assign, witness, span, level, level_span, cut) = _pieces(
        np.zeros, np.int64, kernel.COUNTS, MEMO, SEEN, variables, variables, 2 * checks, 4 * levels,
        2 * levels * checks, 1 + part.free,
    )  # fmt: skip
    _, (node, heap_item, frame, frame_span) = _pieces(
        np.empty, np.int64, 8 * NODES, 2 * NODES, 8 * depth, 2 * depth * checks
    )
    _, (worth, heap_bound, memo_value, frame_value, level_value, floor) = _pieces(
        np.empty, np.float64, 4 * NODES, 2 * NODES, MEMO, 2 * depth, 2 * levels + 2, 1
    )
    floor[0] = 0.0
    return zeros, State(
        count=count,
        nodes=node.reshape(NODES, 8),
        worth=worth.reshape(NODES, 4),
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


def _pieces(make: Callable[..., NDArray[Any]], kind: type, *sizes: int) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """A block, and arrays of the given sizes in it, one after another."""
    block, found, at = make(sum(sizes), kind), [], 0
    for size in sizes:
        found.append(block[at : at + size])
        at += size
    return block, found


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
    return state._replace(**{name: longer(getattr(state, name)) for name in _SEARCHED})


def growth(state: State, reason: int) -> int:
    """Bytes of the arrays that `enlarged` makes while the old ones are there."""
    if reason == kernel.FULL_MEMO:
        return 4 * (int(state.memo_key.nbytes) + int(state.memo_value.nbytes))
    if reason == kernel.FULL_SEEN:
        return 8 * int(state.seen.nbytes)
    return 2 * sum(int(getattr(state, name).nbytes) for name in _SEARCHED)


def forget(state: State) -> None:
    """Empties the memo: what it held is computed again where it is needed."""
    state.memo_key.fill(0)
    state.count[kernel.MEMO] = 0


def longer(array: NDArray[Any], more: int | None = None) -> NDArray[Any]:
    """The array with room for so many rows more, or for as many again."""
    grown = np.empty((len(array) + (len(array) if more is None else more), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown


def size_of(state: State) -> int:
    """Bytes of a state."""
    return sum(array.nbytes for array in state)
