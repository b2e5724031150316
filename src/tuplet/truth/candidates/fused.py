"""Scores that are inner products, never written whole: sums of exponentials, and what reaches a threshold.

Rows [n, width] meet columns [m, width] tile by tile; a tile is looked at and forgotten. On a GPU kernels do that where
the tile lies (`product_kernels`, needs Triton); elsewhere tiles are small enough for the caches of a core.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator
from typing import Protocol

import torch

Tensor = torch.Tensor

_TILE_ROWS, _TILE_COLUMNS = 512, 2048  # 4 MB of scores
_GPU_TILE = 64  # times as many columns on a GPU without Triton, where every launch costs


class ScoreProducts(Protocol):
    """The inner products of rows and columns."""

    def log_sums(self) -> Tensor:
        """log Σ exp of the scores of each row. [n]"""
        ...

    def count_reaching(self, thresholds: Tensor) -> Tensor:
        """How many scores of each row reach each of its thresholds. [n, levels] → int64 [n, levels]"""
        ...

    def list_reaching(self, threshold: Tensor, counts: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Row and column of each score that reaches the threshold of its row; `counts`, if known: how many. [n]"""
        ...


def has_kernels(device: torch.device) -> bool:
    """Whether kernels compute the products there."""
    return device.type == "cuda" and importlib.util.find_spec("triton") is not None


def score_products(rows: Tensor, columns: Tensor) -> ScoreProducts:
    """Of rows [n, width] and columns [m, width], by kernels where there are any."""
    if has_kernels(rows.device):
        from tuplet.truth.candidates.product_kernels import KernelProducts

        return KernelProducts(rows, columns)
    return TiledProducts(rows, columns)


def counted_reaching(scores: Tensor, thresholds: Tensor) -> Tensor:
    """How many scores of each row reach each of its thresholds. [rows, columns], [rows, n] → [rows, n]

    All scores are looked at once, against the lowest: few reach it, and only those are counted.
    """
    row, column = torch.nonzero(scores >= thresholds.amin(1, keepdim=True), as_tuple=True)
    found = scores[row, column]
    reached = (row[found >= level[row]] for level in thresholds.unbind(1))
    return torch.stack([torch.bincount(rows, minlength=len(scores)) for rows in reached], 1)


class TiledProducts:
    """By plain torch.

    >>> products = TiledProducts(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 5.0], [3.0, 7.0]]))
    >>> round(float(products.log_sums().exp()), 3)  # exp(0) + exp(3)
    21.086
    >>> products.count_reaching(torch.tensor([[0.0, 1.0, 4.0]])).tolist()
    [[2, 1, 0]]
    >>> products.list_reaching(torch.tensor([1.0]))
    (tensor([0]), tensor([1]))
    """

    def __init__(self, rows: Tensor, columns: Tensor) -> None:
        self.rows, self.columns = rows.float(), columns.float()

    def log_sums(self) -> Tensor:
        """log Σ exp of the scores of each row."""
        sums = torch.full((len(self.rows),), -math.inf, device=self.rows.device)
        for own, _, scores in self._tiles():
            sums[own] = torch.logaddexp(sums[own], torch.logsumexp(scores, 1))
        return sums

    def count_reaching(self, thresholds: Tensor) -> Tensor:
        """How many scores of each row reach each of its thresholds."""
        counts = torch.zeros(thresholds.shape, dtype=torch.int64, device=self.rows.device)
        for own, _, scores in self._tiles():
            counts[own] += counted_reaching(scores, thresholds[own])
        return counts

    def list_reaching(self, threshold: Tensor, counts: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Row and column of each score that reaches the threshold of its row."""
        none = torch.zeros(0, dtype=torch.int64, device=self.rows.device)
        found = [(none, none)]
        for own, first, scores in self._tiles():
            row, column = torch.nonzero(scores >= threshold[own, None], as_tuple=True)
            found.append((row + own.start, column + first))
        row, column = (torch.cat(side) for side in zip(*found, strict=True))
        return row, column

    def _tiles(self) -> Iterator[tuple[slice, int, Tensor]]:
        """The rows and the first column of each tile, and its scores; all tiles share the memory of one."""
        width = _TILE_COLUMNS * (_GPU_TILE if self.rows.device.type == "cuda" else 1)
        room = torch.empty(min(_TILE_ROWS, len(self.rows)) * min(width, len(self.columns)), device=self.rows.device)
        for begin in range(0, len(self.rows), _TILE_ROWS):
            some = self.rows[begin : begin + _TILE_ROWS]
            for first in range(0, len(self.columns), width):
                others = self.columns[first : first + width]
                scores = room[: len(some) * len(others)].view(len(some), len(others))
                yield slice(begin, begin + len(some)), first, torch.mm(some, others.T, out=scores)
