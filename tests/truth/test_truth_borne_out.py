"""What held-out facts bear out of a truth: bounds that hold as often as they say, also where truth is too sure."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repeatable import examples
from tuplet.errors import CorruptStore
from tuplet.truth.calibration.fit import SplitCorrection
from tuplet.truth.calibration.reliability import BorneOut

HALVED = SplitCorrection(1.0, 1.0)  # as many facts stay hidden as are held out
NOTHING_ELSE = SplitCorrection()  # what is held out is all there is
SUREST = 0.8  # share of facts among the surest, however sure they are


def too_sure(truth: np.ndarray) -> np.ndarray:
    """How often a candidate really is a fact: as often as it says, but never oftener than this."""
    return np.minimum(truth, SUREST)


def drawn(rng: np.random.Generator, correction: SplitCorrection, each: int = 1) -> BorneOut:
    """Bounds from one random draw of held-out facts; of the others one in `each` was looked at."""
    truth = rng.beta(0.4, 1.2, 12_000)
    share = too_sure(truth)
    chance = share / (correction.times + correction.given * share)  # of being held out: the correction undone
    is_fact = rng.random(len(truth)) < chance
    seen = is_fact | (rng.random(len(truth)) < 1 / each)
    return BorneOut.from_trials(truth[seen], is_fact[seen], np.full(int(seen.sum()), float(each)), correction.share)


@pytest.mark.parametrize("correction", [HALVED, NOTHING_ELSE])
@pytest.mark.parametrize("each", [1, 4])
def test_bounds_hold_at_once_as_often_as_they_say(correction: SplitCorrection, each: int) -> None:
    rng, trials, broken = np.random.default_rng(3), 80, np.zeros(2, int)
    surest = []
    for _ in range(trials):
        found = drawn(rng, correction, each)
        middle = too_sure(found.truth)
        # a group has one bound and many truths: at its mean it may be off by what the curve bends there
        broken += [bool((found.lower > middle + 0.01).any()), bool((found.upper < middle - 0.01).any())]
        surest.append(found.surest)
    assert (broken <= 0.05 * trials + 3 * np.sqrt(0.05 * 0.95 * trials)).all(), broken
    assert SUREST - 0.2 < np.mean(surest) < SUREST, "they are bounds, and not idle ones"


def test_more_facts_bear_out_more_and_what_was_not_looked_at_bears_out_less() -> None:
    truth, label = np.full(400, 0.9), np.arange(400) < 360
    few, many = (BorneOut.from_trials(np.tile(truth, n), np.tile(label, n), np.ones(400 * n), float) for n in (1, 50))
    assert few.surest < many.surest < 0.9
    # the same facts, where one in four of the others was looked at: each stands for four
    seen = label | (np.arange(400) % 4 == 0)
    part = BorneOut.from_trials(truth[seen], label[seen], np.full(int(seen.sum()), 4.0), float)
    assert part.surest < few.surest


candidates = st.lists(
    st.tuples(st.sampled_from([0.01, 0.1, 0.5, 0.7, 0.9, 0.99]), st.booleans()), min_size=1, max_size=200
)


@examples(80)
@given(candidates, st.sampled_from([HALVED.share, NOTHING_ELSE.share, SplitCorrection(2.0, 0.0).share]))
def test_bounds_rise_and_stay_on_their_side(given_: list[tuple[float, bool]], share: Callable[[float], float]) -> None:
    truth, label = np.array([t for t, _ in given_]), np.array([fact for _, fact in given_])
    found, asked = BorneOut.from_trials(truth, label, np.ones(len(truth)), share), np.linspace(0, 1, 101)
    least, most = found.least(asked), found.most(asked)
    assert (np.diff(least) >= -1e-12).all()
    assert (np.diff(most) >= -1e-12).all()
    assert ((least >= 0) & (least <= asked) & (asked <= most) & (most <= 1)).all()
    again = BorneOut.from_dict(found.as_dict(), "store.json")
    assert again.least(asked) == pytest.approx(least, abs=1e-5)
    assert (again.facts, again.most(asked)) == (int(label.sum()), pytest.approx(most, abs=1e-5))


@pytest.mark.parametrize(
    "wrong", [{"least": [0.5, 0.2]}, {"least": [0.1]}, {"truth": "high"}, {"most": None}, {"facts": None}]
)
def test_bounds_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    good = {"facts": 9, "truth": [0, 0.5], "least": [0, 0.4], "most": [0, 0.6]}
    assert BorneOut.from_dict(good, "store.json").surest == 0.4
    with pytest.raises(CorruptStore, match=r"store\.json: borne_out is not what held-out facts bear out"):
        BorneOut.from_dict(good | wrong, "store.json")
