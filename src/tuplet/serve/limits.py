"""What one server takes on: limits on every request, and errors as clear JSON."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tuplet.errors import BudgetExceeded, ParseError, Refused, TupletError, UnknownName, UnsafeQuery, Unsupported
from tuplet.lang.ast import Constant, Query, atoms, terms


@dataclass(frozen=True)
class Limits:
    """The largest request that is answered; the same names as the flags of `tuplet serve`."""

    body: int = 1 << 20  # bytes of a request
    atoms: int = 32  # of a query
    variables: int = 16  # of a query
    k: int = 10_000  # answers of a query
    time: float = 10.0  # seconds of a request
    concurrent: int = 4  # queries that run at once in one process
    waiting: int = 64  # requests that wait for their turn in one process
    batch: int = 256  # queries of one request

    def check_query(self, query: Query) -> None:
        """Refuse a query with too many atoms or variables.

        >>> from tuplet.lang.parse import parse
        >>> Limits(atoms=1).check_query(parse("?x : a(?x, c) & b(?x, c)"))
        Traceback (most recent call last):
        tuplet.serve.limits.OverLimit: the query has 2 atoms, this server takes at most 1
        """
        number = sum(1 for _ in atoms(query.body))
        if number > self.atoms:
            raise OverLimit("atoms", f"the query has {number} atoms, this server takes at most {self.atoms}")
        variables = len({term for term in terms(query.body) if not isinstance(term, Constant)})
        if variables > self.variables:
            raise OverLimit(
                "variables", f"the query has {variables} variables, this server takes at most {self.variables}"
            )

    def check_k(self, k: int | str | None) -> int | None:
        """The number of answers asked for, if it is within the limit."""
        if k is None or (isinstance(k, int) and k <= self.k):
            return k
        raise OverLimit("k", f"k is {k}, this server gives at most {self.k:,} answers to a query")

    def check_time(self, timeout: float | None) -> float:
        """The seconds a query may take."""
        if timeout is not None and timeout > self.time:
            raise OverLimit(
                "time", f"the timeout is {timeout:g} s, this server gives a request at most {self.time:g} s"
            )
        return self.time if timeout is None else timeout


class OverLimit(TupletError):
    """A request that is larger than this server takes."""

    def __init__(self, limit: str, message: str) -> None:
        self.limit = limit
        super().__init__(message)


class TooBusy(TupletError):
    """No place left for one more query right now."""


class UnknownStore(TupletError):
    """A store that is not served."""


def problem(error: TupletError, text: str = "") -> tuple[int, dict[str, Any]]:
    """Status and JSON body of an error; `text` is the query, for places the error itself does not know.

    >>> from tuplet.lang.parse import parse
    >>> try:
    ...     parse("?x : r(?x, a")
    ... except TupletError as error:
    ...     problem(error)
    (400, {'error': "expected ')' after the two terms of an atom, found the end of the query", 'kind': 'syntax', \
'position': 12, 'length': 1, 'line': 1, 'column': 13})
    """
    match error:
        case Refused():
            return 400, {"error": error.message, "kind": "unsupported"}
        case ParseError():
            kind = "unsupported" if isinstance(error, Unsupported) else "syntax"
            return 400, {"error": error.message, "kind": kind, **place(error.text, error.position, error.length)}
        case UnknownName():
            body: dict[str, Any] = {"error": first_line(error), "kind": "unknown"}
            body["suggestions"] = list(error.suggestions)
            if error.text:
                body["error"] = re.sub(r" \(line \d+, column \d+\)$", "", body["error"])
                body |= place(error.text, error.position, error.length)
            return 400, body
        case UnsafeQuery():
            body = {"error": first_line(error), "kind": "unsafe"}
            named = re.search(r"unsafe variable (\?\w+)", body["error"])
            found = re.search(re.escape(named[1]) + r"\b", text) if named else None
            if found:
                body |= place(text, found.start(), found.end() - found.start())
            return 400, body
        case OverLimit(limit=limit):
            return (413 if limit == "body" else 422), {"error": first_line(error), "kind": "limit", "limit": limit}
        case BudgetExceeded():
            return 422, {"error": first_line(error), "kind": "limit", "limit": "size"}
        case TooBusy():
            return 429, {"error": first_line(error), "kind": "busy"}
        case UnknownStore():
            return 404, {"error": first_line(error), "kind": "store"}
        case _:
            return 400, {"error": first_line(error), "kind": "input"}


def place(text: str, position: int, length: int) -> dict[str, int]:
    """Where in the query something is wrong: offset in characters, line and column from 1."""
    start = text.rfind("\n", 0, position) + 1
    return {
        "position": position,
        "length": max(1, length),
        "line": text.count("\n", 0, position) + 1,
        "column": position - start + 1,
    }


def first_line(error: Exception) -> str:
    """The message without the excerpt."""
    return str(error).split("\n", 1)[0]
