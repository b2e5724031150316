"""Newer layers of rows: an edit copies the rows it touches, changed, behind the rows that are there.

Nothing is written over, so whoever reads an older state goes on reading it. The rows are copied as they are: what they
come from is verified, like all of a relation, when it is first asked for. A state of a store is a base of mapped
files, perhaps a layer of mapped files, and a layer in memory for what was changed lately; the last one grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import CorruptStore
from tuplet.graph.adjacency import Adjacency, Ints, Longs, consecutive
from tuplet.graph.segments import Columns, Segments, place_after

# Entries and rows that the layer in memory has room for at first; it takes memory only when it is used.
ENTRY_ROOM = 1 << 22
ROW_ROOM = 1 << 20
# So many rows, and entries, that newer ones hide may stay in memory: a megabyte or two.
HIDDEN = 1 << 16
# So many entries of changed rows are in memory beside their place.
PIECE = 1 << 20


class RowEdit(NamedTuple):
    """The rows of one view that an edit touches, as they are to be."""

    view: int
    entities: Ints  # [rows] ascending
    lengths: Longs  # [rows]
    columns: dict[str, NDArray[Any]]  # [entries] `neighbour` and what lies beside it
    old_rows: Longs  # [rows] where the row was, -1 if there was none
    old_lengths: Longs  # [rows]
    old_entries: Longs  # [old entries] of these rows, one row after another
    origin: Longs  # [entries] place in `old_entries`; of a new entry a larger number

    @property
    def row(self) -> Longs:
        """The row of each entry. [entries]"""
        return np.repeat(np.arange(len(self.lengths), dtype=np.int64), self.lengths)


# What follows from the entries of new rows (and the columns of old ones): further columns of entries, columns of rows.
Derive = Callable[[RowEdit, Columns, Columns], tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]]


def _nothing(edit: RowEdit, entry: Columns, row: Columns) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    return {}, {}


@dataclass(frozen=True)
class LayeredRows:
    """Rows with the columns beside them, and the room where newer layers grow."""

    adjacency: Adjacency
    entry: dict[str, NDArray[Any]]  # beside `neighbour`
    row: dict[str, NDArray[Any]]  # beside `row_entity`
    space: tuple[Segments, Segments] | None = None  # rows, entries
    fixed: int = 0  # layers that stay as they are: the last ones of `adjacency.newer`

    def _roomy(self) -> LayeredRows:
        """The same rows in a space that can grow."""
        if self.space is not None:
            return self
        a = self.adjacency
        rows = Segments({"row_entity": a.row_entity, "row_ptr": a.row_ptr, **self.row}, ROW_ROOM)
        return self._in(rows, Segments({"neighbour": a.neighbour, **self.entry}, ENTRY_ROOM), a.newer, a.counts)

    def _in(self, rows: Segments, entries: Segments, newer: Longs | None, counts: Longs | None) -> LayeredRows:
        r, e = rows.columns, entries.columns
        a = self.adjacency
        layout = (a.view_ptr, r["row_entity"], r["row_ptr"], e["neighbour"])
        adjacency = Adjacency(*layout, newer, counts, guard=a.guard)
        entry, row = {name: e[name] for name in self.entry}, {name: r[name] for name in self.row}
        return replace(self, adjacency=adjacency, entry=entry, row=row, space=(rows, entries))

    def _tidied(self) -> LayeredRows:
        """The same rows; where most of the layer in memory is rows that newer ones hide, it is begun anew.

        Whoever holds an older state keeps the space that it lies in.
        """
        a = self.adjacency
        if self.space is None or a.newer is None or len(a.newer) == self.fixed:
            return self
        rows, entries = self.space
        place, view = _places(a.newer[0])
        starts, lengths = a.row_ptr[place], a.row_ptr[place + 1] - a.row_ptr[place]
        kept = 1 + self.fixed
        entry_room, row_room = HIDDEN + 4 * int(lengths.sum()), HIDDEN + 8 * len(place)
        if entries.beyond(kept) <= entry_room and rows.beyond(kept) <= row_room:
            return self
        rows, entries = rows.fresh(kept, ROW_ROOM), entries.fresh(kept, ENTRY_ROOM)
        here = consecutive(starts, lengths)
        columns = {"neighbour": a.neighbour, **self.entry}
        stops = entries.append({name: column[here] for name, column in columns.items()}) + np.cumsum(lengths)
        live = {"view": view, "start": stops - lengths, "stop": stops, "row_entity": a.row_entity[place]}
        live |= {name: column[place] for name, column in self.row.items()}
        newer = _put_layer(rows, live, len(a.view_ptr), a.newer[1:])
        return self._in(rows, entries, newer, a.counts)

    def edits(
        self,
        relation: Ints,
        heads: Ints,
        tails: Ints,
        listed: NDArray[np.bool_],
        values: Columns,
    ) -> Iterator[RowEdit]:
        """The touched rows as they are to be, view by view; edges come in order of relation, each once."""
        first = np.ones(len(relation), dtype=bool)
        first[1:] = relation[1:] != relation[:-1]
        bounds: list[int] = [*np.flatnonzero(first).tolist(), len(relation)]
        for low, high in pairwise(bounds):
            part, r = slice(low, high), int(relation[low])
            own = {name: column[part] for name, column in values.items()}
            yield self._edit(2 * r, heads[part], tails[part], listed[part], own)
            yield self._edit(2 * r + 1, tails[part], heads[part], listed[part], own)

    def _edit(self, view: int, near: Ints, far: Ints, listed: NDArray[np.bool_], values: Columns) -> RowEdit:
        a = self.adjacency
        entities, row_of = np.unique(near, return_inverse=True)
        rows = a.unverified_places(entities, view)
        starts, stops = (np.where(rows >= 0, a.row_ptr[rows + end], 0) for end in (0, 1))
        old_lengths = stops - starts
        if len(rows) and (old_lengths.min() < 0 or starts.min() < 0 or stops.max() > len(a.neighbour)):
            a.touch((view // 2,))  # which names the file
            raise CorruptStore("the rows under an edit do not fit their entries; the store is damaged")
        old = consecutive(starts, old_lengths)
        row = np.concatenate([np.repeat(np.arange(len(entities)), old_lengths), row_of])
        # A change comes behind the entry it replaces: of equals the last one counts.
        key = (row << 32) | np.concatenate([a.neighbour[old], far])
        order = np.argsort(key, kind="stable")
        key = key[order]
        keep = np.ones(len(key), dtype=bool)
        keep[:-1] = key[1:] != key[:-1]
        new = order >= len(old)
        keep[new] &= listed[order[new] - len(old)]
        origin = order[keep]
        columns = {"neighbour": (key[keep] & 0xFFFFFFFF).astype(np.int32)}
        for name, column in self.entry.items():
            if name in values:
                columns[name] = np.concatenate([column[old], values[name].astype(column.dtype)])[origin]
        lengths = np.bincount(row[origin], minlength=len(entities))
        return RowEdit(view, entities, lengths, columns, rows, old_lengths, old, origin)

    def edited(
        self,
        relation: Ints,
        heads: Ints,
        tails: Ints,
        listed: NDArray[np.bool_],
        values: Columns,
        derive: Derive = _nothing,
    ) -> LayeredRows:
        """The rows after some edges got other values or, where `listed` is false, went away."""
        if not len(relation):
            return self
        this = self._roomy()._tidied()
        assert this.space is not None
        counts = this.adjacency.view_entries.copy()
        rows, entries = this.space
        made, waiting, size = [], [], 0
        for edit in this.edits(relation, heads, tails, listed, values):
            counts[edit.view] += len(edit.origin) - len(edit.old_entries)
            waiting.append((edit, *derive(edit, this.entry, this.row)))
            size += len(edit.origin)
            if size > PIECE:
                made.append(this._put(entries, waiting))
                waiting, size = [], 0
        if waiting:
            made.append(this._put(entries, waiting))
        newer = this._index(rows, {name: np.concatenate([part[name] for part in made]) for name in made[0]})
        return this._in(rows, entries, newer, counts)

    def _put(
        self, entries: Segments, edits: list[tuple[RowEdit, dict[str, NDArray[Any]], dict[str, NDArray[Any]]]]
    ) -> dict[str, NDArray[Any]]:
        """Put the entries of touched rows, with what follows from them, into their place; returns the rows."""
        names = ("neighbour", *self.entry)
        piece = {name: np.concatenate([(edit.columns | more)[name] for edit, more, _ in edits]) for name in names}
        lengths = np.concatenate([edit.lengths for edit, _, _ in edits])
        stops = entries.append(piece) + np.cumsum(lengths)
        return {
            "view": np.concatenate([np.full(len(edit.entities), edit.view, dtype=np.int64) for edit, _, _ in edits]),
            "start": stops - lengths,
            "stop": stops,
            "row_entity": np.concatenate([edit.entities for edit, _, _ in edits]),
            **{name: np.concatenate([own[name] for _, _, own in edits]) for name in self.row},
        }

    def layer(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """The rows of all newer layers as one layer: arrays to be put over the base again, in pieces to be joined."""
        a = self.adjacency
        assert a.newer is not None
        layers = [_places(layer) for layer in a.newer[::-1]]
        place, view = (np.concatenate(part) for part in zip(*layers, strict=True))
        kept = _last_of_equals((view << 32) | a.row_entity[place])
        place, view = place[kept], view[kept]
        starts, lengths = a.row_ptr[place], a.row_ptr[place + 1] - a.row_ptr[place]
        ends = np.cumsum(lengths)
        stops = place_after(a.row_ptr.item(a.view_ptr.item(-1))) + ends
        yield "view_ptr", 2 * np.searchsorted(view, np.arange(len(a.view_ptr)))
        yield "counts", a.view_entries
        yield "row_ptr", np.stack([stops - lengths, stops], axis=1).reshape(-1)
        for name, column in {"row_entity": a.row_entity, **self.row}.items():
            yield name, np.repeat(column[place], 2)
        cuts = np.searchsorted(ends, np.arange(PIECE, lengths.sum(), PIECE)).tolist()
        for low, high in pairwise([0, *cuts, len(place)]):
            entries = consecutive(starts[low:high], lengths[low:high])
            for name, column in {"neighbour": a.neighbour, **self.entry}.items():
                yield name, column[entries]

    def over(self, layer: Columns) -> LayeredRows:
        """A base with a layer over it that `layer` gave: its arrays, when they are files, are not copied."""
        this = self._roomy()
        assert this.space is not None
        rows, entries = this.space
        first = rows.append({name: layer[name] for name in ("row_entity", "row_ptr", *self.row)}, apart=True)
        at = entries.append({name: layer[name] for name in ("neighbour", *self.entry)}, apart=True)
        if at != place_after(self.adjacency.row_ptr.item(self.adjacency.view_ptr.item(-1))):
            raise ValueError("the layer belongs to another base")
        newer = np.ascontiguousarray((first + layer["view_ptr"])[None, :])
        return replace(this._in(rows, entries, newer, layer["counts"]), fixed=1)

    def _index(self, rows: Segments, new: dict[str, NDArray[Any]]) -> Longs:
        """Put the layer in memory anew: its rows that stay, and new ones; returns the pointers of all layers."""
        a = self.adjacency
        older = np.zeros((0, len(a.view_ptr)), dtype=np.int64) if a.newer is None else a.newer
        if len(older) > self.fixed:
            at, view = _places(older[0])
            older = older[1:]
            kept = {"view": view, "start": a.row_ptr[at], "stop": a.row_ptr[at + 1], "row_entity": a.row_entity[at]}
            kept |= {name: column[at] for name, column in self.row.items()}
            both = {name: np.concatenate([kept[name], new[name]]) for name in new}
            chosen = _last_of_equals((both["view"] << 32) | both["row_entity"])
            new = {name: column[chosen] for name, column in both.items()}
        return _put_layer(rows, new, len(a.view_ptr), older)


def _places(layer: Longs) -> tuple[Longs, Longs]:
    """Where the rows of a newer layer lie, and their views."""
    return np.arange(layer[0], layer[-1], 2), np.repeat(np.arange(len(layer) - 1), np.diff(layer) // 2)


def _put_layer(rows: Segments, new: dict[str, NDArray[Any]], pointers: int, older: Longs) -> Longs:
    """Append the rows of a layer, in order of view and entity; returns its pointers before those of older layers."""
    piece = {name: np.repeat(new[name], 2) for name in new if name not in ("view", "start", "stop")}
    piece["row_ptr"] = np.stack([new["start"], new["stop"]], axis=1).reshape(-1)
    own = rows.append(piece) + 2 * np.searchsorted(new["view"], np.arange(pointers))
    return np.ascontiguousarray(np.concatenate([own[None, :], older]))


def _last_of_equals(key: Longs) -> Longs:
    """The places of different keys in ascending order of keys; of equal ones the last."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    last = np.ones(len(order), dtype=bool)
    last[:-1] = ordered[1:] != ordered[:-1]
    return order[last]
