"""How the C library keeps what was freed: not for long, so that one large search does not make a process large."""

from __future__ import annotations

import asyncio
import ctypes
import sys
from contextlib import suppress

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8  # of mallopt
_OWN_MAPPING = 1 << 20  # bytes of an array that is given back the moment it is freed
_ARENAS = 2  # without a limit every thread has one, and what is freed in it stays in it
_PAUSE = 1.0  # seconds between a large request and the tidying: what it held is free by then


def settle() -> None:
    """Tune glibc malloc to return freed memory; without glibc, nothing."""
    if sys.platform == "linux":
        with suppress(AttributeError, OSError):
            library = ctypes.CDLL(None)
            library.mallopt(_MMAP_THRESHOLD, _OWN_MAPPING)  # fixed: else it grows with what is freed
            library.mallopt(_ARENA_MAX, _ARENAS)


class Tidying:
    """Returns free memory to the system shortly after it was asked to; many requests in that time count once."""

    def __init__(self) -> None:
        self._pending = False

    def soon(self) -> None:
        """Return memory in a moment."""
        if not self._pending and sys.platform == "linux":
            self._pending = True
            asyncio.get_running_loop().call_later(_PAUSE, self._begin)

    def _begin(self) -> None:
        self._pending = False
        asyncio.get_running_loop().run_in_executor(None, give_back)


def give_back() -> None:
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
