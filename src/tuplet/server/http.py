"""Requests, replies and operations.

An operation says all there is to know about one thing that the server does: how it is reached, what it takes and gives,
who may use it, and the function that does it. The same table makes the routes (`app`) and the description (`openapi`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qsl

import starlette.requests
from pydantic import BaseModel, ValidationError
from starlette.requests import empty_receive
from starlette.types import Receive, Scope, Send

from tuplet._version import __version__
from tuplet.errors import BadInput, TupletError
from tuplet.server.encoding import WORTH_PACKING, encode, packed, takes_gzip
from tuplet.server.keys import KeyOwner, KeyRefused, KeyScope
from tuplet.server.limits import LARGE, problem
from tuplet.server.logs import RequestNotes, request_id

Access = Literal["open", "read", "write", "admin"]

_VERSION = __version__.encode()
JSON = "application/json"
TABLES = {"text/tab-separated-values": ".tsv", "text/csv": ".csv"}  # and how files of this type are called
# Answers of these depend on the request and the generation alone; they have an ETag.
TAGGED = frozenset({"/ask", "/entity", "/schema", "/schema/entities", "/sparql"})
BODILESS = (204, 304)
REQUEST = "tuplet.request"  # where the request lies in an ASGI scope
# The scopes of a key that opens an operation.
_OPENED_BY: Mapping[Access, tuple[KeyScope, ...]] = {
    "open": (),
    "read": ("read", "admin"),
    "write": ("write", "admin"),
    "admin": ("write", "admin"),
}


class Request(starlette.requests.Request):
    """One request, its body read whole."""

    def __init__(self, scope: Scope, receive: Receive = empty_receive) -> None:
        super().__init__(scope, receive)
        self.path: str = scope["path"]
        self.query_string: str = scope["query_string"].decode("latin-1")
        self.fields: Mapping[bytes, bytes] = dict(scope["headers"])  # names in lower case
        self.source: str = (scope.get("client") or ("",))[0]  # the address of the client
        self.content = b""  # the body
        self.owner = ""  # whose key it is
        self.trusted = False  # there is a key, or none is needed
        self.key: KeyOwner | None = None  # and what it opens; None where no keys are needed, or none was given
        self.route = "other"  # the path of its route, once that is found
        self.notes = RequestNotes(request_id(self.header("x-request-id")))

    def header(self, name: str) -> str:
        """A header, or an empty text."""
        return self.fields.get(name.encode(), b"").decode("latin-1")

    @property
    def asker(self) -> str:
        """The client that shares places and budgets with no other: the owner of a key, else an address."""
        return f"key {self.owner}" if self.owner else self.source

    async def gone(self) -> None:
        """Wait until the client has gone."""
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
        stores = self.notes.stores
        said = (self.query_string.encode(), *(self.fields.get(name, b"") for name in (b"accept", b"content-type")))
        words = _VERSION, settings, b"" if stores is None else stores.state, self.path.encode(), *said, self.content
        return f'W/"{blake2b(b"|".join(words), digest_size=16).hexdigest()}"'


@dataclass(frozen=True)
class Reply:
    """A response of bytes, or of pieces of them: each waits until there is room for it."""

    body: bytes | Sequence[bytes] = b""
    status: int = 200
    media: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.body) if isinstance(self.body, bytes) else sum(map(len, self.body))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(name.encode(), value.encode("latin-1")) for name, value in self.headers.items()]
        if self.status not in BODILESS:
            headers += [(b"content-type", self.media.encode()), (b"content-length", b"%d" % self.size)]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        pieces = self._pieces() if scope["method"] != "HEAD" else []
        for piece in pieces[:-1]:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": pieces[-1] if pieces else b""})

    def _pieces(self) -> Sequence[bytes]:
        body = self.body
        return [body[at : at + LARGE] for at in range(0, len(body), LARGE)] if isinstance(body, bytes) else body

    def packed_for(self, request: Request) -> Reply:
        """Compress a body if that is worth it and the client accepts it."""
        if self.size < WORTH_PACKING or "content-encoding" in self.headers:
            return self
        vary = ", ".join(filter(None, (self.headers.get("vary"), "accept-encoding")))
        if not takes_gzip(request.header("accept-encoding")):
            # a cache has to know, but what was posted is not cached
            return self if request.method == "POST" else replace(self, headers={**self.headers, "vary": vary})
        return replace(
            self, body=packed(self._pieces()), headers={**self.headers, "content-encoding": "gzip", "vary": vary}
        )


Handler: TypeAlias = Callable[[Request, Any], Awaitable[Reply]]  # the second is the model of what was taken


@dataclass(frozen=True)
class Operation:
    """One thing that the server does."""

    method: str
    path: str
    name: str  # of the operation, for generated clients
    summary: str
    handle: Handler
    takes: type[BaseModel] | None = None  # a JSON body, or for GET the parameters of the address
    gives: Mapping[str, Any] = field(default_factory=lambda: {JSON: dict[str, Any]})  # 200: by media type, what it is
    access: Access = "read"
    statuses: tuple[int, ...] = ()  # errors beside those that every operation may have
    extra: Mapping[str, Any] = field(default_factory=dict)  # of its description
    described: bool = True
    tables: type[BaseModel] | None = None  # the body may be a table too; then these parameters are in the address

    def check(self, key: KeyOwner | None) -> None:
        """Refuse a key without the scope. Without any keys only this machine asks, and changes nothing."""
        if key is None and self.access == "write":
            raise KeyRefused("facts are changed with a key that may write; see --api-key-file and --new-key")
        if key is not None and self.access != "open" and not key.may(*_OPENED_BY[self.access]):
            wanted = " or ".join(_OPENED_BY[self.access])
            raise KeyRefused(f"the key {key.name!r} has not the scope for this: {wanted}")

    def read_input(self, request: Request) -> BaseModel | None:
        """The body or the parameters of a request, checked."""
        if packed := request.header("content-encoding").removeprefix("identity"):
            raise HTTPProblem(415, f"send the body as it is, not packed with {packed[:60]}")
        if self.takes is None:
            return None
        if self.method == "GET":
            return self.takes.model_validate(dict(form_fields(request.query_string)))
        if self.tables is not None and request.media in TABLES:
            return self.tables.model_validate(dict(form_fields(request.query_string)))
        if request.media != JSON and not request.media.endswith("+json"):
            # Not only a nicety: a page of another site can send text/plain without being asked, JSON it cannot.
            raise HTTPProblem(415, f"send {JSON}, not {request.media[:60] or 'a body of no type'}")
        if self.tables is not None and request.query_string:
            raise BadInput("what JSON is sent with stands in it, not after the ? of the address")
        return self.takes.model_validate_json(request.content)


class HTTPProblem(TupletError):
    """A request that is refused for a reason of HTTP."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers or {}


def error_reply(status: int, error: str, kind: str, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(encode({"error": error, "kind": kind}), status, headers=headers or {})


def refusal(error: TupletError | ValidationError) -> Reply:
    if isinstance(error, HTTPProblem):
        return error_reply(error.status, error.message, "request", error.headers)
    if isinstance(error, TupletError):
        status, body = problem(error)
        return Reply(encode(body), status, headers={"retry-after": "1"} if status == 429 else {})
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])[:200]
    message = first["msg"][:300]
    text = (f"{where}: {message}" if where else message).encode("utf-8", "replace").decode()
    return error_reply(422, text, "request")


def form_fields(text: str | bytes) -> list[tuple[str, str]]:
    """The fields of a form or a query string; what is not UTF-8 is replaced.

    >>> form_fields("store=world&limit=3")
    [('store', 'world'), ('limit', '3')]
    """
    text = text if isinstance(text, str) else text.decode("utf-8", "replace")
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=100, errors="replace")
    except ValueError:
        raise BadInput("there are more than 100 fields") from None
