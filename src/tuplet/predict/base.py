"""What every link predictor offers: raw scores, higher is truer, comparable within a row."""

from __future__ import annotations

from typing import Protocol

import torch


class LinkPredictor(Protocol):
    """Scores of edges by entity and relation ids. `tails` and `heads` score against all entities."""

    entities: int
    relations: int

    def tails(self, heads: torch.Tensor, relation: int) -> torch.Tensor:
        """Scores of (h, relation, ·) for each h of `heads` [n] → [n, entities]."""
        ...

    def heads(self, tails: torch.Tensor, relation: int) -> torch.Tensor:
        """Scores of (·, relation, t) for each t of `tails` [n] → [n, entities]."""
        ...

    def pairs(self, heads: torch.Tensor, relation: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
        """Scores of single edges in the direction of `tails` [n] → [n]."""
        ...
