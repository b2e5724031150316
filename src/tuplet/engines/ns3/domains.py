"""Domain reduction: for every variable of a clause the entities worth searching, by an index that needs no training.

    index          G(v)[a] = the best truth of any assignment with v = a, by max-product messages on a spanning tree
    local index    L(v)[a] = Π over the positive edges at v of the best truth that a has on that side of the relation

Both are upper bounds of the truth of every tuple with v = a: edges that an index does not look at count as true. So
what a cut leaves out is bounded by the best index value that it leaves out, and on a tree G is the exact marginal. The
local index decides ties alone. Messages read all listed edges of the relations: this step is not bounded by B.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from tuplet.engines.ns3.batch import ClauseBatch, Domains, LiteralBatch, NodeRows, Pairs, merged
from tuplet.engines.ns3.search import FuzzySearch
from tuplet.engines.ns3.sparse import Tensor, best_of, blocks, counts, distinct, ranges, ranks


class Branch(NamedTuple):
    """A variable joined to the spanning tree; a root has no parent."""

    parent: int | None
    child: int


def reduce_domains(search: FuzzySearch, clause: ClauseBatch, most: int | None, floor: Tensor | None = None) -> Domains:
    """The `most` best entities of every variable by the index (None: all that can be true).

    `floor` [queries] drops entities whose index value is below it. Ties go by the local index, then by number. Another
    index may choose instead (`FuzzySearch.index`); what it drops is bounded by messages all the same.
    """
    domains = _messages(search, clause)
    keep, dropped = {}, {}
    for v, rows in domains.rows.items():
        search.deadline.check()
        estimate = domains.index[v]
        within = estimate > 0
        if most is not None and search.index is not None:
            within &= search.index(clause, v, most)[rows.query, rows.columns[0]]
        elif most is not None and len(rows) and int(counts(rows.query, clause.queries).max()) > most:
            within &= ranks(rows.query, clause.queries, estimate, domains.score[v]) < most
        if floor is not None:
            within &= estimate >= floor[rows.query]
        out = (~within).nonzero().view(-1)
        dropped[v] = best_of(rows.query[out], estimate[out], clause.queries)
        keep[v] = within
    return domains.restrict(keep, dropped)


def _variables(clause: ClauseBatch) -> list[int]:
    """The variables that are still unknown."""
    return sorted({v for literal in clause.literals for v in literal.variables})


def _messages(search: FuzzySearch, clause: ClauseBatch) -> Domains:
    """Everyone that a walk along the spanning tree reaches, with messages both ways."""
    links = clause.links(lambda v: v)
    tree = spanning_tree(clause)
    rows: dict[int, NodeRows] = {}
    value: dict[int, Tensor] = {}
    pairs: dict[tuple[int, int], Pairs] = {}
    for parent, child in tree:
        search.deadline.check()
        found = _from_constants(search, clause, child)
        if found is None and parent is None:
            found = _members(search, clause, child)
        elif found is None and parent is not None:
            found = _reached(search, clause, links[frozenset((parent, child))], rows[parent], child)
        assert found is not None
        unary = _unary(search, clause, found)
        true = unary.nonzero().view(-1)
        rows[child], value[child] = found.take(true), unary[true]
        if parent is not None:
            bundle = links[frozenset((parent, child))]
            pairs[parent, child] = merged(list(search.pairs(bundle, rows[parent], rows[child])), search.table)
    incoming: dict[int, dict[int, Tensor]] = {v: {} for v in rows}

    def product(v: int, without: int | None = None) -> Tensor:
        total = value[v]
        for sender, message in incoming[v].items():
            total = total if sender == without else search.joint(total, message)
        return total

    for parent, child in reversed(tree):
        if parent is not None:
            search.deadline.check()
            first, second, truth = pairs[parent, child]
            incoming[parent][child] = best_of(first, search.joint(product(child)[second], truth), len(rows[parent]))
    for parent, child in tree:
        if parent is not None:
            search.deadline.check()
            first, second, truth = pairs[parent, child]
            incoming[child][parent] = best_of(
                second, search.joint(product(parent, without=child)[first], truth), len(rows[child])
            )
    score = {v: local_index(search, clause, r) for v, r in rows.items()}
    return Domains(clause, rows, value, {v: product(v) for v in rows}, score, {}, pairs)


def spanning_tree(clause: ClauseBatch) -> list[Branch]:
    """A spanning forest over positive edges: roots are variables next to constants, doubled edges come first."""
    links = {
        pair: bundle
        for pair, bundle in clause.links(lambda v: v).items()
        if any(literal.positive for literal in bundle)
    }
    constants = {v: sum(lit.positive for lit in _constant_literals(clause, v)) for v in _variables(clause)}
    tree: list[Branch] = []
    left = set(_variables(clause))
    while left:
        edges = [(p, c) for pair in links for p in pair for c in pair - {p} if p not in left and c in left]
        if edges:
            p, c = min(edges, key=lambda edge: (-len(links[frozenset(edge)]), -constants[edge[1]], edge))
            tree.append(Branch(p, c))
        else:
            tree.append(Branch(None, min(left, key=lambda v: (-constants[v], v))))
        left.remove(tree[-1].child)
    return tree


def local_index(search: FuzzySearch, clause: ClauseBatch, rows: NodeRows) -> Tensor:
    """L(v): the conjunction, over the positive edges at v, of the best truth on v's side. [rows]"""
    (v,) = rows.members
    total = torch.ones(len(rows), dtype=search.table.dtype, device=search.table.device)
    for literal in clause.literals:
        if literal.positive and v in literal.variables:
            total = search.joint(total, search.table.best(literal.view_from(v)[rows.query], rows.columns[0]))
    return total


def _constant_literals(clause: ClauseBatch, v: int) -> list[LiteralBatch]:
    """Literals between a variable and a constant."""
    return [
        literal
        for literal in clause.literals
        if literal.variables == (v,) and not (isinstance(literal.head, int) and isinstance(literal.tail, int))
    ]


def _unary(search: FuzzySearch, clause: ClauseBatch, rows: NodeRows) -> Tensor:
    """The literals that a variable has with constants and with itself. [rows]"""
    total = torch.ones(len(rows), dtype=search.table.dtype, device=search.table.device)
    for literal in clause.literals:
        if literal.variables == rows.members:
            total = search.joint(total, literal.truth(search.table, rows.query, rows.column))
    return total


def _from_constants(search: FuzzySearch, clause: ClauseBatch, v: int) -> NodeRows | None:
    """The neighbours of the constant with the fewest of them."""
    best = None
    for literal in _constant_literals(clause, v):
        if literal.positive:
            constant = literal.head if isinstance(literal.head, Tensor) else literal.tail
            assert isinstance(constant, Tensor)
            spans = search.table.spans(literal.view_from(constant), constant)
            cost = int(spans[1].sum())
            if best is None or cost < best[0]:
                best = cost, spans
    if best is None:
        return None
    query, at = ranges(*best[1])
    return NodeRows((v,), query, (search.table.neighbour[at].long(),))


def _members(search: FuzzySearch, clause: ClauseBatch, v: int) -> NodeRows:
    """Everyone on v's side of the rarest relation at v."""
    views = [lit.view_from(v) for lit in clause.literals if lit.positive and v in lit.variables]
    table = search.table
    view = min(views, key=lambda some: int((table.view_ptr[some + 1] - table.view_ptr[some]).sum()))
    query, entity = table.members(view)
    return NodeRows((v,), query, (entity,))


def _reached(
    search: FuzzySearch, clause: ClauseBatch, bundle: list[LiteralBatch], parents: NodeRows, v: int
) -> NodeRows:
    """Everyone joined to a parent's row by the literal of the bundle that leads to fewest edges."""
    table, (parent,) = search.table, parents.members
    options = [
        table.spans(literal.view_from(parent)[parents.query], parents.columns[0])
        for literal in bundle
        if literal.positive
    ]
    start, length = min(options, key=lambda spans: int(spans[1].sum()))

    def keys() -> Iterator[Tensor]:
        for part in blocks(length, table.block):
            search.deadline.check()
            source, at = ranges(start[part], length[part])
            yield parents.query[part][source] * table.entities + table.neighbour[at]

    key = distinct(keys(), int(length.sum()), clause.queries * table.entities, table.device)
    query = torch.div(key, table.entities, rounding_mode="floor")
    return NodeRows((v,), query, (key - query * table.entities,))
