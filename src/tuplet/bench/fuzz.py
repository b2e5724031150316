"""Random queries that mean something: grounded by walks on a graph, deterministic by seed.

`random_query` makes queries of any structure with real names, to compare engines with each other; `ground` fills in a
named shape. Both first walk through the graph and then forget where they went: the walk is an answer of the positive
part, so most queries have answers. A few atoms are made up, so that some have none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tuplet.bench.shapes import AbstractEdge, Shape
from tuplet.errors import BadInput
from tuplet.graph.adjacency import Adjacency
from tuplet.lang.ast import And, Atom, Constant, Different, Exists, Formula, Free, Name, Not, Or, Query, Term
from tuplet.query.query_graph import Edge, QueryGraph

Random = np.random.Generator


class Words(Protocol):
    """What the generator needs of a vocabulary."""

    def name(self, number: int) -> str: ...


class Graph(Protocol):
    """What the generator needs of a graph."""

    @property
    def entities(self) -> Words: ...
    @property
    def relations(self) -> Words: ...
    @property
    def adjacency(self) -> Adjacency: ...


@dataclass
class Walker:
    """All edges of an entity at once, whatever their relation: what a random walk needs."""

    adjacency: Adjacency
    _entities: NDArray[np.int32] = field(init=False, repr=False)  # those that have an edge
    _ptr: NDArray[np.int64] = field(init=False, repr=False)
    _row: NDArray[np.int64] = field(init=False, repr=False)
    _view: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.adjacency.edges:
            raise BadInput("a graph without edges has no walks")
        self._row = np.argsort(self.adjacency.row_entity, kind="stable")
        self._entities, first = np.unique(self.adjacency.row_entity[self._row], return_index=True)
        self._ptr = np.append(first, len(self._row))
        rows = np.diff(self.adjacency.view_ptr)
        self._view = np.repeat(np.arange(len(rows), dtype=np.int64), rows)

    def anyone(self, rng: Random) -> int:
        """An entity that has an edge, uniformly."""
        return int(self._entities[rng.integers(len(self._entities))])

    def links(self, entity: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Views and neighbours of all edges of an entity."""
        at = int(np.searchsorted(self._entities, np.int32(entity)))
        if at == len(self._entities) or self._entities[at] != entity:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
        rows = self._row[self._ptr[at] : self._ptr[at + 1]]
        starts, stops = self.adjacency.row_ptr[rows], self.adjacency.row_ptr[rows + 1]
        lengths = stops - starts
        ends = np.cumsum(lengths)
        entries = np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths)
        return np.repeat(self._view[rows], lengths), self.adjacency.neighbour[entries]

    def between(self, entity: int, other: int) -> NDArray[np.int64]:
        """The views under which `other` is a neighbour of `entity`."""
        views, neighbours = self.links(entity)
        return np.unique(views[neighbours == other])

    def place(
        self, pairs: Sequence[tuple[str, str]], rng: Random, start: Mapping[str, int] | None = None
    ) -> dict[str, int] | None:
        """An entity for each node, such that each pair is joined as often as it is listed; None if the walk got stuck.

        Parts that are not connected are walked separately. `start` are nodes that have a place already.
        """
        nodes = list(dict.fromkeys(node for pair in pairs for node in pair))
        placed: dict[str, int] = dict(start or {})
        while len(placed) < len(nodes):
            frontier = [
                n for n in nodes if n not in placed and any({n, p} == {*pair} for pair in pairs for p in placed)
            ]
            if not frontier:
                rest = [n for n in nodes if n not in placed]
                placed[rest[0]] = self.anyone(rng)
                continue
            # The most restricted node first: a cycle closes on a common neighbour, not by luck.
            node = max(frontier, key=lambda n: len({p for pair in pairs if n in pair for p in pair if p in placed}))
            candidates: NDArray[np.int32] | None = None
            for other, entity in placed.items():
                wanted = sum({node, other} == {*pair} for pair in pairs)
                if wanted:
                    near, joined = np.unique(self.links(entity)[1], return_counts=True)
                    fitting = near[joined >= wanted]
                    candidates = fitting if candidates is None else np.intersect1d(candidates, fitting)
            if candidates is None or not len(candidates):
                return None
            placed[node] = int(candidates[rng.integers(len(candidates))])
        return placed


def ground(shape: Shape, adjacency: Adjacency | Walker, rng: Random, tries: int = 1000) -> tuple[QueryGraph, ...]:
    """The clauses of a shape with real relations and constants, found by a walk.

    Relations may be walked in either direction. A negated atom takes a relation that its head has, so that it matters.
    Pass a `Walker` to ground many shapes on one graph.
    """
    walker = adjacency if isinstance(adjacency, Walker) else Walker(adjacency)
    positive = list(dict.fromkeys(edge for clause in shape.clauses for edge in clause if not edge.negated))
    for _ in range(tries):
        placed = walker.place([(edge.head, edge.tail) for edge in positive], rng)
        if placed is None:
            continue
        views = {
            edge.relation: view for edge, view in zip(positive, _views(walker, positive, placed, rng), strict=True)
        }
        for clause in shape.clauses:
            for edge in clause:
                if edge.negated:
                    placed.setdefault(edge.head, walker.anyone(rng))
                    placed.setdefault(edge.tail, walker.anyone(rng))
                    # One that joins this pair already would leave nothing.
                    near = np.unique(walker.links(placed[edge.head])[0])
                    near = np.setdiff1d(near, [views[e.relation] for e in positive if e[1:3] == edge[1:3]])
                    view = near[rng.integers(len(near))] if len(near) else rng.integers(2 * walker.adjacency.relations)
                    views.setdefault(edge.relation, int(view))
        bound = tuple(_bound(shape, clause, placed, views) for clause in shape.clauses)
        # Two constants in one place may make two atoms one: another walk.
        if all(len(graph.edges) == len(clause) for graph, clause in zip(bound, shape.clauses, strict=True)):
            return bound
    raise BadInput(f"no walk of shape {shape.name} found in {tries} tries")


def _views(walker: Walker, edges: Sequence[AbstractEdge], placed: dict[str, int], rng: Random) -> list[int]:
    """A view for each edge, parallel edges getting different ones."""
    used: dict[tuple[str, str], list[int]] = {}
    for edge in edges:
        if (edge.head, edge.tail) not in used:
            used[edge.head, edge.tail] = rng.permutation(walker.between(placed[edge.head], placed[edge.tail])).tolist()
    return [used[edge.head, edge.tail].pop() for edge in edges]


def _bound(shape: Shape, clause: tuple[AbstractEdge, ...], placed: dict[str, int], views: dict[str, int]) -> QueryGraph:
    names = [*shape.free, *dict.fromkeys(n for edge in clause for n in (edge.head, edge.tail) if n[0] == "e")]
    node = {name: i for i, name in enumerate(names)} | {s: ~placed[s] for s in shape.symbols("s")}

    def edge(abstract: AbstractEdge) -> Edge:
        view = views[abstract.relation]
        ends = node[abstract.head], node[abstract.tail]
        head, tail = ends[::-1] if view % 2 else ends
        return Edge(head, view // 2, tail, abstract.negated)

    free = tuple(range(len(shape.free)))
    return QueryGraph(tuple(names), free, tuple(dict.fromkeys(edge(abstract) for abstract in clause)))


def random_query(
    graph: Graph,
    rng: Random,
    *,
    free: tuple[int, int] = (1, 4),
    exists: tuple[int, int] = (0, 2),
    constants: tuple[int, int] = (0, 3),
    negated: tuple[int, int] = (0, 3),
    walker: Walker | None = None,
) -> Query:
    """A safe random query with real names; every range is inclusive. The same seed gives the same query.

    Trees, cycles of up to five variables, parallel edges, self-loops, parts that hang together with nothing, constants
    anywhere, negated atoms, inequalities, and unions at the top or inside.
    """
    maker = _Maker(graph, walker or Walker(graph.adjacency), rng)
    asked = tuple(Free(f"f{i}") for i in range(1, _between(rng, free) + 1))
    kind = rng.random()
    body: Formula
    if kind < 0.65:
        body = And(tuple(maker.clause(asked, _between(rng, exists), _between(rng, constants), _between(rng, negated))))
    elif kind < 0.85:
        number = 2 + int(rng.random() < 0.25)
        sizes = [[_between(rng, limits) for limits in (exists, constants, negated)] for _ in range(number)]
        body = Or(tuple(And(tuple(maker.clause(asked, *size))) for size in sizes))
    else:
        body = And((*maker.clause(asked, _between(rng, exists), _between(rng, constants), 0), maker.nested()))
    return Query(asked, body)


def _between(rng: Random, limits: tuple[int, int]) -> int:
    return int(rng.integers(limits[0], limits[1] + 1))


@dataclass
class _Maker:
    """Builds the parts of a random query; `home` remembers where the walk placed each term."""

    graph: Graph
    walker: Walker
    rng: Random
    home: dict[Term, int] = field(default_factory=dict)
    number: int = 0

    def clause(self, free: tuple[Free, ...], exists: int, constants: int, negated: int) -> list[Formula]:
        """The literals of one clause in random order; every variable is in a positive atom."""
        variables: list[Term] = [*free, *(self.fresh() for _ in range(exists))]
        self.rng.shuffle(variables)
        for _ in range(20):
            pairs = self.pairs(len(variables), constants)
            placed = self.walker.place(pairs, self.rng)
            if placed is not None:
                break
        else:
            pairs = [(f"v{i}", f"s{i}") for i in range(len(variables))]
            placed = {f"{kind}{i}": self.walker.anyone(self.rng) for i in range(len(variables)) for kind in "vs"}
        term: dict[str, Term] = {f"v{i}": variable for i, variable in enumerate(variables)}
        for node, entity in placed.items():
            term.setdefault(node, self.constant(entity))
            self.home[term[node]] = entity
        literals: list[Formula] = [self.atom(term[a], term[b]) for a, b in pairs]
        nodes = [*variables, *(term[n] for n in placed if n[0] == "s")]
        for _ in range(negated):
            atom = self.guess(self.pick(variables), self.pick(nodes))
            if atom not in literals or self.rng.random() < 0.05:  # r(x, y) & !r(x, y) only now and then
                literals.append(Not(atom))
        for _ in range(int(self.rng.choice(3, p=[0.65, 0.25, 0.1]))):
            left, right = self.pick(variables), self.pick(nodes)
            if left != right:
                literals.append(Different(*((left, right) if self.rng.random() < 0.5 else (right, left))))
        if self.rng.random() < 0.08:  # r(x, x)
            literals.append(self.loop(self.pick(variables)))
        if self.rng.random() < 0.05:  # an atom between constants, true most of the time
            entity = self.walker.anyone(self.rng)
            other = int(self.rng.choice(self.walker.links(entity)[1]))
            literals.append(self.atom(self.constant(entity), self.constant(other)))
        if self.rng.random() < 0.1:  # made up: probably no answers
            literals.append(self.guess(self.pick(variables), self.pick(nodes)))
        self.rng.shuffle(literals)
        return literals

    def pairs(self, variables: int, constants: int) -> list[tuple[str, str]]:
        """The joined pairs of a random structure over variables v0… and constants s0…; each variable is in a pair."""
        rng, pairs = self.rng, []
        cycle = int(rng.integers(3, 6)) if rng.random() < 0.3 else 0
        cycle = cycle if cycle <= variables else 3 if cycle and variables >= 3 else 0
        pairs += [(f"v{i}", f"v{(i + 1) % cycle}") for i in range(cycle)]
        for i in range(max(1, cycle), variables):
            # Now and then a variable starts a part of its own.
            if rng.random() < 0.9:
                pairs.append((f"v{i}", f"v{rng.integers(i)}"))
        pairs += [(f"s{i}", f"v{rng.integers(variables)}") for i in range(constants)]
        if pairs and rng.random() < 0.2:
            pairs.append(pairs[int(rng.integers(len(pairs)))])
        bound = {node for pair in pairs for node in pair}
        # A variable that is in no pair gets a constant of its own.
        pairs += [(f"v{i}", f"s{constants + i}") for i in range(variables) if f"v{i}" not in bound]
        return pairs

    def nested(self) -> Formula:
        """A formula over variables that are bound elsewhere, with unions inside, to exercise the normal form."""
        terms: list[Term] = list(self.home)
        bound = [t for t in terms if not isinstance(t, Constant)]
        one, two, three = (self.near(self.pick(bound)) for _ in range(3))
        match int(self.rng.integers(5)):
            case 0:
                return Or((one, two))
            case 1:
                return Or((one, And((two, Or((three, Not(one)))))))
            case 2:
                return Not(And((self.guess(self.pick(bound), self.pick(terms)), two)))
            case 3:
                return And((Or((one, two)), Or((three, Different(self.pick(bound), self.constant(0))))))
            case _:
                return Not(Or((self.guess(self.pick(bound), self.pick(terms)), Not(one))))

    def near(self, variable: Term) -> Atom:
        """An atom with a constant that is true at the place of the walk."""
        entity = self.home[variable]
        views, neighbours = self.walker.links(entity)
        at = int(self.rng.integers(len(views)))
        return self.directed(int(views[at]), variable, self.constant(int(neighbours[at])))

    def atom(self, a: Term, b: Term) -> Atom:
        """A positive atom that is true at the place of the walk, if any joins the two."""
        views = self.walker.between(self.entity(a), self.entity(b))
        return self.directed(int(self.rng.choice(views)), a, b) if len(views) else self.guess(a, b)

    def guess(self, a: Term, b: Term) -> Atom:
        """An atom with a relation that one of its terms has, true or not."""
        views = np.unique(self.walker.links(self.entity(a))[0])
        if len(views) and self.rng.random() < 0.8:
            return self.directed(int(self.rng.choice(views)), a, b)
        return self.directed(int(self.rng.integers(2 * self.graph.adjacency.relations)), a, b)

    def loop(self, variable: Term) -> Atom:
        loops = self.walker.between(self.home[variable], self.home[variable])
        relations = loops if len(loops) else np.arange(2 * self.graph.adjacency.relations)
        return self.directed(int(self.rng.choice(relations)), variable, variable)

    def directed(self, view: int, a: Term, b: Term) -> Atom:
        relation = Name(self.graph.relations.name(view // 2))
        return Atom(relation, b, a) if view % 2 else Atom(relation, a, b)

    def constant(self, entity: int) -> Constant:
        constant = Constant(Name(self.graph.entities.name(entity)))
        self.home[constant] = entity
        return constant

    def entity(self, term: Term) -> int:
        return self.home[term] if term in self.home else self.walker.anyone(self.rng)

    def fresh(self) -> Exists:
        self.number += 1
        return Exists(f"e{self.number}")

    def pick(self, terms: Sequence[Term]) -> Term:
        return terms[int(self.rng.integers(len(terms)))]
