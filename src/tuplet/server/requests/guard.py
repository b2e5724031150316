"""What is refused before anybody looks at it: another host, another site, no key; and the headers of every answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tuplet.server.encoding import encode
from tuplet.server.requests.cors import NO_CORS, Cors
from tuplet.server.requests.http import Reply, Request
from tuplet.server.requests.keys import KeyFile

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
OWN_SITE = ("same-origin", "none", "")  # as browsers say it; others say nothing
# The page itself holds no data; everything else needs a key where keys are needed.
OPEN = ("/", "/health", "/ready", "/favicon.ico", "/openapi.json")


def is_open(path: str) -> bool:
    """Whether an address needs no key and no store."""
    return path in OPEN or path.startswith("/web/")


@dataclass(frozen=True)
class Guard:
    """Who may ask."""

    keys: KeyFile | None
    cors: Cors = NO_CORS

    def refused(self, request: Request) -> Reply | None:
        """Why a request is not looked at; None if it is, and then its owner is known."""
        if self.keys is None:
            # Without keys only this machine may ask: no page of another site, and no name that was bent to point here.
            host = request.header("host").lower()
            name = host if host.endswith("]") else host.rsplit(":", 1)[0]
            if name not in LOOPBACK:
                return _reply(403, f"this server answers to localhost only, not to {host[:100]!r}", "host")
            # Another port of this machine is another site too.
            site, origin = request.header("sec-fetch-site"), request.header("origin")
            own = site in OWN_SITE and (site or not origin or origin.lower().partition("://")[2] == host)
            if not own and request.path != "/" and not self.cors.allows(origin):
                return _reply(403, "requests from other sites are not answered", "host")
            request.trusted = True
            return None
        given = request.header("authorization")
        scheme, _, key = given.partition(" ")
        owner = self.keys.owner(key.strip()) if scheme.lower() == "bearer" else None
        if owner is not None and not owner.expired():
            request.owner, request.key, request.trusted = owner.name, owner, True
        elif not is_open(request.path) and request.method != "OPTIONS":
            request.notes.refused = "expired" if owner else "wrong" if given else "missing"
            word = {"expired": "an expired", "wrong": "a wrong", "missing": "no"}[request.notes.refused]
            text = f"{word} API key; send Authorization: Bearer KEY"
            return _reply(401, text, "key", {"www-authenticate": "Bearer"})
        return None

    def said(self, request: Request, reply: Reply) -> dict[str, str]:
        """The headers of an answer, with what a page of another origin is told."""
        origin = request.header("origin")
        if request.method == "OPTIONS" and reply.status == 204:
            local = request.header("access-control-request-private-network") == "true"
            told = self.cors.preflight(origin, reply.headers.get("allow", ""), local)
        else:
            told = self.cors.headers(origin)
        vary = [value for value in (reply.headers.get("vary", ""), told.get("vary", "")) if value]
        return {**reply.headers, **told, "vary": ", ".join(vary)}


def _reply(status: int, error: str, kind: str, headers: dict[str, str] | None = None) -> Reply:
    body: dict[str, Any] = {"error": error, "kind": kind}
    return Reply(encode(body), status, headers=headers or {})
