"""Benchmark queries and sets of them.

A query is a formula over symbols and a grounding. Relation numbers count directions, as in the public benchmarks: 2r is
relation r, 2r + 1 is relation r walked backwards.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.lab.bench.hardness import strata
from tuplet.lab.bench.shapes import ground_clauses, parse_formula
from tuplet.query.ranking import QueryGraph

Tuples: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class BenchQuery:
    """A grounded query with its answers: `easy` on the known facts, `hard` only on the full graph."""

    shape: str
    formula: str  # as EFOk-CQA writes it
    grounding: Mapping[str, int]  # r1 … to relation numbers (directions count), s1 … to entities
    easy: Tuples  # [n, k]
    hard: Tuples  # [m, k]
    index: int = 0
    meaningful: bool = True  # the negated atoms change the answers
    links: NDArray[np.int32] | None = None  # [m] links that must be predicted for each hard answer (bench/hardness.py)
    asked: int | None = None  # the place of the only hard answer that is scored; None: all are

    @property
    def k(self) -> int:
        return int(self.hard.shape[1])

    @property
    def scored(self) -> Tuples:
        """The hard answers whose ranks count."""
        return self.hard if self.asked is None else self.hard[self.asked : self.asked + 1]

    @property
    def filtered(self) -> Tuples:
        """The answers that neither count nor compete: the easy ones, and the hard ones that are not scored."""
        return (
            self.easy if self.asked is None else np.concatenate([self.easy, np.delete(self.hard, self.asked, axis=0)])
        )

    @property
    def strata(self) -> NDArray[np.int32] | None:
        """The stratum of each scored answer; None if the links were never counted."""
        if self.links is None:
            return None
        return strata(self.links if self.asked is None else self.links[self.asked : self.asked + 1])

    def clauses(self) -> tuple[QueryGraph, ...]:
        """The bound clauses, as engines take them.

        >>> none = np.empty((0, 1), np.int32)
        >>> BenchQuery("1p", "r1(s1,f1)", {"r1": 5, "s1": 7}, none, none).clauses()[0].edges
        (Edge(head=0, relation=2, tail=-8, negated=False),)
        """
        return ground_clauses(parse_formula(self.formula), self.grounding)


@dataclass(frozen=True, eq=False)
class QuerySet:
    """Queries of several shapes, and how they came to be."""

    queries: tuple[BenchQuery, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.queries)

    def __iter__(self) -> Iterator[BenchQuery]:
        return iter(self.queries)

    def by_shape(self) -> dict[str, list[BenchQuery]]:
        groups: dict[str, list[BenchQuery]] = {}
        for query in self.queries:
            groups.setdefault(query.shape, []).append(query)
        return groups

    def first(self, count: int) -> QuerySet:
        """The first queries of each shape; samples are nested, so this is what a smaller sample would have been."""
        if count < 1:
            raise BadInput(f"at least one query of each shape is needed, not {count}")
        return replace(self, queries=tuple(q for group in self.by_shape().values() for q in group[:count]))

    @property
    def digest(self) -> str:
        """A hash of the queries, their answers and what is scored: only runs with the same one may be compared."""
        total = hashlib.sha256()
        for q in self.queries:
            total.update(json.dumps([q.shape, q.formula, sorted(q.grounding.items())]).encode())
            for answers in (q.easy, q.hard):
                total.update(np.ascontiguousarray(answers, dtype=np.int32).tobytes() + b"|")
            if q.asked is not None:
                total.update(f"asked {q.asked}".encode())
        return total.hexdigest()

    @staticmethod
    def from_parts(parts: Iterable[QuerySet], meta: Mapping[str, Any]) -> QuerySet:
        return QuerySet(tuple(query for part in parts for query in part), meta)
