"""What an answer shows beside entities: values of attributes, and the relations that a variable stands for.

A tuple of entities becomes one row for each choice of values, as an attribute may have several. Rows that show the same
are one, with the largest truth; those of several readings are merged.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from tuplet.graph.attributes import Plain
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.ast import Among, Atom, Attribute, Column, Compare, Condition, Constant, Free, Name, Order, Value
from tuplet.query.bind import ConditionBinder, compared_values
from tuplet.query.interpretations import Reading
from tuplet.query.limits import Deadline
from tuplet.query.ranking import Ranking


class Named(str):
    """The name of an entity or a relation in a column that may hold values too."""

    __slots__ = ()


Cell: TypeAlias = int | Plain | Named | None  # an entity of a column of entities is its id
TRUTH = "truth"  # what an order by truth is called
READ_ANYWAY = 20_000  # tuples that become rows even if the time is up: some 0.3 s
_LOOK = 1024  # tuples between two looks at the clock


@dataclass(frozen=True)
class AnswerRow:
    """One row before it is shown: the reading and the tuple it comes from, its truth and its cells."""

    reading: int
    place: int
    truth: float
    cells: tuple[Cell, ...]
    keys: tuple[Cell, ...]  # what it is ordered by


class ColumnReader:
    """Reads the columns of one reading for tuples of entities."""

    def __init__(self, reading: Reading, binder: ConditionBinder, graph: KnowledgeGraph) -> None:
        self.reading, self.binder, self.graph = reading, binder, graph
        self.place = {variable: i for i, variable in enumerate(reading.free)}
        conditions = reading.clauses[0].literals if reading.clauses else ()
        self.own: dict[Attribute, list[Condition]] = {}
        self.pairs: list[Compare] = []
        for condition in conditions:
            match condition:
                case Compare(_, Attribute() as one, Attribute()):
                    self.pairs.append(condition)
                case Compare(_, Attribute() as one, Value()) | Among(Attribute() as one):
                    self.own.setdefault(one, []).append(condition)
                case Compare(operator, Value() as value, Attribute() as one, negated):
                    self.own.setdefault(one, []).append(turned(operator, one, value, negated))

    def rows(
        self, number: int, ranking: Ranking, entity_ids: Sequence[bool], order: Sequence[Order], deadline: Deadline
    ) -> tuple[list[AnswerRow], int]:
        """The rows of a ranking, and of how many of its tuples, if the time is up before all are read.

        Entities are ids in the columns that hold nothing else.
        """
        columns = self.reading.columns
        ordered = [o.by for o in order if isinstance(o.by, Attribute)]
        shown = list(dict.fromkeys([*(c.what for c in columns if isinstance(c.what, Attribute)), *ordered]))
        values = {attribute: self._values(attribute, ranking) for attribute in shown}
        for pair in self.pairs:
            self._narrow(pair, values, ranking)
        optional = {c.what for c in columns if c.optional} | (set(ordered) - {c.what for c in columns})
        named = [c.what for c in columns]
        names = self.graph.entities.name
        rows: list[AnswerRow] = []
        for place, (ids, truth) in enumerate(zip(ranking.tuples.tolist(), ranking.truth.tolist(), strict=True)):
            if place >= READ_ANYWAY and not place % _LOOK and deadline.over():
                return rows, place
            choices = [values[a][place] or ([None] if a in optional else []) for a in shown]
            for chosen in product(*choices):
                given = dict(zip(shown, chosen, strict=True))
                if not self._fits(given):
                    continue
                cells = tuple(
                    given[what]
                    if isinstance(what, Attribute)
                    else Named(self.reading.relations[what.text])
                    if isinstance(what, Name)
                    else ids[self.place[what]]
                    if alone
                    else Named(names(ids[self.place[what]]))
                    for what, alone in zip(named, entity_ids, strict=True)
                )
                keys = tuple(self._key(o.by, given, cells, truth) for o in order)
                rows.append(AnswerRow(number, place, truth, cells, keys))
        return rows, len(ranking.tuples)

    def _key(self, by: str | Attribute, given: Mapping[Attribute, Cell], cells: tuple[Cell, ...], truth: float) -> Cell:
        if isinstance(by, Attribute):
            return given[by]
        for column, cell in zip(self.reading.columns, cells, strict=True):
            if column.name == by:
                return (
                    Named(self.graph.entities.name(cell))
                    if isinstance(column.what, Free) and type(cell) is int
                    else cell
                )
        return truth

    def _values(self, attribute: Attribute, ranking: Ranking) -> list[list[Cell]]:
        """The allowed values of an attribute for each tuple."""
        found: list[list[Cell]] = [[] for _ in range(len(ranking.tuples))]
        keys = self._keys(attribute, ranking)
        for choice in self.binder.allowed(attribute, self.own.get(attribute, ())):
            column = choice.column
            at, rank = column.ranked.gathered(keys)
            inside = choice.allows(rank)
            for i, r in zip(at[inside].tolist(), rank[inside].tolist(), strict=True):
                found[i].append(column.value(r))
        return found

    def _keys(self, attribute: Attribute, ranking: Ranking) -> Any:
        def ids(term: Any) -> Any:
            if isinstance(term, Constant):
                return np.full(len(ranking.tuples), ~self.binder.node(term), np.int64)
            return ranking.tuples[:, self.place[term]].astype(np.int64)

        if isinstance(attribute.of, Atom):
            return (ids(attribute.of.head) << 32) + ids(attribute.of.tail)
        return ids(attribute.of)

    def _narrow(self, pair: Compare, values: dict[Attribute, list[list[Cell]]], ranking: Ranking) -> None:
        """Keep the values of a shown attribute that compare with some value of one that is not shown."""
        left, right = pair.left, pair.right
        assert isinstance(left, Attribute)
        assert isinstance(right, Attribute)
        if (left in values) == (right in values):
            return
        shown, other = (left, right) if left in values else (right, left)
        if not self._known(other):
            return
        others = self._values(other, ranking)
        for i, mine in enumerate(values[shown]):
            values[shown][i] = [
                value
                for value in mine
                if any(_holds(pair, *((value, o) if shown is left else (o, value))) for o in others[i])
            ]

    def _known(self, attribute: Attribute) -> bool:
        """Whether the entities of an attribute are part of every tuple."""
        of = attribute.of
        return all(
            t in self.place or isinstance(t, Constant) for t in ((of.head, of.tail) if isinstance(of, Atom) else (of,))
        )

    def _fits(self, given: Mapping[Attribute, Cell]) -> bool:
        """Whether values that are shown together compare as they should."""
        return all(
            _holds(pair, given[left], given[right])
            for pair in self.pairs
            for left, right in [(pair.left, pair.right)]
            if isinstance(left, Attribute) and isinstance(right, Attribute) and left in given and right in given
        )


def turned(operator: Any, attribute: Attribute, value: Value, negated: bool) -> Compare:
    """`30 < x.age` as `x.age > 30`."""
    from tuplet.query.bind import MIRRORED

    return Compare(MIRRORED.get(operator, operator), attribute, value, negated)


def _holds(pair: Compare, left: Cell, right: Cell) -> bool:
    return left is not None and right is not None and compared_values(pair.operator, left, right) != pair.negated


def distinct(rows: Sequence[AnswerRow], rank: Callable[[int], int], columns: Sequence[bool]) -> list[AnswerRow]:
    """Rows that show different things, best first; ties in the order of what is shown, entities by their names."""
    best: dict[Any, AnswerRow] = {}
    for row in rows:
        key = tuple((type(cell), cell) for cell in row.cells)
        if key not in best or best[key].truth < row.truth:
            best[key] = row

    def tie(row: AnswerRow) -> tuple[Any, ...]:
        return tuple(
            (0, rank(cell)) if alone and isinstance(cell, int) else sortable(cell)
            for cell, alone in zip(row.cells, columns, strict=True)
        )

    return sorted(best.values(), key=lambda row: (-row.truth, tie(row)))


def in_order(rows: Sequence[AnswerRow], order: Sequence[Order]) -> list[AnswerRow]:
    """Rows in the order that the query wants; what has no value comes last."""
    ordered = list(rows)
    for i in range(len(order) - 1, -1, -1):
        descending = order[i].descending
        there = [row for row in ordered if row.keys[i] is not None]
        there.sort(key=lambda row: sortable(row.keys[i]), reverse=descending)
        ordered = there + [row for row in ordered if row.keys[i] is None]
    return ordered


def sortable(cell: Cell) -> tuple[int, Any]:
    """A cell as something that compares with every other cell."""
    match cell:
        case None:
            return 9, 0
        case bool():
            return 1, cell
        case int() | float():
            return 2, cell
        case datetime.datetime():
            return 3, (cell if cell.tzinfo else cell.replace(tzinfo=datetime.UTC)).timestamp()
        case datetime.date():
            return 3, datetime.datetime(cell.year, cell.month, cell.day, tzinfo=datetime.UTC).timestamp()
        case _:
            return 4, str(cell).encode()


def entity_columns(readings: Sequence[Reading]) -> list[bool]:
    """Which columns hold entities in every reading."""
    return [
        all(isinstance(column.what, Free) for column in same)
        for same in zip(*(r.columns for r in readings), strict=True)
    ]


def column_names(columns: Sequence[Column]) -> tuple[str, ...]:
    """The names of the columns."""
    return tuple(column.name for column in columns)
