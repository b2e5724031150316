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
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.graph.adjacency import Ints
from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict import model_folder
from tuplet.predict.base import LinkPredictor, TrainingEdges, device_of, edge_scores, row_scores
from tuplet.predict.embeddings import EmbeddingModel
from tuplet.truth.calibration.bounds import MeasuredBounds
from tuplet.truth.calibration.fit import SplitCorrection
from tuplet.truth.candidates.score import RelationCache, joined
from tuplet.truth.candidates.scorer import CandidateScorer
from tuplet.truth.candidates.sources import EVERYTHING
from tuplet.truth.edges import Floats, Predictions
from tuplet.truth.known_edges import EdgeCounts, sum_by_row
from tuplet.truth.rules import Calibration, combine
from tuplet.truth.table import Row, TruthTable

_BYTES_PER_SCORE = 12  # score, its exponential, and room for what the predictor needs itself
_BYTES_PER_PAIR = 64 << 10  # rows of width up to ~2,000 for head, relation, tail and their products
_MOST_PAIRS = 1 << 18


@dataclass(frozen=True)
class RowShifts:
    """Computes rows in blocks and keeps one number of each."""

    predictor: LinkPredictor
    basis: EdgeCounts
    calibration: Calibration
    block: int  # rows at a time
    chunk: int  # pairs at a time

    @staticmethod
    def of(
        predictor: LinkPredictor, basis: EdgeCounts, calibration: Calibration, memory: int | None = None
    ) -> RowShifts:
        """Such that at most about `memory` bytes are held (default: 1 GiB, on a GPU 40 % of what is free)."""
        device = device_of(predictor)
        if memory is None:
            memory = int(0.4 * torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else 1 << 30
        width = predictor.entities * max(1, int(getattr(predictor, "cells_per_score", 1)))
        if memory < width * _BYTES_PER_SCORE:
            raise BadInput(f"{memory:,} bytes of memory do not hold one row: at least {width * _BYTES_PER_SCORE:,}")
        block = min(memory // (width * _BYTES_PER_SCORE), predictor.entities)
        return RowShifts(
            predictor, basis, calibration, max(1, block), max(64, min(memory // _BYTES_PER_PAIR, _MOST_PAIRS))
        )

    def shifts(self, rows: Tensor, relation: int, inverse: bool, observed: tuple[Tensor, Tensor]) -> Tensor:
        """Shifts of some rows [n] → [n], given what `observed` says of the relation."""
        count, log_observed = observed
        parts = [torch.zeros(0, device=rows.device)]
        for part in torch.split(rows, self.block):
            normaliser = torch.logsumexp(row_scores(self.predictor, part, relation, inverse), 1)
            if not bool(normaliser.isfinite().all()):  # it would be lost without a word
                raise BadInput(f"{type(self.predictor).__name__} gives scores that are not finite numbers")
            parts.append(self.calibration.shift(count[part], log_observed[part], normaliser))
        return torch.cat(parts)

    def observed(self, relation: int, inverse: bool) -> tuple[Tensor, Tensor]:
        """Per row: number of its observed entries; log of their summed exp(score), −inf if none. [entities] each"""
        heads, tails = self.basis.edges(relation)
        row = tails if inverse else heads
        scores = edge_scores(self.predictor, heads, relation, tails, inverse, self.chunk)
        lowest = torch.full((self.predictor.entities,), -math.inf, device=scores.device)
        highest = lowest.scatter_reduce(0, row, scores, "amax")
        total = sum_by_row(torch.exp(scores - highest[row]), row, len(highest))
        return self.basis.count(relation, inverse), torch.where(total > 0, highest + total.log(), lowest)


Tensor = torch.Tensor
Key = TypeVar("Key")
Value = TypeVar("Value")

_BOUND_BY = 512  # how many known ends, and how many of everyone, bound a normaliser
_TABLES = 8  # how many tables of relations are kept
_SLACK = 1e-3  # bounds are computed in float32: an end this little below the threshold is looked at


class TruthOnDemand:
    """Truth values with the interface of a table, computed when asked; observed facts lie over the predictions.

    Threads may share it: they take turns, since each computation uses all cores already.

    `facts` is the table of the observed edges alone; `basis` holds the edges that the calibration counts. With a
    `folder` what was computed about a relation is kept there under `key` (hash of the model) for later processes.
    No prediction is above its bound, if there are `bounds`; these are never above the prediction.
    """

    def __init__(
        self,
        predictor: LinkPredictor,
        facts: TruthTable,
        basis: tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.integer]],
        calibration: Calibration | None = None,
        threshold: float = 0.005,
        folder: str | os.PathLike[str] | None = None,
        key: str = "",
        memory: int | None = None,
        keep: int = 10_000,
        bounds: MeasuredBounds | None = None,
        unpredicted: int = -1,  # a relation of which facts are all there is
    ) -> None:
        self.unpredicted = unpredicted
        self.predictor, self.facts, self._threshold = predictor, facts, threshold
        self.calibration, self._bounds = calibration or Calibration(), bounds
        known = EdgeCounts.of(predictor.entities, predictor.relations, *basis, device_of(predictor))
        self._shifter = RowShifts.of(predictor, known, self.calibration, memory)
        self._scorer = CandidateScorer({"": predictor}, basis, EVERYTHING, threshold, self.calibration, memory)
        self._cache = (
            RelationCache.of(Path(folder), f"{key} logs", threshold, self.calibration, *basis) if folder else None
        )
        self._shifts: dict[tuple[int, bool], _Shifts] = {}
        self._recent: list[tuple[int, bool]] = []
        self._rows: OrderedDict[tuple[int, int, bool], Row] = OrderedDict()
        self._tables: OrderedDict[tuple[int, ...], TruthTable] = OrderedDict()
        self._keep = keep
        self._turn = threading.RLock()

    @property
    def entities(self) -> int:
        return self.facts.entities

    @property
    def relations(self) -> int:
        return self.facts.relations

    @property
    def threshold(self) -> float:
        return self._threshold

    @property
    def tabulated(self) -> bool:
        return False

    @property
    def double(self) -> bool:
        return self.facts.double

    def row(self, entity: int, relation: int, inverse: bool) -> Row:
        """The edges of a row that are observed or whose prediction reaches the threshold."""
        key = (entity, relation, inverse)
        with self._turn:
            if key not in self._rows:
                facts = self.facts.row(entity, relation, inverse)
                self._rows[key] = _overlay(*self.predicted(entity, relation, inverse), facts)
            return _recent(self._rows, key, self._keep)

    def value(self, head: int, relation: int, tail: int) -> float:
        """Truth of one edge: two rows are scored, none is listed."""
        if self.facts.observed_edge(head, relation, tail):
            return self.facts.value(head, relation, tail)
        if max(head, tail) >= self.predictor.entities or relation == self.unpredicted:
            return 0.0
        with self._turn, torch.inference_mode():
            device = device_of(self.predictor)
            ends = torch.tensor([head], device=device), torch.tensor([tail], device=device)
            truth = float(self._bounded(self._truth(*ends, relation).cpu().numpy())[0])
        return truth if truth >= self.threshold else 0.0

    def observed_edge(self, head: int, relation: int, tail: int) -> bool:
        """Whether the edge is a stated fact."""
        return self.facts.observed_edge(head, relation, tail)

    def row_max(self, entity: int, relation: int, inverse: bool) -> float:
        """The largest truth of a row, 0 if it has no edge."""
        truth = self.row(entity, relation, inverse).truth
        return float(truth.max()) if len(truth) else 0.0

    def table(self, relations: Sequence[int]) -> TruthTable:
        """The table of whole relations, such as those a query names, so that any engine can run on it.

        Two sweeps per relation when first asked for, afterwards read from the folder if there is one; the tables asked
        for last are kept.
        """
        key = tuple(sorted(set(relations)))
        with self._turn:
            if key not in self._tables:
                self._tables[key] = self._table(key)
            return _recent(self._tables, key, _TABLES)

    def _table(self, relations: tuple[int, ...]) -> TruthTable:
        edges = [self._relation_edges(relation) for relation in relations]
        heads, relation, tails, prediction = (np.concatenate(column) for column in zip(*edges, strict=True))
        facts = self.facts.fact_edges()
        mine = facts.where(np.isin(facts.relation, np.asarray(relations)))
        predicted = Predictions(heads, relation, tails, prediction)
        return TruthTable.assemble(self.entities, self.relations, mine, predicted, self.threshold)

    def _relation_edges(self, relation: int) -> Predictions:
        part = self._cache.load(relation) if self._cache else None
        if part is None:
            with torch.inference_mode():
                part = self._scorer.relation(relation)
            if self._cache:
                self._cache.save(relation, part)
        found = joined(("",), {relation: part}).predictions()
        if relation == self.unpredicted:
            return found.where(np.zeros(len(found.heads), dtype=bool))
        return found._replace(prediction=self._bounded(found.prediction)).reaching(self.threshold)

    def _bounded(self, truth: Floats) -> Floats:
        if self._bounds is None:
            return truth
        return self._bounds(np.zeros(len(truth), dtype=np.int64), truth.astype(np.float64)).astype(truth.dtype)

    def predicted(self, entity: int, relation: int, inverse: bool) -> tuple[Ints, Floats]:
        """The other ends whose prediction reaches the threshold, ascending, and their truth."""
        if entity >= self.predictor.entities or relation == self.unpredicted:  # added later: it is not known
            return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32)
        with torch.inference_mode():
            own = torch.tensor([entity], device=device_of(self.predictor))
            everyone = torch.arange(self.predictor.entities, device=own.device)
            ends = (everyone, own.expand_as(everyone)) if inverse else (own.expand_as(everyone), everyone)
            here, there = self._of(relation, inverse), self._of(relation, not inverse)
            mine = row_scores(self.predictor, own, relation, inverse)[0] - here.exact(own)
            at_most = combine(mine, there.scores_to(own) - there.lower())
            near = torch.nonzero(at_most >= self.threshold * (1 - _SLACK)).view(-1)
            truth = self._bounded(self._truth(ends[0][near], ends[1][near], relation).cpu().numpy())
            keep = truth >= self.threshold
            return near.int().cpu().numpy()[keep], truth[keep]

    def _truth(self, heads: Tensor, tails: Tensor, relation: int) -> Tensor:
        """Predictions of single edges. [n]"""
        forward, backward = (
            edge_scores(self.predictor, heads, relation, tails, inverse, self._shifter.chunk)
            - self._of(relation, inverse).exact(tails if inverse else heads)
            for inverse in (False, True)
        )
        return combine(forward, backward)

    def _of(self, relation: int, inverse: bool) -> _Shifts:
        key = (relation, inverse)
        if key not in self._shifts:
            self._shifts[key] = _Shifts(self._shifter, relation, inverse, self._cache)
        # What a relation asks of all entities is as large as the model: only that of the last two views is kept.
        self._recent = [key, *(k for k in self._recent if k != key)]
        for old in self._recent[2:]:
            self._shifts[old].forget()
        del self._recent[2:]
        return self._shifts[key]


class _Shifts:
    """Shifts of the rows of one relation in one direction, filled in as they are needed."""

    def __init__(self, shifter: RowShifts, relation: int, inverse: bool, cache: RelationCache | None) -> None:
        self._shifter, self._relation, self._inverse, self._cache = shifter, relation, inverse, cache
        self._observed = shifter.observed(relation, inverse)
        self._lower: Tensor | None = None
        self._queries: Tensor | None = None
        stored = self._stored("shift")
        self._exact = torch.full_like(self._observed[0], math.nan) if stored is None else stored

    @property
    def _name(self) -> str:
        return f"{self._relation}-{'heads' if self._inverse else 'tails'}"

    def _stored(self, what: str) -> Tensor | None:
        array = self._cache.load_array(f"{what}-{self._name}") if self._cache else None
        if array is None or array.shape != (self._shifter.predictor.entities,):
            return None
        return torch.from_numpy(array.astype(np.float32)).to(self._observed[0].device)

    def exact(self, rows: Tensor) -> Tensor:
        """The shifts of some rows. [n] → [n]"""
        missing = torch.unique(rows[self._exact[rows].isnan()])
        if len(missing):
            self._exact[missing] = self._shifter.shifts(missing, self._relation, self._inverse, self._observed)
            if self._cache and len(missing) > 1:
                self._cache.save_array(f"shift-{self._name}", self._exact.cpu().numpy())
        return self._exact[rows]

    def forget(self) -> None:
        """Give back the memory of what can be had again at once."""
        self._queries = None

    def scores_to(self, end: Tensor) -> Tensor:
        """The entry of one entity in every row. [1] → [entities]"""
        predictor = self._shifter.predictor
        if isinstance(predictor, EmbeddingModel):
            return predictor.score_all(self._all_queries(predictor), predictor.entity[end])[:, 0].float()
        rows = torch.arange(predictor.entities, device=end.device)
        ends = (end.expand_as(rows), rows) if self._inverse else (rows, end.expand_as(rows))
        return edge_scores(predictor, ends[0], self._relation, ends[1], self._inverse, self._shifter.chunk)

    def lower(self) -> Tensor:
        """A number at most as large as the shift, for every row. [entities]"""
        if self._lower is None:
            self._lower = self._stored("bound")
        if self._lower is None:
            predictor = self._shifter.predictor
            if not isinstance(predictor, EmbeddingModel):  # offers no part of a row
                self._lower = self.exact(torch.arange(len(self._exact), device=self._exact.device))
            else:
                normaliser = self._partial_normalisers(predictor)
                self._lower = self._shifter.calibration.shift(*self._observed, normaliser) - _SLACK
                if self._cache:
                    self._cache.save_array(f"bound-{self._name}", self._lower.cpu().numpy())
        return self._lower

    def _partial_normalisers(self, predictor: EmbeddingModel) -> Tensor:
        """Log-sum-exp of every row over common known ends and a sample of everyone. [entities]"""
        known, times = torch.unique(self._shifter.basis.edges(self._relation)[not self._inverse], return_counts=True)
        if len(known) > _BOUND_BY:
            known = known[torch.topk(times, _BOUND_BY).indices]
        # Where the relation makes no sense the mass is spread over everyone: some of everyone then bound it.
        step = max(1, predictor.entities // _BOUND_BY)
        sample = torch.arange(0, predictor.entities, step, device=known.device)
        few = predictor.entity[torch.unique(torch.cat([known, sample]))]
        blocks = torch.split(self._all_queries(predictor), self._shifter.chunk)
        return torch.cat([torch.logsumexp(predictor.score_all(block, few).float(), 1) for block in blocks])

    def _all_queries(self, predictor: EmbeddingModel) -> Tensor:
        """What each row looks for. [entities, width]"""
        if self._queries is None:
            vector = predictor.relation[self._relation + predictor.relations * self._inverse]
            self._queries = predictor.query(predictor.entity, vector.expand(predictor.entities, -1))
        return self._queries


def _recent(kept: OrderedDict[Key, Value], key: Key, most: int) -> Value:
    """The value of a key that was just used; the one not used for longest goes where there are more than `most`."""
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
    return kept[key]


def _overlay(ids: Ints, truth: Floats, facts: Row) -> Row:
    """Facts over predictions, in ascending order of id."""
    predicted = ~np.isin(ids, facts.ids)
    everyone = np.concatenate([ids[predicted], facts.ids])
    order = np.argsort(everyone, kind="stable")
    values = np.concatenate([truth[predicted], facts.truth])
    observed = np.concatenate([np.zeros(np.count_nonzero(predicted), dtype=bool), facts.observed])
    return Row(everyone[order].astype(np.int32), values[order], observed[order])


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
