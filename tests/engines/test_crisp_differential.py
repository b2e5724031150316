"""Crisp answers against two independent engines: SPARQL in Oxigraph, SQL in DuckDB. No difference is allowed.

The translators below start from the syntax tree and share nothing with the package's rewriting, binding or printing.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path

import duckdb
import numpy as np
import pyoxigraph as ox
import pytest

import tuplet
from random_queries import random_query
from repeatable import SEED, count
from tuplet.engines.crisp import collect, plan
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.walks import Walker
from tuplet.lang import rewrite
from tuplet.lang.ast import And, Atom, Constant, Different, Formula, Free, Not, Or, Query, Term
from tuplet.query.bind import bind
from tuplet.read.read import read

DATA = os.environ.get("TUPLET_DATA")
QUERIES = {"world": count(60, 900), "umls": count(50, 700), "codex-s": count(50, 700)}
LARGEST = 50_000  # answers; twice as many matches of the positive part, which the other engines go through
SECONDS = 5  # of processor time that the others may take; now and then they join in an unlucky order
Triples = list[tuple[int, int, int]]
Rows = set[tuple[int, ...]]
Answering = Callable[[str], Rows]
Literal = Atom | Not | Different


class Judge:
    """An engine in a process of its own: the system ends it where a query takes more processor time than it may."""

    def __init__(self, opened: Callable[[Triples], Answering], triples: Triples) -> None:
        self.opened, self.triples = opened, triples
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        context.Process(target=serve, args=(other, self.opened, self.triples), daemon=True).start()
        other.close()  # so that the pipe ends with the process
        assert self.connection.recv() == "ready"

    def ask(self, text: str) -> Rows | None:
        self.connection.send(text)
        try:
            rows: Rows = self.connection.recv()
        except EOFError:
            self.start()
            return None
        return rows


def serve(connection: Connection, opened: Callable[[Triples], Answering], triples: Triples) -> None:
    answer = opened(triples)
    connection.send("ready")
    while True:
        text = connection.recv()
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + SECONDS, most))
        connection.send(answer(text))


def open_oxigraph(triples: Triples) -> Answering:
    store = ox.Store()
    store.bulk_extend(
        ox.Quad(ox.NamedNode(f"e:{h}"), ox.NamedNode(f"r:{r}"), ox.NamedNode(f"e:{t}")) for h, r, t in triples
    )

    def answer(text: str) -> Rows:
        found = store.query(text)
        assert isinstance(found, ox.QuerySolutions)
        return {tuple(int(row[variable].value[2:]) for variable in found.variables) for row in found}  # type: ignore

    return answer


def open_duckdb(triples: Triples) -> Answering:
    """One table of facts."""
    connection = duckdb.connect(config={"threads": 1})
    array = np.array(triples, dtype=np.int32)
    connection.register("edges", {"h": array[:, 0].copy(), "r": array[:, 1].copy(), "t": array[:, 2].copy()})
    connection.execute("create table facts as select h, r, t from edges order by r, h, t")
    return lambda text: set(connection.execute(text).fetchall())


@cache
def load(name: str) -> tuple[KnowledgeGraph, Walker, Triples]:
    if name == "world":
        graph = read(Path(tuplet.__file__).parent / "data" / "world" / "facts.tsv")
    else:
        assert DATA is not None
        graph = read(Path(DATA) / name)
    triples = list(zip(*(array.tolist() for array in graph.edges()), strict=True))
    return graph, Walker(graph.adjacency), triples


@cache
def judges(name: str) -> tuple[Judge, Judge]:
    triples = load(name)[2]
    return Judge(open_oxigraph, triples), Judge(open_duckdb, triples)


def alternatives(formula: Formula, negative: bool = False) -> Iterator[list[Literal]]:
    """The conjunctions of the disjunctive normal form. `not (x != y)` is not generated."""
    match formula:
        case Not(body):
            yield from alternatives(body, not negative)
        case And(parts) | Or(parts) if isinstance(formula, And) != negative:
            for choice in itertools.product(*(list(alternatives(part, negative)) for part in parts)):
                yield [literal for part in choice for literal in part]
        case And(parts) | Or(parts):
            for part in parts:
                yield from alternatives(part, negative)
        case Atom():
            yield [Not(formula) if negative else formula]
        case Different():
            assert not negative
            yield [formula]


def sparql(query: Query, graph: KnowledgeGraph) -> str:
    def term(t: Term) -> str:
        return f"<e:{graph.entities.find(t.name.text)}>" if isinstance(t, Constant) else f"?{t.name}"

    def triple(atom: Atom) -> str:
        return f"{term(atom.head)} <r:{graph.relations.find(atom.relation.text)}> {term(atom.tail)}"

    groups = []
    for literals in alternatives(query.body):
        parts = [f"{triple(atom)} ." for atom in literals if isinstance(atom, Atom)]
        parts += [f"FILTER NOT EXISTS {{ {triple(n.body)} }}" for n in literals if isinstance(n, Not)]  # type: ignore[arg-type]
        parts += [f"FILTER({term(d.left)} != {term(d.right)})" for d in literals if isinstance(d, Different)]
        groups.append("{ " + " ".join(parts) + " }")
    return f"SELECT DISTINCT {' '.join(f'?{v.name}' for v in query.free)} WHERE {{ {' UNION '.join(groups)} }}"


def sql(query: Query, graph: KnowledgeGraph) -> str:
    selects = []
    for literals in alternatives(query.body):
        column: dict[Term, str] = {}
        tables, where = [], []
        for i, atom in enumerate(literal for literal in literals if isinstance(literal, Atom)):
            tables.append(f"facts a{i}")
            where.append(f"a{i}.r = {graph.relations.find(atom.relation.text)}")
            for end, t in (("h", atom.head), ("t", atom.tail)):
                if isinstance(t, Constant):
                    where.append(f"a{i}.{end} = {graph.entities.find(t.name.text)}")
                elif t in column:
                    where.append(f"a{i}.{end} = {column[t]}")
                else:
                    column[t] = f"a{i}.{end}"

        def value(t: Term, column: dict[Term, str] = column) -> str:
            return str(graph.entities.find(t.name.text)) if isinstance(t, Constant) else column[t]

        for literal in literals:
            if isinstance(literal, Different):
                where.append(f"{value(literal.left)} <> {value(literal.right)}")
            elif isinstance(literal, Not):
                atom = literal.body  # type: ignore[assignment]
                relation = graph.relations.find(atom.relation.text)
                inner = f"n.r = {relation} and n.h = {value(atom.head)} and n.t = {value(atom.tail)}"
                where.append(f"not exists (select 1 from facts n where {inner})")
        free = ", ".join(value(v) for v in query.free)
        selects.append(f"select {free} from {', '.join(tables)} where {' and '.join(where)}")
    return "select distinct * from (" + " union all ".join(f"({select})" for select in selects) + ")"


def ours(query: Query, graph: KnowledgeGraph) -> list[tuple[int, ...]] | None:
    """Our answers, or None if they or the ways to reach them are too many for the others."""
    clauses = bind(rewrite.clauses(query), graph)
    for clause in clauses:
        positive = tuple(edge for edge in clause.edges if not edge.negated)
        matches = replace(clause, free=tuple(range(len(clause.variables))), edges=positive)
        if not collect(plan([matches], graph.adjacency), graph.adjacency, 2 * LARGEST).complete:
            return None
    found = collect(plan(clauses, graph.adjacency), graph.adjacency)
    answers = [tuple(row) for row in found.tuples.tolist()]
    return answers if len(answers) <= LARGEST else None


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("name", list(QUERIES))
def test_answers_equal_oxigraph_and_duckdb(name: str, part: int) -> None:
    if name != "world" and DATA is None:
        pytest.skip("TUPLET_DATA is not set: benchmark graphs are absent")
    graph, walker, _ = load(name)
    oxigraph, table = judges(name)
    wanted = -(-QUERIES[name] // 4)
    compared = too_large = unlucky = with_answers = 0
    seed = SEED + part * 1_000_000
    while compared < wanted:
        seed += 1
        k = 1 + compared % 4
        query = random_query(graph, np.random.default_rng(seed), free=(k, k), walker=walker)
        found = ours(query, graph)
        if found is None:
            too_large += 1
            assert too_large <= 20 + 3 * wanted, "nearly all queries are too large to compare"
            continue
        mine = set(found)
        assert len(found) == len(mine), f"seed {seed}: an answer twice: {query}"
        theirs = oxigraph.ask(sparql(query, graph))
        rows = table.ask(sql(query, graph))
        assert theirs is None or mine == theirs, f"seed {seed}: Oxigraph differs: {query}"
        assert rows is None or mine == rows, f"seed {seed}: DuckDB differs: {query}"
        if theirs is None or rows is None:
            unlucky += 1
            continue
        compared += 1
        with_answers += bool(mine)
    assert unlucky <= 2 + wanted // 10, "the others gave up too often to be judges"
    assert with_answers >= wanted // 2, "most random queries have no answers"


def test_generated_queries_cover_all_constructs() -> None:
    """What is compared above is only as good as what is generated."""
    graph, walker, _ = load("world")
    seen: set[str] = set()
    for seed in range(1, 300):
        query = random_query(graph, np.random.default_rng(seed), walker=walker)
        clauses = bind(rewrite.clauses(query), graph)
        seen |= {f"k={len(query.free)}", "union" if len(clauses) > 1 else "conjunction"}
        for clause in clauses:
            seen.add(clause.shape())
            seen |= {"negation"} if any(e.negated for e in clause.edges) else set()
            seen |= {"inequality"} if clause.different else set()
            seen |= {"constant inequality"} if any(a < 0 or b < 0 for a, b in clause.different) else set()
            seen |= {"self-loop"} if any(e.head == e.tail and not e.negated for e in clause.edges) else set()
            seen |= {"ground atom"} if any(e.head < 0 and e.tail < 0 for e in clause.edges) else set()
            seen |= {"parts"} if len(clause.parts()) > 1 else set()
            seen |= {"existential"} if clause.existential else set()
            seen |= {"no constant"} if not clause.constants else set()
        seen |= (
            {"nested"} if isinstance(query.body, And) and any(isinstance(p, Or) for p in query.body.parts) else set()
        )
    expected = {"k=1", "k=2", "k=3", "k=4", "union", "conjunction", "tree", "multi-edge", "cyclic", "negation"}
    expected |= {"inequality", "constant inequality", "self-loop", "ground atom", "parts", "existential", "no constant"}
    assert expected | {"nested"} <= seen
    assert all(isinstance(v, Free) for v in query.free)
