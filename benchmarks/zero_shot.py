"""How well the packaged network predicts graphs it never saw, beside predictors that were trained on them.

    python benchmarks/zero_shot.py GRAPH... [--methods packaged,further,complex,paths] [--split test]

A graph is what `train_gpu.py` reads, a folder with an inductive protocol (inference.tsv.gz, inference_validation.tsv.gz
and inference_test.tsv.gz), or a file of facts, of which a random twentieth is hidden for test and another for valid.
`further` goes on from the packaged network for one pass over the facts; `complex` and `paths` are trained from nothing,
with the settings that suit the size of the graph. Prints filtered MRR, both directions, ties by expected rank.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from train_gpu import lines, read_graph

from tuplet.predict.base import TrainingEdges
from tuplet.predict.config import TrainConfig, choose_settings, continue_settings
from tuplet.predict.device import pick_device
from tuplet.predict.evaluate import evaluate
from tuplet.predict.model_folder import describe, load_for
from tuplet.predict.train import train
from tuplet.predict.training import RunOptions
from tuplet.settings import changed

METHODS = "packaged", "further", "complex", "paths"


def main() -> None:
    """One line of JSON for each graph and method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", type=Path, nargs="+", metavar="GRAPH")
    parser.add_argument("--methods", default=",".join(METHODS), help=f"of {', '.join(METHODS)}")
    parser.add_argument("--split", default="test", choices=("valid", "test"))
    parser.add_argument("--before", help="of a file of facts with dates: those before this date")
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    for path in arguments.graphs:
        edges = edges_of(path, arguments.before)
        for method in arguments.methods.split(","):
            began = time.monotonic()
            found = mrr(edges, method, arguments.split, str(pick_device(arguments.device)))
            told = {"graph": path.name, "method": method, arguments.split: found}
            print(json.dumps(told | {"seconds": round(time.monotonic() - began, 1)}), flush=True)


def edges_of(path: Path, before: str | None = None) -> TrainingEdges:
    """The edges of a graph, by split."""
    if path.is_file() and path.suffix != ".npz":
        text = lines(path) if path.suffix == ".gz" else path.read_text(encoding="utf-8").splitlines()
        rows = [line.split("\t") for line in text if line and not line.startswith("#")]
        rows = [row for row in rows if before is None or row[3] < before]
        order, part = np.random.default_rng(0).permutation(len(rows)), len(rows) // 20
        chosen = {"test": order[:part], "valid": order[part : 2 * part], "train": np.sort(order[2 * part :])}
        return _numbered({split: [rows[i] for i in chosen[split]] for split in ("train", "valid", "test")})
    if (path / "inference.tsv.gz").exists():
        names = {"train": "inference", "valid": "inference_validation", "test": "inference_test"}
        return _numbered(
            {split: [line.split("\t") for line in lines(path / f"{name}.tsv.gz")] for split, name in names.items()}
        )
    return TrainingEdges(*read_graph(path))


def _numbered(rows: dict[str, list[list[str]]]) -> TrainingEdges:
    entities: dict[str, int] = {}
    relations: dict[str, int] = {}
    splits: dict[str, Any] = {}
    for split, facts in rows.items():
        ids = [
            (
                entities.setdefault(h, len(entities)),
                relations.setdefault(r, len(relations)),
                entities.setdefault(t, len(entities)),
            )
            for h, r, t, *_ in facts
        ]
        splits[split] = tuple(np.array(ids, dtype=np.int64).reshape(-1, 3).T)
    return TrainingEdges(splits, len(entities), len(relations))


def mrr(edges: TrainingEdges, method: str, split: str, device: str) -> float:
    """Of the edges of a split."""
    if method == "packaged":
        model: Any = load_for(edges, "packaged", device)
    else:
        settings = choose_settings(edges.count("train"), "paths" if method == "further" else method)
        if method == "further":
            given = continue_settings(describe("packaged"), {"start": "packaged"})
            settings = changed(settings, given)
        with tempfile.TemporaryDirectory() as folder:
            model = _trained(edges, settings, folder, device)
    return round(evaluate(model, edges.splits[split], edges.splits).mrr, 4)


def _trained(edges: TrainingEdges, settings: TrainConfig, folder: str, device: str) -> Any:
    return train(edges, settings, RunOptions(folder, device, force=True, progress=False)).model


if __name__ == "__main__":
    main()
