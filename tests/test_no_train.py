"""Builds without training, and the packaged network beside what was trained."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tuplet
from tuplet import build_packaged
from tuplet.build_packaged import RowWork, beside, joins, with_and_without
from tuplet.cli.commands import main
from tuplet.errors import BadInput, BudgetExceeded
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.newest import NewestHoldOut
from tuplet.pipeline import with_valid
from tuplet.predict import model_folder
from tuplet.predict.edges import TrainingEdges
from tuplet.predict.embeddings import ComplEx
from tuplet.predict.paths.model import PathModel
from tuplet.store import Store
from tuplet.truth.learned import fit
from tuplet.truth.learned.trees import TreeSettings

TIMED = 2  # calls that compute rows to see how long one takes


def towns(size: int = 100) -> list[tuple[str, str, str]]:
    """People live in towns of countries, and are citizens of these: who is of which country follows by two steps."""
    rng = np.random.default_rng(0)
    facts = [(f"town{t}", "lies_in", f"country{t % 4}") for t in range(20)]
    for person, town in enumerate(rng.integers(0, 20, size).tolist()):
        facts += [(f"p{person}", "lives_in", f"town{town}"), (f"p{person}", "citizen_of", f"country{town % 4}")]
        facts += [(f"p{person}", "knows", f"p{other}") for other in rng.integers(0, size, 2).tolist()]
    return sorted(set(facts))


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "TreeSettings", lambda: TreeSettings(trees=15, depth=3))


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows of path networks each call computes."""
    computed: list[int] = []
    original = PathModel.mixed_rows

    def counted(self: PathModel, asked: torch.Tensor, relation: torch.Tensor) -> torch.Tensor:
        computed.append(len(asked))
        return original(self, asked, relation)

    monkeypatch.setattr(PathModel, "mixed_rows", counted)
    return computed


def once(monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    """Time plays no part in how many parts are hidden."""
    monkeypatch.setattr(RowWork, "parts", lambda self, seconds: parts)


def test_no_train_predicts_what_was_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once(monkeypatch, 4)
    left_out = [fact for fact in towns() if fact[1] == "citizen_of"][::10]
    said: list[str] = []
    store = tuplet.build(
        [fact for fact in towns() if fact not in left_out],
        tmp_path / "s",
        train=False,
        progress=lambda step, done, total, note: None if total else said.append(note),
    )
    assert store.info()["model"]["kind"] == "any-graph"
    assert any(note.startswith("nothing is trained: ") for note in said)
    found = [store.ask(f"?c : citizen_of({head}, ?c)", k=1)[0].values["c"] for head, _, _ in left_out]
    right = [tail for _, _, tail in left_out]
    assert sum(a == b for a, b in zip(found, right, strict=True)) > 0.8 * len(right)
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_no_train_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    once(monkeypatch, 1)
    source = tmp_path / "facts.tsv"
    source.write_text("\n".join("\t".join(fact) for fact in towns()))
    assert main(["build", str(source), "-o", str(tmp_path / "s"), "--no-train", "--quiet"]) == 0
    assert "predictions: " in capsys.readouterr().out
    assert main(["build", str(source), "-o", str(tmp_path / "t"), "--no-train", "--rank", "5"]) != 0
    assert capsys.readouterr().err.strip().endswith("--rank is about training, and nothing is trained here")
    with pytest.raises(BadInput, match="predictors is about training"):
        tuplet.build(towns(), tmp_path / "t", train=False, predictors="complex")


def test_minutes_that_do_not_suffice_are_said_before_the_work(tmp_path: Path, rows: list[int]) -> None:
    for facts in (towns(), with_valid(tuplet.read(towns(400)), 0.25, 0)):
        rows.clear()
        with pytest.raises(BudgetExceeded, match=r"rows of the packaged network take about .*; minutes=1 would"):
            tuplet.build(facts, tmp_path / "s", train=False, minutes=1e-6, progress=False)
        assert len(rows) == TIMED
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not os.environ.get("TUPLET_SOAK"), reason="a graph that is large enough takes long; make soak")
def test_the_newest_facts_are_hidden_without_training(tmp_path: Path) -> None:
    source = tmp_path / "facts.tsv"
    facts = [fact for fact in towns(1500) if fact[1] != "knows"]
    years = np.random.default_rng(0).integers(2000, 2020, len(facts))
    dated = [(*fact, f"{year}-01-01") for fact, year in zip(facts, years, strict=True)]
    source.write_text("head\trelation\ttail\tdate\n" + "\n".join("\t".join(fact) for fact in dated))
    store = tuplet.build(source, tmp_path / "s", train=False, holdout="newest", progress=False)
    newest = NewestHoldOut.of(store.graph)
    assert newest is not None
    assert newest.windows > 0
    assert store.info()["model"]["kind"] == "any-graph"


def test_valid_edges_are_hidden_where_there_are_enough(tmp_path: Path, rows: list[int]) -> None:
    graph = tuplet.Graph.made(with_valid(tuplet.read(towns(400)), 0.25, 0))
    assert graph.split_edges["valid"] >= 300
    store = tuplet.build(graph, tmp_path / "s", train=False, progress=False)
    report = store.info()["report"]
    assert report["candidates"]["sources"].startswith("half-links of one end")
    links = TrainingEdges.of(graph).half_links_of_one_end
    assert sum(rows[TIMED:]) == links, "each row is computed once"
    again = tuplet.index(graph, "packaged", tmp_path / "t", progress=False)
    assert same_truth(store, again)


def same_truth(one: Store, other: Store) -> bool:
    tables = [store.source.truth.predictions() for store in (one, other)]
    return all(np.array_equal(a, b) for a, b in zip(*tables, strict=True))


def test_ctrl_c_loses_no_finished_relation(tmp_path: Path, rows: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    once(monkeypatch, 3)
    whole = tuplet.build(towns(), tmp_path / "whole", train=False, progress=False)
    everything = sum(rows[TIMED:])

    def stop(step: str, done: float, total: float, note: str) -> None:
        if step == "score" and done > 2.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuplet.build(towns(), tmp_path / "s", train=False, progress=stop)
    assert not (tmp_path / "s").exists()
    rows.clear()
    store = tuplet.build(towns(), tmp_path / "s", train=False, progress=False)
    assert sum(rows[TIMED:]) < everything / 2
    assert same_truth(whole, store)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s", "whole"]


def test_one_fact_has_nothing_to_hide(tmp_path: Path) -> None:
    store = tuplet.build([("a", "r", "b")], tmp_path / "s", train=False, progress=False)
    assert store.info()["report"]["predicted"] == 0
    assert "too few facts" in store.info()["why"]


# --- beside what was trained ---------------------------------------------------------------------------------------


class Oracle:
    """Knows the facts of a graph, and says so or the opposite."""

    def __init__(self, graph: KnowledgeGraph, right: bool) -> None:
        self.entities, self.relations = len(graph.entities), len(graph.relations)
        heads, relation, tails = (torch.from_numpy(np.asarray(side, dtype=np.int64)) for side in graph.edges("valid"))
        self.table = torch.zeros(2 * self.relations, self.entities, self.entities)
        self.table[relation, heads, tails] = self.table[relation + self.relations, tails, heads] = 9 if right else -9

    def tails(self, heads: torch.Tensor, relation: int) -> torch.Tensor:
        return self.table[relation, heads]

    def heads(self, tails: torch.Tensor, relation: int) -> torch.Tensor:
        return self.table[relation + self.relations, tails]

    def pairs(self, heads: torch.Tensor, relation: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
        return self.table[relation, heads, tails]


def held_out() -> KnowledgeGraph:
    return with_valid(tuplet.read(towns()), 0.1, 0)


def untrained(graph: KnowledgeGraph, folder: Path) -> Path:
    torch.manual_seed(0)
    model = ComplEx(torch.randn(len(graph.entities), 8), torch.randn(2 * len(graph.relations), 8))
    model_folder.save(model, folder, {"graph": graph.hash})
    return folder


def test_another_voice_is_heard_if_it_finds_more() -> None:
    graph = held_out()
    edges = TrainingEdges.of(graph)
    right, wrong = Oracle(graph, True), Oracle(graph, False)
    before, after = with_and_without([wrong], right, edges, 30)
    assert len(before) == 60
    assert after.mean() > 0.9 > 0.1 > before.mean()
    before, after = with_and_without([right], wrong, edges, 30)
    assert before.mean() == 1 >= after.mean()


def test_the_network_joins_a_model_that_knows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, said = held_out(), list[str]()
    model = untrained(graph, tmp_path / "complex")

    def told(step: str, done: float, total: float, note: str) -> None:
        said.append(note)

    found = beside(graph, [model], 1, 1e9, "cpu", tmp_path, told)
    assert found == [model_folder.located("packaged")]
    assert said[-1].startswith("the packaged network joins: MRR of ")
    monkeypatch.setattr(build_packaged, "joins", unwanted)
    assert beside(graph, [model], 1, 0.0, "cpu", tmp_path, told) == found, "decided once"


def unwanted(*_: Any) -> bool:
    raise AssertionError("this was decided before")


def test_the_network_stays_out_where_its_rows_take_too_long(tmp_path: Path) -> None:
    graph, said = held_out(), list[str]()
    model = untrained(graph, tmp_path / "complex")

    def told(step: str, done: float, total: float, note: str) -> None:
        said.append(note)

    assert not joins(graph, [model], 1, 1e-9, "cpu", told)
    assert not said, "not even timed"
    least = RowWork.least(model_folder.load("packaged"), TrainingEdges.of(graph)).total
    assert not joins(graph, [model], 1, least, "cpu", told)
    assert said == [said[0]]
    assert said[0].startswith("the packaged network is left out: its rows take about ")
