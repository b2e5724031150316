"""`tuplet guarantee`: what held-out queries show about a store, kept in the store for `--confidence`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet import settings
from tuplet.engines.exact import Checker
from tuplet.errors import BadInput
from tuplet.lab.bench.metrics import find_keys, tuple_keys
from tuplet.lab.bench.queries import BenchQuery, QuerySet
from tuplet.lab.bench.run import refuse_other_graph
from tuplet.progress import counted
from tuplet.query.engine import Engine
from tuplet.query.guarantees import SCALE, measure
from tuplet.query.limits import NO_DEADLINE, Limits
from tuplet.query.ranking import Ranking, query_family, query_shape
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
        files.note(files.meta, guarantees=found.save)
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
    return Guarantees.from_shapes(shape_scores(rank_held_out(source, None, queries, SCALE, told)), about)


@dataclass(frozen=True)
class HeldOutQuery:
    """One query: its best tuples that the observed facts do not give, and its hidden answers."""

    query: BenchQuery
    ranking: Ranking  # its n best tuples
    right: NDArray[np.bool_] | None  # [n] whether they are answers on the full graph, where that was asked
    hidden: Floats  # [m] the truth of the hidden answers; 0 where the table does not reach them
    place: Floats  # [m] where they stand in the list, from 1; infinite if they are not in it

    @property
    def truth(self) -> Floats:
        return self.ranking.truth


def rank_held_out(
    source: Source,
    full: Source | None,
    queries: Iterable[BenchQuery],
    depth: int,
    report: Callable[[int], None] | None = None,
) -> list[HeldOutQuery]:
    """The `depth` best tuples of each query and its hidden answers; `full` says which tuples are right."""
    engine: Engine[Any] = settings.find_plugin("engines", "exact")
    limits = Limits(k=depth, only="predicted")
    found = []
    for number, query in enumerate(queries, 1):
        clauses = query.clauses()
        plan = engine.planned(clauses, source, limits)
        ranking = engine.run(plan, limits, NO_DEADLINE)
        right = None if full is None else Checker.from_source(clauses, full).holds(ranking.tuples, NO_DEADLINE)
        hidden = engine.score(plan, query.hard, limits, NO_DEADLINE)
        at = find_keys(*tuple_keys(ranking.tuples, query.hard))
        found.append(HeldOutQuery(query, ranking, right, hidden, np.where(at < 0, np.inf, at + 1.0)))
        if report is not None:
            report(number)
    return found


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
            np.concatenate([one.hidden / measure(one.truth) for one in members]),
            np.concatenate([np.full(len(one.hidden), 1 / len(one.hidden)) for one in members]),
        )
        for shape, members in groups.items()
    ]


def summary(found: Guarantees) -> dict[str, Any]:
    """The numbers for people: of each shape its queries, its reach, and whether sets can be promised."""
    shapes = {}
    for one in found.shapes.values():
        everything = [f"{level:g}" for level in LEVELS if one.level(level) is None]
        ending = f"; everything at {', '.join(everything)}" if everything else ""
        queries = counted(one.queries, "query", "queries")
        shapes[one.name] = f"{queries}, {100 * one.reach:.1f} % of their hidden answers in reach{ending}"
    return {"queries": sum(one.queries for one in found.shapes.values()), "shapes": shapes}
