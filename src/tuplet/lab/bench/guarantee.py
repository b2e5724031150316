"""`tuplet guarantee`: what held-out queries show about a store, kept in the store for `--confidence`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tuplet.errors import BadInput
from tuplet.lab.bench.held_out import HeldOutQuery, held_out
from tuplet.lab.bench.queries import QuerySet
from tuplet.lab.bench.run import refuse_other_graph
from tuplet.progress import counted
from tuplet.query.guarantees import SCALE, measure
from tuplet.query.ranking import query_family, query_shape
from tuplet.query.source import Source
from tuplet.store import open_store
from tuplet.truth.guarantees import Floats, Guarantees, ShapeScores
from tuplet.truth.store_folder import PATIENCE, is_store, writing

LEVELS = (0.8, 0.9)  # of the report


def guarantee(
    store: str | os.PathLike[str],
    queries: QuerySet,
    measured_on: str | os.PathLike[str] | None = None,
    report: Callable[[float, float], None] | None = None,
    timeout: float = PATIENCE,
) -> Guarantees:
    """Learn from held-out queries how long answer sets must be, and keep it in the store.

    The queries are those of a store that observes what they take for known; where that is another store of the same
    graph, it is `measured_on`.
    """
    for path in (store, measured_on or store):
        if not is_store(path):
            raise BadInput(f"{path} is not a store (tuplet build, tuplet index)")
    source = open_store(measured_on or store).source
    refuse_unfit(queries, source)
    if source.graph.hash != (home := open_store(store).source.graph.hash):
        raise BadInput(f"{measured_on} holds graph {source.graph.hash[:12]}, {store} holds {home[:12]}")
    found = learn(queries, source, report)
    with writing(store, timeout) as files:
        files.noted(files.meta, guarantees=found.save)
    return found


def refuse_unfit(queries: QuerySet, source: Source) -> None:
    """What is hidden in the queries must be hidden in the store, and nothing else."""
    refuse_other_graph(queries, source)
    if not len(queries) or not all(len(query.hard) for query in queries):
        raise BadInput("there are no queries with hidden answers to learn from (tuplet bench sample)")
    known, observed = queries.meta.get("known"), source.splits
    if observed is None or (known is not None and set(known) != set(observed)):
        told = ",".join(known or ("what is not said",))
        raise BadInput(
            f"the queries take {told} for known, the store observes {','.join(observed or ('everything',))}: "
            f"measure on one that observes the same (tuplet index --observed {told}, then --measured-on)"
        )


def learn(queries: QuerySet, source: Source, report: Callable[[float, float], None] | None = None) -> Guarantees:
    """The scores of hidden answers, shape by shape."""
    told = None if report is None else lambda done: report(done, len(queries))
    about = {"queries": queries.digest, **{key: queries.meta.get(key) for key in ("known", "target", "seed")}}
    return Guarantees.of(shape_scores(held_out(source, None, queries, SCALE, told)), about)


def shape_scores(found: Iterable[HeldOutQuery]) -> list[ShapeScores]:
    """Held-out queries by shape; those that have none (`query_shape`) are left out."""
    groups: dict[str, list[HeldOutQuery]] = {}
    for one in found:
        groups.setdefault(query_shape(one.query.clauses()) or "", []).append(one)
    groups.pop("", None)
    return [
        ShapeScores(
            shape,
            query_family(members[0].query.clauses()),
            members[0].query.shape,
            len(members),
            np.concatenate([scores(one) for one in members]),
            np.concatenate([np.full(len(one.hidden), 1 / len(one.hidden)) for one in members]),
        )
        for shape, members in groups.items()
    ]


def scores(one: HeldOutQuery) -> Floats:
    """The scores of the hidden answers of a query: their truth in the measure of the query."""
    return np.asarray(one.hidden / measure(one.truth))


def summary(found: Guarantees) -> dict[str, Any]:
    """The numbers for people: of each shape its queries, its reach, and whether sets can be promised."""
    return {
        "queries": sum(one.queries for one in found.shapes.values()),
        "shapes": {one.name: _told(one) for one in found.shapes.values()},
    }


def _told(one: ShapeScores) -> str:
    everything = [f"{level:g}" for level in LEVELS if one.level(level) is None]
    said = f"; everything at {', '.join(everything)}" if everything else ""
    return f"{counted(one.queries, 'query', 'queries')}, {100 * one.reach:.1f} % of their hidden answers in reach{said}"
