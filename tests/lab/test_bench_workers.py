"""Worker processes end with the process they work for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tuplet.lab.bench.run import worker_pool

SCRIPT = """
import os, time
from tuplet.lab.bench.run import worker_pool
if __name__ == "__main__":
    with worker_pool(2) as pool:
        print(*{future.result() for future in [pool.submit(os.getpid) for _ in range(20)]}, flush=True)
        for _ in range(2):
            pool.submit(time.sleep, 600)
        time.sleep(600)
"""


def test_a_worker_computes_with_one_thread() -> None:
    with worker_pool(2) as pool:
        assert pool is not None
        assert pool.submit(os.getenv, "OMP_NUM_THREADS").result() == os.environ.get("OMP_NUM_THREADS", "1")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        workers = [int(word) for word in process.stdout.readline().split()]
        assert workers
        assert all(map(alive, workers))
        process.kill()
    deadline = time.monotonic() + 60
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))
