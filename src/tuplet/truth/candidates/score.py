"""Scores of the candidates: what every scorer says in both directions, relation by relation.

A relation's candidates are its half-links (entities that are known as a head, or as a tail) against the ends that are
plausible on the other side. Every scorer gives its rows; the edges that reach the floor by any of them in any direction
are listed, and each scorer is then asked about all of those. Pairs that rules of two steps speak for are listed
whatever scorers say. Only one relation is ever held.

What is listed of a relation has parts with names; a large relation is cut into shards of a fixed number of rows, the
same on every machine, so that no task is large. Each shard is swept alone: the edges that reach the floor, and what
turns the scores of its rows into truth. When all are swept it is known which edges are listed, and every scorer is
asked about these, again some rows at a time. Needs torch and numpy alone.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.files import make_folder, replacing, system_errors, write_array
from tuplet.predict.base import LinkPredictor, device_of, scores_columns, sees_facts
from tuplet.progress import Report
from tuplet.truth.candidates.rows import HalfLinks, RowLogs
from tuplet.truth.candidates.scorer import CandidateScorer, RowProgress, RowsDone
from tuplet.truth.candidates.sources import EVERYTHING, CandidateSources
from tuplet.truth.rules import Calibration
from tuplet.truth.scored import EdgeColumns, ScoredEdges, SearchCheck


class RelationCache:
    """A folder named by everything that decides the content of the files in it.

    `small`: parts of scored edges are written in half precision and compressed, to travel; they are read like others.
    """

    def __init__(self, folder: Path, small: bool = False) -> None:
        self.folder, self.small = folder, small

    @staticmethod
    def of(
        root: Path,
        key: str,
        threshold: float,
        rule: Calibration,
        *edges: NDArray[np.integer],
        small: bool = False,
    ) -> RelationCache:
        """The folder inside `root` for these models (`key`), threshold, rule and known edges."""
        digest = hashlib.sha256(json.dumps([key, threshold, rule.as_dict()]).encode())
        for column in edges:
            digest.update(np.asarray(column, dtype=np.int32).tobytes())
        folder = root / digest.hexdigest()[:16]
        with system_errors(folder):
            make_folder(folder)
        return RelationCache(folder, small)

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
                found = {name: part[name] for name in part.files}
                return _unpacked(found) if "gaps" in found else found
        except Exception:  # missing, or damaged in whatever way: the relation is computed again
            return None

    def save(self, relation: int | str, part: Mapping[str, NDArray[Any]]) -> None:
        """Keep the part of a relation."""
        with replacing(self.folder / f"{relation}.npz", force=True) as fresh, open(fresh, "wb") as stream:
            if self.small and "logs" in part:
                np.savez_compressed(stream, **_packed(part))  # type: ignore[arg-type]
            else:
                np.savez(stream, **dict(part))  # type: ignore[arg-type]

    def drop(self, relation: int | str) -> None:
        """A part is not needed any more."""
        (self.folder / f"{relation}.npz").unlink(missing_ok=True)

    def load_array(self, name: str) -> NDArray[np.float32] | None:
        """An array that was kept, or None."""
        try:
            array: NDArray[np.float32] = np.load(self.folder / f"{name}.npy", allow_pickle=False)
            return array
        except Exception:  # as above
            return None

    def save_array(self, name: str, array: NDArray[np.float32]) -> None:
        """Keep an array."""
        with replacing(self.folder / f"{name}.npy", force=True) as fresh, open(fresh, "wb") as stream:
            write_array(stream, array)


def _packed(part: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Edges in order as gaps between their keys, logs in half precision, both by byte: like bytes compress well.

    >>> ends = np.array([0, 0, 7], dtype=np.int32), np.array([3, 5, 1], dtype=np.int32)
    >>> part = {"heads": ends[0], "tails": ends[1], "logs": np.array([[[-0.5, -1, -2], [-3, -4, np.nan]]], "float32")}
    >>> all((a == b).all() or "log" in name for (name, a), b in zip(part.items(), _unpacked(_packed(part)).values()))
    True
    """
    size = int(part["tails"].max(initial=0)) + 1
    keys = part["heads"].astype(np.int64) * size + part["tails"]
    logs = part["logs"].astype(np.float16)
    return {
        "size": np.array(size),
        "gaps": np.ascontiguousarray(np.diff(keys, prepend=0).view(np.uint8).reshape(-1, 8).T),
        "logs": np.ascontiguousarray(logs.view(np.uint8).reshape(*logs.shape, 2).transpose(3, 0, 1, 2)),
    }


def _unpacked(packed: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """What `_packed` was given, logs in half precision."""
    keys = np.cumsum(np.ascontiguousarray(packed["gaps"].T).view(np.int64).reshape(-1))
    size, planes = int(packed["size"]), packed["logs"]
    logs = np.ascontiguousarray(planes.transpose(1, 2, 3, 0)).view(np.float16).reshape(planes.shape[1:])
    return {"heads": (keys // size).astype(np.int32), "tails": (keys % size).astype(np.int32), "logs": logs}


Tensor = torch.Tensor
Part: TypeAlias = Mapping[str, NDArray[Any]]


class TwoStepSource(Protocol):
    """Pairs of each relation that rules of two steps speak for."""

    @property
    def level(self) -> float:
        """How surely they do, at least; parts are named by it."""
        ...

    def ends(self, relation: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Heads and tails."""
        ...


def part_names(
    number: int, sources: CandidateSources, scorers: Iterable[LinkPredictor], two_step: TwoStepSource | None
) -> list[str]:
    """What the parts of a relation are called."""
    names = [str(number)]
    if sources.open_from is not None and sources.rows_from is None and any(map(scores_columns, scorers)):
        names.append(f"{names[-1]}-open-{sources.open_from:g}")
    if two_step is not None:
        names.append(f"{names[-1]}-two-step-{two_step.level:g}")
    return names


@dataclass(frozen=True)
class ShardSize:
    """How much one task computes."""

    cells: int = 1 << 30  # scores: half a minute on one core
    dear_rows: int = 512  # of a predictor that walks the graph for each

    def rows(self, scorer: LinkPredictor, links: HalfLinks) -> int:
        """Of a scorer against these columns."""
        width = links.width if scores_columns(scorer) else scorer.entities
        fits = max(1, self.cells // max(1, width))
        return min(fits, self.dear_rows) if sees_facts(scorer) else fits


SHARD = ShardSize()


class RelationParts:
    """What is listed of a relation, in parts: each is kept by its name, so that one made elsewhere stays as it is."""

    def __init__(self, scorer: CandidateScorer, two_step: TwoStepSource | None, size: ShardSize | None = None) -> None:
        self.scorer, self.two_step, self.size = scorer, two_step, size or SHARD
        self.late: Callable[[], bool] = lambda: False  # whether what is made now may lack rows: it is not kept
        self.links = lru_cache(maxsize=4)(scorer.links)  # the shards of a relation share them

    def names(self, number: int) -> list[str]:
        """What the parts of a relation are called."""
        return part_names(number, self.scorer.sources, self.scorer.scorers, self.two_step)

    def parts(self, number: int, cache: RelationCache | None = None) -> dict[str, Part]:
        """All parts of a relation by name; those in the cache are not computed again, the others are kept there."""
        rows: list[list[RowLogs]] = []  # of the first part, unless it was made before, or elsewhere
        made: dict[str, Part] = {}

        def first() -> Part:
            rows.extend(self.scorer.rows(self.scorer.links(number)))
            listed = self.scorer.listed(rows)
            if self.two_step is None:
                rows.clear()
            return listed

        def two_step() -> Part:
            size = self.scorer.counts.entities
            before = [part["heads"].astype(np.int64) * size + part["tails"] for part in made.values()]
            return self.scorer.two_step_pairs(number, self.two_step_keys(number, before), rows)

        for name in self.names(number):
            part = cache.load(name) if cache else None
            if part is None:
                kind = first if not made else two_step if "-two-step-" in name else self._open_pairs(number)
                with torch.inference_mode():
                    part = dict(kind())
                if cache and not self.late():
                    cache.save(name, part)
            made[name] = part
        return made

    def two_step_keys(self, number: int, before: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Keys of the pairs of rules, those aside that are listed before."""
        assert self.two_step is not None
        heads, tails = self.two_step.ends(number)
        keys = np.asarray(heads, dtype=np.int64) * self.scorer.counts.entities + tails
        return np.setdiff1d(keys, np.concatenate(before))

    def _open_pairs(self, number: int) -> Callable[[], Part]:
        return lambda: self.scorer.open_pairs(number)

    def dear_rows(self, task: WholeTask | SweepTask) -> int:
        """How many rows of a task are computed by predictors that see the facts."""
        scorers = self.scorer.scorers
        if not any(map(sees_facts, scorers)) or (isinstance(task, SweepTask) and task.without_fact):
            return 0
        dear = [pair for pair in zip(scorers, self.links(task.number, False), strict=True) if sees_facts(pair[0])]
        sides = [(self.size.rows(scorer, side), len(side.rows)) for scorer, both in dear for side in both]
        if isinstance(task, WholeTask):
            return sum(rows for _, rows in sides)
        return sum(min(size, max(0, rows - task.shard * size)) for size, rows in sides)

    def facts_in_a_row(self, task: WholeTask | SweepTask) -> float:
        """How many known facts a half-link of its relation has, on average; the same for all its shards."""
        heads, tails = self.scorer.counts.edges(task.number)
        return len(heads) / max(1, min(len(torch.unique(heads)), len(torch.unique(tails))))

    def shards(self, number: int) -> list[SweepTask]:
        """Those of a relation that is too large for one task; none of any other."""
        facts, names = len(self.scorer.counts.edges(number)[0]), self.names(number)
        kinds = [name for name in names if "-two-step-" not in name]
        some_dear = any(map(sees_facts, self.scorer.scorers))
        most_rows = facts if self.scorer.views is not None and len(kinds) == 1 else self.scorer.counts.entities
        if most_rows * self.scorer.counts.entities <= self.size.cells and not some_dear:
            return []  # without looking at it
        found = []
        for without_fact, name in enumerate(kinds):
            links = self.links(number, bool(without_fact))
            counts = [
                -(-len(side.rows) // self.size.rows(scorer, side))
                for scorer, both in zip(self.scorer.scorers, links, strict=True)
                for side in both
            ]
            most = max([1, *counts])
            found += [
                SweepTask(number, bool(without_fact), shard, f"{name}-shard-{shard}-{most}") for shard in range(most)
            ]
        return found if len(found) > len(kinds) else []


@dataclass(frozen=True)
class WholeTask:
    """All parts of a relation at once."""

    number: int

    def compute(self, work: RelationParts, cache: RelationCache | None = None) -> dict[str, Part]:
        """By name."""
        return work.parts(self.number, cache)


@dataclass(frozen=True)
class SweepTask:
    """Some rows of a relation against all their columns."""

    number: int
    without_fact: bool  # rows that have none; else half-links
    shard: int
    name: str

    def compute(self, work: RelationParts, cache: RelationCache | None = None) -> dict[str, Part]:
        """The keys of what reaches the floor, and of every scorer in each direction the shifts of the rows.

        Whole rows of a scorer that gives no other are in it too: they are dear, and will be looked at again.
        """
        part: dict[str, Tensor] = {}
        whole = work.scorer.rows(work.links(self.number, self.without_fact))
        with torch.inference_mode():
            some = [[side.links.some(*self._span(work, side)) for side in both] for both in whole]
            swept = work.scorer.rows(some)
            part["keys"] = work.scorer.reaching(swept)
            for place, both in enumerate(swept):
                for side, like in zip(both, whole[place], strict=True):
                    part[f"shifts-{place}-{side.links.inverse:d}"] = side.shifts
                    if (held := side.held(like)) is not None:
                        part[f"held-{place}-{side.links.inverse:d}"] = held
            searched = work.scorer.searched(swept, part["keys"])
        return {self.name: {name: array.cpu().numpy() for name, array in part.items()} | searched}

    def _span(self, work: RelationParts, side: RowLogs) -> tuple[int, int]:
        size = work.size.rows(side.predictor, side.links)
        return self.shard * size, (self.shard + 1) * size


@dataclass(frozen=True)
class FillTask:
    """What every scorer says in one direction of some edges that are listed, given what the sweeps found."""

    number: int
    without_fact: bool
    inverse: bool
    keys: NDArray[np.int64]
    rows: Sequence[slice]  # of every scorer, those that may be asked for
    shifts: Sequence[NDArray[np.float32]]  # of these rows
    held: Sequence[NDArray[np.float16] | None]

    def compute(self, work: RelationParts, cache: RelationCache | None = None) -> NDArray[np.float32]:
        """Logs. [scorers, keys]"""
        scorer, links = work.scorer, work.links(self.number, self.without_fact)
        device = scorer.counts.edges(self.number)[0].device
        heads, tails = scorer.ends(torch.from_numpy(self.keys).to(device))
        logs = torch.full((len(links), len(self.keys)), torch.nan, device=device)
        with torch.inference_mode():
            for place, both in enumerate(links):
                for side in both:
                    if side.inverse == self.inverse:
                        some = side.some(self.rows[place].start, self.rows[place].stop)
                        held = self.held[place]
                        known = None if held is None else torch.from_numpy(held).to(device)
                        shifts = torch.from_numpy(self.shifts[place]).to(device)
                        logs[place] = scorer.row_logs(place, some).given(shifts, known).at(heads, tails)
        found: NDArray[np.float32] = logs.cpu().numpy()
        return found


class CutRelation:
    """A large relation between its tasks: what the sweeps found, and the logs as they are filled in."""

    def __init__(self, work: RelationParts, number: int, swept: Mapping[str, Part]) -> None:
        """`swept`: what came of each of its shards, by name."""
        self.work, self.number = work, number
        kinds = [[task for task in work.shards(number) if task.without_fact == kind] for kind in (False, True)]
        self.swept = [[swept[task.name] for task in tasks] for tasks in kinds]
        listed = [
            np.unique(np.concatenate([none := np.zeros(0, np.int64), *(p["keys"] for p in k)])) for k in self.swept
        ]
        if len(listed[1]):
            listed[1] = work.scorer.open_keys(number, torch.from_numpy(listed[1])).numpy()
        self.two_step = work.two_step_keys(number, listed) if work.two_step is not None else none
        self.keys = [np.union1d(listed[0], self.two_step), listed[1]]
        self.logs = [np.full((len(work.scorer.scorers), 2, len(keys)), np.nan, dtype=np.float32) for keys in self.keys]

    def tasks(self) -> Iterator[FillTask]:
        """What is left to be computed."""
        for without_fact in (False, True):
            for inverse in (False, True):
                yield from self._fills(without_fact, inverse)

    def put(self, task: FillTask, logs: NDArray[np.float32]) -> None:
        """What came of a task."""
        places = np.searchsorted(self.keys[task.without_fact], task.keys)
        self.logs[task.without_fact][:, int(task.inverse), places] = logs

    def parts(self) -> Mapping[str, Part]:
        """All parts of the relation by name, when all tasks are done."""
        is_rule = np.isin(self.keys[0], self.two_step, assume_unique=True)
        found: dict[str, dict[str, NDArray[Any]]] = {}
        for name in self.work.names(self.number):
            kind = 1 if "-open-" in name and "-two-step-" not in name else 0
            mine = is_rule if "-two-step-" in name else ~is_rule if not kind else slice(None)
            keys, size = self.keys[kind][mine], self.work.scorer.counts.entities
            ends = {"heads": (keys // size).astype(np.int32), "tails": (keys % size).astype(np.int32)}
            found[name] = ends | {"logs": self.logs[kind][:, :, mine]}
            if "-two-step-" not in name:
                found[name] |= sum(map(SearchCheck.of_part, self.swept[kind]), SearchCheck()).in_part()
        return found

    def _fills(self, without_fact: bool, inverse: bool) -> Iterator[FillTask]:
        """The listed edges in order of their rows, whole rows at a time."""
        keys, size = self.keys[without_fact], self.work.scorer.counts.entities
        if not len(keys):
            return
        links = self.work.links(self.number, without_fact)
        sides = [next((side for side in both if side.inverse == inverse), None) for both in links]
        near = keys % size if inverse else keys // size
        order = np.argsort(near, kind="stable")
        rows, starts = np.unique(near[order], return_index=True)
        asked = zip(self.work.scorer.scorers, sides, strict=True)
        step = min(self.work.size.rows(scorer, side) for scorer, side in asked if side is not None)
        for start in range(0, len(rows), step):
            mine = rows[start : start + step]
            end = starts[start + step] if start + step < len(rows) else len(order)
            spans, shifts, held = [], [], []
            for place, side in enumerate(sides):
                begin, stop = (0, 0) if side is None else _span(side.rows, int(mine[0]), int(mine[-1]))
                spans.append(slice(begin, stop))
                shifts.append(self._swept(f"shifts-{place}-{inverse:d}", without_fact, begin, stop))
                whole = side is not None and not scores_columns(self.work.scorer.scorers[place])
                held.append(self._swept(f"held-{place}-{inverse:d}", without_fact, begin, stop) if whole else None)
            some = np.sort(keys[order[starts[start] : end]])
            yield FillTask(self.number, without_fact, inverse, some, spans, shifts, held)

    def _swept(self, name: str, without_fact: bool, begin: int, stop: int) -> NDArray[Any]:
        """Some rows of an array that lies in the shards of a relation."""
        found, at = [np.zeros(0, dtype=np.float32)], 0
        for part in self.swept[without_fact]:
            array = part.get(name, found[0])
            if at < stop and at + len(array) > begin:
                found.append(array[max(0, begin - at) : stop - at])
            at += len(array)
        return np.concatenate(found[1:] or found)


RelationTask: TypeAlias = WholeTask | SweepTask | FillTask
Runner: TypeAlias = Callable[[Sequence[RelationTask]], Iterator[tuple[int, Any]]]  # place of a task, what came of it


def plan(shards: Iterable[Sequence[SweepTask]]) -> list[WholeTask | SweepTask]:
    """What is to be done for relations 0, 1, …, of which each has these shards, or none.

    Large relations come first: they would keep everybody waiting at the end.
    """
    cut: list[WholeTask | SweepTask] = []
    whole: list[WholeTask | SweepTask] = []
    for number, tasks in enumerate(shards):
        cut += tasks
        whole += [] if tasks else [WholeTask(number)]
    return [*cut, *whole]


def finished_parts(
    work: RelationParts,
    tasks: Sequence[WholeTask | SweepTask],
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
        if cache and not work.late():
            _keep(cache, found)
        else:
            swept |= found if isinstance(task, SweepTask) else {}
        done(finished)
        if isinstance(task, WholeTask):
            yield task.number, found
    for number in dict.fromkeys(task.number for task in tasks if isinstance(task, SweepTask)):
        mine = [task for task in tasks if isinstance(task, SweepTask) and task.number == number]
        late = any(task.name in swept for task in mine)
        for task in mine:
            if cache and task.name not in swept:
                swept[task.name] = cache.load(task.name) or task.compute(work)[task.name]
        cut = CutRelation(work, number, {task.name: swept.pop(task.name) for task in mine})
        fills = list(cut.tasks())
        for place, found in run(fills):
            cut.put(fills[place], found)
        parts = cut.parts()
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


def _span(rows: Tensor, first: int, last: int) -> tuple[int, int]:
    """The places of ascending ids from the first to the last."""
    begin, stop = torch.searchsorted(rows, torch.tensor([first, last + 1], device=rows.device)).tolist()
    return begin, stop


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
