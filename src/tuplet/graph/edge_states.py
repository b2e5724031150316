"""The state of changed edges: what a store differs in from what it was made of."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.adjacency import are_within, refuse_misfits
from tuplet.graph.views import relation_places

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


class EdgeStates(NamedTuple):
    """What each of some edges is now, in order of (relation, head, tail), each edge once.

    A state says all about its edge, whatever it was before: applied twice it changes nothing, and of two states of one
    edge the later one counts.
    """

    relation: Ints
    heads: Ints
    tails: Ints
    truth: NDArray[np.float64]  # 0: the truth table does not list it
    observed: NDArray[np.bool_]
    prediction: NDArray[np.float32]  # as if it were unknown; 0: none
    source: NDArray[np.uint8]  # where a fact comes from
    split: NDArray[np.uint8]  # 0: the graph does not have it
    weight: NDArray[np.float64]  # of a weighted graph
    date: Longs  # of a dated graph

    @staticmethod
    def none() -> EdgeStates:
        """No edge at all."""
        return EdgeStates(*(np.zeros(0, dtype=dtype) for dtype in _TYPES.values()))

    @staticmethod
    def of(**columns: NDArray[Any]) -> EdgeStates:
        """States in any order, of distinct edges."""
        states = EdgeStates(**{name: np.asarray(columns[name], dtype=dtype) for name, dtype in _TYPES.items()})
        return states.take(np.lexsort((states.key, states.relation)))

    def check(self, entities: int, relations: int) -> None:
        """Refuse states that do not fit with a ValueError: rows are made of them, and compiled code trusts these."""
        for name, dtype in _TYPES.items():
            column = getattr(self, name)
            refuse_misfits(**{name: column.dtype == dtype and column.shape == self.relation.shape})
        key, same = self.key, self.relation[1:] == self.relation[:-1]
        refuse_misfits(
            relation=are_within(self.relation, relations) and bool((self.relation[1:] >= self.relation[:-1]).all()),
            heads=are_within(self.heads, entities),
            tails=are_within(self.tails, entities) and bool((key[1:] > key[:-1])[same].all()),
            truth=bool(((self.truth >= 0) & (self.truth <= 1)).all()),
            split=are_within(self.split, 4),
        )

    @property
    def edges(self) -> int:
        """How many edges there are."""
        return len(self.relation)

    @property
    def key(self) -> Longs:
        """Head and tail as one number, which ascends within a relation. [edges]"""
        return pair_key(self.heads, self.tails)

    def take(self, places: NDArray[Any]) -> EdgeStates:
        """Some of them, in that order."""
        return EdgeStates(*(column[places] for column in self))

    def then(self, later: EdgeStates) -> EdgeStates:
        """These states and later ones, which count where both have an edge.

        >>> EdgeStates.none().then(EdgeStates.none()).edges
        0
        """
        older, newer = self.arrays(), later.arrays()
        both = EdgeStates(**{name: np.concatenate([older[name], newer[name]]) for name in older})
        key = both.key
        order = np.lexsort((key, both.relation))  # stable: of equals the later one comes last
        relation, key = both.relation[order], key[order]
        last = np.ones(len(order), dtype=bool)
        last[:-1] = (relation[1:] != relation[:-1]) | (key[1:] != key[:-1])
        return both.take(order[last])

    def find(self, relation: NDArray[np.integer], heads: NDArray[np.integer], tails: NDArray[np.integer]) -> Longs:
        """The place of each given edge, -1 if it is not here. [n]"""
        place = np.full(len(relation), -1, dtype=np.int64)
        wanted = pair_key(heads, tails)
        for r, mine in relation_places(relation):
            low, high = self.relation.searchsorted(np.array([r, r + 1], dtype=np.int32)).tolist()
            if low < high:
                own = pair_key(self.heads[low:high], self.tails[low:high])
                at = np.minimum(own.searchsorted(wanted[mine]), high - low - 1)
                place[mine] = np.where(own[at] == wanted[mine], low + at, -1)
        return place

    def differing(self, other: EdgeStates) -> EdgeStates:
        """Those that `other` does not have, or has in another state."""
        place = other.find(self.relation, self.heads, self.tails)
        same = place >= 0
        theirs = other.arrays()
        for name, mine in self.arrays().items():
            same[same] = mine[same] == theirs[name][place[same]]
        return self.take(~same)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The columns by name."""
        return self._asdict()


_TYPES: dict[str, Any] = {
    "relation": np.int32,
    "heads": np.int32,
    "tails": np.int32,
    "truth": np.float64,
    "observed": np.bool_,
    "prediction": np.float32,
    "source": np.uint8,
    "split": np.uint8,
    "weight": np.float64,
    "date": np.int64,
}


def pair_key(heads: NDArray[np.integer], tails: NDArray[np.integer]) -> Longs:
    """Head and tail as one number: an entity has 31 bits.

    >>> pair_key(np.array([99_999_999]), np.array([7])) >> 32
    array([99999999])
    """
    key: Longs = (np.asarray(heads, dtype=np.int64) << 32) | np.asarray(tails, dtype=np.int64)
    return key
