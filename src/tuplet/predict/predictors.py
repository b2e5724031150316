"""Link predictors by name: ours, and those of other packages by entry points of the group `tuplet.predictors`.

An entry is one of two things:

- a subclass of `EmbeddingModel` (or `PathModel`) whose `kind` is the name of the entry: `tuplet train --model NAME`
  trains it and `index` opens its folder, like ours;
- anything else that can be called as `entry(entities, relations, settings)`, with two numbers and a `TrainConfig`: it
  gives an object with the `LinkPredictor` protocol, which `index` takes as it is. If the object has a method
  `fit(edges)`, that is called first with the `TrainingEdges` of the graph. `module:Class` will do for these.
"""

from __future__ import annotations

from typing import Any

from tuplet import settings as registry
from tuplet.errors import BadInput, unknown
from tuplet.graph.graph import KnowledgeGraph
from tuplet.predict.base import LinkPredictor
from tuplet.predict.config import TrainConfig
from tuplet.predict.edges import TrainingEdges
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


def ready(name: str, graph: KnowledgeGraph, settings: TrainConfig | None = None) -> LinkPredictor:
    """A predictor that needs no training by us, made for a graph."""
    found = entry(name, modules=True)
    if is_trained(found):
        raise BadInput(f"{name} has to be trained first: tuplet train --model {name}")
    edges = TrainingEdges.of(graph)
    try:
        predictor: Any = found(edges.entities, edges.relations, settings or TrainConfig())
    except TypeError as error:
        raise BadInput(f"{name} cannot be called with (entities, relations, settings): {error}") from None
    if hasattr(predictor, "fit"):
        predictor.fit(edges)
    made: LinkPredictor = predictor
    return made
