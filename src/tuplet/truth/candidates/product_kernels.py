"""Inner products of rows and columns on a GPU, reduced where they are computed.

Numbers are split into two halves of 16 bits each, and of the four products of halves the three that matter are summed
in float32: as exact as float32, at the speed of the matrix units. A program owns some rows and walks over a share of
the columns. Needs torch and Triton.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from tuplet.truth.candidates.rows import ScoreProducts

Tensor = torch.Tensor

ROWS, COLUMNS, WARPS, STAGES = 128, 64, 8, 3  # of a tile; warps and stages of a program: the fastest on an H200
_WHOLE, _CHUNK = 128, 64  # rows up to this wide are multiplied at once, wider ones by so many numbers at a time
_PROGRAMS = 528  # at least so many keep a GPU busy: four for each multiprocessor
_HIGHEST = 2.0**7  # numbers are scaled to this: their lower halves keep all their bits, sums stay far from overflow


@triton.jit
def _scores(
    rows_high, rows_low, columns_high, columns_low, row, column, is_row, is_column, high, low,
    WIDTH: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A tile of scores. Rows that are one chunk wide are at hand (`high`, `low`), wider ones are read again."""
    within = tl.arange(0, CHUNK)
    scores = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    others = column[None, :].to(tl.int64) * WIDTH + within[:, None]
    if WIDTH == CHUNK:
        other_high = tl.load(columns_high + others, mask=is_column[None, :], other=0.0)
        other_low = tl.load(columns_low + others, mask=is_column[None, :], other=0.0)
        scores = tl.dot(low, other_high, scores)
        scores = tl.dot(high, other_low, scores)
        scores = tl.dot(high, other_high, scores)
    else:
        mine = row[:, None] * WIDTH + within[None, :]
        for part in range(0, WIDTH, CHUNK):
            other_high = tl.load(columns_high + others + part, mask=is_column[None, :], other=0.0)
            other_low = tl.load(columns_low + others + part, mask=is_column[None, :], other=0.0)
            own_high = tl.load(rows_high + mine + part, mask=is_row[:, None], other=0.0)
            own_low = tl.load(rows_low + mine + part, mask=is_row[:, None], other=0.0)
            scores = tl.dot(own_low, other_high, scores)
            scores = tl.dot(own_high, other_low, scores)
            scores = tl.dot(own_high, other_high, scores)
    return scores


@triton.jit
def _log_sums(
    rows_high, rows_low, columns_high, columns_low, top_ptr, sum_ptr, n, m, span, scale,
    WIDTH: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_row = row < n
    mine = row[:, None] * WIDTH + tl.arange(0, CHUNK)[None, :]
    high = tl.load(rows_high + mine, mask=is_row[:, None], other=0.0)
    low = tl.load(rows_low + mine, mask=is_row[:, None], other=0.0)
    begin = tl.program_id(1) * span
    end = tl.minimum(begin + span, m)
    top = tl.full([ROWS], -3.0e38, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    for first in range(begin, end, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        is_column = column < end
        scores = _scores(
            rows_high, rows_low, columns_high, columns_low, row, column, is_row, is_column, high, low,
            WIDTH, CHUNK, ROWS, COLUMNS,
        )  # fmt: skip
        scores = tl.where(is_column[None, :], scores * scale, -3.0e38)  # in powers of two
        higher = tl.maximum(top, tl.max(scores, 1))
        total = total * tl.exp2(top - higher) + tl.sum(tl.exp2(scores - higher[:, None]), 1)
        top = higher
    out = tl.program_id(1).to(tl.int64) * n + row
    tl.store(top_ptr + out, top, mask=is_row)
    tl.store(sum_ptr + out, total, mask=is_row)


@triton.jit
def _counts(
    rows_high, rows_low, columns_high, columns_low, threshold_ptr, count_ptr, n, m, span,
    LEVELS: tl.constexpr, ROOM: tl.constexpr,
    WIDTH: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_row = row < n
    mine = row[:, None] * WIDTH + tl.arange(0, CHUNK)[None, :]
    high = tl.load(rows_high + mine, mask=is_row[:, None], other=0.0)
    low = tl.load(rows_low + mine, mask=is_row[:, None], other=0.0)
    begin = tl.program_id(1) * span
    end = tl.minimum(begin + span, m)
    level = tl.arange(0, ROOM)
    counts = tl.zeros([ROWS, ROOM], tl.int32)
    for first in range(begin, end, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        is_column = column < end
        scores = _scores(
            rows_high, rows_low, columns_high, columns_low, row, column, is_row, is_column, high, low,
            WIDTH, CHUNK, ROWS, COLUMNS,
        )  # fmt: skip
        scores = tl.where(is_column[None, :], scores, -3.0e38)
        for number in tl.static_range(LEVELS):
            least = tl.load(threshold_ptr + row * LEVELS + number, mask=is_row, other=3.0e38)
            reached = tl.sum((scores >= least[:, None]).to(tl.int32), 1)
            counts += tl.where(level[None, :] == number, reached[:, None], 0)
    out = (tl.program_id(1).to(tl.int64) * n + row)[:, None] * LEVELS + level[None, :]
    tl.store(count_ptr + out, counts, mask=is_row[:, None] & (level < LEVELS)[None, :])


@triton.jit
def _list(
    rows_high, rows_low, columns_high, columns_low, threshold_ptr, next_ptr, out_ptr, n, m, span,
    WIDTH: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_row = row < n
    mine = row[:, None] * WIDTH + tl.arange(0, CHUNK)[None, :]
    high = tl.load(rows_high + mine, mask=is_row[:, None], other=0.0)
    low = tl.load(rows_low + mine, mask=is_row[:, None], other=0.0)
    begin = tl.program_id(1) * span
    end = tl.minimum(begin + span, m)
    least = tl.load(threshold_ptr + row, mask=is_row, other=3.0e38)
    for first in range(begin, end, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        is_column = column < end
        scores = _scores(
            rows_high, rows_low, columns_high, columns_low, row, column, is_row, is_column, high, low,
            WIDTH, CHUNK, ROWS, COLUMNS,
        )  # fmt: skip
        reached = (scores >= least[:, None]) & is_column[None, :]
        if tl.max(tl.max(reached.to(tl.int32), 1), 0) > 0:
            next_place = next_ptr + row[:, None] + tl.zeros([ROWS, COLUMNS], tl.int64)
            place = tl.atomic_add(next_place, 1, mask=reached)
            tl.store(out_ptr + place, column[None, :] + tl.zeros([ROWS, COLUMNS], tl.int32), mask=reached)


class _Halves(NamedTuple):
    """Numbers × scale as sums of two 16-bit floats. [n, width]"""

    high: Tensor
    low: Tensor
    scale: float

    @staticmethod
    def from_values(values: Tensor, width: int) -> _Halves:
        """Rows are filled up with zeros; the scale is a power of two, so nothing is lost by it."""
        largest = float(values.abs().max()) if values.numel() else 0.0
        scale = 2.0 ** math.floor(math.log2(_HIGHEST / largest)) if 0 < largest < math.inf else 1.0
        scaled = torch.nn.functional.pad(values.float() * scale, (0, width - values.shape[1]))
        high = scaled.half()
        return _Halves(high, (scaled - high.float()).half(), scale)


class KernelProducts(ScoreProducts):
    """The inner products of rows [n, width] and columns [m, width]; by kernels."""

    def __init__(self, rows: Tensor, columns: Tensor) -> None:
        given = rows.shape[1]
        chunk = max(16, triton.next_power_of_2(given)) if given <= _WHOLE else _CHUNK
        width = -(-given // chunk) * chunk
        self._rows, self._columns = (_Halves.from_values(side, width) for side in (rows, columns))
        self.scale = self._rows.scale * self._columns.scale  # products are so many times as large as scores
        blocks, tiles = -(-len(rows) // ROWS), -(-len(columns) // COLUMNS)
        shares = max(1, min(tiles, _PROGRAMS // max(1, blocks)))
        span = max(1, -(-tiles // shares)) * COLUMNS
        self.sizes = len(rows), len(columns), span
        self.grid = blocks, -(-len(columns) // span)
        self.constants = {"WIDTH": width, "CHUNK": chunk, "ROWS": ROWS, "COLUMNS": COLUMNS}
        self.constants |= {"num_warps": WARPS, "num_stages": STAGES}

    def _run(self, kernel: Any, *arguments: Any) -> None:
        if all(self.grid):
            sides = self._rows.high, self._rows.low, self._columns.high, self._columns.low
            kernel[self.grid](*sides, *arguments, **self.constants)

    def log_sums(self) -> Tensor:
        shape = self.grid[1], self.sizes[0]
        top, total = (torch.empty(shape, device=self._rows.high.device) for _ in range(2))
        self._run(_log_sums, top, total, *self.sizes, math.log2(math.e) / self.scale)
        return torch.logsumexp(top * math.log(2) + total.log(), 0)

    def count_reaching(self, thresholds: Tensor) -> Tensor:
        levels = thresholds.shape[1]
        shape = self.grid[1], self.sizes[0], levels
        counts = torch.empty(shape, dtype=torch.int32, device=thresholds.device)
        least = (thresholds.float() * self.scale).contiguous()
        self._run(_counts, least, counts, *self.sizes, levels, triton.next_power_of_2(levels))
        return counts.sum(0, dtype=torch.int64)

    def list_reaching(self, threshold: Tensor, counts: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Row and column of each score that reaches the threshold of its row, in any order within a row."""
        if counts is None:
            counts = self.count_reaching(threshold[:, None])[:, 0]
        row = torch.repeat_interleave(counts)
        column = torch.empty(len(row), dtype=torch.int32, device=counts.device)
        place = torch.cumsum(counts, 0) - counts  # where each row writes next
        if len(row):
            self._run(_list, (threshold.float() * self.scale).contiguous(), place, column, *self.sizes)
        return row, column.long()
