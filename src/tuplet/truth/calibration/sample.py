"""Which candidates a calibration is fitted to: all facts, and of the others those that teach the most.

Most candidates are nonsense, and what the predictors say is a poor guide to which: the more of them are asked, about
rows without a fact too, the more there is that one of them finds likely. So a pool is drawn by truth, a quick fit
judges it, and the candidates that it finds likely are drawn from the pool. Each stands for as many as it was likely to
be drawn, so the sums over a sample are those over all. Needs torch and numpy alone.
"""

from __future__ import annotations

import torch

from tuplet.truth.calibration.trees import TreeSettings, boost

Tensor = torch.Tensor

POOL = 3  # times as many candidates are in the pool as are fitted to
QUICK = TreeSettings(trees=80, depth=6, rate=0.15, rows=0.25)
RAREST = 1e-3  # no candidate is left to a smaller chance: it would stand for too many


def by_truth(log_truth: Tensor, free: Tensor, fact: Tensor, rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """All facts and about `rows` of the other free candidates; how many each stands for."""
    worth = torch.where(free & ~fact, log_truth.double().exp(), 0)
    return _draw(worth, fact, rows, seed)


def by_first_fit(
    bins: Tensor, label: Tensor, weight: Tensor, start: Tensor, rows: int, seed: int
) -> tuple[Tensor, Tensor]:
    """All facts of a pool and about `rows` others; how many of the pool each stands for."""
    fact = label > 0
    if int((~fact).sum()) <= rows:
        return torch.arange(len(label), device=label.device), torch.ones_like(weight)
    trees, _ = boost(bins, label, weight, start, QUICK)
    likely = torch.sigmoid(start + trees(bins)).double() * weight
    return _draw(torch.where(fact, 0, likely), fact, rows, seed + 1, RAREST)


def _draw(worth: Tensor, fact: Tensor, rows: int, seed: int, rarest: float = 0.0) -> tuple[Tensor, Tensor]:
    """All facts and about `rows` others, the likelier the more they are worth; one over the chance of each."""
    low, high = 1e-6, max(1.0, float(worth.max()) if len(worth) else 1.0)  # the worth from which on all are taken
    for _ in range(40):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if float((worth / middle).clamp(max=1).sum()) < rows else (middle, high)
    chance = torch.where(fact, 1.0, (worth / high).clamp(max=1))
    if rarest:
        chance = torch.where(worth > 0, chance.clamp(min=rarest), chance)
    drawn = torch.rand(len(chance), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    places = torch.nonzero(drawn.to(chance.device) < chance).view(-1)
    return places, (1 / chance[places]).float()
