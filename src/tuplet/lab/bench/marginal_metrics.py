"""Metrics of methods that rank each free variable on its own, as defined by EFOk-CQA, for any k.

`from_marginals` is the correct form. What the public code computes instead is in `tuplet.lab.bench.efok_metrics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from tuplet.errors import BadInput
from tuplet.lab.bench.metrics import CUTS, NAMES, TOLERANCE, Floats, Ints, TupleRanks, Values

KINDS = ("marginal", "multiply", "joint")


@dataclass(frozen=True)
class FromMarginals:
    """The three metrics of EFOk-CQA for one query."""

    marginal: Values | None  # None if no variable has a hard value
    multiply: Values
    joint: Values
    hard_variables: int  # variables that have a hard value; the published tables keep queries where all have one

    def columns(self) -> dict[str, float]:
        """The same by the names of columns: marginal_mrr, …, joint_hit10, hard_variables."""
        named = zip(KINDS, (self.marginal or {}, self.multiply, self.joint), strict=True)
        values = {f"{kind}_{name}": value for kind, metrics in named for name, value in metrics.items()}
        return {**values, "hard_variables": self.hard_variables}


@dataclass(frozen=True)
class VariableScores:
    """One score vector [entities] for each free variable (higher is better), with the answers of the query."""

    vectors: tuple[Floats, ...]
    easy: Ints  # [n, k]
    hard: Ints  # [m, k]

    @staticmethod
    def of(scores: Sequence[ArrayLike], easy: Ints, hard: Ints) -> VariableScores:
        """The same as arrays; refuses what has no metrics."""
        vectors = tuple(np.asarray(vector, dtype=np.float64) for vector in scores)
        easy, hard = (np.asarray(part, dtype=np.int64).reshape(-1, len(vectors)) for part in (easy, hard))
        if not len(hard):
            raise BadInput("a query without hard answers has no metrics")
        if any(np.isnan(vector).any() for vector in vectors):
            raise BadInput("a score is not a number")
        return VariableScores(vectors, easy, hard)

    def by_variable(self) -> list[Values]:
        """The metrics of each variable that has a hard value, over its hard values."""
        return [_among(others, vector[new]).values() for vector, others, _, new in self._filtered if len(new)]

    def multiply(self) -> Values:
        """The metric Multiply."""
        ranks = [_among(others, vector[hard]) for vector, others, hard, _ in self._filtered]
        reciprocal = np.prod([own.reciprocal for own in ranks], axis=0) ** (1 / len(ranks))
        hits = {f"hit{n}": float(np.prod([own.hits(n) for own in ranks], axis=0).mean()) for n in CUTS}
        return {"mrr": float(reciprocal.mean()), **hits}

    @cached_property
    def _filtered(self) -> list[tuple[Floats, Floats, Ints, Ints]]:
        """For each variable its scores, those of its non-answers, the values in hard tuples, and the hard values."""
        found = []
        for vector, easy, hard in zip(self.vectors, self.easy.T, self.hard.T, strict=True):
            others = np.delete(vector, np.union1d(easy, hard))
            found.append((vector, others, hard, np.setdiff1d(hard, easy)))
        return found


def from_marginals(scores: Sequence[ArrayLike], easy: Ints, hard: Ints) -> FromMarginals:
    """Marginal, Multiply and Joint from one score vector [entities] for each free variable (higher is better).

    Marginal: the values of variable j in all answers are its answers, those of easy tuples are easy. Each hard value is
    ranked among the non-answers of its variable (expected rank over ties); means over the hard values of a variable,
    then over the variables that have any.

    Multiply: a hard tuple counts with the filtered ranks of all its values (easy ones too): HIT@n is the product of
    their expected hits, MRR the k-th root of the product of their reciprocal ranks.

    Joint: tuples of E^k are ordered by the sum of the raw 0-based ranks of their values, equal scores sharing their
    mean rank; a hard tuple is ranked among the non-answer tuples, ties again by expectation.
    """
    given = VariableScores.of(scores, easy, hard)
    own = given.by_variable()
    return FromMarginals(mean_of(own), given.multiply(), _by_sum(given).values(), len(own))


def mean_of(variables: Sequence[Values]) -> Values | None:
    """The mean of each metric over variables; None if there are none."""
    if not variables:
        return None
    return {name: float(np.mean([values[name] for values in variables])) for name in NAMES}


def _among(others: Floats, value: Floats) -> TupleRanks:
    """Ranks of values among others; equal means equal."""
    ascending = np.sort(others)
    above = len(ascending) - np.searchsorted(ascending, value, side="right")
    not_below = len(ascending) - np.searchsorted(ascending, value, side="left")
    sure = np.ones(len(value), dtype=bool)
    return TupleRanks(above.astype(np.float64), (not_below - above).astype(np.float64), sure, sure)


_REACH = 1 << 13  # doubled rank sums counted exactly for k > 2; beyond them ranks are above ten billion


def _by_sum(given: VariableScores) -> TupleRanks:
    """Ranks when all tuples are ordered by the sum of their expected raw ranks (doubled, so that they are whole)."""
    vectors = given.vectors
    doubled = []
    for vector in vectors:
        order = np.argsort(vector)  # values in order are found much faster
        ranks = _among(vector[order], vector[order])
        doubled.append(np.empty(len(vector), dtype=np.int64))
        doubled[-1][order] = 2 * ranks.greater + ranks.ties - 1  # ties include the entity itself
    size = 2 * len(vectors[0])
    counts = np.bincount(doubled[0], minlength=size).astype(np.float64)
    for middle in doubled[1:-1]:
        counts = np.convolve(counts[:_REACH], np.bincount(middle, minlength=size)[:_REACH])[:_REACH]
    sums = [sum(d[column] for d, column in zip(doubled, table.T, strict=True)) for table in (given.easy, given.hard)]
    own = np.asarray(sums[1])
    wanted, inverse = np.unique(own, return_inverse=True)
    if len(vectors) == 1:
        cumulative = np.concatenate([[0.0], np.cumsum(counts)])
        below, upto = cumulative[wanted], cumulative[wanted + 1]
    else:
        last = np.concatenate([[0.0], np.cumsum(np.bincount(doubled[-1], minlength=size))])
        support = np.flatnonzero(counts)
        # Tuples with a sum below S: for each sum x of the others, the entities of the last variable below S - x.
        below, upto = (
            np.array([counts[support] @ last[np.clip(s + more - support, 0, len(last) - 1)] for s in wanted.tolist()])
            for more in (0, 1)
        )
    answers = np.sort(np.concatenate(sums))
    greater = below[inverse] - np.searchsorted(answers, own, side="left")
    ties = (upto - below)[inverse] - (
        np.searchsorted(answers, own, side="right") - np.searchsorted(answers, own, side="left")
    )
    reached = own < _REACH if len(vectors) > 2 else np.ones(len(own), dtype=bool)
    return TupleRanks(greater, np.where(reached, ties, 0.0), reached, np.ones(len(own), dtype=bool))


def product_ranks(scores: Sequence[ArrayLike], easy: Ints, hard: Ints, reach: int = 100) -> TupleRanks:
    """Ranks over all of E^k when tuples are ordered by the product of one score in 0 … 1 for each variable [entities].

    Tuples are counted by classes of equal factors, so plateaus of ties cost nothing. Exact for a tuple with fewer than
    `reach` truer non-answers; the others are missed.

    >>> scores = [np.array([1.0, 1.0, 0.5]), np.array([0.0, 1.0, 1.0])]
    >>> product_ranks(scores, np.array([[0, 1]]), np.array([[1, 1]])).ties.tolist()
    [2.0]
    """
    vectors = [np.asarray(vector, dtype=np.float64) for vector in scores]
    answers = np.concatenate([np.asarray(part, dtype=np.int64).reshape(-1, len(vectors)) for part in (easy, hard)])
    own = np.prod([vector[column] for vector, column in zip(vectors, answers.T, strict=True)], axis=0)
    wanted = reach + len(answers)
    value, count, floor = np.ones(1), np.ones(1), 0.0
    for vector in vectors:
        factor, often = np.unique(vector[vector > 0], return_counts=True)
        factor, often = factor[::-1], often[::-1].astype(np.float64)
        # A factor with `wanted` larger ones is in no tuple that counts; nor is a product below so many others.
        few = np.cumsum(often) - often < wanted
        dropped = factor[~few].max(initial=0.0) * value.max(initial=0.0)
        factor, often = factor[few], often[few]
        both, times = np.outer(value, factor), np.outer(count, often)
        above = np.outer(np.cumsum(count), np.cumsum(often)) - times
        floor = max(floor * factor.max(initial=0.0), dropped, both[above >= wanted].max(initial=0.0))
        value, count = both[above < wanted], times[above < wanted]
        order = np.argsort(-value, kind="stable")
        value, count = value[order], count[order]
    mine = own[len(easy) :]
    # Answers do not compete.
    value, count = np.concatenate([value, own]), np.concatenate([count, -np.ones(len(own))])
    order = np.argsort(value)
    value, total = value[order], np.concatenate([[0.0], np.cumsum(count[order])])
    margin = TOLERANCE * mine
    greater = total[-1] - total[np.searchsorted(value, mine + margin, side="right")]
    upto = total[-1] - total[np.searchsorted(value, mine - margin, side="left")]
    ties = np.maximum(upto - greater, 0)  # below the floor not all are counted
    return TupleRanks(greater, ties, mine > 0, (mine > floor * (1 + TOLERANCE)) | (mine <= 0))
