"""Query models asked for any query graph: one score for every entity and free variable, many queries at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tuplet.lab.baselines.trained.embedding import Link, Pattern, QueryModel
from tuplet.query.limits import NO_DEADLINE, Deadline
from tuplet.query.ranking import QueryGraph


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


def pattern_of(clause: QueryGraph) -> tuple[Pattern, list[int], list[int]]:
    """A clause as its pattern, its constants in the order of their first mention, and the views of its edges.

    >>> from tuplet.query.ranking import Edge
    >>> pattern_of(QueryGraph(("x",), (0,), (Edge(0, 3, ~7),)))
    (Pattern(variables=1, edges=(Link(head=0, tail=-1, negated=False),)), [7], [6])
    """
    place: dict[int, int] = {}
    for edge in clause.edges:
        for node in (edge.head, edge.tail):
            if node < 0:
                place.setdefault(node, ~len(place))
    links = tuple(Link(place.get(e.head, e.head), place.get(e.tail, e.tail), e.negated) for e in clause.edges)
    return Pattern(len(clause.variables), links), [~node for node in place], [2 * e.relation for e in clause.edges]


def by_pattern(queries: Sequence[Sequence[QueryGraph]]) -> list[tuple[list[int], list[Ground]]]:
    """Queries, each some clauses, in groups that differ in constants and relations only: (which queries, clauses)."""
    groups: dict[object, list[int]] = {}
    made = [[pattern_of(clause) for clause in clauses] for clauses in queries]
    for number, clauses in enumerate(queries):
        key = tuple((part[0], clause.free) for part, clause in zip(made[number], clauses, strict=True))
        groups.setdefault(key, []).append(number)
    result = []
    for numbers in groups.values():
        ground = []
        for place, clause in enumerate(queries[numbers[0]]):
            pattern = made[numbers[0]][place][0]
            constants, views = (torch.tensor([made[n][place][i] for n in numbers], dtype=torch.int64) for i in (1, 2))
            ground.append(Ground(pattern, clause.free, constants.view(len(numbers), -1), views))
        result.append((numbers, ground))
    return result


@torch.inference_mode()
def scores(
    model: QueryModel,
    clauses: Sequence[Ground],
    device: torch.device,
    deadline: Deadline = NO_DEADLINE,
    block: int | None = None,
) -> Tensor:
    """Logits of every entity for each free variable of each query: [n, k, entities], on the CPU.

    Each free variable is asked for on its own, the others existential. A union takes the best of its clauses.
    """
    count, k = len(clauses[0].views), len(clauses[0].free)
    # Queries at a time: few between two looks at a deadline, where there is one.
    cells = 29 if device.type == "cuda" else 24 if deadline.seconds is None else 18
    block = block or max(1, min(1024, (1 << cells) // model.entity_count))
    parts = []
    for begin in range(0, count, block):
        rows = [clause.part(slice(begin, begin + block), device) for clause in clauses]
        per_variable = []
        for j in range(k):
            best: Tensor | None = None
            for g in rows:
                deadline.check()
                found = model.logits(model.embed(g.pattern, g.free[j], g.constants, g.views))
                best = found if best is None else torch.maximum(best, found)
            assert best is not None  # a query has a clause
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
