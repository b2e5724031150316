"""Training of query models: steps over queries of ten types, measured by queries that need the valid edges.

Each step takes queries of all types from a pool, one answer of each, and random entities beside it. What a step draws
depends on (seed, step) alone; with a time limit in place of a number of steps, the learning rate follows the clock.
Everything about the run itself is in `tuplet.predict.training`; a finished run may go on with more minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tuplet import settings as registry
from tuplet.errors import BadInput, unknown
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lab.baselines.embedding import QueryModel, QueryModelSettings, cross_entropy
from tuplet.lab.baselines.models import MODELS, create, settings_for
from tuplet.lab.baselines.training_queries import PATTERNS, WatchedQueries, make_pool, make_watched
from tuplet.predict.base import TrainingEdges
from tuplet.predict.device import AdamW, pick_device
from tuplet.predict.embeddings import EmbeddingModel
from tuplet.predict.model_folder import load_embeddings
from tuplet.predict.training import CONFIG, Position, RunOptions, Task, TrainingRun, read_config
from tuplet.progress import Report
from tuplet.settings import changed, check, knob, load
from tuplet.settings import given as given_flags

# The published mixture: two batches of paths for one of the rest, where negations are a sixth.
SHARES: Mapping[str, float] = {"1p": 0.22, "2p": 0.22, "3p": 0.22, "2i": 0.12, "3i": 0.12} | dict.fromkeys(
    ("2in", "3in", "inp", "pin", "pni"), 0.02
)
TABLES = ("entity", "relation")
OF_MODEL = ("dim", "hidden", "gamma", "learning_rate", "table_rate")
LAPS = 20  # measurements of the valid MRR in a run


@dataclass(frozen=True)
class QueryTrainConfig:
    """How a query model is trained; 0 leaves a size or a rate as published for the graph."""

    model: str = knob("betae", "betae, logice, cone or lmpnn")
    steps: int = knob(0, "steps of the optimizer; 0 trains for the given minutes", least=0)
    minutes: float = knob(5.0, "training time of the whole run, where no steps are given", least=0)
    dim: int = knob(0, "numbers per entity", least=0)
    hidden: int = knob(0, "width of the hidden layers", least=0)
    gamma: float = knob(0.0, "margin of the loss", least=0)
    learning_rate: float = knob(0.0, "peak step size of Adam", least=0)
    table_rate: float = knob(0.0, "step size of the entity and relation tables, as a multiple", least=0)
    batch: int = knob(8192, "queries in a step", least=1)
    group: int = knob(1024, "queries of a step that share their random entities", least=1)
    loss: str = knob("softmax", "softmax over random entities, or published (lmpnn: its own)", ("softmax", "published"))
    negatives: int = knob(128, "random entities beside each answer", least=1)
    pool: int = knob(100_000, "training queries of each type", least=1)
    watched: int = knob(50, "valid queries of each type for the learning curve", least=1)
    seed: int = knob(0, "decides the initial numbers, the pool and what each step draws", least=0)
    precision: str = knob("tf32", "of matrix products on CUDA: float32, tf32 or bf16", ("float32", "tf32", "bf16"))
    checkpoint_seconds: float = knob(60.0, "seconds between two checkpoints", least=0)

    def __post_init__(self) -> None:
        check(self)
        if not self.steps and not self.minutes:
            raise BadInput("give steps or minutes")

    def settings(self, entities: int) -> QueryModelSettings:
        """The settings of the model: the published ones, changed where something is given.

        The published rates are for small batches. Larger ones have less noise and fewer steps to go: the rate grows
        almost with the batch.
        """
        published = settings_for(self.model, entities)
        given = {key: getattr(self, key) for key in OF_MODEL if getattr(self, key)}
        given.setdefault("learning_rate", published.learning_rate * max(1.0, self.batch / published.batch) ** 0.8)
        return replace(published, **given)


@dataclass(frozen=True)
class QueryTrainingResult:
    """A query model and its last valid MRR of each type; `finished` is false if time was up before the end."""

    model: QueryModel
    steps: int
    seconds: float
    valid: Mapping[str, float]
    finished: bool
    folder: Path


def train(
    graph: KnowledgeGraph | TrainingEdges,
    settings: QueryTrainConfig | None,
    options: RunOptions,
    predictor: EmbeddingModel | None = None,
    start: Mapping[str, Tensor] | None = None,
) -> QueryTrainingResult:
    """Train on queries over the train split, watch queries that need valid, leave a model in the folder.

    `predictor` is the frozen link predictor that LMPNN rests on. `start` are the parameters of another run of the same
    model to begin with. Without settings, a run that is continued brings its own.
    """
    edges, device = TrainingEdges.from_graph(graph), pick_device(options.device)
    if settings is None:
        settings = read_config(options.folder, QueryTrainConfig) if options.resume else QueryTrainConfig()
    task = QueryTask(edges, settings, device, predictor)
    if start is not None and not options.resume:
        begin_with(task.model, start)
    about = TrainingRun(task, options).complete()
    return QueryTrainingResult(
        task.model,
        about["steps"],
        about["train_seconds"],
        about["valid_mrr"],
        about["finished"],
        Path(options.folder),
    )


def begin_with(model: QueryModel, start: Mapping[str, Tensor]) -> None:
    """Give a model the trained parameters of another one of its kind and size."""
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if name not in start:
            raise BadInput(f"the parameters to begin with lack {name!r}")
        if start[name].shape != parameter.shape:
            raise BadInput(f"{name!r} has the shape {tuple(start[name].shape)}, not {tuple(parameter.shape)}")
        parameter.data.copy_(start[name])


class QueryTask(Task):
    """A query model: a round is a twentieth of the run."""

    config: QueryTrainConfig
    model: QueryModel
    extensible = True

    def __init__(
        self,
        edges: TrainingEdges,
        config: QueryTrainConfig,
        device: torch.device,
        predictor: EmbeddingModel | None,
    ) -> None:
        self.edges, self.config, self.device = edges, config, device
        settings = config.settings(edges.entities)
        # A predictor that does not fit is refused here, before anything is written.
        self.model = create(config.model, edges.entities, edges.relations, settings, config.seed, predictor)
        self.products = config.batch * settings.hidden * settings.hidden
        self.timed = not config.steps

    def prepare(self) -> None:
        config, device, edges = self.config, self.device, self.edges
        sizes = edges.entities, edges.relations
        self.model.to(device).train()
        tables = [p for name, p in self.parameters().items() if name in TABLES]
        others = [p for name, p in self.parameters().items() if name not in TABLES]
        groups = [{"params": others, "share": 1.0}, {"params": tables, "share": self.model.settings.table_rate}]
        self.optimizer = AdamW(
            [group for group in groups if group["params"]],
            weight_decay=self.model.settings.weight_decay,
            fused=device.type == "cuda",
        )
        self.queries = make_pool(edges.splits["train"], *sizes, config.pool, config.seed, device)
        self.counts = shared_out(config.batch, {name: SHARES[name] for name in self.queries})
        self.watched: Mapping[str, WatchedQueries] = {}
        if edges.count("valid"):
            self.watched = make_watched(edges.splits, *sizes, config.watched, config.seed, device)

    def parameters(self) -> Mapping[str, Tensor]:
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def step(self, position: Position) -> tuple[Tensor, int]:
        config, model = self.config, self.model
        torch.manual_seed(mix(config.seed, position.step))
        batches, answers, weights = [], [], []
        for name, count in self.counts.items():
            queries = self.queries[name]
            chosen = queries.take(torch.randint(len(queries), (count,), device=self.device))
            batches.append((PATTERNS[name], 0, chosen.constants, chosen.views))
            which = torch.randint(chosen.answers.shape[1], (count, 1), device=self.device)
            answers.append(chosen.answers.gather(1, which))
            weights.append((chosen.count + 4).rsqrt())
        # In any order, so that the queries which share their random entities are of all types.
        order = torch.randperm(config.batch, device=self.device)
        states, answer, weight = (torch.cat(part)[order] for part in (model.embed_many(batches), answers, weights))
        positive, negative = [], []
        for begin in range(0, config.batch, config.group):
            part, right = states[begin : begin + config.group], answer[begin : begin + config.group]
            positive.append(model.logits(part, right)[:, 0])
            others = torch.randint(model.entity_count, (config.negatives,), device=self.device)
            negative.append(model.logits(part, others))
        logits = torch.cat(positive), torch.cat(negative)
        softmax = config.loss == "softmax" and not model.own_loss
        loss = cross_entropy(*logits, weight, model.entity_count) if softmax else model.loss(*logits, weight)
        rate = model.settings.learning_rate * schedule(self._share(position), position.step)
        for group in self.optimizer.param_groups:
            group["lr"] = group["share"] * rate
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        self.optimizer.step()
        with torch.no_grad():
            model.after_step()
        return loss.detach(), config.batch

    def amount(self, position: Position) -> tuple[float, float, str]:
        if self.config.steps:
            return position.step, self.config.steps, "steps"
        return position.seconds, 60 * self.config.minutes, f"seconds, step {position.step:,}"

    def _share(self, position: Position) -> float:
        done, total, _ = self.amount(position)
        return done / total

    def rounds(self, position: Position) -> int:
        return int(self._share(position) * LAPS)

    def measure(self) -> tuple[float, Mapping[str, float]] | None:
        if not self.watched:
            return None
        valid = watch(self.model, self.watched)
        mean = sum(valid.values()) / len(valid)
        return mean, valid | {"mean": mean}

    def results(self, position: Position) -> dict[str, Any]:
        self.model.eval()
        return {"queries": position.step * self.config.batch, "valid_mrr": watch(self.model, self.watched)}

    def headline(self) -> str:
        config, settings = self.config, self.model.settings
        length = f"{config.steps:,} steps" if config.steps else f"{config.minutes:g} minutes"
        return f"{config.model}, {settings.dim} numbers per entity, {length}, batch {config.batch:,}"

    def where(self, position: Position) -> str:
        return f"at step {position.step} ({self._share(position):.0%})"


def schedule(done: float, step: int, warm: int = 200, least: float = 0.02) -> float:
    """The learning rate as a share of its peak: up in `warm` steps or a twentieth of the run, then down along a cosine.

    >>> schedule(0.0, 99), schedule(0.5, 1000), schedule(1.0, 2000)
    (0.5, 0.51, 0.02)
    """
    fall = least + (1 - least) * (1 + math.cos(math.pi * min(done, 1.0))) / 2
    return min(1.0, max((step + 1) / warm, 20 * done)) * fall


def shared_out(batch: int, shares: Mapping[str, float]) -> dict[str, int]:
    """The number of queries of each type in a batch: at least one of each, `batch` together.

    >>> shared_out(10, {"1p": 0.6, "2p": 0.3, "2in": 0.01})
    {'1p': 6, '2p': 3, '2in': 1}
    """
    if batch < len(shares):
        raise BadInput(f"a batch of {batch} has no room for the {len(shares)} query types")
    total = sum(shares.values())
    counts = {name: max(1, int(batch * share / total)) for name, share in shares.items()}
    for name in sorted(shares, key=lambda name: -shares[name]) * batch:
        missing = batch - sum(counts.values())
        if not missing:
            break
        counts[name] = max(1, counts[name] + (1 if missing > 0 else -1))
    return counts


@torch.inference_mode()
def watch(model: QueryModel, watched: Mapping[str, WatchedQueries]) -> dict[str, float]:
    """The filtered MRR of the hard answers of each type: the mean over the answers of a query, then over queries."""
    training = model.training
    model.eval()
    result = {}
    for name, queries in watched.items():
        logits = model.logits(model.embed(PATTERNS[name], 0, queries.constants, queries.views)).float()
        right = logits[queries.query, queries.hard]
        logits[queries.known[:, 0], queries.known[:, 1]] = -torch.inf
        others = logits[queries.query]
        rank = 1 + (others > right[:, None]).sum(1) + (others == right[:, None]).sum(1) / 2
        total = torch.zeros(len(logits), device=logits.device).index_add_(0, queries.query, 1 / rank)
        result[name] = float((total / torch.bincount(queries.query, minlength=len(logits))).mean())
    model.train(training)
    return result


def mix(seed: int, step: int) -> int:
    """Neighbouring seeds and steps share nothing."""
    return (seed * 1_000_003 + step * 7919 + 1) % (1 << 62)


# --- `tuplet train --model betae|logice|cone|lmpnn` -----------------------------------------------------------------

FLAGS = ("model", "steps", "minutes", "batch", "learning_rate", "seed")
NOT_OURS = ("preset", "rank", "epochs", "layers", "targets", "hide", "regularisation")


def is_query_model(arguments: argparse.Namespace) -> bool:
    """Whether `tuplet train` is asked for a query model: by flag, by settings file, or by the run it continues."""
    name = (
        arguments.model or _stored_model(arguments.config) or _stored_model(Path(arguments.output) / CONFIG, "config")
    )
    known = (*registry.list_plugins("predictors"), *MODELS)
    if arguments.model and not {arguments.model, arguments.model.lower()} & {*known} and ":" not in arguments.model:
        raise unknown("model", arguments.model, known)
    mine = str(name).lower() in MODELS
    instead = (
        "a query model takes --minutes or --steps, --batch, --learning-rate, --seed, and --config for the rest"
        if mine
        else f"it is for the query models ({', '.join(MODELS)})"
    )
    for flag in NOT_OURS if mine else ("minutes", "predictor"):
        if getattr(arguments, flag) is not None:
            raise BadInput(f"--{flag} is not for {name or 'link predictors'}; {instead}")
    return mine


def _stored_model(path: str | Path | None, within: str | None = None) -> str | None:
    """The model that a JSON or TOML file of settings names, if it can be read; who reads the rest reports errors."""
    try:
        if path is None:
            return None
        text = Path(path).read_text(encoding="utf-8")
        if Path(path).suffix == ".toml":
            values: Any = tomllib.loads(text)
        else:
            values = json.loads(text)
        return (values[within] if within else values).get("model")  # type: ignore[no-any-return]
    except (OSError, ValueError, KeyError, AttributeError):
        return None


def train_from_flags(arguments: argparse.Namespace, progress: bool | Report) -> QueryTrainingResult:
    """Train a query model of a graph."""
    graph = KnowledgeGraph.open(arguments.graph)
    given = {key: value for key, value in given_flags(arguments, QueryTrainConfig).items() if key in FLAGS}
    if "model" in given:
        given["model"] = given["model"].lower()
    for flag in ("steps", "minutes"):
        if given.get(flag) == 0:  # inside, 0 means that the other one decides
            raise BadInput(f"--{flag} is 0; it must be more")
    if arguments.config:
        config = changed(load(QueryTrainConfig, arguments.config), given)
    elif arguments.resume:
        config = changed(read_config(arguments.output, QueryTrainConfig), given)
    else:
        config = QueryTrainConfig(**given)
    predictor = None
    if MODELS[config.model].rests_on_predictor:
        if arguments.predictor is None:
            raise BadInput(
                f"{config.model} rests on a trained link predictor: --predictor MODEL (tuplet train --model complex)"
            )
        predictor = load_embeddings(arguments.predictor)
    elif arguments.predictor is not None:
        raise BadInput(f"--predictor is not for {config.model}, which learns its own tables")
    options = RunOptions(arguments.output, arguments.device, arguments.resume, arguments.force, progress)
    return train(graph, config, options, predictor)
