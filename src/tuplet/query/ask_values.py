"""Answers that show more than entities: values, relations, numbers of answers, yes or no.

Tuples become rows, rows of several readings are merged, and rows that show the same are one. So the engine may have to
be asked for more tuples than rows are wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.lang.ast import Name, Order
from tuplet.query.answers import AnswerCount, Answers
from tuplet.query.bind import ConditionBinder, resolve
from tuplet.query.engine import Engine
from tuplet.query.evidence import find_evidence
from tuplet.query.interpretations import Reading
from tuplet.query.limits import Deadline, Limits
from tuplet.query.loose import is_loose, loose_ranking
from tuplet.query.question import BoundReading, Question
from tuplet.query.ranking import Ranking, nothing
from tuplet.query.source import Source
from tuplet.query.status import Judge, about, status
from tuplet.query.value_columns import AnswerRow, Cell, ColumnReader, distinct, entity_columns, in_order
from tuplet.query.witness import Witnesses


def ask_values(
    question: Question, engine: Engine[Any], judge: Judge, limits: Limits, deadline: Deadline, start: float
) -> Answers:
    """The answers of a question that shows values, counts, or wants to know whether there is any."""
    source, tree = question.source, question.tree
    wanted = limits
    if tree.form == "ask":
        wanted = replace(limits, k=1, offset=0, only="observed" if limits.ask_threshold is None else limits.only)
    elif tree.form == "count":
        wanted = replace(limits, k="all", offset=0)
    found = find_rows(question, engine, wanted, deadline)
    count = None
    if tree.form == "count":
        count = AnswerCount(tree.counted or "count", found.number, found.expected, found.pruned is None)
        found = found.emptied()
    # The number is one row, which LIMIT 0 and OFFSET 1 leave out.
    unseen = count is not None and (limits.k == 0 or limits.offset > 0)
    if count is not None and unseen:
        found = replace(found, names=(count.name,), columns=([],), bound=1.0)
    parts: list[tuple[Ranking, Witnesses, NDArray[np.int8]]] = []
    pruned = found.pruned
    for bound, ranking in zip(question.readings, found.rankings, strict=True):
        witnesses = Witnesses.of(ranking, bound.clauses, source, stated=not engine.needs_truth)
        crisp, late = status(witnesses, ranking, bound.clauses, source, engine, judge, limits.memory, deadline)
        parts.append((ranking, witnesses, crisp))
        pruned = pruned or late
    witnesses = Witnesses.merged([part for _, part, _ in parts], found.order)
    evidence = find_evidence(witnesses, source, deadline) if limits.evidence and limits.witness else {}
    if evidence and deadline.over():
        pruned = "timeout"
    crisp = np.concatenate([np.zeros(0, np.int8), *(part for _, _, part in parts)])[found.order]
    truth = np.array([row.truth for row in found.rows])
    ranking = Ranking(found.tuples, truth, (), found.exact, found.bound, pruned)
    return Answers(
        query=question.text,
        variables=found.names,
        engine=engine.name,
        k=None if limits.k == "all" else limits.k,
        ranking=ranking,
        witnesses=witnesses,
        graph=source.graph,
        crisp=crisp,
        evidence=evidence,
        rates=source.base_rates if engine.needs_truth else (),
        with_witness=limits.witness,
        elapsed_ms=round(1000 * (deadline.worked() - start), 3),
        # where a relation is a variable, that an entity does not fit one of its choices is no slip
        about=about(source, engine, limits, question.clauses if len(question.readings) == 1 else ()),
        columns=found.columns,
        form="select" if unseen else tree.form,
        number=None if unseen else count,
    )


@dataclass(frozen=True)
class FoundRows:
    """The rows to show, and the tuples they come from."""

    names: tuple[str, ...]  # of the columns
    rows: list[AnswerRow]
    rankings: list[Ranking]  # for each reading the tuples of its rows
    order: NDArray[np.int64]  # of each row its place among the tuples of all readings
    columns: tuple[int | list[Cell], ...]  # for each column its place in a tuple, or its values
    tuples: NDArray[np.int32]  # [n, columns of entities]
    exact: bool
    bound: float
    pruned: str | None
    number: int = 0  # of all rows
    expected: float = 0.0  # the sum of their truth

    def emptied(self) -> FoundRows:
        """The same without its rows."""
        none = np.zeros(0, np.int64)
        columns: tuple[int | list[Cell], ...] = tuple(
            column if isinstance(column, int) else [] for column in self.columns
        )
        rankings = [ranking.take(none) for ranking in self.rankings]
        return replace(self, rows=[], rankings=rankings, order=none, columns=columns, tuples=self.tuples[:0])


def find_rows(question: Question, engine: Engine[Any], limits: Limits, deadline: Deadline) -> FoundRows:
    """The rows of a question: as many tuples are asked for as it takes."""
    source, readings = question.source, question.readings
    if not readings:
        names = tuple(c.name for c in question.tree.shown) or tuple(v.name for v in question.tree.free)
        columns: tuple[int | list[Cell], ...] = tuple([] for _ in names)
        none = np.zeros(0, np.int64)
        return FoundRows(names, [], [], none, columns, np.zeros((0, 0), np.int32), True, 0.0, None)
    shown = [bound.reading.columns for bound in readings]
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
        rankings = [ranked(bound, source, engine, tuples, deadline) for bound in readings]
        if question.tree.form == "count" and len(readers) == 1 and _tuples_are_rows(readers[0]):
            return _all_of(rankings[0], [c.name for c in shown[0]])
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
    return _cut(rows, rankings, order[0], limits, [c.name for c in shown[0]], entities, bound, not everything)


def _in_turn(reading: Reading) -> bool:
    """Whether rows come in the order of their tuples: the first columns are the variables."""
    columns = [column.what for column in reading.columns if not isinstance(column.what, Name)]
    return tuple(columns[: len(reading.free)]) == reading.free


def _tuples_are_rows(reader: ColumnReader) -> bool:
    """Whether each tuple is one row, unlike all others: the columns are its variables, and no value matters."""
    columns, free = [column.what for column in reader.reading.columns], reader.reading.free
    return len(columns) == len(free) and set(columns) == set(free) and not (reader.own or reader.pairs)


def _all_of(ranking: Ranking, names: list[str]) -> FoundRows:
    """Tuples that are only counted: millions of them need not become rows."""
    none = np.zeros(0, np.int64)
    columns: tuple[int | list[Cell], ...] = tuple(range(len(names)))
    number, expected, empty = len(ranking.tuples), float(ranking.truth.sum()), ranking.take(none)
    pruned, exact, bound = ranking.pruned, ranking.exact, ranking.bound
    return FoundRows(tuple(names), [], [empty], none, columns, empty.tuples, exact, bound, pruned, number, expected)


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
    names: list[str],
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
    return FoundRows(
        tuple(names),
        rows,
        taken,
        place,
        columns,
        np.ascontiguousarray(tuples),
        all(ranking.exact for ranking in rankings),
        max([bound, *later]),
        next((ranking.pruned for ranking in rankings if ranking.pruned), None),
        len(rows),
        float(sum(row.truth for row in rows)),
    )


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


def ranked(bound: BoundReading, source: Source, engine: Engine[Any], limits: Limits, deadline: Deadline) -> Ranking:
    """The best tuples of one reading."""
    if not bound.clauses:
        return nothing(len(bound.reading.free))
    if any(not (clause.variables or clause.edges) for clause in bound.clauses):
        # it speaks of named entities alone, whose values are as they should be
        none = np.empty((1, 0), np.int32)
        return Ranking(none, np.ones(1), (none,) * len(bound.clauses), exact=True, bound=0.0)
    if any(map(is_loose, bound.clauses)):
        return loose_ranking(bound.clauses, source, engine, limits, deadline)
    return engine.run(engine.planned(bound.clauses, source, limits), limits, deadline)
