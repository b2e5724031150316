"""A store from anything that scores edges: five names are enough, tensors and numpy arrays both."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_truth_store import ENTITIES, RELATIONS, small_graph
from test_truth_sweep import as_dense, build_table, dense, random_edges, random_model

import tuplet
from tuplet.build import choose_recipe, make
from tuplet.cli.commands import main
from tuplet.errors import BadInput
from tuplet.predict import base
from tuplet.predict.base import TrainingEdges
from tuplet.predict.config import TrainConfig
from tuplet.predict.embeddings import EmbeddingModel
from tuplet.truth.candidates import rows
from tuplet.truth.rules import Calibration
from tuplet.truth.store_folder import StoreFiles
from tuplet.truth.store_meta import ModelMeta


class Popularity:
    """Scores by how often an entity is an end of the relation: numpy throughout, nothing beyond the protocol."""

    def __init__(self, graph: tuplet.KnowledgeGraph) -> None:
        self.entities, self.relations = len(graph.entities), len(graph.relations)
        heads, relation, tails = graph.edges("train")
        self.as_head, self.as_tail = np.zeros((2, self.relations, self.entities))
        np.add.at(self.as_head, (relation, heads), 1.0)
        np.add.at(self.as_tail, (relation, tails), 1.0)

    def tails(self, heads: torch.Tensor, relation: int) -> np.ndarray:
        return np.tile(self.as_tail[relation], (len(heads), 1))

    def heads(self, tails: torch.Tensor, relation: int) -> np.ndarray:
        return np.tile(2 * self.as_head[relation], (len(tails), 1))

    def pairs(self, heads: torch.Tensor, relation: torch.Tensor, tails: torch.Tensor) -> np.ndarray:
        return self.as_tail[np.asarray(relation), np.asarray(tails)]


class Plain:
    """An embedding model that shows the five names alone, its scores as tensors or arrays."""

    def __init__(self, model: EmbeddingModel, arrays: bool) -> None:
        self.model, self.arrays = model, arrays
        self.entities, self.relations = model.entities, model.relations

    def tails(self, heads: torch.Tensor, relation: int) -> Any:
        return self._as(self.model.tails(heads, relation))

    def heads(self, tails: torch.Tensor, relation: int) -> Any:
        return self._as(self.model.heads(tails, relation))

    def pairs(self, heads: torch.Tensor, relation: torch.Tensor, tails: torch.Tensor) -> Any:
        assert int(relation.max()) < self.relations, "reciprocal numbers are for those who say that they take them"
        return self._as(self.model.pairs(heads, relation, tails))

    def _as(self, scores: torch.Tensor) -> Any:
        return scores.double().numpy() if self.arrays else scores


@pytest.mark.parametrize("most", [7 * ENTITIES, 1 << 24], ids=["in blocks", "whole"])
@pytest.mark.parametrize("arrays", [False, True], ids=["tensors", "arrays"])
def test_five_names_give_the_same_table(most: int, arrays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model, edges = random_model(), random_edges()
    monkeypatch.setattr(rows, "_MOST_SCORES", most)
    monkeypatch.setattr(base, "_MOST_SCORES", 7 * model.entities)  # seven rows at a time
    found = as_dense(build_table(Plain(model, arrays), edges, threshold=0.02))
    wanted = dense(model, edges, Calibration())
    wanted[wanted < 0.02] = 0
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_index_takes_an_object(tmp_path: Path) -> None:
    graph = small_graph()
    make(graph, choose_recipe(Popularity(graph), threshold=0.02, calibration="softmax-count"), tmp_path / "pop.store")
    store = tuplet.open(tmp_path / "pop.store")
    about = store.info()
    assert about["model"] == {"kind": "Popularity", "note": "an object in Python; there is no model folder"}
    answers = store.ask("?x, ?y : r0(?x, ?y)", k=200)
    assert {answer.status for answer in answers} == {"observed", "predicted"}
    assert answers.about["predictor"] == "Popularity"
    # softmax over the known tails × how many the head has, the mean with the same of the heads
    popular = Popularity(graph)
    to_tail, to_head = (np.exp(s) / np.exp(s).sum() for s in (popular.as_tail[0], 2 * popular.as_head[0]))
    heads, relation, tails = graph.edges("train")
    for answer in answers:
        h, t = (graph.entities.find(answer[name]) for name in ("x", "y"))
        if answer.status == "predicted":
            known = [max(1, int(((relation == 0) & (side == end)).sum())) for side, end in ((heads, h), (tails, t))]
            sides = np.minimum([known[0] * to_tail[t], known[1] * to_head[h]], 0.9999)
            assert answer.truth == pytest.approx(sides.mean(), rel=1e-4)


class Registered(Popularity):
    """As `tuplet index GRAPH module:Class` makes it: from sizes and settings, then shown the edges."""

    def __init__(self, entities: int, relations: int, settings: TrainConfig) -> None:
        self.entities, self.relations = entities, relations

    def fit(self, edges: TrainingEdges) -> None:
        heads, relation, tails = edges.splits["train"]
        self.as_head, self.as_tail = np.zeros((2, self.relations, self.entities))
        np.add.at(self.as_head, (relation, heads), 1.0)
        np.add.at(self.as_tail, (relation, tails), 1.0)


def test_index_takes_a_class_by_module_and_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = small_graph()
    graph.save(tmp_path / "g")
    arguments = ["index", str(tmp_path / "g"), "test_truth_predictor:Registered", "--threshold", "0.02", "--quiet"]
    assert main([*arguments, "-o", str(tmp_path / "by-name")]) == 0
    by_object = make(graph, choose_recipe(Popularity(graph), threshold=0.02), tmp_path / "by-object")
    by_name = StoreFiles.open(tmp_path / "by-name")
    assert by_name.table.truth.tolist() == by_object.table.truth.tolist()
    assert by_name.meta.models == (ModelMeta("test_truth_predictor:Registered"),)
    capsys.readouterr()
    for name, message in (
        ("test_truth_predictor:Registred", "cannot load test_truth_predictor:Registred"),
        ("test_truth_predictor:Popularity", "cannot be called with (entities, relations, settings)"),
        ("complex", "complex has to be trained first: tuplet train --model complex"),
        ("no.model", "no such model: no.model"),
    ):
        assert main(["index", str(tmp_path / "g"), name, "-o", str(tmp_path / "s")]) == 1
        assert message in capsys.readouterr().err


class Impatient(Registered):
    """Somebody presses Ctrl-C while it scores."""

    def tails(self, heads: torch.Tensor, relation: int) -> np.ndarray:
        raise KeyboardInterrupt


def test_ctrl_c_while_indexing_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_graph().save(tmp_path / "g")
    predictor = "test_truth_predictor:Impatient"
    assert main(["index", str(tmp_path / "g"), predictor, "-o", str(tmp_path / "s"), "--quiet"]) == 130
    assert capsys.readouterr().err == "stopped; the same command goes on with what is finished\n"
    assert not (tmp_path / "s").exists()


def test_what_is_no_predictor_is_refused_in_one_line(tmp_path: Path) -> None:
    graph = small_graph()
    popular = Popularity(graph)
    cases: list[tuple[Any, str]] = [
        (42, "int is not a link predictor: it has no number 'entities'"),
        (types.SimpleNamespace(entities=ENTITIES, relations=RELATIONS, tails=min), "has no method 'heads'"),
        (_changed(popular, entities=7), "Popularity knows 7 entities, the graph has 30"),
        (
            _changed(popular, tails=lambda heads, relation: np.zeros((len(heads), 4))),
            r"tails gave scores of shape \[30, 4\]",
        ),
        (_changed(popular, heads=lambda t, r: np.full((len(t), ENTITIES), np.nan)), "not finite numbers"),
    ]
    for thing, message in cases:
        with pytest.raises(BadInput, match=message):
            make(graph, choose_recipe(thing), tmp_path / "s")
    with pytest.raises(BadInput, match="need a model folder to copy, and Popularity is an object"):
        make(graph, choose_recipe(popular, on_demand=True), tmp_path / "s")
    with pytest.raises(BadInput, match="unknown argument of index 'treshold'; did you mean 'threshold'"):
        make(graph, choose_recipe(popular, treshold=0.1), tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


def _changed(predictor: Popularity, **attributes: Any) -> Popularity:
    changed = Popularity.__new__(Popularity)
    changed.__dict__.update(predictor.__dict__ | attributes)
    return changed


def test_calibrations_of_others_go_by_module_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("someones_rules")
    module.plain_softmax = lambda count, log_observed, normaliser: normaliser  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "someones_rules", module)
    graph = small_graph()
    ours = make(graph, choose_recipe(Popularity(graph), threshold=0.02, calibration="softmax-count"), tmp_path / "a")
    theirs = make(
        graph,
        choose_recipe(Popularity(graph), threshold=0.02, calibration="someones_rules:plain_softmax"),
        tmp_path / "b",
    )
    assert theirs.meta.calibration == {"name": "someones_rules:plain_softmax"}
    more, fewer = ours.table.predictions(), theirs.table.predictions()
    assert set(zip(*fewer[:3], strict=True)) < set(zip(*more[:3], strict=True))  # without the counts truth is smaller
    with pytest.raises(BadInput, match="a name of its own"):
        make(
            graph, choose_recipe("no.model", on_demand=True, calibration="someones_rules:plain_softmax"), tmp_path / "c"
        )
