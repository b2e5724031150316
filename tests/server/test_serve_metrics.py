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
metrics.running.add()
metrics.generation("world", 7)
metrics.answered("world", "exact", 0.02, answers=3, exact=False, pruned="timeout")
metrics.answered("world", "ns3", 123456.25, answers=0, exact=False, pruned="a budget of 3")
metrics.refused("syntax")
metrics.refused_key("wrong")
metrics.queued(0.002)
metrics.request("/ask", 429, 0.3, sent=1000, key="anna")
metrics.request("/ask", 499)
print(os.getpid())
print(metrics.text())
"""


def counted(folder: Path) -> tuple[str, str]:
    """Who says what, after it did this work; then it ends, its query still counted as running."""
    environment = {**os.environ, "TUPLET_COUNTERS": str(folder)}
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
        exact = 'store="world",engine="exact"{}'.format
        assert found["tuplet_queries_running"] == 1, "the others have ended"
        assert found["tuplet_requests_waiting"] == 0
        assert found[f"tuplet_queries_total{{{exact('')}}}"] == process
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
        assert found['tuplet_request_seconds_bucket{route="/ask",le="0.25"}'] == process
        assert found['tuplet_request_seconds_bucket{route="/ask",le="0.5"}'] == 2 * process
        assert found['tuplet_queue_seconds_bucket{le="0.0025"}'] == process
        assert found[f"tuplet_query_seconds_count{{{exact('')}}}"] == process
        assert found["tuplet_query_seconds_bucket{" + exact(',le="0.01"') + "}"] == 0
        assert found["tuplet_query_seconds_bucket{" + exact(',le="0.025"') + "}"] == process
        assert found['tuplet_query_seconds_sum{store="world",engine="ns3"}'] == 123456.25 * process, "all digits"
        assert [name for name in found if name.startswith("tuplet_generation")] == [
            f'tuplet_generation{{store="world",pid="{pid}"}}'
        ]
        assert found["tuplet_workers"] == 1
        if sys.platform == "linux":
            assert found[f'process_resident_memory_bytes{{role="worker",pid="{pid}"}}'] > 1e7
            assert found[f'process_cpu_seconds_total{{role="worker",pid="{pid}"}}'] > 0
            assert found[f'process_open_fds{{role="worker",pid="{pid}"}}'] > 2
            parent = f'role="supervisor",pid="{os.getpid()}"'
            assert found[f"process_threads{{{parent}}}"] >= 1
    names = [family.name for family in text_string_to_metric_families(text)]
    assert len(names) == len(set(names)) > 20, "each family once"
