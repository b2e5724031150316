"""A budgeted joint domain after the search: its ranking, and when that is the ranking over all tuples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tuplet.engines.ns3.batch import NodeRows
from tuplet.engines.ns3.sparse import Tensor, best_of, counts, ranked


@dataclass(frozen=True)
class Box:
    """The joint domain that was searched: all of its rows with their truth, and bounds on everything else."""

    rows: NodeRows  # columns in the order of the free variables
    value: Tensor
    upper: Tensor
    outside: Tensor  # [queries] no tuple outside of the box is truer

    def ranked(self, rank: Tensor, most: int | None = None) -> tuple[Tensor, Tensor]:
        """The true rows in order (`sparse.ranked`), and their truth; if only so many are wanted, perhaps not all."""
        true = (self.value > 0).nonzero().view(-1)
        if most and len(self.outside) == 1 and len(true) > most:  # one box may hold millions of rows
            least = self.value[true].topk(most).values[-1]
            true = true[self.value[true] >= least * (1 - 1e-9)]  # no tie is cut
        columns = [column[true] for column in self.rows.columns]
        order, value = ranked(self.rows.query[true], self.value[true], columns, rank)
        return true[order], value

    def tuples(self, at: Tensor) -> Tensor:
        """The tuples of some rows. [n, k]"""
        columns = [column[at] for column in self.rows.columns]
        return torch.stack(columns, 1) if columns else at[:, None][:, :0]

    def certify(
        self, shown: Tensor, k: int | Tensor | None, hidden: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Whether the rows `shown` (a mask) are the true best `k`, a bound on all others, and the k-th truth [queries].

        `k` may differ between queries; None asks for all true tuples.

        A tuple in the box is at most as true as `upper`, one outside at most `outside`. If the k-th truth shown is not
        below the bound of all others, and no row shown could be truer than it is shown, the list is the true one.
        NodeRows marked `hidden` are not asked for.
        """
        queries = len(self.outside)
        slack = 1 + (1e-9 if self.value.dtype == torch.float64 else 1e-5)
        query = self.rows.query
        others = ~shown if hidden is None else ~shown & ~hidden
        bound = torch.maximum(self.outside, best_of(query[others], self.upper[others], queries))
        unsure = best_of(query[shown], (self.upper[shown] > self.value[shown] * slack).to(bound.dtype), queries)
        wanted = torch.full_like(bound, -1) if k is None else torch.zeros_like(bound) + k
        last = -best_of(query[shown], 2 - self.value[shown], queries) + 2  # the smallest
        kth = torch.where(wanted == 0, 1, torch.where(counts(query[shown], queries) == wanted, last, 0))
        return (unsure == 0) & (bound <= kth * slack), bound, kth


def gather(parts: Sequence[tuple[Tensor, Box]], queries: int) -> Box:
    """One box of several, each of which holds some of the queries."""
    first = parts[0][1]
    outside = torch.zeros(queries, dtype=first.outside.dtype, device=first.outside.device)
    for some, box in parts:
        outside[some] = box.outside
    query = torch.cat([some[box.rows.query] for some, box in parts])
    order = torch.argsort(query, stable=True)
    columns = (torch.cat(column)[order] for column in zip(*(box.rows.columns for _, box in parts), strict=True))
    return Box(
        NodeRows(first.rows.members, query[order], tuple(columns)),
        torch.cat([box.value for _, box in parts])[order],
        torch.cat([box.upper for _, box in parts])[order],
        outside,
    )
