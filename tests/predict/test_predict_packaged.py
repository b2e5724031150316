"""The network in the package: it is there, it is small, it was trained on none of what it is judged by, it goes on."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

import tuplet
from tuplet.cli.commands import main
from tuplet.errors import BadInput
from tuplet.predict.base import TrainingEdges
from tuplet.predict.evaluate import evaluate
from tuplet.predict.model_folder import CARD, describe, find_model_folder, load_for

DATA = Path(os.environ.get("TUPLET_DATA", ""))
TRAINED_ON = ("fb15k-237", "nell995", "wn18rr")
JUDGED_BY = ("umls", "kinships", "nations", "codex-s", "codex-m", "ilpc22-small", "attack")
needs_data = pytest.mark.skipif(
    "TUPLET_DATA" not in os.environ, reason="needs the benchmark graphs (TUPLET_DATA names their folder)"
)


def facts_in(file: Path) -> set[tuple[str, ...]]:
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    return {tuple(line.split("\t")[:3]) for line in lines}


def test_it_is_small_and_has_a_card() -> None:
    folder = find_model_folder("packaged")
    assert sum(file.stat().st_size for file in folder.iterdir()) < 2_000_000
    card = (folder / CARD).read_text(encoding="utf-8")
    assert describe("packaged")["graphs"] == list(TRAINED_ON)
    for name in ("FB15k-237", "NELL995", "WN18RR"):
        assert name in card


@needs_data
def test_no_fact_it_is_judged_by_was_trained_on() -> None:
    learned = set().union(*(facts_in(DATA / name / "train.tsv.gz") for name in TRAINED_ON))
    assert len(learned) > 470_000
    for name in JUDGED_BY:
        for file in (DATA / name).glob("*.tsv.gz"):
            if not file.name.startswith(("entit", "relation")):
                assert not learned & facts_in(file), f"{name}/{file.name}"


@needs_data
def test_it_predicts_a_graph_it_never_saw() -> None:
    graph = tuplet.read(DATA / "nations")
    edges = TrainingEdges.from_graph(graph)
    assert evaluate(load_for(edges, "packaged"), edges.splits["test"], edges.splits).mrr > 0.569


def test_training_goes_on_from_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("".join(f"a{i}\tnext\ta{(i + 1) % 12}\na{i}\tover\ta{(i + 2) % 12}\n" for i in range(12)))
    assert main(["import", str(facts), "-o", str(tmp_path / "graph")]) == 0
    further = ["train", str(tmp_path / "graph"), "--model", "paths", "--from", "packaged", "--steps", "2"]
    assert main([*further, "-o", str(tmp_path / "model")]) == 0
    about = describe(tmp_path / "model")
    assert (about["kind"], about["rank"], about["config"]["start"]) == ("any-graph", 32, "packaged")
    assert describe("packaged")["sha256"] != about["sha256"]
    started, ended = (
        load_for(TrainingEdges.from_graph(tuplet.read(tmp_path / "graph")), m).tensors()
        for m in ("packaged", tmp_path / "model")
    )
    assert started.keys() == ended.keys()  # of its two networks the one that suits the graph
    moved = max(float((started[name] - part).abs().max()) for name, part in ended.items())
    assert 0 < moved < 0.02  # two steps from where it began
    capsys.readouterr()
    assert main([*further, "--rank", "16", "-o", str(tmp_path / "other")]) != 0
    assert "packaged cannot be the start: its rank is 32, not 16" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()
    with pytest.raises(BadInput, match="packaged is a model of kind any-graph; complex cannot go on from it"):
        tuplet.train(tuplet.read(tmp_path / "graph"), tmp_path / "more", model="complex", start="packaged")
