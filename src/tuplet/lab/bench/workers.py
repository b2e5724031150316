"""Worker processes that do not outlive the process they work for, and share its processors."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait

from tuplet.errors import BudgetExceeded


def default_workers() -> int:
    """As many worker processes as there are processors to run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def worker_pool(count: int, given: Executor | None = None, advice: str = "") -> Iterator[Executor | None]:
    """The executor that is given, `count` fresh worker processes, or None where one process does the work itself.

    Fresh processes end when their parent does, even if it was killed. A worker that dies is an error with `advice`.
    """
    pool = given
    if given is None and count > 1:
        pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=_begin)
    try:
        yield pool
    except BrokenExecutor:
        raise BudgetExceeded(f"a worker process died, perhaps for lack of memory{advice}") from None
    finally:
        if pool is not None and given is None:
            pool.shutdown(cancel_futures=True)


def _begin() -> None:
    # As many workers as processors share the work already; torch reads this when it is first imported.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parent = multiprocessing.parent_process()
    if parent is not None:
        sentinel = parent.sentinel
        threading.Thread(target=lambda: (wait([sentinel]), os._exit(1)), daemon=True).start()
