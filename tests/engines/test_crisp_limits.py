"""Crisp answers with limits against the oracle: every k and offset shows its stretch of one list, ordered by name."""

from __future__ import annotations

import numpy as np
import pytest

from random_queries import random_query
from tuplet.engines import brute, crisp
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.graph.walks import Walker
from tuplet.lang import rewrite
from tuplet.query.bind import bind
from tuplet.query.source import Source
from tuplet.store import Store
from tuplet.truth.table import TruthTable

NAMES = ("b", "a", "aa", "Z", "é", "zz", "10", "9")
Rows = list[tuple[str, ...]]


def random_graph(rng: np.random.Generator) -> tuple[KnowledgeGraph, TruthTable]:
    """A dense small graph with self loops, whose ids are not in the order of names; and its facts as a table."""
    entities, relations = int(rng.integers(3, len(NAMES) + 1)), int(rng.integers(1, 4))
    edges = np.argwhere(rng.random((entities, relations, entities)) < rng.uniform(0.15, 0.7))
    edges = edges if len(edges) else np.zeros((1, 3), dtype=np.int64)
    words = (
        Vocabulary.from_names(rng.permutation(NAMES[:entities]).tolist()),
        Vocabulary.from_names([f"r{i}" for i in range(relations)]),
    )
    ones = np.ones(len(edges))
    return (
        KnowledgeGraph.from_edges(*words, edges[:, 0], edges[:, 1], edges[:, 2]),
        TruthTable.build(entities, relations, *edges.T, truth=ones, observed=ones > 0),
    )


def shown(store: Store, query: object, k: int | str, offset: int) -> tuple[Rows, bool, float]:
    answers = store.ask(query, engine="crisp", k=k, offset=offset)  # type: ignore[arg-type]
    assert answers.pruned is None
    rows = [tuple(answer[v] for v in answers.variables) for answer in answers]
    return rows, answers.exact, answers.bound


@pytest.mark.parametrize("block", range(6))
def test_every_page_is_a_stretch_of_the_list_of_the_oracle(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = seen_union = 0
    for seed in range(40 * block, 40 * block + 40):
        rng = np.random.default_rng(seed)
        graph, table = random_graph(rng)
        query = random_query(graph, rng, free=(1, 3), walker=Walker(graph.adjacency))
        clauses = bind(rewrite.clauses(query), graph)
        # where few are collected, the others are found by name
        monkeypatch.setattr(crisp, "SPARE", int(rng.choice([1, 5, 1 << 14])))
        found = brute.run(clauses, table, table.entities ** len(query.free)).tuples.tolist() if clauses else []
        expected: Rows = [tuple(graph.entities.name(e) for e in row) for row in found]
        expected.sort(key=lambda row: [name.encode() for name in row])
        store = Store(Source(graph))
        assert shown(store, query, "all", 0) == (expected, True, 0.0), f"seed {seed}"
        pages = [0, 1, 3, len(expected) - 1, len(expected), len(expected) + 2]
        for k in sorted({max(0, k) for k in pages}):
            for offset in {0, 2, int(rng.integers(len(expected) + 2))}:
                rows, exact, bound = shown(store, query, k, offset)
                assert rows == expected[offset : offset + k], f"seed {seed}, k {k}, offset {offset}"
                assert exact
                assert bound == (0.0 if len(expected) <= k + offset else 1.0), f"seed {seed}, k {k}, offset {offset}"
        answered += len(expected) > 5
        seen_union += len(clauses) > 1
    assert answered >= 10
    assert seen_union >= 5
