"""Pairs that rules of two steps speak for, as candidates: against their definition, and beside the other sources."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_truth_candidates import scored_pairs, triples
from test_truth_predictor import Plain
from test_truth_sweep import ENTITIES, RELATIONS, Triples, random_edges, random_model
from test_two_step import Plain as PlainRules

import tuplet
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.predict import model_folder
from tuplet.truth.candidates import sources
from tuplet.truth.candidates.score import finished_relations, score_candidates
from tuplet.truth.candidates.sources import (
    EVERYTHING,
    CandidateChoice,
    CandidateSources,
    TwoStepPairs,
    choose,
    count,
    count_two_step,
    join_two_step,
)
from tuplet.truth.rules import Calibration
from tuplet.truth.two_step import TwoStepRules

LEVELS = (0.14, 0.1, 0.05)
MODELS = {"cheap": random_model(), "whole": Plain(random_model(seed=5), arrays=False)}


def edge_set(edges: Triples) -> set[tuple[int, int, int]]:
    return set(zip(*(side.tolist() for side in edges), strict=True))


def joined_by_rules(edges: Triples, least: float, bounds: np.ndarray) -> set[tuple[int, int, int]]:
    """From the definition."""
    plain = PlainRules(sorted(edge_set(edges)))
    return {
        (h, r, t)
        for (u, v), pairs in plain.joined.items()
        for r in range(RELATIONS)
        if plain.confidence(u, v, r) >= max(least, bounds[r]) and plain.right(u, v, r)
        for h, t in pairs
    }


@pytest.mark.parametrize("others", [CandidateSources(1.0), CandidateSources(0.2, open_from=0.3)], ids=str)
def test_counts_are_those_of_the_definition(others: CandidateSources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "DEARER", 2)  # half as many pairs as half-links: some relation has too many
    edges, valid = random_edges(3, 25, 200), random_edges(4, 25, 200)
    rules = TwoStepRules.from_edges(ENTITIES, RELATIONS, *edges)
    found = count_two_step(rules, edges, valid, others, LEVELS)
    rest = scored_pairs(edges, others.least)
    if others.open_from is not None:
        rest |= scored_pairs(edges, others.least, others.open_from)
    asked = edge_set(valid)
    for place, level in enumerate(LEVELS):
        pairs = joined_by_rules(edges, level, found.bounds)
        got = [int(column[place]) for column in (found.pairs, found.beyond, found.held, found.held_beyond)]
        assert got == [len(pairs), len(pairs - rest), len(pairs & asked), len((pairs & asked) - rest)]
        source = TwoStepPairs(rules, level, found.bounds)
        listed = {(h, r, t) for r in range(RELATIONS) for h, t in zip(*source.ends(r), strict=True)}
        assert listed == pairs
    assert len(set(found.pairs.tolist())) > 1
    half_links = scored_pairs(edges, others.least)
    for r in range(RELATIONS):
        room = sum(edge[1] == r for edge in half_links) // 2
        assert sum(edge[1] == r for edge in joined_by_rules(edges, 0.0, found.bounds)) <= room


def test_pairs_are_listed_whatever_scorers_say_and_leave_other_parts_alone(tmp_path: Path) -> None:
    edges, rule, floor = random_edges(3, 25, 200), Calibration(), 0.3
    sources_ = CandidateSources(0.2, open_from=0.3)
    source = TwoStepPairs(TwoStepRules.from_edges(ENTITIES, RELATIONS, *edges), 0.1, np.zeros(RELATIONS))
    cache = finished_relations(tmp_path, ["a", "b"], sources_, floor, rule, edges)
    assert cache is not None
    alone = score_candidates(MODELS, edges, sources_, floor, rule, cache=cache)
    before = {part.name: part.read_bytes() for part in cache.folder.iterdir()}
    joined = CandidateSources(0.2, open_from=0.3, two_step_from=0.1)
    same = finished_relations(tmp_path, ["a", "b"], joined, floor, rule, edges)
    assert same is not None
    assert same.folder == cache.folder
    later = score_candidates(MODELS, edges, joined, floor, rule, cache=same, two_step=source)
    assert before.items() <= {part.name: part.read_bytes() for part in cache.folder.iterdir()}.items()
    wanted = joined_by_rules(edges, 0.1, source.bounds)
    assert len(wanted - set(triples(alone))) > 20, "most are below the floor"
    assert triples(later) == sorted(wanted | set(triples(alone)), key=lambda edge: (edge[1], edge[0], edge[2]))
    assert triples(score_candidates(MODELS, edges, joined, floor, rule, cache=same, two_step=source)) == triples(later)
    at_once = score_candidates(MODELS, edges, joined, floor, rule, two_step=source)
    assert triples(at_once) == triples(later)
    low = score_candidates(MODELS, edges, CandidateSources(0.2), 1e-9, rule)  # all that there is to say of half-links
    places = {edge: place for place, edge in enumerate(triples(low))}
    new = wanted.difference(triples(alone)).intersection(places)
    fresh = np.array([edge in new for edge in triples(later)])
    said = low.logs[:, :, [places[edge] for edge in triples(later) if edge in new]]
    np.testing.assert_allclose(later.logs[0][:, fresh], said[0], atol=1e-4)
    assert np.isnan(later.logs[1][:, fresh]).all(), "its rows were not computed again"
    np.testing.assert_allclose(at_once.logs[:, :, fresh], said, atol=1e-4)
    np.testing.assert_allclose(at_once.logs[0], later.logs[0], atol=1e-4)


PLANTED = 480  # entities


def planted(heads: int = 160) -> tuple[Triples, Triples]:
    """x → y by 0, y → z by 1, and x → z by 2 for most x; valid edges are between x and z that have none of 2 yet."""
    x = np.arange(heads)
    steps = [(x, 0, x + heads), (x + heads, 1, x + 2 * heads)]
    known = [*steps, (x[: heads // 2], 2, x[: heads // 2] + 2 * heads)]
    columns = np.concatenate([np.stack([h, np.full(len(h), r), t]) for h, r, t in known], axis=1)
    hidden = x[heads // 2 :]
    return tuple(columns), (hidden, np.full(len(hidden), 2), hidden + 2 * heads)  # type: ignore[return-value]


def test_a_planted_rule_holds_what_half_links_miss() -> None:
    edges, valid = planted()
    half_links = CandidateSources(1.0)
    pairs, held = count(PLANTED, 3, edges, valid, [half_links])
    assert held.tolist() == [0]
    # as if half-links held some valid edges, at a hundredth of what these pairs hold for their cost
    choice = CandidateChoice(half_links, int(pairs[0]), {str(half_links): 0.01})
    rules = TwoStepRules.from_edges(PLANTED, 3, *edges)
    joined, source = join_two_step(choice, rules, edges, valid)
    assert source is not None
    assert str(joined.sources) == "half-links × known ends + two-step pairs (0.3)"
    assert joined.held[str(joined.sources)] == pytest.approx(1.01)
    assert joined.held["two-step pairs (0.3)"] == 1
    assert joined.as_dict()["two_step"] == {"pairs": 320, "beyond": 80, "bounded_relations": 0}
    assert joined.pairs == choice.pairs + 80
    scored = score_candidates({"m": random_model(entities=PLANTED)}, edges, joined.sources, 0.9, two_step=source)
    assert edge_set(valid) <= set(triples(scored))
    assert not edge_set(valid) & set(
        triples(score_candidates({"m": random_model(entities=PLANTED)}, edges, half_links, 0.9))
    )


def test_pairs_that_hold_too_little_for_their_cost_do_not_join() -> None:
    edges, valid = planted()
    rules = TwoStepRules.from_edges(PLANTED, 3, *edges)
    dense = CandidateChoice(CandidateSources(1.0), 80, {str(CandidateSources(1.0)): 1.0})
    joined, source = join_two_step(dense, rules, edges, valid)
    assert source is None
    assert joined.sources == dense.sources
    assert joined.held["two-step pairs (0.3)"] == 1, "but what they would hold is told"
    everything = CandidateChoice(EVERYTHING, 3 * PLANTED**2, {str(EVERYTHING): 1.0})
    assert join_two_step(everything, rules, edges, valid) == (everything, None)
    none = np.zeros(0, dtype=np.int64)
    untold = choose(PLANTED, 3, edges, (none, none, none), "half-links")
    assert join_two_step(untold, rules, edges, (none, none, none)) == (untold, None)


def test_index_lists_them_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_SMALL", 0)
    edges, valid = planted()
    ids = [np.concatenate([a, b]) for a, b in zip(edges, valid, strict=True)]
    split = np.repeat([1, 2], [len(edges[0]), len(valid[0])]).astype(np.uint8)
    names = Vocabulary.from_names([f"e{i}" for i in range(PLANTED)]), Vocabulary.from_names(["first", "second", "both"])
    graph = KnowledgeGraph.from_edges(*names, *ids, split)
    model_folder.save(random_model(entities=PLANTED), tmp_path / "m", {"graph": graph.hash})
    choices = {"calibration": "softmax-count", "threshold": 0.9, "force": True, "progress": False}
    for asked, joins in ((None, True), ("half-links", False)):
        store = tuplet.index(graph, tmp_path / "m", tmp_path / "s", candidates=asked, **choices)
        told = store.info()["report"]["candidates"]
        assert ("two-step pairs" in told["sources"], "two_step" in told) == (joins, joins)
        assert told["pairs"] < 3 * PLANTED**2
        assert (told["listed"] >= 320) == joins, "no score reaches the floor"
