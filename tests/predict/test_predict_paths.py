"""The path network: kernels against plain torch, what hidden facts may tell, runs, model folders."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from plain_layer import aggregate, update
from predict_data import ring, splits_of

from tuplet.errors import BadInput, CorruptStore
from tuplet.predict.base import TrainingEdges
from tuplet.predict.config import PRESETS, TrainConfig
from tuplet.predict.device import tune_cpu
from tuplet.predict.evaluate import evaluate
from tuplet.predict.model_folder import DESCRIPTION, describe, load, load_embeddings, load_for, save
from tuplet.predict.paths import model as cores
from tuplet.predict.paths.cpu_kernels import CompiledLayer
from tuplet.predict.paths.message_graph import MessageGraph
from tuplet.predict.paths.model import PathModel
from tuplet.predict.paths.network import PathLayer, PathNetwork, RelationTable, Sight
from tuplet.predict.paths.task import NO_ANSWER, PathTask, Questions, hides_pairs
from tuplet.predict.train import TrainingResult, train
from tuplet.predict.training import Interrupted, Position, RunOptions

SMALL = TrainConfig(
    model="paths", rank=8, layers=3, steps=30, batch=10, targets=2, learning_rate=0.01, evaluate_every=5, patience=0,
    checkpoint_seconds=0.0,
)  # fmt: skip


def run(folder: Path, config: TrainConfig = SMALL, **options: Any) -> TrainingResult:
    return train(ring(), config, RunOptions(folder, **{"device": "cpu", "progress": False} | options))


def numbers(folder: Path) -> str:
    return str(describe(folder)["sha256"])


def random_facts(entities: int, relations: int, facts: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    chance = np.random.default_rng(seed)
    found = np.unique(chance.integers(0, [entities, relations, entities], (facts, 3)), axis=0)
    return found[:, 0], found[:, 1], found[:, 2]


# Kernels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("queries", "width"), [(1, 1), (3, 8), (4, 16), (9, 16), (2, 80)])
def test_a_compiled_layer_is_that_of_plain_torch(queries: int, width: int) -> None:
    entities, channels = 1500 if queries == 3 else 40, queries * width  # one of them in several chunks
    facts = random_facts(entities, 3, 4 * entities)
    graph = MessageGraph.from_facts(facts, entities, 3)
    hidden = (torch.from_numpy(side[:25].astype(np.int64)) for side in facts)
    sight = Sight(graph, graph.visible(*hidden, whole_pairs=True))
    assert 0 < int((sight.visible == 0).sum()) < len(sight.visible)
    torch.manual_seed(channels)
    layer = PathLayer(RelationTable(6, width), width)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    given = [torch.randn(rows, channels) for rows in (entities, 6, entities)]
    given = [(part * 2).round() / 2 for part in given]  # so that many messages are equal, and share a gradient
    weights = [layer.summary.weight, layer.summary.bias, layer.own.weight, layer.own.bias]
    weights += [layer.norm.weight, layer.norm.bias]
    wanted = torch.randn(entities, channels)
    found = []
    for compiled in (False, True):
        x, relation, start = (part.clone().requires_grad_() for part in given)
        if compiled:
            seen = sight.visible, sight.degree, sight.scale
            out = CompiledLayer.apply(x, relation, start, width, graph, *seen, *weights)
        else:
            parts = aggregate(x, relation, start, graph, sight.visible, sight.degree)
            out = update(layer, x, parts, sight.scale)
        found.append([out, *torch.autograd.grad((out * wanted).sum(), [x, relation, start, *weights])])
    for plain, quick in zip(*found, strict=True):
        torch.testing.assert_close(quick, plain, rtol=1e-3, atol=1e-3 * float(plain.detach().abs().max()))


def test_what_is_hidden_is_as_if_it_were_not_there() -> None:
    """Degrees, too: with those of the whole graph the scores would tell which facts are hidden."""
    facts = random_facts(30, 2, 120)
    graph = MessageGraph.from_facts(facts, 30, 2)
    gone = np.zeros(len(facts[0]), dtype=bool)
    gone[::7] = True
    asked, relation = torch.arange(6), torch.arange(6) % 4
    torch.manual_seed(0)
    network = PathNetwork(2, width=8, layers=3)
    hidden = (torch.from_numpy(side[gone].astype(np.int64)) for side in facts)
    some = network(graph, asked, relation, graph.visible(*hidden, whole_pairs=False))
    rest = MessageGraph.from_facts(tuple(side[~gone] for side in facts), 30, 2)
    torch.testing.assert_close(some, network(rest, asked, relation))
    assert not torch.allclose(some, network(graph, asked, relation))


# What hidden facts tell --------------------------------------------------------------------------------------------


class TellingGraph(MessageGraph):
    """Its degrees are those of the whole graph, whatever is hidden."""

    def degrees(self, visible: torch.Tensor) -> torch.Tensor:
        return super().degrees(self.all_visible)


def hidden_mrr(telling: bool) -> tuple[float, float]:
    """Training on random facts: the MRR of facts that are hidden after it, and that of guessing."""
    edges = TrainingEdges({"train": random_facts(60, 2, 240)}, 60, 2)
    with tune_cpu(torch.device("cpu"), 0):
        return trained_mrr(edges, telling)


def trained_mrr(edges: TrainingEdges, telling: bool) -> tuple[float, float]:
    config = dataclasses.replace(SMALL, steps=100, batch=8, layers=2, hide="edge", evaluate_every=0)
    task = PathTask(edges, config, torch.device("cpu"))
    task.prepare()
    if telling:
        parts = vars(task.model.graph)
        task.model._graph = TellingGraph(**{f.name: parts[f.name] for f in dataclasses.fields(MessageGraph)})
    for step in range(config.steps):
        task.step(Position(step=step))
    found, guessed = [], []
    for step in range(config.steps, config.steps + 40):
        draw = task.questions.draw(config.batch, config.seed, step)
        asked, relation, row, answer, hidden = map(torch.from_numpy, draw)
        at, target = row[hidden], answer[hidden]
        graph = task.model.graph
        with torch.no_grad():
            visible = graph.visible(asked[at], relation[at], target, whole_pairs=False)
            scores = task.model.network(graph, asked, relation, visible)
        others = scores.index_put((row, answer), torch.tensor(NO_ANSWER))[at]
        right = scores[at, target][:, None]
        found.append(1 / (1 + (others > right).sum(1) + (others == right).sum(1) / 2))
        count = (others > NO_ANSWER).sum(1) + 1
        guessed.append(torch.stack([(1 / torch.arange(1, n + 1)).mean() for n in count.tolist()]))
    return float(torch.cat(found).mean()), float(torch.cat(guessed).mean())


def test_random_facts_cannot_be_found() -> None:
    mrr, guessed = hidden_mrr(telling=False)
    assert mrr < 1.5 * guessed


def test_and_degrees_of_the_whole_graph_would_give_them_away() -> None:
    mrr, guessed = hidden_mrr(telling=True)
    assert mrr > 2 * guessed


# Questions ---------------------------------------------------------------------------------------------------------


def test_draws_depend_on_seed_and_step_alone() -> None:
    heads, relation, tails = random_facts(30, 2, 200)
    questions = Questions((heads, relation, tails), relations=2, targets=2)
    facts = {*zip(heads.tolist(), relation.tolist(), tails.tolist(), strict=True)}
    for step in range(20):
        draw, again = questions.draw(12, 3, step), questions.draw(12, 3, step)
        assert all(np.array_equal(a, b) for a, b in zip(draw, again, strict=True))
        assert len({*zip(draw.asked.tolist(), draw.relation.tolist(), strict=True)}) == 12
        for row, (asked, by) in enumerate(zip(draw.asked.tolist(), draw.relation.tolist(), strict=True)):
            answers = set(draw.answer[draw.row == row].tolist())
            assert answers == (
                {t for h, r, t in facts if (h, r) == (asked, by)}
                if by < 2
                else {h for h, r, t in facts if (t, r) == (asked, by - 2)}
            )
            assert draw.hidden[draw.row == row].sum() == min(2, len(answers))
    assert not np.array_equal(questions.draw(12, 3, 0).asked, questions.draw(12, 4, 0).asked)
    assert len(questions.draw(1000, 0, 0).asked) == len(questions)


def test_many_answers_are_asked_for_more_often_up_to_a_limit() -> None:
    heads, tails = np.repeat([0, 1, 2], [1, 8, 90]), np.concatenate([[3], np.arange(3, 11), np.arange(3, 93)])
    questions = Questions((heads, np.zeros(99, dtype=int), tails), relations=1, targets=4)
    asked = np.concatenate([questions.draw(1, 0, step).asked for step in range(3000)])
    one, some, many = ((asked == entity).sum() for entity in range(3))
    assert some / one == pytest.approx(2, rel=0.5)
    assert many / one == pytest.approx(8, rel=0.5)


# Runs --------------------------------------------------------------------------------------------------------------


def test_the_ring_is_learned(tmp_path: Path) -> None:
    # `back` is `next` walked backwards, `skip` two steps of it: paths decide every hidden edge.
    result = run(tmp_path / "m", dataclasses.replace(SMALL, steps=150, hide="edge"))
    assert result.metrics["test"].mrr > 0.6
    assert result.epochs == pytest.approx(150 * 10 / Questions(ring().edges("train"), 3, 2).rounds, rel=0.1)


def test_a_seed_decides_the_result_and_the_number_of_cores_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path / "a")
    run(tmp_path / "other", dataclasses.replace(SMALL, seed=1))
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda _: {0})
    run(tmp_path / "b")
    assert numbers(tmp_path / "a") == numbers(tmp_path / "b") != numbers(tmp_path / "other")


def test_control_c_and_resume_end_where_the_uninterrupted_run_ends(tmp_path: Path) -> None:
    run(tmp_path / "whole")

    def press(step: str, done: float, total: float, note: str) -> None:
        if total and done in (7, 18):
            os.kill(os.getpid(), signal.SIGINT)

    for resume in (False, True):
        with pytest.raises(Interrupted, match="at step"):
            run(tmp_path / "cut", resume=resume, progress=press)
    with pytest.raises(CorruptStore, match="has not finished"):
        load(tmp_path / "cut")
    run(tmp_path / "cut", resume=True)
    assert numbers(tmp_path / "whole") == numbers(tmp_path / "cut")
    with pytest.raises(BadInput, match="layers was 3"):
        run(tmp_path / "cut", dataclasses.replace(SMALL, layers=2), resume=True)


def test_time_is_up_and_the_run_goes_on(tmp_path: Path) -> None:
    run(tmp_path / "whole")
    clock = iter(range(10**6))
    run(tmp_path / "cut", stop_after=20.0, clock=lambda: float(next(clock)))
    assert not describe(tmp_path / "cut")["finished"]
    assert describe(tmp_path / "cut")["steps"] < 30
    run(tmp_path / "cut", resume=True)
    assert numbers(tmp_path / "whole") == numbers(tmp_path / "cut")


def test_settings_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="its own precision"):
        run(tmp_path / "m", dataclasses.replace(SMALL, precision="tf32"))
    with pytest.raises(BadInput, match="at most 256 wide"):
        run(tmp_path / "m", dataclasses.replace(SMALL, rank=300))
    assert {PRESETS[name].model for name in ("paths", "paths-small")} == {"paths"}


# Models ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> PathModel:
    torch.manual_seed(1)
    return PathModel(PathNetwork(3, width=8, layers=2), 24, 3, TrainingEdges.from_graph(ring()))


def test_a_folder_gives_the_same_scores(model: PathModel, tmp_path: Path) -> None:
    save(model, tmp_path / "m")
    again = load_for(TrainingEdges.from_graph(ring()), tmp_path / "m")
    ids = torch.arange(24)
    assert torch.equal(again.tails(ids, 1), model.tails(ids, 1))
    assert describe(tmp_path / "m")["kind"] == "paths"
    save(model.to(dtype=torch.float16), tmp_path / "half")
    half = load_for(TrainingEdges.from_graph(ring()), tmp_path / "half")
    torch.testing.assert_close(half.tails(ids, 1), model.tails(ids, 1), rtol=0.01, atol=0.01)
    description = tmp_path / "m" / DESCRIPTION
    description.write_text(description.read_text().replace('"rank": 8', '"rank": 9'))
    with pytest.raises(CorruptStore, match="do not fit together"):
        load(tmp_path / "m")
    with pytest.raises(BadInput, match="no embeddings"):
        load_embeddings(tmp_path / "half")


def test_rows_in_batches_are_single_rows(model: PathModel) -> None:
    ids = torch.arange(24).repeat(6)
    relation = torch.arange(6).repeat_interleave(24)
    rows = model.mixed_rows(ids, relation)
    assert len(ids) > model.batch
    assert model.mixed_rows(ids[:0], relation[:0]).shape == (0, 24)
    for r in range(3):
        torch.testing.assert_close(rows[24 * r : 24 * r + 24], model.tails(torch.arange(24), r))
        torch.testing.assert_close(rows[24 * (r + 3) : 24 * (r + 3) + 24], model.heads(torch.arange(24), r))
    chance = torch.Generator().manual_seed(0)
    pick, far = torch.randint(len(ids), (50,), generator=chance), torch.randint(24, (50,), generator=chance)
    torch.testing.assert_close(model.pairs(ids[pick], relation[pick], far), rows[pick, far])


def test_ranks_compute_each_row_once(model: PathModel) -> None:
    class Counting(PathModel):
        rows = 0

        def _rows(self, asked: torch.Tensor, relation: torch.Tensor) -> torch.Tensor:
            Counting.rows += len(asked)
            return super()._rows(asked, relation)

    heads, tails = np.zeros(20, dtype=int), np.arange(1, 21)
    counting, splits = Counting(model.network, 24, 3, model.edges), splits_of(ring())
    metrics = evaluate(counting, (heads, np.zeros(20, dtype=int), tails), splits)
    assert metrics.edges == 20
    assert Counting.rows == 1 + 20


def test_a_network_needs_its_graph(model: PathModel) -> None:
    with pytest.raises(BadInput, match=r"model\.on"):
        PathModel(model.network, 24, 3).tails(torch.arange(2), 0)
    with pytest.raises(BadInput, match="of 24 entities"):
        model.on(TrainingEdges.from_graph(ring(30)))


def test_facts_are_hidden_as_the_valid_ones_are() -> None:
    twice = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 0]), np.array([1, 1, 2, 2, 3])
    for head, tail, pairs in ((1, 0, False), (3, 0, True)):  # backwards between two that are joined; between others
        valid = np.array([head]), np.array([0]), np.array([tail])
        assert hides_pairs(TrainingEdges({"train": twice, "valid": valid}, 4, 2)) == pairs
    assert not hides_pairs(TrainingEdges({"train": twice}, 4, 2))
