"""NS3: neural scalable symbolic search. A query with k unknowns becomes a query with one, on a budgeted domain.

Three ideas, one function each:

    marginalise   the truth of one variable, the others existential: what is not in its answers is in no answer tuple
    allocate      how many of the best rows of two nodes to combine, so that their product fits the budget
    merge         two nodes become a hypernode whose domain is the product of their best rows

`progressive` repeats them until one hypernode is left; its fuzzy vector is the joint ranking. What the original method
does not have: every cut records the best truth it may have lost, so a result says whether it is the true one
(`Box.certify`), and the adaptive mode grows the box until it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import torch

from tuplet.engines.ns3.batch import ClauseBatch, Domains, LiteralBatch, NodeRows, join_pairs
from tuplet.engines.ns3.search import FuzzySearch, reduce_domains
from tuplet.engines.ns3.tensors import (
    Tensor,
    best_of,
    blocks,
    counts,
    rank_rows,
    ranks,
    renumber,
    starts,
    totals,
)
from tuplet.errors import BudgetExceeded
from tuplet.predict.base import ranges
from tuplet.query.limits import DEFAULT_BUDGET, Limits


@dataclass(frozen=True)
class FuzzyNode:
    """A node with its fuzzy vector: rows of positive value only. Members are places among the free variables."""

    rows: NodeRows
    value: Tensor
    upper: Tensor  # no tuple with this row is truer, whatever the domains left out
    score: Tensor  # index score, for ties

    @staticmethod
    def join(parts: Sequence[FuzzyNode]) -> FuzzyNode:
        """One node of parts that follow one another."""
        if len(parts) == 1:
            return parts[0]
        columns = zip(*(part.rows.columns for part in parts), strict=True)
        query = torch.cat([part.rows.query for part in parts])
        rows = NodeRows(parts[0].rows.members, query, tuple(torch.cat(column) for column in columns))
        values = zip(*((part.value, part.upper, part.score) for part in parts), strict=True)
        return FuzzyNode(rows, *(torch.cat(column) for column in values))

    def take(self, at: Tensor) -> FuzzyNode:
        return FuzzyNode(self.rows.take(at), self.value[at], self.upper[at], self.score[at])

    def take_queries(self, number: Tensor) -> FuzzyNode:
        """The rows of some queries, renumbered (`number` is -1 for the others)."""
        some = self.take((number[self.rows.query] >= 0).nonzero().view(-1))
        return replace(some, rows=replace(some.rows, query=number[some.rows.query]))


@dataclass(frozen=True)
class Box(FuzzyNode):
    """The joint domain that was searched: all of its rows with their truth, and bounds on everything else."""

    outside: Tensor  # [queries] no tuple outside of the box is truer

    def rank(self, rank: Tensor, most: int | None = None) -> tuple[Tensor, Tensor]:
        """The true rows in order (`rank_rows`), and their truth; if only so many are wanted, perhaps not all."""
        true = (self.value > 0).nonzero().view(-1)
        if most and len(self.outside) == 1 and len(true) > most:  # one box may hold millions of rows
            least = self.value[true].topk(most).values[-1]
            true = true[self.value[true] >= least * (1 - 1e-9)]  # no tie is cut
        columns = [column[true] for column in self.rows.columns]
        order, value = rank_rows(self.rows.query[true], self.value[true], columns, rank)
        return true[order], value

    def tuples(self, at: Tensor) -> Tensor:
        """The tuples of some rows. [n, k]"""
        columns = [column[at] for column in self.rows.columns]
        return torch.stack(columns, 1) if columns else at[:, None][:, :0]

    def certify(self, shown: Tensor, k: int | None, hidden: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Whether the rows `shown` (a mask) are the true best `k`, a bound on all others, and the k-th truth [queries].

        None asks for all true tuples.

        A tuple in the box is at most as true as `upper`, one outside at most `outside`. If the k-th truth shown is not
        below the bound of all others, and no row shown could be truer than it is shown, the list is the true one.
        NodeRows marked `hidden` are not asked for.
        """
        queries = len(self.outside)
        slack = 1 + 1e-9
        query = self.rows.query
        others = ~shown if hidden is None else ~shown & ~hidden
        bound = torch.maximum(self.outside, best_of(query[others], self.upper[others], queries))
        unsure = best_of(query[shown], (self.upper[shown] > self.value[shown] * slack).double(), queries)
        last = -best_of(query[shown], 2 - self.value[shown], queries) + 2  # the smallest
        whole = counts(query[shown], queries) == (-1 if k is None else k)
        kth = torch.ones_like(bound) if k == 0 else torch.where(whole, last, 0)
        return (unsure == 0) & (bound <= kth * slack), bound, kth


@dataclass(frozen=True)
class BoxBudget:
    """How much of E^k is searched. `B` entities per variable, n·B tuples for a hypernode of n variables; None: all."""

    B: int | None = DEFAULT_BUDGET
    merge: str = "progressive"
    enumerate: int | None = 10  # rows tried where a cycle is cut, besides those of truth 1; None: all
    rows: int = 1 << 27  # joint domains larger than this are refused

    @staticmethod
    def all(merge: str = "progressive") -> BoxBudget:
        """No caps: domains are all that can be true."""
        return BoxBudget(B=None, merge=merge, enumerate=None)

    @staticmethod
    def from_limits(limits: Limits) -> BoxBudget:
        """The budget that a question allows."""
        return BoxBudget.all(limits.merge) if limits.budget == "all" else BoxBudget(limits.budget, limits.merge)

    @property
    def grows(self) -> bool:
        """Whether a larger budget is tried where this one proves too little."""
        return self.merge == "adaptive" and self.B is not None

    def grow(self) -> BoxBudget:
        """A budget four times larger; all, once it passes the limit of rows."""
        if self.B is None or self.rows < 4 * self.B:
            return replace(self, B=None, enumerate=None)
        return replace(self, B=4 * self.B, enumerate=None if self.enumerate is None else 4 * self.enumerate)

    def tuples(self, variables: int) -> int | None:
        """B_γ = n_γ · B."""
        return None if self.B is None else variables * self.B


_SPARSE = 1 << 16  # a joint domain that may be larger than this is joined along an edge where there is one


@dataclass(frozen=True)
class Problem:
    """Queries of one shape with their reduced domains."""

    search: FuzzySearch
    domains: tuple[Domains, ...]  # per clause
    budget: BoxBudget

    @property
    def queries(self) -> int:
        return self.domains[0].clause.queries

    @property
    def unknowns(self) -> int:
        return len(self.domains[0].clause.shape.free)

    def take(self, queries: Tensor) -> Problem:
        return replace(self, domains=tuple(domains.take(queries) for domains in self.domains))

    def nothing(self) -> Tensor:
        """No truth, for each query."""
        return torch.zeros(self.queries, dtype=torch.float64, device=self.search.table.device)


def pose(
    search: FuzzySearch, clauses: Sequence[ClauseBatch], budget: BoxBudget, floor: Tensor | None = None
) -> tuple[Problem, Tensor]:
    """The queries on reduced domains, and a bound on the tuples that have a member outside of them [queries]."""
    # Clauses below the floor may be above it together.
    alone = floor if len(clauses) == 1 or search.logic.idempotent else None
    search = replace(search, enumerate=budget.enumerate)
    domains = tuple(reduce_domains(search, clause, budget.B, alone) for clause in clauses)
    problem = Problem(search, domains, budget)
    outside = problem.nothing()
    for place in range(problem.unknowns):
        lost = problem.nothing()
        for some in domains:
            lost = search.either(lost, some.dropped[some.clause.shape.free[place]])
        outside = torch.maximum(outside, lost)
    return problem, outside


def evaluate(problem: Problem, rows: NodeRows) -> tuple[Tensor, Tensor]:
    """Truth of the rows of one node, all other variables existential, and its upper bound; clauses are combined.

    T = 1 − Π_c (1 − T_c). Every clause is searched from C = 1 on the same rows, with all of its edges.
    """
    search = problem.search
    value = upper = torch.zeros(len(rows), dtype=torch.float64, device=search.table.device)
    for domains in problem.domains:
        variables = tuple(domains.clause.shape.free[place] for place in rows.members)
        own = len(variables) == 1 and rows.query is domains.rows[variables[0]].query
        target = domains.rows[variables[0]] if own else NodeRows(variables, rows.query, rows.columns)
        truth, lost = search(domains, target)
        for variable, dropped in domains.dropped.items():
            if variable not in variables:
                lost = torch.maximum(lost, dropped)
        value = search.either(value, truth)
        upper = search.either(upper, torch.maximum(truth, lost[rows.query]))
    return value, upper


def marginalise(problem: Problem, place: int, floor: Tensor | None = None) -> tuple[FuzzyNode, Tensor]:
    """The fuzzy vector of one free variable, the others existential; and a bound on what it leaves out.

    M[φ, {y_i}] = φ(y_i), and A[M[φ, {y_i}]] = M[A[φ], {y_i}]: a tuple that is an answer has only members that are
    answers of the marginal queries. With truth values, C_i[a] = max of T(y) over y with y_i = a (for one clause; an
    upper bound of it for several).
    """
    variables = [domains.clause.shape.free[place] for domains in problem.domains]
    own = [domains.rows[v] for domains, v in zip(problem.domains, variables, strict=True)]
    scores = [domains.score[v] for domains, v in zip(problem.domains, variables, strict=True)]
    rows, score = replace(own[0], members=(place,)), scores[0]
    if len(own) > 1:
        entities = problem.search.table.entities
        keys = [some.key(some.members[0], entities) for some in own]
        key, at = torch.unique(torch.cat(keys), return_inverse=True)
        rows, score = NodeRows.from_keys(place, key, entities), best_of(at, torch.cat(scores), len(key))
    return positive(problem, rows, score, floor)


def positive(problem: Problem, rows: NodeRows, score: Tensor, floor: Tensor | None) -> tuple[FuzzyNode, Tensor]:
    """The rows that are true in the box and may reach the floor [queries], and a bound on the others [queries]."""
    value, upper = evaluate(problem, rows)
    inside = value > 0
    if floor is not None:
        inside &= upper >= floor[rows.query]
    return split(problem, FuzzyNode(rows, value, upper, score), inside)


def split(problem: Problem, node: FuzzyNode, inside: Tensor) -> tuple[FuzzyNode, Tensor]:
    """The rows of a mask, and a bound on the others [queries]."""
    out = (~inside).nonzero().view(-1)
    lost = best_of(node.rows.query[out], node.upper[out], problem.queries)
    return node.take(inside.nonzero().view(-1)), lost


def allocate(count: Sequence[Tensor], rows: Sequence[Tensor], size: int | None) -> list[Tensor]:
    """How many rows each node gives to a joint domain of `size` tuples (None: all of them), per query.

    λ = (S / Π c_i)^(1/m), b_i = λ c_i, so that Π b_i = S; for two nodes λ = sqrt(nB / (c_u c_v)). Repaired: b_i is
    rounded to 1 … rows; where one hits such an end, the others share what it leaves.

    >>> few, many = torch.tensor([2.0]), torch.tensor([8.0])
    >>> [b.tolist() for b in allocate([few, many], [torch.tensor([100]), torch.tensor([100])], 100)]
    [[5], [20]]
    >>> [b.tolist() for b in allocate([few, many], [torch.tensor([3]), torch.tensor([100])], 100)]
    [[3], [33]]
    """
    if size is None:
        return list(rows)
    most = torch.stack(list(rows)).clamp(max=size).double()  # [nodes, queries]
    mass = torch.stack(list(count)).double().clamp(min=1e-12).log()  # products of counts may be tiny
    share = torch.zeros_like(most)
    settled = torch.zeros_like(most, dtype=torch.bool)
    for _ in rows:
        left = math.log(size) - torch.where(settled, share.clamp(min=1).log(), 0).sum(0)
        scale = (left - torch.where(settled, 0, mass).sum(0)) / (~settled).sum(0).clamp(min=1)
        raw = (mass + scale).exp()
        # Beside a settled node rounding goes down, so that the product stays within the budget.
        whole = torch.where(settled.any(0), (raw * (1 + 1e-9)).floor(), raw.round())
        share = torch.where(settled, share, whole.clamp(min=1).minimum(most))
        low, high = ~settled & (raw < 1 - 1e-9), ~settled & (raw > most)
        settled = settled | torch.where(low.any(0), low, high)
    return list(share.long())


def merge(problem: Problem, nodes: Sequence[FuzzyNode]) -> tuple[NodeRows, Tensor, Tensor]:
    """The joint domain of some nodes: the product of their best rows; also index scores and a bound on what is cut.

    y_u and y_v become one node γ with B_γ = n_γ · B tuples. Edges between members are its self-loops, the others keep
    the member they touch: each edge slices the fuzzy vector of γ row by row (`evaluate`).
    """
    budget, queries = problem.budget, problem.queries
    size = budget.tuples(sum(len(node.rows.members) for node in nodes))
    count = [totals(node.rows.query, node.value, queries) for node in nodes]
    available = [counts(node.rows.query, queries) for node in nodes]
    share = allocate(count, available, size)
    cut = problem.nothing()
    chosen = []
    for node, b in zip(nodes, share, strict=True):
        best, lost = split(problem, node, ranks(node.rows.query, queries, node.value, node.score) < b[node.rows.query])
        cut = cut.maximum(lost)
        chosen.append(best)
    joint = chosen[0]
    for node in chosen[1:]:
        joint = product(problem, joint, node, size)
    if size is not None and len(joint.rows) and int(counts(joint.rows.query, queries).max()) > size:
        joint, lost = split(problem, joint, ranks(joint.rows.query, queries, joint.value) < size)
        cut = cut.maximum(lost)
    return joint.rows, joint.score, cut


def product(problem: Problem, u: FuzzyNode, v: FuzzyNode, size: int | None) -> FuzzyNode:
    """All pairs of rows of two nodes.

    Where the domain may grow large and an edge joins the two, only the pairs that the edge makes true are listed; the
    others have truth 0.
    """
    edges = _edges_between(problem, u, v) if size is None or size > _SPARSE else []
    met = _meet(problem, edges, u, v) if edges else _cross(problem, u, v)
    parts = []
    for left, right in met:
        rows = NodeRows(
            u.rows.members + v.rows.members,
            u.rows.query[left],
            (*(column[left] for column in u.rows.columns), *(column[right] for column in v.rows.columns)),
        )
        value = problem.search.joint(u.value[left], v.value[right])
        upper = torch.minimum(u.upper[left], v.upper[right])
        parts.append(FuzzyNode(rows, value, upper, u.score[left] * v.score[right]))
    return FuzzyNode.join(parts)


def _meet(problem: Problem, edges: list[LiteralBatch], u: FuzzyNode, v: FuzzyNode) -> Iterator[tuple[Tensor, Tensor]]:
    """The pairs of rows that edges make true, in order."""
    free = problem.domains[0].clause.shape.free
    near, far = (replace(node.rows, members=tuple(free[p] for p in node.rows.members)) for node in (v, u))
    met = join_pairs(list(problem.search.pairs(edges, near, far)), problem.search.table)
    order = torch.argsort(met.second * max(len(v.rows), 1) + met.first)
    yield met.second[order], met.first[order]


def _cross(problem: Problem, u: FuzzyNode, v: FuzzyNode) -> Iterator[tuple[Tensor, Tensor]]:
    """All pairs of rows of one query, in blocks."""
    length = counts(v.rows.query, problem.queries)
    start = starts(length)[u.rows.query]
    length = length[u.rows.query]
    total = int(length.sum())
    if total > problem.budget.rows:
        raise BudgetExceeded(
            f"a joint domain of {total:,} tuples is larger than {problem.budget.rows:,}; give a smaller budget"
        )
    for part in blocks(length, problem.search.table.block):
        problem.search.deadline.check()
        left, right = ranges(start[part], length[part])
        yield left + part.start, right


def _edges_between(problem: Problem, u: FuzzyNode, v: FuzzyNode) -> list[LiteralBatch]:
    """The literals between two nodes, if there is one clause, the second node is one variable, and one is positive."""
    if len(problem.domains) > 1 or len(v.rows.members) > 1:
        return []
    clause = problem.domains[0].clause
    near, far = clause.shape.free[v.rows.members[0]], {clause.shape.free[p] for p in u.rows.members}
    between = [lit for lit in clause.literals if near in lit.variables and far & set(lit.variables)]
    return between if any(literal.positive for literal in between) else []


def solve(
    search: FuzzySearch, clauses: Sequence[ClauseBatch], budget: BoxBudget, floor: Tensor | None = None
) -> tuple[Box, Problem]:
    """The joint ranking of queries of one shape. `floor` [queries] drops what is known to be below the k-th truth."""
    problem, outside = pose(search, clauses, budget, floor)
    if not problem.unknowns:
        here = NodeRows((), torch.arange(problem.queries, device=search.table.device), ())
        return _box(problem, here, outside), problem
    nodes = []
    for place in range(problem.unknowns):
        node, lost = marginalise(problem, place, floor)
        nodes.append(node)
        outside = outside.maximum(lost)
    if len(nodes) == 1:
        return Box(**vars(nodes[0]), outside=outside), problem
    if budget.merge == "simultaneous":
        rows, _, cut = merge(problem, nodes)
        return _box(problem, rows, outside.maximum(cut)), problem
    return progressive(problem, nodes, outside, floor), problem


def progressive(problem: Problem, nodes: list[FuzzyNode], outside: Tensor, floor: Tensor | None = None) -> Box:
    """Merges, again and again, the two nodes with the smallest product of fuzzy counts, until one is left.

    Queries may differ in what they merge; those that agree go on together.
    """
    members = [node.rows.members for node in nodes]
    pairs = sorted(
        combinations(range(len(nodes)), 2),
        key=lambda pair: (sum(len(members[i]) for i in pair), *(min(members[i]) for i in pair)),
    )
    count = [totals(node.rows.query, node.value, problem.queries) for node in nodes]
    choice = torch.stack([count[u] * count[v] for u, v in pairs]).argmin(0)  # the first of equals
    parts, bound = [], problem.nothing()
    for number in torch.unique(choice).tolist():
        queries = (choice == number).nonzero().view(-1)
        box = _merge_pair(problem, nodes, queries, pairs[number], outside, floor)
        if len(queries) == problem.queries:
            return box
        bound[queries] = box.outside
        parts.append(replace(box, rows=replace(box.rows, query=queries[box.rows.query])))
    joint = FuzzyNode.join(parts)
    return Box(**vars(joint.take(torch.argsort(joint.rows.query, stable=True))), outside=bound)


def _merge_pair(
    problem: Problem, nodes: list[FuzzyNode], queries: Tensor, pair: tuple[int, int], outside: Tensor,
    floor: Tensor | None,
) -> Box:  # fmt: skip
    """The box of the queries that merge the same pair."""
    if len(queries) < problem.queries:
        number = renumber(queries, problem.queries)
        nodes = [node.take_queries(number) for node in nodes]
        problem, outside = problem.take(queries), outside[queries]
        floor = None if floor is None else floor[queries]
    u, v = (nodes[i] for i in pair)
    rows, score, cut = merge(problem, (v, u) if len(v.rows.members) > 1 else (u, v))
    outside = outside.maximum(cut)
    if len(nodes) == 2:
        return _box(problem, rows, outside)
    joint, lost = positive(problem, rows, score, floor)
    rest = [node for i, node in enumerate(nodes) if i not in pair]
    return progressive(problem, [*rest, joint], outside.maximum(lost), floor)


def _box(problem: Problem, rows: NodeRows, outside: Tensor) -> Box:
    value, upper = evaluate(problem, rows)
    places = range(problem.unknowns)
    rows = NodeRows(tuple(places), rows.query, tuple(rows.column(place) for place in places))
    return Box(rows, value, upper, value, outside)
