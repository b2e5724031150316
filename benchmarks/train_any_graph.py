"""Train the path network of any graph on several graphs, and measure it on others: needs torch, numpy and safetensors.

    python benchmarks/train_any_graph.py DATA/fb15k-237 DATA/nell995 DATA/wn18rr --minutes 20 -o out --device cuda
    python benchmarks/train_any_graph.py --judge out DATA/umls DATA/kinships

Graphs are what `train_gpu.py` reads. The first form trains on the train edges and leaves a model in OUT, in half
precision; `--stop-after` and `--resume` as there. The second prints the filtered test MRR of a model on graphs that it
need not have seen, walking along their train edges.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from train_gpu import read_graph, seconds_per_step

from tuplet.errors import TupletError
from tuplet.predict.base import TrainingEdges
from tuplet.predict.config import TrainConfig, preset
from tuplet.predict.device import pick_device
from tuplet.predict.evaluate import evaluate
from tuplet.predict.model_folder import describe as describe_model
from tuplet.predict.model_folder import load_for, save
from tuplet.predict.paths.task import MixedTask
from tuplet.predict.training import RunOptions, TrainingRun, read_config

SETTINGS = "steps", "rank", "layers", "batch", "learning_rate", "start", "seed"


def main() -> int:
    """Train, or judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", type=Path, nargs="+")
    parser.add_argument("--judge", type=Path, metavar="MODEL")
    parser.add_argument("--split", default="test", help="what is judged by: test, or valid to choose by")
    parser.add_argument("--minutes", type=float, help="plan as many steps as fit into that time of training")
    parser.add_argument("--stop-after", type=float, metavar="SECONDS")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--device", default="auto")
    for key in SETTINGS:
        parser.add_argument(f"--{key.replace('_', '-')}", type=type(getattr(TrainConfig(), key)))
    parser.add_argument("-o", "--output", type=Path, default=Path("out"))
    arguments = vars(parser.parse_args())
    graphs = {path.stem: _edges(path) for path in arguments["graphs"]}
    try:
        result = judge(arguments, graphs) if arguments["judge"] else learn(arguments, graphs)
    except TupletError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(result))
    return 0


def _edges(path: Path) -> TrainingEdges:
    edges, entities, relations, graph_hash = read_graph(path)
    return TrainingEdges(edges, entities, relations, graph_hash)


def learn(arguments: dict[str, Any], graphs: dict[str, TrainingEdges]) -> dict[str, Any]:
    """One model of all graphs."""
    folder, device = arguments["output"], pick_device(arguments["device"])
    if arguments["resume"]:
        config = read_config(folder, TrainConfig)
    else:
        asked = {key: arguments[key] for key in SETTINGS}
        config = replace(
            preset("paths"), model="any-graph", **{key: one for key, one in asked.items() if one is not None}
        )
        if arguments["minutes"]:
            step = seconds_per_step(MixedTask(graphs, config, device), (30, 120))
            config = replace(config, steps=max(1, int(60 * arguments["minutes"] / step)))
            print(f"{1000 * step:.1f} ms a step, {config.steps:,} steps", file=sys.stderr)
    task = MixedTask(graphs, config, device)
    options = RunOptions(
        folder, arguments["device"], arguments["resume"], arguments["force"], stop_after=arguments["stop_after"]
    )
    about = TrainingRun(task, options).complete()
    told = ("config", "epochs", "steps", "train_seconds", "device", "finished", "metrics", "graphs")
    if about["finished"]:
        save(task.model.to(dtype=torch.float16), folder, {key: about[key] for key in told})
    return {key: about[key] for key in told}


def judge(arguments: dict[str, Any], graphs: dict[str, TrainingEdges]) -> dict[str, Any]:
    """The filtered test metrics of a model on each graph."""
    found, device = {}, pick_device(arguments["device"])
    for name, edges in graphs.items():
        began = time.monotonic()
        model = load_for(edges, arguments["judge"], device)
        found[name] = evaluate(model, edges.splits[arguments["split"]], edges.splits).to_json()
        found[name]["seconds"] = round(time.monotonic() - began, 1)
        print(name, found[name], file=sys.stderr)
    return {"model": describe_model(arguments["judge"])["sha256"], arguments["split"]: found}


if __name__ == "__main__":
    sys.exit(main())
