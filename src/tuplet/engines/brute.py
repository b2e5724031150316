"""The oracle: the joint ranking by dense enumeration of E^k, for small graphs.

It shares no code with the other engines, so that they can be judged by it. Every atom becomes a dense array over its
variables; existentials are maximised out one by one, in the order that keeps the arrays smallest; what remains is the
truth of every tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BudgetExceeded, Option
from tuplet.query.conditions import ALL_CONDITIONS, Outside, Within
from tuplet.query.engine import Engine, Plan, Tuples
from tuplet.query.limits import NO_DEADLINE, Deadline, Limits, Only, OutOfTime
from tuplet.query.logic import PRODUCT, Logic
from tuplet.query.ranking import Clauses, QueryGraph, Ranking, stop_ranking
from tuplet.query.source import Source
from tuplet.truth.table import Truth

Values: TypeAlias = NDArray[np.float64]

# Cells of the largest array (float64) that is ever made: 512 MB.
LARGEST = 1 << 26
# Truths that are equal up to this share are one tie: engines multiply the same factors in different orders.
SAME = 1e-12


@dataclass(frozen=True)
class Factor:
    """A dense array with one axis of |E| per variable."""

    scope: tuple[int, ...]
    values: Values

    def clamp(self, variable: int, entity: int) -> Factor:
        """The factor where a variable is an entity."""
        if variable not in self.scope:
            return self
        axis = self.scope.index(variable)
        values = np.asarray(np.take(self.values, entity, axis=axis))
        return Factor(self.scope[:axis] + self.scope[axis + 1 :], values)


def run(
    clauses: Clauses,
    truth: Truth,
    k: int,
    logic: Logic | str = PRODUCT,
    only: Only | None = None,
    largest: int = LARGEST,
    rank: NDArray[np.integer] | None = None,
    deadline: Deadline = NO_DEADLINE,
) -> Ranking:
    """The `k` best tuples over all of E^k; ties in the order of `rank` [entities], which is that of ids if not given.

    >>> from tuplet.query.ranking import Edge
    >>> from tuplet.truth.table import TruthTable
    >>> table = TruthTable.build(3, 1, np.array([0, 1]), np.array([0, 0]), np.array([1, 2]),
    ...                          np.array([0.5, 0.5]), np.array([False, False]))
    >>> ranking = run([QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 0, 1)))], table, k=5)
    >>> ranking.tuples.tolist(), ranking.truth.tolist(), ranking.exact, ranking.bound
    ([[1, 2]], [0.25], True, 0.0)
    """
    space = Space(truth, Logic.from_name(logic), largest, deadline)
    tensor = space.combine(clauses)
    if only is not None:
        crisp = space.combine(clauses, facts=True) > 0
        tensor = np.where(crisp == (only == "observed"), tensor, 0.0)
    tuples, value = _rank(tensor, k + 1, np.arange(truth.entities) if rank is None else rank)
    bound = float(value[k]) if len(value) > k else 0.0
    tuples, value = tuples[:k], value[:k]
    assignments = tuple(space.find_witnesses(clause, tuples) for clause in clauses)
    return Ranking(tuples, value, assignments, exact=True, bound=bound)


def score(
    clauses: Clauses,
    truth: Truth,
    tuples: NDArray[np.integer],
    logic: Logic | str = PRODUCT,
    deadline: Deadline = NO_DEADLINE,
) -> Values:
    """The truth of each of the given tuples [n, k] → [n]."""
    tensor = Space(truth, Logic.from_name(logic), deadline=deadline).combine(clauses)
    return np.asarray(tensor[tuple(np.asarray(tuples).T)] if len(clauses[0].free) else np.full(len(tuples), tensor))


class Space:
    """E^k over a truth table: how truths combine there, and how large and how long an enumeration may be."""

    def __init__(
        self, truth: Truth, logic: Logic = PRODUCT, largest: int = LARGEST, deadline: Deadline = NO_DEADLINE
    ) -> None:
        self.source, self.entities, self.logic = truth, truth.entities, logic
        self.largest, self.deadline = largest, deadline
        self._matrices: dict[int, tuple[Values, Values]] = {}

    def combine(self, clauses: Clauses, facts: bool = False) -> Values:
        """The truth of every tuple: the disjunction of the clauses over E^k. With `facts`, these alone are true."""
        parts = []
        for clause in clauses:
            factors = self._maximise(self._list_factors(clause, facts), clause.existential)
            parts.append(self._multiply(factors, clause.free))
        return np.asarray(reduce(self.logic.disjunction, parts), dtype=np.float64)

    def matrix(self, relation: int, facts: bool = False) -> Values:
        """The truth of a relation [entities, entities], or 1 for its facts; made when it is first asked for."""
        if relation not in self._matrices:
            size = self.entities
            self._refuse(2, f"the matrix of one relation over {size:,} entities")
            values, observed = np.zeros((size, size)), np.zeros((size, size))
            for entity in range(size):
                self.deadline.check()
                row = self.source.row(entity, relation, False)
                values[entity, row.ids] = row.truth
                observed[entity, row.ids] = row.observed
            self._matrices[relation] = values, observed
        return self._matrices[relation][facts]

    def find_witnesses(self, clause: QueryGraph, tuples: Tuples) -> NDArray[np.int32]:
        """The best values of all variables for each tuple, the lowest ids among equals; -1 without truth."""
        found = np.full((len(tuples), len(clause.variables)), -1, dtype=np.int32)
        base = self._list_factors(clause)
        for i, row in enumerate(tuples):
            factors = base
            for variable, entity in zip(clause.free, row, strict=True):
                factors = [factor.clamp(variable, int(entity)) for factor in factors]
            values = dict(zip(clause.free, (int(e) for e in row), strict=True))
            whole = float(self._multiply(self._maximise(factors, clause.existential), ()))
            if whole <= 0:
                continue
            for variable in clause.existential:
                rest = [v for v in clause.existential if v not in values and v != variable]
                marginal = self._multiply(self._maximise(factors, rest), (variable,))
                values[variable] = int(np.flatnonzero(marginal >= whole * (1 - SAME))[0])
                factors = [factor.clamp(variable, values[variable]) for factor in factors]
            found[i] = [values[v] for v in range(len(clause.variables))]
        return found

    def _list_factors(self, clause: QueryGraph, facts: bool = False) -> list[Factor]:
        factors = []
        for head, relation, tail, negated in clause.edges:
            values = self.matrix(relation, facts)
            factors.append(_factor(head, tail, 1.0 - values if negated else values))
        for a, b in clause.different:
            factors.append(_factor(a, b, 1.0 - np.eye(self.entities)))
        everyone = np.arange(self.entities)
        for condition in clause.conditions:
            if isinstance(condition, Within | Outside):
                factors.append(Factor(condition.variables, condition.holds(everyone).astype(np.float64)))
            else:
                pairs = condition.holds(np.repeat(everyone, self.entities), np.tile(everyone, self.entities))
                values = pairs.astype(np.float64).reshape(self.entities, self.entities)
                factors.append(_factor(condition.left, condition.right, values))
        return factors

    def _maximise(self, factors: list[Factor], variables: Sequence[int]) -> list[Factor]:
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
            self._refuse(len(scope), f"joining {len(scope)} variables over {self.entities:,} entities")
            best = np.zeros((self.entities,) * len(scope))
            # One value of the variable at a time, so that no array is larger than the result.
            for entity in range(self.entities):
                sliced = [factor.clamp(variable, entity) for factor in touching]
                np.maximum(best, self._multiply(sliced, scope), out=best)
            factors = [f for f in factors if variable not in f.scope] + [Factor(scope, best)]
        return factors

    def _multiply(self, factors: list[Factor], scope: Sequence[int]) -> Values:
        """The conjunction of factors as one array whose axes are `scope`."""
        self._refuse(len(scope), f"{len(scope)} variables over {self.entities:,} entities")
        result = np.ones((self.entities,) * len(scope))
        for factor in sorted(factors, key=lambda f: len(f.scope)):
            self.deadline.check()
            inside = [v for v in scope if v in factor.scope]
            values = np.transpose(factor.values, [factor.scope.index(v) for v in inside])
            shape = [self.entities if v in factor.scope else 1 for v in scope]
            result = self.logic.conjunction(result, values.reshape(shape))
        return np.asarray(result)

    def _refuse(self, axes: int, what: str) -> None:
        """An array of |E| per axis that is too large."""
        if self.entities**axes > self.largest:
            raise _TooLarge(self.entities**axes, self.largest, what)


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


def _rank(tensor: Values, most: int, rank: NDArray[np.integer]) -> tuple[Tuples, Values]:
    """The tuples of the `most` largest positive truths, ties by the rank of their members; a tie has one truth.

    >>> tuples, truth = _rank(np.array([0.3, 0.1 * 3, 0, 0.5]), 3, np.array([1, 0, 2, 3]))
    >>> tuples.ravel().tolist(), truth.tolist()
    ([3, 1, 0], [0.5, 0.30000000000000004, 0.30000000000000004])
    """
    flat = tensor.reshape(-1)
    at = np.flatnonzero(flat > 0)
    if len(at) > most > 0:  # a list need not be sorted whole, but no tie may be cut
        least = np.partition(flat[at], len(at) - most)[len(at) - most]
        at = at[flat[at] >= least * (1 - 1e-9)]
    at = at[np.argsort(-flat[at], kind="stable")]
    value = flat[at]
    begins = np.append(True, value[1:] < value[:-1] * (1 - SAME))[: len(value)]
    tie = np.cumsum(begins) - 1
    columns = np.unravel_index(at, tensor.shape) if tensor.ndim else ()
    order = np.lexsort((*(rank[column] for column in columns[::-1]), tie))[:most]
    tuples = np.zeros((len(order), tensor.ndim), dtype=np.int32)
    for place, column in enumerate(columns):
        tuples[:, place] = column[order]
    return tuples, value[begins][tie[order]]


def _cell(clauses: Clauses) -> int:
    """Bytes of a cell in all arrays that there may be at once: two for a relation, one for a factor."""
    factors = sum(len(clause.edges) + len(clause.different) + len(clause.conditions) for clause in clauses)
    relations = len({edge.relation for clause in clauses for edge in clause.edges})
    return 8 * (2 * relations + factors + len(clauses) + 4)


class _TooLarge(BudgetExceeded):
    """An array of more cells than there may be."""

    def __init__(self, cells: int, largest: int, what: str) -> None:
        self.cells, self.what = cells, what
        super().__init__(
            f"the brute engine needs {what}: {cells:,} cells, more than its limit of {largest:,}; use the exact engine"
        )


@dataclass(frozen=True)
class Enumeration(Plan):
    """The plan of the oracle: everything."""

    def text(self, entity: Callable[[int], str], relation: Callable[[int], str]) -> str:
        """One line."""
        return f"enumerate all {len(self.source.graph.entities):,}^{len(self.clauses[0].free)} tuples"


class Brute(Engine[Enumeration]):
    """All of E^k, for small graphs: too slow to be served."""

    name = "brute"
    summary = "the oracle: every tuple, by dense enumeration; small graphs only"
    exact = True
    served = False
    conditions = ALL_CONDITIONS

    def plan(self, clauses: Clauses, source: Source, limits: Limits) -> Enumeration:
        source.values()
        return Enumeration(clauses, source)

    def run(self, plan: Enumeration, limits: Limits, deadline: Deadline) -> Ranking:
        # everything is looked at: rows computed one by one would take minutes
        clauses, truth = plan.clauses, plan.source.table(plan.clauses)
        count = limits.count(truth.entities ** len(clauses[0].free))
        rank = plan.source.graph.entities.sort_rank
        largest = LARGEST if limits.memory is None else min(LARGEST, limits.memory // _cell(clauses))
        try:
            return run(clauses, truth, count, limits.rules, limits.only, largest, rank, deadline)
        except _TooLarge as error:
            if error.cells > LARGEST:
                raise
            need = error.cells * _cell(clauses)  # at least: an array that comes later may be larger
            raise BudgetExceeded(
                f"the brute engine needs {error.what}: {need:,} bytes at least,"
                f" more than the memory of {limits.memory:,}; use the exact engine or give ",
                Option("memory", need),
                limit="memory",
            ) from None
        except OutOfTime:
            return stop_ranking(clauses)

    def score(self, plan: Enumeration, tuples: Tuples, limits: Limits, deadline: Deadline) -> Values:
        return score(plan.clauses, plan.source.table(plan.clauses), tuples, limits.rules, deadline)
