"""Edges and entries as single numbers, so that sorting and merging ten million of them takes seconds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.adjacency import Adjacency, Longs

Bools = NDArray[np.bool_]


def edge_keys(
    entities: int, heads: NDArray[np.integer], relation: NDArray[np.integer], tails: NDArray[np.integer]
) -> Longs:
    """One number per edge, in order of (relation, head, tail)."""
    keys: Longs = (np.asarray(relation, dtype=np.int64) * entities + heads) * entities + tails
    return keys


def packable(entities: int, relations: int) -> bool:
    """Whether view, entity and neighbour fit into one 63-bit number."""
    return 2 * relations * entities**2 < 2**63


def forward_entries(adjacency: Adjacency) -> Bools:
    """Marks the entries of the views that go from head to tail."""
    per_view = np.diff(adjacency.row_ptr[adjacency.view_ptr])
    return np.repeat(np.arange(len(per_view)) % 2 == 0, per_view)


def adjacency_of_keys(keys: Longs, entities: int, relations: int) -> Adjacency:
    """The adjacency of ascending entry numbers (view · entities + entity) · entities + neighbour."""
    row_key = keys // entities
    first = np.ones(len(keys), dtype=bool)
    np.not_equal(row_key[1:], row_key[:-1], out=first[1:])
    row_start = np.flatnonzero(first)
    row_view = row_key[row_start] // entities
    return Adjacency(
        np.searchsorted(row_view, np.arange(2 * relations + 1)).astype(np.int64),
        (row_key[row_start] - row_view * entities).astype(np.int32),
        np.append(row_start, len(keys)).astype(np.int64),
        (keys - row_key * entities).astype(np.int32),
    )
