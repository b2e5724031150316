"""Small random stores whose answers are proved: facts and predictions, many ties, some edited since they were made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tuplet
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.truth import store_folder
from tuplet.truth.store_folder import StoreContent, StoreFiles
from tuplet.truth.store_meta import StoreMeta
from tuplet.truth.table import TruthTable

ENTITIES, RELATIONS, KINDS = 24, 4, 6


def random_store(path: Path, seed: int) -> tuplet.Store:
    """By seed modulo 6: as it was made; with a delta; with a layer and a delta; of a weighted graph; and with entities
    that came since, in a delta, and in a layer and a delta."""
    rng, kind = np.random.default_rng(seed), seed % KINDS
    cells = np.sort(rng.permutation(ENTITIES * RELATIONS * ENTITIES)[: 260 + 20 * (seed % 5)])
    heads, relation, tails = np.unravel_index(cells, (ENTITIES, RELATIONS, ENTITIES))
    observed = rng.random(len(cells)) < 0.4
    predicted = np.where(rng.random(len(cells)) < 0.5, 0.5, 0.01 + 0.98 * rng.random(len(cells)))
    truth = np.where(observed & ((kind != 3) | (rng.random(len(cells)) < 0.5)), 1.0, predicted)
    names = Vocabulary.from_names([f"e{i}" for i in rng.permutation(ENTITIES)])  # the order of names is not that of ids
    words = Vocabulary.from_names([f"r{i}" for i in range(RELATIONS)])
    facts = np.array([heads[observed], relation[observed], tails[observed]])
    weight = truth[observed] if kind == 3 else None
    graph = KnowledgeGraph.from_edges(names, words, *facts, np.ones(observed.sum(), np.uint8), weight=weight)
    table = TruthTable.build(ENTITIES, RELATIONS, heads, relation, tails, truth, observed)
    store = tuplet.Store.from_files(
        StoreFiles.create(path, StoreContent(graph, table, StoreMeta(graph.hash, ("train",), 0.0)))
    )
    gone = [(names.name(int(h)), words.name(int(r)), names.name(int(t))) for h, r, t in facts.T]
    came = [("new a", "r0", "e1"), ("e2", "r1", "new b"), ("new b", "r2", "new a"), ("e3", "r3", "new a")]
    if kind in (2, 5):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store_folder, "RECENT", 1)
            store.remove(gone[:3])
            store.add(came[: 2 * (kind == 5)], new_entities=True)
        assert "layer" in store._held().folders
    if kind in (1, 2, 4, 5):
        store.remove(gone[3:5])
        store.add([("e0", "r0", "e1"), ("e2", "r1", "e3")])
    if kind in (4, 5):
        store.add(came, new_entities=True)
    return store
