"""Answers that show more than entities: values, relations, numbers of answers, yes or no.

Tuples become rows, rows of several readings are merged, and rows that show the same are one. So the engine may have to
be asked for more tuples than rows are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.attributes import FACTS, FAMILIES, Plain, comparable, kind_of
from tuplet.lang.ast import Among, Atom, Attribute, Compare, Constant, Free, Name, Order
from tuplet.query.bind import ClauseBinder, by_attribute
from tuplet.query.conditions import compared_values
from tuplet.query.engine import Engine
from tuplet.query.interpretations import Reading
from tuplet.query.limits import Deadline, Limits
from tuplet.query.ranking import Ranking, nothing
from tuplet.query.schema import AnswerCount

if TYPE_CHECKING:
    from tuplet.query.ask import Question


class Named(str):
    """The name of an entity or a relation in a column that may hold values too."""

    __slots__ = ()


Cell: TypeAlias = int | Plain | Named | None  # an entity of a column of entities is its id
READ_ANYWAY = 20_000  # tuples that become rows even if the time is up: some 0.3 s
_LOOK = 1024  # tuples between two looks at the clock
_KINDS = ("boolean", "number", "time", "text")  # the order of values that do not compare


@dataclass(frozen=True)
class AnswerRow:
    """One row before it is shown: the reading and the tuple it comes from, its truth and its cells."""

    reading: int
    place: int
    truth: float
    cells: tuple[Cell, ...]
    keys: tuple[Cell, ...]  # what it is ordered by


class ColumnReader:
    """Reads the columns of one reading of a question for tuples of entities."""

    def __init__(self, number: int, question: Question) -> None:
        reading, graph = question.readings[number].reading, question.source.graph
        self.number, self.reading, self.name = number, reading, graph.entities.name
        self.place = {variable: i for i, variable in enumerate(reading.free)}
        literals = reading.clauses[0].literals if reading.clauses else ()
        self.own, self.pairs = by_attribute(part for part in literals if isinstance(part, Compare | Among))
        self.binder = ClauseBinder(graph, question.source.attribute_words, question.text)

    @property
    def is_plain(self) -> bool:
        """Whether each tuple is one row, unlike all others: the columns are its variables, and no value matters."""
        columns, free = [column.what for column in self.reading.columns], self.reading.free
        return len(columns) == len(free) and set(columns) == set(free) and not (self.own or self.pairs)

    def rows(self, ranking: Ranking, entity_ids: Sequence[bool], deadline: Deadline) -> tuple[list[AnswerRow], int]:
        """The rows of a ranking, and of how many of its tuples, if the time is up before all are read.

        Entities are ids in the columns that hold nothing else.
        """
        columns, order = self.reading.columns, self.reading.order
        named = [column.what for column in columns]
        ordered = [o.by for o in order if isinstance(o.by, Attribute)]
        shown = list(dict.fromkeys([*(what for what in named if isinstance(what, Attribute)), *ordered]))
        values = {attribute: self._values(attribute, ranking) for attribute in shown}
        for pair in self.pairs:
            self._narrow(pair, values, ranking)
        optional = {c.what for c in columns if c.optional} | (set(ordered) - set(named))

        def cell(what: Any, given: Mapping[Attribute, Cell], ids: list[int], alone: bool) -> Cell:
            if isinstance(what, Attribute):
                return given[what]
            if isinstance(what, Name):
                return Named(self.reading.relations[what.text])
            entity = ids[self.place[what]]
            return entity if alone else Named(self.name(entity))

        by_name = {column.name: column.what for column in reversed(columns)}
        rows: list[AnswerRow] = []
        for place, (ids, truth) in enumerate(zip(ranking.tuples.tolist(), ranking.truth.tolist(), strict=True)):
            if place >= READ_ANYWAY and not place % _LOOK and deadline.over():
                return rows, place
            choices = [values[a][place] or ([None] if a in optional else []) for a in shown]
            for chosen in product(*choices):
                given = dict(zip(shown, chosen, strict=True))
                if not all(
                    _holds(pair, given[pair.left], given[pair.right])
                    for pair in self.pairs
                    if pair.left in given and pair.right in given
                ):
                    continue
                cells = tuple([cell(what, given, ids, alone) for what, alone in zip(named, entity_ids, strict=True)])
                by = [o.by if isinstance(o.by, Attribute) else by_name.get(o.by) for o in order]
                keys = tuple([truth if what is None else cell(what, given, ids, False) for what in by])
                rows.append(AnswerRow(self.number, place, truth, cells, keys))
        return rows, len(ranking.tuples)

    def _values(self, attribute: Attribute, ranking: Ranking) -> list[list[Cell]]:
        """The allowed values of an attribute for each tuple."""

        def ids(term: Any) -> Any:
            if isinstance(term, Constant):
                return np.full(len(ranking.tuples), ~self.binder.node(term), np.int64)
            return ranking.tuples[:, self.place[term]].astype(np.int64)

        of, found = attribute.of, list[list[Cell]]([] for _ in range(len(ranking.tuples)))
        keys = ids(of.head) * FACTS + ids(of.tail) if isinstance(of, Atom) else ids(of)
        for choice in self.binder.find_allowed(attribute, self.own.get(attribute, ())):
            at, rank = choice.column.ranked.gather(keys)
            inside = choice.allows(rank)
            for i, r in zip(at[inside].tolist(), rank[inside].tolist(), strict=True):
                found[i].append(choice.column.value(r))
        return found

    def _narrow(self, pair: Compare, values: dict[Attribute, list[list[Cell]]], ranking: Ranking) -> None:
        """Keep the values of a shown attribute that compare with some value of one that is not shown."""
        shown, other = (pair.left, pair.right) if pair.left in values else (pair.right, pair.left)
        assert isinstance(shown, Attribute)
        assert isinstance(other, Attribute)
        ends = (other.of.head, other.of.tail) if isinstance(other.of, Atom) else (other.of,)
        # where the entities of the other one are part of every tuple
        if shown in values and other not in values and all(t in self.place or isinstance(t, Constant) for t in ends):
            for mine, others in zip(values[shown], self._values(other, ranking), strict=True):
                both = [(value, [(value, o) if shown is pair.left else (o, value) for o in others]) for value in mine]
                mine[:] = [value for value, pairs in both if any(_holds(pair, *sides) for sides in pairs)]


def _holds(pair: Compare, left: Cell, right: Cell) -> bool:
    return left is not None and right is not None and compared_values(pair.operator, left, right) != pair.negated


def drop_doubles(rows: Sequence[AnswerRow], rank: Callable[[int], int], columns: Sequence[bool]) -> list[AnswerRow]:
    """Rows that show different things, best first; ties in the order of what is shown, entities by their names."""
    best: dict[Any, AnswerRow] = {}
    for row in rows:
        key = tuple((type(cell), cell) for cell in row.cells)
        if key not in best or best[key].truth < row.truth:
            best[key] = row

    def tie(row: AnswerRow) -> tuple[Any, ...]:
        return tuple(
            (0, rank(cell)) if alone and isinstance(cell, int) else sort_key(cell)
            for cell, alone in zip(row.cells, columns, strict=True)
        )

    return sorted(best.values(), key=lambda row: (-row.truth, tie(row)))


def sort_rows(rows: Sequence[AnswerRow], order: Sequence[Order]) -> list[AnswerRow]:
    """Rows in the order that the query wants; what has no value comes last."""
    ordered = list(rows)
    for i, by in reversed(list(enumerate(order))):
        ordered.sort(key=lambda row: sort_key(row.keys[i]), reverse=by.descending)
        ordered.sort(key=lambda row: row.keys[i] is None)
    return ordered


def sort_key(cell: Cell) -> tuple[int, Any]:
    """A cell as something that compares with every other cell."""
    return (9, 0) if cell is None else (1 + _KINDS.index(FAMILIES[kind_of(cell)]), comparable(cell))


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


def find_rows(question: Question, engine: Engine[Any], limits: Limits, deadline: Deadline) -> FoundRows:
    """The rows of a question that shows values, counts, or wants to know whether there is any answer."""
    tree = question.tree
    if tree.form == "ask":
        only = "observed" if limits.ask_threshold is None else limits.only
        return _find_rows(question, engine, replace(limits, k=1, offset=0, only=only), deadline)
    if tree.form != "count":
        return _find_rows(question, engine, limits, deadline)
    everything = replace(limits, k="all", offset=0)
    if len(question.readings) == 1 and ColumnReader(0, question).is_plain:
        # millions of tuples that are only counted need not become rows
        ranking = question.readings[0].rank(question.source, engine, everything, deadline)
        names = tuple(column.name for column in question.readings[0].reading.columns)
        found = FoundRows(names, ranking, [ranking], columns=tuple(range(len(names))))
    else:
        found = _find_rows(question, engine, everything, deadline)
    none, name = np.zeros(0, np.int64), tree.counted or "count"
    ranking, rankings = found.ranking.take(none), [ranking.take(none) for ranking in found.rankings]
    if limits.k == 0 or limits.offset > 0:
        return FoundRows((name,), replace(ranking, bound=1.0), rankings, none, ([],), hides_count=True)
    columns: tuple[int | list[Cell], ...] = tuple([c if isinstance(c, int) else [] for c in found.columns or ()])
    truth = found.ranking.truth
    count = AnswerCount(name, len(truth), float(truth.sum()), ranking.pruned is None)
    return FoundRows(found.names, ranking, rankings, none, columns, count)


def _find_rows(question: Question, engine: Engine[Any], limits: Limits, deadline: Deadline) -> FoundRows:
    """The rows of a question: as many tuples are asked for as it takes."""
    source, readings = question.source, [bound.reading for bound in question.readings]
    if not readings:
        names = tuple(c.name for c in question.tree.shown) or tuple(v.name for v in question.tree.free)
        return FoundRows(names, nothing(0), [], np.zeros(0, np.int64), tuple([[] for _ in names]))
    # An order is about all answers where none is truer than another; else about those that are shown.
    everything = limits.k == "all" or (bool(readings[0].order) and not engine.needs_truth)
    wanted = None if everything else limits.count(1 << 62)
    # which columns hold entities in every reading
    entities = [
        all(isinstance(c.what, Free) for c in same) for same in zip(*(r.columns for r in readings), strict=True)
    ]
    readers = [ColumnReader(number, question) for number in range(len(readings))]
    rank = source.graph.entities.sort_rank
    in_turn = all(map(_in_turn, readings))
    size = wanted
    while True:
        tuples: Limits = replace(limits, k="all" if size is None else size, offset=0)
        rankings = [bound.rank(source, engine, tuples, deadline) for bound in question.readings]
        found: list[AnswerRow] = []
        for number, (reader, ranking) in enumerate(zip(readers, rankings, strict=True)):
            rows, read = reader.rows(ranking, entities, deadline)
            found += rows
            if read < len(ranking.tuples):
                rankings[number] = replace(ranking.first(read), exact=False, pruned="timeout")
        rows = drop_doubles(found, lambda entity: int(rank[entity]), entities)
        more = [ranking for ranking in rankings if size is not None and len(ranking.tuples) >= size]
        if not more or wanted is None or deadline.over():
            break
        if len(rows) >= wanted and (in_turn or all(rows[wanted - 1].truth > ranking.truth[-1] for ranking in more)):
            break  # with ties, further tuples might show what comes first
        size = 4 * (size or 1)
    return _cut(rows, rankings, readings[0], limits, entities, not everything)


def _in_turn(reading: Reading) -> bool:
    """Whether rows come in the order of their tuples: the first columns are the variables."""
    columns = [column.what for column in reading.columns if not isinstance(column.what, Name)]
    return tuple(columns[: len(reading.free)]) == reading.free


def _cut(
    rows: list[AnswerRow],
    rankings: list[Ranking],
    reading: Reading,
    limits: Limits,
    entities: list[bool],
    best_first: bool,
) -> FoundRows:
    """The rows that are shown; with `best_first` the best by truth are chosen before they are put in order."""
    bound = max(ranking.bound for ranking in rankings)
    end = limits.count(len(rows))
    if not best_first:
        rows = sort_rows(rows, reading.order)
    bound = max([bound, *(row.truth for row in rows[end:])])
    rows = rows[limits.offset : end]
    if best_first:
        rows = sort_rows(rows, reading.order)
    taken: list[Ranking] = []
    place = np.zeros(len(rows), np.int64)
    before = 0
    for number, ranking in enumerate(rankings):
        mine = [i for i, row in enumerate(rows) if row.reading == number]
        taken.append(ranking.take(np.array([rows[i].place for i in mine], np.int64)))
        place[mine] = before + np.arange(len(mine))
        before += len(mine)
    names = tuple(column.name for column in reading.columns)
    cells = list(zip(*(row.cells for row in rows), strict=True)) or [()] * len(names)
    at = [j for j, alone in enumerate(entities) if alone]
    tuples = np.array([cells[j] for j in at], np.int32).reshape(len(at), len(rows)).T
    columns = tuple(at.index(j) if alone else list(cells[j]) for j, alone in enumerate(entities))
    truth = np.array([row.truth for row in rows])
    exact = all(ranking.exact for ranking in rankings)
    pruned = next((ranking.pruned for ranking in rankings if ranking.pruned), None)
    return FoundRows(
        names, Ranking(np.ascontiguousarray(tuples), truth, (), exact, bound, pruned), taken, place, columns
    )
