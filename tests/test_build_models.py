"""The predictors of a build: the time holds, the same call goes on as it began, what was given is obeyed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

import tuplet
from tuplet.build import build, with_valid
from tuplet.errors import BadInput, TupletError
from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict.base import TrainingEdges
from tuplet.predict.config import PRESETS, TrainConfig
from tuplet.predict.model_folder import describe
from tuplet.progress import Report
from tuplet.truth import trained
from tuplet.truth.candidates import sources
from tuplet.truth.trained import PLAN, MachineSpeed, ModelRequest, ModelRun, choose, graph_sizes, index_seconds

FACTS = [(f"e{i}", f"r{k}", f"e{(i * (k + 2) + k) % 60}") for k in range(3) for i in range(60)]
GRAPH = with_valid(tuplet.read(FACTS), 0.05, 0)


class SlowClock:
    """Seconds go by whenever somebody looks."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now


def silent(step: str, done: float, total: float, note: str) -> None:
    pass


def run(
    folder: Path, minutes: float, clock: SlowClock, report: Report = silent, graph: KnowledgeGraph = GRAPH
) -> list[Path]:
    return ModelRun(graph, folder, "cpu", True, False, report, clock).train_planned(ModelRequest(minutes, ("complex",)))


def test_the_time_holds_where_nothing_fits(tmp_path: Path) -> None:
    clock, said = SlowClock(1.0), list[str]()
    large = with_valid(tuplet.read([(f"e{i}", "r", f"e{i * i % 997}") for i in range(4000)]), 0.05, 0)
    told: Report = lambda step, done, total, note: said.append(note) if not total else None  # noqa: E731
    models = run(tmp_path / "m", 2.0, clock, told, large)
    assert 20 < clock.now < 120
    assert describe(models[0])["finished"] is False
    assert describe(models[0])["steps"] > 0
    assert any("cut short" in sentence for sentence in said)


def test_a_quick_machine_trains_to_the_end(tmp_path: Path) -> None:
    models = run(tmp_path / "m", 15.0, SlowClock(1e-4))
    assert describe(models[0])["finished"] is True


def test_the_plan_stays_though_the_speed_is_another(tmp_path: Path) -> None:
    run(tmp_path / "m", 5.0, SlowClock(3.0))
    before = (tmp_path / "m" / PLAN).read_bytes()
    sums = describe(tmp_path / "m" / "complex")["sha256"]
    run(tmp_path / "m", 5.0, SlowClock(1e-4))
    assert (tmp_path / "m" / PLAN).read_bytes() == before
    assert describe(tmp_path / "m" / "complex")["sha256"] == sums, "what had its time is not trained again"
    run(tmp_path / "m", 6.0, SlowClock(1e-4))
    assert json.loads((tmp_path / "m" / PLAN).read_bytes())["about"]["minutes"] == 6.0


def test_given_settings_are_obeyed_within_the_time() -> None:
    def configs(names: tuple[str, ...]) -> dict[str, TrainConfig]:
        asked = ModelRequest(15.0, names, {"rank": 7, "seed": 3})
        found = choose(TrainingEdges.from_graph(GRAPH), asked, "cpu", SlowClock(1e-4))
        return {model.config.model: model.config for model in found.models}

    both = configs(("complex", "paths"))
    assert (both["complex"].rank, both["complex"].seed, both["paths"].seed) == (7, 3, 3)
    assert both["paths"].rank != 7, "a rank is that of embeddings"
    assert configs(("paths",))["paths"].rank == 7


def test_scoring_is_estimated_where_a_path_network_is_alone() -> None:
    found = choose(TrainingEdges.from_graph(GRAPH), ModelRequest(15.0, ("paths",)), "cpu", SlowClock(1e-4))
    assert found.index_seconds < 60
    assert "cut short" not in found.more


def test_a_large_graph_is_planned_by_the_ends_that_its_rows_will_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = TrainingEdges.from_graph(GRAPH)
    assert not graph_sizes(edges).nearest
    monkeypatch.setattr(trained, "BOUNDED_FROM", 10)
    monkeypatch.setattr(sources, "PER_FACT", 2)
    near, whole = graph_sizes(edges), graph_sizes(edges, on_gpu=True)
    assert (near.nearest, whole.nearest) == (True, False)
    assert 0 < near.pairs < whole.pairs / 4
    config, speed = PRESETS["small"], MachineSpeed(7e9)
    assert index_seconds([config], near, speed) < index_seconds([config], whole, speed)


def test_requests_that_make_no_sense_are_refused() -> None:
    with pytest.raises(BadInput, match="minutes is 0"):
        ModelRequest(0)
    with pytest.raises(BadInput, match="unknown model 'compelx'; did you mean 'complex'"):
        ModelRequest(1, ("compelx",))


def test_a_kept_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "mine.txt").write_text("mine")
    with pytest.raises(TupletError, match="already exists"):
        build(FACTS, tmp_path / "s", keep_model=tmp_path / "m", progress=False)
    assert not (tmp_path / "s").exists()


def test_several_predictors_go_on_after_ctrl_c_to_the_same_bits(tmp_path: Path) -> None:
    def stop(step: str, done: float, total: float, note: str) -> None:
        if step == "train" and "epoch" not in note and total and done > total / 4:
            os.kill(os.getpid(), signal.SIGINT)

    asked = ModelRequest(15.0, ("complex", "paths"))
    models = ModelRun(GRAPH, tmp_path / "whole", "cpu", True, False, silent, SlowClock(1e-4)).train_planned(asked)
    with pytest.raises(TupletError, match=r"training stopped at step .*; the same command continues from there"):
        ModelRun(GRAPH, tmp_path / "cut", "cpu", True, False, stop, SlowClock(1e-4)).train_planned(asked)
    finished = (tmp_path / "cut" / "complex" / "model.json").stat().st_mtime_ns
    again = ModelRun(GRAPH, tmp_path / "cut", "cpu", True, False, silent).train_planned(asked)
    assert [model.name for model in again] == ["complex", "paths"]
    assert (tmp_path / "cut" / "complex" / "model.json").stat().st_mtime_ns == finished
    for one, other in zip(models, again, strict=True):
        assert describe(one)["sha256"] == describe(other)["sha256"]


def test_a_planned_build_is_made_of_both_and_goes_on_after_ctrl_c(tmp_path: Path) -> None:
    def stop(step: str, done: float, total: float, note: str) -> None:
        if step == "train" and total and done > total / 4:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(TupletError, match="the same command continues from there"):
        build(FACTS, tmp_path / "s", progress=stop)
    seen = list[tuple[str, float]]()
    store = build(
        FACTS,
        tmp_path / "s",
        progress=lambda step, done, total, _: seen.append((step, done / total)) if total else None,
    )
    assert next(share for step, share in seen if step == "train") >= 0.2, "steps that were done are not done again"
    assert [entry.name for entry in tmp_path.iterdir()] == ["s"]
    # Whether the packaged network joins depends on what a sample of the valid edges says.
    assert [model["kind"] for model in store.info()["models"]][:2] == ["complex", "paths"]


def test_a_model_that_is_named_is_the_only_one(tmp_path: Path) -> None:
    store = build(FACTS, tmp_path / "s", model="distmult", minutes=1, epochs=2, progress=False)
    assert store.info()["model"]["kind"] == "distmult"
    assert "models" not in store.info()
