"""Rows on demand from embeddings: time of the first row of a relation and of later ones, and how exact they are.

    python benchmarks/rows_on_demand.py DATASET_FOLDER MODEL [--relations 8] [--rows 20] [--check 2]

MODEL is a model folder, or a .safetensors file with `entity` and `relation` of ComplEx. `--check` recomputes so many
relations' first rows densely (all normalisers) and prints the largest difference.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import safetensors.torch
import torch

from tuplet.predict import model_folder as files
from tuplet.predict.embeddings import ComplEx, EmbeddingModel
from tuplet.read.read import read
from tuplet.truth.edges import observed_facts
from tuplet.truth.on_demand import TruthOnDemand
from tuplet.truth.table import TruthTable


def load_model(path: Path) -> EmbeddingModel:
    if path.suffix != ".safetensors":
        return files.load(path)
    tensors = safetensors.torch.load_file(path)
    return ComplEx(tensors["entity"].float(), tensors["relation"].float())


def dense_row(rows: TruthOnDemand, entity: int, relation: int) -> np.ndarray:
    """Predictions of a forward row with the normalisers of all tails computed."""
    everyone = torch.arange(rows.predictor.entities)
    with torch.inference_mode():
        return rows._truth(torch.full_like(everyone, entity), everyone, relation).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--relations", type=int, default=8, help="relations to touch, at random")
    parser.add_argument("--rows", type=int, default=20, help="rows per relation, of entities that have the relation")
    parser.add_argument(
        "--check", type=int, default=0, help="relations whose first row is compared with all normalisers"
    )
    arguments = parser.parse_args()
    graph, model = read(arguments.dataset), load_model(arguments.model)
    facts = TruthTable.assemble(len(graph.entities), len(graph.relations), observed_facts(graph), threshold=0.005)
    basis = graph.edges("train")
    rows = TruthOnDemand(model, facts, basis)
    rng = np.random.default_rng(0)
    first, later, normalisers, worst = [], [], [], 0.0
    for number, relation in enumerate(rng.permutation(len(graph.relations))[: arguments.relations].tolist()):
        heads = np.unique(basis[0][basis[1] == relation])
        chosen = rng.choice(heads, min(arguments.rows, len(heads)), replace=False).tolist()
        for i, head in enumerate(chosen):
            began = time.perf_counter()
            rows.row(head, relation, False)
            (first if i == 0 else later).append(1000 * (time.perf_counter() - began))
        normalisers.append(int((~rows._find_shifts(relation, True)._exact.isnan()).sum()))
        if number < arguments.check:
            wanted = dense_row(rows, chosen[0], relation)
            ids, truth, observed = rows.row(chosen[0], relation, False)
            found = np.zeros(len(wanted), dtype=np.float32)
            found[ids[~observed]] = truth[~observed]
            wanted[ids[observed]] = 0
            wanted[wanted < 0.005] = 0
            worst = max(worst, float(np.abs(found - wanted).max()))
    report = {
        "dataset": arguments.dataset.name,
        "rank": model.rank,
        "threads": torch.get_num_threads(),
        "first_row_ms": {"median": round(float(np.median(first)), 1), "largest": round(max(first), 1)},
        "later_row_ms": {"median": round(float(np.median(later)), 1), "largest": round(max(later), 1)},
        "normalisers_computed_of": [int(np.median(normalisers)), model.entities],
    }
    if arguments.check:
        report["largest_difference"] = worst
    print(json.dumps(report))


if __name__ == "__main__":
    main()
