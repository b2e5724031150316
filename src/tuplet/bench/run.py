"""Runs an engine over benchmark queries: resumable, parallel, one Parquet part for each unit of work.

A result is a folder: `run.json` says what was run on what, `parts/` holds one file for each block of queries of a
shape. A part is written whole or not at all, and one that exists is never computed again; so a run that was stopped
goes on where it was, and ends with the same numbers as one that was not.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet import __version__
from tuplet.bench.metrics import CUTS, NAMES, Ranks, from_marginals, joint_ranks
from tuplet.bench.queries import BenchQuery, QuerySet
from tuplet.engine.engines import Limits, Source, engine_named
from tuplet.engine.logic import Logic
from tuplet.engine.ranking import Ranking
from tuplet.errors import BadInput, BudgetExceeded, TupletError, nearest

Row: TypeAlias = dict[str, Any]
Report: TypeAlias = Callable[[float, float], None]
PROTOCOL = 1
KINDS = ("marginal", "multiply", "joint")
_TOPOLOGY = {"tree": "0S", "multi-edge": "1M", "cyclic": "2C"}


@dataclass(frozen=True)
class RunSettings:
    """What decides the numbers of a run."""

    engine: str = "exact"
    logic: str = "product"
    timeout: float | None = None  # seconds for one query
    reach: int = 100  # non-answers listed at least; ranks beyond count 0 in MRR (an error below 1/reach)
    most: int = 100_000  # tuples listed at most, when ties at the end of the list are followed
    marginals: bool = False  # also rank each free variable on its own, for Marginal, Multiply and Joint
    points: bool = True  # hard tuples are scored one by one; not for methods that prune: there the list alone counts
    options: Mapping[str, Any] = field(default_factory=dict)  # of the engine: further fields of `Limits`

    def limits(self) -> Limits:
        """What the engine is given; an option that no engine knows is refused."""
        known = {f.name for f in fields(Limits)} - {"k", "logic", "timeout"}
        for key in self.options:
            if key not in known:
                close = nearest(key, known, 1)
                raise BadInput(f"unknown engine option {key!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
        return Limits(logic=Logic.of(self.logic), timeout=self.timeout, **self.options)


def evaluate(query: BenchQuery, source: Source, settings: RunSettings) -> Row:
    """One query: the metrics of its hard tuples, and what the engine said of its list.

    The list is as long as `reach` and the answers need. If it ends among ties that could decide HIT@10, it is asked
    for again, four times as long. A query that the engine refuses counts as missed, with the reason.
    """
    engine, limits = engine_named(settings.engine), settings.limits()
    clauses = query.clauses()
    wanted = settings.reach + len(query.easy) + len(query.hard)
    start = time.perf_counter()
    ranking, points, ranks = None, None, None
    failed: str | None = None
    try:
        if settings.points:
            points = engine.score(clauses, source, query.hard, limits.logic)
        while True:
            ranking = engine.run(clauses, source, replace(limits, k=wanted))
            ranks = judge(query, ranking, wanted, points)
            if ranks.decided(max(CUTS)).all() or ranking.pruned is not None or wanted >= settings.most:
                break
            wanted = min(4 * wanted, settings.most)
    except (BudgetExceeded, MemoryError) as error:
        ranking, ranks, failed = None, None, str(error) or "out of memory"
    found = row(query, ranking, ranks, 1e3 * (time.perf_counter() - start), failed)
    return found | marginal_metrics(query, source, settings) if settings.marginals else found


def marginal_metrics(query: BenchQuery, source: Source, settings: RunSettings) -> Row:
    """The metrics made from one ranking for each free variable, the others existential; none if the engine refuses."""
    engine, limits = engine_named(settings.engine), replace(settings.limits(), k=len(source.graph.entities))
    scores = []
    try:
        for variable in range(query.k):
            asked = [clause.marginal([variable]) for clause in query.clauses()]
            ranking = engine.run(asked, source, limits)
            scores.append(np.zeros(len(source.graph.entities)))
            scores[-1][ranking.tuples[:, 0]] = ranking.truth
    except (BudgetExceeded, MemoryError):
        return {}
    found = from_marginals(scores, query.easy, query.hard)
    named = {"marginal": found.marginal or {}, "multiply": found.multiply, "joint": found.joint}
    values = {f"{kind}_{name}": value for kind, metrics in named.items() for name, value in metrics.items()}
    return {**values, "hard_variables": found.hard_variables}


def judge(query: BenchQuery, ranking: Ranking, wanted: int, points: NDArray[np.float64] | None) -> Ranks:
    """The ranks of the hard tuples in an engine's list of at most `wanted` tuples.

    A list that is shorter is all there is: of a search that was not stopped, or of a method that prunes (no points).
    """
    short = len(ranking.tuples) < wanted and (ranking.pruned is None or points is None)
    return joint_ranks(ranking.tuples, ranking.truth, query.easy, query.hard, points, short or ranking.bound == 0)


def row(query: BenchQuery, ranking: Ranking | None, ranks: Ranks | None, ms: float, failed: str | None = None) -> Row:
    """The result of one query, as it is written."""
    return {
        "shape": query.shape,
        "index": query.index,
        "k": query.k,
        "e": max(len(clause.existential) for clause in query.clauses()),
        "topology": max(_TOPOLOGY[clause.shape()] for clause in query.clauses())[1:],
        "easy": len(query.easy),
        "hard": len(query.hard),
        **(ranks.values() if ranks is not None else dict.fromkeys(NAMES, 0.0)),
        "answered": ranks is not None,
        "exact": bool(ranking is not None and ranking.exact),
        "pruned": failed or (ranking.pruned if ranking is not None else None),
        "decided": float(np.mean(ranks.decided(max(CUTS)))) if ranks is not None else 0.0,
        "listed": len(ranking.tuples) if ranking is not None else 0,
        "ms": ms,
    }


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

    `workers` processes each map the store into memory; any other `Executor` whose workers see the same files will do.
    """
    settings = settings or RunSettings()
    engine_named(settings.engine)
    settings.limits()
    root = Path(folder)
    manifest = _begin(root, _manifest(store, queries, settings, block))
    todo, done = [], 0
    for unit in units(queries, block):
        if (root / "parts" / f"{unit.name}.parquet").exists():
            done += len(unit.queries)
        else:
            todo.append(unit)
    if progress is not None:
        progress(done, len(queries))
    with _executor(executor, workers if len(todo) > 1 else 1) as pool:
        for size in _results(pool, str(store), root, settings, todo):
            done += size
            if progress is not None:
                progress(done, len(queries))
    return manifest


def _results(
    pool: Executor | None, store: str, root: Path, settings: RunSettings, todo: Sequence[Unit]
) -> Iterator[int]:
    tasks = ((store, str(root / "parts" / f"{unit.name}.parquet"), settings, unit) for unit in todo)
    if pool is None:
        yield from map(_work, tasks)
        return
    try:
        for future in as_completed([pool.submit(_work, task) for task in tasks]):
            yield future.result()
    except BrokenExecutor:
        raise BudgetExceeded("a worker process died, perhaps for lack of memory; run again to go on") from None


@contextmanager
def _executor(given: Executor | None, workers: int) -> Iterator[Executor | None]:
    if given is not None or workers <= 1:
        yield given
        return
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _work(task: tuple[str, str, RunSettings, Unit]) -> int:
    """One unit, from the store to the part on disk; returns the number of queries."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    store, part, settings, unit = task
    source = _source(store)
    _warm(store, settings.engine, settings.logic)
    rows = [evaluate(query, source, settings) for query in unit.queries]
    handle, temporary = tempfile.mkstemp(prefix=".part-", dir=Path(part).parent)
    os.close(handle)
    try:
        pq.write_table(pa.Table.from_pylist(rows, _schema()), temporary)
        os.replace(temporary, part)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return len(rows)


@cache
def _warm(store: str, engine: str, logic: str) -> None:
    """Load what is compiled by answering one small query, so that times are those of the search."""
    source = _source(store)
    (head,), (relation,), _ = (part[:1].tolist() for part in source.graph.edges())
    nothing = np.empty((0, 1), dtype=np.int32)
    small = BenchQuery("1p", "r1(s1,f1)", {"r1": 2 * relation, "s1": head}, nothing, np.zeros((1, 1), dtype=np.int32))
    evaluate(small, source, RunSettings(engine, logic))


@cache
def _source(store: str) -> Source:
    from tuplet.store import open_store

    return open_store(store).source


def _schema() -> Any:
    import pyarrow as pa

    whole, number = pa.int32(), pa.float64()
    columns = {"shape": pa.string(), "index": whole, "k": whole, "e": whole, "topology": pa.string()}
    columns |= {"easy": whole, "hard": whole}
    columns |= dict.fromkeys(NAMES, number)
    columns |= {"answered": pa.bool_(), "exact": pa.bool_(), "pruned": pa.string(), "decided": number}
    columns |= {"listed": pa.int64(), "ms": number}
    columns |= {f"{kind}_{name}": number for kind in KINDS for name in NAMES}  # empty unless asked for
    return pa.schema(columns | {"hard_variables": whole})


# --- the manifest ------------------------------------------------------------------------------------------------


def digest(queries: QuerySet) -> str:
    """A hash of the queries and their answers: only runs with the same one may be compared."""
    total = hashlib.sha256()
    for q in queries:
        total.update(json.dumps([q.shape, q.formula, sorted(q.grounding.items())]).encode())
        for answers in (q.easy, q.hard):
            total.update(np.ascontiguousarray(answers, dtype=np.int32).tobytes() + b"|")
    return total.hexdigest()


def _manifest(store: str | os.PathLike[str], queries: QuerySet, settings: RunSettings, block: int) -> dict[str, Any]:
    if not len(queries):
        raise BadInput("there are no queries to run")
    if any(not len(query.hard) for query in queries):
        raise BadInput("some queries have no hard answers; there is nothing to rank")
    source = _source(str(store))
    asked = queries.meta.get("graph")
    if asked is not None and asked != source.graph.hash:
        raise BadInput(f"the queries were sampled from graph {asked[:12]}, the store holds {source.graph.hash[:12]}")
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


def _plain(meta: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(dict(meta), default=str))
    return plain


def _begin(root: Path, manifest: dict[str, Any]) -> dict[str, Any]:
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
