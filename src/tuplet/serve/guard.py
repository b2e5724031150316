"""What every request passes, before and after: host, key, size, headers, counters, and no traceback ever."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from tuplet.serve.keys import Keys
from tuplet.serve.limits import OverLimit, problem
from tuplet.serve.metrics import ServerMetrics

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# Nothing from elsewhere, nothing inline; the drawings are made on a canvas.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = tuple(
    (name.encode(), value.encode())
    for name, value in {
        "content-security-policy": POLICY,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), microphone=(), geolocation=()",
    }.items()
)
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
# The page itself holds no data; everything else needs a key where keys are needed.
OPEN = ("/", "/health", "/favicon.ico", "/openapi.json")
log = logging.getLogger("tuplet.serve")


@dataclass(frozen=True)
class Guard:
    """The ASGI application around the application."""

    app: App
    keys: Keys | None
    metrics: ServerMetrics
    body: int  # bytes
    patience: float = 30.0  # seconds for a request to arrive

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                self.metrics.request(message["status"])
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        refused = self._refused(scope)
        if refused is not None:
            await _answer(sending, *refused)
            return
        try:
            # Read whole before anything is done with it: it is small, and a slow sender holds nothing but itself.
            replayed = await asyncio.wait_for(_read(receive, self.body), self.patience)
            await self.app(scope, replayed, sending)
        except OverLimit as error:
            await _answer(sending, *problem(error))
        except TimeoutError:
            if not started:
                await _answer(sending, 408, {"error": "the request took too long to arrive", "kind": "limit"})
        except Exception:
            log.exception("%s %s", scope["method"], scope["path"])
            if not started:
                await _answer(sending, 500, {"error": "something went wrong inside the server", "kind": "internal"})

    def _refused(self, scope: Scope) -> tuple[int, dict[str, Any]] | None:
        headers = dict(scope["headers"])
        path = scope["path"]
        if self.keys is None:
            # Without keys only this machine may ask: no page of another site, and no name that was bent to point here.
            host = headers.get(b"host", b"").decode("latin-1")
            name = host if host.endswith("]") else host.rsplit(":", 1)[0]
            if name not in LOOPBACK:
                return 403, {"error": f"this server answers to localhost only, not to {host[:100]!r}", "kind": "host"}
            if headers.get(b"sec-fetch-site") == b"cross-site" and path != "/":
                return 403, {"error": "requests from other sites are not answered", "kind": "host"}
        elif path not in OPEN and not path.startswith("/web/"):
            given = headers.get(b"authorization", b"").decode("latin-1")
            scheme, _, key = given.partition(" ")
            if scheme.lower() != "bearer" or self.keys.owner(key.strip()) is None:
                word = "a wrong" if given else "no"
                return 401, {"error": f"{word} API key; send Authorization: Bearer KEY", "kind": "key"}
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self.body:
            return problem(_too_large(self.body))
        return None


def _too_large(most: int) -> OverLimit:
    return OverLimit("body", f"the request is larger than {most:,} bytes")


async def _read(receive: Receive, most: int) -> Receive:
    """The body, read up to the limit, as a stream that starts again."""
    parts: list[bytes] = []
    total, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        parts.append(message.get("body", b""))
        total += len(parts[-1])
        if total > most:
            raise _too_large(most)
        more = message.get("more_body", False)
    pending: list[Message] = [{"type": "http.request", "body": b"".join(parts), "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again


async def _answer(send: Send, status: int, body: dict[str, Any]) -> None:
    content = json.dumps(body).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status == 413:
        headers.append((b"connection", b"close"))  # what is left of the body is not read
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
