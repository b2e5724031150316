"""Runs an engine over benchmark queries: resumable, parallel, one Parquet part for each unit of work.

A result is a folder: `run.json` says what was run on what, `parts/` holds one file for each block of queries of a
shape. A part is written whole or not at all, and one that exists is never computed again; so a run that was stopped
goes on where it was, and ends with the same numbers as one that was not.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tuplet._version import __version__
from tuplet.bench.evaluate import Opened, Row, RunSettings, schema
from tuplet.bench.queries import BenchQuery, QuerySet
from tuplet.bench.workers import worker_processes
from tuplet.errors import BadInput, BudgetExceeded, TupletError
from tuplet.query.source import Source

Report: TypeAlias = Callable[[float, float], None]
PROTOCOL = 1


# --- units and parts ---------------------------------------------------------------------------------------------


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
) -> dict[str, Any]:
    """Run what is not done yet and return the manifest; `progress` is called with the queries done and all.

    `workers` processes each map the store into memory; any other `Executor` whose workers see the store will do.
    """
    settings = settings or RunSettings()
    settings.check()
    root = Path(folder)
    fresh = not (root / "run.json").exists()
    manifest = begin(root, manifest_of(store, queries, settings, block))
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
        with _executor(executor, workers if len(todo) > 1 else 1) as pool:
            for unit, rows in _results(pool, str(store), settings, todo):
                write_part(root / "parts" / f"{unit.name}.parquet", rows)
                done += len(rows)
                if progress is not None:
                    progress(done, len(queries))
    except BadInput:
        if fresh and not done:
            # A model that is missing or does not fit shows when it is opened: the folder must not insist on it.
            shutil.rmtree(root)
        raise
    return manifest


def _results(
    pool: Executor | None, store: str, settings: RunSettings, todo: Sequence[Unit]
) -> Iterator[tuple[Unit, list[Row]]]:
    if pool is None:
        opened = _opened(store, settings)
        yield from ((unit, opened.evaluate(unit.queries)) for unit in todo)
        return
    try:
        futures = {pool.submit(work, store, settings, unit.queries): unit for unit in todo}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenExecutor:
        raise BudgetExceeded("a worker process died, perhaps for lack of memory; run again to go on") from None


@contextmanager
def _executor(given: Executor | None, workers: int) -> Iterator[Executor | None]:
    if given is not None or workers <= 1:
        yield given
        return
    pool = worker_processes(workers)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _opened(store: str, settings: RunSettings) -> Opened:
    from tuplet.store import open_store

    opened = Opened(open_store(store).source, settings)
    opened.warm()
    return opened


@lru_cache(maxsize=1)
def _kept(store: str, settings: str) -> Opened:
    return _opened(store, RunSettings(**json.loads(settings)))


def work(store: str, settings: RunSettings, queries: Sequence[BenchQuery]) -> list[Row]:
    """One unit in a worker, which keeps the store open for the next one."""
    return _kept(store, json.dumps(asdict(settings))).evaluate(queries)


def write_part(path: Path, rows: Sequence[Row]) -> None:
    """One part, written whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    handle, temporary = tempfile.mkstemp(prefix=".part-", dir=path.parent)
    os.close(handle)
    try:
        pq.write_table(pa.Table.from_pylist(rows, schema()), temporary)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


# --- the manifest ------------------------------------------------------------------------------------------------


def digest(queries: QuerySet) -> str:
    """A hash of the queries and their answers: only runs with the same one may be compared."""
    total = hashlib.sha256()
    for q in queries:
        total.update(json.dumps([q.shape, q.formula, sorted(q.grounding.items())]).encode())
        for answers in (q.easy, q.hard):
            total.update(np.ascontiguousarray(answers, dtype=np.int32).tobytes() + b"|")
    return total.hexdigest()


def manifest_of(store: str | os.PathLike[str], queries: QuerySet, settings: RunSettings, block: int) -> dict[str, Any]:
    """What a run is about: settings, queries and store."""
    if not len(queries):
        raise BadInput("there are no queries to run")
    if any(not len(query.hard) for query in queries):
        raise BadInput("some queries have no hard answers; there is nothing to rank")
    from tuplet.store import open_store

    source = open_store(store).source
    if settings.engine != "crisp":
        source.values(settings.engine)  # a plain graph is refused before a folder is made
    refuse_other_graph(queries, source)
    return {
        "protocol": PROTOCOL,
        "version": __version__,
        "settings": asdict(settings),
        "block": block,
        "queries": {"digest": digest(queries), "count": len(queries), **_plain(queries.meta)},
        "store": {
            "graph": source.graph.hash,
            "entities": len(source.graph.entities),
            "relations": len(source.graph.relations),
            "observed": list(source.splits) if source.splits is not None else "all",
            **_plain(source.about),
        },
    }


def refuse_other_graph(queries: QuerySet, source: Source) -> None:
    """Queries hold numbers of entities: those of another graph would ask something else."""
    asked = queries.meta.get("graph")
    if asked is not None and asked != source.graph.hash:
        raise BadInput(f"the queries were sampled from graph {asked[:12]}, the store holds {source.graph.hash[:12]}")


def _plain(meta: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(dict(meta), default=str))
    return plain


def begin(root: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """Start a result folder, or go on with one that was made for the same run."""
    file = root / "run.json"
    manifest = _plain(manifest)
    if file.exists():
        earlier = read_manifest(root)
        for key in manifest:
            if key != "version" and earlier.get(key) != manifest[key]:
                raise BadInput(f"{root} holds another run: its {_difference(earlier.get(key), manifest[key], key)}")
        return earlier
    if root.exists() and any(root.iterdir()):
        raise BadInput(f"{root} is not empty and not a benchmark result")
    (root / "parts").mkdir(parents=True, exist_ok=True)
    temporary = root / ".run.json"
    temporary.write_text(json.dumps(manifest, indent=1, sort_keys=True), encoding="utf-8")
    os.replace(temporary, file)
    return manifest


def _difference(earlier: Any, now: Any, key: str) -> str:
    """The first entry that differs, by its path."""
    if isinstance(earlier, dict) and isinstance(now, dict):
        different = next(k for k in {**earlier, **now} if earlier.get(k) != now.get(k))
        return _difference(earlier.get(different), now.get(different), f"{key}.{different}")
    return f"{key} is {json.dumps(earlier)[:60]}, not {json.dumps(now)[:60]}"


def read_manifest(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """What a result folder says about its run."""
    try:
        content = json.loads((Path(folder) / "run.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"{folder} is not a benchmark result: it has no run.json") from None
    except ValueError as error:
        raise BadInput(f"{Path(folder) / 'run.json'} is damaged: {error}") from None
    if not isinstance(content, dict) or content.get("protocol", 0) > PROTOCOL:
        raise TupletError(f"{folder} was written by a newer version of tuplet")
    return content


def read_rows(folder: str | os.PathLike[str]) -> list[Row]:
    """The results of a run in the order of its units; an unfinished run is told by the count in its manifest."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[Row] = []
    for part in sorted((Path(folder) / "parts").glob("*.parquet")):
        try:
            rows += pq.read_table(part).to_pylist()
        except (pa.ArrowInvalid, OSError) as error:
            raise BadInput(f"{part} is damaged ({str(error).splitlines()[0]}); delete it and run again") from None
    return rows
