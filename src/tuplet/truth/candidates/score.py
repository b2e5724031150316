"""Scores of the candidates: what every scorer says in both directions, relation by relation.

A relation's candidates are its half-links (entities that are known as a head, or as a tail) against the ends that are
plausible on the other side. Every scorer gives its rows; the edges that reach the floor by any of them in any direction
are listed, and each scorer is then asked about all of those. Pairs that rules of two steps speak for are listed
whatever scorers say. Only one relation is ever held.

What is listed of a relation has parts with names; a large relation is cut into shards of a fixed number of rows, the
same on every machine, so that no task is large. Each shard is swept alone: the edges that reach the floor, and what
turns the scores of its rows into truth. When all are swept it is known which edges are listed, and every scorer is
asked about these, again some rows at a time.

Tasks run in threads here, or on the workers of a Ray cluster. A worker fetches the graph and the models by their
content, opens them once, and computes what one process would: the same blocks on the same number of threads, so that
the parts are the same to the last bit on processors of one kind.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, as_completed
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.errors import BadInput, BudgetExceeded
from tuplet.files import make_folder, replacing, system_errors
from tuplet.graph.adjacency import distinct
from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict.base import LinkPredictor, device_of, scores_columns, sees_facts
from tuplet.predict.device import side_by_side
from tuplet.predict.model_folder import find_model_folder
from tuplet.progress import Report, silent
from tuplet.truth.calibration.calibrate import two_step_rules
from tuplet.truth.candidates.rows import HalfLinks, RowLogs
from tuplet.truth.candidates.scorer import CandidateScorer, CountedRows, Part, RowProgress, RowsDone, ShardSize
from tuplet.truth.candidates.sources import EVERYTHING, CandidateSources, TwoStepPairs
from tuplet.truth.cluster import Folder, RayExecutor, fetch_folder
from tuplet.truth.edges import EdgeColumns, ScoredEdges, SearchCheck
from tuplet.truth.recipes import open_predictors
from tuplet.truth.rules import Calibration

Tensor = torch.Tensor


class RelationCache:
    """A folder inside `root`, named by what decides its content: models (`key`), threshold, rule and known edges."""

    def __init__(self, root: Path, key: str, threshold: float, rule: Calibration, *edges: NDArray[np.integer]) -> None:
        digest = hashlib.sha256(json.dumps([key, threshold, rule.as_dict()]).encode())
        for column in edges:
            digest.update(np.asarray(column, dtype=np.int32).tobytes())
        self.folder = root / digest.hexdigest()[:16]
        with system_errors(self.folder):
            make_folder(self.folder)

    @property
    def begun(self) -> bool:
        """Whether some relation is finished."""
        return any(self.folder.glob("*.npz"))

    def has(self, relation: int | str) -> bool:
        """Whether a part is finished, as far as its file says."""
        return (self.folder / f"{relation}.npz").exists()

    def load(self, relation: int | str) -> dict[str, NDArray[Any]] | None:
        """The part of a relation, by its number or the name of the part; None if it is not finished."""
        try:
            with np.load(self.folder / f"{relation}.npz", allow_pickle=False) as part:
                return dict(part)
        except Exception:  # missing, or damaged in whatever way: the relation is computed again
            return None

    def save(self, relation: int | str, part: Mapping[str, NDArray[Any]]) -> None:
        """Keep the part of a relation."""
        with replacing(self.folder / f"{relation}.npz", force=True) as fresh, open(fresh, "wb") as stream:
            np.savez(stream, **dict(part))  # type: ignore[arg-type]

    def drop(self, relation: int | str) -> None:
        """A part is not needed any more."""
        (self.folder / f"{relation}.npz").unlink(missing_ok=True)


SHARD = ShardSize()


@dataclass(frozen=True)
class WholeTask:
    """All parts of a relation at once."""

    number: int

    def compute(self, scorer: CandidateScorer, cache: RelationCache | None = None) -> dict[str, Part]:
        """The parts by name; those in the cache are not computed again, the others are kept there."""
        rows, made = list[list[RowLogs]](), dict[str, Part]()
        for name in scorer.names(self.number):
            part: Part | None = cache.load(name) if cache else None
            if part is None:
                with torch.inference_mode():
                    if "-two-step-" in name:
                        part = scorer.two_step_pairs(self.number, list(made.values()), rows)
                    elif made:
                        part = scorer.relation(self.number, without_fact=True)
                    else:
                        rows = scorer.rows(scorer.links(self.number))
                        part = scorer.relation(self.number, rows=rows)
                        rows = [] if scorer.two_step is None else rows  # they may hold many numbers
                if cache and not scorer.late:
                    cache.save(name, part)
            made[name] = part
        return made


@dataclass(frozen=True)
class SweepTask:
    """Some rows of a relation against all their columns."""

    number: int
    without_fact: bool  # rows that have none; else half-links
    shard: int
    name: str

    def compute(self, scorer: CandidateScorer, cache: RelationCache | None = None) -> dict[str, Part]:
        """The keys of what reaches the floor, and of every scorer in each direction the shifts of the rows.

        Whole rows of a scorer that gives no other are in it too: they are dear, and will be looked at again.
        """
        part: dict[str, Tensor] = {}
        whole = scorer.rows(scorer.shared_links(self.number, self.without_fact))
        with torch.inference_mode():
            swept = scorer.rows([[self._some(scorer, side) for side in both] for both in whole])
            part["keys"] = scorer.reaching(swept)
            for place, both in enumerate(swept):
                for side, like in zip(both, whole[place], strict=True):
                    part[f"shifts-{place}-{side.links.inverse:d}"] = side.shifts
                    if (held := side.copy_held(like)) is not None:
                        part[f"held-{place}-{side.links.inverse:d}"] = held
            searched = scorer.check_search(swept, part["keys"])
        return {self.name: {name: array.cpu().numpy() for name, array in part.items()} | searched}

    def _some(self, scorer: CandidateScorer, side: RowLogs) -> HalfLinks:
        size = scorer.size.rows(side.predictor, side.links)
        return side.links.some(self.shard * size, (self.shard + 1) * size)


class SweptRows(NamedTuple):
    """Some rows of one scorer, as the sweeps left them."""

    scorer: int
    rows: slice
    shifts: NDArray[np.float32]
    held: NDArray[np.float16] | None


@dataclass(frozen=True)
class FillTask:
    """What every scorer says in one direction of some edges that are listed, given what the sweeps found."""

    number: int
    without_fact: bool
    inverse: bool
    keys: NDArray[np.int64]
    asked: Sequence[SweptRows]  # of every scorer that has rows in this direction

    def compute(self, scorer: CandidateScorer, cache: RelationCache | None = None) -> NDArray[np.float32]:
        """Logs. [scorers, keys]"""
        links = scorer.shared_links(self.number, self.without_fact)
        device = scorer.counts.edges(self.number)[0].device
        heads, tails = scorer.ends(torch.from_numpy(self.keys).to(device))
        logs = torch.full((len(links), len(self.keys)), torch.nan, device=device)
        with torch.inference_mode():
            for place, rows, shifts, held in self.asked:
                side = next(side for side in links[place] if side.inverse == self.inverse)
                mine = scorer.row_logs(scorer.scorers[place], side.some(rows.start, rows.stop))
                known = None if held is None else torch.from_numpy(held).to(device)
                logs[place] = mine.restore(torch.from_numpy(shifts).to(device), known).at(heads, tails)
        found: NDArray[np.float32] = logs.cpu().numpy()
        return found


FirstTask: TypeAlias = WholeTask | SweepTask
RelationTask: TypeAlias = FirstTask | FillTask
Runner: TypeAlias = Callable[[Sequence[RelationTask]], Iterator[tuple[int, Any]]]  # place of a task, what came of it


def cut_shards(scorer: CandidateScorer, number: int) -> list[SweepTask]:
    """The shards of a relation that is too large for one task; none of any other."""
    entities, facts = scorer.counts.entities, len(scorer.counts.edges(number)[0])
    kinds = [name for name in scorer.names(number) if "-two-step-" not in name]
    most_rows = facts if scorer.views is not None and len(kinds) == 1 else entities
    if most_rows * entities <= scorer.size.cells and not any(map(sees_facts, scorer.scorers)):
        return []  # without looking at it
    found = []
    for without_fact, name in enumerate(kinds):
        sides = _sides(scorer, number, bool(without_fact))
        most = max([1, *(-(-len(side.rows) // size) for _, side, size in sides)])
        found += [SweepTask(number, bool(without_fact), shard, f"{name}-shard-{shard}-{most}") for shard in range(most)]
    return found if len(found) > len(kinds) else []


def _sides(scorer: CandidateScorer, number: int, without_fact: bool) -> list[tuple[LinkPredictor, HalfLinks, int]]:
    """Of each scorer the rows in each direction, and how many of them a task computes."""
    links = zip(scorer.scorers, scorer.shared_links(number, without_fact), strict=True)
    return [(one, side, scorer.size.rows(one, side)) for one, both in links for side in both]


def count_dear_rows(scorer: CandidateScorer, task: FirstTask) -> int:
    """How many rows of a task are computed by predictors that see the facts."""
    sweep = task if isinstance(task, SweepTask) else None
    if not any(map(sees_facts, scorer.scorers)) or (sweep and sweep.without_fact):
        return 0
    sides = [(size, len(side.rows)) for one, side, size in _sides(scorer, task.number, False) if sees_facts(one)]
    return sum(rows if sweep is None else min(size, max(0, rows - sweep.shard * size)) for size, rows in sides)


def plan_relations(scorer: CandidateScorer, cache: RelationCache | None, workers: int) -> list[FirstTask]:
    """The tasks of all relations. Large ones come first: they would keep everybody waiting at the end."""

    def shards(number: int) -> list[SweepTask]:
        return [] if cache and cache.has(number) else cut_shards(scorer, number)

    sweeps, whole = list[FirstTask](), list[FirstTask]()
    for number, tasks in enumerate(side_by_side(shards, range(scorer.scorers[0].relations), workers)):
        sweeps += tasks
        whole += [] if tasks else [WholeTask(number)]
    return [*sweeps, *whole]


def finished_parts(
    scorer: CandidateScorer,
    tasks: Sequence[FirstTask],
    cache: RelationCache | None,
    run: Runner,
    done: Callable[[int], None],
) -> Iterator[tuple[int, Mapping[str, Part]]]:
    """The parts of each relation by name, as they are finished and kept in the cache; `done` so many tasks."""
    swept: dict[str, Part] = {}
    left = [task for task in tasks if isinstance(task, WholeTask) or not (cache and cache.has(task.name))]
    finished = len(tasks) - len(left)
    for place, found in run(left):
        task, finished = left[place], finished + 1
        if cache and not scorer.late:
            _keep(cache, found)
        elif isinstance(task, SweepTask):
            swept |= found
        done(finished)
        if isinstance(task, WholeTask):
            yield task.number, found
    sweeps = [task for task in tasks if isinstance(task, SweepTask)]
    for number in dict.fromkeys(task.number for task in sweeps):
        mine = [task for task in sweeps if task.number == number]
        late = any(task.name in swept for task in mine)
        for task in mine:
            if cache and task.name not in swept:
                swept[task.name] = cache.load(task.name) or task.compute(scorer)[task.name]
        parts = _fill(scorer, number, [(task.without_fact, swept.pop(task.name)) for task in mine], run)
        if cache and not late:
            _keep(cache, parts)
            for task in mine:
                cache.drop(task.name)
        yield number, parts


def _keep(cache: RelationCache, parts: Mapping[str, Part]) -> None:
    """The first part last: where it is, the others are."""
    for name in reversed(list(parts)):
        if not cache.has(name):
            cache.save(name, parts[name])


def _fill(scorer: CandidateScorer, number: int, shards: Sequence[tuple[bool, Part]], run: Runner) -> Mapping[str, Part]:
    """All parts of a large relation by name, of what came of its shards."""
    none = np.zeros(0, np.int64)
    swept = [[part for without_fact, part in shards if without_fact == kind] for kind in (False, True)]
    listed = [distinct(np.concatenate([none, *(part["keys"] for part in parts)])) for parts in swept]
    if len(listed[1]):
        listed[1] = scorer.open_keys(number, torch.from_numpy(listed[1])).numpy()
    two_step = none if scorer.two_step is None else scorer.two_step_keys(number, listed)
    keys = [np.union1d(listed[0], two_step), listed[1]]
    logs = [np.full((len(scorer.scorers), 2, len(some)), np.nan, dtype=np.float32) for some in keys]
    kinds = product((False, True), (False, True))
    fills = [task for kind in kinds for task in _fill_tasks(scorer, number, *kind, keys[kind[0]], swept[kind[0]])]
    for place, found in run(fills):
        task = fills[place]
        logs[task.without_fact][:, int(task.inverse), np.searchsorted(keys[task.without_fact], task.keys)] = found
    by_rule = np.isin(keys[0], two_step, assume_unique=True)
    made: dict[str, Part] = {}
    for name in scorer.names(number):
        rules, kind = "-two-step-" in name, int("-open-" in name and "-two-step-" not in name)
        mine = slice(None) if kind else by_rule if rules else ~by_rule
        heads, tails = (side.astype(np.int32) for side in np.divmod(keys[kind][mine], scorer.counts.entities))
        searched = {} if rules else sum(map(SearchCheck.from_part, swept[kind]), SearchCheck()).in_part()
        made[name] = {"heads": heads, "tails": tails, "logs": logs[kind][:, :, mine]} | searched
    return made


def _fill_tasks(
    scorer: CandidateScorer,
    number: int,
    without_fact: bool,
    inverse: bool,
    keys: NDArray[np.int64],
    swept: Sequence[Part],
) -> Iterator[FillTask]:
    """The listed edges in order of their rows, whole rows at a time."""
    if not len(keys):
        return
    links = enumerate(scorer.shared_links(number, without_fact))
    sides = [(place, side) for place, both in links for side in both if side.inverse == inverse]
    near = keys % scorer.counts.entities if inverse else keys // scorer.counts.entities
    order = np.argsort(near, kind="stable")
    rows, starts = np.unique(near[order], return_index=True)
    starts = np.append(starts, len(order))
    step = min(scorer.size.rows(scorer.scorers[place], side) for place, side in sides)
    for start in range(0, len(rows), step):
        mine, asked = rows[start : start + step], []
        for place, side in sides:
            bounds = torch.tensor([int(mine[0]), int(mine[-1]) + 1], device=side.rows.device)
            begin, stop = torch.searchsorted(side.rows, bounds).tolist()
            shifts = _read_rows(swept, f"shifts-{place}-{inverse:d}", begin, stop)
            whole = not scores_columns(scorer.scorers[place])
            held = _read_rows(swept, f"held-{place}-{inverse:d}", begin, stop) if whole else None
            asked.append(SweptRows(place, slice(begin, stop), shifts, held))
        some = np.sort(keys[order[starts[start] : starts[start + len(mine)]]])
        yield FillTask(number, without_fact, inverse, some, asked)


def _read_rows(swept: Sequence[Part], name: str, begin: int, stop: int) -> NDArray[Any]:
    """Some rows of an array that lies in the shards of a relation."""
    found, at = [np.zeros(0, dtype=np.float32)], 0
    for part in swept:
        array = part.get(name, found[0])
        if at < stop and at + len(array) > begin:
            found.append(array[max(0, begin - at) : stop - at])
        at += len(array)
    return np.concatenate(found[1:] or found)


FLOOR = 0.002  # truth in one direction from which on an edge is listed


def score_candidates(
    scorers: Mapping[str, LinkPredictor],
    counted: EdgeColumns,
    sources: CandidateSources = EVERYTHING,
    floor: float = FLOOR,
    rule: Calibration | None = None,
    memory: int | None = None,
    cache: RelationCache | None = None,
    progress: Report = silent,
    two_step: TwoStepPairs | None = None,
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
    scorer = CandidateScorer(scorers, counted, sources, floor, rule or Calibration(), memory, workers, two_step, SHARD)
    tasks = plan_relations(scorer, cache, workers)
    if math.isfinite(until):  # what is least useful is left for the end: relations of few facts in a row

        def facts_in_a_row(task: FirstTask) -> float:
            ends = scorer.counts.edges(task.number)
            return -len(ends[0]) / max(1, min(len(torch.unique(end)) for end in ends))

        tasks.sort(key=facts_in_a_row)
    has_shards = any(isinstance(task, SweepTask) for task in tasks)
    told = RowProgress(progress, [count_dear_rows(scorer, task) for task in tasks], has_shards, until)
    scorer.told = told
    scorer.scorers = tuple(CountedRows(one, told) if sees_facts(one) else one for one in scorer.scorers)

    def run(some: Sequence[RelationTask]) -> Iterator[tuple[int, Any]]:
        yield from enumerate(side_by_side(lambda task: task.compute(scorer, cache), some, workers))

    found, searched = {}, {}
    for number, parts in finished_parts(scorer, tasks, cache, run, told.task):
        found[number] = _merge_parts(list(parts.values()))
        if (check := sum(map(SearchCheck.from_part, parts.values()), SearchCheck())).rows:
            searched[number] = check
    scored = replace(join_parts(tuple(scorers), dict(sorted(found.items()))), searched=searched)
    if sources.useful_from is None and not math.isfinite(until):
        return scored
    return replace(scored, rows=RowsDone.from_edges(counted, sources, told.late))


def workers_for(scorers: Iterable[LinkPredictor]) -> int:
    """How many relations at a time.

    On the CPU as many as torch has threads, each with one: the steps of a small relation are too short to be shared.
    Predictors of whole rows take turns, since nobody knows whether they may be called from several threads.
    """
    alone = any(device_of(scorer).type == "cuda" or not scores_columns(scorer) for scorer in scorers)
    return 1 if alone else torch.get_num_threads()


def finished_relations(
    root: Path,
    models: Sequence[str | None],
    sources: CandidateSources,
    floor: float,
    rule: Calibration,
    counted: EdgeColumns,
) -> RelationCache | None:
    """Where `score_candidates` of these models (by hash) keeps what it finished; None for a model without a hash."""
    if None in models:
        return None
    key = " ".join([*(model for model in models if model), str(sources.first_part)])
    return RelationCache(root, key, floor, rule, *counted)


def _merge_parts(parts: Sequence[Part]) -> Part:
    """Parts of one relation that have no edge in common, in order."""
    if len(parts) == 1:
        return parts[0]
    heads, tails = (np.concatenate([part[name] for part in parts]) for name in ("heads", "tails"))
    order = np.lexsort((tails, heads))
    logs = np.concatenate([np.asarray(part["logs"], dtype=np.float32) for part in parts], axis=2)
    return {"heads": heads[order], "tails": tails[order], "logs": logs[:, :, order]}


def join_parts(names: tuple[str, ...], found: Mapping[int, Mapping[str, NDArray[Any]]]) -> ScoredEdges:
    """The parts of some relations, in ascending order, in one."""
    parts = list(found.values())
    which = np.repeat(np.array(list(found), dtype=np.int32), [len(part["heads"]) for part in parts])
    none = np.zeros(0, dtype=np.int32)
    heads, tails = (np.concatenate([none, *(part[name] for part in parts)]) for name in ("heads", "tails"))
    logs = np.empty((len(names), 2, len(which)), dtype=np.float32)
    np.concatenate([logs[:, :, :0], *(part["logs"] for part in parts)], axis=2, out=logs)
    return ScoredEdges(heads, which, tails, names, logs)


@dataclass(frozen=True)
class ScoringJob:
    """All that decides the parts of a relation, small enough to travel with each."""

    graph: Folder
    counted: tuple[str, ...]  # splits whose edges are counted
    models: tuple[Folder, ...]
    device: str
    settings: tuple[CandidateSources, float, Calibration, int | None, int]  # with the workers that share the memory
    rules: tuple[float, tuple[float, ...]] | None  # level and bounds of the two-step pairs; the rest is in the graph
    size: ShardSize


@lru_cache(maxsize=1)
def _open_scorer(job: ScoringJob) -> CandidateScorer:
    """What scores relations, in a worker."""
    graph = KnowledgeGraph.open(fetch_folder(job.graph))
    known = graph.edges(*job.counted)
    # The graph was checked where the job comes from; here it is a copy of it.
    scorers, _ = open_predictors([fetch_folder(model) for model in job.models], graph, job.device, other_graph=True)
    if workers_for(scorers.values()) > 1:
        torch.set_num_threads(1)
    pairs = None
    if job.rules is not None:
        rules = two_step_rules(len(graph.entities), len(graph.relations), known)
        assert rules is not None, "there were rules where the job comes from"
        pairs = TwoStepPairs(rules, job.rules[0], np.array(job.rules[1]))
    return CandidateScorer(scorers, known, *job.settings, pairs, job.size)


def compute(job: ScoringJob, task: RelationTask) -> Any:
    """What comes of a task, in a worker."""
    return task.compute(_open_scorer(job))


def score_on_cluster(
    address: str,
    graph: KnowledgeGraph,
    counted: tuple[str, ...],
    models: Sequence[object],
    scorers: Mapping[str, LinkPredictor],
    candidates: tuple[CandidateSources, float, Calibration, int | None],
    two_step: TwoStepPairs | None,
    cache: RelationCache | None,
    progress: Report,
) -> None:
    """Have the relations scored on a Ray cluster that are not in the cache yet; they are there afterwards.

    `candidates` are sources, floor, rule and memory, as in `score_candidates`.
    """
    if cache is None or not all(isinstance(model, str | os.PathLike) for model in models):
        raise BadInput("a cluster is sent model folders; an object in Python, or a name of one, stays here")
    workers, device = workers_for(scorers.values()), device_of(next(iter(scorers.values()))).type
    known, settings = graph.edges(*counted), (*candidates, workers)
    scorer = CandidateScorer(scorers, known, *settings, two_step, SHARD)
    planned = plan_relations(scorer, cache, workers)
    tasks = [t for t in planned if isinstance(t, SweepTask) or not all(map(cache.has, scorer.names(t.number)))]
    facts = np.bincount(known[1], minlength=len(graph.relations))
    # whole relations come behind shards; the largest would keep everybody waiting if it came last
    tasks.sort(key=lambda task: -int(facts[task.number]) if isinstance(task, WholeTask) else -math.inf)
    if not tasks:
        return
    rules = None if two_step is None else (two_step.level, tuple(two_step.bounds.tolist()))
    with RayExecutor(address, gpu=device == "cuda") as pool, tempfile.TemporaryDirectory() as folder:
        graph.save(Path(folder) / "graph")
        shipped = tuple(pool.ship(find_model_folder(str(model))) for model in models)
        sent = pool.ship(Path(folder) / "graph"), counted, shipped
        job = ScoringJob(*sent, device, settings, rules, scorer.size)
        progress("index", 0, len(tasks), f"parts, {len(pool.actors)} workers")

        def done(number: int) -> None:
            progress("index", number, len(tasks), "parts")

        for _ in finished_parts(scorer, tasks, cache, lambda some: _run_in_pool(pool, job, some), done):
            pass


def _run_in_pool(pool: Executor, job: ScoringJob, tasks: Sequence[RelationTask]) -> Iterator[tuple[int, Any]]:
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
