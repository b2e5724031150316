"""`max_false`: lists keep the share they promise where truth is too sure, by bounds of the predictions they rest on."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from random_graph import random_graph

from random_queries import random_query
from tuplet.engines import brute
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.lang.print import to_logic
from tuplet.query.schema import Guarantee
from tuplet.query.source import Source
from tuplet.query.witness import Witnesses
from tuplet.store import Store
from tuplet.truth.calibration.reliability import BorneOut
from tuplet.truth.table import TruthTable

HEADS, TAILS = 250, 8
SAYS = np.array([0.97, 0.9, 0.6, 0.2])  # what truth says …
COMES = np.array([0.7, 0.7, 0.6, 0.2])  # … and how often it comes true: the surest are too sure


def held_out(seed: int, number: int = 6000) -> BorneOut:
    rng = np.random.default_rng(seed)
    kind = rng.integers(len(SAYS), size=number)
    return BorneOut.from_trials(SAYS[kind], rng.random(number) < COMES[kind], np.ones(number), lambda chance: chance)


def too_sure(seed: int) -> tuple[Source, list[set[str]]]:
    """Each head has eight candidates of all kinds; which of them are facts is hidden as test edges."""
    rng = np.random.default_rng(seed)
    heads, tails = np.repeat(np.arange(HEADS), TAILS), HEADS + np.tile(np.arange(TAILS), HEADS)
    kind = rng.integers(len(SAYS), size=len(heads))
    fact = rng.random(len(heads)) < COMES[kind]
    known = np.array([0]), np.array([0]), np.array([HEADS + TAILS])  # one stated fact
    stated, hidden = (np.full(n, SPLIT_CODE[split], np.uint8) for n, split in ((1, "train"), (fact.sum(), "test")))
    graph = KnowledgeGraph.from_edges(
        Vocabulary.from_names([f"e{i}" for i in range(HEADS + TAILS + 1)]),
        Vocabulary.from_names(["r"]),
        np.concatenate([known[0], heads[fact]]),
        np.zeros(1 + fact.sum(), np.int64),
        np.concatenate([known[2], tails[fact]]),
        np.concatenate([stated, hidden]),
    )
    sides = [np.concatenate(pair) for pair in ((known[0], heads), (known[2], tails), ([1.0], SAYS[kind]))]
    observed = np.arange(len(heads) + 1) == 0
    relation = np.zeros(len(heads) + 1, np.int64)
    table = TruthTable.build(len(graph.entities), 1, sides[0], relation, sides[1], sides[2], observed)
    right = [{f"e{t}" for t in tails[fact & (heads == head)]} for head in range(HEADS)]
    return Source(graph, ("train",), table), right


def shares(source: Source, right: list[set[str]], share: float) -> tuple[list[float], set[bool], str]:
    """How much is wrong of each list that is shown; what is promised; the last words."""
    store, wrong, promised, words = Store(source), list[float](), set[bool](), ""
    for head in range(HEADS):
        answers = store.ask(f"?x : r(e{head}, ?x)", max_false=share)
        assert answers.guarantee is not None
        promised.add(answers.guarantee.promised)
        words = answers.guarantee.words()
        listed = [answer["x"] for answer in answers]
        if listed:
            wrong.append(float(np.mean([name not in right[head] for name in listed])))
    return wrong, promised, words


@pytest.mark.parametrize("share", [0.1, 0.4, 0.6])
def test_lists_keep_the_share_where_truth_is_too_sure(share: float) -> None:
    source, right = too_sure(seed=1)
    by_truth, promised, words = shares(source, right, share)
    assert promised == {False}
    assert words.startswith("not promised: by their truth alone")
    if share == 0.1:
        assert np.mean(by_truth) > 0.25, "the surest are wrong three times in ten"
    wrong, promised, words = shares(replace(source, borne_out=held_out(seed=2)), right, share)
    if share == 0.1:
        assert (wrong, promised) == ([], {False})
        assert words.startswith("no list can be promised: ")
        assert words.endswith("so ask for 0.33 or more")
        return
    assert promised == {True}
    assert len(wrong) > HEADS / 2
    assert np.mean(wrong) <= share + 2 * np.std(wrong) / np.sqrt(len(wrong))
    assert words.startswith(f"at most {100 * share:g} % of these are wrong, as ")


@pytest.mark.parametrize("seed", range(12))
def test_what_is_borne_out_of_a_tuple_is_that_of_its_witness(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(seed, entities=9, relations=3, edges=60)
    known = np.column_stack(graph.edges("train"))
    noise = rng.integers((9, 3, 9), size=(120, 3))
    edges, first = np.unique(np.concatenate([known, noise]), axis=0, return_index=True)
    observed = first < len(known)
    truth = np.where(observed, 1.0, rng.uniform(0.05, 0.98, len(edges)))
    bounds = held_out(seed, 2000)
    low, plain = (
        TruthTable.build(9, 3, *edges.T, np.where(observed, 1.0, side), observed)
        for side in (bounds.least(truth), truth)
    )
    store = Store(Source(graph, ("train",), plain, borne_out=bounds))
    for _ in range(4):
        query = random_query(graph, rng, free=(1, 2))
        question = store.question(to_logic(query))
        answers = store.ask(to_logic(query), k=50)
        ranking = answers.ranking
        witnesses = Witnesses.from_ranking(ranking, question.clauses, store.source)
        least = witnesses.least_truth(bounds)
        for i, value in enumerate(least):
            by_clause: dict[int, list[float]] = {}
            for j in np.flatnonzero(witnesses.counts[i]).tolist():
                at = witnesses.truth[i, j : j + 1]
                bound = 1 - bounds.most(1 - at)[0] if witnesses.edges[j].negated else bounds.least(at)[0]
                known = at[0] if witnesses.observed[i, j] else bound
                by_clause.setdefault(witnesses.clause[j], []).append(float(known))
            assert value == pytest.approx(1 - prod(1 - prod(side) for side in by_clause.values()))
        assert (least <= ranking.truth + 1e-9).all()
        if not any(edge.negated for clause in question.clauses for edge in clause.edges):
            best = brute.score(question.clauses, low, ranking.tuples)
            assert (least <= best + 1e-6).all(), "another witness may bear out more, never less"
            if not any(clause.existential for clause in question.clauses):
                assert least == pytest.approx(best, abs=1e-6)


def test_a_promised_list_that_was_cut_says_so() -> None:
    source, _ = too_sure(seed=1)
    store = Store(replace(source, borne_out=held_out(seed=2)))
    whole = store.ask("?x : r(e7, ?x)", max_false=0.6)
    assert len(whole) > 1
    cut = store.ask("?x : r(e7, ?x)", max_false=0.6, k=1)
    assert cut.guarantee is not None
    assert (cut.guarantee.promised, cut.guarantee.complete) == (True, False)
    assert "held-out facts bear out; the list was cut, it goes on" in cut.summary()


def test_two_ways_to_be_true_bear_out_more_than_one() -> None:
    source, _ = too_sure(seed=1)
    store = Store(replace(source, borne_out=held_out(seed=2)))
    union = " | ".join(f"r(e{head}, ?x)" for head in range(6))
    answers = store.ask(f"?x : {union}", max_false=0.2)
    assert answers.guarantee is not None
    assert len(answers) > 0
    assert answers.guarantee.promised, "each of them alone has a smallest share above 0.2"


def test_the_smallest_share_is_rounded_up() -> None:
    told = Guarantee("max_false", 0.1, complete=True, ground="facts", facts=1234, least=0.2045)
    assert told.words() == (
        "no list can be promised: 1,234 held-out facts bear out a truth of at most 0.80, so ask for 0.21 or more"
    )
