"""Small graphs and benchmark graphs as id arrays, read without the package's own readers."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from tuplet import settings
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary

SPLITS = ("train", "valid", "test")
EMBEDDINGS = [name for name in settings.list_plugins("predictors") if name not in ("paths", "any-graph")]


def data_folder() -> Path:
    folder = os.environ.get("TUPLET_DATA")
    if not folder:
        pytest.skip("TUPLET_DATA is not set: no benchmark graphs here")
    return Path(folder)


def lines(file: Path) -> list[str]:
    return gzip.decompress(file.read_bytes()).decode("utf-8").rstrip("\n").split("\n")


def benchmark(name: str) -> KnowledgeGraph:
    """A benchmark graph; ids follow entities.tsv.gz and relations.tsv.gz, or first occurrence."""
    folder = data_folder() / name
    entities: dict[str, int] = {}
    relations: dict[str, int] = {}
    for table, file in ((entities, "entities.tsv.gz"), (relations, "relations.tsv.gz")):
        if (folder / file).exists():
            for line in lines(folder / file):
                table.setdefault(line.split("\t")[0], len(table))
    rows = []
    for code, split in enumerate(SPLITS, 1):
        for line in lines(folder / f"{split}.tsv.gz"):
            h, r, t = line.split("\t")
            ids = (entities.setdefault(h, len(entities)), relations.setdefault(r, len(relations)))
            rows.append((*ids, entities.setdefault(t, len(entities)), code))
    h, r, t, code = np.array(rows).T
    return KnowledgeGraph.from_edges(
        Vocabulary.from_names(list(entities)), Vocabulary.from_names(list(relations)), h, r, t, code
    )


def splits_of(graph: KnowledgeGraph) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    return {split: graph.edges(split) for split in SPLITS}


def ring(entities: int = 24, seed: int = 0) -> KnowledgeGraph:
    """A graph with rules a model can learn: `next` goes round a ring, `skip` is next after next, `back` its inverse."""
    here = np.arange(entities)
    heads = np.concatenate([here, here, here])
    relation = np.repeat([0, 1, 2], entities)
    tails = np.concatenate([(here + 1) % entities, (here + 2) % entities, (here - 1) % entities])
    split = np.random.default_rng(seed).choice([1, 2, 3], len(heads), p=[0.8, 0.1, 0.1])
    names = Vocabulary.from_names([f"e{i:03}" for i in here]), Vocabulary.from_names(["next", "skip", "back"])
    return KnowledgeGraph.from_edges(*names, heads, relation, tails, split)
