"""Why a tuple is an answer: its witness, atom by atom, and whether it rests on facts or on predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.query.ranking import Clauses, Edge, Ranking
from tuplet.query.schema import Status
from tuplet.query.source import Source
from tuplet.truth.calibration.bounds import BorneOut
from tuplet.truth.table import TruthTable


class Step(NamedTuple):
    """One atom of a witness, in ids. `truth` is that of the atom as it stands: 1 - x under a negation."""

    clause: int
    head: int
    relation: int
    tail: int
    negated: bool
    truth: float
    observed: bool


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
    def of(ranking: Ranking, clauses: Clauses, source: Source, stated: bool = False) -> Witnesses:
        """The witnesses of a ranking; with `stated`, facts are all that counts, also where there are truth values."""
        n = len(ranking.tuples)
        clauses = clauses if n else ()
        number = [c for c, clause in enumerate(clauses) for _ in clause.edges]
        atoms = [edge for clause in clauses for edge in clause.edges]
        heads, tails, each = np.empty((3, n, len(atoms)), np.int32)
        counts = np.ones((n, len(atoms)), dtype=bool)
        each[:] = [edge.relation for edge in atoms]
        first = 0
        for clause, assigned in zip(clauses, ranking.assignments, strict=False):
            for j, (head, _, tail, _) in enumerate(clause.edges, first):
                heads[:, j] = assigned[:, head] if head >= 0 else ~head
                tails[:, j] = assigned[:, tail] if tail >= 0 else ~tail
            after = first + len(clause.edges)
            if assigned.shape[1]:
                counts[:, first:after] = assigned[:, :1] >= 0
            first = after
        relations = each.ravel()
        if source.truth is None or stated:
            observed = source.facts.find_many(heads.ravel(), relations, tails.ravel()) >= 0
            value = observed.astype(np.float64)
        elif clauses:
            # Of rows on demand the table that was searched: thousands of values one by one would take long.
            table = source.truth if isinstance(source.truth, TruthTable) else source.table(clauses)
            value, observed = table.lookup(heads.ravel(), relations, tails.ravel())
        else:
            value, observed = np.zeros(0), np.zeros(0, dtype=bool)
        # an entity of an absent clause is -1, which no row has
        value, observed = value.reshape(heads.shape), observed.reshape(heads.shape)
        for j, edge in enumerate(atoms):
            if edge.negated:
                value[:, j] = 1.0 - value[:, j]
        return Witnesses(tuple(number), tuple(atoms), heads, tails, value, observed, counts)

    @staticmethod
    def merged(parts: Sequence[Witnesses], order: NDArray[np.int64]) -> Witnesses:
        """The witnesses of several lists of tuples as those of one list: one after another, then in order."""
        if len(parts) == 1:
            part = parts[0]
            return replace(
                part, **{name: getattr(part, name)[order] for name in ("heads", "tails", "truth", "observed", "counts")}
            )
        n, m = sum(len(part.heads) for part in parts), sum(len(part.edges) for part in parts)
        heads, tails = np.full((n, m), -1, np.int32), np.full((n, m), -1, np.int32)
        truth, observed, counts = np.zeros((n, m)), np.zeros((n, m), dtype=bool), np.zeros((n, m), dtype=bool)
        clause: list[int] = []
        row = column = 0
        for part in parts:
            here = slice(row, row + len(part.heads)), slice(column, column + len(part.edges))
            for whole, own in (
                (heads, part.heads),
                (tails, part.tails),
                (truth, part.truth),
                (observed, part.observed),
                (counts, part.counts),
            ):
                whole[here] = own
            clause += [c + (clause[-1] + 1 if column else 0) for c in part.clause]
            row, column = row + len(part.heads), column + len(part.edges)
        edges = tuple(edge for part in parts for edge in part.edges)
        return Witnesses(tuple(clause), edges, heads[order], tails[order], truth[order], observed[order], counts[order])

    def steps(self, i: int) -> tuple[Step, ...]:
        """The atoms that tuple i rests on, of every clause that gives it truth."""
        columns = (array[i].tolist() for array in (self.heads, self.tails, self.truth, self.observed, self.counts))
        return tuple(
            Step(clause, head, edge.relation, tail, edge.negated, truth, observed)
            for clause, edge, head, tail, truth, observed, counts in zip(self.clause, self.edges, *columns, strict=True)
            if counts
        )

    @cached_property
    def _negated(self) -> NDArray[np.bool_]:
        return np.array([edge.negated for edge in self.edges], dtype=bool)

    @cached_property
    def _stated(self) -> NDArray[np.bool_]:
        """Which atoms hold on facts alone: positive ones observed, negated ones not. [n, m]"""
        stated: NDArray[np.bool_] = self.observed != self._negated
        return self.counts & stated

    def rest_on_facts(self) -> NDArray[np.bool_]:
        """Whether some clause of the witness holds on facts alone. [n]"""
        holds = self._stated
        if self.clause and self.clause[0] == self.clause[-1]:  # one clause: most queries
            found: NDArray[np.bool_] = np.logical_and.reduce(holds, axis=1)
            return found
        by_clause = [
            holds[:, [j for j, other in enumerate(self.clause) if other == c]].all(axis=1)
            for c in dict.fromkeys(self.clause)
        ]
        return np.logical_or.reduce(by_clause) if by_clause else np.zeros(len(self.heads), dtype=bool)

    def least_truth(self, borne_out: BorneOut) -> NDArray[np.float64]:
        """How much of the truth of each tuple held-out facts bear out: predictions at their bounds, facts as they are.

        A negated prediction is as true as it may be. Another witness could only add to it. [n]
        """
        least = np.where(self.observed, self.truth, borne_out.least(self.truth))
        if self._negated.any():
            negated = self._negated & ~self.observed
            least[negated] = 1 - borne_out.most(1 - self.truth[negated])
        # a clause that gives the tuple no truth has an atom of truth 0
        by_clause = [
            least[:, [j for j, other in enumerate(self.clause) if other == c]].prod(axis=1)
            for c in dict.fromkeys(self.clause)
        ]
        return 1 - np.prod([1 - truth for truth in by_clause], axis=0) if by_clause else np.zeros(len(self.heads))

    def statuses(self, crisp: NDArray[np.int8]) -> list[Status | None]:
        """`observed` if the stated facts alone give the tuple; else by what its positive atoms rest on. [n]

        Where it is not known if they do (-1), the status is None.
        """
        stated = np.logical_or.reduce(self._stated & ~self._negated, axis=1)
        return [
            None if is_crisp < 0 else "observed" if is_crisp else "mixed" if some else "predicted"
            for is_crisp, some in zip(crisp.tolist(), stated.tolist(), strict=True)
        ]
