"""The calibration of entities that are new: learned from others that are made to look new.

Some entities lose half of their facts. Rows are scored on what is left, as they will be for an entity that came with
a few facts, and what was hidden is to be found among the candidates. So the truth of a prediction about a new entity
is the chance that it is one of *as many facts again* as are known of it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.predict.base import TrainingEdges
from tuplet.predict.model_folder import find_model_folder
from tuplet.predict.paths.model import AnyGraphModel
from tuplet.progress import Report
from tuplet.truth.calibration.calibrate import candidates_of, with_rules
from tuplet.truth.calibration.fit import LEAST_VALID, LearnedCalibration, SplitCorrection, Trial, fit_together
from tuplet.truth.calibration.reliability import Reliability, reliability
from tuplet.truth.calibration.train_edges import TrainEdges
from tuplet.truth.calibration.trees import TreeSettings
from tuplet.truth.cluster import Folder, RayExecutor, arrived
from tuplet.truth.new_entities.predict import network_of
from tuplet.truth.new_entities.rows import ComputedRows, EntityRows, SimilarEnds, put_together, score_rows
from tuplet.truth.scored import EdgeColumns, ScoredEdges, edge_numbers

ENOUGH = 4_000  # hidden facts to learn from
STEADY = 1_000  # hidden facts that do where there is little time
ROUNDS = 5  # an entity is hidden in one of so many; in each …
_SHARE = 0.1  # … at most this share of the entities, so that the graph stays what it is
_ROWS_UNTIL = 0.6  # of the time for learning, that of rows; the rest is for trees
_FITTED = 50_000  # candidates that a fit looks at, beside all hidden facts
TREES = TreeSettings(trees=120, depth=4, rate=0.15)
_BUSIEST = 0.99  # hubs are left out: nothing that came today is one
_CELLS = 1 << 25  # scores held at a time
_FEWEST_ROWS = 32  # at a time
_BETWEEN_LOOKS = 64  # rows between two looks at the clock
# What would be another number if more or fewer entities were asked about at a time; and dates, which new facts lack.
WITHOUT = ("time", "candidates-", "unknown", "known_share", "excess")


@dataclass(frozen=True)
class KnownGraph:
    """Known edges, and all that is needed to score rows on them."""

    edges: EdgeColumns
    network: AnyGraphModel
    similar: SimilarEnds
    known: TrainEdges

    @staticmethod
    def of(entities: int, relations: int, edges: EdgeColumns, network: AnyGraphModel) -> KnownGraph:
        """The edges of a graph of that many entities and relations."""
        bound = network.on(TrainingEdges({"train": edges}, entities, relations))
        similar = SimilarEnds.of(entities, relations, edges)
        return KnownGraph(edges, bound, similar, with_rules(entities, relations, edges))

    def rows(self, entities: Sequence[int]) -> EntityRows:
        """The rows of some entities that are worth computing."""
        return EntityRows.of(self.known, entities)

    def portion(self) -> int:
        """How many rows the network computes at a time."""
        return max(_FEWEST_ROWS, min(512, _CELLS // self.known.entities))

    def score(self, rows: EntityRows, told: Callable[[int], None]) -> ScoredEdges:
        """The candidates in some rows, without known edges."""
        walked = rows.where(rows.walked)
        computed = ComputedRows.of(self.network, walked, told)
        return score_rows({"any-graph": (computed, walked), "similar": (self.similar, rows)}, self.edges)

    def truth(self, learned: LearnedCalibration, scored: ScoredEdges) -> NDArray[np.float32]:
        """The calibrated truth of candidates that nobody had seen."""
        edges = candidates_of(scored, scored.predictions(), "cpu")
        found: NDArray[np.float32] = learned.truth(self.known, edges, later=True).numpy()
        return found


@dataclass(frozen=True)
class EntityCalibration:
    """A calibration for new entities, and how reliable it was on those that were made to look new."""

    learned: LearnedCalibration
    reliability: Reliability
    entities: int  # that were made to look new
    rows: int
    seconds: float  # that these took
    ready: float  # seconds until the first of them could begin
    short: bool  # for want of time there are fewer than it would have learned from

    def as_dict(self) -> dict[str, Any]:
        """For the store: everything but the arrays."""
        made: dict[str, Any] = {"entities": self.entities, "rows": self.rows, "short": self.short}
        made |= {"seconds": round(self.seconds, 3), "ready": round(self.ready, 3)}
        return {**self.learned.as_dict(), "made": made, "reliability": self.reliability.as_dict()}


def learn(
    entities: int,
    relations: int,
    facts: EdgeColumns,
    network: AnyGraphModel,
    seconds: float = np.inf,
    limit: float = np.inf,
    progress: Report | None = None,
    seed: int = 0,
) -> EntityCalibration | str | None:
    """Learn from entities that lose half of their facts; why nothing can be learned, if so.

    Rows are computed until enough hidden facts are found, or for `seconds` if a quarter of them is found by then. After
    `_ROWS_UNTIL` of `limit` seconds what was found has to do; if it is too little, it is given up (None). No tree is
    begun after `limit` seconds.
    """
    began, found, ready = time.monotonic(), 0, 0.0
    trials: list[Trial] = []
    used = rows_done = 0
    exhausted = False

    def over() -> bool:
        spent = time.monotonic() - began
        return found >= ENOUGH or spent > _ROWS_UNTIL * limit or (spent > seconds and found >= STEADY)

    for known, hidden, chosen in _made_new(entities, facts, seed):
        scene = KnownGraph.of(entities, relations, known, network)
        ready = ready or time.monotonic() - began
        parts: list[ScoredEdges] = []
        keys = np.sort(edge_numbers(entities, hidden))
        seen = np.zeros(len(keys), dtype=bool)  # a fact may lie in rows of both its ends
        for some in scene.rows(chosen).portions(min(_BETWEEN_LOOKS, scene.portion())):
            if over():
                break
            done, before = rows_done, found

            def told(count: int, done: int = done, before: int = before) -> None:
                if progress:
                    progress("learn", before, ENOUGH, f"hidden facts; {done + count:,} rows of entities made new")

            scored = scene.score(some, told)
            already = int(seen.sum())
            seen |= np.isin(keys, edge_numbers(entities, scored.edges))
            found += int(seen.sum()) - already
            rows_done += some.walks
            used += len(np.unique(some.entity))
            parts.append(scored)
        if parts:
            scored = put_together(parts)
            is_fact = np.isin(edge_numbers(entities, scored.edges), keys)
            edges = candidates_of(scored, scored.predictions(), "cpu")
            trials.append(Trial(scene.known, edges, torch.from_numpy(is_fact)))
        if over():
            break
    else:
        exhausted = True
    spent = time.monotonic() - began
    if found < LEAST_VALID and spent > _ROWS_UNTIL * limit:
        return None
    if found < LEAST_VALID:
        return f"{found:,} facts were hidden and found among the candidates, {LEAST_VALID} are needed"
    if progress:
        progress("learn", 0, 0, f"learning from {found:,} hidden facts in {rows_done:,} rows")
    fitted = fit_together(trials, SplitCorrection(), TREES, WITHOUT, _FITTED, began + limit)
    measured = reliability(
        fitted.learned.hidden(fitted.held_out).numpy(),
        fitted.label.numpy() > 0,
        split="hidden",
        weight=fitted.weight.numpy(),
    )
    short = found < ENOUGH and not exhausted
    return EntityCalibration(fitted.learned, measured, used, rows_done, spent - ready, ready, short)


def _made_new(entities: int, facts: EdgeColumns, seed: int) -> Iterator[tuple[EdgeColumns, EdgeColumns, list[int]]]:
    """In each round what is known, what is hidden, and of whom: half of the facts of some entities."""
    heads, relation, tails = (np.asarray(side, dtype=np.int64) for side in facts)
    degree = np.bincount(np.concatenate([heads, tails]), minlength=entities)
    seen = degree[degree > 0]
    most = np.quantile(seen, _BUSIEST) if len(seen) else 0
    rng = np.random.default_rng(seed)
    usual = rng.permutation(np.flatnonzero((degree > 1) & (degree <= max(most, 2))))
    each = max(1, min(int(_SHARE * entities), -(-len(usual) // ROUNDS)))
    for number in range(min(ROUNDS, len(usual))):
        chosen = usual[number * each : (number + 1) * each]
        gone = _halves(heads, tails, chosen, entities, rng)
        if gone.any():
            sides = [(side[~gone], side[gone]) for side in (heads, relation, tails)]
            known, hidden = ((sides[0][of], sides[1][of], sides[2][of]) for of in (0, 1))
            yield known, hidden, chosen.tolist()


def _halves(
    heads: NDArray[np.int64],
    tails: NDArray[np.int64],
    chosen: NDArray[np.int64],
    entities: int,
    rng: np.random.Generator,
) -> NDArray[np.bool_]:
    """Marks half of the facts of each chosen entity; one that two of them share is a fact of the tail."""
    is_chosen = np.zeros(entities, dtype=bool)
    is_chosen[chosen] = True
    owner = np.where(is_chosen[tails], tails, heads)
    own = np.flatnonzero(is_chosen[owner])
    order = own[np.lexsort((rng.random(len(own)), owner[own]))]
    first = np.searchsorted(owner[order], owner[order])
    count = np.bincount(owner[order], minlength=entities)[owner[order]]
    gone = np.zeros(len(heads), dtype=bool)
    gone[order[np.arange(len(order)) - first < count // 2]] = True
    return gone


ScoreRows: TypeAlias = Callable[[KnownGraph, EntityRows, Callable[[int], None]], ScoredEdges]


@dataclass(frozen=True)
class RowsJob:
    """All that decides the rows, small enough to travel with each portion."""

    edges: Folder  # known ones, and those without new entities, which say what suits the graph
    model: Folder
    entities: int
    relations: int
    before: int  # entities without new ones

    def open(self) -> KnownGraph:
        """Ready to score rows."""
        folder = Path(arrived(self.edges))
        known, older = (_columns(np.load(folder / f"{name}.npy")) for name in ("known", "older"))
        network, _ = network_of(arrived(self.model))
        suits = network.on(TrainingEdges({"train": older}, self.before, self.relations))
        return KnownGraph.of(self.entities, self.relations, known, suits)


@lru_cache(maxsize=1)
def _opened(job: RowsJob) -> KnownGraph:
    return job.open()


def score_portion(job: RowsJob, rows: EntityRows) -> ScoredEdges:
    """The candidates in some rows, in a worker."""
    return _opened(job).score(rows, lambda _: None)


@contextmanager
def on_cluster(
    address: str, model: str | os.PathLike[str], older: EdgeColumns, before: int
) -> Iterator[tuple[ScoreRows, int]]:
    """What scores rows on the workers of a cluster, and how many there are."""
    with RayExecutor(address) as pool, tempfile.TemporaryDirectory() as folder:
        sent: dict[int, RowsJob] = {}

        def job(scene: KnownGraph) -> RowsJob:
            if id(scene) not in sent:
                path = Path(folder) / str(len(sent))
                path.mkdir()
                np.save(path / "known.npy", np.stack([np.asarray(side, dtype=np.int64) for side in scene.edges]))
                np.save(path / "older.npy", np.stack([np.asarray(side, dtype=np.int64) for side in older]))
                sizes = scene.known.entities, scene.network.relations, before
                sent[id(scene)] = RowsJob(pool.ship(path), pool.ship(find_model_folder(str(model))), *sizes)
            return sent[id(scene)]

        def score(scene: KnownGraph, rows: EntityRows, told: Callable[[int], None]) -> ScoredEdges:
            portions = list(rows.portions(scene.portion()))  # as in one process: rows meet in them
            parts, done = [], 0
            for portion, found in zip(
                portions, pool.map(score_portion, [job(scene)] * len(portions), portions), strict=True
            ):
                done += portion.walks
                parts.append(found)
                told(done)
            return put_together(parts)

        yield score, len(pool.actors)


def _columns(edges: np.ndarray) -> EdgeColumns:
    return edges[0], edges[1], edges[2]
