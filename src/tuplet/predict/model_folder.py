"""A directory is a model: `model.safetensors` (its numbers), `model.json` (what they are), `MODEL.md` (for people).

Link predictors and query models have the same form; a query model has `settings` in its description. `model.json` is
written last and holds the checksum of the numbers: a folder without it is no model yet.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from tuplet import settings as registry
from tuplet._version import __version__
from tuplet.errors import BadInput, CorruptStore, Option, hint, unknown
from tuplet.files import make_folder, reason, system_errors, write_bytes, write_json, write_text
from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict.base import LinkPredictor, TrainingEdges
from tuplet.predict.config import PACKAGED, TrainConfig
from tuplet.predict.embeddings import EmbeddingModel


def entry(name: str, modules: bool = False) -> Any:
    """What is registered by that name in any case, or is at `module:Class`.

    >>> entry("compelx")
    Traceback (most recent call last):
    tuplet.errors.UnknownName: unknown model 'compelx'; did you mean 'complex'?
    """
    known = registry.list_plugins("predictors")
    for one in (name, name.lower()):
        if one in known or (modules and ":" in one):
            return registry.load_class("predictors", one, modules)
    raise unknown("model", name, known)


def trained_class(name: str) -> type[Any]:
    """The model of that name: what can be trained and kept in a folder.

    A folder says only the name, and must not make us import a module that it names; so `module:Class` is refused.
    """
    if ":" in name:
        raise BadInput(f"{name}: a model to be trained needs an entry point of the group tuplet.predictors")
    found = entry(name)
    if not is_trained(found):
        raise BadInput(f"{name} is not trained by tuplet; give it to index in place of a model folder")
    if found.kind != name.lower():
        raise BadInput(f"the model {name} calls itself {found.kind}: its kind must be the name of its entry point")
    kind: type[Any] = found
    return kind


def is_trained(found: Any) -> bool:
    """Whether an entry is a model that we train, and not a predictor that is ready."""
    return isinstance(found, type) and hasattr(found, "stored")


def model_class(name: str) -> type[EmbeddingModel]:
    """The embedding model of that name."""
    found = trained_class(name)
    if not issubclass(found, EmbeddingModel):
        raise BadInput(f"{name} has no embeddings of entities; a model such as complex is needed here")
    return found


def make_predictor(name: str, graph: KnowledgeGraph) -> LinkPredictor:
    """A predictor that needs no training by us, made for a graph."""
    found = entry(name, modules=True)
    if is_trained(found):
        raise BadInput(f"{name} has to be trained first: tuplet train --model {name}")
    edges = TrainingEdges.from_graph(graph)
    try:
        predictor: Any = found(edges.entities, edges.relations, TrainConfig())
    except TypeError as error:
        raise BadInput(f"{name} cannot be called with (entities, relations, settings): {error}") from None
    if hasattr(predictor, "fit"):
        predictor.fit(edges)
    made: LinkPredictor = predictor
    return made


TENSORS, DESCRIPTION, CARD = "model.safetensors", "model.json", "MODEL.md"
FORMAT_VERSION = 1


def find_model_folder(model: str | os.PathLike[str]) -> Path:
    """The folder of a model: itself, or the one that ships with the package if it is called `packaged`.

    >>> find_model_folder("my.model").name, find_model_folder("packaged").parent.name
    ('my.model', 'paths')
    """
    return Path(__file__).parent / "paths" / PACKAGED if os.fspath(model) == PACKAGED else Path(model)


class StorableModel(Protocol):
    """What can be a model folder."""

    def tensors(self) -> Mapping[str, Tensor]:
        """Its numbers by name."""

    def about(self) -> dict[str, Any]:
        """What they are: `kind`, `entities`, `relations`, `rank`, and what is needed to open it again."""


class TrainedPredictor(LinkPredictor, StorableModel, Protocol):
    """A link predictor of a model folder."""

    @property
    def device(self) -> torch.device: ...

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """The same elsewhere or in another precision."""


def save(model: StorableModel, folder: str | os.PathLike[str], meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write the model into `folder` with what is known about it (graph, metrics, …); returns all of `model.json`."""
    folder = Path(folder)
    with system_errors(folder):
        make_folder(folder)
        (folder / DESCRIPTION).unlink(missing_ok=True)  # from here until the end it is no model
    digest = write_tensors(folder / TENSORS, model.tensors())
    description = {
        "format": "tuplet model",
        "version": FORMAT_VERSION,
        **model.about(),
        "sha256": digest,
        "tuplet": __version__,
        **(meta or {}),
    }
    write_text(folder / CARD, model_card(description), force=True)
    write_json(folder / DESCRIPTION, description, force=True)
    return description


def load(
    folder: str | os.PathLike[str], device: torch.device | str = "cpu", dtype: torch.dtype | None = torch.float32
) -> TrainedPredictor:
    """Open a link predictor; numbers kept in half precision are widened to `dtype` (None keeps them as they are)."""
    folder = find_model_folder(folder)
    description = describe(folder)
    refuse_query_model(folder, description)
    tensors = read_tensors(folder / TENSORS, device, description["sha256"])
    try:
        model: TrainedPredictor = trained_class(description["kind"]).stored(tensors, description)
    except (BadInput, KeyError, RuntimeError) as error:
        raise CorruptStore(f"{folder}: {DESCRIPTION} and {TENSORS} do not fit together: {error}") from None
    if (model.entities, model.relations) != (description["entities"], description["relations"]):
        raise CorruptStore(f"{folder}: {DESCRIPTION} and {TENSORS} disagree about the number of entities or relations")
    return model.to(dtype=dtype)


def load_embeddings(folder: str | os.PathLike[str], device: torch.device | str = "cpu") -> EmbeddingModel:
    """Open a link predictor that has a row of numbers for each entity."""
    model = load(folder, device)
    if not isinstance(model, EmbeddingModel):
        raise BadInput(f"{folder} has no embeddings of entities; a model such as complex is needed here")
    return model


def load_for(
    edges: TrainingEdges, folder: str | os.PathLike[str], device: torch.device | str = "cpu"
) -> TrainedPredictor:
    """Open a link predictor of a graph; one that reads its scores off the train edges is given them."""
    model = load(folder, device)
    bind = getattr(model, "on", None)
    bound: TrainedPredictor = bind(edges) if bind else model
    return bound


def refuse_query_model(folder: str | os.PathLike[str], description: Mapping[str, Any]) -> None:
    """Query models are folders of the same form, but score whole queries instead of edges."""
    if "settings" in description:
        raise BadInput(
            f"{folder} is a {description['kind']} query model; a link predictor is needed here (tuplet train)"
        )


def describe(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """What `model.json` says, checked for form; the tables are not read."""
    file = find_model_folder(folder) / DESCRIPTION
    if not file.parent.is_dir():
        around = file.parent.parent
        beside = around.iterdir() if around.is_dir() else ()
        near = [PACKAGED, *(str(other) for other in beside if (other / DESCRIPTION).exists())]
        raise BadInput(f"no such model: {folder}{hint(os.fspath(folder), near)}")
    try:
        description = json.loads(file.read_bytes())
    except FileNotFoundError:
        if (file.parent / "config.json").exists():
            unfinished = "its training has not finished; continue it with "
            raise CorruptStore(f"{folder} is not a tuplet model: {unfinished}", Option("resume")) from None
        raise CorruptStore(f"{folder} is not a tuplet model: it has no {DESCRIPTION}") from None
    except (OSError, ValueError, RecursionError):
        raise CorruptStore(f"{file}: not readable as JSON; the model is damaged") from None
    if not isinstance(description, dict) or description.get("format") != "tuplet model":
        raise CorruptStore(f"{file}: does not describe a tuplet model")
    if not isinstance(description.get("version"), int) or description["version"] > FORMAT_VERSION:
        raise CorruptStore(f"{file}: written by a newer tuplet ({description.get('tuplet')}); this is {__version__}")
    wanted = {"kind": str, "entities": int, "relations": int, "sha256": str}
    for key, kind in wanted.items():
        if not isinstance(description.get(key), kind):
            raise CorruptStore(f"{file}: {key!r} is missing or of the wrong type")
    return description


def write_tensors(file: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> str:
    """Write safetensors atomically; returns the SHA-256 of the file."""
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    data = safetensors.torch.save(ready, dict(metadata or {}))
    write_bytes(file, data, force=True)
    return hashlib.sha256(data).hexdigest()


def read_tensors(file: Path, device: torch.device | str = "cpu", sha256: str | None = None) -> dict[str, Tensor]:
    """All tensors of a safetensors file; an unreadable or changed file is CorruptStore."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise CorruptStore(f"{file} is missing") from None
    except OSError as error:
        raise BadInput(f"cannot read {file}: {reason(error)}") from None
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise CorruptStore(f"{file}: checksum does not match; the file is truncated, edited or damaged")
    try:
        tensors: dict[str, Tensor] = safetensors.torch.load(data)
    except (SafetensorError, ValueError, KeyError, OverflowError) as error:
        raise CorruptStore(f"{file}: not a readable safetensors file: {error}") from None
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def model_card(description: Mapping[str, Any]) -> str:
    """A short card: what the model is, what it was made from, how good it is."""
    about = description
    whole = "A query model" if "settings" in about else "A link predictor"
    sizes = f"{about['entities']:,} entities, {about['relations']:,} relations in both directions"
    lines = [f"# {about['kind']}, rank {about['rank']}", "", f"{whole} of tuplet {about['tuplet']}: {sizes}.", ""]
    lines.append(f"- graph: `{about.get('graph', 'unknown')}`")
    if "source" in about:
        lines.append(f"- adopted from: {about['source']}")
    for key, words in (("settings", "settings"), ("config", "trained with")):
        if key in about:
            lines.append(f"- {words}: {', '.join(f'{name} {value}' for name, value in about[key].items())}")
    if "train_seconds" in about:
        what, count = ("epochs", about["epochs"]) if "epochs" in about else ("steps", about["steps"])
        lines.append(f"- training: {count:,} {what}, {about['train_seconds']:.1f} s on {about['device']}")
    metrics: Mapping[str, Mapping[str, float]] = about.get("metrics", {})
    if metrics:
        lines += ["", "Filtered ranking, both directions, ties by expected rank:", ""]
        lines += ["| split | edges | MRR | Hits@1 | Hits@3 | Hits@10 |", "|---|---|---|---|---|---|"]
        for split, m in metrics.items():
            values = " | ".join(f"{m[key]:.4f}" for key in ("mrr", "hits_at_1", "hits_at_3", "hits_at_10"))
            lines.append(f"| {split} | {m['edges']:,} | {values} |")
    if about.get("valid_mrr"):
        lines += ["", "Filtered MRR of the hard answers of valid queries:", "", "| type | MRR |", "|---|---|"]
        lines += [f"| {name} | {value:.4f} |" for name, value in about["valid_mrr"].items()]
    return "\n".join(lines) + "\n"
