"""The random query generator and the named shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tuplet
from random_queries import ground, random_query
from repeatable import seeds
from tuplet.engines.crisp import collect, plan
from tuplet.engines.exact import holds
from tuplet.errors import BadInput
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.walks import Walker
from tuplet.lab.bench.shapes import BETAE, JOINT, parse_formula, shape
from tuplet.lang import rewrite
from tuplet.lang.logic import parse_logic
from tuplet.lang.print import to_logic, to_sparql
from tuplet.lang.sparql import parse_sparql
from tuplet.query.bind import bind
from tuplet.query.limits import NO_DEADLINE
from tuplet.query.ranking import QueryGraph
from tuplet.query.source import Source
from tuplet.read.read import read


@pytest.fixture(scope="module")
def world() -> KnowledgeGraph:
    return read(Path(tuplet.__file__).parent / "data" / "world" / "facts.tsv")


@pytest.fixture(scope="module")
def walker(world: KnowledgeGraph) -> Walker:
    return Walker(world.adjacency)


def test_the_same_seed_gives_the_same_query(world: KnowledgeGraph, walker: Walker) -> None:
    first = [random_query(world, np.random.default_rng(seed), walker=walker) for seed in range(30)]
    again = [random_query(world, np.random.default_rng(seed)) for seed in range(30)]
    assert first == again
    assert len(set(first)) == 30


def test_queries_are_safe_and_most_have_answers(world: KnowledgeGraph, walker: Walker) -> None:
    answered = 0
    for seed in seeds(200, 3000):
        query = random_query(world, np.random.default_rng(seed), walker=walker)
        clauses = bind(rewrite.clauses(query), world)  # refuses what is unsafe
        answered += len(collect(plan(clauses, world.adjacency), world.adjacency, 1).tuples)
    assert 120 <= answered < 200


@pytest.mark.parametrize(("write", "read_back"), [(to_logic, parse_logic), (to_sparql, parse_sparql)])
def test_queries_survive_printing_and_parsing(
    write: Callable[..., str], read_back: Callable[..., tuplet.lang.ast.Query], world: KnowledgeGraph, walker: Walker
) -> None:
    for seed in seeds(60, 1000):
        query = random_query(world, np.random.default_rng(seed), walker=walker)
        parsed = read_back(write(query))
        answers = []
        for version in (query, parsed):
            made = plan(bind(rewrite.clauses(version), world), world.adjacency)
            answers.append({tuple(row) for row in collect(made, world.adjacency, 20_000).tuples.tolist()})
        if len(answers[0]) < 20_000:
            assert answers[0] == answers[1], f"seed {seed}: {write(query)}"


def test_ranges_are_kept(world: KnowledgeGraph, walker: Walker) -> None:
    for seed in range(40):
        query = random_query(
            world, np.random.default_rng(seed), free=(2, 2), exists=(0, 0), negated=(0, 0), walker=walker
        )
        assert len(query.free) == 2
        assert all(len(clause.variables) == 2 for clause in bind(rewrite.clauses(query), world))


@pytest.mark.parametrize("name", [*JOINT, *BETAE, "4fp", "5fc", "6fd"])
def test_a_grounded_shape_has_the_form_and_answers(name: str, world: KnowledgeGraph, walker: Walker) -> None:
    abstract = shape(name)
    answered = 0
    for seed in range(12):
        clauses = ground(abstract, walker, np.random.default_rng(seed))
        assert len(clauses) == len(abstract.clauses)
        for clause, edges in zip(clauses, abstract.clauses, strict=True):
            assert len(clause.edges) == len(edges)
            assert [e.negated for e in clause.edges] == [e.negated for e in edges]
            assert len(clause.free) == len(abstract.free)
        found = collect(plan(clauses, world.adjacency), world.adjacency, 100).tuples
        assert holds(clauses, Source(world), found, NO_DEADLINE).all()
        answered += bool(len(found))
    assert answered >= 3
    if not any(edge.negated for clause in abstract.clauses for edge in clause):
        assert answered == 12, "the walk itself is an answer"


def test_shapes_are_those_of_the_table() -> None:
    written = {name: "&".join(map(str, shape(name).clauses[0])) for name in ("2fc", "3fcn", "3fdm", "4fpn")}
    assert written["2fc"] == "r1(s1,e1)&r2(e1,f1)&r3(e1,f2)&r4(f1,f2)"
    assert written["3fcn"] == "r1(s1,f1)&r2(f1,f3)&r3(f2,f3)&!r4(f1,f2)"
    assert written["3fdm"] == "r1(s1,e1)&r2(e1,f1)&r3(e1,f1)&r4(e1,f2)&r5(e1,f3)"
    assert written["4fpn"] == "r1(s1,f1)&r2(f1,f2)&r3(f2,f3)&r4(f3,f4)&!r5(f3,f4)"
    assert len(JOINT) == len(BETAE) == 14
    for name in (*JOINT, *BETAE):
        assert [len(clause) for clause in parse_formula(shape(name).formula)] == [
            len(clause) for clause in shape(name).clauses
        ]


@pytest.mark.parametrize("name", ["2fq", "1fp", "f", "", "2p2"])
def test_unknown_shapes_are_refused(name: str) -> None:
    with pytest.raises(BadInput, match="unknown shape"):
        shape(name)


def test_neighbours_by_pairs_are_those_of_the_edges() -> None:
    rng = np.random.default_rng(3)
    drawn = np.unique(rng.integers((9, 3, 9), size=(60, 3)) * [2, 1, 2], axis=0)  # loops, several edges; no odd entity
    walker = Walker(Adjacency.build(*(part.astype(np.int32) for part in drawn.T), 3)[0])
    for entity in range(-1, 20):
        views, neighbours = walker.links(entity)
        joined = {other: views[neighbours == other].tolist() for other in range(20)}
        for times in (1, 2, 3):
            assert walker.near(entity, times).tolist() == [o for o in joined if len(joined[o]) >= times]
        assert all(walker.between(entity, other).tolist() == sorted(joined[other]) for other in joined)


def test_graphs_without_walks_are_refused(world: KnowledgeGraph) -> None:
    none = np.empty(0, dtype=np.int64)
    with pytest.raises(BadInput, match="without edges"):
        Walker(Adjacency.build(none, none, none, 1)[0])
    single = Walker(Adjacency.build(np.array([0]), np.array([0]), np.array([1]), 1)[0])
    with pytest.raises(BadInput, match="2fpm"):
        ground(shape("2fpm"), single, np.random.default_rng(0))
    (clause,) = ground(shape("1p"), single, np.random.default_rng(0))
    assert isinstance(clause, QueryGraph)
