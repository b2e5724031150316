"""The known edges that a calibration counts, and sums by row that come out the same on every device."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

Tensor = torch.Tensor


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
