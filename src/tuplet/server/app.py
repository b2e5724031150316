"""The application: what happens to every request, from its first byte to its last."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from time import perf_counter

from tuplet.server.allocator import Tidying
from tuplet.server.encoding import encode
from tuplet.server.guard import HEADERS, NO_CORS, NO_PROXIES, Cors, Guard, TrustedProxies, is_open
from tuplet.server.http import ASGIScope, Receive, Reply, Request, Route, Router, Send, refusal
from tuplet.server.keys import KeyFile
from tuplet.server.limits import LARGE, Outgoing, OverLimit, Sending, TooBusy
from tuplet.server.logs import NOTES, AccessLog, LogSettings, request_id
from tuplet.server.openapi import describe
from tuplet.server.routes import routes
from tuplet.server.scheduling import ClientGone
from tuplet.server.service import Service

PATIENCE = 30.0  # seconds for a request to arrive
LONG = 1.0  # seconds of a request after which there may be memory to give back
BODILESS = (204, 304)
log = logging.getLogger("tuplet.server")


class Application:
    """An ASGI application: guarded, counted, and never with a traceback."""

    def __init__(
        self,
        service: Service,
        keys: KeyFile | None = None,
        logs: LogSettings | None = None,
        cors: Cors = NO_CORS,
        proxies: TrustedProxies = NO_PROXIES,
    ) -> None:
        table = routes(service)
        described = encode(describe(table))

        async def description(_: Request, __: None) -> Reply:
            return Reply(described)

        summary = "This description"
        table.append(Route("GET", "/openapi.json", "openapi", summary, description, scope="open", described=False))
        self.router = Router(table, repr((service.limits, service.base)).encode())
        self.guard = Guard(keys, cors)
        self.proxies = proxies
        self.log = AccessLog(logs or LogSettings())
        self.metrics, self.most, self.served = service.metrics, service.limits.max_body, service.served
        self.tidying = Tidying()
        self.sending, self.arriving = service.sending, Sending(service.limits.max_sending)

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _lifespan(scope, receive, send)
            return
        began = perf_counter()
        request = Request(
            scope["method"],
            scope["path"],
            scope["query_string"].decode("latin-1"),
            dict(scope["headers"]),
            (scope.get("client") or ("",))[0],
            receive,
        )
        if self.proxies:
            request.client = self.proxies.client(request.client, request.header("x-forwarded-for"))
        request.notes.id = request_id(request.header("x-request-id"))
        NOTES.set(request.notes)
        outgoing = request.notes.outgoing = Outgoing(self.sending, request)
        try:
            reply = await self.reply(request, receive)
            status, sent = await self._send(request, reply, send, outgoing)
        finally:
            outgoing.close()
        seconds = perf_counter() - began
        self._count(request, status, sent, seconds)

    def _count(self, request: Request, status: int, sent: int, seconds: float) -> None:
        noted, metrics = request.notes, self.metrics
        metrics.count_request(request.route, status, seconds, sent, request.owner)
        if noted.queue is not None:
            metrics.count_wait(noted.queue)
        if seconds > LONG or sent > LARGE:
            self.tidying.soon()
        refused = noted.refused or ("of another scope" if status == 403 and request.owner else "")
        if refused:
            metrics.count("tuplet_keys_refused_total", refused)
            log.warning("%s: API key %s %s", request.client, refused, request.owner, extra={"path": request.path[:100]})
        if self.log.request(request, status, sent, seconds):
            metrics.count("tuplet_slow_requests_total")

    async def reply(self, request: Request, receive: Receive) -> Reply:
        """What is answered, whatever happens."""
        try:
            refused = self.guard.refused(request)
            if refused is not None:
                return refused
            # What needs no key takes no body either: those of strangers are not kept.
            if not is_open(request.path) and request.method != "OPTIONS":
                request.body = await self._body(request, receive)
                await self.served.enter(request.key)
            return await self.router.reply(request)
        except (OverLimit, TooBusy) as error:
            return refusal(error)
        except ClientGone:
            return Reply(status=499)  # which nobody reads
        except TimeoutError:
            return Reply(encode({"error": "the request took too long to arrive", "kind": "limit"}), 408)
        except Exception:
            log.exception("%s %s", request.method, request.path)
            return Reply(encode({"error": "something went wrong inside the server", "kind": "internal"}), 500)

    async def _body(self, request: Request, receive: Receive) -> bytes:
        """The body, read whole before anything is done with it: a slow sender holds nothing but itself."""
        told = request.headers.get(b"content-length", b"")
        size = int(told) if told.isdigit() else self.most if b"transfer-encoding" in request.headers else 0
        if size > self.most:
            raise _too_large(self.most)
        if size <= LARGE:
            return await _body(receive, self.most) if size else b""
        if not self.arriving.takes(request.asker, size):
            raise TooBusy("too many large requests are on their way; try again in a moment")
        try:
            return await _body(receive, self.most)
        finally:
            self.arriving.sent(request.asker, size)

    async def _send(self, request: Request, reply: Reply, send: Send, outgoing: Outgoing) -> tuple[int, int]:
        """Send a reply; returns its status and the bytes of its body."""
        try:
            outgoing.settle(reply.size)
        except TooBusy as error:
            reply = refusal(error)
        return reply.status, await self._send_all(request, reply, reply.size, send)

    async def _send_all(self, request: Request, reply: Reply, size: int, send: Send) -> int:
        headers = [*HEADERS, (b"content-type", reply.media.encode())] if reply.status not in BODILESS else list(HEADERS)
        headers.append((b"x-request-id", request.notes.id.encode()))
        said = self.guard.said(request, reply) if self.guard.cors.origins else reply.headers
        headers += [(name.encode(), value.encode("latin-1")) for name, value in said.items()]
        if reply.status not in BODILESS:
            headers.append((b"content-length", b"%d" % size))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        if request.method == "HEAD":
            await send({"type": "http.response.body"})
            return 0
        *pieces, last = _pieces(reply.body)
        for piece in pieces:  # each waits until there is room for it
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": last})
        return size


def _pieces(body: bytes | Sequence[bytes]) -> Sequence[bytes]:
    """A body in pieces that are not large."""
    if isinstance(body, bytes):
        return [body[start : start + LARGE] for start in range(0, len(body), LARGE)] if len(body) > LARGE else [body]
    return body or [b""]


async def _body(receive: Receive, most: int) -> bytes:
    """The body, read up to the limit."""
    parts: list[bytes] = []
    total = 0
    async with asyncio.timeout(PATIENCE):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone  # half a table is not half of the facts
            parts.append(message.get("body", b""))
            total += len(parts[-1])
            if total > most:
                raise _too_large(most)
            if not message.get("more_body", False):
                break
    return b"".join(parts)


def _too_large(most: int) -> OverLimit:
    return OverLimit("body", f"the request is larger than {most:,} bytes")


async def _lifespan(scope: ASGIScope, receive: Receive, send: Send) -> None:
    """Nothing is to be done when a server starts or stops; other kinds of connections are not taken."""
    if scope["type"] != "lifespan":
        raise NotImplementedError(scope["type"])
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
