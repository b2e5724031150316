"""From facts to a store: read, train, index, and all of it in one go."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from tuplet.build_plan import MINUTES
from tuplet.errors import Argument, BadInput, unknown
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph
from tuplet.graph.newest import WINDOWS, NewestHoldOut, with_newest_valid
from tuplet.predict.config import TrainConfig, TrainFields, going_on, preset, suitable
from tuplet.progress import Report, counted, shown, sizes, told
from tuplet.read.mapping import Columns
from tuplet.settings import changed, keywords, to_mapping, unexpected
from tuplet.store import Graph, Store
from tuplet.truth.edges import OBSERVED
from tuplet.truth.store_folder import refuse_existing
from tuplet.truth.store_meta import LEARNED

if TYPE_CHECKING:
    from tuplet.predict.train import TrainingResult

PathLike = str | os.PathLike[str]

HELD_OUT = 0.05
ENOUGH_VALID = 350  # 300 are needed, among the candidates


def read(
    source: Any,
    valid: Any = None,
    test: Any = None,
    labels: PathLike | Sequence[PathLike] = (),
    columns: Columns | None = None,
    memory: int | None = None,
    header: bool | None = None,
    nodes: Any = (),
) -> Graph:
    """A graph from files, a dataset folder, a graph directory, a data frame, an Arrow table or tuples.

    A list of files or tables is one graph. `valid` and `test` are held-out facts in any of these forms, `labels` files
    of names and labels, `nodes` tables of entities: id, label, types, attributes. `columns` says which columns are
    head, relation, tail and perhaps truth, date and attributes, where their own names do not; or id, relations and
    attributes, if there is a row for each entity. `header` says whether the first line of a file is a header. Facts
    beyond `memory` bytes (by default a share of the machine's) wait on disk.
    """
    if isinstance(source, KnowledgeGraph):
        return source if isinstance(source, Graph) else Graph.made(source)
    if isinstance(source, str | os.PathLike) and (Path(source) / "manifest.json").exists():
        return Graph.made(KnowledgeGraph.open(source))
    from tuplet.read.read import read as read_graph

    return Graph.made(read_graph(source, valid, test, labels, columns, memory, header, nodes))


@keywords(TrainConfig, defaults=False)
def train(
    graph: KnowledgeGraph | PathLike,
    path: PathLike,
    *,
    config: TrainConfig | str | None = None,
    device: str = "auto",
    resume: bool = False,
    force: bool = False,
    progress: bool | Report = True,
    **settings: Unpack[TrainFields],
) -> TrainingResult:
    """Train a link predictor of a graph and leave it in the folder `path`; Ctrl-C safe, `resume=True` goes on.

    `config` is the settings or the name of a preset; without it the size of the graph chooses. Further keywords are the
    fields of `TrainConfig`: model, rank, epochs, seed, …
    """
    from tuplet.predict.train import train as train_model
    from tuplet.predict.training import RunOptions

    unexpected("train", TrainConfig, settings)
    whole = read(graph)
    chosen = None if resume and config is None and not settings else _settings(config, settings, whole)
    return train_model(whole, chosen, RunOptions(path, device, resume, force, progress))


def index(
    graph: KnowledgeGraph | PathLike,
    model: Any,
    path: PathLike,
    *,
    table: PathLike | None = None,
    threshold: float | None = None,
    calibration: str | None = None,
    observed: Sequence[str] = OBSERVED,
    on_demand: bool = False,
    other_graph: bool = False,
    device: str = "auto",
    memory: int | None = None,
    candidates: str | None = None,
    parts: PathLike | None = None,
    ray: str | None = None,
    predict_types: bool = False,
    force: bool = False,
    progress: bool | Report = True,
) -> Store:
    """A store from a graph and predictors: their scores become truth values, calibrated on the valid edges.

    `model` is what `train` returns, the folder of a model, any object with the `LinkPredictor` protocol, or the name of
    one (an entry point, or `module:Class`); or a list of several. `candidates` are the pairs that are scored:
    "half-links", "wide", "all", or by default the cheapest that hold nearly all valid edges; finished
    relations are kept in the folder `parts`, if there is one. `ray` is the address of a cluster that shares the work.
    With `table` (and `model=None`) truth values made elsewhere are taken from a Parquet file; a weighted graph needs
    neither. Types (node labels, rdf:type) are facts that are not predicted, unless `predict_types` asks for it.
    """
    from tuplet.truth.make import make, recipe_for

    models: list[Any] = list(model) if isinstance(model, list | tuple) else [] if model is None else [model]
    recipe = recipe_for(
        [getattr(one, "folder", one) for one in models],
        table,
        on_demand,
        threshold=threshold,
        calibration=calibration,
        observed=observed.split(",") if isinstance(observed, str) else observed,
        other_graph=other_graph,
        device=None if not models else _device(device),
        memory=memory,
        candidates=candidates,
        parts=parts,
        ray=ray,
    )
    whole = read(graph)
    if predict_types:
        whole = Graph.made(whole.predicting_types())
    with shown(progress) as report:
        return Store.of(make(whole, recipe, path, force, report))


@keywords(TrainConfig, defaults=False)
def build(
    source: Any,
    path: PathLike,
    *,
    columns: Columns | None = None,
    header: bool | None = None,
    nodes: Any = (),
    valid: Any = None,
    test: Any = None,
    labels: PathLike | Sequence[PathLike] = (),
    holdout: str = "random",
    minutes: float | None = None,
    predictors: Sequence[str] | str | None = None,
    train: bool = True,
    config: TrainConfig | str | None = None,
    device: str = "auto",
    threshold: float | None = None,
    calibration: str | None = None,
    keep_model: PathLike | None = None,
    predict_types: bool = False,
    memory: int | None = None,
    ray: str | None = None,
    force: bool = False,
    progress: bool | Report = True,
    **settings: Unpack[TrainFields],
) -> Store:
    """Read, train and index in one go; called again after an interruption it goes on where it stopped.

    The machine is timed, and the predictors, their sizes and the length of their training are chosen so that all of it
    takes at most `minutes` (15 if nothing is said); a small graph takes seconds. `predictors` are names such as
    ("complex", "paths") instead of those that fit. With `config` or further keywords, which are those of `train`, one
    predictor is trained with these settings, however long it takes, unless `minutes` are given too. With `train=False`
    nothing is trained: the path network that ships with the package reads its scores off the facts, and if `minutes` do
    not suffice for all of its rows, it computes the most useful ones, and the store says so.

    `source`, `columns`, `header`, `nodes`, `valid`, `test`, `labels` and `memory` are those of `read`, `threshold`,
    `calibration` and `ray` those of `index`; training stays here, and so do the rows of a graph so small that its facts
    are hidden in turn. Without a valid split, a twentieth of the facts (up to a tenth of a small graph) is
    held out while training, to know when to stop and to learn what a score is worth; with `holdout="newest"` the newest
    tenth of the facts that have dates, where that is few three times as much. All facts are observed in the store. A
    weighted graph brings its own truth values and is not trained. `keep_model` leaves the predictor there, or each in a
    folder there if they were chosen here.
    """
    began = time.monotonic()
    unexpected("build", TrainConfig, settings)
    refuse_existing(path, force)
    _refuse_wrong(holdout, minutes, predictors or settings.get("model"), threshold, calibration)
    if not train:
        given = {"predictors": predictors, "config": config, "keep_model": keep_model, **settings}
        _refuse_training([name for name, value in given.items() if value is not None and name != "seed"])
    target = Path(os.path.realpath(path))
    work = target.with_name(f".{target.name}.model")
    with shown(progress) as report:
        report("read", 0, 0, f"reading {source if isinstance(source, str | os.PathLike) else 'the facts'}")
        graph = read(source, valid, test, labels, columns, memory, header, nodes)
        for remark in (_sizes(graph), *graph.notes.get("report", {}).get("remarks", ())):
            report("read", 0, 0, remark)
        if predict_types:
            graph = Graph.made(graph.predicting_types())
        if graph.weighted:
            if holdout != "random":
                raise BadInput("a graph with given truth values is not trained: there is nothing to hold out")
            return _ready(index(graph, None, path, memory=memory, force=force, progress=report), report)
        from tuplet import build_packaged
        from tuplet.build_hold_outs import train_again, train_hold_outs, worth_hiding
        from tuplet.build_models import FREE_SETTINGS, ModelRequest, ModelRun
        from tuplet.truth.calibration.hold_out import PARTS
        from tuplet.truth.hold_out_recipe import HoldOutRecipe
        from tuplet.truth.make import PredictorRecipe, make, work_folder
        from tuplet.truth.predictor_choice import model_meta

        if holdout == "newest" and calibration is None:
            calibration = "learned"  # any other would promise what a random hold-out promises
        seed, learn = settings.get("seed") or 0, calibration in (None, LEARNED)
        newest = holdout == "newest" and calibration == LEARNED  # what is listed is then what comes next
        choices: dict[str, Any] = {"threshold": threshold, "calibration": calibration, "memory": memory}
        recipe: HoldOutRecipe | PredictorRecipe
        if not train:
            time_given = build_packaged.TimeGiven(minutes, began)
            if holdout == "random" and learn and worth_hiding(graph):
                recipe = build_packaged.recipe_in_turn(
                    graph, _device(device), seed, time_given, work_folder(path), report, **choices
                )
            else:
                graph = Graph.made(_held_out(graph, holdout, seed))
                windows = _windows(graph) if newest else 0
                recipe = build_packaged.recipe_at_once(
                    graph, _device(device), windows, time_given, work_folder(path), report, **choices, ray=ray
                )
            return _ready(Store.of(make(graph, recipe, path, force, report)), report)
        graph = Graph.made(_held_out(graph, holdout, seed))
        folder = Path(keep_model) if keep_model is not None else work
        run = ModelRun(graph, folder, device, keep_model is None, force, report)
        free = settings.keys() <= FREE_SETTINGS and config is None
        if free or minutes is not None or predictors is not None:
            chosen = settings if config is None else to_mapping(_settings(config, settings, graph))
            names = _names(predictors if predictors is not None else chosen.get("model"))
            request = ModelRequest(MINUTES if minutes is None else minutes, names, chosen, again=_windows(graph))
            models = run.planned(request)
        else:
            models = run.single(_settings(config, settings, graph))
        in_turn = holdout == "random" and learn and worth_hiding(graph)
        ready = list[Path]()
        if free and predictors is None:
            times = PARTS if in_turn else 1 + (_windows(graph) if newest else 0)
            left = build_packaged.seconds_left(time.monotonic() - began, minutes)
            ready = build_packaged.beside(graph, models, times, left, _device(device), work, report)
        if in_turn:
            recipe = HoldOutRecipe(
                train_hold_outs(run, graph, models, work / "hidden", _device(device), ready),
                tuple(model_meta(model, graph, False) for model in [*models, *ready]),
                **choices,
            )
        else:
            again = train_again(run, graph, models, work / "again") if newest else []
            later = [[*places, *ready] for places in again]
            recipe = PredictorRecipe([*models, *ready], device=_device(device), later=later, **choices, ray=ray)
        store = _ready(Store.of(make(graph, recipe, path, force, report)), report)
    shutil.rmtree(work, ignore_errors=True)
    return store


def _refuse_wrong(
    holdout: str,
    minutes: float | None,
    predictors: Sequence[str] | str | None,
    threshold: float | None,
    calibration: str | None,
) -> None:
    """Refuse what training or indexing would refuse, before anything is read.

    To know the names of predictors and calibrations takes a second, so it is done where one is given.
    """
    if holdout not in ("random", "newest"):
        raise unknown("hold-out", holdout, ("random", "newest"))
    if minutes is not None or predictors is not None:
        from tuplet.build_models import ModelRequest

        ModelRequest(MINUTES if minutes is None else minutes, _names(predictors))
    if threshold is not None or calibration is not None:
        from tuplet.truth.make import PredictorRecipe

        PredictorRecipe((), threshold=threshold, calibration=calibration)


def _ready(store: Store, report: Report) -> Store:
    """The same store, with all compiled that a first question needs: nobody waits for that later."""
    from tuplet.query import evidence

    with told(lambda text: report("compile", 0, 0, text)):
        store.engine()
        evidence.load()
        read([("a", "r", "b")]).ask("?x : r(?x, b)")  # the facts alone are searched, too
    return store


def _refuse_training(names: Sequence[str]) -> None:
    """Refuse what is about training where nothing is trained."""
    if names:
        raise BadInput(Argument(names[0]), " is about training, and nothing is trained here")


def _windows(graph: KnowledgeGraph) -> int:
    """How many windows of the newest facts are held out; 0 if others are."""
    newest = NewestHoldOut.of(graph)
    return 0 if newest is None else newest.windows


def _held_out(graph: KnowledgeGraph, holdout: str, seed: int) -> KnowledgeGraph:
    """The graph with the hold-out of that name."""
    if holdout == "newest":
        return with_newest_valid(graph, windows=WINDOWS)
    return with_valid(graph, _held_out_share(graph), seed)


def _held_out_share(graph: KnowledgeGraph) -> float:
    """A twentieth; up to a tenth where that makes enough of them to learn a calibration from."""
    wanted = ENOUGH_VALID / max(1, graph.split_edges["train"])
    return wanted if HELD_OUT < wanted <= 2 * HELD_OUT else HELD_OUT


def with_valid(graph: KnowledgeGraph, share: float, seed: int) -> KnowledgeGraph:
    """The same graph with a valid split, taken from train at random if it has none."""
    split = graph.split[graph.adjacency.triples()[3]]
    known = np.flatnonzero(split == SPLIT_CODE["train"])
    if (split == SPLIT_CODE["valid"]).any() or len(known) < 1 / share:
        return graph
    chosen = np.random.default_rng(seed).choice(known, size=int(share * len(known)), replace=False)
    split[chosen] = SPLIT_CODE["valid"]
    return graph.with_splits(split)


def _settings(config: TrainConfig | str | None, given: Mapping[str, Any], graph: KnowledgeGraph) -> TrainConfig:
    if given.get("start"):
        from tuplet.predict.model_folder import describe

        given = going_on(describe(given["start"]), given)
    chosen = preset(config) if isinstance(config, str) else config or _suitable(given, graph)
    return changed(chosen, given)


def _names(predictors: Sequence[str] | str | None) -> tuple[str, ...] | None:
    if isinstance(predictors, str):
        predictors = predictors.split(",")
    return None if predictors is None else tuple(name.strip().lower() for name in predictors)


def _suitable(given: Mapping[str, Any], graph: KnowledgeGraph) -> TrainConfig:
    return suitable(len(graph.edges("train")[0]), given.get("model") or TrainConfig().model)


def _sizes(graph: KnowledgeGraph) -> str:
    return f"{sizes(len(graph.entities), len(graph.relations))}, {counted(graph.adjacency.edges, 'fact')}"


def _device(name: str) -> str:
    from tuplet.predict.device import pick_device

    return str(pick_device(name))
