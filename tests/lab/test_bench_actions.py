"""`tuplet bench` from the command line: sample, run, go on, report, and clear words about mistakes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from random_graph import random_graph
from small_store import make_store, numbers

from tuplet.cli.commands import main
from tuplet.lab.bench.queries import read
from tuplet.lab.bench.results import read_rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph, its store, and sampled queries."""
    root = tmp_path_factory.mktemp("command")
    graph = random_graph(3, entities=30, relations=5, edges=350)
    graph.save(root / "graph")
    make_store(root / "store", graph)
    words = f"bench sample {root}/graph --shapes 2fp,joint:k=3 --per-shape 2 --seed 4 --workers 1 --quiet"
    assert main([*words.split(), "-o", f"{root}/new/queries.parquet"]) == 0
    return root


def call(words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(words.split())
    out, err = capsys.readouterr()
    return code, out, err


def test_sampled_queries(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queries = read(folder / "new" / "queries.parquet")
    assert list(queries.by_shape()) == ["2fp", *(f"3f{kind}" for kind in ("pn", "p", "pm", "d", "dm", "cn", "c"))]
    assert queries.meta["seed"] == 4
    words = f"bench sample {folder}/graph --shapes 1p --per-shape 3 --known train --target valid --workers 1 --json"
    code, out, err = call(f"{words} --efok {folder}/efok -o {folder}/valid.parquet", capsys)
    assert code == 0
    links = {"1": sum(len(query.hard) for query in read(folder / "valid.parquet"))}
    told = {"queries": 3, "shapes": 1, "answers by predicted links": links, "output": f"{folder}/valid.parquet"}
    assert json.loads(out) == told
    assert "sampling: 100 %" in err
    assert read(folder / "valid.parquet").meta["target"] == ["valid"]
    assert [path.name for path in (folder / "efok").iterdir()] == ["test_type0000_EFOX_qaa.json"]


def test_balanced_queries_are_reported_by_stratum(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"bench sample {folder}/graph --shapes 2fp,1p --per-shape 2 --balance predicted --workers 1 --quiet --json"
    code, out, _ = call(f"{words} -o {tmp_path}/queries.parquet", capsys)
    assert (code, json.loads(out)["queries"]) == (0, 6)
    assert json.loads(out)["answers by predicted links"] == {"1": 4, "2": 2}
    run = f"bench run {folder}/store {tmp_path}/queries.parquet --workers 1 --quiet --json -o {tmp_path}/run"
    code, out, _ = call(run, capsys)
    rows = read_rows(tmp_path / "run")
    second = [row.hit10 for row in rows if row.links2_hit10 is not None]
    assert len(second) == 2
    assert json.loads(out)["by predicted links"]["2"]["hit10"] == pytest.approx(100 * sum(second) / 2, abs=0.01)
    assert call(f"bench report {tmp_path}/run -o {tmp_path}/report", capsys)[0] == 0
    assert "| predicted links | exact, HIT@10 | exact, MRR |" in (tmp_path / "report" / "report.md").read_text()
    with open(tmp_path / "report" / "report.csv", newline="", encoding="utf-8") as file:
        means = {(row["metric"], row["group"]): float(row["mean"]) for row in csv.DictReader(file)}
    assert means["hit10", "links=2"] == means["hit10", "2fp links=2"] == pytest.approx(sum(second) / 2)
    assert ("hit10", "1p links=2") not in means


def test_runs_go_on_and_are_reported(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = f"bench run {folder}/store {folder}/new/queries.parquet --workers 1 --json"
    runs = {
        "exact": "--engine exact --marginals",
        "joint": "--engine ns3 --budget 20 --merge simultaneous",
        "marginal": "--engine ns3-marginal --budget all",
    }
    for name, options in runs.items():
        code, out, err = call(f"{run} {options} -o {tmp_path}/{name}", capsys)
        assert code == 0, err
        assert json.loads(out)["queries"] == 16
    first = numbers(tmp_path / "joint")
    parts = sorted((tmp_path / "joint" / "parts").iterdir())
    parts[0].unlink()
    code, out, err = call(f"{run} {runs['joint']} -o {tmp_path}/joint", capsys)
    assert code == 0
    assert "ns3:  88 % (14/16)" in err
    assert numbers(tmp_path / "joint") == first
    results = " ".join(f"{tmp_path}/{name}" for name in runs)
    code, out, err = call(f"bench report {results} -o {tmp_path}/report", capsys)
    assert code == 0
    text = (tmp_path / "report" / "report.md").read_text()
    header = "| shape | exact | ns3 B=20 simultaneous | ns3-marginal B=all |"
    assert f"{header} exact, rank sums | ns3-marginal B=all, rank sums |" in text
    assert f"{header}\n" in text  # MRR
    assert "| ns3-marginal B=all, Multiply |" in text
    assert "predictor not stated (a truth table made elsewhere)" in text
    line = next(line for line in text.splitlines() if line.startswith("| ns3 B=20") and line.count("|") > 10)
    recall = sum(float(str(row["recall"])) for row in first) / 16
    assert f"| {100 * recall:.1f} |" in line


THEIRS = """
from tuplet.engines.exact import Exact

class Slow(Exact):
    name = "slow"

class Short(Exact):
    name, prunes, batched = "short", True, True
"""


@pytest.mark.parametrize("name", ["Slow", "Short"])
def test_an_engine_that_nobody_here_has_heard_of(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "other_engines.py").write_text(THEIRS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    run = f"bench run {folder}/store {folder}/new/queries.parquet --per-shape 1 --workers 1 --quiet"
    for engine in ("exact", f"other_engines:{name}"):
        code, _, err = call(f"{run} --engine {engine} -o {tmp_path}/{engine}", capsys)
        assert code == 0, err
    hits = [[row.hit10 for row in read_rows(tmp_path / engine)] for engine in ("exact", f"other_engines:{name}")]
    assert hits[0] == pytest.approx(hits[1])


def test_only_the_first_queries_of_each_shape(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = f"bench run {folder}/store {folder}/new/queries.parquet --workers 1 --json --quiet"
    for name, options in (("whole", ""), ("part", "--per-shape 1")):
        assert call(f"{run} {options} -o {tmp_path}/{name}", capsys)[0] == 0
    whole, part = numbers(tmp_path / "whole"), numbers(tmp_path / "part")
    assert len(part) == 8
    assert [row for row in whole if row["index"] == 0] == part
    code, _, err = call(f"{run} --per-shape 0 -o {tmp_path}/none", capsys)
    assert code == 1
    assert err == "error: at least one query of each shape is needed, not 0\n"
    assert not (tmp_path / "none").exists()


def test_types_as_csv(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call("bench types --profile published741", capsys)
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 741
    assert sum(row["free"] == "2" for row in rows) == 490


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("sample {0}/graph --shapes 2fq --per-shape 2 -o {0}/x", "unknown shape '2fq'"),
        ("sample {0}/graph --shapes 2fp --per-shape 0 -o {0}/x", "has to be at least 1, not 0"),
        ("sample {0}/graph --shapes 2fp --per-shape 2 -o {0}/store", "already exists; --force"),
        ("sample {0}/nothing --shapes 2fp --per-shape 2 -o {0}/x", "nothing"),
        ("sample {0}/graph --shapes 2fp --per-shape 2 --target tset -o {0}/x", "tset"),
        ("run {0}/store {0}/new/queries.parquet --budget 5 -o {0}/x", "--budget is for engines that prune"),
        ("run {0}/store {0}/new/queries.parquet --engine ns3 --budget few -o {0}/x", "not 'few'"),
        ("run {0}/store {0}/new/queries.parquet --engine ns3 --merge fast -o {0}/x", "unknown merge 'fast'"),
        ("run {0}/store {0}/new/queries.parquet --engine ns4 -o {0}/x", "did you mean"),
        ("run {0}/graph {0}/new/queries.parquet -o {0}/x", "needs a store with truth values"),
        ("run {0}/graph {0}/new/queries.parquet --engine ns3 -o {0}/x", "needs a store with truth values"),
        ("run {0}/store {0}/nothing.parquet -o {0}/x", "nothing.parquet"),
        ("run {0}/store {0}/new/queries.parquet --workers 2 --ray auto -o {0}/x", "either --workers or --ray"),
        ("report {0}/store -o {0}/x", "not a benchmark result"),
        ("types --profile all", "unknown profile 'all'"),
    ],
)
def test_mistakes_are_told_in_one_line_and_leave_nothing(
    folder: Path, words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(f"bench {words}".format(folder), capsys)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1
    assert not (folder / "x").exists()


def test_reliability_of_tuples(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = f"bench reliability {folder}/store {folder}/new/queries.parquet --per-shape 1 --top 20"
    code, out, _ = call(f"{words} --json", capsys)
    assert code == 0
    table = json.loads(out)
    assert table["all"]["queries"] == 8
    assert 0 < table["all"]["right"] < 1
    code, out, _ = call(words, capsys)
    assert code == 0
    assert out.splitlines()[1].split()[:2] == ["all", str(table["all"]["tuples"])]


def test_reliability_on_another_graph_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_store(tmp_path / "other", random_graph(4, entities=30, relations=5, edges=350))
    code, _, err = call(f"bench reliability {tmp_path}/other {folder}/new/queries.parquet", capsys)
    assert code != 0
    assert "sampled from graph" in err
