"""The folder of a training run on disk, and what may be continued.

config.json             settings and what they are for (graph, sizes)
log.jsonl               the learning curve, only ever appended to
checkpoint.safetensors  parameters, optimizer and position, replaced as a whole
best.safetensors        the parameters with the best measurement so far
model.safetensors, model.json, MODEL.md   the result (`model_folder`)
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tuplet.errors import BadInput, CorruptStore, Option, PathExists, TupletError
from tuplet.files import clean_leftovers, system_errors, write_json
from tuplet.predict.model_folder import (
    CARD,
    DESCRIPTION,
    TENSORS,
    describe,
    read_tensors,
    write_tensors,
)
from tuplet.settings import Settings, from_mapping

CONFIG, LOG, CHECKPOINT, BEST = "config.json", "log.jsonl", "checkpoint.safetensors", "best.safetensors"
SEAL = "crc32"
OURS = (CONFIG, LOG, CHECKPOINT, BEST, TENSORS, DESCRIPTION, CARD)
FREE_KEYS = frozenset({"checkpoint_seconds", "minutes"})  # settings that do not change the result


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
                raise BadInput(
                    f"{path} already exists; ",
                    Option("resume"),
                    " continues its run, ",
                    Option("force"),
                    " starts over",
                )
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
        parameters: Mapping[str, torch.Tensor],
        optimizer: torch.optim.Optimizer,
        position: Mapping[str, Any],
        loss: torch.Tensor,
    ) -> None:
        """All that a step changes, in one file, replaced as a whole."""
        tensors = {f"model.{name}": parameter for name, parameter in parameters.items()}
        for name, parameter in parameters.items():
            for key, value in optimizer.state[parameter].items():
                tensors[f"optimizer.{name}.{key}"] = torch.as_tensor(value)
        tensors["loss"] = loss
        tensors["position"] = torch.tensor(list(json.dumps(position).encode()), dtype=torch.uint8)
        write_sealed(self.path / CHECKPOINT, tensors)

    def read_checkpoint(
        self, parameters: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer, loss: torch.Tensor
    ) -> dict[str, Any]:
        """Put a checkpoint back into the parameters, the optimizer and the loss; returns the position."""
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
            position: dict[str, Any] = json.loads(bytes(tensors["position"].tolist()))
        except (KeyError, RuntimeError, ValueError, TypeError, AttributeError) as error:
            raise CorruptStore(f"{file}: not a checkpoint of this run: {error}") from None
        return position

    def write_best(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """Keep the parameters as the best so far."""
        write_sealed(self.path / BEST, parameters)

    def read_best(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """Put the best parameters back."""
        tensors = read_sealed(self.path / BEST)
        try:
            for name, parameter in parameters.items():
                parameter.data.copy_(tensors[name])
        except (KeyError, RuntimeError) as error:
            raise CorruptStore(f"{self.path / BEST}: not of this run: {error}") from None

    def clean(self) -> None:
        """Remove what only an unfinished run needs."""
        for file in (self.path / CHECKPOINT, self.path / BEST):
            file.unlink(missing_ok=True)

    def _clean_leftovers(self) -> None:
        """Remove what a killed writer left."""
        for name in OURS:
            clean_leftovers(self.path / name)

    def _refuse_other_run(self) -> None:
        stored, wanted, path = stored_run(self.path), self.about, self.path
        if stored.get("graph") != wanted["graph"]:
            raise OtherRun(
                f"cannot continue {path}: it was trained on another graph ({str(stored.get('graph'))[:12]}…)"
            )
        for key in ("entities", "relations", "train_edges"):
            if stored.get(key) != wanted[key]:
                raise OtherRun(f"cannot continue {path}: {key} was {stored.get(key)}, now it is {wanted[key]}")
        for key, value in wanted["config"].items():
            if key not in FREE_KEYS and stored["config"].get(key) != value:
                raise OtherRun(f"cannot continue {path}: {key} was {stored['config'].get(key)}, now it is {value}")


def stored_run(folder: str | os.PathLike[str]) -> dict[str, Any]:
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


def stored_config(folder: str | os.PathLike[str], kind: type[Settings]) -> Settings:
    """The settings of the run in `folder`."""
    return from_mapping(kind, stored_run(folder)["config"], f"{Path(folder) / CONFIG}")


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
