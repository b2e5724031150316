"""Why a tuple is an answer: its witness, atom by atom, and whether it rests on facts or on predictions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.engine.ranking import Clauses, Ranking
from tuplet.graph.adjacency import Adjacency

Status: TypeAlias = Literal["observed", "mixed", "predicted"]


class Edges(Protocol):
    """What an explanation needs of truth values: a truth table, rows on demand, or plain facts."""

    def value(self, head: int, relation: int, tail: int) -> float: ...
    def observed_edge(self, head: int, relation: int, tail: int) -> bool: ...


@dataclass(frozen=True)
class Stated:
    """Plain facts as truth values: yes is 1, no is 0."""

    facts: Adjacency

    def value(self, head: int, relation: int, tail: int) -> float:
        """1 if the fact is stated, else 0."""
        return float(self.observed_edge(head, relation, tail))

    def observed_edge(self, head: int, relation: int, tail: int) -> bool:
        """Whether the fact is stated."""
        return self.facts.find(head, relation, tail) >= 0


class Step(NamedTuple):
    """One atom of a witness, in ids. `truth` is that of the atom as it stands: 1 - x under a negation."""

    clause: int
    head: int
    relation: int
    tail: int
    negated: bool
    truth: float
    observed: bool


def witness(ranking: Ranking, clauses: Clauses, edges: Edges, i: int) -> tuple[Step, ...]:
    """The atoms that tuple i rests on, of every clause that gives it truth."""
    steps = []
    for c, clause in enumerate(clauses):
        assigned = ranking.assignments[c][i]
        if len(assigned) and assigned[0] < 0:
            continue
        for edge in clause.edges:
            head, tail = (int(assigned[node]) if node >= 0 else ~node for node in (edge.head, edge.tail))
            value = edges.value(head, edge.relation, tail)
            truth = 1.0 - value if edge.negated else value
            observed = edges.observed_edge(head, edge.relation, tail)
            steps.append(Step(c, head, edge.relation, tail, edge.negated, truth, observed))
    return tuple(steps)


def status(steps: tuple[Step, ...], is_crisp_answer: bool) -> Status:
    """`observed` if the stated facts alone give the tuple; else by what its positive atoms rest on."""
    if is_crisp_answer:
        return "observed"
    return "mixed" if any(step.observed and not step.negated for step in steps) else "predicted"


def crisp_answers(
    ranking: Ranking, clauses: Clauses, edges: Edges, holds: Callable[[NDArray[np.int32]], NDArray[np.bool_]]
) -> NDArray[np.bool_]:
    """Which tuples are answers on the observed facts alone [n].

    A witness made of facts settles it at once; `holds` (a join) is asked only about the others, whose best witness
    rests on a prediction although another one may not.
    """
    crisp = np.array(
        [_rests_on_facts(witness(ranking, clauses, edges, i)) for i in range(len(ranking.tuples))], dtype=bool
    )
    open_cases = np.flatnonzero(~crisp)
    if len(open_cases):
        crisp[open_cases] = holds(ranking.tuples[open_cases])
    return crisp


def _rests_on_facts(steps: tuple[Step, ...]) -> bool:
    """Whether some clause of the witness holds on facts alone: positive atoms observed, negated ones not."""
    by_clause: dict[int, bool] = {}
    for step in steps:
        by_clause[step.clause] = by_clause.get(step.clause, True) and step.observed != step.negated
    return any(by_clause.values())


@dataclass(frozen=True, slots=True)
class Fact:
    """One atom of a witness, in names."""

    clause: int
    head: str
    relation: str
    tail: str
    negated: bool
    truth: float
    observed: bool

    @property
    def kind(self) -> str:
        """How the atom comes to its truth, in one word."""
        if self.negated:
            return "but stated" if self.observed else "not stated"
        return "observed" if self.observed else "predicted"

    def __str__(self) -> str:
        return f"{'!' if self.negated else ''}{self.relation}({self.head}, {self.tail})"


def percent(truth: float) -> str:
    """A truth value for people: four digits, more where it is tiny; 1 is said only of 1.

    >>> percent(1.0), percent(0.71234), percent(0.99999), percent(0.0000123)
    ('1', '0.7123', '0.9999', '1.23e-05')
    """
    if truth in (0.0, 1.0):
        return f"{truth:.0f}"
    if truth < 0.001:
        return f"{truth:.3g}"
    return f"{math.floor(truth * 10_000) / 10_000:.4f}" if truth > 0.9999 else f"{truth:.4f}"
