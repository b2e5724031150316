"""The routes: HTTP in, bytes out. What they do is in `service`, what they refuse in `guard` and `limits`."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from tuplet._version import __version__
from tuplet.errors import BadInput, TupletError
from tuplet.serve import models
from tuplet.serve.encoding import MEDIA, encode, to_json, to_lines, to_table
from tuplet.serve.guard import App, Guard
from tuplet.serve.keys import Keys
from tuplet.serve.limits import ServerLimits, problem
from tuplet.serve.metrics import ServerMetrics
from tuplet.serve.run import ServerSettings
from tuplet.serve.service import Service
from tuplet.serve.sparql_results import MEDIA_TYPES, content_type, negotiated, results
from tuplet.store import open_store

WEB = Path(__file__).parent / "web"
_SPARQL_DEFAULT = 1000  # answers where the query has no LIMIT
Responses = dict[int | str, dict[str, Any]]
_ERRORS: Responses = {
    400: {"model": models.ErrorBody, "description": "The query or the input is wrong; says where."},
    401: {"model": models.ErrorBody, "description": "An API key is needed."},
    403: {"model": models.ErrorBody, "description": "Not from this host."},
    404: {"model": models.ErrorBody, "description": "No such store."},
    408: {"model": models.ErrorBody, "description": "The request did not arrive in time."},
    413: {"model": models.ErrorBody, "description": "The request is too large."},
    422: {"model": models.ErrorBody, "description": "A key or a limit of the request."},
    429: {"model": models.ErrorBody, "description": "Too many queries at once; try again."},
}


class JSON(Response):
    """Bytes that are JSON already."""

    media_type = "application/json"


def create_app(service: Service, keys: Keys | None = None) -> App:
    """The application around a service, guarded."""

    # The usual documentation pages load scripts from elsewhere; /openapi.json describes everything.
    app = FastAPI(
        title="tuplet",
        version=__version__,
        description="Ask incomplete knowledge graphs for tuples, jointly ranked, with reasons.",
        docs_url=None,
        redoc_url=None,
        responses=_ERRORS,
    )
    _routes(app, service)
    _errors(app)
    return Guard(app, keys, service.metrics, service.limits.max_body)


def _routes(app: FastAPI, service: Service) -> None:
    either: Responses = {200: {"model": models.AnswersBody | models.BatchBody}}

    @app.post("/ask", responses=either, response_class=JSON, summary="Answer one query, or a batch")
    async def ask(request: models.AskRequest) -> Response:
        if (request.query is None) == (request.queries is None):
            raise BadInput("give either a query or queries")
        deadline = service.limits.deadline(request.timeout)
        if request.queries is not None:
            if request.format != "json" or request.grounding is not None:
                raise BadInput("a batch has the format json, and each query its own grounding")
            return JSON(await service.run(deadline, lambda: service.batch(request, deadline)))

        def work() -> Response:
            answers = service.answer(request, request.query or "", deadline, request.grounding, request.parameters)
            if request.format == "json":
                return JSON(to_json(answers, deadline))
            if request.format == "ndjson":
                return StreamingResponse(to_lines(answers, deadline), media_type=MEDIA["ndjson"])
            # a table has no place to say what stopped the search
            said = {"tuplet-pruned": answers.pruned.encode("ascii", "replace").decode()} if answers.pruned else None
            return Response(to_table(answers, request.format), headers=said, media_type=MEDIA[request.format])

        return await service.run(deadline, work)

    @app.post("/explain", response_class=JSON, summary="Truth and witness of a given tuple")
    async def explain(request: models.ExplainRequest) -> Response:
        deadline = service.limits.deadline(request.timeout)
        return JSON(await service.run(deadline, lambda: service.explain(request, deadline)))

    @app.post("/plan", response_class=JSON, summary="How a query would be answered")
    async def plan(request: models.PlanRequest) -> Response:
        deadline = service.limits.deadline()
        return JSON(await service.run(deadline, lambda: service.plan(request, deadline)))

    @app.post("/parse", response_class=JSON, summary="A query as a graph, in every language, or what is wrong with it")
    async def parse(request: models.ParseRequest) -> Response:
        return JSON(service.drawing(request))

    @app.post("/write", response_class=JSON, summary="A drawn query as text")
    async def write(request: models.WriteRequest) -> Response:
        return JSON(service.writing(request))

    @app.get(
        "/schema", response_class=JSON, summary="Stores, engines, relations with counts, attributes, examples, limits"
    )
    async def schema(store: str | None = None) -> Response:
        return JSON(service.schema(store))

    @app.get("/schema/entities", response_class=JSON, summary="Entities by name or label, for completion")
    async def entities(
        search: Annotated[str, Query(max_length=200)] = "",
        store: str | None = None,
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
    ) -> Response:
        return JSON(service.find(store, search, limit))

    @app.post("/schema/labels", response_class=JSON, summary="The labels of named entities")
    async def labels(request: models.LabelsRequest) -> Response:
        return JSON(service.labels(request.store, request.names))

    @app.get("/health", response_class=JSON, summary="Whether the server is up")
    async def health() -> Response:
        return JSON(encode({"status": "ok", "version": __version__, "stores": len(service.stores)}))

    @app.get("/metrics", summary="Counters in Prometheus' text format")
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def protocol(query: str, store: str | None, request: Request) -> Response:
        form = negotiated(request.headers.get("accept", ""))
        if form is None:
            raise HTTPException(406, f"results come as {', '.join(MEDIA_TYPES)}")
        deadline = service.limits.deadline()

        def work() -> bytes:
            answers = service.answer(models.AskOptions(store=store), query, deadline, default_k=_SPARQL_DEFAULT)
            return results(answers, deadline, form)

        return Response(await service.run(deadline, work), media_type=content_type(form))

    @app.get("/sparql", summary="SPARQL protocol: SPARQL 1.1 results (JSON, XML, CSV, TSV) with a truth variable")
    async def sparql_get(
        request: Request, query: Annotated[str, Query(min_length=1, max_length=100_000)], store: str | None = None
    ) -> Response:
        return await protocol(query, store, request)

    @app.post(
        "/sparql",
        summary="SPARQL protocol: a form with `query`, or the query as application/sparql-query",
        openapi_extra={
            "requestBody": {
                "content": {
                    "application/sparql-query": {"schema": {"type": "string"}},
                    "application/x-www-form-urlencoded": {
                        "schema": {
                            "type": "object",
                            "properties": {"query": {"type": "string"}, "store": {"type": "string"}},
                            "required": ["query"],
                        }
                    },
                }
            }
        },
    )
    async def sparql_post(request: Request, store: str | None = None) -> Response:
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        try:
            text = (await request.body()).decode()
        except UnicodeDecodeError:
            raise BadInput("the request is not UTF-8") from None
        if kind == "application/sparql-query":
            return await protocol(text, store, request)
        if kind != "application/x-www-form-urlencoded":
            raise HTTPException(415, "send application/sparql-query or application/x-www-form-urlencoded")
        try:
            form = parse_qs(text, max_num_fields=100, errors="replace")
        except ValueError:
            raise BadInput("the form has too many fields") from None
        if len(form.get("query", [])) != 1:
            raise BadInput("the form has to have one field 'query'")
        return await protocol(form["query"][0], form.get("store", [store])[0], request)

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(WEB / "index.html", headers={"cache-control": "no-cache"})

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return FileResponse(WEB / "icon.svg", media_type="image/svg+xml")

    app.mount("/web", StaticFiles(directory=WEB), name="web")


def _errors(app: FastAPI) -> None:
    @app.exception_handler(TupletError)
    async def refused(_: Request, error: TupletError) -> Response:
        status, body = problem(error)
        headers = {"retry-after": "1"} if status == 429 else None
        return Response(encode(body), status, headers, "application/json")

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "body")[:200]
        message = str(first["msg"])[:300].encode("utf-8", "replace").decode()
        text = f"{where}: {message}" if where else message
        return Response(encode({"error": text, "kind": "request"}), 422, None, "application/json")

    @app.exception_handler(HTTPException)
    async def plain(_: Request, error: HTTPException) -> Response:
        body = encode({"error": str(error.detail), "kind": "request"})
        return Response(body, error.status_code, error.headers, "application/json")


def from_environment() -> App:
    """The application of one worker process: its settings come from the process that started it."""
    settings = ServerSettings.from_environment(os.environ)
    stores = {name: open_store(path) for name, path in settings.stores}
    keys = Keys(dict(settings.keys)) if settings.keys else None
    service = Service(stores, ServerLimits(**settings.limits), ServerMetrics())
    service.warm()
    # What is here stays: the collector need not look at it again, nor after every few answers.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    return create_app(service, keys)
