"""What every engine that claims exactness must satisfy, judged by the oracle; and random queries to judge it on.

A new engine gets these checks by naming itself: `check(run, clauses, table, k, logic)`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from random_conditions import meant

from tuplet import settings
from tuplet.engines import brute
from tuplet.query.logic import Logic
from tuplet.query.ranking import Edge, QueryGraph, Ranking
from tuplet.truth.table import TruthTable

Run = Callable[..., Ranking]
DATA = os.environ.get("TUPLET_DATA")
SMALL_GRAPHS = ("nations", "umls", "kinships")


def registered(*names: str) -> list[str]:
    """The engines of these names whose rooms are there; the laboratory's may be deleted (`tools/without_rooms.py`)."""
    return [name for name in names if name in settings.list_plugins("engines")]


# --- tables -------------------------------------------------------------------------------------------------------


def random_table(
    rng: np.random.Generator, entities: int, relations: int, density: float, coarse: bool, weighted: bool = False
) -> TruthTable:
    """A random graph with predictions; coarse truth values make ties, weights make facts that are not certain."""
    heads, relation, tails = np.nonzero(rng.random((entities, relations, entities)) < density)
    observed = rng.random(len(heads)) < rng.choice([0.0, 0.3, 0.7])
    predicted = rng.integers(1, 8, len(heads)) / 8 if coarse else rng.uniform(0.001, 0.9999, len(heads))
    certain = ~weighted | (rng.random(len(heads)) < 0.5)
    truth = np.where(observed & certain, 1, predicted)
    return TruthTable.build(entities, relations, heads, relation, tails, truth, observed)


@lru_cache
def benchmark_table(name: str) -> TruthTable:
    """A small benchmark graph: its facts are observed, and as many random edges are predicted."""
    import gzip

    folder = Path(str(DATA)) / name
    triples = []
    for split in ("train", "valid", "test"):
        with gzip.open(folder / f"{split}.tsv.gz", "rt", encoding="utf-8") as lines:
            triples += [tuple(line.rstrip("\n").split("\t")[:3]) for line in lines if line.strip()]
    entity = {e: i for i, e in enumerate(sorted({t[0] for t in triples} | {t[2] for t in triples}))}
    relation = {r: i for i, r in enumerate(sorted({t[1] for t in triples}))}
    facts = {(entity[h], relation[r], entity[t]) for h, r, t in triples}
    rng = np.random.default_rng(0)
    guesses = zip(
        rng.integers(0, len(entity), len(facts)).tolist(),
        rng.integers(0, len(relation), len(facts)).tolist(),
        rng.integers(0, len(entity), len(facts)).tolist(),
        strict=True,
    )
    predicted = sorted(set(guesses) - facts)
    edges = np.array([*sorted(facts), *predicted])
    observed = np.arange(len(edges)) < len(facts)
    truth = np.where(observed, 1.0, rng.uniform(0.005, 0.9999, len(edges)))
    return TruthTable.build(len(entity), len(relation), edges[:, 0], edges[:, 1], edges[:, 2], truth, observed)


# --- queries ------------------------------------------------------------------------------------------------------

# The fourteen joint query types: each atom is (head, tail, negated); s is a constant, e existential, f1… free.
SHAPES: dict[str, tuple[tuple[str, str, bool], ...]] = {
    "2fp": (("s", "f1", False), ("f1", "f2", False)),
    "2fpm": (("s", "f1", False), ("f1", "f2", False), ("f1", "f2", False)),
    "2fpn": (("s", "f1", False), ("f1", "f2", False), ("f1", "f2", True)),
    "2fd": (("s", "e", False), ("e", "f1", False), ("e", "f2", False)),
    "2fdm": (("s", "e", False), ("e", "f1", False), ("e", "f1", False), ("e", "f2", False)),
    "2fc": (("s", "e", False), ("e", "f1", False), ("e", "f2", False), ("f1", "f2", False)),
    "2fcn": (("s", "e", False), ("e", "f2", False), ("e", "f1", True), ("f1", "f2", False)),
    "3fp": (("s", "f1", False), ("f1", "f2", False), ("f2", "f3", False)),
    "3fpm": (("s", "f1", False), ("f1", "f2", False), ("f2", "f3", False), ("f2", "f3", False)),
    "3fpn": (("s", "f1", False), ("f1", "f2", False), ("f2", "f3", False), ("f2", "f3", True)),
    "3fd": (("s", "e", False), ("e", "f1", False), ("e", "f2", False), ("e", "f3", False)),
    "3fdm": (("s", "e", False), ("e", "f1", False), ("e", "f1", False), ("e", "f2", False), ("e", "f3", False)),
    "3fc": (("s", "f1", False), ("f1", "f2", False), ("f2", "f3", False), ("f1", "f3", False)),
    "3fcn": (("s", "f1", False), ("f1", "f3", False), ("f2", "f3", False), ("f1", "f2", True)),
}


def shape_query(name: str, rng: np.random.Generator, table: TruthTable) -> list[QueryGraph]:
    """A shape with constants and relations of edges that exist, so that it tends to have answers."""
    k = int(name[0])
    variables = tuple(f"f{i + 1}" for i in range(k)) + (("e",) if any("e" in a[:2] for a in SHAPES[name]) else ())
    number = {v: i for i, v in enumerate(variables)}
    heads, relations, tails, _ = table.adjacency.triples()
    entity: dict[str, int] = {}
    edges = []
    for head, tail, negated in SHAPES[name]:
        known, inverse = (head, False) if head in entity or head == "s" else (tail, True)
        ends, others = (tails, heads) if inverse else (heads, tails)
        candidates = np.flatnonzero(ends == entity[known]) if known in entity else np.arange(len(heads))
        other = tail if known == head else head
        if other in entity:
            both = candidates[others[candidates] == entity[other]]
            candidates = both if len(both) else candidates
        chosen = int(rng.choice(candidates)) if len(candidates) else int(rng.integers(len(heads)))
        entity.setdefault(known, int(ends[chosen]))
        entity.setdefault(other, int(others[chosen]))
        node = [number[x] if x in number else ~entity[x] for x in (head, tail)]
        edges.append(Edge(node[0], int(relations[chosen]), node[1], negated))
    return [QueryGraph(variables, tuple(range(k)), tuple(dict.fromkeys(edges)))]


def random_clause(
    rng: np.random.Generator, table: TruthTable, k: int, existentials: int, cyclic: int, negations: int
) -> QueryGraph:
    """A safe random clause: every variable in a positive atom, perhaps in several parts."""
    n = k + existentials
    labels = rng.permutation(n)  # free variables anywhere in the order

    def relation() -> int:
        return int(rng.integers(table.relations))

    def constant() -> int:
        return ~int(rng.integers(table.entities))

    def either_way(a: int, b: int, negated: bool = False) -> Edge:
        return Edge(a, relation(), b, negated) if rng.random() < 0.5 else Edge(b, relation(), a, negated)

    edges = []
    for v in range(n):
        if v == 0 or rng.random() < 0.12:
            edges.append(either_way(v, constant()) if rng.random() < 0.8 else Edge(v, relation(), v))
        else:
            edges.append(either_way(v, int(rng.integers(v))))
    if n > 1 and rng.random() < 0.3:
        edges = [e for e in edges if (e.head >= 0 and e.tail >= 0) or e.head == e.tail]  # no constants at all
    for _ in range(cyclic):
        a, b = (int(x) for x in rng.integers(0, n, 2))
        edges.append(either_way(a, b))
    if rng.random() < 0.4:
        edges.append(either_way(int(rng.integers(n)), constant()))
    if rng.random() < 0.1:
        edges.append(Edge(constant(), relation(), constant(), bool(rng.random() < 0.5)))
    for _ in range(negations):
        other = constant() if rng.random() < 0.25 else int(rng.integers(n))
        edges.append(either_way(int(rng.integers(n)), other, True))
    covered = {x for e in edges if not e.negated for x in (e.head, e.tail)}
    edges += [either_way(v, constant()) for v in range(n) if v not in covered]
    different = []
    if rng.random() < 0.25:
        a, b = int(rng.integers(n)), int(rng.integers(n)) if rng.random() < 0.8 else constant()
        different = [(a, b)] if a != b else []
    variables = tuple(f"v{i}" for i in range(n))
    free = tuple(int(v) for v in labels[:k])
    return QueryGraph(variables, free, tuple(dict.fromkeys(edges)), tuple(different))


def cycle_clause(rng: np.random.Generator, table: TruthTable, length: int, k: int) -> QueryGraph:
    """A cycle of 3 to 5 variables, k of them free, perhaps with a constant."""
    edges = [Edge(i, int(rng.integers(table.relations)), (i + 1) % length) for i in range(length)]
    if rng.random() < 0.7:
        edges.append(
            Edge(~int(rng.integers(table.entities)), int(rng.integers(table.relations)), int(rng.integers(length)))
        )
    free = tuple(int(v) for v in rng.permutation(length)[:k])
    return QueryGraph(tuple(f"v{i}" for i in range(length)), free, tuple(edges))


def random_query(rng: np.random.Generator, table: TruthTable, most_free: int = 4) -> list[QueryGraph]:
    """One to three clauses over the same free variables."""
    k = int(rng.integers(1, most_free + 1))
    clauses = []
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        if rng.random() < 0.2:
            length = int(rng.integers(max(3, k), 6))
            clauses.append(cycle_clause(rng, table, length, k))
        else:
            clauses.append(
                random_clause(rng, table, k, int(rng.integers(0, 4)), int(rng.integers(0, 3)), int(rng.integers(0, 4)))
            )
    return clauses


# --- the contract ---------------------------------------------------------------------------------------------------


def atom_product(clause: QueryGraph, values: Sequence[int], table: TruthTable, logic: Logic) -> float:
    """The conjunction of a clause's atoms under an assignment, from single look-ups."""
    node = [int(v) for v in values]

    def at(x: int) -> int:
        return node[x] if x >= 0 else ~x

    truth = [abs(float(e.negated) - table.value(at(e.head), e.relation, at(e.tail))) for e in clause.edges]
    truth += [float(at(a) != at(b)) for a, b in clause.different]
    truth += [float(meant(condition, node)) for condition in clause.conditions]
    return float(logic.all(np.array(truth)))


def expected_order(values: np.ndarray, rank: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All tuples of positive truth in their order: falling truth, equals by name; and their truths."""
    keys = np.argwhere(values > 0)
    truth = values[tuple(keys.T)] if values.ndim else values[values > 0].reshape(-1)
    order = np.argsort(-truth, kind="stable")
    keys, truth = keys[order], truth[order]
    group = np.concatenate([[0], np.cumsum(truth[1:] < truth[:-1] * (1 - 1e-12))]) if len(truth) else truth
    inside = np.lexsort((*rank[keys].T[::-1], group)) if len(truth) else order
    return keys[inside], truth[inside]


def check(
    run: Run,
    clauses: list[QueryGraph],
    table: TruthTable,
    k: int,
    logic: str,
    only: str | None = None,
    seed: int = 0,
    rank: np.ndarray | None = None,
) -> int:
    """Runs a query and compares with the oracle, names in random order if none is given; counts the answers."""
    rules = Logic.from_name(logic)
    space = brute.Space(table, rules)
    tensor = space.combine(clauses)
    wanted = tensor
    if only is not None:
        crisp = space.combine(clauses, facts=True) > 0
        wanted = np.where(crisp == (only == "observed"), tensor, 0.0)
    if rank is None:
        rank = np.random.default_rng(seed).permutation(table.entities).astype(np.int32)
    keys, ranked = expected_order(wanted, rank)
    ranking = run(clauses, table, k, logic, only=only, rank=rank)
    assert ranking.exact
    assert ranking.pruned is None
    np.testing.assert_allclose(ranking.truth, ranked[:k], rtol=1e-9, atol=1e-12)
    assert ranking.tuples.tolist() == keys[:k].tolist()
    assert (np.diff(ranking.truth) <= 0).all()
    check_listed(ranking, tensor, clauses, table, rules)
    if len(ranked) <= k:
        assert ranking.bound == 0
    else:
        assert ranking.bound >= ranked[k] * (1 - 1e-9)
        assert ranking.bound <= ranking.truth[-1] * (1 + 1e-9) if k else True
    return len(ranked)


def check_listed(
    ranking: Ranking, tensor: np.ndarray, clauses: list[QueryGraph], table: TruthTable, logic: Logic
) -> None:
    """Each tuple shown once, with its truth, and a witness that explains it."""
    shown = [tuple(t) for t in ranking.tuples.tolist()]
    assert len(set(shown)) == len(shown)
    for i, key in enumerate(shown):
        np.testing.assert_allclose(ranking.truth[i], tensor[key], rtol=1e-9)
        total = 0.0
        for clause, assignment in zip(clauses, ranking.assignments, strict=True):
            if (assignment[i] >= 0).all():
                assert tuple(assignment[i][list(clause.free)].tolist()) == key
                total = logic.disjunction(total, atom_product(clause, assignment[i].tolist(), table, logic))
        np.testing.assert_allclose(ranking.truth[i], total, rtol=1e-9)


def check_cut_short(
    run: Run,
    clauses: list[QueryGraph],
    table: TruthTable,
    k: int,
    logic: str,
    only: str | None = None,
    **limits: object,
) -> bool:
    """A search stopped early shows true values and an honest bound; returns whether it was stopped."""
    rules = Logic.from_name(logic)
    space = brute.Space(table, rules)
    tensor = space.combine(clauses)
    ranking = run(clauses, table, k, logic, only=only, **limits)
    check_listed(ranking, tensor, clauses, table, rules)
    rest = tensor.copy()
    if only is not None:
        crisp = space.combine(clauses, facts=True) > 0
        rest = np.where(crisp == (only == "observed"), tensor, 0.0)
        shown = [rest[key] for key in map(tuple, ranking.tuples.tolist())]
        assert (np.array(shown) > 0).all()
    if ranking.exact:
        keys, _ = expected_order(rest, np.arange(table.entities))
        assert ranking.tuples.tolist() == keys[:k].tolist()
    for key in map(tuple, ranking.tuples.tolist()):
        rest[key] = 0
    assert rest.max(initial=0) <= ranking.bound * (1 + 1e-9)
    return ranking.pruned is not None
