"""What was changed in a graph: states of edges, values of subjects, and newer layers of rows.

A state says all about its edge or subject, whatever it was before. Of rows, an edit copies those it touches, changed,
behind the rows that are there. Nothing is written over, so whoever reads an older version goes on reading it. The rows
are copied as they are: what they come from is verified, like all of a relation, when it is first asked for. A version
of a store is a base of mapped files, perhaps a layer of mapped files, and a layer in memory for what was changed
lately; the last one grows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import CorruptStore
from tuplet.graph.adjacency import Adjacency, Ints, Longs, are_within, consecutive, refuse_misfits, relation_places
from tuplet.graph.arrays import Columns, Segments, place_after
from tuplet.graph.attributes import (
    FACTS,
    FAMILIES,
    STORED,
    AttributeColumn,
    Attributes,
    ColumnContent,
    Family,
    Ids,
    Kind,
    Plain,
    Ranked,
    Values,
    comparable,
    joined_texts,
    kind_of,
    plain,
    rank_values,
    widest,
)
from tuplet.graph.names import Strings


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
        return EdgeStates(*(np.zeros(0, dtype=dtype) for dtype in _TYPES.values()))

    @staticmethod
    def from_columns(**columns: NDArray[Any]) -> EdgeStates:
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
        return len(self.relation)

    @property
    def key(self) -> Longs:
        """Head and tail as one number, which ascends within a relation. [edges]"""
        return pair_key(self.heads, self.tails)

    def take(self, places: NDArray[Any]) -> EdgeStates:
        return EdgeStates(*(column[places] for column in self))

    def then(self, later: EdgeStates) -> EdgeStates:
        """These states and later ones, which count where both have an edge."""
        newer = later.arrays()
        both = EdgeStates(**{name: np.concatenate([older, newer[name]]) for name, older in self.arrays().items()})
        return both.take(_last_of_equals(both.relation, both.key))

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

    def select_changes(self, other: EdgeStates) -> EdgeStates:
        """Those that `other` does not have, or has in another state."""
        place = other.find(self.relation, self.heads, self.tails)
        same = place >= 0
        theirs = other.arrays()
        for name, mine in self.arrays().items():
            same[same] = mine[same] == theirs[name][place[same]]
        return self.take(~same)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return self._asdict()


_TYPES = dict(zip(EdgeStates._fields, ["i4", "i4", "i4", "f8", "?", "f4", "u1", "u1", "f8", "i8"], strict=True))


def pair_key(heads: NDArray[np.integer], tails: NDArray[np.integer]) -> Longs:
    """Head and tail as one number: an entity has 31 bits.

    >>> pair_key(np.array([99_999_999]), np.array([7])) >> 32
    array([99999999])
    """
    key: Longs = (np.asarray(heads, dtype=np.int64) << 32) | np.asarray(tails, dtype=np.int64)
    return key


class Subject(NamedTuple):
    """The attribute of one entity or fact."""

    name: str
    relation: int  # of the fact; -1: of an entity
    key: int


class StoredValue(NamedTuple):
    """A value with its kind, as it is written down: 1, 1.0 and true are three."""

    kind: Kind
    stored: bool | int | float | str
    tag: str = ""

    @staticmethod
    def from_plain(value: Plain, tag: str = "") -> StoredValue:
        return StoredValue(kind_of(value), comparable(value), tag)

    @property
    def same(self) -> tuple[Family, bool | int | float | str, str]:
        """Values that are the same have this in common: 1 and 1.0 are."""
        return FAMILIES[self.kind], self.stored, self.tag


@dataclass(frozen=True)
class AttributeStates:
    """All values of some subjects.

    A state says all about its subject: applied twice it changes nothing, and of two the later one counts.
    """

    values: Mapping[Subject, tuple[StoredValue, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    def then(self, later: AttributeStates) -> AttributeStates:
        return AttributeStates({**self.values, **later.values}) if later.values else self

    def select_changes(self, other: AttributeStates) -> AttributeStates:
        theirs = other.values
        return AttributeStates({key: mine for key, mine in self.values.items() if theirs.get(key) != mine})

    def continues(self, older: AttributeStates) -> bool:
        """Whether it says something of every subject of another one."""
        return older.values.keys() <= self.values.keys()

    def array(self) -> NDArray[np.uint8]:
        """Everything as bytes."""
        rows = [[*subject, [list(value) for value in values]] for subject, values in sorted(self.values.items())]
        return np.frombuffer(json.dumps(rows, ensure_ascii=False).encode("utf-8", "surrogatepass"), dtype=np.uint8)

    @staticmethod
    def from_array(data: NDArray[np.uint8]) -> AttributeStates:
        rows = json.loads(data.tobytes())
        return AttributeStates({Subject(*row[:3]): tuple(StoredValue(*value) for value in row[3]) for row in rows})

    def check(self, entities: int, relations: int) -> None:
        """Refuse states that do not fit with a ValueError: keys of columns are made of them."""
        good = True
        for subject, values in self.values.items():
            ends = divmod(subject.key, FACTS) if subject.relation >= 0 else (subject.key,)
            good &= -1 <= subject.relation < relations and all(0 <= end < entities for end in ends)
            good &= all(value.kind in FAMILIES for value in values)
        refuse_misfits(attributes=good)

    def apply_to(self, base: Attributes) -> Attributes:
        """Attributes in which this is so; a column is made when it is first looked at."""
        if not self.values:
            return base
        changed: dict[tuple[str, int], dict[int, tuple[StoredValue, ...]]] = {}
        for subject, values in self.values.items():
            changed.setdefault((subject.name, subject.relation), {})[subject.key] = values
        columns = {(column.name, column.relation, column.family): column for column in base.columns}
        for (name, relation), states in changed.items():
            families: dict[Family, list[Kind]] = {
                column.family: [column.kind] for column in base.of_facts(name, relation)
            }
            for value in chain.from_iterable(states.values()):
                families.setdefault(FAMILIES[value.kind], []).append(value.kind)
            for family, kinds in families.items():
                old, kind = columns.get((name, relation, family)), widest(kinds)
                tags = {"", *(v.tag for values in states.values() for v in values), *(old.tags if old else ())}
                spoken = tuple(sorted(tags)) if len(tags) > 1 and family == "text" else ()
                load = partial(_edit_column, old, kind, spoken, states, np.int64 if relation >= 0 else np.int32)
                columns[name, relation, family] = AttributeColumn(name, kind, load, relation, spoken)
        return Attributes(tuple(columns.values()))


def _edit_column(
    old: AttributeColumn | None,
    kind: Kind,
    tags: tuple[str, ...],
    states: Mapping[int, tuple[StoredValue, ...]],
    dtype: type[np.integer],
) -> ColumnContent:
    """The rows of a column with those of some keys replaced."""
    rows = [
        (key, value)
        for key, values in sorted(states.items())
        for value in values
        if FAMILIES[value.kind] == FAMILIES[kind]
    ]
    keys: Ids = np.array([key for key, _ in rows], dtype)
    stored, rank = rank_values(kind, [plain(kind, value.stored) for _, value in rows])
    codes = np.array([tags.index(value.tag) for _, value in rows], np.int16) if tags else None
    order = np.lexsort((rank, keys))
    keys, rank, codes = keys[order], rank[order], None if codes is None else codes[order]
    if old is None:
        return ColumnContent(Ranked(keys, rank), stored, codes)
    values = old.values
    both: Values
    if isinstance(values, Strings) and isinstance(stored, Strings):
        both, before, after = joined_texts(values, stored)
    else:
        parts = [np.asarray(part, STORED.get(kind, np.int64)) for part in (values, stored)]
        both, place = np.unique(np.concatenate(parts), return_inverse=True)
        before, after = np.split(place, [len(values)])
    # rows of other keys stay in order, and none of them has a key of the new ones
    kept = old.content.take(~np.isin(old.ranked.keys, np.array(sorted(states), dtype)))
    at = np.searchsorted(kept.ranked.keys, keys)
    ranks = np.insert(before[kept.ranked.rank], at, after[rank]).astype(np.int32)
    spoken = None
    if tags and codes is not None:
        known = np.zeros(len(kept.ranked.keys), np.int16) if kept.languages is None else kept.languages
        renumbered = np.array([tags.index(tag) for tag in (old.tags or ("",))], np.int16)[known]
        spoken = np.insert(renumbered, at, codes)
    return ColumnContent(Ranked(np.insert(kept.ranked.keys, at, keys), ranks), both, spoken)


def values_now(attributes: Attributes, subject: Subject) -> tuple[StoredValue, ...]:
    found = attributes.values_of(subject.name, subject.key, subject.relation)
    return tuple(StoredValue.from_plain(value, tag) for value, tag in found)


def unite_values(values: Iterable[StoredValue]) -> tuple[StoredValue, ...]:
    """The values without repetition; of the same ones the first counts."""
    return tuple({value.same: value for value in reversed(list(values))}.values())[::-1]


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
        return np.repeat(np.arange(len(self.lengths), dtype=np.int64), self.lengths)


# What follows from the entries of new rows (and the columns of old ones): further columns of entries, columns of rows.
Derive = Callable[[RowEdit, Columns, Columns], tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]]


@dataclass(frozen=True)
class LayeredRows:
    """Rows with the columns beside them, and the room where newer layers grow."""

    adjacency: Adjacency
    entry: dict[str, NDArray[Any]]  # beside `neighbour`
    row: dict[str, NDArray[Any]]  # beside `row_entity`
    space: tuple[Segments, Segments] | None = None  # rows, entries
    fixed: int = 0  # layers that stay as they are: the last ones of `adjacency.newer`

    def _in(self, rows: Segments, entries: Segments, newer: Longs | None, counts: Longs | None) -> LayeredRows:
        r, e = rows.columns, entries.columns
        a = self.adjacency
        layout = (a.view_ptr, r["row_entity"], r["row_ptr"], e["neighbour"])
        adjacency = Adjacency(*layout, newer, counts, guard=a.guard)
        entry, row = {name: e[name] for name in self.entry}, {name: r[name] for name in self.row}
        return replace(self, adjacency=adjacency, entry=entry, row=row, space=(rows, entries))

    def _tidy(self) -> LayeredRows:
        """The same rows; where most of the layer in memory is rows that newer ones hide, it is started again.

        Whoever holds an older state keeps the space that it lies in.
        """
        a = self.adjacency
        assert self.space is not None
        rows, entries = self.space
        if a.newer is None or len(a.newer) == self.fixed:
            return self
        live = self._newest_rows(a.newer[0])
        lengths = live["stop"] - live["start"]
        entry_room, row_room = HIDDEN + 4 * int(lengths.sum()), HIDDEN + 8 * len(lengths)
        if entries.appended <= entry_room and rows.appended <= row_room:
            return self
        rows, entries = Segments(rows.pieces, ROW_ROOM), Segments(entries.pieces, ENTRY_ROOM)
        here = consecutive(live["start"], lengths)
        columns = {"neighbour": a.neighbour, **self.entry}
        stops = entries.append({name: column[here] for name, column in columns.items()}) + np.cumsum(lengths)
        newer = _put_layer(rows, live | {"start": stops - lengths, "stop": stops}, len(a.view_ptr), a.newer[1:])
        return self._in(rows, entries, newer, a.counts)

    def _newest_rows(self, layer: Longs) -> dict[str, NDArray[Any]]:
        """The rows of the layer in memory."""
        a = self.adjacency
        place, view = _places(layer)
        found = {"view": view, "start": a.row_ptr[place], "stop": a.row_ptr[place + 1]}
        return found | {name: column[place] for name, column in {"row_entity": a.row_entity, **self.row}.items()}

    def _edit(self, view: int, near: Ints, far: Ints, listed: NDArray[np.bool_], values: Columns) -> RowEdit:
        """The touched rows of a view as they are to be."""
        a = self.adjacency
        entities, row_of = np.unique(near, return_inverse=True)
        rows = a.places(entities, view, verified=False)
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

    def edit(
        self,
        relation: Ints,
        heads: Ints,
        tails: Ints,
        listed: NDArray[np.bool_],
        values: Columns,
        derive: Derive | None = None,
    ) -> LayeredRows:
        """The rows after some edges got other values or, where `listed` is false, went away; each edge comes once."""
        if not len(relation):
            return self
        this = self._tidy() if self.space is not None else self._over(())
        assert this.space is not None
        counts = this.adjacency.view_entries.copy()
        rows, entries = this.space
        made, waiting, size = [], [], 0
        for r, mine in relation_places(relation):
            own = {name: column[mine] for name, column in values.items()}
            for view, near, far in ((2 * r, heads, tails), (2 * r + 1, tails, heads)):
                edit = this._edit(view, near[mine], far[mine], listed[mine], own)
                counts[view] += len(edit.origin) - len(edit.old_entries)
                waiting.append((edit, *(derive(edit, this.entry, this.row) if derive else ({}, {}))))
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
        kept = _last_of_equals(view, a.row_entity[place])
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
        this = self._over((layer,))
        assert this.space is not None
        first = this.space[0].places[1]
        newer = np.ascontiguousarray((first + layer["view_ptr"])[None, :])
        return replace(this, adjacency=replace(this.adjacency, newer=newer, counts=layer["counts"]), fixed=1)

    def _over(self, layers: Sequence[Columns]) -> LayeredRows:
        """The base with files of layers behind it, in a space that can grow."""
        a = self.adjacency
        row: dict[str, NDArray[Any]] = {"row_entity": a.row_entity, "row_ptr": a.row_ptr, **self.row}
        entry: dict[str, NDArray[Any]] = {"neighbour": a.neighbour, **self.entry}
        rows = Segments([row, *({name: layer[name] for name in row} for layer in layers)], ROW_ROOM)
        entries = Segments([entry, *({name: layer[name] for name in entry} for layer in layers)], ENTRY_ROOM)
        return self._in(rows, entries, a.newer, a.counts)

    def _index(self, rows: Segments, new: dict[str, NDArray[Any]]) -> Longs:
        """Write the layer in memory again: its rows that stay, and new ones; returns the pointers of all layers."""
        a = self.adjacency
        older = np.zeros((0, len(a.view_ptr)), dtype=np.int64) if a.newer is None else a.newer
        if len(older) > self.fixed:
            kept, older = self._newest_rows(older[0]), older[1:]
            both = {name: np.concatenate([kept[name], new[name]]) for name in new}
            chosen = _last_of_equals(both["view"], both["row_entity"])
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


def _last_of_equals(*keys: NDArray[np.integer]) -> Longs:
    """The places of different keys in ascending order of keys; of equal ones the last."""
    order = np.lexsort(keys[::-1])
    last = np.ones(len(order), dtype=bool)
    last[:-1] = np.logical_or.reduce([key[order][1:] != key[order][:-1] for key in keys])
    return order[last]
