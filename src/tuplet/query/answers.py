"""Answers with names: what users see, print, save and ask for reasons."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput, nearest
from tuplet.files import replacing, write_text
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import NO_PREFIXES, Prefixes, Vocabulary
from tuplet.lang.ast import Form
from tuplet.progress import align_columns, counted, printable, shorten_rows
from tuplet.query import display
from tuplet.query.display import Markup, data_frame, draw_share, html_table, tag
from tuplet.query.ranking import Ranking
from tuplet.query.rows import Cell, Named
from tuplet.query.schema import (
    AnswerCount,
    AnswersDict,
    Evidence,
    Fact,
    Guarantee,
    Provenance,
    Status,
    percent,
    schema_fields,
)
from tuplet.query.witness import Triple, Witnesses

if TYPE_CHECKING:
    import altair
    import pandas
    import pyarrow
    from numpy.typing import NDArray


# values, labels, truth, status, witness: facts by the names of the fields of `Fact`
Parts: TypeAlias = tuple[dict[str, Any], dict[str, str], float, Status | None, list[dict[str, Any]]]


@dataclass(frozen=True, repr=False)
class Answer:
    """One tuple: its values by variable, its truth, what it rests on.

    `answer["drug"]`, `answer.drug` and `answer[0]` are the same name; `tuple(answer)` is the tuple of names.
    """

    values: Mapping[str, Any]  # names of entities and relations, and values of attributes
    labels: Mapping[str, str]
    truth: float
    status: Status | None  # None: the time was up before it was known
    _facts: list[dict[str, Any]]  # the witness, by the names of the fields of `Fact`
    prefixes: Prefixes = NO_PREFIXES  # short forms of names, for people
    missing: tuple[Fact, ...] = ()  # of a given tuple without truth: what would have to hold and does not

    @cached_property
    def witness(self) -> tuple[Fact, ...]:
        """The facts it rests on. Made when asked for: of a list of answers most are read without it."""
        return tuple(Fact(**fact) for fact in self._facts)

    def __getitem__(self, variable: str | int) -> Any:
        return self.values[variable] if isinstance(variable, str) else tuple(self.values.values())[variable]

    def __getattr__(self, variable: str) -> Any:
        try:
            return self.__dict__["values"][variable]
        except KeyError:
            raise AttributeError(f"an answer has no {variable!r}") from None

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values.values())

    def __len__(self) -> int:
        return len(self.values)

    def explain(self) -> Explanation:
        """The facts it rests on, observed or predicted, with their truth; prints as text, shows as HTML."""
        return Explanation(self)

    def to_dict(self) -> dict[str, Any]:
        """The answer in the JSON schema."""
        return row(dict(self.values), dict(self.labels), self.truth, self.status, [dict(fact) for fact in self._facts])

    def __repr__(self) -> str:
        return f"<Answer: {self._in_words()}; truth {percent(self.truth)}, {self.status or 'status not known'}>"

    def _in_words(self) -> str:
        """The tuple for people: each variable with its value."""
        cells = show_cells(self.values, self.labels, self.prefixes)
        return ", ".join(f"{variable} = {cell}" for variable, cell in zip(self.values, cells, strict=True))

    def _repr_html_(self) -> str:
        return self.explain()._repr_html_()


def row(
    values: dict[str, Any], labels: dict[str, str], truth: float, status: Status | None, witness: list[dict[str, Any]]
) -> dict[str, Any]:
    """An answer in the JSON schema."""
    for fact in witness:
        if fact["evidence"] is not None:
            fact["evidence"] = [evidence.to_dict() for evidence in fact["evidence"]]
    shown = {name: value if isinstance(value, str) else json_value(value) for name, value in values.items()}
    return {"values": shown, "labels": labels, "truth": truth, "status": status, "witness": witness}


@dataclass(frozen=True)
class Explanation:
    """The reason for one answer."""

    answer: Answer

    @property
    def title(self) -> str:
        """The tuple, its truth and its status."""
        answer = self.answer
        if not answer.truth:
            return f"{answer._in_words()}   truth 0: no facts, stated or predicted, make it true"
        return f"{answer._in_words()}   truth {percent(answer.truth)}, {answer.status or 'status not known'}"

    def __str__(self) -> str:
        facts, short = self.answer.witness, self.answer.prefixes.short
        several = len({fact.clause for fact in facts}) > 1
        rows = [[f"{fact.kind:<10}", short(fact.labelled()), percent(fact.truth)] for fact in facts]
        if several:
            rows = [[f"clause {fact.clause + 1}", *row] for fact, row in zip(facts, rows, strict=True)]
        shown = [printable(self.title)]
        shown += [f"  missing     {printable(short(fact.labelled()))}" for fact in self.answer.missing]
        for fact, line in zip(facts, align_columns(rows), strict=True):
            shown += [f"  {line}", *(f"      {printable(short(text))}" for text in format_evidence(fact))]
        return "\n".join(shown)

    def to_dict(self) -> dict[str, Any]:
        """The answer with its witness in the JSON schema."""
        return self.answer.to_dict()

    def _repr_html_(self) -> str:
        short, rows = self.answer.prefixes.short, []
        for fact in self.answer.witness:
            lines = [
                tag("code", short(fact.labelled())),
                *(tag("small", short(text)) for text in format_evidence(fact)),
            ]
            rows.append([fact.kind, Markup("<br>".join(lines)), draw_share(percent(fact.truth), fact.truth)])
        rows += [["missing", tag("code", short(fact.labelled())), "0"] for fact in self.answer.missing]
        return html_table(["", "fact", "truth"], rows, self.title)


def format_evidence(fact: Fact) -> list[str]:
    """Evidence for a predicted fact, line by line; none if it was not asked for."""
    if fact.evidence is None:
        return []
    found = [str(evidence) for evidence in fact.evidence] or ["no stated fact speaks for it"]
    if fact.lift is not None:
        found.append(f"{fact.lift:,.{0 if fact.lift >= 10 else 1}f} times as likely as chance")
    return found


def show_cells(values: Mapping[str, Any], labels: Mapping[str, str], prefixes: Prefixes) -> list[str]:
    """The values of an answer for people."""
    return [prefixes.short(show_cell(value, labels[name])) for name, value in values.items()]


def show_cell(value: Any, label: str) -> str:
    """A value or an entity for people.

    >>> show_cell(30, ""), show_cell("Q60", "New York"), show_cell(None, ""), show_cell(datetime.date(1990, 5, 1), "")
    ('30', 'New York <Q60>', '', '1990-05-01')
    """
    if isinstance(value, str):
        return show_entity(value, label)
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(json_value(value))


def json_value(value: Any) -> Any:
    """A value as JSON has it: dates as ISO 8601 writes them."""
    return value.isoformat() if isinstance(value, datetime.date) else value


def show_entity(name: str, label: str) -> str:
    """An entity for people: its label, and its name too where the label does not tell it.

    >>> show_entity("new_york", "New York"), show_entity("Q60", "New York"), show_entity("Q60", "")
    ('New York', 'New York <Q60>', 'Q60')
    """
    if not label or label == name:
        return name
    same = "".join(filter(str.isalnum, label)).casefold() == "".join(filter(str.isalnum, name)).casefold()
    return label if same else f"{label} <{name}>"


# What a cell begins with that a spreadsheet takes for a formula.
_FORMULA = r"^[=+@\t\r-]"


def csv_text(table: pyarrow.Table, safe: bool = False) -> str:
    """A table with a header; `safe` puts an apostrophe before texts that would be formulas.

    >>> import pyarrow
    >>> table = pyarrow.table({"x": ["=1+1", "a"], "truth": [-0.5, 1.0]})
    >>> print(csv_text(table, safe=True))
    "x","truth"
    "'=1+1",-0.5
    "a",1
    <BLANKLINE>
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv

    def made_safe(texts: Any) -> Any:
        return pc.replace_substring_regex(texts, _FORMULA, r"'\0") if safe and pa.types.is_string(texts.type) else texts

    # CSV has no dictionaries
    columns = [c.cast(pa.string()) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    columns, names = list(map(made_safe, columns)), made_safe(pa.array(table.column_names, pa.string())).to_pylist()
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(pa.table(columns, names), sink)
    return bytes(sink.getvalue()).decode()


def _dictionary(ids: NDArray[np.int32], words: Callable[[list[int]], list[str]]) -> pyarrow.Array:
    """The words of entities, each read once."""
    import pyarrow as pa

    distinct, index = np.unique(ids, return_inverse=True)
    # Two entities may share a label (or have none), but a dictionary lists each word once.
    return pa.array(words(distinct.tolist()), pa.string()).dictionary_encode().take(pa.array(index, pa.int32()))


def slim(answers: Answers) -> Answers:
    """The same answers on a graph of no facts that has only the names they need."""
    ranking, found, graph = answers.ranking, answers.witnesses, answers.graph
    keys = np.array(list(answers.evidence), dtype=np.int64).reshape(-1, 3)
    arrays: list[NDArray[Any]] = [ranking.tuples, found.heads, found.tails, keys[:, ::2]]
    used = np.unique(np.concatenate([array.ravel() for array in arrays]))
    used = used[used >= 0]
    relations = np.unique(np.array([edge.relation for edge in found.edges], dtype=np.int64))

    def number(ids: NDArray[Any]) -> NDArray[np.int32]:
        return np.where(ids >= 0, np.searchsorted(used, ids), ids).astype(np.int32)

    entities, names = (
        Vocabulary.from_names(known.names(ids), [known.label(int(i)) for i in ids])
        for known, ids in ((graph.entities, used), (graph.relations, relations))
    )
    empty = np.zeros(0, np.int32)
    notes = {"prefixes": known} if (known := graph.notes.get("prefixes")) else {}
    edges = tuple(edge._replace(relation=int(np.searchsorted(relations, edge.relation))) for edge in found.edges)
    keys[:, ::2], keys[:, 1] = number(keys[:, ::2]), np.searchsorted(relations, keys[:, 1])
    return replace(
        answers,
        ranking=replace(ranking, tuples=number(ranking.tuples), assignments=()),
        witnesses=replace(found, edges=edges, heads=number(found.heads), tails=number(found.tails)),
        graph=KnowledgeGraph.from_edges(entities, names, empty, empty, empty, notes=notes),
        evidence={(h, r, t): why for (h, r, t), why in zip(keys.tolist(), answers.evidence.values(), strict=True)},
        rates=[answers.rates[old] for old in relations] if len(answers.rates) else (),
    )


FORMATS = ("table", "json", "csv", "parquet")
ENDINGS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".txt": "table"}
INTERRUPTIONS = ("timeout", "memory", "work")  # limits that end a search before it is done
_HEAD = tuple(name for name, (_, always) in schema_fields(AnswersDict).items() if always and name != "answers")

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
    evidence: Mapping[Triple, tuple[Evidence, ...] | None]  # for predicted facts; None where the time was up
    crisp: NDArray[np.int8]  # [n] whether the stated facts alone give the tuple: 1, 0, or -1 where it is not known
    elapsed_ms: float
    provenance: Provenance
    rates: Sequence[float] = ()  # of each relation its base rate, where truth is calibrated
    columns: tuple[int | list[Cell], ...] | None = None  # of each variable its place in a tuple, or its values
    form: Form = "select"
    number: AnswerCount | None = None  # of a query that counts: then no tuple is shown
    with_witness: bool = True  # whether the facts that a tuple rests on are shown

    @property
    def exact(self) -> bool:
        """Whether the order shown is provably the order over all tuples, ties aside."""
        return bool(self.ranking.exact)

    @property
    def bound(self) -> float:
        """An upper bound on the truth of every tuple that is not shown."""
        return self.ranking.bound

    @property
    def holds(self) -> bool | None:
        """Of a query that asks whether there is an answer: whether there is; None if a limit came first."""
        if self.form != "ask":
            return None
        threshold = self.provenance.limits.ask_threshold or 0.0
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
        return None if self.provenance.origin is None else self.provenance.origin.calibrated

    @property
    def stale(self) -> float | None:
        """The share of the facts that changed since the truth values were made, where it is more than a tenth."""
        return None if self.provenance.origin is None else self.provenance.origin.stale

    @property
    def guarantee(self) -> Guarantee | None:
        """What is promised of the list, where `confidence` or `max_false` asked for a promise."""
        return self.provenance.guarantee

    def __len__(self) -> int:
        return len(self.ranking.tuples)

    @overload
    def __getitem__(self, index: int) -> Answer: ...
    @overload
    def __getitem__(self, index: slice) -> list[Answer]: ...
    def __getitem__(self, index: int | slice) -> Answer | list[Answer]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"answer {index} of {len(self)}")
        place = index % len(self)
        return Answer(*next(self._parts(place, place + 1)), self.graph.prefixes)

    def __iter__(self) -> Iterator[Answer]:
        return (Answer(*parts, self.graph.prefixes) for parts in self._parts(0, len(self)))

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[dict[str, Any]]:
        """Answers in the JSON schema, one by one."""
        return (row(*parts) for parts in self._parts(start, len(self) if stop is None else stop))

    def _parts(self, start: int, stop: int) -> Iterator[Parts]:
        found, relations, span = self.witnesses, self.graph.relations, slice(start, stop)
        tuples = self.ranking.tuples[span].tolist()
        # one list for each atom, which is quicker than one for each answer
        atoms = [column[span].T.tolist() if self.with_witness else [] for column in found.arrays]
        name, label = self._words(*tuples, *atoms[0], *atoms[1])
        seek = self.evidence.get if self.evidence else None
        facts: list[list[dict[str, Any] | None]] = []
        for clause, (_, number, _, negated), *parts in zip(found.clause, found.edges, *atoms, strict=False):
            relation = relations.name(number)
            rate = self.rates[number] if self.rates and not negated else 0.0
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
                        "evidence": seek((head, number, tail)) if seek and not negated else None,
                        "lift": truth / rate if rate and not stated else None,
                    }
                    if there
                    else None
                    for head, tail, truth, stated, there in zip(*parts, strict=True)
                ]
            )
        columns: Sequence[int | list[Cell]] = range(len(self.variables)) if self.columns is None else self.columns
        rows = zip(*facts, strict=True) if facts else ((),) * len(tuples)
        truths = self.ranking.truth[span].tolist()
        for status, ids, joint, row_facts in zip(self._statuses[span], tuples, truths, rows, strict=True):
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
    def _statuses(self) -> list[Status | None]:
        return self.witnesses.statuses(self.crisp)

    @property
    def about(self) -> dict[str, Any]:
        """What you need to repeat the answers, in the JSON schema."""
        return self.provenance.to_dict()

    def head(self) -> dict[str, Any]:
        """The JSON schema without the answers: what was asked, and what is known of the rest."""
        found = {name: getattr(self, name) for name in _HEAD}
        if self.form == "ask":
            found["boolean"] = self.holds
        if self.number is not None:
            found["count"] = asdict(self.number)
        return found | {"variables": list(self.variables)}

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
        columns, more, entities = dict[str, Any](), dict[str, Any](), self.graph.entities
        places = range(len(self.variables)) if self.columns is None else self.columns
        for variable, place in zip(self.variables, places, strict=True):
            if isinstance(place, int):
                columns[variable] = _dictionary(self.ranking.tuples[:, place], entities.names)
                if entities.labelled:  # where nothing has a label, a column of them says nothing
                    more[f"{variable}_label"] = _dictionary(self.ranking.tuples[:, place], entities.labels_of)
                continue
            plain = [str(value) if isinstance(value, Named) else value for value in place]
            try:
                columns[variable] = pa.array(plain)
            except (pa.ArrowInvalid, pa.ArrowTypeError):  # values of several types
                cells = [None if value is None else show_cell(value, "") for value in plain]
                columns[variable] = pa.array(cells, pa.string())
        more |= {"truth": pa.array(self.ranking.truth), "status": pa.array(self._statuses, pa.string())}
        for name, column in more.items():
            while name in columns:  # a variable is called so
                name += "_"
            columns[name] = column
        return pa.table(columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table of `to_arrow` for any library that takes Arrow data: `polars.DataFrame(answers)`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

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
            return "\n".join([*align_columns(self.number.rows()), self.summary()])
        head, rows, gap = self._shown(most)
        lines = align_columns([["#", *head], *([str(i + 1), *cells] for i, cells in rows)])
        if gap:
            lines.insert(FIRST + 1, f"… {gap:,} more …")
        return "\n".join([*lines, self.summary()])

    def _shown(self, most: int | None) -> tuple[list[str], list[tuple[int, list[str]]], int]:
        """Header, rows with their numbers (offset included), and how many lie between the first and the last."""
        number = len(self)
        first, last = shorten_rows(number, number if most is None else most, FIRST, LAST)
        rows = [
            (self._offset + i, [*show_cells(values, labels, self.graph.prefixes), percent(truth), status or "?"])
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
        engine = f"(engine {self.engine})"
        if self.number is not None:
            found = f"{self.number} {engine}"
        elif self.form == "ask":
            holds = "yes" if self.holds else f"not known: {self.pruned}" if self.holds is None else "no"
            found = f"{holds} {engine}; {self._rest()}"
        elif self.exact and not len(self) and not self.bound:
            skipped = f" after the first {self._offset:,}" if self._offset else ""
            found = f"no answers{skipped}: no {self._others('')}tuple has any truth{self._where()} {engine}"
        else:
            found = f"{counted(len(self), 'answer')}, {self._order()} {engine}; {self._rest()}"
        parts = [found, f"{self.elapsed_ms:.1f} ms"]
        if self.guarantee is not None:
            parts.append(self.guarantee.words())
        origin = self.provenance.origin
        reason = None if origin is None else origin.not_calibrated
        if self.calibrated is False:
            parts.append(f"truth values are not calibrated{f': {reason}' if reason else ''}")
        elif reason:
            parts.append(f"nothing is predicted: {reason}")
        if self.stale is not None:
            made = f"the truth values were {'calibrated' if self.calibrated else 'made'} before"
            parts.append(
                f"{made} {100 * self.stale:.0f} % of the facts changed; build again (tuplet build, tuplet index)"
            )
        parts += map(self.graph.prefixes.short, self.provenance.hints)
        if origin is not None and origin.rows_computed is not None:
            share = f"{100 * origin.rows_computed:.0f} %"
            parts.append(f"{share} of the rows were computed in the time given: more may be true")
        if origin is not None and origin.waiting:
            entities = counted(origin.waiting, "new entity", "new entities")
            parts.append(f"nothing is predicted yet about {entities} (tuplet update)")
        return " · ".join(parts)

    def _order(self) -> str:
        if self.exact:
            return "order proven" if not self.pruned else f"order proven, but not every status is known: {self.pruned}"
        if self.pruned in INTERRUPTIONS:
            limit = self.provenance.limits.timeout
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
        origin = self.provenance.origin
        return "" if origin is None or origin.rows_computed is None else " in the store"

    def _others(self, other: str = "other ") -> str:
        """The tuples that a claim about the rest is about: those behind the ones shown, of those that `only` keeps."""
        limits = self.provenance.limits
        only = limits.only if self.form != "ask" or limits.ask_threshold else "observed"
        return ("later " if self._offset else other) + (f"{only} " if only else "")

    @property
    def _offset(self) -> int:
        return self.provenance.limits.offset

    def plot(self, most: int = 20) -> altair.Chart:
        """The first answers as bars of truth, coloured by status (extra `plots`)."""
        rows = [
            {
                "answer": f"{place}  {' · '.join(show_cells(answer.values, answer.labels, answer.prefixes))}",
                "truth": answer.truth,
                "status": answer.status or "not known",
            }
            for place, answer in enumerate(self[:most], self._offset + 1)
        ]
        return display.bars(rows, self.query)

    def plot_ranks(self) -> altair.LayerChart:
        """Truth against rank, and the bound that no tuple further down exceeds (extra `plots`)."""
        ranked = enumerate(zip(self.ranking.truth.tolist(), self._statuses, strict=True), self._offset + 1)
        points = [{"rank": i, "truth": truth, "status": status or "not known"} for i, (truth, status) in ranked]
        return display.ranks(points, self.bound, self.query)

    def _repr_html_(self) -> str:
        if self.number is not None:
            head, *rows = self.number.rows()
            return html_table(head, rows) + tag("p", self.summary())
        head, shown, gap = self._shown(MOST)
        lines = [
            [*cells[:-2], draw_share(cells[-2], float(self.ranking.truth[i - self._offset])), cells[-1]]
            for i, cells in shown
        ]
        if gap:
            lines.insert(FIRST, [f"… {gap:,} more …"])
        return html_table(head, lines) + tag("p", self.summary())

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the graph: a pickle holds the names that occur, whatever the size of the store.
        slender = self if self.graph is None else slim(self)
        return Answers, tuple(getattr(slender, f.name) for f in fields(Answers))
