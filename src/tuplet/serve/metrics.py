"""What happened and what is happening, in Prometheus' text format, of all processes of a server together.

Where PROMETHEUS_MULTIPROC_DIR is set before this module is imported, as `run.start` does, every process counts in files
of that folder and each can print the sums.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from tuplet.query.answers import INTERRUPTIONS
from tuplet.serve.process_metrics import Processes

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
STATUSES = ("2xx", "3xx", "4xx", "429", "5xx")
CLIENT_GONE = 499  # the status of a request whose client has gone, as nginx counts it
NOT_PROVEN = "engine"  # nothing stopped the search: the engine promises no order


class ServerMetrics:
    """What this worker has done and is doing.

    >>> metrics = ServerMetrics()
    >>> metrics.answered("world", "exact", 0.02, answers=3)
    >>> [line for line in metrics.text().splitlines() if line.startswith("tuplet_answers")]
    ['tuplet_answers_total{store="world"} 3.0']
    """

    def __init__(self) -> None:
        disable_created_metrics()
        self._registry = own = CollectorRegistry()

        def gauge(name: str, text: str, labels: tuple[str, ...] = (), mode: str = "livesum") -> Gauge:
            return Gauge(name, text, labels, registry=own, multiprocess_mode=mode)  # type: ignore[arg-type]

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=own)

        def seconds(name: str, text: str, *labels: str) -> Histogram:
            return Histogram(name, text, labels, buckets=BUCKETS, registry=own)

        self.running = gauge("tuplet_queries_running", "Queries that run now.")
        self.waiting = gauge("tuplet_requests_waiting", "Requests that wait for their turn.")
        self._generation = gauge("tuplet_generation", "The generation that a worker serves.", ("store",), "liveall")
        self._requests = counter("tuplet_requests", "HTTP requests.", "route", "status")
        self._took = seconds(
            "tuplet_request_seconds", "Time of a request until its last byte: waiting and writing, too.", "route"
        )
        self._sent = counter("tuplet_response_bytes", "Bytes of bodies sent, as they went over the wire.", "route")
        self._gone = counter("tuplet_clients_gone", "Requests whose client did not wait for the answer.", "route")
        self._by_key = counter("tuplet_requests_by_key", "HTTP requests by the name of their key.", "key")
        self._refused_keys = counter("tuplet_keys_refused", "Requests without a key that opens the server.", "reason")
        self._queued = seconds("tuplet_queue_seconds", "Time that a request waited for its turn.")
        self._slow = counter("tuplet_slow_requests", "Requests that took longer than --slow.")
        self._queries = counter("tuplet_queries", "Queries answered, each of a batch.", "store", "engine")
        self._errors = counter("tuplet_query_errors", "Queries that were refused.", "kind")
        self._inexact = counter("tuplet_queries_inexact", "Answers not proven exact, by what stopped them.", "reason")
        self._answers = counter("tuplet_answers", "Tuples given.", "store")
        self._seconds = seconds("tuplet_query_seconds", "Time of a query, from text to tuples.", "store", "engine")
        self._route = cache(self._of_route)
        self._asked = cache(self._of_engine)
        # shown as 0 before the first one, so that a rate sees the first one
        for reason in (*INTERRUPTIONS, NOT_PROVEN):
            self._inexact.labels(reason)
        for reason in ("missing", "wrong", "expired", "of another scope"):
            self._refused_keys.labels(reason)

    def _of_route(self, route: str) -> tuple[dict[str, Counter], Histogram, Counter, Counter]:
        status = {status: self._requests.labels(route, status) for status in STATUSES}
        return status, self._took.labels(route), self._sent.labels(route), self._gone.labels(route)

    def _of_engine(self, store: str, engine: str) -> tuple[Counter, Counter, Histogram]:
        return (
            self._queries.labels(store, engine),
            self._answers.labels(store),
            self._seconds.labels(store, engine),
        )

    def request(self, route: str, status: int, seconds: float = 0.0, sent: int = 0, key: str = "") -> None:
        """Count one request that is over; `route` is the path of the table of routes, not what was sent."""
        statuses, took, bodies, left = self._route(route)
        statuses["429" if status == 429 else f"{status // 100}xx"].inc()
        took.observe(seconds)
        bodies.inc(sent)
        if status == CLIENT_GONE:
            left.inc()
        if key:
            self._by_key.labels(key).inc()

    def queued(self, seconds: float) -> None:
        """Count the time that one request waited for its turn."""
        self._queued.observe(seconds)

    def slow(self) -> None:
        """Count one request that is in the log of slow ones."""
        self._slow.inc()

    def refused_key(self, reason: str) -> None:
        """Count a request without a right key: `missing`, `wrong`, or what the key may not."""
        self._refused_keys.labels(reason).inc()

    def generation(self, store: str, number: int) -> None:
        """Say what this process serves from now on."""
        self._generation.labels(store).set(number)

    def answered(
        self, store: str, engine: str, seconds: float, answers: int, exact: bool = True, pruned: str | None = None
    ) -> None:
        """Count one query that was answered."""
        queries, tuples, took = self._asked(store, engine)
        queries.inc()
        tuples.inc(answers)
        took.observe(seconds)
        if not exact:
            self._inexact.labels(pruned if pruned in INTERRUPTIONS else NOT_PROVEN).inc()

    def refused(self, kind: str) -> None:
        """Count one query with an error; its kind as in the answer."""
        self._errors.labels(kind).inc()

    def text(self) -> str:
        """All processes together."""
        if FOLDER not in os.environ:
            return _text(self._registry, Processes((os.getpid(),)))
        folder = Path(os.environ[FOLDER])
        registry = CollectorRegistry()
        living = set(_living(folder))
        MultiProcessCollector(registry, str(folder))
        supervisor = os.getppid()
        return _text(registry, Processes(tuple(sorted(living - {supervisor})), supervisor))


class SupervisorMetrics:
    """What the process that starts the workers has seen; a worker prints it with its own."""

    def __init__(self) -> None:
        disable_created_metrics()
        own = CollectorRegistry()
        self._deaths = Counter("tuplet_worker_deaths", "Workers that ended unasked.", ["reason"], registry=own)
        self._reloads = Counter(
            "tuplet_reloads", "Times that a newer generation was asked for.", ["done"], registry=own
        )
        self._connections = Gauge(
            "tuplet_connections", "Connections that are open.", registry=own, multiprocess_mode="livesum"
        )
        self._turned_away = Counter("tuplet_connections_refused", "Connections closed at once: too many.", registry=own)
        for done in ("yes", "no"):
            self._reloads.labels(done)

    def worker_died(self, reason: str) -> None:
        """Count a worker that is replaced: `SIGKILL`, `exit 1`, `failed` where it could not serve."""
        self._deaths.labels(reason).inc()

    def reloaded(self, done: bool) -> None:
        """Count a switch to the newest generation, or one that failed and left the older one."""
        self._reloads.labels("yes" if done else "no").inc()

    def connections(self, now: int, turned_away: int) -> None:
        """Say how many are open, and how many more were closed at once because there were too many."""
        self._connections.set(now)
        self._turned_away.inc(turned_away)


def _text(registry: CollectorRegistry, processes: Collector) -> str:
    """The registry and, after it, what the system knows of the processes."""
    beside = CollectorRegistry()
    beside.register(processes)
    return generate_latest(registry).decode() + generate_latest(beside).decode()


def _living(folder: Path) -> Iterator[int]:
    """The processes that count here. What a dead one left running or waiting runs no more; what it counted stays."""
    for file in folder.glob("gauge_live*.db"):
        process = int(file.stem.rpartition("_")[2])
        try:
            os.kill(process, 0)
            yield process
        except ProcessLookupError:
            with suppress(FileNotFoundError):  # another worker was faster
                mark_process_dead(process, str(folder))
