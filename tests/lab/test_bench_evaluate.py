"""Units of queries under all kinds of engines: batches equal single queries, ranks equal counting over all tuples."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from random_graph import random_graph
from small_store import make_store, plain

from tuplet.engines import brute
from tuplet.engines.brute import score
from tuplet.errors import TupletError
from tuplet.lab.bench.metrics import NAMES, from_marginals, joint_ranks, product_ranks
from tuplet.lab.bench.queries import QuerySet
from tuplet.lab.bench.results import ResultRow, RunSettings
from tuplet.lab.bench.run import Evaluator, marginal_rows, ranks_of
from tuplet.lab.bench.sampling import sample
from tuplet.query.limits import NO_DEADLINE, Limits
from tuplet.query.ranking import Ranking
from tuplet.query.source import Source
from tuplet.store import open_store

SHAPES = ["2fp", "2fc", "2fcn", "3fd", "2u", "1p", "2fpn"]


@pytest.fixture(scope="module")
def queries(source: Source) -> QuerySet:
    return sample(source.graph, SHAPES, 4, seed=1)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[Source, QuerySet]:
    """A graph whose tuples can all be listed at once."""
    path: Path = tmp_path_factory.mktemp("tiny") / "store"
    make_store(path, random_graph(3, entities=12, relations=4, edges=120))
    source = open_store(path).source
    return source, sample(source.graph, ["2fp", "2fcn", "3fd", "2u", "1p"], 3, seed=1)


def rows_of(engine: str, source: Source, queries: QuerySet, shape: str = "", **settings: object) -> list[ResultRow]:
    """The rows of one shape, or of all."""
    evaluator = Evaluator(source, RunSettings(engine, **settings))  # type: ignore[arg-type]
    shapes = queries.by_shape()
    return [row for members in ([shapes[shape]] if shape else shapes.values()) for row in evaluator.evaluate(members)]


def counted(truth: dict[tuple[int, ...], float], easy: np.ndarray, hard: np.ndarray) -> tuple[float, float]:
    """MRR and HIT@10 by going through all tuples."""
    answers = {tuple(t) for part in (easy, hard) for t in part.tolist()}
    others = np.array([v for t, v in truth.items() if t not in answers])
    reciprocal, hits = [], []
    for t in hard.tolist():
        own = truth[tuple(t)]
        above = np.count_nonzero(others > own * (1 + 1e-9))
        beside = np.count_nonzero(np.abs(others - own) <= 1e-9 * own)
        reciprocal.append(1 / (1 + above + beside / 2) if own > 0 else 0.0)
        hits.append(np.clip((10 - above) / (beside + 1), 0, 1) if own > 0 else 0.0)
    return float(np.mean(reciprocal)), float(np.mean(hits))


def products(vectors: list[np.ndarray]) -> dict[tuple[int, ...], float]:
    """The product of one number for each variable, for all tuples."""
    every = product(*(range(len(v)) for v in vectors))
    return {t: float(np.prod([v[i] for v, i in zip(vectors, t, strict=True)])) for t in every}


# --- what is scored, and its strata ----------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["exact", "ns3", "ns3-marginal"])
def test_only_the_asked_answer_is_scored_and_the_others_do_not_compete(
    engine: str, source: Source, queries: QuerySet
) -> None:
    """The mean over the answers of a query, asked one by one, is what all of them together score."""
    for query in (q for q in queries if len(q.hard) > 1):
        (together,) = rows_of(engine, source, QuerySet((query,)))
        alone = QuerySet(tuple(replace(query, asked=place) for place in range(len(query.hard))))
        rows = [row for one in alone for row in rows_of(engine, source, QuerySet((one,)))]
        assert [row.hard for row in rows] == [1] * len(rows)
        assert np.mean([row.hit10 for row in rows]) == pytest.approx(together.hit10)
        assert query.links is not None
        for stratum in (1, 2, 3, 4):
            own = np.minimum(query.links, 4) == stratum
            for metric in ("mrr", "hit10"):
                name = f"links{stratum}_{metric}"
                values = [getattr(row, metric) for row, mine in zip(rows, own, strict=True) if mine]
                assert getattr(together, name) == (pytest.approx(np.mean(values)) if values else None)
                for row, mine in zip(rows, own, strict=True):
                    assert getattr(row, name) == (getattr(row, metric) if mine else None)


def test_what_is_refused_is_missed_in_its_strata(source: Source, queries: QuerySet) -> None:
    query = queries.by_shape()["2fcn"][0]
    (row,) = rows_of("exact", source, QuerySet((query,)), timeout=1e-9)
    assert not row.answered
    assert query.links is not None
    for stratum in (1, 2, 3, 4):
        expected = 0.0 if stratum in np.minimum(query.links, 4) else None
        assert getattr(row, f"links{stratum}_mrr") == getattr(row, f"links{stratum}_hit10") == expected


# --- engines that score points: exact, crisp, brute ----------------------------------------------------------------


def test_metrics_of_the_exact_engine_equal_counting_over_all_tuples(source: Source, queries: QuerySet) -> None:
    entities = len(source.graph.entities)
    pairs = QuerySet(tuple(query for query in queries if query.k == 2))
    for query, row in zip(pairs, rows_of("exact", source, pairs, reach=5), strict=True):
        every = list(product(range(entities), repeat=query.k))
        truth = dict(zip(every, score(query.clauses(), source.values(), np.array(every)).tolist(), strict=True))
        assert row.hit10 == pytest.approx(counted(truth, query.easy, query.hard)[1])
        assert (row.decided, row.answered, row.exact) == (1, True, True)


def test_a_list_that_was_stopped_says_nothing_of_what_is_below_it(queries: QuerySet) -> None:
    query = queries.queries[0]
    points = np.full(len(query.hard), 0.25)
    stopped = Ranking(query.hard[:1], np.array([0.5]), (), exact=False, bound=1.0, pruned="timeout")
    assert not ranks_of(query, stopped, 10, points).resolved.any()
    whole = Ranking(query.hard[:1], np.array([0.5]), (), exact=True, bound=1.0)
    assert ranks_of(query, whole, 10, points).resolved.all()


def test_a_query_that_is_too_large_is_missed_and_says_why(
    source: Source, queries: QuerySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brute, "LARGEST", 10)
    for row in rows_of("brute", source, queries, "2fp"):
        assert (row.answered, row.hit10, row.decided) == (False, 0.0, 0.0)
        assert row.pruned


def test_marginal_metrics_equal_those_of_the_oracle(source: Source, queries: QuerySet) -> None:
    """A marginal is the maximum of the joint truth over the other variables."""
    size = len(source.graph.entities)
    every = np.array(list(product(range(size), repeat=2)))
    for shape in ("2fp", "2fcn"):
        rows = rows_of("exact", source, queries, shape, marginals=True)
        for query, row in zip(queries.by_shape()[shape], rows, strict=True):
            joint = score(query.clauses(), source.values(), every).reshape(size, size)
            expected = from_marginals([joint.max(axis=1), joint.max(axis=0)], query.easy, query.hard)
            assert {name: getattr(row, name) for name in expected} == pytest.approx(expected)
            assert len(expected) == 1 + 3 * len(NAMES)


# --- engines that prune: ns3 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [3, 40, "all"])
def test_the_joint_ranks_of_a_unit_are_those_of_its_queries(tiny: tuple[Source, QuerySet], budget: int | str) -> None:
    source, queries = tiny
    options = {"budget": budget}
    engine = RunSettings("ns3", options=options).runner()
    everything = Limits(k="all", budget=budget)  # type: ignore[arg-type]
    rows = rows_of("ns3", source, queries, options=options)
    best = rows_of("exact", source, queries)
    for query, row, exact in zip(queries, rows, best, strict=True):
        plan = engine.plan(query.clauses(), source, everything)
        alone = engine.run(plan, everything, NO_DEADLINE)
        assert row.exact == engine.run(plan, replace(everything, k=10), NO_DEADLINE).exact, "its ten best are proven"
        ranks = joint_ranks(alone.tuples, alone.truth, query.easy, query.hard, complete=True)
        assert {name: getattr(row, name) for name in NAMES} == pytest.approx(ranks.values())
        assert row.listed == len(alone.tuples)
        kept = {tuple(t) for t in alone.tuples.tolist()}
        assert row.recall is not None
        assert row.recall >= np.mean([tuple(t) in kept for t in query.hard.tolist()]) - 1e-12
        if budget == "all":
            assert row.hit10 == pytest.approx(exact.hit10)
            assert row.exact


def test_a_larger_budget_recalls_more(source: Source, queries: QuerySet) -> None:
    recall = [
        np.mean([row.recall or 0.0 for row in rows_of("ns3", source, queries, "3fd", options={"budget": budget})])
        for budget in (1, 20, 10_000)
    ]
    assert recall[0] < recall[1] < recall[2]


# --- engines that rank each variable on its own: ns3-marginal, the baselines -----------------------------------------


def test_marginal_rows_equal_counting(tiny: tuple[Source, QuerySet]) -> None:
    source, queries = tiny
    settings = RunSettings("ns3-marginal", options={"budget": 6})
    engine = settings.runner()
    for shape, members in queries.by_shape().items():
        plans = [engine.plan(query.clauses(), source, settings.limits) for query in members]
        scores = engine.marginals(plans, settings.limits, NO_DEADLINE)  # type: ignore[attr-defined]
        rows = rows_of("ns3-marginal", source, queries, shape, options={"budget": 6})
        for query, vectors, row in zip(members, scores, rows, strict=True):
            kept = np.stack([vector[query.hard[:, i]] > 0 for i, vector in enumerate(vectors)])
            assert row.recall == pytest.approx(kept.all(axis=0).mean())
            assert row.recall_variable == pytest.approx(kept.mean())
            columns = from_marginals(list(vectors), query.easy, query.hard)
            assert {key: getattr(row, key) for key in columns} == columns
            assert row.hit10 == pytest.approx(counted(products(list(vectors)), query.easy, query.hard)[1])


def test_the_rows_of_fit_are_those_of_ns3_marginals_without_a_budget(source: Source, queries: QuerySet) -> None:
    ours = rows_of("fit", source, queries, options={"most": "all"})
    theirs = rows_of("ns3-marginal", source, queries, options={"budget": "all"})
    assert plain(ours) == plain(theirs)
    assert all(row.answered and row.recall is not None and row.recall <= 1 for row in ours)


def test_with_one_variable_all_rankings_coincide(source: Source, queries: QuerySet) -> None:
    for row in rows_of("qto", source, queries, "1p"):
        if row.recall == 1:  # an answer of truth 0 is missed by products, and last by sums of ranks
            assert row.hit10 == pytest.approx(row.marginal_hit10) == pytest.approx(row.joint_hit10)


def test_a_refused_shape_is_missed_with_the_reason(source: Source, queries: QuerySet) -> None:
    for row in rows_of("qto", source, queries, "2fc"):
        assert (row.answered, row.hit10) == (False, 0)
        assert row.pruned is not None
        assert "answers trees only; the query has the cycle ?f" in row.pruned


def test_scores_of_any_kind_become_rows(queries: QuerySet) -> None:
    members = queries.by_shape()["2fp"]
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=(2, 30)).astype(np.float32) for _ in members]
    truth = [1 / (1 + np.exp(-s.astype(np.float64))) for s in scores]
    for query, own, row in zip(members, truth, marginal_rows(members, scores, truth), strict=True):
        assert row.mrr == product_ranks(list(own), query.easy, query.hard).values()["mrr"]
        assert row.listed == 30


@pytest.mark.parametrize("k", [1, 2, 3])
def test_ranks_by_products_equal_counting_over_all_tuples(k: int) -> None:
    rng = np.random.default_rng(k)
    for _ in range(60):
        size = int(rng.integers(3, 12))
        levels = rng.choice([rng.random(3), np.array([0.0, 1.0, 0.5, 0.25]), rng.random(40)][int(rng.integers(3))], 40)
        vectors = [rng.choice(levels, size) for _ in range(k)]
        tuples = rng.permutation(np.array(list(product(range(size), repeat=k))))[: int(rng.integers(2, 8))]
        easy, hard = tuples[1::2], tuples[::2]
        ranks = product_ranks(vectors, easy, hard, reach=size**k + 1)
        mrr, hit10 = counted(products(vectors), easy, hard)
        assert (ranks.values()["mrr"], ranks.values()["hit10"]) == pytest.approx((mrr, hit10))
        near = product_ranks(vectors, easy, hard, reach=10)  # a short reach still decides HIT@10
        assert near.is_decided(10).all()
        assert near.values()["hit10"] == pytest.approx(hit10)
        assert mrr - 1 / 10 <= near.values()["mrr"] <= mrr + 1e-12


# --- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "options"), [("ns3", {"budget": 20}), ("ns3-marginal", {"budget": 20}), ("fit", {})]
)
def test_a_time_limit_is_one_for_each_query(
    source: Source, queries: QuerySet, engine: str, options: dict[str, int]
) -> None:
    within = rows_of(engine, source, queries, "2fp", options=options, timeout=600.0)
    assert plain(within) == plain(rows_of(engine, source, queries, "2fp", options=options))
    for row in rows_of(engine, source, queries, "2fp", options=options, timeout=1e-9):
        assert (row.hit10, row.pruned) == (0, "timeout")


def test_bad_settings_are_refused_before_a_run() -> None:
    for settings, message in (
        (RunSettings("exactly"), "did you mean 'exact'"),
        (RunSettings("ns3", options={"budget": 0}), "budget must be a whole number from 1 or 'all', not 0"),
        (RunSettings("ns3", options={"budget": "many"}), "or 'all', not 'many'"),
        (RunSettings("ns3", options={"merge": "progresive"}), "did you mean 'progressive'"),
        (RunSettings("cqd", options={"baem": 3}), "did you mean 'beam'"),
        (RunSettings(options={"onyl": "observed"}), "engine 'exact' takes no options \\(given: onyl\\)"),
        (RunSettings(logic="goedel"), "did you mean 'godel'"),
    ):
        with pytest.raises(TupletError, match=message):
            settings.runner()
    RunSettings("cqd", options={"beam": "3"}).runner()
