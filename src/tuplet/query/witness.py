"""Why a tuple is an answer: its witness, atom by atom, and whether it rests on facts or on predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.query.ranking import Clauses, Edge, Ranking
from tuplet.query.schema import Status
from tuplet.query.source import Source
from tuplet.truth.calibration.reliability import BorneOut
from tuplet.truth.table import TruthTable

Triple: TypeAlias = tuple[int, int, int]  # head, relation, tail
KINDS = (np.int32, np.int32, np.float64, np.bool_, np.bool_)  # of the arrays of `Witnesses`


@dataclass(frozen=True)
class Witnesses:
    """What each of n tuples rests on: the m atoms of all clauses together, looked up once for all tuples."""

    clause: tuple[int, ...]  # [m]
    edges: tuple[Edge, ...]  # [m]
    heads: NDArray[np.int32]  # [n, m]
    tails: NDArray[np.int32]  # [n, m]
    truth: NDArray[np.float64]  # [n, m] of the atom as it stands: 1 - x under a negation
    observed: NDArray[np.bool_]  # [n, m]
    counts: NDArray[np.bool_]  # [n, m] whether the clause of the atom gives the tuple truth

    @staticmethod
    def from_ranking(ranking: Ranking, clauses: Clauses, source: Source, stated: bool = False) -> Witnesses:
        """The witnesses of a ranking; with `stated`, facts are all that counts, also where there are truth values."""
        n = len(ranking.tuples)
        clauses = clauses if n else ()
        number: list[int] = []
        atoms: list[Edge] = []
        for c, clause in enumerate(clauses):
            number += [c] * len(clause.edges)
            atoms += clause.edges
        heads, tails, relations = np.empty((3, n, len(atoms)), np.int32)
        counts = np.ones((n, len(atoms)), dtype=bool)
        for j, (c, (head, relation, tail, _)) in enumerate(zip(number, atoms, strict=True)):
            assigned = ranking.assignments[c]
            heads[:, j] = assigned[:, head] if head >= 0 else ~head
            tails[:, j] = assigned[:, tail] if tail >= 0 else ~tail
            relations[:, j] = relation
            if assigned.shape[1]:
                counts[:, j] = assigned[:, 0] >= 0
        edges = heads.ravel(), relations.ravel(), tails.ravel()
        if source.truth is None or stated:
            observed = source.facts.find_many(*edges) >= 0
            value = observed.astype(np.float64)
        elif clauses:
            # Of rows on demand the table that was searched: thousands of values one by one would take long.
            table = source.truth if isinstance(source.truth, TruthTable) else source.table(clauses)
            value, observed = table.lookup(*edges)
        else:
            value, observed = np.zeros(0), np.zeros(0, dtype=bool)
        # an entity of an absent clause is -1, which no row has
        value, observed = value.reshape(heads.shape), observed.reshape(heads.shape)
        for j, edge in enumerate(atoms):
            if edge.negated:
                value[:, j] = 1.0 - value[:, j]
        return Witnesses(tuple(number), tuple(atoms), heads, tails, value, observed, counts)

    @staticmethod
    def merge(parts: Sequence[Witnesses], order: NDArray[np.int64]) -> Witnesses:
        """The witnesses of several lists of tuples as those of one list: one after another, then in order."""
        n, m = sum(len(part.heads) for part in parts), sum(len(part.edges) for part in parts)
        empty = zip((-1, -1, 0, 0, 0), KINDS, strict=True)
        whole: list[NDArray[Any]] = [np.full((n, m), value, kind) for value, kind in empty]
        clause: list[int] = []
        row = column = 0
        for part in parts:
            here = slice(row, row + len(part.heads)), slice(column, column + len(part.edges))
            for array, own in zip(whole, part.arrays, strict=True):
                array[here] = own
            clause += [c + (clause[-1] + 1 if column else 0) for c in part.clause]
            row, column = row + len(part.heads), column + len(part.edges)
        edges = tuple(edge for part in parts for edge in part.edges)
        return Witnesses(tuple(clause), edges, *(array[order] for array in whole))

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What is known of the atoms. Five arrays [n, m]"""
        return self.heads, self.tails, self.truth, self.observed, self.counts

    @cached_property
    def negated(self) -> NDArray[np.bool_]:
        """Which atoms are negated. [m]"""
        return np.fromiter(map(attrgetter("negated"), self.edges), bool, len(self.edges))

    @cached_property
    def _starts(self) -> NDArray[np.intp]:
        """The first atom of each clause; its atoms stand side by side."""
        return np.array(list(map(self.clause.index, dict.fromkeys(self.clause))), np.intp)

    def rest_on_facts(self) -> NDArray[np.bool_]:
        """Whether some clause of the witness holds on facts alone: positive atoms stated, negated ones not. [n]"""
        holds = self.counts & (self.observed != self.negated)
        return np.asarray(np.logical_and.reduceat(holds, self._starts, axis=1).any(axis=1))

    def least_truth(self, borne_out: BorneOut) -> NDArray[np.float64]:
        """How much of the truth of each tuple held-out facts bear out: predictions at their bounds, facts as they are.

        A negated prediction is as true as it may be. Another witness could only add to it. [n]
        """
        predicted = np.where(self.negated, 1 - borne_out.most(1 - self.truth), borne_out.least(self.truth))
        least = np.where(self.observed, self.truth, predicted)
        # a clause that gives the tuple no truth has an atom of truth 0
        return np.asarray(1 - np.prod(1 - np.multiply.reduceat(least, self._starts, axis=1), axis=1))

    def statuses(self, crisp: NDArray[np.int8]) -> list[Status | None]:
        """`observed` if the stated facts alone give the tuple; else by what its positive atoms rest on. [n]

        Where it is not known if they do (-1), the status is None.
        """
        stated = np.logical_or.reduce(self.counts & self.observed & ~self.negated, axis=1)
        return [
            None if is_crisp < 0 else "observed" if is_crisp else "mixed" if some else "predicted"
            for is_crisp, some in zip(crisp.tolist(), stated.tolist(), strict=True)
        ]
