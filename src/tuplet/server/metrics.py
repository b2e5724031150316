"""Numbers that several processes count together: each in a file of its own, any of them reads all.

Counting is an addition in mapped memory, so it costs next to nothing, and what a process has counted outlives it.
Beside the numbers lies a file with a line for each: what it counts, as JSON.
"""

from __future__ import annotations

import json
import mmap
import os
import platform
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Literal, TypeAlias

from tuplet._version import __version__

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


FOLDER = "TUPLET_COUNTERS"
STATUSES = ("2xx", "3xx", "4xx", "429", "5xx")
CLIENT_GONE = 499  # the status of a request whose client has gone, as nginx counts it
REASONS = ("timeout", "memory", "work", "bytes")  # what stops a search, or the writing of what it found
NOT_PROVEN = "engine"  # nothing did: the engine promises no order
Kind: TypeAlias = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True)
class MetricFamily:
    """A metric: of what kind, what it says, by which labels."""

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...] = ()
    each: bool = False  # of a gauge: one value for each process, not their sum


def _families() -> Iterator[MetricFamily]:
    def counter(name: str, text: str, *labels: str) -> MetricFamily:
        return MetricFamily(f"{name}_total", "counter", text, labels)

    def times(name: str, text: str, *labels: str) -> MetricFamily:
        return MetricFamily(name, "histogram", text, labels)

    def gauge(name: str, text: str, *labels: str) -> MetricFamily:
        return MetricFamily(name, "gauge", text, labels)

    def each(name: str, text: str, *labels: str) -> MetricFamily:
        return MetricFamily(name, "gauge", text, (*labels, "pid"), each=True)

    yield counter("tuplet_requests", "HTTP requests.", "route", "status")
    yield times("tuplet_request_seconds", "Time of a request until its last byte, waiting and writing too.", "route")
    yield counter("tuplet_response_bytes", "Bytes of bodies sent.", "route")
    yield counter("tuplet_clients_gone", "Requests whose client did not wait for the answer.", "route")
    yield counter("tuplet_requests_by_key", "HTTP requests by the name of their key.", "key")
    yield counter("tuplet_keys_refused", "Requests whose key opens nothing, or not this.", "reason")
    yield counter("tuplet_slow_requests", "Requests that took longer than --slow.")
    yield gauge("tuplet_requests_waiting", "Requests that wait for their turn.")
    yield times("tuplet_queue_seconds", "Time that a request waited for its turn.")
    yield gauge("tuplet_queries_running", "Queries that run now.")
    yield counter("tuplet_queries", "Queries answered, each of a batch.", "store", "engine")
    yield times("tuplet_query_seconds", "Time of a query, from text to tuples.", "store", "engine")
    yield counter("tuplet_answers", "Tuples given.", "store")
    yield counter("tuplet_queries_inexact", "Answers not proven exact, by what stopped them.", "reason")
    yield counter("tuplet_query_errors", "Queries that were refused.", "kind")
    yield each("tuplet_generation", "The generation that a worker serves.", "store")
    yield counter("tuplet_reloads", "Times that the newest generation was asked for.", "done")
    yield gauge("tuplet_connections", "Connections that are open.")
    yield counter("tuplet_connections_refused", "Connections closed at once: too many.")
    yield gauge("tuplet_workers", "Workers that are alive.")
    yield counter("tuplet_worker_deaths", "Workers that ended unasked.", "reason")
    yield gauge("tuplet_build_info", "Versions of what runs.", "version", "python")
    role = ("role", "pid")
    yield gauge("process_resident_memory_bytes", "Resident memory, that of mapped stores included.", *role)
    yield counter("process_cpu_seconds", "Processor time, user and system.", *role)
    yield gauge("process_start_time_seconds", "Start, in seconds since 1970.", *role)
    yield gauge("process_threads", "Threads.", *role)
    yield gauge("process_open_fds", "Open files and connections.", *role)
    yield gauge("process_max_fds", "Files and connections that may be open.", *role)


FAMILIES = {family.name: family for family in _families()}


class ServerMetrics:
    """What this worker has done and is doing.

    >>> metrics = ServerMetrics()
    >>> metrics.answered("world", "exact", 0.02, answers=3)
    >>> [line for line in metrics.text().splitlines() if line.startswith("tuplet_answers")]
    ['tuplet_answers_total{store="world"} 3.0']
    """

    def __init__(self) -> None:
        self._counters = own = Counters(_folder())
        self.running = own.number("tuplet_queries_running")
        self.waiting = own.number("tuplet_requests_waiting")
        for gauge in (self.running, self.waiting):
            gauge.set(0)  # whoever had this process number before is dead
        self._queued, self._slow = own.times("tuplet_queue_seconds"), own.number("tuplet_slow_requests_total")
        self._route, self._asked = cache(self._of_route), cache(self._of_engine)
        self._number = cache(own.number)
        # shown as 0 before the first one, so that a rate sees the first one
        for reason in (*REASONS, NOT_PROVEN):
            own.number("tuplet_queries_inexact_total", reason=reason)
        for reason in ("missing", "wrong", "expired", "of another scope"):
            own.number("tuplet_keys_refused_total", reason=reason)

    def _of_route(self, route: str) -> tuple[dict[str, Number], Times, Number, Number]:
        own = self._counters
        return (
            {status: own.number("tuplet_requests_total", route=route, status=status) for status in STATUSES},
            own.times("tuplet_request_seconds", route=route),
            own.number("tuplet_response_bytes_total", route=route),
            own.number("tuplet_clients_gone_total", route=route),
        )

    def _of_engine(self, store: str, engine: str) -> tuple[Number, Number, Times]:
        own = self._counters
        return (
            own.number("tuplet_queries_total", store=store, engine=engine),
            own.number("tuplet_answers_total", store=store),
            own.times("tuplet_query_seconds", store=store, engine=engine),
        )

    def request(self, route: str, status: int, seconds: float = 0.0, sent: int = 0, key: str = "") -> None:
        """Count one request that is over; `route` is the path of the table of routes, not what was sent."""
        statuses, took, bodies, gone = self._route(route)
        statuses["429" if status == 429 else f"{status // 100}xx"].add()
        took.observe(seconds)
        bodies.add(sent)
        if status == CLIENT_GONE:
            gone.add()
        if key:
            self._number("tuplet_requests_by_key_total", key=key).add()

    def queued(self, seconds: float) -> None:
        """Count the time that one request waited for its turn."""
        self._queued.observe(seconds)

    def slow(self) -> None:
        """Count one request that is in the log of slow ones."""
        self._slow.add()

    def refused_key(self, reason: str) -> None:
        """Count a request without a right key: `missing`, `wrong`, or what the key may not."""
        self._number("tuplet_keys_refused_total", reason=reason).add()

    def generation(self, store: str, number: int) -> None:
        """Say what this process serves from now on."""
        self._number("tuplet_generation", store=store).set(number)

    def answered(
        self, store: str, engine: str, seconds: float, answers: int, exact: bool = True, pruned: str | None = None
    ) -> None:
        """Count one query that was answered."""
        queries, tuples, took = self._asked(store, engine)
        queries.add()
        tuples.add(answers)
        took.observe(seconds)
        if not exact:
            self._number("tuplet_queries_inexact_total", reason=pruned if pruned in REASONS else NOT_PROVEN).add()

    def refused(self, kind: str) -> None:
        """Count one query with an error; its kind as in the answer."""
        self._number("tuplet_query_errors_total", kind=kind).add()

    def text(self) -> str:
        """All processes together."""
        folder, totals = _folder(), Totals()
        if folder is None:
            totals.add(self._counters.samples(), os.getpid(), alive=True)
            workers, supervisor = {os.getpid()}, None
        else:
            known, supervisor = processes(folder), os.getppid()
            for process, alive in known.items():
                totals.add(samples_of(folder, process), process, alive)
            workers = {process for process, alive in known.items() if alive} - {supervisor}
        totals.add([build_info(), ("tuplet_workers", (), float(len(workers)))])
        totals.add(process_samples(sorted(workers), supervisor))
        return totals.text()


class SupervisorMetrics:
    """What the process that starts the workers has seen; a worker prints it with its own."""

    def __init__(self) -> None:
        self._counters = own = Counters(_folder())
        self._connections, self._turned_away = (
            own.number("tuplet_connections"),
            own.number("tuplet_connections_refused_total"),
        )
        for done in ("yes", "no"):
            own.number("tuplet_reloads_total", done=done)

    def worker_died(self, reason: str) -> None:
        """Count a worker that is replaced: `SIGKILL`, `exit 1`, `failed` where it could not serve."""
        self._counters.number("tuplet_worker_deaths_total", reason=reason).add()

    def reloaded(self, done: bool) -> None:
        """Count a switch to the newest generation, or one that failed and left the older one."""
        self._counters.number("tuplet_reloads_total", done="yes" if done else "no").add()

    def connections(self, now: int, turned_away: int) -> None:
        """Say how many are open, and how many more were closed at once because there were too many."""
        self._connections.set(now)
        self._turned_away.add(turned_away)


class Totals:
    """Samples of several processes, added up as their families say."""

    def __init__(self) -> None:
        self._values: dict[str, dict[Labels, float]] = {name: defaultdict(float) for name in FAMILIES}
        self._sums: dict[str, dict[Labels, float]] = {name: defaultdict(float) for name in FAMILIES}

    def add(self, samples: Iterable[tuple[str, Labels, float]], process: int = 0, alive: bool = True) -> None:
        """Add what a process says. What a dead one left running or waiting runs no more; what it counted stays."""
        for name, labels, value in samples:
            if name not in FAMILIES:
                self._sums[name.removesuffix("_sum")][labels] += value
            elif alive or FAMILIES[name].kind != "gauge":
                own = (*labels, ("pid", str(process))) if FAMILIES[name].each else labels
                self._values[name][own] += value

    def text(self) -> str:
        """Everything, family by family."""
        lines: list[str] = []
        for name, family in FAMILIES.items():
            lines += [f"# HELP {name} {family.text}", f"# TYPE {name} {family.kind}"]
            if family.kind == "histogram":
                lines += self._histogram(name)
            else:
                lines += [_sample(name, labels, value) for labels, value in sorted(self._values[name].items())]
        return "\n".join(lines) + "\n"

    def _histogram(self, name: str) -> Iterator[str]:
        """In Prometheus' format a bucket counts what fits smaller ones too."""
        counts, edges = self._values[name], [("le", str(edge)) for edge in (*BUCKETS, "+Inf")]
        for labels, total in sorted(self._sums[name].items()):
            below = list(accumulate(counts[(*labels, edge)] for edge in edges))
            for edge, count in zip(edges, below, strict=True):
                yield _sample(f"{name}_bucket", (*labels, edge), count)
            yield _sample(f"{name}_count", labels, below[-1])
            yield _sample(f"{name}_sum", labels, total)


def _sample(name: str, labels: Labels, value: float) -> str:
    r"""One line; all digits of the value, so that a rate of a large sum is smooth.

    >>> print(_sample("x_total", (("path", 'a"b\n'),), 123456789.25))
    x_total{path="a\"b\n"} 123456789.25
    """
    if not labels:
        return f"{name} {value!r}"
    escaped = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    inside = ",".join(f'{key}="{text.translate(escaped)}"' for key, text in labels)
    return f"{name}{{{inside}}} {value!r}"


def _folder() -> Path | None:
    given = os.environ.get(FOLDER)
    return Path(given) if given else None
