"""The learned calibration of a graph: which edges it may see, what it says of the candidates, how reliable that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.graph.graph import KnowledgeGraph
from tuplet.truth.learned.features import LOWEST, Candidates, TrainEdges
from tuplet.truth.learned.fit import LEAST_VALID, CrossFit, SplitCorrection, fit
from tuplet.truth.learned.reliability import Reliability, reliability
from tuplet.truth.sweep import DirectionScores
from tuplet.truth.table import Predictions, edge_keys, split_keys

FLOOR = 0.005  # softmax-count truth from which on an edge is a candidate
THRESHOLD = 0.0005  # calibrated truth from which on it is listed, unless said otherwise


@dataclass(frozen=True)
class CalibrationResult:
    """The candidates with their calibrated truth, what gave it, and its reliability before and after."""

    edges: Predictions  # those that reach the threshold
    fit: CrossFit
    before: Reliability
    after: Reliability

    def as_dict(self) -> dict[str, Any]:
        """For the store: everything but the arrays."""
        return {"name": "learned", **self.fit.learned.as_dict()}


def missing(graph: KnowledgeGraph, heads: NDArray[Any], relation: NDArray[Any], tails: NDArray[Any]) -> str | None:
    """Why nothing can be learned from these candidates; None if it can."""
    valid = marked(graph, "valid", edge_keys(len(graph.entities), heads, relation, tails))
    listed = int(np.count_nonzero(valid))
    if listed >= LEAST_VALID:
        return None
    return f"{listed:,} valid edges among the candidates, {LEAST_VALID} needed"


def calibrate(
    graph: KnowledgeGraph,
    scored: DirectionScores | Predictions,
    observed: Sequence[str],
    threshold: float = THRESHOLD,
    device: str | torch.device = "cpu",
) -> CalibrationResult:
    """Learn a calibration from the train and valid edges of the graph and apply it to all candidates.

    Of the test split only its size is used, and at the end its edges, to report how reliable the result is.
    """
    reason = missing(graph, *scored[:3])
    if reason:
        raise BadInput(reason)
    size = len(graph.entities)
    given = scored.predictions() if isinstance(scored, DirectionScores) else scored
    candidates = candidates_of(scored, given, device)
    known = TrainEdges.of(size, len(graph.relations), *(_ids(side, device) for side in graph.edges("train")))
    key = edge_keys(size, *given[:3])
    valid = marked(graph, "valid", key)
    sizes = {split: len(graph.edges(split)[0]) for split in ("valid", "test")}
    hidden = SplitCorrection.of(sizes["valid"], sizes["test"], "valid" in observed, "test" in observed)
    fitted = fit(known, candidates, torch.from_numpy(valid).to(device), hidden)
    truth = fitted.learned.truth(known, candidates).cpu().numpy()
    edges = given._replace(prediction=truth).reaching(threshold)
    if sizes["test"] and "test" not in observed:
        unseen = ~np.logical_or.reduce([marked(graph, split, key) for split in ("train", *observed)])
        hidden_splits = [split for split in ("valid", "test") if split not in observed]
        fact = np.logical_or.reduce([marked(graph, split, key) for split in hidden_splits])[unseen]
        before, after = (
            reliability(side[unseen], fact, split=" and ".join(hidden_splits)) for side in (given.prediction, truth)
        )
    else:
        before, after = _cross_validated(fitted, given.prediction, marked(graph, "test", key))
    return CalibrationResult(edges, fitted, before, after)


def _cross_validated(
    fitted: CrossFit, prediction: NDArray[np.floating], is_test: NDArray[np.bool_]
) -> tuple[Reliability, Reliability]:
    """Reliability on valid edges, each judged by trees that did not see it; test edges are observed here."""
    label, weight, places = fitted.label.cpu().numpy() > 0, fitted.weight.cpu().numpy(), fitted.places.cpu().numpy()
    sides = (prediction[places], fitted.learned.hidden(fitted.held_out).cpu().numpy())
    kept = ~is_test[places]
    before, after = (reliability(side[kept], label[kept], split="valid", weight=weight[kept]) for side in sides)
    return before, after


def candidates_of(scored: DirectionScores | Predictions, given: Predictions, device: str | torch.device) -> Candidates:
    """The edges as the features take them."""
    log_truth = torch.from_numpy(np.log(np.maximum(given.prediction, 1e-9)).astype(np.float32)).to(device)
    heads, relation, tails = (_ids(side, device) for side in given[:3])
    if not isinstance(scored, DirectionScores):
        return Candidates(heads, relation, tails, log_truth)
    # Counts may lift a direction that is sure above log truth 0; how far says nothing.
    forward, backward = (
        torch.from_numpy(side).to(device).clamp(LOWEST, 0.0) for side in (scored.forward, scored.backward)
    )
    return Candidates(heads, relation, tails, log_truth, forward, backward)


def _ids(side: NDArray[Any], device: str | torch.device) -> torch.Tensor:
    return torch.from_numpy(np.asarray(side, dtype=np.int64)).to(device)


def marked(graph: KnowledgeGraph, split: str, key: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Marks the edges that belong to a split; both lists are in order, so this is a search."""
    wanted = np.sort(split_keys(graph, split))
    if not len(wanted):
        return np.zeros(len(key), dtype=bool)
    at = np.minimum(np.searchsorted(wanted, key), len(wanted) - 1)
    return np.asarray(wanted[at] == key)
