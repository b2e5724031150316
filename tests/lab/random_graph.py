"""A small graph with splits that every shape can be sampled from."""

from __future__ import annotations

import numpy as np

from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary


def random_graph(seed: int = 0, entities: int = 60, relations: int = 8, edges: int = 1200) -> KnowledgeGraph:
    """Edges drawn uniformly, a tenth of them in valid and a tenth in test."""
    rng = np.random.default_rng(seed)
    drawn = np.unique(rng.integers((entities, relations, entities), size=(edges, 3)), axis=0)
    split = rng.choice([1, 2, 3], p=[0.8, 0.1, 0.1], size=len(drawn))
    return KnowledgeGraph.from_edges(
        Vocabulary.from_names([f"entity {i}" for i in range(entities)]),
        Vocabulary.from_names([f"relation {i}" for i in range(relations)]),
        *drawn.T,
        split,
    )
