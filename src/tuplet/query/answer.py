"""One answer with names, and the reason for it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from tuplet.graph.names import NO_PREFIXES, Prefixes
from tuplet.progress import aligned, printable
from tuplet.query.display import Markup, html_table, measured, tag
from tuplet.query.witness import Fact, Status, percent

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

    @staticmethod
    def of(parts: Parts, prefixes: Prefixes = NO_PREFIXES) -> Answer:
        """The answer of its parts."""
        return Answer(*parts, prefixes)

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
        values = ", ".join(f"{variable} = {show(self, variable)}" for variable in self.values)
        return f"<Answer: {values}; truth {percent(self.truth)}, {self.status or 'status not known'}>"

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
        named = ", ".join(f"{variable} = {show(answer, variable)}" for variable in answer.values)
        if not answer.truth:
            return f"{named}   truth 0: no facts, stated or predicted, make it true"
        return f"{named}   truth {percent(answer.truth)}, {answer.status or 'status not known'}"

    def __str__(self) -> str:
        facts = self.answer.witness
        several = len({fact.clause for fact in facts}) > 1
        rows = [
            [
                *([f"clause {fact.clause + 1}"] if several else []),
                f"{fact.kind:<10}",
                self.answer.prefixes.short(fact.labelled()),
                percent(fact.truth),
            ]
            for fact in facts
        ]
        shown = [printable(self.title)]
        shown += [f"  missing     {printable(self.answer.prefixes.short(f.labelled()))}" for f in self.answer.missing]
        for fact, line in zip(facts, aligned(rows), strict=True):
            shown += [f"  {line}", *(f"      {printable(self.answer.prefixes.short(text))}" for text in told(fact))]
        return "\n".join(shown)

    def to_dict(self) -> dict[str, Any]:
        """The answer with its witness in the JSON schema."""
        return self.answer.to_dict()

    def _repr_html_(self) -> str:
        short = self.answer.prefixes.short
        rows = [
            [
                fact.kind,
                Markup(
                    "<br>".join([tag("code", short(fact.labelled())), *(tag("small", short(t)) for t in told(fact))])
                ),
                measured(percent(fact.truth), fact.truth),
            ]
            for fact in self.answer.witness
        ]
        rows += [["missing", Markup(tag("code", short(f.labelled()))), "0"] for f in self.answer.missing]
        return html_table(["", "fact", "truth"], rows, self.title)


def told(fact: Fact) -> list[str]:
    """What speaks for a predicted fact, line by line; nothing where nobody asked."""
    if fact.evidence is None:
        return []
    said = [str(evidence) for evidence in fact.evidence] or ["no stated fact speaks for it"]
    return (
        said
        if fact.lift is None
        else [*said, f"{fact.lift:,.{0 if fact.lift >= 10 else 1}f} times as likely as chance"]
    )


def show(answer: Answer, variable: str) -> str:
    """An entity for people: its label, and its name too where the label does not tell it."""
    return answer.prefixes.short(show_cell(answer.values[variable], answer.labels[variable]))


def show_cell(value: Any, label: str) -> str:
    """A value or an entity for people.

    >>> show_cell(30, ""), show_cell("Q60", "New York"), show_cell(None, ""), show_cell(datetime.date(1990, 5, 1), "")
    ('30', 'New York <Q60>', '', '1990-05-01')
    """
    if isinstance(value, str):
        return show_entity(value, label)
    return "" if value is None else str(json_value(value)) if not isinstance(value, bool) else str(value).lower()


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
