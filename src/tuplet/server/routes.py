"""The operations of the server; each takes a model, and most hand it to one function of the service."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from tuplet._version import __version__
from tuplet.errors import BadInput, StoreBusy
from tuplet.graph.graph import KnowledgeGraph
from tuplet.query.limits import Deadline
from tuplet.read.read import read
from tuplet.server import models
from tuplet.server.control import ChannelError
from tuplet.server.encoding import MEDIA, encode, json_pieces, to_lines, to_table
from tuplet.server.http import JSON, TABLES, Handler, HTTPProblem, Operation, Reply, Request
from tuplet.server.keys import KeyOwner, KeyRefused
from tuplet.server.limits import TooBusy
from tuplet.server.page import Assets
from tuplet.server.service import Service
from tuplet.server.snapshots import ServedStores
from tuplet.server.sparql_routes import sparql_operations
from tuplet.store import Store
from tuplet.truth.edit import EditReport

_MOST_WAITING = 8  # writers of one process; each has its facts in memory


class Editor:
    """Edits stores, one change of this process at a time; the lock of the store serves other processes."""

    def __init__(self, served: ServedStores) -> None:
        self._served = served
        self._turn = asyncio.Lock()
        self._writing: set[asyncio.Future[dict[str, Any]]] = set()

    async def change(self, name: str, change: Callable[[Store], EditReport]) -> Reply:
        """Change a store; afterwards all workers serve it."""
        if len(self._writing) >= _MOST_WAITING:
            raise TooBusy(f"{len(self._writing)} changes are waiting already; try again in a moment")
        # A client that goes away leaves a change that is made and served nevertheless.
        writing = asyncio.ensure_future(self._write(name, change))
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)
        return Reply(encode(await asyncio.shield(writing)))

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
    if not request.content.strip():
        raise BadInput("the table has no facts")
    with tempfile.TemporaryDirectory(prefix="tuplet-facts-") as folder:
        path = Path(folder, f"facts{TABLES[request.media]}")
        path.write_bytes(request.content)
        try:
            return read(path)
        except BadInput as error:
            raise BadInput(error.message.replace(str(path), "the table")) from None


PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
TEXT: Mapping[str, Any] = {"type": "string"}
BYTES: Mapping[str, Any] = {"type": "string", "format": "binary"}


def operations(service: Service) -> list[Operation]:
    """All operations but the description, which is made from them."""
    return [*_asking(service), *sparql_operations(service), *_changing(service), *_page(Assets())]


def _make(
    address: str, handle: Handler, takes: Any = None, gives: Any = None, media: str = JSON, **more: Any
) -> Operation:
    """An operation by `METHOD /path`, named and described by its handler."""
    method, path = address.split()
    summary = (handle.__doc__ or "").partition("\n")[0].rstrip(".")
    return Operation(method, path, handle.__name__, summary, handle, takes, {media: gives}, **more)


def _asking(service: Service) -> list[Operation]:
    async def ask(request: Request, asked: models.AskRequest) -> Reply:
        """Answer one query, or a batch."""
        if (asked.query is None) == (asked.queries is None):
            raise BadInput("give either a query or queries")
        deadline = service.limits.deadline(asked.timeout)
        if asked.queries is not None:
            if asked.format != "json" or asked.grounding is not None or asked.parameters is not None:
                raise BadInput("a batch has the format json, and each query its own grounding and parameters")
            return await service.run(request, deadline, lambda: service.batch(asked, deadline))

        def work() -> Reply:
            answers = service.answer(asked, deadline)
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

    async def metrics(request: Request, _: None) -> Reply:
        """Counters in Prometheus' text format."""
        if request.key is not None and request.key.stores is not None:
            raise KeyRefused("counters are of all stores and keys; this key opens some stores")
        text = await asyncio.to_thread(service.metrics.text)  # some milliseconds, which nobody waits for
        return Reply(text.encode(), media=PROMETHEUS)

    def searches(work: Callable[[Any, Deadline], bytes]) -> Handler:
        """An operation with a place and a deadline."""

        @wraps(work)
        async def handle(request: Request, asked: Any) -> Reply:
            deadline = service.limits.deadline(getattr(asked, "timeout", None))
            return await service.run(request, deadline, lambda: work(asked, deadline))

        return handle

    def looks_up(work: Callable[[Any], bytes]) -> Handler:
        """An operation that is quick."""

        @wraps(work)
        async def handle(request: Request, asked: Any) -> Reply:
            return await service.aside(request, lambda: work(asked))

        return handle

    asking = _make("POST /ask", ask, models.AskRequest, models.AnswersBody | models.BatchBody)
    tables = {MEDIA["ndjson"]: TEXT, MEDIA["csv"]: TEXT, MEDIA["parquet"]: BYTES}
    return [
        replace(asking, gives={**asking.gives, **tables}),
        _make("POST /explain", searches(service.explain), models.ExplainRequest, models.ExplainBody),
        _make("POST /plan", searches(service.plan), models.PlanRequest, models.PlanBody),
        _make("POST /parse", looks_up(service.parse), models.ParseRequest, models.DrawingBody),
        _make("POST /write", looks_up(service.write), models.WriteRequest, models.WrittenBody),
        _make("GET /schema", looks_up(service.schema), models.StoreParameters, models.SchemaBody),
        _make("GET /schema/entities", looks_up(service.find_entities), models.SearchParameters, models.EntitiesBody),
        _make("GET /entity", searches(service.entity), models.EntityParameters, models.CardBody),
        _make("POST /schema/labels", looks_up(service.labels), models.LabelsRequest, models.LabelsBody),
        _make("GET /metrics", metrics, gives=TEXT, media=PROMETHEUS),
    ]


def _page(assets: Assets) -> list[Operation]:
    async def file(request: Request, _: None) -> Reply:
        return assets.reply(request)

    paths = {"/": "page", "/favicon.ico": "icon", "/web/": "assets"}
    return [
        Operation("GET", path, name, "The page", file, access="open", described=False) for path, name in paths.items()
    ]


def _changing(service: Service) -> list[Operation]:
    """Health, readiness, reloading and changes."""
    served, editor = service.served, Editor(service.served)
    patience = service.limits.max_time  # seconds to wait for writers elsewhere

    async def health(request: Request, _: None) -> Reply:
        """Whether the server is up."""
        state = await served.state()
        good = state["serving"] >= state["workers"] and not state["problem"]
        status: dict[str, Any] = {"status": "ok" if good else "degraded", "version": __version__}
        status |= {name: state[name] for name in ("workers", "serving")}
        if request.trusted:
            status |= {
                "problem": _problem(state["problem"], request.key) or None,
                "stores": _generations(service, request.key),
            }
        return Reply(encode(status))

    async def ready(_: Request, __: None) -> Reply:
        """Whether requests are welcome: 503 while the server ends."""
        if served.draining or (await served.state())["stopping"]:
            return Reply(encode({"error": "the server finishes what it has, and ends", "kind": "stopping"}), 503)
        return Reply(encode({"ready": True}))

    async def reload(request: Request, _: None) -> Reply:
        """Serve what is newest on disk; afterwards no worker serves anything older."""
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
        """Add facts; afterwards all workers know them."""
        # What is predicted about new entities, `tuplet update` computes.
        seconds = 0.0 if asked.new_entities else None

        def change(store: Store) -> EditReport:
            if not isinstance(asked, models.AddRequest):
                return store.add(_table(request), asked.new_entities, patience, seconds)
            values = asked.attributes or None
            return store.add(
                asked.facts, asked.new_entities, patience, seconds, attributes=values, replace=asked.replace
            )

        return await editor.change(service.named(asked.store), change)

    async def remove(request: Request, asked: models.StoreParameters) -> Reply:
        """Remove facts; afterwards no worker states them."""

        def change(store: Store) -> EditReport:
            if not isinstance(asked, models.RemoveRequest):
                return store.remove(_table(request), patience)
            return store.remove(asked.facts, patience, asked.attributes or None)

        return await editor.change(service.named(asked.store), change)

    writing: dict[str, Any] = {"access": "write", "statuses": (409, 503)}
    added, removed = models.AddParameters, models.StoreParameters
    return [
        _make("GET /health", health, gives=models.HealthBody, access="open"),
        _make("GET /ready", ready, gives=models.ReadyBody, access="open", statuses=(503,)),
        _make("POST /reload", reload, gives=models.ReloadBody, access="admin", statuses=(503,)),
        _make("POST /add", add, models.AddRequest, models.ChangedBody, tables=added, **writing),
        _make("POST /remove", remove, models.RemoveRequest, models.ChangedBody, tables=removed, **writing),
    ]


def _problem(text: str, key: KeyOwner | None) -> str:
    """A problem that names stores and files; a key that opens only some stores learns less."""
    return (
        "a store cannot be opened; the log says more" if text and key is not None and key.stores is not None else text
    )


def _generations(service: Service, key: KeyOwner | None) -> dict[str, dict[str, Any]]:
    return {
        name: {"generation": store.generation, "hash": store.hash, "graph": store.graph.hash}
        for name, store in service.served.current.items()
        if key is None or key.sees(name)
    }
