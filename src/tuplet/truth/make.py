"""From a graph and a predictor (or a table made elsewhere, or weights alone) to a store that answers queries."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.graph.graph import SPLIT_CODE, KnowledgeGraph
from tuplet.truth.learned.reliability import Reliability, reliability
from tuplet.truth.store_folder import RowSource, StoreFiles, refuse_existing
from tuplet.truth.table import (
    HIGHEST_PREDICTION,
    OBSERVED,
    VALID,
    Predictions,
    TruthTable,
    edge_keys,
    forward_entries,
    known_splits,
    observed_facts,
)

if TYPE_CHECKING:
    from tuplet.truth.learned.calibrate import CalibrationResult
    from tuplet.truth.rules import Calibration
    from tuplet.truth.sweep import DirectionScores

Progress = Callable[[int, int], None]

# The edges that a calibration counts are those the predictor learned from, whatever is observed when asking: so valid
# and test edges stay unseen until they are used to fit (valid) or to report (valid or test).
COUNTED = ("train",)
LEARNED = "learned"
PLAIN_THRESHOLD = 0.005  # of a calibration that is not learned; and a learned one looks at the edges above it


def index(
    graph: KnowledgeGraph,
    model: str | os.PathLike[str],
    path: str | os.PathLike[str],
    threshold: float | None = None,
    calibration: str | Calibration | None = None,
    observed: Sequence[str] = OBSERVED,
    on_demand: bool = False,
    fit: bool = False,
    device: str = "cpu",
    memory: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
    other_graph: bool = False,
) -> StoreFiles:
    """Calibrate the predictor in the folder `model`, build its truth table and write the store.

    Without a `calibration` it is learned from the valid edges if there are enough of them, else softmax-count, and the
    report says why. Without a `threshold` it is 0.0005 for a learned calibration and 0.005 for any other. A build that
    was interrupted goes on where it stopped when called again with the same arguments (finished relations lie in a
    hidden folder beside the store until it is written). `fit` fits the calibration's power on valid edges. With
    `on_demand` no table is built: the store keeps the model and computes rows when asked, by softmax-count. A model of
    another graph is refused, unless `other_graph` says that its entities and relations have the same numbers.
    """
    from tuplet.predict import model_folder as files
    from tuplet.truth.sweep import build_scored

    target = Path(os.path.realpath(path))
    refuse_existing(target, force)
    splits = known_splits(observed)
    if threshold is not None and not 0 < threshold < 1:
        raise BadInput(f"the threshold lies between 0 and 1, not {threshold:g}")
    if fit and on_demand:
        raise BadInput("a power cannot be fitted on demand: it needs the whole table; index without --on-demand once")
    wish = "power" if fit else "on demand" if on_demand else ""
    learn, note = _learnable(calibration, len(graph.edges("valid")[0]), wish)
    rule = _rule(calibration)
    folder = Path(model)
    description = files.describe(folder)
    files.refuse_query_model(folder, description)
    _refuse_misfit(graph, description, model, other_graph)
    counted = graph.edges(*COUNTED)
    least = PLAIN_THRESHOLD if threshold is None else threshold
    if on_demand:
        table = TruthTable.assemble(*_sizes(graph), observed_facts(graph, splits), threshold=least)
        meta = _meta(graph, splits, least, rule.as_dict(), description)
        meta["report"] = {**table.sizes(), "predicted": None, "reliability": None} | note
        return StoreFiles.create(path, graph, table, meta, force, RowSource(folder, *counted))
    work = target.with_name(f".{target.name}.work")
    predictor = files.load(folder, device)
    floor = min(PLAIN_THRESHOLD, 10 * least) if learn else least
    key = str(description["sha256"])
    scored = build_scored(predictor, *counted, floor, rule, memory, work, key, progress)
    if learn:
        chosen = _Chosen.learned(graph, scored, rule, splits, threshold, calibration is not None)
    else:
        chosen = _Chosen(scored.edges(rule), least, rule.as_dict(), note)
    if fit:
        rule, edges, least = fitted(graph, chosen.edges, rule, least)
        chosen = _Chosen(edges, least, rule.as_dict(), note)
    store = chosen.create(graph, path, splits, description, force)
    shutil.rmtree(work, ignore_errors=True)
    return store


def index_table(
    graph: KnowledgeGraph,
    file: str | os.PathLike[str],
    path: str | os.PathLike[str],
    observed: Sequence[str] = OBSERVED,
    threshold: float | None = None,
    force: bool = False,
    calibration: str | None = None,
) -> StoreFiles:
    """The store of a truth table made elsewhere; see `read_table`.

    Without a `calibration` it is learned from the valid edges on top of the given truth values if there are enough of
    them, and if the file lists them as if they were unknown; "given" takes the values as they are.
    """
    from tuplet.truth.parquet import read_table
    from tuplet.truth.rules import GIVEN, known_name

    refuse_existing(path, force)
    splits = known_splits(observed)
    if calibration is not None:
        known_name("calibration of a table", calibration, (LEARNED, GIVEN))
    learn, note = _learnable(calibration, len(graph.edges("valid")[0]), "")
    table = read_table(file, graph, splits, None if learn else threshold)
    graph = agreeing(graph, table, splits)
    if learn:
        edges = Predictions.of(*table.predictions())
        sure = edges.prediction[np.isin(edge_keys(len(graph.entities), *edges[:3]), _keys(graph, "valid"))]
        if len(sure) and np.mean(sure >= HIGHEST_PREDICTION) > 0.5:
            learn, note = _refused(calibration, "the file lists valid edges as certain, not as if they were unknown")
    if learn:
        chosen = _Chosen.learned(graph, edges, None, splits, threshold, calibration is not None)
        if chosen.fit is not None:
            return chosen.create(graph, path, splits, None, force, {"table": str(file)})
        note = chosen.note
        table = read_table(file, graph, splits, threshold)
    meta = _meta(graph, splits, table.threshold, None, None) | {"table": str(file)}
    meta["report"] = _report(graph, table, splits) | note
    return StoreFiles.create(path, graph, table, meta, force)


@dataclass(frozen=True)
class _Chosen:
    """The predicted edges of a store and what calibrated them."""

    edges: Predictions
    threshold: float
    calibration: dict[str, Any] | None
    note: dict[str, str]  # why it is not a learned one
    fit: CalibrationResult | None = None

    @staticmethod
    def learned(
        graph: KnowledgeGraph,
        scored: DirectionScores | Predictions,
        rule: Calibration | None,
        splits: Sequence[str],
        threshold: float | None,
        required: bool,
    ) -> _Chosen:
        """A learned calibration of the edges; if there is too little to learn from, what the rule gives."""
        from tuplet.truth.learned import calibrate as fitting
        from tuplet.truth.sweep import DirectionScores

        reason = fitting.missing(graph, *scored[:3])
        if reason is None:
            least = fitting.THRESHOLD if threshold is None else threshold
            fit = fitting.calibrate(graph, scored, splits, least)
            return _Chosen(fit.edges, least, fit.as_dict(), {}, fit)
        note = _refused(LEARNED if required else None, reason)[1]
        least = PLAIN_THRESHOLD if threshold is None else threshold
        edges = scored.edges(rule or _rule(None)) if isinstance(scored, DirectionScores) else scored
        return _Chosen(edges.reaching(least), least, None if rule is None else rule.as_dict(), note)

    def create(
        self,
        graph: KnowledgeGraph,
        path: str | os.PathLike[str],
        splits: Sequence[str],
        description: Mapping[str, Any] | None,
        force: bool,
        more: Mapping[str, Any] | None = None,
    ) -> StoreFiles:
        """The store of these edges and the observed facts of the graph."""
        facts = observed_facts(graph, splits)
        table = TruthTable.assemble(*_sizes(graph), facts, self.edges, self.threshold)
        meta = _meta(graph, splits, self.threshold, self.calibration, description) | dict(more or {})
        if self.fit is None:
            meta["report"] = _report(graph, table, splits, as_if_unknown=True) | self.note
            return StoreFiles.create(path, graph, table, meta, force)
        found = {"reliability": self.fit.after.as_dict(), "reliability_before": self.fit.before.as_dict()}
        # The diagrams count all candidates; those below the threshold are not listed.
        held_out = np.concatenate([_keys(graph, split) for split in self.fit.after.split.split(" and ")])
        listed = np.isin(held_out, edge_keys(len(graph.entities), *self.edges[:3])).mean()
        meta["report"] = table.sizes() | found | {"held_out_listed": round(float(listed), 6)}
        learned = self.fit.fit.learned
        return StoreFiles.create(path, graph, table, meta, force, calibration=learned.arrays())


def _learnable(calibration: str | Calibration | None, valid: int, wish: str) -> tuple[bool, dict[str, str]]:
    """Whether to learn a calibration, and if it would be the default but cannot be, the note that says why."""
    from tuplet.truth.learned.fit import LEAST_VALID

    if calibration not in (None, LEARNED):
        return False, {}
    if wish:
        return _refused(calibration, f"a learned calibration needs the whole table and no other fit ({wish})")
    if valid < LEAST_VALID:
        return _refused(calibration, f"{valid:,} valid edges are too few to learn from (at least {LEAST_VALID})")
    return True, {}


def _refused(calibration: str | Calibration | None, reason: str) -> tuple[bool, dict[str, str]]:
    """An error if a learned calibration was asked for; a note if it would only have been the default."""
    if calibration is not None:
        raise BadInput(f"no learned calibration: {reason}")
    return False, {"not_learned": reason}


def _rule(calibration: str | Calibration | None) -> Calibration:
    """The rule that turns scores into truth; the default one under a learned calibration."""
    from tuplet.truth.rules import Calibration

    if isinstance(calibration, Calibration):
        return calibration
    return Calibration() if calibration in (None, LEARNED) else Calibration(str(calibration))


def _sizes(graph: KnowledgeGraph) -> tuple[int, int]:
    return len(graph.entities), len(graph.relations)


def agreeing(graph: KnowledgeGraph, table: TruthTable, observed: Sequence[str]) -> KnowledgeGraph:
    """The graph whose observed facts are those of the table, so that joins and truth values never contradict."""
    size, facts = len(graph.entities), table.fact_edges()
    stated = observed_facts(graph, observed)
    wanted, given = edge_keys(size, *facts[:3]), edge_keys(size, *stated[:3])
    if np.array_equal(wanted, given):
        return graph
    heads, relation, tails, entry = graph.adjacency.triples()
    keep = ~np.isin(edge_keys(size, heads, relation, tails), np.concatenate([wanted, given]))
    heads, relation, tails = (
        np.concatenate([old[keep], new]) for old, new in zip((heads, relation, tails), facts[:3], strict=True)
    )
    split = np.concatenate([graph.split[entry][keep], facts.source])
    weight = None if graph.weight is None else np.concatenate([graph.weight[entry][keep], facts.truth])
    return KnowledgeGraph.of(graph.entities, graph.relations, heads, relation, tails, split, weight, graph.notes)


def index_facts(
    graph: KnowledgeGraph, path: str | os.PathLike[str], observed: Sequence[str] = OBSERVED, force: bool = False
) -> StoreFiles:
    """The store of a graph without a predictor: its facts with truth 1, in a weighted graph with their given truth."""
    refuse_existing(path, force)
    splits = known_splits(observed)
    table = TruthTable.assemble(len(graph.entities), len(graph.relations), observed_facts(graph, splits))
    meta = _meta(graph, splits, 0.0, None, None)
    meta["report"] = _report(graph, table, splits)
    return StoreFiles.create(path, graph, table, meta, force)


def fitted(
    graph: KnowledgeGraph, edges: Predictions, rule: Calibration, threshold: float
) -> tuple[Calibration, Predictions, float]:
    """The calibration with its power fitted on valid edges, the edges under it, and the threshold that now holds.

    Everything above the old threshold is known, so after a power below 1 nothing is known below threshold**power.
    """
    from tuplet.truth.rules import fit_power

    key = edge_keys(len(graph.entities), *edges[:3])
    unseen = ~np.isin(key, _keys(graph, "train"), assume_unique=True)
    valid = _keys(graph, "valid")
    if not len(valid):
        raise BadInput("a power is fitted on valid edges, and the graph has none")
    power = fit_power(edges.prediction[unseen], np.isin(key[unseen], valid, assume_unique=True))
    prediction = edges.prediction**power
    reached = max(threshold, threshold**power)
    keep = prediction >= reached
    raised = Predictions(
        edges.heads[keep], edges.relation[keep], edges.tails[keep], prediction[keep].astype(np.float32)
    )
    return replace(rule, power=rule.power * power), raised, reached


def reliability_of(
    graph: KnowledgeGraph, table: TruthTable, observed: Sequence[str], as_if_unknown: bool = False
) -> Reliability | None:
    """How the truth of unobserved edges agrees with held-out facts: valid if it is not observed, else test.

    If there is neither, `as_if_unknown` counts observed valid edges with the predictions that the table keeps of them:
    the predictor did not learn from them, and the calibration does not count them.
    """
    split = next((name for name in ("valid", "test") if name not in observed and len(_keys(graph, name))), None)
    part = np.flatnonzero(~table.observed & forward_entries(table.adjacency))
    if not len(part):
        return None
    truth = table.truth[part]
    if split is None:
        kept = table.fact_prediction[(table.fact_source == VALID) & (table.fact_prediction > 0)]
        if not as_if_unknown or not len(_keys(graph, "valid")):
            return None
        is_fact = np.arange(len(truth) + len(kept)) >= len(truth)
        return reliability(np.concatenate([truth, kept]), is_fact, split="valid")
    view, entity = table.adjacency.entry_rows()
    key = edge_keys(table.entities, entity[part], view[part] // 2, table.adjacency.neighbour[part])
    return reliability(truth, np.isin(key, _keys(graph, split), assume_unique=True), split=split)


def _report(
    graph: KnowledgeGraph, table: TruthTable, observed: Sequence[str], as_if_unknown: bool = False
) -> dict[str, Any]:
    report = table.sizes()
    found = reliability_of(graph, table, observed, as_if_unknown)
    report["reliability"] = None if found is None else found.as_dict()
    if found is not None:
        held_out = len(_keys(graph, found.split))
        report["held_out_listed"] = round(int(found.facts.sum()) / held_out, 6)
    return report


def _meta(
    graph: KnowledgeGraph,
    observed: Sequence[str],
    threshold: float,
    calibration: Mapping[str, Any] | None,
    description: Mapping[str, Any] | None,
) -> dict[str, Any]:
    known = ("kind", "rank", "sha256", "metrics")
    return {
        "graph": graph.hash,
        "observed": list(observed),
        "threshold": threshold,
        "calibration": None if calibration is None else dict(calibration),
        "model": None if description is None else {key: description[key] for key in known if key in description},
        "changes": {"added": 0, "removed": 0, "new_entities": 0},
    }


def _refuse_misfit(
    graph: KnowledgeGraph, description: Mapping[str, Any], model: str | os.PathLike[str], other_graph: bool
) -> None:
    for what, have in (("entities", len(graph.entities)), ("relations", len(graph.relations))):
        if description[what] != have:
            raise BadInput(
                f"{model} knows {description[what]:,} {what}, the graph has {have:,}: not trained on this graph"
            )
    # Sizes may agree by chance, and then every name would get the scores of another.
    learned_from = description.get("graph")
    if learned_from and not other_graph and learned_from not in (graph.hash, _fingerprint(graph)):
        raise BadInput(
            f"{model} was trained on another graph ({str(learned_from)[:12]}…, this one is {graph.hash[:12]}…); "
            "--other-graph takes it if entities and relations have the same numbers in both"
        )


def _fingerprint(graph: KnowledgeGraph) -> str:
    """What a model says of its graph if it was trained on arrays of edges alone."""
    from tuplet.predict.runs import fingerprint

    return fingerprint({split: graph.edges(split) for split in SPLIT_CODE})


def _keys(graph: KnowledgeGraph, split: str) -> NDArray[np.int64]:
    return edge_keys(len(graph.entities), *graph.edges(split))
