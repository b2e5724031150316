"""What the parts of the server that work on a request note down about it, for the log."""

from __future__ import annotations

import os
import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuplet.server.requests.sending import Outgoing

LONGEST_QUERY = 2000  # characters that are kept
_SANE = re.compile(r"[\w.:/+=@-]{1,128}", re.ASCII)


@dataclass(slots=True)
class RequestNotes:
    """The notes of one request."""

    id: str = ""
    queue: float | None = None  # seconds until it was its turn, where it had to have one
    store: str | None = None
    engine: str | None = None
    queries: int = 0
    query: str = ""  # the first one
    pruned: str | None = None  # what stopped the search of one of them
    refused: str = ""  # what is wrong with its key
    outgoing: Outgoing | None = None  # the bytes of its answer

    def written(self, size: int) -> None:
        """Note bytes of the answer; `TooBusy` where too many are on their way already."""
        if self.outgoing is not None:
            self.outgoing.add(size)

    def asked(self, store: str, engine: str, query: str, pruned: str | None) -> None:
        """Note a query, one of several perhaps."""
        self.store, self.engine = store, engine
        self.queries += 1
        self.query = self.query or query[:LONGEST_QUERY]
        self.pruned = pruned or self.pruned


# Of the request that this task, or this thread on its behalf, works on.
NOTES: ContextVar[RequestNotes] = ContextVar("NOTES")


def notes() -> RequestNotes:
    """The notes of the request at hand; outside of requests, some that nobody reads."""
    return NOTES.get(None) or RequestNotes()


def request_id(given: str) -> str:
    """The id that a proxy gave, if it is one; else a new one.

    >>> request_id("a-1"), len(request_id("")), len(request_id("a b"))
    ('a-1', 16, 16)
    """
    return given if _SANE.fullmatch(given) else os.urandom(8).hex()
