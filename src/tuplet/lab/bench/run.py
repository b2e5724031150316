"""Runs an engine over benchmark queries: resumable, parallel, one Parquet part for each unit of work.

A part is written whole or not at all, and one that exists is never computed again; so a run that was stopped goes on
where it was, and ends with the same numbers as one that was not.

What the engine says of itself decides how its answers are judged:

marginal   It ranks each variable on its own. Tuples are ranked over all of E^k by the product of one number for each
           variable; beside that come Marginal, Multiply and Joint (`metrics.from_marginals`).
prunes     Its list is all it has: a hard tuple that is not listed is missed, whatever its truth.
otherwise  Hard tuples are scored one by one, and the list is as long as their ranks need.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from multiprocessing.connection import wait
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput, BudgetExceeded, Refused
from tuplet.files import remove
from tuplet.lab.bench.metrics import CUTS, TupleRanks, from_marginals, joint_ranks, product_ranks, tuple_keys
from tuplet.lab.bench.queries import BenchQuery, QuerySet
from tuplet.lab.bench.results import ResultRow, RunManifest, RunSettings, write_part
from tuplet.lab.bench.shapes import topology
from tuplet.query.engine import Plan
from tuplet.query.limits import Deadline, OutOfTime
from tuplet.query.ranking import Ranking
from tuplet.query.source import Source
from tuplet.store import open_store
from tuplet.truth.cluster import Folder, fetch_folder, ship

if TYPE_CHECKING:
    from tuplet.engines.marginals import MarginalEngine

Report: TypeAlias = Callable[[float, float], None]
Scores: TypeAlias = NDArray[np.floating[Any]]  # [k, entities]


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
    """The manifest of a run; raises `BadInput` for one that is not possible."""
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


# --- a unit of queries of one shape: rows of numbers ---------------------------------------------------------------


class Evaluator:
    """An engine on a source, for many units: what the engine makes of the source is kept."""

    def __init__(self, source: Source, settings: RunSettings) -> None:
        self.source, self.settings = source, settings
        self.engine, self.limits = settings.runner(), settings.limits
        self.engine.load(self.source)

    def warm(self) -> Evaluator:
        """Answer one small query, so that times are those of the search; returns itself."""
        (head,), (relation,), _ = (part[:1].tolist() for part in self.source.graph.edges())
        nothing, any_ = np.empty((0, 1), dtype=np.int32), np.zeros((1, 1), dtype=np.int32)
        self.evaluate([BenchQuery("1p", "r1(s1,f1)", {"r1": 2 * relation, "s1": head}, nothing, any_)])
        return self

    def evaluate(self, queries: Sequence[BenchQuery]) -> list[ResultRow]:
        """The rows of some queries of one shape; at once if the engine can and no query has a time of its own."""
        judged_by_points = not (self.engine.marginal or self.engine.prunes)
        at_once = self.engine.batched and not judged_by_points and self.limits.timeout is None
        groups = [queries] if at_once else [[query] for query in queries]
        rows = [row for group in groups for row in self._group(group)]
        # ru_maxrss counts KiB on Linux and bytes on macOS.
        peak = getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6
        return [replace(row, peak_mb=peak) for row in rows]

    def _group(self, queries: Sequence[BenchQuery]) -> list[ResultRow]:
        """Queries that are answered together; those that are refused or too large are missed, with the reason."""
        judge = self._by_marginals if self.engine.marginal else self._by_list if self.engine.prunes else self._by_points
        start = time.perf_counter()
        try:
            plans = [self.engine.planned(query.clauses(), self.source, self.limits) for query in queries]
            return judge(queries, plans, lambda: 1e3 * (time.perf_counter() - start) / len(queries))
        except Refused as error:  # one shape: all are refused or none
            return [make_missed_row(query, str(error)) for query in queries]
        except (BudgetExceeded, MemoryError, OutOfTime) as error:
            if len(queries) == 1:
                why = "timeout" if isinstance(error, OutOfTime) else str(error) or "out of memory"
                return [make_missed_row(queries[0], why, 1e3 * (time.perf_counter() - start))]
        return [row for query in queries for row in self._group([query])]

    def _by_marginals(
        self, queries: Sequence[BenchQuery], plans: Sequence[Plan], ms: Callable[[], float]
    ) -> list[ResultRow]:
        engine = cast("MarginalEngine[Any]", self.engine)
        scores = engine.marginals(plans, self.limits, Deadline(self.limits.timeout))
        return marginal_rows(queries, scores, [engine.truth(own) for own in scores], ms, self.settings.reach)

    def _by_list(
        self, queries: Sequence[BenchQuery], plans: Sequence[Plan], ms: Callable[[], float]
    ) -> list[ResultRow]:
        # Budgets that adapt grow until as many are proven as the filtered HIT@10 may need.
        needed = max(CUTS) + max(len(query.filtered) + len(query.scored) for query in queries)
        deadline = Deadline(self.limits.timeout)
        # An engine that prunes may have a list that is longer than what it proves: everything that was not pruned.
        kept = getattr(self.engine, "kept", None)
        if kept is not None:
            rankings = kept(plans, replace(self.limits, k=needed), deadline, max(CUTS))
        else:
            rankings = self.engine.run_many(plans, replace(self.limits, k="all"), deadline)
        ranks = [
            joint_ranks(found.tuples, found.truth, query.filtered, query.scored, complete=True)
            for query, found in zip(queries, rankings, strict=True)
        ]
        each = ms()
        return [
            self._list_row(query, own, ranking, each, recall=share(ranking.tuples, query.scored))
            for query, own, ranking in zip(queries, ranks, rankings, strict=True)
        ]

    def _by_points(
        self, queries: Sequence[BenchQuery], plans: Sequence[Plan], ms: Callable[[], float]
    ) -> list[ResultRow]:
        """The list is as long as `reach` and the answers need. If it ends among ties that could decide HIT@10, it is
        asked for again, four times as long."""
        (query,), (plan,) = queries, plans
        deadline = Deadline(self.limits.timeout)
        points = self.engine.score(plan, query.scored, self.limits, deadline)
        wanted = self.settings.reach + len(query.filtered) + len(query.scored)
        while True:
            ranking = self.engine.run(plan, replace(self.limits, k=wanted), deadline)
            ranks = ranks_of(query, ranking, wanted, points)
            if ranks.is_decided(max(CUTS)).all() or ranking.pruned is not None or wanted >= self.settings.most:
                return [self._list_row(query, ranks, ranking, ms())]
            wanted = min(4 * wanted, self.settings.most)

    def _list_row(self, query: BenchQuery, ranks: TupleRanks, ranking: Ranking, ms: float, **more: float) -> ResultRow:
        found = {"exact": ranking.exact, "pruned": ranking.pruned, "listed": len(ranking.tuples), **more}
        alone = self.marginal_metrics(query) if self.settings.marginals else {}
        return make_row(query, ranks, ms=ms, **found, **alone)

    def marginal_metrics(self, query: BenchQuery) -> dict[str, Any]:
        """The metrics made from one ranking for each free variable, the others existential; none if that is refused."""
        entities = len(self.source.graph.entities)
        limits = replace(self.limits, k=entities)
        scores = np.zeros((query.k, entities))
        try:
            for variable, own in enumerate(scores):
                asked = [clause.marginal([variable]) for clause in query.clauses()]
                plan = self.engine.planned(asked, self.source, limits)
                ranking = self.engine.run(plan, limits, Deadline(limits.timeout))
                own[ranking.tuples[:, 0]] = ranking.truth
        except (BudgetExceeded, MemoryError, OutOfTime):
            return {}
        return from_marginals(list(scores), query.filtered, query.scored)


def ranks_of(query: BenchQuery, ranking: Ranking, wanted: int, points: NDArray[np.float64]) -> TupleRanks:
    """The ranks of the hard tuples, whose truth is `points`, in a list of at most `wanted` tuples.

    A list that is shorter is all there is, unless the search was stopped.
    """
    complete = (len(ranking.tuples) < wanted and ranking.pruned is None) or ranking.bound == 0
    return joint_ranks(ranking.tuples, ranking.truth, query.filtered, query.scored, points, complete)


def share(listed: NDArray[np.integer], hard: NDArray[np.int32]) -> float:
    """The share of hard tuples that are listed."""
    kept, wanted = tuple_keys(np.asarray(listed), hard)
    return float(np.isin(wanted, kept).mean())


def make_missed_row(query: BenchQuery, why: str | None, ms: float = 0.0) -> ResultRow:
    """The row of a query that was not answered, for the reason given."""
    clauses = query.clauses()
    return ResultRow(
        shape=query.shape,
        index=query.index,
        k=query.k,
        e=max(len(clause.existential) for clause in clauses),
        topology=topology(clauses),
        easy=len(query.easy),
        hard=len(query.scored),
        pruned=why,
        ms=ms,
        **by_stratum(query, None),
    )


def make_row(query: BenchQuery, ranks: TupleRanks, **columns: Any) -> ResultRow:
    """The row of a query whose hard tuples have ranks, with further columns."""
    decided = float(np.mean(ranks.is_decided(max(CUTS))))
    values = {**ranks.values(), **by_stratum(query, ranks), **columns}
    return replace(make_missed_row(query, None), answered=True, decided=decided, **values)


def by_stratum(query: BenchQuery, ranks: TupleRanks | None) -> dict[str, Any]:
    """The columns of the strata that the scored answers are in; without ranks all of them are missed."""
    found: dict[str, Any] = {}
    if query.strata is None:
        return found
    for stratum in np.unique(query.strata).tolist():
        own = query.strata == stratum
        found[f"links{stratum}_mrr"] = 0.0 if ranks is None else float(ranks.reciprocal[own].mean())
        found[f"links{stratum}_hit10"] = 0.0 if ranks is None else float(ranks.hits(10)[own].mean())
    return found


def marginal_rows(
    queries: Sequence[BenchQuery],
    scores: Sequence[Scores],
    truth: Sequence[NDArray[np.float64]],
    ms: Callable[[], float] = lambda: 0.0,
    reach: int = 100,
) -> list[ResultRow]:
    """The rows of queries from their scores, and from the same as numbers that may be multiplied.

    What has truth 0 was pruned: recall is the share of hard tuples that no member's marginal prunes.
    """
    ranks = [product_ranks(list(own), q.filtered, q.scored, reach) for own, q in zip(truth, queries, strict=True)]
    each = ms()
    rows = []
    for query, found, vectors, own in zip(queries, ranks, scores, truth, strict=True):
        kept = np.stack([vector[query.scored[:, place]] > 0 for place, vector in enumerate(own)], axis=1)
        columns = from_marginals(list(vectors), query.filtered, query.scored) | {
            "listed": min(int((vector > 0).sum()) for vector in own),
            "recall": float(kept.all(axis=1).mean()),
            "recall_variable": float(kept.mean()),
        }
        rows.append(make_row(query, found, ms=each, **columns))
    return rows
