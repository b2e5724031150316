"""The predictors of a build: time the machine, plan, train one after the other, go on where a call before stopped.

Their folder holds `plan.json`, the plan and what it was made for, and a folder for each predictor. Called again for the
same, the plan stays: the speed that is measured differs from call to call, and a run goes on only as it began.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from tuplet.build_plan import (
    RESERVE,
    TYPICAL,
    BuildPlan,
    GraphSizes,
    MachineSpeed,
    PlannedModel,
    plan,
    question_work,
    rungs,
    worth_timing,
)
from tuplet.errors import BadInput, CorruptStore, Option, TupletError
from tuplet.files import write_json
from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict.config import TrainConfig
from tuplet.predict.device import pick_device, precision, tuned_cpu
from tuplet.predict.edges import TrainingEdges
from tuplet.predict.model_folder import DESCRIPTION
from tuplet.predict.predictors import trained_class
from tuplet.predict.run_folder import Interrupted, OtherRun
from tuplet.predict.train import task_for
from tuplet.predict.train import train as train_model
from tuplet.predict.training import Position, RunOptions, Task
from tuplet.progress import Report
from tuplet.settings import changed, from_mapping
from tuplet.truth.candidates.sources import BOUNDED_FROM, NEAREST
from tuplet.truth.candidates.sources import choose as choose_sources

PLAN = "plan.json"
FREE_SETTINGS = frozenset({"seed", "checkpoint_seconds"})  # they say nothing about how large a predictor shall be
KINDS = ("complex", "paths")  # that are chosen from
PROBE_SECONDS = 1.0
PROBE_STEPS = 3, 30  # at least, at most; the first does not count


@dataclass(frozen=True)
class ModelRequest:
    """What the predictors of a build shall be: a time and perhaps their names; `given` are settings to be obeyed."""

    minutes: float
    predictors: tuple[str, ...] | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    again: int = 0  # how many times more they learn, from what came to be known

    def __post_init__(self) -> None:
        if not self.minutes > 0:
            raise BadInput(f"minutes is {self.minutes!r}; it must be more than 0")
        for name in self.predictors or ():
            trained_class(name)  # an unknown one is refused before the work


@dataclass(frozen=True)
class ModelRun:
    """Where predictors are trained and what is seen of it."""

    graph: KnowledgeGraph
    folder: Path
    device: str
    own: bool  # whether the folder is ours: then what belongs to another build is replaced
    force: bool
    report: Report
    clock: Callable[[], float] = time.monotonic  # for tests

    def planned(self, request: ModelRequest) -> list[Path]:
        """Train the predictors that fit into the time, each in a folder of its own; returns these."""
        began, edges, found = self.clock(), TrainingEdges.of(self.graph), list[Path]()
        chosen = self._plan(request, edges)
        for sentence in chosen.sentences():
            self.report("plan", 0, 0, sentence)
        # Half of the reserve is for the last measurements and for what follows the scoring. An untrained predictor
        # would help nobody: it gets a third of the time in any case.
        left = max(chosen.limit * (1 - RESERVE / 2) - chosen.index_seconds, chosen.limit / 3)
        until = began + left / chosen.times
        for number, model in enumerate(chosen.models):
            place = self.folder / model.config.model
            found.append(place)
            if (place / DESCRIPTION).exists():
                continue  # finished, or stopped when its time was up
            left = sum(later.seconds for later in chosen.models[number:])
            self.train(edges, place, model.config, (until - self.clock()) * model.seconds / left)
        return found

    def _plan(self, request: ModelRequest, edges: TrainingEdges) -> BuildPlan:
        """The plan of a call before, if it was for the same; else a new one."""
        folder = self.folder
        about = {"graph": edges.graph, "device": self.device, **_plain(asdict(request))}
        chosen = _stored(folder, about)
        if chosen is None:
            if self.own:
                shutil.rmtree(folder, ignore_errors=True)
            elif folder.exists() and any(folder.iterdir()) and not self.force:
                raise BadInput(f"{folder} already exists; ", Option("force"), " replaces it")
            chosen = choose(edges, request, self.device, self.clock)
            write_json(folder / PLAN, about | {"plan": asdict(chosen)}, force=True)
        return chosen

    def single(self, config: TrainConfig) -> list[Path]:
        """Train one predictor with these settings, however long it takes."""
        self.train(TrainingEdges.of(self.graph), self.folder, config)
        return [self.folder]

    def train(self, edges: TrainingEdges, folder: Path, config: TrainConfig, seconds: float | None = None) -> None:
        """Train in `folder`, from where an earlier call stopped; in a folder of our own any other run is replaced."""
        resume = folder.exists() and (self.own or not self.force)
        options = RunOptions(folder, self.device, resume, self.force, self.report, seconds, self.clock)
        try:
            train_model(edges, config, options)
        except Interrupted as stop:
            raise TupletError(f"{stop.what}; the same command continues from there") from None
        except (OtherRun, CorruptStore):
            if not self.own:
                raise
            shutil.rmtree(folder)
            train_model(edges, config, replace(options, resume=False))


def choose(
    edges: TrainingEdges,
    request: ModelRequest,
    device_name: str = "auto",
    clock: Callable[[], float] = time.monotonic,
) -> BuildPlan:
    """Time the machine and plan; settings that were given are put on every embedding model."""
    device = pick_device(device_name)
    sizes = replace(graph_sizes(edges, device.type == "cuda"), again=request.again)
    unknown = MachineSpeed(products=1.0, on_gpu=device.type == "cuda")
    kinds = request.predictors
    if kinds is None:
        cores = os.cpu_count() or 1
        kinds = tuple(kind for kind in KINDS if unknown.on_gpu or worth_timing(kind, sizes, request.minutes, cores))
    probes = {kind: list(rungs(kind, sizes, unknown))[-1] for kind in kinds}
    measured = {kind: _speed(edges, sizes, config, device, clock) for kind, config in probes.items()}
    messages = measured.pop("paths", 0.0)
    speed = replace(unknown, products=min(measured.values(), default=TYPICAL), messages=messages)
    found = plan(sizes, speed, request.minutes, request.predictors)
    return replace(found, models=tuple(_obeying(model, request, len(found.models)) for model in found.models))


def _obeying(model: PlannedModel, request: ModelRequest, several: int) -> PlannedModel:
    """The model with the settings that were given; beside others, a path network takes those that concern all."""
    all_of_it = model.config.model != "paths" or several == 1
    given = {
        key: value for key, value in request.given.items() if key != "model" and (all_of_it or key in FREE_SETTINGS)
    }
    return replace(model, config=changed(model.config, given))


def graph_sizes(edges: TrainingEdges, on_gpu: bool = False) -> GraphSizes:
    """The numbers that the time depends on, for embeddings that score on the CPU or on a GPU."""
    heads, relation, tails = (np.asarray(part, dtype=np.int64) for part in edges.splits["train"])
    none = np.zeros(0, dtype=np.int64)
    valid = edges.splits.get("valid", (none, none, none))
    nearest = len(heads) >= BOUNDED_FROM and not on_gpu
    asked = NEAREST if nearest else None
    pairs = choose_sources(edges.entities, edges.relations, (heads, relation, tails), valid, asked).pairs
    facts, held_out, test = (edges.count(split) for split in ("train", "valid", "test"))
    return GraphSizes(edges.entities, edges.relations, facts, edges.half_links, pairs, held_out, test, nearest=nearest)


def seconds_per_step(task: Task, clock: Callable[[], float] = time.monotonic) -> float:
    """How long a step of training takes, from a few of them."""
    with tuned_cpu(task.device, task.products), torch.random.fork_rng([]):
        task.prepare()
        position, times, began = Position(), list[float](), clock()
        least, most = PROBE_STEPS
        while len(times) < least or (len(times) < most and clock() - began < PROBE_SECONDS):
            before = clock()
            with precision(task.config.precision, task.device, task.bilinear):
                float(task.step(position)[0])
            position.step += 1
            times.append(clock() - before)
    return median(times[1:])


def _speed(
    edges: TrainingEdges, sizes: GraphSizes, config: TrainConfig, device: torch.device, clock: Callable[[], float]
) -> float:
    step = seconds_per_step(task_for(edges, config, device), clock)
    return config.batch * question_work(config, sizes) / max(step, 1e-9)


def _plain(values: Any) -> Any:
    """As JSON gives it back."""
    return json.loads(json.dumps(values))


def _stored(folder: Path, about: Mapping[str, Any]) -> BuildPlan | None:
    """The plan of a call before, if it was for the same."""
    try:
        stored = json.loads((folder / PLAN).read_bytes())
        if {key: stored[key] for key in about} != about:
            return None
        found = stored["plan"]
        models = tuple(
            PlannedModel(from_mapping(TrainConfig, model["config"]), float(model["seconds"]))
            for model in found["models"]
        )
        return BuildPlan(models, **{key: value for key, value in found.items() if key != "models"})
    except (OSError, ValueError, KeyError, TypeError):
        return None
