"""Held-out queries beside what a store says of them: where their hidden answers stand, and what is right.

What `tuplet guarantee` learns from, and what `benchmarks/guarantees.py` judges it by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet import settings
from tuplet.engines.exact import Checker
from tuplet.lab.bench.metrics import tuple_keys
from tuplet.lab.bench.queries import BenchQuery
from tuplet.query.engine import Engine
from tuplet.query.limits import NO_DEADLINE, Limits
from tuplet.query.ranking import Ranking
from tuplet.query.source import Source

Floats = NDArray[np.float64]


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
        """The truth of the listed tuples, best first. [n]"""
        return self.ranking.truth


def held_out(
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
        right = None if full is None else Checker.of(clauses, full).holds(ranking.tuples, NO_DEADLINE)
        hidden = engine.score(plan, query.hard, limits, NO_DEADLINE)
        listed, wanted = tuple_keys(ranking.tuples, query.hard)
        found.append(HeldOutQuery(query, ranking, right, hidden, places(listed, wanted)))
        if report is not None:
            report(number)
    return found


def places(listed: NDArray[np.integer], wanted: NDArray[np.integer]) -> Floats:
    """Where each wanted number stands in a list of distinct ones, from 1; infinite if it is not there.

    >>> places(np.array([7, 3, 9]), np.array([9, 4])).tolist()
    [3.0, inf]
    """
    if not len(listed):
        return np.full(len(wanted), np.inf)
    order = np.argsort(listed)
    at = np.minimum(np.searchsorted(listed, wanted, sorter=order), len(listed) - 1)
    return np.where(listed[order[at]] == wanted, order[at] + 1.0, np.inf)
