"""Tuple-level reliability: the right tuples are judged, on the full graph, and the error by chance is what it says."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from tuplet.engines import brute
from tuplet.errors import BadInput
from tuplet.graph.graph import SPLIT_CODE, SPLITS, KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.lab.bench.held_out import as_text, errors_by_chance, everything, families, judge, reliability_of
from tuplet.lab.bench.queries import BenchQuery, QuerySet
from tuplet.lab.bench.sampling import sample
from tuplet.query.source import Source
from tuplet.truth.edges import observed_facts
from tuplet.truth.table import TruthTable

NOTHING = np.empty((0, 1), dtype=np.int32)


@pytest.fixture(scope="module")
def queries(graph: KnowledgeGraph) -> QuerySet:
    return sample(graph, ["2fp", "2fcn", "2fd", "2u", "pin"], 6, seed=1)


def small(truth: list[float], split: str) -> Source:
    """Entity 0 knows 1 … n with the given truth, unobserved; those edges are the facts of the split."""
    n = len(truth)
    given = np.zeros(n, int), np.zeros(n, int), np.arange(1, n + 1)
    graph = KnowledgeGraph.from_edges(
        Vocabulary.from_names([f"e{i}" for i in range(n + 1)]),
        Vocabulary.from_names(["r"]),
        *given,
        np.full(n, SPLIT_CODE[split]),
    )
    table = TruthTable.build(n + 1, 1, *given, np.array(truth), np.zeros(n, dtype=bool))
    return Source(graph, ("train",), table)


def one_hop(formula: str = "r1(s1,f1)", **grounding: int) -> BenchQuery:
    return BenchQuery("1p", formula, {"r1": 0, "s1": 0} | grounding, NOTHING, NOTHING)


def test_exactly_the_best_tuples_that_no_fact_gives_are_judged_by_the_full_graph(
    source: Source, queries: QuerySet
) -> None:
    graph = source.graph
    sizes = len(graph.entities), len(graph.relations)
    known, full = (TruthTable.assemble(*sizes, observed_facts(graph, s)) for s in (("train", "valid"), SPLITS))
    judged = {id(one.query): one for one in judge(source, queries, everything(source), top=40)}
    rights = 0
    for query in queries:
        clauses = query.clauses()
        space = np.array(list(product(range(sizes[0]), repeat=query.k)), dtype=np.int32)
        truth, easy, all_ = (brute.score(clauses, table, space) for table in (source.values(), known, full))
        open_ = np.flatnonzero((truth > 0) & (easy == 0))
        best = np.sort(truth[open_])[::-1][:40]
        one = judged.get(id(query))
        assert (one is None) == (not len(open_))
        if one is not None:
            assert one.truth == pytest.approx(best)
            for level in np.unique(best[best > best[-1]]):  # ties at the end of the list may be cut anywhere
                kept = np.isclose(truth[open_], level)
                assert one.right[np.isclose(one.truth, level)].sum() == all_[open_][kept].sum()
            rights += int(one.right.sum())
    assert rights > 0


def test_the_lists_of_answers_are_not_looked_at(source: Source, queries: QuerySet) -> None:
    full = everything(source)
    blind = [replace(query, easy=query.easy[:0], hard=query.hard[:0]) for query in queries]
    for one, other in zip(judge(source, queries, full, 30), judge(source, blind, full, 30), strict=True):
        assert one.right.tolist() == other.right.tolist()


@pytest.mark.parametrize(("split", "share"), [("test", 1.0), ("valid", 0.0)])
def test_what_is_right_depends_on_the_graph_that_judges(split: str, share: float) -> None:
    source = small([0.75, 0.25], split)
    found = reliability_of(judge(source, [one_hop()], Source(source.graph, ("train", "test"))))
    assert found.entries.tolist() == [0, 0, 1, 0, 0, 0, 0, 1, 0, 0]
    assert found.share[[2, 7]].tolist() == [share, share]
    assert found.error == pytest.approx(0.5)


def test_families_and_predicted_atoms(source: Source, queries: QuerySet) -> None:
    judged = judge(source, queries, everything(source), 20)
    named = {one.query.shape: one.groups for one in judged}
    assert named["2fp"] == ("k = 2", "no negation", "tree", "all free")
    assert named["2fcn"] == ("k = 2", "negation", "cyclic", "exists")
    assert named["2fd"] == ("k = 2", "no negation", "tree", "exists")
    for one in judged:
        found = one.witnesses
        positive = np.array([not edge.negated for edge in found.edges])
        rows = zip(found.counts, found.observed, strict=True)
        assert one.predicted.tolist() == [sum(counts & ~observed & positive) for counts, observed in rows]
        assert one.predicted.min() > 0


def test_tuples_of_one_edge_are_right_together() -> None:
    """Two queries with the same single edge of truth 0.5: a draw makes both right or both wrong, an error of 0.5."""
    source = small([0.5], "test")
    judged = judge(source, [one_hop(), one_hop()], everything(source))
    assert errors_by_chance(judged) == pytest.approx((0.5, 0.5))


def test_many_edges_of_their_own_are_right_as_often_as_their_truth_says() -> None:
    truth = np.random.default_rng(9).uniform(0.02, 0.98, 4000)
    source = small(truth.tolist(), "test")
    judged = judge(source, [one_hop()], everything(source), 4000)
    assert 0.005 < errors_by_chance(judged)[0] < 0.03  # 400 tuples in a tenth: a standard error of about 0.02
    assert reliability_of(judged).error > 0.4  # all are facts: the truth is far too low
    assert errors_by_chance([]) == (0.0, 0.0)


def test_a_positive_atom_holds_below_its_truth() -> None:
    source = small([0.6, 0.5], "test")
    (one,) = judge(source, [one_hop()], everything(source))
    assert one.right_if(np.array([[0.59], [0.51]])).tolist() == [True, False]


def test_a_negated_atom_fails_where_its_edge_would_be_a_fact() -> None:
    """Who knows 1 (0.6) and not 2 (0.5)?"""
    formula = "(r2(s4,f1))&(!(r1(f1,s2)))"
    source = small([0.6, 0.5], "test")
    query = one_hop(formula, r2=1, s4=1, s2=2)
    (one,) = judge(source, [query], everything(source), 1)
    assert one.truth.tolist() == pytest.approx([0.3])
    draws = [(0.1, 0.7), (0.1, 0.4), (0.9, 0.7)]
    assert [bool(one.right_if(np.array([draw]))[0]) for draw in draws] == [True, False, False]


def test_one_of_two_alternatives_suffices() -> None:
    formula = "(r2(s4,f1))|(r2(s2,f1))"
    source = small([0.6, 0.5], "test")
    (one,) = judge(source, [one_hop(formula, r2=1, s4=1, s2=2)], everything(source), 1)
    assert one.truth.tolist() == pytest.approx([0.8])
    draws = [(0.1, 0.9), (0.9, 0.1), (0.9, 0.9)]
    assert [bool(one.right_if(np.array([draw]))[0]) for draw in draws] == [True, True, False]


def test_the_table_of_families_adds_up(source: Source, queries: QuerySet) -> None:
    judged = judge(source, queries, everything(source), 20)
    table = families(judged)
    assert table["all"]["tuples"] == sum(len(one.truth) for one in judged)
    assert table["all"]["right"] == pytest.approx(np.mean(np.concatenate([one.right for one in judged])))
    for parts in (("k = 1", "k = 2"), ("negation", "no negation"), ("exists", "all free")):
        assert sum(table[name]["tuples"] for name in parts) == table["all"]["tuples"]
    lines = as_text(table).splitlines()
    assert [line[:12].strip() for line in lines] == ["", *table]
    assert f"{table['all']['ece']:.3f}" in lines[1]
    assert families([])["all"]["tuples"] == 0


def test_nothing_to_judge_by_is_refused(graph: KnowledgeGraph) -> None:
    with pytest.raises(BadInput, match="every fact of the graph is observed"):
        everything(Source(graph, SPLITS))
    with pytest.raises(BadInput, match="every fact of the graph is observed"):
        everything(Source(graph))


def test_no_tuple_to_judge_is_refused() -> None:
    source = small([0.5], "test")
    with pytest.raises(BadInput, match="at least one tuple"):
        judge(source, [one_hop()], source, 0)
