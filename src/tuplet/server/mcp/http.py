"""The protocol over streamable HTTP, with the keys of `tuplet serve`: a key sees the stores that it opens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from tuplet.errors import BadInput
from tuplet.server.mcp.server import Context, ToolServer
from tuplet.server.operators.access_log import AccessLog
from tuplet.server.operators.server_log import LogSettings
from tuplet.server.requests.guard import Guard
from tuplet.server.requests.http import App, ASGIScope, Receive, Reply, Request, Send
from tuplet.server.requests.keys import KeyFile, KeyOwner
from tuplet.server.requests.request_notes import request_id
from tuplet.server.run import bound, checked_keys
from tuplet.server.tools.toolbox import Toolbox

PATH = "/mcp"
_KEY = "tuplet.key"  # where the owner of a key is kept in an ASGI scope


class GuardedTools:
    """An ASGI application: a request with a key that may read, or from this machine where there are no keys."""

    def __init__(self, tools: Toolbox, keys: KeyFile | None, logs: LogSettings | None = None) -> None:
        self.guard = Guard(keys)
        self.log = AccessLog(logs or LogSettings())
        self.tools = tools
        # Nothing is kept between two requests: any of them may come over a connection, or to a process, of its own.
        self.app: App = ToolServer(tools, self._seen).server.streamable_http_app(
            streamable_http_path=PATH,
            json_response=True,
            stateless_http=True,
            max_request_body_size=tools.limits.max_body,
            # the guard has looked at hosts and origins already
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

    def _seen(self, context: Context) -> Toolbox:
        key: KeyOwner | None = context.request.scope.get(_KEY) if context.request is not None else None
        return self.tools.of(None if key is None else key.stores)

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, sent = perf_counter(), 0, 0
        headers = dict(scope["headers"])
        request = Request(scope["method"], scope["path"], "", headers, (scope.get("client") or ("",))[0])
        request.notes.id = request_id(request.header("x-request-id"))

        async def counted(message: Any) -> None:
            nonlocal status, sent
            status = message.get("status", status)
            sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._answer(request, scope, receive, counted)
        finally:
            self.log.request(request, status, sent, perf_counter() - began)

    async def _answer(self, request: Request, scope: ASGIScope, receive: Receive, send: Send) -> None:
        refused = self.guard.refused(request)
        if refused is None and request.key is not None and not request.key.may("read", "admin"):
            refused = Reply(b'{"error":"this key may not read","kind":"scope"}', 403)
        if refused is not None:
            await _send(refused, send)
            return
        scope[_KEY] = request.key
        await self.app(scope, receive, send)


def listen(
    tools: Toolbox, host: str, port: int, key_file: str | None, logs: LogSettings, say: Callable[[str], None]
) -> None:
    """Serve until stopped."""
    if not 0 <= port <= 65535:
        raise BadInput(f"a port is a number up to 65535, not {port}")
    keys = checked_keys(key_file, host)
    with bound(host, port) as listening:
        listening.listen(128)
        address = f"[{host}]" if ":" in host else host
        application: Any = GuardedTools(tools, keys, logs)
        server = uvicorn.Server(uvicorn.Config(application, log_level="warning", access_log=False, ws="none"))
        say(f"http://{address}:{listening.getsockname()[1]}{PATH}")
        asyncio.run(server.serve(sockets=[listening]))


async def _send(reply: Reply, send: Send) -> None:
    headers = [(b"content-type", reply.media.encode()), *((n.encode(), v.encode()) for n, v in reply.headers.items())]
    body = reply.body if isinstance(reply.body, bytes) else b"".join(reply.body)
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
