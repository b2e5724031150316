"""Relations scored on other machines: one task for each, whose parts come back and are kept like those made here.

A worker fetches the graph and the models by their content, opens them once, and computes what one process would: the
same blocks on the same number of threads, so that the parts are the same to the last bit on processors of one kind.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, as_completed
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.cluster.ray_executor import RayExecutor, arrived
from tuplet.cluster.shipping import Folder
from tuplet.errors import BadInput, BudgetExceeded
from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict.base import LinkPredictor, device_of
from tuplet.predict.model_folder import located
from tuplet.progress import Report
from tuplet.truth.candidates.score import CandidateScorer, RelationParts, part_names, workers_for
from tuplet.truth.candidates.sources import CandidateSources
from tuplet.truth.candidates.two_step_pairs import TwoStepPairs
from tuplet.truth.learned.calibrate import two_step_rules
from tuplet.truth.predictor_choice import open_predictors
from tuplet.truth.relation_cache import RelationCache
from tuplet.truth.rules import Calibration

Part: TypeAlias = Mapping[str, NDArray[Any]]


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
            return RelationParts(scorer, None)
        rules = two_step_rules(len(graph.entities), len(graph.relations), known)
        assert rules is not None, "there were rules where the job comes from"
        return RelationParts(scorer, TwoStepPairs(rules, self.level, np.array(self.bounds)))


@lru_cache(maxsize=1)
def _opened(job: ScoringJob) -> RelationParts:
    return job.open()


def score_relation(job: ScoringJob, number: int) -> dict[str, Part]:
    """The parts of one relation, in a worker."""
    return _opened(job).parts(number)


def score_on_cluster(
    address: str,
    graph: KnowledgeGraph,
    counted: tuple[str, ...],
    models: Sequence[object],
    scorers: Sequence[LinkPredictor],
    wanted: ScoredCandidates,
    cache: RelationCache | None,
    progress: Report | None,
) -> None:
    """Have the relations scored on a Ray cluster that are not in the cache yet; they are there afterwards."""
    if cache is None or not all(isinstance(model, str | os.PathLike) for model in models):
        raise BadInput("a cluster is sent model folders; an object in Python, or a name of one, stays here")
    device, count = device_of(scorers[0]).type, len(graph.relations)
    names = [part_names(number, wanted.sources, scorers, wanted.two_step) for number in range(count)]
    todo = [number for number in range(count) if not all(map(cache.has, names[number]))]
    facts = np.bincount(graph.edges(*counted)[1], minlength=count)
    todo.sort(key=lambda number: -int(facts[number]))  # the largest would keep everybody waiting if it came last
    if not todo:
        return
    rules = wanted.two_step
    level, bounds = (None, ()) if rules is None else (rules.level, tuple(rules.bounds.tolist()))
    with RayExecutor(address, gpu=device == "cuda") as pool, tempfile.TemporaryDirectory() as folder:
        graph.save(Path(folder) / "graph")
        sent = pool.ship(Path(folder) / "graph"), counted, tuple(pool.ship(located(str(model))) for model in models)
        job = ScoringJob(*sent, device, replace(wanted, two_step=None), level, bounds, workers_for(scorers))
        if progress:
            progress("index", count - len(todo), count, f"relations, {len(pool.actors)} workers")
        for done, (number, parts) in enumerate(_scored(pool, job, todo), count - len(todo) + 1):
            for name in names[number]:
                cache.save(name, parts[name])
            if progress:
                progress("index", done, count, "relations")


def _scored(pool: Executor, job: ScoringJob, todo: Sequence[int]) -> Iterator[tuple[int, dict[str, Part]]]:
    """The parts of relations as they are finished."""
    futures = {pool.submit(score_relation, job, number): number for number in todo}
    try:
        for future in as_completed(futures):
            yield futures.pop(future), future.result()
    except BrokenExecutor:
        why = "workers died again and again, perhaps for lack of memory; the same command goes on"
        raise BudgetExceeded(why) from None
    finally:
        for future in futures:
            future.cancel()
