"""A directory is a model: `model.safetensors` (the tables), `model.json` (what they are), `MODEL.md` (for people).

`model.json` is written last and holds the checksum of the tables: a folder without it is no model yet.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError

from tuplet._version import __version__
from tuplet.errors import BadInput, CorruptStore
from tuplet.files import reason, write_bytes, write_json, write_text
from tuplet.predict.embeddings import EmbeddingModel, model_class

TENSORS, DESCRIPTION, CARD = "model.safetensors", "model.json", "MODEL.md"
FORMAT_VERSION = 1


def save(model: EmbeddingModel, folder: str | Path, meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write the model into `folder` with what is known about it (graph, metrics, …); returns all of `model.json`."""
    folder = Path(folder)
    digest = write_tensors(folder / TENSORS, {"entity": model.entity, "relation": model.relation})
    description = {
        "format": "tuplet model",
        "version": FORMAT_VERSION,
        "kind": model.kind,
        "entities": model.entities,
        "relations": model.relations,
        "rank": model.rank,
        "norm": model.norm,
        "dtype": str(model.entity.dtype).removeprefix("torch."),
        "sha256": digest,
        "tuplet": __version__,
        **(meta or {}),
    }
    write_text(folder / CARD, model_card(description), force=True)
    write_json(folder / DESCRIPTION, description, force=True)
    return description


def load(
    folder: str | Path, device: torch.device | str = "cpu", dtype: torch.dtype | None = torch.float32
) -> EmbeddingModel:
    """Open a model; tables kept in half precision are widened to `dtype` (None keeps them as they are on disk)."""
    folder = Path(folder)
    description = describe(folder)
    refuse_query_model(folder, description)
    tensors = read_tensors(folder / TENSORS, device, description["sha256"])
    try:
        kind = model_class(description["kind"])
        model = kind(tensors["entity"], tensors["relation"], description["norm"])
    except (BadInput, KeyError) as error:
        raise CorruptStore(f"{folder}: {DESCRIPTION} and {TENSORS} do not fit together: {error}") from None
    if (model.entities, model.relations) != (description["entities"], description["relations"]):
        raise CorruptStore(f"{folder}: {DESCRIPTION} and {TENSORS} disagree about the number of entities or relations")
    return model.to(dtype=dtype)


def refuse_query_model(folder: str | Path, description: Mapping[str, Any]) -> None:
    """Query models are folders of the same form, but score whole queries instead of edges."""
    if "settings" in description:
        raise BadInput(
            f"{folder} is a {description['kind']} query model; a link predictor is needed here (tuplet train)"
        )


def describe(folder: str | Path) -> dict[str, Any]:
    """What `model.json` says, checked for form; the tables are not read."""
    file = Path(folder) / DESCRIPTION
    if not file.parent.is_dir():
        raise BadInput(f"no such model: {folder}")
    try:
        description = json.loads(file.read_bytes())
    except FileNotFoundError:
        unfinished = (file.parent / "config.json").exists()
        note = "its training has not finished; continue it with --resume" if unfinished else f"it has no {DESCRIPTION}"
        raise CorruptStore(f"{folder} is not a tuplet model: {note}") from None
    except (OSError, ValueError, RecursionError):
        raise CorruptStore(f"{file}: not readable as JSON; the model is damaged") from None
    if not isinstance(description, dict) or description.get("format") != "tuplet model":
        raise CorruptStore(f"{file}: does not describe a tuplet model")
    if not isinstance(description.get("version"), int) or description["version"] > FORMAT_VERSION:
        raise CorruptStore(f"{file}: written by a newer tuplet ({description.get('tuplet')}); this is {__version__}")
    wanted = {"kind": str, "entities": int, "relations": int, "norm": int, "sha256": str}
    for key, kind in wanted.items():
        if not isinstance(description.get(key), kind):
            raise CorruptStore(f"{file}: {key!r} is missing or of the wrong type")
    return description


def write_tensors(file: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None = None) -> str:
    """Write safetensors atomically; returns the SHA-256 of the file."""
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    data = safetensors.torch.save(ready, dict(metadata or {}))
    write_bytes(file, data, force=True)
    return hashlib.sha256(data).hexdigest()


def read_tensors(file: Path, device: torch.device | str = "cpu", sha256: str | None = None) -> dict[str, torch.Tensor]:
    """All tensors of a safetensors file; an unreadable or changed file is CorruptStore."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise CorruptStore(f"{file} is missing") from None
    except OSError as error:
        raise BadInput(f"cannot read {file}: {reason(error)}") from None
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise CorruptStore(f"{file}: checksum does not fit; the file is truncated, edited or damaged")
    try:
        tensors: dict[str, torch.Tensor] = safetensors.torch.load(data)
    except (SafetensorError, ValueError, KeyError, OverflowError) as error:
        raise CorruptStore(f"{file}: not a readable safetensors file: {error}") from None
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def model_card(description: Mapping[str, Any]) -> str:
    """A short card: what the model is, what it was made from, how good it is."""
    lines = [
        f"# {description['kind']}, rank {description['rank']}",
        "",
        f"A link predictor of tuplet {description['tuplet']}: {description['entities']:,} entities, "
        f"{description['relations']:,} relations (each with a reciprocal row), {description['dtype']}.",
        "",
        f"- graph: `{description.get('graph', 'unknown')}`",
    ]
    if "source" in description:
        lines.append(f"- adopted from: {description['source']}")
    if "config" in description:
        settings = ", ".join(f"{key} {value}" for key, value in description["config"].items())
        lines.append(f"- trained with: {settings}")
    if "epochs" in description:
        lines.append(f"- training: {description['epochs']} epochs, {description['train_seconds']:.1f} s")
    metrics: Mapping[str, Mapping[str, float]] = description.get("metrics", {})
    if metrics:
        lines += ["", "Filtered ranking, both directions, ties by expected rank:", ""]
        lines += ["| split | edges | MRR | Hits@1 | Hits@3 | Hits@10 |", "|---|---|---|---|---|---|"]
        for split, m in metrics.items():
            values = " | ".join(f"{m[key]:.4f}" for key in ("mrr", "hits_at_1", "hits_at_3", "hits_at_10"))
            lines.append(f"| {split} | {m['edges']:,} | {values} |")
    return "\n".join(lines) + "\n"
