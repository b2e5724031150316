"""From facts to a store: read, hold out, choose a recipe, make.

A recipe is a frozen value that says how truth values come about: `Trained` and `Packaged` (here), `Facts`, `Given`,
`Predicted` and `OnDemand` (`truth.recipes`). What is hidden from predictors, to learn what their scores are worth, is a
field of it. `make(graph, recipe, path)` follows any of them; `build` and `index` choose one.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

import numpy as np

from tuplet.errors import Argument, BadInput, Option, unknown
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph
from tuplet.graph.newest import WINDOWS, NewestHoldOut, with_newest_valid
from tuplet.predict.config import MINUTES, TrainConfig, TrainFields, choose_settings, continue_settings, preset
from tuplet.progress import Report, announce_compiling, counted, shown, silent, sizes
from tuplet.read.mapping import Columns
from tuplet.settings import changed, keywords, to_mapping, unexpected
from tuplet.store import Graph, Store
from tuplet.truth.edges import OBSERVED
from tuplet.truth.recipes import Facts, Given, OnDemand, Predicted, Predictors, Recipe, list_predictors
from tuplet.truth.store_folder import StoreContent, StoreFiles, refuse_existing
from tuplet.truth.store_meta import LEARNED

if TYPE_CHECKING:
    from tuplet.predict.train import TrainingResult

PathLike: TypeAlias = str | os.PathLike[str]

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
        return source if isinstance(source, Graph) else Graph.from_graph(source)
    if isinstance(source, str | os.PathLike) and (Path(source) / "manifest.json").exists():
        return Graph.from_graph(KnowledgeGraph.open(source))
    from tuplet.read.read import read as read_graph

    return Graph.from_graph(read_graph(source, valid, test, labels, columns, memory, header, nodes))


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
    models: list[Any] = list(model) if isinstance(model, list | tuple) else [] if model is None else [model]
    recipe = choose_recipe(
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
        whole = Graph.from_graph(whole.predicting_types())
    with shown(progress) as report:
        return Store.from_files(make(whole, recipe, path, force, report))


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
    hold_out = HoldOutChoice(holdout, settings.get("seed") or 0, threshold, calibration)
    common: dict[str, Any] = {"hold_out": hold_out, "minutes": minutes, "device": device, "memory": memory}
    common |= {"ray": ray, "began": began}
    given = {"predictors": predictors, "config": config, "keep_model": keep_model, **settings}
    work = hidden_folder(path, "model")
    folder, names = Path(keep_model or work), _names(predictors)
    recipe: Trained | Packaged
    if train:
        chosen: dict[str, Any] = {"predictors": names, "config": config, "settings": settings}
        recipe = Trained(folder=folder, work=work, **chosen, force=force, **common)
    else:
        recipe = Packaged(unused=[name for name, value in given.items() if value is not None], **common)
    with shown(progress) as report:
        report("read", 0, 0, f"reading {source if isinstance(source, str | os.PathLike) else 'the facts'}")
        graph = read(source, valid, test, labels, columns, memory, header, nodes)
        size = f"{sizes(len(graph.entities), len(graph.relations))}, {counted(graph.adjacency.edges, 'fact')}"
        for remark in (size, *graph.notes.get("report", {}).get("remarks", ())):
            report("read", 0, 0, remark)
        if predict_types:
            graph = Graph.from_graph(graph.predicting_types())
        if graph.weighted:
            if holdout != "random":
                raise BadInput("a graph with given truth values is not trained: there is nothing to hold out")
            return _ready(make(graph, Facts(weighted=True), path, force, report), report)
        store = _ready(make(recipe.hide(graph), recipe, path, force, report), report)
    shutil.rmtree(work, ignore_errors=True)
    return store


def make(
    graph: KnowledgeGraph, recipe: Recipe, path: PathLike, force: bool = False, progress: Report = silent
) -> StoreFiles:
    """Write the store of a graph: the only way one comes to be.

    Called again with the same recipe after an interruption it goes on where it stopped: finished relations lie in a
    hidden folder beside the store until the store is written.
    """
    refuse_existing(path, force)
    work = hidden_folder(path, "work")
    content = recipe.content(graph, work, progress)
    store = StoreFiles.create(path, content, force)
    shutil.rmtree(work, ignore_errors=True)
    return store


def hidden_folder(path: PathLike, kind: str) -> Path:
    """Where finished work lies until the store is written."""
    target = Path(os.path.realpath(path))
    return target.with_name(f".{target.name}.{kind}")


def _ready(files: StoreFiles, report: Report) -> Store:
    """The store, with all compiled that a first question needs: nobody waits for that later."""
    from tuplet.query import evidence

    store = Store.from_files(files)
    with announce_compiling(lambda text: report("compile", 0, 0, text)):
        store.engine()
        evidence.load()
        read([("a", "r", "b")]).ask("?x : r(?x, b)")  # the facts alone are searched, too
    return store


# --- hold-outs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HoldOutChoice:
    """What is hidden from predictors to learn what their scores are worth, and what is learned from it.

    At random, a graph with few facts has each part of them hidden in turn; of one with many, a share is hidden. The
    newest facts are hidden window by window.
    """

    kind: str = "random"  # or newest
    seed: int = 0
    threshold: float | None = None
    calibration: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("random", "newest"):
            raise unknown("hold-out", self.kind, ("random", "newest"))
        if self.threshold is not None or self.calibration is not None:
            Predicted((), threshold=self.threshold, calibration=self.calibration)  # takes a second, so only if given

    @property
    def choices(self) -> dict[str, Any]:
        """For a recipe that calibrates; of the newest, nothing but learning promises what comes next."""
        calibration = LEARNED if self.kind == "newest" and self.calibration is None else self.calibration
        return {"threshold": self.threshold, "calibration": calibration}

    def hide(self, graph: KnowledgeGraph) -> Graph:
        """The graph with a valid split."""
        if self.kind == "newest":
            return Graph.from_graph(with_newest_valid(graph, windows=WINDOWS))
        return Graph.from_graph(with_valid(graph, _held_out_share(graph), self.seed))

    def in_turn(self, graph: KnowledgeGraph) -> bool:
        """Whether the graph is so small that its facts are hidden in turn."""
        from tuplet.truth.trained import worth_hiding

        return self.kind == "random" and self.calibration in (None, LEARNED) and worth_hiding(graph)

    def windows(self, graph: KnowledgeGraph) -> int:
        """After how many windows of the newest facts predictors are asked again; what is listed is what comes next."""
        return _windows(graph) if self.kind == "newest" and self.choices["calibration"] == LEARNED else 0


def _windows(graph: KnowledgeGraph) -> int:
    """How many windows of the newest facts are held out; 0 if others are."""
    newest = NewestHoldOut.from_graph(graph)
    return 0 if newest is None else newest.windows


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


# --- recipes that choose their predictors ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Timed:
    """What predictors that are chosen depend on: what is hidden from them, the time and the machine."""

    hold_out: HoldOutChoice
    minutes: float | None = None
    device: str = "auto"
    memory: int | None = None
    ray: str | None = None
    began: float = field(default_factory=time.monotonic)  # when the minutes did

    def hide(self, graph: KnowledgeGraph) -> Graph:
        """The graph with a valid split: to know when to stop, and what a score is worth."""
        return self.hold_out.hide(graph)


@dataclass(frozen=True, kw_only=True)
class Trained(Timed):
    """Predictors that are trained: those that fit into the time, those that are named, or one with given settings."""

    folder: Path  # of the models; nobody keeps them if it is …
    work: Path  # … the folder of what else is trained
    predictors: tuple[str, ...] | None = None
    config: TrainConfig | str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    force: bool = False

    def __post_init__(self) -> None:
        names = self.predictors or _names(self.settings.get("model"))
        if self.minutes is not None or names is not None:  # to know the names of predictors takes a second
            from tuplet.truth.trained import ModelRequest

            ModelRequest(MINUTES if self.minutes is None else self.minutes, names)  # refuses wrong ones early

    def content(self, graph: KnowledgeGraph, work: Path, progress: Report) -> StoreContent:
        from tuplet.predict.base import TrainingEdges
        from tuplet.truth.calibration.calibrate import PARTS
        from tuplet.truth.recipes import HeldOut, model_meta
        from tuplet.truth.trained import (
            FREE_SETTINGS,
            ModelRequest,
            ModelRun,
            beside,
            seconds_left,
            train_again,
            train_hold_outs,
        )

        device = _device(self.device)
        run = ModelRun(graph, self.folder, self.device, self.folder == self.work, self.force, progress)
        free = self.settings.keys() <= FREE_SETTINGS and self.config is None
        if free or self.minutes is not None or self.predictors is not None:
            given = self.settings if self.config is None else to_mapping(_settings(self.config, self.settings, graph))
            names = self.predictors or _names(given.get("model"))
            minutes = MINUTES if self.minutes is None else self.minutes
            models = run.train_planned(ModelRequest(minutes, names, given, again=_windows(graph)))
        else:
            run.train(TrainingEdges.from_graph(graph), run.folder, _settings(self.config, self.settings, graph))
            models = [run.folder]
        in_turn, windows, ready = self.hold_out.in_turn(graph), self.hold_out.windows(graph), list[Path]()
        if free and self.predictors is None:
            times = PARTS if in_turn else 1 + windows
            left = seconds_left(time.monotonic() - self.began, MINUTES if self.minutes is None else self.minutes)
            ready = beside(graph, models, times, left, device, self.work, progress)
        choices, recipe = self.hold_out.choices | {"memory": self.memory}, None
        if in_turn:
            hold_outs = train_hold_outs(run, models, self.work / "hidden", device, ready)
            about = tuple(model_meta(model, graph, False) for model in [*models, *ready])
            return HeldOut(hold_outs, about, **choices).content(graph, work, progress)
        again = train_again(run, models, self.work / "again") if windows else []
        later = [[*places, *ready] for places in again]
        recipe = Predicted([*models, *ready], device=device, later=later, ray=self.ray, **choices)
        return recipe.content(graph, work, progress)


@dataclass(frozen=True, kw_only=True)
class Packaged(Timed):
    """The network that ships with the package, which needs no training."""

    unused: Sequence[str] = ()  # arguments about training, which there must not be

    def __post_init__(self) -> None:
        if self.minutes is not None:
            from tuplet.truth.trained import ModelRequest

            ModelRequest(self.minutes)  # refuses a wrong one early
        if names := [name for name in self.unused if name != "seed"]:
            raise BadInput(Argument(names[0]), " is about training, and nothing is trained here")

    def hide(self, graph: KnowledgeGraph) -> Graph:
        """The graph with a valid split, unless its facts are hidden in turn."""
        return Graph.from_graph(graph) if self.hold_out.in_turn(graph) else self.hold_out.hide(graph)

    def content(self, graph: KnowledgeGraph, work: Path, progress: Report) -> StoreContent:
        from tuplet.truth.trained import TimeGiven, recipe_at_once, recipe_in_turn

        given, choices = TimeGiven(self.minutes, self.began), self.hold_out.choices | {"memory": self.memory}
        where = graph, _device(self.device), given, work, progress
        recipe: Recipe
        if self.hold_out.in_turn(graph):
            recipe = recipe_in_turn(*where, self.hold_out.seed, **choices)
        else:
            recipe = recipe_at_once(*where, self.hold_out.windows(graph), **choices, ray=self.ray)
        return recipe.content(graph, work, progress)


def choose_recipe(
    model: Predictors | None = None, table: PathLike | None = None, on_demand: bool = False, **choices: Any
) -> Facts | Given | OnDemand | Predicted:
    """The recipe that these arguments of `index` ask for; `choices` are fields of recipes, None where nothing is said.

    It needs no graph: what is wrong with the arguments is said before anything is read.
    """
    for name in choices:
        if name not in (
            known := {one.name for recipe in (Facts, Given, OnDemand, Predicted) for one in fields(recipe)}
        ):
            raise unknown("argument of index", name, sorted(known))
    models = list_predictors(model)

    def taken(recipe: type[Facts] | type[Given] | type[OnDemand] | type[Predicted]) -> dict[str, Any]:
        names = {one.name for one in fields(recipe)}
        return {name: value for name, value in choices.items() if name in names and value is not None}

    if table is not None and models:
        raise BadInput("give either a model or ", Option("table", None), ", not both")
    if not models and on_demand:
        raise BadInput(Option("on_demand"), " needs a model (tuplet train)")
    if not models and table is None and choices.get("calibration") is not None:
        raise BadInput(Option("calibration", None), " needs a model (tuplet train)")
    if table is not None:
        return Given(table, **taken(Given))
    if not models:
        return Facts(**taken(Facts), weighted=True)
    if on_demand and len(models) > 1:
        raise BadInput(Option("on_demand"), f" takes one model, not {len(models)}")
    if on_demand:
        return OnDemand(models[0], **taken(OnDemand))  # type: ignore[arg-type]  # refused there
    return Predicted(models, **taken(Predicted))


def _settings(config: TrainConfig | str | None, given: Mapping[str, Any], graph: KnowledgeGraph) -> TrainConfig:
    if given.get("start"):
        from tuplet.predict.model_folder import describe

        given = continue_settings(describe(given["start"]), given)
    if isinstance(config, str):
        config = preset(config)
    elif config is None:
        config = choose_settings(len(graph.edges("train")[0]), given.get("model") or TrainConfig().model)
    return changed(config, given)


def _names(predictors: Sequence[str] | str | None) -> tuple[str, ...] | None:
    if isinstance(predictors, str):
        predictors = predictors.split(",")
    return None if predictors is None else tuple(name.strip().lower() for name in predictors)


def _device(name: str) -> str:
    from tuplet.predict.device import pick_device

    return str(pick_device(name))
