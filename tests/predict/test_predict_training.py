"""The run itself: what it says and when, how much a crash costs, what goes on, and predictors of other packages."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from predict_data import ring

from tuplet.errors import BadInput, CorruptStore
from tuplet.predict import config as train_config
from tuplet.predict.config import TrainConfig, preset
from tuplet.predict.embeddings import ComplEx
from tuplet.predict.model_folder import DESCRIPTION, describe, load, make_predictor, model_class, read_tensors, save
from tuplet.predict.train import TrainingResult, train
from tuplet.predict.training import CHECKPOINT, RunFolder, RunOptions

CONFIG = TrainConfig(rank=4, epochs=3, batch=1, evaluate_every=1, patience=0)


class Ticking:
    """A clock that goes on by some seconds whenever somebody looks at it."""

    def __init__(self, seconds: float = 1.0) -> None:
        self.now, self.seconds = 0.0, seconds

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now


class Watcher:
    """Keeps what is reported, and crashes after some steps."""

    def __init__(self, crash: int | None = None) -> None:
        self.calls: list[tuple[str, float, float, str]] = []
        self.crash = crash

    def __call__(self, step: str, done: float, total: float, note: str) -> None:
        self.calls.append((step, done, total, note))
        if total and self.crash is not None and done >= self.crash:
            raise MemoryError

    @property
    def sentences(self) -> list[str]:
        return [note for _, _, total, note in self.calls if not total]


def run(folder: Path, config: TrainConfig | None = CONFIG, **options: Any) -> TrainingResult:
    return train(ring(), config, RunOptions(folder, **{"device": "cpu", "progress": False} | options))


def position(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bytes(read_tensors(folder / CHECKPOINT)["position"].tolist()))
    return found


# Signs of life ------------------------------------------------------------------------------------------------------


def test_the_first_line_comes_before_any_work_and_progress_goes_by_step(tmp_path: Path) -> None:
    watcher = Watcher()
    config = dataclasses.replace(CONFIG, batch=16)
    run(tmp_path / "m", config, progress=watcher)
    edges = len(ring().edges("train")[0])
    steps = -(-2 * edges // 16)
    assert watcher.calls[0] == (
        "train",
        0,
        0,
        f"training complex, rank 4, 3 epochs of {steps} steps, batch 16; {edges} edges of 24 entities and 3 relations; "
        "on the CPU; about 12 kB of memory",
    )
    counted = [(done, total) for _, done, total, _ in watcher.calls if total]
    assert counted == [(step, 3 * steps) for step in range(3 * steps + 1)]
    assert watcher.calls[steps + 3][3].startswith("steps, epoch 2/3, loss ")
    assert "valid MRR" in watcher.calls[-1][3]
    assert watcher.sentences == [watcher.calls[0][3]]  # nothing to wait for: no estimate


def test_an_estimate_comes_after_some_seconds_and_a_long_one_warns(tmp_path: Path) -> None:
    short, long = Watcher(), Watcher()
    run(tmp_path / "short", progress=short, clock=Ticking(0.2))
    run(tmp_path / "long", progress=long, clock=Ticking(20.0))
    assert len(short.sentences) == 2
    assert short.sentences[1].startswith("about ")
    assert short.sentences[1].endswith(" on this CPU")
    before = [done for _, done, total, note in short.calls[: short.calls.index(("train", 0, 0, short.sentences[1]))]]
    assert max(before) < 20  # 0.4 s each
    assert " h " in long.sentences[1]
    assert long.sentences[2] == (
        "warning: that is long; a lower rank and fewer epochs are faster, a GPU (device cuda) much faster"
    )


def test_settings_for_a_gpu_on_a_cpu_are_named_at_once(tmp_path: Path) -> None:
    watcher = Watcher()
    config = dataclasses.replace(preset("wn18rr"), epochs=1, seed=3)
    run(tmp_path / "m", config, progress=watcher)
    assert watcher.sentences[1] == ("warning: these settings are meant for a GPU; on a CPU they can take hours or days")
    watcher = Watcher()
    run(tmp_path / "small", dataclasses.replace(preset("small"), epochs=1), progress=watcher)
    assert len(watcher.sentences) == 1


# Crashes ------------------------------------------------------------------------------------------------------------


def test_a_crash_inside_an_epoch_costs_no_more_than_checkpoint_seconds(tmp_path: Path) -> None:
    run(tmp_path / "whole")
    config = dataclasses.replace(CONFIG, checkpoint_seconds=12.0)
    for crash in (30, 61, 92):
        with pytest.raises(MemoryError):
            run(tmp_path / "cut", config, progress=Watcher(crash), clock=Ticking(), resume=crash > 30)
        found = position(tmp_path / "cut")
        assert crash - 6 <= found["step"] < crash  # about 4 s a step
        assert found["round"] == 0
        assert found["examples"] == found["step"]
    watcher = Watcher()
    run(tmp_path / "cut", config, progress=watcher, resume=True)
    assert watcher.sentences[1] == "continuing in epoch 1 of 3"
    assert watcher.calls[2][1] == found["step"]
    assert describe(tmp_path / "cut")["sha256"] == describe(tmp_path / "whole")["sha256"]
    loss = {}
    for name in ("whole", "cut"):
        lines = [json.loads(line) for line in (tmp_path / name / "log.jsonl").read_text().splitlines()]
        loss[name] = [line["loss"] for line in lines if "loss" in line]
    assert loss["cut"] == loss["whole"]  # the sum over the epoch is part of the checkpoint


def test_checkpoints_that_take_long_are_written_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, clock = list[float](), Ticking()
    plain = RunFolder.write_checkpoint

    def slow(*arguments: Any) -> None:
        written.append(clock.now)
        plain(*arguments)
        clock.now += 30.0

    monkeypatch.setattr(RunFolder, "write_checkpoint", slow)
    run(tmp_path / "m", dataclasses.replace(CONFIG, checkpoint_seconds=12.0), clock=clock)
    assert len(written) > 1
    assert np.diff(written).min() > 300  # a tenth of the time


def test_of_a_large_graph_a_sample_is_ranked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_config, "RANKED", 24)
    monkeypatch.setattr(train_config, "FEWEST_RANKED", 2)
    metrics = run(tmp_path / "m").metrics
    assert {split: found.edges for split, found in metrics.items()} == {"valid": 2, "test": 2}


def test_time_that_is_up_leaves_a_model_and_a_run_to_continue(tmp_path: Path) -> None:
    run(tmp_path / "whole")
    run(tmp_path / "cut", stop_after=600.0, clock=Ticking())
    about = describe(tmp_path / "cut")
    assert about["finished"] is False
    assert 100 < about["steps"] < 3 * 126
    lines = [json.loads(line) for line in (tmp_path / "cut" / "log.jsonl").read_text().splitlines()]
    measured = [line["valid"]["mrr"] for line in lines if "loss" in line]
    assert about["metrics"]["valid"]["mrr"] == max(measured)  # the model is the best one, not the one between two
    assert load(tmp_path / "cut").entities == 24
    run(tmp_path / "cut", None, resume=True)
    assert describe(tmp_path / "cut")["finished"] is True
    assert describe(tmp_path / "cut")["sha256"] == describe(tmp_path / "whole")["sha256"]


# Folders ------------------------------------------------------------------------------------------------------------


def test_a_folder_of_the_first_version_still_opens(tmp_path: Path) -> None:
    model = ComplEx.create(5, 2, 3, 1.0, 2, torch.Generator().manual_seed(1))
    save(model, tmp_path / "m")
    digest = describe(tmp_path / "m")["sha256"]
    config = {"model": "complex", "rank": 3}
    old = {"format": "tuplet model", "version": 1, "kind": "complex", "entities": 5, "relations": 2, "rank": 3}
    old |= {"norm": 2, "dtype": "float32", "sha256": digest, "tuplet": "0.1.0", "graph": "abc", "config": config}
    old |= {"epochs": 1, "best_epoch": 1, "train_seconds": 0.1, "evaluate_seconds": 0.1, "device": "cpu", "metrics": {}}
    (tmp_path / "m" / DESCRIPTION).write_text(json.dumps(old))
    assert torch.equal(load(tmp_path / "m").entity, model.entity)


# Predictors of other packages ---------------------------------------------------------------------------------------

PLUGIN = """
import numpy as np
from tuplet.predict.embeddings import DistMult

class Doubled(DistMult):
    kind = "doubled"

    def query(self, head, relation):
        return 2 * head * relation

class Popular:
    def __init__(self, entities, relations, settings):
        self.entities, self.relations = entities, relations

    def fit(self, edges):
        self.count = np.bincount(edges.splits["train"][2], minlength=self.entities).astype(np.float32)

    def tails(self, heads, relation):
        return np.tile(self.count, (len(heads), 1))

    heads = tails

    def pairs(self, heads, relation, tails):
        return self.count[np.asarray(tails)]
"""
USE = """
import sys
from predict_data import ring
from tuplet import settings
from tuplet.errors import BadInput
from tuplet.predict.model_folder import model_class, make_predictor
from tuplet.predict.model_folder import load
from tuplet.predict.train import train
from tuplet.predict.training import RunOptions
from tuplet.predict.config import TrainConfig
assert settings.list_plugins("predictors")[-2:] == ("doubled", "popular")
result = train(ring(), TrainConfig(model="doubled", rank=4, epochs=2), RunOptions(sys.argv[1], progress=False))
assert load(sys.argv[1]).kind == "doubled" and result.metrics["test"].mrr > 0
assert make_predictor("popular", ring()).count.sum() == len(ring().edges("train")[0])
try:
    model_class("popular")
except BadInput as error:
    print(error)
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A package with two predictors, as pip would install it."""
    root = tmp_path / "site"
    (root / "rankers-1.0.dist-info").mkdir(parents=True)
    (root / "rankers.py").write_text(PLUGIN)
    (root / "rankers-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: rankers\nVersion: 1.0\n")
    entries = "[tuplet.predictors]\ndoubled = rankers:Doubled\npopular = rankers:Popular\n"
    (root / "rankers-1.0.dist-info" / "entry_points.txt").write_text(entries)
    return root


def test_predictors_of_other_packages_are_found_by_entry_point(plugin: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([str(plugin), str(Path(__file__).parent), *sys.path])
    words = [sys.executable, "-c", USE, str(tmp_path / "m")]
    done = subprocess.run(words, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "popular is not trained by tuplet; give it to index in place of a model folder\n"


def test_a_predictor_by_module_and_class(plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(plugin)
    made: Any = make_predictor("rankers:Popular", ring())
    assert np.array_equal(made.tails(torch.tensor([3]), 0)[0], made.count)
    with pytest.raises(BadInput, match="needs an entry point of the group"):
        model_class("rankers:Doubled")
    with pytest.raises(BadInput, match="complex has to be trained first: tuplet train --model complex"):
        make_predictor("complex", ring())
    with pytest.raises(BadInput, match="cannot load rankers:Nobody"):
        make_predictor("rankers:Nobody", ring())


def test_a_folder_cannot_make_us_import_a_module(plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(plugin)
    save(ComplEx.create(5, 2, 3, 1.0, 2, torch.Generator().manual_seed(1)), tmp_path / "m")
    file = tmp_path / "m" / DESCRIPTION
    file.write_text(json.dumps(json.loads(file.read_text()) | {"kind": "rankers:Doubled"}))
    with pytest.raises(CorruptStore, match="needs an entry point"):
        load(tmp_path / "m")
