"""Rules of two steps, against a count in plain Python."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repeatable import examples
from tuplet.truth import two_step
from tuplet.truth.two_step import SHRINK, TwoStepRules

Edge = tuple[int, int, int]  # head, relation, tail

ENTITIES, RELATIONS = 6, 3
EDGES = st.lists(
    st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1)),
    unique=True,
    max_size=40,
)


def learned(edges: list[Edge]) -> TwoStepRules:
    heads, relation, tails = np.array(edges, dtype=np.int32).reshape(-1, 3).T
    return TwoStepRules.from_edges(ENTITIES, RELATIONS, heads, relation, tails)


class Plain:
    """The same, by its definition."""

    def __init__(self, edges: list[Edge]) -> None:
        self.edges = set(edges)
        steps = {(h, 2 * r, t) for h, r, t in edges} | {(t, 2 * r + 1, h) for h, r, t in edges}
        self.paths = defaultdict(list)  # of two ends: first view, middle, second view
        for (a, u, b), (other, v, c) in product(steps, steps):
            if other == b and len({a, b, c}) == 3:
                self.paths[a, c].append((u, b, v))
        self.joined = defaultdict(set)  # of a body: the pairs
        for pair, paths in self.paths.items():
            for u, _, v in paths:
                self.joined[u, v].add(pair)

    def right(self, u: int, v: int, r: int) -> int:
        return sum((h, r, t) in self.edges for h, t in self.joined[u, v])

    def confidence(self, u: int, v: int, r: int, without: int = 0) -> float:
        right = self.right(u, v, r)
        return (right - without) / (len(self.joined[u, v]) + SHRINK) if right else 0.0


@examples(60)
@given(EDGES)
def test_counts_are_those_of_the_definition(edges: list[Edge]) -> None:
    rules, plain = learned(edges), Plain(edges)
    found = {}
    for r in range(RELATIONS):
        for place in range(int(rules.rule_ptr[r]), int(rules.rule_ptr[r + 1])):
            u, v = divmod(int(rules.body[place]), 2 * RELATIONS)
            found[u, v, r] = (int(rules.right[place]), int(rules.joined[place]))
    expected = {
        (u, v, r): (plain.right(u, v, r), len(pairs))
        for (u, v), pairs in plain.joined.items()
        for r in range(RELATIONS)
        if plain.right(u, v, r)
    }
    assert found == expected


@examples(60)
@given(EDGES)
def test_columns_describe_an_edge_as_if_it_were_unknown(edges: list[Edge]) -> None:
    rules, plain = learned(edges), Plain(edges)
    every = [(h, r, t) for r in range(RELATIONS) for h in range(ENTITIES) for t in range(ENTITIES)]
    best, none, paths = rules.columns(*np.array(every).T)
    for place, (h, r, t) in enumerate(every):
        known = int((h, r, t) in plain.edges)
        speaking = [(u, b, v) for u, b, v in plain.paths[h, t] if plain.right(u, v, r)]
        each = [plain.confidence(u, v, r, known) for u, v in {(u, v) for u, _, v in speaking}]
        assert best[place] == pytest.approx(max(each, default=0), abs=1e-6)
        assert none[place] == pytest.approx(sum(math.log1p(-min(c, 0.999)) for c in each), abs=1e-5)
        assert paths[place] == len(speaking)


@examples(40)
@given(EDGES, st.sampled_from([0.05, 0.2, 0.4]))
def test_pairs_are_those_that_good_rules_join(edges: list[Edge], least: float) -> None:
    rules, plain = learned(edges), Plain(edges)
    for r in range(RELATIONS):
        expected = defaultdict(float)
        for (u, v), pairs in plain.joined.items():
            if plain.right(u, v, r) and (confidence := plain.confidence(u, v, r)) >= least:
                for pair in pairs:
                    expected[pair] = max(expected[pair], confidence)
        heads, tails, confidence = rules.pairs(r, least)
        assert list(zip(heads.tolist(), tails.tolist(), strict=True)) == sorted(expected)
        assert confidence.tolist() == pytest.approx([expected[pair] for pair in sorted(expected)])


@examples(40)
@given(EDGES, st.sampled_from([0, 5, 20]))
def test_a_bound_on_pairs_leaves_the_surest_rules(edges: list[Edge], most: int) -> None:
    rules = learned(edges)
    for r in range(RELATIONS):
        confidence, joined = rules.confidence(r), rules.joined[rules.rule_ptr[r] : rules.rule_ptr[r + 1]]
        least = rules.least_within(r, 0.05, most)
        assert joined[confidence >= least].sum() <= most
        assert len(rules.pairs(r, least).heads) <= most
        lower = [c for c in confidence if 0.05 <= c < least]
        assert not lower or joined[confidence >= max(lower)].sum() > most, "no sure rule is left out without need"


def test_small_room_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers that must be filled again and again, and one pair that needs more than there is."""
    edges = [(h, r, t) for h, r, t in product(range(ENTITIES), range(RELATIONS), range(ENTITIES)) if (h + r + t) % 3]
    every = np.array(sorted(product(range(ENTITIES), range(RELATIONS), range(ENTITIES)), key=lambda e: e[1])).T
    before = learned(edges)
    monkeypatch.setattr(two_step, "_ROOM", 4)
    after = learned(edges)
    assert before.right.tolist() == after.right.tolist()
    assert all((x == y).all() for x, y in zip(before.columns(*every), after.columns(*every), strict=True))
    assert [p.tolist() for p in before.pairs(0, 0.1)] == [p.tolist() for p in after.pairs(0, 0.1)]


def test_crowded_middles_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine people of one country: that two share it says nothing of them, and costs the most."""
    edges = [(person, 0, 9) for person in range(9)] + [(0, 1, 1), (2, 0, 10), (3, 0, 10), (2, 1, 3)]
    heads, relation, tails = np.array(edges).T
    whole = TwoStepRules.from_edges(11, 2, heads, relation, tails)
    monkeypatch.setattr(two_step, "_MOST_JOINED", 80)
    lean = TwoStepRules.from_edges(11, 2, heads, relation, tails)
    assert lean.joined[lean.body == 0 * 4 + 1].max() == 2, "two ordered pairs, by the small country"
    assert whole.joined[whole.body == 0 * 4 + 1].max() == 72
    pairs = np.array([(0, 1, 1), (2, 1, 3)]).T
    assert (whole.columns(*pairs).paths.tolist(), lean.columns(*pairs).paths.tolist()) == ([1, 2], [0, 1])
    monkeypatch.setattr(two_step, "_MOST_PATHS", 20)
    assert TwoStepRules.from_edges(11, 2, heads, relation, tails).most < 80, "too many paths in all: lowered further"


def test_a_graph_without_edges_has_no_rules() -> None:
    rules = TwoStepRules.from_edges(0, 0, [], [], [])
    assert len(rules) == 0
    none = np.zeros(0, dtype=np.int32)
    assert [len(column) for column in rules.columns(none, none, none)] == [0, 0, 0]
    assert len(TwoStepRules.from_edges(3, 1, [], [], []).pairs(0, 0.1)[0]) == 0
