"""Predicted tuples beside held-out facts: are they right as often as their truth says, and how long must sets be?

`tuplet bench reliability` judges predicted tuples on the full graph. Queries that were kept because they have answers
among the hidden facts are right more often than any truth can know; an honest sample is chosen without looking at them:
`tuplet bench sample GRAPH --known train --target valid`.

`tuplet guarantee` learns from the hidden answers of queries what `--confidence` promises, and keeps it in the store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet import settings
from tuplet.engines.exact import holds
from tuplet.errors import BadInput
from tuplet.graph.graph import SPLITS
from tuplet.lab.bench.metrics import find_keys, tuple_keys
from tuplet.lab.bench.queries import BenchQuery, QuerySet
from tuplet.lab.bench.run import refuse_other_graph
from tuplet.progress import counted
from tuplet.query.engine import Engine, Plan
from tuplet.query.guarantees import SCALE, measure
from tuplet.query.limits import NO_DEADLINE, Limits
from tuplet.query.ranking import Ranking, query_family, query_shape
from tuplet.query.source import Source
from tuplet.query.witness import Witnesses
from tuplet.store import open_store
from tuplet.truth.calibration.reliability import SURE, Reliability, reliability
from tuplet.truth.guarantees import Floats, Guarantees, ShapeScores
from tuplet.truth.store_folder import PATIENCE, is_store, writing

TENTHS = tuple(round(0.1 * i, 1) for i in range(11))
LEVELS = (0.8, 0.9)  # of confidence, in the summary of `tuplet guarantee`
Mask = NDArray[np.bool_]


def everything(source: Source) -> Source:
    """The same graph with the facts of all splits, which judge what was predicted from some of them."""
    seen = SPLITS if source.splits is None else source.splits
    if not any(len(source.graph.edges(split)[0]) for split in SPLITS if split not in seen):
        raise BadInput("every fact of the graph is observed: nothing is left to judge predicted tuples by")
    return Source(source.graph, SPLITS)


def rank_predicted(
    source: Source, queries: Iterable[BenchQuery], most: int
) -> Iterator[tuple[BenchQuery, Plan, Ranking]]:
    """The best tuples of each query that the observed facts do not give, `most` of them."""
    engine: Engine[Any] = settings.find_plugin("engines", "exact")
    limits = Limits(k=most, only="predicted")
    for query in queries:
        plan = engine.planned(query.clauses(), source, limits)
        yield query, plan, engine.run(plan, limits, NO_DEADLINE)


# --- reliability ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JudgedTuples:
    """The best tuples of one query that the observed facts do not give, and which are answers on the full graph."""

    query: BenchQuery
    truth: NDArray[np.float64]  # [n]
    right: Mask  # [n]
    witnesses: Witnesses  # of the n tuples
    edges: NDArray[np.int64]  # [n, atoms, 3] relation, head and tail of each atom

    @cached_property
    def predicted(self) -> NDArray[np.int64]:
        """The number of predicted positive atoms of each witness. [n]"""
        found = self.witnesses
        return np.asarray((found.counts & ~found.observed & ~self._negated).sum(axis=1))

    @property
    def groups(self) -> tuple[str, ...]:
        """The families that the query belongs to."""
        clauses = self.query.clauses()
        negation = "negation" if self._negated.any() else "no negation"
        shape = max((clause.shape() for clause in clauses), key=("tree", "multi-edge", "cyclic").index)
        exists = "exists" if any(clause.existential for clause in clauses) else "all free"
        return f"k = {self.query.k}", negation, shape, exists

    @property
    def _negated(self) -> Mask:
        return np.array([edge.negated for edge in self.witnesses.edges], dtype=bool)

    def right_if(self, drawn: NDArray[np.float64]) -> Mask:
        """Which tuples are right if an edge of truth x is a fact when the number drawn for it is below x. [n]

        `drawn` [n, atoms] holds the same number wherever the same edge stands.
        """
        found = self.witnesses
        holds = found.counts & (np.where(self._negated, 1 - drawn, drawn) < found.truth)
        clauses = np.array(found.clause)
        return np.asarray(np.any([holds[:, clauses == c].all(axis=1) for c in dict.fromkeys(found.clause)], axis=0))


def judge(source: Source, queries: Iterable[BenchQuery], full: Source, top: int = 100) -> list[JudgedTuples]:
    """The `top` tuples of each query that the facts of the source do not give; `full` says which are right.

    Queries without such a tuple are left out. Lists of answers that a query set brings are not looked at.
    """
    if top < 1:
        raise BadInput(f"at least one tuple of each query is judged, not {top}")
    judged = []
    for query, plan, ranking in rank_predicted(source, queries, top):
        if not len(ranking.tuples):
            continue
        found = Witnesses.from_ranking(ranking, plan.clauses, source)
        right = holds(plan.clauses, full, ranking.tuples, NO_DEADLINE)
        relations = np.broadcast_to([edge.relation for edge in found.edges], found.heads.shape)
        edges = np.stack([relations, found.heads, found.tails], axis=2)
        judged.append(JudgedTuples(query, ranking.truth, right, found, edges))
    return judged


def reliability_of(judged: Iterable[JudgedTuples]) -> Reliability:
    """How often tuples of a given truth are right, by tenths of truth."""
    members = list(judged)
    truth = np.concatenate([np.zeros(0), *(one.truth for one in members)])
    right = np.concatenate([np.zeros(0, dtype=bool), *(one.right for one in members)])
    return reliability(truth, right, TENTHS, "all")


def errors_by_chance(judged: Iterable[JudgedTuples], draws: int = 20, seed: int = 0) -> tuple[float, float]:
    """The mean calibration errors of these tuples if every edge were a fact exactly as often as its truth says.

    One edge stands in many tuples, so tuples are right or wrong together and even perfect truth values show an error;
    it is what a measured error is to be compared with. The second is that of the tuples of truth 0.1 and more.
    """
    members = list(judged)
    if not members:
        return 0.0, 0.0
    every_edge = np.concatenate([one.edges.reshape(-1, 3) for one in members])
    distinct, place = np.unique(every_edge, axis=0, return_inverse=True)
    ends = np.cumsum([one.edges.size // 3 for one in members])[:-1]
    truth, rng, errors = np.concatenate([one.truth for one in members]), np.random.default_rng(seed), []
    for _ in range(draws):
        drawn = np.split(rng.random(len(distinct))[place], ends)
        right = [one.right_if(part.reshape(one.edges.shape[:2])) for one, part in zip(members, drawn, strict=True)]
        found = reliability(truth, np.concatenate(right), TENTHS)
        errors.append((found.error, found.error_from(SURE)))
    every, sure = np.mean(errors, axis=0).tolist()
    return every, sure


def families(judged: Sequence[JudgedTuples]) -> dict[str, dict[str, Any]]:
    """The numbers of all queries and of each family: tuples, mean truth, share of right ones, errors, tenths."""
    groups: dict[str, list[JudgedTuples]] = {"all": list(judged)}
    for one in judged:
        for name in one.groups:
            groups.setdefault(name, []).append(one)
    table = {}
    for name in ["all", *sorted(set(groups) - {"all"})]:
        found, chance = reliability_of(groups[name]), errors_by_chance(groups[name])
        total = max(1, int(found.entries.sum()))
        table[name] = {
            "queries": len(groups[name]),
            "tuples": int(found.entries.sum()),
            "truth": float((found.entries * found.mean).sum() / total),
            "right": float(found.facts.sum() / total),
            "ece": found.error,
            "ece_by_chance": chance[0],
            "ece_from_0.1": found.error_from(SURE),
            "ece_from_0.1_by_chance": chance[1],
            "tenths": [float(s) if n else None for s, n in zip(found.share, found.entries, strict=True)],
        }
    return table


def as_text(table: dict[str, dict[str, Any]]) -> str:
    """The numbers of `families`, one line each; the last column is the share of right tuples by tenths of truth."""
    chance = f"{'(by chance)':>11}"
    head = f"{'':12} {'tuples':>7} {'truth':>6} {'right':>6} {'ECE':>6} {chance} {'from .1':>8} {chance}"
    lines = [f"{head}  right by tenths of truth"]
    for name, row in table.items():
        numbers = f"{name:12} {row['tuples']:7} {row['truth']:6.3f} {row['right']:6.3f}"
        errors = f"{row['ece']:6.3f} {row['ece_by_chance']:11.3f}"
        sure = f"{row['ece_from_0.1']:8.3f} {row['ece_from_0.1_by_chance']:11.3f}"
        tenths = " ".join("   –" if share is None else f"{share:.2f}" for share in row["tenths"])
        lines.append(f"{numbers} {errors} {sure}  {tenths}")
    return "\n".join(lines)


# --- guarantees ----------------------------------------------------------------------------------------------------


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
    """Raise `BadInput` unless the store observes exactly what the queries take for known."""
    refuse_other_graph(queries, source)
    if not len(queries) or not all(len(query.hard) for query in queries):
        raise BadInput("there are no queries with hidden answers to learn from (tuplet bench sample)")
    known, observed = queries.meta.get("known"), source.splits
    if observed is None or (known is not None and set(known) != set(observed)):
        taken = ",".join(known or ("what is not said",))
        raise BadInput(
            f"the queries take {taken} for known, the store observes {','.join(observed or ('everything',))}: "
            f"measure on one that observes the same (tuplet index --observed {taken}, then --measured-on)"
        )


def learn(queries: QuerySet, source: Source, report: Callable[[float, float], None] | None = None) -> Guarantees:
    """The scores of hidden answers, shape by shape."""
    about = {"queries": queries.digest, **{key: queries.meta.get(key) for key in ("known", "target", "seed")}}
    return Guarantees.from_shapes(shape_scores(rank_held_out(source, None, queries, SCALE, report)), about)


@dataclass(frozen=True)
class HeldOutQuery:
    """One query: its best tuples that the observed facts do not give, and its hidden answers."""

    query: BenchQuery
    ranking: Ranking  # its n best tuples
    right: Mask | None  # [n] whether they are answers on the full graph, where that was asked
    hidden: Floats  # [m] the truth of the hidden answers; 0 where the table does not reach them
    place: Floats  # [m] where they stand in the list, from 1; infinite if they are not in it

    @property
    def truth(self) -> Floats:
        return self.ranking.truth


def rank_held_out(
    source: Source,
    full: Source | None,
    queries: QuerySet | Sequence[BenchQuery],
    depth: int,
    report: Callable[[float, float], None] | None = None,
) -> list[HeldOutQuery]:
    """The `depth` best tuples of each query and its hidden answers; `full` says which tuples are right."""
    engine: Engine[Any] = settings.find_plugin("engines", "exact")
    found = []
    for query, plan, ranking in rank_predicted(source, queries, depth):
        right = None if full is None else holds(plan.clauses, full, ranking.tuples, NO_DEADLINE)
        hidden = engine.score(plan, query.hard, Limits(k=depth, only="predicted"), NO_DEADLINE)
        at = find_keys(*tuple_keys(ranking.tuples, query.hard))
        found.append(HeldOutQuery(query, ranking, right, hidden, np.where(at < 0, np.inf, at + 1.0)))
        if report is not None:
            report(len(found), len(queries))
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
