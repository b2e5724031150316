"""Answers as SPARQL 1.1 results with a truth variable: JSON, XML, CSV or TSV, as the client likes best."""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Iterator
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from tuplet.query.answers import Answers
from tuplet.query.limits import Deadline
from tuplet.query.value_columns import Named
from tuplet.serve.encoding import encode, in_time

XSD = "http://www.w3.org/2001/XMLSchema#"
# By falling preference of ours; the plain types are what browsers and scripts send.
MEDIA_TYPES = {
    "application/sparql-results+json": "json",
    "application/json": "json",
    "application/sparql-results+xml": "xml",
    "application/xml": "xml",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
}
_CONTENT = {
    "json": "application/sparql-results+json",
    "xml": "application/sparql-results+xml",
    "csv": "text/csv; charset=utf-8",
    "tsv": "text/tab-separated-values; charset=utf-8",
}
_NAMESPACE = "http://www.w3.org/2005/sparql-results#"


def negotiated(accept: str) -> str | None:
    """The form of results that an Accept header prefers; None if it takes none of ours.

    >>> negotiated(""), negotiated("text/csv;q=0.5, application/xml"), negotiated("*/*"), negotiated("image/png")
    ('json', 'xml', 'json', None)
    """
    if not accept.strip():
        return "json"
    best: tuple[float, int] | None = None
    chosen = None
    for part in accept.split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 0.0
        for place, (media, form) in enumerate(MEDIA_TYPES.items()):
            if quality > 0 and (kind.lower() in (media, "*/*") or kind.lower() == f"{media.split('/')[0]}/*"):
                rank = (quality, -place)
                if best is None or rank > best:
                    best, chosen = rank, form
    return chosen


def content_type(form: str) -> str:
    """The media type of a form of results."""
    return _CONTENT[form]


def results(answers: Answers, deadline: Deadline, form: str = "json") -> bytes:
    """Answers as SPARQL results; entities are `uri` terms whose value is their exact name, as `<name>` is written."""
    if answers.form == "ask":
        return _boolean(bool(answers.holds), form)
    if answers.number is not None:
        truth = "expected"
        name = answers.number.name
        found = {name: _literal(answers.number.answers), truth: _literal(answers.number.expected)}

        return _table([name, truth], [json.dumps(found).encode()], answers.head(), form)
    variables, truth = answers.variables, free_name("truth", answers.variables)

    def rows(start: int, stop: int) -> Iterator[dict[str, Any]]:
        stop = min(stop, len(answers))
        columns = range(len(variables)) if answers.columns is None else answers.columns
        terms: list[Iterator[Any]] = []
        for column in columns:
            if isinstance(column, int):
                names = answers.graph.entities.names(answers.ranking.tuples[start:stop, column])
                terms.append(map(_name, names))
            else:
                terms.append(map(_term, column[start:stop]))
        for value in answers.ranking.truth[start:stop].tolist():
            row = {variable: next(term) for variable, term in zip(variables, terms, strict=True)}
            row = {variable: term for variable, term in row.items() if term is not None}
            row[truth] = _literal(value)
            yield row

    slices, head = in_time(answers, rows, b",", deadline)
    return _table([*variables, truth], slices, head, form)


def _table(variables: list[str], slices: list[bytes], head: dict[str, Any], form: str) -> bytes:
    if form == "json":
        known = encode({key: head[key] for key in ("exact", "bound", "pruned")})
        listed = encode({"vars": variables})
        return b'{"head":%b,"results":{"bindings":[%b]},"tuplet":%b}' % (listed, b",".join(slices), known)
    rows = [row for part in slices for row in json.loads(b"[" + part + b"]")]
    return (_xml(variables, rows) if form == "xml" else _separated(variables, rows, form)).encode()


def _xml(variables: list[str], rows: list[dict[str, Any]]) -> str:
    head = "".join(f"<variable name={quoteattr(name)}/>" for name in variables)
    listed = []
    for row in rows:
        cells = []
        for name, term in row.items():
            datatype = f" datatype={quoteattr(term['datatype'])}" if "datatype" in term else ""
            value = escape(term["value"])
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
        return f"<{value}>"
    if term["type"] == "bnode":
        return f"_:{value}"
    quoted = json.dumps(value, ensure_ascii=False)
    return f"{quoted}^^<{term['datatype']}>" if "datatype" in term else quoted


def _boolean(holds: bool, form: str) -> bytes:
    word = "true" if holds else "false"
    if form == "xml":
        return (
            f'<?xml version="1.0"?>\n<sparql xmlns="{_NAMESPACE}"><head/><boolean>{word}</boolean></sparql>\n'.encode()
        )
    return (f'{{"head":{{}},"boolean":{word}}}' if form == "json" else f"{word}\n").encode()


def _name(name: str) -> dict[str, str]:
    """A name as an RDF term; one that is no IRI stands as it is, for that is how it is asked for.

    >>> _name("_:b0"), _name("DB10243")
    ({'type': 'bnode', 'value': 'b0'}, {'type': 'uri', 'value': 'DB10243'})
    """
    return {"type": "bnode", "value": name[2:]} if name.startswith("_:") else {"type": "uri", "value": name}


def _term(value: Any) -> dict[str, str] | None:
    """A value as an RDF term; nothing where there is none."""
    if value is None:
        return None
    return _name(value) if isinstance(value, Named) else _literal(value)


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
