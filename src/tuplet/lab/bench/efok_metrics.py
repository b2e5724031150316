"""The metrics as the public code of EFOk-CQA computes them, for comparison only.

Its ties fall as the sort leaves them (here by entity), tuples are placed by a closed estimate, and for k = 2 its
marginal sums slipped: see `slipped`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuplet.lab.bench.marginal_metrics import FromMarginals, VariableScores, mean_of
from tuplet.lab.bench.metrics import Floats, Ints, TupleRanks, Values


def as_published(scores: Sequence[ArrayLike], easy: Ints, hard: Ints) -> FromMarginals:
    """Marginal, Multiply and Joint of the public code, from one score vector [entities] for each free variable."""
    # The order of a stable sort has no ties.
    positions = [-_positions(np.asarray(vector, dtype=np.float64)).astype(np.float64) for vector in scores]
    given = VariableScores.of(positions, easy, hard)
    own = given.by_variable()
    marginal = slipped(*own) if len(positions) == len(own) == 2 else mean_of(own)
    return FromMarginals(marginal, given.multiply(), joint_by_place(positions, easy, hard, cantor), len(own))


def slipped(first: Values, second: Values) -> Values:
    """The marginal means for k = 2, in which the entries of the second variable slipped by one place.

    So "HIT@10" contains half of the second variable's HIT@3, and can exceed 1.
    """
    return {
        "mrr": first["mrr"] / 2,
        "hit1": (first["hit1"] + second["mrr"]) / 2,
        "hit3": (first["hit3"] + second["hit1"]) / 2,
        "hit10": (first["hit10"] + second["hit10"] + second["hit3"]) / 2,
    }


def joint_by_place(
    scores: Sequence[ArrayLike], easy: Ints, hard: Ints, place: Callable[[Sequence[int]], int]
) -> Values:
    """The metric Joint by one of the published estimates of a tuple's place, `cantor` or `closed`.

    The answers that stand before a tuple are subtracted.
    """
    given = VariableScores.of(scores, easy, hard)
    positions = [_positions(vector) for vector in given.vectors]
    answers = np.concatenate([given.easy, given.hard])
    rows = zip(*(p[c].tolist() for p, c in zip(positions, answers.T, strict=True)), strict=True)
    at = np.array([float(place(row)) for row in rows])
    own = at[len(given.easy) :]
    before = np.searchsorted(np.sort(at), own, side="left")
    sure = np.ones(len(own), dtype=bool)
    return TupleRanks(own - before, np.zeros(len(own)), sure, sure).values()


def _positions(scores: Floats) -> NDArray[np.int64]:
    """The 0-based rank of each entity, ties by entity."""
    position = np.empty(len(scores), dtype=np.int64)
    position[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    return position


def cantor(ranks: Sequence[int]) -> int:
    """The 0-based place of a tuple of 0-based ranks: smaller sums first, then smaller first ranks, and so on.

    >>> [cantor(pair) for pair in [(0, 0), (0, 1), (1, 0), (0, 2)]], cantor((1, 0, 0))
    ([0, 1, 2, 3], 3)
    """
    total, k = sum(ranks), len(ranks)
    place = comb(total + k - 1, k)
    for left, rank in zip(range(k - 1, 0, -1), ranks, strict=False):
        place += comb(total + left, left) - comb(total - rank + left, left)
        total -= rank
    return place


def closed(ranks: Sequence[int]) -> int:
    """The 0-based place of the last tuple with the same sum, C(S + k, k) - 1.

    >>> closed((0, 0)), closed((1, 0)), closed((1, 0, 0))
    (0, 2, 3)
    """
    return comb(sum(ranks) + len(ranks), len(ranks)) - 1
