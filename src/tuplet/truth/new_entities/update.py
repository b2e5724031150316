"""`tuplet update`: what waits is predicted, and the rows around new entities learn of the facts that came with these.

A row of an older entity keeps its calibrated truth but for what the new facts say: the network judges the row without
them and with them, and every prediction moves by the difference of the two log odds. All rows move at once: done twice,
they would move twice.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.graph.adjacency import among
from tuplet.predict.config import PACKAGED
from tuplet.progress import Report, counted, duration
from tuplet.truth.calibration.calibrate import candidates_of
from tuplet.truth.edges import HIGHEST_PREDICTION, Predictions
from tuplet.truth.new_entities.learn import KnownGraph, edge_numbers
from tuplet.truth.new_entities.predict import (
    PredictionReport,
    network_for,
    predict_waiting,
    refuse_wrong,
    sizes_of,
    with_truth,
)
from tuplet.truth.new_entities.rows import EntityRows
from tuplet.truth.new_entities.stale import facts_met, first_new, known_facts, stale_rows
from tuplet.truth.store_folder import PATIENCE, StoreFiles, writing

if TYPE_CHECKING:
    from tuplet.truth.calibration.fit import LearnedCalibration

_MOST = 2.0  # log odds that new facts move a prediction at most


def update(
    path: str | os.PathLike[str],
    seconds: float | None = None,
    progress: Report | None = None,
    timeout: float = PATIENCE,
    held: StoreFiles | None = None,
    model: str | os.PathLike[str] = PACKAGED,
    ray: str | None = None,
) -> tuple[PredictionReport, StoreFiles]:
    """Predict what waits, then bring the rows around new entities up to date; what was done, and the store then.

    On the cluster at `ray`, if given, what waits is predicted; the rows around new entities are computed here.
    """
    refuse_wrong(seconds, model)
    began = time.monotonic()
    report, store = predict_waiting(path, seconds, progress, timeout, held, model, again=True, ray=ray)
    learned, facts = store.newcomers(), known_facts(store)
    met = len(store.graph.entities) - first_new(store)
    new = store.meta.new
    if report.why is not None or learned is None or (new.met == met and not new.later):
        return report, store
    found, until = stale_rows(store, facts), np.inf if seconds is None else began + seconds
    rows = EntityRows(found.entity, found.view, np.ones(len(found.entity), dtype=bool))
    if len(rows) and not _fits(store, len(rows), until, progress):
        return replace(report, stale_rows=len(rows)), store
    moved = _moved(store, rows, learned, model, until, progress) if len(rows) else _nothing()
    if moved is None:
        return replace(report, stale_rows=len(rows)), store
    with writing(path, timeout, store) as now:
        later = tuple(fact for fact in now.meta.new.later if fact not in set(new.later))
        after = with_truth(now, moved, replace(now.meta.new, met=met, later=later))
    return replace(report, rows=report.rows + len(rows), moved=len(moved.heads)), after


def _fits(store: StoreFiles, rows: int, until: float, progress: Report | None) -> bool:
    """Whether so many rows can be judged twice in time, as far as is known; they move all at once or not at all."""
    made = (store.meta.new.calibration or {}).get("made", {})
    if not made.get("rows"):
        return True
    expected = 2 * (made.get("ready", 0.0) + rows * made["seconds"] / made["rows"])
    fits = bool(time.monotonic() + expected <= until)
    if progress:
        told = f"{counted(rows, 'row')} around new entities, without and with them: about {duration(expected)}"
        progress("update", 0, 0, told if fits else f"{told}, which is more than there is; they stay as they are")
    return fits


def _moved(
    store: StoreFiles,
    rows: EntityRows,
    learned: LearnedCalibration,
    model: str | os.PathLike[str],
    until: float,
    progress: Report | None,
) -> Predictions | None:
    """The predictions of stale rows as they are with the new facts; None if the time was up."""
    facts, network = known_facts(store), network_for(store, model)[0]
    scenes = [KnownGraph.of(*sizes_of(store), edges, network) for edges in (facts_met(store, facts), facts)]
    parts, done = [_nothing()], 0
    for some in rows.portions(scenes[0].portion()):
        logits = []
        for number, scene in enumerate(scenes):

            def told(count: int, before: int = done * 2 + number * len(some)) -> None:
                if progress:
                    progress("update", before + count, 2 * len(rows), "rows around new entities, without and with them")

            if time.monotonic() > until:
                return None
            scored = scene.score(some, told)
            edges = candidates_of(scored, scored.predictions(), "cpu")
            numbers = edge_numbers(len(store.graph.entities), (scored.heads, scored.relation, scored.tails))
            logits.append((numbers, learned.logit(scene.known, edges, later=True).double().numpy()))
        parts.append(_shifted(_listed(store, some), len(store.graph.entities), logits))
        done += len(some)
    return Predictions.joined(parts)  # an edge may lie in two stale rows


def _nothing() -> Predictions:
    none = np.zeros(0, dtype=np.int32)
    return Predictions(none, none, none, none.astype(np.float32))


def _listed(store: StoreFiles, rows: EntityRows) -> Predictions:
    """The predictions that a store lists in some rows, those about new entities aside."""
    heads, relation, tails, truth = [], [], [], []
    for entity, view in zip(rows.entity.tolist(), rows.view.tolist(), strict=True):
        row = store.table.row(entity, view // 2, bool(view % 2))
        kept = ~row.observed & (row.ids < first_new(store))
        ends, own = row.ids[kept], np.full(np.count_nonzero(kept), entity, dtype=np.int32)
        heads.append(ends if view % 2 else own)
        tails.append(own if view % 2 else ends)
        relation.append(np.full_like(own, view // 2))
        truth.append(row.truth[kept])
    columns = [np.concatenate(column) for column in (heads, relation, tails)]
    return Predictions.of(columns[0], columns[1], columns[2], np.concatenate(truth))


def _shifted(
    listed: Predictions, entities: int, logits: list[tuple[NDArray[np.int64], NDArray[np.float64]]]
) -> Predictions:
    """Listed predictions, each moved from the log odds before to those after; one that is not in both lists stays."""
    numbers = edge_numbers(entities, listed[:3])
    both = among(numbers, logits[0][0]) & among(numbers, logits[1][0])
    without, with_them = (said[np.searchsorted(edges, numbers[both])] for edges, said in logits)  # edges ascend
    move = np.zeros(len(numbers))
    move[both] = np.clip(with_them - without, -_MOST, _MOST)
    before = torch.logit(torch.from_numpy(listed.prediction.astype(np.float64)), eps=1e-9)
    truth = torch.sigmoid(before + torch.from_numpy(move)).numpy()
    return listed._replace(prediction=np.minimum(truth, HIGHEST_PREDICTION).astype(np.float32))
