"""Train a preset on a benchmark graph and measure it: needs torch, numpy and safetensors, nothing else.

    python benchmarks/train_gpu.py DATA/fb15k-237 --preset fb15k-237 -o out
    python benchmarks/train_gpu.py DATA/fb15k-237 --preset paths --minutes 9 -o out

The graph is a dataset folder (train.tsv.gz, valid.tsv.gz, test.tsv.gz and, for the order of ids, entities.tsv.gz and
relations.tsv.gz), a tuplet graph directory, or an .npz with train, valid, test [n, 3], entities and relations (counts).
Prints one JSON line, appends it to OUT/results.jsonl and leaves the model in OUT/NAME, its tables in float16.

`--minutes` times some steps and plans as many as fit. `--stop-after` ends a call early, with a checkpoint and what is
learned so far; the same command with `--resume` goes on, and needs no settings.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch

from tuplet import __version__
from tuplet.errors import TupletError
from tuplet.predict.base import TrainingEdges
from tuplet.predict.config import PRESETS, TrainConfig, choose_settings, preset
from tuplet.predict.device import pick_device, precision, tune_cpu
from tuplet.predict.evaluate import evaluate
from tuplet.predict.model_folder import describe as describe_model
from tuplet.predict.model_folder import load, save
from tuplet.predict.train import make_task, train
from tuplet.predict.training import Position, RunOptions, Task, read_config
from tuplet.settings import changed, describe, to_mapping

SPLITS = ("train", "valid", "test")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", type=Path)
    parser.add_argument("--preset", choices=list(PRESETS), help="settings to start from; default: by size")
    parser.add_argument("--name", help="name of the result; default: name of the graph")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--minutes", type=float, help="plan as many steps as fit into that time of training")
    parser.add_argument("--stop-after", type=float, metavar="SECONDS", help="train no longer than that in this call")
    parser.add_argument("--force", action="store_true", help="replace a run of that name")
    parser.add_argument("-o", "--output", type=Path, default=Path("out"))
    for key, kind, _, text in describe(TrainConfig):
        parser.add_argument(
            f"--{key.replace('_', '-')}", type={"int": int, "float": float, "str": str}[kind], help=text
        )
    arguments = vars(parser.parse_args())
    try:
        result = measure(arguments)
    except TupletError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(result))
    return 0


def measure(arguments: dict[str, Any]) -> dict[str, Any]:
    graph: Path = arguments["graph"]
    edges, entities, relations, graph_hash = read_graph(graph)
    name = arguments["name"] or graph.stem
    whole, folder = TrainingEdges(edges, entities, relations, graph_hash), arguments["output"] / name
    if arguments["resume"]:
        config = read_config(folder, TrainConfig)
    elif arguments["preset"]:
        config = preset(arguments["preset"])
    else:
        config = choose_settings(len(edges["train"][0]), arguments["model"] or TrainConfig().model)
    config = changed(config, {key: arguments[key] for key, *_ in describe(TrainConfig)}, "flags")
    if arguments["minutes"] and not arguments["resume"]:
        step = seconds_per_step(make_task(whole, config, pick_device(arguments["device"])))
        config = changed(config, {"steps": max(1, int(60 * arguments["minutes"] / step))})
        print(f"{1000 * step:.1f} ms a step, {config.steps:,} steps", file=sys.stderr)
    began = time.monotonic()
    options = RunOptions(
        folder, arguments["device"], arguments["resume"], arguments["force"], stop_after=arguments["stop_after"]
    )
    trained = train(whole, config, options)
    wall = time.monotonic() - began
    about = describe_model(folder)
    # Stored in half precision, and measured as stored.
    half = trained.model.to(dtype=torch.float16)
    stored = half.to(dtype=torch.float32)
    metrics, evaluate_seconds = {}, {}
    for split in ("valid", "test"):
        if len(edges[split][0]):
            began = time.monotonic()
            metrics[split] = evaluate(stored, edges[split], edges).to_json()
            evaluate_seconds[split] = round(time.monotonic() - began, 3)
    told = [
        "graph",
        "config",
        "epochs",
        "best_epoch",
        "steps",
        "train_seconds",
        "evaluate_seconds",
        "device",
        "finished",
    ]
    save(half, folder, {key: about[key] for key in told} | {"metrics": metrics})
    load(folder)
    result = {
        "name": name,
        "mrr_test_float32": trained.metrics["test"].mrr if "test" in trained.metrics else None,
        "metrics_float16": metrics,
        "train_seconds": round(trained.train_seconds, 2),
        "evaluate_seconds_while_training": round(trained.evaluate_seconds, 2),
        "evaluate_seconds": evaluate_seconds,
        "wall_seconds": round(wall, 2),
        "epochs": trained.epochs,
        "best_epoch": about["best_epoch"],
        "steps": about["steps"],
        "finished": about["finished"],
        "device": torch.cuda.get_device_name() if trained.model.device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "tuplet": __version__,
        "graph": about["graph"],
        "config": to_mapping(config),
    }
    with open(arguments["output"] / "results.jsonl", "a", encoding="utf-8") as stream:
        stream.write(json.dumps(result) + "\n")
    return result


def seconds_per_step(task: Task, counts: tuple[int, int] = (10, 30)) -> float:
    """What a step takes once everything is compiled: the first steps of two `counts` are not timed."""
    position = Position()
    with tune_cpu(task.device, task.products), precision(task.config.precision, task.device, task.bilinear):
        task.prepare()
        for count in counts:
            began = time.monotonic()
            for _ in range(count):
                loss, _ = task.step(position)
                position.step += 1
            float(loss)
    return (time.monotonic() - began) / count


def read_graph(path: Path) -> tuple[dict[str, tuple[Any, Any, Any]], int, int, str | None]:
    """Edges by split, number of entities, number of relations, hash of the graph if it has one."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            edges = {split: tuple(arrays[split].T) for split in SPLITS}
            return edges, int(arrays["entities"]), int(arrays["relations"]), None
    if (path / "train.tsv.gz").exists():
        return (*read_dataset(path), None)
    from tuplet.graph.graph import KnowledgeGraph

    graph = KnowledgeGraph.open(path)
    return {s: graph.edges(s) for s in SPLITS}, len(graph.entities), len(graph.relations), graph.hash


def read_dataset(folder: Path) -> tuple[dict[str, tuple[Any, Any, Any]], int, int]:
    entities: dict[str, int] = {}
    relations: dict[str, int] = {}
    for ids, name in ((entities, "entities"), (relations, "relations")):
        if (folder / f"{name}.tsv.gz").exists():
            for line in lines(folder / f"{name}.tsv.gz"):
                ids.setdefault(line.split("\t")[0], len(ids))
    edges = {}
    for split in SPLITS:
        rows = [line.split("\t") for line in lines(folder / f"{split}.tsv.gz")]
        heads, relation, tails = (
            np.array([ids.setdefault(row[i], len(ids)) for row in rows], dtype=np.int64)
            for i, ids in enumerate((entities, relations, entities))
        )
        edges[split] = heads, relation, tails
    return edges, len(entities), len(relations)


def lines(file: Path) -> list[str]:
    return gzip.decompress(file.read_bytes()).decode("utf-8").rstrip("\n").split("\n")


if __name__ == "__main__":
    sys.exit(main())
