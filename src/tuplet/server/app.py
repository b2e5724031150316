"""The application: Starlette with two middlewares, and a resource of operations at each address.

| what | where |
|---|---|
| address of a client behind trusted proxies | middleware `ProxyHeadersMiddleware` of uvicorn |
| log, metrics, request id, security headers | middleware `RequestLog` |
| keys, hosts, other origins | middleware `Guard` |
| size and time of a body, budgets for unread bytes, errors as JSON, ETags | `Resource`, which knows the operation |
| fair turns, deadlines, first try, packing an answer | the work of an operation (`scheduling`, in threads) |
| one generation for each request | `ServedStores.enter`, before the work |
| time and size of a head, idle and slow clients, connections, choice of worker | the protocol (`connections`) |
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from tuplet.errors import TupletError
from tuplet.query.answers import INTERRUPTIONS
from tuplet.server.encoding import encode
from tuplet.server.guard import NO_CORS, Cors, Guard, RequestLog
from tuplet.server.http import (
    REQUEST,
    TAGGED,
    HTTPProblem,
    Operation,
    Reply,
    Request,
    error_reply,
    refusal,
)
from tuplet.server.keys import KeyFile
from tuplet.server.limits import Outgoing, OverLimit, TooBusy
from tuplet.server.logs import AccessLog, LogSettings
from tuplet.server.openapi import describe
from tuplet.server.routes import operations
from tuplet.server.scheduling import ClientGone
from tuplet.server.service import Service

PATIENCE = 30.0  # seconds for a request to arrive
log = logging.getLogger("tuplet.server")


class Application(Starlette):
    """An ASGI application: guarded, counted, and never with a traceback."""

    def __init__(
        self,
        service: Service,
        keys: KeyFile | None = None,
        logs: LogSettings | None = None,
        cors: Cors = NO_CORS,
        proxies: Sequence[str] = (),
    ) -> None:
        table = operations(service)
        described = encode(describe(table))

        async def description(_: Request, __: None) -> Reply:
            return Reply(described)

        summary = "This description"
        table.append(Operation("GET", "/openapi.json", "openapi", summary, description, access="open", described=False))
        by_path: dict[str, dict[str, Operation]] = defaultdict(dict)
        for operation in table:
            by_path[operation.path][operation.method] = operation
        super().__init__(
            routes=[
                Route(f"{path}{{file:path}}" if path != "/" and path.endswith("/") else path, resource)
                for path, resource in ((path, Resource(service, found)) for path, found in by_path.items())
            ],
            middleware=[
                *([Middleware(ProxyHeadersMiddleware, trusted_hosts=list(proxies))] if proxies else []),
                Middleware(RequestLog, AccessLog(logs or LogSettings()), service.metrics),
                Middleware(Guard, keys, cors),
            ],
        )
        self.router.redirect_slashes = False
        self.router.default = refusal(
            HTTPProblem(404, "there is nothing at this address; /openapi.json lists what there is")
        )


class Resource:
    """The operations of one path by method, as an ASGI application."""

    def __init__(self, service: Service, operations: Mapping[str, Operation]) -> None:
        self.service, self.operations = service, operations
        self.settings = repr((service.limits, service.base)).encode()  # with others, answers may be others
        self.allow = ", ".join(sorted({*operations, "OPTIONS"} | ({"HEAD"} if "GET" in operations else set())))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request: Request = scope[REQUEST]
        with closing(Outgoing(self.service.sending, request.asker)) as outgoing:
            request.notes.outgoing = outgoing
            reply = await self.reply(request)
            try:
                outgoing.settle(reply.size)
            except TooBusy as error:
                reply = refusal(error)
            await reply(scope, receive, send)

    async def reply(self, request: Request) -> Reply:
        """Answer a request, whatever happens; an error is an answer too."""
        if request.method == "OPTIONS":
            return Reply(b"", 204, headers={"allow": self.allow})
        try:
            operation = self.operations.get("GET" if request.method == "HEAD" else request.method)
            if operation is None:
                text = f"{request.method[:20]} is not for this address; {self.allow} are"
                raise HTTPProblem(405, text, {"allow": self.allow})
            request.route = operation.path
            operation.check(request.key)
            # What needs no key takes no body either: those of strangers are not kept.
            if operation.access != "open":
                request.content = await self._read_body(request)
                request.notes.stores = await self.service.served.enter(request.key)
            return await self._answer(request, operation, operation.read_input(request))
        except (TupletError, ValidationError) as error:
            return refusal(error)
        except (ClientGone, ClientDisconnect):  # half a table is not half of the facts
            return Reply(status=499)  # which nobody reads
        except TimeoutError:
            return error_reply(408, "the request took too long to arrive", "limit")
        except Exception:
            log.exception("%s %s", request.method, request.path)
            return error_reply(500, "something went wrong inside the server", "internal")

    async def _answer(self, request: Request, operation: Operation, taken: Any) -> Reply:
        """Run an operation; an answer that depends on the request and the generation alone may be cached."""
        if operation.path not in TAGGED:
            return await operation.handle(request, taken)
        tag = request.tag(self.settings)
        kept = {"etag": tag, "cache-control": "no-cache" if request.key is None else "private, no-cache"}
        if tag in request.header("if-none-match"):
            return Reply(status=304, headers=kept)
        reply = await operation.handle(request, taken)
        if reply.status != 200 or request.notes.pruned in INTERRUPTIONS:
            return reply  # an error, or as far as it went: another time it may go further
        return Reply(reply.body, reply.status, reply.media, {**reply.headers, **kept})

    async def _read_body(self, request: Request) -> bytes:
        """The body, read whole before anything is done with it: a slow sender holds nothing but itself."""
        most, length = self.service.limits.max_body, request.header("content-length")
        size = int(length) if length.isdigit() else most if request.header("transfer-encoding") else 0
        parts: list[bytes] = []
        total = size if size > most else 0
        if 0 < size <= most:
            with closing(Outgoing(self.service.arriving, request.asker)) as arriving:
                arriving.settle(size)
                async with asyncio.timeout(PATIENCE):
                    async for part in request.stream():
                        parts.append(part)
                        total += len(part)
                        if total > most:
                            break
        if total > most:
            raise OverLimit("body", f"the request is larger than {most:,} bytes")
        return b"".join(parts)
