"""Runs: the right numbers, resumable after a kill, the same with workers; reports that hold together."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_store import numbers

from tuplet.errors import BadInput, BudgetExceeded, TupletError
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lab.bench.queries import QuerySet, write
from tuplet.lab.bench.query_types import select
from tuplet.lab.bench.report import Result, write_report
from tuplet.lab.bench.results import RunSettings, read_rows
from tuplet.lab.bench.run import run, units
from tuplet.lab.bench.sampling import sample

SHAPES = ["2fp", "2fcn", "2fd", "1p"]


@pytest.fixture(scope="module")
def queries(graph: KnowledgeGraph) -> QuerySet:
    return sample(graph, SHAPES, 12, seed=1)


def test_workers_threads_and_blocks_change_nothing(store: Path, queries: QuerySet, tmp_path: Path) -> None:
    run(store, queries, tmp_path / "one", block=5)
    run(store, queries, tmp_path / "two", block=5, workers=2)
    with ThreadPoolExecutor(2) as pool:
        run(store, queries, tmp_path / "threads", block=5, executor=pool)
    run(store, queries, tmp_path / "large", block=100)
    first = numbers(tmp_path / "one")
    assert len(first) == 48
    assert first == numbers(tmp_path / "two") == numbers(tmp_path / "threads") == numbers(tmp_path / "large")
    assert json.loads((tmp_path / "one" / "run.json").read_text())["queries"]["digest"] == queries.digest


SCRIPT = """
import sys, time
from tuplet.lab.bench.run import Evaluator
from tuplet.lab.bench.queries import read
from tuplet.lab.bench.run import run
at_once = Evaluator.evaluate
def slowly(*arguments):
    time.sleep(0.15)
    return at_once(*arguments)
Evaluator.evaluate = slowly
run(sys.argv[1], read(sys.argv[2]), sys.argv[3], block=3)
"""


def test_a_run_killed_twice_and_resumed_equals_an_uninterrupted_one(
    store: Path, queries: QuerySet, tmp_path: Path
) -> None:
    write(queries, tmp_path / "queries.parquet")
    (tmp_path / "script.py").write_text(SCRIPT)
    result = tmp_path / "result"
    for already in (0, 3):
        process = subprocess.Popen(
            [sys.executable, tmp_path / "script.py", store, tmp_path / "queries.parquet", result]
        )
        deadline = time.monotonic() + 60
        while len(list(result.glob("parts/*.parquet"))) < already + 2 and time.monotonic() < deadline:
            assert process.poll() is None, "the run ended before it could be killed"
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    finished = {p.name: p.stat().st_mtime_ns for p in result.glob("parts/*.parquet")}
    assert 4 <= len(finished) < 16
    with pytest.raises(BadInput, match="is unfinished"):
        Result.read(result)
    calls: list[tuple[float, float]] = []
    run(store, queries, result, block=3, progress=lambda done, total: calls.append((done, total)))
    assert calls[0] == (3 * len(finished), 48)
    assert calls[-1] == (48, 48)
    assert all((result / "parts" / name).stat().st_mtime_ns == when for name, when in finished.items())
    run(store, queries, tmp_path / "straight", block=3)
    assert numbers(result) == numbers(tmp_path / "straight")
    assert not [p for p in (tmp_path / "straight" / "parts").iterdir() if p.name.startswith(".")]


def test_a_folder_of_another_run_is_refused(store: Path, queries: QuerySet, tmp_path: Path) -> None:
    run(store, queries, tmp_path / "result", block=50)
    with pytest.raises(BadInput, match=r'settings\.engine is "exact", not "crisp"'):
        run(store, queries, tmp_path / "result", RunSettings("crisp"), block=50)
    with pytest.raises(BadInput, match=r"queries\.count is 48, not 47"):
        run(store, QuerySet(queries.queries[1:], queries.meta), tmp_path / "result", block=50)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(BadInput, match="not empty and not a benchmark result"):
        run(store, queries, tmp_path / "full")
    with pytest.raises(TupletError, match="did you mean 'exact'"):
        run(store, queries, tmp_path / "new", RunSettings("exactly"))
    with pytest.raises(BadInput, match="no queries"):
        run(store, QuerySet(()), tmp_path / "new")
    other = QuerySet(queries.queries, {**queries.meta, "graph": "0123456789abcdef"})
    with pytest.raises(BadInput, match="sampled from graph 0123456789ab"):
        run(store, other, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_options_that_turn_out_wrong_leave_no_folder(store: Path, queries: QuerySet, tmp_path: Path) -> None:
    wrong = RunSettings("cqd", options={"method": "co", "model": str(tmp_path / "nothing")})
    with pytest.raises(BadInput, match="no such model"):
        run(store, queries, tmp_path / "r", wrong)
    assert not (tmp_path / "r").exists()
    run(store, queries, tmp_path / "r", RunSettings("cqd"))


def test_a_dead_worker_is_told_in_one_line(store: Path, queries: QuerySet, tmp_path: Path) -> None:
    class Broken(ThreadPoolExecutor):
        def submit(self, *_: object, **__: object) -> Future:  # type: ignore[type-arg, override]
            future: Future[int] = Future()
            future.set_exception(BrokenExecutor("killed"))
            return future

    with Broken(1) as pool, pytest.raises(BudgetExceeded, match="a worker process died"):
        run(store, queries, tmp_path / "result", executor=pool)


def test_units_show_every_shape_early(queries: QuerySet) -> None:
    first = units(queries, 5)[:4]
    assert [unit.queries[0].shape for unit in first] == SHAPES
    assert sum(len(unit.queries) for unit in units(queries, 5)) == 48


def test_the_crisp_engine_finds_no_hard_answer(store: Path, queries: QuerySet, tmp_path: Path) -> None:
    run(store, queries, tmp_path / "crisp", RunSettings("crisp"))
    positive = [row for row in read_rows(tmp_path / "crisp") if row.shape in ("2fp", "2fd", "1p")]
    assert all(row.hit10 == row.mrr == 0 for row in positive)


def test_marginal_metrics_are_reported_by_topology(store: Path, queries: QuerySet, tmp_path: Path) -> None:
    run(store, queries, tmp_path / "with", RunSettings(marginals=True))
    text = (write_report([tmp_path / "with"], tmp_path / "report") / "report.md").read_text()
    rows = [r for r in read_rows(tmp_path / "with") if r.hard_variables == r.k]
    trees = [r.multiply_hit10 for r in rows if (r.e, r.topology) == (0, "S")]
    assert f"| exact, Multiply | {100 * np.mean(trees):.1f} |" in text
    assert {(r.shape, r.e, r.topology) for r in read_rows(tmp_path / "with")} == {
        ("2fp", 0, "S"), ("2fcn", 1, "C"), ("2fd", 1, "S"), ("1p", 0, "S"),
    }  # fmt: skip


# --- reports -----------------------------------------------------------------------------------------------------


class _Strict(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)
        self.sources += [value or "" for name, value in attributes if name in ("src", "href")]

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def change(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((folder / "run.json").read_text())
    edit(manifest)
    (folder / "run.json").write_text(json.dumps(manifest))


def test_report(store: Path, queries: QuerySet, tmp_path: Path) -> None:
    run(store, queries, tmp_path / "exact")
    for budget in (10, 100):
        run(store, queries, tmp_path / f"b{budget}", RunSettings(reach=budget))
        change(tmp_path / f"b{budget}", lambda manifest: manifest["settings"]["options"].update(budget=budget))  # noqa: B023
    fewer = QuerySet(queries.queries[:24], queries.meta)
    run(store, fewer, tmp_path / "fewer", RunSettings("crisp"))
    folders = [tmp_path / name for name in ("exact", "b10", "b100", "fewer")]
    target = write_report(folders, tmp_path / "deep" / "report")
    assert sorted(p.name for p in target.iterdir()) == ["index.html", "report.csv", "report.md", "report.tex"]
    text = (target / "report.md").read_text()
    assert text.count("## Query set") == 2  # runs on other queries are not put side by side
    assert "| shape | exact | exact B=10 | exact B=100 |" in text
    assert "published" not in text
    rows = list(csv.DictReader((target / "report.csv").open()))
    cells = {(r["query_set"], r["run"], r["metric"], r["group"]): float(r["mean"]) for r in rows}
    own = read_rows(tmp_path / "exact")
    by_shape = {s: np.mean([row.hit10 for row in own if row.shape == s]) for s in SHAPES}
    for shape, mean in by_shape.items():
        assert cells["1", "exact", "hit10", shape] == pytest.approx(mean)
    assert cells["1", "exact", "hit10", "all"] == pytest.approx(np.mean(list(by_shape.values())))
    assert cells["1", "exact", "hit10", "k=2"] == pytest.approx(np.mean([by_shape[s] for s in SHAPES[:3]]))
    assert f"| 2fp | {100 * by_shape['2fp']:.1f} ± " in text
    page = (target / "index.html").read_text()
    parser = _Strict()
    parser.feed(page)
    assert parser.open == []
    assert parser.sources == []
    assert page.count("<svg") == 5  # both sets against time; HIT@10 for k = 1 and 2 and time against the budget
    assert "budget B" in page
    with pytest.raises(BadInput, match="force=True"):
        write_report(folders, target)
    write_report(folders[:1], target, force=True)
    with pytest.raises(BadInput, match="not a benchmark report"):
        write_report(folders[:1], tmp_path, force=True)
    with pytest.raises(BadInput, match="not a benchmark result"):
        write_report([tmp_path], tmp_path / "x")
    assert sorted(os.listdir(tmp_path / "deep")) == ["report"]


def test_published_numbers_stand_beside(store: Path, queries: QuerySet, tmp_path: Path) -> None:
    run(store, queries, tmp_path / "exact")
    change(tmp_path / "exact", lambda manifest: manifest["store"].update(entities=14_505, relations=237))
    text = (write_report([tmp_path / "exact"], tmp_path / "report") / "report.md").read_text()
    assert "| shape | exact | NS3(J) (published) | NS3(M) (published) | FIT (published) |" in text
    line = next(line for line in text.splitlines() if line.startswith("| 2fp |"))
    assert line.endswith("| 28.5 | 14.4 | 9.7 |")
    means = next(line for line in text.splitlines() if line.startswith("| mean |"))
    assert means.endswith("| – | – | – |")  # 1p has no published number
    assert "context, not a comparison" in text


def test_many_types_show_means_and_published_groups(store: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    kept = select("published741:k=2,c=2,n=0")
    queries = sample(graph, kept[::2], 1, seed=1)
    assert len(queries.by_shape()) > 40
    run(store, queries, tmp_path / "many", RunSettings("ns3-marginal", options={"budget": 20}))
    change(tmp_path / "many", lambda manifest: manifest["store"].update(entities=14_505, relations=237))
    text = (write_report([tmp_path / "many"], tmp_path / "report") / "report.md").read_text()
    assert "| type" not in text
    assert "NS3(J)" not in text  # these are not the 14 types
    assert f"Means over {len(queries.by_shape())} types" in text
    assert "| NS3(M), Joint (published) | 6.9 | 7.6 | 7.4 | 7.7 | 14.6 | 3.3 | 3.3 | 9.0 | 6.6 | – |" in text
    assert ",hit10,type0" in (tmp_path / "report" / "report.csv").read_text()
