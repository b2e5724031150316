"""The path network of any graph: it knows no names, it carries over to graphs that it never saw."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tuplet.errors import BadInput
from tuplet.predict.base import TrainingEdges, Triples
from tuplet.predict.config import TrainConfig
from tuplet.predict.evaluate import evaluate
from tuplet.predict.model_folder import describe, load_for, save
from tuplet.predict.paths.message_graph import CASES, FAN_OUTS, LEVELS, SHARES, MessageGraph, Telling
from tuplet.predict.paths.model import DENSE, AnyGraphModel
from tuplet.predict.paths.task import FEWEST, MixedTask, Questions, draw_telling, draw_view
from tuplet.predict.train import train
from tuplet.predict.training import RunOptions, TrainingRun

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
    met = MessageGraph.from_facts(edges.splits["train"], 15, 5).meetings
    found = set(zip(met.source.tolist(), met.relation.tolist(), met.target.tolist(), strict=True))
    assert len(found) == len(met.source)
    facts = [set(zip(h[r == k], t[r == k], strict=True)) for k in range(5)]
    facts += [{(b, a) for a, b in some} for some in facts]  # against their direction
    wanted = set()
    for a, b in itertools.product(range(10), repeat=2):
        sides = [[{fact[into] for fact in facts[k]} for into in (0, 1)] for k in (a, b)]
        shared = {2 * v + u: (sides[0][u], sides[1][v]) for u in (0, 1) for v in (0, 1)} | {4: (facts[a], facts[b])}
        for case, (one, two) in shared.items():
            if both := len(one & two):
                levels = (sum(both / len(each) > bound for bound in SHARES) for each in (one, two))
                wanted.add((a, 9 * case + 3 * next(levels) + next(levels), b))
    for k, some in enumerate(facts):
        fan_out = len(some) / len({a for a, _ in some})
        wanted.add((k, 45 + sum(fan_out > bound for bound in FAN_OUTS), k))
    assert found == wanted


def test_meetings_may_tell_less() -> None:
    model = random_model(rule_graph(2, 5, 2, [0, 1, 2, 3, 4]))
    whole, plain = model.graph.meetings, model.telling(Telling(levels=False, fan_outs=False)).graph.meetings
    ends = {(a, int(kind) // LEVELS, b) for a, kind, b in _edges(whole) if kind < CASES * LEVELS}
    assert {(a, int(kind) // LEVELS, b) for a, kind, b in _edges(plain)} == ends  # the same meetings
    assert {int(kind) % LEVELS for _, kind, _ in _edges(plain)} == {LEVELS // 2}
    assert _edges(model.telling(Telling()).graph.meetings) == _edges(whole)
    told = {draw_telling(np.random.default_rng(seed)) for seed in range(50)}
    assert {(one.levels, one.fan_outs) for one in told} == {*itertools.product((True, False), repeat=2)}
    assert Telling() in told
    assert all(0 < low < high < 1 for (low, high), *_ in told)


def _edges(graph: MessageGraph) -> set[tuple[int, int, int]]:
    return {*zip(graph.source.tolist(), graph.relation.tolist(), graph.target.tolist(), strict=True)}


def test_a_second_network_is_asked_about_sparse_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sparse, rows = rule_graph(5, 8, 1, [0, 1, 2, 3]), torch.tensor([0, 3])
    assert sparse.count("train") < DENSE * sparse.entities
    model, other = random_model(sparse), random_model(sparse, seed=1)
    model.second = other.network
    save(model, tmp_path / "two")
    assert describe(tmp_path / "two")["networks"] == 2
    suits = load_for(sparse, tmp_path / "two")
    np.testing.assert_allclose(suits.tails(rows, 1), other.tails(rows, 1), atol=1e-5)
    config = replace(SMALL, start=str(tmp_path / "two"), steps=1, learning_rate=0.0)
    train(sparse, config, RunOptions(tmp_path / "further", progress=False))
    np.testing.assert_allclose(load_for(sparse, tmp_path / "further").tails(rows, 1), other.tails(rows, 1), atol=1e-5)
    monkeypatch.setattr("tuplet.predict.paths.model.DENSE", 1)
    np.testing.assert_allclose(load_for(sparse, tmp_path / "two").tails(rows, 1), model.tails(rows, 1), atol=1e-5)
    assert isinstance(suits, AnyGraphModel)
    np.testing.assert_allclose(suits.on(sparse).tails(rows, 1), other.tails(rows, 1), atol=1e-5)  # it stays chosen


def test_a_view_hides_facts_altogether() -> None:
    edges = rule_graph(7, 40, 3, [0, 1, 2, 3, 4, 5])
    train = set(zip(*(ids.tolist() for ids in edges.splits["train"]), strict=True))
    for seed in range(20):
        view = draw_view(edges, 1.0, seed % 2 == 0, np.random.default_rng(seed))
        facts = list(zip(*(ids.tolist() for ids in view.facts), strict=True))
        assert set(facts) == train
        left = set(zip(*(ids.tolist() for ids in view.visible.splits["train"]), strict=True))
        gone = {fact for fact, hidden in zip(facts, view.hidden, strict=True) if hidden}
        assert gone
        assert left | gone == train
        assert not left & gone
        if seed % 2 == 0:
            assert not {frozenset((h, t)) for h, _, t in gone} & {frozenset((h, t)) for h, _, t in left}
        questions = Questions(view.facts, view.relations, 2, view.hidden)
        draw = questions.draw(50, 0, seed)
        for at, answer, hidden in zip(draw.row, draw.answer, draw.hidden, strict=True):
            entity, relation = int(draw.asked[at]), int(draw.relation[at])
            back = (int(answer), relation - view.relations, entity)
            fact = (entity, relation, int(answer)) if relation < view.relations else back
            assert fact in (gone if hidden else train)
        assert set(draw.row[draw.hidden]) == set(range(len(draw.asked)))


def test_parts_of_a_graph_are_graphs() -> None:
    edges = rule_graph(8, 300, 3, [0, 1, 2, 3, 4, 5])
    sizes = set()
    for seed in range(30):
        view = draw_view(edges, 0.0, False, np.random.default_rng(seed))
        heads, relation, tails = view.facts
        if view.entities == edges.entities:
            continue  # the part would have been too small
        assert len(np.unique(np.concatenate([heads, tails]))) == view.entities
        assert len(np.unique(relation)) == view.relations
        assert len(heads) >= FEWEST
        assert len({*zip(heads.tolist(), relation.tolist(), tails.tolist(), strict=True)}) == len(heads)
        sizes.add((view.entities, view.relations))
    assert len(sizes) > 10
    assert min(sizes)[0] < 300


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
    config = replace(SMALL, steps=120)
    task = MixedTask(graphs, config, torch.device("cpu"))
    views = [task.view(np.random.default_rng(number)) for number in range(200)]
    assert {view.entities for view in views} >= {90, 60}
    assert 0.5 < task.share[0] < 0.7  # the larger one more often, not always
    about = TrainingRun(task, RunOptions(tmp_path / "model", "cpu", progress=False)).complete()
    assert about["graphs"] == ["one", "two"]
    assert set(about["metrics"]) == {"one valid", "two valid"}
    assert min(found["mrr"] for found in about["metrics"].values()) > 0.5
    unseen = rule_graph(4, 40, 3, [5, 0, 3, 1, 2, 4])
    assert evaluate(load_for(unseen, tmp_path / "model"), unseen.splits["valid"], unseen.splits).mrr > 0.5
    with pytest.raises(BadInput, match="paths learns the names of relations; several graphs need any-graph"):
        MixedTask(graphs, replace(config, model="paths"), torch.device("cpu"))
