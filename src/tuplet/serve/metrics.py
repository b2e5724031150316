"""Counters in Prometheus' text format, of all worker processes together.

Where PROMETHEUS_MULTIPROC_DIR is set before this module is imported, as `run.start` does, every process counts in files
of that folder and each can print the sums.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
STATUSES = ("2xx", "3xx", "4xx", "429", "5xx")


class ServerMetrics:
    """What this process has done and is doing.

    >>> metrics = ServerMetrics()
    >>> metrics.answered(0.02, answers=3, exact=True)
    >>> [line for line in metrics.text().splitlines() if line.startswith("tuplet_answers")]
    ['tuplet_answers_total 3.0']
    """

    def __init__(self) -> None:
        disable_created_metrics()
        self._registry = own = CollectorRegistry()
        self.running = Gauge(
            "tuplet_queries_running", "Queries that run now.", registry=own, multiprocess_mode="livesum"
        )
        self.waiting = Gauge(
            "tuplet_requests_waiting", "Requests that wait for their turn.", registry=own, multiprocess_mode="livesum"
        )
        self._requests = Counter("tuplet_requests", "HTTP requests by status.", ["status"], registry=own)
        self._queries = Counter("tuplet_queries", "Queries asked, each of a batch.", registry=own)
        self._errors = Counter("tuplet_query_errors", "Queries that were refused.", registry=own)
        self._inexact = Counter(
            "tuplet_queries_inexact", "Answers not proven exact, such as after a timeout.", registry=own
        )
        self._answers = Counter("tuplet_answers", "Tuples given.", registry=own)
        self._seconds = Histogram(
            "tuplet_query_seconds", "Time of a query, from text to tuples.", buckets=BUCKETS, registry=own
        )
        for status in STATUSES:
            self._requests.labels(status)  # shown as 0 before the first one

    def request(self, status: int) -> None:
        """Count one request."""
        self._requests.labels("429" if status == 429 else f"{status // 100}xx").inc()

    def answered(self, seconds: float, answers: int, exact: bool) -> None:
        """Count one query that was answered."""
        self._queries.inc()
        self._answers.inc(answers)
        self._seconds.observe(seconds)
        if not exact:
            self._inexact.inc()

    def refused(self) -> None:
        """Count one query with an error."""
        self._queries.inc()
        self._errors.inc()

    def text(self) -> str:
        """All processes together."""
        registry = self._registry
        if FOLDER in os.environ:
            _forget_the_dead(Path(os.environ[FOLDER]))
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        return generate_latest(registry).decode()


def _forget_the_dead(folder: Path) -> None:
    """What a process that died left running or waiting runs no more; what it counted stays."""
    for file in folder.glob("gauge_live*.db"):
        process = int(file.stem.rpartition("_")[2])
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            with suppress(FileNotFoundError):  # another worker was faster
                mark_process_dead(process, str(folder))
