"""The path network of any graph: it knows no names, it carries over to graphs that it never saw."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tuplet.errors import BadInput
from tuplet.predict.edges import TrainingEdges, Triples
from tuplet.predict.evaluate import evaluate
from tuplet.predict.model_folder import describe, load_for, save
from tuplet.predict.paths.message_graph import MessageGraph
from tuplet.predict.paths.mixed import MixedPathTask
from tuplet.predict.paths.model import AnyGraphModel
from tuplet.predict.train import train
from tuplet.predict.training import Position, RunOptions, TrainingRun
from tuplet.train_config import TrainConfig

SMALL = TrainConfig(
    model="any-graph", rank=8, layers=3, steps=80, batch=12, targets=2, learning_rate=0.01, evaluate_every=0, patience=0
)


def random_model(edges: TrainingEdges, seed: int = 0) -> AnyGraphModel:
    torch.manual_seed(seed)
    network = AnyGraphModel.network_of(edges.relations, 8, 3)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return AnyGraphModel(network.requires_grad_(False), 0, 0).on(edges)


def rule_graph(seed: int, size: int, extra: int, order: list[int]) -> TrainingEdges:
    """Two relations lead from kind A to B to C, one from A to C by both; others are noise. `order` numbers them."""
    rng = np.random.default_rng(seed)
    steps = [rng.integers(0, size, size) for _ in range(2)]
    facts = [(a, order[0], size + int(b)) for a, b in enumerate(steps[0])]
    facts += [(size + b, order[1], 2 * size + int(c)) for b, c in enumerate(steps[1])]
    follows = [(a, order[2], 2 * size + int(steps[1][b])) for a, b in enumerate(steps[0])]
    noise = rng.integers(0, size, (2, extra, size))
    facts += [
        (int(h), order[3 + k], 2 * size + int(t)) for k in range(extra) for h, t in zip(*noise[:, k], strict=True)
    ]
    hidden = {edge for edge in follows[1:] if rng.random() < 0.3} | {follows[0]}
    known = np.array(sorted(set(facts + follows) - hidden)).T
    splits = {"train": _triples(known), "valid": _triples(np.array(sorted(hidden)).T)}
    return TrainingEdges(splits, 3 * size, 3 + extra)


def _triples(rows: np.ndarray) -> Triples:
    heads, relation, tails = rows.astype(np.int64)
    return heads, relation, tails


def test_other_numbers_of_entities_and_relations_change_nothing() -> None:
    edges = rule_graph(0, 8, 2, [0, 1, 2, 3, 4])
    rng = np.random.default_rng(1)
    entity, relation = rng.permutation(24), rng.permutation(5)
    h, r, t = edges.splits["train"]
    other = TrainingEdges({"train": (entity[h], relation[r], entity[t])}, 24, 5)
    asked = torch.tensor([3, 7, 7])
    for number in (0, 2, 4):
        one = random_model(edges).tails(asked, number)
        two = random_model(other).tails(torch.from_numpy(entity)[asked], int(relation[number]))
        np.testing.assert_allclose(two[:, entity], one, atol=1e-4)
        back = random_model(edges).heads(asked, number)
        again = random_model(other).heads(torch.from_numpy(entity)[asked], int(relation[number]))
        np.testing.assert_allclose(again[:, entity], back, atol=1e-4)
    assert not np.allclose(random_model(edges).tails(asked, 0), random_model(edges).tails(asked, 1), atol=1e-3)


def test_relations_meet_where_facts_do() -> None:
    edges = rule_graph(2, 5, 2, [0, 1, 2, 3, 4])
    h, r, t = edges.splits["train"]
    met = MessageGraph.of(edges.splits["train"], 15, 5).meetings
    found = set(zip(met.source.tolist(), met.relation.tolist(), met.target.tolist(), strict=True))
    sides = [(set(h[r == k]), set(t[r == k])) for k in range(5)]
    sides += [(ends, starts) for starts, ends in sides]  # against their direction
    wanted = {
        (a, 2 * into_b + into_a, b)
        for a in range(10)
        for b in range(10)
        for into_a in (0, 1)
        for into_b in (0, 1)
        if sides[a][into_a] & sides[b][into_b]
    }
    assert found == wanted


def test_what_was_learned_on_one_graph_holds_on_another(tmp_path: Path) -> None:
    seen = rule_graph(3, 30, 2, [0, 1, 2, 3, 4])
    train(seen, SMALL, RunOptions(tmp_path / "model", "cpu", progress=False))
    unseen = rule_graph(4, 40, 3, [5, 0, 3, 1, 2, 4])  # the rule is about other relations here
    model = load_for(unseen, tmp_path / "model")
    found = evaluate(model, unseen.splits["valid"], unseen.splits).mrr
    untrained = evaluate(random_model(unseen), unseen.splits["valid"], unseen.splits).mrr
    assert found > 0.5 > 2 * untrained


def test_a_model_folder_of_any_graph_has_no_sizes(tmp_path: Path) -> None:
    edges = rule_graph(5, 5, 1, [0, 1, 2, 3])
    model = random_model(edges)
    save(model, tmp_path / "model", {"graph": "another"})
    assert (describe(tmp_path / "model")["entities"], describe(tmp_path / "model")["relations"]) == (0, 0)
    again = load_for(edges, tmp_path / "model")
    rows = torch.tensor([0, 3])
    np.testing.assert_allclose(again.tails(rows, 1), model.tails(rows, 1), atol=1e-6)


def test_several_graphs_teach_one_network(tmp_path: Path) -> None:
    graphs = {"one": rule_graph(3, 30, 2, [0, 1, 2, 3, 4]), "two": rule_graph(6, 20, 1, [3, 2, 1, 0])}
    config = replace(SMALL, steps=40)
    task = MixedPathTask(graphs, config, torch.device("cpu"))
    asked = [task.asked_in(Position(step=step)) for step in range(200)]
    assert 90 < asked.count(task.tasks[0]) < 170  # the larger one more often, not always
    about = TrainingRun(task, RunOptions(tmp_path / "model", "cpu", progress=False)).complete()
    assert about["graphs"] == ["one", "two"]
    assert set(about["metrics"]) == {"one valid", "two valid"}
    assert min(found["mrr"] for found in about["metrics"].values()) > 0.5
    unseen = rule_graph(4, 40, 3, [5, 0, 3, 1, 2, 4])
    assert evaluate(load_for(unseen, tmp_path / "model"), unseen.splits["valid"], unseen.splits).mrr > 0.5
    with pytest.raises(BadInput, match="paths learns the names of relations; several graphs need any-graph"):
        MixedPathTask(graphs, replace(config, model="paths"), torch.device("cpu"))
