"""Do time limits hold? Paths of 4, 5 and 6 hops on a dense graph, and a hub of 25,000 facts asked for what is missing.

    python benchmarks/deadlines.py                # every case with a limit of 1 s: seconds taken, and what was claimed

A case is late if it takes more than 1.3 s on a quiet machine.
"""

from __future__ import annotations

import itertools
import time

import numpy as np

import tuplet
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.query.source import Source
from tuplet.truth.table import TruthTable

HALF, DEGREE = 200, 40


def two_halves() -> tuplet.Store:
    """Two dense halves of 200 entities, joined by predicted edges only; `s` marks the second half."""
    rng = np.random.default_rng(0)
    count = 2 * HALF
    heads = np.repeat(np.arange(count), DEGREE)
    tails = np.concatenate([rng.choice(HALF, DEGREE, replace=False) + (i // HALF) * HALF for i in range(count)])
    marked = np.arange(HALF, count)
    head = np.concatenate([heads, marked])
    tail = np.concatenate([tails, np.full(HALF, count - 1)])
    relation = np.concatenate([np.zeros(len(heads), int), np.ones(HALF, int)])
    bridge = rng.integers(HALF, count, HALF)
    return _store(count, ["r", "s"], (head, relation, tail), (np.arange(HALF), np.zeros(HALF, int), bridge))


def hub() -> tuplet.Store:
    """25,000 facts r(x, hub) and five predicted ones."""
    facts, open_ = np.arange(1, 25_001), np.arange(25_001, 25_006)
    zero = np.zeros
    return _store(
        25_006,
        ["r"],
        (facts, zero(len(facts), int), zero(len(facts), int)),
        (open_, zero(len(open_), int), zero(len(open_), int)),
    )


def _store(
    count: int, relations: list[str], facts: tuple[np.ndarray, ...], open_: tuple[np.ndarray, ...]
) -> tuplet.Store:
    graph = KnowledgeGraph.from_edges(
        Vocabulary.from_names([f"n{i}" for i in range(count)]), Vocabulary.from_names(relations), *facts
    )
    every = [np.concatenate(pair) for pair in zip(facts, open_, strict=True)]
    observed = np.arange(len(every[0])) < len(facts[0])
    table = TruthTable.build(count, len(relations), *every, np.where(observed, 1.0, 0.5), observed)
    return tuplet.Store(Source(graph, None, table))


def path(hops: int, end: str) -> str:
    names = ["x", *(f"v{i}" for i in range(hops))]
    atoms = [f"r(?{a}, ?{b})" for a, b in itertools.pairwise(names)]
    inner = ", ".join(f"?{name}" for name in names[1:])
    return f"?x : exists {inner} . {' & '.join([*atoms, f's(?{names[-1]}, {end})'])}"


def report(name: str, store: tuplet.Store, query: str, k: int, only: str | None) -> None:
    start = time.perf_counter()
    answers = store.ask(query, k=k, timeout=1.0, only=only)
    took = time.perf_counter() - start
    statuses = {answer.status for answer in answers}
    print(f"{name:<34} {took:6.3f} s  {'late' if took > 1.3 else 'in time'}  {answers.summary()}  {statuses}")


def main() -> None:
    store = two_halves()
    store.ask("?x : r(?x, n3)", k=1)
    for hops in (4, 5, 6):
        for k in (5, 250):
            for only in (None, "predicted", "observed"):
                report(f"{hops} hops, k = {k}, only {only}", store, path(hops, f"n{2 * HALF - 1}"), k, only)
    store = hub()
    store.ask("?x : r(?x, n0)", k=1)
    for only in (None, "predicted"):
        report(f"two spokes at the hub, only {only}", store, "?x, ?y : r(?x, n0) & r(?y, n0)", 10, only)
        report(f"hub, only {only}", store, "?x : r(?x, n0)", 10, only)


if __name__ == "__main__":
    main()
