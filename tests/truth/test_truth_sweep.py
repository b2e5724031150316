"""The blocked builder against the dense definition, in every calibration and direction; resuming."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch

from tuplet import settings as registry
from tuplet.errors import BadInput
from tuplet.predict.base import LinkPredictor
from tuplet.predict.embeddings import EmbeddingModel
from tuplet.predict.model_folder import model_class
from tuplet.truth.calibration.reliability import reliability
from tuplet.truth.candidates import rows
from tuplet.truth.candidates.score import finished_relations, score_candidates
from tuplet.truth.candidates.scorer import CandidateScorer
from tuplet.truth.candidates.sources import EVERYTHING
from tuplet.truth.edges import HIGHEST_PREDICTION, Predictions
from tuplet.truth.rules import Calibration

ENTITIES, RELATIONS = 60, 3
Triples: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(params=[7 * ENTITIES, 1 << 24], ids=["in blocks", "whole"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small graphs fit into one block; the tests marked with this see several too."""
    monkeypatch.setattr(rows, "_MOST_SCORES", request.param)


def random_model(kind: str = "complex", seed: int = 0, entities: int = ENTITIES) -> EmbeddingModel:
    generator = torch.Generator().manual_seed(seed)
    return model_class(kind).create(entities, RELATIONS, 8, 0.9, 2, generator)


def random_edges(seed: int = 0, entities: int = ENTITIES, count: int = 150) -> Triples:
    rng = np.random.default_rng(seed)
    keys = np.unique(rng.integers(0, RELATIONS * entities**2, count))
    return (
        (keys // entities % entities).astype(np.int32),
        (keys // entities**2).astype(np.int32),
        (keys % entities).astype(np.int32),
    )


def dense(model: EmbeddingModel, edges: Triples, calibration: Calibration) -> np.ndarray:
    """Truth of every edge [relations, entities, entities], written from the definitions with loops over rows."""
    n = model.entities
    out = np.zeros((model.relations, n, n))
    everyone = torch.arange(n)
    for r in range(model.relations):
        forward = model.tails(everyone, r).double().numpy()
        backward = model.heads(everyone, r).double().numpy()
        sides = []
        for scores, near, far in ((forward, edges[0], edges[2]), (backward, edges[2], edges[0])):
            truth = np.zeros((n, n))
            for e in range(n):
                softmax = np.exp(scores[e] - scores[e].max())
                softmax /= softmax.sum()
                seen = far[(edges[1] == r) & (near == e)]
                if calibration.name == "softmax-count":
                    scale = max(len(seen), 1)
                else:
                    scale = len(seen) / softmax[seen].sum() if len(seen) else 1.0
                truth[e] = np.minimum(scale * softmax, HIGHEST_PREDICTION)
            sides.append(truth)
        out[r] = (sides[0] + sides[1].T) / 2
    return out


def build_table(
    model: LinkPredictor,
    edges: Triples,
    threshold: float = 0.005,
    calibration: Calibration | None = None,
    folder: Path | None = None,
    key: str = "",
    **settings: Any,
) -> Predictions:
    rule = calibration or Calibration()
    cache = folder and finished_relations(folder, [key], EVERYTHING, threshold, rule, edges)
    scored = score_candidates({"model": model}, edges, EVERYTHING, threshold, rule, cache=cache, **settings)
    return scored.predictions().reaching(threshold)


def as_dense(edges: Predictions, entities: int = ENTITIES) -> np.ndarray:
    out = np.zeros((RELATIONS, entities, entities))
    out[edges.relation, edges.heads, edges.tails] = edges.prediction
    return out


@pytest.mark.usefixtures("_both_ways")
@pytest.mark.parametrize("name", registry.list_plugins("calibrations"))
def test_equals_the_dense_definition(name: str) -> None:
    calibration = Calibration(name)
    model, edges = random_model(), random_edges()
    found = as_dense(build_table(model, edges, threshold=0.02, calibration=calibration))
    wanted = dense(model, edges, calibration)
    wanted[wanted < 0.02] = 0
    assert np.count_nonzero(wanted) > 100
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.usefixtures("_both_ways")
@pytest.mark.parametrize(
    "kind", [name for name in registry.list_plugins("predictors") if name not in ("paths", "any-graph")]
)
def test_every_model(kind: str) -> None:
    model, edges = random_model(kind), random_edges(1)
    found = as_dense(build_table(model, edges, threshold=0.03))
    wanted = dense(model, edges, Calibration())
    clear = np.abs(wanted - 0.03) > 1e-4
    wanted[wanted < 0.03] = 0
    np.testing.assert_allclose(found[clear], wanted[clear], atol=1e-4)


def test_small_memory_gives_the_same_table() -> None:
    model, edges = random_model(), random_edges()
    whole = build_table(model, edges)
    pieces = build_table(model, edges, memory=ENTITIES * 12 * 7)
    for a, b in zip(whole, pieces, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    with pytest.raises(BadInput, match="do not hold one row"):
        build_table(model, edges, memory=100)


@pytest.mark.usefixtures("_both_ways")
def test_edges_are_sorted_and_below_one() -> None:
    edges = build_table(random_model(), random_edges(), calibration=Calibration("observed-mass"))
    key = (edges.relation.astype(int) * ENTITIES + edges.heads) * ENTITIES + edges.tails
    assert (np.diff(key) > 0).all()
    assert edges.prediction.max() <= HIGHEST_PREDICTION
    assert edges.prediction.min() >= 0.005


@pytest.mark.usefixtures("_both_ways")
def test_no_observed_edges() -> None:
    none = np.zeros(0, np.int32)
    found = as_dense(build_table(random_model(), (none, none, none)))
    wanted = dense(random_model(), (none, none, none), Calibration())
    wanted[wanted < 0.005] = 0
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_resume_reaches_the_same_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, edges = random_model(), random_edges()
    whole = build_table(model, edges).hash()
    seen: list[tuple[str, float, float, str]] = []

    def stop_after_one(step: str, done: float, total: float, note: str) -> None:
        seen.append((step, done, total, note))
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_table(model, edges, folder=tmp_path, key="m", progress=stop_after_one)
    assert seen == [("index", 0, RELATIONS, "relations"), ("index", 1, RELATIONS, "relations")]
    (folder,) = tmp_path.iterdir()
    missing = [r for r in range(RELATIONS) if not (folder / f"{r}.npz").exists()]  # what had begun was finished
    assert 0 not in missing
    computed: list[int] = []
    original = CandidateScorer.links
    monkeypatch.setattr(CandidateScorer, "links", lambda self, r: (computed.append(r), original(self, r))[1])
    assert build_table(model, edges, folder=tmp_path, key="m").hash() == whole
    assert computed == missing
    computed.clear()
    # another model, threshold or calibration never meets these parts; a damaged part is computed again
    build_table(model, edges, folder=tmp_path, key="other")
    assert sorted(computed) == [0, 1, 2]
    for part in tmp_path.glob("*/1.npz"):
        part.write_bytes(part.read_bytes()[:-40])
    assert build_table(model, edges, folder=tmp_path, key="m").hash() == whole
    assert sorted(computed) == [0, 1, 1, 2]


KILLED = """
import sys, time, numpy as np, torch
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_truth_sweep import random_model, random_edges
from test_truth_sweep import build_table
print("ready", flush=True)
build_table(random_model(), random_edges(), folder=Path({folder!r}), progress=lambda *_: time.sleep(0.05))
"""


def test_killed_build_resumes(tmp_path: Path) -> None:
    code = KILLED.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.08)
        os.kill(process.pid, signal.SIGKILL)
    whole = build_table(random_model(), random_edges()).hash()
    assert build_table(random_model(), random_edges(), folder=tmp_path).hash() == whole


@pytest.mark.parametrize("threshold", [0.0, 1.0, -1.0])
def test_threshold_is_checked(threshold: float) -> None:
    with pytest.raises(BadInput, match="threshold"):
        build_table(random_model(), random_edges(), threshold=threshold)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("softmaxcount", "unknown calibration 'softmaxcount'; did you mean 'softmax-count'"),
        ("lerned", "unknown calibration 'lerned'; did you mean 'learned'"),
        ("nowhere:rule", "cannot load nowhere:rule"),
    ],
)
def test_unknown_calibrations_are_refused(name: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Calibration(name)


def test_reliability_counts_by_hand() -> None:
    truth = np.array([0.005, 0.2, 0.2, 0.95, 0.9999, 1.0])
    facts = np.array([False, True, False, True, True, False])
    table = reliability(truth, facts, bins=(0, 0.1, 0.5, 1), split="valid")
    assert table.entries.tolist() == [1, 2, 3]
    assert table.facts.tolist() == [0, 1, 2]
    assert table.mean.round(4).tolist() == [0.005, 0.2, 0.9833]
    expected = (0.005 + 2 * 0.3 + 3 * abs(0.98330 - 2 / 3)) / 6
    assert table.error == pytest.approx(expected, abs=1e-4)
    text = str(table)
    assert "valid" in text
    assert "0.1–0.5" in text
    again = type(table).from_dict(table.as_dict())
    assert str(again) == text


def test_needs_neither_pyarrow_nor_numba() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = sys.modules['numba'] = None\n"
        "import tuplet.truth.candidates.score, tuplet.truth.rules, tuplet.predict.model_folder, tuplet.graph.graph"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_block_never_exceeds_what_nonzero_counts() -> None:
    assert rows._MOST_ON_GPU < 2**31
