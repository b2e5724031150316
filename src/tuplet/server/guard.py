"""Middlewares: who may ask (keys, hosts, other sites, trusted proxies), and what is written down of a request.

Starlette's `CORSMiddleware` names one list of methods for all addresses and lets a browser keep an answer for pages of
any origin; its `TrustedHostMiddleware` knows nothing of keys. So both are done here.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tuplet.errors import BadInput
from tuplet.server.allocator import Tidying
from tuplet.server.http import REQUEST, Reply, Request, error_reply
from tuplet.server.keys import KeyFile, KeyScope
from tuplet.server.limits import LARGE
from tuplet.server.logs import NOTES, AccessLog
from tuplet.server.metrics import ServerMetrics

ANY = "*"
LONG = 1.0  # seconds of a request after which there may be memory to give back
log = logging.getLogger("tuplet.server")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^\s/?#@\[\]]+|\[[0-9a-f:.]+\](?::\d+)?)")
_DAY = "86400"


@dataclass(frozen=True)
class Cors:
    """The origins of `--cors-origin`.

    >>> cors = Cors(("https://yasgui.example",))
    >>> cors.allows("https://YASGUI.example"), cors.allows("https://other.example"), Cors().allows("null")
    (True, False, False)
    >>> Cors(("yasgui.example/page",))
    Traceback (most recent call last):
    tuplet.errors.BadInput: --cors-origin is an origin such as https://example.org, or *, not 'yasgui.example/page'
    """

    origins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for origin in self.origins:
            if origin != ANY and not _ORIGIN.fullmatch(origin.lower()):
                raise BadInput(f"--cors-origin is an origin such as https://example.org, or *, not {origin!r}")

    def allows(self, origin: str) -> bool:
        """Whether a page of this origin may ask."""
        return bool(origin) and (ANY in self.origins or origin.lower() in map(str.lower, self.origins))

    def headers(self, request: Request, allow: str) -> dict[str, str]:
        """The CORS headers of an answer; `allow`: the methods, if the request asked for them alone."""
        origin = request.header("origin")
        if not self.allows(origin):
            return {}  # it only depends on who asks
        headers = {
            "access-control-allow-origin": origin,
            "access-control-expose-headers": "etag, retry-after, tuplet-bound, tuplet-pruned, x-request-id",
        }
        if allow:
            headers |= {
                "access-control-allow-methods": allow,
                "access-control-allow-headers": "accept, authorization, content-type, if-none-match, x-request-id",
                "access-control-max-age": _DAY,
            }
            if request.header("access-control-request-private-network") == "true":  # from a nearer network
                headers["access-control-allow-private-network"] = "true"
        return headers


NO_CORS = Cors()


# Nothing from elsewhere, nothing inline; the drawings are made on a canvas.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
OWN_SITE = ("same-origin", "none", "")  # as browsers say it; others say nothing
# The page itself holds no data; everything else needs a key where keys are needed.
OPEN = ("/", "/health", "/ready", "/favicon.ico", "/openapi.json")


class Guard:
    """Middleware that rejects requests by host, origin or API key, and adds CORS headers."""

    def __init__(
        self, app: ASGIApp, keys: KeyFile | None, cors: Cors = NO_CORS, scopes: Sequence[KeyScope] = ()
    ) -> None:
        self.app, self.keys, self.cors = app, keys, cors
        self.scopes = scopes  # of which a key needs one, whatever it asks for

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request: Request = scope[REQUEST]

        async def send_with_cors(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                allow = headers.get("allow", "") if request.method == "OPTIONS" and message["status"] == 204 else ""
                headers.update(self.cors.headers(request, allow))
                headers.add_vary_header("origin")
            await send(message)

        app = self.find_refusal(request) or self.app
        await app(scope, receive, send_with_cors if self.cors.origins else send)

    def find_refusal(self, request: Request) -> Reply | None:
        """The refusal of a request; None if it may pass, and then its owner is known."""
        if self.keys is None:
            # Without keys only this machine may ask: no page of another site, and no name that was bent to point here.
            host = request.header("host").lower()
            name = host if host.endswith("]") else host.rsplit(":", 1)[0]
            if name not in LOOPBACK:
                return error_reply(403, f"this server answers to localhost only, not to {host[:100]!r}", "host")
            # Another port of this machine is another site too.
            site, origin = request.header("sec-fetch-site"), request.header("origin")
            own = site in OWN_SITE and (site or not origin or origin.lower().partition("://")[2] == host)
            if not own and request.path != "/" and not self.cors.allows(origin):
                return error_reply(403, "requests from other sites are not answered", "host")
            request.trusted = True
            return None
        given = request.header("authorization")
        scheme, _, key = given.partition(" ")
        owner = self.keys.owner(key.strip()) if scheme.lower() == "bearer" else None
        if owner is not None and not owner.expired():
            request.owner, request.key, request.trusted = owner.name, owner, True
            if self.scopes and not owner.may(*self.scopes):
                return error_reply(403, f"this key may not {self.scopes[0]}", "scope")
        elif request.path not in OPEN and not request.path.startswith("/web/") and request.method != "OPTIONS":
            request.notes.refused = "expired" if owner else "wrong" if given else "missing"
            word = {"expired": "an expired", "wrong": "a wrong", "missing": "no"}[request.notes.refused]
            text = f"{word} API key; send Authorization: Bearer KEY"
            return error_reply(401, text, "key", {"www-authenticate": "Bearer"})
        return None


def check_proxies(given: Sequence[str]) -> tuple[str, ...]:
    """The proxies whose `X-Forwarded-For` is believed, as uvicorn's middleware takes them: addresses or networks.

    >>> check_proxies(["127.0.0.1", "10.0.0.0/8"])
    ('127.0.0.1', '10.0.0.0/8')
    """
    try:
        for address in given:
            ipaddress.ip_network(address)
    except ValueError as error:
        raise BadInput(f"a proxy is an address such as 10.0.0.1 or 10.0.0.0/8: {error}") from None
    return tuple(given)


class RequestLog:
    """Middleware that makes the `Request` of a scope; once it is over, counts and logs it."""

    def __init__(
        self,
        app: ASGIApp,
        access: AccessLog,
        metrics: ServerMetrics | None = None,
    ) -> None:
        self.app, self.access, self.metrics = app, access, metrics
        self.tidying = Tidying()
        self.headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, sent = perf_counter(), 0, 0
        request = scope[REQUEST] = Request(scope, receive)
        NOTES.set(request.notes)

        async def send_counted(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *self.headers, (b"x-request-id", request.notes.id.encode()), *message["headers"]
                ]  # fmt: skip
            else:
                sent += len(message.get("body", b""))
            await send(message)

        await self.app(scope, receive, send_counted)
        self._count(request, status, sent, perf_counter() - began)

    def _count(self, request: Request, status: int, sent: int, seconds: float) -> None:
        noted = request.notes
        if seconds > LONG or sent > LARGE:
            self.tidying.soon()
        refused = noted.refused or ("of another scope" if status == 403 and request.owner else "")
        if refused:
            log.warning("%s: API key %s %s", request.source, refused, request.owner, extra={"path": request.path[:100]})
        slow = self.access.request(request, status, sent, seconds)
        if self.metrics is not None:
            self.metrics.count_request(request.route, status, seconds, sent, request.owner, noted.queue)
            if refused:
                self.metrics.count("tuplet_keys_refused_total", refused)
            if slow:
                self.metrics.count("tuplet_slow_requests_total")
