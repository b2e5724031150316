"""The learned calibration of a graph: which edges it may see, what it says of the candidates, how reliable that is.

A small graph has too few valid edges to learn from. So a fifth of its facts is hidden, then the next, until each was
hidden once; five times predictors learn from the rest. Every fact is then judged by predictors that never saw it, and
the calibration learns from all of them. What nobody stated is judged five times, and the mean counts: each judgement
is of the kind that was measured, so the mean promises no more than was measured (it promises a little less). With fewer
than 300 facts to learn from there is a line instead of trees, and no promise passes what was measured of its kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.graph.adjacency import among, by_relation, distinct, edge_key
from tuplet.graph.graph import NO_DATE, SPLIT_CODE, SPLITS, KnowledgeGraph
from tuplet.graph.newest import NewestHoldOut, as_of
from tuplet.progress import Report, silent
from tuplet.truth.calibration.features import LOWEST, Candidates
from tuplet.truth.calibration.fit import (
    LEAST_VALID,
    CrossFit,
    Curve,
    LearnedCalibration,
    SplitCorrection,
    Trial,
    fit,
    fit_line,
)
from tuplet.truth.calibration.reliability import BorneOut, MeasuredBounds, Reliability, reliability, split_keys
from tuplet.truth.edges import EdgeColumns, Floats, Predictions, ScoredEdges, edge_numbers
from tuplet.truth.known_edges import TrainEdges
from tuplet.truth.store_meta import BOUNDED, LEARNED

if TYPE_CHECKING:
    from tuplet.truth.two_step import TwoStepRules


_MOST_COUNTED = 20_000_000  # train edges: with more, rules of two steps would take longer than all the rest
SHIFTING = ("directions", "row", "agreement")  # columns that a calibration by date does without
THRESHOLD = 0.0005  # calibrated truth from which on it is listed, unless said otherwise


@dataclass(frozen=True)
class CalibrationResult:
    """The candidates with their calibrated truth, what gave it, and its reliability before and after."""

    edges: Predictions  # those that reach the threshold
    fit: CrossFit
    before: Reliability
    after: Reliability
    newest: NewestHoldOut | None = None  # None: the hold-out is not by date

    def as_dict(self) -> dict[str, Any]:
        """For the store: everything but the arrays."""
        held_out = {} if self.newest is None else {"holdout": self.newest.as_dict()}
        hidden, is_fact, weight = self.fit.learned.hidden, self.fit.label > 0, self.fit.weight
        truth = hidden(self.fit.held_out).numpy()
        borne_out = BorneOut.from_trials(truth, is_fact.numpy(), weight.numpy(), hidden.share)
        return {"name": LEARNED, **held_out, **self.fit.learned.as_dict(), "borne_out": borne_out.as_dict()}


def missing(graph: KnowledgeGraph, edges: Sequence[NDArray[Any]]) -> str | None:
    """Why nothing can be learned from these candidates (heads, relation, tails); None if it can."""
    listed = int(np.count_nonzero(mark_split(graph, "valid", edges)))
    if listed >= LEAST_VALID:
        return None
    return f"{listed:,} valid edges among the candidates, {LEAST_VALID} needed"


def calibrate(
    graph: KnowledgeGraph,
    scored: ScoredEdges | Predictions,
    observed: Sequence[str],
    threshold: float = THRESHOLD,
    progress: Report = silent,
    later: Sequence[ScoredEdges] = (),
    until: float = math.inf,
) -> CalibrationResult:
    """Learn a calibration from the train and valid edges of the graph and apply it to all candidates.

    Where the newest facts are held out, `later` are the candidates of predictors that learned anew at the end of each
    window: it is learned from those of all windows, and applied to the last ones, which know everything. Of the test
    split only its size is used, and at the end its edges, to report how reliable the result is. `until`: as in
    `fit`.
    """
    reason = missing(graph, (scored.heads, scored.relation, scored.tails))
    if reason:
        raise BadInput(reason)
    sizes, newest = graph.split_edges, NewestHoldOut.from_graph(graph)
    graphs = [graph] if newest is None else [as_of(graph, number) for number in range(1 + len(later[:-1]))]
    givens, trials = [], []
    for then, one in zip(graphs, (scored, *later), strict=False):
        givens.append(as_predictions(one))
        is_valid = torch.from_numpy(mark_split(then, "valid", givens[-1][:3]))
        trials.append(Trial(known_edges(then), candidates_of(one, givens[-1]), is_valid))
    valid, listed = sum(int(trial.is_fact.sum()) for trial in trials), sum(len(given.heads) for given in givens)
    progress("calibrate", 0, 0, f"learning a calibration from {valid:,} valid edges among {listed:,} candidates")
    if newest is None:
        hidden = SplitCorrection.from_sizes(sizes["valid"], sizes["test"], "valid" in observed, "test" in observed)
        fitted = fit(trials, hidden, until=until)
    else:
        fitted = _fit_newest(trials, until)
    given, (known, candidates, _) = givens[0], trials[0]
    if later:
        given = as_predictions(later[-1])
        candidates = candidates_of(later[-1], given)
    as_of_now = newest is not None and "valid" in observed
    if as_of_now:
        known = known_edges(graph, ("train", "valid"))
    truth = fitted.learned.truth(known, candidates, as_of_now, progress).numpy()
    if sizes["test"] and "test" not in observed:
        belongs = {split: mark_split(graph, split, given[:3]) for split in SPLITS}
        unseen = ~np.logical_or.reduce([belongs[split] for split in ("train", *observed)])
        hidden_splits = [split for split in ("valid", "test") if split not in observed]
        fact = np.logical_or.reduce([belongs[split] for split in hidden_splits])[unseen]
        before, after = (
            reliability(side[unseen], fact, split=" and ".join(hidden_splits)) for side in (given.prediction, truth)
        )
    else:
        is_test = np.concatenate([mark_split(graph, "test", one[:3]) for one in givens])
        before, after = _cross_validated(fitted, np.concatenate([one.prediction for one in givens]), is_test)
    return CalibrationResult(given._replace(prediction=truth).reaching(threshold), fitted, before, after, newest)


def _fit_newest(trials: Sequence[Trial], until: float) -> CrossFit:
    """A fit to what came after each cut: what came true in that time comes true in as long a time from now on.

    An entity that was new then had no facts to be judged by, and every one has now: its edges are no examples. How a
    candidate stands in its rows, and what each scorer says of it, is left out: that shifts with what comes to be known.
    """
    examples, found, before = list[torch.Tensor](), list[Trial](), 0
    for known, candidates, is_valid in trials:
        seen = known.degree > 0
        places = torch.nonzero(seen[candidates.heads] & seen[candidates.tails]).view(-1)
        found.append(Trial(known, candidates.where(places), is_valid[places]))
        examples.append(before + places)
        before += len(candidates.heads)
    fitted = fit(found, SplitCorrection(), without=SHIFTING, until=until)
    return replace(fitted, places=torch.cat(examples)[fitted.places])


def _cross_validated(
    fitted: CrossFit, prediction: NDArray[np.floating], is_test: NDArray[np.bool_]
) -> tuple[Reliability, Reliability]:
    """Reliability on valid edges, each judged by trees that did not see it; test edges are observed here."""
    label, weight, places = fitted.label.numpy() > 0, fitted.weight.numpy(), fitted.places.numpy()
    sides = (prediction[places], fitted.learned.hidden(fitted.held_out).numpy())
    kept = ~is_test[places]
    before, after = (reliability(side[kept], label[kept], split="valid", weight=weight[kept]) for side in sides)
    return before, after


def known_edges(graph: KnowledgeGraph, splits: Sequence[str] = ("train",)) -> TrainEdges:
    """The edges of some splits, with their dates, and with rules of two steps unless there are too many.

    Ages are counted from the end of the hold-out, or its beginning, in units of its length; else from the newest date,
    in units of the time of the newest tenth.
    """
    edges = graph.edges(*splits)
    known = with_rules(len(graph.entities), len(graph.relations), edges)
    if graph.date is None:
        return known
    entry = graph.adjacency.triples()[3]
    date = graph.date[entry[np.isin(graph.split[entry], [SPLIT_CODE[name] for name in splits])]]
    if (date == NO_DATE).all():
        return known
    date = np.where(date == NO_DATE, np.nan, date.astype(np.float64))
    if (newest := NewestHoldOut.from_graph(graph)) is not None:
        now, unit = float(newest.until if "valid" in splits else newest.cut), float(newest.length)
    else:
        now = float(np.nanmax(date))
        unit = max(1.0, now - float(np.nanquantile(date, 0.9)))
    return known.with_dates([_ids(side) for side in edges], torch.from_numpy(date), now, unit)


def with_rules(entities: int, relations: int, edges: EdgeColumns) -> TrainEdges:
    """Any edges, with rules of two steps unless there are too many."""
    known = TrainEdges.from_edges(entities, relations, *map(_ids, edges))
    return replace(known, two_step=two_step_rules(entities, relations, edges))


def two_step_rules(entities: int, relations: int, edges: EdgeColumns) -> TwoStepRules | None:
    """The rules of two steps of any edges; None if they cannot be counted here, or are too many."""
    if len(edges[0]) > _MOST_COUNTED:
        return None
    try:
        from tuplet.truth.two_step import TwoStepRules
    except ImportError:  # there is no numba; the fit says that it did without
        return None
    return TwoStepRules.from_edges(entities, relations, *edges)


def as_predictions(scored: ScoredEdges | Predictions) -> Predictions:
    """The edges with the mean truth of all scorers."""
    return scored.predictions() if isinstance(scored, ScoredEdges) else scored


def candidates_of(scored: ScoredEdges | Predictions, given: Predictions) -> Candidates:
    """The edges as the features take them."""
    log_truth = torch.from_numpy(np.log(np.maximum(given.prediction, 1e-9)).astype(np.float32))
    heads, relation, tails = map(_ids, given[:3])
    if not isinstance(scored, ScoredEdges):
        return Candidates(heads, relation, tails, log_truth)
    # Counts may lift a direction that is sure above log truth 0; how far says nothing.
    logs = torch.from_numpy(scored.logs.astype(np.float32, copy=False)).clamp(LOWEST, 0.0)
    return Candidates(heads, relation, tails, log_truth, scored.scorers, logs)


def _ids(side: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(np.asarray(side, dtype=np.int64))


def mark_split(graph: KnowledgeGraph, split: str, edges: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
    """Marks the edges (heads, relation, tails) that belong to a split, looked up relation by relation."""
    heads, relation, tails = edges
    order, bounds = by_relation(relation, len(graph.relations))
    belongs, size = np.zeros(len(heads), dtype=bool), len(graph.entities)
    for number, (begin, end) in enumerate(pairwise(bounds.tolist())):
        mine = slice(begin, end) if order is None else order[begin:end]
        if begin < end:
            wanted = split_keys(graph, split, number)
            belongs[mine] = among(edge_key(heads[mine], tails[mine], size), wanted)
    return belongs


_FACTS = 40  # that each knot of the curve rests on
_KNOTS = 32


class JointPromise(NamedTuple):
    """What is promised to all candidates together, and what that was learned from."""

    key: NDArray[np.int64]  # of the candidates, ascending
    truth: NDArray[np.float32]
    of_two: NDArray[np.float32]  # the same from two of the trials alone: those in which a fact was hidden
    is_fact: NDArray[np.bool_]
    weight: Floats  # how many candidates each of them stands for
    correction: SplitCorrection


def promise_together(
    keys: Sequence[NDArray[np.int64]],
    chances: Sequence[Floats],
    hidden: Sequence[NDArray[np.int64]],
    correction: SplitCorrection,
) -> JointPromise:
    """From the unknown candidates of each trial, the chances it gives them of being hidden, and what was hidden.

    `correction` is that of the facts which are hidden in the same two trials.
    """
    key = distinct(np.concatenate(keys))
    chance = np.zeros((len(trials := range(len(keys))), len(key)), dtype=np.float32)
    was_hidden = np.stack([np.isin(key, np.asarray(some)) for some in hidden])
    for trial in trials:
        chance[trial, np.searchsorted(key, keys[trial])] = chances[trial]
    is_fact = np.asarray(was_hidden.any(0), dtype=bool)
    # A fact is judged where it was hidden. Anything else by one of the pairs of trials, and stands for all pairs.
    first = key % len(trials)
    both = np.stack([chance[trial, np.arange(len(key))] for trial in (first, (first + 1) % len(trials))]).mean(0)
    hidden_mean = (chance * was_hidden).sum(0) / np.maximum(was_hidden.sum(0), 1)
    two = np.where(is_fact, hidden_mean, both)
    weight = np.where(is_fact, 1.0, len(trials))
    listed = two > 0
    label, each = torch.from_numpy(is_fact[listed]).float(), torch.from_numpy(weight[listed]).float()
    curve = Curve.fit(_logit(two[listed]), label, each, _KNOTS, _FACTS)
    honest = correction.lower_top(curve(_logit(two[listed])), label, each)

    def truth(mean: Floats) -> NDArray[np.float32]:
        return np.where(mean > 0, honest(curve(_logit(mean))).numpy(), np.float32(0))

    mean = np.where(is_fact, hidden_mean, chance.mean(0))
    return JointPromise(key, truth(mean), truth(two), is_fact, weight, honest)


def _logit(chance: Floats) -> torch.Tensor:
    return torch.logit(torch.from_numpy(np.clip(chance, 1e-7, 1 - 1e-7)).float())


PARTS = 5
# How many candidates a fit looks at, beside all hidden facts: so many for each, within these bounds. A small graph is
# not worth more time.
_ROWS_EACH, _ROWS = 12, (25_000, 100_000)
_STEADY = 10.0  # how many facts it takes to move the slope of a line halfway from 1


class HiddenPart(NamedTuple):
    """Facts that predictors learn from, and facts that are hidden from them."""

    known: EdgeColumns
    hidden: EdgeColumns


def hide_in_turn(facts: EdgeColumns, seed: int, parts: int = PARTS) -> list[HiddenPart]:
    """Each fifth of the facts hidden in turn, dealt at random; nothing where there is only one fact.

    >>> ids = np.arange(3)
    >>> [part.hidden[0].tolist() for part in hide_in_turn((ids, ids, ids), seed=0)]
    [[2], [0], [1]]
    """
    order = np.random.default_rng(seed).permutation(len(facts[0]))
    number = min(parts, len(order))
    return [hide(facts, order[part::number]) for part in range(number)] if number > 1 else []


def hide_twice(facts: EdgeColumns, seed: int, times: int, share: int = 20) -> list[HiddenPart]:
    """A twentieth and the next hidden, that and the next, …, the last and the first: each of them twice.

    With less than three times it would be the same twice, and two twentieths are hidden once.

    >>> ids = np.arange(4)
    >>> [part.hidden[0].tolist() for part in hide_twice((ids, ids, ids), seed=0, times=3, share=4)]
    [[0, 2], [0, 1], [1, 2]]
    """
    order = np.random.default_rng(seed).permutation(len(facts[0]))
    groups = [order[group::share] for group in range(max(times, 2))]
    pairs = zip(groups, groups[1:] + groups[:1], strict=True)
    return [hide(facts, np.concatenate(pair)) for pair in islice(pairs, times if times > 2 else min(times, 1))]


def hide(facts: EdgeColumns, places: NDArray[np.integer] | NDArray[np.bool_]) -> HiddenPart:
    """The facts at some places hidden, in order of their places."""
    hidden = np.zeros(len(facts[0]), dtype=bool)
    hidden[places] = True
    heads, relation, tails = ((side[~hidden], side[hidden]) for side in map(np.asarray, facts))
    return HiddenPart((heads[0], relation[0], tails[0]), (heads[1], relation[1], tails[1]))


def missing_as_often(hidden: float, missing: float, test: int = 0) -> SplitCorrection:
    """From the chance of being hidden, with `hidden` facts at a time, to the chance of being a fact that is missing.

    With a test split its size says how many are missing. Without, `missing` are, which are among the hidden ones.

    >>> missing_as_often(hidden=200, missing=50)
    SplitCorrection(times=0.25, given=0.75, soft=0.9, most=1.0)
    >>> missing_as_often(hidden=200, missing=50, test=100)
    SplitCorrection(times=0.5, given=1.0, soft=0.9, most=1.0)
    """
    if test:
        return SplitCorrection(test / hidden, 1.0)
    share = min(1.0, missing / hidden)
    return SplitCorrection(share, 1 - share)


@dataclass(frozen=True)
class HeldOutResult:
    """What the hidden facts teach: the predictions they bear out, and how reliable these are."""

    edges: Predictions  # those that reach the threshold
    facts: int  # hidden facts among the candidates: what was learned from
    learned: LearnedCalibration | None  # None: too few for trees
    line: tuple[float, float] | None  # of the logit in log truth, where there are no trees; None: nothing was found
    bounds: MeasuredBounds
    correction: SplitCorrection
    before: Reliability
    after: Reliability
    borne_out: BorneOut | None  # None: too few for trees

    def as_dict(self) -> dict[str, Any]:
        """For the store: everything but the arrays."""
        measured = {"hidden_facts": self.facts, "bounds": self.bounds.as_dict()}
        if self.learned is not None and self.borne_out is not None:
            return {"name": LEARNED, **self.learned.as_dict(), **measured, "borne_out": self.borne_out.as_dict()}
        return {"name": BOUNDED, "line": self.line, "hidden": asdict(self.correction), **measured}


class _Judged(NamedTuple):
    """What is said of candidates that were unknown: of those of every trial, and of some with their labels."""

    promised: list[Floats]  # by trial: the chance of being a hidden fact, of each unknown candidate
    relation: NDArray[np.int64]
    held_out: Floats  # what was promised to these without seeing them
    raw: Floats  # what the predictors said of them
    label: NDArray[np.bool_]
    weight: Floats


def calibrate_hidden(
    sizes: tuple[int, int],
    trials: Sequence[tuple[HiddenPart, ScoredEdges]],
    correction: SplitCorrection,
    threshold: float,
    twice: SplitCorrection | None = None,
    until: float = math.inf,
) -> HeldOutResult:
    """Learn from what was hidden in each trial, and judge everything that was unknown in some.

    `sizes` are the numbers of entities and relations. `twice`: every hidden fact was hidden in two of the trials, and
    this is the correction for those of the same two (`hidden_twice`). `until`: as in `fit`.
    """
    tried = [trial_of(with_rules(*sizes, part.known), part.hidden, scored) for part, scored in trials]
    free = [trial.unknown.numpy() for trial in tried]
    keys = [edge_numbers(sizes[0], scored.edges)[mine] for (_, scored), mine in zip(trials, free, strict=True)]
    hidden = [edge_numbers(sizes[0], part.hidden) for part, _ in trials]
    found = [key[among(key, np.sort(known))] for key, known in zip(keys, hidden, strict=True)]
    facts = len(distinct(np.concatenate(found))) if found else 0
    learned, line = None, None
    if facts >= LEAST_VALID:
        learned, judged = _by_trees(tried, free, correction, until)
    elif facts:
        line, judged = _by_line(tried, free)
    else:
        none = np.zeros(0)
        judged = _Judged([np.zeros(len(key)) for key in keys], none.astype(np.int64), none, none, none > 0, none)
    bounds = MeasuredBounds.from_trials(sizes[1], judged.relation, judged.held_out, judged.label, judged.weight)
    if learned is not None:
        correction = learned.hidden  # the top is what was measured there
    relations = [scored.relation[mine] for (_, scored), mine in zip(trials, free, strict=True)]
    chances = list(map(bounds, relations, judged.promised))
    # A fact counts as often as it would be missing.
    weight = np.where(judged.label, correction.times, 1.0) * judged.weight
    before = reliability(judged.raw, judged.label, split="hidden", weight=weight)
    if learned is not None and twice is not None:
        joint = promise_together(keys, chances, hidden, twice)
        edges, correction = _edges(sizes[0], joint.key, joint.truth), joint.correction
        held_out, label, stands_for = joint.of_two, joint.is_fact, joint.weight
    else:
        edges = _mean(sizes[0], keys, [_correct(correction, chance) for chance in chances], hidden)
        held_out = _correct(correction, bounds(judged.relation, judged.held_out))
        label, stands_for = judged.label, judged.weight
    after = reliability(held_out, label, split="hidden", weight=np.where(label, correction.times, 1.0) * stands_for)
    borne_out = None if learned is None else BorneOut.from_trials(held_out, label, stands_for, correction.share)
    return HeldOutResult(edges.reaching(threshold), facts, learned, line, bounds, correction, before, after, borne_out)


def distinct_facts(entities: int, several: Sequence[EdgeColumns]) -> int:
    """How many edges there are in all of these: one that is in several counts once."""
    keys = [edge_numbers(entities, edges) for edges in several]
    return len(distinct(np.concatenate(keys))) if keys else 0


def _by_trees(
    trials: list[Trial], free: list[NDArray[np.bool_]], correction: SplitCorrection, until: float
) -> tuple[LearnedCalibration, _Judged]:
    facts = sum(int(trial.is_fact.sum()) for trial in trials)
    fitted = fit(trials, correction, rows=int(np.clip(_ROWS_EACH * facts, *_ROWS)), until=until)
    logits = [fitted.learned.logit(trial.known, trial.edges).double() for trial in trials]
    return fitted.learned, _Judged(
        [torch.sigmoid(logit).numpy()[mine] for logit, mine in zip(logits, free, strict=True)],
        torch.cat([trial.edges.relation for trial in trials])[fitted.places].numpy(),
        torch.sigmoid(fitted.held_out.double()).numpy(),
        torch.cat([trial.edges.log_truth for trial in trials])[fitted.places].exp().numpy(),
        fitted.label.numpy() > 0,
        fitted.weight.double().numpy(),
    )


def _by_line(trials: list[Trial], free: list[NDArray[np.bool_]]) -> tuple[tuple[float, float], _Judged]:
    unknown = [
        (trial.edges.relation[mine], trial.edges.log_truth[mine], trial.is_fact[mine])
        for trial, mine in zip(trials, map(torch.from_numpy, free), strict=True)
    ]
    relation, log_truth, label = (torch.cat(side) for side in zip(*unknown, strict=True))
    each = torch.ones(len(label))
    line = fit_line(log_truth, label.float(), each, _STEADY)
    promised = [torch.sigmoid(line[0] + line[1] * log.double()).numpy() for _, log, _ in unknown]
    raw = log_truth.exp().numpy()
    return line, _Judged(promised, relation.numpy(), np.concatenate(promised), raw, label.numpy(), each.numpy())


def trial_of(known: TrainEdges, hidden: EdgeColumns, scored: ScoredEdges) -> Trial:
    """Candidates over known edges, with what was hidden from their scorers."""
    is_fact = np.isin(edge_numbers(known.entities, scored.edges), edge_numbers(known.entities, hidden))
    return Trial(known, candidates_of(scored, scored.predictions()), torch.from_numpy(is_fact))


def _mean(
    entities: int,
    keys: Sequence[NDArray[np.int64]],
    promised: Sequence[NDArray[np.float32]],
    hidden: Sequence[NDArray[np.int64]],
) -> Predictions:
    """The mean promise over the trials in which an edge was unknown; a trial that does not list it promises nothing."""
    none = np.zeros(0, dtype=np.int64)
    key, place = np.unique(np.concatenate([none, *keys]), return_inverse=True)
    # A fact was unknown in one trial, and what nobody stated in all.
    is_fact = np.isin(key, np.concatenate([none, *hidden]))
    sums = np.bincount(place, np.concatenate([none, *promised]), len(key))
    return _edges(entities, key, sums / np.where(is_fact, 1, max(1, len(keys))))


def _edges(entities: int, key: NDArray[np.int64], truth: Floats) -> Predictions:
    pair = key % entities**2
    return Predictions.from_columns(pair // entities, key // entities**2, pair % entities, truth)


def _correct(correction: SplitCorrection, chance: Floats) -> NDArray[np.float32]:
    inside = torch.from_numpy(np.clip(chance, 1e-12, 1 - 1e-12))
    return np.where(chance > 0, correction(torch.logit(inside)).numpy(), np.float32(0))
