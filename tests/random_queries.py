"""Random queries of any structure with real names, to compare engines with each other; deterministic by seed.

A query is grounded by a walk through the graph, which is then forgotten: the walk is an answer of the positive part, so
most queries have answers. A few atoms are made up, so that some have none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tuplet.errors import BadInput
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.walks import Random, Walker
from tuplet.lab.bench.shapes import AbstractEdge, QueryShape, Role, Symbol, ground_clauses, symbols
from tuplet.lang.ast import And, Atom, Constant, Different, Exists, Formula, Free, Name, Not, Or, Query, Term
from tuplet.query.ranking import QueryGraph


def random_query(
    graph: KnowledgeGraph,
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

    graph: KnowledgeGraph
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
        nodes = [*variables, *(term[n] for n in placed if isinstance(term[n], Constant))]
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


def ground(shape: QueryShape, walker: Walker, rng: Random, tries: int = 1000) -> tuple[QueryGraph, ...]:
    """The clauses of a shape with real relations and constants, found by a walk.

    Relations may be walked in either direction. A negated atom takes a relation that its head has, so that it matters.
    """
    positive = list(dict.fromkeys(edge for clause in shape.clauses for edge in clause if not edge.negated))
    negated = [edge for clause in shape.clauses for edge in clause if edge.negated]
    for _ in range(tries):
        placed = walker.place([edge.ends for edge in positive], rng)
        if placed is None:
            continue
        views: dict[Symbol, int] = {
            edge.relation: view for edge, view in zip(positive, _views(walker, positive, placed, rng), strict=True)
        }
        for edge in negated:
            placed.setdefault(edge.head, walker.anyone(rng))
            placed.setdefault(edge.tail, walker.anyone(rng))
            # One that joins this pair already would leave nothing.
            near = np.unique(walker.links(placed[edge.head])[0])
            near = np.setdiff1d(near, [views[e.relation] for e in positive if e.ends == edge.ends])
            view = near[rng.integers(len(near))] if len(near) else rng.integers(2 * walker.adjacency.relations)
            views.setdefault(edge.relation, int(view))
        found = ground_clauses(shape.clauses, views | {s: placed[s] for s in symbols(shape.clauses, Role.CONSTANT)})
        # Two constants in one place may make two atoms one: another walk.
        if all(len(graph.edges) == len(clause) for graph, clause in zip(found, shape.clauses, strict=True)):
            return found
    raise BadInput(f"no walk of shape {shape.name} found in {tries} tries")


def _views(walker: Walker, edges: Sequence[AbstractEdge], placed: Mapping[Symbol, int], rng: Random) -> list[int]:
    """A view for each edge, parallel edges getting different ones."""
    used: dict[tuple[Symbol, Symbol], list[int]] = {}
    for edge in edges:
        if edge.ends not in used:
            used[edge.ends] = rng.permutation(walker.between(placed[edge.head], placed[edge.tail])).tolist()
    return [used[edge.ends].pop() for edge in edges]
