"""Counters of several processes: sums of what was done, and only the living are busy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).parents[2]
WORK = """
import os
from tuplet.server.metrics import ServerMetrics
metrics = ServerMetrics()
metrics.running.inc()
metrics.set_generation("world", 7)
metrics.count_answers("world", "exact", 0.02, answers=3, exact=False, pruned="timeout")
metrics.count_answers("world", "ns3", 123456.25, answers=0, exact=False, pruned="a budget of 3")
metrics.count("tuplet_query_errors_total", "syntax")
metrics.count("tuplet_keys_refused_total", "wrong")
metrics.count_request("/ask", 429, 0.3, sent=1000, key="anna", queued=0.002)
metrics.count_request("/ask", 499)
print(os.getpid())
print(metrics.text())
"""


def counted(folder: Path) -> tuple[str, str]:
    """Who says what, after it did this work; then it ends, its query still counted as running."""
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)}
    command = [sys.executable, "-c", WORK]
    process, _, text = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout.partition("\n")
    return process, text


def samples(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_processes_count_together_and_the_dead_are_not_busy(tmp_path: Path) -> None:
    for process in (1, 2, 3):
        pid, text = counted(tmp_path)
        found = samples(text)
        exact = 'engine="exact"{}store="world"'.format
        assert found["tuplet_queries_running"] == 1, "the others have ended"
        assert found["tuplet_requests_waiting"] == 0
        assert found[f"tuplet_queries_total{{{exact(',')}}}"] == process
        assert found['tuplet_query_errors_total{kind="syntax"}'] == process
        assert found['tuplet_queries_inexact_total{reason="timeout"}'] == process
        assert found['tuplet_queries_inexact_total{reason="engine"}'] == process
        assert found['tuplet_queries_inexact_total{reason="memory"}'] == 0
        assert found['tuplet_answers_total{store="world"}'] == 3 * process
        assert found['tuplet_requests_total{route="/ask",status="429"}'] == process
        assert found['tuplet_requests_total{route="/ask",status="5xx"}'] == 0
        assert found['tuplet_requests_by_key_total{key="anna"}'] == process
        assert found['tuplet_clients_gone_total{route="/ask"}'] == process
        assert found['tuplet_response_bytes_total{route="/ask"}'] == 1000 * process
        assert found['tuplet_keys_refused_total{reason="wrong"}'] == process
        assert found['tuplet_request_seconds_bucket{le="0.25",route="/ask"}'] == process
        assert found['tuplet_request_seconds_bucket{le="0.5",route="/ask"}'] == 2 * process
        assert found['tuplet_queue_seconds_bucket{le="0.0025"}'] == process
        assert found[f"tuplet_query_seconds_count{{{exact(',')}}}"] == process
        assert found["tuplet_query_seconds_bucket{" + exact(',le="0.01",') + "}"] == 0
        assert found["tuplet_query_seconds_bucket{" + exact(',le="0.025",') + "}"] == process
        assert found['tuplet_query_seconds_sum{engine="ns3",store="world"}'] == 123456.25 * process, "all digits"
        assert [name for name in found if name.startswith("tuplet_generation")] == [
            f'tuplet_generation{{pid="{pid}",store="world"}}'
        ]
        assert found["tuplet_workers"] == 1
        if sys.platform == "linux":
            assert found[f'process_resident_memory_bytes{{pid="{pid}",role="worker"}}'] > 1e7
            assert found[f'process_cpu_seconds_total{{pid="{pid}",role="worker"}}'] > 0
            assert found[f'process_open_fds{{pid="{pid}",role="worker"}}'] > 2
            parent = f'pid="{os.getpid()}",role="supervisor"'
            assert found[f"process_threads{{{parent}}}"] >= 1
    names = [family.name for family in text_string_to_metric_families(text)]
    assert len(names) == len(set(names)) > 20, "each family once"
