"""NS3 in benchmark runs: batches equal single queries, ranks equal counting, the budget decides what is missed."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from random_graph import random_graph
from small_store import make_store, numbers

from tuplet.bench.boxes import evaluate_all, marginal_scores, tabulated
from tuplet.bench.evaluate import RunSettings, evaluate, marginal_row
from tuplet.bench.metrics import joint_ranks, product_ranks
from tuplet.bench.queries import QuerySet
from tuplet.bench.run import read_rows, run
from tuplet.bench.sample import sample
from tuplet.engines.ns3.budget import Budget
from tuplet.engines.ns3.run import marginals
from tuplet.engines.ns3.run import run as run_ns3
from tuplet.errors import BadInput
from tuplet.query.source import Source
from tuplet.store import open_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("boxes") / "store"
    make_store(path, random_graph(3, entities=30, relations=5, edges=350))
    return path


@pytest.fixture(scope="module")
def source(store: Path) -> Source:
    return open_store(store).source


@pytest.fixture(scope="module")
def queries(source: Source) -> QuerySet:
    return sample(source.graph, ["2fp", "2fcn", "3fd", "2u", "1p"], 4, seed=1)


@pytest.mark.parametrize("budget", [3, 40, "all"])
def test_the_joint_ranks_of_a_unit_are_those_of_its_queries(
    source: Source, queries: QuerySet, budget: int | str
) -> None:
    settings = RunSettings("ns3", options={"budget": budget})
    assert source.truth is not None
    for members in queries.by_shape().values():
        rows = evaluate_all(members, source, settings, tabulated(source, "ns3"))
        for query, row in zip(members, rows, strict=True):
            alone = run_ns3(query.clauses(), source.truth, None, settings.budget())
            ranks = joint_ranks(alone.tuples, alone.truth, query.easy, query.hard, complete=True)
            assert {name: row[name] for name in ranks.values()} == pytest.approx(ranks.values())
            kept = {tuple(t) for t in alone.tuples.tolist()}
            found = np.mean([tuple(t) in kept for t in query.hard.tolist()])
            assert row["recall"] >= found - 1e-12
            assert row["listed"] == len(alone.tuples)
            if budget == "all":
                exact = evaluate(query, source, RunSettings())
                assert row["hit10"] == pytest.approx(exact["hit10"])
                assert row["exact"]


def test_a_larger_budget_recalls_more(source: Source, queries: QuerySet) -> None:
    members = queries.by_shape()["3fd"]
    recall = [
        np.mean([row["recall"] for row in evaluate_all(members, source, RunSettings("ns3", options={"budget": b}))])
        for b in (1, 20, 10_000)
    ]
    assert recall[0] < recall[1] < recall[2]


def test_marginal_runs_equal_the_engine_and_counting(source: Source, queries: QuerySet) -> None:
    settings = RunSettings("ns3-marginal", options={"budget": 20})
    table = tabulated(source, "ns3")
    assert table is not None
    assert source.truth is not None
    size = len(source.graph.entities)
    for members in queries.by_shape().values():
        scores = marginal_scores(members, table, settings)
        rows = evaluate_all(members, source, settings, table)
        for query, vectors, row in zip(members, scores, rows, strict=True):
            for vector, alone in zip(vectors, marginals(query.clauses(), source.truth, Budget(20)), strict=True):
                dense = np.zeros(size)
                dense[alone.entities] = alone.truth
                assert vector == pytest.approx(dense)
            kept = np.stack([vector[query.hard[:, i]] > 0 for i, vector in enumerate(vectors)])
            assert row["recall"] == pytest.approx(kept.all(axis=0).mean())
            assert row["recall_variable"] == pytest.approx(kept.mean())
            assert {key: row[key] for key in marginal_row(query, vectors)} == marginal_row(query, vectors)
            assert row["hit10"] == pytest.approx(counted(vectors, query.easy, query.hard)[1])


def counted(vectors: list[np.ndarray], easy: np.ndarray, hard: np.ndarray) -> tuple[float, float]:
    """MRR and HIT@10 by going through all tuples."""
    value = {t: float(np.prod([v[i] for v, i in zip(vectors, t, strict=True)])) for t in every(vectors)}
    answers = {tuple(t) for part in (easy, hard) for t in part.tolist()}
    others = np.array([v for t, v in value.items() if t not in answers])
    reciprocal, hits = [], []
    for t in hard.tolist():
        own = value[tuple(t)]
        above = np.count_nonzero(others > own * (1 + 1e-9))
        beside = np.count_nonzero(np.abs(others - own) <= 1e-9 * own)
        reciprocal.append(1 / (1 + above + beside / 2) if own > 0 else 0.0)
        hits.append(np.clip((10 - above) / (beside + 1), 0, 1) if own > 0 else 0.0)
    return float(np.mean(reciprocal)), float(np.mean(hits))


def every(vectors: list[np.ndarray]) -> list[tuple[int, ...]]:
    return list(product(*(range(len(v)) for v in vectors)))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_ranks_by_products_equal_counting_over_all_tuples(k: int) -> None:
    rng = np.random.default_rng(k)
    for _ in range(60):
        size = int(rng.integers(3, 12))
        levels = rng.choice([rng.random(3), np.array([0.0, 1.0, 0.5, 0.25]), rng.random(40)][int(rng.integers(3))], 40)
        vectors = [rng.choice(levels, size) for _ in range(k)]
        tuples = rng.permutation(np.array(every(vectors)))[: int(rng.integers(2, 8))]
        easy, hard = tuples[1::2], tuples[::2]
        ranks = product_ranks(vectors, easy, hard, reach=size**k + 1)
        mrr, hit10 = counted(vectors, easy, hard)
        assert (ranks.values()["mrr"], ranks.values()["hit10"]) == pytest.approx((mrr, hit10))
        near = product_ranks(vectors, easy, hard, reach=10)  # a short reach still decides HIT@10
        assert near.decided(10).all()
        assert near.values()["hit10"] == pytest.approx(hit10)
        assert mrr - 1 / 10 <= near.values()["mrr"] <= mrr + 1e-12


def test_runs_with_workers_and_without(store: Path, queries: QuerySet, tmp_path: Path) -> None:
    settings = RunSettings("ns3", options={"budget": 40, "merge": "simultaneous"})
    run(store, queries, tmp_path / "one", settings, block=4)
    run(store, queries, tmp_path / "two", settings, block=4, workers=2)
    assert numbers(tmp_path / "one") == numbers(tmp_path / "two")
    assert all(row["peak_mb"] > 10 for row in read_rows(tmp_path / "one"))


def test_a_query_that_is_too_large_is_missed_alone(
    source: Source, queries: QuerySet, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = RunSettings("ns3", options={"budget": "all"})
    monkeypatch.setattr(RunSettings, "budget", lambda _: Budget(B=None, enumerate=None, rows=60))
    members = queries.by_shape()["3fd"]
    rows = evaluate_all(members, source, settings, tabulated(source, "ns3"))
    failed = [row for row in rows if not row["answered"]]
    assert failed
    assert all("is larger than 60" in row["pruned"] and row["hit10"] == 0 for row in failed)


def test_with_a_time_limit_queries_are_asked_one_by_one(source: Source, queries: QuerySet) -> None:
    for query in queries.queries[::5]:
        for engine in ("ns3", "ns3-marginal"):
            options = {"budget": 40}
            (at_once,) = evaluate_all([query], source, RunSettings(engine, options=options))
            alone = evaluate(query, source, RunSettings(engine, timeout=60, options=options))
            assert alone["hit10"] == pytest.approx(at_once["hit10"])


def test_bad_budgets_are_refused() -> None:
    with pytest.raises(BadInput, match="at least 1"):
        RunSettings("ns3", options={"budget": 0}).check()
    with pytest.raises(BadInput, match="whole number or 'all', not 'many'"):
        RunSettings("ns3", options={"budget": "many"}).check()
    with pytest.raises(BadInput, match="did you mean 'progressive'"):
        RunSettings("ns3", options={"merge": "progresive"}).check()
    with pytest.raises(BadInput, match="unknown engine option 'budgte'; did you mean 'budget'"):
        RunSettings("ns3", options={"budgte": 3}).check()
