"""Tuples from marginals: one truth vector for each free variable becomes a list of tuples, best product first.

An estimate of the joint ranking: the members of a tuple listed here may not go together at all.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.query.engine import Engine, P, Tuples, Values
from tuplet.query.limits import Deadline, Limits, Only
from tuplet.query.logic import Logic
from tuplet.query.ranking import Clauses
from tuplet.query.source import Source

Scores: TypeAlias = NDArray[np.floating[Any]]  # [k, entities], higher is better, float32 or float64
Admits: TypeAlias = Callable[[Tuples], NDArray[np.bool_]]  # which tuples [n, k] a filter lets through

LISTED = 10_000  # the most tuples that are ranked by marginals
TESTED = 256  # tuples whose status is looked up at once


class MarginalEngine(Engine[P]):
    """An engine that ranks each free variable on its own, the others existential."""

    batched = True
    marginal = True

    @abstractmethod
    def marginals(self, plans: Sequence[P], limits: Limits, deadline: Deadline) -> Sequence[Scores]:
        """The scores of every entity for each free variable: [k, entities] for each plan; raises `OutOfTime`."""

    def truth(self, scores: Scores) -> NDArray[np.float64]:
        """Scores as numbers that may be multiplied: here they are that already."""
        return scores.astype(np.float64, copy=False)


def best_products(vectors: NDArray[np.float64], most: int, logic: Logic) -> tuple[Tuples, Values]:
    """The tuples of largest conjunction of marginals [n, k], and that conjunction [n]; what is 0 is left out.

    A pair of the i-th and the j-th best stands behind (i + 1)(j + 1) - 1 others, so few pairs can be among the best.

    >>> one = np.array([0, 0.5, 1.0])
    >>> [part.tolist() for part in best_products(np.stack([one, one]), 3, Logic.from_name("product"))]
    [[[2, 2], [2, 1], [1, 2]], [1.0, 0.5, 0.5]]
    """
    tuples, value = np.zeros((1, 0), dtype=np.int32), np.ones(1)
    for vector in vectors:
        entities = np.flatnonzero(vector > 0)
        top = entities[np.argsort(-vector[entities], kind="stable")[:most]]
        partners = np.minimum(most // (np.arange(len(value)) + 1), len(top))
        left = np.repeat(np.arange(len(value)), partners)
        right = np.arange(len(left)) - np.repeat(np.cumsum(partners) - partners, partners)
        joint = logic.conjunction(value[left], vector[top][right])
        order = np.argsort(-joint, kind="stable")[:most]
        order = order[joint[order] > 0]
        tuples = np.column_stack([tuples[left[order]], top[right[order]].astype(np.int32)])
        value = joint[order]
    return tuples, value


def top_products(
    vectors: NDArray[np.float64],
    k: int,
    logic: Logic,
    admits: Admits | None = None,
    rank: NDArray[np.integer] | None = None,
) -> tuple[Tuples, Values]:
    """The `k` best products that a filter admits, among 10,000 products; ties in order of `rank` [entities].

    All 10,000 are put in order whatever k is, so that a short list is the beginning of a longer one.
    """
    tuples, value = best_products(vectors, LISTED, logic)
    tie = np.cumsum(np.append(False, value[1:] < value[:-1] * (1 - 1e-12))[: len(value)])
    names = tuples if rank is None else rank[tuples]
    order = np.lexsort((*names.T[::-1], tie))
    tuples, value = tuples[order], value[np.searchsorted(tie, tie)][order]  # a tie has one truth
    if admits is None:
        return tuples[:k], value[:k]
    kept = np.zeros(0, dtype=np.int64)
    for start in range(0, len(tuples), TESTED):
        if len(kept) >= k:
            break
        kept = np.append(kept, start + np.flatnonzero(admits(tuples[start : start + TESTED])))
    return tuples[kept[:k]], value[kept[:k]]


def admits(only: Only | None, clauses: Clauses, source: Source, deadline: Deadline) -> Admits | None:
    """What `only` lets through, within the memory that tensors leave; None if that is everything."""
    if only is None:
        return None
    # compiled kernels and tensors: only where a filter asks for them
    from tuplet.engines.effort import Effort
    from tuplet.engines.exact import Checker
    from tuplet.engines.ns3.tensors import make_room, room_left

    effort = Effort()
    checker = Checker.from_source(clauses, source, effort)

    def test(tuples: Tuples) -> NDArray[np.bool_]:
        before, left = effort.memory.held, room_left()
        effort.memory.most = None if left is None else before + left
        given = checker.holds(tuples, deadline)
        make_room(effort.memory.held - before)  # what it learned stays as long as the search does
        return given if only == "observed" else ~given

    return test
