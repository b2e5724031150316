"""Answers as SPARQL 1.1 results with a truth variable: JSON, XML, CSV or TSV, as the client likes best."""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from tuplet.query.answers import Answers
from tuplet.query.limits import Deadline
from tuplet.query.value_columns import Named
from tuplet.server.encoding import encode, in_time
from tuplet.server.sparql.base_iri import NO_BASE, BaseIri

XSD = "http://www.w3.org/2001/XMLSchema#"
# By falling preference of ours; the plain types are what scripts send.
MEDIA_TYPES = {
    "application/sparql-results+json": "json",
    "application/json": "json",
    "application/sparql-results+xml": "xml",
    "application/xml": "xml",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
}
CONTENT = {
    "json": "application/sparql-results+json",
    "xml": "application/sparql-results+xml",
    "csv": "text/csv; charset=utf-8",
    "tsv": "text/tab-separated-values; charset=utf-8",
}
_NAMESPACE = "http://www.w3.org/2005/sparql-results#"
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_NOT_IRI = re.compile(r"[\x00-\x20<>\"{}|\\^`]")


@dataclass(frozen=True)
class SparqlResults:
    """Results as bytes, in the form they came to be in, and what is known of the tuples that are not listed."""

    form: str
    body: bytes
    known: Mapping[str, Any] = field(default_factory=dict)

    def headers(self) -> dict[str, str]:
        """What XML, CSV and TSV have no place for."""
        known = {key: self.known.get(key) for key in ("bound", "pruned")}
        said = {f"tuplet-{key}": str(value) for key, value in known.items() if value is not None}
        return {name: value.encode("ascii", "replace").decode() for name, value in said.items()}


def results(
    answers: Answers, deadline: Deadline, form: str = "json", base: BaseIri = NO_BASE, most: float = math.inf
) -> SparqlResults:
    """Answers as SPARQL results; entities are `uri` terms whose value is the IRI of their name."""
    if answers.form == "ask":
        # CSV and TSV have no words for yes and no; JSON does, and clients read what the header says
        return _boolean(bool(answers.holds), form if form in ("json", "xml") else "json")
    if answers.number is not None:
        name, expected = answers.number.name, "expected"
        found = {name: _literal(answers.number.answers), expected: _literal(answers.number.expected)}
        return _table([name, expected], [json.dumps(found).encode()], answers.head(), form)
    variables, truth = answers.variables, free_name("truth", answers.variables)

    def rows(start: int, stop: int) -> Iterator[dict[str, Any]]:
        stop = min(stop, len(answers))
        columns = range(len(variables)) if answers.columns is None else answers.columns
        terms: list[Iterator[Any]] = []
        for column in columns:
            if isinstance(column, int):
                names = answers.graph.entities.names(answers.ranking.tuples[start:stop, column])
                terms.append(_name(name, base) for name in names)
            else:
                terms.append(_term(value, base) for value in column[start:stop])
        for value in answers.ranking.truth[start:stop].tolist():
            row = {variable: next(term) for variable, term in zip(variables, terms, strict=True)}
            row = {variable: term for variable, term in row.items() if term is not None}
            row[truth] = _literal(value)
            yield row

    slices, head = in_time(answers, rows, b",", deadline, most)
    return _table([*variables, truth], slices, head, form)


def _table(variables: list[str], slices: list[bytes], head: dict[str, Any], form: str) -> SparqlResults:
    known = {key: head[key] for key in ("exact", "bound", "pruned")}
    if form == "json":
        # before the results: strict readers (Oxigraph) want nothing after them
        parts = (encode({"vars": variables}), encode(known), b",".join(slices))
        return SparqlResults(form, b'{"head":%b,"tuplet":%b,"results":{"bindings":[%b]}}' % parts, known)
    rows = [row for part in slices for row in json.loads(b"[" + part + b"]")]
    text = _xml(variables, rows) if form == "xml" else _separated(variables, rows, form)
    return SparqlResults(form, text.encode(), known)


def _xml(variables: list[str], rows: list[dict[str, Any]]) -> str:
    head = "".join(f"<variable name={quoteattr(name)}/>" for name in variables)
    listed = []
    for row in rows:
        cells = []
        for name, term in row.items():
            datatype = f" datatype={quoteattr(term['datatype'])}" if "datatype" in term else ""
            value = _NOT_XML.sub("\ufffd", escape(term["value"], {"\r": "&#13;"}))
            cells.append(
                f"<binding name={quoteattr(name)}><{term['type']}{datatype}>{value}</{term['type']}></binding>"
            )
        listed.append(f"<result>{''.join(cells)}</result>")
    body = f"<head>{head}</head><results>{''.join(listed)}</results>"
    return f'<?xml version="1.0"?>\n<sparql xmlns="{_NAMESPACE}">{body}</sparql>\n'


def _separated(variables: list[str], rows: list[dict[str, Any]], form: str) -> str:
    """CSV has plain values; TSV writes terms as SPARQL does."""
    stream = io.StringIO()
    if form == "csv":
        writer = csv.writer(stream, lineterminator="\r\n")
        writer.writerow(variables)
        writer.writerows([_plain(row.get(name)) for name in variables] for row in rows)
        return stream.getvalue()
    lines = ["\t".join(f"?{name}" for name in variables)]
    lines += ["\t".join(_turtle(row.get(name)) for name in variables) for row in rows]
    return "\n".join(lines) + "\n"


def _plain(term: dict[str, str] | None) -> str:
    if term is None:
        return ""
    return f"_:{term['value']}" if term["type"] == "bnode" else term["value"]


def _turtle(term: dict[str, str] | None) -> str:
    if term is None:
        return ""
    value = term["value"]
    if term["type"] == "uri":
        return f"<{_NOT_IRI.sub(lambda odd: f'{chr(92)}u{ord(odd.group()):04X}', value)}>"
    if term["type"] == "bnode":
        return f"_:{value}"
    quoted = json.dumps(value, ensure_ascii=False)
    return f"{quoted}^^<{term['datatype']}>" if "datatype" in term else quoted


def _boolean(holds: bool, form: str) -> SparqlResults:
    word = "true" if holds else "false"
    if form == "json":
        return SparqlResults(form, f'{{"head":{{}},"boolean":{word}}}'.encode())
    body = f"<head/><boolean>{word}</boolean>"
    return SparqlResults(form, f'<?xml version="1.0"?>\n<sparql xmlns="{_NAMESPACE}">{body}</sparql>\n'.encode())


def _name(name: str, base: BaseIri = NO_BASE) -> dict[str, str]:
    """A name as an RDF term; without a base, one that is no IRI stands as it is, for that is how it is asked for.

    >>> _name("_:b0"), _name("DB10243")
    ({'type': 'bnode', 'value': 'b0'}, {'type': 'uri', 'value': 'DB10243'})
    """
    if name.startswith("_:"):
        return {"type": "bnode", "value": name[2:]}
    return {"type": "uri", "value": base.iri(name)}


def _term(value: Any, base: BaseIri) -> dict[str, str] | None:
    """A value as an RDF term; nothing where there is none."""
    if value is None:
        return None
    return _name(value, base) if isinstance(value, Named) else _literal(value)


def _literal(value: Any) -> dict[str, str]:
    """A value as a literal of its type.

    >>> _literal(30), _literal("a")["value"], _literal(datetime.date(1990, 5, 1))["datatype"][-4:]
    ({'type': 'literal', 'datatype': 'http://www.w3.org/2001/XMLSchema#integer', 'value': '30'}, 'a', 'date')
    """
    match value:
        case bool():
            kind, text = "boolean", str(value).lower()
        case int():
            kind, text = "integer", str(value)
        case float():
            kind, text = "double", repr(value)
        case datetime.datetime():
            kind, text = "dateTime", value.isoformat()
        case datetime.date():
            kind, text = "date", value.isoformat()
        case _:
            return {"type": "literal", "value": str(value)}
    return {"type": "literal", "datatype": XSD + kind, "value": text}


def free_name(name: str, taken: tuple[str, ...]) -> str:
    """A variable that the query does not use.

    >>> free_name("truth", ("x", "truth"))
    'truth_'
    """
    while name in taken:
        name += "_"
    return name
