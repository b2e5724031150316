"""Answers that show more than entities: values, relations, numbers of answers, yes or no.

Tuples become rows, rows of several readings are merged, and rows that show the same are one. So the engine may have to
be asked for more tuples than rows are wanted.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.attributes import Plain
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.ast import Among, Atom, Attribute, Column, Compare, Constant, Free, Name, Order
from tuplet.query.bind import ConditionBinder, by_attribute, resolve
from tuplet.query.conditions import compared_values
from tuplet.query.engine import Engine
from tuplet.query.interpretations import Reading
from tuplet.query.limits import Deadline, Limits
from tuplet.query.question import BoundReading, Question
from tuplet.query.ranking import Ranking, nothing
from tuplet.query.schema import AnswerCount


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
        literals = reading.clauses[0].literals if reading.clauses else ()
        self.own, self.pairs = by_attribute(part for part in literals if isinstance(part, Compare | Among))

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


@dataclass(frozen=True)
class FoundRows:
    """The rows to show, and the tuples they come from."""

    names: tuple[str, ...]  # of the columns
    ranking: Ranking  # the entities of each row, its truth, and what is known of the rest
    rankings: list[Ranking]  # for each reading the tuples of its rows
    order: NDArray[np.int64] | None = None  # of each row its place among these; None: the rows are the tuples
    columns: tuple[int | list[Cell], ...] | None = None  # for each column its place in a tuple, or its values
    count: AnswerCount | None = None  # of a query that counts: its one row, in place of the rows
    hides_count: bool = False  # it is left out by LIMIT 0 or OFFSET 1

    def counted(self, name: str, number: int, expected: float, hides_count: bool) -> FoundRows:
        """The number of rows and the sum of their truth, without the rows."""
        none = np.zeros(0, np.int64)
        count = AnswerCount(name, number, expected, self.ranking.pruned is None)
        columns: tuple[int | list[Cell], ...] = tuple(c if isinstance(c, int) else [] for c in self.columns or ())
        ranking, rankings = self.ranking.take(none), [ranking.take(none) for ranking in self.rankings]
        if hides_count:
            return FoundRows((name,), replace(ranking, bound=1.0), rankings, none, ([],), hides_count=True)
        return FoundRows(self.names, ranking, rankings, none, columns, count)


def find_rows(question: Question, engine: Engine[Any], limits: Limits, deadline: Deadline) -> FoundRows:
    """The rows of a question that shows values, counts, or wants to know whether there is any answer."""
    tree = question.tree
    if tree.form == "ask":
        only = "observed" if limits.ask_threshold is None else limits.only
        return _find_rows(question, engine, replace(limits, k=1, offset=0, only=only), deadline)
    if tree.form != "count":
        return _find_rows(question, engine, limits, deadline)
    everything = replace(limits, k="all", offset=0)
    name, hides_count = tree.counted or "count", limits.k == 0 or limits.offset > 0
    if len(question.readings) == 1 and _tuples_are_rows(_reader(question.readings[0], question)):
        # millions of tuples that are only counted need not become rows
        ranking = question.readings[0].rank(question.source, engine, everything, deadline)
        names = tuple(column.name for column in question.readings[0].reading.columns)
        found = FoundRows(names, ranking, [ranking], columns=tuple(range(len(names))))
    else:
        found = _find_rows(question, engine, everything, deadline)
    return found.counted(name, len(found.ranking.truth), float(found.ranking.truth.sum()), hides_count)


def _find_rows(question: Question, engine: Engine[Any], limits: Limits, deadline: Deadline) -> FoundRows:
    """The rows of a question: as many tuples are asked for as it takes."""
    source, readings = question.source, question.readings
    if not readings:
        names = tuple(c.name for c in question.tree.shown) or tuple(v.name for v in question.tree.free)
        columns: tuple[int | list[Cell], ...] = tuple([] for _ in names)
        return FoundRows(names, nothing(0), [], np.zeros(0, np.int64), columns)
    order = [bound.reading.order for bound in readings]
    # An order is about all answers where none is truer than another; else about those that are shown.
    everything = limits.k == "all" or (bool(order[0]) and not engine.needs_truth)
    wanted = None if everything else limits.count(1 << 62)
    entities = entity_columns([bound.reading for bound in readings])
    readers = [_reader(bound, question) for bound in readings]
    rank = source.graph.entities.sort_rank
    in_turn = all(_in_turn(bound.reading) for bound in readings)
    size = wanted
    while True:
        tuples: Limits = replace(limits, k="all" if size is None else size, offset=0)
        rankings = [bound.rank(source, engine, tuples, deadline) for bound in readings]
        found: list[AnswerRow] = []
        for number, reader in enumerate(readers):
            rows, read = reader.rows(number, rankings[number], entities, order[number], deadline)
            found += rows
            rankings[number] = _read(rankings[number], read)
        rows = distinct(found, lambda entity: int(rank[entity]), entities)
        more = [ranking for ranking in rankings if size is not None and len(ranking.tuples) >= size]
        if not more or wanted is None or deadline.over():
            break
        if len(rows) >= wanted and (in_turn or all(rows[wanted - 1].truth > ranking.truth[-1] for ranking in more)):
            break  # with ties, further tuples might show what comes first
        size = 4 * (size or 1)
    bound = max((ranking.bound for ranking in rankings), default=0.0)
    names = tuple(column.name for column in readings[0].reading.columns)
    return _cut(rows, rankings, order[0], limits, names, entities, bound, not everything)


def _in_turn(reading: Reading) -> bool:
    """Whether rows come in the order of their tuples: the first columns are the variables."""
    columns = [column.what for column in reading.columns if not isinstance(column.what, Name)]
    return tuple(columns[: len(reading.free)]) == reading.free


def _tuples_are_rows(reader: ColumnReader) -> bool:
    """Whether each tuple is one row, unlike all others: the columns are its variables, and no value matters."""
    columns, free = [column.what for column in reader.reading.columns], reader.reading.free
    return len(columns) == len(free) and set(columns) == set(free) and not (reader.own or reader.pairs)


def _read(ranking: Ranking, read: int) -> Ranking:
    """A ranking of which there was time to read so many tuples."""
    if read == len(ranking.tuples):
        return ranking
    bound = max(ranking.bound, float(ranking.truth[read]))
    return replace(ranking.take(np.arange(read)), exact=False, bound=bound, pruned="timeout")


def _cut(
    rows: list[AnswerRow],
    rankings: list[Ranking],
    order: Sequence[Order],
    limits: Limits,
    names: tuple[str, ...],
    entities: list[bool],
    bound: float,
    first: bool,
) -> FoundRows:
    """The rows that are shown; `first` if the best by truth are chosen before they are put in order."""
    begin, end = limits.offset, None if limits.k == "all" else limits.count(1 << 62)
    if not first:
        rows = in_order(rows, order)
    left_out = [*rows[:begin], *(rows[end:] if end is not None else [])]
    later = [row.truth for row in left_out[begin:]]
    rows = rows[begin:end]
    if first:
        rows = in_order(rows, order)
    taken: list[Ranking] = []
    place = np.zeros(len(rows), np.int64)
    before = 0
    for number, ranking in enumerate(rankings):
        mine = [i for i, row in enumerate(rows) if row.reading == number]
        taken.append(ranking.take(np.array([rows[i].place for i in mine], np.int64)))
        place[mine] = before + np.arange(len(mine))
        before += len(mine)
    cells = list(zip(*(row.cells for row in rows), strict=True)) or [()] * len(names)
    at = [j for j, alone in enumerate(entities) if alone]
    tuples = np.array([cells[j] for j in at], np.int32).reshape(len(at), len(rows)).T
    columns = tuple(at.index(j) if alone else list(cells[j]) for j, alone in enumerate(entities))
    truth = np.array([row.truth for row in rows])
    exact = all(ranking.exact for ranking in rankings)
    pruned = next((ranking.pruned for ranking in rankings if ranking.pruned), None)
    ranking = Ranking(np.ascontiguousarray(tuples), truth, (), exact, max([bound, *later]), pruned)
    return FoundRows(names, ranking, taken, place, columns)


def _reader(bound: BoundReading, question: Question) -> ColumnReader:
    graph, text = question.source.graph, question.text

    def node(term: Any) -> int:
        return ~resolve(term.name, "entity", graph.entities, text)  # only named entities are looked up here

    binder = ConditionBinder(
        question.source.attribute_words,
        node,
        lambda atom: resolve(atom.relation, "relation", graph.relations, text),
        text,
    )
    return ColumnReader(bound.reading, binder, graph)
