"""Answers with names: what users see, print, save and ask for reasons."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tuplet.errors import BadInput, nearest
from tuplet.graph.graph import KnowledgeGraph
from tuplet.query.ranking import Ranking
from tuplet.query.witness import Fact, Status, Witnesses, percent

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from numpy.typing import NDArray

FORMATS = ("table", "json", "csv", "parquet")


@dataclass(frozen=True)
class Answer:
    """One tuple: its values by variable, its truth, what it rests on."""

    values: Mapping[str, str]
    labels: Mapping[str, str]
    truth: float
    status: Status | None  # None: the time was up before it was known
    witness: tuple[Fact, ...]

    def __getitem__(self, variable: str) -> str:
        return self.values[variable]

    def explain(self) -> Explanation:
        """The facts it rests on, observed or predicted, with their truth; prints as text, shows as HTML."""
        return Explanation(self)

    def to_dict(self) -> dict[str, Any]:
        """The answer in the JSON schema."""
        facts = [{name: getattr(fact, name) for name in _FACT_FIELDS} for fact in self.witness]
        return {
            "values": dict(self.values),
            "labels": dict(self.labels),
            "truth": self.truth,
            "status": self.status,
            "witness": facts,
        }


_FACT_FIELDS = ("clause", "head", "relation", "tail", "negated", "truth", "observed")


@dataclass(frozen=True)
class Explanation:
    """The reason for one answer."""

    answer: Answer

    def __str__(self) -> str:
        answer = self.answer
        title = ", ".join(f"{variable} = {show(answer, variable)}" for variable in answer.values)
        lines = [f"{title}   truth {percent(answer.truth)}, {answer.status or 'status not known'}"]
        width = max((len(str(fact)) for fact in answer.witness), default=0)
        several = len({fact.clause for fact in answer.witness}) > 1
        for fact in answer.witness:
            clause = f"clause {fact.clause + 1}  " if several else ""
            lines.append(f"  {clause}{fact.kind:<10}  {fact!s:<{width}}  {percent(fact.truth)}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The answer with its witness in the JSON schema."""
        return self.answer.to_dict()

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{fact.kind}</td><td><code>{html.escape(str(fact))}</code></td><td>{percent(fact.truth)}</td></tr>"
            for fact in self.answer.witness
        )
        title = html.escape(str(self).split("\n", 1)[0])
        return f"<table><caption>{title}</caption><tr><th></th><th>fact</th><th>truth</th></tr>{rows}</table>"


@dataclass(frozen=True)
class Answers(Sequence[Answer]):
    """The ranked answers of one query, and what is known of the tuples that are not shown."""

    query: str
    variables: tuple[str, ...]
    engine: str
    k: int | None
    ranking: Ranking
    witnesses: Witnesses
    graph: KnowledgeGraph
    crisp: NDArray[np.int8]  # [n] whether the stated facts alone give the tuple: 1, 0, or -1 where it is not known
    elapsed_ms: float
    about: Mapping[str, Any]  # version, hashes, threshold, limits: what a reader needs to repeat this

    @property
    def exact(self) -> bool:
        """Whether the order shown is provably the order over all tuples, ties aside."""
        return self.ranking.exact

    @property
    def bound(self) -> float:
        """An upper bound on the truth of every tuple that is not shown."""
        return self.ranking.bound

    @property
    def pruned(self) -> str | None:
        """What stopped the search early, if anything did."""
        return self.ranking.pruned

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
        return (self._answer(i) for i in range(len(self)))

    def _answer(self, i: int) -> Answer:
        name, label = self._words
        relations = self.graph.relations
        ids = self.ranking.tuples[i].tolist()
        facts = tuple(
            Fact(clause, name(head), relations.name(relation), name(tail), negated, truth, observed)
            for clause, head, relation, tail, negated, truth, observed in self.witnesses.steps(i)
        )
        return Answer(
            values={variable: name(entity) for variable, entity in zip(self.variables, ids, strict=True)},
            labels={variable: label(entity) for variable, entity in zip(self.variables, ids, strict=True)},
            truth=float(self.ranking.truth[i]),
            status=self._statuses[i],
            witness=facts,
        )

    @cached_property
    def _words(self) -> tuple[Callable[[int], str], Callable[[int], str]]:
        """Names and labels of entities, each read once: answers repeat them."""
        return cache(self.graph.entities.name), cache(self.graph.entities.label)

    @cached_property
    def _statuses(self) -> list[Status | None]:
        return self.witnesses.statuses(self.crisp)

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[dict[str, Any]]:
        """Answers in the JSON schema, one by one."""
        name, label = self._words
        found, relations, span = self.witnesses, self.graph.relations, slice(start, stop)
        atoms = [(c, relations.name(e.relation), e.negated) for c, e in zip(found.clause, found.edges, strict=True)]
        columns = (found.heads, found.tails, found.truth, found.observed, found.counts)
        lists = (self.ranking.tuples, self.ranking.truth, *columns)
        table = zip(self._statuses[span], *(array[span].tolist() for array in lists), strict=True)
        for status, ids, joint, *facts in table:
            yield {
                "values": dict(zip(self.variables, map(name, ids), strict=True)),
                "labels": dict(zip(self.variables, map(label, ids), strict=True)),
                "truth": joint,
                "status": status,
                "witness": [
                    {
                        "clause": clause,
                        "head": name(head),
                        "relation": relation,
                        "tail": name(tail),
                        "negated": negated,
                        "truth": truth,
                        "observed": observed,
                    }
                    for (clause, relation, negated), head, tail, truth, observed, counts in zip(
                        atoms, *facts, strict=True
                    )
                    if counts
                ],
            }

    def head(self) -> dict[str, Any]:
        """The JSON schema without the answers: what was asked, and what is known of the rest."""
        return {
            "query": self.query,
            "variables": list(self.variables),
            "engine": self.engine,
            "k": None if self.k is None else int(self.k),
            "exact": self.exact,
            "bound": self.bound,
            "pruned": self.pruned,
            "elapsed_ms": self.elapsed_ms,
            "about": dict(self.about),
        }

    def to_dict(self) -> dict[str, Any]:
        """The JSON schema of an answer."""
        return {**self.head(), "answers": list(self.rows())}

    def to_json(self) -> str:
        """The JSON schema of an answer, as text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1)

    def to_arrow(self) -> pyarrow.Table:
        """One row per tuple: the variables by name, their labels, truth and status."""
        import pyarrow as pa

        columns: dict[str, Any] = {}
        for j, variable in enumerate(self.variables):
            columns[variable] = self._dictionary(self.ranking.tuples[:, j], self.graph.entities.name)
        for j, variable in enumerate(self.variables):
            label = self._free_column(f"{variable}_label", columns)
            columns[label] = self._dictionary(self.ranking.tuples[:, j], self.graph.entities.label)
        columns[self._free_column("truth", columns)] = pa.array(self.ranking.truth)
        columns[self._free_column("status", columns)] = pa.array(self._statuses, pa.string())
        return pa.table(columns)

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
        try:
            import pandas as _  # noqa: F401 - only to say clearly when it is missing
        except ModuleNotFoundError:
            raise BadInput("pandas is not installed; pip install 'tuplet[pandas]', or use to_arrow()") from None
        frame = self.to_arrow().to_pandas()
        return frame.astype({name: "str" for name in frame.columns if str(frame[name].dtype) == "category"})

    def to_csv(self) -> str:
        """The table of `to_arrow` as CSV text with a header."""
        import pyarrow as pa
        import pyarrow.csv

        table = self.to_arrow()
        # CSV has no dictionaries; plain strings are quoted where needed.
        plain = pa.table(
            [c.cast(pa.string()) if pa.types.is_dictionary(c.type) else c for c in table.columns], table.column_names
        )
        sink = pa.BufferOutputStream()
        pyarrow.csv.write_csv(plain, sink)
        return bytes(sink.getvalue()).decode()

    def write(self, path: str | os.PathLike[str], form: str | None = None, force: bool = False) -> None:
        """Save as Parquet, CSV, JSON or text table, by the ending of the file or by `form`."""
        target = Path(path)
        form = form or {".parquet": "parquet", ".csv": "csv", ".json": "json", ".txt": "table"}.get(target.suffix, "")
        if form not in FORMATS:
            close = nearest(target.suffix.lstrip("."), ("parquet", "csv", "json", "txt"))
            raise BadInput(
                f"cannot tell the format of {target.name!r}: use .parquet, .csv, .json or .txt"
                + (f"; did you mean .{close[0]}?" if close else "")
            )
        if form == "parquet":
            import pyarrow.parquet

            write_file(target, lambda temporary: pyarrow.parquet.write_table(self.to_arrow(), temporary), force)
        else:
            text = {"csv": self.to_csv, "json": self.to_json, "table": self.__str__}[form]()
            text = text if text.endswith("\n") else text + "\n"
            write_file(target, lambda temporary: Path(temporary).write_text(text, encoding="utf-8"), force)

    def __str__(self) -> str:
        rows = [
            [str(i + 1), *(show(a, v) for v in self.variables), percent(a.truth), a.status or "?"]
            for i, a in enumerate(self)
        ]
        header = ["#", *self.variables, "truth", "status"]
        widths = [max(len(row[j]) for row in [header, *rows]) for j in range(len(header))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in [header, *rows]
        ]
        return "\n".join([*lines, self.summary()])

    def __repr__(self) -> str:
        return f"<Answers: {self.summary()}>"

    def summary(self) -> str:
        """One line: how many, by which engine, exact or not, what is known of the rest."""
        number = f"{len(self):,} answer{'' if len(self) == 1 else 's'}"
        quality = "exact" if self.exact else "not proven exact"
        rest = "nothing more" if self.bound == 0 else f"no other tuple above {percent(self.bound)}"
        stop = f": {self.pruned}" if self.pruned else ""
        return f"{number} · {self.engine} · {quality}{stop} · {rest} · {self.elapsed_ms:.1f} ms"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in (*self.variables, "truth", "status"))
        body = "".join(
            "<tr>"
            + "".join(f"<td>{html.escape(show(answer, variable))}</td>" for variable in self.variables)
            + f"<td>{percent(answer.truth)}</td><td>{answer.status or '?'}</td></tr>"
            for answer in self
        )
        return f"<table><tr>{head}</tr>{body}</table><p>{html.escape(self.summary())}</p>"


def show(answer: Answer, variable: str) -> str:
    """An entity for people: its label, and its name too where the label does not tell it."""
    name, label = answer.values[variable], answer.labels[variable]
    if not label or label == name:
        return name
    same = "".join(filter(str.isalnum, label)).casefold() == "".join(filter(str.isalnum, name)).casefold()
    return label if same else f"{label} <{name}>"


def write_file(path: Path, write: Any, force: bool) -> None:
    """Write a file whole or not at all; parent folders are made, an existing file is kept unless `force`."""
    if path.exists() and not force:
        raise BadInput(f"{path} exists already; --force overwrites it")
    if path.is_dir():
        raise BadInput(f"{path} is a directory, not a file")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(str(temporary))
        os.replace(temporary, path)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)
