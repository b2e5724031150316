"""What a search in torch holds: its tensors are counted as they are made and as they go, and the limit is kept.

Of the arrays that one operation makes of others none is much larger than those, so it is enough to look after each
operation, and before those that join all they are given.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tuplet.query.limits import Brake, Deadline, Limits, OutOfMemory

_SMALL = 1 << 16  # bytes of a tensor that is not counted: a search has some dozens of them at once
_STEP = 1 << 20  # bytes by which what is held changes before others are told
_JOINS = (torch.cat, torch.stack)


class TensorMemory(TorchFunctionMode):
    """The tensors of one search; `OutOfMemory` where they would be more than it may hold."""

    def __init__(self, most: int, brake: Brake) -> None:
        super().__init__()
        self._most, self._brake = most, brake
        self._told = 0
        self._sharing: dict[int, int] = {}  # by address: how many tensors look at the same bytes
        self.held = 0

    @property
    def left(self) -> int:
        """The bytes that it may still hold."""
        return max(0, self._most - self.held)

    def hold(self, size: int) -> None:
        """Room for something that is no tensor and stays as long as the search does."""
        self._check(size)
        self.held += size

    def _check(self, more: int) -> None:
        size = self.held + more
        if size > self._most:
            raise OutOfMemory
        if abs(size - self._told) >= _STEP:
            self._told = size
            if not self._brake.may_hold(size):
                raise OutOfMemory

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _JOINS:
            self._check(sum(part.nbytes for part in args[0]))
        found = func(*args, **(kwargs or {}))
        for one in found if isinstance(found, tuple | list) else (found,):
            if isinstance(one, torch.Tensor) and one.nbytes >= _SMALL:
                self._count(one)
        return found

    def _count(self, tensor: torch.Tensor) -> None:
        stored = tensor.untyped_storage()
        place, size = stored.data_ptr(), stored.nbytes()
        sharing = self._sharing.get(place, 0)
        self._sharing[place] = sharing + 1
        if not sharing:
            self.held += size
        weakref.finalize(tensor, self._release, place, size).atexit = False
        self._check(0)

    def _release(self, place: int, size: int) -> None:
        self._sharing[place] -= 1
        if not self._sharing[place]:
            del self._sharing[place]
            self.held -= size


_COUNTED: ContextVar[TensorMemory | None] = ContextVar("counted", default=None)


@contextmanager
def counted(limits: Limits, deadline: Deadline) -> Iterator[None]:
    """What is done in here holds no more than the limits say, or ends with `OutOfMemory`."""
    if limits.memory is None or _COUNTED.get() is not None:
        yield
        return
    memory = TensorMemory(limits.memory, deadline.brake)
    before = _COUNTED.set(memory)
    try:
        with memory:
            yield
    finally:
        _COUNTED.reset(before)


def room_left() -> int | None:
    """The bytes that the search at hand may still hold; None where nobody counts."""
    memory = _COUNTED.get()
    return None if memory is None else memory.left


def make_room(size: int) -> None:
    """For so many bytes that are no tensor: `OutOfMemory` where the search at hand may not hold them, too."""
    memory = _COUNTED.get()
    if memory is not None:
        memory.hold(size)
