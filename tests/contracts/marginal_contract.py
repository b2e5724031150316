"""What every baseline that claims correct marginals must satisfy, judged by the oracle; random trees to judge it on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tuplet import settings
from tuplet.engines import brute
from tuplet.engines.marginals import MarginalEngine
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.query.limits import NO_DEADLINE, Limits, Option
from tuplet.query.logic import Logic
from tuplet.query.ranking import Edge, QueryGraph
from tuplet.query.source import Source
from tuplet.truth.table import TruthTable


def source_of(table: TruthTable) -> Source:
    """A table as something that can be asked: its observed edges are the facts."""
    heads, relation, tails, entry = table.adjacency.triples()
    keep = table.observed[entry]
    names = (
        Vocabulary.from_names([f"{kind}{i}" for i in range(n)])
        for kind, n in (("e", table.entities), ("r", table.relations))
    )
    ones = np.ones(int(keep.sum()), dtype=np.uint8)
    return Source(KnowledgeGraph.from_edges(*names, heads[keep], relation[keep], tails[keep], ones), truth=table)


def marginals(
    engine: str,
    clauses: list[QueryGraph],
    source: Source,
    logic: str = "product",
    options: Mapping[str, Option] | None = None,
) -> np.ndarray:
    """The marginals that an engine multiplies [k, entities]."""
    limits = Limits(logic=logic, options=options or {}, budget="all")
    runner: MarginalEngine[Any] = settings.find_plugin("engines", engine)
    plan = runner.plan(clauses, source, limits)
    return runner.truth(runner.marginals([plan], limits, NO_DEADLINE)[0])


def oracle(clauses: list[QueryGraph], table: TruthTable, logic: str = "product") -> np.ndarray:
    """The truth of every entity for each free variable, the others existential, by enumeration [k, entities]."""
    space = brute.Space(table, Logic.from_name(logic))
    places = range(len(clauses[0].free))
    return np.stack([space.combine([c.marginal([c.free[place]]) for c in clauses]) for place in places])


def random_tree(rng: np.random.Generator, table: TruthTable, k: int, existentials: int) -> QueryGraph:
    """A clause whose variables form a tree or several: doubled edges, negated edges, constants, self-loops."""
    n = k + existentials

    def edge(a: int, b: int, negated: bool = False) -> Edge:
        relation = int(rng.integers(table.relations))
        return Edge(a, relation, b, negated) if rng.random() < 0.5 else Edge(b, relation, a, negated)

    def constant() -> int:
        return ~int(rng.integers(table.entities))

    edges: list[Edge] = []
    for v in range(n):
        if v == 0 or rng.random() < 0.15:
            edges.append(edge(v, constant()) if rng.random() < 0.8 else Edge(v, int(rng.integers(table.relations)), v))
            if v and rng.random() < 0.5:
                edges.append(edge(v, int(rng.integers(v)), True))  # joined by a negated edge alone
            continue
        parent = int(rng.integers(v))
        edges.append(edge(v, parent))
        if rng.random() < 0.35:
            edges.append(edge(v, parent, bool(rng.random() < 0.5)))
    for _ in range(int(rng.integers(0, 3))):
        edges.append(edge(int(rng.integers(n)), constant(), bool(rng.random() < 0.5)))
    free = tuple(int(v) for v in rng.permutation(n)[:k])
    return QueryGraph(tuple(f"v{i}" for i in range(n)), free, tuple(dict.fromkeys(edges)))


def random_forest(rng: np.random.Generator, table: TruthTable) -> list[QueryGraph]:
    """A query of one to three clauses, each a tree."""
    k = int(rng.integers(1, 4))
    return [random_tree(rng, table, k, int(rng.integers(0, 4))) for _ in range(int(rng.choice([1, 1, 2, 3])))]


def random_chain(rng: np.random.Generator, table: TruthTable, length: int) -> list[QueryGraph]:
    """From a constant along `length` variables; the last one is asked for, sometimes all are."""
    ends = [(~int(rng.integers(table.entities)), 0), *((v, v + 1) for v in range(length - 1))]
    edges = tuple(
        Edge(*((a, r, b) if rng.random() < 0.5 else (b, r, a)))
        for (a, b), r in zip(ends, rng.integers(table.relations, size=length).tolist(), strict=True)
    )
    free = (length - 1,) if rng.random() < 0.5 else tuple(range(length))
    return [QueryGraph(tuple(f"v{i}" for i in range(length)), free, edges)]
