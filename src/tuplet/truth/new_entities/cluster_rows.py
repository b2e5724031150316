"""Rows of new entities on a Ray cluster: portions of whole entities, each scored as one process would."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np

from tuplet.predict.base import TrainingEdges
from tuplet.predict.model_folder import located
from tuplet.truth.cluster import Folder, RayExecutor, arrived
from tuplet.truth.new_entities.learn import KnownGraph
from tuplet.truth.new_entities.predict import network_of
from tuplet.truth.new_entities.rows import EntityRows, put_together
from tuplet.truth.scored import EdgeColumns, ScoredEdges

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
                sent[id(scene)] = RowsJob(pool.ship(path), pool.ship(located(str(model))), *sizes)
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
