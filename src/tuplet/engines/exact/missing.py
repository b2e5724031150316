"""What is missing: the clauses whose answers rest on something that no fact states, found as such by the search.

A tuple that the facts do not give has only witnesses in which some atom is no stated fact: a positive one that is
predicted or, in a weighted graph, a negated one whose edge is stated but not certain. Witnesses are told apart by the
first such atom. So a clause of m atoms becomes up to m clauses over parts of the truth table: atoms before that one
hold on facts, that one does not, atoms behind it may or may not. Each tuple that is missing comes up in one of them at
its truth; tuples that the facts give through another witness come up, too, and are dropped by whoever asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.exact.search_rows import SearchRows, fixed_rows
from tuplet.graph.adjacency import Adjacency, consecutive
from tuplet.query.ranking import Clauses, Edge, QueryGraph
from tuplet.truth.table import TruthTable

# Parts of a truth table: every edge; stated ones; predicted ones; every edge with stated ones certain (so that a
# negation is 0 there); stated ones that are not certain, with the truth of their negation.
ALL, STATED, PREDICTED, CERTAIN, DOUBTED = range(5)
KEPT = 256 << 20  # bytes of parts that are kept: kernels read one array, so each set of relations has its own copies


def missing_clauses(clause: QueryGraph, weighted: bool) -> list[QueryGraph]:
    """The clauses that find what a clause gives beyond the facts; relation r of part p is called 5·r + p.

    >>> chain = QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 1, 1)))
    >>> [[edge.relation for edge in found.edges] for found in missing_clauses(chain, weighted=False)]
    [[2, 5], [1, 7]]
    """
    found = []
    for first, atom in enumerate(clause.edges):
        if atom.negated and not weighted:
            continue  # the negation of a certain fact is never true
        edges = []
        for i, edge in enumerate(clause.edges):
            if i == first:
                # the doubt about a stated edge is a positive atom
                edges.append(_named(edge, DOUBTED if edge.negated else PREDICTED)._replace(negated=False))
            elif edge.negated:
                edges.append(_named(edge, CERTAIN if weighted and i < first else ALL))
            else:
                edges.append(_named(edge, STATED if i < first else ALL))
        found.append(replace(clause, edges=tuple(edges)))
    return found


def _named(edge: Edge, part: int) -> Edge:
    return edge._replace(relation=5 * edge.relation + part)


def split_rows(table: TruthTable, clauses: Clauses, rank: NDArray[np.int32]) -> tuple[SearchRows, list[QueryGraph]]:
    """Rows that hold the parts that the clauses name, and the clauses with these parts numbered from 0."""
    wanted = sorted({edge.relation for clause in clauses for edge in clause.edges})
    number = {name: i for i, name in enumerate(wanted)}
    known, kept = table.prepared.get("split", (None, {}))
    if known is not rank:
        kept = {}
        table.prepared["split"] = rank, kept
    key = tuple(wanted)
    rows = kept.pop(key, None) or _rows(table, wanted, rank)
    kept[key] = rows  # the last ones that were asked for stay
    sizes = [(key, _bytes(parts)) for key, parts in list(kept.items())]
    left = sum(size for _, size in sizes)
    for oldest, size in sizes:
        if left > KEPT:
            kept.pop(oldest, None)
            left -= size
    numbered = [replace(c, edges=tuple(e._replace(relation=number[e.relation]) for e in c.edges)) for c in clauses]
    return rows, numbered


def _bytes(rows: SearchRows) -> int:
    own = (*rows.adjacency.arrays, rows.rows.truth, rows.rows.by_truth, rows.rows.row_best)
    return sum(array.nbytes for array in own)


def are_doubted(table: TruthTable, relations: Iterable[int]) -> bool:
    """Whether a fact of one of the relations is less than certain, as in a weighted graph."""
    known: dict[int, bool] = table.prepared.setdefault("doubted", {})
    for relation in relations:
        if relation not in known:
            own = table.adjacency.view(2 * relation)
            entries = consecutive(own.starts, own.lengths)
            known[relation] = bool((table.truth[entries][table.observed[entries]] < 1).any())
        if known[relation]:
            return True
    return False


def _rows(table: TruthTable, wanted: Sequence[int], rank: NDArray[np.int32]) -> SearchRows:
    lengths = []
    columns: list[list[NDArray[np.generic]]] = [[], [], [], [], []]  # row_entity, neighbour, truth, by_truth, row_best
    for name in wanted:
        relation, part = divmod(name, 5)
        for view in (2 * relation, 2 * relation + 1):
            length, *own = _view(table, view, part)
            lengths.append(length)
            for column, array in zip(columns, own, strict=True):
                column.append(array)
    row_entity, neighbour, truth, by_truth, row_best = (np.concatenate(column) for column in columns)
    adjacency = Adjacency(
        np.cumsum([0, *map(len, lengths)], dtype=np.int64),
        row_entity,
        np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64),
        neighbour,
    )
    return SearchRows(fixed_rows(adjacency, truth, by_truth, row_best, rank), adjacency)


def _view(table: TruthTable, view: int, part: int) -> tuple[NDArray[Any], ...]:
    """Lengths and entities of the rows of a part, and of its entries the ends, the truth and its order; its best."""
    own = table.adjacency.view(view)
    entries = consecutive(own.starts, own.lengths)
    keep, truth = _part(part, table.truth[entries], table.observed[entries])
    row = np.repeat(np.arange(len(own.entities)), own.lengths)
    order: NDArray[np.int64]
    if part in (CERTAIN, DOUBTED):
        order = np.lexsort((-truth, row))  # stable: equal truths stay in order of id
    else:
        order = np.repeat(np.cumsum(own.lengths) - own.lengths, own.lengths)
        order += table.by_truth[entries]
    falling = (np.cumsum(keep) - 1)[order[keep[order]]]  # places among those that are kept
    truth = truth[keep]
    length = np.bincount(row[keep], minlength=len(own.entities))
    filled = length > 0
    length = length[filled]
    first = np.cumsum(length) - length
    by_truth = (falling - np.repeat(first, length)).astype(np.int32)
    neighbour = table.adjacency.neighbour[entries][keep]
    return length, own.entities[filled], neighbour, truth, by_truth, truth[falling[first]]


def _part(
    part: int, truth: NDArray[np.floating], observed: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.floating]]:
    """Which entries belong to a part, and the truth of all entries in it."""
    if part == STATED:
        return observed, truth
    if part == PREDICTED:
        return ~observed, truth
    if part == CERTAIN:
        return np.ones(len(truth), dtype=bool), np.where(observed, truth.dtype.type(1), truth)
    if part == DOUBTED:
        doubt = truth.dtype.type(1) - truth
        return observed & (doubt > 0), doubt
    return np.ones(len(truth), dtype=bool), truth
