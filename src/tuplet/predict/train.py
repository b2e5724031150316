"""Training of a link predictor: which task it is, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict.base import TrainingEdges
from tuplet.predict.config import TrainConfig, choose_settings
from tuplet.predict.device import pick_device
from tuplet.predict.embeddings import EmbeddingModel
from tuplet.predict.evaluate import LinkMetrics
from tuplet.predict.link_task import LinkTask
from tuplet.predict.model_folder import TrainedPredictor, load_for, trained_class
from tuplet.predict.paths.model import AnyGraphModel
from tuplet.predict.paths.task import AnyGraphTask, PathTask
from tuplet.predict.training import RunOptions, Task, TrainingRun, read_config


@dataclass(frozen=True)
class TrainingResult:
    """A link predictor and its filtered metrics by split."""

    model: TrainedPredictor
    metrics: dict[str, LinkMetrics]
    epochs: float
    train_seconds: float
    evaluate_seconds: float
    folder: Path


def train(graph: KnowledgeGraph | TrainingEdges, settings: TrainConfig | None, options: RunOptions) -> TrainingResult:
    """Train a link predictor on the train split, watch valid, measure valid and test, leave a model in the folder.

    Without settings, a run that is continued brings its own, and the size of the graph chooses those of a new one.
    """
    edges, device = TrainingEdges.from_graph(graph), pick_device(options.device)
    if settings is None and options.resume:
        settings = read_config(options.folder, TrainConfig)
    settings = settings or choose_settings(edges.count("train"))
    about = TrainingRun(make_task(edges, settings, device), options).complete()
    return TrainingResult(
        load_for(edges, options.folder, device),
        {split: LinkMetrics(**values) for split, values in about["metrics"].items()},
        about["epochs"],
        about["train_seconds"],
        about["evaluate_seconds"],
        Path(options.folder),
    )


def make_task(edges: TrainingEdges, config: TrainConfig, device: torch.device) -> Task:
    """What is trained by these settings."""
    kind = trained_class(config.model)
    if issubclass(kind, EmbeddingModel):
        return LinkTask(edges, config, device)
    return (AnyGraphTask if kind is AnyGraphModel else PathTask)(edges, config, device)
