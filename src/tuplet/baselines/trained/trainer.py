"""One trainer for the query models. A run is a folder that can be continued after Ctrl-C or a crash.

    config.json             settings and what they are for (graph, sizes)
    log.jsonl               the learning curve: steps, seconds, loss and valid MRR, only ever appended to
    checkpoint.safetensors  parameters, optimizer and position, replaced as a whole
    model.safetensors, model.json, MODEL.md   the model as it was when training last stopped

Each step takes queries of all ten types from a pool, one answer of each, and random entities beside it. What a step
draws depends on (seed, step) alone, so a continued run takes exactly the steps the uninterrupted one would have taken;
with a time limit in place of a number of steps, the learning rate follows the clock.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tuplet.baselines.trained.embedding import QueryModel, Settings, create, settings_for
from tuplet.baselines.trained.layers import cross_entropy
from tuplet.baselines.trained.model_files import save
from tuplet.baselines.trained.training_queries import PATTERNS, Pool, Watched, make_pool, make_watched
from tuplet.errors import BadInput, CorruptStore, TupletError
from tuplet.files import locked
from tuplet.predict import runs
from tuplet.predict.embeddings import EmbeddingModel
from tuplet.predict.evaluate import Splits
from tuplet.predict.train import check_edges, pick_device
from tuplet.settings import check, knob

Progress = Callable[[Mapping[str, Any]], None]

# The published mixture: two batches of paths for one of the rest, where negations are a sixth.
SHARES: Mapping[str, float] = {"1p": 0.22, "2p": 0.22, "3p": 0.22, "2i": 0.12, "3i": 0.12} | dict.fromkeys(
    ("2in", "3in", "inp", "pin", "pni"), 0.02
)
TABLES = ("entity", "relation")
OF_MODEL = ("dim", "hidden", "gamma", "learning_rate", "table_rate")
LAPS = 20  # measurements of the valid MRR in a run
REPORT = 50  # steps between two looks at the loss: each makes the GPU wait for Python


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

    def settings(self, entities: int) -> Settings:
        """The settings of the model: the published ones, changed where something is given.

        The published rates are for small batches. Larger ones have less noise and fewer steps to go: the rate grows
        almost with the batch.
        """
        published = settings_for(self.model, entities)
        given = {key: getattr(self, key) for key in OF_MODEL if getattr(self, key)}
        given.setdefault("learning_rate", published.learning_rate * max(1.0, self.batch / published.batch) ** 0.8)
        return replace(published, **given)


@dataclass(frozen=True)
class TrainedQueries:
    """A run that has stopped, finished or not: its model and the last valid MRR of each type."""

    model: QueryModel
    steps: int
    seconds: float
    valid: Mapping[str, float]
    finished: bool
    folder: Path


@dataclass
class State:
    """Where a run is."""

    step: int = 0
    seconds: float = 0.0
    lap: int = 0  # measurements made


def train(
    edges: Splits,
    entities: int,
    relations: int,
    config: QueryTrainConfig | None = None,
    folder: str | Path = "model",
    device: str | torch.device = "auto",
    *,
    predictor: EmbeddingModel | None = None,
    pool: Pool | None = None,
    resume: bool = False,
    force: bool = False,
    stop_after: float | None = None,
    progress: Progress | None = None,
    graph_hash: str | None = None,
) -> TrainedQueries:
    """Train on queries over `edges["train"]`, watch queries that need `edges["valid"]`, leave a model in `folder`.

    `predictor` is the frozen link predictor of LMPNN. `pool` are the training queries, drawn here unless given.
    `stop_after` seconds this call stops, finished or not; `resume` goes on, also with more minutes than before.
    """
    folder, device, began = Path(folder), pick_device(device), time.monotonic()
    check_edges(edges, entities, relations)
    if config is None:
        config = stored_config(folder) if resume else QueryTrainConfig()
    settings = config.settings(entities)
    plan = runs.Plan(config, graph_hash or runs.fingerprint(edges), entities, relations, len(edges["train"][0]))
    products = config.batch * settings.hidden * settings.hidden
    with locked(folder), runs.tuned_cpu(device, products), runs.interrupts() as interrupted, torch.random.fork_rng():
        # A predictor that does not fit is refused before anything is written.
        model = create(config.model, entities, relations, settings, config.seed, predictor)
        runs.prepare(folder, plan, resume, force)
        run = _Run(edges, plan, folder, device, model, pool, progress, interrupted)
        return run.complete(began + stop_after if stop_after is not None else math.inf)


def stored_config(folder: str | Path) -> QueryTrainConfig:
    """The settings of the run in `folder`."""
    return runs.stored_config(folder, QueryTrainConfig)


class _Run:
    """A run in progress."""

    def __init__(
        self,
        edges: Splits,
        plan: runs.Plan,
        folder: Path,
        device: torch.device,
        model: QueryModel,
        pool: Pool | None,
        progress: Progress | None,
        interrupted: Callable[[], bool],
    ) -> None:
        self.plan, self.folder, self.device = plan, folder, device
        self.progress, self.interrupted = progress, interrupted
        self.config: QueryTrainConfig = plan.config
        self.model = model.to(device)
        tables = [p for name, p in _trained(self.model) if name in TABLES]
        others = [p for name, p in _trained(self.model) if name not in TABLES]
        groups = [{"params": others, "share": 1.0}, {"params": tables, "share": self.model.settings.table_rate}]
        decay = self.model.settings.weight_decay
        self.optimizer = torch.optim.AdamW(
            [group for group in groups if group["params"]], weight_decay=decay, fused=device.type == "cuda"
        )
        self.state = State()
        if (folder / runs.CHECKPOINT).exists():
            read_checkpoint(folder, self.model, self.optimizer, self.state)
        sizes = plan.entities, plan.relations
        if pool is None:
            pool = make_pool(edges["train"], *sizes, self.config.pool, self.config.seed, device)
        self.pool = {name: queries.to(device) for name, queries in pool.items()}
        self.counts = shared_out(self.config.batch, {name: SHARES[name] for name in self.pool})
        self.watched: Mapping[str, Watched] = {}
        if len(edges.get("valid", ((),))[0]):
            self.watched = make_watched(edges, *sizes, self.config.watched, self.config.seed, device)
        self.valid: dict[str, float] = {}
        self.loss = torch.zeros((), device=device)  # sum since the last look
        self.saved = time.monotonic()

    def complete(self, until: float) -> TrainedQueries:
        """Run to the end or until time is up (by the monotonic clock), from wherever the run is."""
        state = self.state
        runs.log(self.folder, {"event": "resumed" if state.step else "started", "step": state.step})
        self.model.train()
        looked, unseen = time.monotonic(), 0
        with precision(self.config.precision, self.device):
            while self.fraction() < 1 and not self.interrupted():
                self._step()
                unseen += 1
                if state.step % REPORT == 0 or self.device.type == "cpu":
                    mean, unseen = float(self.loss) / unseen, 0
                    self.loss.zero_()
                    if not math.isfinite(mean):
                        raise TupletError(f"training diverged near step {state.step}; try a lower learning_rate")
                    now = time.monotonic()
                    state.seconds, looked = state.seconds + now - looked, now
                    self._look(mean)
                    looked = time.monotonic()  # measuring and saving are not training
                    if looked >= until:
                        break
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            state.seconds += time.monotonic() - looked
        return self._finish()

    def fraction(self) -> float:
        """How much of the run is done."""
        if self.config.steps:
            return self.state.step / self.config.steps
        return self.state.seconds / (60 * self.config.minutes)

    def _step(self) -> None:
        config, state, model = self.config, self.state, self.model
        torch.manual_seed(mix(config.seed, state.step))
        batches, answers, weights = [], [], []
        for name, count in self.counts.items():
            queries = self.pool[name]
            chosen = queries.take(torch.randint(len(queries), (count,), device=self.device))
            batches.append((PATTERNS[name], chosen.constants, chosen.views))
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
        softmax = config.loss == "softmax" and config.model != "lmpnn"
        loss = cross_entropy(*logits, weight, model.entity_count) if softmax else model.loss(*logits, weight)
        for group in self.optimizer.param_groups:
            group["lr"] = group["share"] * model.settings.learning_rate * schedule(self.fraction(), state.step)
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        self.optimizer.step()
        with torch.no_grad():
            model.after_step()
            self.loss += loss.detach()
        state.step += 1

    def _look(self, loss: float) -> None:
        """Tell how far the run is; at the end of a lap measure, and save when it is time."""
        state, done = self.state, self.fraction()
        record: dict[str, Any] = {"step": state.step, "seconds": round(state.seconds, 3), "loss": loss, "done": done}
        record["eta_seconds"] = round(state.seconds / done * (1 - done), 1) if done else None
        if state.lap < int(done * LAPS):
            state.lap = int(done * LAPS)
            if self.watched:
                self.valid = watch(self.model, self.watched)
                record["valid"] = self.valid | {"mean": sum(self.valid.values()) / len(self.valid)}
            runs.log(self.folder, record)
        if self.progress is not None:
            self.progress(record)
        if time.monotonic() - self.saved >= self.config.checkpoint_seconds:
            self._save()

    def _save(self) -> None:
        write_checkpoint(self.folder, self.model, self.optimizer, self.state)
        self.saved = time.monotonic()

    def _finish(self) -> TrainedQueries:
        state, done = self.state, self.fraction() >= 1
        self._save()
        if not done and self.interrupted():
            raise TupletError(
                f"training stopped at step {state.step} ({self.fraction():.0%}); "
                f"the same command with --resume continues {self.folder}"
            )
        self.model.eval()
        if self.watched:
            self.valid = watch(self.model, self.watched)
        meta = {
            "graph": self.plan.graph,
            "config": self.plan.config_json(),
            "steps": state.step,
            "queries": state.step * self.config.batch,
            "train_seconds": round(state.seconds, 3),
            "finished": done,
            "device": torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu",
            "valid_mrr": self.valid,
        }
        save(self.model, self.folder, self.config.model, meta)
        runs.log(self.folder, {"event": "stopped", "step": state.step, "seconds": state.seconds, "valid": self.valid})
        return TrainedQueries(self.model, state.step, state.seconds, self.valid, done, self.folder)


def schedule(done: float, step: int, warm: int = 200, least: float = 0.02) -> float:
    """The learning rate as a share of its peak: up in `warm` steps or a twentieth of the run, then down along a cosine.

    >>> schedule(0.0, 99), schedule(0.5, 1000), schedule(1.0, 2000)
    (0.5, 0.51, 0.02)
    """
    fall = least + (1 - least) * (1 + math.cos(math.pi * min(done, 1.0))) / 2
    return min(1.0, max((step + 1) / warm, 20 * done)) * fall


def shared_out(batch: int, shares: Mapping[str, float]) -> dict[str, int]:
    """How many queries of each type are in a batch: at least one of each, `batch` together.

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
def watch(model: QueryModel, watched: Mapping[str, Watched]) -> dict[str, float]:
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


def write_checkpoint(folder: Path, model: QueryModel, optimizer: torch.optim.Optimizer, state: State) -> None:
    """Parameters, optimizer and position in one file, replaced as a whole."""
    tensors: dict[str, torch.Tensor] = {}
    for name, parameter in _trained(model):
        tensors[f"model.{name}"] = parameter
        for key, value in optimizer.state[parameter].items():
            tensors[f"optimizer.{name}.{key}"] = torch.as_tensor(value)
    tensors["position"] = torch.tensor(list(json.dumps(vars(state)).encode()), dtype=torch.uint8)
    runs.write_sealed(folder / runs.CHECKPOINT, tensors)


def read_checkpoint(folder: Path, model: QueryModel, optimizer: torch.optim.Optimizer, state: State) -> None:
    """Put a checkpoint back into the model, the optimizer and the state."""
    file = folder / runs.CHECKPOINT
    tensors = runs.read_sealed(file)
    try:
        for key, value in json.loads(bytes(tensors["position"].tolist())).items():
            setattr(state, key, type(getattr(state, key))(value))
        for name, parameter in _trained(model):
            parameter.data.copy_(tensors[f"model.{name}"])
            prefix = f"optimizer.{name}."
            found = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
            optimizer.state[parameter] = {key: value.to(parameter.device) for key, value in found.items()}
    except (KeyError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        raise CorruptStore(f"{file}: not a checkpoint of this run: {error}") from None


def _trained(model: QueryModel) -> Iterator[tuple[str, torch.nn.Parameter]]:
    return ((name, p) for name, p in model.named_parameters() if p.requires_grad)


@contextmanager
def precision(name: str, device: torch.device) -> Iterator[None]:
    """The precision of matrix products on CUDA; on the CPU it is float32 whatever is asked."""
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if name == "float32" else "high")
    try:
        with torch.autocast("cuda", torch.bfloat16, enabled=name == "bf16"):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def mix(seed: int, step: int) -> int:
    """Neighbouring seeds and steps share nothing."""
    return (seed * 1_000_003 + step * 7919 + 1) % (1 << 62)
