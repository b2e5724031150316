"""Many questions at once, on all cores.

A search is microseconds of compiled code inside a few hundred microseconds of Python, so threads would take turns.
Large batches are therefore divided among forked processes, which share the memory-mapped store and send back arrays.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import Any, TypeVar, cast

from tuplet.errors import TupletError
from tuplet.query.answers import Answers

# A fork costs some milliseconds: as much as this many queries.
WORTH_A_FORK = 64

Q = TypeVar("Q")
# What forked workers call; set before they are made, so that nothing but numbers travels to them.
_work: Callable[[int], Answers | TupletError] | None = None


def answer_all(answer: Callable[[Q], Answers], queries: Sequence[Q], forkable: bool) -> list[Answers | TupletError]:
    """The answer of each query in order, or the error that it met; `forkable` where the search needs no torch."""

    def one(number: int) -> Answers | TupletError:
        try:
            return answer(queries[number])
        except TupletError as error:
            return error

    workers = min(os.cpu_count() or 1, len(queries) // WORTH_A_FORK)
    # Forking is safe while this is the only thread.
    if workers > 1 and forkable and hasattr(os, "fork") and threading.active_count() == 1:
        return _forked(one, len(queries), workers)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(one, range(len(queries))))


def _forked(one: Callable[[int], Answers | TupletError], count: int, workers: int) -> list[Answers | TupletError]:
    global _work
    _work = one
    parts = [range(start, count, workers) for start in range(workers)]
    found: list[Answers | TupletError | None] = [None] * count
    try:
        with ProcessPoolExecutor(workers - 1, mp_context=multiprocessing.get_context("fork")) as pool:
            others = [pool.submit(_part, part) for part in parts[1:]]
            found[0::workers] = [one(number) for number in parts[0]]
            graph = next((a.graph for a in found if isinstance(a, Answers)), None)
            for part, other in zip(parts[1:], others, strict=True):
                for number, answers in zip(part, other.result(), strict=True):
                    found[number] = replace(answers, graph=graph) if isinstance(answers, Answers) and graph else None
    except BrokenProcessPool:
        pass  # a worker died; what is missing is answered below
    finally:
        _work = None
    # What a worker could not answer is asked again here, so that its error is the error itself.
    return [one(number) if answers is None else answers for number, answers in enumerate(found)]


def _part(numbers: range) -> list[Answers | None]:
    """In a worker: the answers of some queries. The graph is there already; only what was found travels."""
    assert _work is not None
    found = [_work(number) for number in numbers]
    return [replace(a, graph=cast(Any, None)) if isinstance(a, Answers) else None for a in found]
