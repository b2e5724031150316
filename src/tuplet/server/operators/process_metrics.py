"""What the system knows of the server's processes: memory, processor time, files, threads. Linux only."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tuplet._version import __version__
from tuplet.server.operators.counters import Labels

PROC = Path("/proc")


@dataclass(frozen=True)
class ProcessState:
    """One process as /proc shows it.

    >>> import os, sys
    >>> sys.platform != "linux" or ProcessState.of(os.getpid()).memory > 1_000_000
    True
    """

    memory: int  # resident bytes, of mapped stores, too
    cpu: float  # seconds
    started: float  # seconds since 1970
    threads: int
    files: int
    most_files: int

    @staticmethod
    def of(process: int) -> ProcessState:
        """The state of a process that this user may look at; OSError if it is gone."""
        folder = PROC / str(process)
        # the name of the program is in brackets and may hold anything, brackets too
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        tick = os.sysconf("SC_CLK_TCK")
        most = next(line for line in (folder / "limits").read_text().splitlines() if line.startswith("Max open files"))
        return ProcessState(
            memory=int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
            cpu=(int(fields[11]) + int(fields[12])) / tick,
            started=_boot() + int(fields[19]) / tick,
            threads=int(fields[17]),
            files=len(os.listdir(folder / "fd")),
            most_files=int(most.split()[3].replace("unlimited", "-1")),
        )


@cache
def _boot() -> int:
    lines = (PROC / "stat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("btime"))


def build_info() -> tuple[str, Labels, float]:
    """What program runs."""
    return "tuplet_build_info", (("version", __version__), ("python", platform.python_version())), 1.0


def process_samples(workers: Iterable[int], supervisor: int | None = None) -> Iterator[tuple[str, Labels, float]]:
    """One sample of each kind for each process; of one that is gone, or on a system without /proc, none."""
    roles = [("worker", process) for process in workers]
    if supervisor is not None:
        roles.append(("supervisor", supervisor))
    for role, process in roles:
        with suppress(OSError):
            state = ProcessState.of(process)
            labels = (("role", role), ("pid", str(process)))
            yield "process_resident_memory_bytes", labels, state.memory
            yield "process_cpu_seconds_total", labels, state.cpu
            yield "process_start_time_seconds", labels, state.started
            yield "process_threads", labels, state.threads
            yield "process_open_fds", labels, state.files
            yield "process_max_fds", labels, state.most_files
