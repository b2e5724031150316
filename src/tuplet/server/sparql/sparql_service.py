"""The SPARQL protocol: what a request asks, and what the endpoint says of itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import pyoxigraph

from tuplet._version import __version__
from tuplet.errors import BadInput, unknown
from tuplet.server.sparql.base_iri import BaseIri

# What else a request may choose, beside what the protocol says: `?engine=crisp&only=observed`.
CHOICES = ("store", "engine", "only")
DESCRIPTIONS = {
    "text/turtle": "turtle",
    "application/n-triples": "ntriples",
    "application/ld+json": "jsonld",
    "application/rdf+xml": "rdfxml",
    "text/html": "html",
}
_RDF = {
    "ntriples": pyoxigraph.RdfFormat.N_TRIPLES,
    "jsonld": pyoxigraph.RdfFormat.JSON_LD,
    "rdfxml": pyoxigraph.RdfFormat.RDF_XML,
}
_PREFIXES = {
    "dcterms": "http://purl.org/dc/terms/",
    "formats": "http://www.w3.org/ns/formats/",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "sd": "http://www.w3.org/ns/sparql-service-description#",
    "void": "http://rdfs.org/ns/void#",
}
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|\\^`]*")
_FIELDS = 100
_LISTED = 1000  # relations that a description names
_ABOUT = (
    "A subset of SPARQL 1.1: SELECT and ASK with triples, fixed-length paths, UNION, OPTIONAL values, FILTER, VALUES, "
    "COUNT, ORDER BY, LIMIT and OFFSET. Predicted facts count too: one more variable, truth, says how sure an answer is"
)


@dataclass(frozen=True)
class SparqlRequest:
    """A query, if there is one, and what was chosen: `store`, `engine`, `only`."""

    query: str | None
    choices: Mapping[str, str] = field(default_factory=dict)


def sparql_fields(text: str | bytes) -> list[tuple[str, str]]:
    """The fields of a query string or of a form."""
    text = text if isinstance(text, str) else text.decode("utf-8", "replace")
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS, errors="replace")
    except ValueError:
        raise BadInput(f"the request has more than {_FIELDS} fields") from None


def sparql_request(fields: Iterable[tuple[str, str]], stores: Sequence[str], base: BaseIri) -> SparqlRequest:
    """What the fields of a request ask; those that other servers know, such as `format`, say nothing here.

    >>> fields = [("query", "ASK { :a :b :c }"), ("default-graph-uri", "http://ex.org/facts"), ("output", "json")]
    >>> sparql_request(fields, ["world", "facts"], BaseIri("http://ex.org/"))
    SparqlRequest(query='ASK { :a :b :c }', choices={'store': 'facts'})
    """
    given: dict[str, list[str]] = {}
    for name, value in fields:
        given.setdefault(name, []).append(value)
    for name in ("update", "using-graph-uri", "using-named-graph-uri"):
        if name in given:
            raise BadInput("this endpoint takes no updates; POST /add and /remove change facts")
    if "named-graph-uri" in given:
        raise BadInput("named graphs are not supported; name a store as default-graph-uri")
    for name in ("query", "default-graph-uri", *CHOICES):
        if len(set(given.get(name, ()))) > 1:
            raise BadInput(f"a request has one {name}, not {len(given[name])}")
    choices = {name: given[name][0] for name in CHOICES if name in given}
    for name, choice in choices.items():
        if not choice:
            raise BadInput(f"{name} is empty; leave it out")
    graph = given.get("default-graph-uri", [""])[0]
    if graph:
        store = base.name(graph)
        if store not in stores:
            raise unknown("store", graph[:100], [base.iri(name) for name in stores])
        choices["store"] = store
    query = given.get("query", [None])[0]
    if query is not None and not query.strip():
        raise BadInput("the query is empty")
    return SparqlRequest(query, choices)


def service_description(schemas: Sequence[Mapping[str, Any]], base: BaseIri) -> str:
    """The endpoint in its own words, as Turtle; `schemas` are what `/schema` says of the stores, the default first.

    The endpoint is `<>`: the address that the description was asked for at.
    """
    lines = [f"@prefix {prefix}: <{space}> ." for prefix, space in _PREFIXES.items()]
    lines += [
        "",
        "<> a sd:Service ;",
        f"  dcterms:title {_quoted(f'tuplet {__version__}')} ;",
        f"  rdfs:comment {_quoted(_ABOUT)} ;",
        "  sd:endpoint <> ;",
        "  sd:supportedLanguage sd:SPARQL11Query ;",
        "  sd:resultFormat formats:SPARQL_Results_JSON, formats:SPARQL_Results_XML,",
        "    formats:SPARQL_Results_CSV, formats:SPARQL_Results_TSV ;",
        f"  sd:defaultDataset [ a sd:Dataset ; sd:defaultGraph {_graph(schemas[0], base)} ]",
    ]
    if base.text:  # a graph needs an IRI
        named = [
            f"    sd:namedGraph [ a sd:NamedGraph ; sd:name <{base.iri(schema['store'])}> ; "
            f"sd:graph {_graph(schema, base, short=True)} ]"
            for schema in schemas
        ]
        lines[-1] += " ;"
        lines += ["  sd:availableGraphs [ a sd:GraphCollection ;", " ;\n".join(named), "  ]"]
    return "\n".join(lines) + " .\n"


def _graph(schema: Mapping[str, Any], base: BaseIri, short: bool = False) -> str:
    parts = [
        "a sd:Graph, void:Dataset",
        f"dcterms:title {_quoted(schema['store'])}",
        f"void:triples {schema['facts']}",
        f"void:entities {schema['entities']}",
        f"void:properties {len(schema['relations'])}",
    ]
    parts += [f"void:uriSpace {_quoted(base.text)}"] * bool(base.text)
    for relation in [] if short else schema["relations"][:_LISTED]:
        iri = base.iri(relation["name"])
        if _IRI.fullmatch(iri):
            parts.append(f"void:propertyPartition [ void:property <{iri}> ; void:triples {relation['count']} ]")
    return f"[ {' ; '.join(parts)} ]"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def as_rdf(turtle: str, form: str, address: str) -> bytes:
    """A description in another form of RDF; `address` is what `<>` stands for there.

    >>> print(as_rdf("<> <p:q> 1 .", "ntriples", "http://here/sparql").decode().split()[0])
    <http://here/sparql>
    """
    if form == "turtle":
        return turtle.encode()
    triples = pyoxigraph.parse(turtle, pyoxigraph.RdfFormat.TURTLE, base_iri=address)
    written = pyoxigraph.serialize((quad.triple for quad in triples), format=_RDF[form], prefixes=_PREFIXES)
    assert written is not None
    return written
