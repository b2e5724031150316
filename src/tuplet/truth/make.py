"""From a graph and a recipe for truth to a store that answers queries.

There are four recipes: a link predictor whose scores are calibrated and tabulated, the same predictor asked on demand,
a table made elsewhere, and the stated facts alone. `make` follows any of them.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import numpy as np

from tuplet.errors import BadInput, Option, unknown
from tuplet.files import make_folder
from tuplet.graph.arrays import FolderWriter
from tuplet.graph.graph import KIND as GRAPH
from tuplet.graph.graph import KnowledgeGraph, known_splits
from tuplet.graph.newest import as_of
from tuplet.progress import Report
from tuplet.truth.assemble import write_table
from tuplet.truth.calibration.reliability import table_reliability
from tuplet.truth.edges import HIGHEST_PREDICTION, OBSERVED, Predictions
from tuplet.truth.hold_out_recipe import HoldOutRecipe, bounded, missing_rows
from tuplet.truth.learned_content import learned_content
from tuplet.truth.predictor_choice import model_meta, open_predictors
from tuplet.truth.scored import SearchCheck
from tuplet.truth.store_folder import RowSource, StoreContent, StoreFiles, graph_sizes, refuse_existing, table_writer
from tuplet.truth.store_meta import GIVEN, LEARNED, StoreMeta, StoreReport
from tuplet.truth.table import KIND as TABLE
from tuplet.truth.table import TruthTable

if TYPE_CHECKING:
    from tuplet.predict.base import LinkPredictor
    from tuplet.truth.candidates.scorer import RowLimit
    from tuplet.truth.candidates.sources import CandidateSources, TwoStepPairs
    from tuplet.truth.rules import Calibration
    from tuplet.truth.scored import ScoredEdges

PathLike: TypeAlias = str | os.PathLike[str]
Predictors: TypeAlias = "PathLike | LinkPredictor | Sequence[PathLike | LinkPredictor]"  # one, or several

# The edges that a calibration counts are those the predictor learned from, whatever is observed when asking: so valid
# and test edges stay unseen until they are used to fit (valid) or to report (valid or test).
COUNTED = ("train",)
PLAIN_THRESHOLD = 0.005  # of a calibration that is not learned


@dataclass(frozen=True)
class FactsRecipe:
    """The facts of a graph: truth 1, in a weighted graph the given truth. Nothing is predicted."""

    observed: Sequence[str] = OBSERVED
    weighted: bool = False  # whether a graph without given truth is refused

    def content(self, graph: KnowledgeGraph, work: Path, progress: Report | None) -> StoreContent:
        """What the store is made of."""
        splits = known_splits(self.observed)
        if self.weighted and not graph.weighted:
            raise BadInput(
                "give a model (tuplet train, tuplet adopt) or ",
                Option("table", None),
                "; only a weighted graph needs none",
            )

        def meta(graph: KnowledgeGraph, table: TruthTable) -> StoreMeta:
            return StoreMeta(graph.hash, splits, 0.0, report=_report(graph, table, splits))

        return StoreContent(graph, table_writer(graph, splits, None, 0.0), meta)


@dataclass(frozen=True)
class TableRecipe:
    """A truth table made elsewhere; see `GivenTable`.

    Its values are taken as they are, unless `calibration` is "learned": then one is learned from the valid edges on top
    of them, which the file must list as if they were unknown.
    """

    file: PathLike
    observed: Sequence[str] = OBSERVED
    threshold: float | None = None
    calibration: str | None = None
    memory: int | None = None  # bytes of the file that are held at a time; the rest waits on disk

    def __post_init__(self) -> None:
        _check_threshold(self.threshold)
        if self.calibration not in (None, LEARNED, GIVEN):
            raise unknown("calibration of a table", self.calibration, (LEARNED, GIVEN))

    def content(self, graph: KnowledgeGraph, work: Path, progress: Report | None) -> StoreContent:
        """What the store is made of."""
        from tuplet.truth.parquet import GivenTable

        splits, learn = known_splits(self.observed), self.calibration == LEARNED
        if learn:
            _why_not_learned(graph, LEARNED)
        least = None if learn else self.threshold
        make_folder(work.parent)
        given = GivenTable.read(self.file, graph, splits, least, self.memory, work.parent)
        if learn:
            edges = given.table().predictions()
            return self._learned(given.agreeing_graph(), edges, splits, progress)

        def table(folder: Path) -> str:
            with FolderWriter(folder, TABLE) as writer:
                write_table(writer, len(graph.entities), given.relations(), given.double)
                return writer.finish({"entities": len(graph.entities), "threshold": given.least})

        def agreeing(folder: Path) -> str:
            if not given.differing:
                given.close()
                graph.save(folder)
                return graph.hash
            with FolderWriter(folder, GRAPH) as writer:
                meta = given.write_graph(writer)
                given.close()
                return writer.finish(meta)

        def meta(graph: KnowledgeGraph, table: TruthTable) -> StoreMeta:
            report = _report(graph, table, splits)
            return StoreMeta(graph.hash, splits, table.threshold, table=str(self.file), report=report)

        return StoreContent(agreeing, table, meta)

    def _learned(
        self, graph: KnowledgeGraph, edges: Predictions, splits: tuple[str, ...], progress: Report | None
    ) -> StoreContent:
        """A store whose calibration is learned on top of the given values."""
        from tuplet.truth.calibration.calibrate import marked

        sure = edges.prediction[marked(graph, "valid", *edges[:3])]
        if len(sure) and np.mean(sure >= HIGHEST_PREDICTION) > 0.5:
            # it was made by somebody who knew them, so it says nothing about what is unknown
            _not_learned("the file lists valid edges as certain, not as if they were unknown", LEARNED)
        _too_few(graph, edges, LEARNED)
        return learned_content(graph, edges, splits, self.threshold, table=str(self.file), progress=progress)


@dataclass(frozen=True)
class PredictorRecipe:
    """The edges that one or several link predictors hold for true, calibrated.

    A predictor is a model folder, any object with the `LinkPredictor` protocol, or the name of one (an entry point of
    the group `tuplet.predictors`, or `module:Class`). A folder that was trained on another graph is refused, unless
    `other_graph` says that its entities and relations have the same numbers. Without a `calibration` one is learned
    from the valid edges; if these are too few, they bound what is promised, and without any nothing predicted is listed
    (`hold_out_recipe`). Without a `threshold` it is 0.005 for a rule that was asked for by name, else 0.0005.
    """

    predictor: Predictors
    observed: Sequence[str] = OBSERVED
    threshold: float | None = None
    calibration: str | None = None
    other_graph: bool = False
    device: str = "cpu"  # where a model folder is opened; an object computes where it lies
    memory: int | None = None  # bytes of scores held at a time
    candidates: str | None = None  # half-links, wide, nearest, all; None: the cheapest with nearly all valid edges
    later: Sequence[Sequence[PathLike]] = ()  # the same predictors at the end of each window of the newest facts
    parts: PathLike | None = None  # a folder of finished relations, made elsewhere or before; it is kept
    ray: str | None = None  # the address of a Ray cluster that scores relations
    limit: RowLimit | None = None  # of the rows, where these are dear and the time is limited

    def __post_init__(self) -> None:
        from tuplet.truth.candidates.sources import KINDS

        if self.candidates not in (None, *KINDS):
            raise unknown("kind of candidates", self.candidates, KINDS)
        _check_threshold(self.threshold)
        _rule(self.calibration)

    def content(self, graph: KnowledgeGraph, work: Path, progress: Report | None) -> StoreContent:
        """What the store is made of; finished relations lie in `work`, so that another call continues from there."""
        from tuplet.predict.base import scores_columns
        from tuplet.truth.candidates.score import FLOOR, finished_relations, score_candidates
        from tuplet.truth.candidates.sources import choose, join_rules

        splits, rule = known_splits(self.observed), _rule(self.calibration)
        why = _why_not_learned(graph, self.calibration)
        scorers, about = open_predictors(_listed(self.predictor), graph, self.device, self.other_graph)
        least = PLAIN_THRESHOLD if self.threshold is None else self.threshold
        counted = graph.edges(*COUNTED)
        choice = choose(*graph_sizes(graph), counted, graph.edges("valid"), self.candidates, scorers.values())
        floor = least if why == "" else max(choice.floor, min(FLOOR, 4 * least))
        choice, two_step = join_rules(choice, *graph_sizes(graph), counted, graph.edges("valid"), self.candidates)
        if self.limit is not None:
            choice = replace(choice, sources=self.limit.within(choice.sources, counted))
        if progress:
            progress("index", 0, 0, str(choice))
        folder, hashes = work if self.parts is None else Path(self.parts), [model.sha256 for model in about]
        cache = finished_relations(folder, hashes, choice.sources, floor, rule, counted)
        if progress and self.parts is not None and cache is not None and not cache.begun:
            progress("index", 0, 0, f"{self.parts} holds no relations of these models, candidates and threshold yet")
        if self.ray is not None:
            from tuplet.truth.candidates.cluster_parts import ScoredCandidates, score_on_cluster

            folders = _listed(self.predictor)
            wanted = ScoredCandidates(choice.sources, floor, rule, self.memory, two_step)
            score_on_cluster(self.ray, graph, COUNTED, folders, scorers, wanted, cache, progress)
        scores = score_candidates(
            scorers, counted, choice.sources, floor, rule, self.memory, cache, progress, two_step, self._until(0)
        )
        scores = replace(scores, floor=choice.floor if why != "" else 0.0)
        if why is None:
            why = _too_few(graph, scores, self.calibration)
        whole = [name for name, scorer in scorers.items() if not scores_columns(scorer)]
        told = choice.as_dict() | {"listed": len(scores)} | ({"whole_rows": whole} if whole else {})
        if scores.searched:
            told |= {"search": sum(scores.searched.values(), SearchCheck()).as_dict()}
        if why is None:
            later = [
                self._later(number, as_of(graph, number), choice.sources, two_step, floor, work, progress)
                for number in range(1, 1 + len(self.later))
            ]
            told |= missing_rows([scores, *later])
            over = self.limit.over if self.limit else math.inf
            return learned_content(graph, scores, splits, self.threshold, about, None, told, progress, later, over)
        told |= missing_rows([scores])
        if why:
            return bounded(graph, scores, splits, self.threshold, why, about, told)
        edges = scores.predictions().reaching(least)

        def meta(graph: KnowledgeGraph, table: TruthTable) -> StoreMeta:
            report = replace(_report(graph, table, splits, as_if_unknown=True), candidates=told)
            return StoreMeta(graph.hash, splits, table.threshold, rule.as_dict(), about, report=report)

        may_miss = scores.may_miss(len(graph.relations), least)
        return StoreContent(graph, table_writer(graph, splits, edges, least, may_miss), meta)

    def _until(self, number: int) -> float:
        """When the rows of the graph as it was at the end of a window must be computed; 0: before the first."""
        return self.limit.sweep(1 + len(self.later) - number) if self.limit else math.inf

    def _later(
        self,
        number: int,
        graph: KnowledgeGraph,
        sources: CandidateSources,
        two_step: TwoStepPairs | None,
        floor: float,
        work: Path,
        progress: Report | None,
    ) -> ScoredEdges:
        """What predictors say of the same candidates of a graph as it was later."""
        from tuplet.truth.candidates.score import finished_relations, score_candidates

        rule, counted = _rule(self.calibration), graph.edges(*COUNTED)
        scorers, about = open_predictors(_listed(self.later[number - 1]), graph, self.device, other_graph=True)
        pairs = None if two_step is None else two_step.counted_on(counted)
        cache = finished_relations(work, [model.sha256 for model in about], sources, floor, rule, counted)
        return score_candidates(
            scorers, counted, sources, floor, rule, self.memory, cache, progress, pairs, self._until(number)
        )


@dataclass(frozen=True)
class OnDemandRecipe:
    """No table: the store keeps a copy of a model folder and computes rows when asked, by a rule.

    Unless a rule is asked for by name, no prediction is above what the valid edges in some rows bear out.
    """

    model: PathLike
    observed: Sequence[str] = OBSERVED
    threshold: float | None = None
    calibration: str | None = None
    other_graph: bool = False

    def __post_init__(self) -> None:
        _check_threshold(self.threshold)
        if not isinstance(self.model, str | os.PathLike):
            name = type(self.model).__name__
            raise BadInput(f"rows on demand need a model folder to copy, and {name} is an object in Python")
        if ":" in (self.calibration or ""):
            raise BadInput("rows on demand need a calibration that has a name of its own, not module:function")

    def content(self, graph: KnowledgeGraph, work: Path, progress: Report | None) -> StoreContent:
        """What the store is made of."""
        from tuplet.predict.model_folder import located
        from tuplet.truth.on_demand import measured_rows

        splits, rule = known_splits(self.observed), _rule(self.calibration)
        why = None
        if self.calibration in (None, LEARNED):
            why = _not_learned("rows on demand: a learned calibration needs the whole table", self.calibration)
        folder = located(self.model)
        about = model_meta(folder, graph, self.other_graph)
        least = PLAIN_THRESHOLD if self.threshold is None else self.threshold

        def meta(graph: KnowledgeGraph, table: TruthTable) -> StoreMeta:
            told, bounds = why, None
            if why is not None:
                more, bounds = measured_rows(graph, table, folder, rule, least, splits, COUNTED)
                told = f"{why}; {more}"
            report = replace(StoreReport(**table.sizes()), predicted=None, not_learned=told)
            return StoreMeta(graph.hash, splits, least, rule.as_dict() | (bounds or {}), (about,), report=report)

        basis = RowSource(folder, *graph.edges(*COUNTED))
        return StoreContent(graph, table_writer(graph, splits, None, least), meta, basis)


Recipe: TypeAlias = FactsRecipe | TableRecipe | PredictorRecipe | OnDemandRecipe


def work_folder(path: PathLike) -> Path:
    """Where finished relations lie until the store is written."""
    target = Path(os.path.realpath(path))
    return target.with_name(f".{target.name}.work")


def make(
    graph: KnowledgeGraph,
    recipe: Recipe | HoldOutRecipe,
    path: PathLike,
    force: bool = False,
    progress: Report | None = None,
) -> StoreFiles:
    """Write the store of a graph.

    Called again with the same recipe after an interruption it goes on where it stopped: finished relations lie in a
    hidden folder beside the store until the store is written.
    """
    refuse_existing(path, force)
    work = work_folder(path)
    content = recipe.content(graph, work, progress)
    store = StoreFiles.create(
        path, content.graph, content.table, content.meta, force, content.rows, content.calibration
    )
    shutil.rmtree(work, ignore_errors=True)
    return store


def recipe_for(
    model: Predictors | None = None,
    table: PathLike | None = None,
    on_demand: bool = False,
    **choices: Any,
) -> Recipe:
    """The recipe that these arguments ask for; `choices` are fields of the recipes, None where nothing is said.

    It needs no graph: what is wrong with the arguments is said before anything is read.
    """
    for name in choices:
        if name not in (known := {field.name for recipe in get_args(Recipe) for field in fields(recipe)}):
            raise unknown("argument of index", name, sorted(known))
    given = {name: value for name, value in choices.items() if value is not None}
    models = _listed(model)
    if table is not None and models:
        raise BadInput("give either a model or ", Option("table", None), ", not both")
    if not models and on_demand:
        raise BadInput(Option("on_demand"), " needs a model (tuplet train)")
    if not models and table is None and "calibration" in given:
        raise BadInput(Option("calibration", None), " needs a model (tuplet train)")
    if table is not None:
        return TableRecipe(table, **_taken(TableRecipe, given))
    if not models:
        return FactsRecipe(**_taken(FactsRecipe, given), weighted=True)
    if on_demand and len(models) > 1:
        raise BadInput(Option("on_demand"), f" takes one model, not {len(models)}")
    if on_demand:
        return OnDemandRecipe(models[0], **_taken(OnDemandRecipe, given))  # type: ignore[arg-type]  # refused there
    return PredictorRecipe(models, **_taken(PredictorRecipe, given))


def index(
    graph: KnowledgeGraph,
    model: Predictors | None,
    path: PathLike,
    force: bool = False,
    progress: Report | None = None,
    **choices: Any,
) -> StoreFiles:
    """`make` with the recipe that the arguments ask for (see `recipe_for`)."""
    return make(graph, recipe_for(model, **choices), path, force, progress)


def _listed(predictors: Predictors | None) -> list[PathLike | LinkPredictor]:
    """One, several or none of them, as a list."""
    if isinstance(predictors, list | tuple):
        return list(predictors)
    return [] if predictors is None else [predictors]  # type: ignore[list-item]


def _taken(recipe: type[Recipe], given: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(recipe)}
    return {name: value for name, value in given.items() if name in names}


# --- which calibration -----------------------------------------------------------------------------------------------


def _check_threshold(threshold: float | None) -> None:
    if threshold is not None and not (isinstance(threshold, Real) and 0 < threshold < 1):
        raise BadInput(f"the threshold lies between 0 and 1, not {threshold!r}")


def _rule(calibration: str | None) -> Calibration:
    """The rule that turns scores into truth; the default one under a learned calibration."""
    from tuplet.truth.rules import Calibration

    return Calibration() if calibration in (None, LEARNED) else Calibration(calibration)


def _why_not_learned(graph: KnowledgeGraph, calibration: str | None) -> str | None:
    """None if a calibration is to be learned; why it cannot be; "" if another one is asked for."""
    from tuplet.truth.calibration.fit import LEAST_VALID

    if calibration not in (None, LEARNED):
        return ""
    valid = graph.split_edges["valid"]
    return _not_learned(f"{valid:,} valid edges, {LEAST_VALID} needed", calibration) if valid < LEAST_VALID else None


def _too_few(graph: KnowledgeGraph, edges: ScoredEdges | Predictions, calibration: str | None) -> str | None:
    """Why nothing can be learned from these candidates; None if it can."""
    from tuplet.truth.calibration.calibrate import missing

    reason = missing(graph, edges.heads, edges.relation, edges.tails)
    return None if reason is None else _not_learned(reason, calibration)


def _not_learned(reason: str, calibration: str | None) -> str:
    """The reason, if a learned calibration would only have been the default; an error if it was asked for."""
    if calibration is not None:
        raise BadInput(f"no learned calibration: {reason}")
    return reason


# --- graph and report ------------------------------------------------------------------------------------------------


def _report(
    graph: KnowledgeGraph, table: TruthTable, observed: Sequence[str], as_if_unknown: bool = False
) -> StoreReport:
    """Sizes and reliability of a table whose calibration did not learn from valid edges."""
    report = StoreReport(**table.sizes())
    found = table_reliability(graph, table, observed, as_if_unknown)
    if found is None:
        return report
    listed = round(int(found.facts.sum()) / graph.split_edges[found.split], 6)
    return replace(report, reliability=found.as_dict(), held_out_listed=listed)
