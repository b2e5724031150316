"""Query models asked for any query graph: one score for every entity and free variable, many queries at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuplet.baselines.embedding import Link, Pattern, QueryModel
from tuplet.lang.query_graph import QueryGraph


@dataclass(frozen=True)
class Ground:
    """Many queries of one clause pattern."""

    pattern: Pattern
    free: tuple[int, ...]  # the variables asked for
    constants: Tensor  # [n, ·]
    views: Tensor  # [n, edges]

    def part(self, rows: slice, device: torch.device) -> Ground:
        """Some of the queries, elsewhere."""
        return Ground(self.pattern, self.free, self.constants[rows].to(device), self.views[rows].to(device))


def grounded(clauses: Sequence[QueryGraph]) -> Ground:
    """The same clause of many queries, which differ in constants and relations only.

    >>> from tuplet.lang.query_graph import Edge
    >>> made = grounded([QueryGraph(("x",), (0,), (Edge(0, 3, ~7),)), QueryGraph(("x",), (0,), (Edge(0, 4, ~9),))])
    >>> made.pattern.edges, made.constants.tolist(), made.views.tolist()
    ((Link(head=0, tail=-1, negated=False),), [[7], [9]], [[6], [8]])
    """
    patterns, constants, views = set(), [], []
    for clause in clauses:
        place: dict[int, int] = {}  # node → node of the pattern: each mention of a constant is a place of its own order
        for edge in clause.edges:
            for node in (edge.head, edge.tail):
                if node < 0:
                    place.setdefault(node, ~len(place))
        links = tuple(Link(place.get(e.head, e.head), place.get(e.tail, e.tail), e.negated) for e in clause.edges)
        patterns.add((Pattern(len(clause.variables), links), clause.free))
        constants.append([~node for node in place])
        views.append([2 * e.relation for e in clause.edges])
    ((pattern, free),) = patterns
    shape = len(constants), pattern.constants
    return Ground(pattern, free, torch.tensor(constants, dtype=torch.int64).view(shape), torch.tensor(views))


@torch.inference_mode()
def scores(model: QueryModel, clauses: Sequence[Ground], device: torch.device, block: int | None = None) -> Tensor:
    """Logits of every entity for each free variable of each query: [n, k, entities], on the CPU.

    Each free variable is asked for on its own, the others existential. A union takes the best of its clauses.
    """
    count, k = len(clauses[0].views), len(clauses[0].free)
    block = block or max(1, min(1024, (1 << (29 if device.type == "cuda" else 24)) // model.entity_count))
    parts = []
    for begin in range(0, count, block):
        rows = [clause.part(slice(begin, begin + block), device) for clause in clauses]
        per_variable = []
        for j in range(k):
            found = [model.logits(model.embed(g.pattern, g.free[j], g.constants, g.views)) for g in rows]
            best = found[0]
            for other in found[1:]:
                best = torch.maximum(best, other)
            per_variable.append(best.float().cpu())
        parts.append(torch.stack(per_variable, 1))
    return torch.cat(parts)


def softmax(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Logits [..., entities] as numbers that may be multiplied: each entity's share among all.

    >>> softmax(np.array([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    shifted = np.exp(logits.astype(np.float64) - logits.max(-1, keepdims=True))
    share: NDArray[np.float64] = shifted / shifted.sum(-1, keepdims=True)
    return share
