"""Predictions about the new entities of a store: computed beside it while others read and edit, then put in at once."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import Argument, BadInput, Option
from tuplet.graph.arrays import write_directory
from tuplet.predict.config import PACKAGED
from tuplet.progress import Report, counted, duration
from tuplet.truth.edges import Predictions
from tuplet.truth.edit import EditReport, states_of
from tuplet.truth.new_entities.stale import facts_before, first_new, known_facts, never
from tuplet.truth.scored import EdgeColumns, ScoredEdges
from tuplet.truth.store_folder import PATIENCE, StoreFiles, newest, writing
from tuplet.truth.store_meta import NewEntities
from tuplet.truth.table import Row

if TYPE_CHECKING:
    from tuplet.predict.paths.model import AnyGraphModel
    from tuplet.truth.calibration.fit import LearnedCalibration
    from tuplet.truth.new_entities.cluster_rows import ScoreRows
    from tuplet.truth.new_entities.learn import KnownGraph

SECONDS = 300.0  # that `add` takes at most for predictions; what is left then waits for `update`
_LEARNING = 30.0  # seconds of rows that are enough to learn a calibration from …
_SHARE_OF_LEARNING = 0.1  # … or this share of a longer time that was given
_MOST_LEARNING = 0.75  # share of the time after which a calibration is learned, whatever it is worth


@dataclass(frozen=True)
class PredictionReport:
    """What was predicted about new entities, and what waits."""

    entities: int = 0  # whose rows were computed
    rows: int = 0
    facts: int = 0  # that are predicted now, in these rows
    waiting: int = 0  # new entities without predictions, or with facts that these do not know of
    why: str | None = None  # nothing can be predicted
    moved: int = 0  # predictions in rows around new entities, which know of these now
    stale_rows: int = 0  # rows around new entities that do not know of them yet

    def then(self, other: PredictionReport) -> PredictionReport:
        """Both, one after the other."""
        sums = (self.entities + other.entities, self.rows + other.rows, self.facts + other.facts)
        return PredictionReport(*sums, other.waiting, other.why)


def refuse_wrong(
    seconds: float | None, model: str | os.PathLike[str], new_entities: bool = True, ray: str | None = None
) -> None:
    """Refuse a time, a model or a cluster that nothing can be predicted with, before anything has changed.

    >>> refuse_wrong(-1, PACKAGED)
    Traceback (most recent call last):
    tuplet.errors.BadInput: seconds is -1; it must be 0 or more
    >>> refuse_wrong(60, PACKAGED, new_entities=False)
    Traceback (most recent call last):
    tuplet.errors.BadInput: seconds is about new entities; it needs new_entities=True
    >>> refuse_wrong(None, PACKAGED, new_entities=False, ray="auto")
    Traceback (most recent call last):
    tuplet.errors.BadInput: ray is about new entities; it needs new_entities=True
    """
    given = {"seconds": seconds is not None, "model": os.fspath(model) != PACKAGED, "ray": ray is not None}
    if not new_entities and any(given.values()):
        name = next(name for name, is_given in given.items() if is_given)
        raise BadInput(Argument(name), " is about new entities; it needs ", Option("new_entities"))
    if seconds is not None and not (isinstance(seconds, int | float) and seconds >= 0):
        raise BadInput(f"seconds is {seconds}; it must be 0 or more")
    if os.fspath(model) != PACKAGED:
        network_of(model)


def predict_waiting(
    path: str | os.PathLike[str],
    seconds: float | None = None,
    progress: Report | None = None,
    timeout: float = PATIENCE,
    held: StoreFiles | None = None,
    model: str | os.PathLike[str] = PACKAGED,
    again: bool = False,
    ray: str | None = None,
) -> tuple[PredictionReport, StoreFiles]:
    """Predict facts about the new entities that wait for it; returns what was done, and the store after it.

    It takes about `seconds` at most (None: as long as it needs): an entity gets all its rows or waits on. The first
    time a calibration is learned and kept in the store, and once more if there was little time for it and there is more
    now; if nothing could be learned, it is tried `again` only if asked for. Nobody is kept waiting: the store is locked
    only when finished entities are put in. Rows are computed on the cluster at `ray`, if given.
    """
    store, clock = newest(path, held), _Clock(np.inf if seconds is None else seconds)
    why = never(store) or (None if again else store.meta.new.why)
    waiting = len(store.meta.new.ids)
    if why is not None or not waiting:
        return PredictionReport(waiting=waiting, why=why), store
    network, digest = network_for(store, model)
    learned, store = _learned(store, network, digest, clock, progress, timeout)
    if learned is None:
        return PredictionReport(waiting=waiting, why=store.meta.new.why), store
    if ray is None:
        return _predict(store, network, learned, clock, progress, timeout)
    from tuplet.truth.new_entities.cluster_rows import on_cluster

    with on_cluster(ray, model, facts_before(known_facts(store), first_new(store)), first_new(store)) as cluster:
        return _predict(store, network, learned, clock, progress, timeout, *cluster)


def with_predictions(
    edit: EditReport,
    store: StoreFiles,
    seconds: float | None,
    progress: Report | None,
    timeout: float,
    model: str | os.PathLike[str] = PACKAGED,
    ray: str | None = None,
) -> tuple[EditReport, StoreFiles]:
    """The report of an edit together with what was predicted about new entities after it, and the store then."""
    if seconds == 0:
        why = never(store) or store.meta.new.why
        return replace(edit, waiting=len(store.meta.new.ids), why=why), store
    limit = SECONDS if seconds is None else seconds
    found, store = predict_waiting(store.path, limit, progress, timeout, store, model, ray=ray)
    return replace(edit, predicted=found.facts, waiting=found.waiting, why=found.why), store


@dataclass
class _Clock:
    """How long it has taken, and how long a row does."""

    limit: float
    seconds: float = 0.0  # spent on rows
    rows: int = 0

    def __post_init__(self) -> None:
        self.began = time.monotonic()

    def left(self) -> float:
        """Seconds."""
        return self.limit - (time.monotonic() - self.began)

    def reach(self, ends: NDArray[np.int64], at: int, most: int) -> int:
        """How far the next portion goes: entities whose rows, which end at `ends`, fit into the time that is left."""
        left, start = self.left(), int(ends[at - 1]) if at else 0
        if not self.rows:  # the first one tells how long a row takes
            return at + 1 if left > 0 else at
        fits = left * self.rows / max(self.seconds, 1e-9)
        if ends[at] - start > fits:
            return at
        return max(at + 1, int(np.searchsorted(ends, start + min(most, fits), side="right")))


def network_of(model: str | os.PathLike[str]) -> tuple[AnyGraphModel, str]:
    """The network that needs no training, and the hash of its weights."""
    from tuplet.predict.model_folder import describe, load
    from tuplet.predict.paths.model import AnyGraphModel

    network = load(model)
    if not isinstance(network, AnyGraphModel):
        raise BadInput(f"{model} knows the entities it was trained on; new ones need a model of kind any-graph")
    return network, str(describe(model)["sha256"])


def network_for(store: StoreFiles, model: str | os.PathLike[str]) -> tuple[AnyGraphModel, str]:
    """The one that suits the graph as it was without new entities, and what it is called in the store."""
    from tuplet.predict.edges import TrainingEdges

    network, digest = network_of(model)
    facts = facts_before(known_facts(store), first_new(store))
    suits = network.on(TrainingEdges({"train": facts}, first_new(store), len(store.graph.relations)))
    return suits, f"{digest} sparse" if suits.network is network.second else digest


def _learned(
    store: StoreFiles, network: AnyGraphModel, digest: str, clock: _Clock, progress: Report | None, timeout: float
) -> tuple[LearnedCalibration | None, StoreFiles]:
    """The calibration of new entities: that of the store, or a new one that it keeps; None if there can be none."""
    from tuplet.truth.new_entities.learn import EntityCalibration, learn

    known = store.meta.new.calibration
    before = store.newcomers() if known is not None and known.get("network") == digest else None
    enough = max(_LEARNING, _SHARE_OF_LEARNING * clock.limit) if np.isfinite(clock.limit) else _LEARNING
    if before is not None and not _worth_more(known or {}, min(enough, _MOST_LEARNING * clock.limit)):
        return before, store
    if progress:
        what = "learning how far predictions about new entities can be trusted"
        once = "with more time than before" if before else "once for a store"
        progress("learn", 0, 0, f"{what} ({once}): rows of about {duration(min(enough, _MOST_LEARNING * clock.limit))}")
    found = learn(*sizes_of(store), known_facts(store), network, enough, _MOST_LEARNING * clock.limit, progress)
    if before is not None and not isinstance(found, EntityCalibration):
        return before, store
    if found is None:  # in so short a time
        return None, store
    with writing(store.path, timeout, store) as now:
        if isinstance(found, str):
            new = replace(now.meta.new, why=found)
            return None, now.noted(replace(now.meta, new=new))
        new = replace(now.meta.new, calibration={**found.as_dict(), "network": digest}, why=None)
        write = partial(write_directory, kind="newcomers", arrays=found.learned.arrays(), meta={})
        return found.learned, now.noted(replace(now.meta, new=new), newcomers=lambda folder: write(folder))


def _worth_more(known: Mapping[str, Any], seconds: float) -> bool:
    """Whether a calibration had too little time, and there is twice as much now."""
    made = known.get("made", {})
    return bool(made.get("short")) and seconds > 2 * (made["seconds"] + made["ready"])


def _predict(
    store: StoreFiles,
    network: AnyGraphModel,
    learned: LearnedCalibration,
    clock: _Clock,
    progress: Report | None,
    timeout: float,
    score: ScoreRows | None = None,
    workers: int = 1,
) -> tuple[PredictionReport, StoreFiles]:
    """Rows of the entities that wait, put in from time to time until the time is up; `score` by so many workers."""
    from tuplet.truth.new_entities.learn import KnownGraph

    report, waiting, facts = PredictionReport(), store.meta.new.ids, known_facts(store)
    made = (store.meta.new.calibration or {}).get("made", {})
    if clock.left() < made.get("ready", 0.0):  # not even the first row could begin
        return _waiting_on(report, store, progress), store
    scene = KnownGraph.of(*sizes_of(store), facts, network)
    rows = scene.rows(waiting)
    walked = rows.where(rows.walked)
    ends = np.searchsorted(walked.entity, waiting, side="right")  # rows come by entity, as those that wait do
    if progress and made.get("rows") and len(walked):
        expected = duration(len(walked) * made["seconds"] / made["rows"] / workers)
        what = f"{counted(len(walked), 'row')} of {counted(len(waiting), 'new entity', 'new entities')}"
        progress("predict", 0, 0, f"{what}, about {expected}")
    at = 0
    while at < len(waiting) and (upto := clock.reach(ends, at, workers * scene.portion())) > at:
        began, start = time.monotonic(), int(ends[at - 1]) if at else 0
        some = rows.where((rows.entity >= waiting[at]) & (rows.entity <= waiting[upto - 1]))

        def told(count: int, start: int = start) -> None:
            if progress:
                progress("predict", start + count, len(walked), "rows of new entities")

        scored = (score or KnownGraph.score)(scene, some, told)
        predicted = _judged(scene, learned, scored, store.meta.threshold)
        put, store = _put(store, facts, waiting[at:upto], predicted, timeout)
        report = report.then(replace(put, rows=some.walks))
        clock.seconds, clock.rows, at = clock.seconds + time.monotonic() - began, clock.rows + some.walks, upto
    return _waiting_on(report, store, progress), store


def _waiting_on(report: PredictionReport, store: StoreFiles, progress: Report | None) -> PredictionReport:
    """The report with those that wait on."""
    left = len(store.meta.new.ids)
    if progress and left:
        progress("predict", 0, 0, f"{counted(left, 'new entity waits', 'new entities wait')}: tuplet update goes on")
    return replace(report, waiting=left)


def _judged(scene: KnownGraph, learned: LearnedCalibration, scored: ScoredEdges, least: float) -> Predictions:
    """The predictions among candidates that reach a threshold."""
    return Predictions(scored.heads, scored.relation, scored.tails, scene.truth(learned, scored)).reaching(least)


def _put(
    store: StoreFiles, facts: EdgeColumns, entities: Sequence[int], predicted: Predictions, timeout: float
) -> tuple[PredictionReport, StoreFiles]:
    """Put predictions about new entities into the store; one whose facts others have changed meanwhile waits on."""
    with writing(store.path, timeout, store) as now:
        done = np.asarray(entities, dtype=np.int64)
        if now.generation != store.generation:
            done = done[~np.isin(done, _differing_ends(facts, known_facts(now)))]
        mine = predicted.where(np.isin(predicted.heads, done) | np.isin(predicted.tails, done))
        new = now.meta.new.without(done.tolist())
        # what was predicted about them before, and no longer is, goes
        after = with_truth(now, Predictions.joined([mine, _without_truth(now, done)]), new)
        return PredictionReport(entities=len(done), facts=len(mine.heads)), after


def with_truth(store: StoreFiles, predicted: Predictions, new: NewEntities) -> StoreFiles:
    """The next generation of a store, in which edges that are no facts have this truth, none below the threshold.

    The caller holds `writing(path)`.
    """
    predicted = predicted.where(predicted.relation != store.graph.unpredicted)
    now = states_of(store, predicted.relation, predicted.heads, predicted.tails)
    truth = np.where(predicted.prediction >= store.meta.threshold, predicted.prediction, np.float32(0))
    changed = ~now.observed & (now.truth != truth)
    states = now._replace(truth=truth.astype(np.float64), prediction=truth).take(changed)
    more = int((states.truth > 0).sum()) - int((now.truth[changed] > 0).sum())
    sizes = store.meta.report
    sizes = replace(sizes, edges=sizes.edges + more, predicted=(sizes.predicted or 0) + more)
    meta = replace(store.meta, report=sizes, new=new)
    return store.changed(states, (), meta) if states.edges else store.noted(meta)


def _differing_ends(before: EdgeColumns, after: EdgeColumns) -> NDArray[np.integer]:
    """The ends of facts that came or went."""
    old, new = ({*zip(*(side.tolist() for side in edges), strict=True)} for edges in (before, after))
    return np.array([end for head, _, tail in old ^ new for end in (head, tail)], dtype=np.int64)


def _without_truth(store: StoreFiles, entities: NDArray[np.integer]) -> Predictions:
    """All predictions about some entities, at 0."""
    found = [
        (end, relation, entity) if inverse else (entity, relation, end)
        for entity in entities.tolist()
        for relation in range(store.table.relations)
        for inverse in (False, True)
        for end in _predicted_ends(store.table.row(entity, relation, inverse))
    ]
    heads, relation, tails = np.array(found, dtype=np.int32).reshape(-1, 3).T
    return Predictions.of(heads, relation, tails, np.zeros(len(found)))


def _predicted_ends(row: Row) -> list[int]:
    ends: list[int] = row.ids[~row.observed].tolist()
    return ends


def sizes_of(store: StoreFiles) -> tuple[int, int]:
    """How many entities and relations there are."""
    return len(store.graph.entities), len(store.graph.relations)
