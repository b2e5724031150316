"""The parts of a table that `only="predicted"` searches: how many are kept, and what is looked at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tuplet
from tuplet.engines.exact import rows as search_rows
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.truth.store_folder import StoreContent, StoreFiles
from tuplet.truth.store_meta import StoreMeta
from tuplet.truth.table import TruthTable

ENTITIES, RELATIONS = 20, 4


@pytest.fixture
def store(tmp_path: Path) -> tuplet.Store:
    """Facts of r3 are less than certain."""
    keys = np.arange(0, RELATIONS * ENTITIES**2, 3)
    heads, relation, tails = keys // ENTITIES % ENTITIES, keys // ENTITIES**2, keys % ENTITIES
    fact = keys % 2 == 0
    truth = np.where(relation == 3, 0.75, np.where(fact, 1.0, 0.5))
    names = (Vocabulary.from_names([f"{x}{i}" for i in range(n)]) for x, n in (("e", ENTITIES), ("r", RELATIONS)))
    graph = KnowledgeGraph.from_edges(*names, heads[fact], relation[fact], tails[fact], weight=truth[fact])
    table = TruthTable.build(ENTITIES, RELATIONS, heads, relation, tails, truth, fact)
    content = StoreContent(graph, table, StoreMeta(graph.hash, ("train",), 0.0))
    return tuplet.Store.from_files(StoreFiles.create(tmp_path / "s", content))


def answers(store: tuplet.Store, query: str) -> list[tuple[str, float]]:
    return [(answer["x"], answer.truth) for answer in store.ask(query, only="predicted", k="all")]


def kept(store: tuplet.Store) -> list[int]:
    assert isinstance(store.source.truth, TruthTable)
    return [search_rows._bytes(rows) for rows in store.source.truth.prepared["split"][1].values()]


def test_parts_are_kept_up_to_a_size(store: tuplet.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = [f"?x : exists ?y . r{i}(?x, ?y) & r{j}(?y, e1)" for i in range(RELATIONS) for j in range(RELATIONS)]
    wanted = [answers(store, query) for query in queries]
    sizes = kept(store)
    assert all(wanted)
    assert len(sizes) == len(queries)
    for most in (sum(sizes) // 3, 0):
        monkeypatch.setattr(search_rows, "KEPT_BYTES", most)
        assert [answers(store, query) for query in queries] == wanted
        assert sum(kept(store)) <= most
        assert bool(kept(store)) == bool(most)


def test_only_negated_relations_are_looked_at_for_doubt(store: tuplet.Store) -> None:
    table = store.source.truth
    assert isinstance(table, TruthTable)
    assert answers(store, "?x : r0(?x, e1)")
    assert table.prepared["doubted"] == {}
    assert answers(store, "?x : r0(?x, e1) & !r1(?x, e2)")
    assert table.prepared["doubted"] == {1: False}
    assert answers(store, "?x : r0(?x, e1) & !r3(?x, e1)")
    assert table.prepared["doubted"] == {1: False, 3: True}
