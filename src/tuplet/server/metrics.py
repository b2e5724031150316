"""Metrics of the server: Prometheus counters that outlive their process and that every worker can report for all.

`prometheus_client` counts in files of the folder `PROMETHEUS_MULTIPROC_DIR`, one set for each process.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from tuplet._version import __version__

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
STATUSES = ("2xx", "3xx", "4xx", "429", "5xx")
CLIENT_GONE = 499  # the status of a request whose client has gone, as nginx counts it
REASONS = ("timeout", "memory", "work", "bytes")  # what stops a search, or the writing of what it found
NOT_PROVEN = "engine"  # nothing did: the engine promises no order
Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
disable_created_metrics()  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class MetricFamily:
    """A metric."""

    name: str
    kind: Kind
    text: str
    labels: tuple[str, ...] = ()

    def register(self, registry: CollectorRegistry) -> Any:
        match self.kind:
            case "counter":
                return Counter(self.name, self.text, self.labels, registry=registry)
            case "histogram":
                return Histogram(self.name, self.text, self.labels, registry=registry, buckets=BUCKETS)
        each = "pid" in self.labels  # one value for each process, not their sum: "liveall" adds the label
        labels = self.labels[:-1] if each else self.labels
        mode: Any = "liveall" if each else "livesum"
        return Gauge(self.name, self.text, labels, registry=registry, multiprocess_mode=mode)


_ROWS: tuple[tuple[str, Kind, str, str], ...] = (  # the last is the labels
    ("tuplet_requests_total", "counter", "HTTP requests.", "route status"),
    ("tuplet_request_seconds", "histogram", "Time of a request until its last byte, waiting and writing too.", "route"),
    ("tuplet_response_bytes_total", "counter", "Bytes of bodies sent.", "route"),
    ("tuplet_clients_gone_total", "counter", "Requests whose client did not wait for the answer.", "route"),
    ("tuplet_requests_by_key_total", "counter", "HTTP requests by the name of their key.", "key"),
    ("tuplet_keys_refused_total", "counter", "Requests whose key opens nothing, or not this.", "reason"),
    ("tuplet_slow_requests_total", "counter", "Requests that took longer than --slow.", ""),
    ("tuplet_requests_waiting", "gauge", "Requests that wait for their turn.", ""),
    ("tuplet_queue_seconds", "histogram", "Time that a request waited for its turn.", ""),
    ("tuplet_queries_running", "gauge", "Queries that run now.", ""),
    ("tuplet_queries_total", "counter", "Queries answered, each of a batch.", "store engine"),
    ("tuplet_query_seconds", "histogram", "Time of a query, from text to tuples.", "store engine"),
    ("tuplet_answers_total", "counter", "Tuples given.", "store"),
    ("tuplet_queries_inexact_total", "counter", "Answers not proven exact, by what stopped them.", "reason"),
    ("tuplet_query_errors_total", "counter", "Queries that were refused.", "kind"),
    ("tuplet_generation", "gauge", "The generation that a worker serves.", "store pid"),
    ("tuplet_reloads_total", "counter", "Times that the newest generation was asked for.", "done"),
    ("tuplet_connections", "gauge", "Connections that are open.", ""),
    ("tuplet_connections_refused_total", "counter", "Connections closed at once: too many.", ""),
    ("tuplet_workers", "gauge", "Workers that are alive.", ""),
    ("tuplet_worker_deaths_total", "counter", "Workers that ended unasked.", "reason"),
    ("tuplet_build_info", "gauge", "Versions of what runs.", "version python"),
    ("process_resident_memory_bytes", "gauge", "Resident memory, that of mapped stores included.", "role pid"),
    ("process_cpu_seconds_total", "counter", "Processor time, user and system.", "role pid"),
    ("process_start_time_seconds", "gauge", "Start, in seconds since 1970.", "role pid"),
    ("process_threads", "gauge", "Threads.", "role pid"),
    ("process_open_fds", "gauge", "Open files and connections.", "role pid"),
    ("process_max_fds", "gauge", "Files and connections that may be open.", "role pid"),
)
FAMILIES = {name: MetricFamily(name, kind, text, tuple(labels.split())) for name, kind, text, labels in _ROWS}
_LOOKED_UP = {name for name in FAMILIES if name.startswith("process_")} | {"tuplet_workers", "tuplet_build_info"}


class ServerMetrics:
    """The metrics of this process; `text` reports those of all processes that count in the same folder.

    >>> metrics = ServerMetrics()
    >>> metrics.count_answers("world", "exact", 0.02, answers=3)
    >>> [line for line in metrics.text().splitlines() if line.startswith("tuplet_answers")]
    ['tuplet_answers_total{store="world"} 3.0']
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counted = (family for family in FAMILIES.values() if family.name not in _LOOKED_UP)
        self._metrics = {family.name: family.register(self._registry) for family in counted}
        self._child = cache(self._find_child)
        self._route, self._engine = cache(self._of_route), cache(self._of_engine)
        self.running, self.waiting = self._child("tuplet_queries_running"), self._child("tuplet_requests_waiting")
        self.connections = self._child("tuplet_connections")
        for gauge in (self.running, self.waiting, self.connections):
            gauge.set(0)  # whoever had this process number before is dead
        self._queued = self._child("tuplet_queue_seconds")
        # shown as 0 before the first one, so that a rate sees the first one
        for reason in (*REASONS, NOT_PROVEN):
            self._child("tuplet_queries_inexact_total", reason)
        for reason in ("missing", "wrong", "expired", "of another scope"):
            self._child("tuplet_keys_refused_total", reason)
        for done in ("yes", "no"):
            self._child("tuplet_reloads_total", done)

    def _find_child(self, name: str, *labels: str) -> Any:
        metric = self._metrics[name]
        return metric.labels(*labels) if labels else metric

    def _of_route(self, route: str) -> tuple[Any, ...]:
        names = "tuplet_request_seconds", "tuplet_response_bytes_total", "tuplet_clients_gone_total"
        statuses = {status: self._child("tuplet_requests_total", route, status) for status in STATUSES}
        return statuses, *(self._child(name, route) for name in names)

    def _of_engine(self, store: str, engine: str) -> tuple[Any, ...]:
        both = (self._child(name, store, engine) for name in ("tuplet_queries_total", "tuplet_query_seconds"))
        return *both, self._child("tuplet_answers_total", store)

    def count_request(
        self,
        route: str,
        status: int,
        seconds: float = 0.0,
        sent: int = 0,
        key: str = "",
        queued: float | None = None,
    ) -> None:
        """Count a finished request; `route` is a path of the table of routes, not what was sent."""
        statuses, took, bodies, gone = self._route(route)
        statuses["429" if status == 429 else f"{status // 100}xx"].inc()
        took.observe(seconds)
        bodies.inc(sent)
        if queued is not None:
            self._queued.observe(queued)
        if status == CLIENT_GONE:
            gone.inc()
        if key:
            self._child("tuplet_requests_by_key_total", key).inc()

    def count_answers(
        self, store: str, engine: str, seconds: float, answers: int, exact: bool = True, pruned: str | None = None
    ) -> None:
        """Count an answered query."""
        queries, took, tuples = self._engine(store, engine)
        queries.inc()
        tuples.inc(answers)
        took.observe(seconds)
        if not exact:
            self.count("tuplet_queries_inexact_total", pruned if pruned in REASONS else NOT_PROVEN)

    def count(self, name: str, *labels: str) -> None:
        """Count a rare event."""
        self._child(name, *labels).inc()

    def set_generation(self, store: str, number: int) -> None:
        self._child("tuplet_generation", store).set(number)

    def text(self) -> str:
        return generate_latest(self).decode()

    def collect(self) -> Iterator[Metric]:
        """All families. Gauges of dead processes are dropped, their counters stay."""
        folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
        if folder is None:
            found = {metric.name: metric for metric in self._registry.collect()}
            workers, supervisor = {os.getpid()}, None
        else:
            files = {file: int(file.stem.rpartition("_")[2]) for file in Path(folder).glob("*.db")}
            alive, supervisor = set(filter(_is_alive, set(files.values()))), os.getppid()
            kept = [str(file) for file, pid in files.items() if pid in alive or not file.name.startswith("gauge_live")]
            found = {metric.name: metric for metric in MultiProcessCollector.merge(kept)}  # type: ignore[no-untyped-call]
            workers = alive - {supervisor}
        found |= _process_metrics([("worker", pid) for pid in sorted(workers)], supervisor)
        for name, labels, value in (
            ("tuplet_workers", {}, len(workers)),
            ("tuplet_build_info", {"version": __version__, "python": platform.python_version()}, 1.0),
        ):
            found[name] = _empty(name)
            found[name].add_sample(name, labels, value)
        return iter([found.get(name.removesuffix("_total")) or _empty(name) for name in FAMILIES])


def _empty(name: str) -> Metric:
    return Metric(name.removesuffix("_total"), FAMILIES[name].text, FAMILIES[name].kind)


def _process_metrics(roles: list[tuple[str, int]], supervisor: int | None) -> dict[str, Metric]:
    """Process metrics (Linux); none of a process that has ended."""
    found = {metric.name: metric for metric in map(_empty, FAMILIES) if metric.name.startswith("process_")}
    for role, pid in [*roles, *([("supervisor", supervisor)] if supervisor else [])]:
        labels = {"role": role, "pid": str(pid)}
        for metric in ProcessCollector(pid=partial(int, pid), registry=None).collect():
            if metric.name in found:
                found[metric.name].add_sample(metric.samples[0].name, labels, metric.samples[0].value)
        with suppress(OSError):
            found["process_threads"].add_sample("process_threads", labels, len(os.listdir(f"/proc/{pid}/task")))
    return found


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to somebody else
        return True
    return True
