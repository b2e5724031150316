"""Facts added and removed over HTTP: one writer at a time, and the answer comes when all workers serve the change."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tuplet._version import __version__
from tuplet.errors import BadInput, StoreBusy
from tuplet.graph.graph import KnowledgeGraph
from tuplet.read.read import read
from tuplet.server import models
from tuplet.server import models as replies
from tuplet.server.control import ChannelError
from tuplet.server.encoding import MEDIA, encode, json_pieces, to_lines, to_table
from tuplet.server.http import JSON, TABLES, HTTPProblem, Reply, Request, Route
from tuplet.server.keys import KeyOwner, KeyRefused
from tuplet.server.limits import TooBusy
from tuplet.server.models import ChangedBody, HealthBody, ReadyBody, ReloadBody
from tuplet.server.page import Assets
from tuplet.server.service import Service
from tuplet.server.snapshots import ServedStores
from tuplet.server.sparql_routes import sparql_routes
from tuplet.store import Store
from tuplet.truth.edit import EditReport

_MOST_WAITING = 8  # writers of one process; each has its facts in memory


class Editor:
    """The writer of one process; those of others have their turns too, by the lock of the store."""

    def __init__(self, served: ServedStores, patience: float) -> None:
        self._served, self._patience = served, patience  # seconds to wait for writers elsewhere
        self._turn = asyncio.Lock()
        self._writing: set[asyncio.Future[dict[str, Any]]] = set()

    async def add(self, name: str, request: Request, asked: models.AddParameters) -> dict[str, Any]:
        """`POST /add`: facts are stated at once; what is predicted about new entities, `tuplet update` computes."""

        def change(store: Store) -> EditReport:
            seconds = 0.0 if asked.new_entities else None
            if not isinstance(asked, models.AddRequest):
                return store.add(_table(request), asked.new_entities, self._patience, seconds)
            values = asked.attributes or None
            return store.add(
                asked.facts, asked.new_entities, self._patience, seconds, attributes=values, replace=asked.replace
            )

        return await self._changed(name, change)

    async def remove(self, name: str, request: Request, asked: models.ChangeParameters) -> dict[str, Any]:
        """`POST /remove`: facts are no longer stated; each shows its prediction again."""

        def change(store: Store) -> EditReport:
            if not isinstance(asked, models.RemoveRequest):
                return store.remove(_table(request), self._patience)
            return store.remove(asked.facts, self._patience, asked.attributes or None)

        return await self._changed(name, change)

    async def _changed(self, name: str, change: Callable[[Store], EditReport]) -> dict[str, Any]:
        if len(self._writing) >= _MOST_WAITING:
            raise TooBusy(f"{len(self._writing)} changes are waiting already; try again in a moment")
        # A client that goes away leaves a change that is made and served nevertheless.
        writing = asyncio.ensure_future(self._write(name, change))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        return await asyncio.shield(writing)

    async def _write(self, name: str, change: Callable[[Store], EditReport]) -> dict[str, Any]:
        async with self._turn:
            try:
                # What is served stays as it is until all workers switch together.
                report = await asyncio.to_thread(change, self._served.current[name].beside())
            except StoreBusy as error:
                raise StoreBusy(f"the store {name!r}", error.waited) from None
            try:
                await self._served.reload()
            except ChannelError as error:
                raise HTTPProblem(503, f"the change is made, but not served yet: {error}") from None
        after = self._served.current[name]
        return {"store": name, "generation": after.generation, "graph": after.graph.hash, **report.as_dict()}


def _table(request: Request) -> KnowledgeGraph:
    """The facts of a body that is a table: head, relation, tail and perhaps a truth in each line."""
    if not request.body.strip():
        raise BadInput("the table has no facts")
    with tempfile.TemporaryDirectory(prefix="tuplet-facts-") as folder:
        path = Path(folder, f"facts{TABLES[request.media]}")
        path.write_bytes(request.body)
        try:
            return read(path)
        except BadInput as error:
            raise BadInput(error.message.replace(str(path), "the table")) from None


def store_routes(service: Service) -> list[Route]:
    """Health, readiness, reloading and changes."""
    served, editor = service.served, Editor(service.served, service.limits.max_time)

    async def health(request: Request, _: None) -> Reply:
        state = await served.state()
        good = state["serving"] >= state["workers"] and not state["problem"]
        told: dict[str, Any] = {"status": "ok" if good else "degraded", "version": __version__}
        told |= {name: state[name] for name in ("workers", "serving")}
        if request.trusted:
            told |= {
                "problem": _problem(state["problem"], request.key) or None,
                "stores": _generations(service, request.key),
            }
        return Reply(encode(told))

    async def ready(_: Request, __: None) -> Reply:
        if served.draining or (await served.state())["stopping"]:
            return Reply(encode({"error": "the server finishes what it has, and ends", "kind": "stopping"}), 503)
        return Reply(encode({"ready": True}))

    async def reload(request: Request, _: None) -> Reply:
        before = served.generations()
        try:
            await served.reload()
        except ChannelError as error:
            raise HTTPProblem(503, f"the generation served stays: {_problem(str(error), request.key)}") from None
        if served.problems:
            problem = _problem("; ".join(served.problems.values()), request.key)
            raise HTTPProblem(503, f"the generation served stays: {problem}")
        changed = served.generations() != before
        return Reply(encode({"changed": changed, "stores": _generations(service, request.key)}))

    async def add(request: Request, asked: models.AddParameters) -> Reply:
        return Reply(encode(await editor.add(service.named(asked.store), request, asked)))

    async def remove(request: Request, asked: models.ChangeParameters) -> Reply:
        return Reply(encode(await editor.remove(service.named(asked.store), request, asked)))

    changed: dict[str, Any] = {JSON: ChangedBody}
    return [
        Route("GET", "/health", "health", "Whether the server is up", health, gives={JSON: HealthBody}, scope="open"),
        Route(
            "GET",
            "/ready",
            "ready",
            "Whether requests are welcome: 503 while the server ends",
            ready,
            gives={JSON: ReadyBody},
            scope="open",
            statuses=(503,),
        ),
        Route(
            "POST",
            "/reload",
            "reload",
            "Serve what is newest on disk; afterwards no worker serves anything older",
            reload,
            gives={JSON: ReloadBody},
            scope="admin",
            statuses=(503,),
        ),
        Route(
            "POST",
            "/add",
            "add",
            "Add facts; afterwards all workers know them",
            add,
            models.AddRequest,
            changed,
            "write",
            (409, 503),
            tables=models.AddParameters,
        ),
        Route(
            "POST",
            "/remove",
            "remove",
            "Remove facts; afterwards no worker states them",
            remove,
            models.RemoveRequest,
            changed,
            "write",
            (409, 503),
            tables=models.ChangeParameters,
        ),
    ]


def _problem(text: str, key: KeyOwner | None) -> str:
    """What is wrong; it names stores and files, so a key that does not open all of them learns no more than that."""
    return (
        "a store cannot be opened; the log says more" if text and key is not None and key.stores is not None else text
    )


def _generations(service: Service, key: KeyOwner | None) -> dict[str, dict[str, Any]]:
    return {
        name: {"generation": store.generation, "hash": store.hash, "graph": store.graph.hash}
        for name, store in service.served.current.items()
        if key is None or key.sees(name)
    }


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
