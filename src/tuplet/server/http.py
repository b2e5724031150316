"""Requests, replies and routes: as much of HTTP as this server needs.

A route says all there is to know about one operation: how it is reached, what it takes and gives, who may use it, and
the function that does it. The same table dispatches requests and makes the description (`openapi`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError

from tuplet._version import __version__
from tuplet.errors import BadInput, TupletError
from tuplet.query.answers import INTERRUPTIONS
from tuplet.server.encoding import WORTH_PACKING, encode, packed, takes_gzip
from tuplet.server.keys import KeyOwner, KeyRefused, KeyScope
from tuplet.server.limits import problem
from tuplet.server.logs import RequestNotes
from tuplet.server.snapshots import SEEN

ASGIScope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[ASGIScope, Receive, Send], Awaitable[None]]
Scope = Literal["open", "read", "write", "admin"]

_VERSION = __version__.encode()
JSON = "application/json"
TABLES = {"text/tab-separated-values": ".tsv", "text/csv": ".csv"}  # and how files of this type are called
# Answers of these depend on the request and the generation alone; they have an ETag.
TAGGED = frozenset({"/ask", "/entity", "/schema", "/schema/entities", "/sparql"})
# The scopes of a key that opens a route.
_OPENED_BY: Mapping[Scope, tuple[KeyScope, ...]] = {
    "open": (),
    "read": ("read", "admin"),
    "write": ("write", "admin"),
    "admin": ("write", "admin"),
}


@dataclass
class Request:
    """One request, its body read whole."""

    method: str
    path: str
    address: str  # what comes after the ? of the address
    headers: Mapping[bytes, bytes]  # names in lower case
    client: str = ""  # the address of who asks
    receive: Receive | None = None  # what comes after the body: that the client has gone
    body: bytes = b""
    owner: str = ""  # whose key it is
    trusted: bool = False  # there is a key, or none is needed
    key: KeyOwner | None = None  # and what it opens; None where no keys are needed, or none was given
    route: str = "other"  # the path of its route, once that is found
    notes: RequestNotes = field(default_factory=RequestNotes)

    def header(self, name: str) -> str:
        """A header, or nothing."""
        return self.headers.get(name.encode(), b"").decode("latin-1")

    @property
    def asker(self) -> str:
        """Who shares places with himself alone: the owner of a key, else an address."""
        return f"key {self.owner}" if self.owner else self.client

    async def gone(self) -> None:
        """Returns when the client has gone."""
        if self.receive is None:
            await asyncio.get_running_loop().create_future()
            return
        while (await self.receive())["type"] != "http.disconnect":
            pass

    @property
    def media(self) -> str:
        """The type of the body, without its parameters."""
        return self.header("content-type").split(";")[0].strip().lower()

    def tag(self, settings: bytes = b"") -> str:
        """The ETag of the answer: version, settings, stores at their generations, and what is asked.

        Its bytes may differ: it is a weak one.
        """
        seen, headers = SEEN.get(), self.headers
        address = self.path.encode(), self.address.encode(), headers.get(b"accept", b"")
        state = b"" if seen is None else seen.state
        words = _VERSION, settings, state, *address, headers.get(b"content-type", b""), self.body
        return f'W/"{blake2b(b"|".join(words), digest_size=16).hexdigest()}"'

    def parameters(self) -> dict[str, str]:
        """What the address says after the ?; of a name that comes twice, the last.

        >>> Request("GET", "/schema", "store=world&limit=3", {}).parameters()
        {'store': 'world', 'limit': '3'}
        """
        return pairs(self.address)


@dataclass(frozen=True)
class Reply:
    """What is sent back: bytes, or pieces of them."""

    body: bytes | Sequence[bytes] = b""
    status: int = 200
    media: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return len(self.body) if isinstance(self.body, bytes) else sum(map(len, self.body))

    def packed_for(self, request: Request) -> Reply:
        """The same, compressed if it is worth it and the client takes it."""
        if self.size < WORTH_PACKING or "content-encoding" in self.headers:
            return self
        vary = ", ".join(filter(None, (self.headers.get("vary"), "accept-encoding")))
        if not takes_gzip(request.header("accept-encoding")):
            # a cache has to know, but what was posted is not cached
            return self if request.method == "POST" else replace(self, headers={**self.headers, "vary": vary})
        body = packed([self.body] if isinstance(self.body, bytes) else self.body)
        return replace(self, body=body, headers={**self.headers, "content-encoding": "gzip", "vary": vary})


Handler: TypeAlias = Callable[[Request, Any], Awaitable[Reply]]  # the second is the model of what was taken


@dataclass(frozen=True)
class Route:
    """One operation."""

    method: str
    path: str
    name: str  # of the operation, for generated clients
    summary: str
    handle: Handler
    takes: type[BaseModel] | None = None  # a JSON body, or for GET the parameters of the address
    gives: Mapping[str, Any] = field(default_factory=lambda: {JSON: dict[str, Any]})  # 200: by media type, what it is
    scope: Scope = "read"
    statuses: tuple[int, ...] = ()  # errors beside those that every operation may have
    extra: Mapping[str, Any] = field(default_factory=dict)  # of its description
    described: bool = True
    tables: type[BaseModel] | None = None  # the body may be a table too; then these parameters are in the address

    def check(self, key: KeyOwner | None) -> None:
        """Refuse a key that is for other things. Without any keys this machine alone asks, and changes nothing."""
        if key is None and self.scope == "write":
            raise KeyRefused("facts are changed with a key that may write; see --api-key-file and --new-key")
        if key is not None and self.scope != "open" and not key.may(*_OPENED_BY[self.scope]):
            wanted = " or ".join(_OPENED_BY[self.scope])
            raise KeyRefused(f"the key {key.name!r} has not the scope for this: {wanted}")

    def taken(self, request: Request) -> BaseModel | None:
        """The body or the parameters of a request, checked."""
        if packed := request.header("content-encoding").removeprefix("identity"):
            raise HTTPProblem(415, f"send the body as it is, not packed with {packed[:60]}")
        if self.takes is None:
            return None
        if self.method == "GET":
            return self.takes.model_validate(request.parameters())
        if self.tables is not None and request.media in TABLES:
            return self.tables.model_validate(request.parameters())
        if request.media != JSON and not request.media.endswith("+json"):
            # Not only a nicety: a page of another site can send text/plain without being asked, JSON it cannot.
            raise HTTPProblem(415, f"send {JSON}, not {request.media[:60] or 'a body of no type'}")
        if self.tables is not None and request.address:
            raise BadInput("what JSON is sent with stands in it, not after the ? of the address")
        return self.takes.model_validate_json(request.body)


class HTTPProblem(TupletError):
    """A request that is refused for a reason of HTTP."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers or {}


class Router:
    """A table of routes.

    >>> async def handle(request, taken):
    ...     return Reply(b"{}")
    >>> router = Router([Route("GET", "/health", "health", "Whether the server is up", handle)])
    >>> router.methods("/health")
    ['GET', 'HEAD', 'OPTIONS']
    >>> router.find("POST", "/health")
    Traceback (most recent call last):
    tuplet.server.http.HTTPProblem: POST is not for this address; GET, HEAD, OPTIONS are
    """

    def __init__(self, routes: Iterable[Route], settings: bytes = b"") -> None:
        self.settings = settings  # of the server: with others, its answers to the same request may be others
        self.table: dict[str, dict[str, Route]] = {}
        self.folders: dict[str, Route] = {}  # routes whose path ends in /: they answer for all below
        for route in routes:
            if route.path.endswith("/") and route.path != "/":
                self.folders[route.path] = route
            else:
                self.table.setdefault(route.path, {})[route.method] = route

    def methods(self, path: str) -> list[str]:
        """How a path may be asked."""
        found = set(self._at(path))
        return sorted(found | ({"HEAD"} if "GET" in found else set()) | {"OPTIONS"})

    def _at(self, path: str) -> dict[str, Route]:
        if path in self.table:
            return self.table[path]
        for folder, route in self.folders.items():
            if path.startswith(folder):
                return {route.method: route}
        raise HTTPProblem(404, "there is nothing at this address; /openapi.json lists what there is")

    def find(self, method: str, path: str) -> Route:
        """The route of a request; HEAD is GET without the body."""
        found = self._at(path)
        route = found.get("GET" if method == "HEAD" else method)
        if route is None:
            allowed = ", ".join(self.methods(path))
            raise HTTPProblem(405, f"{method[:20]} is not for this address; {allowed} are", {"allow": allowed})
        return route

    async def reply(self, request: Request) -> Reply:
        """What is answered; what is wrong with the request is an answer too."""
        try:
            if request.method == "OPTIONS":
                return Reply(b"", 204, headers={"allow": ", ".join(self.methods(request.path))})
            route = self.find(request.method, request.path)
            request.route = route.path
            route.check(request.key)
            taken = route.taken(request)
            if route.path not in TAGGED:
                return await route.handle(request, taken)
            tag = request.tag(self.settings)
            if tag in request.header("if-none-match"):
                return Reply(status=304, headers=_kept(request, tag))
            reply = await route.handle(request, taken)
            if reply.status != 200 or request.notes.pruned in INTERRUPTIONS:
                return reply  # an error, or as far as it went: another time it may go further
            return Reply(reply.body, reply.status, reply.media, {**reply.headers, **_kept(request, tag)})
        except (TupletError, ValidationError) as error:
            return refusal(error)


def _kept(request: Request, tag: str) -> dict[str, str]:
    """How long an answer may be kept: until somebody asks again whether it is still so."""
    return {"etag": tag, "cache-control": "no-cache" if request.key is None else "private, no-cache"}


def refusal(error: TupletError | ValidationError) -> Reply:
    """An error as an answer."""
    if isinstance(error, HTTPProblem):
        return Reply(encode({"error": error.message, "kind": "request"}), error.status, headers=error.headers)
    if isinstance(error, TupletError):
        status, body = problem(error)
        headers = {"retry-after": "1"} if status == 429 else {}
        return Reply(encode(body), status, headers=headers)
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])[:200]
    message = first["msg"][:300]
    text = (f"{where}: {message}" if where else message).encode("utf-8", "replace").decode()
    return Reply(encode({"error": text, "kind": "request"}), 422)


def pairs(text: str) -> dict[str, str]:
    """The fields of a form or an address; what is not UTF-8 is replaced."""
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=100, errors="replace"))
    except ValueError:
        raise BadInput("there are more than 100 fields") from None
