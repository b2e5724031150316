"""Asking with NS3: one query with its witnesses, or many of one shape at once.

run(clauses, truth, k)              the joint ranking: NS3(J)
run_marginal(clauses, truth, k)     tuples ranked by the product of their marginals: NS3(M)
marginals(clauses, truth)           the marginal ranking of each free variable
run_batch(queries, table, k)        many queries of one shape, on CPU or CUDA
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.engines.marginals import Members, Only, is_crisp, top_products
from tuplet.engines.ns3.algorithm import Fuzzy, Problem, marginalise, pose, solve
from tuplet.engines.ns3.batch import Clause, structure
from tuplet.engines.ns3.box import Box, gather
from tuplet.engines.ns3.budget import Budget
from tuplet.engines.ns3.search import Clock, OutOfTime, Search
from tuplet.engines.ns3.sparse import Table, Tensor, blocks, counts, falling, tabulate
from tuplet.engines.ns3.witness import witnesses
from tuplet.errors import BudgetExceeded
from tuplet.graph.adjacency import Adjacency
from tuplet.query.logic import PRODUCT, Logic
from tuplet.query.ranking import Clauses, Ranking
from tuplet.truth.table import Truth, TruthTable

_TESTED = 4096  # tuples whose status is looked up at once
_EVERYTHING = 1 << 40  # no box holds so many tuples


class Marginal(NamedTuple):
    """Entities of one variable in order of falling truth."""

    entities: NDArray[np.int32]
    truth: NDArray[np.float64]


@dataclass(frozen=True)
class BatchRanking:
    """The best tuples of many queries: those of query q are `query == q`, in order of falling truth."""

    query: NDArray[np.int64]  # [n]
    tuples: NDArray[np.int64]  # [n, k]
    truth: NDArray[np.float64]  # [n]
    exact: NDArray[np.bool_]  # [queries]
    bound: NDArray[np.float64]  # [queries]


def run(
    clauses: Clauses,
    truth: Truth,
    k: int | None,
    budget: Budget | None = None,
    logic: Logic | str = PRODUCT,
    only: Only = None,
    timeout: float | None = None,
    device: str = "cpu",
    facts: Adjacency | None = None,
) -> Ranking:
    """The `k` best tuples of the budgeted box, ties in order of ids (None: all of them).

    `facts` are the observed facts for `only`, made from the truth values if not given.

    >>> from tuplet.query.query_graph import Edge, QueryGraph
    >>> table = TruthTable.build(3, 1, np.array([0, 1]), np.array([0, 0]), np.array([1, 2]),
    ...                          np.array([0.5, 0.5]), np.array([False, False]))
    >>> ranking = run([QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 0, 1)))], table, k=5)
    >>> ranking.tuples.tolist(), ranking.truth.tolist(), ranking.exact, ranking.bound
    ([[1, 2]], [0.25], True, 0.0)
    """
    budget = budget or Budget()
    k = None if k is not None and k >= _EVERYTHING else k
    listed, asked, search = _prepare(clauses, truth, budget, logic, timeout, device)
    best: Ranking | None = None
    floor: Tensor | None = None
    while True:
        try:
            box, problem = solve(replace(search, enumerate=budget.enumerate), asked, budget, floor)
            shown, hidden = _admitted(box, clauses, listed, k, only, facts)
            certain, bound, kth = box.certify(shown, k, hidden)
            exact = bool(certain[0]) and not budget.normalise
            why = None if exact else f"a budget of {budget.B:,} per variable" if budget.B else "a limit"
            best = _ranking(problem, box, shown, exact, 1.0 if budget.normalise else float(bound[0]), why)
        except OutOfTime:
            return stopped(best, clauses, f"the timeout of {timeout:g} s")
        except BudgetExceeded as error:
            if best is None:
                raise
            return stopped(best, clauses, str(error))
        if best.exact or budget.merge != "adaptive" or budget.B is None or budget.normalise:
            return best
        budget = budget.grown()
        floor = None if budget.B is None else kth * (1 - 1e-9)


def run_marginal(
    clauses: Clauses,
    truth: Truth,
    k: int,
    budget: Budget | None = None,
    logic: Logic | str = PRODUCT,
    only: Only = None,
    timeout: float | None = None,
    device: str = "cpu",
    facts: Adjacency | None = None,
) -> Ranking:
    """The `k` best tuples (at most 10,000) by the product of the marginals of their members, which is the truth shown.

    An estimate: the members of a tuple listed may not go together at all; such a tuple has no witness. Never exact for
    more than one free variable.
    """
    budget = budget or Budget()
    if len(clauses[0].free) < 2:
        return run(clauses, truth, k, budget, logic, only, timeout, device, facts)
    listed, asked, search = _prepare(clauses, truth, budget, logic, timeout, device)
    try:
        problem, nodes, outside = _marginals(search, asked, budget)
        members = [Members(node.rows.columns[0], node.value) for node in nodes]
        known = (facts or listed.facts()) if only else None
        tuples, value = top_products(members, k, search.logic, clauses, only, known)
        highest = min(float(node.upper.max()) if len(node.rows) else 0.0 for node in nodes)
        bound = max(highest, float(outside[0]))
        assignments = tuple(
            witnesses(search, domains.clause, tuples, domains)[0].cpu().numpy().astype(np.int32)
            for domains in problem.domains
        )
    except OutOfTime:
        return stopped(None, clauses, f"the timeout of {timeout:g} s")
    why = "ranked by marginals" if bound else None
    ids = tuples.cpu().numpy().astype(np.int32)
    return Ranking(ids, value.double().cpu().numpy(), assignments, bound == 0, bound, why)


def explain_tuples(
    clauses: Clauses, truth: Truth, tuples: NDArray[np.int32], logic: Logic | str, timeout: float | None = None
) -> tuple[NDArray[np.int32], ...]:
    """The best witness of given tuples in each clause [n, variables], -1 where the clause gives them no truth."""
    _, asked, search = _prepare(clauses, truth, Budget.all(), logic, timeout, "cpu")
    wanted = torch.as_tensor(tuples.astype(np.int64))
    found = (witnesses(search, clause, wanted)[0] for clause in asked)
    return tuple(assignment.numpy().astype(np.int32) for assignment in found)


def marginals(
    clauses: Clauses, truth: Truth, budget: Budget | None = None, logic: Logic | str = PRODUCT, device: str = "cpu"
) -> tuple[Marginal, ...]:
    """The marginal ranking of each free variable, in the order asked."""
    budget = budget or Budget()
    _, asked, search = _prepare(clauses, truth, budget, logic, None, device)
    _, nodes, _ = _marginals(search, asked, budget)
    found = []
    for node in nodes:
        order = falling(node.rows.query, node.value, -node.rows.columns[0])
        ids, values = node.rows.columns[0][order], node.value[order]
        found.append(Marginal(ids.cpu().numpy().astype(np.int32), values.double().cpu().numpy()))
    return tuple(found)


def marginal_vectors(
    queries: Sequence[Clauses], search: Search, budget: Budget, scale: float = 1.0
) -> list[NDArray[np.float64]]:
    """The truth of every entity for each free variable, the others existential [k, entities]; 0 where it was pruned.

    Queries of one shape go together. `scale` is that of negated literals.
    """
    table = search.table
    found = [np.zeros((len(clauses[0].free), table.entities)) for clauses in queries]
    for numbers in by_shape(queries):
        asked = [Clause.of(same, table, scale) for same in zip(*(queries[i] for i in numbers), strict=True)]
        for here, some in chunks(asked, table, budget):
            problem, _ = pose(search, some, budget)
            own = np.array(numbers)[here.cpu().numpy()]
            for place in range(problem.unknowns):
                node, _ = marginalise(problem, place)
                rows = node.rows.query.cpu().numpy()
                parts = np.searchsorted(rows, np.arange(len(own) + 1))
                entity, value = node.rows.columns[0].cpu().numpy(), node.value.double().cpu().numpy()
                for number, start, end in zip(own.tolist(), parts[:-1], parts[1:], strict=True):
                    found[number][place][entity[start:end]] = value[start:end]
    return found


def run_batch(
    queries: Sequence[Clauses],
    table: Table,
    k: int,
    budget: Budget | None = None,
    logic: Logic | str = PRODUCT,
) -> BatchRanking:
    """The `k` best tuples of each of many queries with the same number of unknowns; those of one shape go together."""
    box = solve_batch(queries, table, k, budget, logic)
    order = box.order()
    place = _places(box.rows.query[order], len(queries))
    best = order[place < k]
    shown = torch.zeros(len(box.rows), dtype=torch.bool, device=table.device)
    shown[best] = True
    exact, bound, _ = box.certify(shown, k)
    if budget is not None and budget.normalise:
        exact, bound = torch.zeros_like(exact), torch.ones_like(bound)
    tuples = torch.stack([column[best] for column in box.rows.columns], 1) if box.rows.columns else best[:, None][:, :0]
    arrays = (box.rows.query[best], tuples, box.value[best].double(), exact, bound.double())
    return BatchRanking(*(array.cpu().numpy() for array in arrays))


def solve_batch(
    queries: Sequence[Clauses], table: Table, k: int, budget: Budget | None = None, logic: Logic | str = PRODUCT
) -> Box:
    """The boxes of many queries, one shape after the other, in chunks that keep memory within bounds."""
    budget = budget or Budget()
    search = Search(table, Logic.of(logic), budget.enumerate, budget.normalise)
    parts = []
    for numbers in by_shape(queries):
        asked = [Clause.of(same, table) for same in zip(*(queries[i] for i in numbers), strict=True)]
        box = _solve_chunks(search, asked, k, budget, None)
        parts.append((torch.tensor(numbers, device=table.device), box))
    return parts[0][1] if len(parts) == 1 else gather(parts, len(queries))


def chunks(asked: Sequence[Clause], table: Table, budget: Budget) -> Iterator[tuple[Tensor, list[Clause]]]:
    """Queries of one shape in chunks that keep memory within bounds: their numbers, and their clauses."""
    queries = asked[0].queries
    cost = torch.full((queries,), 4 * (budget.of(len(asked[0].shape.free)) or table.entities), device=table.device)
    for clause in asked:
        for literal in clause.literals:
            if literal.view is not None:
                cost += table.edges(literal.view) + 1  # no list of pairs is longer than the relation's edges
    for part in blocks(cost, 4 * table.block):
        here = torch.arange(queries, device=table.device)[part]
        yield here, [clause.take(here) for clause in asked]


def by_shape(queries: Sequence[Clauses]) -> list[list[int]]:
    """The numbers of the queries that can be searched together."""
    groups: dict[object, list[int]] = {}
    for number, clauses in enumerate(queries):
        groups.setdefault(tuple(structure(clause) for clause in clauses), []).append(number)
    return list(groups.values())


def _solve_chunks(search: Search, asked: Sequence[Clause], k: int, budget: Budget, floor: Tensor | None) -> Box:
    parts = []
    for here, some in chunks(asked, search.table, budget):
        low = None if floor is None else floor[here]
        box, _ = solve(replace(search, enumerate=budget.enumerate), some, budget, low)
        if budget.merge == "adaptive":
            box = _grow(search, some, k, budget, box)
        parts.append((here, box))
    return parts[0][1] if len(parts) == 1 else gather(parts, asked[0].queries)


def _grow(search: Search, asked: Sequence[Clause], k: int, budget: Budget, box: Box) -> Box:
    """The box with the uncertain queries searched again with a larger budget, until rows exceed the limit."""
    order = box.order()
    shown = torch.zeros(len(box.rows), dtype=torch.bool, device=box.value.device)
    shown[order[_places(box.rows.query[order], asked[0].queries) < k]] = True
    certain, _, kth = box.certify(shown, k)
    if bool(certain.all()) or budget.B is None or budget.normalise:
        return box
    budget = budget.grown()
    slack = 1e-9 if box.value.dtype == torch.float64 else 1e-5
    open_, closed = (~certain).nonzero().view(-1), certain.nonzero().view(-1)
    again = [clause.take(open_) for clause in asked]
    try:
        larger = _solve_chunks(search, again, k, budget, None if budget.B is None else kth[open_] * (1 - slack))
    except BudgetExceeded:
        return box
    return gather([(open_, larger), (closed, box.take(closed))], asked[0].queries)


def _places(query: Tensor, queries: int) -> Tensor:
    """The place of each row among the rows of its query."""
    length = counts(query, queries)
    return torch.arange(len(query), device=query.device) - (torch.cumsum(length, 0) - length)[query]


def _prepare(
    clauses: Clauses, truth: Truth, budget: Budget, logic: Logic | str, timeout: float | None, device: str
) -> tuple[TruthTable, list[Clause], Search]:
    relations = sorted({edge.relation for clause in clauses for edge in clause.edges})
    clock = Clock(None if timeout is None else time.monotonic() + timeout)
    listed = tabulate(truth, relations)
    table = Table.of(listed, relations, device)
    asked = [Clause.of([clause], table) for clause in clauses]
    return listed, asked, Search(table, Logic.of(logic), budget.enumerate, budget.normalise, clock)


def _marginals(search: Search, asked: Sequence[Clause], budget: Budget) -> tuple[Problem, list[Fuzzy], Tensor]:
    problem, outside = pose(search, asked, budget)
    nodes = []
    for place in range(problem.unknowns):
        node, lost = marginalise(problem, place)
        nodes.append(node)
        outside = outside.maximum(lost)
    return problem, nodes, outside


def _admitted(
    box: Box, clauses: Clauses, truth: TruthTable, k: int | None, only: Only, facts: Adjacency | None
) -> tuple[Tensor, Tensor | None]:
    """Marks the `k` best rows that the filter admits, and those that it does not admit as far as it looked."""
    order = box.order()
    shown = torch.zeros(len(box.rows), dtype=torch.bool, device=box.value.device)
    if only is None:
        shown[order[:k]] = True
        return shown, None
    hidden, facts = torch.zeros_like(shown), facts or truth.facts()
    left = len(order) if k is None else k
    for some in torch.split(order, _TESTED):
        if not left:
            break
        tuples = torch.stack([column[some] for column in box.rows.columns], 1).cpu().numpy()
        right = torch.as_tensor(is_crisp(clauses, facts, tuples) == (only == "observed"), device=order.device)
        hidden[some[~right]] = True
        shown[some[right][:left]] = True
        left -= min(left, int(right.sum()))
    return shown, hidden


def _ranking(problem: Problem, box: Box, shown: Tensor, exact: bool, bound: float, why: str | None) -> Ranking:
    """The rows shown, with witnesses. A witness better than a truncated search of a cycle found corrects the truth."""
    order = box.order()
    order = order[shown[order]]
    tuples = torch.stack([c[order] for c in box.rows.columns], 1) if box.rows.columns else order[:, None][:, :0]
    value, total = box.value[order], torch.zeros(len(order), dtype=box.value.dtype, device=order.device)
    assignments = []
    for domains in problem.domains:
        found, truth = witnesses(problem.search, domains.clause, tuples, domains)
        assignments.append(found.cpu().numpy().astype(np.int32))
        total = problem.search.either(total, truth)
    if not problem.budget.normalise:
        value = torch.where(total > value * (1 + 1e-9), total, value)
    again = torch.argsort(value, descending=True, stable=True).cpu().numpy()
    return Ranking(
        tuples.cpu().numpy().astype(np.int32)[again],
        value.double().cpu().numpy()[again],
        tuple(assignment[again] for assignment in assignments),
        exact,
        bound,
        why,
    )


def stopped(best: Ranking | None, clauses: Clauses, why: str) -> Ranking:
    """What there is when the search was stopped."""
    if best is not None:
        return replace(best, pruned=why)
    nothing = np.zeros((0, len(clauses[0].free)), dtype=np.int32)
    none = tuple(np.zeros((0, len(clause.variables)), dtype=np.int32) for clause in clauses)
    return Ranking(nothing, np.zeros(0), none, exact=False, bound=1.0, pruned=why)
