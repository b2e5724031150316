"""Training of link predictors: which task it is, in one process or in several, and what comes of it."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tuplet.errors import BadInput
from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict.config import TrainConfig, suitable
from tuplet.predict.device import pick_device
from tuplet.predict.edges import TrainingEdges
from tuplet.predict.embeddings import EmbeddingModel
from tuplet.predict.evaluate import LinkMetrics
from tuplet.predict.link_task import LinkTask
from tuplet.predict.model_folder import TrainedPredictor, describe, load_for
from tuplet.predict.paths.any_graph_task import AnyGraphTask
from tuplet.predict.paths.model import AnyGraphModel
from tuplet.predict.paths.task import PathTask
from tuplet.predict.predictors import trained_class
from tuplet.predict.process_group import Command, ProcessGroup
from tuplet.predict.run_folder import stored_config
from tuplet.predict.sharded import ShardedLinkTask
from tuplet.predict.training import RunOptions, Task, TrainingRun


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
    edges, device = TrainingEdges.of(graph), pick_device(options.device)
    if settings is None and options.resume:
        settings = stored_config(options.folder, TrainConfig)
    settings = settings or suitable(edges.count("train"))
    group = ProcessGroup.joined(device)
    if group is None:
        about = TrainingRun(task_for(edges, settings, device), options).complete()
    else:
        about = _together(edges, settings, group, options)
    return TrainingResult(
        load_for(edges, options.folder, device),
        {split: LinkMetrics(**values) for split, values in about["metrics"].items()},
        about["epochs"],
        about["train_seconds"],
        about["evaluate_seconds"],
        Path(options.folder),
    )


def _together(edges: TrainingEdges, settings: TrainConfig, group: ProcessGroup, options: RunOptions) -> dict[str, Any]:
    """The training of several processes; every one of them returns what model.json says."""
    if not issubclass(trained_class(settings.model), EmbeddingModel):
        raise BadInput(f"several processes train models that are tables, such as complex, not {settings.model}")
    task = ShardedLinkTask(edges, settings, group)
    if not group.leads:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the leader stops at the end of a step, and says so
        task.follow()
        return describe(options.folder)
    try:
        return TrainingRun(task, options).complete()
    finally:
        group.say(Command.END)


def task_for(edges: TrainingEdges, config: TrainConfig, device: torch.device) -> Task:
    """What is trained by these settings."""
    kind = trained_class(config.model)
    if issubclass(kind, EmbeddingModel):
        return LinkTask(edges, config, device)
    return (AnyGraphTask if kind is AnyGraphModel else PathTask)(edges, config, device)
