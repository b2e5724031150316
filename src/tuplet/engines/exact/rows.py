"""The rows of a table as the search reads them, and the lists of rows that it begins with where no constant leads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.exact.kernels import Rows, common_places
from tuplet.graph.adjacency import Adjacency, Ints, Longs, consecutive
from tuplet.graph.arrays import freeze
from tuplet.graph.attributes import Ids
from tuplet.query.ranking import Clauses, Edge, QueryGraph
from tuplet.truth.table import TruthTable

FEW = 1 << 14  # entities that several views share are listed up to here
KEPT_LISTS = 512  # such lists are kept


class RowList(NamedTuple):
    """Rows `first + order`, in order of falling best truth, equals in order of names."""

    order: Ints
    first: int


@dataclass(frozen=True)
class SearchRows:
    """Rows, and the lists made of them, which are kept."""

    rows: Rows
    adjacency: Adjacency
    row_order: Ints | None = None  # [base rows] for each view the offsets of its rows, best first, equals by id
    made: dict[int, RowList] = field(default_factory=dict)
    shared: dict[tuple[int, ...], RowList | None] = field(default_factory=dict)

    def candidates(self, views: tuple[int, ...], only: Ids | None = None) -> RowList:
        """The entities that have a row under all views if these are few, else those of the smallest view.

        With `only`, those of the given entities that have a row under the smallest view.
        """
        if only is not None:
            rows = self.adjacency.places(only.astype(np.int32), self.smallest(views))
            return self._sort(rows[rows >= 0])
        return self.few(views) or self.whole(self.smallest(views))

    def few(self, views: tuple[int, ...]) -> RowList | None:
        """The entities that have a row under all views; None if there are many."""
        if len(views) == 1:
            return self.whole(views[0]) if self.adjacency.row_counts[views[0]] <= FEW else None
        if views not in self.shared:
            if len(self.shared) >= KEPT_LISTS:
                self.shared.pop(next(iter(self.shared)))
            self.shared[views] = self._find_common(views)
        return self.shared[views]

    def smallest(self, views: Iterable[int]) -> int:
        """The view with the fewest rows."""
        return min(views, key=self.adjacency.row_counts.__getitem__)

    def whole(self, view: int) -> RowList:
        """All rows of a view."""
        low, high = self.adjacency.view_ptr.item(view), self.adjacency.view_ptr.item(view + 1)
        changed = self.adjacency.is_changed(view)
        in_order = low == high or self.rows.row_entity[high - 1] < self.rows.ordered
        if self.row_order is not None and in_order and not changed:
            return RowList(self.row_order[low:high], low)
        if view not in self.made:
            rows = _numbers(self.adjacency.view(view).rows)
            if self.row_order is not None and changed:
                # in the order that is known already: what is nearly sorted is sorted in one walk
                stays = np.zeros(high - low, dtype=bool)
                stays[rows[rows < high] - low] = True
                known = self.row_order[low:high]
                rows = np.concatenate([low + known[stays[known]], rows[rows >= high]])
            self.made[view] = self._sort(rows)
        return self.made[view]

    def _find_common(self, views: tuple[int, ...]) -> RowList | None:
        """Pairs of views until one has few entities in common, of which those stay that the other views have, too."""
        smallest = self.smallest(views)
        own = self.adjacency.view(smallest)
        entities = freeze(own.entities)
        for view in views:
            if view == smallest:
                continue
            found = np.empty(FEW + 1, dtype=np.int32)
            count = common_places(entities, freeze(self.adjacency.view(view).entities), found)
            if count <= FEW:
                places = found[:count]
                for other in views:
                    places = places[self.adjacency.places(entities[places], other) >= 0]
                return self._sort(_numbers(own.rows, places))
        return None

    def _sort(self, rows: Longs) -> RowList:
        rank = self.rows.rank[self.rows.row_entity[rows]]
        best = self.rows.row_best[rows] if len(self.rows.row_best) else np.ones(len(rows), dtype=np.float32)
        if best.dtype == np.float32:
            # a truth in [0, 1] is ordered as its bits are
            order = np.argsort(((0x7FFFFFFF - best.view(np.int32).astype(np.int64)) << 32) | rank, kind="stable")
        else:
            order = np.lexsort((rank, -best))
        first = int(rows.min()) if len(rows) else 0
        return RowList(freeze((rows[order] - first).astype(np.int32)), first)


def _numbers(rows: slice | Longs, places: Ints | slice = slice(None)) -> Longs:
    """Some of the rows by number."""
    if isinstance(rows, slice):
        return np.arange(rows.start, rows.stop, dtype=np.int64)[places]
    return rows[places]


def load_rows(table: TruthTable, rank: Ints | None = None) -> SearchRows:
    """The rows of a table; `rank` is the place of each entity by name (default: by id)."""
    known, made = table.prepared.get("rows", (None, None))
    if made is None or known is not rank:
        by_name = np.arange(table.entities, dtype=np.int32) if rank is None else rank
        rows = freeze_rows(table.adjacency, table.truth, table.by_truth, table.row_best, by_name)
        made = SearchRows(rows, table.adjacency, freeze(table.row_order))
        table.prepared["rows"] = rank, made
    found: SearchRows = made
    return found


def freeze_rows(
    adjacency: Adjacency, truth: NDArray[np.floating], by_truth: Ints, row_best: NDArray[np.floating], rank: Ints
) -> Rows:
    """Arrays as rows, for one compiled version of all."""
    falls = rank[1:] < rank[:-1]
    ordered = int(falls.argmax()) + 1 if falls.any() else len(rank)
    *layout, newer = adjacency.arrays
    return Rows._make([*layout, *(freeze(array) for array in (truth, by_truth, row_best, rank)), newer, ordered])


# Parts of a truth table: every edge; stated ones; predicted ones; every edge with stated ones certain (so that a
# negation is 0 there); stated ones that are not certain, with the truth of their negation.
ALL, STATED, PREDICTED, CERTAIN, DOUBTED = range(5)
KEPT_BYTES = 256 << 20  # of parts that are kept: kernels read one array, so each set of relations has its own copies


def missing_clauses(clause: QueryGraph, weighted: bool) -> list[QueryGraph]:
    """The clauses that find what a clause gives beyond the facts; relation r of part p is called 5·r + p.

    >>> chain = QueryGraph(("x", "y"), (0, 1), (Edge(~0, 0, 0), Edge(0, 1, 1)))
    >>> [[edge.relation for edge in found.edges] for found in missing_clauses(chain, weighted=False)]
    [[2, 5], [1, 7]]
    """
    found = []
    for first, atom in enumerate(clause.edges):
        if atom.negated and not weighted:
            continue  # the negation of a certain fact is never true
        edges = []
        for i, edge in enumerate(clause.edges):
            if i == first:
                # the doubt about a stated edge is a positive atom
                edges.append(_name_part(edge, DOUBTED if edge.negated else PREDICTED)._replace(negated=False))
            elif edge.negated:
                edges.append(_name_part(edge, CERTAIN if weighted and i < first else ALL))
            else:
                edges.append(_name_part(edge, STATED if i < first else ALL))
        found.append(replace(clause, edges=tuple(edges)))
    return found


def _name_part(edge: Edge, part: int) -> Edge:
    return edge._replace(relation=5 * edge.relation + part)


def split_rows(table: TruthTable, clauses: Clauses, rank: NDArray[np.int32]) -> tuple[SearchRows, list[QueryGraph]]:
    """Rows that hold the parts that the clauses name, and the clauses with these parts numbered from 0."""
    wanted = sorted({edge.relation for clause in clauses for edge in clause.edges})
    number = {name: i for i, name in enumerate(wanted)}
    known, kept = table.prepared.get("split", (None, {}))
    if known is not rank:
        kept = {}
        table.prepared["split"] = rank, kept
    key = tuple(wanted)
    rows = kept.pop(key, None) or _rows(table, wanted, rank)
    kept[key] = rows  # the last ones that were asked for stay
    sizes = [(key, _bytes(parts)) for key, parts in list(kept.items())]
    left = sum(size for _, size in sizes)
    for oldest, size in sizes:
        if left > KEPT_BYTES:
            kept.pop(oldest, None)
            left -= size
    numbered = [replace(c, edges=tuple(e._replace(relation=number[e.relation]) for e in c.edges)) for c in clauses]
    return rows, numbered


def _bytes(rows: SearchRows) -> int:
    own = (*rows.adjacency.arrays, rows.rows.truth, rows.rows.by_truth, rows.rows.row_best)
    return sum(array.nbytes for array in own)


def are_doubted(table: TruthTable, relations: Iterable[int]) -> bool:
    """Whether a fact of one of the relations is less than certain, as in a weighted graph."""
    known: dict[int, bool] = table.prepared.setdefault("doubted", {})
    for relation in relations:
        if relation not in known:
            own = table.adjacency.view(2 * relation)
            entries = consecutive(own.starts, own.lengths)
            known[relation] = bool((table.truth[entries][table.observed[entries]] < 1).any())
        if known[relation]:
            return True
    return False


def _rows(table: TruthTable, wanted: Sequence[int], rank: NDArray[np.int32]) -> SearchRows:
    lengths = []
    columns: list[list[NDArray[np.generic]]] = [[], [], [], [], []]  # row_entity, neighbour, truth, by_truth, row_best
    for name in wanted:
        relation, part = divmod(name, 5)
        for view in (2 * relation, 2 * relation + 1):
            length, *own = _view(table, view, part)
            lengths.append(length)
            for column, array in zip(columns, own, strict=True):
                column.append(array)
    row_entity, neighbour, truth, by_truth, row_best = (np.concatenate(column) for column in columns)
    adjacency = Adjacency(
        np.cumsum([0, *map(len, lengths)], dtype=np.int64),
        row_entity,
        np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64),
        neighbour,
    )
    return SearchRows(freeze_rows(adjacency, truth, by_truth, row_best, rank), adjacency)


def _view(table: TruthTable, view: int, part: int) -> tuple[NDArray[Any], ...]:
    """Lengths and entities of the rows of a part, and of its entries the ends, the truth and its order; its best."""
    own = table.adjacency.view(view)
    entries = consecutive(own.starts, own.lengths)
    keep, truth = _part(part, table.truth[entries], table.observed[entries])
    row = np.repeat(np.arange(len(own.entities)), own.lengths)
    order: NDArray[np.int64]
    if part in (CERTAIN, DOUBTED):
        order = np.lexsort((-truth, row))  # stable: equal truths stay in order of id
    else:
        order = np.repeat(np.cumsum(own.lengths) - own.lengths, own.lengths)
        order += table.by_truth[entries]
    falling = (np.cumsum(keep) - 1)[order[keep[order]]]  # places among those that are kept
    truth = truth[keep]
    length = np.bincount(row[keep], minlength=len(own.entities))
    filled = length > 0
    length = length[filled]
    first = np.cumsum(length) - length
    by_truth = (falling - np.repeat(first, length)).astype(np.int32)
    neighbour = table.adjacency.neighbour[entries][keep]
    return length, own.entities[filled], neighbour, truth, by_truth, truth[falling[first]]


def _part(
    part: int, truth: NDArray[np.floating], observed: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.floating]]:
    """Which entries belong to a part, and the truth of all entries in it."""
    if part == STATED:
        return observed, truth
    if part == PREDICTED:
        return ~observed, truth
    if part == CERTAIN:
        return np.ones(len(truth), dtype=bool), np.where(observed, truth.dtype.type(1), truth)
    if part == DOUBTED:
        doubt = truth.dtype.type(1) - truth
        return observed & (doubt > 0), doubt
    return np.ones(len(truth), dtype=bool), truth
