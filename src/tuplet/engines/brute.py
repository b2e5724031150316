"""The oracle: the joint ranking by dense enumeration of E^k, for small graphs.

It shares no code with the other engines, so that they can be judged by it. Every atom becomes a dense array over its
variables; existentials are maximised out one by one, in the order that keeps the arrays smallest; what remains is the
truth of every tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BudgetExceeded
from tuplet.query.engine import Engine, Plan, Tuples
from tuplet.query.limits import Deadline, Limits
from tuplet.query.logic import PRODUCT, Logic
from tuplet.query.query_graph import QueryGraph
from tuplet.query.ranking import Clauses, Ranking
from tuplet.query.source import Source
from tuplet.truth.table import Truth

Values: TypeAlias = NDArray[np.float64]
Only: TypeAlias = Literal["predicted", "observed"] | None

# Cells of the largest array (float64) that is ever made: 512 MB.
LARGEST = 1 << 26


@dataclass(frozen=True)
class Factor:
    """A dense array with one axis of |E| per variable."""

    scope: tuple[int, ...]
    values: Values


def run(
    clauses: Clauses, truth: Truth, k: int, logic: Logic | str = PRODUCT, only: Only = None, largest: int = LARGEST
) -> Ranking:
    """The `k` best tuples over all of E^k, ties in order of ids.

    >>> from tuplet.query.query_graph import Edge
    >>> from tuplet.truth.table import TruthTable
    >>> table = TruthTable.build(3, 1, np.array([0, 1]), np.array([0, 0]), np.array([1, 2]),
    ...                          np.array([0.5, 0.5]), np.array([False, False]))
    >>> ranking = run([QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 0, 1)))], table, k=5)
    >>> ranking.tuples.tolist(), ranking.truth.tolist(), ranking.exact, ranking.bound
    ([[1, 2]], [0.25], True, 0.0)
    """
    rules = Logic.of(logic)
    matrices = _Matrices(truth)
    tensor = combined(clauses, matrices.truth, truth.entities, rules, largest)
    if only is not None:
        crisp = combined(clauses, matrices.facts, truth.entities, rules, largest) > 0
        tensor = np.where(crisp == (only == "observed"), tensor, 0.0)
    flat = tensor.reshape(-1)
    order = _best(flat, k)
    bound = float(flat[_best(flat, k + 1)[-1]]) if len(order) == k and np.count_nonzero(flat) > k else 0.0
    width = len(clauses[0].free)
    tuples = (
        np.stack(np.unravel_index(order, tensor.shape), axis=1).astype(np.int32)
        if width
        else np.zeros((len(order), 0), dtype=np.int32)
    )
    assignments = tuple(
        _witnesses(clause, tuples, matrices.truth, truth.entities, rules, largest) for clause in clauses
    )
    return Ranking(tuples, flat[order], assignments, exact=True, bound=bound)


def score(clauses: Clauses, truth: Truth, tuples: NDArray[np.integer], logic: Logic | str = PRODUCT) -> Values:
    """The truth of each of the given tuples [n, k] → [n]."""
    rules = Logic.of(logic)
    tensor = combined(clauses, _Matrices(truth).truth, truth.entities, rules, LARGEST)
    return np.asarray(tensor[tuple(np.asarray(tuples).T)] if len(clauses[0].free) else np.full(len(tuples), tensor))


def combined(
    clauses: Clauses, matrix: Callable[[int], Values], entities: int, logic: Logic, largest: int = LARGEST
) -> Values:
    """The truth of every tuple: the disjunction of the clauses over E^k."""
    parts = [_clause_tensor(clause, matrix, entities, logic, largest) for clause in clauses]
    return np.asarray(reduce(logic.disjunction, parts), dtype=np.float64)


def matrices(truth: Truth) -> Callable[[int], Values]:
    """Dense truth of each relation [entities, entities]."""
    return _Matrices(truth).truth


class _Matrices:
    """Dense relation matrices [entities, entities], made when first asked for."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._made: dict[int, tuple[Values, Values]] = {}

    def truth(self, relation: int) -> Values:
        return self._both(relation)[0]

    def facts(self, relation: int) -> Values:
        return self._both(relation)[1]

    def _both(self, relation: int) -> tuple[Values, Values]:
        if relation not in self._made:
            size = self._truth.entities
            _refuse(size * size, LARGEST, f"the matrix of one relation over {size:,} entities")
            values, observed = np.zeros((size, size)), np.zeros((size, size))
            for entity in range(size):
                row = self._truth.row(entity, relation, False)
                values[entity, row.ids] = row.truth
                observed[entity, row.ids] = row.observed
            self._made[relation] = values, observed
        return self._made[relation]


def _factors(clause: QueryGraph, matrix: Callable[[int], Values], entities: int) -> list[Factor]:
    factors = []
    for head, relation, tail, negated in clause.edges:
        values = 1.0 - matrix(relation) if negated else matrix(relation)
        factors.append(_factor(head, tail, values))
    for a, b in clause.different:
        factors.append(_factor(a, b, 1.0 - np.eye(entities)))
    return factors


def _factor(a: int, b: int, values: Values) -> Factor:
    """The factor of a binary relation whose ends may be constants (negative) or one and the same variable."""
    if a < 0 and b < 0:
        return Factor((), values[~a, ~b])
    if a < 0:
        return Factor((b,), values[~a])
    if b < 0:
        return Factor((a,), values[:, ~b])
    if a == b:
        return Factor((a,), values.diagonal())
    return Factor((a, b), values)


def _clause_tensor(
    clause: QueryGraph, matrix: Callable[[int], Values], entities: int, logic: Logic, largest: int
) -> Values:
    """The truth of every tuple under one clause [entities] * k."""
    factors = _maximise(_factors(clause, matrix, entities), clause.existential, entities, logic, largest)
    return _product(factors, clause.free, entities, logic, largest)


def _maximise(
    factors: list[Factor], variables: Sequence[int], entities: int, logic: Logic, largest: int
) -> list[Factor]:
    """The factors with `variables` maximised out, each time the one whose neighbourhood is smallest."""
    remaining = set(variables)

    def neighbours(variable: int) -> set[int]:
        touching: set[int] = set().union(*(f.scope for f in factors if variable in f.scope))
        return touching - {variable}

    while remaining:
        variable = min(sorted(remaining), key=lambda v: len(neighbours(v)))
        remaining.remove(variable)
        scope = tuple(sorted(neighbours(variable)))
        touching = [f for f in factors if variable in f.scope]
        _refuse(entities ** len(scope), largest, f"joining {len(scope)} variables over {entities:,} entities")
        best = np.zeros((entities,) * len(scope))
        # One value of the variable at a time, so that no array is larger than the result.
        for entity in range(entities):
            sliced = [_clamp(f, variable, entity) for f in touching]
            np.maximum(best, _product(sliced, scope, entities, logic, largest), out=best)
        factors = [f for f in factors if variable not in f.scope] + [Factor(scope, best)]
    return factors


def _clamp(factor: Factor, variable: int, entity: int) -> Factor:
    if variable not in factor.scope:
        return factor
    axis = factor.scope.index(variable)
    return Factor(factor.scope[:axis] + factor.scope[axis + 1 :], np.asarray(np.take(factor.values, entity, axis=axis)))


def _product(factors: list[Factor], scope: Sequence[int], entities: int, logic: Logic, largest: int) -> Values:
    """The conjunction of factors as one array whose axes are `scope`."""
    _refuse(entities ** len(scope), largest, f"{len(scope)} variables over {entities:,} entities")
    result = np.ones((entities,) * len(scope))
    for factor in sorted(factors, key=lambda f: len(f.scope)):
        inside = [v for v in scope if v in factor.scope]
        values = np.transpose(factor.values, [factor.scope.index(v) for v in inside])
        shape = [entities if v in factor.scope else 1 for v in scope]
        result = logic.conjunction(result, values.reshape(shape))
    return np.asarray(result)


def _witnesses(
    clause: QueryGraph,
    tuples: NDArray[np.int32],
    matrix: Callable[[int], Values],
    entities: int,
    logic: Logic,
    largest: int,
) -> NDArray[np.int32]:
    """The best values of all variables of the clause for each tuple, the lowest ids among equals; -1 without truth."""
    found = np.full((len(tuples), len(clause.variables)), -1, dtype=np.int32)
    base = _factors(clause, matrix, entities)
    for i, row in enumerate(tuples):
        factors = base
        for variable, entity in zip(clause.free, row, strict=True):
            factors = [_clamp(f, variable, int(entity)) for f in factors]
        values = dict(zip(clause.free, (int(e) for e in row), strict=True))
        whole = float(
            _product(_maximise(factors, clause.existential, entities, logic, largest), (), entities, logic, 1)
        )
        if whole <= 0:
            continue
        for variable in clause.existential:
            rest = [v for v in clause.existential if v not in values and v != variable]
            marginal = _product(
                _maximise(factors, rest, entities, logic, largest), (variable,), entities, logic, largest
            )
            # Equal up to rounding: the factors were multiplied in another order.
            values[variable] = int(np.flatnonzero(marginal >= whole * (1 - 1e-12))[0])
            factors = [_clamp(f, variable, values[variable]) for f in factors]
        found[i] = [values[v] for v in range(len(clause.variables))]
    return found


def _best(flat: Values, k: int) -> NDArray[np.int64]:
    """Positions of the `k` largest positive values, largest first, ties by position."""
    positive = np.flatnonzero(flat > 0)
    if len(positive) > k > 0:
        least = np.partition(flat[positive], len(positive) - k)[len(positive) - k]
        positive = positive[flat[positive] >= least]
    return positive[np.lexsort((positive, -flat[positive]))][:k]


def _refuse(cells: int, largest: int, what: str) -> None:
    if cells > largest:
        raise BudgetExceeded(
            f"the brute engine needs {what}: {cells:,} cells, more than its limit of {largest:,}; use the exact engine"
        )


@dataclass(frozen=True)
class Enumeration(Plan):
    """The plan of the oracle: everything."""

    def text(self, entity: Callable[[int], str], relation: Callable[[int], str]) -> str:
        """One line."""
        return f"enumerate all {len(self.source.graph.entities):,}^{len(self.clauses[0].free)} tuples"


class Brute(Engine[Enumeration]):
    """All of E^k, for small graphs. It has no deadline, so it is not served."""

    name = "brute"
    summary = "the oracle: every tuple, by dense enumeration; small graphs only"
    exact = True
    served = False

    def plan(self, clauses: Clauses, source: Source, limits: Limits) -> Enumeration:
        source.values()
        return Enumeration(clauses, source)

    def run(self, plan: Enumeration, limits: Limits, deadline: Deadline) -> Ranking:
        # everything is looked at: rows computed one by one would take minutes
        truth = plan.source.table(plan.clauses)
        count = limits.count(truth.entities ** len(plan.clauses[0].free))
        return run(plan.clauses, truth, count, limits.rules, limits.only)

    def score(self, plan: Enumeration, tuples: Tuples, limits: Limits, deadline: Deadline) -> Values:
        return score(plan.clauses, plan.source.table(plan.clauses), tuples, limits.rules)
