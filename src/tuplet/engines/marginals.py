"""Tuples from marginals: one list of entities for each free variable becomes a list of tuples, best product first.

An estimate of the joint ranking: the members of a tuple listed here may not go together at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.engines.ns3.sparse import Tensor, falling, ranges
from tuplet.graph.adjacency import Adjacency
from tuplet.query.logic import Logic
from tuplet.query.ranking import Clauses

Only: TypeAlias = Literal["predicted", "observed"] | None

LISTED = 10_000  # the most tuples that are ranked by marginals


class Members(NamedTuple):
    """The entities that one variable may take, each with its marginal."""

    entities: Tensor
    value: Tensor


def best_products(members: Sequence[Members], most: int, logic: Logic) -> tuple[Tensor, Tensor]:
    """The tuples of largest conjunction of marginals [n, k], and that conjunction [n].

    A pair of the i-th and the j-th best stands behind (i + 1)(j + 1) - 1 others, so few pairs can be among the best.

    >>> one = Members(torch.tensor([7, 8]), torch.tensor([0.5, 1.0]))
    >>> [part.tolist() for part in best_products([one, one], 3, Logic.of("product"))]
    [[[8, 8], [8, 7], [7, 8]], [1.0, 0.5, 0.5]]
    """
    device = members[0].value.device
    tuples = torch.zeros((1, 0), dtype=torch.int64, device=device)
    value = torch.ones(1, dtype=members[0].value.dtype, device=device)
    for entities, own in members:
        top = falling(torch.zeros_like(entities), own, -entities)[:most]
        place = torch.arange(len(value), device=device)
        left, right = ranges(torch.zeros_like(place), (most // (place + 1)).clamp(max=len(top)))
        pair = own[top][right]
        joint = value[left] * pair if logic.name == "product" else torch.minimum(value[left], pair)
        order = torch.argsort(joint, descending=True, stable=True)[:most]
        tuples = torch.cat([tuples[left[order]], entities[top][right[order]][:, None]], 1)
        value = joint[order]
    return tuples, value


def top_products(
    members: Sequence[Members], k: int, logic: Logic, clauses: Clauses, only: Only, facts: Adjacency | None
) -> tuple[Tensor, Tensor]:
    """The `k` best products that the filter admits, among the first 10,000 products."""
    k = min(k, LISTED)
    tuples, value = best_products(members, k if only is None else LISTED, logic)
    if only is not None:
        assert facts is not None
        status = is_crisp(clauses, facts, tuples.cpu().numpy())
        keep = torch.as_tensor(status == (only == "observed"), device=tuples.device).nonzero().view(-1)[:k]
        tuples, value = tuples[keep], value[keep]
    return tuples, value


def is_crisp(clauses: Clauses, facts: Adjacency, tuples: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which tuples are answers on the observed facts."""
    from tuplet.engines import crisp  # compiled: only needed for this filter

    return crisp.holds(clauses, facts, tuples.astype(np.int32))
