"""Which predictor a store is made of: a model folder, an object, or the name of one; and whether it fits the graph."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tuplet import settings
from tuplet.errors import BadInput, Option
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph
from tuplet.truth.store_meta import ModelMeta

if TYPE_CHECKING:
    from tuplet.predict.base import LinkPredictor

PathLike: TypeAlias = str | os.PathLike[str]


def open_predictors(
    models: Sequence[PathLike | LinkPredictor], graph: KnowledgeGraph, device: str, other_graph: bool
) -> tuple[dict[str, LinkPredictor], tuple[ModelMeta, ...]]:
    """The predictors by name, and what a store says about each; of one kind the second is called `complex-2`."""
    from tuplet.predict.base import kind_of

    opened: dict[str, LinkPredictor] = {}
    about = list[ModelMeta]()
    places: dict[Any, PathLike | LinkPredictor] = {}
    for model in models:
        predictor, meta = open_predictor(model, graph, device, other_graph)
        # Two columns that say the same would look like two scorers that agree.
        first = places.setdefault(meta.sha256 or (model if isinstance(model, str) else id(model)), model)
        if len(places) == len(about):
            raise BadInput(_twice(first, model, meta.kind))
        kind = kind_of(predictor)
        same = sum(name.split("-")[0] == kind for name in opened)
        opened[f"{kind}-{same + 1}" if same else kind] = predictor
        about.append(meta)
    return opened, tuple(about)


def _twice(first: PathLike | LinkPredictor, again: PathLike | LinkPredictor, kind: str) -> str:
    names = [os.fspath(model) if isinstance(model, str | os.PathLike) else kind for model in (first, again)]
    if names[0] == names[1]:
        return f"the model {names[0]} is given twice; give each once"
    return f"the models {names[0]} and {names[1]} are the same; give one of them"


def open_predictor(
    model: PathLike | LinkPredictor, graph: KnowledgeGraph, device: str, other_graph: bool
) -> tuple[LinkPredictor, ModelMeta]:
    """The predictor, opened or made if need be, and what a store says about it."""
    from tuplet.predict import model_folder
    from tuplet.predict.base import TrainingEdges, check_predictor

    if isinstance(model, str | os.PathLike):
        name = os.fspath(model)
        if Path(name).exists() or not (":" in name or name in settings.list_plugins("predictors")):
            about = model_meta(Path(name), graph, other_graph)
            return model_folder.load_for(TrainingEdges.from_graph(graph), Path(name), device), about
        from tuplet.predict.model_folder import make_predictor

        found, kind = check_predictor(make_predictor(name, graph)), name
    else:
        found, kind = check_predictor(model), type(model).__name__
    _refuse_sizes(graph, kind, {"entities": found.entities, "relations": found.relations})
    return found, ModelMeta(kind)


def model_meta(folder: Path, graph: KnowledgeGraph, other_graph: bool) -> ModelMeta:
    """What a store says about the model in a folder; a query model or one of another graph is refused."""
    from tuplet.predict import model_folder

    about = model_folder.describe(folder)
    model_folder.refuse_query_model(folder, about)
    if about["entities"]:  # one that reads any graph has none of its own
        _refuse_sizes(graph, folder, about)
    # Sizes may agree by chance, and then every name would get the scores of another.
    learned_from = about.get("graph")
    bound = about["entities"] and learned_from and not other_graph
    if bound and learned_from not in (graph.hash, _fingerprint(graph)):
        raise BadInput(
            f"{folder} was trained on another graph ({str(learned_from)[:12]}…, this one is {graph.hash[:12]}…); ",
            Option("other_graph"),
            " takes it if entities and relations have the same numbers in both",
        )
    return ModelMeta(about["kind"], about["sha256"], about.get("rank"), about.get("metrics"))


def _refuse_sizes(graph: KnowledgeGraph, model: object, about: Mapping[str, Any]) -> None:
    for what, have in zip(("entities", "relations"), (len(graph.entities), len(graph.relations)), strict=True):
        if about[what] != have:
            raise BadInput(f"{model} knows {about[what]:,} {what}, the graph has {have:,}: not trained on this graph")


def _fingerprint(graph: KnowledgeGraph) -> str:
    """What a model says of its graph if it was trained on arrays of edges alone."""
    from tuplet.predict.base import fingerprint

    return fingerprint({split: graph.edges(split) for split in SPLIT_CODE})
