"""What the parts of the server that work on a request note down about it, for the log."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
LONGEST_QUERY = 2000  # characters that are kept
_SANE = re.compile(r"[\w.:/+=@-]{1,128}", re.ASCII)


@dataclass(slots=True)
class RequestNotes:
    """The notes of one request."""

    id: str = ""
    queue: float = 0.0  # seconds until it was its turn
    store: str | None = None
    engine: str | None = None
    queries: int = 0
    query: str = ""  # the first one
    pruned: str | None = None  # what stopped the search of one of them

    def asked(self, store: str, engine: str, query: str, pruned: str | None) -> None:
        """Note a query, one of several perhaps."""
        self.store, self.engine = store, engine
        self.queries += 1
        self.query = self.query or query[:LONGEST_QUERY]
        self.pruned = pruned or self.pruned


_NOTES: ContextVar[RequestNotes] = ContextVar("_NOTES")


def notes() -> RequestNotes:
    """The notes of the request that this thread works on; outside of requests, some that nobody reads."""
    return _NOTES.get(None) or RequestNotes()


def noting(noted: RequestNotes, work: Callable[[], T]) -> Callable[[], T]:
    """The same work, which finds these notes in whatever thread it is done.

    >>> about = RequestNotes("a-1")
    >>> noting(about, lambda: notes().id)(), notes().id
    ('a-1', '')
    """

    def with_notes() -> T:
        token = _NOTES.set(noted)
        try:
            return work()
        finally:
            _NOTES.reset(token)

    return with_notes


def request_id(given: str) -> str:
    """The id that a proxy gave, if it is one; else a new one.

    >>> request_id("a-1"), len(request_id("")), len(request_id("a b"))
    ('a-1', 16, 16)
    """
    return given if _SANE.fullmatch(given) else os.urandom(8).hex()
