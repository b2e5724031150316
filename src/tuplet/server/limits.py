"""Limits of a server on every request, budgets for bytes on their way, and errors as clear JSON."""

from __future__ import annotations

import math
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from tuplet.errors import (
    BadInput,
    BudgetExceeded,
    ParseError,
    PlacedError,
    StoreBusy,
    TupletError,
    UnknownName,
    UnsafeQuery,
    Unsupported,
)
from tuplet.lang.ast import Constant, Query, atoms, terms
from tuplet.lang.reader import has_more_tokens
from tuplet.query.limits import Deadline, Limits
from tuplet.server.keys import KeyRefused
from tuplet.settings import flag, knob

MOST_MEMORY, LEAST_MEMORY = 256 << 20, 32 << 20  # bytes of one search, by default
HELD = 2  # long queries that may wait in the middle of their search, for each query that may run
_GROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class ServerLimits:
    """The largest request that is answered: the flags `--max-…` of `tuplet serve`."""

    max_body: int = knob(1 << 20, "size of a request", unit="bytes")
    max_atoms: int = knob(32, "atoms of a query")
    max_variables: int = knob(16, "variables of a query")
    max_k: int = knob(10_000, "answers of a query, those that an offset skips included")
    max_time: float = knob(10.0, "time of a request", unit="seconds")
    max_memory: int | None = knob(
        None,
        "what one search, or all of one key or address, may hold (default: a share of half of the memory there is)",
        unit="bytes",
    )
    max_answer_bytes: int = knob(16 << 20, "size of an answer; what is left out is said", unit="bytes")
    max_sending: int = knob(
        64 << 20,
        "size of all answers that one process writes or sends, half of it for one key or address; and of all requests "
        "that it receives",
        unit="bytes",
    )
    max_tokens: int = knob(10_000, "words and signs of a query")
    max_concurrent: int = knob(4, "queries at once in one process; beside them half as many that run long")
    max_waiting: int = knob(128, "requests that wait in one process, half of them of one key or address")
    max_batch: int = knob(256, "queries of one request")
    max_connections: int = knob(4096, "connections at once")
    max_connections_each: int = knob(3072, "connections at once from one address")

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and not 0 < value < math.inf:  # nan is neither
                raise BadInput(f"{flag(name)} must be positive, not {value}")

    def settled(self, workers: int) -> ServerLimits:
        """The same with a share of the memory for each search of `workers` processes."""
        if self.max_memory is not None:
            return self
        searches = self.max_concurrent + self.max_concurrent // 2 + HELD * self.max_concurrent  # those that wait, too
        return replace(self, max_memory=memory_share(memory_there_is(), workers * searches))

    def check_text(self, text: str) -> None:
        """Refuse a text with too many words before a tree is made of it.

        >>> ServerLimits(max_tokens=5).check_text("?x : a(?x, c)")
        Traceback (most recent call last):
        tuplet.server.limits.OverLimit: the query has more than 5 words and signs; this server takes no more
        """
        if len(text) > self.max_tokens and has_more_tokens(text, self.max_tokens):
            raise OverLimit(
                "tokens",
                f"the query has more than {self.max_tokens:,} words and signs; this server takes no more",
            )

    def check_query(self, query: Query) -> None:
        """Refuse a query with too many atoms or variables.

        >>> from tuplet.lang.parse import parse
        >>> ServerLimits(max_atoms=1).check_query(parse("?x : a(?x, c) & b(?x, c)"))
        Traceback (most recent call last):
        tuplet.server.limits.OverLimit: the query has 2 atoms, this server takes at most 1
        """
        number = sum(1 for _ in atoms(query.body))
        if number > self.max_atoms:
            raise OverLimit("atoms", f"the query has {number} atoms, this server takes at most {self.max_atoms}")
        variables = len({term for term in terms(query.body) if not isinstance(term, Constant)})
        if variables > self.max_variables:
            raise OverLimit(
                "variables", f"the query has {variables} variables, this server takes at most {self.max_variables}"
            )

    def deadline(self, timeout: float | None = None, clock: Callable[[], float] = perf_counter) -> Deadline:
        """The deadline of a request that has just been received."""
        if timeout is not None and timeout > self.max_time:
            raise OverLimit(
                "time", f"the timeout is {timeout:g} s, this server gives a request at most {self.max_time:g} s"
            )
        return Deadline(self.max_time if timeout is None else timeout, clock)

    def within(self, limits: Limits, timeout: float | None = None) -> Limits:
        """Settled limits of a question as far as this server allows; it fills in what they leave open."""
        last = limits.offset + (limits.k if isinstance(limits.k, int) else 0)
        if limits.k == "all" or last > self.max_k:
            asked = f"k is {limits.k}" + (f" after {limits.offset} skipped" if limits.offset else "")
            raise OverLimit("k", f"{asked}, this server gives at most {self.max_k:,} answers to a query")
        memory = self.max_memory or MOST_MEMORY
        if limits.memory is not None and limits.memory > memory:
            raise OverLimit(
                "memory", f"memory is {limits.memory:,} bytes, this server gives a search at most {memory:,}"
            )
        given = vars(limits) | {"memory": limits.memory or memory, "timeout": timeout or limits.timeout}
        return Limits(**given)


def memory_there_is() -> int:
    """Bytes that this process may use: of the machine, or of its container or systemd unit."""
    there_is = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError, IndexError):
        group = _GROUP / Path("/proc/self/cgroup").read_text().splitlines()[-1].split(":", 2)[2].lstrip("/")
        while group.is_relative_to(_GROUP):
            with suppress(OSError, ValueError):  # a group without a limit says "max"
                there_is = min(there_is, int((group / "memory.max").read_text()))
            group = group.parent
    return there_is


def memory_share(there_is: int, searches: int) -> int:
    """Bytes for each of so many searches: half of the memory is for stores and answers.

    >>> [memory_share(gigabytes << 30, 16) >> 20 for gigabytes in (64, 8, 1, 0)]
    [256, 256, 32, 32]
    """
    return max(LEAST_MEMORY, min(MOST_MEMORY, there_is // 2 // searches))


_LONG_WORD = re.compile(r"[^\s]{150,}?(?=['\s;]|$)")


class OverLimit(BudgetExceeded):
    def __init__(self, limit: str, message: str) -> None:
        super().__init__(message, limit=limit)


class TooBusy(TupletError):
    """No place is free for one more query."""


# The first class that an error belongs to says its status and its kind.
KINDS: tuple[tuple[type[TupletError], int, str], ...] = (
    (Unsupported, 400, "unsupported"),
    (ParseError, 400, "syntax"),
    (UnknownName, 400, "unknown"),
    (UnsafeQuery, 400, "unsafe"),
    (BudgetExceeded, 422, "limit"),
    (TooBusy, 429, "busy"),
    (StoreBusy, 409, "busy"),
    (KeyRefused, 403, "scope"),
    (TupletError, 400, "input"),
)


def problem(error: TupletError) -> tuple[int, dict[str, Any]]:
    """Status and JSON body of an error.

    >>> from tuplet.lang.parse import parse
    >>> try:
    ...     parse("?x : r(?x, a")
    ... except TupletError as error:
    ...     problem(error)
    (400, {'error': "expected ')' after the two terms of an atom, found the end of the query", 'kind': 'syntax', \
'position': 12, 'length': 1, 'line': 1, 'column': 13})
    """
    status, kind = next((status, kind) for known, status, kind in KINDS if isinstance(error, known))
    body: dict[str, Any] = {"error": brief(error.message.split("\n", 1)[0]), "kind": kind}
    if isinstance(error, UnknownName):
        if error.kind == "store":
            return 404, {**body, "kind": "store"}
        body["suggestions"] = list(error.suggestions)
    if isinstance(error, BudgetExceeded):
        return (413 if error.limit == "body" else status), {**body, "limit": error.limit}
    if isinstance(error, PlacedError) and error.text:
        body |= {"position": error.position, "length": max(1, error.length)}
        body |= {"line": error.line, "column": error.column}
    return status, body


def brief(text: str, most: int = 1000) -> str:
    """A sentence with its long words cut.

    >>> len(brief("unknown entity '" + "x" * 90_000 + "'; did you mean 'xx'?"))
    137
    """
    text = _LONG_WORD.sub(lambda word: word.group()[:100] + "…", text)
    return text if len(text) <= most else text[: most - 1] + "…"


@contextmanager
def with_place(text: str) -> Iterator[None]:
    """Add to the error of an unsafe variable the place where the query first names it."""
    try:
        yield
    except UnsafeQuery as error:
        found = re.search(rf"[?$]{re.escape(error.variable)}\b", text)
        if found is None:
            raise
        start, length = found.start(), found.end() - found.start()
        raise UnsafeQuery(error.variable, error.reason, text, start, length) from None


LARGE = 1 << 18  # bytes of an answer that is sent in pieces; requests and answers beyond it are counted


class Sending:
    """How many bytes of large answers, or requests, are on their way; of one owner at most half of what there may be.

    >>> sending = Sending(100)
    >>> sending.takes("a", 40), sending.takes("a", 40), sending.takes("b", 40)
    (True, False, True)
    >>> sending.sent("a", 40)
    >>> sending.takes("a", 40)
    True
    """

    def __init__(self, most: int, what: str = "answers") -> None:
        self.most, self.what, self.owners = most, what, Counter[str]()
        self._turn = threading.Lock()  # answers are written in threads

    def takes(self, owner: str, size: int, already: int = 0) -> bool:
        """Whether there is room for one more, of which some bytes are counted `already`; then it counts until `sent`.

        Whoever has nothing else on its way may have one, however large.
        """
        with self._turn:
            own, all_ = self.owners[owner] - already, self.owners.total() - already
            if (own and own + size > self.most // 2) or (all_ and all_ + size > self.most):
                return False
            self._put(owner, own + size)
            return True

    def sent(self, owner: str, size: int) -> None:
        """Stop counting: it is sent, or its client has gone."""
        with self._turn:
            self._put(owner, self.owners[owner] - size)

    def _put(self, owner: str, size: int) -> None:
        if size:
            self.owners[owner] = size
        else:
            self.owners.pop(owner, None)

    def unread(self, owner: str) -> bool:
        """Whether an owner leaves too much unread for another large answer."""
        own = self.owners[owner]
        return own > 0 and own + LARGE > self.most // 2


class Outgoing:
    """One answer or request on its way, if it is large; the bytes of an answer count while it is written, too."""

    def __init__(self, sending: Sending, owner: str) -> None:
        self._sending, self._owner = sending, owner
        self._size = self._counted = 0
        self._closed = False
        self._turn = threading.Lock()  # it is written in a thread and closed in the loop

    def add(self, size: int) -> None:
        """Count more bytes; `TooBusy` where too many are on their way."""
        self.settle(self._size + size)

    def settle(self, size: int) -> None:
        """Count this size in all."""
        self._size, counted = size, size if size > LARGE else 0
        with self._turn:
            if counted == self._counted:
                return
            if self._closed or not self._sending.takes(self._owner, counted, self._counted):
                raise TooBusy(f"too many large {self._sending.what} are on their way; try again in a moment")
            self._counted = counted

    def close(self) -> None:
        """Stop counting."""
        with self._turn:
            self._closed = True
            if self._counted:
                self._sending.sent(self._owner, self._counted)
                self._counted = 0
