"""Sampled softmax or all entities: what an epoch of ComplEx costs on this CPU, counted from some steps.

    python benchmarks/crossover.py GRAPH... --rank 200 --entities 2000 8000 32000 128000

A GRAPH is a graph folder; with --entities also random edges of graphs of these sizes are timed, ten facts an entity.
Prints a line of JSON for each graph: CPU seconds of an epoch, all entities (batch 1,000, as `tuplet train`) beside
sampled softmax as `tuplet build` plans it, and the factor between them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict.base import TrainingEdges
from tuplet.predict.config import TrainConfig
from tuplet.predict.device import tune_cpu
from tuplet.predict.link_task import LinkTask
from tuplet.predict.training import Position
from tuplet.truth.trained import NEGATIVES, SAMPLED_BATCH

KINDS = {"all": TrainConfig(batch=1000), "sampled": TrainConfig(batch=SAMPLED_BATCH, negatives=NEGATIVES)}


def random_edges(entities: int, relations: int = 200) -> TrainingEdges:
    """Ten facts for each entity."""
    rng = np.random.default_rng(0)
    heads, tails = (rng.integers(0, entities, 10 * entities) for _ in range(2))
    return TrainingEdges({"train": (heads, rng.integers(0, relations, 10 * entities), tails)}, entities, relations)


def epoch_seconds(edges: TrainingEdges, config: TrainConfig, seconds: float) -> float:
    """CPU seconds of an epoch, from the steps that fit into some seconds; the first does not count."""
    task, position, times = LinkTask(edges, config, torch.device("cpu")), Position(), list[float]()
    with tune_cpu(task.device, task.products):
        task.prepare()
        while len(times) < 3 or sum(times) < seconds:
            before = time.process_time()
            float(task.step(position)[0])
            times.append(time.process_time() - before)
            position.step += 1
    return float(np.mean(times[1:])) * task.steps_per_epoch


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", type=Path, nargs="*", metavar="GRAPH")
    parser.add_argument("--entities", type=int, nargs="*", default=[])
    parser.add_argument("--rank", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=5.0, help="CPU seconds of steps for each figure")
    asked = parser.parse_args()
    graphs: list[tuple[str, Any]] = [(path.name, path) for path in asked.graphs]
    for name, source in graphs + [(f"random {count:,}", count) for count in asked.entities]:
        given = isinstance(source, int)
        edges = random_edges(source) if given else TrainingEdges.from_graph(KnowledgeGraph.open(source))
        found = {}
        for kind, config in KINDS.items():
            chosen = TrainConfig(rank=asked.rank, batch=config.batch, negatives=config.negatives)
            found[kind] = epoch_seconds(edges, chosen, asked.seconds)
        told = {"graph": name, "entities": edges.entities, "facts": edges.count("train"), "rank": asked.rank}
        told |= {"epoch_cpu_s": {kind: round(seconds, 1) for kind, seconds in found.items()}}
        print(json.dumps(told | {"factor": round(found["all"] / found["sampled"], 2)}), flush=True)


if __name__ == "__main__":
    main()
