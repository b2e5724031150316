"""Ranking metrics over tuples: joint ranking, averages, intervals.

**Joint ranking.** A hard tuple of truth v > 0 competes with the non-answers, that is with all tuples of E^k that are
neither easy nor hard. Let G of them have a larger truth and T the same (up to a relative tolerance of 1e-9, since
products of the same factors in another order differ in the last bits). Its expected rank is 1 + G + T/2, its share in
MRR is 1 / (1 + G + T/2), its HIT@n is the expected hit when ties are broken at random: (n - G) / (T + 1), at least 0
and at most 1. A hard tuple of truth 0 (pruned, or below the threshold) is missed: 0 in all metrics.

Methods that rank each free variable on its own have further metrics: `tuplet.lab.bench.marginal_metrics`.

**Averages** go over the hard tuples of a query, then over the queries of a shape, then over shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuplet.errors import BadInput

Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.integer]
Values: TypeAlias = dict[str, float]  # mrr, hit1, hit3, hit10

CUTS = (1, 3, 10)
NAMES = ("mrr", *(f"hit{n}" for n in CUTS))
TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class TupleRanks:
    """How many non-answers stand before each hard tuple, and how many beside it."""

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
        """What each tuple gives to MRR."""
        return np.asarray(1 / self.expected)

    def hits(self, n: int) -> Floats:
        """The expected hit among the first n when ties are broken at random.

        >>> one = np.ones(1, bool)
        >>> TupleRanks(np.array([9.0]), np.array([3.0]), one, one).hits(10).tolist()
        [0.25]
        """
        chance = np.clip((n - self.greater) / (self.ties + 1), 0, 1)
        return np.where(self.found & self.resolved, chance, 0.0)

    def decided(self, n: int) -> Mask:
        """For which tuples HIT@n is exact, although their rank may not be."""
        return self.resolved | (self.greater >= n)

    def values(self) -> Values:
        """The means over the hard tuples."""
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
        value, unreached = _looked_up(keys, listed_truth, hard_keys)
    else:
        value, unreached = np.asarray(hard_truth, dtype=np.float64), np.zeros(len(hard_keys), dtype=bool)
        if len(value) != len(hard_keys):
            raise BadInput(f"{len(hard_keys)} hard tuples, but {len(value)} truth values of them")
    others = listed_truth[~np.isin(keys, np.concatenate([easy_keys, hard_keys]))]
    last = listed_truth[-1] if len(listed_truth) else np.inf
    # What is not in a cut list may equal its last value, so only what is greater than that surely stands before it.
    greater, ties = _counts(others[others > 0], np.where(unreached & (not complete), last, value))
    resolved = np.ones(len(value), bool) if complete else (value > last * (1 + TOLERANCE)) | (value <= 0) & ~unreached
    return TupleRanks(greater, ties, (value > 0) & ~unreached, resolved)


def _looked_up(keys: Ints, truth: Floats, wanted: Ints) -> tuple[Floats, Mask]:
    order = np.argsort(keys)
    at = np.searchsorted(keys[order], wanted)
    at = order[np.minimum(at, max(len(order) - 1, 0))] if len(order) else np.zeros(len(wanted), dtype=np.int64)
    missing = keys[at] != wanted if len(order) else np.ones(len(wanted), dtype=bool)
    return np.where(missing, 0.0, truth[at] if len(order) else 0.0), missing


def _counts(others: Floats, value: Floats) -> tuple[Floats, Floats]:
    """How many of the others are greater than each value, and how many equal."""
    ascending = np.sort(others)
    margin = TOLERANCE * np.abs(value)
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

    A query that an engine did not answer belongs in `values` as 0 (missed); `coverage` tells how many there are. Each
    shape is resampled by its own stream, seeded by the seed and its name.

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


def coverage(answered: ArrayLike) -> float:
    """The share of queries that were answered."""
    return float(np.mean(np.asarray(answered, dtype=bool)))
