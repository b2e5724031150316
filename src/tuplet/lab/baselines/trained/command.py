"""The body of `tuplet train --model betae|logice|cone|lmpnn`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tuplet import settings
from tuplet.errors import BadInput, unknown
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lab.baselines.trained.embedding import MODELS, model_class
from tuplet.lab.baselines.trained.train import QueryTrainConfig, QueryTrainingResult, train
from tuplet.predict.model_folder import load_embeddings
from tuplet.predict.training import CONFIG, RunOptions, stored_config
from tuplet.progress import Report
from tuplet.settings import changed, load
from tuplet.settings import given as flags_given

FLAGS = ("model", "steps", "minutes", "batch", "learning_rate", "seed")
NOT_OURS = ("preset", "rank", "epochs", "layers", "targets", "hide", "regularisation")


def asked(arguments: argparse.Namespace) -> bool:
    """Whether `tuplet train` is asked for a query model: by flag, by settings file, or by the run it continues."""
    name = arguments.model or _stored(arguments.config) or _stored(Path(arguments.output) / CONFIG, "config")
    known = (*settings.list_plugins("predictors"), *MODELS)
    if arguments.model and not {arguments.model, arguments.model.lower()} & {*known} and ":" not in arguments.model:
        raise unknown("model", arguments.model, known)
    mine = str(name).lower() in MODELS
    for flag in NOT_OURS if mine else ("minutes", "predictor"):
        if getattr(arguments, flag) is not None:
            raise BadInput(f"--{flag} is not for {name or 'link predictors'}; {_instead(mine)}")
    return mine


def _instead(mine: bool) -> str:
    if mine:
        return "a query model takes --minutes or --steps, --batch, --learning-rate, --seed, and --config for the rest"
    return f"it is for the query models ({', '.join(MODELS)})"


def _stored(path: str | Path | None, within: str | None = None) -> str | None:
    """The model that a JSON or TOML file of settings names, if it can be read; errors are told by who reads it."""
    try:
        if path is None:
            return None
        text = Path(path).read_text(encoding="utf-8")
        if Path(path).suffix == ".toml":
            import tomllib

            values: Any = tomllib.loads(text)
        else:
            values = json.loads(text)
        return (values[within] if within else values).get("model")  # type: ignore[no-any-return]
    except (OSError, ValueError, KeyError, AttributeError):
        return None


def run(arguments: argparse.Namespace, progress: bool | Report) -> QueryTrainingResult:
    """Train a query model of a graph."""
    graph = KnowledgeGraph.open(arguments.graph)
    given = {key: value for key, value in flags_given(arguments, QueryTrainConfig).items() if key in FLAGS}
    if "model" in given:
        given["model"] = given["model"].lower()
    for flag in ("steps", "minutes"):
        if given.get(flag) == 0:  # inside, 0 means that the other one decides
            raise BadInput(f"--{flag} is 0; it must be more")
    if arguments.config:
        config = changed(load(QueryTrainConfig, arguments.config), given)
    elif arguments.resume:
        config = changed(stored_config(arguments.output, QueryTrainConfig), given)
    else:
        config = QueryTrainConfig(**given)
    predictor = None
    if model_class(config.model).rests_on_predictor:
        if arguments.predictor is None:
            raise BadInput(
                f"{config.model} rests on a trained link predictor: --predictor MODEL (tuplet train --model complex)"
            )
        predictor = load_embeddings(arguments.predictor)
    elif arguments.predictor is not None:
        raise BadInput(f"--predictor is not for {config.model}, which learns its own tables")
    options = RunOptions(arguments.output, arguments.device, arguments.resume, arguments.force, progress)
    return train(graph, config, options, predictor)
