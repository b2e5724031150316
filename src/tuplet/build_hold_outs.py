"""The same predictors anew, on other facts: of a graph with few facts, five times with a fifth of them hidden; of one
whose newest facts were held out, on what came to be known.

They are trained as long as the predictors before were until these were best, so nothing that is hidden decides
anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tuplet.build_models import ModelRun
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.newest import NewestHoldOut, as_of
from tuplet.predict.config import TrainConfig
from tuplet.predict.edges import TrainingEdges
from tuplet.predict.model_folder import describe, load_for
from tuplet.predict.predictors import trained_class
from tuplet.predict.run_folder import stored_config
from tuplet.progress import Report
from tuplet.truth.calibration.fit import LEAST_VALID
from tuplet.truth.calibration.hold_out import PARTS, hide_in_turn
from tuplet.truth.hold_out_recipe import HoldOut

CHEAP = 20.0  # seconds that all trainings for hidden parts may take in any case
MOST_FACTS = 20_000  # with more, five more trainings are not cheap; what few valid edges bear out has to do


def worth_hiding(graph: KnowledgeGraph) -> bool:
    """Whether the graph is so small that its facts are hidden in turn."""
    valid = graph.split_edges["valid"]
    return valid < LEAST_VALID and graph.split_edges["train"] + valid <= MOST_FACTS


def train_hold_outs(
    run: ModelRun, graph: KnowledgeGraph, models: Sequence[Path], folder: Path, device: str, ready: Sequence[Path] = ()
) -> list[HoldOut]:
    """For each part of the facts that is hidden in turn, predictors like `models` that did not see it.

    `ready` are models that need no training: they read their scores off the facts that are not hidden.
    """
    settings = {model.name: as_long(model) for model in affordable(models, run.report)}
    seed = next(iter(settings.values())).seed
    parts, found = hide_in_turn(graph.edges("train", "valid"), seed), []
    for number, part in enumerate(parts):
        edges = TrainingEdges({"train": part.known}, len(graph.entities), len(graph.relations))
        scorers = {}
        for name, config in settings.items():
            run.report("hold-outs", number, len(parts), f"predictors that do not see a part ({config.model})")
            place = folder / str(number) / name
            replace(run, own=True, report=_quiet).train(edges, place, config)
            scorers[config.model] = load_for(edges, place, device)
        for place in ready:
            scorers[describe(place)["kind"]] = load_for(edges, place, device)
        found.append(HoldOut(part, scorers))
    if parts:
        run.report("hold-outs", len(parts), len(parts), "predictors that do not see a part")
    return found


def train_again(run: ModelRun, graph: KnowledgeGraph, models: Sequence[Path], folder: Path) -> list[list[Path]]:
    """Predictors like `models`, which know what came before the newest facts, at the end of each window of these.

    One that reads its scores off the facts is the same at any time.
    """
    newest, found = NewestHoldOut.of(graph), list[list[Path]]()
    for number in range(1, 1 + (newest.windows if newest else 0)):
        edges, places = TrainingEdges.of(as_of(graph, number)), list[Path]()
        for model in models:
            config = as_long(model)
            if getattr(trained_class(config.model), "sees_facts", False):
                places.append(model)
                continue
            run.report("train", 0, 0, f"{config.model} learns anew, as long, from {edges.count('train'):,} facts")
            places.append(folder / str(number) / model.name)
            replace(run, own=True).train(edges, places[-1], config)
        found.append(places)
    return found


def affordable(models: Sequence[Path], report: Report) -> list[Path]:
    """The predictors that are trained for every part: the cheapest, and others while that takes no longer than before.

    Measured on the bundled graph: five of the cheap kind, each blind to a part, are better than one of each kind.
    """
    seconds = {model: float(describe(model).get("train_seconds", 0.0)) for model in models}
    left, chosen = max(CHEAP, sum(seconds.values())), list[Path]()
    for model in sorted(models, key=lambda model: seconds[model]):
        again = PARTS * seconds[model]
        if chosen and again > left:
            report("hold-outs", 0, 0, f"{model.name} would take too long to train {PARTS} times: it is left out")
            continue
        chosen.append(model)
        left -= again
    return chosen


def as_long(model: Path) -> TrainConfig:
    """The settings of a trained predictor, with no more passes over the facts than it needed to be best."""
    config, about = stored_config(model, TrainConfig), describe(model)
    best = float(about.get("best_epoch") or about["epochs"])
    steps = max(1, round(config.steps * best / max(best, float(about["epochs"])))) if config.steps else 0
    return replace(config, epochs=max(1, round(best)), steps=steps, evaluate_every=0, patience=0)


def _quiet(step: str, done: float, total: float, note: str) -> None:
    """Five trainings in a row are one step of the work."""
