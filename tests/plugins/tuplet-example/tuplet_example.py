"""What another package can add to tuplet: an engine, a predictor and a reader, named in the pyproject.toml beside."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.exact import holds
from tuplet.errors import BadInput, BudgetExceeded
from tuplet.query.engine import Engine, Plan, Tuples, Values
from tuplet.query.limits import Deadline, Limits, OutOfTime
from tuplet.query.ranking import Clauses, Edge, QueryGraph, Ranking
from tuplet.query.source import Source
from tuplet.settings import knob
from tuplet.truth.table import TruthTable

# --- a reader ------------------------------------------------------------------------------------------------------

ARROW = re.compile(r"(.+?) -(.+?)-> (.+)")


def read_arrows(path: Path, columns: Mapping[str, str | int] | None) -> Iterator[tuple[str, str, str]]:
    """Facts from lines such as `paris -capital of-> france`."""
    if columns is not None:
        raise BadInput(f"{path}: a file of arrows has no columns")
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        found = ARROW.fullmatch(line.strip())
        if found is None:
            raise BadInput(f"{path}, line {number}: expected head -relation-> tail, found {line!r}")
        yield found[1], found[2], found[3]


# --- a predictor ---------------------------------------------------------------------------------------------------


class Popularity:
    """Scores an end of an edge by how often the relation has it there."""

    def __init__(self, entities: int, relations: int, settings: object) -> None:
        self.entities, self.relations = entities, relations
        self.as_head, self.as_tail = np.zeros((2, relations, entities))

    def fit(self, edges: Any) -> None:
        """Count the ends of the train edges."""
        heads, relation, tails = edges.splits["train"]
        np.add.at(self.as_head, (relation, heads), 1.0)
        np.add.at(self.as_tail, (relation, tails), 1.0)

    def tails(self, heads: Any, relation: int) -> NDArray[np.float64]:
        """The same row for every head. [n] → [n, entities]"""
        return np.tile(self.as_tail[relation], (len(heads), 1))

    def heads(self, tails: Any, relation: int) -> NDArray[np.float64]:
        """The same row for every tail. [n] → [n, entities]"""
        return np.tile(self.as_head[relation], (len(tails), 1))

    def pairs(self, heads: Any, relation: Any, tails: Any) -> NDArray[np.float64]:
        """The entries of `tails`. [n], [n], [n] → [n]"""
        found: NDArray[np.float64] = self.as_tail[np.asarray(relation), np.asarray(tails)]
        return found


# --- an engine -----------------------------------------------------------------------------------------------------

Assignment = tuple[int, ...]  # an entity for each variable of a clause, -1 where there is none yet
Best = dict[Assignment, tuple[float, Assignment]]  # for each tuple its truth in a clause, and the best witness


@dataclass(frozen=True)
class LoopOptions:
    """The options of the engine."""

    most: int = knob(1_000_000, "edges that the loops may follow", least=1)


@dataclass(frozen=True)
class LoopsPlan(Plan):
    """For each clause its positive edges in the order of the loops."""

    orders: tuple[tuple[Edge, ...], ...]

    def text(self, entity: Callable[[int], str], relation: Callable[[int], str]) -> str:
        """A line for each clause."""
        return "\n".join("loop over " + ", ".join(relation(edge.relation) for edge in order) for order in self.orders)


class Loops(Engine[LoopsPlan]):
    """Nested loops over the edges of a query: everything is looked at, so the order is the true one."""

    name = "loops"
    summary = "nested loops in plain Python, for small stores"
    exact = True
    options = LoopOptions

    def plan(self, clauses: Clauses, source: Source, limits: Limits) -> LoopsPlan:
        """Each loop goes on from what is known, where it can."""
        source.values()
        return LoopsPlan(clauses, source, tuple(_order(clause) for clause in clauses))

    def run(self, plan: LoopsPlan, limits: Limits, deadline: Deadline) -> Ranking:
        """All tuples, sorted. A list that time cuts short proves nothing, so then there is none."""
        try:
            return self._run(plan, limits, deadline)
        except OutOfTime:
            none = tuple(np.empty((0, len(clause.variables)), np.int32) for clause in plan.clauses)
            free = len(plan.clauses[0].free)
            return Ranking(np.empty((0, free), np.int32), np.empty(0), none, exact=False, bound=1.0, pruned="timeout")

    def _run(self, plan: LoopsPlan, limits: Limits, deadline: Deadline) -> Ranking:
        clauses, rank = plan.clauses, plan.source.graph.entities.sort_rank
        found = self._all(plan, limits, deadline)
        listed = list(dict.fromkeys(answer for best in found for answer in best))
        tuples = np.array(listed, np.int32).reshape(len(listed), len(clauses[0].free))
        truth = _combined(found, listed, limits)
        order = np.lexsort((*rank[tuples].T[::-1], -truth))
        if limits.only is not None:
            order = order[holds(clauses, plan.source, tuples[order], deadline) == (limits.only == "observed")]
        count = limits.count(len(order))
        bound = float(truth[order[count]]) if count < len(order) else 0.0
        kept = [listed[place] for place in order[:count]]
        witnesses = tuple(
            np.array([_witness(best, answer, clause) for answer in kept], np.int32).reshape(-1, len(clause.variables))
            for best, clause in zip(found, clauses, strict=True)
        )
        return Ranking(tuples[order[:count]], truth[order[:count]], witnesses, exact=True, bound=bound)

    def score(self, plan: LoopsPlan, tuples: Tuples, limits: Limits, deadline: Deadline) -> Values:
        """Looked up in the list of all."""
        return _combined(self._all(plan, limits, deadline), [tuple(row) for row in tuples.tolist()], limits)

    def _all(self, plan: LoopsPlan, limits: Limits, deadline: Deadline) -> list[Best]:
        search = Search(plan.source.table(plan.clauses), limits, deadline, self.settings(limits.options).most)
        return [search.best(clause, order) for clause, order in zip(plan.clauses, plan.orders, strict=True)]


class Search:
    """The loops of one question, counted."""

    def __init__(self, table: TruthTable, limits: Limits, deadline: Deadline, most: int) -> None:
        self.table, self.logic, self.deadline, self.most = table, limits.rules, deadline, most
        self.followed = 0

    def best(self, clause: QueryGraph, order: tuple[Edge, ...]) -> Best:
        """The best witness of every tuple of a clause."""
        best: Best = {}
        for values, truth in self.loops(order, (-1,) * len(clause.variables), 1.0):
            if any(_at(values, a) == _at(values, b) for a, b in clause.different):
                continue
            for edge in clause.edges:
                if edge.negated:
                    stated = self.table.value(_at(values, edge.head), edge.relation, _at(values, edge.tail))
                    truth = float(self.logic.conjunction(truth, 1.0 - stated))
            answer = tuple(values[variable] for variable in clause.free)
            if truth > best.get(answer, (0.0, ()))[0]:
                best[answer] = truth, values
        return best

    def loops(self, order: tuple[Edge, ...], values: Assignment, truth: float) -> Iterator[tuple[Assignment, float]]:
        """Every way to go on from some values along the edges that are left, with its truth."""
        if not order:
            yield values, truth
            return
        edge, rest = order[0], order[1:]
        inverse = _at(values, edge.head) < 0 <= _at(values, edge.tail)
        near, far = (edge.tail, edge.head) if inverse else (edge.head, edge.tail)
        known = _at(values, near)
        for start in (known,) if known >= 0 else range(self.table.entities):
            begun = _with(values, near, start)
            row = self.table.row(start, edge.relation, inverse)
            for end, value in zip(row.ids.tolist(), row.truth.tolist(), strict=True):
                self.follow()
                if _at(begun, far) in (-1, end):
                    yield from self.loops(rest, _with(begun, far, end), float(self.logic.conjunction(truth, value)))

    def follow(self) -> None:
        """One more edge."""
        self.deadline.check()
        self.followed += 1
        if self.followed > self.most:
            raise BudgetExceeded(f"the loops follow more than {self.most:,} edges (option 'most')", limit="most")


def _order(clause: QueryGraph) -> tuple[Edge, ...]:
    """The positive edges; the next one has the most ends that are known."""
    left, known, order = [edge for edge in clause.edges if not edge.negated], set[int](), []
    while left:
        edge = max(left, key=lambda e: sum(node < 0 or node in known for node in (e.head, e.tail)))
        left.remove(edge)
        known |= {edge.head, edge.tail}
        order.append(edge)
    return tuple(order)


def _at(values: Assignment, node: int) -> int:
    return values[node] if node >= 0 else ~node


def _with(values: Assignment, node: int, entity: int) -> Assignment:
    return values if node < 0 else (*values[:node], entity, *values[node + 1 :])


def _combined(found: list[Best], tuples: list[Assignment], limits: Limits) -> Values:
    """The truth of tuples [n] from their truth in each clause."""
    each = [np.array([best.get(answer, (0.0, ()))[0] for answer in tuples], np.float64) for best in found]
    return np.asarray(reduce(limits.rules.disjunction, each), np.float64)


def _witness(best: Best, answer: Assignment, clause: QueryGraph) -> Assignment:
    return best[answer][1] if answer in best else (-1,) * len(clause.variables)
