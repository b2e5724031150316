"""Are joint answers right as often as their truth says? Predicted tuples, judged on the full graph.

Queries that were kept because they have answers among the hidden facts are right more often than any truth can know;
an honest sample is chosen without looking at them: `tuplet bench sample GRAPH --known train --target valid`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet import settings
from tuplet.engines.exact import holds
from tuplet.errors import BadInput
from tuplet.graph.graph import SPLITS
from tuplet.lab.bench.queries import BenchQuery
from tuplet.query.engine import Engine
from tuplet.query.limits import NO_DEADLINE, Limits
from tuplet.query.source import Source
from tuplet.query.witness import Witnesses
from tuplet.truth.calibration.reliability import SURE, Reliability, reliability

TENTHS = tuple(round(0.1 * i, 1) for i in range(11))
Mask = NDArray[np.bool_]


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
        """How many positive atoms of the witness are predicted. [n]"""
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


def everything(source: Source) -> Source:
    """The same graph with the facts of all splits, which judge what was predicted from some of them."""
    seen = SPLITS if source.splits is None else source.splits
    if not any(len(source.graph.edges(split)[0]) for split in SPLITS if split not in seen):
        raise BadInput("every fact of the graph is observed: nothing is left to judge predicted tuples by")
    return Source(source.graph, SPLITS)


def judge(
    source: Source, queries: Iterable[BenchQuery], full: Source, top: int = 100, engine: str = "exact"
) -> list[JudgedTuples]:
    """The `top` tuples of each query that the facts of the source do not give; `full` says which are right.

    Queries without such a tuple are left out. Lists of answers that a query set brings are not looked at.
    """
    if top < 1:
        raise BadInput(f"at least one tuple of each query is judged, not {top}")
    runner: Engine[Any] = settings.find_plugin("engines", engine, modules=True)
    limits = Limits(k=top, only="predicted")
    judged = []
    for query in queries:
        clauses = query.clauses()
        ranking = runner.run(runner.planned(clauses, source, limits), limits, NO_DEADLINE)
        if not len(ranking.tuples):
            continue
        found = Witnesses.from_ranking(ranking, clauses, source)
        right = holds(clauses, full, ranking.tuples, NO_DEADLINE)
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
