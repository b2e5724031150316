"""Baselines in benchmark runs: the rows of FIT are those of NS3(M), refusals are counted, NumPy files are read back."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from random_graph import random_graph
from small_store import make_store, numbers

from tuplet.bench.boxes import evaluate_all
from tuplet.bench.evaluate import Opened, RunSettings
from tuplet.bench.marginals import evaluate_marginally, marginal_rows
from tuplet.bench.metrics import product_ranks
from tuplet.bench.queries import QuerySet, read_any, read_npz, write, write_npz
from tuplet.bench.run import read_rows, run
from tuplet.bench.sample import sample
from tuplet.cli.commands import main
from tuplet.errors import BadInput
from tuplet.query.source import Source
from tuplet.store import open_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("marginals") / "store"
    make_store(path, random_graph(3, entities=30, relations=5, edges=350))
    return path


@pytest.fixture(scope="module")
def source(store: Path) -> Source:
    return open_store(store).source


@pytest.fixture(scope="module")
def queries(source: Source) -> QuerySet:
    return sample(source.graph, ["2fp", "2fc", "3fd", "2u", "1p", "2fpn"], 4, seed=1)


def plain(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{key: value for key, value in row.items() if key != "ms"} for row in rows]


def test_the_rows_of_fit_are_those_of_ns3_marginals_without_a_budget(source: Source, queries: QuerySet) -> None:
    for members in queries.by_shape().values():
        ours = evaluate_marginally(members, source, RunSettings("fit", options={"most": "all"}))
        theirs = evaluate_all(members, source, RunSettings("ns3-marginal", options={"budget": "all"}))
        assert plain(ours) == plain(theirs)
        assert all(row["answered"] and row["recall"] <= 1 for row in ours)


def test_with_one_variable_all_rankings_coincide(source: Source, queries: QuerySet) -> None:
    for row in evaluate_marginally(queries.by_shape()["1p"], source, RunSettings("qto")):
        if row["recall"] == 1:  # an answer of truth 0 is missed by products, and last by sums of ranks
            assert row["hit10"] == pytest.approx(row["marginal_hit10"]) == pytest.approx(row["joint_hit10"])


def test_a_refused_shape_is_missed_with_the_reason(source: Source, queries: QuerySet) -> None:
    for row in evaluate_marginally(queries.by_shape()["2fc"], source, RunSettings("qto")):
        assert (row["answered"], row["hit10"]) == (False, 0)
        assert "answers trees only; the query has the cycle ?f" in row["pruned"]


def test_a_time_limit_is_one_for_each_query(source: Source, queries: QuerySet) -> None:
    members = queries.by_shape()["2fp"]
    assert plain(evaluate_marginally(members, source, RunSettings("fit", timeout=60))) == plain(
        evaluate_marginally(members, source, RunSettings("fit"))
    )
    for row in evaluate_marginally(members, source, RunSettings("fit", timeout=1e-9)):
        assert (row["answered"], row["pruned"]) == (False, "the timeout of 1e-09 s")


def test_scores_of_any_kind_become_rows(queries: QuerySet) -> None:
    members = queries.by_shape()["2fp"]
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=(2, 30)).astype(np.float32) for _ in members]
    truth = [1 / (1 + np.exp(-s.astype(np.float64))) for s in scores]
    for query, own, row in zip(
        members, truth, marginal_rows(members, scores, time.perf_counter(), 100, truth), strict=True
    ):
        assert row["mrr"] == product_ranks(list(own), query.easy, query.hard).values()["mrr"]
        assert row["listed"] == 30


def test_runs_with_workers_and_without(store: Path, queries: QuerySet, tmp_path: Path) -> None:
    settings = RunSettings("cqd", options={"beam": "3"})
    run(store, queries, tmp_path / "one", settings, block=4)
    run(store, queries, tmp_path / "two", settings, block=4, workers=2)
    assert numbers(tmp_path / "one") == numbers(tmp_path / "two")
    assert all(row["peak_mb"] > 10 for row in read_rows(tmp_path / "one"))


def test_the_command_takes_options(
    store: Path, queries: QuerySet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(queries, tmp_path / "q.parquet")
    command = ["bench", "run", str(store), str(tmp_path / "q.parquet"), "--workers", "1", "--quiet", "-o"]
    assert main([*command, str(tmp_path / "r"), "--engine", "fit", "--option", "most=2", "--option", "mode=paper"]) == 0
    assert main([*command, str(tmp_path / "s"), "--engine", "fit", "--option", "mst=2"]) == 1
    assert "error: engine 'fit' has no option 'mst'; did you mean 'most'?" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "s"), "--option", "most=2"]) == 1
    assert "--option is for the baselines" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_what_is_refused_before_a_run() -> None:
    with pytest.raises(BadInput, match="did you mean 'beam'"):
        RunSettings("cqd", options={"baem": 3}).check()
    RunSettings("cqd", options={"beam": "3"}).check()


def test_numpy_files_give_the_queries_back(source: Source, queries: QuerySet, tmp_path: Path) -> None:
    write_npz(queries, tmp_path / "q.npz")
    again = read_npz(tmp_path / "q.npz")
    assert dict(again.meta) == dict(read_any(tmp_path / "q.npz").meta)
    assert len(again) == len(queries)
    for ours, theirs in zip(queries, again, strict=True):
        assert (ours.shape, ours.index, ours.formula) == (theirs.shape, theirs.index, theirs.formula)
        assert ours.clauses() == theirs.clauses()
        assert (ours.easy == theirs.easy).all()
        assert (ours.hard == theirs.hard).all()
    assert [len(m) for m in read_npz(tmp_path / "q.npz", most=2).by_shape().values()] == [2] * 6
    rows = Opened(source, RunSettings("fit")).evaluate(again.by_shape()["2fp"])
    assert [row["answered"] for row in rows] == [True] * 4
    np.savez(tmp_path / "other.npz", a=np.zeros(1))
    with pytest.raises(BadInput, match="but not of benchmark queries"):
        read_npz(tmp_path / "other.npz")
    (tmp_path / "text.npz").write_text("no")
    with pytest.raises(BadInput, match="is not a file of benchmark queries"):
        read_npz(tmp_path / "text.npz")
