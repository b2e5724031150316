"""Train query models on one GPU, side by side: needs torch, numpy and safetensors, nothing else.

    python benchmarks/baselines_gpu.py DATA/fb15k-237 --run run --out out --minutes 7 --checkpoints betae,cone
    python benchmarks/join_parts.py out betae -o betae.model
    tuplet bench run STORE QUERIES --engine betae --option model=betae.model -o RESULTS

Each model is a process of its own, since a small one alone does not fill a large GPU. LMPNN rests on a link predictor:
--predictor MODEL, or one is trained first (--preset). Everything is kept in RUN, so that a second call of the same
command goes on where the first one had to stop, also with more --minutes.

After --limit seconds the call has ended, whatever is done: OUT then holds curves.json (learning curves, settings,
steps) and, for the models named by --checkpoints, their parameters in float16, in files of at most 15 MB.

Where RUN does not last from call to call, `--start OUT_OF_THE_CALL_BEFORE` goes on from those parameters, with a new
optimiser; curves.json then holds the curves of all calls. The last line says by how much the mean valid MRR of each
model grew in the last quarter of all queries it has seen: below 1 % it is flat.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# Torch, which takes seconds to load, is imported where it is used: in the processes that train.
sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "src"), str(Path(__file__).resolve().parent)]

MODELS = ("betae", "logice", "cone", "lmpnn")
PART = 15_000_000  # bytes of a checkpoint file


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", type=Path, help="dataset folder, graph directory or .npz, as train_gpu.py takes it")
    parser.add_argument("--models", default=",".join(MODELS), help="default: all four")
    parser.add_argument("--run", type=Path, default=Path("run"), help="kept between calls")
    parser.add_argument("--out", type=Path, default=Path("out"), help="what to bring home")
    parser.add_argument("--minutes", type=float, default=5.0, help="training time of each model, over all calls")
    parser.add_argument("--steps", type=int, default=0, help="steps in place of minutes")
    parser.add_argument("--limit", type=float, default=570.0, help="seconds after which this call has ended")
    parser.add_argument("--reserve", type=float, default=20.0, help="seconds of the limit that are kept for writing")
    parser.add_argument("--predictor", type=Path, help="a trained ComplEx, for LMPNN")
    parser.add_argument("--preset", help="how to train the predictor if none is given; default: by size")
    parser.add_argument("--predictor-epochs", type=int, help="epochs of that training, where the preset has too many")
    parser.add_argument("--checkpoints", default="", help="models whose parameters to bring home")
    parser.add_argument("--start", type=Path, help="the OUT of an earlier call with --checkpoints, to go on from")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="[MODEL.]KEY=VALUE")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.until = arguments.until or time.time() + arguments.limit
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if arguments.child:
        return child(arguments)
    arguments.run.mkdir(parents=True, exist_ok=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    return supervise(arguments)


# --- the process that watches over the others ----------------------------------------------------------------------


def supervise(arguments: argparse.Namespace) -> int:
    names = arguments.models.split(",")
    for name in names:
        if name not in MODELS:
            print(f"unknown model {name!r}; choose from {', '.join(MODELS)}", file=sys.stderr)
            return 2
    for path in [arguments.graph, *filter(None, [arguments.predictor, arguments.start])]:
        if not path.exists():
            print(f"there is no {path}", file=sys.stderr)
            return 2
    shown = {
        name: (arguments.run / f"{name}.log").stat().st_size
        for name in names
        if (arguments.run / f"{name}.log").exists()
    }
    children = {name: start(name, arguments) for name in names}
    while any(process.poll() is None for process in children.values()) and time.time() < arguments.until - 8:
        time.sleep(2)
        tell(arguments.run, names, shown)
        merge(arguments, names)  # what is there is brought home even if this process is killed
    for name, process in children.items():
        if process.poll() is None:
            print(f"{name}: stopped at the limit", file=sys.stderr)
            process.terminate()
    time.sleep(1)
    for process in children.values():
        if process.poll() is None:
            process.kill()
    tell(arguments.run, names, shown)
    merge(arguments, names)
    for name in filter(None, arguments.checkpoints.split(",")):
        try:
            export(arguments.run / name, arguments.out, name)
        except Exception as error:
            print(f"{name}: no checkpoint: {error}", file=sys.stderr)
    codes = {name: process.poll() for name, process in children.items()}
    print(json.dumps({"exit codes": codes, "seconds left": round(arguments.until - time.time(), 1)}))
    for name, curve in json.loads((arguments.out / "curves.json").read_text()).items():
        print(f"{name}: {last_quarter(curve)}")
    return 0 if all(code == 0 for code in codes.values()) else 1


def start(name: str, arguments: argparse.Namespace) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-u", str(Path(__file__).resolve()), *sys.argv[1:]]
    command += ["--child", name, "--until", str(arguments.until)]
    with open(arguments.run / f"{name}.log", "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def tell(run: Path, names: list[str], shown: dict[str, int]) -> None:
    """What the models have logged since last time."""
    for name in names:
        file = run / f"{name}.log"
        if file.exists():
            with open(file, "rb") as stream:
                stream.seek(shown.get(name, 0))
                text = stream.read()
            shown[name] = shown.get(name, 0) + len(text)
            for line in text.decode(errors="replace").splitlines():
                print(f"{name}: {line}", file=sys.stderr, flush=True)


def merge(arguments: argparse.Namespace, names: list[str]) -> None:
    """The curves of all models so far in one file."""
    run, out = arguments.run, arguments.out
    earlier = json.loads((arguments.start / "curves.json").read_text()) if arguments.start else {}
    curves: dict[str, Any] = {}
    for name in names:
        try:
            log = run / name / "log.jsonl"
            if log.exists():
                curves[name] = {"log": [json.loads(line) for line in log.read_text().splitlines()]}
                curves[name]["config"] = json.loads((run / name / "config.json").read_text())
                about = run / f"{name}.about.json"
                curves[name] |= json.loads(about.read_text()) if about.exists() else {}
                if name in earlier:
                    curves[name]["earlier"] = [*earlier[name].pop("earlier", []), earlier[name]]
        except Exception as error:  # a file that is being written just now is read next time
            print(f"{name}: not merged: {error}", file=sys.stderr)
    (out / "curves.json").write_text(json.dumps(curves))


def last_quarter(curve: dict[str, Any]) -> str:
    """How the mean valid MRR grew in the last quarter of the queries seen, over all calls."""
    points: list[tuple[float, float]] = []
    for call in [*curve.get("earlier", []), curve]:
        before = points[-1][0] if points else 0.0
        batch = call["config"]["config"]["batch"]
        points += [(before + batch * line["step"], line["valid"]["mean"]) for line in call["log"] if "valid" in line]
    if len(points) < 8:
        return f"{len(points)} measurements are too few for a curve"
    seen, found = zip(*points, strict=True)
    then = max(mrr for queries, mrr in points if queries <= 0.75 * seen[-1])
    grown = max(found) / then - 1
    return f"{seen[-1] / 1e6:,.1f} M queries, valid MRR {100 * max(found):.2f}, {grown:+.1%} in the last quarter"


def starting(folder: Path, name: str) -> dict[str, Any]:
    """The parameters that `export` wrote."""
    import torch

    from tuplet.predict.model_folder import read_tensors

    pieces: dict[str, dict[int, Any]] = {}
    for file in folder.glob(f"{name}.*.safetensors"):
        for key, value in read_tensors(file).items():
            tensor, _, number = key.rpartition("#")
            pieces.setdefault(tensor, {})[int(number)] = value
    return {
        key: (torch.cat([found[i] for i in sorted(found)]) if found[0].dim() else found[0]).float()
        for key, found in pieces.items()
    }


def export(folder: Path, out: Path, name: str) -> None:
    """The parameters in float16, in files small enough to be carried; without tables that were not trained."""
    import torch

    from tuplet.predict.model_folder import read_tensors, write_tensors

    tensors = read_tensors(folder / "model.safetensors")
    if name == "lmpnn":
        tensors = {key: value for key, value in tensors.items() if key not in ("entity", "relation")}
    parts: list[dict[str, Any]] = [{}]
    room = PART
    for key, value in tensors.items():
        half = value.to(torch.float16)
        width = max(1, half[0].nbytes) if half.dim() else half.nbytes
        for number, piece in enumerate(half.split(max(1, PART // width)) if half.dim() else [half]):
            if piece.nbytes > room:
                parts.append({})
                room = PART
            parts[-1][f"{key}#{number}"] = piece
            room -= piece.nbytes
    for number, part in enumerate(parts):
        write_tensors(out / f"{name}.{number}.safetensors", part)
    (out / f"{name}.json").write_text((folder / "model.json").read_text())


# --- one model -----------------------------------------------------------------------------------------------------


def child(arguments: argparse.Namespace) -> int:
    name, began = arguments.child, time.time()
    import torch
    from train_gpu import read_graph

    from tuplet.errors import TupletError
    from tuplet.predict.device import pick_device

    torch.set_num_threads(1)
    device = pick_device(arguments.device)
    edges, entities, relations, graph_hash = read_graph(arguments.graph)
    print(f"loaded after {time.time() - began:.1f} s on {device}")
    if device.type == "cuda":
        try_compiler(arguments, entities)
    try:
        predictor = link_predictor(arguments, edges, entities, relations, device) if name == "lmpnn" else None
        about = train_model(arguments, edges, (entities, relations), graph_hash, device, predictor)
        (arguments.run / f"{name}.about.json").write_text(json.dumps(about))
    except TupletError as error:
        print(f"failed: {error}")
        return 1
    return 0


def try_compiler(arguments: argparse.Namespace, entities: int) -> None:
    """Use compiled distances only if they compile here and give the same numbers, on the way back too."""
    import torch

    from tuplet.lab.baselines import embedding as layers
    from tuplet.lab.baselines import models

    known = {"cone": (models.distance, 4, 2), "logice": (models.difference, 2, 2)}
    if arguments.child not in known:
        return
    distance, wide, narrow = known[arguments.child]
    config = configured(arguments)
    dim = config.settings(entities).dim
    try:
        began = time.time()
        results = []
        for compute in (distance, layers.compile_distance(distance)):
            torch.manual_seed(0)
            query = torch.rand(config.group, 1, wide * dim, device="cuda", requires_grad=True)
            rows = torch.rand(1, config.negatives, narrow * dim, device="cuda", requires_grad=True)
            found = compute(query, rows)
            found.square().sum().backward()
            results.append((found.detach(), query.grad, rows.grad))
        for plain, compiled in zip(*results, strict=True):
            if not (plain - compiled).norm() < 1e-3 * plain.norm():
                raise ArithmeticError("compiled distances differ from plain ones")
        print(f"distances are compiled ({time.time() - began:.1f} s)")
    except Exception as error:
        layers.compile_distance = lambda distance: distance
        print(f"distances are not compiled: {str(error)[:200]}")


def configured(arguments: argparse.Namespace) -> Any:
    """The settings of this model's training."""
    from tuplet.lab.baselines.train import QueryTrainConfig
    from tuplet.settings import changed

    config = QueryTrainConfig(model=arguments.child, minutes=arguments.minutes, steps=arguments.steps)
    return changed(config, given(arguments.settings, arguments.child))


def given(settings: list[str], name: str) -> dict[str, Any]:
    """`KEY=VALUE` for all models and `MODEL.KEY=VALUE` for one."""
    values: dict[str, Any] = {}
    for setting in settings:
        key, value = setting.split("=", 1)
        owner, _, key = key.rpartition(".")
        if owner in ("", name):
            values[key] = json.loads(value) if value[0] in "0123456789.-" else value
    return values


def link_predictor(arguments: argparse.Namespace, edges: Any, entities: int, relations: int, device: Any) -> Any:
    from tuplet.predict.base import TrainingEdges
    from tuplet.predict.config import choose_settings, preset
    from tuplet.predict.model_folder import load
    from tuplet.predict.train import train
    from tuplet.predict.training import RunOptions
    from tuplet.settings import changed

    if arguments.predictor:
        return load(arguments.predictor, device)
    folder = arguments.run / "predictor"
    config = preset(arguments.preset) if arguments.preset else choose_settings(len(edges["train"][0]))
    config = changed(config, {"epochs": arguments.predictor_epochs, "evaluate_every": 0})
    options = RunOptions(folder, device, resume=(folder / "config.json").exists())
    trained = train(TrainingEdges(edges, entities, relations), config, options)
    print(f"predictor: {trained.epochs} epochs, {trained.train_seconds:.1f} s, {trained.metrics}")
    return trained.model


def train_model(
    arguments: argparse.Namespace, edges: Any, sizes: Any, graph_hash: Any, device: Any, predictor: Any
) -> dict[str, Any]:
    from tuplet.lab.baselines.train import train
    from tuplet.predict.base import TrainingEdges
    from tuplet.predict.training import RunOptions

    name, config = arguments.child, configured(arguments)
    folder = arguments.run / name
    left = max(0.0, arguments.until - arguments.reserve - time.time())
    options = RunOptions(folder, device, resume=(folder / "config.json").exists(), stop_after=left)
    start = starting(arguments.start, name) if arguments.start else None
    trained = train(TrainingEdges(edges, *sizes, graph_hash), config, options, predictor, start)
    rate = trained.steps / max(trained.seconds, 1e-9)
    print(f"trained {trained.steps:,} steps in {trained.seconds:.1f} s ({rate:.1f}/s); valid {trained.valid}")
    about = {
        "steps": trained.steps,
        "queries": trained.steps * config.batch,
        "train_seconds": round(trained.seconds, 1),
    }
    if device.type == "cuda":
        import torch

        about |= {"device": torch.cuda.get_device_name(), "gpu_bytes": torch.cuda.max_memory_allocated()}
    return about | {"valid_mrr": dict(trained.valid)}


if __name__ == "__main__":
    sys.exit(main())
