"""Answers with names: what users see, print, save and ask for reasons."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tuplet.errors import BadInput, nearest
from tuplet.files import replacing, write_text
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.ast import Form
from tuplet.progress import aligned, counted, shortened
from tuplet.query import display
from tuplet.query.answer import Answer, Parts, row, show_cell
from tuplet.query.answer_count import AnswerCount
from tuplet.query.arrow_column import arrow_column
from tuplet.query.csv_text import csv_text
from tuplet.query.display import data_frame, html_table, measured, tag
from tuplet.query.evidence import Reason, Triple
from tuplet.query.guarantee import Guarantee
from tuplet.query.ranking import Ranking
from tuplet.query.slim_answers import slim
from tuplet.query.value_columns import Cell
from tuplet.query.witness import Evidence, StatedFact, Status, Witnesses, percent

if TYPE_CHECKING:
    import altair
    import pandas
    import pyarrow
    from numpy.typing import NDArray

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
        """Of a query that asks whether there is an answer: whether there is; None if a limit came first."""
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

    @property
    def guarantee(self) -> Guarantee | None:
        """What is promised of the list, where `confidence` or `max_false` asked for a promise."""
        found = self.about.get("guarantee")
        return None if found is None else Guarantee(**found)

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
        tuples = self.ranking.tuples[span].tolist()
        # one list for each atom, which is quicker than one for each answer
        heads, tails, truths, observed, counts = (
            column[span].T.tolist() if self.with_witness else []
            for column in (found.heads, found.tails, found.truth, found.observed, found.counts)
        )
        name, label = self._words(*tuples, *heads, *tails)
        told = self._evidence if self.evidence else {}
        facts: list[list[dict[str, Any] | None]] = []
        for j in range(len(heads)):
            clause, (_, number, _, negated) = found.clause[j], found.edges[j]
            relation = relations.name(number)
            rate = self.rates[number] if self.rates and not negated else 0.0
            seek = told.get if told and not negated else None
            facts.append(
                [
                    {
                        "clause": clause,
                        "head": name[head],
                        "relation": relation,
                        "tail": name[tail],
                        "negated": negated,
                        "truth": truth,
                        "observed": stated,
                        "head_label": label[head],
                        "tail_label": label[tail],
                        "evidence": seek((head, number, tail)) if seek else None,
                        "lift": truth / rate if rate and not stated else None,
                    }
                    if there
                    else None
                    for head, tail, truth, stated, there in zip(
                        heads[j], tails[j], truths[j], observed[j], counts[j], strict=True
                    )
                ]
            )
        columns: Sequence[int | list[Cell]] = range(len(self.variables)) if self.columns is None else self.columns
        rows = zip(*facts, strict=True) if facts else ((),) * len(tuples)
        for status, ids, joint, row_facts in zip(
            self._statuses[span], tuples, self.ranking.truth[span].tolist(), rows, strict=True
        ):
            witness = [fact for fact in row_facts if fact is not None]
            values: dict[str, Any] = {}
            labels: dict[str, str] = {}
            for variable, column in zip(self.variables, columns, strict=True):
                if isinstance(column, int):
                    values[variable], labels[variable] = name[ids[column]], label[ids[column]]
                else:
                    values[variable], labels[variable] = column[start], ""
            start += 1
            yield values, labels, joint, status, witness

    def _words(self, *ids: list[int]) -> tuple[dict[int, str], dict[int, str]]:
        """Names and labels of entities, each read once: answers repeat them."""
        keys = list(set().union(*ids) - {-1})  # -1 is where there is none
        entities = self.graph.entities
        return (
            dict(zip(keys, entities.names(keys), strict=True)),
            dict(zip(keys, entities.labels_of(keys), strict=True)),
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
                columns[variable] = arrow_column(place)
        for variable, place in zip(self.variables, places, strict=True):
            if isinstance(place, int) and entities.labelled:  # where nothing has a label, a column of them says nothing
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
        first, last = shortened(number, number if most is None else most, FIRST, LAST)
        rows = [
            (
                self._offset + i,
                [*self._cells(values, labels), percent(truth), status or "?"],
            )
            for part in (first, last)
            for i, (values, labels, truth, status, _) in zip(part, self._parts(part.start, part.stop), strict=True)
        ]
        return [*self.variables, "truth", "status"], rows, last.start - first.stop

    def _cells(self, values: Mapping[str, Any], labels: Mapping[str, str]) -> list[str]:
        """The values of an answer for people."""
        return [self.graph.prefixes.short(show_cell(value, labels[name])) for name, value in values.items()]

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
            holds = "yes" if self.holds else f"not known: {self.pruned}" if self.holds is None else "no"
            found = f"{holds} (engine {self.engine}); {self._rest()}"
        elif self.exact and not len(self) and not self.bound:
            skipped = f" after the first {self._offset:,}" if self._offset else ""
            found = (
                f"no answers{skipped}: no {self._others('')}tuple has any truth{self._where()} (engine {self.engine})"
            )
        parts = [found, f"{self.elapsed_ms:.1f} ms"]
        if self.guarantee is not None:
            parts.append(self.guarantee.words())
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
        if (share := self.about.get("rows_computed")) is not None:
            parts.append(f"{100 * share:.0f} % of the rows were computed in the time given: more may be true")
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
            return f"no {self._others()}tuple has any truth{self._where()}"
        if self.exact and len(self) and self.bound >= float(self.ranking.truth[-1]):
            return f"more tuples may share truth {percent(float(self.ranking.truth[-1]))}"
        return f"every {self._others()}tuple ≤ {percent(self.bound)}{self._where()}"

    def _where(self) -> str:
        """What is said of the rest is about the store, which matters where rows are missing in it."""
        return " in the store" if "rows_computed" in self.about else ""

    def _others(self, other: str = "other ") -> str:
        """The tuples that a claim about the rest is about: those behind the ones shown, of those that `only` keeps."""
        only = self.about.get("only")
        only = only if self.form != "ask" or self.about.get("ask_threshold") else "observed"
        return ("later " if self._offset else other) + (f"{only} " if only else "")

    @property
    def _offset(self) -> int:
        return int(self.about.get("offset", 0))

    def plot(self, most: int = 20) -> altair.Chart:
        """The first answers as bars of truth, coloured by status (extra `plots`)."""
        shown = range(min(most, len(self)))
        rows = zip(shown, self._parts(0, len(shown)), strict=True)
        return display.bars(
            [
                {
                    "answer": f"{self._offset + i + 1}  {' · '.join(self._cells(values, labels))}",
                    "truth": truth,
                    "status": status or "not known",
                }
                for i, (values, labels, truth, status, _) in rows
            ],
            self.query,
        )

    def plot_ranks(self) -> altair.LayerChart:
        """Truth against rank, and the bound that no tuple further down exceeds (extra `plots`)."""
        truth, status = self.ranking.truth.tolist(), self._statuses
        points = [
            {"rank": self._offset + i + 1, "truth": truth[i], "status": status[i] or "not known"}
            for i in range(len(self))
        ]
        return display.ranks(points, self.bound, self.query)

    def _repr_html_(self) -> str:
        if self.number is not None:
            head, *rows = self.number.rows()
            return html_table(head, rows) + tag("p", self.summary())
        head, shown, gap = self._shown(MOST)
        lines = [
            [*cells[:-2], measured(cells[-2], float(self.ranking.truth[i - self._offset])), cells[-1]]
            for i, cells in shown
        ]
        if gap:
            lines.insert(FIRST, [f"… {gap:,} more …"])
        return html_table(head, lines) + tag("p", self.summary())

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the graph: a pickle holds the names that occur, whatever the size of the store.
        slender = self if self.graph is None else slim(self)
        return Answers, tuple(getattr(slender, f.name) for f in fields(Answers))
