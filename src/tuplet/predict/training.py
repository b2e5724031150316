"""One training run, whatever is trained: a folder that can be continued after Ctrl-C or a crash.

A `Task` takes steps and measures; a `TrainingRun` does everything else: it prepares the folder, says at once what it
is about to do, takes the steps, shows progress by step, looks at the loss, measures after each round (an epoch, or a
part of the run), keeps the best, writes checkpoints by time and at Ctrl-C, and leaves a model.

What a step draws must depend on (seed, step) alone. Then a position is a number, and a continued run takes exactly
the steps that the uninterrupted one would have taken: on the CPU the result is the same to the last bit.
"""

from __future__ import annotations

import json
import math
import os
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tuplet._version import __version__
from tuplet.errors import BadInput, CorruptStore, Option, PathExists, TupletError
from tuplet.files import clean_leftovers, locked, system_errors, write_json
from tuplet.predict.base import TrainingEdges
from tuplet.predict.config import TrainConfig
from tuplet.predict.device import device_name, precision, tune_cpu
from tuplet.predict.model_folder import (
    CARD,
    DESCRIPTION,
    TENSORS,
    StorableModel,
    describe,
    read_tensors,
    save,
    write_tensors,
)
from tuplet.progress import Report, duration, format_bytes, interrupts, shown
from tuplet.settings import Settings, from_mapping, to_mapping

CONFIG, LOG, CHECKPOINT, BEST = "config.json", "log.jsonl", "checkpoint.safetensors", "best.safetensors"
SEAL = "crc32"
OURS = (CONFIG, LOG, CHECKPOINT, BEST, TENSORS, DESCRIPTION, CARD)
FREE_KEYS = frozenset({"checkpoint_seconds", "minutes"})  # settings that do not change the result

LOOK_EVERY = 50  # steps on a GPU between two looks at loss and clock: each makes the GPU wait for Python
ESTIMATE_AFTER = 5.0  # seconds of training after which the time of the whole is estimated
MOST_WRITING = 0.1  # of the time, for checkpoints
WORTH_SAYING = 60.0  # seconds: what is shorter needs no estimate
LONG = 3600.0  # seconds on a CPU from which the settings are called too large for it


class Interrupted(TupletError):
    """Training was stopped from outside and can be continued."""

    def __init__(self, folder: Path, where: str) -> None:
        self.what = f"training stopped {where}"
        super().__init__(f"{self.what}; ", Option("resume"), f" continues {folder}")


class OtherRun(BadInput):
    """The folder holds no run, or that of another graph or other settings."""


class RunFolder:
    """The folder of one run; `about` is what config.json says: two runs with the same one give the same model."""

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path, self.about = path, about

    def prepare(self, resume: bool, force: bool) -> dict[str, Any] | None:
        """Make the folder ready to run; for a run that has written its model already, what that says of itself."""
        path = self.path
        if resume:
            self._refuse_other_run()
            self._clean_leftovers()
            return describe(path) if (path / DESCRIPTION).exists() else None
        if path.is_file():
            raise BadInput(f"{path} is a file")
        if path.is_dir() and any(path.iterdir()):
            if not force:
                choice = Option("resume"), " continues its run, ", Option("force"), " starts over"
                raise BadInput(f"{path} already exists; ", *choice)
            if not any((path / name).exists() for name in (CONFIG, DESCRIPTION)):
                raise PathExists(path, "it is not a model")
            self._clean_leftovers()
            with system_errors(path):
                # The description first: without it the rest is no model, whenever this is cut short.
                for name in (DESCRIPTION, *OURS):
                    (path / name).unlink(missing_ok=True)
        write_json(path / CONFIG, self.about, force=True)
        return None

    def log(self, record: Mapping[str, Any]) -> None:
        """Append one line."""
        with system_errors(self.path / LOG), open(self.path / LOG, "a", encoding="utf-8") as stream:
            stream.write(json.dumps({"time": round(time.time(), 3), **record}) + "\n")

    def write_checkpoint(
        self,
        parameters: Mapping[str, Tensor],
        optimizer: torch.optim.Optimizer,
        position: Position,
        loss: Tensor,
    ) -> None:
        """All that a step changes, in one file, replaced as a whole."""
        tensors = {f"model.{name}": parameter for name, parameter in parameters.items()}
        for name, parameter in parameters.items():
            for key, value in optimizer.state[parameter].items():
                tensors[f"optimizer.{name}.{key}"] = torch.as_tensor(value)
        tensors["loss"] = loss
        tensors["position"] = torch.tensor(list(json.dumps(asdict(position)).encode()), dtype=torch.uint8)
        write_sealed(self.path / CHECKPOINT, tensors)

    def read_checkpoint(
        self, parameters: Mapping[str, Tensor], optimizer: torch.optim.Optimizer, position: Position, loss: Tensor
    ) -> None:
        """Put back what `write_checkpoint` wrote."""
        file = self.path / CHECKPOINT
        tensors = read_sealed(file)
        fused = bool(optimizer.defaults.get("fused"))
        try:
            loss.copy_(tensors["loss"])
            for name, parameter in parameters.items():
                parameter.data.copy_(tensors[f"model.{name}"])
                prefix = f"optimizer.{name}."
                found = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
                # Unless it is fused, an optimizer keeps its step counter, a scalar, on the CPU.
                optimizer.state[parameter] = {
                    key: value.to(parameter.device) if value.dim() or fused else value for key, value in found.items()
                }
            for key, value in json.loads(bytes(tensors["position"].tolist())).items():
                setattr(position, key, type(getattr(position, key))(value))
        except (KeyError, RuntimeError, ValueError, TypeError, AttributeError) as error:
            raise CorruptStore(f"{file}: not a checkpoint of this run: {error}") from None

    def read_best(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """Put the best parameters back."""
        tensors = read_sealed(self.path / BEST)
        try:
            for name, parameter in parameters.items():
                parameter.data.copy_(tensors[name])
        except (KeyError, RuntimeError) as error:
            raise CorruptStore(f"{self.path / BEST}: not of this run: {error}") from None

    def _clean_leftovers(self) -> None:
        """Remove what a killed writer left."""
        for name in OURS:
            clean_leftovers(self.path / name)

    def _refuse_other_run(self) -> None:
        stored, wanted, path = read_run(self.path), self.about, self.path
        if stored.get("graph") != wanted["graph"]:
            raise OtherRun(
                f"cannot continue {path}: it was trained on another graph ({str(stored.get('graph'))[:12]}…)"
            )
        before, now = ({**run, **run["config"]} for run in (stored, wanted))
        for key in ("entities", "relations", "train_edges", *wanted["config"]):
            if key not in FREE_KEYS and before.get(key) != now[key]:
                raise OtherRun(f"cannot continue {path}: {key} was {before.get(key)}, now it is {now[key]}")


def read_run(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """What config.json of a folder says."""
    file = Path(folder) / CONFIG
    try:
        stored = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise OtherRun(f"there is no run to continue in {folder}") from None
    except (OSError, ValueError, RecursionError):
        raise CorruptStore(f"{file}: not readable as JSON; start over with ", Option("force")) from None
    if not isinstance(stored, dict) or not isinstance(stored.get("config"), dict):
        raise CorruptStore(f"{file}: does not hold the settings of a run; start over with ", Option("force"))
    return stored


def read_config(folder: str | os.PathLike[str], kind: type[Settings]) -> Settings:
    """The settings of the run in `folder`."""
    return from_mapping(kind, read_run(folder)["config"], f"{Path(folder) / CONFIG}")


def write_sealed(file: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Tensors with a checksum among them: a run continues from what was written or not at all."""
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_tensors(file, {**ready, SEAL: torch.tensor(_checksum(ready))})


def read_sealed(file: Path) -> dict[str, torch.Tensor]:
    """What `write_sealed` wrote, unchanged."""
    tensors = read_tensors(file)
    seal = tensors.pop(SEAL, None)
    if seal is None or seal.numel() != 1 or int(seal) != _checksum(tensors):
        raise CorruptStore(
            f"{file}: checksum does not match; the file was edited or damaged; start over with ", Option("force")
        )
    return tensors


def _checksum(tensors: Mapping[str, torch.Tensor]) -> int:
    checksum = 0
    for name in sorted(tensors):
        tensor = tensors[name]
        checksum = zlib.crc32(f"{name} {tensor.dtype} {list(tensor.shape)}".encode(), checksum)
        checksum = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, checksum)
    return checksum


@dataclass(frozen=True)
class RunOptions:
    """Where a training runs and what is seen of it; nothing here changes the result."""

    folder: str | os.PathLike[str]
    device: str | torch.device = "auto"
    resume: bool = False  # continue the run in `folder`; other settings or another graph are refused
    force: bool = False  # start over in a folder that holds a run
    progress: bool | Report = True
    stop_after: float | None = None  # seconds after which this call stops, finished or not; `resume` goes on
    clock: Callable[[], float] = time.monotonic  # for tests


@dataclass
class Position:
    """All that a step changes besides parameters, optimizer and the sum of the loss: where a run is."""

    step: int = 0  # steps taken
    round: int = 0  # rounds finished
    examples: int = 0  # that the sum of the loss is over: those of this round
    seconds: float = 0.0  # of training
    measure_seconds: float = 0.0
    best: float = -1.0
    best_round: int = 0
    waiting: int = 0  # measurements since the best one


class Task(ABC):
    """What is trained. `config` is a frozen dataclass of settings with `precision` and `checkpoint_seconds`."""

    config: Any
    edges: TrainingEdges
    device: torch.device
    model: StorableModel
    optimizer: torch.optim.Optimizer
    products: int  # multiplications of one step, about
    bilinear = True  # whether products of low precision are safe
    keeps_best = False  # whether the model is the best one measured instead of the last
    timed = False  # whether the run takes a given time instead of a number of steps
    advice = "a GPU is much faster (device cuda)"  # said where a run on a CPU would be long
    extensible = False  # whether a finished run may go on (with more minutes); if not, its checkpoint is removed

    @abstractmethod
    def parameters(self) -> Mapping[str, Tensor]:
        """What is learned, by name."""

    @abstractmethod
    def prepare(self) -> None:
        """Make ready for steps: what takes long and is not needed to refuse bad settings."""

    @abstractmethod
    def step(self, position: Position) -> tuple[Tensor, int]:
        """Take one step; the mean loss and the number of examples it is over."""

    @abstractmethod
    def amount(self, position: Position) -> tuple[float, float, str]:
        """How much is done, of how much, and of what: steps, or seconds if it is `timed`."""

    @abstractmethod
    def rounds(self, position: Position) -> int:
        """How many rounds are over."""

    def memory(self) -> int:
        """Bytes that the training takes, about; 0 if that is not known."""
        return 0

    def over(self, position: Position) -> bool:
        """Whether the run is done."""
        done, total, _ = self.amount(position)
        return done >= total

    def measures(self, position: Position) -> bool:
        """Whether the round that is over ends with a measurement."""
        return True

    @abstractmethod
    def measure(self) -> tuple[float, Mapping[str, float]] | None:
        """The score of the valid data, higher is better, and all of it for the log; None if there are none."""

    @abstractmethod
    def results(self, position: Position) -> dict[str, Any]:
        """What is known in the end, for model.json."""

    @abstractmethod
    def headline(self) -> str:
        """The settings in a few words."""

    @abstractmethod
    def where(self, position: Position) -> str:
        """The position in words, such as 'in epoch 3 of 50'."""

    def for_gpu(self) -> bool:
        """Whether the settings are known to be meant for a GPU."""
        return False


class PatientTask(Task):
    """A task that measures every so many rounds and ends when that has not helped for a while."""

    config: TrainConfig

    def over(self, position: Position) -> bool:
        patience = self.config.patience
        return super().over(position) or bool(patience and position.waiting >= patience)

    def measures(self, position: Position) -> bool:
        every = self.config.evaluate_every
        return bool(every) and position.round % every == 0


class TrainingRun:
    """A task on its way through a folder."""

    def __init__(self, task: Task, options: RunOptions) -> None:
        self.task, self.options, self.clock = task, options, options.clock
        edges, config = task.edges, to_mapping(task.config)
        self.about = {
            "tuplet": __version__,
            "graph": edges.graph,
            "entities": edges.entities,
            "relations": edges.relations,
            "train_edges": edges.count("train"),
            "config": config,
        }
        self.folder = RunFolder(Path(options.folder), self.about)
        self.position = Position()
        self.loss = torch.zeros((), dtype=torch.float64, device=task.device)  # sum over the round so far
        self.score: float | None = None  # of the last measurement
        self.until = math.inf if options.stop_after is None else self.clock() + options.stop_after

    def complete(self) -> dict[str, Any]:
        """Run to the end or until time is up, from wherever the run is; returns what model.json says."""
        task, device, path = self.task, self.task.device, self.folder.path
        random = torch.random.fork_rng([device] if device.type == "cuda" else [])
        with ExitStack() as stack:
            for context in (locked(path), tune_cpu(device, task.products), random):
                stack.enter_context(context)
            self.interrupted = stack.enter_context(interrupts())
            written = self.folder.prepare(self.options.resume, self.options.force)
            if written is not None and written.get("finished", True) and not task.extensible:
                return written
            self.report = stack.enter_context(shown(self.options.progress))
            self._announce()
            task.prepare()
            self._continue()
            finished = self._train()
            return self._finish(finished)

    def _announce(self) -> None:
        """A sign of life before any work: sizes, settings, device."""
        task = self.task
        threads = torch.get_num_threads() if task.device.type == "cpu" else 1
        shared = f" ({threads} threads)" if threads > 1 else ""
        needed = f"; about {format_bytes(task.memory())} of memory" if task.memory() else ""
        self._say(f"training {task.headline()}; {task.edges}; on {device_name(task.device)}{shared}{needed}")
        if task.device.type == "cpu" and task.for_gpu():
            self._say("warning: these settings are meant for a GPU; on a CPU they can take hours or days")

    def _continue(self) -> None:
        """Go to where the folder says the run is."""
        task, position = self.task, self.position
        if (self.folder.path / CHECKPOINT).exists():
            self.folder.read_checkpoint(task.parameters(), task.optimizer, position, self.loss)
            if task.keeps_best and position.best_round and not (self.folder.path / BEST).exists():
                raise CorruptStore(f"{self.folder.path / BEST} is missing; start over with ", Option("force"))
            self._say(f"continuing {task.where(position)}")
        self.folder.log({"event": "resumed" if position.step else "started", "step": position.step})

    def _train(self) -> bool:
        """Take steps until the run is over or time is up; whether it is over."""
        task, position = self.task, self.position
        self.saved = self.looked = self.clock()
        self.writing = 0.0  # seconds that the last checkpoint took
        self.first, self.estimated = (position.seconds, position.step), False
        self._show()
        while not task.over(position):
            with precision(task.config.precision, task.device, task.bilinear):
                loss, examples = task.step(position)
            # Summed on the device: asking for the number would make the GPU wait for Python at every step.
            self.loss += loss * examples
            position.examples += examples
            position.step += 1
            due = task.device.type == "cpu" or position.step % LOOK_EVERY == 0
            if due or task.rounds(position) > position.round or self.interrupted():
                self._look()
                if self.clock() >= self.until:
                    break
        return task.over(position)

    def _look(self) -> None:
        """Everything that happens between steps; it does not count as time of training."""
        task, position = self.task, self.position
        mean = float(self.loss) / position.examples
        position.seconds += self.clock() - self.looked
        if not math.isfinite(mean):
            raise TupletError(
                f"training diverged {task.where(position)}: the loss is {mean}; try a lower learning_rate"
            )
        ends = task.rounds(position)
        if ended := ends > position.round:
            self._end_round(ends, mean)
        self._show(mean)
        self._estimate()
        seconds = task.config.checkpoint_seconds
        # 0 seconds: one at the end of each round. A table that takes long to write is written less often.
        wait = max(seconds, self.writing / MOST_WRITING) if seconds else 0.0
        if (ended or seconds) and self.clock() - self.saved >= wait:
            self._save()
        if self.interrupted():
            self._save()
            raise Interrupted(self.folder.path, task.where(position))
        self.looked = self.clock()

    def _end_round(self, number: int, mean: float) -> None:
        task, position = self.task, self.position
        position.round, position.examples = number, 0
        self.loss.zero_()
        done, total, _ = task.amount(position)
        left = position.seconds / done * (total - done)
        record: dict[str, Any] = {"round": number, "step": position.step, "loss": mean, "done": done / total}
        record |= {"seconds": round(position.seconds, 3), "eta_seconds": round(left, 1)}
        if task.measures(position) and (measured := self._measure()) is not None:
            record["valid"] = measured
        self.folder.log(record)

    def _measure(self) -> Mapping[str, float] | None:
        """Measure; keep the parameters if they are the best so far."""
        position, began = self.position, self.clock()
        measured = self.task.measure()
        position.measure_seconds += self.clock() - began
        if measured is None:
            return None
        self.score = measured[0]
        if self.score > position.best:
            position.best, position.best_round, position.waiting = self.score, position.round, 0
            if self.task.keeps_best:
                write_sealed(self.folder.path / BEST, self.task.parameters())
        else:
            position.waiting += 1
        return measured[1]

    def _save(self) -> None:
        task, began = self.task, self.clock()
        self.folder.write_checkpoint(task.parameters(), task.optimizer, self.position, self.loss)
        self.saved = self.clock()
        self.writing = self.saved - began

    def _finish(self, finished: bool) -> dict[str, Any]:
        """Leave a model in the folder: the best one, or the last."""
        task, position = self.task, self.position
        if task.extensible or not finished:
            self._save()
        if task.keeps_best:
            if finished and not task.measures(position):
                self._measure()
            if position.best_round and (position.best_round != position.round or position.examples):
                self.folder.read_best(task.parameters())
        began = self.clock()
        results = task.results(position)
        position.measure_seconds += self.clock() - began
        meta = {
            "graph": self.about["graph"],
            "config": self.about["config"],
            "steps": position.step,
            "train_seconds": round(position.seconds, 3),
            "evaluate_seconds": round(position.measure_seconds, 3),
            "device": "cpu" if task.device.type == "cpu" else device_name(task.device),
            "finished": finished,
            **results,
        }
        description = save(task.model, self.folder.path, meta)
        self.folder.log({"event": "finished" if finished else "stopped", "step": position.step, **results})
        if finished and not task.extensible:
            for file in (CHECKPOINT, BEST):  # what only an unfinished run needs
                (self.folder.path / file).unlink(missing_ok=True)
        return description

    # What is seen ---------------------------------------------------------------------------------------------------

    def _say(self, sentence: str) -> None:
        self.report("train", 0, 0, sentence)

    def _show(self, loss: float | None = None) -> None:
        done, total, unit = self.task.amount(self.position)
        words = [unit]
        if loss is not None:
            words.append(f"loss {loss:.4f}")
        if self.score is not None:
            words.append(f"valid MRR {self.score:.4f}")
        self.report("train", min(done, total), total, ", ".join(words))

    def _estimate(self) -> None:
        """After some seconds, once: how long the whole will take."""
        task, position = self.task, self.position
        seconds, steps = position.seconds - self.first[0], position.step - self.first[1]
        if self.estimated or task.timed or seconds < ESTIMATE_AFTER:
            return
        self.estimated = True
        done, total, _ = task.amount(position)
        left = seconds / steps * (total - done)
        if left < WORTH_SAYING:
            return
        here = "this CPU" if task.device.type == "cpu" else device_name(task.device)
        self._say(f"about {duration(left)} on {here}")
        if task.device.type == "cpu" and left >= LONG:
            self._say(f"warning: that is long; {task.advice}")
