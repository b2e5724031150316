"""Queries of one shape as one: literals with the relations and constants of all of them, and domains as flat rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import torch

from tuplet.engines.ns3.tensors import Tensor, TensorTable, renumber
from tuplet.errors import BadInput
from tuplet.query.conditions import BoundCondition, Outside, Within
from tuplet.query.ranking import QueryGraph

Term: TypeAlias = int | Tensor  # a variable, or the entity of each query [queries]


@dataclass(frozen=True, eq=False)
class LiteralBatch:
    """One atom of a shape: the relations and constants of all queries of a batch. Without relation: `head != tail`,
    or the conditions of the queries (the head of one on a single variable is its tail, too).

    Queries may write the relation either way, so it is given as a view (see `Adjacency`) that leads from head to tail.
    """

    head: Term
    tail: Term
    view: Tensor | None  # [queries]
    negated: bool = False
    scale: float = 1.0  # a negated literal counts 1 − min(1, scale · truth)
    conditions: tuple[BoundCondition, ...] = ()  # [queries]

    @property
    def variables(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(end for end in (self.head, self.tail) if isinstance(end, int)))

    @property
    def positive(self) -> bool:
        return self.view is not None and not self.negated

    def view_from(self, start: Term) -> Tensor:
        """The view that leads from one of the two ends to the other. [queries]"""
        assert self.view is not None
        both = isinstance(self.head, int) and isinstance(start, int)
        from_head = self.head == start if both else self.head is start
        return self.view if from_head else self.view ^ 1

    def truth(self, table: TensorTable, query: Tensor, entity_of: Callable[[int], Tensor]) -> Tensor:
        """Truth for rows of queries, given the entities of the variables in each row. [rows]"""
        head, tail = (entity_of(end) if isinstance(end, int) else end[query] for end in (self.head, self.tail))
        if self.conditions:
            return self._holds(query, head, tail).to(torch.float64)
        if self.view is None:
            return (head != tail).to(torch.float64)
        value = table.value(self.view[query], head, tail)
        if not self.negated:
            return value
        return 1 - value if self.scale == 1 else 1 - (self.scale * value).clamp(max=1)

    def _holds(self, query: Tensor, head: Tensor, tail: Tensor) -> Tensor:
        """For which rows the conditions hold; rows of queries with one and the same condition go together. [rows]"""
        numbers: dict[BoundCondition, int] = {}
        number = np.array([numbers.setdefault(condition, len(numbers)) for condition in self.conditions])
        own, left, right = number[query.cpu().numpy()], head.cpu().numpy(), tail.cpu().numpy()
        found = np.zeros(len(own), dtype=bool)
        for condition, i in numbers.items():
            rows = slice(None) if len(numbers) == 1 else np.flatnonzero(own == i)
            if isinstance(condition, Within | Outside):
                found[rows] = condition.holds(left[rows])
            else:
                found[rows] = condition.holds(left[rows], right[rows])
        return torch.as_tensor(found, device=query.device)

    def take(self, queries: Tensor) -> LiteralBatch:
        head, tail = (end if isinstance(end, int) else end[queries] for end in (self.head, self.tail))
        conditions = tuple(self.conditions[i] for i in queries.tolist()) if self.conditions else ()
        view = None if self.view is None else self.view[queries]
        return replace(self, head=head, tail=tail, view=view, conditions=conditions)

    def clamp(self, variable: int, entity: Tensor) -> LiteralBatch:
        """The literal with a variable known in every query."""
        ends = (self.head, self.tail)
        head, tail = (entity if isinstance(end, int) and end == variable else end for end in ends)
        return replace(self, head=head, tail=tail)


# Marks the best entities of a variable, at most so many of each query [queries, entities], in place of messages.
DomainIndex: TypeAlias = "Callable[[ClauseBatch, int, int], Tensor]"
# The literals that join two different nodes, by the pair of nodes.
Links: TypeAlias = dict[frozenset[int], list[LiteralBatch]]


@dataclass(frozen=True)
class ClauseBatch:
    """A clause of many queries of one shape. `shape` says what is asked: its free variables, perhaps merged."""

    shape: QueryGraph
    literals: tuple[LiteralBatch, ...]
    queries: int

    @staticmethod
    def from_graphs(graphs: Sequence[QueryGraph], table: TensorTable, scale: float = 1.0) -> ClauseBatch:
        """The clauses of several queries as one; they may differ in relations and constants only.

        `scale` is that of negated literals.
        """
        shape = graphs[0]
        if any(structure(other) != structure(shape) for other in graphs):
            raise BadInput("the queries of a batch must have one shape")

        def term(ends: list[int]) -> Term:
            return ends[0] if ends[0] >= 0 else torch.tensor([~end for end in ends], device=table.device)

        literals = []
        for same in zip(*(graph.edges for graph in graphs), strict=True):
            # exchanged ends, so that a shape does not depend on how its edges are directed
            swapped = [edge.tail < edge.head and max(edge.head, edge.tail) >= 0 for edge in same]
            ends = [(e.tail, e.head) if swap else (e.head, e.tail) for e, swap in zip(same, swapped, strict=True)]
            relation = table.number[torch.tensor([edge.relation for edge in same], device=table.device)]
            view = 2 * relation + torch.tensor(swapped, dtype=torch.int64, device=table.device)
            heads, tails = ([end[place] for end in ends] for place in (0, 1))
            literals.append(LiteralBatch(term(heads), term(tails), view, same[0].negated, scale))
        for pairs in zip(*(graph.different for graph in graphs), strict=True):
            literals.append(LiteralBatch(term([a for a, _ in pairs]), term([b for _, b in pairs]), None))
        for kept in zip(*(graph.conditions for graph in graphs), strict=True):
            variables = kept[0].variables
            literals.append(LiteralBatch(variables[0], variables[-1], None, conditions=kept))
        return ClauseBatch(shape, tuple(literals), len(graphs))

    def take(self, queries: Tensor) -> ClauseBatch:
        return ClauseBatch(self.shape, tuple(literal.take(queries) for literal in self.literals), len(queries))

    def clamp(self, variable: int, entity: Tensor) -> ClauseBatch:
        return replace(self, literals=tuple(literal.clamp(variable, entity) for literal in self.literals))

    def links(self, node_of: Callable[[int], int]) -> Links:
        """The literals that join two different nodes, by the pair of nodes."""
        found: Links = {}
        for literal in self.literals:
            pair = frozenset(node_of(variable) for variable in literal.variables)
            if len(pair) == 2:
                found.setdefault(pair, []).append(literal)
        return found


def structure(graph: QueryGraph) -> object:
    """What queries must have in common to be searched together."""
    edges = tuple((*sorted((max(e.head, -1), max(e.tail, -1))), e.negated) for e in graph.edges)
    different = tuple((max(a, -1), max(b, -1)) for a, b in graph.different)
    conditions = tuple((type(condition), condition.variables) for condition in graph.conditions)
    return len(graph.variables), graph.free, edges, different, conditions


@dataclass(frozen=True)
class NodeRows:
    """A domain: assignments of one variable, or of the members of a hypernode, in order of their query."""

    members: tuple[int, ...]
    query: Tensor  # [n]
    columns: tuple[Tensor, ...]  # per member [n]

    @staticmethod
    def from_keys(variable: int, key: Tensor, entities: int) -> NodeRows:
        """The rows of one variable by the numbers that `key` gives them."""
        query = torch.div(key, entities, rounding_mode="floor")
        return NodeRows((variable,), query, (key - query * entities,))

    def __len__(self) -> int:
        return len(self.query)

    def column(self, variable: int) -> Tensor:
        return self.columns[self.members.index(variable)]

    def take(self, at: Tensor) -> NodeRows:
        return NodeRows(self.members, self.query[at], tuple(column[at] for column in self.columns))

    def key(self, variable: int, entities: int) -> Tensor:
        """One number per row for (query, entity of a variable)."""
        return self.query * entities + self.column(variable)


class Pairs(NamedTuple):
    """Pairs of rows of two nodes, and the truth of all literals between them."""

    first: Tensor
    second: Tensor
    truth: Tensor


def join_pairs(parts: list[Pairs], table: TensorTable) -> Pairs:
    """Blocks of pairs as one."""
    if len(parts) == 1:
        return parts[0]
    none = torch.zeros(0, dtype=torch.int64, device=table.device)
    parts = [*parts, Pairs(none, none, torch.zeros(0, dtype=torch.float64, device=table.device))]
    return Pairs(*(torch.cat(column) for column in zip(*parts, strict=True)))


@dataclass(frozen=True)
class Domains:
    """The reduced domain of every variable of a clause, and what nothing outside of them exceeds."""

    clause: ClauseBatch
    rows: dict[int, NodeRows]
    value: dict[int, Tensor]  # literals with constants and self-loops, on the rows
    index: dict[int, Tensor]  # the index value of each row: no assignment with this row is truer
    score: dict[int, Tensor]  # local index, for ties
    dropped: dict[int, Tensor]  # [queries] no assignment that takes a variable outside its domain is truer
    pairs: dict[tuple[int, int], Pairs] = field(default_factory=dict)  # between variables, made once

    def links(self, target: int) -> Links:
        """The literals between two nodes each; the target may be a hypernode."""
        members = self.rows[target].members
        return self.clause.links(lambda v: target if v in members else v)

    def restrict(self, keep: dict[int, Tensor], dropped: dict[int, Tensor], queries: Tensor | None = None) -> Domains:
        """Some rows of each domain (masks); with `queries` only those queries, renumbered."""
        number, clause = None, self.clause
        if queries is not None:
            number, clause = renumber(queries, clause.queries), clause.take(queries)
            dropped = {v: bound[queries] for v, bound in dropped.items()}
        rows, place = {}, {}
        for v, mask in keep.items():
            some = self.rows[v].take(mask.nonzero().view(-1))
            rows[v] = some if number is None else replace(some, query=number[some.query])
            place[v] = torch.cumsum(mask, 0) - 1
        pairs = {}
        for (u, v), (first, second, truth) in self.pairs.items():
            both = (keep[u][first] & keep[v][second]).nonzero().view(-1)
            pairs[u, v] = Pairs(place[u][first[both]], place[v][second[both]], truth[both])
        columns = (self.value, self.index, self.score)
        value, index, score = ({v: some[v][mask] for v, mask in keep.items() if v in some} for some in columns)
        return Domains(clause, rows, value, index, score, dropped, pairs)

    def take(self, queries: Tensor) -> Domains:
        """The same for some of the queries."""
        chosen = torch.zeros(self.clause.queries, dtype=torch.bool, device=queries.device)
        chosen[queries] = True
        return self.restrict({v: chosen[rows.query] for v, rows in self.rows.items()}, self.dropped, queries)
