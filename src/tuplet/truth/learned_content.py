"""A store whose calibration is learned from the valid edges among the candidates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tuplet.graph.graph import KnowledgeGraph
from tuplet.progress import Report
from tuplet.truth.edges import Predictions
from tuplet.truth.scored import ScoredEdges
from tuplet.truth.store_folder import StoreContent, table_writer
from tuplet.truth.store_meta import ModelMeta, StoreMeta, StoreReport
from tuplet.truth.table import TruthTable

if TYPE_CHECKING:
    from tuplet.truth.calibration.calibrate import CalibrationResult


def learned_content(
    graph: KnowledgeGraph,
    scores: ScoredEdges | Predictions,
    splits: tuple[str, ...],
    threshold: float | None,
    models: tuple[ModelMeta, ...] = (),
    table: str | None = None,
    candidates: Mapping[str, Any] | None = None,
    progress: Report | None = None,
    later: Sequence[ScoredEdges] = (),
    until: float = math.inf,
) -> StoreContent:
    """What the store is made of; `later` and `until` as in `calibrate`."""
    from tuplet.truth.calibration import calibrate

    least = calibrate.THRESHOLD if threshold is None else threshold
    found = calibrate.calibrate(graph, scores, splits, least, progress=progress, later=later, until=until)

    def meta(graph: KnowledgeGraph, made: TruthTable) -> StoreMeta:
        report = replace(_report(graph, made, found), candidates=candidates)
        return StoreMeta(graph.hash, splits, least, found.as_dict(), models, table, report=report)

    arrays = found.fit.learned.arrays()
    several = [] if isinstance(scores, Predictions) else [scores, *later]
    may_miss = ScoredEdges.may_miss_together(several, len(graph.relations), least)
    writer = table_writer(graph, splits, found.edges, least, may_miss)
    return StoreContent(graph, writer, meta, calibration=arrays)


def _report(graph: KnowledgeGraph, table: TruthTable, found: CalibrationResult) -> StoreReport:
    """The diagrams count all candidates; those below the threshold are not listed."""
    from tuplet.truth.calibration.calibrate import marked

    splits, sizes = found.after.split.split(" and "), graph.split_edges
    listed = sum(int(np.count_nonzero(marked(graph, split, *found.edges[:3]))) for split in splits)
    return StoreReport(
        **table.sizes(),
        reliability=found.after.as_dict(),
        reliability_before=found.before.as_dict(),
        held_out_listed=round(listed / sum(sizes[split] for split in splits), 6),
    )
