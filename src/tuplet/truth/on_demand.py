"""Rows on demand: the truth of a row computed from embeddings when it is asked for; no table is built.

The truth of an edge needs the shift (see `calibrate`) of both its rows. The row asked for gives one; the shifts at the
other ends would be those of all entities, a whole sweep. They are not needed: the log-sum-exp over *some* entities,
those that the relation is known to reach and a sample, bounds a row's normaliser from below, so the truth from above.
Only ends whose upper bound reaches the threshold get their exact shift, which is then kept: the result is exact.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tuplet.errors import BadInput
from tuplet.graph.adjacency import Ints
from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict import model_folder
from tuplet.predict.base import LinkPredictor, TrainingEdges, device_of, edge_scores, row_scores
from tuplet.predict.embeddings import EmbeddingModel
from tuplet.truth.calibration.fit import SplitCorrection
from tuplet.truth.calibration.reliability import MeasuredBounds
from tuplet.truth.candidates.score import RelationCache, join_parts
from tuplet.truth.candidates.scorer import CandidateScorer
from tuplet.truth.candidates.sources import EVERYTHING
from tuplet.truth.edges import EdgeColumns, Floats, Predictions
from tuplet.truth.known_edges import EdgeCounts, sum_by_row
from tuplet.truth.rules import Calibration, combine
from tuplet.truth.table import Row, TruthTable

Tensor = torch.Tensor

_BYTES_PER_SCORE = 12  # score, its exponential, and room for what the predictor needs itself
_BYTES_PER_PAIR = 64 << 10  # rows of width up to ~2,000 for head, relation, tail and their products
_MOST_PAIRS = 1 << 18
_BOUND_BY = 512  # how many known ends, and how many of everyone, bound a normaliser
_TABLES = 8  # how many tables of relations are kept
_QUERIES = 2  # how many views keep what their rows look for, which is as large as the model
_SLACK = 1e-3  # bounds are computed in float32: an end this little below the threshold is looked at


class TruthOnDemand:
    """Truth values with the interface of a table, computed when asked; observed facts lie over the predictions.

    Threads may share it: they take turns, since each computation uses all cores already.

    `facts` is the table of the observed edges alone; `basis` holds the edges that the calibration counts. With a
    `folder` what was computed about a relation is kept there under `key` (hash of the model) for later processes.
    No prediction is above its bound, if there are `bounds`; these are never above the prediction. At most about
    `memory` bytes are held (default: 1 GiB, on a GPU 40 % of what is free).
    """

    tabulated = False

    def __init__(
        self,
        predictor: LinkPredictor,
        facts: TruthTable,
        basis: EdgeColumns,
        calibration: Calibration | None = None,
        threshold: float = 0.005,
        folder: str | os.PathLike[str] | None = None,
        key: str = "",
        memory: int | None = None,
        keep: int = 10_000,
        bounds: MeasuredBounds | None = None,
        unpredicted: int = -1,  # a relation of which facts are all there is
    ) -> None:
        self.entities, self.relations, self.double = facts.entities, facts.relations, facts.double
        self.predictor, self.facts, self.threshold, self.unpredicted = predictor, facts, threshold, unpredicted
        self.calibration, self._bounds = calibration or Calibration(), bounds
        device = device_of(predictor)
        if memory is None:
            memory = int(0.4 * torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else 1 << 30
        row = predictor.entities * max(1, int(getattr(predictor, "cells_per_score", 1))) * _BYTES_PER_SCORE
        if memory < row:
            raise BadInput(f"{memory:,} bytes of memory do not hold one row: at least {row:,}")
        self.block = max(1, min(memory // row, predictor.entities))  # rows at a time
        self.chunk = max(64, min(memory // _BYTES_PER_PAIR, _MOST_PAIRS))  # pairs at a time
        self.basis = EdgeCounts(predictor.entities, predictor.relations, *basis, device)
        self._scorer = CandidateScorer({"": predictor}, basis, EVERYTHING, threshold, self.calibration, memory)
        settings = f"{key} logs", threshold, self.calibration, *basis
        self.cache = None if folder is None else RelationCache(Path(folder), *settings)
        self._find_shifts = cache(partial(RowShifts, self))  # by relation and direction
        self.queries = lru_cache(_QUERIES)(self._compute_queries)
        self._row, self._table = lru_cache(keep)(self._compute_row), lru_cache(_TABLES)(self._compute_table)
        self._turn = threading.RLock()

    def row(self, entity: int, relation: int, inverse: bool) -> Row:
        """The edges of a row that are observed or whose prediction reaches the threshold, in order of the other end."""
        with self._turn:
            return self._row(entity, relation, inverse)

    def _compute_row(self, entity: int, relation: int, inverse: bool) -> Row:
        facts = self.facts.row(entity, relation, inverse)
        ids, truth = self.predict_row(entity, relation, inverse)
        new = ~np.isin(ids, facts.ids)
        everyone = np.concatenate([ids[new], facts.ids])
        order = np.argsort(everyone, kind="stable")
        observed = np.concatenate([np.zeros(np.count_nonzero(new), dtype=bool), facts.observed])[order]
        return Row(everyone[order].astype(np.int32), np.concatenate([truth[new], facts.truth])[order], observed)

    def value(self, head: int, relation: int, tail: int) -> float:
        """Truth of one edge: two rows are scored, none is listed."""
        if self.facts.observed_edge(head, relation, tail):
            return self.facts.value(head, relation, tail)
        if max(head, tail) >= self.predictor.entities or relation == self.unpredicted:
            return 0.0
        with self._turn, torch.inference_mode():
            ends = torch.tensor([[head], [tail]], device=device_of(self.predictor))
            truth = float(self._bound(self._truth(ends[0], ends[1], relation).cpu().numpy())[0])
        return truth if truth >= self.threshold else 0.0

    def observed_edge(self, head: int, relation: int, tail: int) -> bool:
        return self.facts.observed_edge(head, relation, tail)

    def row_max(self, entity: int, relation: int, inverse: bool) -> float:
        return float(self.row(entity, relation, inverse).truth.max(initial=0.0))

    def table(self, relations: Sequence[int]) -> TruthTable:
        """The table of whole relations, such as those a query names, so that any engine can run on it.

        Two sweeps per relation when first asked for, afterwards read from the folder if there is one; the tables asked
        for last are kept.
        """
        with self._turn:
            return self._table(tuple(sorted(set(relations))))

    def _compute_table(self, relations: tuple[int, ...]) -> TruthTable:
        edges = zip(*(self._relation_edges(relation) for relation in relations), strict=True)
        facts = self.facts.fact_edges()
        mine = facts.where(np.isin(facts.relation, np.asarray(relations)))
        predicted = Predictions(*(np.concatenate(column) for column in edges))
        return TruthTable.assemble(self.entities, self.relations, mine, predicted, self.threshold)

    def _relation_edges(self, relation: int) -> Predictions:
        part = self.cache.load(relation) if self.cache else None
        if part is None:
            with torch.inference_mode():
                part = self._scorer.relation(relation)
            if self.cache:
                self.cache.save(relation, part)
        found = join_parts(("",), {relation: part}).predictions()
        if relation == self.unpredicted:
            return found.where(np.zeros(len(found.heads), dtype=bool))
        return found._replace(prediction=self._bound(found.prediction)).reaching(self.threshold)

    def _bound(self, truth: Floats) -> Floats:
        if self._bounds is None:
            return truth
        return self._bounds(np.zeros(len(truth), dtype=np.int64), truth.astype(np.float64)).astype(truth.dtype)

    def predict_row(self, entity: int, relation: int, inverse: bool) -> tuple[Ints, Floats]:
        """The other ends whose prediction reaches the threshold, ascending, and their truth."""
        if entity >= self.predictor.entities or relation == self.unpredicted:  # added later: it is not known
            return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32)
        with torch.inference_mode():
            own = torch.tensor([entity], device=device_of(self.predictor))
            here, there = self._find_shifts(relation, inverse), self._find_shifts(relation, not inverse)
            mine = row_scores(self.predictor, own, relation, inverse)[0] - here.exact(own)
            at_most = combine(mine, there.scores_to(own) - there.lower())
            near = torch.nonzero(at_most >= self.threshold * (1 - _SLACK)).view(-1)
            ends = own.expand_as(near), near
            truth = self._bound(self._truth(ends[inverse], ends[not inverse], relation).cpu().numpy())
            keep = truth >= self.threshold
            return near.int().cpu().numpy()[keep], truth[keep]

    def _truth(self, heads: Tensor, tails: Tensor, relation: int) -> Tensor:
        """Predictions of single edges. [n]"""
        forward, backward = (
            edge_scores(self.predictor, heads, relation, tails, inverse, self.chunk)
            - self._find_shifts(relation, inverse).exact(tails if inverse else heads)
            for inverse in (False, True)
        )
        return combine(forward, backward)

    def _compute_queries(self, relation: int, inverse: bool) -> Tensor:
        """What each row of an embedding model looks for. [entities, width]"""
        predictor = self.predictor
        assert isinstance(predictor, EmbeddingModel)
        vector = predictor.relation[relation + predictor.relations * inverse]
        return predictor.query(predictor.entity, vector.expand(predictor.entities, -1))


class RowShifts:
    """Shifts of the rows of one relation in one direction, filled in as they are needed."""

    def __init__(self, truth: TruthOnDemand, relation: int, inverse: bool) -> None:
        self._all, self._relation, self._inverse, self._predictor = truth, relation, inverse, truth.predictor
        heads, tails = truth.basis.edges(relation)
        row = tails if inverse else heads
        scores = edge_scores(self._predictor, heads, relation, tails, inverse, truth.chunk)
        lowest = torch.full((self._predictor.entities,), -math.inf, device=scores.device)
        highest = lowest.scatter_reduce(0, row, scores, "amax")
        total = sum_by_row(torch.exp(scores - highest[row]), row, len(highest))
        # of each row the number of observed entries, and the log of their summed exp(score), −inf without any
        self._count = truth.basis.count(relation, inverse)
        self._log_observed = torch.where(total > 0, highest + total.log(), lowest)
        self._lower: Tensor | None = None
        stored = self._load("shift")
        self._exact = torch.full_like(lowest, math.nan) if stored is None else stored

    def _load(self, what: str) -> Tensor | None:
        part = self._all.cache.load(self._file(what)) if self._all.cache else None
        if part is None or part["rows"].shape != (self._predictor.entities,):
            return None
        return torch.from_numpy(part["rows"]).to(self._count.device)

    def _store(self, what: str, rows: Tensor) -> None:
        if self._all.cache:
            self._all.cache.save(self._file(what), {"rows": rows.cpu().numpy()})

    def _file(self, what: str) -> str:
        return f"{what}-{self._relation}-{'heads' if self._inverse else 'tails'}"

    def shifts(self, rows: Tensor) -> Tensor:
        """Shifts of some rows [n] → [n], computed in blocks of which one number each is kept."""
        parts = [torch.zeros(0, device=rows.device)]
        for part in torch.split(rows, self._all.block):
            normaliser = torch.logsumexp(row_scores(self._predictor, part, self._relation, self._inverse), 1)
            if not bool(normaliser.isfinite().all()):  # it would be lost without a word
                raise BadInput(f"{type(self._predictor).__name__} gives scores that are not finite numbers")
            parts.append(self._all.calibration.shift(self._count[part], self._log_observed[part], normaliser))
        return torch.cat(parts)

    def exact(self, rows: Tensor) -> Tensor:
        """The shifts of some rows, kept once they were computed. [n] → [n]"""
        missing = torch.unique(rows[self._exact[rows].isnan()])
        if len(missing):
            self._exact[missing] = self.shifts(missing)
            if len(missing) > 1:
                self._store("shift", self._exact)
        return self._exact[rows]

    def scores_to(self, end: Tensor) -> Tensor:
        """The entry of one entity in every row. [1] → [entities]"""
        predictor = self._predictor
        if isinstance(predictor, EmbeddingModel):
            queries = self._all.queries(self._relation, self._inverse)
            return predictor.score_all(queries, predictor.entity[end])[:, 0].float()
        rows = torch.arange(predictor.entities, device=end.device)
        ends = end.expand_as(rows), rows
        heads, tails = ends[not self._inverse], ends[self._inverse]
        return edge_scores(predictor, heads, self._relation, tails, self._inverse, self._all.chunk)

    def lower(self) -> Tensor:
        """A number at most as large as the shift, for every row. [entities]"""
        if self._lower is None:
            self._lower = self._load("bound")
        if self._lower is None and isinstance(self._predictor, EmbeddingModel):
            normaliser = self._partial_normalisers(self._predictor)
            self._lower = self._all.calibration.shift(self._count, self._log_observed, normaliser) - _SLACK
            self._store("bound", self._lower)
        elif self._lower is None:  # offers no part of a row
            self._lower = self.exact(torch.arange(len(self._exact), device=self._exact.device))
        return self._lower

    def _partial_normalisers(self, predictor: EmbeddingModel) -> Tensor:
        """Log-sum-exp of every row over common known ends and a sample of everyone. [entities]"""
        known, times = torch.unique(self._all.basis.edges(self._relation)[not self._inverse], return_counts=True)
        if len(known) > _BOUND_BY:
            known = known[torch.topk(times, _BOUND_BY).indices]
        # Where the relation makes no sense the mass is spread over everyone: some of everyone then bound it.
        step = max(1, predictor.entities // _BOUND_BY)
        sample = torch.arange(0, predictor.entities, step, device=known.device)
        few = predictor.entity[torch.unique(torch.cat([known, sample]))]
        blocks = torch.split(self._all.queries(self._relation, self._inverse), self._all.chunk)
        return torch.cat([torch.logsumexp(predictor.score_all(block, few).float(), 1) for block in blocks])


_RELATIONS, _ROWS = 8, 20  # how many, drawn by their facts, and how many rows of each in each direction
_SCORES = 4_000_000  # of a relation and direction at most: a large graph has fewer rows
_LARGE = 2_000  # entities from which on the rows of a predictor that offers no part of a row are not cheap


def measure_rows(
    graph: KnowledgeGraph, facts: TruthTable, model: Path, rule: Calibration, least: float, observed: Sequence[str]
) -> tuple[str, dict[str, Any]]:
    """What bounds rows on demand, in words, and the bounds by that name, if they can be had."""
    predictor = model_folder.load_for(TrainingEdges.from_graph(graph), model, "cpu")
    rows = TruthOnDemand(predictor, facts, graph.edges("train"), rule, least)
    if not isinstance(predictor, EmbeddingModel) and rows.entities > _LARGE:
        return "nothing was measured, for that would take as long as the table", {}
    bounds = _measure_bounds(rows, graph, observed)
    tried, right = int(bounds.trials[-1].sum()), int(bounds.hits[-1].sum())
    found = f"no truth is above what {tried:,} candidates with {right:,} valid edges among them bear out"
    if not graph.split_edges["valid"]:
        found = "without valid edges nothing was measured, and nothing predicted is listed"
    return found, {"bounds": bounds.as_dict()}


def _measure_bounds(rows: TruthOnDemand, graph: KnowledgeGraph, observed: Sequence[str]) -> MeasuredBounds:
    """The bounds of what is promised to be a missing fact; 0 throughout where there are no valid edges."""
    splits, rng = graph.split_edges, np.random.default_rng(0)
    none = np.zeros(0)
    if not splits["valid"] or not splits["train"]:
        return MeasuredBounds.from_trials(1, none.astype(np.int64), none, none > 0)
    edges = [graph.edges(split) for split in ("train", "valid")]
    facts = np.bincount(edges[0][1], minlength=len(graph.relations))
    drawn = rng.choice(len(facts), min(_RELATIONS, int(np.count_nonzero(facts))), replace=False, p=facts / facts.sum())
    promised, is_fact = list[Floats]([none]), [none > 0]
    for relation in drawn.tolist():
        known, valid = ([side[relations == relation] for side in (heads, tails)] for heads, relations, tails in edges)
        for inverse in (False, True):
            own, other = (1, 0) if inverse else (0, 1)
            begun = np.unique(known[own])
            most = max(1, min(_ROWS, _SCORES // len(graph.entities)))
            for entity in rng.choice(begun, min(most, len(begun)), replace=False).tolist():
                ids, truth = rows.predict_row(entity, relation, inverse)
                new = ~np.isin(ids, known[other][known[own] == entity])
                promised.append(truth[new])
                is_fact.append(np.isin(ids[new], valid[other][valid[own] == entity]))
    truths = np.concatenate(promised).astype(np.float64)
    found = MeasuredBounds.from_trials(1, np.zeros(len(truths), dtype=np.int64), truths, np.concatenate(is_fact))
    correction = SplitCorrection.from_sizes(splits["valid"], splits["test"], "valid" in observed, "test" in observed)
    missing = correction(torch.logit(torch.from_numpy(found.most).clamp(1e-12, 1 - 1e-12))).double().numpy()
    return replace(found, most=np.where(found.most > 0, missing, 0.0))
