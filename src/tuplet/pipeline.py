"""From facts to a store: train, adopt, index, and all of it in one go."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tuplet.errors import BadInput, CorruptStore, TupletError
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph
from tuplet.truth.store_folder import StoreFiles, refuse_existing
from tuplet.truth.table import OBSERVED

if TYPE_CHECKING:
    from tuplet.predict.train import Trained
    from tuplet.settings import TrainConfig

Told = Callable[[str, float, float, str], None]  # what is being done, how much of how much, a remark

HELD_OUT = 0.05


@dataclass(frozen=True)
class Options:
    """How `build` trains and indexes; without a `config` the size of the graph chooses one."""

    config: TrainConfig | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # keys of the config to change, such as {"epochs": 5}
    device: str = "auto"
    threshold: float | None = None  # 0.0005 if the calibration is learned, else 0.005
    calibration: str | None = None  # learned if there are enough valid edges, else softmax-count
    seed: int = 0


def build(
    source: Any,
    path: str | os.PathLike[str],
    *,
    valid: Any = None,
    test: Any = None,
    labels: Sequence[str | os.PathLike[str]] = (),
    options: Options | None = None,
    keep_model: str | os.PathLike[str] | None = None,
    force: bool = False,
    told: Told | None = None,
) -> StoreFiles:
    """Import, train and index in one go; called again after an interruption it goes on where it stopped.

    Without a valid split, a twentieth of the facts is held out while training, to know when to stop; all facts are
    observed in the store. A weighted graph brings its own truth values and is not trained.
    """
    from tuplet.predict.runs import Interrupted
    from tuplet.truth.make import index, index_facts

    chosen = options or Options()
    refuse_existing(path, force)
    graph = _read(source, valid, test, labels)
    if graph.weighted:
        return index_facts(graph, path, force=force)
    graph = with_valid(graph, HELD_OUT, chosen.seed)
    target = Path(os.path.realpath(path))
    work = target.with_name(f".{target.name}.model")
    config = _config(chosen, int((graph.split == SPLIT_CODE["train"]).sum() // 2))
    folder = Path(keep_model) if keep_model is not None else work
    try:
        _train_on(graph, folder, config, chosen.device, own=keep_model is None, force=force, told=told)
    except Interrupted as stop:
        raise TupletError(f"{stop.what}; the same command goes on from there") from None
    store = index(
        graph,
        folder,
        path,
        chosen.threshold,
        chosen.calibration,
        device=_device(chosen.device),
        force=force,
        progress=_counted("index", told),
    )
    shutil.rmtree(work, ignore_errors=True)
    return store


def _train_on(
    graph: KnowledgeGraph,
    folder: Path,
    config: TrainConfig,
    device: str,
    own: bool,
    force: bool,
    told: Told | None,
) -> None:
    """Train in `folder`, from where an earlier call stopped; in a folder of our own any other run is replaced."""
    from tuplet.predict.runs import OtherRun

    resume = folder.exists() and (own or not force)
    try:
        train(graph, folder, config, device, resume, force, told)
    except (OtherRun, CorruptStore):
        if not own:
            raise
        shutil.rmtree(folder)
        train(graph, folder, config, device, told=told)


def _config(options: Options, train_edges: int) -> TrainConfig:
    from tuplet.settings import changed, suitable

    return changed(options.config or suitable(train_edges), options.settings)


def train(
    graph: KnowledgeGraph,
    folder: str | os.PathLike[str],
    config: TrainConfig | None = None,
    device: str = "auto",
    resume: bool = False,
    force: bool = False,
    told: Told | None = None,
) -> Trained:
    """Train a link predictor of the graph in `folder`."""
    from tuplet.predict.train import train as train_model

    edges = {split: graph.edges(split) for split in SPLIT_CODE}
    if not len(edges["train"][0]):
        raise BadInput("the graph has no train edges: there is nothing to learn from")
    sizes = (len(graph.entities), len(graph.relations))
    tell = None if told is None else _epochs(told)
    return train_model(edges, *sizes, config, Path(folder), device, resume, tell, graph.hash, force)


def with_valid(graph: KnowledgeGraph, share: float, seed: int) -> KnowledgeGraph:
    """The same graph with a valid split, taken from train at random if it has none."""
    heads, relation, tails, entry = graph.adjacency.triples()
    split = graph.split[entry].copy()
    known = np.flatnonzero(split == SPLIT_CODE["train"])
    if (split == SPLIT_CODE["valid"]).any() or len(known) < 1 / share:
        return graph
    chosen = np.random.default_rng(seed).choice(known, size=int(share * len(known)), replace=False)
    split[chosen] = SPLIT_CODE["valid"]
    weight = None if graph.weight is None else graph.weight[entry]
    return KnowledgeGraph.of(graph.entities, graph.relations, heads, relation, tails, split, weight, graph.notes)


def _read(source: Any, valid: Any, test: Any, labels: Sequence[str | os.PathLike[str]]) -> KnowledgeGraph:
    if isinstance(source, KnowledgeGraph):
        return source
    if isinstance(source, str | os.PathLike) and (Path(source) / "manifest.json").exists():
        return KnowledgeGraph.open(source)
    from tuplet.graph.readers.read import read

    return read(source, valid=valid, test=test, labels=labels)


def _device(name: str) -> str:
    from tuplet.predict.train import pick_device

    return str(pick_device(name))


def _counted(label: str, told: Told | None) -> Callable[[int, int], None] | None:
    return None if told is None else lambda done, total: told(label, done, total, "relations")


def _epochs(told: Told) -> Callable[[Mapping[str, Any]], None]:
    def tell(event: Mapping[str, Any]) -> None:
        valid = event.get("valid")
        note = f"epochs, valid MRR {valid['mrr']:.3f}" if valid else "epochs"
        told("train", event["epoch"], event["epochs"], note)

    return tell


__all__ = ["OBSERVED", "Options", "build", "train", "with_valid"]
