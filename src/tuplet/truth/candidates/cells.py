"""The best columns of a row without scoring all of them, where scores are inner products.

Columns lie in cells (k-means), and of each cell the mean and the variance are known. They promise a row how much the
cell weighs in its softmax, and the row looks into the cells that promise most, until it has seen as many columns as it
may. What it is divided by is the sum over these and, for all others, what their cells promise. All rows that look into
a cell do so at once, so that the work is that of matrix products.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch

from tuplet.truth.candidates.fused import TiledProducts, counted_reaching

Tensor = torch.Tensor

POINTS = 32  # columns of each cell, on average, that say where the cells lie
STEPS = 4  # of k-means
_MANY = 1 << 16  # columns at a time that are put into cells


@dataclass(frozen=True)
class ColumnCells:
    """Columns in cells."""

    columns: Tensor  # [m, width] as they were given
    places: Tensor  # [m] of the columns, those of a cell together
    sorted: Tensor  # [m, width] in this order
    starts: list[int]  # [cells + 1] where each cell begins
    means: Tensor  # [cells, width]
    variances: Tensor  # [cells, width]

    @staticmethod
    def of(columns: Tensor) -> ColumnCells:
        """About as many cells as there are columns in one; the same ones each time."""
        columns = columns.float().contiguous()
        count = max(1, round(math.sqrt(len(columns))))
        generator = torch.Generator().manual_seed(0)
        some = columns[torch.randperm(len(columns), generator=generator)[: POINTS * count]]
        centres = some[:count]
        for _ in range(STEPS):
            cell = _nearest(some, centres)
            sums = torch.zeros_like(centres).index_add_(0, cell, some)
            sizes = torch.bincount(cell, minlength=count)[:, None]
            centres = torch.where(sizes > 0, sums / sizes.clamp(min=1), centres)
        cell = torch.cat([_nearest(part, centres) for part in torch.split(columns, _MANY)])
        _, cell, sizes = torch.unique(cell, return_inverse=True, return_counts=True)  # no cell is empty
        places = torch.argsort(cell, stable=True)
        ordered = columns[places]
        means, squares = (
            torch.zeros(len(sizes), columns.shape[1]).index_add_(0, cell, values) / sizes[:, None]
            for values in (columns, columns**2)
        )
        starts = [0, *torch.cumsum(sizes, 0).tolist()]
        return ColumnCells(columns, places, ordered, starts, means, (squares - means**2).clamp(min=0))

    @cached_property
    def sizes(self) -> Tensor:
        """How many columns each cell has."""
        return torch.tensor(self.starts).diff()

    def promise(self, rows: Tensor) -> Tensor:
        """log Σ exp of the scores of each cell, as if they were normal around their mean. [rows, cells]

        That is mean + log n + σ² / 2, unless they spread so far that numbers would weigh most that are too rare to be
        among n: then it is the largest one, √(2 log n) deviations from the mean. Both are one formula.
        """
        furthest = (2 * self.sizes.log()).sqrt()
        spread = (rows**2 @ self.variances.T).sqrt_()
        beyond = (furthest - spread).clamp_(min=0).square_().mul_(0.5)
        return spread.mul_(furthest).add_(beyond).addmm_(rows, self.means.T)


class CellProducts:
    """`ScoreProducts` of the columns that each row looks at."""

    def __init__(self, rows: Tensor, cells: ColumnCells, most: Tensor) -> None:
        """`most`: so many columns each row looks at, if that is no less than one cell; all of them are scored whole."""
        self.rows, self.cells = rows, cells
        wide = most >= len(cells.columns)
        self.many, self.few = (torch.nonzero(which).view(-1) for which in (wide, ~wide))
        self.whole = TiledProducts(rows[self.many], cells.columns)
        mine = rows[self.few]
        self._promise = cells.promise(mine)
        order = torch.from_numpy(np.argsort(-self._promise.numpy(), 1))  # several times faster than torch
        looks = torch.cumsum(cells.sizes[order], 1) <= most[self.few, None]
        looks[:, :1] = True
        row, rank = torch.nonzero(looks, as_tuple=True)
        cell = order[row, rank]
        by_cell = torch.argsort(cell, stable=True)
        self._row, self._cell = row[by_cell], cell[by_cell]
        bounds = torch.searchsorted(self._cell, torch.arange(len(cells.sizes) + 1)).tolist()
        self._looks = []  # the rows that look into a cell, where it begins, and the scores
        tops = [torch.zeros(0)]
        for number, (begin, end) in enumerate(pairwise(bounds)):
            if begin < end:
                start, stop = cells.starts[number : number + 2]
                scores = mine[self._row[begin:end]] @ cells.sorted[start:stop].T
                tops.append(scores.amax(1))
                self._looks.append((slice(begin, end), start, scores))
        self._top = torch.cat(tops)

    def log_sums(self) -> Tensor:
        """log Σ exp of the scores of each row: of those looked at, and of the others as promised."""
        sums = [torch.zeros(0)]
        for own, _, scores in self._looks:
            sums.append(torch.exp(scores - self._top[own, None]).sum(1).log())
        found = self._promise.index_put((self._row, self._cell), torch.cat(sums) + self._top)
        out = torch.empty(len(self.rows))
        out[self.few], out[self.many] = torch.logsumexp(found, 1), self.whole.log_sums()
        return out

    def count_reaching(self, thresholds: Tensor) -> Tensor:
        """How many scores of each row reach each of its thresholds."""
        counts = torch.zeros(thresholds.shape, dtype=torch.int64)
        mine = thresholds[self.few]
        found = torch.zeros(mine.shape, dtype=torch.int64)
        for row, _, scores in self._reaching(mine.amin(1)):
            found.index_add_(0, row, counted_reaching(scores, mine[row]))
        counts[self.few], counts[self.many] = found, self.whole.count_reaching(thresholds[self.many])
        return counts

    def list_reaching(self, threshold: Tensor, counts: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Row and column of each score that reaches the threshold of its row."""
        mine = threshold[self.few]
        row, column = self.whole.list_reaching(threshold[self.many])
        rows, columns = [self.many[row]], [column]
        for row, start, scores in self._reaching(mine):
            which, place = torch.nonzero(scores >= mine[row, None], as_tuple=True)
            rows.append(self.few[row[which]])
            columns.append(self.cells.places[start + place])
        return torch.cat(rows), torch.cat(columns)

    def _reaching(self, threshold: Tensor) -> list[tuple[Tensor, int, Tensor]]:
        """The looks whose best score reaches the threshold of its row: rows, where the cell begins, scores."""
        reached = self._top >= threshold[self._row]
        found = []
        for own, start, scores in self._looks:
            mine = torch.nonzero(reached[own]).view(-1)
            if len(mine):
                found.append((self._row[own][mine], start, scores[mine]))
        return found


def _nearest(points: Tensor, centres: Tensor) -> Tensor:
    """The centre next to each point."""
    return torch.addmm(-0.5 * (centres**2).sum(1), points, centres.T).argmax(1)
