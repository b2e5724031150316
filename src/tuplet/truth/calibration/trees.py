"""Gradient boosting with symmetric trees: a probability from many columns of numbers.

A symmetric tree asks the same question of all rows at a level, so it is a list of `depth` questions (column > edge) and
a value for each combination of answers. That makes it hard to overfit, and fast: answering is a handful of comparisons
of whole columns and one lookup.

Columns are cut into at most 128 bins once; a level then sums gradients by (leaf, bin) and picks the question with the
largest gain of the logistic loss. Gradients are summed as integers, so a fit gives the same trees in any order of
summation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

try:  # many times as fast as what torch has for it; the same integers come out
    from tuplet.truth.kernels import sum_by_bin as _compiled
except ImportError:  # a machine without numba
    _compiled = None

Tensor = torch.Tensor

_ROWS = 1 << 17  # rows answered at a time: their columns stay in the cache
_BINS = 128  # of a column, at most
_LEAST = -65_504.0  # the lowest float16
_HIGH, _LOW = 32, (1 << 32) - 1  # a gradient and a curvature share one 64-bit integer


@dataclass(frozen=True)
class TreeSettings:
    """How trees are grown."""

    trees: int = 400  # at most
    depth: int = 7
    rate: float = 0.07  # how much of a tree's best values is taken
    ridge: float = 5.0  # curvature a leaf needs before its value counts half
    columns: float = 0.5  # share of the columns that a tree may ask about
    rows: float = 0.5  # share of the rows that a tree is grown on
    patience: int = 25  # trees without a better held-out loss, then it stops
    seed: int = 0


@dataclass(frozen=True)
class Bins:
    """Where columns are cut: a value lies in the bin of that many edges at or below it.

    What is not a number lies below everything: if a column has any, they have the first bin for themselves. Columns are
    float16, so a table with the bin of each of the 65,536 numbers there are answers faster than a search.

    >>> bins = Bins.from_columns(torch.tensor([[1.0, 2.0, 3.0, 4.0], [1.0, 1.5, 2.0, torch.nan]]).half(), most=2)
    >>> bins(torch.tensor([[0.0, 9.0, torch.nan], [0.0, 9.0, torch.nan]]).half()).tolist()
    [[0, 1, 0], [1, 1, 0]]
    """

    edges: Tensor  # float32 [columns, bins - 1] ascending, padded with infinity

    @staticmethod
    def from_columns(columns: Tensor, most: int = _BINS) -> Bins:
        """At most `most` bins of about equally many rows, for every column. float16 [columns, rows]"""
        rows = columns.shape[1]
        edges = torch.full((len(columns), most - 1), torch.inf)
        places = torch.linspace(0, rows, most + 1)[1:-1].long().clamp(max=max(rows - 1, 0))
        for number, column in enumerate(columns.float() if rows else []):
            ordered = torch.sort(_lowest(column)).values
            values = torch.unique(ordered[places])
            values = values[values > ordered[0]]
            if ordered[0] == -torch.inf:
                values = torch.cat([edges.new_full((1,), _LEAST), values[max(0, len(values) - most + 2) :]])
            edges[number, : len(values)] = values
        return Bins(edges)

    def __call__(self, columns: Tensor) -> Tensor:
        """The bin of every value. float16 [columns, rows] → uint8 [columns, rows]"""
        out = torch.empty(columns.shape, dtype=torch.uint8)
        numbers = _lowest(torch.arange(-(1 << 15), 1 << 15).short().view(torch.float16).float())
        for number, column in enumerate(columns):
            bin_of = torch.bucketize(numbers, self.edges[number], right=True).to(torch.uint8)
            for start in range(0, len(column), _ROWS):
                part = slice(start, start + _ROWS)
                out[number, part] = bin_of.index_select(0, column[part].view(torch.int16).int() + (1 << 15))
        return out


def _lowest(numbers: Tensor) -> Tensor:
    """The same with −∞ for what is not a number."""
    return torch.where(torch.isnan(numbers), -torch.inf, numbers)


@dataclass(frozen=True)
class Trees:
    """Symmetric trees: the questions of each (is the bin of `column` above `split`?) and a value for each answer."""

    column: Tensor  # [trees, depth] int64
    split: Tensor  # [trees, depth] int64
    value: Tensor  # [trees, 2 ** depth] float32

    def __len__(self) -> int:
        return len(self.value)

    def __call__(self, bins: Tensor) -> Tensor:
        """The sum of all trees. uint8 [columns, rows] → float32 [rows]"""
        out = torch.zeros(bins.shape[1], dtype=torch.float32)
        questions = list(zip(self.column.tolist(), self.split.tolist(), self.value, strict=True))
        for start in range(0, bins.shape[1], _ROWS):
            part, total = bins[:, start : start + _ROWS], out[start : start + _ROWS]
            for columns, splits, value in questions:
                total += value.index_select(0, _leaf(part, columns, splits))
        return out

    @staticmethod
    def mean(several: Sequence[Trees]) -> Trees:
        """Trees that say what these say on average."""
        column, split = (torch.cat([getattr(one, name) for one in several]) for name in ("column", "split"))
        return Trees(column, split, torch.cat([one.value / len(several) for one in several]))

    def first(self, trees: int) -> Trees:
        """The first few of them."""
        return Trees(self.column[:trees], self.split[:trees], self.value[:trees])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """As named arrays, to be stored."""
        return {"column": self.column.int().numpy(), "split": self.split.int().numpy(), "value": self.value.numpy()}

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Trees:
        """What `arrays` gave."""
        column, split, value = (torch.from_numpy(np.array(arrays[name])) for name in ("column", "split", "value"))
        return Trees(column.long(), split.long(), value)


def _leaf(bins: Tensor, columns: list[int], splits: list[int]) -> Tensor:
    """The leaf of every row: bit `level` is the answer at that level. uint8 [columns, rows] → int32 [rows]"""
    leaf = torch.zeros(bins.shape[1], dtype=torch.uint8)
    answer = torch.empty_like(leaf)
    for column, split in zip(columns, splits, strict=True):
        # Below 128 bins, split − bin wraps around to a number with the top bit set where the bin is larger: many times
        # as fast as a comparison. Answers move down as more come in at the top.
        torch.sub(torch.tensor(split, dtype=torch.uint8), bins[column], out=answer)
        leaf.bitwise_right_shift_(1).bitwise_or_(answer.bitwise_and_(128))
    return leaf.bitwise_right_shift_(8 - len(columns)).int()


class TreeRows(NamedTuple):
    """Rows that trees are fitted to, or that choose how many trees there are: then the loss on them is watched."""

    bins: Tensor  # uint8 [columns, rows]
    label: Tensor  # float32 [rows]
    weight: Tensor  # [rows]
    start: Tensor  # [rows] logits to begin with

    def where(self, keep: Tensor) -> TreeRows:
        """Some of them, marked or by their places."""
        return TreeRows(self.bins[:, keep], self.label[keep], self.weight[keep], self.start[keep])


def boost(
    given: TreeRows, settings: TreeSettings, held_out: TreeRows | None = None, until: float = math.inf
) -> tuple[Trees, list[float]]:
    """Trees that correct the logits `start` towards the labels, and the held-out loss before and after each of them.

    No tree is begun after `until`, by the monotonic clock.

    >>> x = torch.linspace(0, 1, 1000)
    >>> bins = Bins.from_columns(x[None].half())(x[None].half())
    >>> rows = TreeRows(bins, (x > 0.5).float(), torch.ones(1000), torch.zeros(1000))
    >>> trees, _ = boost(rows, TreeSettings(trees=20))
    >>> ((trees(bins) > 0) == (x > 0.5)).float().mean().item() > 0.99
    True
    """
    generator = torch.Generator().manual_seed(settings.seed)
    bins, logit = given.bins, given.start.clone().float()
    watched = None if held_out is None else held_out.start.clone().float()
    losses = [] if held_out is None or watched is None else [log_loss(watched, held_out.label, held_out.weight)]
    grown: list[tuple[list[int], list[int], Tensor]] = []
    for _ in range(settings.trees):
        if time.monotonic() > until:
            break
        some = torch.randperm(len(bins), generator=generator)[: max(1, round(settings.columns * len(bins)))]
        drawn = torch.rand(bins.shape[1], generator=generator) < settings.rows
        rows = torch.nonzero(drawn).view(-1)
        questions, splits, value = _tree(given, some.sort().values.tolist(), rows, logit, settings)
        grown.append((questions, splits, value))
        logit += value.index_select(0, _leaf(bins, questions, splits))
        if held_out is not None and watched is not None:
            watched += value.index_select(0, _leaf(held_out.bins, questions, splits))
            losses.append(log_loss(watched, held_out.label, held_out.weight))
            if len(losses) - 1 - int(np.argmin(losses)) >= settings.patience:
                break
    if not grown:
        none = torch.zeros((0, settings.depth), dtype=torch.int64)
        return Trees(none, none, torch.zeros(0, 1 << settings.depth)), losses
    columns, cuts, values = zip(*grown, strict=True)
    return Trees(torch.tensor(columns), torch.tensor(cuts), torch.stack(values)), losses


def _tree(
    given: TreeRows, some: list[int], rows: Tensor, logit: Tensor, settings: TreeSettings
) -> tuple[list[int], list[int], Tensor]:
    """Columns and splits of one tree, and the value of every leaf."""
    bins, chance, fact, counts = given.bins, torch.sigmoid(logit[rows]), given.label[rows], given.weight[rows]
    packed, gradient_unit, curvature_unit = _pack(counts * (chance - fact), counts * chance * (1 - chance))
    leaf = torch.zeros(len(rows), dtype=torch.int64)
    sums = _sum_by_bin(bins, some, rows, leaf, packed, 1)
    questions: list[int] = []
    splits: list[int] = []
    for level in range(settings.depth):
        gradient, curvature = _unpack(sums, gradient_unit, curvature_unit)
        place, split = _best_split(gradient, curvature, settings.ridge * settings.rows)
        questions.append(some[place])
        splits.append(split)
        right = bins[some[place]].index_select(0, rows) > split
        if level + 1 < settings.depth:
            # Only the smaller side is summed; the other one is the rest.
            swap = int(right.sum()) * 2 > len(right)
            fewer = torch.nonzero(right ^ swap).view(-1)
            part = _sum_by_bin(bins, some, rows[fewer], leaf[fewer], packed[fewer], 1 << level)
            sums = torch.cat([part, sums - part] if swap else [sums - part, part], 1)
        leaf += right.long() << level
    sums = torch.zeros(1 << settings.depth, dtype=torch.int64).scatter_add_(0, leaf, packed)
    gradient, curvature = _unpack(sums, gradient_unit, curvature_unit)
    value = -settings.rate * gradient / (curvature + settings.ridge * settings.rows)
    return questions, splits, value.float()


def _sum_by_bin(bins: Tensor, some: list[int], rows: Tensor, leaf: Tensor, packed: Tensor, leaves: int) -> Tensor:
    """The sums of numbers of rows by (column, leaf, bin). int64 [columns, leaves, bins]"""
    sums = torch.zeros((len(some), leaves, _BINS), dtype=torch.int64)
    if _compiled is not None:
        _compiled(bins.numpy(), np.array(some), rows.numpy(), leaf.numpy(), packed.numpy(), sums.numpy())
        return sums
    base = leaf * _BINS
    for place, column in enumerate(some):
        sums[place].view(-1).scatter_add_(0, base + bins[column].index_select(0, rows), packed)
    return sums


def _best_split(gradient: Tensor, curvature: Tensor, ridge: float) -> tuple[int, int]:
    """The column and the split of the largest gain, the split being made in every leaf. [columns, leaves, bins]

    The last bin is a split too: it sends every row to the left and gains nothing.
    """
    left_gradient, left_curvature = torch.cumsum(gradient, 2), torch.cumsum(curvature, 2)
    all_gradient, all_curvature = left_gradient[:, :, -1:], left_curvature[:, :, -1:]
    gain = left_gradient**2 / (left_curvature + ridge)
    gain += (all_gradient - left_gradient) ** 2 / ((all_curvature - left_curvature).clamp(min=0) + ridge)
    best = int(torch.argmax(gain.sum(1)))
    return best // gain.shape[2], best % gain.shape[2]


def _pack(gradient: Tensor, curvature: Tensor) -> tuple[Tensor, float, float]:
    """Both as one integer each, small enough that no sum overflows, and their units."""
    # Units are powers of two, so that a total that rounds a little differently changes nothing.
    totals = [max(float(side.double().abs().sum()), 1e-30) for side in (gradient, curvature)]
    units = [2.0 ** (math.ceil(math.log2(total)) - 30) for total in totals]
    high, low = ((side.double() / unit).round().long() for side, unit in zip((gradient, curvature), units, strict=True))
    return (high << _HIGH) + low, units[0], units[1]


def _unpack(sums: Tensor, gradient_unit: float, curvature_unit: float) -> tuple[Tensor, Tensor]:
    low = sums & _LOW
    return ((sums - low) >> _HIGH).double() * gradient_unit, low.double() * curvature_unit


def log_loss(logit: Tensor, label: Tensor, weight: Tensor) -> float:
    """Weighted mean of the logistic loss."""
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logit.double(), label.double(), reduction="none")
    return float((loss * weight).sum() / weight.sum())
