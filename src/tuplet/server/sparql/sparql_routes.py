"""The routes of the SPARQL protocol: queries by GET and POST, and what the endpoint says of itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tuplet.errors import BadInput
from tuplet.server import models
from tuplet.server.reply_models import SparqlBody
from tuplet.server.requests.http import HTTPProblem, Reply, Request, Route
from tuplet.server.service import Service
from tuplet.server.sparql.negotiation import negotiated
from tuplet.server.sparql.sparql_results import CONTENT, MEDIA_TYPES, results
from tuplet.server.sparql.sparql_service import (
    DESCRIPTIONS,
    as_rdf,
    service_description,
    sparql_fields,
    sparql_request,
)

DEFAULT = 1000  # answers where the query has no LIMIT
FORM, QUERY, UPDATE = "application/x-www-form-urlencoded", "application/sparql-query", "application/sparql-update"
TEXT: Mapping[str, Any] = {"type": "string"}


def sparql_routes(service: Service) -> list[Route]:
    """`GET /sparql` and `POST /sparql`."""

    async def answer(request: Request, query: str, options: models.AskOptions) -> Reply:
        form = negotiated(request.header("accept"), MEDIA_TYPES)
        deadline = service.limits.deadline()

        def work() -> Reply:
            if form is None:
                service.question(service.store(options.store), query, None)  # what is wrong with it comes first
                raise HTTPProblem(406, f"results come as {', '.join(MEDIA_TYPES)}")
            answers = service.answer(options, query, deadline, default_k=DEFAULT)
            found = results(answers, deadline, form, service.base, service.limits.max_answer_bytes)
            return Reply(found.body, media=CONTENT[found.form], headers={"vary": "accept", **found.headers()})

        return await service.run(request, deadline, work)

    async def description(request: Request, store: str | None) -> Reply:
        form = negotiated(request.header("accept"), DESCRIPTIONS)
        if form is None:
            raise HTTPProblem(406, f"give a query; without one, a description comes as {', '.join(DESCRIPTIONS)}")
        if form == "html":  # a person with a browser
            return Reply(b"", 303, headers={"location": "./", "vary": "accept"})

        def work() -> Reply:
            names = dict.fromkeys((service.named(store), *service.stores))
            turtle = service_description([json.loads(service.schema(name)) for name in names], service.base)
            media = next(media for media, offered in DESCRIPTIONS.items() if offered == form)
            try:
                body = as_rdf(turtle, form, f"http://{request.header('host')}{request.path}")
            except ValueError:
                raise BadInput("the Host header is no host") from None
            return Reply(body, media=media, headers={"vary": "accept"})

        return await service.aside(request, work)

    async def get(request: Request, _: None) -> Reply:
        asked = sparql_request(sparql_fields(request.address), list(service.stores), service.base)
        options = models.AskOptions(**asked.choices)
        if asked.query is None:
            return await description(request, options.store)
        return await answer(request, asked.query, options)

    async def post(request: Request, _: None) -> Reply:
        try:
            text = request.body.decode()
        except UnicodeDecodeError:
            raise BadInput("the request is not UTF-8") from None
        fields = sparql_fields(request.address)
        if request.media == QUERY:
            fields.append(("query", text))
        elif request.media == FORM:
            fields += sparql_fields(text)
        elif request.media == UPDATE:
            fields.append(("update", text))
        else:
            raise HTTPProblem(415, f"send {QUERY} or {FORM}")
        asked = sparql_request(fields, list(service.stores), service.base)
        if asked.query is None:
            raise BadInput("the form has to have one field 'query'")
        return await answer(request, asked.query, models.AskOptions(**asked.choices))

    parameters = [_parameter(name, kind) for name, kind in FIELDS.items()]
    body = {
        QUERY: {"schema": {**TEXT, "minLength": 1, "maxLength": 100_000}},
        FORM: {"schema": {"type": "object", "properties": dict(FIELDS), "required": ["query"]}},
    }
    tables = {CONTENT["json"]: SparqlBody} | {CONTENT[form]: TEXT for form in ("xml", "csv", "tsv")}
    rdf = {media: TEXT for media, form in DESCRIPTIONS.items() if form != "html"}
    extra: dict[str, Any] = {"parameters": parameters}
    posted = {"parameters": parameters[1:], "requestBody": {"required": True, "content": body}}
    return [
        Route("GET", "/sparql", "sparql", ASKED, get, gives={**tables, **rdf}, statuses=(303, 406), extra=extra),
        Route("POST", "/sparql", "sparql_post", POSTED, post, gives=tables, statuses=(406, 415), extra=posted),
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


def _parameter(name: str, kind: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": dict(kind)}
