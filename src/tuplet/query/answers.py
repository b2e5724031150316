"""Answers with names: what users see, print, save and ask for reasons."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tuplet.errors import BadInput, nearest
from tuplet.files import replacing, write_text
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.lang.ast import Form
from tuplet.listing import data_frame
from tuplet.query.answer import Answer, Parts, row, show_cell
from tuplet.query.csv_text import csv_text
from tuplet.query.evidence import Reason, Triple
from tuplet.query.ranking import Ranking
from tuplet.query.value_columns import Cell, Named
from tuplet.query.witness import Evidence, StatedFact, Status, Witnesses, percent
from tuplet.text_table import aligned, counted, shortened

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from numpy.typing import NDArray

_YES_OR_NO = {True: "yes", False: "no", None: "not known: the time was up"}
FORMATS = ("table", "json", "csv", "parquet")
ENDINGS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".txt": "table"}
INTERRUPTIONS = ("timeout", "memory", "work")  # limits that end a search before it is done

# More answers than MOST are shown by the first and the last ones, as a data frame shows its rows.
MOST, FIRST, LAST = 60, 20, 5


@dataclass(frozen=True, repr=False)
class Answers(Sequence[Answer]):
    """The ranked answers of one query, and what is known of the tuples that are not shown."""

    query: str
    variables: tuple[str, ...]
    engine: str
    k: int | None
    ranking: Ranking
    witnesses: Witnesses
    graph: KnowledgeGraph
    evidence: Mapping[Triple, tuple[Reason, ...] | None]  # for predicted facts; None where the time was up
    crisp: NDArray[np.int8]  # [n] whether the stated facts alone give the tuple: 1, 0, or -1 where it is not known
    elapsed_ms: float
    about: Mapping[str, Any]  # version, hashes, threshold, limits: what a reader needs to repeat this
    rates: Sequence[float] = ()  # of each relation its base rate, where truth is calibrated
    columns: tuple[int | list[Cell], ...] | None = None  # of each variable its place in a tuple, or its values
    form: Form = "select"
    number: AnswerCount | None = None  # of a query that counts: then no tuple is shown
    with_witness: bool = True  # whether the facts that a tuple rests on are shown

    @property
    def exact(self) -> bool:
        """Whether the order shown is provably the order over all tuples, ties aside."""
        return self.ranking.exact

    @property
    def bound(self) -> float:
        """An upper bound on the truth of every tuple that is not shown."""
        return self.ranking.bound

    @property
    def holds(self) -> bool | None:
        """Of a query that asks whether there is an answer: whether there is; None if the time was up before."""
        if self.form != "ask":
            return None
        threshold = self.about.get("ask_threshold", 0.0)
        if len(self) and self.ranking.truth[0] >= threshold:
            return True
        return None if self.pruned and self.bound >= threshold else False

    @property
    def pruned(self) -> str | None:
        """What stopped the search early, if anything did."""
        return self.ranking.pruned

    @property
    def calibrated(self) -> bool | None:
        """Whether the truth of what is predicted passed a learned calibration; None where nothing is predicted."""
        return self.about.get("calibrated")

    @property
    def stale(self) -> float | None:
        """The share of the facts that changed since the truth values were made, where it is more than a tenth."""
        return self.about.get("stale")

    def __len__(self) -> int:
        return len(self.ranking.tuples)

    @overload
    def __getitem__(self, index: int) -> Answer: ...
    @overload
    def __getitem__(self, index: slice) -> list[Answer]: ...
    def __getitem__(self, index: int | slice) -> Answer | list[Answer]:
        if isinstance(index, slice):
            return [self._answer(i) for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"answer {index} of {len(self)}")
        return self._answer(index % len(self))

    def __iter__(self) -> Iterator[Answer]:
        return (Answer.of(parts, self.graph.prefixes) for parts in self._parts(0, len(self)))

    def _answer(self, i: int) -> Answer:
        return Answer.of(next(self._parts(i, i + 1)), self.graph.prefixes)

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[dict[str, Any]]:
        """Answers in the JSON schema, one by one."""
        return (row(*parts) for parts in self._parts(start, len(self) if stop is None else stop))

    def _parts(self, start: int, stop: int) -> Iterator[Parts]:
        found, relations, span = self.witnesses, self.graph.relations, slice(start, stop)
        atoms = [
            (c, e.relation, relations.name(e.relation), e.negated)
            for c, e in zip(found.clause, found.edges, strict=True)
        ]
        if not self.with_witness:
            atoms = []
        told, rates = self._evidence, self.rates
        name, label = self._words(self.ranking.tuples[span], found.heads[span], found.tails[span])
        columns = (found.heads, found.tails, found.truth, found.observed, found.counts)
        lists = (self.ranking.tuples, self.ranking.truth, *(column[:, : len(atoms)] for column in columns))
        for status, ids, joint, *facts in zip(
            self._statuses[span], *(array[span].tolist() for array in lists), strict=True
        ):
            witness = [
                {
                    "clause": clause,
                    "head": name[head],
                    "relation": relation,
                    "tail": name[tail],
                    "negated": negated,
                    "truth": truth,
                    "observed": observed,
                    "head_label": label[head],
                    "tail_label": label[tail],
                    "evidence": told.get((head, number, tail)) if told and not negated else None,
                    "lift": truth / rates[number] if rates and rates[number] and not (observed or negated) else None,
                }
                for (clause, number, relation, negated), head, tail, truth, observed, counts in zip(
                    atoms, *facts, strict=True
                )
                if counts
            ]
            if self.columns is None:
                values: dict[str, Any] = dict(zip(self.variables, [name[i] for i in ids], strict=True))
                labels = dict(zip(self.variables, [label[i] for i in ids], strict=True))
            else:
                values, labels = {}, {}
                for variable, column in zip(self.variables, self.columns, strict=True):
                    values[variable] = name[ids[column]] if isinstance(column, int) else column[start]
                    labels[variable] = label[ids[column]] if isinstance(column, int) else ""
                start += 1
            yield values, labels, joint, status, witness

    def _words(self, *ids: NDArray[np.int32]) -> tuple[dict[int, str], dict[int, str]]:
        """Names and labels of entities, each read once: answers repeat them."""
        distinct = np.unique(np.concatenate([part.ravel() for part in ids]))
        distinct = distinct[np.searchsorted(distinct, 0) :]  # -1 is where there is none
        entities, keys = self.graph.entities, distinct.tolist()
        return (
            dict(zip(keys, entities.names(distinct), strict=True)),
            dict(zip(keys, entities.labels_of(distinct), strict=True)),
        )

    @cached_property
    def _evidence(self) -> dict[Triple, tuple[Evidence, ...] | None]:
        """What speaks for predicted facts, in names."""
        name, label, relation = self.graph.entities.name, self.graph.entities.label, self.graph.relations.name

        def stated(head: int, number: int, tail: int) -> StatedFact:
            return StatedFact(name(head), relation(number), name(tail), label(head), label(tail))

        return {
            fact: None
            if reasons is None
            else tuple(Evidence(r.kind, tuple(stated(*fact) for fact in r.facts), r.weight) for r in reasons)
            for fact, reasons in self.evidence.items()
        }

    @cached_property
    def _statuses(self) -> list[Status | None]:
        return self.witnesses.statuses(self.crisp)

    def head(self) -> dict[str, Any]:
        """The JSON schema without the answers: what was asked, and what is known of the rest."""
        return {
            "query": self.query,
            "variables": list(self.variables),
            "engine": self.engine,
            "k": None if self.k is None else int(self.k),
            "exact": bool(self.exact),
            "bound": self.bound,
            "pruned": self.pruned,
            "calibrated": self.calibrated,
            "stale": self.stale,
            "elapsed_ms": self.elapsed_ms,
            "about": dict(self.about),
            **({"boolean": self.holds} if self.form == "ask" else {}),
            **({"count": asdict(self.number)} if self.number is not None else {}),
        }

    def to_dict(self) -> dict[str, Any]:
        """The JSON schema of an answer."""
        return {**self.head(), "answers": list(self.rows())}

    def to_json(self) -> str:
        """The JSON schema of an answer, as text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1)

    def to_arrow(self) -> pyarrow.Table:
        """One row per tuple: the variables by name, their labels, truth and status; of a count, the two numbers."""
        import pyarrow as pa

        if self.number is not None:
            return pa.table([[self.number.answers], [self.number.expected]], [self.number.name, "expected"])
        columns: dict[str, Any] = {}
        entities = self.graph.entities
        places = range(len(self.variables)) if self.columns is None else self.columns
        for variable, place in zip(self.variables, places, strict=True):
            if isinstance(place, int):
                columns[variable] = self._dictionary(self.ranking.tuples[:, place], entities.name)
            else:
                columns[variable] = _typed(place)
        for variable, place in zip(self.variables, places, strict=True):
            if isinstance(place, int):
                label = self._free_column(f"{variable}_label", columns)
                columns[label] = self._dictionary(self.ranking.tuples[:, place], entities.label)
        columns[self._free_column("truth", columns)] = pa.array(self.ranking.truth)
        columns[self._free_column("status", columns)] = pa.array(self._statuses, pa.string())
        return pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table of `to_arrow` for any library that takes Arrow data: `polars.DataFrame(answers)`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    @staticmethod
    def _free_column(name: str, columns: Mapping[str, Any]) -> str:
        """A column name that no variable took."""
        while name in columns:
            name += "_"
        return name

    @staticmethod
    def _dictionary(ids: NDArray[np.int32], word: Any) -> Any:
        import pyarrow as pa

        distinct, index = np.unique(ids, return_inverse=True)
        # Two entities may share a label (or have none), but a dictionary lists each word once.
        words = pa.array([word(int(i)) for i in distinct], pa.string()).dictionary_encode()
        return words.take(pa.array(index, pa.int32()))

    def to_pandas(self) -> pandas.DataFrame:
        """The table of `to_arrow` as a data frame."""
        return data_frame(self.to_arrow())

    def to_csv(self) -> str:
        """The table of `to_arrow` as CSV text with a header."""
        return csv_text(self.to_arrow())

    def write(self, path: str | os.PathLike[str], form: str | None = None, force: bool = False) -> None:
        """Save as Parquet, CSV, JSON or text table, by the ending of the file or by `form`."""
        target = Path(path)
        form = form or ENDINGS.get(target.suffix, "")
        if form not in FORMATS:
            close = nearest(target.suffix.lstrip("."), ("parquet", "csv", "json", "txt"))
            raise BadInput(
                f"cannot tell the format of {target.name!r}: use .parquet, .csv, .json or .txt"
                + (f"; did you mean .{close[0]}?" if close else "")
            )
        if form == "parquet":
            import pyarrow.parquet

            with replacing(target, force) as fresh:
                pyarrow.parquet.write_table(self.to_arrow(), fresh)
        else:
            text = self.to_csv() if form == "csv" else self.to_json() if form == "json" else self.table(most=None)
            write_text(target, text if text.endswith("\n") else text + "\n", force)

    def table(self, most: int | None = MOST) -> str:
        """The answers as a text table with the summary below; of more than `most` the first and the last ones."""
        if self.number is not None:
            return "\n".join([*aligned(self.number.rows()), self.summary()])
        head, rows, gap = self._shown(most)
        lines = aligned([["#", *head], *([str(i + 1), *cells] for i, cells in rows)])
        if gap:
            lines.insert(FIRST + 1, f"… {gap:,} more …")
        return "\n".join([*lines, self.summary()])

    def _shown(self, most: int | None) -> tuple[list[str], list[tuple[int, list[str]]], int]:
        """Header, rows with their numbers (offset included), and how many lie between the first and the last."""
        number = len(self)
        short = self.graph.prefixes.short
        first, last = shortened(number, number if most is None else most, FIRST, LAST)
        rows = [
            (
                self._offset + i,
                [*(short(show_cell(values[v], labels[v])) for v in values), percent(truth), status or "?"],
            )
            for part in (first, last)
            for i, (values, labels, truth, status, _) in zip(part, self._parts(part.start, part.stop), strict=True)
        ]
        return [*self.variables, "truth", "status"], rows, last.start - first.stop

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<Answers: {self.summary()}>"

    def summary(self) -> str:
        """One line in words: how many, how sure the order is, what is known of the rest, and how long it took."""
        found = f"{counted(len(self), 'answer')}, {self._order()} (engine {self.engine}); {self._rest()}"
        if self.number is not None:
            found = f"{self.number} (engine {self.engine})"
        elif self.form == "ask":
            found = f"{_YES_OR_NO[self.holds]} (engine {self.engine}); {self._rest()}"
        elif self.exact and not len(self) and not self.bound:
            skipped = f" after the first {self._offset:,}" if self._offset else ""
            found = f"no answers{skipped}: no {self._others('')}tuple has any truth (engine {self.engine})"
        parts = [found, f"{self.elapsed_ms:.1f} ms"]
        reason = self.about.get("not_calibrated")
        if self.calibrated is False:
            parts.append(f"truth values are not calibrated{f': {reason}' if reason else ''}")
        elif reason:
            parts.append(f"nothing is predicted: {reason}")
        if self.stale is not None:
            made = f"the truth values were {'calibrated' if self.calibrated else 'made'} before"
            parts.append(
                f"{made} {100 * self.stale:.0f} % of the facts changed; build again (tuplet build, tuplet index)"
            )
        parts += map(self.graph.prefixes.short, self.about.get("hints", []))
        if waiting := self.about.get("waiting"):
            parts.append(
                f"nothing is predicted yet about {counted(waiting, 'new entity', 'new entities')} (tuplet update)"
            )
        return " · ".join(parts)

    def _order(self) -> str:
        if self.exact:
            return "order proven" if not self.pruned else f"order proven, but not every status is known: {self.pruned}"
        if self.pruned in INTERRUPTIONS:
            limit = self.about.get(str(self.pruned))
            return f"best found so far: {self.pruned}{f' {limit:g} s' if self.pruned == 'timeout' and limit else ''}"
        return f"order not proven{f': {self.pruned}' if self.pruned else ''}"

    def _rest(self) -> str:
        if not self.bound:
            return f"no {self._others()}tuple has any truth"
        if self.exact and len(self) and self.bound >= float(self.ranking.truth[-1]):
            return f"more tuples may share truth {percent(float(self.ranking.truth[-1]))}"
        return f"every {self._others()}tuple ≤ {percent(self.bound)}"

    def _others(self, other: str = "other ") -> str:
        """The tuples that a claim about the rest is about: those behind the ones shown, of those that `only` keeps."""
        only = self.about.get("only")
        only = only if self.form != "ask" or self.about.get("ask_threshold") else "observed"
        return ("later " if self._offset else other) + (f"{only} " if only else "")

    @property
    def _offset(self) -> int:
        return int(self.about.get("offset", 0))

    def _repr_html_(self) -> str:
        head, rows, gap = self._shown(MOST)
        lines = ["".join(f"<td>{html.escape(cell)}</td>" for cell in cells) for _, cells in rows]
        if gap:
            lines.insert(FIRST, f'<td colspan="{len(head)}">… {gap:,} more …</td>')
        title = "".join(f"<th>{html.escape(name)}</th>" for name in head)
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        return f"<table><tr>{title}</tr>{body}</table><p>{html.escape(self.summary())}</p>"

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the graph: a pickle holds the names that occur, whatever the size of the store.
        slim = self if self.graph is None else self._slim()
        return Answers, tuple(getattr(slim, f.name) for f in fields(Answers))

    def _slim(self) -> Answers:
        """The same answers on a graph of no facts that has only the names they need."""
        ranking, found = self.ranking, self.witnesses
        arrays = [ranking.tuples, *ranking.assignments, found.heads, found.tails]
        used = np.unique(np.concatenate([array.ravel() for array in arrays]))
        used = used[used >= 0]
        relations = np.unique(np.array([edge.relation for edge in found.edges], dtype=np.int64))

        def number(ids: NDArray[np.int32]) -> NDArray[np.int32]:
            return np.where(ids >= 0, np.searchsorted(used, ids), ids).astype(np.int32)

        edges = tuple(e._replace(relation=int(np.searchsorted(relations, e.relation))) for e in found.edges)
        empty = np.zeros(0, np.int32)
        return replace(
            self,
            ranking=replace(
                ranking, tuples=number(ranking.tuples), assignments=tuple(map(number, ranking.assignments))
            ),
            witnesses=replace(found, edges=edges, heads=number(found.heads), tails=number(found.tails)),
            graph=KnowledgeGraph.of(
                _part(self.graph.entities, used),
                _part(self.graph.relations, relations),
                *(empty, empty, empty),
                notes={"prefixes": known} if (known := self.graph.notes.get("prefixes")) else {},
            ),
            about=dict(self.about),
        )


@dataclass(frozen=True)
class AnswerCount:
    """How many distinct answers there are, and how many of them to expect to be true: the sum of their truth."""

    name: str
    answers: int
    expected: float
    complete: bool  # False: the search was stopped, there are at least so many

    def __str__(self) -> str:
        least = "" if self.complete else "at least "
        return f"{least}{counted(self.answers, 'answer')}; {least}{self.expected:,.6g} of them expected to be true"

    def rows(self) -> list[list[str]]:
        """A small table."""
        return [[self.name, "expected"], [f"{self.answers:,}", f"{self.expected:,.6g}"]]


def _typed(values: list[Cell]) -> Any:
    """Values as an Arrow column of their type; of several types, as text."""
    import pyarrow as pa

    plain = [str(value) if isinstance(value, Named) else value for value in values]
    try:
        return pa.array(plain)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else show_cell(value, "") for value in plain], pa.string())


def _part(words: Vocabulary, ids: NDArray[np.integer]) -> Vocabulary:
    return Vocabulary.of(words.names(ids), [words.label(int(i)) for i in ids])
