"""The rows of one relation: all that is ever sorted at once when a graph or a table is made.

Edges of a relation are compared by head · entities + tail, which fits 64 bits for as many entities as ids can count
(2³¹). Whatever is made of many relations grows relation by relation, so its size is limited by the disk, and what is
held in memory by the largest relation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


class RelationViews(NamedTuple):
    """Both views of a relation, from head to tail and back, as they follow each other in an adjacency.

    >>> relation_views(np.array([5, 0]), np.array([1, 5]), entities=6)._asdict()  # doctest: +NORMALIZE_WHITESPACE
    {'rows': (2, 2), 'row_entity': array([0, 5, 1, 5], dtype=int32), 'row_start': array([0, 1, 2, 3]),
     'neighbour': array([5, 1, 5, 0], dtype=int32), 'edge': array([1, 0, 0, 1])}
    """

    rows: tuple[int, int]  # of each view
    row_entity: Ints  # [rows] ascending within a view
    row_start: Longs  # [rows] the first entry of each row
    neighbour: Ints  # [2·edges] ascending within a row
    edge: Longs  # [2·edges] the number of the edge that an entry comes from


def edge_key(near: NDArray[np.integer], far: NDArray[np.integer], entities: int) -> Longs:
    """One number per edge of a relation, in order of (near, far).

    >>> edge_key(np.array([99_999_999]), np.array([99_999_998]), 100_000_000).tolist()
    [9999999999999998]
    """
    key = np.asarray(near).astype(np.int64)
    key *= entities
    key += far
    return key


def among(values: NDArray[Any], ascending: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of the values are in a list that ascends.

    >>> among(np.array([5, 1, 2]), np.array([1, 5])).tolist()
    [True, True, False]
    """
    if not len(ascending):
        return np.zeros(len(values), dtype=bool)
    at = np.minimum(ascending.searchsorted(values), len(ascending) - 1)
    return np.asarray(ascending[at] == values)


def relation_views(heads: NDArray[np.integer], tails: NDArray[np.integer], entities: int) -> RelationViews:
    """The views of distinct edges in any order."""
    count = len(heads)
    row_entity, row_start, neighbour, edge = [], [], np.empty(2 * count, np.int32), np.empty(2 * count, np.int64)
    for begin, near, far in ((0, heads, tails), (count, tails, heads)):
        order = edge[begin : begin + count]
        order[:] = _order(edge_key(near, far, entities))
        neighbour[begin : begin + count] = far[order]
        entity = near[order]
        start = np.flatnonzero(entity[1:] != entity[:-1]) + 1
        start = np.concatenate([np.zeros(min(count, 1), np.int64), start])
        row_entity.append(entity[start].astype(np.int32, copy=False))
        row_start.append(start + begin)
    rows = (len(row_entity[0]), len(row_entity[1]))
    return RelationViews(rows, np.concatenate(row_entity), np.concatenate(row_start), neighbour, edge)


def _order(key: Longs) -> Longs:
    """The order of distinct keys; those that come in order are seen to do so."""
    return np.arange(len(key)) if (key[1:] > key[:-1]).all() else np.argsort(key)


def by_relation(relation: NDArray[np.integer], relations: int) -> tuple[Longs | None, Longs]:
    """The order that brings edges together by relation (None if they stand so), and where each relation begins.

    >>> by_relation(np.array([1, 0, 1]), 3), by_relation(np.array([0, 2]), 3)
    ((array([1, 0, 2]), array([0, 1, 3, 3])), (None, array([0, 1, 1, 2])))
    """
    which = np.asarray(relation)
    bounds = np.zeros(relations + 1, np.int64)
    np.cumsum(np.bincount(which, minlength=relations), out=bounds[1:])
    if (which[1:] >= which[:-1]).all():
        return None, bounds
    small = which.astype(np.uint16) if relations <= 1 << 16 else which  # short numbers are sorted in linear time
    return np.argsort(small, kind="stable"), bounds


def relation_places(relation: NDArray[np.integer]) -> Iterator[tuple[int, Longs]]:
    """The places of the edges of each relation that has any.

    >>> [(r, places.tolist()) for r, places in relation_places(np.array([7, 2, 7]))]
    [(2, [1]), (7, [0, 2])]
    """
    which = np.asarray(relation)
    order = np.argsort(which, kind="stable")
    ordered = which[order]
    for places in np.split(order, np.flatnonzero(ordered[1:] != ordered[:-1]) + 1):
        if len(places):
            yield int(which[places[0]]), places


def relation_slices(
    relation: NDArray[np.integer], relations: int, *columns: NDArray[Any]
) -> Iterator[tuple[NDArray[Any], ...]]:
    """The columns of each relation, from the first to the last; their order within a relation stays."""
    order, bounds = by_relation(relation, relations)
    together = columns if order is None else [column[order] for column in columns]
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        yield tuple(column[begin:end] for column in together)


class ArraySink(Protocol):
    """Arrays that grow: in a folder (`FolderWriter`) or in memory (`GrowingArrays`)."""

    def append(self, name: str, array: NDArray[Any], later: bool = False) -> None:
        """Let one array grow; whether its checksums are compared when it is read."""

    def section(self, pieces: Mapping[str, NDArray[Any]]) -> None:
        """Let the arrays that are divided by relation grow by one relation."""


class GrowingArrays:
    """The sink that keeps everything in memory.

    >>> sink = GrowingArrays()
    >>> sink.section({"x": np.array([1, 2])})
    >>> sink.append("x", np.array([3]))
    >>> sink.arrays()
    {'x': array([1, 2, 3])}
    """

    def __init__(self) -> None:
        self._pieces: dict[str, list[NDArray[Any]]] = {}

    def append(self, name: str, array: NDArray[Any], later: bool = False) -> None:
        """Let one array grow."""
        self._pieces.setdefault(name, []).append(array)

    def section(self, pieces: Mapping[str, NDArray[Any]]) -> None:
        """Let several arrays grow."""
        for name, array in pieces.items():
            self.append(name, array)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What they have become; pieces are let go on the way."""
        made = {}
        for name in list(self._pieces):
            pieces = self._pieces.pop(name)
            made[name] = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return made


class ViewsWriter:
    """Writes the views of one relation after the other into a sink, with whatever belongs to their rows and entries."""

    def __init__(self, sink: ArraySink) -> None:
        self._sink, self._rows, self._entries = sink, [0], 0

    def relation(self, views: RelationViews, more: Mapping[str, NDArray[Any]]) -> None:
        """Add the next relation."""
        start = views.row_start + self._entries if self._entries else views.row_start
        layout: dict[str, NDArray[Any]] = {
            "row_entity": views.row_entity,
            "row_ptr": start,
            "neighbour": views.neighbour,
        }
        self._sink.section({**layout, **more})
        self._entries += len(views.neighbour)
        for count in views.rows:
            self._rows.append(self._rows[-1] + count)

    def finish(self) -> None:
        """Add where the last row ends, and where views begin."""
        self._sink.append("row_ptr", np.array([self._entries], np.int64))
        self._sink.append("view_ptr", np.array(self._rows, np.int64))


NO_VIEWS = relation_views(np.zeros(0, np.int32), np.zeros(0, np.int32), 0)
