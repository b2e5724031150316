"""Runs an engine over benchmark queries: resumable, parallel, one Parquet part for each unit of work.

A part is written whole or not at all, and one that exists is never computed again; so a run that was stopped goes on
where it was, and ends with the same numbers as one that was not.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import TypeAlias

from tuplet.errors import BadInput, BudgetExceeded
from tuplet.files import remove
from tuplet.lab.bench.evaluate import Evaluator
from tuplet.lab.bench.queries import BenchQuery, QuerySet
from tuplet.lab.bench.results import ResultRow, RunManifest, RunSettings, write_part
from tuplet.query.source import Source
from tuplet.store import open_store
from tuplet.truth.cluster import Folder, fetch_folder, ship

Report: TypeAlias = Callable[[float, float], None]


@dataclass(frozen=True)
class Unit:
    """A block of queries of one shape, and the part its results go to."""

    name: str
    queries: tuple[BenchQuery, ...]


def units(queries: QuerySet, block: int = 25) -> list[Unit]:
    """The queries in blocks; the first blocks of all shapes come first, so that an early look shows every shape."""
    made = []
    for number, (shape, members) in enumerate(queries.by_shape().items()):
        for at in range(0, len(members), block):
            safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in shape)[:60]
            name = f"{number:04d}-{safe}-{at // block:05d}"
            made.append((at, number, Unit(name, tuple(members[at : at + block]))))
    return [unit for *_, unit in sorted(made, key=lambda entry: entry[:2])]


def run(
    store: str | os.PathLike[str],
    queries: QuerySet,
    folder: str | os.PathLike[str],
    settings: RunSettings | None = None,
    *,
    workers: int = 1,
    block: int = 25,
    executor: Executor | None = None,
    progress: Report | None = None,
) -> RunManifest:
    """Run what is not done yet and return the manifest; `progress` is called with the queries done and all.

    `workers` processes each map the store into memory; on a Ray cluster they fetch it first. Any other `Executor` whose
    workers see the store will do.
    """
    settings = settings or RunSettings()
    root = Path(folder)
    fresh = not (root / "run.json").exists()
    manifest = manifest_of(store, queries, settings, block).begin(root)
    todo, done = [], 0
    for unit in units(queries, block):
        if (root / "parts" / f"{unit.name}.parquet").exists():
            done += len(unit.queries)
        else:
            todo.append(unit)
    if progress is not None:
        progress(done, len(queries))
    if not todo:
        return manifest
    try:
        with worker_pool(workers if len(todo) > 1 else 1, executor, "; run it again to continue") as pool:
            for unit, rows in _results(pool, str(store), settings, todo):
                write_part(root / "parts" / f"{unit.name}.parquet", rows)
                done += len(rows)
                if progress is not None:
                    progress(done, len(queries))
    except BadInput:
        if fresh and not done:
            # A model that is missing or does not fit shows when it is opened: the folder must not insist on it.
            remove(root)
        raise
    return manifest


def _results(
    pool: Executor | None, store: str, settings: RunSettings, todo: Sequence[Unit]
) -> Iterator[tuple[Unit, list[ResultRow]]]:
    if pool is None:
        evaluator = Evaluator(open_store(store).source, settings).warm()
        yield from ((unit, evaluator.evaluate(unit.queries)) for unit in todo)
        return
    where, sent = ship(pool, store), None
    if "model" in settings.options:
        from tuplet.predict.model_folder import find_model_folder  # imports torch

        sent = ship(pool, find_model_folder(settings.options["model"]))
    futures = {pool.submit(work, where, settings, unit.queries, sent): unit for unit in todo}
    for future in as_completed(futures):
        yield futures[future], future.result()


@lru_cache(maxsize=1)
def _open_evaluator(store: str, settings: str) -> Evaluator:
    return Evaluator(open_store(store).source, RunSettings(**json.loads(settings))).warm()


def work(
    store: Folder, settings: RunSettings, queries: Sequence[BenchQuery], model: Folder | None = None
) -> list[ResultRow]:
    """One unit in a worker, which keeps the store open for the next one; `model` is that of the options."""
    if model is not None:
        settings = replace(settings, options={**settings.options, "model": fetch_folder(model)})
    return _open_evaluator(fetch_folder(store), json.dumps(asdict(settings))).evaluate(queries)


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


def manifest_of(store: str | os.PathLike[str], queries: QuerySet, settings: RunSettings, block: int) -> RunManifest:
    """What a run is about; what cannot be run is refused."""
    engine = settings.runner()
    if not len(queries):
        raise BadInput("there are no queries to run")
    if any(not len(query.hard) for query in queries):
        raise BadInput("some queries have no hard answers; there is nothing to rank")
    source = open_store(store).source
    if engine.needs_truth:
        source.values()  # a plain graph is refused before a folder is made
    refuse_other_graph(queries, source)
    return RunManifest(
        settings,
        block,
        queries={"digest": queries.digest, "count": len(queries), **queries.meta},
        store={
            "graph": source.graph.hash,
            "entities": len(source.graph.entities),
            "relations": len(source.graph.relations),
            "observed": list(source.splits) if source.splits is not None else "all",
            **({} if source.origin is None else asdict(source.origin)),
        },
    )


def refuse_other_graph(queries: QuerySet, source: Source) -> None:
    """Queries hold numbers of entities: those of another graph would ask something else."""
    asked = queries.meta.get("graph")
    if asked is not None and asked != source.graph.hash:
        raise BadInput(f"the queries were sampled from graph {asked[:12]}, the store holds {source.graph.hash[:12]}")
