"""Numbers that several processes count together: each in a file of its own, any of them reads all.

Counting is an addition in mapped memory, so it costs next to nothing, and what a process has counted outlives it.
Beside the numbers lies a file with a line for each: what it counts, as JSON.
"""

from __future__ import annotations

import json
import mmap
import os
import threading
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

Labels: TypeAlias = tuple[tuple[str, str], ...]
MOST = 1 << 13  # numbers of one process
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
_NUMBERS, _NAMES = ".numbers", ".names"


class Counters:
    """The numbers of this process; without a folder nobody else reads them.

    >>> counters = Counters()
    >>> asked, took = counters.number("asked", store="world"), counters.times("took")
    >>> asked.add(2)
    >>> took.observe(0.3)
    >>> [(name, dict(labels), value) for name, labels, value in counters.samples() if value]
    [('asked', {'store': 'world'}, 2.0), ('took', {'le': '0.5'}, 1.0), ('took_sum', {}, 0.3)]
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._slots: dict[tuple[str, Labels], int] = {}
        self._names: int | None = None
        if folder is None:
            self._values = memoryview(bytearray(8 * MOST)).cast("d")
            return
        # A process that has the number of one that died goes on with what that one counted.
        stem = folder / str(os.getpid())
        file = os.open(stem.with_suffix(_NUMBERS), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(file, 8 * MOST)
        self._values = memoryview(mmap.mmap(file, 8 * MOST)).cast("d")
        os.close(file)
        names = stem.with_suffix(_NAMES)
        self._names = os.open(names, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._slots = {key: slot for slot, key in enumerate(_read_names(names))}

    def number(self, name: str, **labels: str) -> Number:
        """The number of a name and labels, 0 in the beginning."""
        return Number(self._values, self._slot(name, tuple(labels.items())), self._lock)

    def times(self, name: str, **labels: str) -> Times:
        """How often something took how long."""
        own = tuple(labels.items())
        slots = [self._slot(name, (*own, ("le", str(edge)))) for edge in (*BUCKETS, "+Inf")]
        return Times(self._values, slots, self._slot(f"{name}_sum", own), self._lock)

    def _slot(self, name: str, labels: Labels) -> int:
        with self._lock:
            key = (name, labels)
            slot = self._slots.get(key)
            if slot is None:
                slot = len(self._slots)
                if slot >= MOST:
                    return MOST - 1  # more than there can be; the last one is what is lost
                if self._names is not None:
                    os.write(self._names, json.dumps([name, labels]).encode() + b"\n")
                self._slots[key] = slot
            return slot

    def samples(self) -> Iterator[tuple[str, Labels, float]]:
        """All numbers of this process."""
        for (name, labels), slot in list(self._slots.items()):
            yield name, labels, self._values[slot]


class Number:
    """One number."""

    __slots__ = ("_lock", "_slot", "_values")

    def __init__(self, values: memoryview[float], slot: int, lock: threading.Lock) -> None:
        self._values, self._slot, self._lock = values, slot, lock

    def add(self, amount: float = 1.0) -> None:
        """Count, or count back."""
        with self._lock:
            self._values[self._slot] += amount

    def set(self, value: float) -> None:
        """Say what it is now."""
        self._values[self._slot] = value


class Times:
    """Durations in buckets; each is counted in the first bucket that it fits."""

    __slots__ = ("_lock", "_slots", "_sum", "_values")

    def __init__(self, values: memoryview[float], slots: list[int], total: int, lock: threading.Lock) -> None:
        self._values, self._slots, self._sum, self._lock = values, slots, total, lock

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        slot = self._slots[bisect_left(BUCKETS, seconds)]
        with self._lock:
            self._values[slot] += 1.0
            self._values[self._sum] += seconds


def processes(folder: Path) -> dict[int, bool]:
    """The processes that have counted in a folder; whether they live."""
    found: dict[int, bool] = {}
    for file in folder.glob(f"*{_NAMES}"):
        found[int(file.stem)] = True
        try:
            os.kill(int(file.stem), 0)
        except ProcessLookupError:
            found[int(file.stem)] = False
        except OSError:  # it lives, and belongs to somebody else
            continue
    return found


def samples_of(folder: Path, process: int) -> Iterator[tuple[str, Labels, float]]:
    """What a process has counted."""
    stem = folder / str(process)
    with suppress(FileNotFoundError):
        names = _read_names(stem.with_suffix(_NAMES))
        values = memoryview(stem.with_suffix(_NUMBERS).read_bytes()).cast("d")
        for (name, labels), value in zip(names, values, strict=False):
            yield name, labels, value


def _read_names(file: Path) -> list[tuple[str, Labels]]:
    """Name and labels of each number; the last line may be half written."""
    complete = file.read_bytes().rpartition(b"\n")[0].splitlines()
    read = (json.loads(line) for line in complete)
    return [(name, tuple((key, value) for key, value in labels)) for name, labels in read]
