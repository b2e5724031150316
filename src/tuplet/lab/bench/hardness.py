"""How hard an answer is: the least number of links that must be predicted for it.

Over all assignments that make the query true on the full graph, in any clause, it is the least number of *facts* under
the positive atoms that are not known. A fact that serves two atoms is one link. Negated atoms hold on the full graph
and count nothing. So a hard answer needs at least one link; an easy one needs none, if it holds on the full graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.adjacency import Adjacency, consecutive
from tuplet.lab.bench.shapes import AbstractClauses, AbstractEdge
from tuplet.query.ranking import Edge, QueryGraph

Ids: TypeAlias = NDArray[np.int32]

STRATA = 4  # the last one holds all answers that need four links or more
NO_ANSWER = -1
_BLOCK = 64  # tuples extended at once: an answer may have very many assignments


def predicted_links(clauses: Sequence[QueryGraph], known: Adjacency, full: Adjacency, tuples: Ids) -> Ids:
    """The least number of predicted links for each tuple [n, k]; `NO_ANSWER` if it is no answer on the full graph.

    >>> edges = np.array([0, 1]), np.array([0, 0]), np.array([1, 2])
    >>> full, _ = Adjacency.build(*edges, relations=1)
    >>> known, _ = Adjacency.build(*(part[:1] for part in edges), relations=1)
    >>> path = QueryGraph(("f1", "e1"), (0,), (Edge(~0, 0, 1), Edge(1, 0, 0)))
    >>> predicted_links([path], known, full, np.array([[2], [1]], np.int32)).tolist()
    [1, -1]
    """
    full, _ = full.flatten()
    worst = np.iinfo(np.int32).max
    least = np.full(len(tuples), worst, dtype=np.int32)
    for start in range(0, len(tuples), _BLOCK):
        for clause in clauses:
            place, assigned = _assignments(clause, full, tuples[start : start + _BLOCK])
            np.minimum.at(least, start + place, _unknown(clause, known, assigned))
    return np.where(least == worst, np.int32(NO_ANSWER), least)


def strata(links: Ids) -> Ids:
    """The stratum of each answer, 1 to `STRATA`, from its predicted links.

    >>> strata(np.array([1, 3, 6], np.int32)).tolist()
    [1, 3, 4]
    """
    return np.minimum(links, np.int32(STRATA))


def largest_stratum(clauses: AbstractClauses) -> int:
    """The largest stratum that answers of a shape can be in: that of an answer for which nothing is known.

    >>> from tuplet.lab.bench.shapes import shape
    >>> [largest_stratum(shape(name).clauses) for name in ("2u", "up", "2fpn", "5fc")]
    [1, 2, 2, 4]
    """
    return min(STRATA, *(sum(not edge.negated for edge in clause) for clause in clauses))


@cache
def predicted_atoms(clauses: AbstractClauses, stratum: int) -> tuple[tuple[AbstractEdge, ...], ...]:
    """The sets of positive atoms that put an answer into a stratum if just these are predicted.

    >>> from tuplet.lab.bench.shapes import shape
    >>> [[str(atom) for atom in chosen] for chosen in predicted_atoms(shape("2u").clauses, 1)]
    [['r1(s1,f1)', 'r2(s2,f1)']]
    """
    positive = list(dict.fromkeys(edge for clause in clauses for edge in clause if not edge.negated))
    every = (chosen for size in range(1, len(positive) + 1) for chosen in combinations(positive, size))
    return tuple(
        chosen
        for chosen in every
        if min(STRATA, *(sum(edge in chosen for edge in clause) for clause in clauses)) == stratum
    )


def _assignments(clause: QueryGraph, full: Adjacency, tuples: Ids) -> tuple[NDArray[np.int64], Ids]:
    """All values of the variables that make the clause true for some tuples, and which tuple each belongs to.

    A join: the existential variables are placed one by one, always where the rows grow least.
    """
    assigned = np.full((len(tuples), len(clause.variables)), -1, dtype=np.int32)
    assigned[:, list(clause.free)] = tuples
    place, open_ = np.arange(len(tuples)), set(clause.existential)
    todo = list(clause.edges)
    while True:
        closed = [edge for edge in todo if open_.isdisjoint(edge[:3:2])]
        todo = [edge for edge in todo if edge not in closed]
        for edge in closed:
            true = _is_fact(edge, full, assigned) != edge.negated
            place, assigned = place[true], assigned[true]
        if not open_:
            return place, assigned
        variable, starts, lengths = _next(todo, open_, full, assigned)
        row = np.repeat(np.arange(len(assigned)), lengths)
        place, assigned = place[row], assigned[row]
        assigned[:, variable] = full.neighbour[consecutive(starts, lengths)]
        open_.remove(variable)


def _next(
    edges: Sequence[Edge], open_: set[int], full: Adjacency, assigned: Ids
) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    """The variable to be placed next, and for each row where its values are in `full.neighbour`."""
    found = []
    for edge in edges:
        for backwards, (near, far) in enumerate(((edge.head, edge.tail), (edge.tail, edge.head))):
            if edge.negated or far not in open_:
                continue
            view = 2 * edge.relation + backwards
            if near in open_:  # nothing leads there yet: all values that the view has, some of them several times
                first, last = full.row_ptr[full.view_ptr[view : view + 2]].tolist()
                starts, lengths = np.full(len(assigned), first), np.full(len(assigned), last - first)
            else:
                at = full.places(_value(near, assigned), view)
                starts = np.where(at < 0, 0, full.row_ptr[at])
                lengths = np.where(at < 0, 0, full.row_ptr[at + 1] - starts)
            found.append((far, starts, lengths))
    return min(found, key=lambda option: int(option[2].sum()))


def _unknown(clause: QueryGraph, known: Adjacency, assigned: Ids) -> Ids:
    """The number of different facts under the positive atoms that are not known, for each assignment."""
    count = np.zeros(len(assigned), dtype=np.int32)
    positive = [edge for edge in clause.edges if not edge.negated]
    for number, edge in enumerate(positive):
        new = ~_is_fact(edge, known, assigned)
        for other in positive[:number]:
            if other.relation == edge.relation:
                head, tail = (
                    _value(a, assigned) == _value(b, assigned)
                    for a, b in ((edge.head, other.head), (edge.tail, other.tail))
                )
                new &= ~(head & tail)
        count += new
    return count


def _is_fact(edge: Edge, facts: Adjacency, assigned: Ids) -> NDArray[np.bool_]:
    """Whether the edge, its sign aside, is a fact under each assignment."""
    heads, tails = _value(edge.head, assigned), _value(edge.tail, assigned)
    return facts.find_many(heads, np.full(len(assigned), edge.relation, dtype=np.int32), tails) >= 0


def _value(node: int, assigned: Ids) -> Ids:
    """The entity of a node under each assignment."""
    return np.ascontiguousarray(assigned[:, node]) if node >= 0 else np.full(len(assigned), ~node, dtype=np.int32)
