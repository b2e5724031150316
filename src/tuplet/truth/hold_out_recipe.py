"""Stores of graphs that have too few valid edges to learn from: what was hidden, and what that bears out.

`tuplet build` hides each fifth of the facts in turn (`HoldOutRecipe`). `tuplet index` has one model, which learned from
all train edges: there the valid edges are all that was hidden (`bounded`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuplet.errors import BadInput
from tuplet.graph.graph import KnowledgeGraph, known_splits
from tuplet.progress import Report
from tuplet.truth.calibration.reliability import table_reliability
from tuplet.truth.edges import OBSERVED
from tuplet.truth.guarantees import NOTIONAL
from tuplet.truth.scored import ScoredEdges
from tuplet.truth.store_folder import StoreContent, graph_sizes, table_writer
from tuplet.truth.store_meta import LEARNED, ModelMeta, StoreMeta, StoreReport
from tuplet.truth.table import TruthTable

if TYPE_CHECKING:
    from tuplet.predict.base import LinkPredictor
    from tuplet.truth.calibration.hold_out import HeldOutResult, HiddenPart
    from tuplet.truth.candidates.scorer import RowLimit


@dataclass(frozen=True)
class HoldOut:
    """Predictors by name, and the part of the facts that was hidden from them."""

    part: HiddenPart
    scorers: Mapping[str, LinkPredictor]
    name: str | None = None  # of these predictors: what is finished of theirs is kept by it, to go on from there


@dataclass(frozen=True)
class HoldOutRecipe:
    """The mean of predictors that each did not see a part of the facts, calibrated on all of these parts."""

    hold_outs: Sequence[HoldOut]
    models: tuple[ModelMeta, ...] = ()  # the predictors that learned from all of it
    observed: Sequence[str] = OBSERVED
    threshold: float | None = None
    calibration: str | None = None  # "learned": nothing less will do
    memory: int | None = None
    limit: RowLimit | None = None  # of the rows, where these are dear and the time is limited

    def content(self, graph: KnowledgeGraph, work: Path, progress: Report | None) -> StoreContent:
        """What the store is made of."""
        from tuplet.truth.calibration.calibrate import THRESHOLD
        from tuplet.truth.calibration.fit import LEAST_VALID
        from tuplet.truth.calibration.hold_out import (
            HiddenPart,
            calibrate_hidden,
            distinct_facts,
            listed_once,
            missing_as_often,
        )
        from tuplet.truth.candidates.score import FLOOR, finished_relations, score_candidates
        from tuplet.truth.candidates.sources import HALF_LINKS, choose
        from tuplet.truth.rules import Calibration

        splits, sizes = known_splits(self.observed), graph_sizes(graph)
        least = THRESHOLD if self.threshold is None else self.threshold
        several = any(len(one.scorers) > 1 for one in self.hold_outs)
        split = HiddenPart(graph.edges("train"), graph.edges("valid"))
        if not len(split.hidden[0]) and self.hold_outs:
            split = self.hold_outs[0].part
        scorers = self.hold_outs[0].scorers.values() if self.hold_outs else ()
        choice = choose(*sizes, *split, HALF_LINKS if several else None, scorers)
        if self.limit is not None:
            choice = replace(choice, sources=self.limit.within(choice.sources, split.known))
        trials = []
        for number, one in enumerate(self.hold_outs):
            floor, rule, known = min(FLOOR, 4 * least), Calibration(), one.part.known
            cache = finished_relations(work, [one.name], choice.sources, floor, rule, known)
            shown = None if progress is None else _part_of(progress, number, len(self.hold_outs))
            until = math.inf if self.limit is None else self.limit.sweep(len(self.hold_outs) - number)
            scored = score_candidates(
                one.scorers, known, choice.sources, floor, rule, self.memory, cache, shown, until=until
            )
            trials.append((one.part, scored))
        facts = sum(len(part.hidden[0]) for part, _ in trials)
        test = graph.split_edges["test"] if "test" not in splits else 0
        missing = graph.split_edges["valid"] or NOTIONAL * sum(map(len, (split.known[0], split.hidden[0])))
        correction = missing_as_often(max(1, facts) / max(1, len(trials)), missing, test)
        distinct = distinct_facts(sizes[0], [part.hidden for part, _ in trials])
        twice = missing_as_often(distinct / len(trials), missing, test) if distinct < facts else None
        if progress and distinct:
            progress("calibrate", 0, 0, f"learning a calibration from {distinct:,} hidden facts")
        over = math.inf if self.limit is None else self.limit.over
        found = calibrate_hidden(sizes, trials, correction, least, twice, over)
        why = None
        if not trials:
            why = "there are too few facts to hide some of them and see whether they are found"
        elif found.learned is None:
            why = f"{found.facts:,} of {distinct:,} hidden facts were among the candidates, {LEAST_VALID} needed"
        if why and self.calibration == LEARNED:
            raise BadInput(f"no learned calibration: {why}")
        told = choice.as_dict() | {"listed": listed_once(sizes[0], trials)}
        told |= missing_rows([scored for _, scored in trials])
        return _content(graph, splits, found, least, why, self.models, told, [scored for _, scored in trials])


def _part_of(progress: Report, number: int, parts: int) -> Report:
    """The progress of one of several parts as that of all."""
    return lambda step, done, total, note: progress("score", number + done / total, parts, "hidden parts")


def bounded(
    graph: KnowledgeGraph,
    scored: ScoredEdges,
    observed: tuple[str, ...],
    threshold: float | None,
    why: str,
    models: tuple[ModelMeta, ...],
    candidates: Mapping[str, Any],
) -> StoreContent:
    """A store of models that learned from all train edges; the few valid edges bound what they may promise."""
    from tuplet.truth.calibration.calibrate import THRESHOLD
    from tuplet.truth.calibration.hold_out import HiddenPart, calibrate_hidden
    from tuplet.truth.calibration.split_correction import SplitCorrection

    least = THRESHOLD if threshold is None else threshold
    valid, test = graph.split_edges["valid"], graph.split_edges["test"]
    correction = SplitCorrection()
    if valid:
        correction = SplitCorrection.of(valid, test, "valid" in observed, "test" in observed)
    part = HiddenPart(graph.edges("train"), graph.edges("valid"))
    found = calibrate_hidden(graph_sizes(graph), [(part, scored)], correction, least)
    return _content(graph, observed, found, least, why, models, candidates, [scored])


def _content(
    graph: KnowledgeGraph,
    observed: tuple[str, ...],
    found: HeldOutResult,
    least: float,
    why: str | None,
    models: tuple[ModelMeta, ...],
    candidates: Mapping[str, Any],
    trials: Sequence[ScoredEdges],
) -> StoreContent:
    """The store of what hidden facts bear out; `why` nothing was learned from them, if so."""
    if why is not None and found.facts:
        why += "; no truth is above what they bear out"

    def meta(graph: KnowledgeGraph, table: TruthTable) -> StoreMeta:
        report = _report(graph, table, observed, found)
        report = replace(report, candidates=candidates, not_learned=why)
        return StoreMeta(graph.hash, observed, least, found.as_dict(), models, report=report)

    arrays = None if found.learned is None else found.learned.arrays()
    may_miss = ScoredEdges.may_miss_together(trials, len(graph.relations), least)
    return StoreContent(graph, table_writer(graph, observed, found.edges, least, may_miss), meta, calibration=arrays)


def missing_rows(trials: Sequence[ScoredEdges]) -> dict[str, Any]:
    """What the store says of rows that there was no time for; nothing if there are none."""
    from tuplet.truth.candidates.scorer import RowsDone

    rows = sum((one.rows for one in trials if one.rows is not None), RowsDone())
    return {"rows": rows.as_dict()} if rows.lacking else {}


def _report(graph: KnowledgeGraph, table: TruthTable, observed: tuple[str, ...], found: HeldOutResult) -> StoreReport:
    """Sizes, and the reliability on test edges where they are not observed, else on the facts that were hidden."""
    report = StoreReport(**table.sizes())
    if not found.facts:
        return report
    after, listed = found.after, None
    if graph.split_edges["test"] and "test" not in observed:
        measured = table_reliability(graph, table, (*observed, "valid"))
        if measured is not None:
            after, listed = measured, round(int(measured.facts.sum()) / graph.split_edges["test"], 6)
    return replace(
        report, reliability=after.as_dict(), reliability_before=found.before.as_dict(), held_out_listed=listed
    )
