"""Rows that are counted as they are computed: those of a path network are dear, and somebody waits for them."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tuplet.predict.base import LinkPredictor, row_scores
from tuplet.progress import Report

Tensor = torch.Tensor

_BATCHES = 8  # for each core, between two reports: a few seconds at most, so that Ctrl-C does not wait longer
_BATCH = 64  # of a predictor that does not say how many rows it computes at a time


class RowProgress:
    """How far the scoring of a graph is: in rows, where some are dear, else in relations, or their shards."""

    def __init__(
        self, progress: Report | None, dear_rows: Sequence[int], cut: bool = False, until: float = math.inf
    ) -> None:
        """`dear_rows`: how many each task has; `cut`: a relation may be several; `until`: no row is begun later."""
        self.until, self.late = until, Counter[int]()  # by relation: rows that there was no time for
        self.progress, self.note = progress, "rows" if any(dear_rows) else "shards" if cut else "relations"
        self.ends = np.cumsum(dear_rows if any(dear_rows) else np.ones(len(dear_rows), dtype=np.int64)).tolist()
        self.done = 0
        self.rows(0)

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self.until

    def rows(self, number: int) -> None:
        """So many more are computed."""
        self.done += number
        if self.progress and self.ends:
            self.progress("index", self.done, self.ends[-1], self.note)

    def task(self, number: int) -> None:
        """So many tasks are done, now or in an earlier call."""
        self.rows(self.ends[number - 1] - self.done)


class CountedRows:
    """A predictor of whole rows that says after every few how many it has computed; when the time is up, it stops."""

    def __init__(self, predictor: LinkPredictor, told: RowProgress) -> None:
        self.predictor, self.told = predictor, told
        self.entities, self.relations = predictor.entities, predictor.relations
        self.some = _BATCHES * torch.get_num_threads() * int(getattr(predictor, "batch", _BATCH))

    def tails(self, heads: Tensor, relation: int) -> Tensor:
        """Scores of (h, relation, ·) for each h of `heads` [n] → [n, entities]."""
        return self._counted(heads, relation, False)

    def heads(self, tails: Tensor, relation: int) -> Tensor:
        """Scores of (·, relation, t) for each t of `tails` [n] → [n, entities]."""
        return self._counted(tails, relation, True)

    def _counted(self, near: Tensor, relation: int, inverse: bool) -> Tensor:
        parts = [torch.zeros(0, self.entities, device=near.device)]
        for some in torch.split(near, self.some):
            if self.told.over:
                parts.append(torch.full((len(some), self.entities), math.nan, device=near.device))
                self.told.late[relation] += len(some)
            else:
                parts.append(row_scores(self.predictor, some, relation, inverse))
            self.told.rows(len(some))
        return torch.cat(parts)

    @property
    def late(self) -> bool:
        """Whether there was no time for some rows: their scores are NaN."""
        return bool(self.told.late)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the predictor's own."""
        return getattr(self.predictor, name)
