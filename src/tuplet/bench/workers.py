"""Worker processes that do not outlive the process they work for."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import wait


def worker_processes(count: int) -> ProcessPoolExecutor:
    """A pool of fresh processes; they end when their parent does, even if it was killed."""
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        sentinel = parent.sentinel
        threading.Thread(target=lambda: (wait([sentinel]), os._exit(1)), daemon=True).start()
