"""Many queries at once, on all cores.

A search is microseconds of compiled code inside a few hundred microseconds of Python, so threads would take turns.
Large batches are therefore divided among forked processes, which share the memory-mapped store and send back arrays.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, cast

from tuplet.engine.answers import Answers
from tuplet.engine.ask import ask
from tuplet.engine.engines import Source, engine_named
from tuplet.errors import BadInput, TupletError
from tuplet.lang.ast import Query
from tuplet.truth.table import TruthTable

# A fork costs some milliseconds: as much as this many queries.
WORTH_A_FORK = 64


def ask_many(source: Source, queries: Sequence[str | Query], **options: Any) -> list[Answers]:
    """The answers of several queries, in their order."""
    if isinstance(queries, str):
        raise BadInput("ask_many takes a list of queries; ask takes one")
    engine_named(options.get("engine", "exact")).load()
    workers = min(os.cpu_count() or 1, len(queries) // WORTH_A_FORK)
    if workers > 1 and _forkable(source, options):
        return _forked(source, queries, options, workers)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(lambda query: ask(source, query, **options), queries))


def _forkable(source: Source, options: dict[str, Any]) -> bool:
    """Forking is safe while this is the only thread, and of use where the search needs no torch."""
    alone = hasattr(os, "fork") and threading.active_count() == 1
    tabulated = source.truth is None or isinstance(source.truth, TruthTable)
    return alone and tabulated and options.get("engine", "exact") in ("crisp", "exact")


def _forked(source: Source, queries: Sequence[str | Query], options: dict[str, Any], workers: int) -> list[Answers]:
    fork = multiprocessing.get_context("fork")
    answers: list[Answers | None] = [None] * len(queries)
    children = []
    for worker in range(1, workers):
        receive, send = fork.Pipe(duplex=False)
        child = fork.Process(target=_work, args=(source, queries[worker::workers], options, send), daemon=True)
        child.start()
        send.close()
        children.append((worker, child, receive))
    answers[0::workers] = _answered(source, queries[0::workers], options)
    for worker, child, receive in children:
        try:
            part = receive.recv()
        except EOFError:
            continue  # it died; its part is done below
        finally:
            child.join()
        answers[worker::workers] = [None if found is None else replace(found, graph=source.graph) for found in part]
    # What a worker could not answer is asked again here, so that its error is raised as it is.
    return [ask(source, query, **options) if a is None else a for query, a in zip(queries, answers, strict=True)]


def _work(source: Source, queries: Sequence[str | Query], options: dict[str, Any], send: Connection) -> None:
    found = _answered(source, queries, options)
    # The graph is there already; only what was found travels.
    send.send([None if a is None else replace(a, graph=cast(Any, None)) for a in found])
    send.close()


def _answered(source: Source, queries: Sequence[str | Query], options: dict[str, Any]) -> list[Answers | None]:
    found: list[Answers | None] = []
    for query in queries:
        try:
            found.append(ask(source, query, **options))
        except TupletError:
            found.append(None)
    return found
