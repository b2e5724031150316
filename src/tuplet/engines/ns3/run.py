"""NS3 on bound queries.

run_many(queries, search, k)        joint rankings: NS3(J); queries of one shape are searched together, on CPU or CUDA
run_marginal(clauses, search, k)    tuples ranked by the product of their marginals: NS3(M)
marginal_vectors(queries, search)   the marginals of each free variable, of many queries
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.engines.marginals import TESTED, Admits, top_products
from tuplet.engines.ns3.algorithm import Box, BoxBudget, Problem, marginalise, pose, solve
from tuplet.engines.ns3.batch import ClauseBatch, Domains, structure
from tuplet.engines.ns3.search import FuzzySearch, witnesses
from tuplet.engines.ns3.tensors import Tensor, TensorTable, blocks, counts, make_room, rank_rows, starts
from tuplet.errors import BudgetExceeded
from tuplet.query.limits import Deadline, OutOfTime
from tuplet.query.logic import Logic
from tuplet.query.ranking import Clauses, Ranking, stop_ranking
from tuplet.query.source import Source

_KEPT = 1 << 25  # a store with more entries is not brought into torch as a whole


def run_many(
    queries: Sequence[Clauses],
    search: FuzzySearch,
    k: int | None,
    budget: BoxBudget | None = None,
    admits: Sequence[Admits | None] | None = None,
    explain: bool = True,
    first: int | None = None,
    rank: NDArray[np.integer] | None = None,
) -> list[Ranking]:
    """The `k` best tuples (None: all) of each query's box, ties in order of `rank` (or of ids).

    Without `explain` they have no witnesses. With `first` they list everything in their boxes, and `exact` is about
    that number of tuples; k decides how long a budget that adapts goes on growing.

    >>> from tuplet.query.logic import PRODUCT
    >>> from tuplet.query.ranking import Edge, QueryGraph
    >>> from tuplet.truth.table import TruthTable
    >>> table = TruthTable.build(3, 1, np.array([0, 1]), np.array([0, 0]), np.array([1, 2]),
    ...                          np.array([0.5, 0.5]), np.array([False, False]))
    >>> chain = QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 0, 1)))
    >>> (ranking,) = run_many([[chain]], FuzzySearch(TensorTable.from_table(table), PRODUCT), k=5)
    >>> ranking.tuples.tolist(), ranking.truth.tolist(), ranking.exact, ranking.bound
    ([[1, 2]], [0.25], True, 0.0)
    """
    names = np.arange(search.table.entities) if rank is None else rank.astype(np.int64)
    in_torch = torch.as_tensor(names, device=search.table.device)
    batch = _Batch(queries, search, k, admits or [None] * len(queries), explain, first, in_torch)
    for numbers, asked in _by_shape(queries, search.table):
        batch.solve(numbers, asked, budget or BoxBudget(), None)
    return [batch.found[number] for number in range(len(queries))]


@dataclass(frozen=True)
class _Batch:
    """Queries that are answered together, and what was found of each."""

    queries: Sequence[Clauses]
    search: FuzzySearch
    k: int | None
    admits: Sequence[Admits | None]
    explain: bool
    first: int | None
    rank: Tensor  # [entities]
    found: dict[int, Ranking] = field(default_factory=dict)

    def solve(
        self, numbers: NDArray[np.int64], asked: Sequence[ClauseBatch], budget: BoxBudget, floor: Tensor | None
    ) -> None:
        """The queries of one shape, in chunks. Where a budget that grows proves too little, a larger one follows."""
        for here, some in chunks(asked, self.search.table, budget):
            own = numbers[here.cpu().numpy()]
            try:
                certain, kth = self._solve(own, some, budget, None if floor is None else floor[here])
            except (OutOfTime, BudgetExceeded) as error:
                if not isinstance(error, OutOfTime) and not all(number in self.found for number in own.tolist()):
                    raise
                why = error.why if isinstance(error, OutOfTime) else str(error)
                for number in own.tolist():
                    self.found[number] = stop_ranking(self.queries[number], why, self.found.get(number), self.explain)
                continue
            if budget.grows and not bool(certain.all()):
                open_, larger = (~certain).nonzero().view(-1), budget.grow()
                low = None if larger.B is None else kth[open_] * (1 - 1e-9)
                self.solve(own[open_.cpu().numpy()], [clause.take(open_) for clause in some], larger, low)

    def _solve(
        self, numbers: NDArray[np.int64], asked: Sequence[ClauseBatch], budget: BoxBudget, floor: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """One chunk with one budget: which of its lists are proven, and their k-th truth."""
        box, problem = solve(self.search, asked, budget, floor)
        filtered = any(self.admits[number] is not None for number in numbers.tolist())
        order, value = box.rank(self.rank, None if filtered or self.first is not None else self.k)
        shown, hidden = self._admit(numbers, box, order)
        certain, bound, kth = box.certify(shown, self.k, hidden)
        proven = certain
        if self.first is not None:
            proven = box.certify(self._best(box, order, self.first), self.first)[0]
            shown = self._best(box, order, None)
            bound = box.certify(shown, None)[1]
        order, value = order[shown[order]], value[shown[order]]
        query, tuples = box.rows.query[order], box.tuples(order)
        assignments: list[NDArray[np.int32]] = []
        if self.explain:
            value, assignments = _explain(problem, query, tuples, value)
            again, value = rank_rows(query, value, list(tuples.T), self.rank)
            query, tuples = query[again], tuples[again]
            assignments = [found[again.cpu().numpy()] for found in assignments]
        ends = np.cumsum(counts(query, len(numbers)).cpu().numpy())
        ids, truth = tuples.cpu().numpy().astype(np.int32), value.cpu().numpy()
        why = f"a budget of {budget.B:,} per variable" if budget.B else "a limit"
        facts = zip(numbers.tolist(), [0, *ends[:-1]], ends, proven.tolist(), bound.tolist(), strict=True)
        for number, start, end, exact, most in facts:
            witness = tuple(found[start:end] for found in assignments)
            own = ids[start:end], truth[start:end], witness
            self.found[number] = Ranking(*own, exact, most, None if exact else why)
        return certain, kth

    def _admit(self, numbers: NDArray[np.int64], box: Box, order: Tensor) -> tuple[Tensor, Tensor]:
        """Marks the `k` best rows that the filters admit, and those that they do not admit as far as they looked."""
        shown = self._best(box, order, self.k)
        hidden = torch.zeros_like(shown)
        if all(self.admits[number] is None for number in numbers.tolist()):
            return shown, hidden
        shown = torch.zeros_like(hidden)
        length = counts(box.rows.query[order], len(numbers))
        for number, own in zip(numbers.tolist(), torch.split(order, length.tolist()), strict=True):
            admits, left = self.admits[number], len(own) if self.k is None else self.k
            for some in torch.split(own, TESTED):
                if not left:
                    break
                admitted = admits(box.tuples(some).cpu().numpy().astype(np.int32)) if admits else np.ones(len(some))
                right = torch.as_tensor(admitted, dtype=torch.bool, device=order.device)
                hidden[some[~right]] = True
                shown[some[right][:left]] = True
                left -= min(left, int(right.sum()))
        return shown, hidden

    def _best(self, box: Box, order: Tensor, k: int | None) -> Tensor:
        """Marks the `k` best rows of each query, or all rows of positive truth."""
        shown = torch.zeros(len(box.rows), dtype=torch.bool, device=order.device)
        length = counts(box.rows.query[order], len(box.outside))
        start = starts(length)
        place = torch.arange(len(order), device=order.device) - start[box.rows.query[order]]
        shown[order if k is None else order[place < k]] = True
        return shown


def _explain(problem: Problem, query: Tensor, tuples: Tensor, value: Tensor) -> tuple[Tensor, list[NDArray[np.int32]]]:
    """The witnesses of tuples. One that is better than what a truncated search of a cycle found corrects the truth."""
    total, assignments = torch.zeros_like(value), []
    for domains in problem.domains:
        found, truth = witnesses(problem.search, domains.clause, query, tuples, domains)
        assignments.append(found.cpu().numpy().astype(np.int32))
        total = problem.search.either(total, truth)
    return torch.where(total > value * (1 + 1e-9), total, value), assignments


def run_marginal(
    clauses: Clauses,
    search: FuzzySearch,
    k: int,
    budget: BoxBudget | None = None,
    admits: Admits | None = None,
    rank: NDArray[np.integer] | None = None,
) -> Ranking:
    """The `k` best tuples (at most 10,000) by the product of the marginals of their members, which is the truth shown.

    An estimate: the members of a tuple listed may not go together at all; such a tuple has no witness. Never exact for
    more than one free variable.
    """
    budget = budget or BoxBudget()
    if len(clauses[0].free) < 2:
        return run_many([clauses], search, k, budget, [admits], rank=rank)[0]
    asked = [ClauseBatch.from_graphs([clause], search.table) for clause in clauses]
    try:
        problem, bound = pose(search, asked, budget)
        make_room(8 * problem.unknowns * search.table.entities)
        vectors, highest = np.zeros((problem.unknowns, search.table.entities)), 1.0
        for place in range(problem.unknowns):
            node, lost = marginalise(problem, place)
            bound = bound.maximum(lost)
            vectors[place][node.rows.columns[0].cpu().numpy()] = node.value.cpu().numpy()
            highest = min(highest, float(node.upper.max()) if len(node.rows) else 0.0)
        tuples, value = top_products(vectors, k, search.logic, admits, rank)
        found = explain_tuples(asked, search, tuples, problem.domains)
    except OutOfTime as over:
        return stop_ranking(clauses, over.why)
    most = max(highest, float(bound[0]))
    return Ranking(tuples, value, found, most == 0, most, "ranked by marginals" if most else None)


def marginal_vectors(
    queries: Sequence[Clauses], search: FuzzySearch, budget: BoxBudget, scale: float = 1.0
) -> list[NDArray[np.float64]]:
    """The truth of every entity for each free variable, the others existential [k, entities]; 0 where it was pruned.

    Queries of one shape go together. `scale` is that of negated literals.
    """
    table = search.table
    make_room(8 * sum(len(clauses[0].free) for clauses in queries) * table.entities)
    found = [np.zeros((len(clauses[0].free), table.entities)) for clauses in queries]
    for numbers, asked in _by_shape(queries, table, scale):
        for here, some in chunks(asked, table, budget):
            problem, _ = pose(search, some, budget)
            own = numbers[here.cpu().numpy()]
            for place in range(problem.unknowns):
                node, _ = marginalise(problem, place)
                ends = np.cumsum(counts(node.rows.query, len(own)).cpu().numpy())
                entity, value = node.rows.columns[0].cpu().numpy(), node.value.cpu().numpy()
                for number, start, end in zip(own.tolist(), [0, *ends[:-1]], ends, strict=True):
                    found[number][place][entity[start:end]] = value[start:end]
    return found


def explain_tuples(
    asked: Sequence[ClauseBatch],
    search: FuzzySearch,
    tuples: NDArray[np.int32],
    within: Sequence[Domains | None] | None = None,
) -> tuple[NDArray[np.int32], ...]:
    """The best witness of given tuples in each clause [n, variables], -1 where the clause gives them no truth.

    Existentials take values `within` the clauses' domains, if these are given.
    """
    wanted = torch.as_tensor(tuples.astype(np.int64), device=search.table.device)
    one = torch.zeros(len(tuples), dtype=torch.int64, device=search.table.device)
    inside = zip(asked, within or [None] * len(asked), strict=True)
    found = (witnesses(search, clause, one, wanted, domains)[0] for clause, domains in inside)
    return tuple(assignment.cpu().numpy().astype(np.int32) for assignment in found)


def make_search(
    queries: Sequence[Clauses], source: Source, logic: Logic, deadline: Deadline, device: str = "cpu"
) -> FuzzySearch:
    """The search on the truth values that some queries need. For several queries they are kept with the source."""
    deadline.check()
    truth, key = source.values(), f"ns3 on {device}"
    if key not in source.prepared and len(queries) > 1 and truth.tabulated:
        table = truth.table(range(truth.relations))
        if len(table.truth) <= _KEPT:
            source.prepared[key] = TensorTable.from_table(table, device=device)
    if key in source.prepared:
        return FuzzySearch(source.prepared[key], logic, deadline=deadline)
    relations = list_relations(queries)
    return FuzzySearch(TensorTable.from_table(truth.table(relations), relations, device), logic, deadline=deadline)


def list_relations(queries: Sequence[Clauses]) -> list[int]:
    """The relations that some queries name, ascending."""
    return sorted({edge.relation for clauses in queries for clause in clauses for edge in clause.edges})


def chunks(
    asked: Sequence[ClauseBatch], table: TensorTable, budget: BoxBudget
) -> Iterator[tuple[Tensor, list[ClauseBatch]]]:
    """Queries of one shape in chunks that keep memory within bounds: their numbers, and their clauses."""
    queries = asked[0].queries
    cost = torch.full((queries,), 4 * (budget.tuples(len(asked[0].shape.free)) or table.entities), device=table.device)
    for clause in asked:
        for literal in clause.literals:
            if literal.view is not None:
                cost += table.edges(literal.view) + 1  # no list of pairs is longer than the relation's edges
    for part in blocks(cost, table.chunk):
        here = torch.arange(queries, device=table.device)[part]
        yield here, [clause.take(here) for clause in asked]


def by_shape(queries: Sequence[Clauses]) -> list[list[int]]:
    """The numbers of the queries that can be searched together."""
    groups: dict[object, list[int]] = {}
    for number, clauses in enumerate(queries):
        groups.setdefault(tuple(structure(clause) for clause in clauses), []).append(number)
    return list(groups.values())


def _by_shape(
    queries: Sequence[Clauses], table: TensorTable, scale: float = 1.0
) -> Iterator[tuple[NDArray[np.int64], list[ClauseBatch]]]:
    """The queries of each shape: their numbers, and their clauses as batches."""
    for numbers in by_shape(queries):
        same = zip(*(queries[i] for i in numbers), strict=True)
        yield np.array(numbers), [ClauseBatch.from_graphs(graphs, table, scale) for graphs in same]
