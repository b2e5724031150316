"""Levels of held-out scores keep their promise on any exchangeable scores, and say so where they cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repeatable import examples
from tuplet.errors import CorruptStore
from tuplet.graph.arrays import write_directory
from tuplet.truth.guarantees import Guarantees, ShapeScores, fewest


def held(queries: list[np.ndarray]) -> ShapeScores:
    """Queries with the scores of their hidden answers."""
    shares = np.concatenate([np.full(len(one), 1 / len(one)) for one in queries])
    return ShapeScores("r(f1,s)", "1 free variable, no negation", "1p", len(queries), np.concatenate(queries), shares)


def drawn(rng: np.random.Generator) -> np.ndarray:
    """The scores of a query: some queries are easy, some answers out of reach, and some scores tie."""
    easy, number = rng.random(), int(rng.integers(1, 6))
    return np.where(rng.random(number) < 0.95, np.round(rng.random(number) * easy, 2) + 0.01, 0.0)


@pytest.mark.parametrize("confidence", [0.6, 0.8, 0.9])
def test_the_next_query_is_covered_as_often_as_promised(confidence: float) -> None:
    rng = np.random.default_rng(5)
    covered = []
    for _ in range(600):
        *seen, new = (drawn(rng) for _ in range(61))
        level = held(seen).level(confidence)
        covered += [1.0] if level is None else [(drawn_ >= level).mean() for drawn_ in (new,)]
    error = 3 * np.std(covered) / np.sqrt(len(covered))
    assert confidence - error <= np.mean(covered) <= confidence + 2 / 61 + 0.01 + error


scores = st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.2, 0.5, 0.9]), min_size=1, max_size=4).map(np.array)


@examples(60)
@given(st.lists(scores, min_size=1, max_size=30), st.floats(0.05, 0.97), st.floats(0.05, 0.97))
def test_a_level_is_the_highest_that_misses_little_enough(
    queries: list[np.ndarray], confidence: float, other: float
) -> None:
    shape, n = held(queries), len(queries)
    allowed = (1 - confidence) * (n + 1) - 1 + 1e-9
    fit = [
        level
        for level in {float(s) for one in queries for s in one if s > 0}
        if sum((one < level).mean() for one in queries) <= allowed
    ]
    assert shape.level(confidence) == (max(fit) if fit else None)
    low, high = sorted((confidence, other))
    levels = [shape.level(share) or 0.0 for share in (low, high)]
    assert levels[0] >= levels[1], "a surer set is a larger set"


def test_what_the_table_does_not_reach_leaves_everything() -> None:
    shape = held([np.array([0.5])] * 85 + [np.array([0.0])] * 15)
    assert shape.reach == pytest.approx(0.85)
    assert (shape.level(0.8), shape.level(0.9)) == (0.5, None)
    assert held([np.array([0.5])] * fewest(0.9)).level(0.9) == 0.5
    assert held([np.array([0.5])] * (fewest(0.9) - 1)).level(0.9) is None, "too few queries for any promise"


@examples(60)
@given(st.lists(scores, min_size=1, max_size=20))
def test_what_is_reached_is_what_is_left_without_the_rest(queries: list[np.ndarray]) -> None:
    left = [one[one > 0] for one in queries if (one > 0).any()]
    found = held(queries).drop_unreached()
    assert found.queries == len(left)
    if left:
        assert found.scores.tolist() == held(left).scores.tolist()
        assert found.shares == pytest.approx(held(left).shares)


def test_scores_are_kept_as_they_are(tmp_path: Path) -> None:
    one, two = held([np.array([0.5, 0.0])]), held([np.array([0.25])] * 3)
    found = Guarantees.from_shapes([one, ShapeScores("other", *list(vars(two).values())[1:])], {"seed": 3})
    found.save(tmp_path / "here")
    again = Guarantees.open(tmp_path, {"guarantees": "here"})
    assert again is not None
    assert again.about == {"seed": 3}
    assert [vars(a)["name"] for a in again.shapes.values()] == ["1p", "1p"]
    for shape in found.shapes:
        assert np.array_equal(again.shapes[shape].scores, found.shapes[shape].scores)
        assert np.array_equal(again.shapes[shape].shares, found.shapes[shape].shares)
    write_directory(tmp_path / "none", "guarantees", {"ends": np.zeros(1)}, {"shapes": [], "about": {}})
    with pytest.raises(CorruptStore, match="not the scores of held-out queries"):
        Guarantees.open(tmp_path, {"guarantees": "none"})
