"""The blocked builder: every edge whose calibrated prediction reaches the threshold, relation by relation.

An edge (h, r, t) lies in the row of h (scored by `tails`) and in the row of t (scored by `heads`). One sweep per
direction computes every row once, takes its log-sum-exp and lists the few entries that reach the threshold; a mean of
two truths reaches it only if one of them does, so the union of both lists holds every edge of the table. Those edges
alone are then scored again, one by one in float32, in both directions. Only blocks of rows are ever held.

Matrix products run in TF32 on a GPU if the predictor is bilinear. Rounding moves a score by up to about 0.01, so the
sweep lists with a margin, and the entries of a row that carry its mass are replaced in its log-sum-exp by their float32
scores.

Needs torch and numpy alone.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.files import make_folder, replacing, system_errors, write_array
from tuplet.predict.base import LinkPredictor, device_of, edge_scores, kind_of, row_scores
from tuplet.progress import Report
from tuplet.truth.rules import Calibration, combine, side_floor
from tuplet.truth.scored import ScoredEdges

Tensor = torch.Tensor

# How far below the threshold a sweep lists entries (in log truth), so that none is lost by the rounding of its product.
_MARGIN_FLOAT32, _MARGIN_TF32 = 1e-3, 0.05
_BYTES_PER_SCORE = 12  # score, its log-softmax, the mark, and room for what the predictor needs itself
_BYTES_PER_PAIR = 64 << 10  # rows of width up to ~2,000 for head, relation, tail and their products
_MOST_PAIRS = 1 << 18
_SMALL = 1 << 22  # a relation of so few possible edges is computed whole: listing candidates would cost more
_MOST_SCORES = 1 << 30  # torch.nonzero counts in 32 bits
_SIDES = ("forward", "backward")


class EdgeCounts:
    """The observed edges a calibration counts, by relation, on the device of the predictor.

    >>> basis = EdgeCounts.of(4, 1, [0, 0], [0, 0], [1, 2])
    >>> basis.count(0, inverse=False).tolist(), basis.count(0, inverse=True).tolist()
    ([2.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0])
    """

    def __init__(self, entities: int, heads: Tensor, tails: Tensor, start: list[int]) -> None:
        self.entities, self._heads, self._tails, self._start = entities, heads, tails, start

    @staticmethod
    def of(
        entities: int,
        relations: int,
        heads: NDArray[np.integer] | list[int],
        relation: NDArray[np.integer] | list[int],
        tails: NDArray[np.integer] | list[int],
        device: torch.device | str = "cpu",
    ) -> EdgeCounts:
        """The basis of the given edges."""
        which = np.asarray(relation, dtype=np.int64)
        order = np.argsort(which, kind="stable")
        start = np.searchsorted(which[order], np.arange(relations + 1)).tolist()
        near, far = (torch.from_numpy(np.asarray(side, dtype=np.int64)[order]).to(device) for side in (heads, tails))
        return EdgeCounts(entities, near, far, start)

    def edges(self, relation: int) -> tuple[Tensor, Tensor]:
        """Heads and tails of the observed edges of a relation."""
        part = slice(self._start[relation], self._start[relation + 1])
        return self._heads[part], self._tails[part]

    def count(self, relation: int, inverse: bool) -> Tensor:
        """Number of observed edges per row. [entities]"""
        return torch.bincount(self.edges(relation)[inverse], minlength=self.entities).float()


def sum_by_row(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Sums of the values of each row, in fixed point: on a GPU integers add up the same in any order, floats do not.

    >>> sum_by_row(torch.tensor([0.5, 0.25, -1.0]), torch.tensor([0, 0, 2]), 3).tolist()
    [0.75, 0.0, -1.0]
    """
    scaled = (values.double() * 2.0**40).round().long()
    total = torch.zeros(rows, dtype=torch.int64, device=values.device).index_add_(0, row, scaled)
    return (total.double() / 2.0**40).float()


@dataclass(frozen=True)
class Sweeper:
    """Computes rows in blocks: their shifts and the entries that reach a floor."""

    predictor: LinkPredictor
    basis: EdgeCounts
    calibration: Calibration
    block: int  # rows at a time
    chunk: int  # pairs at a time

    @staticmethod
    def of(predictor: LinkPredictor, basis: EdgeCounts, calibration: Calibration, memory: int | None = None) -> Sweeper:
        """A sweeper that holds at most about `memory` bytes (default: 1 GiB, on a GPU 40 % of what is free)."""
        device = device_of(predictor)
        if memory is None:
            memory = int(0.4 * torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else 1 << 30
        width = predictor.entities * max(1, int(getattr(predictor, "cells_per_score", 1)))
        if memory < width * _BYTES_PER_SCORE:
            raise BadInput(f"{memory:,} bytes of memory do not hold one row: at least {width * _BYTES_PER_SCORE:,}")
        block = min(memory // (width * _BYTES_PER_SCORE), _MOST_SCORES // predictor.entities or 1, predictor.entities)
        return Sweeper(
            predictor, basis, calibration, max(1, block), max(64, min(memory // _BYTES_PER_PAIR, _MOST_PAIRS))
        )

    @property
    def rounded(self) -> bool:
        """Whether matrix products are rounded to TF32: safe for products, not for distances."""
        return device_of(self.predictor).type == "cuda" and bool(getattr(self.predictor, "bilinear", False))

    def sweep(self, relation: int, inverse: bool, floor: float | None = None) -> tuple[Tensor, Tensor]:
        """Shifts of all rows [entities], and keys head · entities + tail of the entries above the floor (if given)."""
        entities, device = self.predictor.entities, device_of(self.predictor)
        count, log_observed = self.observed(relation, inverse)
        shifts, keys = [], []
        for start in range(0, entities, self.block):
            rows = torch.arange(start, min(start + self.block, entities), device=device)
            of_rows = slice(start, start + len(rows))
            shift, row, other = self._block(rows, relation, inverse, count[of_rows], log_observed[of_rows], floor)
            shifts.append(shift)
            keys.append(other * entities + row if inverse else row * entities + other)
        return torch.cat(shifts), torch.cat(keys)

    def shifts(self, rows: Tensor, relation: int, inverse: bool, observed: tuple[Tensor, Tensor]) -> Tensor:
        """Shifts of some rows [n] → [n], given what `observed` says of the relation."""
        count, log_observed = observed
        parts = [
            self._block(part, relation, inverse, count[part], log_observed[part], None)[0]
            for part in torch.split(rows, self.block)
        ]
        return torch.cat(parts) if parts else torch.zeros(0, device=rows.device)

    def _block(
        self, rows: Tensor, relation: int, inverse: bool, count: Tensor, log_observed: Tensor, floor: float | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Shifts [n] of rows [n]; row and other end of each entry above the floor."""
        none = torch.zeros(0, dtype=torch.int64, device=rows.device)
        with _tf32(self.rounded):
            scores = row_scores(self.predictor, rows, relation, inverse)
        if floor is None and not self.rounded:
            return self.calibration.shift(count, log_observed, self._normaliser(scores)), none, none
        # log_softmax is one fused kernel; the normaliser is what it took away from any entry of the row.
        log_softmax = torch.log_softmax(scores, 1)
        normaliser = self._numbers(scores[:, 0] - log_softmax[:, 0])
        shift = self.calibration.shift(count, log_observed, normaliser)
        # Without a floor only the mass of the row matters: entries of at least 1 % of it.
        least = math.log(0.01) + 0 * shift if floor is None else math.log(floor) + shift - normaliser
        least -= _MARGIN_TF32 if self.rounded else _MARGIN_FLOAT32
        flat = torch.nonzero((log_softmax >= least[:, None]).view(-1)).view(-1)
        del log_softmax
        row, other = flat // scores.shape[1], flat % scores.shape[1]
        if self.rounded and len(row):
            ends = (other, rows[row]) if inverse else (rows[row], other)
            exact = edge_scores(self.predictor, ends[0], relation, ends[1], inverse, self.chunk)
            base = normaliser[row]
            change = torch.exp(exact - base) - torch.exp(scores.view(-1)[flat] - base)
            normaliser += torch.log1p(sum_by_row(change, row, len(normaliser)).clamp(min=-0.5))
            shift = self.calibration.shift(count, log_observed, normaliser)
        return shift, rows[row], other

    def observed(self, relation: int, inverse: bool) -> tuple[Tensor, Tensor]:
        """Per row: number of its observed entries; log of their summed exp(score), −inf if none. [entities] each"""
        heads, tails = self.basis.edges(relation)
        row = tails if inverse else heads
        scores = edge_scores(self.predictor, heads, relation, tails, inverse, self.chunk)
        lowest = torch.full((self.predictor.entities,), -math.inf, device=scores.device)
        highest = lowest.scatter_reduce(0, row, scores, "amax")
        total = sum_by_row(torch.exp(scores - highest[row]), row, len(highest))
        return self.basis.count(relation, inverse), torch.where(total > 0, highest + total.log(), lowest)

    def relation_edges(self, relation: int, threshold: float) -> tuple[Tensor, Tensor, Tensor]:
        """Heads, tails and predictions of the edges of a relation that reach the threshold, in order."""
        heads, tails, logs = self.relation_logs(relation, threshold)
        return heads, tails, combine(*logs)

    def relation_logs(self, relation: int, threshold: float) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        """Heads, tails and log truth in each direction, forward and backward, of the same edges."""
        entities = self.predictor.entities
        if entities**2 <= _SMALL and self.block >= entities and not self.rounded:
            return self._whole_relation(relation, threshold)
        sides = [self.sweep(relation, inverse, side_floor(threshold)) for inverse in (False, True)]
        keys = torch.unique(torch.cat([found for _, found in sides]))
        heads, tails = keys // entities, keys % entities
        forward, backward = (
            edge_scores(self.predictor, heads, relation, tails, inverse, self.chunk)
            - shift[tails if inverse else heads]
            for inverse, (shift, _) in zip((False, True), sides, strict=True)
        )
        keep = combine(forward, backward) >= threshold
        return heads[keep], tails[keep], (forward[keep], backward[keep])

    def _whole_relation(self, relation: int, threshold: float) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        """The same from two whole matrices, for small graphs."""
        everyone = torch.arange(self.predictor.entities, device=device_of(self.predictor))
        sides = []
        for inverse in (False, True):
            scores = row_scores(self.predictor, everyone, relation, inverse)
            shift = self.calibration.shift(*self.observed(relation, inverse), self._normaliser(scores))
            sides.append(scores - shift[:, None])
        forward, backward = sides[0], sides[1].T
        heads, tails = torch.nonzero(combine(forward, backward) >= threshold, as_tuple=True)
        return heads, tails, (forward[heads, tails], backward[heads, tails])

    def _normaliser(self, scores: Tensor) -> Tensor:
        """Log-sum-exp of each row [n, entities] → [n]."""
        return self._numbers(torch.logsumexp(scores, 1))

    def _numbers(self, normaliser: Tensor) -> Tensor:
        """The same, unless a score is no number: it would be lost without a word."""
        if not bool(normaliser.isfinite().all()):
            raise BadInput(f"{type(self.predictor).__name__} gives scores that are not finite numbers")
        return normaliser


def sweep(
    predictor: LinkPredictor,
    counted: tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.integer]],
    threshold: float = 0.005,
    calibration: Calibration | None = None,
    memory: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    key: str = "",
    progress: Report | None = None,
) -> ScoredEdges:
    """All edges whose prediction reaches the threshold, each as if it were unknown whether it is observed.

    `counted` are the observed edges (heads, relations, tails) that the calibration counts. The predictor computes where
    it lies (`predictor.to("cuda")`). With a `folder` every finished relation is kept there and a later call of the same
    `key` (hash of the model), observed edges, calibration and threshold goes on where the earlier one stopped.
    """
    if not 0 < threshold < 1:
        raise BadInput(f"the threshold lies between 0 and 1, not {threshold:g}")
    rule = calibration or Calibration()
    basis = EdgeCounts.of(predictor.entities, predictor.relations, *counted, device_of(predictor))
    sweeper = Sweeper.of(predictor, basis, rule, memory)
    cache = None if folder is None else RelationCache.of(Path(folder), f"{key} scored", threshold, rule, *counted)
    found: list[dict[str, NDArray[Any]]] = []
    if progress:
        progress("index", 0, predictor.relations, "relations")
    with torch.inference_mode():
        for number in range(predictor.relations):
            part = cache.load(number) if cache else None
            if part is None:
                near, far, logs = sweeper.relation_logs(number, threshold)
                part = {"heads": near.int().cpu().numpy(), "tails": far.int().cpu().numpy()}
                part |= {name: log.float().cpu().numpy() for name, log in zip(_SIDES, logs, strict=True)}
                if cache:
                    cache.save(number, part)
            found.append(part)
            if progress:
                progress("index", number + 1, predictor.relations, "relations")
    which = np.repeat(np.arange(len(found), dtype=np.int32), [len(part["heads"]) for part in found])
    ends, sides = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32)
    heads, tails = (np.concatenate([ends, *(part[name] for part in found)]) for name in ("heads", "tails"))
    both = np.stack([np.concatenate([sides, *(part[name] for part in found)]) for name in _SIDES])
    return ScoredEdges(heads, which, tails, (kind_of(predictor),), both[None])


class RelationCache:
    """Finished relations of one build, a file each, in a folder named by everything that decides their content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def of(root: Path, key: str, threshold: float, rule: Calibration, *edges: NDArray[np.integer]) -> RelationCache:
        digest = hashlib.sha256(json.dumps([key, threshold, rule.as_dict()]).encode())
        for column in edges:
            digest.update(np.asarray(column, dtype=np.int32).tobytes())
        folder = root / digest.hexdigest()[:16]
        with system_errors(folder):
            make_folder(folder)
        return RelationCache(folder)

    def load(self, relation: int) -> dict[str, NDArray[Any]] | None:
        try:
            with np.load(self.folder / f"{relation}.npz", allow_pickle=False) as part:
                return {name: part[name] for name in part.files}
        except Exception:  # missing, or damaged in whatever way: the relation is computed again
            return None

    def save(self, relation: int, part: Mapping[str, NDArray[Any]]) -> None:
        with replacing(self.folder / f"{relation}.npz", force=True) as fresh, open(fresh, "wb") as stream:
            np.savez(stream, **dict(part))  # type: ignore[arg-type]

    def load_array(self, name: str) -> NDArray[np.float32] | None:
        try:
            array: NDArray[np.float32] = np.load(self.folder / f"{name}.npy", allow_pickle=False)
            return array
        except Exception:  # as above
            return None

    def save_array(self, name: str, array: NDArray[np.float32]) -> None:
        with replacing(self.folder / f"{name}.npy", force=True) as fresh, open(fresh, "wb") as stream:
            write_array(stream, array)


@contextmanager
def _tf32(wanted: bool) -> Iterator[None]:
    """Let float32 matrix products round their inputs to TF32 inside the block."""
    before = torch.get_float32_matmul_precision()
    if wanted:
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        if wanted:
            torch.set_float32_matmul_precision(before)
