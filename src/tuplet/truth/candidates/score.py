"""Scores of the candidates: what every scorer says in both directions, relation by relation.

A relation's candidates are its half-links (entities that are known as a head, or as a tail) against the ends that are
plausible on the other side. Every scorer gives its rows; the edges that reach the floor by any of them in any direction
are listed, and each scorer is then asked about all of those. Pairs that rules of two steps speak for are listed
whatever scorers say. Only one relation is ever held. Needs torch and numpy alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.predict.base import LinkPredictor, device_of, scores_columns
from tuplet.progress import Report
from tuplet.truth.candidates.candidate_scorer import CandidateScorer
from tuplet.truth.candidates.counted_rows import RowProgress
from tuplet.truth.candidates.relation_parts import (
    Part,
    RelationParts,
    RelationTask,
    SweepTask,
    TwoStepSource,
    WholeTask,
    finished_parts,
    plan,
)
from tuplet.truth.candidates.row_limit import RowsDone
from tuplet.truth.candidates.sources import EVERYTHING, CandidateSources
from tuplet.truth.relation_cache import RelationCache
from tuplet.truth.rules import Calibration
from tuplet.truth.scored import EdgeColumns, ScoredEdges, SearchCheck

Item = TypeVar("Item")
Result = TypeVar("Result")

FLOOR = 0.002  # truth in one direction from which on an edge is listed


def score_candidates(
    scorers: Mapping[str, LinkPredictor],
    counted: EdgeColumns,
    sources: CandidateSources = EVERYTHING,
    floor: float = FLOOR,
    rule: Calibration | None = None,
    memory: int | None = None,
    cache: RelationCache | None = None,
    progress: Report | None = None,
    two_step: TwoStepSource | None = None,
    until: float = math.inf,
) -> ScoredEdges:
    """All candidates that reach the floor, each as if it were unknown whether it is a fact.

    `counted` are the known edges (heads, relations, tails): they make the half-links, the types and the counts of the
    rule. The scorers compute where they lie. With a `cache` every finished relation is kept there, and a later call
    goes on where the earlier one stopped. `two_step` pairs are listed beside those that reach the floor. `memory`
    (bytes; default 1 GiB, on a GPU 40 % of what is free) bounds the blocks; beside it the rows of one relation are held
    in half precision if a scorer gives whole rows alone. Dear rows that are not begun `until` then are left out.
    """
    if not 0 < floor < 1:
        raise BadInput(f"the threshold lies between 0 and 1, not {floor:g}")
    workers = workers_for(scorers.values())
    scorer = CandidateScorer.of(scorers, counted, sources, floor, rule or Calibration(), memory, workers)
    plain = RelationParts(scorer, two_step)
    tasks = plan_relations(plain, cache, workers)
    if math.isfinite(until):  # what is least useful is left for the end
        tasks.sort(key=plain.facts_in_a_row, reverse=True)
    cut = any(isinstance(task, SweepTask) for task in tasks)
    told = RowProgress(progress, [plain.dear_rows(task) for task in tasks], cut, until)
    work = RelationParts(scorer.counting(told), two_step)
    work.late = lambda: bool(told.late)

    def run(some: Sequence[RelationTask]) -> Iterator[tuple[int, Any]]:
        yield from enumerate(_side_by_side(lambda task: task.compute(work, cache), some, workers))

    found, searched = {}, {}
    for number, parts in finished_parts(work, tasks, cache, run, told.task):
        found[number] = _merged(list(parts.values()))
        if (check := sum(map(SearchCheck.of_part, parts.values()), SearchCheck())).rows:
            searched[number] = check
    scored = replace(joined(tuple(scorers), dict(sorted(found.items()))), searched=searched)
    if sources.useful_from is None and not math.isfinite(until):
        return scored
    return replace(scored, rows=RowsDone.of(counted, sources, told.late))


def plan_relations(work: RelationParts, cache: RelationCache | None, workers: int) -> list[WholeTask | SweepTask]:
    """The tasks of all relations, large ones in shards, unless they are finished."""

    def shards(number: int) -> list[SweepTask]:
        return [] if cache and cache.has(number) else work.shards(number)

    return plan(_side_by_side(shards, range(work.scorer.scorers[0].relations), workers))


def workers_for(scorers: Iterable[LinkPredictor]) -> int:
    """How many relations at a time.

    On the CPU as many as torch has threads, each with one: the steps of a small relation are too short to be shared.
    Predictors of whole rows take turns, since nobody knows whether they may be called from several threads.
    """
    alone = any(device_of(scorer).type == "cuda" or not scores_columns(scorer) for scorer in scorers)
    return 1 if alone else torch.get_num_threads()


def _side_by_side(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """The results of all items in their order; what has not begun when the reader stops is left undone."""
    if workers == 1:
        yield from map(work, items)
        return
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def finished_relations(
    root: Path,
    models: Sequence[str | None],
    sources: CandidateSources,
    floor: float,
    rule: Calibration,
    counted: EdgeColumns,
    small: bool = False,
) -> RelationCache | None:
    """Where `score_candidates` of these models (by hash) keeps what it finished; None for a model without a hash."""
    if None in models:
        return None
    key = " ".join([*(model for model in models if model), str(sources.first_part)])
    return RelationCache.of(root, key, floor, rule, *counted, small=small)


def _merged(parts: Sequence[Part]) -> Part:
    """Parts of one relation that have no edge in common, in order."""
    if len(parts) == 1:
        return parts[0]
    heads, tails = (np.concatenate([part[name] for part in parts]) for name in ("heads", "tails"))
    order = np.lexsort((tails, heads))
    logs = np.concatenate([np.asarray(part["logs"], dtype=np.float32) for part in parts], axis=2)
    return {"heads": heads[order], "tails": tails[order], "logs": logs[:, :, order]}


def joined(names: tuple[str, ...], found: Mapping[int, Mapping[str, NDArray[Any]]]) -> ScoredEdges:
    """The parts of some relations, in ascending order, in one."""
    parts = list(found.values())
    which = np.repeat(np.array(list(found), dtype=np.int32), [len(part["heads"]) for part in parts])
    none = np.zeros(0, dtype=np.int32)
    heads, tails = (np.concatenate([none, *(part[name] for part in parts)]) for name in ("heads", "tails"))
    logs = np.empty((len(names), 2, len(which)), dtype=np.float32)
    end = 0
    for part in parts:
        start, end = end, end + len(part["heads"])
        logs[:, :, start:end] = part["logs"]
    return ScoredEdges(heads, which, tails, names, logs)
