"""Who may ask: keys, hosts, other sites and trusted proxies."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tuplet.errors import BadInput
from tuplet.server.encoding import encode
from tuplet.server.http import Reply, Request
from tuplet.server.keys import KeyFile

ANY = "*"
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

    def headers(self, origin: str) -> dict[str, str]:
        """What an answer says to a page of this origin; to others, only that it depends on who asks."""
        if not self.origins:
            return {}
        if not self.allows(origin):
            return {"vary": "origin"}
        return {
            "access-control-allow-origin": origin,
            "access-control-expose-headers": "etag, retry-after, tuplet-bound, tuplet-pruned, x-request-id",
            "vary": "origin",
        }

    def preflight(self, origin: str, methods: str, local: bool) -> dict[str, str]:
        """The answer to what a browser asks before the request itself; `local` if it asks for a nearer network."""
        if not self.allows(origin):
            return self.headers(origin)
        return {
            **self.headers(origin),
            "access-control-allow-methods": methods,
            "access-control-allow-headers": "accept, authorization, content-type, if-none-match, x-request-id",
            "access-control-max-age": _DAY,
            **({"access-control-allow-private-network": "true"} if local else {}),
        }


NO_CORS = Cors()


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


Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class TrustedProxies:
    """Proxies whose `X-Forwarded-For` is believed, by address or network.

    A client can send that header too, so it is read from its end: what the last trusted proxy saw is the client.

    >>> proxies = TrustedProxies(["127.0.0.1", "10.0.0.0/8"])
    >>> proxies.client("127.0.0.1", "6.6.6.6, 203.0.113.9, 10.0.0.2")
    '203.0.113.9'
    >>> proxies.client("203.0.113.9", "127.0.0.1"), proxies.client("127.0.0.1", "unknown")
    ('203.0.113.9', '127.0.0.1')
    """

    def __init__(self, given: Sequence[str] = ()) -> None:
        try:
            self._networks: list[Network] = [ipaddress.ip_network(address) for address in given]
        except ValueError as error:
            raise BadInput(f"a proxy is an address such as 10.0.0.1 or 10.0.0.0/8: {error}") from None

    def __bool__(self) -> bool:
        return bool(self._networks)

    def client(self, peer: str, forwarded: str) -> str:
        """Who sent a request that came from `peer`."""
        found = peer
        for address in reversed([word.strip() for word in forwarded.split(",") if word.strip()]):
            if not self._trusted(found):
                break
            try:
                found = str(ipaddress.ip_address(address))
            except ValueError:
                break
        return found

    def _trusted(self, address: str) -> bool:
        try:
            one = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(one in network for network in self._networks)


NO_PROXIES = TrustedProxies()
