"""Shifts of single rows, for truth on demand: what turns the scores of a row into truth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from tuplet.errors import BadInput
from tuplet.predict.base import LinkPredictor, device_of, edge_scores, row_scores
from tuplet.truth.edge_counts import EdgeCounts, sum_by_row
from tuplet.truth.rules import Calibration

Tensor = torch.Tensor

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
