"""Metrics against values worked out by hand, and against naive counting over all of E^k."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from repeatable import examples
from tuplet.errors import BadInput
from tuplet.lab.bench.metrics import NAMES, bootstrap, from_marginals, joint_ranks

PAIRS = np.array([[0, 1], [1, 1], [2, 0], [2, 2], [0, 0], [1, 2]])


def test_filtering_removes_other_answers() -> None:
    """Order: easy, hard A, non-answer, hard B. A is first, B is second: the easy tuple and A do not count."""
    ranks = joint_ranks(PAIRS[:4], [0.9, 0.8, 0.7, 0.6], PAIRS[:1], PAIRS[[1, 3]], [0.8, 0.6], complete=True)
    assert ranks.expected.tolist() == [1.0, 2.0]
    assert ranks.values() == {"mrr": 0.75, "hit1": 0.5, "hit3": 1.0, "hit10": 1.0}


def test_ties_count_by_expectation() -> None:
    """One non-answer above, three beside: rank 1 + 1 + 3/2; among the first 3 with chance 2/4."""
    ranks = joint_ranks(PAIRS[:5], [0.9, 0.5, 0.5, 0.5, 0.5], PAIRS[:0], PAIRS[[2]], [0.5], complete=True)
    assert ranks.expected.tolist() == [3.5]
    assert ranks.values() == {"mrr": 1 / 3.5, "hit1": 0.0, "hit3": 0.5, "hit10": 1.0}


def test_tied_answers_do_not_disturb_each_other() -> None:
    """Easy and hard tuples on one plateau with one non-answer: each hard tuple has rank 1.5."""
    ranks = joint_ranks(PAIRS[:4], [1, 1, 1, 1], PAIRS[:1], PAIRS[1:3], [1, 1], complete=True)
    assert ranks.expected.tolist() == [1.5, 1.5]
    assert ranks.values() == {"mrr": 1 / 1.5, "hit1": 0.5, "hit3": 1.0, "hit10": 1.0}


def test_last_bits_do_not_break_ties() -> None:
    a, b = 0.1 * 0.1 * 0.3, 0.3 * 0.1 * 0.1
    assert a != b
    ranks = joint_ranks(PAIRS[:2], [max(a, b), min(a, b)], PAIRS[:0], PAIRS[1:2], [min(a, b)], complete=True)
    assert ranks.expected.tolist() == [1.5]


def test_pruned_tuples_are_missed() -> None:
    given_truth = joint_ranks(PAIRS[:2], [0.9, 0.8], PAIRS[:0], PAIRS[[1, 5]], [0.8, 0.0], complete=True)
    assert given_truth.values() == {"mrr": 0.25, "hit1": 0.0, "hit3": 0.5, "hit10": 0.5}
    looked_up = joint_ranks(PAIRS[:2], [0.9, 0.8], PAIRS[:0], PAIRS[[1, 5]], complete=True)
    assert looked_up.values() == given_truth.values()
    empty = joint_ranks(PAIRS[:0], [], PAIRS[:0], PAIRS[[1]], complete=True)
    assert empty.values() == dict.fromkeys(NAMES, 0.0)


def test_a_cut_list_is_exact_above_its_last_value_only() -> None:
    hard = np.array([[50, 50], [51, 51], [52, 52]])
    listed = np.concatenate([np.column_stack([np.arange(12)] * 2), hard[:1]])
    truth = np.array([0.9] * 11 + [0.5, 0.5])
    ranks = joint_ranks(listed, truth, PAIRS[:0], hard, [0.5, 0.4, 0.95])
    assert ranks.resolved.tolist() == [False, False, True]
    assert ranks.expected.tolist() == [np.inf, np.inf, 1.0]
    assert ranks.is_decided(10).all()  # eleven non-answers stand before the others
    assert ranks.is_decided(12).tolist() == [False, True, True]
    assert ranks.greater.tolist() == [11, 12, 0]


def test_what_is_not_in_a_cut_list_may_equal_its_last_value() -> None:
    listed = np.column_stack([np.arange(12)] * 2)
    ranks = joint_ranks(listed, [0.9] * 3 + [0.5] * 9, PAIRS[:0], np.array([[50, 50]]))
    assert ranks.greater.tolist() == [3]
    assert not ranks.is_decided(10).any()
    assert ranks.is_decided(3).all()
    assert ranks.values() == dict.fromkeys(NAMES, 0.0)


def test_wide_tuples_are_told_apart() -> None:
    """15,000^5 does not fit into 64 bits."""
    wide = np.array([[14_999, 0, 7, 7, 14_999], [14_999, 0, 7, 7, 14_998], [1, 2, 3, 4, 5]])
    ranks = joint_ranks(wide, [0.9, 0.8, 0.7], wide[:1], wide[2:], [0.7], complete=True)
    assert ranks.expected.tolist() == [2.0]


def test_mistakes_are_named() -> None:
    with pytest.raises(BadInput, match="order"):
        joint_ranks(PAIRS[:2], [0.1, 0.2], PAIRS[:0], PAIRS[:1])
    with pytest.raises(BadInput, match="twice"):
        joint_ranks(PAIRS[[0, 0]], [0.2, 0.2], PAIRS[:0], PAIRS[:1])
    with pytest.raises(BadInput, match="2 hard tuples, but 1"):
        joint_ranks(PAIRS[:1], [0.2], PAIRS[:0], PAIRS[:2], [0.1])
    with pytest.raises(BadInput, match="no metrics"):
        joint_ranks(PAIRS[:1], [0.2], PAIRS[:0], PAIRS[:0]).values()
    with pytest.raises(BadInput, match="not a number"):
        from_marginals([[0.1, np.nan]], PAIRS[:0, :1], PAIRS[:1, :1])


truths = st.sampled_from([0.0, 0.25, 0.5, 0.5, 0.75, 1.0])


@examples(60)
@given(st.data(), st.integers(1, 3), st.integers(2, 4))
def test_joint_ranks_equal_naive_counting(data: st.DataObject, k: int, entities: int) -> None:
    truth = {t: data.draw(truths) for t in product(range(entities), repeat=k)}
    tuples = list(truth)
    kinds = data.draw(st.lists(st.sampled_from("nneh"), min_size=len(tuples), max_size=len(tuples)))
    easy = [t for t, kind in zip(tuples, kinds, strict=True) if kind == "e"]
    hard = [t for t, kind in zip(tuples, kinds, strict=True) if kind == "h"] or [tuples[0]]
    easy = [t for t in easy if t not in hard]
    listed = sorted((t for t in tuples if truth[t] > 0), key=lambda t: -truth[t])
    cut = data.draw(st.integers(0, len(listed)))
    for shown, complete in ((listed, True), (listed[:cut], False)):
        ranks = joint_ranks(
            np.array(shown).reshape(-1, k),
            [truth[t] for t in shown],
            np.array(easy).reshape(-1, k),
            np.array(hard),
            [truth[t] for t in hard],
            complete=complete,
        )
        for i, t in enumerate(hard):
            others = [truth[o] for o in tuples if o not in easy and o not in hard]
            greater, ties = sum(o > truth[t] for o in others), sum(o == truth[t] for o in others)
            if not truth[t]:
                assert ranks.reciprocal[i] == 0
            elif ranks.resolved[i]:
                assert ranks.expected[i] == 1 + greater + ties / 2
                for n in (1, 3, 10):
                    places = [n >= greater + place for place in range(1, ties + 2)]
                    assert ranks.hits(n)[i] == pytest.approx(np.mean(places))
            else:
                assert not complete
                assert ranks.greater[i] <= greater


# --- from marginals ----------------------------------------------------------------------------------------------

# f1 ranks entities 0, 1, 2, 3, 4, 5; f2 ranks them 5, 4, 3, 2, 1, 0.
SCORES = [np.array([6.0, 5, 4, 3, 2, 1]), np.array([1.0, 2, 3, 4, 5, 6])]
EASY, HARD = np.array([[0, 3]]), np.array([[1, 5], [4, 3]])


def named(kind: str, mrr: float, *hits: float) -> dict[str, float]:
    return {f"{kind}_{name}": value for name, value in zip(NAMES, (mrr, *hits), strict=True)}


def test_marginal_multiply_and_joint_by_hand() -> None:
    """f1: answers 0, 1, 4; hard 1, 4, ranks 1 and 3 (2 and 3 stand before 4). f2: answers 3, 5; hard 5, rank 1; 3 has
    rank 2 (4 stands before). Raw sums: (1,5): 1 + 0 = 1; (4,3): 4 + 2 = 6; easy (0,3): 0 + 2 = 2."""
    found = from_marginals(SCORES, EASY, HARD)
    marginal = named("marginal", (2 / 3 + 1) / 2, 0.75, 1.0, 1.0)
    multiply = named("multiply", (1 + (1 / 3 * 1 / 2) ** 0.5) / 2, 0.5, 1.0, 1.0)
    # Sums over 6 x 6 ranks: 1, 2, 3, 4, 5, 6, 5, … tuples. (1,5): one before, one other beside: rank 2.5, hit@3 sure.
    # (4,3): 21 with a sum below 6, minus the answers (1,5) and (0,3); 5 with sum 6, one of them itself.
    ranks = [1 + 1 + 1 / 2, 1 + 19 + 4 / 2]
    joint = named("joint", float(np.mean([1 / r for r in ranks])), 0, 0.5, 0.5)
    assert found == pytest.approx({"hard_variables": 2, **marginal, **multiply, **joint})


def test_a_variable_without_hard_values_says_nothing() -> None:
    found = from_marginals(SCORES, np.array([[0, 3]]), np.array([[1, 3]]))
    assert found.items() >= {"hard_variables": 1, **named("marginal", 1.0, 1.0, 1.0, 1.0)}.items()
    none = from_marginals(SCORES, np.array([[0, 3], [1, 4]]), np.array([[1, 3]]))
    assert none["hard_variables"] == 0
    assert not [column for column in none if column.startswith("marginal")]


@examples(60)
@given(st.data(), st.integers(1, 3), st.integers(2, 5))
def test_from_marginals_equals_naive_counting(data: st.DataObject, k: int, entities: int) -> None:
    scores = [data.draw(hnp.arrays(np.float64, entities, elements=truths)) for _ in range(k)]
    tuples = list(product(range(entities), repeat=k))
    chosen = data.draw(st.lists(st.sampled_from(tuples), min_size=1, max_size=6, unique=True))
    cut = data.draw(st.integers(0, len(chosen) - 1))
    easy, hard = chosen[:cut], chosen[cut:]
    found = from_marginals(scores, np.array(easy).reshape(-1, k), np.array(hard))

    def rank(value: float, others: list[float], larger_is_better: bool = True) -> tuple[float, list[float]]:
        sign = 1 if larger_is_better else -1
        greater, ties = sum(sign * o > sign * value for o in others), sum(o == value for o in others)
        hits = [float(np.mean([n >= greater + place for place in range(1, ties + 2)])) for n in (1, 3, 10)]
        return 1 + greater + ties / 2, hits

    per_variable, components = [], []
    for j in range(k):
        answers, known = {t[j] for t in chosen}, {t[j] for t in easy}
        others = [scores[j][e] for e in range(entities) if e not in answers]
        components.append({e: rank(scores[j][e], others) for e in answers})
        new = answers - known
        if new:
            per_variable.append(np.mean([[1 / components[j][e][0], *components[j][e][1]] for e in new], axis=0))
    if per_variable:
        assert [found[f"marginal_{name}"] for name in NAMES] == pytest.approx(np.mean(per_variable, axis=0))
    multiplied = []
    for t in hard:
        parts = [components[j][t[j]] for j in range(k)]
        multiplied.append(
            [np.prod([1 / r for r, _ in parts]) ** (1 / k), *np.prod([hits for _, hits in parts], axis=0)]
        )
    assert [found[f"multiply_{name}"] for name in NAMES] == pytest.approx(np.mean(multiplied, axis=0))
    raw = [[sum(o > s for o in vector) + (sum(o == s for o in vector) - 1) / 2 for s in vector] for vector in scores]
    total = {t: sum(raw[j][t[j]] for j in range(k)) for t in tuples}
    others = [total[t] for t in tuples if t not in chosen]
    joint = [rank(total[t], others, larger_is_better=False) for t in hard]
    assert [found[f"joint_{name}"] for name in NAMES] == pytest.approx(np.mean([[1 / r, *h] for r, h in joint], axis=0))


def test_large_k_stays_finite() -> None:
    rng = np.random.default_rng(0)
    scores = [rng.random(3000) for _ in range(4)]
    best = np.array([[int(np.argmax(s)) for s in scores]])
    assert from_marginals(scores, best[:0], best)["joint_hit1"] == 1.0
    worst = np.array([[int(np.argmin(s)) for s in scores]])
    assert from_marginals(scores, best, worst)["joint_mrr"] == 0.0


# --- averages ----------------------------------------------------------------------------------------------------


def test_means_go_over_queries_then_over_shapes() -> None:
    shapes, overall = bootstrap({"a": [1.0], "b": [0.0, 0.0, 0.5, 0.5]})
    assert (shapes["a"].mean, shapes["b"].mean, overall.mean, overall.queries) == (1.0, 0.25, 0.625, 5)
    assert shapes["a"].low == shapes["a"].high == 1.0
    assert shapes["b"].low < 0.25 < shapes["b"].high


def test_bootstrap_is_seeded_and_covers() -> None:
    rng = np.random.default_rng(1)
    values = {"a": rng.random(400), "b": rng.random(400)}
    assert bootstrap(values, seed=3) == bootstrap(values, seed=3)
    assert bootstrap(values, seed=3) != bootstrap(values, seed=4)
    shapes, overall = bootstrap(values)
    # The interval of a mean of 400 uniform numbers is about ±1.96 · 0.2887 / 20; of two shapes, √2 narrower.
    assert shapes["a"].high - shapes["a"].low == pytest.approx(2 * 1.96 * 0.2887 / 20, rel=0.15)
    assert overall.high - overall.low == pytest.approx(2 * 1.96 * 0.2887 / 20 / 2**0.5, rel=0.15)


def test_empty_results() -> None:
    with pytest.raises(BadInput, match="no results"):
        bootstrap({})
    with pytest.raises(BadInput, match="'a' has no results"):
        bootstrap({"a": []})
