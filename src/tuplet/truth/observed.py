"""Which edges of a graph count as known facts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tuplet.errors import UnknownName, nearest
from tuplet.graph.graph import SPLIT_CODE, SPLITS, KnowledgeGraph
from tuplet.truth.table import Facts

# What is known when a benchmark is answered; a graph without splits has train alone.
OBSERVED = ("train", "valid")


def observed_facts(graph: KnowledgeGraph, observed: Sequence[str] = OBSERVED) -> Facts:
    """The facts of the named splits: truth 1, in a weighted graph the given one; facts of truth 0 are none."""
    heads, relation, tails, entry = graph.adjacency.triples()
    split = graph.split[entry]
    marked = np.isin(split, [SPLIT_CODE[name] for name in known_splits(observed)])
    truth = np.ones(len(entry), dtype=np.float32) if graph.weight is None else graph.weight[entry]
    return Facts(heads, relation, tails, truth, split).where(marked & (truth > 0))


def known_splits(splits: Sequence[str]) -> tuple[str, ...]:
    """The splits in their usual order; an unknown one is refused by name.

    >>> known_splits(["valid", "train"])
    ('train', 'valid')
    """
    for name in splits:
        if name not in SPLITS:
            raise UnknownName("split", name, nearest(name, SPLITS, 1) or SPLITS)
    return tuple(name for name in SPLITS if name in splits)
