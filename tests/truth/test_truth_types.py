"""Types are facts that are not predicted, unless somebody asks for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tuplet
from tuplet.read.tables import TYPE_RELATION

DRUGS, GENES = [f"d{i}" for i in range(12)], [f"g{i}" for i in range(12)]


@pytest.fixture(scope="module")
def graph() -> tuplet.Graph:
    rng = np.random.default_rng(0)
    facts = [(d, "targets", g) for d in DRUGS for g in rng.choice(GENES, 5, replace=False)]
    facts += [(d, TYPE_RELATION, "Drug") for d in DRUGS[:9]] + [(g, TYPE_RELATION, "Gene") for g in GENES[:9]]
    read = tuplet.read(facts)
    read.notes["type_relation"] = TYPE_RELATION
    return read


@pytest.mark.parametrize("on_demand", [False, True])
def test_types_are_predicted_only_if_asked_for(graph: tuplet.Graph, tmp_path: Path, on_demand: bool) -> None:
    model = tuplet.train(graph, tmp_path / "model", rank=8, epochs=5, progress=False)
    settings = {"on_demand": on_demand, "threshold": 1e-6, "calibration": "softmax-count", "progress": False}
    plain = tuplet.index(graph, model, tmp_path / "plain", **settings)
    asked = tuplet.index(graph, model, tmp_path / "asked", predict_types=True, **settings)
    query = f"?x : {TYPE_RELATION}(?x, Drug)"
    assert {answer.status for answer in plain.ask(query, k="all")} == {"observed"}
    assert "predicted" in {answer.status for answer in asked.ask(query, k="all")}
    assert "predicted" in {answer.status for answer in plain.ask("?x, ?y : targets(?x, ?y)", k="all")}
    again = tuplet.open(tmp_path / "asked")
    assert again.graph.notes["predict_types"] is True
