"""The table of routes: every address of this server, what it takes, what it gives and who may use it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tuplet.errors import BadInput
from tuplet.server import models
from tuplet.server import reply_models as replies
from tuplet.server.assets import Assets
from tuplet.server.encoding import MEDIA, json_pieces, to_lines, to_table
from tuplet.server.requests.http import JSON, Reply, Request, Route
from tuplet.server.requests.keys import KeyRefused
from tuplet.server.service import Service
from tuplet.server.sparql.sparql_routes import sparql_routes
from tuplet.server.store_routes import store_routes

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
TEXT: Mapping[str, Any] = {"type": "string"}
BYTES: Mapping[str, Any] = {"type": "string", "format": "binary"}


def routes(service: Service) -> list[Route]:
    """All routes but that of the description, which is made from them."""
    return [*_asking(service), *_looking(service), *sparql_routes(service), *store_routes(service), *_page(Assets())]


def _asking(service: Service) -> list[Route]:
    async def ask(request: Request, asked: models.AskRequest) -> Reply:
        if (asked.query is None) == (asked.queries is None):
            raise BadInput("give either a query or queries")
        deadline = service.limits.deadline(asked.timeout)
        if asked.queries is not None:
            if asked.format != "json" or asked.grounding is not None or asked.parameters is not None:
                raise BadInput("a batch has the format json, and each query its own grounding and parameters")
            return await service.run(request, deadline, lambda: service.batch(asked, deadline))

        def work() -> Reply:
            answers = service.answer(asked, asked.query or "", deadline, asked.grounding, asked.parameters)
            most = service.limits.max_answer_bytes
            if asked.format == "json":
                return Reply(json_pieces(answers, deadline, most))
            if asked.format == "ndjson":
                return Reply(to_lines(answers, deadline, most), media=MEDIA["ndjson"])
            # a table has no place to say what stopped the search
            table, whole = to_table(answers, asked.format, most)
            pruned = answers.pruned if whole else "bytes"
            said = {"tuplet-pruned": pruned.encode("ascii", "replace").decode()} if pruned else {}
            said["content-disposition"] = f'attachment; filename="answers.{asked.format.removesuffix("_safe")}"'
            return Reply(table, media=MEDIA[asked.format], headers=said)

        return await service.run(request, deadline, work, service.may_be_short(asked))

    async def explain(request: Request, asked: models.ExplainRequest) -> Reply:
        deadline = service.limits.deadline(asked.timeout)
        return await service.run(request, deadline, lambda: service.explain(asked, deadline))

    async def plan(request: Request, asked: models.PlanRequest) -> Reply:
        deadline = service.limits.deadline()
        return await service.run(request, deadline, lambda: service.plan(asked, deadline))

    async def parse(request: Request, asked: models.ParseRequest) -> Reply:
        return await service.aside(request, lambda: service.drawing(asked))

    async def write(request: Request, asked: models.WriteRequest) -> Reply:
        return await service.aside(request, lambda: service.writing(asked))

    gives = {JSON: models.AnswersBody | models.BatchBody}
    tables = {MEDIA["ndjson"]: TEXT, MEDIA["csv"]: TEXT, MEDIA["parquet"]: BYTES}
    return [
        Route("POST", "/ask", "ask", "Answer one query, or a batch", ask, models.AskRequest, {**gives, **tables}),
        Route(
            "POST",
            "/explain",
            "explain",
            "Truth and witness of a given tuple",
            explain,
            models.ExplainRequest,
            {JSON: replies.ExplainBody},
        ),
        Route(
            "POST", "/plan", "plan", "How a query would be answered", plan, models.PlanRequest, {JSON: replies.PlanBody}
        ),
        Route(
            "POST",
            "/parse",
            "parse",
            "A query as a graph, in every language, or what is wrong with it",
            parse,
            models.ParseRequest,
            {JSON: replies.DrawingBody},
        ),
        Route(
            "POST", "/write", "write", "A drawn query as text", write, models.WriteRequest, {JSON: replies.WrittenBody}
        ),
    ]


def _looking(service: Service) -> list[Route]:
    async def schema(request: Request, asked: models.StoreParameters) -> Reply:
        return await service.aside(request, lambda: service.schema(asked.store))

    async def entities(request: Request, asked: models.SearchParameters) -> Reply:
        return await service.aside(request, lambda: service.find(asked.store, asked.search, asked.limit))

    async def entity(request: Request, asked: models.EntityParameters) -> Reply:
        deadline = service.limits.deadline(asked.timeout)
        return await service.run(request, deadline, lambda: service.entity(asked, deadline))

    async def labels(request: Request, asked: models.LabelsRequest) -> Reply:
        return await service.aside(request, lambda: service.labels(asked.store, asked.names))

    async def metrics(request: Request, _: None) -> Reply:
        if request.key is not None and request.key.stores is not None:
            raise KeyRefused("counters are of all stores and keys; this key opens some stores")
        text = await asyncio.to_thread(service.metrics.text)  # some milliseconds, which nobody waits for
        return Reply(text.encode(), media=PROMETHEUS)

    about = "All about an entity: types, attributes, stated and predicted neighbours by relation"
    there_is = "Stores, engines, relations with counts, attributes, examples, limits"
    return [
        Route("GET", "/schema", "schema", there_is, schema, models.StoreParameters, {JSON: replies.SchemaBody}),
        Route(
            "GET",
            "/schema/entities",
            "find_entities",
            "Entities by name or label, for completion",
            entities,
            models.SearchParameters,
            {JSON: replies.EntitiesBody},
        ),
        Route("GET", "/entity", "entity", about, entity, models.EntityParameters, {JSON: replies.CardBody}),
        Route(
            "POST",
            "/schema/labels",
            "labels",
            "The labels of named entities",
            labels,
            models.LabelsRequest,
            {JSON: replies.LabelsBody},
        ),
        Route("GET", "/metrics", "metrics", "Counters in Prometheus' text format", metrics, gives={PROMETHEUS: TEXT}),
    ]


def _page(assets: Assets) -> list[Route]:
    async def file(request: Request, _: None) -> Reply:
        return assets.reply(request)

    paths = {"/": "page", "/favicon.ico": "icon", "/web/": "assets"}
    return [Route("GET", path, name, "The page", file, scope="open", described=False) for path, name in paths.items()]
