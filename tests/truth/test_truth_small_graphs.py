"""Small graphs and weak models, from facts to an answer: no truth above what was measured, and the answer says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import tuplet
from tuplet.predict import model_folder
from tuplet.predict.embeddings import ComplEx
from tuplet.truth.calibration import fit
from tuplet.truth.calibration.calibrate import hide_in_turn
from tuplet.truth.calibration.reliability import MeasuredBounds
from tuplet.truth.calibration.trees import TreeSettings
from tuplet.truth.store_meta import BOUNDED, LEARNED

QUERY = "?x, ?y : r(?x, ?y)"


def ring(facts: int, seed: int = 0) -> list[tuple[str, str, str]]:
    """Random facts: nothing can be learned from them."""
    rng = np.random.default_rng(seed)
    size = int(3 + facts**0.5)
    pairs = rng.permutation(size * size)[:facts]
    return [(f"e{p // size}", "r", f"e{p % size}") for p in pairs.tolist()]


def test_one_fact_predicts_nothing_and_says_why(tmp_path: Path) -> None:
    store = tuplet.build([("a", "r", "b")], tmp_path / "s", model="complex", rank=4, epochs=2, progress=False)
    answers = store.ask(QUERY)
    assert [(a.values, a.status) for a in answers] == [({"x": "a", "y": "b"}, "observed")]
    assert answers.calibrated is None
    assert answers.summary().endswith(
        " · nothing is predicted: there are too few facts to hide some of them and see whether they are found"
    )
    assert "too few facts" in store.info()["why"]


def test_ten_facts_are_bounded_and_say_so(tmp_path: Path) -> None:
    store = tuplet.build(ring(10), tmp_path / "s", model="complex", rank=4, epochs=3, progress=False)
    answers = store.ask(QUERY, k=None, only="predicted")
    assert answers.calibrated is False
    assert answers.to_dict()["calibrated"] is False
    assert "truth values are not calibrated: " in answers.summary()
    assert "no truth is above what they bear out" in answers.summary()
    measured = store.info()["calibration"]
    assert measured["name"] == BOUNDED
    most = max(
        bound for bound, tried in zip(*(measured["bounds"][k] for k in ("most", "trials")), strict=True) if tried
    )
    assert all(answer.truth <= most for answer in answers)
    assert max((answer.truth for answer in answers), default=0) < 0.5


def test_a_few_hundred_facts_are_enough_to_learn_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """r follows s: what was hidden is found, and the store is calibrated though it has no 300 valid edges."""
    monkeypatch.setattr(fit, "TreeSettings", lambda: TreeSettings(trees=15, depth=3))
    rng = np.random.default_rng(1)
    pairs = rng.permutation(900)[:450].tolist()
    facts = [(f"e{p // 30}", "s", f"e{p % 30}") for p in pairs]
    facts += [(h, "r", t) for h, _, t in facts[:360]]
    store = tuplet.build(facts, tmp_path / "s", model="complex", rank=16, epochs=10, progress=False)
    answers = store.ask(QUERY, k=90, only="predicted")
    assert answers.calibrated is True
    assert store.info()["calibration"]["name"] == LEARNED
    about = store.info()
    tried = about["calibration"]["hidden_facts"]
    assert f"(measured on {tried} facts that were hidden in turn)" in about["promise"]["sentence"]
    assert about["report"]["candidates"]["listed"] <= 2 * 30**2  # relations × pairs, however often facts were hidden
    rows = {row.relation: row for row in store.relations()}
    missing = sum((row.base_rate or 0) * (30**2 - row.facts) for row in rows.values())  # all are heads and tails
    assert f"if {missing:.0f} are missing" in about["promise"]["sentence"]
    assert rows["r"].lift == round(0.3 / (rows["r"].base_rate or 1))
    [fact] = answers[0].witness
    assert fact.lift == pytest.approx(answers[0].truth / (rows["r"].base_rate or 1))
    told = str(store.ask(QUERY, k=1, only="predicted", evidence=True)[0].explain())
    assert told.endswith(f"{fact.lift:.{0 if fact.lift >= 10 else 1}f} times as likely as chance")
    linked = {(h, t) for h, _, t in facts[360:450]}
    assert np.mean([(a["x"], a["y"]) in linked for a in answers]) > 0.8
    assert "not calibrated" not in answers.summary()


def sure_of_nonsense(valid: int, folder: Path) -> tuplet.Graph:
    """A ring with so many valid edges; the folder gets a barely trained model of it."""
    facts = ring(400)
    graph = tuplet.read(facts[valid:], valid=facts[:valid] or None)
    model = ComplEx.create(len(graph.entities), 1, 8, 3.0, 2, torch.Generator().manual_seed(1))
    model_folder.save(model, folder)
    return graph


@pytest.mark.parametrize("valid", [0, 30])
def test_a_barely_trained_model_is_bounded_by_the_valid_edges_there_are(tmp_path: Path, valid: int) -> None:
    graph = sure_of_nonsense(valid, tmp_path / "m")
    raw = tuplet.index(graph, tmp_path / "m", tmp_path / "raw", calibration="softmax-count", progress=False)
    wild = raw.ask(QUERY, only="predicted")
    assert wild[0].truth > 0.4
    assert wild.calibrated is False
    assert wild.summary().endswith("truth values are not calibrated: calibration softmax-count was asked for")
    answers = tuplet.index(graph, tmp_path / "m", tmp_path / "s", progress=False).ask(QUERY, only="predicted", k=None)
    if not valid:
        assert len(answers) == 0
        assert answers.calibrated is None
        assert "nothing is predicted: 0 valid edges, 300 needed" in answers.summary()
        return
    assert answers.calibrated is False
    assert answers[0].truth < 0.4  # 30 of the 159 pairs that nobody stated were hidden facts
    assert "30 valid edges, 300 needed; no truth is above what they bear out" in answers.summary()


@pytest.mark.parametrize("valid", [0, 30])
def test_rows_on_demand_promise_no_more_than_was_measured(tmp_path: Path, valid: int) -> None:
    graph = sure_of_nonsense(valid, tmp_path / "m")
    wanted = {"on_demand": True, "progress": False}
    raw = tuplet.index(graph, tmp_path / "m", tmp_path / "raw", calibration="softmax-count", **wanted)
    wild = raw.ask(QUERY, only="predicted", k=None)
    assert wild[0].truth > 0.4
    assert wild.summary().endswith("truth values are not calibrated: calibration softmax-count was asked for")
    store = tuplet.index(graph, tmp_path / "m", tmp_path / "s", **wanted)
    answers = store.ask(QUERY, only="predicted", k=None)
    assert answers.calibrated is answers.to_dict()["calibrated"] is False
    assert answers.about["calibration"] == {"name": "softmax-count"}
    if not valid:
        assert len(answers) == 0
        assert answers.summary().endswith("nothing was measured, and nothing predicted is listed")
        return
    assert " valid edges among them bear out" in answers.summary()
    bounds = store.info()["calibration"]["bounds"]
    assert 0 < answers[0].truth <= max(bounds["most"]) < 0.5
    assert sum(bounds["trials"]) > sum(bounds["hits"]) > 0
    said = {tuple(answer): answer.truth for answer in wild}
    assert all(answer.truth <= said[tuple(answer)] for answer in answers)
    source = store.source.truth  # rows, single edges and whole relations say the same
    assert source is not None
    head, tail = (graph.entities.find(answers[0][name]) for name in ("x", "y"))
    assert source.value(head, 0, tail) == pytest.approx(answers[0].truth)
    row = source.row(head, 0, False)
    assert float(row.truth[row.ids == tail][0]) == pytest.approx(answers[0].truth)


def test_the_same_parts_are_hidden_every_time() -> None:
    ids = np.arange(40)
    first, second = (hide_in_turn((ids, ids, ids), 3) for _ in range(2))
    assert [p.hidden[0].tolist() for p in first] == [p.hidden[0].tolist() for p in second]
    assert MeasuredBounds.from_trials(1, ids[:0], np.zeros(0), ids[:0] > 0)(np.zeros(1, int), np.ones(1)).tolist() == [
        0.0
    ]
