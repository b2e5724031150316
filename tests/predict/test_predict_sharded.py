"""Two processes that share the entity table train what one process trains."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import tuplet
from repeatable import SOAK
from tuplet.cli.demo import bundled, hidden
from tuplet.errors import BadInput
from tuplet.predict.config import TrainConfig
from tuplet.predict.edges import TrainingEdges
from tuplet.predict.model_folder import read_tensors
from tuplet.predict.process_group import ProcessGroup
from tuplet.predict.sharded import ShardedLinkTask

SETTINGS = "--rank 8 --epochs 4 --batch 600 --negatives 60 --evaluate-every 2 --patience 0 --quiet"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sharded") / "graph"
    hidden(bundled()).save(folder)
    return folder


def command(processes: int, *words: str) -> list[str]:
    several = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return [sys.executable, *(several if processes > 1 else ()), "-m", "tuplet", "train", *words]


def train(processes: int, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command(processes, *words), capture_output=True, text=True, env=environment, timeout=600)


def losses(folder: Path) -> np.ndarray:
    records = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return np.array([record["loss"] for record in records if "loss" in record])


def test_two_processes_learn_what_one_learns(graph: Path, tmp_path: Path) -> None:
    same = {"rank": 8, "epochs": 4, "batch": 600, "negatives": 60, "evaluate_every": 2, "patience": 0}
    tuplet.train(str(graph), tmp_path / "one", progress=False, **same)  # type: ignore[arg-type]
    together = train(2, str(graph), "-o", str(tmp_path / "two"), *SETTINGS.split())
    assert together.returncode == 0, together.stderr
    assert together.stdout.count("valid") == 1, "of two processes one speaks"
    curves = [losses(tmp_path / name) for name in ("one", "two")]
    assert len(curves[0]) == 4
    assert np.allclose(*curves, rtol=1e-3), "the same steps, but for the order of sums"
    tables = [read_tensors(tmp_path / name / "model.safetensors")["entity"] for name in ("one", "two")]
    assert torch.nn.functional.cosine_similarity(tables[0].flatten(), tables[1].flatten(), dim=0) > 0.99


@pytest.mark.skipif(not SOAK, reason="takes a minute; TUPLET_SOAK=1 runs it")
def test_a_stopped_run_goes_on_in_any_number_of_processes(graph: Path, tmp_path: Path) -> None:
    slow = [*SETTINGS.split(), "--epochs", "400", "--checkpoint-seconds", "0.2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = command(2, str(graph), "-o", str(tmp_path / "run"), *slow)
    running = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(1200):
        if (tmp_path / "run" / "checkpoint.safetensors").exists():
            break
        time.sleep(0.1)
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=120)
    before = len(losses(tmp_path / "run"))
    assert before < 400
    resumed = train(1, str(graph), "-o", str(tmp_path / "run"), "--resume", *slow)
    assert resumed.returncode == 0, resumed.stderr
    log = (tmp_path / "run" / "log.jsonl").read_text()
    assert '"event": "resumed"' in log


def test_several_processes_need_negatives() -> None:
    edges, group = TrainingEdges.of(hidden(bundled())), ProcessGroup(0, 2, torch.device("cpu"), None)
    with pytest.raises(BadInput, match="give negatives"):
        ShardedLinkTask(edges, TrainConfig(rank=4), group)
