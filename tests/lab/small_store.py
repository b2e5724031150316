"""A small store with many ties, and what a result folder says, time and memory aside."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tuplet.graph.graph import KnowledgeGraph
from tuplet.lab.bench.results import ResultRow, read_rows
from tuplet.truth.store_folder import StoreContent, StoreFiles
from tuplet.truth.store_meta import StoreMeta
from tuplet.truth.table import TruthTable


def make_store(path: Path, graph: KnowledgeGraph, seed: int = 0) -> None:
    """Known facts are true, every test edge and some noise has one of a few truth values, so that ties abound."""
    rng = np.random.default_rng(seed)
    known = np.column_stack(graph.edges("train", "valid"))
    noise = rng.integers((len(graph.entities), len(graph.relations), len(graph.entities)), size=(600, 3))
    edges, first = np.unique(
        np.concatenate([known, np.column_stack(graph.edges("test")), noise]), axis=0, return_index=True
    )
    observed = first < len(known)
    truth = np.where(observed, 1.0, rng.choice([0.25, 0.5, 0.75], size=len(edges)))
    table = TruthTable.build(len(graph.entities), len(graph.relations), *edges.T, truth, observed)
    StoreFiles.create(path, StoreContent(graph, table, StoreMeta(graph.hash, ("train", "valid"), 0.0)))


def plain(rows: list[ResultRow]) -> list[dict[str, Any]]:
    """Everything but time and memory."""
    return [{key: v for key, v in asdict(row).items() if key not in ("ms", "peak_mb")} for row in rows]


def numbers(folder: Path) -> list[dict[str, Any]]:
    """The rows of a result folder, time and memory aside."""
    return plain(read_rows(folder))
