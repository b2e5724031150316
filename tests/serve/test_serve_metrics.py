"""Counters of several processes: sums of what was done, and only the living are busy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

WORK = """
from tuplet.serve.metrics import ServerMetrics
metrics = ServerMetrics()
metrics.running.inc()
metrics.answered(0.02, answers=3, exact=False)
metrics.refused()
metrics.request(429)
print(metrics.text())
"""


def counted(folder: Path) -> dict[str, float]:
    """What a process says that does this work and then ends, its query still counted as running."""
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)}
    command = [sys.executable, "-c", WORK]
    text = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_processes_count_together_and_the_dead_are_not_busy(tmp_path: Path) -> None:
    for process in (1, 2, 3):
        found = counted(tmp_path)
        assert found["tuplet_queries_running"] == 1, "the others have ended"
        assert found["tuplet_requests_waiting"] == 0
        assert found["tuplet_queries_total"] == 2 * process
        assert found["tuplet_query_errors_total"] == found["tuplet_queries_inexact_total"] == process
        assert found["tuplet_answers_total"] == 3 * process
        assert found['tuplet_requests_total{status="429"}'] == process
        assert found['tuplet_requests_total{status="5xx"}'] == 0
        assert found["tuplet_query_seconds_count"] == process
        assert found['tuplet_query_seconds_bucket{le="0.01"}'] == 0
        assert found['tuplet_query_seconds_bucket{le="0.025"}'] == process
