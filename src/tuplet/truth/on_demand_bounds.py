"""What rows on demand may promise: some rows are computed when the store is made, and valid edges are looked for there.

A learned calibration needs all candidates. A few hundred rows do to say how often a truth comes true at most: the upper
bound of `learned.bounds`, of all relations together.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict import model_folder
from tuplet.predict.edges import TrainingEdges
from tuplet.predict.embeddings import EmbeddingModel
from tuplet.truth.edges import Floats
from tuplet.truth.learned.bounds import MeasuredBounds
from tuplet.truth.learned.split_correction import SplitCorrection
from tuplet.truth.on_demand import TruthOnDemand
from tuplet.truth.rules import Calibration
from tuplet.truth.table import TruthTable

_RELATIONS, _ROWS = 8, 20  # how many, drawn by their facts, and how many rows of each in each direction
_SCORES = 4_000_000  # of a relation and direction at most: a large graph has fewer rows
_LARGE = 2_000  # entities from which on the rows of a predictor that offers no part of a row are not cheap


def measured_rows(
    graph: KnowledgeGraph,
    facts: TruthTable,
    model: Path,
    rule: Calibration,
    least: float,
    observed: tuple[str, ...],
    counted: tuple[str, ...],
) -> tuple[str, dict[str, Any] | None]:
    """What bounds rows on demand, in words, and the bounds, if they can be had."""
    predictor = model_folder.load_for(TrainingEdges.of(graph), model, "cpu")
    rows = TruthOnDemand(predictor, facts, graph.edges(*counted), rule, least)
    if not is_cheap(rows):
        return "nothing was measured, for that would take as long as the table", None
    bounds = measured(rows, graph, observed)
    tried, right = int(bounds.trials[-1].sum()), int(bounds.hits[-1].sum())
    if not graph.split_edges["valid"]:
        return "without valid edges nothing was measured, and nothing predicted is listed", {"bounds": bounds.as_dict()}
    found = f"{tried:,} candidates with {right:,} valid edges among them"
    return f"no truth is above what {found} bear out", {"bounds": bounds.as_dict()}


def measured(rows: TruthOnDemand, graph: KnowledgeGraph, observed: tuple[str, ...], seed: int = 0) -> MeasuredBounds:
    """The bounds of what is promised to be a missing fact; 0 throughout where there are no valid edges."""
    splits, rng = graph.split_edges, np.random.default_rng(seed)
    none = np.zeros(0)
    if not splits["valid"] or not splits["train"]:
        return MeasuredBounds.of(1, none.astype(np.int64), none, none > 0)
    facts = np.bincount(graph.edges("train")[1], minlength=len(graph.relations))
    drawn = rng.choice(len(facts), min(_RELATIONS, int(np.count_nonzero(facts))), replace=False, p=facts / facts.sum())
    promised, is_fact = list[Floats]([none]), [none > 0]
    for relation in drawn.tolist():
        known, valid = (_ends(graph, split, relation) for split in ("train", "valid"))
        for inverse in (False, True):
            own, other = (1, 0) if inverse else (0, 1)
            begun = np.unique(known[own])
            most = max(1, min(_ROWS, _SCORES // len(graph.entities)))
            for entity in rng.choice(begun, min(most, len(begun)), replace=False).tolist():
                ids, truth = rows.predicted(entity, relation, inverse)
                new = ~np.isin(ids, known[other][known[own] == entity])
                promised.append(truth[new])
                is_fact.append(np.isin(ids[new], valid[other][valid[own] == entity]))
    truths = np.concatenate(promised).astype(np.float64)
    found = MeasuredBounds.of(1, np.zeros(len(truths), dtype=np.int64), truths, np.concatenate(is_fact))
    correction = SplitCorrection.of(splits["valid"], splits["test"], "valid" in observed, "test" in observed)
    missing = correction(torch.logit(torch.from_numpy(found.most).clamp(1e-12, 1 - 1e-12))).double().numpy()
    return replace(found, most=np.where(found.most > 0, missing, 0.0))


def is_cheap(rows: TruthOnDemand) -> bool:
    """Whether rows can be computed without scoring all of them."""
    return isinstance(rows.predictor, EmbeddingModel) or rows.entities <= _LARGE


def _ends(graph: KnowledgeGraph, split: str, relation: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    heads, relations, tails = graph.edges(split)
    mine = relations == relation
    return heads[mine], tails[mine]
