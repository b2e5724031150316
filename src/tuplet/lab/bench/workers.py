"""Worker processes that do not outlive the process they work for, and share its processors."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import wait


def default_workers() -> int:
    """As many worker processes as there are processors to run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def worker_processes(count: int) -> ProcessPoolExecutor:
    """A pool of fresh processes; they end when their parent does, even if it was killed."""
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=_begin)


def _begin() -> None:
    # As many workers as processors share the work already; torch reads this when it is first imported.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parent = multiprocessing.parent_process()
    if parent is not None:
        sentinel = parent.sentinel
        threading.Thread(target=lambda: (wait([sentinel]), os._exit(1)), daemon=True).start()
