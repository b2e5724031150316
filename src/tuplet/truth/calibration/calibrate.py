"""The learned calibration of a graph: which edges it may see, what it says of the candidates, how reliable that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.graph.adjacency import among, by_relation, edge_key
from tuplet.graph.graph import NO_DATE, SPLIT_CODE, SPLITS, KnowledgeGraph
from tuplet.graph.newest import NewestHoldOut, as_of
from tuplet.progress import Report
from tuplet.truth.calibration.bounds import BorneOut
from tuplet.truth.calibration.features import LOWEST, Candidates
from tuplet.truth.calibration.fit import LEAST_VALID, CrossFit, SplitCorrection, Trial, fit, fit_together
from tuplet.truth.calibration.reliability import Reliability, reliability, split_keys
from tuplet.truth.calibration.train_edges import TrainEdges
from tuplet.truth.edges import Predictions
from tuplet.truth.scored import EdgeColumns, ScoredEdges

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
        return {"name": "learned", **held_out, **self.fit.learned.as_dict(), "borne_out": self._borne_out().as_dict()}

    def _borne_out(self) -> BorneOut:
        hidden = self.fit.learned.hidden
        truth, is_fact, weight = hidden(self.fit.held_out), self.fit.label > 0, self.fit.weight
        return BorneOut.of(truth.cpu().numpy(), is_fact.cpu().numpy(), weight.cpu().numpy(), hidden.share)


def missing(graph: KnowledgeGraph, heads: NDArray[Any], relation: NDArray[Any], tails: NDArray[Any]) -> str | None:
    """Why nothing can be learned from these candidates; None if it can."""
    listed = int(np.count_nonzero(marked(graph, "valid", heads, relation, tails)))
    if listed >= LEAST_VALID:
        return None
    return f"{listed:,} valid edges among the candidates, {LEAST_VALID} needed"


def calibrate(
    graph: KnowledgeGraph,
    scored: ScoredEdges | Predictions,
    observed: Sequence[str],
    threshold: float = THRESHOLD,
    device: str | torch.device = "cpu",
    progress: Report | None = None,
    later: Sequence[ScoredEdges] = (),
    until: float = math.inf,
) -> CalibrationResult:
    """Learn a calibration from the train and valid edges of the graph and apply it to all candidates.

    Where the newest facts are held out, `later` are the candidates of predictors that learned anew at the end of each
    window: it is learned from those of all windows, and applied to the last ones, which know everything. Of the test
    split only its size is used, and at the end its edges, to report how reliable the result is. `until`: as in
    `fit_together`.
    """
    reason = missing(graph, scored.heads, scored.relation, scored.tails)
    if reason:
        raise BadInput(reason)
    sizes, newest = graph.split_edges, NewestHoldOut.from_graph(graph)
    if newest is None:
        trials = [_scored_trial(graph, scored, device)]
    else:
        trials = [_scored_trial(as_of(graph, n), one, device) for n, one in enumerate((scored, *later[:-1]))]
    if progress:
        valid = sum(int(trial.is_valid.sum()) for trial in trials)
        listed = sum(len(trial.given.heads) for trial in trials)
        progress("calibrate", 0, 0, f"learning a calibration from {valid:,} valid edges among {listed:,} candidates")
    given, candidates, known, is_valid = trials[0]
    if newest is None:
        hidden = SplitCorrection.of(sizes["valid"], sizes["test"], "valid" in observed, "test" in observed)
        fitted = fit(known, candidates, is_valid, hidden, until=until)
    else:
        fitted = _fit_newest(trials, until)
    if later:
        given, candidates = _candidates(later[-1], device)
    as_of_now = newest is not None and "valid" in observed
    if as_of_now:
        known = known_edges(graph, device, ("train", "valid"))
    truth = fitted.learned.truth(known, candidates, as_of_now, progress).cpu().numpy()
    if sizes["test"] and "test" not in observed:
        belongs = {split: marked(graph, split, *given[:3]) for split in SPLITS}
        unseen = ~np.logical_or.reduce([belongs[split] for split in ("train", *observed)])
        hidden_splits = [split for split in ("valid", "test") if split not in observed]
        fact = np.logical_or.reduce([belongs[split] for split in hidden_splits])[unseen]
        before, after = (
            reliability(side[unseen], fact, split=" and ".join(hidden_splits)) for side in (given.prediction, truth)
        )
    else:
        is_test = np.concatenate([marked(graph, "test", *trial.given[:3]) for trial in trials])
        before, after = _cross_validated(fitted, np.concatenate([t.given.prediction for t in trials]), is_test)
    return CalibrationResult(given._replace(prediction=truth).reaching(threshold), fitted, before, after, newest)


class _ScoredTrial(NamedTuple):
    """Candidates, what was known when they were scored, and which of them were valid edges then."""

    given: Predictions
    candidates: Candidates
    known: TrainEdges
    is_valid: torch.Tensor


def _scored_trial(graph: KnowledgeGraph, scored: ScoredEdges | Predictions, device: str | torch.device) -> _ScoredTrial:
    given, candidates = _candidates(scored, device)
    is_valid = torch.from_numpy(marked(graph, "valid", *given[:3])).to(device)
    return _ScoredTrial(given, candidates, known_edges(graph, device), is_valid)


def _fit_newest(trials: Sequence[_ScoredTrial], until: float) -> CrossFit:
    """A fit to what came after each cut: what came true in that time comes true in as long a time from now on.

    An entity that was new then had no facts to be judged by, and every one has now: its edges are no examples. How a
    candidate stands in its rows, and what each scorer says of it, is left out: that shifts with what comes to be known.
    """
    examples, found, before = list[torch.Tensor](), list[Trial](), 0
    for given, candidates, known, is_valid in trials:
        seen = known.degree > 0
        places = torch.nonzero(seen[candidates.heads] & seen[candidates.tails]).view(-1)
        found.append(Trial(known, candidates.where(places), is_valid[places]))
        examples.append(before + places)
        before += len(given.heads)
    fitted = fit_together(found, SplitCorrection(), without=SHIFTING, until=until)
    return replace(fitted, places=torch.cat(examples)[fitted.places])


def _cross_validated(
    fitted: CrossFit, prediction: NDArray[np.floating], is_test: NDArray[np.bool_]
) -> tuple[Reliability, Reliability]:
    """Reliability on valid edges, each judged by trees that did not see it; test edges are observed here."""
    label, weight, places = fitted.label.cpu().numpy() > 0, fitted.weight.cpu().numpy(), fitted.places.cpu().numpy()
    sides = (prediction[places], fitted.learned.hidden(fitted.held_out).cpu().numpy())
    kept = ~is_test[places]
    before, after = (reliability(side[kept], label[kept], split="valid", weight=weight[kept]) for side in sides)
    return before, after


def known_edges(
    graph: KnowledgeGraph, device: str | torch.device = "cpu", splits: Sequence[str] = ("train",)
) -> TrainEdges:
    """The edges of some splits, with their dates, and with rules of two steps if these can be counted here."""
    edges = graph.edges(*splits)
    known = with_rules(len(graph.entities), len(graph.relations), edges, device)
    if (date := _dates(graph, splits)) is not None:
        now, unit = _now(NewestHoldOut.from_graph(graph), date, "valid" in splits)
        known = known.dated([_ids(side, device) for side in edges], torch.from_numpy(date).to(device), now, unit)
    return known


def with_rules(entities: int, relations: int, edges: EdgeColumns, device: str | torch.device = "cpu") -> TrainEdges:
    """Any edges, with rules of two steps if these can be counted here."""
    known = TrainEdges.of(entities, relations, *(_ids(side, device) for side in edges))
    return replace(known, two_step=two_step_rules(entities, relations, edges))


def two_step_rules(entities: int, relations: int, edges: EdgeColumns) -> TwoStepRules | None:
    """The rules of two steps of any edges; None if they cannot be counted here."""
    if len(edges[0]) > _MOST_COUNTED:
        return None
    try:
        from tuplet.truth.two_step import TwoStepRules
    except ImportError:  # there is no numba; the fit says that it did without
        return None
    return TwoStepRules.of(entities, relations, *edges)


def _dates(graph: KnowledgeGraph, splits: Sequence[str]) -> NDArray[np.float64] | None:
    """The dates of the edges of some splits, NaN where there is none; None if no edge has one."""
    if graph.date is None:
        return None
    entry = graph.adjacency.triples()[3]
    date = graph.date[entry[np.isin(graph.split[entry], [SPLIT_CODE[name] for name in splits])]]
    return None if (date == NO_DATE).all() else np.where(date == NO_DATE, np.nan, date.astype(np.float64))


def _now(newest: NewestHoldOut | None, date: NDArray[np.float64], all_known: bool) -> tuple[float, float]:
    """The moment that ages are counted from, and their unit: the time held out, or that of the newest tenth."""
    if newest is not None:
        return float(newest.until if all_known else newest.cut), float(newest.length)
    now = float(np.nanmax(date))
    return now, max(1.0, now - float(np.nanquantile(date, 0.9)))


def _candidates(scored: ScoredEdges | Predictions, device: str | torch.device) -> tuple[Predictions, Candidates]:
    """The edges with their truth, and as the features take them."""
    given = scored.predictions() if isinstance(scored, ScoredEdges) else scored
    return given, candidates_of(scored, given, device)


def candidates_of(scored: ScoredEdges | Predictions, given: Predictions, device: str | torch.device) -> Candidates:
    """The edges as the features take them."""
    log_truth = torch.from_numpy(np.log(np.maximum(given.prediction, 1e-9)).astype(np.float32)).to(device)
    heads, relation, tails = (_ids(side, device) for side in given[:3])
    if not isinstance(scored, ScoredEdges):
        return Candidates(heads, relation, tails, log_truth)
    # Counts may lift a direction that is sure above log truth 0; how far says nothing.
    logs = torch.from_numpy(scored.logs.astype(np.float32, copy=False)).to(device).clamp(LOWEST, 0.0)
    return Candidates(heads, relation, tails, log_truth, scored.scorers, logs)


def _ids(side: NDArray[Any], device: str | torch.device) -> torch.Tensor:
    return torch.from_numpy(np.asarray(side, dtype=np.int64)).to(device)


def marked(
    graph: KnowledgeGraph, split: str, heads: NDArray[Any], relation: NDArray[Any], tails: NDArray[Any]
) -> NDArray[np.bool_]:
    """Marks the edges that belong to a split, looked up relation by relation."""
    order, bounds = by_relation(relation, len(graph.relations))
    belongs, size = np.zeros(len(heads), dtype=bool), len(graph.entities)
    for number, (begin, end) in enumerate(pairwise(bounds.tolist())):
        mine = slice(begin, end) if order is None else order[begin:end]
        if begin < end:
            wanted = split_keys(graph, split, number)
            belongs[mine] = among(edge_key(heads[mine], tails[mine], size), wanted)
    return belongs
