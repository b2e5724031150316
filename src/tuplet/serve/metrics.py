"""Counters of all worker processes in one memory-mapped file, printed in Prometheus' text format."""

from __future__ import annotations

import fcntl
import mmap
import os
from pathlib import Path

import numpy as np

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
STATUSES = ("2xx", "3xx", "4xx", "429", "5xx")
COUNTERS = (
    *(f'requests_total{{status="{status}"}}' for status in STATUSES),
    "queries_total",
    "query_errors_total",
    "queries_inexact_total",
    "answers_total",
    "query_seconds_sum",
    *(f'query_seconds_bucket{{le="{bucket:g}"}}' for bucket in BUCKETS),
    'query_seconds_bucket{le="+Inf"}',
    "queries_running",
    "requests_waiting",
)
_PLACE = {name: i for i, name in enumerate(COUNTERS)}
_FIRST_BUCKET = _PLACE[f'query_seconds_bucket{{le="{BUCKETS[0]:g}"}}']
_HELP = {
    "requests_total": ("counter", "HTTP requests by status."),
    "queries_total": ("counter", "Queries asked, each of a batch."),
    "query_errors_total": ("counter", "Queries that were refused."),
    "queries_inexact_total": ("counter", "Answers not proven exact, such as after a timeout."),
    "answers_total": ("counter", "Tuples given."),
    "query_seconds": ("histogram", "Time of a query, from text to tuples."),
    "queries_running": ("gauge", "Queries that run now."),
    "requests_waiting": ("gauge", "Requests that wait for their turn."),
}
SLOTS = 64  # processes that may count at once


class Metrics:
    """The counters of this process: one row of the shared file, taken by a lock that ends with the process."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        size = SLOTS * len(COUNTERS) * 8
        self._file = os.open(Path(path), os.O_RDWR | os.O_CREAT, 0o600)
        if os.fstat(self._file).st_size < size:
            os.ftruncate(self._file, size)
        shared = np.frombuffer(mmap.mmap(self._file, size), dtype=np.float64)
        self._all = shared.reshape(SLOTS, len(COUNTERS))
        self._own = self._all[self._take_slot()]
        for gauge in ("queries_running", "requests_waiting"):
            self._own[_PLACE[gauge]] = 0  # a process that died left its own

    def _take_slot(self) -> int:
        for slot in range(SLOTS):
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot)
                return slot
            except OSError:
                continue
        return os.getpid() % SLOTS  # more processes than rows: some share one

    def add(self, name: str, amount: float = 1) -> None:
        """Count."""
        self._own[_PLACE[name]] += amount

    def request(self, status: int) -> None:
        """Count one request."""
        self.add(f'requests_total{{status="{status if status == 429 else f"{status // 100}xx"}"}}')

    def query(self, seconds: float, answers: int, exact: bool) -> None:
        """Count one query that was answered."""
        self.add("queries_total")
        self.add("answers_total", answers)
        self.add("query_seconds_sum", seconds)
        self._own[_FIRST_BUCKET + int(np.searchsorted(BUCKETS, seconds)) : _FIRST_BUCKET + len(BUCKETS) + 1] += 1
        if not exact:
            self.add("queries_inexact_total")

    def refused(self) -> None:
        """Count one query with an error."""
        self.add("queries_total")
        self.add("query_errors_total")

    def text(self) -> str:
        """All processes together."""
        total = self._all.sum(axis=0)
        lines: list[str] = []
        told = ""
        for name, value in zip(COUNTERS, total.tolist(), strict=True):
            family = name.split("{")[0].removesuffix("_sum").removesuffix("_bucket")
            if family != told:
                kind, help = _HELP[family]
                lines += [f"# HELP tuplet_{family} {help}", f"# TYPE tuplet_{family} {kind}"]
                told = family
            lines.append(f"tuplet_{name} {value:g}" if value < 1e6 else f"tuplet_{name} {value:.0f}")
        count = total[_PLACE['query_seconds_bucket{le="+Inf"}']]
        lines.insert(
            lines.index("# HELP tuplet_queries_running Queries that run now."),
            f"tuplet_query_seconds_count {count:.0f}",
        )
        return "\n".join(lines) + "\n"
