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
from tuplet.lang.query_graph import Edge
from tuplet.truth.table import TruthTable

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
    def of(ranking: Ranking, clauses: Clauses, edges: Edges) -> Witnesses:
        """The witnesses of a ranking."""
        n = len(ranking.tuples)
        number = [c for c, clause in enumerate(clauses) for _ in clause.edges]
        atoms = [edge for clause in clauses for edge in clause.edges]
        heads, tails = np.empty((n, len(atoms)), np.int32), np.empty((n, len(atoms)), np.int32)
        counts = np.ones((n, len(atoms)), dtype=bool)
        for j, (c, edge) in enumerate(zip(number, atoms, strict=True)):
            assigned = ranking.assignments[c]
            for column, node in ((heads, edge.head), (tails, edge.tail)):
                column[:, j] = assigned[:, node] if node >= 0 else ~node
            if assigned.shape[1]:
                counts[:, j] = assigned[:, 0] >= 0
        relations = np.tile(np.array([edge.relation for edge in atoms], dtype=np.int32), n)
        value, observed = lookup(edges, heads.ravel(), relations, tails.ravel(), counts.ravel())
        value, observed = value.reshape(heads.shape), observed.reshape(heads.shape)
        negated = np.array([edge.negated for edge in atoms], dtype=bool)
        truth = np.where(negated, 1.0 - value, value)
        return Witnesses(tuple(number), tuple(atoms), heads, tails, truth, observed, counts)

    def steps(self, i: int) -> tuple[Step, ...]:
        """The atoms that tuple i rests on, of every clause that gives it truth."""
        columns = (array[i].tolist() for array in (self.heads, self.tails, self.truth, self.observed, self.counts))
        return tuple(
            Step(clause, head, edge.relation, tail, edge.negated, truth, observed)
            for clause, edge, head, tail, truth, observed, counts in zip(self.clause, self.edges, *columns, strict=True)
            if counts
        )

    def rest_on_facts(self) -> NDArray[np.bool_]:
        """Whether some clause of the witness holds on facts alone: positive atoms observed, negated ones not. [n]"""
        negated = np.array([edge.negated for edge in self.edges], dtype=bool)
        holds = self.counts & (self.observed != negated)
        by_clause = [
            holds[:, [j for j, other in enumerate(self.clause) if other == c]].all(axis=1)
            for c in dict.fromkeys(self.clause)
        ]
        return np.logical_or.reduce(by_clause) if by_clause else np.zeros(len(self.heads), dtype=bool)

    def statuses(self, crisp: NDArray[np.bool_]) -> list[Status]:
        """`observed` if the stated facts alone give the tuple; else by what its positive atoms rest on. [n]"""
        negated = np.array([edge.negated for edge in self.edges], dtype=bool)
        stated = (self.counts & self.observed & ~negated).any(axis=1)
        return [
            "observed" if is_crisp else "mixed" if some else "predicted"
            for is_crisp, some in zip(crisp.tolist(), stated.tolist(), strict=True)
        ]


def lookup(
    edges: Edges,
    heads: NDArray[np.int32],
    relations: NDArray[np.int32],
    tails: NDArray[np.int32],
    wanted: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Truth of edges and whether they are stated, where `wanted`; 0 elsewhere. [n], [n]"""
    value, observed = np.zeros(len(heads)), np.zeros(len(heads), dtype=bool)
    if isinstance(edges, TruthTable | Stated):
        from tuplet.engine.edge_kernels import find_edges

        adjacency = edges.facts if isinstance(edges, Stated) else edges.adjacency
        arrays = (adjacency.view_ptr, adjacency.row_entity, adjacency.row_ptr, adjacency.neighbour)
        # an entity of an absent clause is -1, which no row has
        entry = find_edges(*arrays, heads, relations, tails)
        found = np.flatnonzero((entry >= 0) & wanted)
        if isinstance(edges, Stated):
            value[found], observed[found] = 1.0, True
        else:
            value[found], observed[found] = edges.truth[entry[found]], edges.observed[entry[found]]
        return value, observed
    for i in np.flatnonzero(wanted).tolist():
        triple = int(heads[i]), int(relations[i]), int(tails[i])
        value[i], observed[i] = edges.value(*triple), edges.observed_edge(*triple)
    return value, observed


def crisp_answers(
    witnesses: Witnesses, tuples: NDArray[np.int32], holds: Callable[[NDArray[np.int32]], NDArray[np.bool_]]
) -> NDArray[np.bool_]:
    """Which tuples are answers on the observed facts alone [n].

    A witness made of facts settles it at once; `holds` (a join) is asked only about the others, whose best witness
    rests on a prediction although another one may not.
    """
    crisp = witnesses.rest_on_facts()
    open_cases = np.flatnonzero(~crisp)
    if len(open_cases):
        crisp[open_cases] = holds(tuples[open_cases])
    return crisp


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
