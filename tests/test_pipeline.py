"""From facts to a store in one go: interrupted, killed, called again with something else."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tuplet
from tuplet.build import build, with_valid
from tuplet.errors import BadInput, TupletError
from tuplet.predict import model_folder
from tuplet.predict.config import PRESETS, TrainConfig
from tuplet.predict.embeddings import ComplEx

QUICK = TrainConfig(rank=4, epochs=6, batch=40, evaluate_every=0, checkpoint_seconds=0)
FACTS = [(f"e{i}", f"r{i % 3}", f"e{(i * i + 1) % 20}") for i in range(20)] + [
    (f"e{i}", "r0", f"e{i + 1}") for i in range(19)
]


def interrupted(path: Path, facts: list[tuple[str, str, str]], config: TrainConfig = QUICK) -> str:
    """Build until the third epoch, press Ctrl-C, and return what the user reads."""

    def told(step: str, done: float, total: float, note: str) -> None:
        if step == "train" and total and 6 * done == 3 * total:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(TupletError) as stop:
        build(facts, path, config=config, progress=told)
    return str(stop.value)


def truth(path: Path) -> Mapping[str, Any]:
    return tuplet.open(path).source.truth.arrays()  # type: ignore[union-attr]


def test_build_goes_on_after_ctrl_c(tmp_path: Path) -> None:
    build(FACTS, tmp_path / "whole", config=QUICK)
    message = interrupted(tmp_path / "s", FACTS)
    assert message.startswith("training stopped in epoch ")
    assert message.endswith("of 6; the same command continues from there")
    assert not (tmp_path / "s").exists()
    seen: list[float] = []
    build(FACTS, tmp_path / "s", config=QUICK, progress=lambda step, done, total, _: seen.append(done / (total or 1)))
    assert next(filter(None, seen)) >= 0.5, "epochs that were done are not done again"
    for name, array in truth(tmp_path / "whole").items():
        assert np.array_equal(array, truth(tmp_path / "s")[name]), name
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s", "whole"]


@pytest.mark.parametrize("other", ["settings", "facts", "damage"])
def test_another_build_in_the_same_place_starts_over(other: str, tmp_path: Path) -> None:
    interrupted(tmp_path / "s", FACTS)
    facts = FACTS[:-1] if other == "facts" else FACTS
    config = TrainConfig(rank=5, epochs=2, batch=40, evaluate_every=0) if other == "settings" else QUICK
    if other == "damage":
        (tmp_path / ".s.model" / "checkpoint.safetensors").write_bytes(b"no")
    build(facts, tmp_path / "s", config=config)
    assert tuplet.info(tmp_path / "s")["model"]["rank"] == config.rank
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_a_kept_model_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    build(FACTS, tmp_path / "s", config=QUICK, keep_model=tmp_path / "m")
    with pytest.raises(TupletError, match="rank was 4, now it is 5"):
        build(FACTS, tmp_path / "t", config=QUICK, rank=5, keep_model=tmp_path / "m")
    build(FACTS, tmp_path / "t", config=QUICK, rank=5, keep_model=tmp_path / "m", force=True)
    assert tuplet.info(tmp_path / "m")["rank"] == 5


def test_flags_change_what_suits_the_size(tmp_path: Path) -> None:
    build(FACTS, tmp_path / "s", epochs=1, keep_model=tmp_path / "m")
    about = tuplet.info(tmp_path / "m")
    assert (about["config"]["epochs"], about["config"]["rank"]) == (1, PRESETS["small"].rank)
    with pytest.raises(TypeError, match="unexpected keyword argument 'epocs'; did you mean 'epochs'"):
        build(FACTS, tmp_path / "t", epocs=1)  # type: ignore[call-arg]


def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    interrupted(tmp_path / "s", FACTS)
    with pytest.raises(TupletError, match="its training has not finished; continue it with resume=True"):
        tuplet.info(tmp_path / ".s.model")


def test_with_valid_takes_a_share_once() -> None:
    graph = tuplet.read(FACTS)
    held = with_valid(graph, 0.1, seed=1)
    assert len(held.edges("valid")[0]) == 3
    assert with_valid(held, 0.1, seed=2) is held
    assert with_valid(graph, 0.001, seed=1) is graph, "too few facts to hold any out"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"predictors": "compelx,paths"}, "unknown model 'compelx'; did you mean 'complex'"),
        ({"model": "compelx"}, "unknown model 'compelx'; did you mean 'complex'"),
        ({"minutes": 0}, "minutes is 0"),
        ({"minutes": float("nan")}, "minutes is nan"),
        ({"holdout": "newst"}, "unknown hold-out 'newst'; did you mean 'newest'"),
        ({"calibration": "lerned"}, "unknown calibration 'lerned'; did you mean 'learned'"),
        ({"threshold": 2}, "threshold lies between 0 and 1, not 2"),
    ],
)
def test_a_wrong_argument_is_refused_before_the_facts_are_read(
    wrong: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=message):
        build(tmp_path / "nowhere.tsv", tmp_path / "s", progress=False, **wrong)


def test_index_refuses_a_wrong_argument_before_the_graph_is_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="unknown kind of candidates 'halflinks'; did you mean 'half-links'"):
        tuplet.index(tmp_path / "nowhere", tmp_path / "m", tmp_path / "s", candidates="halflinks", progress=False)
    with pytest.raises(BadInput, match="unknown calibration 'lerned'; did you mean 'learned'"):
        tuplet.index(tmp_path / "nowhere", tmp_path / "m", tmp_path / "s", calibration="lerned", progress=False)


def test_index_takes_each_model_once(tmp_path: Path) -> None:
    graph = tuplet.read(FACTS)
    model = ComplEx.create(len(graph.entities), 3, 4, 0.1, 0, torch.Generator().manual_seed(0))
    folders = [tmp_path / "m", tmp_path / "copy"]
    for folder in folders:
        model_folder.save(model, folder)
    for models, message in (
        ([folders[0], folders[0]], f"the model {folders[0]} is given twice; give each once"),
        ([folders[0], f"{tmp_path}/./m"], f"the models {folders[0]} and {tmp_path}/./m are the same; give one"),
        (folders, f"the models {folders[0]} and {folders[1]} are the same; give one of them"),
        ([model, model], "the model ComplEx is given twice; give each once"),
    ):
        with pytest.raises(BadInput, match=re.escape(message)):
            tuplet.index(graph, models, tmp_path / "s", progress=False)
