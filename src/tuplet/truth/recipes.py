"""How truth values come about: recipes, each a frozen value, and what a store is made of by them.

`Facts` takes the facts of a graph alone, `Given` a table made elsewhere. `Predicted` scores candidates by link
predictors and calibrates the scores on the valid edges; `HeldOut` by several that each did not see a part of the facts,
calibrated on these parts. `OnDemand` lists nothing and computes rows when asked. `tuplet.build.make` follows any of
them, and those of `tuplet.build`, which train or choose predictors first.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet import settings
from tuplet.errors import BadInput, Option, unknown
from tuplet.files import make_folder
from tuplet.graph.arrays import FolderWriter
from tuplet.graph.graph import KIND as GRAPH
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph, known_splits
from tuplet.graph.newest import as_of
from tuplet.progress import Report
from tuplet.truth.calibration.reliability import table_reliability
from tuplet.truth.edges import HIGHEST_PREDICTION, OBSERVED, EdgeColumns, Predictions, ScoredEdges, SearchCheck
from tuplet.truth.guarantees import NOTIONAL
from tuplet.truth.store_folder import StoreContent, graph_sizes, table_writer
from tuplet.truth.store_meta import GIVEN, LEARNED, ModelMeta, StoreMeta, StoreReport
from tuplet.truth.table import KIND as TABLE
from tuplet.truth.table import TruthTable, write_table

if TYPE_CHECKING:
    from tuplet.predict.base import LinkPredictor
    from tuplet.truth.calibration.calibrate import HeldOutResult, HiddenPart
    from tuplet.truth.candidates.score import RelationCache
    from tuplet.truth.candidates.scorer import RowLimit
    from tuplet.truth.candidates.sources import CandidateChoice, CandidateSources, TwoStepPairs
    from tuplet.truth.rules import Calibration


PathLike: TypeAlias = str | os.PathLike[str]
Predictors: TypeAlias = "PathLike | LinkPredictor | Sequence[PathLike | LinkPredictor]"  # one, or several
# What a report says beside the sizes of the table and its candidates: of the graph and the table as they were written.
Reporter: TypeAlias = Callable[[KnowledgeGraph, TruthTable], dict[str, Any]]

# The edges that a calibration counts are those the predictor learned from, whatever is observed when asking: so valid
# and test edges stay unseen until they are used to fit (valid) or to report (valid or test).
COUNTED = ("train",)
PLAIN_THRESHOLD = 0.005  # of a calibration that is not learned


class Recipe(Protocol):
    """What a store is made by."""

    def content(self, graph: KnowledgeGraph, work: Path, progress: Report) -> StoreContent:
        """What the store is made of; finished relations lie in `work`, so that another call continues from there."""
        ...


@dataclass(frozen=True)
class Facts:
    """The facts of a graph: truth 1, in a weighted graph the given truth. Nothing is predicted."""

    observed: Sequence[str] = OBSERVED
    weighted: bool = False  # whether a graph without given truth is refused

    def content(self, graph: KnowledgeGraph, work: Path, progress: Report) -> StoreContent:
        splits = known_splits(self.observed)
        if self.weighted and not graph.weighted:
            raise BadInput(
                "give a model (tuplet train, tuplet adopt) or ",
                Option("table", None),
                "; only a weighted graph needs none",
            )
        return _Draft(graph, splits).content(0.0, None, _measured(splits))


@dataclass(frozen=True)
class Given:
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

    def content(self, graph: KnowledgeGraph, work: Path, progress: Report) -> StoreContent:
        from tuplet.truth.parquet import GivenTable

        splits, learn = known_splits(self.observed), self.calibration == LEARNED
        if learn:
            _why_not_learned(graph, LEARNED)
        least = None if learn else self.threshold
        make_folder(work.parent)
        given = GivenTable.read(self.file, graph, splits, least, self.memory, work.parent)
        if learn:
            edges = given.table().predictions()
            return self._learn(given.agreeing_graph(), edges, splits, progress)

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
            report = StoreReport(**table.sizes(), **_measured(splits)(graph, table))
            return StoreMeta(graph.hash, splits, table.threshold, table=str(self.file), report=report)

        return StoreContent(agreeing, table, meta)

    def _learn(
        self, graph: KnowledgeGraph, edges: Predictions, splits: tuple[str, ...], progress: Report
    ) -> StoreContent:
        """A store whose calibration is learned on top of the given values."""
        from tuplet.truth.calibration.calibrate import mark_split

        sure = edges.prediction[mark_split(graph, "valid", edges[:3])]
        if len(sure) and np.mean(sure >= HIGHEST_PREDICTION) > 0.5:
            # it was made by somebody who knew them, so it says nothing about what is unknown
            _not_learned("the file lists valid edges as certain, not as if they were unknown", LEARNED)
        _too_few(graph, edges, LEARNED)
        return _Draft(graph, splits, table=str(self.file)).learn([edges], self.threshold, progress)


@dataclass(frozen=True)
class Predicted:
    """The edges that one or several link predictors hold for true, calibrated.

    A predictor is a model folder, any object with the `LinkPredictor` protocol, or the name of one (an entry point of
    the group `tuplet.predictors`, or `module:Class`). A folder that was trained on another graph is refused, unless
    `other_graph` says that its entities and relations have the same numbers. Without a `calibration` one is learned
    from the valid edges; if these are too few, they bound what is promised, and without any nothing predicted is
    listed. Without a `threshold` it is 0.005 for a rule that was asked for by name, else 0.0005.
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

    def content(self, graph: KnowledgeGraph, work: Path, progress: Report) -> StoreContent:
        from tuplet.predict.base import scores_columns
        from tuplet.truth.calibration.calibrate import two_step_rules
        from tuplet.truth.candidates.score import FLOOR
        from tuplet.truth.candidates.sources import HALF_LINKS, choose, join_two_step

        splits, rule = known_splits(self.observed), _rule(self.calibration)
        why = _why_not_learned(graph, self.calibration)
        scorers, about = open_predictors(list_predictors(self.predictor), graph, self.device, self.other_graph)
        least = PLAIN_THRESHOLD if self.threshold is None else self.threshold
        facts = graph.edges(*COUNTED), graph.edges("valid")
        choice = choose(*graph_sizes(graph), *facts, self.candidates, scorers.values())
        floor = least if why == "" else max(choice.floor, min(FLOOR, 4 * least))
        two_step = None
        if self.candidates != HALF_LINKS and not choice.sources.everything and len(facts[1][0]):
            rules = two_step_rules(*graph_sizes(graph), facts[0])
            choice, two_step = (choice, None) if rules is None else join_two_step(choice, rules, *facts)
        choice = _limit_rows(choice, self.limit, facts[0])
        scoring = _Scoring(choice.sources, floor, rule, self.memory, self.limit, 1 + len(self.later))
        progress("index", 0, 0, str(choice))
        folder, hashes = work if self.parts is None else Path(self.parts), [model.sha256 for model in about]
        cache = scoring.cache(folder, hashes, facts[0])
        if self.parts is not None and cache is not None and not cache.begun:
            progress("index", 0, 0, f"{self.parts} holds no relations of these models, candidates and threshold yet")
        if self.ray is not None:
            from tuplet.truth.candidates.score import score_on_cluster

            folders = list_predictors(self.predictor)
            asked = choice.sources, floor, rule, self.memory
            score_on_cluster(self.ray, graph, COUNTED, folders, scorers, asked, two_step, cache, progress)
        scores = scoring.score(0, scorers, facts[0], cache, progress, two_step)
        scores = replace(scores, floor=choice.floor if why != "" else 0.0)
        if why is None:
            why = _too_few(graph, scores, self.calibration)
        whole = [name for name, scorer in scorers.items() if not scores_columns(scorer)]
        told = choice.as_dict() | {"listed": len(scores)} | ({"whole_rows": whole} if whole else {})
        if scores.searched:
            told |= {"search": sum(scores.searched.values(), SearchCheck()).as_dict()}
        if why is None:
            several = [scores, *self._later(graph, scoring, two_step, work, progress)]
            told |= missing_rows(several)
            return _Draft(graph, splits, about, told).learn(several, self.threshold, progress, scoring.over)
        told |= missing_rows([scores])
        if why:
            return _Draft(graph, splits, about, told).bound(scores, self.threshold, why)
        edges, report = scores.predictions().reaching(least), _measured(splits, as_if_unknown=True)
        return _Draft(graph, splits, about, told).content(least, edges, report, rule.as_dict(), [scores])

    def _later(
        self,
        graph: KnowledgeGraph,
        scoring: _Scoring,
        two_step: TwoStepPairs | None,
        work: Path,
        progress: Report,
    ) -> list[ScoredEdges]:
        """What predictors say of the same candidates at the end of each window of the newest facts."""
        from tuplet.truth.calibration.calibrate import two_step_rules

        found = []
        for number, models in enumerate(self.later, 1):
            then = as_of(graph, number)
            known = then.edges(*COUNTED)
            scorers, about = open_predictors(list_predictors(models), then, self.device, other_graph=True)
            rules = None if two_step is None else two_step_rules(*graph_sizes(graph), known)
            pairs = two_step if two_step is None or rules is None else replace(two_step, rules=rules)
            cache = scoring.cache(work, [model.sha256 for model in about], known)
            found.append(scoring.score(number, scorers, known, cache, progress, pairs))
        return found


@dataclass(frozen=True)
class HoldOut:
    """Predictors by name, and the part of the facts that was hidden from them."""

    part: HiddenPart
    scorers: Mapping[str, LinkPredictor]
    name: str | None = None  # of these predictors: what is finished of theirs is kept by it, to go on from there


@dataclass(frozen=True)
class HeldOut:
    """The mean of predictors that each did not see a part of the facts, calibrated on all of these parts."""

    hold_outs: Sequence[HoldOut]
    models: tuple[ModelMeta, ...] = ()  # the predictors that learned from all of it
    observed: Sequence[str] = OBSERVED
    threshold: float | None = None
    calibration: str | None = None  # "learned": nothing less will do
    memory: int | None = None
    limit: RowLimit | None = None  # of the rows, where these are dear and the time is limited

    def content(self, graph: KnowledgeGraph, work: Path, progress: Report) -> StoreContent:
        from tuplet.truth.calibration import calibrate
        from tuplet.truth.calibration.fit import LEAST_VALID
        from tuplet.truth.candidates.score import FLOOR
        from tuplet.truth.candidates.sources import HALF_LINKS, choose

        splits, sizes = known_splits(self.observed), graph_sizes(graph)
        least = calibrate.THRESHOLD if self.threshold is None else self.threshold
        several = any(len(one.scorers) > 1 for one in self.hold_outs)
        split = calibrate.HiddenPart(graph.edges("train"), graph.edges("valid"))
        if not len(split.hidden[0]) and self.hold_outs:
            split = self.hold_outs[0].part
        scorers, parts = self.hold_outs[0].scorers.values() if self.hold_outs else (), len(self.hold_outs)
        choice, rule = choose(*sizes, *split, HALF_LINKS if several else None, scorers), _rule(None)
        choice = _limit_rows(choice, self.limit, split.known)
        scoring = _Scoring(choice.sources, min(FLOOR, 4 * least), rule, self.memory, self.limit, parts)
        trials = []
        for number, one in enumerate(self.hold_outs):
            cache = scoring.cache(work, [one.name], one.part.known)
            shown = _part_of(progress, number, parts)
            trials.append((one.part, scoring.score(number, one.scorers, one.part.known, cache, shown)))
        facts = sum(len(part.hidden[0]) for part, _ in trials)
        test = graph.split_edges["test"] if "test" not in splits else 0
        missing = graph.split_edges["valid"] or NOTIONAL * sum(map(len, (split.known[0], split.hidden[0])))
        correction = calibrate.missing_as_often(max(1, facts) / max(1, parts), missing, test)
        distinct = calibrate.distinct_facts(sizes[0], [part.hidden for part, _ in trials])
        twice = calibrate.missing_as_often(distinct / parts, missing, test) if distinct < facts else None
        if distinct:
            progress("calibrate", 0, 0, f"learning a calibration from {distinct:,} hidden facts")
        found = calibrate.calibrate_hidden(sizes, trials, correction, least, twice, scoring.over)
        why = None
        if not trials:
            why = "there are too few facts to hide some of them and see whether they are found"
        elif found.learned is None:
            why = f"{found.facts:,} of {distinct:,} hidden facts were among the candidates, {LEAST_VALID} needed"
        if why and self.calibration == LEARNED:
            raise BadInput(f"no learned calibration: {why}")
        scores = [scored for _, scored in trials]
        told = choice.as_dict() | {"listed": calibrate.distinct_facts(sizes[0], [scored.edges for scored in scores])}
        return _Draft(graph, splits, self.models, told | missing_rows(scores)).borne_out(least, found, why, scores)


def _part_of(progress: Report, number: int, parts: int) -> Report:
    """The progress of one of several parts as that of all."""
    return lambda step, done, total, note: progress("score", number + done / total, parts, "hidden parts")


@dataclass(frozen=True)
class OnDemand:
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

    def content(self, graph: KnowledgeGraph, work: Path, progress: Report) -> StoreContent:
        from tuplet.predict.model_folder import find_model_folder
        from tuplet.truth.on_demand import measure_rows

        splits, rule = known_splits(self.observed), _rule(self.calibration)
        why = None
        if self.calibration in (None, LEARNED):
            why = _not_learned("rows on demand: a learned calibration needs the whole table", self.calibration)
        folder = find_model_folder(self.model)
        about = model_meta(folder, graph, self.other_graph)
        least = PLAIN_THRESHOLD if self.threshold is None else self.threshold

        def meta(graph: KnowledgeGraph, table: TruthTable) -> StoreMeta:
            told, bounds = why, dict[str, Any]()
            if why is not None:
                more, bounds = measure_rows(graph, table, folder, rule, least, splits)
                told = f"{why}; {more}"
            report = replace(StoreReport(**table.sizes()), predicted=None, not_learned=told)
            return StoreMeta(graph.hash, splits, least, rule.as_dict() | bounds, (about,), report=report)

        rows = dict(zip(("heads", "relation", "tails"), graph.edges(*COUNTED), strict=True))
        return StoreContent(graph, table_writer(graph, splits, None, least), meta, rows, folder)


def list_predictors(predictors: Predictors | None) -> list[PathLike | LinkPredictor]:
    """One, several or none of them, as a list."""
    if isinstance(predictors, list | tuple):
        return list(predictors)
    return [] if predictors is None else [predictors]  # type: ignore[list-item]


# --- scores ----------------------------------------------------------------------------------------------------------


def _limit_rows(choice: CandidateChoice, limit: RowLimit | None, known: EdgeColumns) -> CandidateChoice:
    """The candidates in no more rows than there is time for."""
    return choice if limit is None else replace(choice, sources=limit.within(choice.sources, known))


@dataclass(frozen=True)
class _Scoring:
    """What is the same for all predictors of a store: candidates, and how their scores become truth and when."""

    sources: CandidateSources
    floor: float
    rule: Calibration
    memory: int | None
    limit: RowLimit | None
    sweeps: int  # over all rows: one for each time that others are hidden, or known

    @property
    def over(self) -> float:
        """When the calibration must be learned."""
        return math.inf if self.limit is None else self.limit.over

    def cache(self, folder: Path, models: Sequence[str | None], known: EdgeColumns) -> RelationCache | None:
        """Where these models, by hash, keep the relations that they finished."""
        from tuplet.truth.candidates.score import finished_relations

        return finished_relations(folder, models, self.sources, self.floor, self.rule, known)

    def score(
        self,
        number: int,
        scorers: Mapping[str, LinkPredictor],
        known: EdgeColumns,
        cache: RelationCache | None,
        progress: Report,
        two_step: TwoStepPairs | None = None,
    ) -> ScoredEdges:
        """The candidates of the sweep with that number."""
        from tuplet.truth.candidates.score import score_candidates

        until = math.inf if self.limit is None else self.limit.sweep(self.sweeps - number)
        return score_candidates(
            scorers, known, self.sources, self.floor, self.rule, self.memory, cache, progress, two_step, until
        )


def missing_rows(several: Sequence[ScoredEdges]) -> dict[str, Any]:
    """What the store says of rows that there was no time for; nothing if there are none."""
    from tuplet.truth.candidates.scorer import RowsDone

    rows = sum((one.rows for one in several if one.rows is not None), RowsDone())
    return {"rows": rows.as_dict()} if rows.lacking else {}


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

    reason = missing(graph, (edges.heads, edges.relation, edges.tails))
    return None if reason is None else _not_learned(reason, calibration)


def _not_learned(reason: str, calibration: str | None) -> str:
    """The reason, if a learned calibration would only have been the default; an error if it was asked for."""
    if calibration is not None:
        raise BadInput(f"no learned calibration: {reason}")
    return reason


# --- stores and their reports ----------------------------------------------------------------------------------------


def _measured(observed: Sequence[str], as_if_unknown: bool = False) -> Reporter:
    """The reliability of a table on held-out facts, if there are any that its calibration did not learn from."""

    def report(graph: KnowledgeGraph, table: TruthTable) -> dict[str, Any]:
        found = table_reliability(graph, table, observed, as_if_unknown)
        if found is None:
            return {}
        listed = round(int(found.facts.sum()) / graph.split_edges[found.split], 6)
        return {"reliability": found.as_dict(), "held_out_listed": listed}

    return report


@dataclass(frozen=True)
class _Draft:
    """A store to be made of a graph, and what it says of its predictors and candidates."""

    graph: KnowledgeGraph
    observed: tuple[str, ...]
    models: tuple[ModelMeta, ...] = ()
    candidates: Mapping[str, Any] | None = None
    table: str | None = None  # the file that the truth values come from

    def content(
        self,
        least: float,
        edges: Predictions | None,
        report: Reporter,
        calibration: dict[str, Any] | None = None,
        scores: Sequence[ScoredEdges] = (),
        arrays: Mapping[str, NDArray[Any]] | None = None,
    ) -> StoreContent:
        """The observed facts over predicted edges, which these scores were the source of."""

        def meta(graph: KnowledgeGraph, made: TruthTable) -> StoreMeta:
            about = (self.observed, least, calibration, self.models, self.table)
            found = StoreReport(**made.sizes(), candidates=self.candidates, **report(graph, made))
            return StoreMeta(graph.hash, *about, report=found)

        may_miss = ScoredEdges.may_miss_together(scores, len(self.graph.relations), least)
        table = table_writer(self.graph, self.observed, edges, least, may_miss)
        return StoreContent(self.graph, table, meta, calibration=arrays)

    def learn(
        self,
        scores: Sequence[ScoredEdges | Predictions],
        threshold: float | None,
        progress: Report,
        until: float = math.inf,
    ) -> StoreContent:
        """A store whose calibration is learned from the valid edges among the candidates.

        The second and further scores are those of later windows; `until` as in `calibrate`.
        """
        from tuplet.truth.calibration import calibrate

        least = calibrate.THRESHOLD if threshold is None else threshold
        several = [one for one in scores if isinstance(one, ScoredEdges)]
        asked = (self.graph, scores[0], self.observed, least)
        found = calibrate.calibrate(*asked, progress=progress, later=several[1:], until=until)

        def report(graph: KnowledgeGraph, made: TruthTable) -> dict[str, Any]:
            """The diagrams count all candidates; those below the threshold are not listed."""
            splits, sizes = found.after.split.split(" and "), graph.split_edges
            listed = sum(int(np.count_nonzero(calibrate.mark_split(graph, split, found.edges[:3]))) for split in splits)
            measured = {"reliability": found.after.as_dict(), "reliability_before": found.before.as_dict()}
            return measured | {"held_out_listed": round(listed / sum(sizes[split] for split in splits), 6)}

        return self.content(least, found.edges, report, found.as_dict(), several, found.fit.learned.arrays())

    def bound(self, scored: ScoredEdges, threshold: float | None, why: str) -> StoreContent:
        """A store of models that learned from all train edges; the few valid edges bound what they may promise."""
        from tuplet.truth.calibration.calibrate import THRESHOLD, HiddenPart, calibrate_hidden
        from tuplet.truth.calibration.fit import SplitCorrection

        least, sizes = THRESHOLD if threshold is None else threshold, self.graph.split_edges
        correction = SplitCorrection()
        if sizes["valid"]:
            seen = ("valid" in self.observed, "test" in self.observed)
            correction = SplitCorrection.from_sizes(sizes["valid"], sizes["test"], *seen)
        part = HiddenPart(self.graph.edges("train"), self.graph.edges("valid"))
        found = calibrate_hidden(graph_sizes(self.graph), [(part, scored)], correction, least)
        return self.borne_out(least, found, why, [scored])

    def borne_out(
        self, least: float, found: HeldOutResult, why: str | None, scores: Sequence[ScoredEdges]
    ) -> StoreContent:
        """The store of what hidden facts bear out; `why` nothing was learned from them, if so."""
        if why is not None and found.facts:
            why += "; no truth is above what they bear out"

        def report(graph: KnowledgeGraph, table: TruthTable) -> dict[str, Any]:
            """The reliability is that of test edges where they are not observed, else that of the hidden facts."""
            if not found.facts:
                return {"not_learned": why}
            measured = {"reliability": found.after.as_dict(), "reliability_before": found.before.as_dict()}
            unseen = graph.split_edges["test"] and "test" not in self.observed
            tested = _measured((*self.observed, "valid"))(graph, table) if unseen else {}
            return {"not_learned": why} | measured | tested

        arrays = None if found.learned is None else found.learned.arrays()
        return self.content(least, found.edges, report, found.as_dict(), scores, arrays)


# --- predictors ------------------------------------------------------------------------------------------------------


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
        found, kind = check_predictor(model_folder.make_predictor(name, graph)), name
    else:
        found, kind = check_predictor(model), type(model).__name__
    _refuse_sizes(graph, kind, {"entities": found.entities, "relations": found.relations})
    return found, ModelMeta(kind)


def model_meta(folder: Path, graph: KnowledgeGraph, other_graph: bool) -> ModelMeta:
    """What a store says about the model in a folder; a query model or one of another graph is refused."""
    from tuplet.predict import model_folder
    from tuplet.predict.base import fingerprint

    about = model_folder.describe(folder)
    model_folder.refuse_query_model(folder, about)
    if about["entities"]:  # one that reads any graph has none of its own
        _refuse_sizes(graph, folder, about)
    # Sizes may agree by chance, and then every name would get the scores of another.
    learned_from = about.get("graph")
    bound = about["entities"] and learned_from and not other_graph
    # one that was trained on arrays of edges alone says what these are
    if bound and learned_from not in (graph.hash, fingerprint({split: graph.edges(split) for split in SPLIT_CODE})):
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
