"""Builds without training, and the packaged network beside what was trained."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tuplet
from repeatable import SOAK
from tuplet.build import with_valid
from tuplet.cli.commands import main
from tuplet.errors import BadInput, BudgetExceeded
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.newest import NewestHoldOut
from tuplet.predict import model_folder
from tuplet.predict.base import TrainingEdges
from tuplet.predict.embeddings import ComplEx
from tuplet.predict.paths.model import PathModel
from tuplet.store import Store
from tuplet.truth import trained
from tuplet.truth.calibration import fit
from tuplet.truth.calibration.trees import TreeSettings
from tuplet.truth.candidates import scorer
from tuplet.truth.candidates.score import finished_relations, score_candidates
from tuplet.truth.candidates.scorer import RowProgress
from tuplet.truth.candidates.sources import CandidateSources
from tuplet.truth.edges import HIGHEST_PREDICTION, edge_numbers
from tuplet.truth.rules import Calibration
from tuplet.truth.store_folder import StoreFiles
from tuplet.truth.trained import RowWork, beside, joins, with_and_without

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


MINUTES = 600.0  # so many that a busy machine makes no difference


def timed(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """Rows are as slow as if so large a share of them could be computed in half of these minutes."""

    def slow(network: Any, edges: TrainingEdges) -> RowWork:
        rows = edges.half_links_of_one_end
        return RowWork(rows, 30 * MINUTES / (share * rows))

    monkeypatch.setattr(RowWork, "from_network", staticmethod(slow))


def test_minutes_that_are_far_too_few_are_said_before_the_work(tmp_path: Path, rows: list[int]) -> None:
    for facts in (towns(), with_valid(tuplet.read(towns(400)), 0.25, 0)):
        rows.clear()
        with pytest.raises(BudgetExceeded, match=r"a tenth of .* rows .* takes about .*; minutes=1"):
            tuplet.build(facts, tmp_path / "s", train=False, minutes=1e-6, progress=False)
        assert len(rows) == TIMED
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("has_valid", [False, True])
def test_where_minutes_do_not_suffice_the_most_useful_rows_are_computed(
    has_valid: bool,
    tmp_path: Path,
    rows: list[int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    timed(monkeypatch, 0.4)
    monkeypatch.setattr(RowProgress, "over", False)  # whatever else the machine has to do
    graph = tuplet.Graph.from_graph(with_valid(tuplet.read(towns(400)), 0.25, 0)) if has_valid else tuplet.read(towns())
    said: list[str] = []
    store = tuplet.build(
        graph,
        tmp_path / "s",
        train=False,
        minutes=MINUTES,
        progress=lambda step, done, total, note: None if total else said.append(note),
    )
    done = store.info()["report"]["candidates"]["rows"]
    assert any(note.startswith("nothing is trained: the most useful ") for note in said)
    assert sum(rows) == done["computed"] <= 0.4 * TrainingEdges.from_graph(graph).half_links_of_one_end
    assert done["facts_in_them"] > 1.2 * done["computed"] / done["of"], "rows with more facts come first"
    assert store.ask("?c : citizen_of(p1, ?c)").summary().endswith("were computed in the time given: more may be true")
    share, proof = done["computed"] / done["of"], tmp_path / "p.json"
    nobody = store.prove("?x : lies_in(?x, ?x)", proof).summary()
    assert nobody.startswith("no answers: no tuple has any truth in the store (")
    assert main(["check", str(proof)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "accepted: 0 answers in proven order, no other tuple has any truth in the store"
    assert lines[-1].startswith(f"rows      {100 * share:.0f} % were computed in the time given: more may be true")
    assert main(["check", "--json", str(proof)]) == 0
    assert json.loads(capsys.readouterr().out)["rows_computed"] == pytest.approx(share, abs=1e-4)
    files = StoreFiles.open(tmp_path / "s")
    starts = files.table.adjacency.view_ptr

    def bounds(name: str) -> set[float]:
        number = files.graph.relations.find(name)
        return {*files.table.row_dropped[starts[2 * number] : starts[2 * number + 2]].tolist()}

    assert bounds("citizen_of") == {np.float32(files.meta.threshold)}, "four rows of many facts: all are computed"
    assert bounds("knows") == {np.float32(HIGHEST_PREDICTION)}, "nobody has looked"


def test_when_the_time_is_up_no_row_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was computed is as without a limit; what was not is not listed, and not kept as if it were finished."""
    graph = tuplet.read(towns())
    known = graph.edges("train")
    network = model_folder.load_for(TrainingEdges.from_graph(graph), model_folder.find_model_folder("packaged"), "cpu")
    half_links = CandidateSources(one_side=True)
    whole = score_candidates({"any-graph": network}, known, half_links)
    monkeypatch.setattr(scorer, "_BATCHES", 1)
    monkeypatch.setattr(RowProgress, "over", property(lambda self: self.done >= 50))
    cache = finished_relations(tmp_path, ["x"], half_links, 0.002, Calibration(), known)
    assert cache is not None
    cut = score_candidates({"any-graph": network}, known, half_links, cache=cache, until=1e18)
    assert cut.rows is not None
    assert 50 <= sum(cut.rows.computed.values()) < sum(cut.rows.all.values())
    keys = [edge_numbers(len(graph.entities), (one.heads, one.relation, one.tails)) for one in (whole, cut)]
    assert 0 < len(keys[1]) < len(keys[0])
    np.testing.assert_allclose(cut.logs, whole.logs[:, :, np.isin(keys[0], keys[1])], atol=1e-4)
    finished = {relation for relation in range(len(graph.relations)) if cache.has(relation)}
    assert finished == {*range(len(graph.relations))} - {*cut.rows.lacking}
    assert 0 < len(finished) < len(graph.relations)


def test_a_fit_without_time_promises_by_the_line_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    start, label = torch.randn(4000, generator=generator), torch.rand(4000, generator=generator).round()
    bins, fold = (64 * label).to(torch.uint8)[None], torch.arange(4000) % fit.FOLDS
    given = fit.TreeRows(bins, label, torch.ones(4000), start), fold, TreeSettings(trees=3, depth=2)
    for until, has_trees in ((time.monotonic() - 1, False), (time.monotonic() + 1e6, True)):
        folds, logit, _ = fit._cross_fit(*given, until=until)
        assert [len(grown) > 0 for grown in folds] == [has_trees] * fit.FOLDS
        assert torch.equal(logit, start) != has_trees


@pytest.mark.skipif(not SOAK, reason="a graph that is large enough takes long; make soak")
def test_the_newest_facts_are_hidden_without_training(tmp_path: Path) -> None:
    source = tmp_path / "facts.tsv"
    facts = [fact for fact in towns(1500) if fact[1] != "knows"]
    years = np.random.default_rng(0).integers(2000, 2020, len(facts))
    dated = [(*fact, f"{year}-01-01") for fact, year in zip(facts, years, strict=True)]
    source.write_text("head\trelation\ttail\tdate\n" + "\n".join("\t".join(fact) for fact in dated))
    store = tuplet.build(source, tmp_path / "s", train=False, holdout="newest", progress=False)
    newest = NewestHoldOut.from_graph(store.graph)
    assert newest is not None
    assert newest.windows > 0
    assert store.info()["model"]["kind"] == "any-graph"


def test_valid_edges_are_hidden_where_there_are_enough(tmp_path: Path, rows: list[int]) -> None:
    graph = tuplet.Graph.from_graph(with_valid(tuplet.read(towns(400)), 0.25, 0))
    assert graph.split_edges["valid"] >= 300
    store = tuplet.build(graph, tmp_path / "s", train=False, progress=False)
    report = store.info()["report"]
    assert report["candidates"]["sources"].startswith("half-links of one end")
    links = TrainingEdges.from_graph(graph).half_links_of_one_end
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


@pytest.mark.parametrize("has_valid", [False, True])
def test_a_limited_build_goes_on_with_the_rows_that_were_planned(
    has_valid: bool, tmp_path: Path, rows: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = tuplet.Graph.from_graph(with_valid(tuplet.read(towns(400)), 0.25, 0)) if has_valid else tuplet.read(towns())
    monkeypatch.setattr(RowProgress, "over", False)  # whatever else the machine has to do
    plans: list[str] = []

    def told(step: str, done: float, total: float, note: str) -> None:
        plans.extend([note] if note.startswith("nothing is trained: ") else [])

    def stop(step: str, done: float, total: float, note: str) -> None:
        told(step, done, total, note)
        if any((tmp_path / ".s.work").glob("*/*.npz")):
            raise KeyboardInterrupt

    timed(monkeypatch, 0.4)
    with pytest.raises(KeyboardInterrupt):
        tuplet.build(graph, tmp_path / "s", train=False, minutes=MINUTES, progress=stop)
    finished, before = {*(tmp_path / ".s.work").glob("*/*.npz")}, sum(rows)
    timed(monkeypatch, 0.35)  # measured anew
    store = tuplet.build(graph, tmp_path / "s", train=False, minutes=MINUTES, progress=told)
    planned, computed = (
        [plan.split(" of ")[0] for plan in plans],
        store.info()["report"]["candidates"]["rows"]["computed"],
    )
    assert finished
    assert planned[0] == planned[1] == f"nothing is trained: the most useful {computed:,}"
    assert sum(rows) < before + computed, "what was finished is not computed again"
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


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
    edges = TrainingEdges.from_graph(graph)
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
    assert found == [model_folder.find_model_folder("packaged")]
    assert said[-1].startswith("the packaged network joins: MRR of ")
    monkeypatch.setattr(trained, "joins", unwanted)
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
    least = RowWork.least(model_folder.load("packaged"), TrainingEdges.from_graph(graph)).total
    assert not joins(graph, [model], 1, least, "cpu", told)
    assert said == [said[0]]
    assert said[0].startswith("the packaged network is left out: its rows take about ")
