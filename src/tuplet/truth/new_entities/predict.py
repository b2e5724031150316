"""Predictions about the new entities of a store: computed beside it while others read and edit, then put in at once.

What waits is predicted by `add` and `update`; `update` also brings the rows around new entities up to date. A row of an
older entity keeps its calibrated truth but for what the new facts say: the network judges the row without them and with
them, and every prediction moves by the difference of the two log odds. All rows move at once: done twice, they would
move twice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import Argument, BadInput, Option
from tuplet.graph.adjacency import among
from tuplet.predict.config import PACKAGED
from tuplet.progress import Report, counted, duration, silent
from tuplet.truth.edges import HIGHEST_PREDICTION, EdgeColumns, Predictions, edge_numbers, observed_facts
from tuplet.truth.edit import EditReport, states_of
from tuplet.truth.store_folder import PATIENCE, StoreFiles, arrays_writer, graph_sizes, writing
from tuplet.truth.store_meta import NewEntities

if TYPE_CHECKING:
    from tuplet.predict.paths.model import AnyGraphModel
    from tuplet.truth.calibration.fit import LearnedCalibration
    from tuplet.truth.new_entities.learn import KnownGraph, ScoreRows


FEWEST = 600  # facts to learn from, of which half can be hidden
LEAST = 0.02  # share of the facts of a row that must be about new entities, or it hardly says anything else than before
SECONDS = 300.0  # that `add` takes at most for predictions; what is left then waits for `update`
_LEARNING = 30.0  # seconds of rows that are enough to learn a calibration from …
_SHARE_OF_LEARNING = 0.1  # … or this share of a longer time that was given
_MOST_LEARNING = 0.75  # share of the time after which a calibration is learned, whatever it is worth
_MOST = 2.0  # log odds that new facts move a prediction at most


@dataclass(frozen=True)
class EntityRows:
    """Rows (entity, view), by entity. A view is a relation in one direction: 2r from head to tail, or 2r + 1 back."""

    entity: NDArray[np.int64]  # [rows]
    view: NDArray[np.int64]  # [rows]
    walked: NDArray[np.bool_]  # [rows] whether the network computes it, which takes long

    def __len__(self) -> int:
        return len(self.entity)

    @property
    def walks(self) -> int:
        return int(np.count_nonzero(self.walked))

    def where(self, keep: NDArray[np.bool_] | slice) -> EntityRows:
        return EntityRows(self.entity[keep], self.view[keep], self.walked[keep])

    def portions(self, most: int) -> Iterator[EntityRows]:
        """Rows of whole entities, about so many walks at a time.

        >>> rows = EntityRows(np.array([7, 7, 2, 2, 5]), np.arange(5), np.array([True, True, True, False, True]))
        >>> [part.view.tolist() for part in rows.portions(3)]
        [[0, 1, 2, 3], [4]]
        """
        ends = np.flatnonzero(np.diff(self.entity, append=-1)) + 1
        walks = np.cumsum(self.walked)[ends - 1]
        at = 0
        while at < len(ends):
            start, before = (int(ends[at - 1]), int(walks[at - 1])) if at else (0, 0)
            at = max(at + 1, int(np.searchsorted(walks, before + most, side="right")))
            yield self.where(slice(start, int(ends[at - 1])))


def known_facts(store: StoreFiles) -> EdgeColumns:
    """The observed facts of a store."""
    return observed_facts(store.graph, store.meta.observed)[:3]


def facts_met(store: StoreFiles, facts: EdgeColumns) -> EdgeColumns:
    """The facts that the rows around new entities know of."""
    kept = ~_unmet(store, facts)
    return facts[0][kept], facts[1][kept], facts[2][kept]


def _unmet(store: StoreFiles, facts: EdgeColumns) -> NDArray[np.bool_]:
    """Which facts are about new entities, or came later, than what the rows around these know of."""
    heads, relation, tails = np.array(store.meta.new.later, dtype=np.int64).reshape(-1, 3).T
    later, given = (edge_numbers(len(store.graph.entities), edges) for edges in ((heads, relation, tails), facts))
    since = first_unmet(store)
    return (facts[0] >= since) | (facts[2] >= since) | np.isin(given, later)


def never(store: StoreFiles) -> str | None:
    """Why nothing can be predicted about new entities of a store, if so; one that is too small may grow."""
    facts = store.meta.report.facts
    few = None if facts >= FEWEST else f"{facts:,} facts are too few to learn from, {FEWEST} are needed"
    return store.meta.no_newcomers or few


def first_new(store: StoreFiles) -> int:
    """The id from which on entities came after the truth values were made."""
    return len(store.graph.entities) - store.meta.changes.new_entities


def first_unmet(store: StoreFiles) -> int:
    """The id from which on the rows around new entities do not know of them."""
    return first_new(store) + store.meta.new.met


def stale_rows(store: StoreFiles, facts: EdgeColumns | None = None) -> EntityRows:
    """The rows of older entities with facts about new ones that do not know of these, in order of their entities."""
    since, views = first_unmet(store), 2 * len(store.graph.relations)
    all_met = since >= len(store.graph.entities) and not store.meta.new.later
    if all_met or store.meta.no_newcomers is not None:
        none = np.zeros(0, dtype=np.int64)
        return EntityRows(none, none, none > 0)
    facts = facts or known_facts(store)
    heads, relation, tails = (np.asarray(side, dtype=np.int64) for side in facts)
    near = np.concatenate([heads, tails])
    code = near * views + np.concatenate([2 * relation, 2 * relation + 1])
    about_new = np.tile(_unmet(store, facts), 2) & (near < first_new(store))
    rows, new = np.unique(code[about_new], return_counts=True)
    all_of_them = np.isin(code, rows)
    total = np.bincount(np.searchsorted(rows, code[all_of_them]), minlength=len(rows))
    rows = rows[new >= LEAST * total]
    return EntityRows(rows // views, rows % views, rows >= 0)


def describe(store: StoreFiles) -> dict[str, Any]:
    """What `tuplet info` says of the new entities; nothing where there are none."""
    new, count = store.meta.new, store.meta.changes.new_entities
    if not count:
        return {}
    about: dict[str, Any] = {"count": count, "waiting": len(new.ids)}
    if (why := never(store) or new.why) is not None:
        return {"new_entities": about | {"why": why}}
    stale = stale_rows(store)
    about["stale"] = {"entities": len(np.unique(stale.entity)), "rows": len(stale)}
    if new.calibration is not None:
        about["calibration"] = {"made": new.calibration["made"], "reliability": new.calibration["reliability"]}
    return {"new_entities": about}


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
    from tuplet.predict.base import TrainingEdges

    network, digest = network_of(model)
    (heads, relation, tails), first = known_facts(store), first_new(store)
    kept = (heads < first) & (tails < first)
    older = {"train": (heads[kept], relation[kept], tails[kept])}
    suits = network.on(TrainingEdges(older, first, len(store.graph.relations)))
    return suits, f"{digest} sparse" if suits.network is network.second else digest


@dataclass
class PredictionWork:
    """Predictions about the new entities of a store, made within a time; `store` is the state after each step.

    An entity gets all its rows or waits on. The first time a calibration is learned and kept in the store, and again if
    there was little time for it and there is more now. Nobody is kept waiting: the store is locked only when finished
    entities are put in.
    """

    store: StoreFiles
    seconds: float | None = None  # that it takes at most, about; None: as long as it needs
    progress: Report = silent
    timeout: float = PATIENCE  # seconds that a change waits for another one to end
    model: str | os.PathLike[str] = PACKAGED
    ray: str | None = None  # the cluster that computes rows of new entities

    def __post_init__(self) -> None:
        self.began, self.limit = time.monotonic(), np.inf if self.seconds is None else self.seconds
        self.on_rows, self.rows = 0.0, 0  # seconds spent on rows, and how many these were

    def left(self) -> float:
        """Seconds."""
        return self.limit - (time.monotonic() - self.began)

    def follow(self, edit: EditReport) -> EditReport:
        """The report of an edit, with what is predicted about new entities after it."""
        if self.seconds == 0:
            why = never(self.store) or self.store.meta.new.why
            return replace(edit, waiting=len(self.store.meta.new.ids), why=why)
        self.limit = SECONDS if self.seconds is None else self.seconds
        found = self.predict_waiting()
        return replace(edit, predicted=found.facts, waiting=found.waiting, why=found.why)

    def update(self) -> PredictionReport:
        """Predict what waits, then bring the rows around new entities up to date."""
        refuse_wrong(self.seconds, self.model)
        report = self.predict_waiting(again=True)
        learned, facts, new = self.store.load_calibration("newcomers"), known_facts(self.store), self.store.meta.new
        met = len(self.store.graph.entities) - first_new(self.store)
        if report.why is not None or learned is None or (new.met == met and not new.later):
            return report
        rows, moved = stale_rows(self.store, facts), None
        if not len(rows):
            moved = _nothing()
        elif self._is_time_for(len(rows)):
            moved = self._move_stale(rows, facts, learned)
        if moved is None:
            return replace(report, stale_rows=len(rows))
        with writing(self.store.path, self.timeout, self.store) as now:
            later = tuple(fact for fact in now.meta.new.later if fact not in set(new.later))
            self.store = with_truth(now, moved, replace(now.meta.new, met=met, later=later))
        return replace(report, rows=report.rows + len(rows), moved=len(moved.heads))

    def predict_waiting(self, again: bool = False) -> PredictionReport:
        """Predict facts about what waits; if nothing could be learned before, it is tried `again` only if asked for."""
        new = self.store.meta.new
        why = never(self.store) or (None if again else new.why)
        if why is not None or not new.ids:
            return PredictionReport(waiting=len(new.ids), why=why)
        network, digest = network_for(self.store, self.model)
        learned = self.learn(network, digest)
        if learned is None:
            return PredictionReport(waiting=len(new.ids), why=self.store.meta.new.why)
        return self.predict(network, learned)

    def learn(self, network: AnyGraphModel, digest: str) -> LearnedCalibration | None:
        """The calibration of new entities: that of the store, or a new one that it keeps; None if there can be none."""
        from tuplet.truth.new_entities.learn import learn

        known = self.store.meta.new.calibration or {}
        before = self.store.load_calibration("newcomers") if known.get("network") == digest else None
        enough = max(_LEARNING, _SHARE_OF_LEARNING * self.limit) if np.isfinite(self.limit) else _LEARNING
        most, made = _MOST_LEARNING * self.limit, known.get("made", {})
        # it is learned again where there was too little time before, and is twice as much now
        worth_more = bool(made.get("short")) and min(enough, most) > 2 * (made["seconds"] + made["ready"])
        if before is not None and not worth_more:
            return before
        what = "learning how far predictions about new entities can be trusted"
        once = "with more time than before" if before else "once for a store"
        self.progress("learn", 0, 0, f"{what} ({once}): rows of about {duration(min(enough, most))}")
        found = learn(*graph_sizes(self.store.graph), known_facts(self.store), network, enough, most, self.progress)
        if before is not None and not isinstance(found, tuple):
            return before
        if found is None:  # in so short a time
            return None
        with writing(self.store.path, self.timeout, self.store) as now:
            if isinstance(found, str):
                self.store = now.note(replace(now.meta, new=replace(now.meta.new, why=found)))
                return None
            learned, about = found
            new = replace(now.meta.new, calibration={**about, "network": digest}, why=None)
            self.store = now.note(replace(now.meta, new=new), newcomers=arrays_writer("newcomers", learned.arrays()))
            return learned

    def predict(self, network: AnyGraphModel, learned: LearnedCalibration) -> PredictionReport:
        """Rows of the entities that wait, put in from time to time until the time is up."""
        from tuplet.truth.new_entities.learn import KnownGraph, on_cluster

        made = (self.store.meta.new.calibration or {}).get("made", {})
        if self.left() < made.get("ready", 0.0):  # not even the first row could begin
            return self.waiting_on(PredictionReport())
        scene = KnownGraph.from_edges(*graph_sizes(self.store.graph), known_facts(self.store), network)
        with nullcontext((scene.score, 1)) if self.ray is None else on_cluster(self.ray, scene) as (score, workers):
            return self.waiting_on(self._predict_rows(scene, learned, score, workers))

    def _predict_rows(
        self, scene: KnownGraph, learned: LearnedCalibration, score: ScoreRows, workers: int
    ) -> PredictionReport:
        """The same by so many workers."""
        waiting, report = self.store.meta.new.ids, PredictionReport()
        made = (self.store.meta.new.calibration or {}).get("made", {})
        rows = scene.rows(waiting)
        walked = rows.where(rows.walked)
        ends = np.searchsorted(walked.entity, waiting, side="right")  # rows come by entity, as those that wait do
        if made.get("rows") and len(walked):
            expected = duration(len(walked) * made["seconds"] / made["rows"] / workers)
            what = f"{counted(len(walked), 'row')} of {counted(len(waiting), 'new entity', 'new entities')}"
            self.progress("predict", 0, 0, f"{what}, about {expected}")
        at = 0
        while at < len(waiting) and (upto := self.reach(ends, at, workers * scene.portion())) > at:
            began, start = time.monotonic(), int(ends[at - 1]) if at else 0
            some = rows.where((rows.entity >= waiting[at]) & (rows.entity <= waiting[upto - 1]))

            def tell(count: int, start: int = start) -> None:
                self.progress("predict", start + count, len(walked), "rows of new entities")

            scored = score(some, tell)
            predicted = Predictions(scored.heads, scored.relation, scored.tails, scene.truth(learned, scored))
            put = self.put(scene.edges, waiting[at:upto], predicted.reaching(self.store.meta.threshold))
            report = report.then(replace(put, rows=some.walks))
            self.on_rows, self.rows, at = self.on_rows + time.monotonic() - began, self.rows + some.walks, upto
        return report

    def reach(self, ends: NDArray[np.int64], at: int, most: int) -> int:
        """How far the next portion goes: entities whose rows, which end at `ends`, fit into the time that is left."""
        left, start = self.left(), int(ends[at - 1]) if at else 0
        if not self.rows:  # the first one tells how long a row takes
            return at + 1 if left > 0 else at
        fits = left * self.rows / max(self.on_rows, 1e-9)
        if ends[at] - start > fits:
            return at
        return max(at + 1, int(np.searchsorted(ends, start + min(most, fits), side="right")))

    def put(self, facts: EdgeColumns, entities: Sequence[int], predicted: Predictions) -> PredictionReport:
        """Put predictions about new entities into the store; one whose facts others changed meanwhile waits on."""
        with writing(self.store.path, self.timeout, self.store) as now:
            done = np.asarray(entities, dtype=np.int64)
            if now.generation != self.store.generation:
                done = done[~np.isin(done, _differing_ends(facts, known_facts(now)))]
            mine = predicted.where(np.isin(predicted.heads, done) | np.isin(predicted.tails, done))
            # what was predicted about them before, and no longer is, goes
            before = _list_predictions(now, product(done.tolist(), range(2 * now.table.relations)))
            everything = Predictions.join([mine, before._replace(prediction=np.zeros_like(before.prediction))])
            self.store = with_truth(now, everything, now.meta.new.without(done.tolist()))
        return PredictionReport(entities=len(done), facts=len(mine.heads))

    def waiting_on(self, report: PredictionReport) -> PredictionReport:
        """The report with those that wait on."""
        left = len(self.store.meta.new.ids)
        if left:
            note = f"{counted(left, 'new entity waits', 'new entities wait')}: tuplet update goes on"
            self.progress("predict", 0, 0, note)
        return replace(report, waiting=left)

    def _is_time_for(self, rows: int) -> bool:
        """Whether so many rows can be judged twice in time, as far as is known; they move all at once or not at all."""
        made = (self.store.meta.new.calibration or {}).get("made", {})
        if not made.get("rows"):
            return True
        expected = 2 * (made.get("ready", 0.0) + rows * made["seconds"] / made["rows"])
        fits = bool(expected <= self.left())
        tell = f"{counted(rows, 'row')} around new entities, without and with them: about {duration(expected)}"
        self.progress("update", 0, 0, tell if fits else f"{tell}, which is more than there is; they stay as they are")
        return fits

    def _move_stale(self, rows: EntityRows, facts: EdgeColumns, learned: LearnedCalibration) -> Predictions | None:
        """The predictions of stale rows as they are with the new facts; None if the time was up."""
        from tuplet.truth.calibration.calibrate import candidates_of
        from tuplet.truth.new_entities.learn import KnownGraph

        store, network = self.store, network_for(self.store, self.model)[0]
        sizes, first = graph_sizes(store.graph), first_new(store)
        scenes = [KnownGraph.from_edges(*sizes, edges, network) for edges in (facts_met(store, facts), facts)]
        parts, done = [_nothing()], 0
        for some in rows.portions(scenes[0].portion()):
            logits = []
            for number, scene in enumerate(scenes):

                def tell(count: int, before: int = done * 2 + number * len(some)) -> None:
                    note = "rows around new entities, without and with them"
                    self.progress("update", before + count, 2 * len(rows), note)

                if self.left() < 0:
                    return None
                scored = scene.score(some, tell)
                edges = candidates_of(scored, scored.predictions())
                logit = learned.logit(scene.known, edges, later=True).double().numpy()
                logits.append((edge_numbers(sizes[0], scored.edges), logit))
            listed = _list_predictions(store, zip(some.entity.tolist(), some.view.tolist(), strict=True))
            parts.append(_shift(listed.where((listed.heads < first) & (listed.tails < first)), sizes[0], logits))
            done += len(some)
        return Predictions.join(parts)  # an edge may lie in two stale rows


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
    return store.apply_changes(states, (), meta) if states.edges else store.note(meta)


def _differing_ends(before: EdgeColumns, after: EdgeColumns) -> NDArray[np.integer]:
    """The ends of facts that came or went."""
    old, new = ({*zip(*(side.tolist() for side in edges), strict=True)} for edges in (before, after))
    return np.array([end for head, _, tail in old ^ new for end in (head, tail)], dtype=np.int64)


def _nothing() -> Predictions:
    none = np.zeros(0, dtype=np.int32)
    return Predictions(none, none, none, none.astype(np.float32))


def _list_predictions(store: StoreFiles, rows: Iterable[tuple[int, int]]) -> Predictions:
    """The predictions that a store lists in some rows, each an entity and a view."""
    found = [_nothing()]
    for entity, view in rows:
        row = store.table.row(entity, view // 2, bool(view % 2))
        ends, truth = row.ids[~row.observed], row.truth[~row.observed]
        own, relation = np.full_like(ends, entity), np.full_like(ends, view // 2)
        heads, tails = (ends, own) if view % 2 else (own, ends)
        found.append(Predictions(heads, relation, tails, truth))
    return Predictions.join(found)


def _shift(
    listed: Predictions, entities: int, logits: list[tuple[NDArray[np.int64], NDArray[np.float64]]]
) -> Predictions:
    """Listed predictions, each moved from the log odds before to those after; one that is not in both lists stays."""
    import torch

    numbers = edge_numbers(entities, listed[:3])
    both = among(numbers, logits[0][0]) & among(numbers, logits[1][0])
    without, with_them = (said[np.searchsorted(edges, numbers[both])] for edges, said in logits)  # edges ascend
    move = np.zeros(len(numbers))
    move[both] = np.clip(with_them - without, -_MOST, _MOST)
    before = torch.logit(torch.from_numpy(listed.prediction.astype(np.float64)), eps=1e-9)
    truth = torch.sigmoid(before + torch.from_numpy(move)).numpy()
    return listed._replace(prediction=np.minimum(truth, HIGHEST_PREDICTION).astype(np.float32))
