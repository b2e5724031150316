"""What the tests of the benchmark share: a small graph with splits, and a store of it with many ties."""

from __future__ import annotations

from pathlib import Path

import pytest
from random_graph import random_graph
from small_store import make_store

from tuplet.graph.graph import KnowledgeGraph
from tuplet.query.source import Source
from tuplet.store import open_store


@pytest.fixture(scope="session")
def graph() -> KnowledgeGraph:
    """30 entities, 5 relations, a tenth of the edges in valid and a tenth in test."""
    return random_graph(3, entities=30, relations=5, edges=350)


@pytest.fixture(scope="session")
def store(graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the graph; nothing changes it."""
    path = tmp_path_factory.mktemp("bench") / "store"
    make_store(path, graph)
    return path


@pytest.fixture(scope="session")
def source(store: Path) -> Source:
    """The store, opened."""
    return open_store(store).source
