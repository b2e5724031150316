"""Which given tuples the observed facts alone imply, and through which: what `status` and `only` ask.

The exact engine's point evaluation over the facts: its messages are remembered, so that a path costs its edges and
not the number of its walks; and it looks at the deadline of the question.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.exact.effort import Effort
from tuplet.engines.exact.part import bind_clause
from tuplet.engines.exact.search_rows import SearchRows, fixed_rows
from tuplet.engines.exact.stream import ClauseStream, Ids
from tuplet.graph.adjacency import Adjacency
from tuplet.query.limits import Deadline, OutOfMemory, OutOfTime
from tuplet.query.logic import PRODUCT
from tuplet.query.ranking import Clauses
from tuplet.query.source import Source


class Checker:
    """A query on the facts of a source; what it learns of one tuple serves the next."""

    def __init__(self, clauses: Clauses, rows: SearchRows, effort: Effort | None = None) -> None:
        self.width = len(clauses[0].free)
        self.effort = effort or Effort()
        self.streams = [ClauseStream(bind_clause(c, rows), PRODUCT, self.effort) for c in clauses]

    @staticmethod
    def of(clauses: Clauses, source: Source, effort: Effort | None = None) -> Checker:
        """The checker of a query on a source; what it holds is within the memory of `effort`."""
        source.facts_of(clauses)
        return Checker(clauses, facts_rows(source), effort)

    def judge(self, tuples: NDArray[np.integer], deadline: Deadline) -> NDArray[np.int8]:
        """For each tuple [n, k] 1 if it is an answer on the facts, 0 if not, -1 where a limit came first."""
        ids = np.asarray(tuples, dtype=np.int32).reshape(len(tuples), self.width)
        found = np.zeros(len(ids), dtype=np.int8)
        known = len(ids)
        self.effort.search = deadline  # a purely existential part is searched, once
        for stream in self.streams:
            open_ = np.flatnonzero(found[:known] == 0)
            truth, _, done = stream.points(ids[open_], deadline)
            found[open_[:done]] = truth[:done] > 0
            known = known if done == len(open_) else int(open_[done])
        found[known:][found[known:] == 0] = -1
        return found

    def holds(self, tuples: NDArray[np.integer], deadline: Deadline) -> NDArray[np.bool_]:
        """Which tuples are answers on the facts; raises `OutOfTime` or `OutOfMemory` at a limit."""
        found = self.judge(tuples, deadline)
        if (found < 0).any():
            raise self._over()
        return found > 0

    def explain(self, tuples: NDArray[np.integer], deadline: Deadline) -> tuple[NDArray[np.bool_], tuple[Ids, ...]]:
        """Which tuples are answers, and for each clause the values of all variables [n, variables], -1 if it fails."""
        ids = np.asarray(tuples, dtype=np.int32).reshape(len(tuples), self.width)
        self.effort.search = deadline
        found = [stream.points(ids, deadline) for stream in self.streams]
        if any(done < len(ids) for _, _, done in found):
            raise self._over()
        return np.logical_or.reduce([truth > 0 for truth, _, _ in found]), tuple(witness for _, witness, _ in found)

    def _over(self) -> OutOfTime:
        return OutOfMemory() if self.effort.exceeded() == "memory" else OutOfTime()


def facts_rows(source: Source) -> SearchRows:
    """The facts of a source as rows of truth 1, made once."""
    made: SearchRows | None = source.prepared.get("facts")
    if made is None:
        made = source.prepared["facts"] = rows_of_facts(source.facts, source.graph.entities.sort_rank)
    return made


def rows_of_facts(facts: Adjacency, rank: NDArray[np.int32]) -> SearchRows:
    """Facts as rows: no truth beside them means 1."""
    none = np.zeros(0, dtype=np.float32)
    return SearchRows(fixed_rows(facts, none, none.astype(np.int32), none, rank), facts)


def holds(clauses: Clauses, source: Source, tuples: NDArray[np.integer], deadline: Deadline) -> NDArray[np.bool_]:
    """Which tuples [n, k] are answers on the facts; raises `OutOfTime` at the deadline."""
    return Checker.of(clauses, source).holds(tuples, deadline)
