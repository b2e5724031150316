"""Facts come and go: a new table from an old one by merging, without sorting what did not change."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.graph.adjacency import Longs
from tuplet.truth.layout import adjacency_of_keys, edge_keys, forward_entries, packable
from tuplet.truth.table import Bools, Facts, Floats, Sources, TruthTable


class Changed(NamedTuple):
    """A table after a change, and which of the given edges did what (marks parallel to the input)."""

    table: TruthTable
    changed: Bools  # became observed, or stopped being observed
    updated: Bools  # were observed already and got another truth


class _Entries(NamedTuple):
    """All entries of a table as parallel arrays, both directions."""

    key: Longs
    truth: Floats
    observed: Bools
    prediction: Floats  # read at forward entries alone
    source: Sources  # likewise
    by_truth: NDArray[np.int32]


def add(table: TruthTable, facts: Facts, entities: int | None = None) -> Changed:
    """The table in which the given edges are observed; `entities` may be larger than before.

    >>> old = TruthTable.build(3, 1, *(np.array(c) for c in ([0], [0], [1], [0.3], [False])))
    >>> new = add(old, Facts(*(np.array([x]) for x in (0, 0, 1, 1.0)), np.array([4], np.uint8))).table
    >>> new.value(0, 0, 1), new.fact_prediction.round(2).tolist()
    (1.0, [0.30000001192092896])
    """
    size = entities or table.entities
    entries = _unpack(table, size)
    forward = edge_keys(size, facts.heads, 2 * np.asarray(facts.relation, np.int64), facts.tails)
    backward = edge_keys(size, facts.tails, 2 * np.asarray(facts.relation, np.int64) + 1, facts.heads)
    at, listed = _find(entries.key, forward)
    was_observed = np.zeros(len(forward), dtype=bool)
    was_observed[listed] = entries.observed[at[listed]]
    truth = np.asarray(facts.truth, dtype=np.float32)
    updated = np.zeros(len(forward), dtype=bool)
    updated[was_observed] = entries.truth[at[was_observed]] != truth[was_observed]
    changed = ~was_observed

    touched = listed & (changed | updated)
    back, _ = _find(entries.key, backward)
    fresh = touched & changed
    entries.prediction[at[fresh]] = entries.truth[at[fresh]]
    entries.source[at[fresh]] = facts.source[fresh]
    for where in (at[touched], back[touched]):
        entries.truth[where] = truth[touched]
        entries.observed[where] = True
    more = ~listed
    keys = np.concatenate([forward[more], backward[more]])
    order = np.argsort(keys)
    place = np.searchsorted(entries.key, keys[order])

    def insert(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        return np.insert(old, place, np.concatenate([new, new])[order]) if len(place) else old

    zeros = np.zeros(np.count_nonzero(more))
    merged = _Entries(
        np.insert(entries.key, place, keys[order]),
        insert(entries.truth, truth[more]),
        insert(entries.observed, zeros == 0),
        insert(entries.prediction, zeros),
        insert(entries.source, facts.source[more]),
        insert(entries.by_truth, zeros),
    )
    rows = np.unique(np.concatenate([forward[touched | more], backward[touched | more]]) // size)
    return Changed(_repack(table, merged, size, rows), changed, updated)


def remove(
    table: TruthTable, heads: NDArray[np.integer], relation: NDArray[np.integer], tails: NDArray[np.integer]
) -> Changed:
    """The table in which the given edges are not observed: each shows its prediction again, or is gone.

    >>> old = TruthTable.build(3, 1, *(np.array(c) for c in ([0, 1], [0, 0], [1, 2], [1.0, 1.0], [True, True])),
    ...                        prediction=np.array([0.25, 0.0]))
    >>> new = remove(old, np.array([0, 1]), np.array([0, 0]), np.array([1, 2])).table
    >>> new.value(0, 0, 1), new.value(1, 0, 2), new.edges
    (0.25, 0.0, 1)
    """
    size = table.entities
    entries = _unpack(table, size)
    forward = edge_keys(size, heads, 2 * np.asarray(relation, np.int64), tails)
    backward = edge_keys(size, tails, 2 * np.asarray(relation, np.int64) + 1, heads)
    at, listed = _find(entries.key, forward)
    changed = listed.copy()
    changed[listed] = entries.observed[at[listed]]
    at, back = at[changed], _find(entries.key, backward)[0][changed]
    prediction = entries.prediction[at]
    for where in (at, back):
        entries.truth[where] = prediction
        entries.observed[where] = False
    keep = np.ones(len(entries.key), dtype=bool)
    gone = prediction <= 0
    keep[at[gone]] = keep[back[gone]] = False
    parts: list[NDArray[Any]] = [part[keep] for part in entries]
    rows = np.unique(np.concatenate([forward[changed], backward[changed]]) // size)
    return Changed(_repack(table, _Entries(*parts), size, rows), changed, np.zeros(len(forward), dtype=bool))


def _unpack(table: TruthTable, entities: int) -> _Entries:
    if not packable(entities, table.relations):
        raise BadInput(f"{entities:,} entities and {table.relations:,} relations are too many for changes in place")
    view, entity = table.adjacency.entry_rows()
    key = edge_keys(entities, entity, view, table.adjacency.neighbour)
    fact = np.flatnonzero(table.observed & forward_entries(table.adjacency))
    prediction, source = np.zeros(len(key), np.float32), np.zeros(len(key), np.uint8)
    prediction[fact], source[fact] = table.fact_prediction, table.fact_source
    return _Entries(key, table.truth.copy(), table.observed.copy(), prediction, source, table.by_truth)


def _find(keys: Longs, wanted: Longs) -> tuple[Longs, Bools]:
    """Place of each wanted key, and whether it is there."""
    at = np.searchsorted(keys, wanted)
    listed = at < len(keys)
    listed[listed] = keys[at[listed]] == wanted[listed]
    return at, listed


def _repack(table: TruthTable, entries: _Entries, entities: int, rows: Longs) -> TruthTable:
    """The table of the entries; `rows` are the numbers (view · entities + entity) of the rows that differ."""
    adjacency = adjacency_of_keys(entries.key, entities, table.relations)
    row_key = _row_keys(adjacency.view_ptr, adjacency.row_entity, entities)
    old_key = _row_keys(table.adjacency.view_ptr, table.adjacency.row_entity, entities)
    by_truth = entries.by_truth.astype(np.int32)
    place, there = _find(row_key, rows)
    for row in place[there].tolist():
        part = slice(adjacency.row_ptr[row], adjacency.row_ptr[row + 1])
        by_truth[part] = np.argsort(-entries.truth[part], kind="stable")
    row_dropped = np.full(len(row_key), table.threshold, dtype=np.float32)
    place, there = _find(old_key, row_key)
    row_dropped[there] = table.row_dropped[place[there]]
    first = adjacency.row_ptr[:-1]
    fact = entries.observed & forward_entries(adjacency)
    return TruthTable(
        entities,
        adjacency,
        entries.truth,
        entries.observed,
        by_truth,
        entries.truth[first + by_truth[first]],
        row_dropped,
        table.threshold,
        entries.prediction[fact],
        entries.source[fact],
    )


def _row_keys(view_ptr: Longs, row_entity: NDArray[np.int32], entities: int) -> Longs:
    view = np.repeat(np.arange(len(view_ptr) - 1, dtype=np.int64), np.diff(view_ptr))
    keys: Longs = view * entities + row_entity
    return keys
