"""Edges in both directions, as sorted rows: the one layout that all engines read.

A *view* is a relation walked in one direction: view `2r` goes from head to tail, view `2r + 1` from tail to head. A
*row* is one entity under one view with its neighbours in ascending order; only rows that have a neighbour are stored,
so the size is that of the edges, not of |E|·|R|.

What was changed lies in *newer layers* (`tuplet.graph.versions`): whole rows that hide the same rows of the base.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.arrays import Directory, FolderWriter, freeze


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


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """The distinct values, ascending. `np.unique` hashes, which takes a hundred times as long for ten million.

    >>> distinct(np.array([5, 1, 5])).tolist()
    [1, 5]
    """
    ordered = np.sort(values)
    return np.asarray(ordered[np.concatenate([ordered[:1] == ordered[:1], ordered[1:] != ordered[:-1]])])


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
        self._pieces.setdefault(name, []).append(array)

    def section(self, pieces: Mapping[str, NDArray[Any]]) -> None:
        for name, array in pieces.items():
            self.append(name, array)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What they have become; pieces are let go on the way."""
        made = {}
        for name in list(self._pieces):
            pieces = self._pieces.pop(name)
            made[name] = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return made


ArraySink: TypeAlias = FolderWriter | GrowingArrays  # arrays that grow: in a folder, or in memory


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
        self._sink.append("row_ptr", np.array([self._entries], np.int64))
        self._sink.append("view_ptr", np.array(self._rows, np.int64))


Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

LAYOUT = ("view_ptr", "row_entity", "row_ptr", "neighbour")


# So many edges are looked up sooner than compiled code is loaded, where it is not.
_FEW = 32


class AdjacencyArrays(NamedTuple):
    """The arrays of an adjacency as compiled kernels take them: plain, contiguous, read-only, so one version serves."""

    view_ptr: Longs
    row_entity: Ints
    row_ptr: Longs
    neighbour: Ints
    newer: Longs


class ViewRows(NamedTuple):
    """The rows of one view that have a neighbour, in order of their entities."""

    entities: Ints  # [rows]
    starts: Longs  # [rows] row i has the entries starts[i] : stops[i]
    stops: Longs  # [rows]
    rows: slice | Longs  # where arrays that lie beside `row_entity` have these rows

    @property
    def lengths(self) -> Longs:
        return self.stops - self.starts


@dataclass(frozen=True)
class Adjacency:
    """Rows of all views.

    Rows of view v are `view_ptr[v] : view_ptr[v + 1]`; row i is entity `row_entity[i]` (ascending within a view) with
    neighbours `neighbour[row_ptr[i] : row_ptr[i + 1]]` (ascending, no duplicates).

    `newer` has the same pointers for newer layers, the newest first. A row is looked for in each layer in turn and last
    in the base, so it hides the row below, which it replaces as a whole; it may have no neighbours. Rows of a newer
    layer take two places each, the second one for their end, since their entries need not lie one after another.

    >>> a, _ = Adjacency.build(np.array([0, 0]), np.array([0, 0]), np.array([2, 1]), relations=1)
    >>> a.row(0, 0).tolist(), a.row(2, 1).tolist(), a.row(1, 0).tolist()
    ([1, 2], [0], [])
    """

    view_ptr: Longs  # [2·relations + 1]
    row_entity: Ints  # [rows]
    row_ptr: Longs  # [rows + 1]
    neighbour: Ints  # [2·edges]
    newer: Longs | None = None  # [layers, 2·relations + 1]
    counts: Longs | None = (
        None  # [2·relations] entries of each view, where `row_ptr` does not say it or is not verified
    )
    # Verifies relations before they are read, where the arrays are files; kernels' callers `touch` what they need.
    guard: Callable[[Collection[int]], None] | None = field(default=None, compare=False, repr=False, kw_only=True)

    def touch(self, relations: Collection[int] | None = None) -> None:
        """Make sure that relations (all if None) are whole; everything below does so by itself, except `arrays`."""
        if self.guard is not None:
            self.guard(range(self.relations) if relations is None else relations)

    @property
    def relations(self) -> int:
        return (len(self.view_ptr) - 1) // 2

    @property
    def edges(self) -> int:
        return int(self.relation_edges.sum())

    @property
    def relation_edges(self) -> Longs:
        return self.view_entries[::2]

    @cached_property
    def view_entries(self) -> Longs:
        """How many entries each view has. [2·relations]"""
        return np.diff(self.row_ptr[self.view_ptr]) if self.counts is None else self.counts

    @staticmethod
    def build(
        heads: NDArray[np.integer], relation: NDArray[np.integer], tails: NDArray[np.integer], relations: int
    ) -> tuple[Adjacency, Longs]:
        """The adjacency of distinct edges, and for each entry of `neighbour` the number of the edge it comes from.

        The second array carries anything known per edge (split, truth) into the layout: `payload[edge]`.
        """
        near, far = np.concatenate([heads, tails]), np.concatenate([tails, heads])
        view = np.concatenate([2 * np.asarray(relation), 2 * np.asarray(relation) + 1])
        order = np.lexsort((far, near, view))
        near, far = (part[order].astype(np.int32) for part in (near, far))
        return Adjacency._from_sorted(view[order], near, far, relations), order % max(len(heads), 1)

    @staticmethod
    def _from_sorted(view: Longs, entity: Ints, neighbour: Ints, relations: int) -> Adjacency:
        first = np.empty(len(view), dtype=bool)
        if len(view):
            first[0] = True
            first[1:] = (view[1:] != view[:-1]) | (entity[1:] != entity[:-1])
        row_start = np.flatnonzero(first)
        row_ptr = np.append(row_start, len(view)).astype(np.int64)
        view_ptr = np.searchsorted(view[row_start], np.arange(2 * relations + 1)).astype(np.int64)
        return Adjacency(view_ptr, entity[row_start], row_ptr, neighbour)

    @staticmethod
    def from_directory(directory: Directory, entities: int) -> Adjacency:
        """The adjacency in an opened directory: what is verified at opening is checked now, a relation when touched."""
        made = Adjacency(*(directory.arrays[name] for name in LAYOUT))
        if directory.sections is None:
            made.check(entities)
            return made
        # A relation has as many entries in one direction as in the other.
        made = replace(made, counts=np.repeat(np.diff(directory.bounds["neighbour"]) // 2, 2))
        made.check_layout()
        refuse_misfits(
            row_entity=np.array_equal(directory.bounds["row_entity"], made.view_ptr[::2]),
            row_ptr=np.array_equal(directory.bounds["row_ptr"], made.view_ptr[::2]),
        )
        directory.checks.append(lambda relation: made.check_relation(relation, entities))
        return replace(made, guard=directory.touch)

    def sections(self) -> tuple[Longs, Longs]:
        """Where the rows and the entries of each relation begin, without newer layers. [relations + 1] each"""
        return self.view_ptr[::2], self._entry_ptr[::2]

    def check(self, entities: int) -> None:
        """Refuse arrays that do not fit together with a ValueError: compiled code trusts these bounds."""
        self.check_layout()
        for relation in range(self.relations):
            self.check_relation(relation, entities)

    def check_layout(self) -> None:
        """Check the pointers of an adjacency without newer layers, which needs none of its rows."""
        rows = len(self.row_entity)
        refuse_misfits(view_ptr=len(self.view_ptr) % 2 == 1 and are_pointers(self.view_ptr, rows))
        refuse_misfits(row_ptr=len(self.row_ptr) == rows + 1)
        refuse_misfits(row_ptr=are_pointers(self._entry_ptr, len(self.neighbour)))

    def check_relation(self, relation: int, entities: int) -> None:
        for view in (2 * relation, 2 * relation + 1):
            low, high = self.view_ptr.item(view), self.view_ptr.item(view + 1)
            start, stop = self._entry_ptr.item(view), self._entry_ptr.item(view + 1)
            names, pointers = self.row_entity[low:high], self.row_ptr[low : high + 1]
            refuse_misfits(
                row_ptr=pointers[0] == start and pointers[-1] == stop and bool((pointers[1:] >= pointers[:-1]).all()),
                row_entity=are_within(names, entities) and bool((names[1:] > names[:-1]).all()),
                neighbour=are_within(self.neighbour[start:stop], entities),
            )

    @cached_property
    def _entry_ptr(self) -> Longs:
        """Where the entries of each view begin, without newer layers. [2·relations + 1]"""
        if self.counts is None:
            return np.asarray(self.row_ptr[self.view_ptr])
        return np.concatenate([[0], np.cumsum(self.counts)])

    @property
    def base(self) -> Adjacency:
        """The rows without their newer layers."""
        if self.newer is None:
            return self
        rows = self.view_ptr.item(-1)
        entries = self.row_ptr.item(rows)
        layout = (self.view_ptr, self.row_entity[:rows], self.row_ptr[: rows + 1], self.neighbour[:entries])
        return Adjacency(*layout, guard=self.guard)

    @cached_property
    def arrays(self) -> AdjacencyArrays:
        newer = np.zeros((0, len(self.view_ptr)), dtype=np.int64) if self.newer is None else self.newer
        layout: tuple[NDArray[Any], ...] = (self.view_ptr, self.row_entity, self.row_ptr, self.neighbour, newer)
        return AdjacencyArrays._make([freeze(array) for array in layout])

    @cached_property
    def view_sizes(self) -> list[tuple[int, int, float]]:
        """First and last row of each view, and the average length of its rows: what planners ask again and again.

        Rows of newer layers count in the average alone.
        """
        first, last = self.view_ptr[:-1], self.view_ptr[1:]
        rows = last - first
        if self.newer is not None:
            rows = np.maximum(rows, ((self.newer[:, 1:] - self.newer[:, :-1]) // 2).sum(axis=0))
        average = self.view_entries / np.maximum(rows, 1)
        return list(zip(first.tolist(), last.tolist(), average.tolist(), strict=True))

    @cached_property
    def row_counts(self) -> list[int]:
        """How many rows each view has; those that newer layers hide or leave empty count, too."""
        count = np.diff(self.view_ptr)
        if self.newer is not None:
            count = count + np.diff(self.newer).sum(axis=0) // 2
        found: list[int] = count.tolist()
        return found

    def first_entity(self, view: int) -> int:
        """The first entity that has a neighbour under a view, or -1."""
        self.touch((view // 2,))
        layers = [(self.view_ptr, 1), *((layer, 2) for layer in (() if self.newer is None else self.newer))]
        found = []
        for pointers, places in layers:
            for row in range(pointers.item(view), pointers.item(view + 1), places):
                entity = self.row_entity.item(row)
                start, stop = self.span(entity, view)
                if start < stop:
                    found.append(entity)
                    break
        return min(found, default=-1)

    def is_changed(self, view: int) -> bool:
        """Whether a newer layer has rows of the view."""
        return self.newer is not None and bool((self.newer[:, view + 1] > self.newer[:, view]).any())

    def view(self, view: int) -> ViewRows:
        """The rows of a view; parts of the arrays themselves where no newer layer has changed it."""
        self.touch((view // 2,))
        low, high = self.view_ptr.item(view), self.view_ptr.item(view + 1)
        if not self.is_changed(view):
            plain = slice(low, high)
            return ViewRows(self.row_entity[plain], self.row_ptr[plain], self.row_ptr[low + 1 : high + 1], plain)
        if view not in self._merged:
            self._merged[view] = self._merge(view)
        rows = self._merged[view]
        return ViewRows(self.row_entity[rows], self.row_ptr[rows], self.row_ptr[rows + 1], rows)

    @cached_property
    def _merged(self) -> dict[int, Longs]:
        """The rows of changed views that were asked for."""
        return {}

    def _merge(self, view: int) -> Longs:
        assert self.newer is not None
        rows = np.arange(self.view_ptr[view], self.view_ptr[view + 1], dtype=np.int64)
        for layer in self.newer[::-1]:
            own = np.arange(layer[view], layer[view + 1], 2, dtype=np.int64)
            entities, others = self.row_entity[own], self.row_entity[rows]
            rows = rows[~among(others, entities)]
            rows = np.concatenate([rows, own])
            rows = rows[np.argsort(self.row_entity[rows], kind="stable")]
        filled: Longs = rows[self.row_ptr[rows + 1] > self.row_ptr[rows]]
        return filled

    def flatten(self) -> tuple[Adjacency, Longs | slice]:
        """The same edges without layers, and where arrays beside `neighbour` have their entries."""
        self.touch()
        if self.newer is None:
            return self, slice(None)
        views = [self.view(v) for v in range(len(self.view_ptr) - 1)]
        starts, lengths = (np.concatenate([getattr(v, name) for v in views]) for name in ("starts", "lengths"))
        entries = consecutive(starts, lengths)
        return (
            Adjacency(
                np.cumsum([0, *(len(v.entities) for v in views)], dtype=np.int64),
                np.concatenate([v.entities for v in views]),
                np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
                self.neighbour[entries],
            ),
            entries,
        )

    def entry_rows(self) -> tuple[Longs, Ints]:
        """View and row entity of each entry of `neighbour`; of rows without newer layers."""
        assert self.newer is None
        self.touch()
        lengths = np.diff(self.row_ptr)
        row_view = np.repeat(np.arange(len(self.view_ptr) - 1, dtype=np.int64), np.diff(self.view_ptr))
        return np.repeat(row_view, lengths), np.repeat(self.row_entity, lengths)

    def filter(self, keep: NDArray[np.bool_]) -> Adjacency:
        """The adjacency of the entries marked in `keep`, which marks both entries of an edge or none."""
        flat, entries = self.flatten()
        view, entity = flat.entry_rows()
        kept = keep[entries]
        return Adjacency._from_sorted(view[kept], entity[kept], flat.neighbour[kept], self.relations)

    def span(self, entity: int, view: int) -> tuple[int, int]:
        """Where the neighbours of a row begin and end; an empty span if there are none."""
        self.touch((view // 2,))
        return self.touched_span(entity, view)

    def touched_span(self, entity: int, view: int) -> tuple[int, int]:
        """The same for a caller that has touched the relation."""
        if self.newer is not None:
            for layer in self.newer:
                at = self._place(entity, layer.item(view), layer.item(view + 1))
                if at >= 0:
                    return self.row_ptr.item(at), self.row_ptr.item(at + 1)
        at = self._place(entity, self.view_ptr.item(view), self.view_ptr.item(view + 1))
        return (self.row_ptr.item(at), self.row_ptr.item(at + 1)) if at >= 0 else (0, 0)

    def _place(self, entity: int, low: int, high: int) -> int:
        # searched for as int32, because numpy would otherwise copy the whole row to compare it with an int64
        at = low + int(self.row_entity[low:high].searchsorted(np.int32(entity)))
        return -1 if at == high or self.row_entity.item(at) != entity else at

    def places(self, entities: Ints, view: int, verified: bool = True) -> Longs:
        """The rows of several entities under one view, -1 where there is none. [n]

        Not `verified` is for who copies rows that nobody reads before their relation is verified.
        """
        if verified:
            self.touch((view // 2,))
        found = np.full(len(entities), -1, dtype=np.int64)
        wanted = np.arange(len(entities))
        layers = [self.view_ptr] if self.newer is None else [*self.newer, self.view_ptr]
        for layer in layers:
            low, high = layer.item(view), layer.item(view + 1)
            if low < high and len(wanted):
                near = entities[wanted]
                at = low + self.row_entity[low:high].searchsorted(near)
                here = self.row_entity[np.minimum(at, high - 1)] == near
                found[wanted[here]] = at[here]
                wanted = wanted[~here]
        return found

    def row(self, entity: int, view: int) -> Ints:
        start, stop = self.span(entity, view)
        return self.neighbour[start:stop]

    def find_many(self, heads: Ints, relations: Ints, tails: Ints) -> Longs:
        """The forward entries of many edges, -1 where there is none. [n]"""
        if len(heads) <= _FEW and "tuplet.graph.kernels" not in sys.modules:
            edges = zip(heads.tolist(), relations.tolist(), tails.tolist(), strict=True)
            return np.array([self.find(*edge) for edge in edges], dtype=np.int64)
        from tuplet.graph.kernels import find_edges  # compiled: most of what reads edges never needs it

        if self.guard is not None and len(relations):
            self.guard(np.flatnonzero(np.bincount(relations)).tolist())
        found = np.empty(len(heads), dtype=np.int64)
        find_edges(self.arrays, heads, relations, tails, found)
        return found

    def find(self, head: int, relation: int, tail: int) -> int:
        """The forward entry of an edge, or -1."""
        start, stop = self.span(head, 2 * relation)
        at = start + int(self.neighbour[start:stop].searchsorted(np.int32(tail)))
        return at if at < stop and self.neighbour[at] == tail else -1

    def relation(self, relation: int) -> tuple[Ints, Ints, Longs | slice]:
        """Heads and tails of the edges of a relation in order, and their forward entries."""
        rows = self.view(2 * relation)
        heads = np.repeat(rows.entities, rows.lengths)
        if not isinstance(rows.rows, slice):
            entries = consecutive(rows.starts, rows.lengths)
            return heads, self.neighbour[entries], entries
        start = rows.starts.item(0) if len(heads) else 0
        plain = slice(start, start + len(heads))
        return heads, self.neighbour[plain], plain

    def triples(self) -> tuple[Ints, Ints, Ints, Longs]:
        """Heads, relations, tails of all edges in order of (relation, head, tail), and their forward entries."""
        flat, entries = self.flatten()
        view, entity = flat.entry_rows()
        forward = np.flatnonzero(view % 2 == 0)
        heads, relation, tails = entity[forward], (view[forward] // 2).astype(np.int32), flat.neighbour[forward]
        return heads, relation, tails, forward if isinstance(entries, slice) else entries[forward]


def consecutive(starts: Longs, lengths: Longs) -> Longs:
    """The numbers start … start + length - 1 of all spans, one span after another.

    >>> consecutive(np.array([7, 2]), np.array([2, 3])).tolist()
    [7, 8, 2, 3, 4]
    """
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    numbers: Longs = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - lengths), lengths)
    return numbers


def refuse_misfits(**fits: bool) -> None:
    """A ValueError that names the first array that does not fit."""
    for name, good in fits.items():
        if not good:
            raise ValueError(f"{name} does not fit the other arrays")


def are_pointers(pointers: NDArray[np.integer], end: int) -> bool:
    """Whether they ascend from 0 to `end`."""
    return bool(len(pointers) and pointers[0] == 0 and pointers[-1] == end and (pointers[1:] >= pointers[:-1]).all())


def are_within(ids: NDArray[np.integer], count: int) -> bool:
    """Whether all lie in 0 … count - 1."""
    return not len(ids) or bool(ids.min() >= 0 and ids.max() < count)
