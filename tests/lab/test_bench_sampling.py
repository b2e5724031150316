"""Sampled queries: answers equal an independent engine's, the rules hold, and the seed alone decides."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import duckdb
import numpy as np
import pytest
from random_graph import random_graph

from repeatable import SOAK
from tuplet.engines.exact import Checker, load_fact_rows
from tuplet.errors import BadInput, UnknownName
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lab.bench.hardness import predicted_links
from tuplet.lab.bench.queries import BenchQuery, QuerySet
from tuplet.lab.bench.query_types import types
from tuplet.lab.bench.sampling import Rules, sample
from tuplet.lab.bench.shapes import BETAE, JOINT, QueryShape, from_atoms
from tuplet.query.limits import NO_DEADLINE
from tuplet.read.read import read

KNOWN = ("train", "valid")


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    return random_graph()


@pytest.fixture(scope="module")
def sampled(graph: KnowledgeGraph) -> QuerySet:
    return sample(graph, [*JOINT, *BETAE], 2, seed=5)


def holds(query: BenchQuery, facts: Adjacency, tuples: np.ndarray) -> np.ndarray:
    rank = np.arange(facts.row_entity.max() + 1, dtype=np.int32)
    return Checker(query.clauses(), load_fact_rows(facts, rank)).holds(tuples, NO_DEADLINE)


# --- an independent engine: SQL made from the text of the formula ------------------------------------------------


def tables(graph: KnowledgeGraph) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    for name, splits in (("known", KNOWN), ("whole", (*KNOWN, "test"))):
        heads, relations, tails = graph.edges(*splits)
        connection.register("edges", {"h": heads.copy(), "r": relations.copy(), "t": tails.copy()})
        connection.execute(f"create table {name} as select h, r, t from edges order by r, h, t")
        connection.unregister("edges")
    return connection


def answers(query: BenchQuery, table: str, connection: duckdb.DuckDBPyConnection) -> set[tuple[int, ...]]:
    """Shares nothing with the package: reads the bracketed text by itself."""
    selects = []
    for clause in query.formula.split("|"):
        column: dict[str, str] = {}
        tables_, where, negated = [], [], []
        atoms = re.findall(r"(!?)\(?(r\d+)\((\w+),(\w+)\)", clause)
        for i, (sign, relation, *ends) in enumerate(sorted(atoms, key=lambda atom: atom[0])):
            number, direction = divmod(query.grounding[relation], 2)
            head, tail = ends[::-1] if direction else ends
            if sign:
                negated.append((number, head, tail))
                continue
            tables_.append(f"{table} a{i}")
            where.append(f"a{i}.r = {number}")
            for end, term in (("h", head), ("t", tail)):
                if term[0] == "s":
                    where.append(f"a{i}.{end} = {query.grounding[term]}")
                elif term in column:
                    where.append(f"a{i}.{end} = {column[term]}")
                else:
                    column[term] = f"a{i}.{end}"
        for number, *ends in negated:
            head, tail = (str(query.grounding[t]) if t[0] == "s" else column[t] for t in ends)
            inner = f"select 1 from {table} n where n.r = {number} and n.h = {head} and n.t = {tail}"
            where.append(f"not exists ({inner})")
        free = ", ".join(column[f"f{i}"] for i in range(1, query.k + 1))
        selects.append(f"select {free} from {', '.join(tables_)} where {' and '.join(where)}")
    return set(connection.execute(" union ".join(selects)).fetchall())


def check(queries: QuerySet, connection: duckdb.DuckDBPyConnection) -> None:
    for query in queries:
        easy, full = answers(query, "known", connection), answers(query, "whole", connection)
        assert {*map(tuple, query.easy.tolist())} == easy, query
        assert {*map(tuple, query.hard.tolist())} == full - easy, query
        assert len(query.hard) == len(full - easy)
        assert len(query.easy) == len(easy)


def test_answers_equal_sql_on_a_random_graph(graph: KnowledgeGraph, sampled: QuerySet) -> None:
    assert len(sampled) == 56
    check(sampled, tables(graph))


@cache
def benchmark_graph(folder: Path) -> KnowledgeGraph:
    return read(folder)


@pytest.mark.parametrize("name", ["fb15k-237", "nell995"] if SOAK else ["codex-s"])
def test_answers_equal_sql_on_a_benchmark_graph(name: str, data: Path) -> None:
    graph = benchmark_graph(data / name)
    wanted: list[object] = [*JOINT, *BETAE]
    if SOAK:
        wanted += [replace(t, name=f"published {t.name}") for t in types("published741")[::20]]
    queries = sample(graph, wanted, 10 if SOAK else 1, seed=7)  # type: ignore[arg-type]
    assert len(queries) == (660 if SOAK else 28)
    check(queries, tables(graph))


# --- the rules ---------------------------------------------------------------------------------------------------


def test_rules_hold(graph: KnowledgeGraph) -> None:
    rules = Rules(hard=6, values=12, answers=20)
    queries = sample(graph, ["2fp", "2fpn", "2fd", "2fc", "3fcn", "2i", "pin"], 8, seed=1, rules=rules)
    assert len(queries) == 56
    full = graph.observed()
    for query in queries:
        assert 1 <= len(query.hard) <= 6 * query.k
        for clause in query.clauses():
            positive = replace(clause, edges=tuple(e for e in clause.edges if not e.negated))
            found = np.array(sorted(_all(positive, full)))
            assert len(found) <= 20 * query.k
            assert all(len(np.unique(column)) <= 12 for column in found.T)


def _all(clause, adjacency) -> set[tuple[int, ...]]:  # type: ignore[no-untyped-def]
    from tuplet.engines.crisp import collect, plan

    return {tuple(row) for row in collect(plan([clause], adjacency), adjacency).tuples.tolist()}


def test_negation_matters(graph: KnowledgeGraph) -> None:
    queries = sample(graph, ["2fpn", "2fcn", "3fpn", "3fcn", "2in", "3in", "inp", "pin", "pni"], 6, seed=2)
    full = graph.observed()
    for query in queries:
        (clause,) = query.clauses()
        positive = replace(clause, edges=tuple(e for e in clause.edges if not e.negated))
        if query.meaningful:
            assert 0 < len(_all(clause, full)) < len(_all(positive, full)), query
        else:
            assert _all(clause, full) == _all(positive, full)
    counts = queries.meta["not_meaningful"]
    assert counts == Counter(q.shape for q in queries if not q.meaningful)
    assert sum(counts.values()) <= 6


def test_two_negations_and_a_union_with_negation(graph: KnowledgeGraph) -> None:
    twice = [t for t in types(free=2, exists=0, constants=3, negations=2) if t.negations == 2][:3]
    union = "r1(s1,f1)&!r2(s2,f1)|r3(s3,f1)"
    queries = sample(graph, [*twice, QueryShape("union", from_atoms(union))], 3, seed=3)
    assert len(queries) == 12
    check(queries, tables(graph))


def test_long_cycles(graph: KnowledgeGraph) -> None:
    """The sampler of the published benchmark knows triangles only."""
    queries = sample(graph, ["4fc", "5fc", "4fcn"], 2, seed=4)
    assert len(queries) == 6
    full = graph.observed()
    for query in queries:
        assert holds(query, full, query.hard).all()
    check(queries, tables(graph))


def test_hard_answers_need_the_target(graph: KnowledgeGraph, sampled: QuerySet) -> None:
    known, full = graph.observed(KNOWN), graph.observed()
    for query in sampled:
        assert holds(query, full, query.hard).all()
        assert not holds(query, known, query.hard).any()
        assert holds(query, known, query.easy).all()


def test_splits_can_be_chosen(graph: KnowledgeGraph) -> None:
    queries = sample(graph, ["2fp"], 5, known=["train"], target=["valid"])
    known, full = graph.observed(["train"]), graph.observed(KNOWN)
    for query in queries:
        assert holds(query, full, query.hard).all()
        assert not holds(query, known, query.hard).any()
    assert queries.meta["known"] == ["train"]
    assert queries.meta["target"] == ["valid"]


# --- balanced by predicted links -----------------------------------------------------------------------------------

LINKED = ["1p", "3p", "2u", "up", "pni", "2fpn", "2fdm", "2fc", "3fpm", "4fp"]


@pytest.fixture(scope="module")
def balanced(graph: KnowledgeGraph) -> QuerySet:
    return sample(graph, LINKED, 3, seed=6, balance=True, rules=Rules(tries=2000))


def test_strata_have_equally_many_answers_and_take_turns(balanced: QuerySet) -> None:
    expected = {"1p": 1, "3p": 3, "2u": 1, "up": 2, "pni": 2, "2fpn": 2, "2fdm": 4, "2fc": 4, "3fpm": 4, "4fp": 4}
    for shape, members in balanced.by_shape().items():
        turn = list(range(1, expected[shape] + 1))
        assert [q.strata.tolist() for q in members] == [[n] for n in 3 * turn], shape  # type: ignore[union-attr]
        assert len({q.index for q in members}) == len(members)
    assert balanced.meta["rules_version"] == 2
    assert balanced.meta["balance"] == "predicted"
    assert not balanced.meta["shortage"]


def test_balanced_answers_equal_sql_and_need_their_links(graph: KnowledgeGraph, balanced: QuerySet) -> None:
    check(balanced, tables(graph))
    known, full = graph.observed(KNOWN), graph.observed()
    for query in balanced:
        assert query.links is not None
        assert query.links.tolist() == predicted_links(query.clauses(), known, full, query.hard).tolist()


def test_a_balanced_set_reproduces_its_checksum(graph: KnowledgeGraph, balanced: QuerySet) -> None:
    """The same in any company, and as it was when this was written: the sets tuple-H rest on it."""
    assert balanced.digest == "f86b1a96c6551cae03785b016930050ba89d1c48073b3d41d934f0e61b285e31"
    with ThreadPoolExecutor(2) as pool:
        again = sample(graph, LINKED[:4], 3, seed=6, balance=True, rules=Rules(tries=2000), executor=pool)
    assert content(again) == content([q for q in balanced if q.shape in LINKED[:4]])
    fewer = sample(graph, ["up"], 2, seed=6, balance=True, rules=Rules(tries=2000))
    assert content(fewer) == content(balanced.by_shape()["up"][:4])


def test_a_stratum_that_the_graph_lacks_is_reported() -> None:
    from tuplet.graph.names import Vocabulary

    names = Vocabulary.from_names([f"e{i}" for i in range(10)])
    # every other link is hidden, so no two in a row are
    chain = KnowledgeGraph.from_edges(
        names, Vocabulary.from_names(["next"]), range(9), [0] * 9, range(1, 10), [1, 3] * 4 + [1]
    )
    queries = sample(chain, ["2p"], 2, balance=True, rules=Rules(tries=20))
    assert {q.strata.tolist()[0] for q in queries} == {1}  # type: ignore[union-attr]
    assert queries.meta["shortage"]["2p links=2"]["found"] == 0


# --- seeds -------------------------------------------------------------------------------------------------------


def content(queries: QuerySet | Sequence[BenchQuery]) -> list[tuple[object, ...]]:
    return [
        (q.shape, q.index, dict(q.grounding), q.easy.tolist(), q.hard.tolist(), q.meaningful, q.asked) for q in queries
    ]


def test_workers_and_company_change_nothing(graph: KnowledgeGraph) -> None:
    shapes = ["2fp", "2fcn", "3fd", "2u"]
    alone = sample(graph, shapes, 30, seed=11)
    together = sample(graph, shapes, 30, seed=11, workers=2)
    assert content(alone) == content(together)
    assert alone.meta == together.meta
    assert content(sample(graph, ["3fd"], 12, seed=11)) == content([q for q in alone if q.shape == "3fd"][:12])
    assert content(sample(graph, ["2fp"], 30, seed=12)) != content([q for q in alone if q.shape == "2fp"])


def test_no_query_occurs_twice_whatever_the_names(graph: KnowledgeGraph) -> None:
    queries = sample(graph, ["2i"], 300, seed=1)
    seen = {frozenset((q.grounding[f"r{i}"], q.grounding[f"s{i}"]) for i in (1, 2)) for q in queries}
    assert len(seen) == len(queries)


def test_progress_ends_at_the_total(graph: KnowledgeGraph) -> None:
    calls: list[tuple[float, float]] = []
    sample(graph, ["2fp", "2fd"], 25, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (50, 50)
    assert calls == sorted(calls)


# --- what cannot be filled ---------------------------------------------------------------------------------------


def test_a_shape_that_the_graph_lacks_is_reported() -> None:
    from tuplet.graph.names import Vocabulary

    names = Vocabulary.from_names([f"e{i}" for i in range(10)])
    chain = KnowledgeGraph.from_edges(
        names, Vocabulary.from_names(["next"]), range(9), [0] * 9, range(1, 10), [1] * 5 + [2] + [3] * 3
    )
    queries = sample(chain, ["1p", "2fc"], 4, rules=Rules(tries=5))
    short = queries.meta["shortage"]
    assert {q.shape for q in queries} == {"1p"}
    assert short["2fc"]["found"] == 0
    assert short["2fc"]["numbers"] == 20
    assert short["2fc"]["rejected"]["walk got stuck"] == 100
    # Three target edges, two directions: six queries at most.
    many = sample(chain, ["1p"], 50)
    assert len(many) == many.meta["shortage"]["1p"]["found"] == 6
    assert many.meta["shortage"]["1p"]["rejected"]["query occurred before"] > 0


def test_mistakes_are_named(graph: KnowledgeGraph) -> None:
    with pytest.raises(BadInput, match="did you mean '2fp'"):
        sample(graph, ["2fpp"], 1)
    with pytest.raises(BadInput, match="'test' cannot be known and target"):
        sample(graph, ["2fp"], 1, known=["train", "test"])
    with pytest.raises(UnknownName, match="did you mean 'test'"):
        sample(graph, ["2fp"], 1, target=["tset"])
    with pytest.raises(BadInput, match="listed twice"):
        sample(graph, ["2fp", "2fp"], 1)
    with pytest.raises(BadInput, match="at least 1"):
        sample(graph, ["2fp"], 0)
    with pytest.raises(BadInput, match="has no edges"):
        sample(graph, ["2fp"], 1, target=[])
