"""Small graphs: every fact is judged by predictors that never saw it, and no truth is above what was measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from math import exp, lgamma, log, log1p

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from repeatable import examples
from tuplet.truth.calibration import fit as learned
from tuplet.truth.calibration.calibrate import (
    HeldOutResult,
    HiddenPart,
    calibrate_hidden,
    hide_in_turn,
    missing_as_often,
    promise_together,
    trial_of,
    with_rules,
)
from tuplet.truth.calibration.fit import SplitCorrection, Trial, fit
from tuplet.truth.calibration.reliability import KIND_BINS
from tuplet.truth.calibration.trees import TreeSettings
from tuplet.truth.edges import ScoredEdges

Edge = tuple[int, int, int]  # relation, head, tail


@pytest.fixture(scope="module", autouse=True)
def _few_trees() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learned, "TreeSettings", lambda: TreeSettings(trees=8, depth=3))
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(threads)


def columns(edges: list[Edge]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ids = np.array(edges, dtype=np.int32).reshape(-1, 3)
    return ids[:, 1], ids[:, 0], ids[:, 2]


def graph(facts: int, seed: int, skill: float) -> tuple[tuple[int, int], list[tuple[HiddenPart, ScoredEdges]]]:
    """A random graph and what a predictor of some skill says of it, in one trial for each part that is hidden."""
    rng = np.random.default_rng(seed)
    entities, relations = int(4 + facts**0.5), int(rng.integers(1, 4))
    everything = [(r, h, t) for r in range(relations) for h in range(entities) for t in range(entities)]
    stated = [everything[i] for i in rng.permutation(len(everything))[:facts]]
    facts_set, trials = set(stated), []
    for part in hide_in_turn(columns(stated), seed):
        # what was learned from gets high scores, as it does from a predictor
        seen = {(r, h, t) for h, r, t in zip(*(side.tolist() for side in part.known), strict=True)}
        listed = [edge for edge in everything if edge in seen or rng.random() < 0.7]
        high = np.array([3.0 if e in seen else skill * (e in facts_set) for e in listed])
        logs = np.minimum(high + rng.normal(-4, 1, (1, 2, len(listed))), -1e-3).astype(np.float32)
        heads, relation, tails = columns(listed)
        trials.append((part, ScoredEdges(heads, relation, tails, ("any",), logs)))
    return (entities, relations), trials


@cache
def brute_upper(hits: int, trials: int) -> float:
    """The upper 95 % bound of a share, by bisection over the summed binomial."""
    if hits >= trials:
        return 1.0
    ways = [lgamma(trials + 1) - lgamma(k + 1) - lgamma(trials - k + 1) for k in range(hits + 1)]
    low, high = 0.0, 1.0
    for _ in range(40):
        p = (low + high) / 2
        few = sum(exp(w + k * log(p) + (trials - k) * log1p(-p)) for k, w in enumerate(ways))
        low, high = (p, high) if few > 0.05 else (low, p)
    return high


def bin_of(promise: float) -> int:
    return max(i for i, edge in enumerate(KIND_BINS[:-1]) if edge <= promise)


class BruteBounds:
    """The bound of a promise by relation and bin, counted one trial at a time."""

    def __init__(self, measured: list[tuple[int, float, bool, float]]) -> None:
        self.tried: dict[tuple[object, int], float] = defaultdict(float)
        self.hit: dict[tuple[object, int], float] = defaultdict(float)
        for relation, promise, fact, weight in measured:
            for who in (relation, "all"):
                self.tried[who, bin_of(promise)] += weight
                self.hit[who, bin_of(promise)] += weight * fact

    def __call__(self, relation: int, promise: float) -> float:
        bounds = []
        for who in (relation, "all"):
            at = next((b for b in range(bin_of(promise), -1, -1) if round(self.tried[who, b])), None)
            kind = (who, at)
            bounds.append(0.0 if at is None else brute_upper(round(self.hit[kind]), round(self.tried[kind])))
        return min(bounds)


def promises(
    trials: list[Trial], found: HeldOutResult
) -> tuple[list[dict[Edge, float]], list[tuple[int, float, bool, float]]]:
    """What was promised to each unknown edge in each trial; and relation, promise, label and weight of the measured."""
    if found.learned is None:
        assert found.line is not None
        a, b = found.line
        every = [1 / (1 + np.exp(-(a + b * t.edges.log_truth.double().numpy()))) for t in trials]
    else:
        every = [torch.sigmoid(found.learned.logit(t.known, t.edges).double()).numpy() for t in trials]
    said: list[dict[Edge, float]] = []
    measured = []
    for trial, values in zip(trials, every, strict=True):
        known = trial.known.has(trial.edges.heads, trial.edges.relation, trial.edges.tails).tolist()
        edges = zip(
            *(side.tolist() for side in (trial.edges.relation, trial.edges.heads, trial.edges.tails)), strict=True
        )
        rows = [row for row in zip(edges, values.tolist(), trial.is_fact.tolist(), known, strict=True) if not row[3]]
        said.append({edge: promise for edge, promise, _, _ in rows})
        measured += [(edge[0], promise, fact, 1.0) for edge, promise, fact, _ in rows]
    if found.learned is not None:  # measured is what was promised without seeing the label, of those that were drawn
        again = fit(trials, found.correction, rows=100_000)
        relation = torch.cat([t.edges.relation for t in trials])[again.places].tolist()
        held_out = torch.sigmoid(again.held_out.double()).tolist()
        measured = list(zip(relation, held_out, again.label.bool().tolist(), again.weight.tolist(), strict=True))
    return said, measured


@examples(25)
@given(st.sampled_from([1, 2, 3, 5, 10, 30, 100, 200]), st.integers(0, 10**6), st.sampled_from([0.0, 1.0, 4.0]))
def test_no_listed_truth_is_above_the_bound_of_what_was_measured(facts: int, seed: int, skill: float) -> None:
    check(facts, seed, skill)


@pytest.mark.parametrize("skill", [0.0, 3.0])
def test_nor_where_trees_are_learned(skill: float) -> None:
    assert check(1000, 7, skill).learned is not None


def check(facts: int, seed: int, skill: float) -> HeldOutResult:
    sizes, trials = graph(facts, seed, skill)
    correction = missing_as_often(facts / 5, facts / 20)
    found = calibrate_hidden(sizes, trials, correction, 1e-6)
    listed = list(zip(*(side.tolist() for side in (found.edges.relation, *found.edges[:3:2])), strict=True))
    if not found.facts:
        assert listed == []
        return found
    tried = [trial_of(with_rules(*sizes, part.known), part.hidden, scored) for part, scored in trials]
    said, measured = promises(tried, found)
    bound = BruteBounds(measured)
    stated = {(r, h, t) for part, _ in trials for h, r, t in zip(*(s.tolist() for s in part.hidden), strict=True)}
    assert not stated or found.facts <= len(stated)
    for edge, truth in zip(listed, found.edges.prediction.tolist(), strict=True):
        judgements = [by[edge] for by in said if edge in by]
        assert len(judgements) <= (1 if edge in stated else len(trials))
        share = [bound(edge[0], promise) for promise in judgements]
        missing = [correction.times * p / (1 - correction.given * p) for p in share]
        most = sum(missing) / (1 if edge in stated else len(trials))
        assert 0 < truth <= most + 1e-5
    return found


def test_one_fact_teaches_nothing_and_two_are_hidden_in_turn() -> None:
    one, two = ((np.arange(n), np.zeros(n, dtype=int), np.arange(n)) for n in (1, 2))
    assert hide_in_turn(one, 0) == []
    assert [(p.known[0].tolist(), p.hidden[0].tolist()) for p in hide_in_turn(two, 0)] in (
        [([0], [1]), ([1], [0])],
        [([1], [0]), ([0], [1])],
    )


def test_each_fact_is_hidden_once_and_known_otherwise() -> None:
    ids = np.arange(23)
    parts = hide_in_turn((ids, ids % 3, ids[::-1]), 5)
    assert sorted(np.concatenate([part.hidden[0] for part in parts]).tolist()) == ids.tolist()
    for part in parts:
        assert sorted(np.concatenate([part.known[0], part.hidden[0]]).tolist()) == ids.tolist()
        assert (part.hidden[1] == part.hidden[0] % 3).all()
        assert (part.hidden[2] == 22 - part.hidden[0]).all()


def test_where_the_promises_mean_what_they_say_they_are_kept() -> None:
    """Facts are hidden at random and scores say all there is to know: the truth is the share that comes true."""
    sizes, trials = graph(1000, 3, 4.0)
    found = calibrate_hidden(sizes, trials, missing_as_often(200, 50), 1e-6)
    assert found.after.split == "hidden"
    assert found.after.error_from(0.1) < 0.08
    assert found.before.error_from(0.1) > 0.12


def test_a_predictor_that_knows_nothing_promises_no_more_than_chance() -> None:
    sizes, trials = graph(200, 3, 0.0)
    found = calibrate_hidden(sizes, trials, missing_as_often(40, 40), 1e-6)
    assert found.learned is None
    assert found.edges.prediction.max() < 0.3  # 200 facts among 3 × 18² pairs: 40 are hidden at a time


def test_as_many_are_missing_as_are_said_to_be() -> None:
    sizes, trials = graph(1000, 3, 4.0)
    few, many = (calibrate_hidden(sizes, trials, missing_as_often(200, m), 1e-6).edges for m in (50, 200))
    stated = set(zip(*(np.concatenate([p.hidden[i] for p, _ in trials]).tolist() for i in range(3)), strict=True))
    for edges, most in ((few, 60), (many, 240)):
        new = [t for *edge, t in zip(*(side.tolist() for side in edges), strict=True) if tuple(edge) not in stated]
        assert sum(new) < most


def test_what_most_trials_are_sure_of_is_promised_as_often_as_it_comes_true() -> None:
    """Some facts are found nearly always, some rarely; the mean of trials promises too little to the first."""
    rng, trials, each, noise = np.random.default_rng(0), 4, 400, 40_000
    group = np.concatenate([np.repeat(np.arange(trials), each), np.full(each, trials), np.full(noise, trials + 1)])
    true = group <= trials  # those of the group `trials` are missing: nobody knows them, and they are to be found
    key, lot = np.arange(len(group), dtype=np.int64), rng.random(len(group))
    easy = np.where(lot < np.where(true, 0.6, 0.001), 0.95, np.where(lot < np.where(true, 0.8, 0.02), 0.3, 0.01))
    keys, chances, hidden = [], [], []
    for trial in range(trials):
        out = np.isin(group, [trial, (trial + 1) % trials])
        unknown = out | (group >= trials)
        seen = np.round(10 * (easy + 0.6 * rng.random(len(key)) - 0.3)).clip(0, 10).astype(int)
        chance = np.bincount(seen, out, 11) / np.maximum(np.bincount(seen, unknown, 11), 1)
        keys.append(key[unknown])
        chances.append(chance[seen][unknown])
        hidden.append(key[out])
    joint = promise_together(keys, chances, hidden, SplitCorrection(1.0, 1.0))
    truth, right = joint.truth[~joint.is_fact], true[joint.key][~joint.is_fact]
    for low, high in ((0.05, 0.5), (0.5, 1.0)):
        inside = (truth >= low) & (truth < high)
        assert inside.sum() > 200
        assert abs(truth[inside].mean() - right[inside].mean()) < 0.07
