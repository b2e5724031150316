"""The SPARQL protocol: what a request asks, and the description of the endpoint."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyoxigraph

from tuplet._version import __version__
from tuplet.errors import BadInput, unknown
from tuplet.server import models
from tuplet.server.http import HTTPProblem, Operation, Reply, Request, form_fields
from tuplet.server.models import SparqlBody
from tuplet.server.service import Service
from tuplet.server.sparql_results import CONTENT, MEDIA_TYPES, BaseIri, negotiate, results

# What else a request may choose, beside what the protocol says: `?engine=crisp&only=observed`.
CHOICES = ("store", "engine", "only")
DESCRIPTIONS = ("text/turtle", "application/n-triples", "application/ld+json", "application/rdf+xml", "text/html")
_PREFIXES = {
    "dcterms": "http://purl.org/dc/terms/",
    "formats": "http://www.w3.org/ns/formats/",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "sd": "http://www.w3.org/ns/sparql-service-description#",
    "void": "http://rdfs.org/ns/void#",
}
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|\\^`]*")
_LISTED = 1000  # relations that a description names
_ABOUT = (
    "A subset of SPARQL 1.1: SELECT and ASK with triples, fixed-length paths, UNION, OPTIONAL values, FILTER, VALUES, "
    "COUNT, ORDER BY, LIMIT and OFFSET. Predicted facts count too: one more variable, truth, says how sure an answer is"
)


def sparql_request(fields: Iterable[tuple[str, str]], stores: Sequence[str], base: BaseIri) -> dict[str, str]:
    """What the fields of a request ask; those that other servers know, such as `format`, are passed over.

    >>> fields = [("query", "ASK { :a :b :c }"), ("default-graph-uri", "http://ex.org/facts"), ("output", "json")]
    >>> sparql_request(fields, ["world", "facts"], BaseIri("http://ex.org/"))
    {'query': 'ASK { :a :b :c }', 'store': 'facts'}
    """
    given: dict[str, list[str]] = {}
    for name, value in fields:
        given.setdefault(name, []).append(value)
    for name in ("update", "using-graph-uri", "using-named-graph-uri"):
        if name in given:
            raise BadInput("this endpoint takes no updates; POST /add and /remove change facts")
    if "named-graph-uri" in given:
        raise BadInput("named graphs are not supported; name a store as default-graph-uri")
    asked: dict[str, str] = {}
    for name in ("query", "default-graph-uri", *CHOICES):
        values = given.get(name, [])
        if len(set(values)) > 1:
            raise BadInput(f"a request has one {name}, not {len(values)}")
        if values:
            asked[name] = values[0]
        if name in CHOICES and values == [""]:
            raise BadInput(f"{name} is empty; leave it out")
    graph = asked.pop("default-graph-uri", "")
    if graph:
        store = base.name(graph)
        if store not in stores:
            raise unknown("store", graph[:100], [base.iri(name) for name in stores])
        asked["store"] = store
    if not asked.get("query", "there is none").strip():
        raise BadInput("the query is empty")
    return asked


def service_description(schemas: Sequence[Mapping[str, Any]], base: BaseIri) -> str:
    """The endpoint in its own words, as Turtle; `schemas` are what `/schema` says of the stores, the default first.

    The endpoint is `<>`: the address that the description was asked for at.
    """
    lines = [f"@prefix {prefix}: <{space}> ." for prefix, space in _PREFIXES.items()]
    lines += [
        "",
        "<> a sd:Service ;",
        f"  dcterms:title {_quote(f'tuplet {__version__}')} ;",
        f"  rdfs:comment {_quote(_ABOUT)} ;",
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
        f"dcterms:title {_quote(schema['store'])}",
        f"void:triples {schema['facts']}",
        f"void:entities {schema['entities']}",
        f"void:properties {len(schema['relations'])}",
    ]
    parts += [f"void:uriSpace {_quote(base.text)}"] * bool(base.text)
    for relation in [] if short else schema["relations"][:_LISTED]:
        iri = base.iri(relation["name"])
        if _IRI.fullmatch(iri):
            parts.append(f"void:propertyPartition [ void:property <{iri}> ; void:triples {relation['count']} ]")
    return f"[ {' ; '.join(parts)} ]"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def as_rdf(turtle: str, media: str, address: str) -> bytes:
    """A description in another form of RDF; `address` is what `<>` stands for there.

    >>> print(as_rdf("<> <p:q> 1 .", "application/n-triples", "http://here/sparql").decode().split()[0])
    <http://here/sparql>
    """
    if media == "text/turtle":
        return turtle.encode()
    triples = pyoxigraph.parse(turtle, pyoxigraph.RdfFormat.TURTLE, base_iri=address)
    form = pyoxigraph.RdfFormat.from_media_type(media)
    written = pyoxigraph.serialize((quad.triple for quad in triples), format=form, prefixes=_PREFIXES)
    assert written is not None
    return written


DEFAULT = 1000  # answers where the query has no LIMIT
FORM, QUERY, UPDATE = "application/x-www-form-urlencoded", "application/sparql-query", "application/sparql-update"
TEXT: Mapping[str, Any] = {"type": "string"}


def sparql_operations(service: Service) -> list[Operation]:
    """`GET /sparql` and `POST /sparql`."""

    def read(fields: Iterable[tuple[str, str]]) -> models.AskRequest:
        chosen = sparql_request(fields, list(service.stores), service.base)
        query = chosen.pop("query", None)
        asked: models.AskRequest = models.AskRequest(**chosen).model_copy(update={"query": query})
        return asked

    async def answer(request: Request, asked: models.AskRequest) -> Reply:
        media = negotiate(request.header("accept"), MEDIA_TYPES)
        deadline = service.limits.deadline()

        def work() -> Reply:
            if media is None:
                service.question(service.store(asked.store), asked.query or "")  # what is wrong with it comes first
                raise HTTPProblem(406, f"results come as {', '.join(MEDIA_TYPES)}")
            answers = service.answer(asked, deadline, default_k=DEFAULT)
            return results(answers, deadline, MEDIA_TYPES[media], service.base, service.limits.max_answer_bytes)

        return await service.run(request, deadline, work)

    async def description(request: Request, store: str | None) -> Reply:
        media = negotiate(request.header("accept"), DESCRIPTIONS)
        if media is None:
            raise HTTPProblem(406, f"give a query; without one, a description comes as {', '.join(DESCRIPTIONS)}")
        if media == "text/html":  # a person with a browser
            return Reply(b"", 303, headers={"location": "./", "vary": "accept"})

        def work() -> Reply:
            names = dict.fromkeys((service.named(store), *service.stores))
            turtle = service_description(list(map(service.describe, names)), service.base)
            try:
                body = as_rdf(turtle, media, f"http://{request.header('host')}{request.path}")
            except ValueError:
                raise BadInput("the Host header is no host") from None
            return Reply(body, media=media, headers={"vary": "accept"})

        return await service.aside(request, work)

    async def get(request: Request, _: None) -> Reply:
        asked = read(form_fields(request.query_string))
        return await (description(request, asked.store) if asked.query is None else answer(request, asked))

    async def post(request: Request, _: None) -> Reply:
        try:
            text = request.content.decode()
        except UnicodeDecodeError:
            raise BadInput("the request is not UTF-8") from None
        fields = form_fields(request.query_string)
        if request.media == FORM:
            fields += form_fields(text)
        elif request.media in (QUERY, UPDATE):
            fields.append(("query" if request.media == QUERY else "update", text))
        else:
            raise HTTPProblem(415, f"send {QUERY} or {FORM}")
        asked = read(fields)
        if asked.query is None:
            raise BadInput("the form has to have one field 'query'")
        return await answer(request, asked)

    parameters = [{"name": name, "in": "query", "required": False, "schema": kind} for name, kind in FIELDS.items()]
    body = {
        QUERY: {"schema": {**TEXT, "minLength": 1, "maxLength": 100_000}},
        FORM: {"schema": {"type": "object", "properties": dict(FIELDS), "required": ["query"]}},
    }
    tables = {CONTENT["json"]: SparqlBody} | {CONTENT[form]: TEXT for form in ("xml", "csv", "tsv")}
    rdf = dict.fromkeys(DESCRIPTIONS[:-1], TEXT)
    extra: dict[str, Any] = {"parameters": parameters}
    posted = {"parameters": parameters[1:], "requestBody": {"required": True, "content": body}}
    return [
        Operation("GET", "/sparql", "sparql", ASKED, get, gives={**tables, **rdf}, statuses=(303, 406), extra=extra),
        Operation("POST", "/sparql", "sparql_post", POSTED, post, gives=tables, statuses=(406, 415), extra=posted),
    ]


ASKED = "SPARQL protocol: SPARQL 1.1 results with a truth variable; without a query, a description of the endpoint"
POSTED = "SPARQL protocol: a form with `query`, or the query as application/sparql-query"
FIELDS: Mapping[str, Mapping[str, Any]] = {
    "query": {**TEXT, "minLength": 1, "maxLength": 100_000},
    "default-graph-uri": {**TEXT, "description": "a store by its name, or by the base IRI and its name"},
    "store": {**TEXT, "minLength": 1, "description": "a store by its name"},
    "engine": {**TEXT, "minLength": 1, "description": "exact (default), crisp, ns3, ...: see /schema"},
    "only": {**TEXT, "enum": ["predicted", "observed"]},
}
