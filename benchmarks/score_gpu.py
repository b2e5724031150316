"""Score the candidates of a graph on one machine, so that `tuplet index --parts` makes the store on another.

    python benchmarks/score_gpu.py GRAPH MODEL... --parts FOLDER [--volumes FOLDER] [--device cuda]

    cat VOLUMES/scores.* | tar -x -C PARTS                                      # on the other machine
    tuplet index GRAPH MODEL... -o STORE --parts PARTS

GRAPH is a graph folder, or an .npz with `train` and `valid` (int32 [3, n]: heads, relation, tails, in the order of the
graph). The models are the same folders in the same order on both sides. Finished relations are kept, so a run that was
cut off goes on. Needs torch, numpy and safetensors alone; prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict import model_folder
from tuplet.predict.base import TrainingEdges
from tuplet.progress import Progress
from tuplet.truth.candidates.score import FLOOR, finished_relations, score_candidates
from tuplet.truth.candidates.sources import choose
from tuplet.truth.rules import Calibration

VOLUME = 15 << 20  # bytes


def read_edges(path: Path) -> dict[str, tuple[Any, Any, Any]]:
    """The train and valid edges."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return {split: tuple(arrays[split]) for split in ("train", "valid")}  # type: ignore[misc]
    graph = KnowledgeGraph.open(path)
    return {split: graph.edges(split) for split in ("train", "valid")}


def write_volumes(parts: Path, folder: Path) -> int:
    """The parts as one archive in pieces; how many bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("scores.*"):
        old.unlink()
    whole = folder / "scores"
    with tarfile.open(whole, "w") as archive:
        for part in sorted(parts.rglob("*.npz")):
            archive.add(part, part.relative_to(parts))
    with open(whole, "rb") as stream:
        for number, piece in enumerate(iter(lambda: stream.read(VOLUME), b"")):
            (folder / f"scores.{number:03d}").write_bytes(piece)
    size = whole.stat().st_size
    whole.unlink()
    return size


def main() -> None:
    """Score, write, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", type=Path)
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--parts", type=Path, required=True, help="finished relations")
    parser.add_argument("--volumes", type=Path, help="the parts once more, as an archive in pieces of 15 MiB")
    parser.add_argument("--candidates", help="half-links, wide or all; by default the cheapest that hold enough")
    parser.add_argument("--floor", type=float, default=FLOOR)
    parser.add_argument("--memory", type=float, help="bytes for blocks")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()

    began = time.perf_counter()
    edges = read_edges(arguments.graph)
    about = [model_folder.describe(folder) for folder in arguments.models]
    sizes, hashes = (about[0]["entities"], about[0]["relations"]), [model["sha256"] for model in about]
    known = TrainingEdges({"train": edges["train"]}, *sizes)
    scorers = {str(folder): model_folder.load_for(known, folder, arguments.device) for folder in arguments.models}
    choice = choose(*sizes, edges["train"], edges["valid"], arguments.candidates)
    rule, memory = Calibration(), None if arguments.memory is None else int(arguments.memory)
    cache = finished_relations(arguments.parts, hashes, choice.sources, arguments.floor, rule, edges["train"])
    opened = time.perf_counter()
    with Progress() as progress:
        progress("index", 0, 0, str(choice))
        scored = score_candidates(
            scorers, edges["train"], choice.sources, arguments.floor, rule, memory, cache, progress
        )
    report = {
        **choice.as_dict(),
        "scorers": [str(folder) for folder in arguments.models],
        "listed": len(scored),
        "floor": arguments.floor,
        "opened_seconds": round(opened - began, 1),
        "seconds": round(time.perf_counter() - opened, 1),
        "device": torch.cuda.get_device_name() if arguments.device.startswith("cuda") else "cpu",
    }
    if arguments.device.startswith("cuda"):
        report["peak_bytes"] = torch.cuda.max_memory_allocated()
    if arguments.volumes:
        report["volume_bytes"] = write_volumes(arguments.parts, arguments.volumes)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
