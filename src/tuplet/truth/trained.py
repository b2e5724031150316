"""The predictors of a build: which fit into a given time, their training, and that of the same on other facts.

A plan is a rung of a ladder of work, each rung more than the one below. The highest that fits into the time is taken:
so more time or a faster machine never means less, and the next rung is what more time would bring. How long a rung
takes is counted from sizes and speeds; the speeds are measured on this machine.

Their folder holds `plan.json`, the plan and what it was made for, and a folder for each predictor. Called again for the
same, the plan stays: the speed that is measured differs from call to call, and a run goes on only as it began.

For a hold-out the same predictors are trained again on other facts: of a graph with few, five times with a fifth of
them hidden; of one whose newest facts were held out, on what came to be known. They are trained as long as the
predictors before were until these were best, so nothing that is hidden decides anything.

The network that ships with the package reads its scores off the facts of any graph. Without training, hiding facts is
leaving them out, and the rows are what takes the time: of few facts, as many parts are hidden in turn as there is time
for; where minutes do not suffice for all rows, the most useful are computed. Beside predictors that were trained, it
joins them if there is time for its rows, and if held-out facts are found better with it than without.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from tuplet.errors import BadInput, BudgetExceeded, CorruptStore, Option, TupletError
from tuplet.files import write_json
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.newest import NewestHoldOut, as_of
from tuplet.predict.base import LinkPredictor, TrainingEdges, device_of, kind_of
from tuplet.predict.config import MINUTES, PACKAGED, PRESETS, TrainConfig, choose_settings, count_ranked
from tuplet.predict.device import pick_device, precision, tune_cpu
from tuplet.predict.evaluate import KnownAnswers, score_rows
from tuplet.predict.model_folder import DESCRIPTION, describe, find_model_folder, load, load_for, trained_class
from tuplet.predict.train import make_task
from tuplet.predict.train import train as train_model
from tuplet.predict.training import Interrupted, OtherRun, Position, RunOptions, Task, read_config
from tuplet.progress import Report, counted, duration, silent
from tuplet.settings import changed, from_mapping
from tuplet.truth.calibration.calibrate import PARTS, hide_in_turn, hide_twice
from tuplet.truth.calibration.fit import LEAST_VALID
from tuplet.truth.candidates.scorer import RowLimit
from tuplet.truth.candidates.sources import BOUNDED_FROM, NEAREST
from tuplet.truth.candidates.sources import choose as choose_sources
from tuplet.truth.recipes import HeldOut, HoldOut, Predicted, model_meta

RESERVE = 0.15  # of the time, for what is not counted here: reading, writing, a machine that is not alone
ENOUGH = 100  # rank

MOST_FACTS = 20_000  # with more, five more trainings are not cheap; what few valid edges bear out has to do
CHEAP = 20.0  # seconds that what is not asked for may take in any case: trainings for hidden parts, packaged rows
SMALL = 50_000  # facts; below, a larger rank than that of the preset for small graphs gains little
SAMPLED_FROM = 8  # times as many entities as a sampled step would score: from there on steps are sampled
NEGATIVES = 100
SAMPLED_BATCH = 250
PASSES = (0.25, 0.5, 1.0, 1.5)  # over the half-links, that a path network gets, rung by rung
# Scoring and calibrating, counted on two cores whose `TYPICAL` speed for embeddings is that of one of them alone.
TYPICAL = 7e9
FIXED, PER_PAIR, PER_LISTED = 5.0, 1e-8, 8e-6  # seconds
LISTED = 40  # candidates that are listed for each fact
PER_NEAREST, NEAREST_LISTED = 6e-8, 20  # the same two where rows look at their nearest ends alone
FAST, FAST_MESSAGES = 3e10, 3e8  # of one core of a fast CPU, in the units of `MachineSpeed`
LEAST_STEPS = 100  # of a path network: fewer teach it nothing


@dataclass(frozen=True)
class GraphSizes:
    """What the time depends on."""

    entities: int
    relations: int
    facts: int  # to learn from
    half_links: int  # (entity, relation, direction) with a fact: the rows of a path network
    pairs: int = 0  # candidates that embeddings score
    valid: int = 0
    test: int = 0
    again: int = 0  # how many times more predictors learn, from what came to be known
    nearest: bool = False  # whether pairs are the nearest ends of each row alone

    @property
    def times(self) -> int:
        """How many times the time of training is needed: each part of few facts is hidden in turn, as long again."""
        return 1 + (self.again or (self.valid < LEAST_VALID and self.facts < MOST_FACTS))


@dataclass(frozen=True)
class MachineSpeed:
    """What one machine does in a second, as it was measured."""

    products: float  # multiplications for embeddings, forwards and back
    messages: float = 0.0  # numbers of messages of a path network, forwards and back; 0: not measured
    on_gpu: bool = False


@dataclass(frozen=True)
class PlannedModel:
    """A predictor to be trained, and how long that takes."""

    config: TrainConfig
    seconds: float

    def __str__(self) -> str:
        config = self.config
        amount = counted(config.steps, "step") if config.steps else counted(config.epochs, "epoch")
        sampled = f", {config.negatives:,} negatives" if config.negatives else ""
        return f"{config.model} (rank {config.rank}{sampled}, {amount})"


@dataclass(frozen=True)
class BuildPlan:
    """What is done, how long it takes, and what more time would bring."""

    models: tuple[PlannedModel, ...]
    index_seconds: float
    limit: float  # seconds
    times: int = 1  # that the time of training is needed
    on_gpu: bool = False
    more: str = ""

    @property
    def seconds(self) -> float:
        return self.times * sum(model.seconds for model in self.models) + self.index_seconds

    def sentences(self) -> list[str]:
        """What was chosen and for how long; what more time would bring."""
        chosen = " and ".join(map(str, self.models))
        training, indexing = duration(self.seconds - self.index_seconds), duration(self.index_seconds)
        where = "GPU" if self.on_gpu else "CPU"
        first = f"plan for at most {duration(self.limit)} on this {where}: {chosen}; "
        first += f"about {training} of training and {indexing} of scoring"
        return [first, *([self.more] if self.more else [])]


def plan(
    sizes: GraphSizes, speed: MachineSpeed, minutes: float = MINUTES, predictors: Sequence[str] | None = None
) -> BuildPlan:
    """The most that fits into the time; if nothing does, the least, which will be cut short.

    >>> sizes = GraphSizes(entities=38_000, relations=24, facts=95_000, half_links=90_000, pairs=10**9, valid=5_000)
    >>> for minutes in (1, 3, 15):
    ...     print(plan(sizes, MachineSpeed(products=8e9), minutes).models[0])
    complex (rank 50, 100 negatives, 10 epochs)
    complex (rank 100, 100 negatives, 20 epochs)
    complex (rank 200, 100 negatives, 40 epochs)
    """
    limit = 60 * minutes
    plans = []
    for rung in ladder(sizes, speed, predictors):
        models = tuple(PlannedModel(config, training_seconds(config, sizes, speed)) for config in rung)
        plans.append(BuildPlan(models, index_seconds(rung, sizes, speed), limit, sizes.times, speed.on_gpu))
    fitting = [number for number, one in enumerate(plans) if one.seconds <= limit * (1 - RESERVE)]
    chosen = fitting[-1] if fitting else 0
    return replace(plans[chosen], more=_more(plans, chosen, bool(fitting)))


def ladder(
    sizes: GraphSizes, speed: MachineSpeed, predictors: Sequence[str] | None = None
) -> list[tuple[TrainConfig, ...]]:
    """Sets of predictors to train, each more work than the one before."""
    if predictors is not None:
        return _together([list(rungs(name, sizes, speed)) for name in predictors])
    first = list(rungs("complex", sizes, speed))
    found = _together([first])
    if speed.messages:
        # A second predictor is worth more than a larger first one.
        enough = [config for config in first if config.rank >= ENOUGH or config == first[-1]]
        found += _together([enough, list(rungs("paths", sizes, speed))])
    return found


def _together(kinds: Sequence[Sequence[TrainConfig]]) -> list[tuple[TrainConfig, ...]]:
    """Several predictors, each going up its own ladder as far as that goes."""
    return [tuple(kind[min(number, len(kind) - 1)] for kind in kinds) for number in range(max(map(len, kinds)))]


def rungs(model: str, sizes: GraphSizes, speed: MachineSpeed) -> Iterator[TrainConfig]:
    """One predictor, each time with more work."""
    if model == "paths":
        base = PRESETS["paths" if speed.on_gpu else "paths-small"]
        for passes in PASSES:
            yield replace(base, steps=max(LEAST_STEPS, round(passes * sizes.half_links / base.batch)))
        return
    base = replace(PRESETS["small"], model=model) if sizes.facts < SMALL else choose_settings(sizes.facts, model)
    # with so many entities a step had better draw some
    if sizes.entities > SAMPLED_FROM * (2 * SAMPLED_BATCH + NEGATIVES) and not speed.on_gpu:
        base = replace(base, batch=SAMPLED_BATCH, negatives=NEGATIVES)
    for rank, epochs in ((50, 10), (50, 20), (100, 20), (100, 40), (200, 20), (200, 40)):
        if rank <= base.rank:
            yield replace(base, rank=rank, epochs=epochs, evaluate_every=4, patience=3)


def worth_timing(model: str, sizes: GraphSizes, minutes: float, cores: int) -> bool:
    """Whether a predictor could fit into the time on a fast CPU; if not, nobody needs to see how fast this one is."""
    if model != "paths":
        return True
    speed = MachineSpeed(products=FAST * cores, messages=FAST_MESSAGES * cores)
    least = next(rungs(model, sizes, speed))
    return training_seconds(least, sizes, speed) + index_seconds([least], sizes, speed) < 60 * minutes


def training_seconds(config: TrainConfig, sizes: GraphSizes, speed: MachineSpeed) -> float:
    """How long a predictor is trained and measured, unless its valid MRR stops rising before."""
    steps = config.steps or config.epochs * -(-2 * sizes.facts // config.batch)
    rows = steps * config.batch
    if config.model == "paths":
        # Ten times a hundredth of the rows of training, in the end all.
        measured = rows / 10 + 2 * (sizes.valid + sizes.test)
    else:
        valid, test = (count_ranked(split, sizes.entities) for split in (sizes.valid, sizes.test))
        times = 1 + (config.epochs // config.evaluate_every if config.evaluate_every else 0)
        measured = 2 * (times * valid + test)
    work = question_work(config, sizes) / rate(config, speed)
    return rows * work + measured * row_seconds(config, sizes, speed)


def index_seconds(configs: Sequence[TrainConfig], sizes: GraphSizes, speed: MachineSpeed) -> float:
    """How long candidates are scored and calibrated."""
    slow = max(0.1, TYPICAL / speed.products)  # the rest of the work suffers as the products do
    per_pair, per_fact = (PER_NEAREST, NEAREST_LISTED) if sizes.nearest else (PER_PAIR, LISTED)
    listed = min(sizes.pairs, per_fact * sizes.facts)
    seconds = FIXED + slow * (sizes.pairs * per_pair + listed * PER_LISTED)
    for config in configs:
        if config.model == "paths":
            seconds += sizes.half_links * row_seconds(config, sizes, speed)
        else:
            seconds += 2.0 * sizes.pairs * config.rank / rate(config, speed) / 3
    return seconds


def question_work(config: TrainConfig, sizes: GraphSizes) -> float:
    """What training on one question takes, in the units of the speed."""
    if config.model == "paths":
        return 2.0 * sizes.facts * config.layers * config.rank
    scored = min(sizes.entities, 2 * config.batch + config.negatives) if config.negatives else sizes.entities
    return 2.0 * scored * config.rank


def row_seconds(config: TrainConfig, sizes: GraphSizes, speed: MachineSpeed) -> float:
    """Scoring all entities for one question: forwards alone is a third of training."""
    whole = replace(config, negatives=0)
    return question_work(whole, sizes) / rate(config, speed) / 3


def rate(config: TrainConfig, speed: MachineSpeed) -> float:
    """The speed that counts for a predictor."""
    return speed.messages if config.model == "paths" else speed.products


def _more(plans: Sequence[BuildPlan], chosen: int, fits: bool) -> str:
    """What more time would bring, in a sentence."""
    limit = plans[chosen].limit
    if not fits:
        return f"that is more than {duration(limit)}: training will be cut short; more time (minutes) would let it end"
    if chosen + 1 == len(plans):
        return ""
    after = plans[chosen + 1]
    minutes = -(-after.seconds // (60 * (1 - RESERVE)))
    return f"{minutes:.0f} minutes would allow {' and '.join(map(str, after.models))}"


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
class KeptChoice:
    """What an earlier call chose for the same work: times are measured anew, and would choose something else."""

    file: Path
    about: Mapping[str, Any]  # the work

    def read(self) -> dict[str, Any]:
        """What was chosen; nothing if that was for other work."""
        try:
            kept = json.loads(self.file.read_bytes())
            return dict(kept["chosen"]) if kept["about"] == json.loads(json.dumps(self.about)) else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def write(self, chosen: Mapping[str, Any]) -> None:
        write_json(self.file, {"about": self.about, "chosen": chosen}, force=True)


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

    def train_planned(self, request: ModelRequest) -> list[Path]:
        """Train the predictors that fit into the time, each in a folder of its own; returns these."""
        began, edges, found = self.clock(), TrainingEdges.from_graph(self.graph), list[Path]()
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
        kept = KeptChoice(folder / PLAN, {"graph": edges.graph, "device": self.device, **asdict(request)})
        if before := kept.read():
            with suppress(ValueError, KeyError, TypeError):  # else it is of another version
                models = [(from_mapping(TrainConfig, m["config"]), m["seconds"]) for m in before.pop("models")]
                return BuildPlan(tuple(PlannedModel(*model) for model in models), **before)
        if self.own:
            shutil.rmtree(folder, ignore_errors=True)
        elif folder.exists() and any(folder.iterdir()) and not self.force:
            raise BadInput(f"{folder} already exists; ", Option("force"), " replaces it")
        chosen = choose(edges, request, self.device, self.clock)
        kept.write(asdict(chosen))
        return chosen

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
    edges: TrainingEdges, request: ModelRequest, device_name: str = "auto", clock: Callable[[], float] = time.monotonic
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
    measured = {
        kind: config.batch * question_work(config, sizes) / max(step, 1e-9)
        for kind, config in probes.items()
        for step in [seconds_per_step(make_task(edges, config, device), clock)]
    }
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
    with tune_cpu(task.device, task.products), torch.random.fork_rng([]):
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


def worth_hiding(graph: KnowledgeGraph) -> bool:
    """Whether the graph is so small that its facts are hidden in turn."""
    valid = graph.split_edges["valid"]
    return valid < LEAST_VALID and graph.split_edges["train"] + valid <= MOST_FACTS


def train_hold_outs(
    run: ModelRun, models: Sequence[Path], folder: Path, device: str, ready: Sequence[Path] = ()
) -> list[HoldOut]:
    """For each part of the facts that is hidden in turn, predictors like `models` that did not see it.

    `ready` are models that need no training: they read their scores off the facts that are not hidden.
    """
    settings = {model.name: as_long(model) for model in affordable(models, run.report)}
    seed = next(iter(settings.values())).seed
    graph = run.graph
    parts, found = hide_in_turn(graph.edges("train", "valid"), seed), []
    for number, part in enumerate(parts):
        edges = TrainingEdges({"train": part.known}, len(graph.entities), len(graph.relations))
        scorers = {}
        for name, config in settings.items():
            run.report("hold-outs", number, len(parts), f"predictors that do not see a part ({config.model})")
            place = folder / str(number) / name
            replace(run, own=True, report=silent).train(edges, place, config)
            scorers[config.model] = load_for(edges, place, device)
        for place in ready:
            scorers[describe(place)["kind"]] = load_for(edges, place, device)
        found.append(HoldOut(part, scorers))
    if parts:
        run.report("hold-outs", len(parts), len(parts), "predictors that do not see a part")
    return found


def train_again(run: ModelRun, models: Sequence[Path], folder: Path) -> list[list[Path]]:
    """Predictors like `models`, which know what came before the newest facts, at the end of each window of these.

    One that reads its scores off the facts is the same at any time.
    """
    newest, found = NewestHoldOut.from_graph(run.graph), list[list[Path]]()
    for number in range(1, 1 + (newest.windows if newest else 0)):
        edges, places = TrainingEdges.from_graph(as_of(run.graph, number)), list[Path]()
        for model in models:
            config = as_long(model)
            if getattr(trained_class(config.model), "sees_facts", False):
                places.append(model)
                continue
            run.report("train", 0, 0, f"{config.model} learns anew, as long, from {edges.count('train'):,} facts")
            places.append(folder / str(number) / model.name)
            replace(run, own=True).train(edges, places[-1], config)
        found.append(places)
    return found


def affordable(models: Sequence[Path], report: Report) -> list[Path]:
    """The predictors that are trained for every part: the cheapest, and others while that takes no longer than before.

    Measured on the bundled graph: five of the cheap kind, each blind to a part, are better than one of each kind.
    """
    seconds = {model: float(describe(model).get("train_seconds", 0.0)) for model in models}
    left, chosen = max(CHEAP, sum(seconds.values())), list[Path]()
    for model in sorted(models, key=lambda model: seconds[model]):
        again = PARTS * seconds[model]
        if chosen and again > left:
            report("hold-outs", 0, 0, f"{model.name} would take too long to train {PARTS} times: it is left out")
            continue
        chosen.append(model)
        left -= again
    return chosen


def as_long(model: Path) -> TrainConfig:
    """The settings of a trained predictor, with no more passes over the facts than it needed to be best."""
    config, about = read_config(model, TrainConfig), describe(model)
    best = float(about.get("best_epoch") or about["epochs"])
    steps = max(1, round(config.steps * best / max(best, float(about["epochs"])))) if config.steps else 0
    return replace(config, epochs=max(1, round(best)), steps=steps, evaluate_every=0, patience=0)


Tensor = torch.Tensor

ROWS_SECONDS = 20.0  # that all these rows may take, unless somebody says otherwise; once they are computed in any case
SHARE = 0.5  # of the minutes that somebody says, for the rows …
CALIBRATED = 0.8  # … and until the calibration is learned; what is left is for the table
LEAST_ROWS = 0.1  # share of the rows that are worth a store
_PROBES = 3  # batches for each core that are timed
DECISION = "packaged.json"
ROWS_PLAN = "rows.json"
TRIED = 200  # held-out facts that are looked for with and without the network
_TRYING, _SCORES = 0.2, 1 << 26  # share of the time for all rows that this may take, scores that it may hold


@dataclass(frozen=True)
class RowWork:
    """The rows that a graph needs, and how long one takes."""

    rows: int
    seconds: float  # of one

    @staticmethod
    def from_network(network: Any, edges: TrainingEdges, clock: Callable[[], float] = time.monotonic) -> RowWork:
        """Count the half-links of one end, and time some of their rows on this machine."""
        heads, relation, _ = (np.asarray(side, dtype=np.int64) for side in edges.splits["train"])
        often, bound = int(np.bincount(relation).argmax()), network.on(edges)
        some = np.resize(np.unique(heads[relation == often]), _PROBES * bound.batch * torch.get_num_threads())
        asked = torch.from_numpy(some).to(bound.device)
        bound.tails(asked, often)  # the first time kernels are compiled and the relations described
        began = clock()
        bound.tails(asked, often)
        return RowWork(edges.half_links_of_one_end, (clock() - began) / len(asked))

    @staticmethod
    def least(network: Any, edges: TrainingEdges) -> RowWork:
        """The same as it would be on a fast machine: if that is too much, nobody needs to time it."""
        messages = 2.0 * edges.count("train") * len(network.network.layers) * network.network.width
        return RowWork(edges.half_links_of_one_end, messages / (3 * FAST_MESSAGES * torch.get_num_threads()))

    @property
    def total(self) -> float:
        """Seconds that all rows take."""
        return self.rows * self.seconds

    def parts(self, seconds: float) -> int:
        """How many times all rows can be computed in this time, at least once, and not twice (see `hide_twice`).

        >>> [RowWork(4_000, 0.002).parts(seconds) for seconds in (1, 20, 30, 1000)]
        [1, 1, 3, 5]
        """
        times = min(PARTS, int(seconds / max(1e-9, self.total)))
        return times if times > 2 else 1

    def sentence(self, parts: int = 1, limit: RowLimit | None = None) -> str:
        """What is going to be done, and how long that takes.

        >>> print(RowWork(7_000, 0.01).sentence())
        nothing is trained: 7,000 rows of the packaged network, about 1 min 10 s
        >>> print(RowWork(4_000, 0.002).sentence(3))
        nothing is trained: 4,000 rows of the packaged network, 3 times with other facts hidden, about 24 s
        >>> print(RowWork(4_000, 0.02).sentence(1, RowLimit(1_500, 0.0, 0.0)))
        nothing is trained: the most useful 1,500 of 4,000 rows of the packaged network, about 30 s
        """
        several = f", {parts} times with other facts hidden" if parts > 1 else ""
        rows, seconds = counted(self.rows, "row"), parts * self.total
        if limit is not None and limit.rows < self.rows:
            rows, seconds = f"the most useful {limit.rows:,} of {rows}", parts * limit.rows * self.seconds
        return f"nothing is trained: {rows} of the packaged network{several}, about {duration(seconds)}"

    def least_seconds(self, times: int) -> float:
        """That must be left for so few rows, `times` over, that a store is just worth it."""
        return LEAST_ROWS * times * self.total / SHARE

    def limit(self, times: int, left: float | None, minutes: float | None) -> RowLimit | None:
        """What rows there is time for, `times` over, if so many seconds of the minutes are left.

        >>> made = RowWork(7_000, 0.01).limit(1, left=50.0, minutes=1)
        >>> made.rows, round(made.over - made.until)
        (2500, 15)
        >>> RowWork(70_000, 0.01).limit(1, left=50.0, minutes=1)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        tuplet.errors.BudgetExceeded: a tenth of 70,000 rows of the packaged network takes about 1 min ...
        """
        if left is None or minutes is None:
            return None
        needed = self.least_seconds(times)
        if needed > left:
            rows = counted(times * self.rows, "row")
            taken = f"a tenth of {rows} of the packaged network takes about {duration(SHARE * needed)}; "
            raise BudgetExceeded(taken, Option("minutes", math.ceil(minutes + (needed - left) / 60)), " would do")
        now = time.monotonic()
        return RowLimit(int(SHARE * left / (times * self.seconds)), now + SHARE * left, now + CALIBRATED * left)


@dataclass(frozen=True)
class TimeGiven:
    """The minutes that somebody says, and when they began."""

    minutes: float | None
    began: float

    def left(self) -> float | None:
        """Seconds; None if nothing was said."""
        return None if self.minutes is None else self.began + 60 * self.minutes - time.monotonic()


def _plan_rows(
    work: RowWork, kept: KeptChoice, given: TimeGiven, report: Report, times: int | None = None
) -> tuple[int, RowLimit | None]:
    """How many times rows are computed, as often as there is time for unless it is given, and how many of them.

    A build that goes on keeps to what was planned before, unless there is no time for that any more.
    """
    left = given.left()
    before = kept.read() if any(kept.file.parent.glob("*/*.npz")) else {}
    if before and left is not None and work.least_seconds(before["parts"]) > left:
        before = {}
    if times is None:
        times = int(before["parts"]) if before else work.parts(ROWS_SECONDS if left is None else SHARE * left)
    limit = work.limit(times, left, given.minutes)
    if not before:
        kept.write({"parts": times, "rows": limit and limit.rows})
    elif limit is not None:
        limit = replace(limit, rows=int(before["rows"]))
    report("plan", 0, 0, work.sentence(times, limit))
    return times, limit


def recipe_in_turn(
    graph: KnowledgeGraph, device: str, given: TimeGiven, folder: Path, report: Report, seed: int, **choices: Any
) -> HeldOut:
    """What the network says while some of the facts are hidden, then others: as often as there is time for."""
    model = find_model_folder(PACKAGED)
    name, facts, hold_outs, limit = describe(model)["sha256"], graph.edges("train", "valid"), list[HoldOut](), None
    if len(facts[0]) > 2:  # two are hidden at least
        whole = TrainingEdges({"train": facts}, len(graph.entities), len(graph.relations))
        network: Any = load_for(whole, model, device)  # which suits all of them, so that parts do not choose another
        about = {"graph": graph.hash, "model": name, "minutes": given.minutes, "device": device, "seed": seed}
        plan = KeptChoice(folder / ROWS_PLAN, about)
        times, limit = _plan_rows(RowWork.from_network(network, whole), plan, given, report)
        for part in hide_twice(facts, seed, times):
            known = TrainingEdges({"train": part.known}, len(graph.entities), len(graph.relations))
            hold_outs.append(HoldOut(part, {kind_of(network): network.on(known)}, name))
    return HeldOut(hold_outs, (model_meta(model, graph, False),), limit=limit, **choices)


def recipe_at_once(
    graph: KnowledgeGraph, device: str, given: TimeGiven, folder: Path, report: Report, windows: int, **choices: Any
) -> Predicted:
    """What the network says while the valid edges are hidden, and at the end of each window of the newest facts."""
    model = find_model_folder(PACKAGED)
    work = RowWork.from_network(load(model, device), TrainingEdges.from_graph(graph))
    about = {"graph": graph.hash, "model": describe(model)["sha256"], "minutes": given.minutes, "device": device}
    plan = KeptChoice(folder / ROWS_PLAN, about | {"windows": windows})
    _, limit = _plan_rows(work, plan, given, report, 1 + windows)
    return Predicted(model, device=device, later=[[model]] * windows, limit=limit, **choices)


def seconds_left(elapsed: float, minutes: float) -> float:
    """What its rows may take beside trained predictors: as long as these took, and a third of the time that is left.

    >>> seconds_left(3.0, 15.0), seconds_left(60.0, 15.0), seconds_left(60.0, 2.0)
    (20.0, 60.0, 20.0)
    """
    return max(0.0, min(max(CHEAP, elapsed), (60 * minutes - elapsed) / 3))


def beside(
    graph: KnowledgeGraph, models: Sequence[Path], times: int, seconds: float, device: str, work: Path, report: Report
) -> list[Path]:
    """The network, if it joins these models; a build that goes on where it stopped keeps to what was decided."""
    folder = find_model_folder(PACKAGED)
    if not folder.exists() or not graph.split_edges["valid"]:
        return []
    about = {"graph": graph.hash, "models": [describe(model)["sha256"] for model in (*models, folder)]}
    kept = KeptChoice(work / DECISION, about)
    decided = kept.read()
    if not decided:
        decided = {"joins": joins(graph, models, times, seconds, device, report)}
        kept.write(decided)
    return [folder] if decided["joins"] else []


def joins(
    graph: KnowledgeGraph, models: Sequence[Path], times: int, seconds: float, device: str, report: Report
) -> bool:
    """Whether the network is worth its rows, `times` over, beside these models: in this time, on the valid edges."""
    network: Any = load(find_model_folder(PACKAGED), device)
    edges = TrainingEdges.from_graph(graph)
    if device.startswith("cpu") and times * RowWork.least(network, edges).total > seconds:
        return False
    work = RowWork.from_network(network, edges)
    if times * work.total > seconds:
        report("plan", 0, 0, f"the packaged network is left out: its rows take about {duration(times * work.total)}")
        return False
    tried = min(TRIED, int(_TRYING * seconds / (2 * work.seconds)), _SCORES // (2 * edges.entities))
    if not tried:
        return False
    before, after = with_and_without(
        [load_for(edges, model, device) for model in models], network.on(edges), edges, tried
    )
    gain = after - before
    helps = bool(gain.mean() > gain.std() / len(gain) ** 0.5)
    found = f"MRR of {len(gain) // 2:,} held-out facts {before.mean():.3f} without, {after.mean():.3f} with it"
    unsure = ", a gain that may be chance and does not pay for its time" if not helps and gain.mean() > 0 else ""
    report("plan", 0, 0, f"the packaged network {'joins' if helps else 'is left out'}: {found}{unsure}")
    return helps


@torch.inference_mode()
def with_and_without(
    models: Sequence[LinkPredictor], another: LinkPredictor, edges: TrainingEdges, most: int
) -> tuple[Tensor, Tensor]:
    """Reciprocal filtered ranks of some valid edges by the mean chance of models, without and with another. [2 · n]"""
    valid = edges.splits["valid"]
    some = np.random.default_rng(0).permutation(len(valid[0]))[:most]
    device = device_of(another)
    heads, relation, tails = (torch.from_numpy(np.asarray(side, dtype=np.int64)[some]).to(device) for side in valid)
    asked, target = torch.cat([heads, tails]), torch.cat([tails, heads])
    relation = torch.cat([relation, relation + edges.relations])
    known = KnownAnswers(
        {split: edges.splits[split] for split in ("train", "valid")}, edges.entities, edges.relations, device
    )

    def chances(model: LinkPredictor) -> Tensor:
        scores = score_rows(model, asked, relation)
        own = scores.gather(1, target[:, None])
        known.mask(scores, asked, relation)
        return torch.softmax(scores.scatter(1, target[:, None], own), 1)

    before = torch.stack([chances(model) for model in models]).mean(0)
    after = before + (chances(another) - before) / (len(models) + 1)
    return _reciprocal(before, target), _reciprocal(after, target)


def _reciprocal(chance: Tensor, target: Tensor) -> Tensor:
    own = chance.gather(1, target[:, None])
    return 1 / (1 + (chance > own).sum(1) + ((chance == own).sum(1) - 1) / 2)
