"""A directory is a query model: `model.safetensors` (its parameters), `model.json` (what they are), `MODEL.md`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from tuplet._version import __version__
from tuplet.baselines.trained.embedding import MODELS, QueryModel, Settings, create
from tuplet.errors import BadInput, CorruptStore
from tuplet.files import write_json, write_text
from tuplet.predict.model_folder import (
    CARD,
    DESCRIPTION,
    FORMAT_VERSION,
    TENSORS,
    describe,
    read_tensors,
    write_tensors,
)
from tuplet.settings import from_mapping


def save(model: QueryModel, folder: str | Path, name: str, meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write the model into `folder` with what is known about it; returns all of `model.json`, which is written last."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DESCRIPTION).unlink(missing_ok=True)  # from here until the end it is no model
    digest = write_tensors(folder / TENSORS, model.state_dict())
    description = {
        "format": "tuplet model",
        "version": FORMAT_VERSION,
        "kind": name,
        "entities": model.entity_count,
        "relations": model.relation_count,
        "rank": model.settings.dim,
        "norm": 0,
        "settings": asdict(model.settings),
        "sha256": digest,
        "tuplet": __version__,
        **(meta or {}),
    }
    write_text(folder / CARD, model_card(description), force=True)
    write_json(folder / DESCRIPTION, description, force=True)
    return description


def load(folder: str | Path, device: torch.device | str = "cpu") -> QueryModel:
    """Open a query model, ready to be asked."""
    folder = Path(folder)
    description = describe(folder)
    name = description["kind"]
    if name not in MODELS:
        raise BadInput(f"{folder} is a {name} link predictor; the query models are {', '.join(MODELS)} (tuplet train)")
    tensors = read_tensors(folder / TENSORS, "cpu", description["sha256"])
    try:
        settings = from_mapping(Settings, description["settings"], str(folder / DESCRIPTION))
        model = create(name, description["entities"], description["relations"], settings)
        model.load_state_dict({key: value.float() for key, value in tensors.items()})
    except (BadInput, KeyError, RuntimeError) as error:
        raise CorruptStore(f"{folder}: {DESCRIPTION} and {TENSORS} do not fit together: {error}") from None
    return model.to(device).eval()


def model_card(description: Mapping[str, Any]) -> str:
    """A short card: what the model is, how it was trained, how good it is on valid queries."""
    lines = [
        f"# {MODELS[description['kind']]}",
        "",
        f"A query model of tuplet {description['tuplet']}: {description['entities']:,} entities, "
        f"{description['relations']:,} relations in both directions.",
        "",
        f"- graph: `{description.get('graph', 'unknown')}`",
        f"- settings: {', '.join(f'{key} {value}' for key, value in description['settings'].items())}",
    ]
    if "steps" in description:
        lines.append(
            f"- training: {description['steps']:,} steps, {description['queries']:,} queries, "
            f"{description['train_seconds']:.1f} s on {description['device']}"
        )
    if description.get("valid_mrr"):
        lines += ["", "Filtered MRR of the hard answers of valid queries:", "", "| type | MRR |", "|---|---|"]
        lines += [f"| {name} | {value:.4f} |" for name, value in description["valid_mrr"].items()]
    return "\n".join(lines) + "\n"
