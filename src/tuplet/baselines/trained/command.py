"""The body of `tuplet train --model betae|logice|cone|lmpnn`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tuplet.baselines.trained.embedding import MODELS
from tuplet.baselines.trained.trainer import QueryTrainConfig, TrainedQueries, stored_config, train
from tuplet.errors import BadInput, nearest
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph
from tuplet.predict import embeddings as models
from tuplet.predict import model_folder as files
from tuplet.predict import runs
from tuplet.settings import changed, load
from tuplet.settings import given as flags_given

FLAGS = ("model", "steps", "minutes", "batch", "learning_rate", "seed")
NOT_OURS = ("preset", "rank", "epochs", "regularisation")


def asked(arguments: argparse.Namespace) -> bool:
    """Whether `tuplet train` is asked for a query model: by flag, by settings file, or by the run it continues."""
    name = arguments.model or _stored(arguments.config) or _stored(Path(arguments.output) / runs.CONFIG, "config")
    known = (*models.MODELS, *MODELS)
    if arguments.model and arguments.model.lower() not in known:
        close = nearest(arguments.model.lower(), known) or list(known)
        raise BadInput(f"unknown model {arguments.model!r}; did you mean {' or '.join(map(repr, close))}?")
    mine = str(name).lower() in MODELS
    for flag in NOT_OURS if mine else ("steps", "minutes", "predictor"):
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


def run(arguments: argparse.Namespace, told: Callable[[str, float, float, str], None] | None) -> TrainedQueries:
    """Train a query model of a graph."""
    graph = KnowledgeGraph.open(arguments.graph)
    edges = {split: graph.edges(split) for split in SPLIT_CODE}
    given = {key: value for key, value in flags_given(arguments, QueryTrainConfig).items() if key in FLAGS}
    if "model" in given:
        given["model"] = given["model"].lower()
    for flag in ("steps", "minutes"):
        if given.get(flag) == 0:  # inside, 0 means that the other one decides
            raise BadInput(f"--{flag} is 0; it must be more")
    if arguments.config:
        config = changed(load(QueryTrainConfig, arguments.config), given)
    elif arguments.resume:
        config = changed(stored_config(arguments.output), given)
    else:
        config = QueryTrainConfig(**given)
    predictor = None
    if config.model == "lmpnn":
        if arguments.predictor is None:
            raise BadInput("lmpnn rests on a trained link predictor: --predictor MODEL (tuplet train --model complex)")
        predictor = files.load(arguments.predictor)
    elif arguments.predictor is not None:
        raise BadInput(f"--predictor is for lmpnn; {config.model} learns its own tables")

    def progress(record: Any) -> None:
        if told is not None:
            valid = f", valid MRR {record['valid']['mean']:.4f}" if "valid" in record else ""
            told(
                "train",
                100 * min(1.0, record["done"]),
                100,
                f"step {record['step']:,}, loss {record['loss']:.4f}{valid}",
            )

    return train(
        edges,
        len(graph.entities),
        len(graph.relations),
        config,
        arguments.output,
        arguments.device,
        predictor=predictor,
        resume=arguments.resume,
        force=arguments.force,
        progress=progress,
        graph_hash=graph.hash,
    )
