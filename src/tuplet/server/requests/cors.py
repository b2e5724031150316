"""Pages of other origins that may ask: what browsers want to be told."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tuplet.errors import BadInput

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
