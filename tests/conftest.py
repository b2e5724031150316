"""What all tests share: the bundled graph, the benchmark graphs if they are here, and full counts on demand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuplet.cli.demo import bundled
from tuplet.graph.graph import KnowledgeGraph
from tuplet.query.source import Source
from tuplet.store import Store


@pytest.fixture(scope="session")
def world() -> KnowledgeGraph:
    """The graph that ships with the package."""
    return bundled()


@pytest.fixture(scope="session")
def world_store(world: KnowledgeGraph) -> Store:
    """The bundled graph, ready to be asked."""
    return Store(Source(world))


@pytest.fixture(scope="session")
def world_directory(world: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled graph as a directory."""
    path = tmp_path_factory.mktemp("world") / "world.graph"
    world.save(path)
    return path


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of benchmark graphs."""
    folder = os.environ.get("TUPLET_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("TUPLET_DATA does not point at a folder of benchmark graphs")
    return Path(folder)
