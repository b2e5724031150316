"""Ranking metrics over tuples: joint ranking, averages, intervals.

**Joint ranking.** A hard tuple of truth v > 0 competes with the non-answers, that is with all tuples of E^k that are
neither easy nor hard. Let G of them have a larger truth and T the same (up to a relative tolerance of 1e-9, since
products of the same factors in another order differ in the last bits). Its expected rank is 1 + G + T/2, its share in
MRR is 1 / (1 + G + T/2), its HIT@n is the expected hit when ties are broken at random: (n - G) / (T + 1), at least 0
and at most 1. A hard tuple of truth 0 (pruned, or below the threshold) is missed: 0 in all metrics.

Methods that rank each free variable on its own have further metrics, as defined by EFOk-CQA: `from_marginals`.

**Averages** go over the hard tuples of a query, then over the queries of a shape, then over shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuplet.errors import BadInput

Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.integer]
Values: TypeAlias = dict[str, float]  # by column, such as mrr, hit1, hit3, hit10

CUTS = (1, 3, 10)
KINDS = ("marginal", "multiply", "joint")  # of metrics from marginals
NAMES = ("mrr", *(f"hit{n}" for n in CUTS))
TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class TupleRanks:
    """Counts of the non-answers that rank before each hard tuple, and of those that tie with it."""

    greater: Floats  # [m]
    ties: Floats  # [m]
    found: Mask  # [m] the tuple has a positive truth and is in reach of the list
    resolved: Mask  # [m] both counts are exact; if not, `greater` is a lower bound and the tuple counts as missed

    @property
    def expected(self) -> Floats:
        """1 + greater + ties / 2, infinite where missed."""
        return np.where(self.found & self.resolved, 1 + self.greater + self.ties / 2, np.inf)

    @property
    def reciprocal(self) -> Floats:
        return np.asarray(1 / self.expected)

    def hits(self, n: int) -> Floats:
        """The expected hit among the first n when ties are broken at random.

        >>> one = np.ones(1, bool)
        >>> TupleRanks(np.array([9.0]), np.array([3.0]), one, one).hits(10).tolist()
        [0.25]
        """
        chance = np.clip((n - self.greater) / (self.ties + 1), 0, 1)
        return np.where(self.found & self.resolved, chance, 0.0)

    def is_decided(self, n: int) -> Mask:
        """For which tuples HIT@n is exact, although their rank may not be."""
        return self.resolved | (self.greater >= n)

    def values(self) -> Values:
        if not len(self.greater):
            raise BadInput("a query without hard answers has no metrics")
        hits = {f"hit{n}": float(self.hits(n).mean()) for n in CUTS}
        return {"mrr": float(self.reciprocal.mean()), **hits}


def joint_ranks(
    tuples: Ints, truth: ArrayLike, easy: Ints, hard: Ints, hard_truth: ArrayLike | None = None, complete: bool = False
) -> TupleRanks:
    """Ranks of the hard tuples from an engine's list of the best tuples [n, k] with their truth, in descending order.

    `hard_truth` are the truth values of the hard tuples, scored one by one; without them they are looked up in the
    list, and those not in it count as unreached. `complete` says that every tuple of positive truth is in the list. In
    an incomplete list tuples with the last value may have been cut, so the ranks are exact above that value only. Ten
    non-answers decide HIT@10, so K = 10 + |easy| + |hard| tuples suffice if the last value is not that of a hard tuple.

    >>> listed = np.array([[1, 1], [2, 2], [3, 3], [4, 4]])
    >>> joint_ranks(listed, [0.9, 0.5, 0.5, 0.1], listed[:1], listed[2:3], [0.5], complete=True).expected.tolist()
    [1.5]
    """
    listed_truth = np.asarray(truth, dtype=np.float64)
    if (np.diff(listed_truth) > TOLERANCE).any():
        raise BadInput("the ranked tuples are not in order of decreasing truth")
    keys, easy_keys, hard_keys = tuple_keys(np.asarray(tuples), np.asarray(easy), np.asarray(hard))
    if len(np.unique(keys)) != len(keys):
        raise BadInput("a tuple is listed twice")
    if hard_truth is None:
        at = find_keys(keys, hard_keys)
        value, unreached = np.append(listed_truth, 0.0)[at], at < 0
    else:
        value, unreached = np.asarray(hard_truth, dtype=np.float64), np.zeros(len(hard_keys), dtype=bool)
        if len(value) != len(hard_keys):
            raise BadInput(f"{len(hard_keys)} hard tuples, but {len(value)} truth values of them")
    others = listed_truth[~np.isin(keys, np.concatenate([easy_keys, hard_keys]))]
    last = listed_truth[-1] if len(listed_truth) else np.inf
    # What is not in a cut list may equal its last value, so only what is greater than that surely stands before it.
    compared = np.where(unreached & (not complete), last, value)
    greater, ties = _count(others[others > 0], compared, TOLERANCE * np.abs(compared))
    resolved = np.ones(len(value), bool) if complete else (value > last * (1 + TOLERANCE)) | (value <= 0) & ~unreached
    return TupleRanks(greater, ties, (value > 0) & ~unreached, resolved)


def find_keys(listed: Ints, wanted: Ints) -> Ints:
    """The place of each wanted number in a list of distinct ones, -1 if it is not there.

    >>> find_keys(np.array([7, 3, 9]), np.array([9, 4])).tolist()
    [2, -1]
    """
    if not len(listed):
        return np.full(len(wanted), -1)
    order = np.argsort(listed)
    at = order[np.minimum(np.searchsorted(listed, wanted, sorter=order), len(listed) - 1)]
    return np.where(listed[at] == wanted, at, -1)


def _count(others: Floats, value: Floats, margin: Floats | float = 0.0) -> tuple[Floats, Floats]:
    """Counts of the others that are greater than each value, and that are equal up to a margin."""
    ascending = np.sort(others)
    above = len(ascending) - np.searchsorted(ascending, value + margin, side="right")
    not_below = len(ascending) - np.searchsorted(ascending, value - margin, side="left")
    return above.astype(np.float64), (not_below - above).astype(np.float64)


def tuple_keys(*tables: Ints) -> list[Ints]:
    """One number for each tuple, the same for the same tuple in any table."""
    k = max(table.shape[1] for table in tables)
    shaped = [table.reshape(-1, k).astype(np.int64) for table in tables]
    base = 1 + max((int(table.max()) for table in shaped if table.size), default=0)
    if base**k < 2**63:
        weights = np.array([base**i for i in range(k)], dtype=np.int64)
        return [table @ weights for table in shaped]
    _, inverse = np.unique(np.concatenate(shaped), axis=0, return_inverse=True)
    return list(np.split(inverse.reshape(-1), np.cumsum([len(t) for t in shaped])[:-1]))


# --- from one ranking for each variable ----------------------------------------------------------------------------


def from_marginals(scores: Sequence[ArrayLike], easy: Ints, hard: Ints) -> Values:
    """Marginal, Multiply and Joint from one score vector [entities] for each free variable (higher is better).

    Marginal: the values of variable j in all answers are its answers, those of easy tuples are easy. Each hard value is
    ranked among the non-answers of its variable (expected rank over ties); means over the hard values of a variable,
    then over the variables that have any.

    Multiply: a hard tuple counts with the filtered ranks of all its values (easy ones too): HIT@n is the product of
    their expected hits, MRR the k-th root of the product of their reciprocal ranks.

    Joint: tuples of E^k are ordered by the sum of the raw 0-based ranks of their values, equal scores sharing their
    mean rank; a hard tuple is ranked among the non-answer tuples, ties again by expectation.

    The keys are columns: `marginal_mrr` … `joint_hit10` (no `marginal_…` if no variable has a hard value), and
    `hard_variables`, how many have one; the published tables keep queries where all do.
    """
    vectors = [np.asarray(vector, dtype=np.float64) for vector in scores]
    easy, hard = (np.asarray(part, dtype=np.int64).reshape(-1, len(vectors)) for part in (easy, hard))
    if not len(hard):
        raise BadInput("a query without hard answers has no metrics")
    if any(np.isnan(vector).any() for vector in vectors):
        raise BadInput("a score is not a number")
    alone, together = [], []
    for vector, known, new in zip(vectors, easy.T, hard.T, strict=True):
        others = np.delete(vector, np.union1d(known, new))
        together.append(_rank(others, vector[new]))
        own = np.setdiff1d(new, known)
        if len(own):
            alone.append(_rank(others, vector[own]).values())
    found: Values = {"hard_variables": len(alone)}
    if alone:
        found |= {f"marginal_{name}": float(np.mean([values[name] for values in alone])) for name in NAMES}
    reciprocal = np.prod([ranks.reciprocal for ranks in together], axis=0) ** (1 / len(vectors))
    hits = {n: float(np.prod([ranks.hits(n) for ranks in together], axis=0).mean()) for n in CUTS}
    found |= {"multiply_mrr": float(reciprocal.mean()), **{f"multiply_hit{n}": value for n, value in hits.items()}}
    return found | {f"joint_{name}": value for name, value in _rank_by_sum(vectors, easy, hard).values().items()}


def _rank(others: Floats, value: Floats) -> TupleRanks:
    """Ranks of values among others; equal means equal."""
    sure = np.ones(len(value), dtype=bool)
    return TupleRanks(*_count(others, value), sure, sure)


_REACH = 1 << 13  # doubled rank sums counted exactly for k > 2; beyond them ranks are above ten billion


def _rank_by_sum(vectors: Sequence[Floats], easy: Ints, hard: Ints) -> TupleRanks:
    """Ranks when all tuples are ordered by the sum of their expected raw ranks (doubled, so that they are whole)."""
    doubled = []
    for vector in vectors:
        order = np.argsort(vector)  # values in order are found much faster
        greater, ties = _count(vector[order], vector[order])
        doubled.append(np.empty(len(vector), dtype=np.int64))
        doubled[-1][order] = 2 * greater + ties - 1  # ties include the entity itself
    size = 2 * len(vectors[0])
    counts = np.bincount(doubled[0], minlength=size).astype(np.float64)
    for middle in doubled[1:-1]:
        counts = np.convolve(counts[:_REACH], np.bincount(middle, minlength=size)[:_REACH])[:_REACH]
    sums = [sum(d[column] for d, column in zip(doubled, table.T, strict=True)) for table in (easy, hard)]
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
        # A factor with `wanted` larger ones is in no tuple that counts; nor is a product below `wanted` others.
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


# --- averages ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """A mean with the interval that holds it."""

    mean: float
    low: float
    high: float
    queries: int


def bootstrap(
    values: Mapping[str, ArrayLike], seed: int = 0, rounds: int = 1000, level: float = 0.95
) -> tuple[dict[str, Estimate], Estimate]:
    """Means over the queries of each shape and over shapes, with percentile intervals from resampled queries.

    A query that an engine did not answer belongs in `values` as 0 (missed). Each shape is resampled by its own stream,
    seeded by the seed and its name.

    >>> shapes, overall = bootstrap({"2fp": [0.0, 1.0], "2fd": [1.0, 1.0]})
    >>> shapes["2fp"].mean, overall.mean, overall.high
    (0.5, 0.75, 1.0)
    """
    if not values:
        raise BadInput("there are no results to average")
    tail = 50 * (1 - level)
    estimates: dict[str, Estimate] = {}
    total = np.zeros(rounds)
    for shape, given in values.items():
        sample = np.asarray(given, dtype=np.float64)
        if not len(sample):
            raise BadInput(f"shape {shape!r} has no results to average")
        rng = np.random.default_rng([seed, crc32(shape.encode())])
        means = sample[rng.integers(len(sample), size=(rounds, len(sample)))].mean(axis=1)
        low, high = np.percentile(means, [tail, 100 - tail])
        estimates[shape] = Estimate(float(sample.mean()), float(low), float(high), len(sample))
        total += means
    low, high = np.percentile(total / len(values), [tail, 100 - tail])
    overall = Estimate(
        mean=float(np.mean([e.mean for e in estimates.values()])),
        low=float(low),
        high=float(high),
        queries=sum(e.queries for e in estimates.values()),
    )
    return estimates, overall
