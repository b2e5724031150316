"""Every engine on tables and facts with newer layers: as the oracle says of the same edges without them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engine_contract import SHAPES, check, random_query, random_table, shape_query
from random_conditions import with_conditions

from ns3_runs import run as run_ns3
from repeatable import seeds
from tuplet.engines import brute, crisp, exact
from tuplet.engines.effort import Effort
from tuplet.engines.exact import Checker, load_fact_rows
from tuplet.engines.ns3.algorithm import BoxBudget
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.graph.versions import EdgeStates
from tuplet.query.logic import Logic
from tuplet.query.ranking import Clauses, Edge, QueryGraph, Ranking
from tuplet.truth.edges import ADDED, TRAIN
from tuplet.truth.table import TruthTable

LOGICS = Logic.names
BLOCKS = seeds(4, 60)
PER_BLOCK = 25


def random_edit(rng: np.random.Generator, table: TruthTable, entities: int) -> EdgeStates:
    """Some edges added, changed or removed; now and then all of a row."""
    size = (entities, table.relations, entities)
    touched = rng.random(size) < rng.choice([0.02, 0.1, 0.4])
    if rng.random() < 0.3:
        touched[rng.integers(entities), rng.integers(table.relations)] = True
    heads, relation, tails = np.nonzero(touched)
    n = len(heads)
    kind = rng.integers(0, 3, n) if rng.random() < 0.7 else np.zeros(n, dtype=np.int64)  # 0 goes, 1 predicted, 2 fact
    predicted = rng.integers(1, 8, n) / 8
    certain = rng.random(n) < 0.5 if table.double else np.ones(n, dtype=bool)
    truth = np.select([kind == 0, (kind == 2) & certain], [0.0, 1.0], predicted)
    return EdgeStates.from_columns(
        relation=relation,
        heads=heads,
        tails=tails,
        truth=truth,
        observed=kind == 2,
        prediction=0 * predicted,
        source=np.where(kind == 2, ADDED, 0),
        split=np.where(kind == 2, TRAIN, 0),
        weight=truth,
        date=np.zeros(n),
    )


def layered_case(seed: int) -> tuple[np.random.Generator, TruthTable, Adjacency]:
    """A table and its facts after one to three edits, in one layer or two, with new entities now and then."""
    rng = np.random.default_rng(seed)
    size, relations = int(rng.integers(3, 7)), int(rng.integers(1, 4))
    weighted = bool(rng.random() < 0.2)
    table = random_table(rng, size, relations, float(rng.choice([0.1, 0.3, 0.5])), bool(rng.random() < 0.5), weighted)
    facts = table.facts().triples()[:3]
    names = (
        Vocabulary.from_names([f"e{i}" for i in range(size)]),
        Vocabulary.from_names([f"r{i}" for i in range(relations)]),
    )
    graph = KnowledgeGraph.from_edges(*names, *facts)
    for _ in range(int(rng.integers(1, 4))):
        size += int(rng.integers(0, 2))
        states = random_edit(rng, table, size)
        table, graph = table.edit(states, size), graph.edit(states)
        if table.layered is not None and table.adjacency.newer is not None and rng.random() < 0.3:
            table = replace(table, layered=replace(table.layered, fixed=len(table.adjacency.newer)))
        if graph.layered is not None and graph.adjacency.newer is not None and rng.random() < 0.3:
            graph = replace(graph, layered=replace(graph.layered, fixed=len(graph.adjacency.newer)))
    return rng, table, graph.adjacency


def names_of_edited(rng: np.random.Generator, entities: int) -> np.ndarray:
    """The first entities in order of names, as they were imported; later ones have names between theirs."""
    first = int(rng.integers(1, entities + 1))
    place = np.append(np.arange(first), rng.uniform(-1, first, entities - first))
    return np.argsort(np.argsort(place)).astype(np.int32)


def some_query(rng: np.random.Generator, table: TruthTable) -> list[QueryGraph]:
    if rng.random() < 0.3 and table.edges:
        return shape_query(str(rng.choice(list(SHAPES))), rng, table)
    return random_query(rng, table, 3)


def without_constants(rng: np.random.Generator, relations: int) -> list[QueryGraph]:
    """An edge, a chain or a star; the search begins with a list."""
    r, s = (int(i) for i in rng.integers(0, relations, 2))
    free = ((0, 1), (1, 0), (0,), (1,))[rng.integers(4)]
    further = ((), (Edge(1, s, 2),), (Edge(0, s, 2),))[rng.integers(3)]
    return [QueryGraph(("x", "y", "z")[: 2 + len(further)], free, (Edge(0, r, 1), *further))]


@pytest.mark.parametrize("constants", [True, False])
@pytest.mark.parametrize("block", BLOCKS)
def test_the_exact_engine(block: int, constants: bool) -> None:
    answered = changed = 0
    for seed in range(PER_BLOCK * block, PER_BLOCK * (block + 1)):
        rng, table, facts = layered_case(seed)
        changed += table.adjacency.newer is not None
        clauses = some_query(rng, table.flat) if constants else without_constants(rng, table.relations)
        if seed % 3 == 0:
            clauses = with_conditions(rng, clauses, table.flat, 1)

        def run(clauses: Clauses, flat: TruthTable, k: int, logic: str, only: str | None, rank: np.ndarray) -> Ranking:
            plan = exact.plan(clauses, table, rank)  # noqa: B023
            checker = Checker(clauses, load_fact_rows(facts, rank))  # noqa: B023
            return exact.run(plan, k, Logic.from_name(logic), Effort(), only, checker.holds)  # type: ignore[arg-type]

        k, logic = int(rng.choice([1, 3, 20])), LOGICS[seed % len(LOGICS)]
        only = (None, None, "predicted", "observed")[seed % 4]
        rank = names_of_edited(rng, table.entities) if seed % 3 else None
        answered += check(run, clauses, table.flat, k, logic, only, seed, rank) > 0
    assert answered > PER_BLOCK / 5
    assert changed > PER_BLOCK / 2


@pytest.mark.parametrize("block", BLOCKS)
def test_crisp_and_the_oracle_itself(block: int) -> None:
    answered = 0
    for seed in range(1000 + PER_BLOCK * block, 1000 + PER_BLOCK * (block + 1)):
        rng, table, facts = layered_case(seed)
        flat = table.flat
        assert facts.edges == flat.facts().edges
        mine, theirs = brute.Space(table), brute.Space(flat)
        for r in range(table.relations):
            assert (mine.matrix(r) == theirs.matrix(r)).all()
        for _ in range(4):
            clauses = some_query(rng, flat)
            if seed % 3 == 0:
                clauses = with_conditions(rng, clauses, flat, 1)
            tensor = theirs.combine(clauses, facts=True)
            found = crisp.collect(crisp.plan(clauses, facts), facts)
            assert found.complete
            assert sorted(found.tuples.tolist()) == np.argwhere(tensor > 0).tolist()
            answered += len(found.tuples) > 0
            plain = flat.facts()
            str(crisp.plan(clauses, facts))
            assert sorted(crisp.collect(crisp.plan(clauses, plain), plain).tuples.tolist()) == sorted(
                found.tuples.tolist()
            )
    assert answered > PER_BLOCK / 5


@pytest.mark.parametrize("block", BLOCKS)
def test_ns3(block: int) -> None:
    answered = 0
    for seed in range(2000 + 8 * block, 2000 + 8 * (block + 1)):
        rng, table, _ = layered_case(seed)
        if not table.edges:
            continue

        def run(clauses: Clauses, flat: TruthTable, k: int, logic: str, only: None, rank: np.ndarray) -> Ranking:
            return run_ns3(clauses, table, k, BoxBudget.all(), logic, rank=rank)  # noqa: B023

        answered += check(run, some_query(rng, table.flat), table.flat, 10, LOGICS[seed % len(LOGICS)], seed=seed) > 0
    assert answered
