"""The folder of a training run: settings, log, checkpoints, and what may be continued."""

from __future__ import annotations

import hashlib
import json
import signal
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tuplet._version import __version__
from tuplet.errors import BadInput, CorruptStore, Exists, Option, TupletError
from tuplet.files import clean_leftovers, write_json
from tuplet.predict.embeddings import EmbeddingModel
from tuplet.predict.evaluate import Splits
from tuplet.predict.model_folder import (
    CARD,
    DESCRIPTION,
    TENSORS,
    describe,
    read_tensors,
    write_tensors,
)
from tuplet.settings import Settings, TrainConfig, from_mapping, to_mapping

if TYPE_CHECKING:
    from tuplet.predict.train import State

CONFIG, LOG, CHECKPOINT, BEST = "config.json", "log.jsonl", "checkpoint.safetensors", "best.safetensors"
SEAL = "crc32"
OURS = (CONFIG, LOG, CHECKPOINT, BEST, TENSORS, DESCRIPTION, CARD)
SHARED_FROM = 200_000_000
FREE_KEYS = frozenset({"checkpoint_seconds", "minutes"})  # settings that do not change the result


class Interrupted(TupletError):
    """Training was stopped from outside and can be continued."""

    def __init__(self, folder: Path, epoch: int, epochs: int) -> None:
        self.what = f"training stopped in epoch {epoch + 1} of {epochs}"
        super().__init__(f"{self.what}; the same command with --resume continues {folder}")


class OtherRun(BadInput):
    """The folder holds no run, or that of another graph or other settings."""


@dataclass(frozen=True)
class Plan:
    """What a run is about; two runs with equal plans give equal models."""

    config: Any  # a dataclass of settings: TrainConfig, or that of another trainer
    graph: str
    entities: int
    relations: int
    train_edges: int

    def config_json(self) -> dict[str, Any]:
        return to_mapping(self.config)

    def to_json(self) -> dict[str, Any]:
        sizes = {"entities": self.entities, "relations": self.relations, "train_edges": self.train_edges}
        return {"tuplet": __version__, "graph": self.graph, **sizes, "config": self.config_json()}


def fingerprint(edges: Splits) -> str:
    """A hash of the edges of all splits, for callers without a graph hash."""
    digest = hashlib.sha256()
    for split in sorted(edges):
        digest.update(split.encode())
        for part in edges[split]:
            digest.update(np.ascontiguousarray(part, dtype=np.int64).data)
    return digest.hexdigest()


def prepare(folder: Path, plan: Plan, resume: bool, force: bool) -> dict[str, Any] | None:
    """Make the folder ready to run; for a run that has finished already, what it found."""
    if resume:
        _refuse_other_plan(folder, plan)
        return describe(folder) if (folder / DESCRIPTION).exists() else None
    if folder.is_file():
        raise Exists(folder, "it is a file")
    if folder.is_dir() and any(folder.iterdir()):
        if not force:
            raise BadInput(
                f"{folder} exists already; ", Option("resume"), " continues its run, ", Option("force"), " starts over"
            )
        if not any((folder / name).exists() for name in (CONFIG, DESCRIPTION)):
            raise Exists(folder, "it is not a model of ours")
        # The description first: without it the rest is no model, whenever this is cut short.
        for name in (DESCRIPTION, *OURS):
            (folder / name).unlink(missing_ok=True)
    write_json(folder / CONFIG, plan.to_json(), force=True)
    return None


def stored_config(folder: str | Path, kind: type[Settings] = TrainConfig) -> Settings:  # type: ignore[assignment]
    """The settings of the run in `folder`."""
    return from_mapping(kind, _stored(Path(folder))["config"], f"{Path(folder) / CONFIG}")


def log(folder: Path, record: Mapping[str, Any]) -> None:
    """Append one line."""
    with open(folder / LOG, "a", encoding="utf-8") as stream:
        stream.write(json.dumps({"time": round(time.time(), 3), **record}) + "\n")


def write_checkpoint(folder: Path, model: EmbeddingModel, optimizer: torch.optim.Optimizer, state: State) -> None:
    """Tables, optimizer and position in one file, replaced as a whole."""
    tensors = {"entity": model.entity, "relation": model.relation, "loss": state.loss}
    for name, table in (("entity", model.entity), ("relation", model.relation)):
        for key, value in optimizer.state[table].items():
            tensors[f"optimizer.{name}.{key}"] = torch.as_tensor(value)
    position = {f.name: getattr(state, f.name) for f in fields(state) if f.name != "loss"}
    tensors["position"] = torch.tensor(list(json.dumps(position).encode()), dtype=torch.uint8)
    write_sealed(folder / CHECKPOINT, tensors)


def read_checkpoint(folder: Path, model: EmbeddingModel, optimizer: torch.optim.Optimizer, state: State) -> None:
    """Put a checkpoint back into the model, the optimizer and the state."""
    file = folder / CHECKPOINT
    tensors = read_sealed(file)
    try:
        position = json.loads(bytes(tensors.pop("position").tolist()))
        for key, value in position.items():
            setattr(state, key, type(getattr(state, key))(value))
        state.loss.copy_(tensors.pop("loss"))
        with torch.no_grad():
            model.entity.copy_(tensors.pop("entity"))
            model.relation.copy_(tensors.pop("relation"))
        for name, table in (("entity", model.entity), ("relation", model.relation)):
            prefix = f"optimizer.{name}."
            found = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
            # The step counter is a scalar that torch keeps on the CPU; the rest lives beside its table.
            optimizer.state[table] = {k: v if v.dim() == 0 else v.to(table.device) for k, v in found.items()}
    except (KeyError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        raise CorruptStore(f"{file}: not a checkpoint of this run: {error}") from None
    if state.best_epoch and not (folder / BEST).exists():
        raise CorruptStore(f"{folder / BEST} is missing; start over with --force")


def write_best(folder: Path, model: EmbeddingModel) -> None:
    """Keep the tables as the best so far."""
    write_sealed(folder / BEST, {"entity": model.entity, "relation": model.relation})


def read_best(folder: Path, model: EmbeddingModel) -> None:
    """Put the best tables back into the model."""
    tensors = read_sealed(folder / BEST)
    try:
        with torch.no_grad():
            model.entity.copy_(tensors["entity"])
            model.relation.copy_(tensors["relation"])
    except (KeyError, RuntimeError) as error:
        raise CorruptStore(f"{folder / BEST}: not of this run: {error}") from None


def write_sealed(file: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Tensors with a checksum among them: a run continues from what was written or not at all."""
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_tensors(file, {**ready, SEAL: torch.tensor(_checksum(ready))})


def read_sealed(file: Path) -> dict[str, torch.Tensor]:
    """What `write_sealed` wrote, unchanged."""
    tensors = read_tensors(file)
    seal = tensors.pop(SEAL, None)
    if seal is None or seal.numel() != 1 or int(seal) != _checksum(tensors):
        raise CorruptStore(f"{file}: checksum does not fit; the file was edited or damaged; start over with --force")
    return tensors


def _checksum(tensors: Mapping[str, torch.Tensor]) -> int:
    checksum = 0
    for name in sorted(tensors):
        tensor = tensors[name]
        checksum = zlib.crc32(f"{name} {tensor.dtype} {list(tensor.shape)}".encode(), checksum)
        checksum = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, checksum)
    return checksum


def clean(folder: Path) -> None:
    """Remove what only an unfinished run needs, and what a killed writer left."""
    for name in OURS:
        clean_leftovers(folder / name)
    for name in (CHECKPOINT, BEST):
        (folder / name).unlink(missing_ok=True)


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a question the loop asks between steps; a second one stops at once.

    Between steps tables and optimizer fit together, so the checkpoint written then continues exactly. Outside the main
    thread Python delivers no signals, and the answer is always no.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def handle(_signal: int, _frame: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def tuned_cpu(device: torch.device, products: int) -> Iterator[None]:
    """Settings of torch for training on the CPU, put back afterwards; `products` are the multiplications of a step.

    Numbers near zero make steps up to 20 times slower unless they are flushed to zero. Steps of a small graph are too
    short to share: several threads gain nothing on an idle machine and wait for each other on a busy one.
    """
    if device.type != "cpu":
        yield
        return
    before = torch.get_num_threads()
    torch.set_flush_denormal(True)
    torch.set_num_threads(1 if products < SHARED_FROM else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        torch.set_flush_denormal(False)


def _stored(folder: Path) -> dict[str, Any]:
    file = folder / CONFIG
    try:
        stored = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise OtherRun(f"there is no run to continue in {folder}") from None
    except (OSError, ValueError, RecursionError):
        raise CorruptStore(f"{file}: not readable as JSON; start over with --force") from None
    if not isinstance(stored, dict) or not isinstance(stored.get("config"), dict):
        raise CorruptStore(f"{file}: does not hold the settings of a run; start over with --force")
    return stored


def _refuse_other_plan(folder: Path, plan: Plan) -> None:
    stored, wanted = _stored(folder), plan.to_json()
    if stored.get("graph") != wanted["graph"]:
        raise OtherRun(f"cannot continue {folder}: it was trained on another graph ({str(stored.get('graph'))[:12]}…)")
    for key in ("entities", "relations", "train_edges"):
        if stored.get(key) != wanted[key]:
            raise OtherRun(f"cannot continue {folder}: {key} was {stored.get(key)}, now it is {wanted[key]}")
    for key, value in wanted["config"].items():
        if key not in FREE_KEYS and stored["config"].get(key) != value:
            raise OtherRun(f"cannot continue {folder}: {key} was {stored['config'].get(key)}, now it is {value}")
