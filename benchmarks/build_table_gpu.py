"""Build a truth table and time it; check sampled rows against the dense float32 computation.

    python benchmarks/build_table_gpu.py GRAPH MODEL --out DIR [--device cuda] [--threshold 0.005] [--check 64]

GRAPH is a graph directory, or an .npz with `heads`, `relation`, `tails` (the observed edges); MODEL a model folder, or
a .safetensors file with `entity` and `relation` of ComplEx. Needs torch, numpy and safetensors alone. Writes
`edges.safetensors` (int32 heads, relation, tails; float16 prediction) and prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from tuplet import settings
from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict import model_folder as files
from tuplet.predict.embeddings import ComplEx, EmbeddingModel
from tuplet.truth.candidates.score import score_candidates
from tuplet.truth.candidates.sources import EVERYTHING
from tuplet.truth.edges import Predictions
from tuplet.truth.rules import Calibration, combine


def observed_edges(path: Path, splits: list[str]) -> tuple[Any, Any, Any]:
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return arrays["heads"], arrays["relation"], arrays["tails"]
    return KnowledgeGraph.open(path).edges(*splits)


def load_model(path: Path, device: str) -> EmbeddingModel:
    if path.suffix != ".safetensors":
        return files.load(path, device)
    tensors = safetensors.torch.load_file(path, device=device)
    return ComplEx(tensors["entity"].float(), tensors["relation"].float())


def check_rows(
    model: EmbeddingModel,
    edges: tuple[Any, Any, Any],
    table: Predictions,
    calibration: Calibration,
    threshold: float,
    rows: int,
) -> dict[str, float]:
    """Largest difference of random rows and of the fullest rows to the dense computation in full float32 products."""
    torch.set_float32_matmul_precision("highest")
    device, n = model.device, model.entities
    rng = np.random.default_rng(0)
    some = rng.integers(0, len(table.heads), rows)
    pairs = list(zip(table.relation[some].tolist(), table.heads[some].tolist(), strict=True))
    pairs += list(
        zip(rng.integers(0, model.relations, rows // 4).tolist(), rng.integers(0, n, rows // 4).tolist(), strict=True)
    )
    worst, missing = 0.0, 0.0
    heads, relation, tails = (torch.from_numpy(np.asarray(column, dtype=np.int64)).to(device) for column in edges)
    start = np.searchsorted(table.relation, np.arange(model.relations + 1))
    everyone = torch.arange(n, device=device)
    for r in sorted({r for r, _ in pairs}):
        of_r = relation == r
        sampled = sorted({h for q, h in pairs if q == r})
        ids = torch.tensor(sampled, device=device)
        forward = model.tails(ids, r).float()
        forward -= dense_shift(model, forward, ids, heads[of_r], tails[of_r], calibration)[:, None]
        backward = []  # [n, sampled] in blocks of tails
        for part in torch.split(everyone, 2048):
            scores = model.heads(part, r).float()
            shift = dense_shift(model, scores, part, tails[of_r], heads[of_r], calibration)
            backward.append(scores[:, ids] - shift[:, None])
        columns = torch.cat(backward)
        for i, h in enumerate(sampled):
            wanted = combine(forward[i], columns[:, i])
            part = slice(start[r], start[r + 1])
            mine = table.heads[part] == h
            found = torch.zeros(n, device=device)
            found[torch.from_numpy(table.tails[part][mine].astype(np.int64)).to(device)] = torch.from_numpy(
                table.prediction[part][mine]
            ).to(device)
            listed = found > 0
            worst = max(worst, float((found - wanted)[listed].abs().max()) if bool(listed.any()) else 0.0)
            missing = max(missing, float((wanted[~listed].max() - threshold).clamp(min=0)))
    return {"rows": len(set(pairs)), "largest_difference": worst, "largest_missing_above_threshold": missing}


def dense_shift(
    model: EmbeddingModel,
    scores: torch.Tensor,
    rows: torch.Tensor,
    near: torch.Tensor,
    far: torch.Tensor,
    calibration: Calibration,
) -> torch.Tensor:
    mark = torch.zeros_like(scores, dtype=torch.bool)
    at = torch.full((model.entities,), -1, dtype=torch.int64, device=rows.device)
    at[rows] = torch.arange(len(rows), device=rows.device)
    inside = at[near] >= 0
    mark[at[near][inside], far[inside]] = True
    observed = torch.logsumexp(scores.masked_fill(~mark, -torch.inf), 1)
    return calibration.shift(mark.sum(1).float(), observed, torch.logsumexp(scores, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, help="folder for edges.safetensors")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--observed", default="train", help="splits that the calibration counts")
    parser.add_argument("--threshold", type=float, default=0.005)
    parser.add_argument("--calibration", default="softmax-count", choices=settings.list_plugins("calibrations"))
    parser.add_argument("--memory", type=float, help="bytes for blocks")
    parser.add_argument("--relations", type=int, help="build only the first so many relations")
    parser.add_argument("--check", type=int, default=0, help="compare so many sampled rows with the dense computation")
    parser.add_argument("--repeat", type=int, default=1, help="build so often; the best and all times are printed")
    arguments = parser.parse_args()

    edges = observed_edges(arguments.graph, arguments.observed.split(","))
    model = load_model(arguments.model, arguments.device)
    if arguments.relations:
        used = list(range(arguments.relations)) + [model.relations + r for r in range(arguments.relations)]
        model = type(model)(model.entity, model.relation[used], model.norm)
        keep = edges[1] < arguments.relations
        edges = (edges[0][keep], edges[1][keep], edges[2][keep])
    calibration = Calibration(arguments.calibration)
    memory = int(arguments.memory) if arguments.memory else None
    times = []
    for _ in range(arguments.repeat):
        if arguments.device.startswith("cuda"):
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        scored = score_candidates({model.kind: model}, edges, EVERYTHING, arguments.threshold, calibration, memory)
        table = scored.predictions().reaching(arguments.threshold)
        times.append(time.perf_counter() - began)
    report: dict[str, Any] = {
        "graph": str(arguments.graph),
        "entities": model.entities,
        "relations": model.relations,
        "rank": model.rank,
        "device": torch.cuda.get_device_name() if arguments.device.startswith("cuda") else "cpu",
        "torch": torch.__version__,
        "calibration": calibration.as_dict(),
        "threshold": arguments.threshold,
        "edges": len(table.heads),
        "seconds": round(min(times), 2),
        "all_seconds": [round(t, 2) for t in times],
        "hash": table.hash(),
    }
    if arguments.device.startswith("cuda"):
        report["peak_bytes"] = torch.cuda.max_memory_allocated()
    if arguments.check:
        with torch.inference_mode():
            report["check"] = check_rows(model, edges, table, calibration, arguments.threshold, arguments.check)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        columns = dict(table._asdict(), prediction=table.prediction.astype(np.float16))
        safetensors.numpy.save_file(columns, arguments.out / "edges.safetensors")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
