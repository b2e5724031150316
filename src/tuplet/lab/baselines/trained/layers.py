"""What the query embedding models share: a perceptron, a table of numbers, and distances of many pairs."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus
from torch.utils.checkpoint import checkpoint

Distance = Callable[[Tensor, Tensor], Tensor]


def perceptron(inputs: int, hidden: int, layers: int, outputs: int) -> nn.Sequential:
    """`layers` hidden layers with ReLU and a linear one on top, Xavier weights.

    >>> perceptron(3, 8, 2, 5)(torch.zeros(4, 3)).shape
    torch.Size([4, 5])
    """
    network = nn.Sequential()
    for _ in range(layers):
        network.extend([nn.Linear(inputs, hidden), nn.ReLU()])
        inputs = hidden
    network.append(nn.Linear(inputs, outputs))
    for layer in network:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
    return network


def uniform(rows: int, width: int, bound: float) -> nn.Parameter:
    """A learned table [rows, width] that starts uniform in ±bound."""
    return nn.Parameter((torch.rand(rows, width) * 2 - 1) * bound)


def narrow(table: Tensor, candidates: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The rows of a table that candidates need, and the candidates as places among these; None for all, in order.

    >>> rows, places = narrow(torch.tensor([[0.0], [10.0], [20.0], [30.0]]), torch.tensor([[3], [1]]))
    >>> rows.tolist(), places.tolist()
    ([[30.0], [10.0]], [[0], [1]])
    """
    if candidates is None:
        return table, None
    if candidates.dim() == 1:
        return table.index_select(0, candidates), None
    if candidates.numel() >= len(table):
        return table, candidates
    places = torch.arange(candidates.numel(), device=candidates.device).view_as(candidates)
    return table.index_select(0, candidates.flatten()), places


def distances(
    distance: Distance, query: Tensor, table: Tensor, candidates: Tensor | None = None, cells: int | None = None
) -> Tensor:
    """Distances of queries [n, a] to rows of a table [rows, b] → [n, m], at most `cells` numbers at a time.

    Candidates [n, m] are places in the table, None is all of it. `distance` gets queries [n, 1, a] and rows
    [n or 1, block, b], and sums over the last dimension. A block is computed anew on the way back, so that training is
    bounded like ranking.
    """
    if cells is None:
        cells = 1 << (28 if query.is_cuda else 22)
    count = len(table) if candidates is None else candidates.shape[1]
    block = max(1, cells // max(1, len(query) * table.shape[1]))
    training = torch.is_grad_enabled() and (query.requires_grad or table.requires_grad)
    # One kernel instead of a dozen passes over all pairs; not for the few pairs of the answers.
    compute = fused(distance) if training and query.is_cuda and count >= 16 else distance

    def part(query: Tensor, table: Tensor, start: int) -> Tensor:
        if candidates is None:
            rows = table[None, start : start + block]
        else:
            chosen = candidates[:, start : start + block]
            rows = table.index_select(0, chosen.flatten()).view(*chosen.shape, -1)
        return compute(query[:, None], rows)

    if count <= block:
        return part(query, table, 0)
    starts = range(0, count, block)
    if not training:
        return torch.cat([part(query, table, start) for start in starts], 1)
    return torch.cat(
        [checkpoint(part, query, table, s, use_reentrant=False, preserve_rng_state=False) for s in starts], 1
    )


@lru_cache(maxsize=8)
def fused(distance: Distance) -> Distance:
    """The distance as one compiled kernel, where torch has its compiler for the GPU; the same numbers without it."""
    return torch.compile(distance) if find_spec("triton") else distance


def cross_entropy(positive: Tensor, negative: Tensor, weight: Tensor, entities: int) -> Tensor:
    """−log of the share of the answer [n] among all entities, estimated from random ones [n, m]; weighted [n] → a mean.

    The random entities stand for all others: m of them count as much as all would.

    >>> cross_entropy(torch.zeros(1), torch.zeros(1, 2), torch.ones(1), entities=9).exp()
    tensor(9.)
    """
    others = negative.logsumexp(-1) + math.log((entities - 1) / negative.shape[-1])
    return (softplus(others - positive) * weight).sum() / weight.sum()
