"""No truth above what was measured: the bounds cover what they promise to cover, and no promise passes them."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuplet.truth.calibration.reliability import KIND_BINS, MeasuredBounds, upper_bound


def chance_of_at_most(hits: int, trials: int, chance: float) -> float:
    """Computed with whole numbers: no logarithms, no rounding."""
    p = Fraction(chance)
    return float(sum(comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(hits + 1)))


@given(st.integers(1, 60), st.data())
def test_a_larger_share_would_have_left_more_hits_nineteen_times_in_twenty(trials: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, trials))
    bound = upper_bound(hits, trials)
    assert hits / trials <= bound <= 1
    if hits < trials:
        assert chance_of_at_most(hits, trials, bound) == pytest.approx(0.05, abs=1e-4)


def test_bounds_of_known_tables() -> None:
    assert upper_bound(0, 1) == pytest.approx(0.95, abs=1e-5)
    assert upper_bound(0, 59) == pytest.approx(0.0495, abs=1e-4)  # the rule of three
    assert upper_bound(1, 1) == upper_bound(7, 7) == 1.0
    assert upper_bound(20_000, 1_000_000) == pytest.approx(0.02023, abs=1e-5)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.8])
def test_where_every_promise_is_right_the_bound_is_below_it_once_in_twenty_at_most(share: float) -> None:
    rng = np.random.default_rng(1)
    below = np.mean([upper_bound(rng.binomial(40, share), 40) < share for _ in range(2000)])
    assert below <= 0.05 + 3 * (0.05 * 0.95 / 2000) ** 0.5


def brute_bound(relation: int, promise: float, tried: list[tuple[int, float, bool]]) -> float:
    """The bound of one promise from all trials, by plain loops and whole numbers."""

    def of_kind(low: float, high: float, only: int | None) -> float | None:
        kind = [hit for r, p, hit in tried if low <= p < high and only in (None, r)]
        if not kind:
            return None
        hits, trials = sum(kind), len(kind)
        if hits == trials:
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if chance_of_at_most(hits, trials, middle) > 0.05 else (low, middle)
        return high

    bounds = []
    for only in (relation, None):
        spans = [(a, b) for a, b in zip(KIND_BINS, (*KIND_BINS[1:-1], 2.0), strict=False) if a <= promise]
        found = (of_kind(low, high, only) for low, high in reversed(spans))
        bounds.append(next((bound for bound in found if bound is not None), 0.0))
    return min(bounds)


truths = st.floats(0, 1, width=32)
trials = st.lists(st.tuples(st.integers(0, 2), truths, st.booleans()), max_size=40)


@given(trials, st.lists(st.tuples(st.integers(0, 2), truths), min_size=1, max_size=8))
def test_no_promise_is_above_the_bound_of_its_kind(
    tried: list[tuple[int, float, bool]], asked: list[tuple[int, float]]
) -> None:
    relation, promised, hit = (np.array([row[i] for row in tried]) for i in range(3))
    bounds = MeasuredBounds.from_trials(3, relation.astype(int), promised.astype(float), hit.astype(bool))
    of, value = np.array([r for r, _ in asked]), np.array([p for _, p in asked])
    lowered = bounds(of, value)
    for r, before, after in zip(of.tolist(), value.tolist(), lowered.tolist(), strict=True):
        most = brute_bound(r, before, tried)
        assert after <= min(before, most) + 1e-6
        if before < 0.8 * most:
            assert after == before, "what is far below its bound stays as it is"


@given(trials)
def test_the_order_of_promises_of_one_kind_is_kept(tried: list[tuple[int, float, bool]]) -> None:
    bounds = MeasuredBounds.from_trials(
        3,
        np.array([r for r, _, _ in tried], dtype=int),
        np.array([p for _, p, _ in tried]),
        np.array([h for *_, h in tried], dtype=bool),
    )
    rising = bounds(np.zeros(20, dtype=int), np.linspace(KIND_BINS[30], KIND_BINS[31], 20, endpoint=False))
    assert (np.diff(rising) >= 0).all()
    assert (rising == 0).all() or (np.diff(rising) > 0).any()


def test_a_relation_that_was_never_right_is_held_down_though_others_were() -> None:
    relation, promised = np.repeat([0, 1], 200), np.full(400, 0.5)
    bounds = MeasuredBounds.from_trials(3, relation, promised, np.arange(400) < 100)
    mine = bounds(np.array([0, 1, 2]), np.array([0.5, 0.5, 0.5]))
    assert mine[1] < 0.015 < 0.25 < mine[0] < 0.3
    assert mine[2] == 0, "nothing was measured of the third relation"
