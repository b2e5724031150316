"""Training queries, the trainer and its folder, on a small random graph."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tuplet.errors import BadInput, CorruptStore, TupletError
from tuplet.lab.baselines import train as trainer
from tuplet.lab.baselines.models import load
from tuplet.lab.baselines.train import QueryTrainConfig, QueryTrainingResult, schedule, shared_out
from tuplet.lab.baselines.training_queries import (
    PATTERNS,
    Neighbours,
    answers,
    draw,
    make_pool,
    make_watched,
)
from tuplet.predict import model_folder as files
from tuplet.predict.base import TrainingEdges
from tuplet.predict.embeddings import ComplEx
from tuplet.predict.training import RunOptions

ENTITIES, RELATIONS = 30, 4


def random_splits(seed: int = 0, count: int = 260) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(seed)
    rows = np.unique(rng.integers(0, [ENTITIES, RELATIONS, ENTITIES], (count, 3)), axis=0)
    rng.shuffle(rows)
    parts = {"train": rows[:200], "valid": rows[200:230], "test": rows[230:]}
    return {split: tuple(part.T) for split, part in parts.items()}  # type: ignore[misc]


EDGES = random_splits()
CONFIG = QueryTrainConfig(
    model="betae", steps=12, dim=6, hidden=12, gamma=4.0, batch=40, group=20, negatives=16, pool=60, watched=4
)


def brute(name: str, constants: list[int], views: list[int]) -> set[int]:
    """The answers by trying all assignments of the variables."""
    facts = set(zip(*(part.tolist() for part in EDGES["train"]), strict=True))

    def holds(view: int, head: int, tail: int) -> bool:
        return (tail, view // 2, head) in facts if view % 2 else (head, view // 2, tail) in facts

    pattern = PATTERNS[name]
    found = set()
    for values in np.ndindex(*([ENTITIES] * pattern.variables)):
        node = {v: values[v] for v in range(pattern.variables)} | {~i: c for i, c in enumerate(constants)}
        if all(holds(v, node[h], node[t]) != negated for v, (h, t, negated) in zip(views, pattern.edges, strict=True)):
            found.add(int(values[0]))
    return found


def run(
    config: QueryTrainConfig | None, folder: Path, predictor: ComplEx | None = None, **options: object
) -> QueryTrainingResult:
    chosen = RunOptions(folder, **{"device": "cpu", "progress": False} | options)  # type: ignore[arg-type]
    return trainer.train(TrainingEdges(EDGES, ENTITIES, RELATIONS), config, chosen, predictor)


@pytest.mark.parametrize("name", [n for n in PATTERNS if n != "3p"])
def test_answers_are_those_of_logic(name: str) -> None:
    graph = Neighbours(EDGES["train"], ENTITIES, RELATIONS)
    constants, views = draw(graph, name, 24, torch.Generator().manual_seed(1))
    sets = answers(graph, name, constants, views)
    assert len(sets) >= 3
    for i in range(min(4, len(sets))):
        wanted = brute(name, constants[i].tolist(), views[i].tolist())
        assert set(sets[i].nonzero()[:, 0].tolist()) == wanted
        assert wanted or name == "inp"  # drawn from an answer; only here negation may take away its way


def test_negated_branches_take_something_away() -> None:
    graph = Neighbours(EDGES["train"], ENTITIES, RELATIONS)
    for name, positive in (("2in", "1p"), ("3in", "2i")):
        constants, views = draw(graph, name, 64, torch.Generator().manual_seed(2))
        left = answers(graph, name, constants, views)
        without = answers(graph, positive, constants[:, :-1], views[:, :-1])
        assert len(left)
        assert (without.sum(1) > left.sum(1)).all()
        assert left.any(1).all()


def test_a_pool_holds_answers_and_exact_counts() -> None:
    pool = make_pool(EDGES["train"], ENTITIES, RELATIONS, 50, seed=3)
    graph = Neighbours(EDGES["train"], ENTITIES, RELATIONS)
    for name, queries in pool.items():
        sets = answers(graph, name, queries.constants.long(), queries.views.long())
        assert len(queries) == (len(graph.rows) if name == "1p" else 50)
        assert torch.equal(sets.sum(1), queries.count.long())
        assert sets.gather(1, queries.answers.long()).all()
    again = make_pool(EDGES["train"], ENTITIES, RELATIONS, 50, seed=3)
    assert all(torch.equal(pool[n].constants, again[n].constants) for n in pool)
    assert all(torch.equal(pool[n].answers, again[n].answers) for n in pool)


def test_watched_answers_need_the_held_out_edges() -> None:
    watched = make_watched(EDGES, ENTITIES, RELATIONS, 5)
    graph = Neighbours(EDGES["train"], ENTITIES, RELATIONS)
    assert "1p" in watched
    assert "2in" in watched
    for name, queries in watched.items():
        known_before = answers(graph, name, queries.constants, queries.views)
        assert not known_before[queries.query, queries.hard].any()
        known = {tuple(pair) for pair in queries.known.tolist()}
        assert all((q, a) in known for q, a in zip(queries.query.tolist(), queries.hard.tolist(), strict=True))


def test_a_graph_without_a_type_says_so() -> None:
    one = (np.array([0]), np.array([0]), np.array([1]))
    with pytest.raises(BadInput, match="no training query of type 2p"):
        make_pool(one, 2, 1, 5, types=("2p",))


def test_the_first_line_comes_before_any_work(tmp_path: Path) -> None:
    said: list[str] = []
    one = TrainingEdges({"train": (np.array([0]), np.array([0]), np.array([1]))}, 2, 1)
    options = RunOptions(tmp_path / "m", "cpu", progress=lambda step, done, total, note: said.append(note))
    with pytest.raises(BadInput, match="no training query of type"):  # found while the queries are drawn
        trainer.train(one, CONFIG, options)
    assert said == [
        "training betae, 6 numbers per entity, 12 steps, batch 40; 1 edge of 2 entities and 1 relation; on the CPU"
    ]


def test_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    whole = run(CONFIG, tmp_path / "whole")
    first = run(CONFIG, tmp_path / "parts", stop_after=0.0)
    assert not first.finished
    assert 0 < first.steps < 12
    second = run(None, tmp_path / "parts", resume=True)
    assert second.finished
    assert second.steps == whole.steps == 12
    for (name, a), (_, b) in zip(whole.model.state_dict().items(), second.model.state_dict().items(), strict=True):
        assert torch.equal(a, b), name
    assert whole.valid == second.valid


def test_ctrl_c_leaves_a_run_to_continue(tmp_path: Path) -> None:
    def stop(step: str, done: float, total: float, note: str) -> None:
        if done == 5:
            os.kill(os.getpid(), 2)

    with pytest.raises(TupletError, match=r"step \d+ \(\d+%\); resume=True continues"):
        run(CONFIG, tmp_path / "m", progress=stop)
    with pytest.raises(CorruptStore, match="has not finished"):
        load(tmp_path / "m")
    done = run(None, tmp_path / "m", resume=True)
    assert done.steps == 12


def test_more_minutes_go_on_but_other_settings_are_refused(tmp_path: Path) -> None:
    timed = replace(CONFIG, steps=0, minutes=0.01)
    first = run(timed, tmp_path / "m")
    more = run(replace(timed, minutes=0.02), tmp_path / "m", resume=True)
    assert first.finished
    assert more.steps > first.steps
    with pytest.raises(BadInput, match="batch was 40, now it is 50"):
        run(replace(timed, batch=50), tmp_path / "m", resume=True)
    with pytest.raises(BadInput, match="already exists"):
        run(timed, tmp_path / "m")


def test_a_new_run_begins_with_the_parameters_of_another(tmp_path: Path) -> None:
    edges, options = TrainingEdges(EDGES, ENTITIES, RELATIONS), RunOptions(tmp_path / "b", device="cpu", progress=False)
    first = dict(run(CONFIG, tmp_path / "a").model.named_parameters())
    slow = replace(CONFIG, steps=1, learning_rate=1e-9, seed=7)
    second = trainer.train(edges, slow, options, start=first)
    for name, parameter in second.model.named_parameters():
        torch.testing.assert_close(parameter, first[name], rtol=0, atol=1e-6)
    with pytest.raises(BadInput, match=r"'entity' has the shape \(\d+, 12\), not \(\d+, 16\)"):
        trainer.train(edges, replace(slow, dim=8), options, start=first)
    with pytest.raises(BadInput, match="lack 'relation'"):
        trainer.train(edges, slow, options, start={"entity": first["entity"]})


def test_a_predictor_that_does_not_fit_leaves_no_folder(tmp_path: Path) -> None:
    other = ComplEx.create(ENTITIES + 1, RELATIONS, 5, 1.0, 2, torch.Generator().manual_seed(0))
    config = replace(CONFIG, model="lmpnn", steps=1, dim=0)
    with pytest.raises(BadInput, match="the link predictor has"):
        run(config, tmp_path / "m", predictor=other)
    assert not (tmp_path / "m").exists()


def test_a_query_model_is_no_link_predictor(tmp_path: Path) -> None:
    run(replace(CONFIG, steps=1), tmp_path / "m")
    with pytest.raises(BadInput, match="m is a betae query model; a link predictor is needed here"):
        files.load(tmp_path / "m")


@pytest.mark.parametrize("name", ["betae", "logice", "cone", "lmpnn"])
def test_all_models_train_save_and_open(name: str, tmp_path: Path) -> None:
    predictor = ComplEx.create(ENTITIES, RELATIONS, 5, 1.0, 2, torch.Generator().manual_seed(0))
    config = replace(CONFIG, model=name, steps=4, dim=0 if name == "lmpnn" else 6)
    done = run(config, tmp_path / "m", predictor=predictor if name == "lmpnn" else None)
    back = load(tmp_path / "m")
    pattern, constants, views = PATTERNS["pin"], torch.tensor([[3, 5]]), torch.tensor([[0, 3, 4]])
    wanted = done.model.logits(done.model.embed(pattern, 0, constants, views))
    torch.testing.assert_close(back.logits(back.embed(pattern, 0, constants, views)), wanted)
    curve = [json.loads(line) for line in (tmp_path / "m" / "log.jsonl").read_text().splitlines()]
    assert [r["step"] for r in curve if "loss" in r] == [1, 2, 3, 4]
    assert "mean" in curve[1]["valid"]
    assert (tmp_path / "m" / "MODEL.md").read_text().startswith("# ")


@pytest.mark.parametrize("loss", ["softmax", "published"])
def test_training_learns(loss: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entities in two camps, relations within them: answers must rise well above chance."""
    rng = np.random.default_rng(0)
    heads = rng.integers(0, ENTITIES, 260)
    relation = rng.integers(0, 2, 260)
    tails = (heads + 1 + relation * 3) % ENTITIES  # each relation is a shift: a function that can be learned
    rows = np.unique(np.stack([heads, relation, tails], 1), axis=0)
    rng.shuffle(rows)
    edges = {"train": tuple(rows[:-6].T), "valid": tuple(rows[-6:].T), "test": tuple(rows[:0].T)}
    config = replace(
        CONFIG, steps=400, dim=16, hidden=32, gamma=6.0, batch=64, group=64, learning_rate=1e-2, loss=loss, pool=200
    )
    pool = make_pool(edges["train"], ENTITIES, 2, 200, types=("1p", "2p"))
    monkeypatch.setattr(trainer, "make_pool", lambda *settings: pool)  # shifts leave no query of most types
    options = RunOptions(tmp_path / "m", "cpu", progress=False)
    made = trainer.train(TrainingEdges(edges, ENTITIES, 2), config, options)
    queries = pool["1p"]
    logits = made.model.logits(made.model.embed(PATTERNS["1p"], 0, queries.constants.long(), queries.views.long()))
    own = logits.gather(1, queries.answers[:, :1].long())
    rank = 1 + (logits > own).sum(1)
    assert float((1 / rank).mean()) > 0.25  # chance: 0.13


def test_divergence_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "cross_entropy", lambda p, n, w, e: (p.sum() + n.sum()) * float("nan"))
    with pytest.raises(TupletError, match="diverged at step 1"):
        run(CONFIG, tmp_path / "m")


def test_a_damaged_model_is_refused(tmp_path: Path) -> None:
    run(replace(CONFIG, steps=1), tmp_path / "m")
    about = json.loads((tmp_path / "m" / "model.json").read_text())
    (tmp_path / "m" / "model.json").write_text(json.dumps(about | {"relations": 9}))
    with pytest.raises(CorruptStore, match="do not fit together"):
        load(tmp_path / "m")


def test_shares_and_schedule() -> None:
    counts = shared_out(8192, trainer.SHARES)
    assert sum(counts.values()) == 8192
    assert min(counts.values()) > 100
    assert shared_out(10, trainer.SHARES) == dict.fromkeys(PATTERNS, 1)
    with pytest.raises(BadInput, match="no room"):
        shared_out(5, trainer.SHARES)
    assert schedule(0.0, 0) < 0.01
    assert schedule(0.0, 500) == 1.0
