"""Names as IRIs and back: SPARQL clients that are strict about IRIs get whole ones, and may ask with them."""

from __future__ import annotations

import csv
import datetime
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import unquote
from xml.sax.saxutils import escape, quoteattr

from tuplet.errors import BadInput
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lang.ast import Name, Query
from tuplet.query.answers import Answers
from tuplet.query.limits import Deadline
from tuplet.query.rows import Named
from tuplet.server.encoding import encode, in_time
from tuplet.server.http import Reply

T = TypeVar("T")
_WHOLE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|urn:|mailto:|tag:")  # a name that is an IRI already
_BASE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|\\^`]+")
# What an IRI may not hold, and what would mean something else at its end.
_ODD = re.compile(r"[\x00-\x20<>\"{}|\\^`%?#\[\]\x7f-\x9f\ue000-\uf8ff\ufdd0-\ufdef\ufff0-\uffff\U000e0000-\U0010ffff]")


@dataclass(frozen=True)
class BaseIri:
    """Where the IRIs of names begin that are none themselves; empty if they stand as they are.

    >>> base = BaseIri("http://example.org/kg/")
    >>> base.iri("france"), base.iri("50% of <x>"), base.iri("http://other.org/a")
    ('http://example.org/kg/france', 'http://example.org/kg/50%25%20of%20%3Cx%3E', 'http://other.org/a')
    >>> base.name("http://example.org/kg/50%25%20of%20%3Cx%3E"), base.name("http://other.org/a")
    ('50% of <x>', 'http://other.org/a')
    >>> BaseIri("").iri("france")
    'france'
    """

    text: str = ""

    def __post_init__(self) -> None:
        if self.text and not _BASE.fullmatch(self.text):
            raise BadInput(f"--base-iri is a whole IRI such as http://example.org/kg/, not {self.text!r}")

    def iri(self, name: str) -> str:
        if not self.text or _WHOLE.match(name):
            return name
        return self.text + _ODD.sub(_escape, name)

    def name(self, iri: str) -> str:
        """The name of an IRI; any other text stays."""
        if not self.text or not iri.startswith(self.text) or iri == self.text:
            return iri
        return unquote(iri[len(self.text) :], errors="replace")

    def query(self, tree: Query, graph: KnowledgeGraph) -> Query:
        """A query with names in the place of their IRIs; names of the graph itself stay."""
        if not self.text:
            return tree

        def own(name: Name) -> Name:
            known = name.kind != "name" or graph.entities.find(name.text) >= 0 or graph.relations.find(name.text) >= 0
            return name if known else replace(name, text=self.name(name.text))

        return _with_names(tree, own)


NO_BASE = BaseIri()


def _escape(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found.group().encode())


def _with_names(part: T, change: Callable[[Name], Name]) -> T:
    made: Any = part
    if isinstance(part, Name):
        made = change(part)
    elif isinstance(part, tuple):
        made = tuple(_with_names(item, change) for item in part)
    elif is_dataclass(part) and not isinstance(part, type):
        inner = {field.name: getattr(part, field.name) for field in fields(part)}
        made = replace(part, **{name: _with_names(value, change) for name, value in inner.items()})
    return made  # type: ignore[no-any-return]


def negotiate(accept: str, offered: Iterable[str]) -> str | None:
    """The best media type by the client's quality, then by our order; None if it takes none of them.

    >>> offered = ("application/json", "text/csv", "text/turtle")
    >>> negotiate("", offered), negotiate("text/*", offered), negotiate("image/png", offered)
    ('application/json', 'text/csv', None)

    Of two ranges that fit, the one that says more counts:

    >>> negotiate("text/csv;q=0, text/*;q=0.5, */*;q=0.1", offered)
    'text/turtle'
    """
    wanted: dict[str, float] = {}
    for part in (accept.strip() or "*/*").lower().split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        wanted[kind] = max(wanted.get(kind, 0.0), _quality(parameters))
    best, chosen = 0.0, None
    for media in offered:
        ranges = (media, f"{media.split('/')[0]}/*", "*/*")
        quality = next((wanted[kind] for kind in ranges if kind in wanted), 0.0)
        if quality > best:
            best, chosen = quality, media
    return chosen


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(1.0, float(value))  # of nan, which is never the larger one, 1
            except ValueError:
                return 0.0
    return 1.0


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
_XML = '<?xml version="1.0"?>\n<sparql xmlns="http://www.w3.org/2005/sparql-results#">{}</sparql>\n'
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_NOT_IRI = re.compile(r"[\x00-\x20<>\"{}|\\^`]")


def results(
    answers: Answers, deadline: Deadline, form: str = "json", base: BaseIri = NO_BASE, most: float = math.inf
) -> Reply:
    """Answers as SPARQL results; entities are `uri` terms whose value is the IRI of their name."""
    if answers.form == "ask":
        return _boolean(bool(answers.holds), form)
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


def _reply(body: bytes | str, form: str, known: Mapping[str, Any] = MappingProxyType({})) -> Reply:
    """Results; headers hold what XML, CSV and TSV have no place for."""
    said = {f"tuplet-{key}": str(known[key]) for key in ("bound", "pruned") if known.get(key) is not None}
    said = {name: value.encode("ascii", "replace").decode() for name, value in said.items()}
    return Reply(
        body.encode() if isinstance(body, str) else body, media=CONTENT[form], headers={"vary": "accept", **said}
    )


def _table(variables: list[str], slices: list[bytes], head: dict[str, Any], form: str) -> Reply:
    known = {key: head[key] for key in ("exact", "bound", "pruned")}
    if form == "json":
        # before the results: strict readers (Oxigraph) want nothing after them
        parts = (encode({"vars": variables}), encode(known), b",".join(slices))
        return _reply(b'{"head":%b,"tuplet":%b,"results":{"bindings":[%b]}}' % parts, form, known)
    rows = [row for part in slices for row in json.loads(b"[" + part + b"]")]
    return _reply(_xml(variables, rows) if form == "xml" else _separated(variables, rows, form), form, known)


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
    return _XML.format(body)


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


def _boolean(holds: bool, form: str) -> Reply:
    word = "true" if holds else "false"
    if form == "xml":
        return _reply(_XML.format(f"<head/><boolean>{word}</boolean>"), form)
    # CSV and TSV have no words for yes and no; JSON does, and clients read what the header says
    return _reply(f'{{"head":{{}},"boolean":{word}}}', "json")


def _name(name: str, base: BaseIri = NO_BASE) -> dict[str, str]:
    """A name as an RDF term; without a base, one that is no IRI stands as it is, for that is how it is asked for.

    >>> _name("_:b0"), _name("DB10243")
    ({'type': 'bnode', 'value': 'b0'}, {'type': 'uri', 'value': 'DB10243'})
    """
    if name.startswith("_:"):
        return {"type": "bnode", "value": name[2:]}
    return {"type": "uri", "value": base.iri(name)}


def _term(value: Any, base: BaseIri) -> dict[str, str] | None:
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
