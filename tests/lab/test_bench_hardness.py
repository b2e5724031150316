"""The number of links that must be predicted equals that of an oracle that tries everything, by another way."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import numpy as np
import pytest

from repeatable import SOAK
from tuplet.graph.adjacency import Adjacency
from tuplet.lab.bench.hardness import NO_ANSWER, predicted_links
from tuplet.lab.bench.query_types import select, types
from tuplet.lab.bench.shapes import QueryShape, Role, ground_clauses, symbols
from tuplet.query.ranking import Edge, QueryGraph

TUPLES = 50_000 if SOAK else 5_000
ENTITIES, RELATIONS = 6, 3
Fact = tuple[int, int, int]


def oracle(clauses: Iterable[QueryGraph], known: set[Fact], full: set[Fact], answer: tuple[int, ...]) -> int:
    """Every assignment of every clause, facts in sets."""
    needed = []
    for clause in clauses:
        for values in product(range(ENTITIES), repeat=len(clause.existential)):
            at = dict(zip((*clause.free, *clause.existential), (*answer, *values), strict=True))
            facts = [(at.get(e.head, ~e.head), e.relation, at.get(e.tail, ~e.tail)) for e in clause.edges]
            if all((fact in full) != e.negated for fact, e in zip(facts, clause.edges, strict=True)):
                positive = {fact for fact, e in zip(facts, clause.edges, strict=True) if not e.negated}
                needed.append(len(positive - known))
    return min(needed, default=NO_ANSWER)


def some_facts(rng: np.random.Generator) -> tuple[set[Fact], set[Fact]]:
    """A small graph, self-loops included, of which some facts are known."""
    drawn = rng.integers((ENTITIES, RELATIONS, ENTITIES), size=(int(rng.integers(25, 70)), 3))
    full = {(int(h), int(r), int(t)) for h, r, t in drawn}
    share = rng.uniform(0.2, 0.9)
    return {fact for fact in sorted(full) if rng.random() < share}, full


def adjacency(facts: set[Fact]) -> Adjacency:
    heads, relation, tails = np.array(sorted(facts), dtype=np.int32).reshape(-1, 3).T
    return Adjacency.build(heads, relation, tails, RELATIONS)[0]


def grounded(shape: QueryShape, rng: np.random.Generator) -> tuple[QueryGraph, ...]:
    sizes = {Role.RELATION: 2 * RELATIONS, Role.CONSTANT: ENTITIES}
    chosen = {s: int(rng.integers(size)) for role, size in sizes.items() for s in symbols(shape.clauses, role)}
    return ground_clauses(shape.clauses, chosen)


def any_clause(free: int, rng: np.random.Generator) -> QueryGraph:
    """Atoms between anything: self-loops, repeated relations, parts that hang together with nothing."""
    variables = free + int(rng.integers(3))
    nodes = [*range(variables), *(~int(c) for c in rng.integers(ENTITIES, size=2))]
    pick = lambda: nodes[int(rng.integers(len(nodes)))]  # noqa: E731
    edges = [Edge(v, int(rng.integers(RELATIONS)), pick()) for v in range(variables)]
    edges += [Edge(pick(), int(rng.integers(RELATIONS)), pick(), rng.random() < 0.5) for _ in range(rng.integers(3))]
    return QueryGraph(tuple(f"v{v}" for v in range(variables)), tuple(range(free)), tuple(dict.fromkeys(edges)))


def queries(rng: np.random.Generator) -> Iterable[tuple[QueryGraph, ...]]:
    shapes = [*select("betae14,paper14,joint:k=4"), *types()]
    while True:
        if rng.random() < 0.3:
            free = int(rng.integers(1, 4))
            yield tuple(any_clause(free, rng) for _ in range(rng.integers(1, 4)))
        else:
            # the named ones as often as all others: unions are among them
            named = rng.random() < 0.5
            yield grounded(shapes[int(rng.integers(35 if named else len(shapes)))], rng)


def test_predicted_links_equal_the_oracle() -> None:
    rng = np.random.default_rng(20)
    compared, counts = 0, np.zeros(8, dtype=int)
    for clauses in queries(rng):
        known, full = some_facts(rng)
        tuples = np.unique(rng.integers(ENTITIES, size=(12, len(clauses[0].free)), dtype=np.int32), axis=0)
        found = predicted_links(clauses, adjacency(known), adjacency(full), tuples).tolist()
        assert found == [oracle(clauses, known, full, tuple(row)) for row in tuples.tolist()], clauses
        compared += len(found)
        counts += np.bincount(np.array(found) + 1, minlength=8)
        if compared >= TUPLES:
            break
    # every stratum was met, and tuples that are no answers
    assert (counts[:6] > 0).all(), counts


def test_a_fact_that_serves_two_atoms_is_one_link() -> None:
    full = {(0, 0, 0), (0, 1, 1), (1, 1, 0)}
    both_ways = QueryGraph(("x", "y"), (0, 1), (Edge(0, 0, 1), Edge(1, 0, 0)))
    other_facts = QueryGraph(("x", "y"), (0, 1), (Edge(0, 1, 1), Edge(1, 1, 0)))
    pairs = np.array([[0, 0], [0, 1]], dtype=np.int32)
    assert predicted_links([both_ways], adjacency(set()), adjacency(full), pairs).tolist() == [1, NO_ANSWER]
    assert predicted_links([other_facts], adjacency(set()), adjacency(full), pairs).tolist() == [NO_ANSWER, 2]


@pytest.mark.parametrize("clauses", [1, 2])
def test_many_tuples_at_once_are_as_one_by_one(clauses: int) -> None:
    rng = np.random.default_rng(clauses)
    known, full = (adjacency(facts) for facts in some_facts(rng))
    query = [any_clause(3, rng) for _ in range(clauses)]
    tuples = np.array(list(product(range(ENTITIES), repeat=3)), dtype=np.int32)
    alone = [predicted_links(query, known, full, row[None]).item() for row in tuples]
    assert predicted_links(query, known, full, tuples).tolist() == alone
