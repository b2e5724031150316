"""What the system knows of the server's processes: memory, processor time, files, threads. Linux only."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tuplet._version import __version__

PROC = Path("/proc")
LABELS = ("role", "pid")


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


class Processes(Collector):
    """The workers and their supervisor, and what program they are."""

    def __init__(self, workers: Iterable[int], supervisor: int | None = None) -> None:
        self._workers = tuple(workers)
        self._supervisor = supervisor

    def collect(self) -> Iterator[Metric]:
        """One sample of each kind for each process."""
        build = GaugeMetricFamily("tuplet_build_info", "Versions of what runs.", labels=("version", "python"))
        build.add_metric((__version__, platform.python_version()), 1)
        yield build
        yield GaugeMetricFamily("tuplet_workers", "Workers that are alive.", value=len(self._workers))
        memory = GaugeMetricFamily("process_resident_memory_bytes", "Resident memory.", labels=LABELS)
        cpu = CounterMetricFamily("process_cpu_seconds", "Processor time, user and system.", labels=LABELS)
        started = GaugeMetricFamily("process_start_time_seconds", "Start, in seconds since 1970.", labels=LABELS)
        threads = GaugeMetricFamily("process_threads", "Threads.", labels=LABELS)
        files = GaugeMetricFamily("process_open_fds", "Open files and connections.", labels=LABELS)
        most = GaugeMetricFamily("process_max_fds", "Files and connections that may be open.", labels=LABELS)
        supervisor = [("supervisor", self._supervisor)] if self._supervisor else []
        for role, process in (*(("worker", process) for process in self._workers), *supervisor):
            with suppress(OSError):  # gone meanwhile, or a system without /proc
                state = ProcessState.of(process)
                labels = (role, str(process))
                memory.add_metric(labels, state.memory)
                cpu.add_metric(labels, state.cpu)
                started.add_metric(labels, state.started)
                threads.add_metric(labels, state.threads)
                files.add_metric(labels, state.files)
                most.add_metric(labels, state.most_files)
        yield from (memory, cpu, started, threads, files, most)
