"""Relations scored on other machines: tasks for each, or for its shards, whose parts are kept like those made here.

A worker fetches the graph and the models by their content, opens them once, and computes what one process would: the
same blocks on the same number of threads, so that the parts are the same to the last bit on processors of one kind.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, as_completed
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tuplet.errors import BadInput, BudgetExceeded
from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict.base import LinkPredictor, device_of
from tuplet.predict.model_folder import located
from tuplet.progress import Report
from tuplet.truth.calibration.calibrate import two_step_rules
from tuplet.truth.candidates.score import (
    RelationCache,
    RelationParts,
    RelationTask,
    ShardSize,
    SweepTask,
    WholeTask,
    finished_parts,
    plan_relations,
    workers_for,
)
from tuplet.truth.candidates.scorer import CandidateScorer
from tuplet.truth.candidates.sources import CandidateSources, TwoStepPairs
from tuplet.truth.cluster import Folder, RayExecutor, arrived
from tuplet.truth.predictor_choice import open_predictors
from tuplet.truth.rules import Calibration


@dataclass(frozen=True)
class ScoredCandidates:
    """Which candidates are scored, and how."""

    sources: CandidateSources
    floor: float
    rule: Calibration
    memory: int | None
    two_step: TwoStepPairs | None


@dataclass(frozen=True)
class ScoringJob:
    """All that decides the parts of a relation, small enough to travel with each."""

    graph: Folder
    counted: tuple[str, ...]  # splits whose edges are counted
    models: tuple[Folder, ...]
    device: str
    wanted: ScoredCandidates  # but for the rules: those are made from the graph
    level: float | None  # of the rules' pairs
    bounds: tuple[float, ...]
    workers: int  # that share the memory where the job comes from
    size: ShardSize

    def open(self) -> RelationParts:
        """Ready to score relations."""
        graph = KnowledgeGraph.open(arrived(self.graph))
        known, wanted = graph.edges(*self.counted), self.wanted
        # The graph was checked where the job comes from; here it is a copy of it.
        models = [arrived(model) for model in self.models]
        scorers, _ = open_predictors(models, graph, self.device, other_graph=True)
        if workers_for(scorers.values()) > 1:
            torch.set_num_threads(1)
        settings = wanted.sources, wanted.floor, wanted.rule, wanted.memory, self.workers
        scorer = CandidateScorer.of(scorers, known, *settings)
        if self.level is None:
            return RelationParts(scorer, None, self.size)
        rules = two_step_rules(len(graph.entities), len(graph.relations), known)
        assert rules is not None, "there were rules where the job comes from"
        return RelationParts(scorer, TwoStepPairs(rules, self.level, np.array(self.bounds)), self.size)


@lru_cache(maxsize=1)
def _opened(job: ScoringJob) -> RelationParts:
    return job.open()


def compute(job: ScoringJob, task: RelationTask) -> Any:
    """What comes of a task, in a worker."""
    return task.compute(_opened(job))


def score_on_cluster(
    address: str,
    graph: KnowledgeGraph,
    counted: tuple[str, ...],
    models: Sequence[object],
    scorers: Mapping[str, LinkPredictor],
    wanted: ScoredCandidates,
    cache: RelationCache | None,
    progress: Report | None,
) -> None:
    """Have the relations scored on a Ray cluster that are not in the cache yet; they are there afterwards."""
    if cache is None or not all(isinstance(model, str | os.PathLike) for model in models):
        raise BadInput("a cluster is sent model folders; an object in Python, or a name of one, stays here")
    workers, device = workers_for(scorers.values()), device_of(next(iter(scorers.values()))).type
    known, rules = graph.edges(*counted), wanted.two_step
    settings = wanted.sources, wanted.floor, wanted.rule, wanted.memory, workers
    work = RelationParts(CandidateScorer.of(scorers, known, *settings), rules)
    tasks = [task for task in plan_relations(work, cache, workers) if not _is_kept(cache, work, task)]
    facts = np.bincount(known[1], minlength=len(graph.relations))
    # whole relations come behind shards; the largest would keep everybody waiting if it came last
    tasks.sort(key=lambda task: -int(facts[task.number]) if isinstance(task, WholeTask) else -math.inf)
    if not tasks:
        return
    level, bounds = (None, ()) if rules is None else (rules.level, tuple(rules.bounds.tolist()))
    with RayExecutor(address, gpu=device == "cuda") as pool, tempfile.TemporaryDirectory() as folder:
        graph.save(Path(folder) / "graph")
        sent = pool.ship(Path(folder) / "graph"), counted, tuple(pool.ship(located(str(model))) for model in models)
        job = ScoringJob(*sent, device, replace(wanted, two_step=None), level, bounds, workers, work.size)
        if progress:
            progress("index", 0, len(tasks), f"parts, {len(pool.actors)} workers")

        def done(number: int) -> None:
            if progress:
                progress("index", number, len(tasks), "parts")

        for _ in finished_parts(work, tasks, cache, lambda some: _computed(pool, job, some), done):
            pass


def _is_kept(cache: RelationCache, work: RelationParts, task: WholeTask | SweepTask) -> bool:
    return isinstance(task, WholeTask) and all(map(cache.has, work.names(task.number)))


def _computed(pool: Executor, job: ScoringJob, tasks: Sequence[RelationTask]) -> Iterator[tuple[int, Any]]:
    """What comes of tasks, as they are finished."""
    futures = {pool.submit(compute, job, task): place for place, task in enumerate(tasks)}
    try:
        for future in as_completed(futures):
            yield futures.pop(future), future.result()
    except BrokenExecutor:
        why = "workers died again and again, perhaps for lack of memory; the same command goes on"
        raise BudgetExceeded(why) from None
    finally:
        for future in futures:
            future.cancel()
