"""Logs of the server: start, stop, deaths of workers, refused keys, slow queries; as text or as JSON."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from typing import TYPE_CHECKING, Any

from tuplet.errors import BadInput
from tuplet.settings import check, knob

if TYPE_CHECKING:
    from tuplet.server.http import Request
    from tuplet.server.limits import Outgoing
    from tuplet.server.snapshots import StoresAtOnce

SLOW = "tuplet.server.slow"  # the logger of slow queries
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


LONGEST_QUERY = 2000  # characters that are kept
_SANE = re.compile(r"[\w.:/+=@-]{1,128}", re.ASCII)


@dataclass(slots=True)
class RequestNotes:
    """Log context of one request."""

    id: str = ""
    queue: float | None = None  # seconds until it was its turn, where it had to have one
    store: str | None = None
    engine: str | None = None
    queries: int = 0
    query: str = ""  # the first one
    pruned: str | None = None  # what stopped the search of one of them
    refused: str = ""  # what is wrong with its key
    outgoing: Outgoing | None = None  # the bytes of its answer
    stores: StoresAtOnce | None = None  # those it may see; None where it sees none, or all

    def written(self, size: int) -> None:
        """Note bytes of the answer; `TooBusy` where too many are on their way already."""
        if self.outgoing is not None:
            self.outgoing.add(size)

    def asked(self, store: str, engine: str, query: str, pruned: str | None) -> None:
        """Note a query, perhaps one of several."""
        self.store, self.engine = store, engine
        self.queries += 1
        self.query = self.query or query[:LONGEST_QUERY]
        self.pruned = pruned or self.pruned


# Of the request that this task, or this thread on its behalf, works on.
NOTES: ContextVar[RequestNotes] = ContextVar("NOTES")


def notes() -> RequestNotes:
    """Log context of the current request; outside of requests, an empty one."""
    return NOTES.get(None) or RequestNotes()


def request_id(given: str) -> str:
    """The id that a proxy gave, if it is one; else a new one.

    >>> request_id("a-1"), len(request_id("")), len(request_id("a b"))
    ('a-1', 16, 16)
    """
    return given if _SANE.fullmatch(given) else os.urandom(8).hex()


@dataclass(frozen=True)
class LogSettings:
    """Flags of `tuplet serve` about logs."""

    access_log: str | None = knob(None, "file that gets a line for every request; - is the standard output")
    log_format: str = knob("text", "how lines are written", choices=("text", "json"))
    log_level: str = knob(
        "info",
        "the least that is told on the standard error",
        choices=("debug", "info", "warning", "error"),
    )
    slow: float | None = knob(None, "log the query of a request that takes longer", unit="seconds")

    def __post_init__(self) -> None:
        check(self)
        if self.slow is not None and not self.slow >= 0:
            raise BadInput(f"--slow is {self.slow!r}; it must not be negative")


def start_logging(settings: LogSettings) -> None:
    """Send everything that this process logs to the standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONLines() if settings.log_format == "json" else PlainLines())
    handler.addFilter(Repeats())
    logging.basicConfig(handlers=[handler], level=settings.log_level.upper(), force=True)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.asgi"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))  # who starts is said by us


class Repeats(logging.Filter):
    """Lets a line of one kind through ten times in ten seconds; the next one says how many were left out.

    What anyone can provoke without a key would fill the disk otherwise.

    >>> line = logging.makeLogRecord({"msg": "refused %s", "args": ("you",), "created": 100.0})
    >>> repeats = Repeats(most=2)
    >>> [repeats.filter(line) for _ in range(5)]
    [True, True, False, False, False]
    >>> line.created = 111.0
    >>> repeats.filter(line), line.getMessage()
    (True, 'refused you (and 3 more of these before)')
    """

    def __init__(self, most: int = 10, seconds: float = 10.0) -> None:
        super().__init__()
        self._most, self._seconds = most, seconds
        self._kinds: dict[tuple[str, str], tuple[float, int]] = {}  # since when, how many

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == SLOW:
            return True
        kind = (record.name, str(record.msg))
        since, count = self._kinds.get(kind, (record.created, 0))
        if record.created - since < self._seconds:
            self._kinds[kind] = (since, count + 1)
            return count < self._most
        left_out = max(0, count - self._most)
        if len(self._kinds) > 1000:  # messages that are all different are not repeats
            self._kinds.clear()
        self._kinds[kind] = (record.created, 1)
        if left_out:
            record.msg, record.args = f"{record.getMessage()} (and {left_out:,} more of these before)", None
        return True


class PlainLines(logging.Formatter):
    """One line of text each; tracebacks follow theirs."""

    def __init__(self) -> None:
        super().__init__("%(when)s %(levelname)s [%(process)d] %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record.when = when(record.created)
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line; its text may come from a client, so no line breaks."""
        return one_line(super().formatMessage(record))


class JSONLines(logging.Formatter):
    """One JSON object each, with what was given as `extra`.

    >>> line = logging.makeLogRecord({"msg": "ready", "created": 0.0, "levelname": "INFO", "process": 7, "port": 80})
    >>> JSONLines().format(line)
    '{"time": "1970-01-01T00:00:00.000Z", "level": "info", "process": 7, "message": "ready", "port": 80}'
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": when(record.created),
            "level": record.levelname.lower(),
            "process": record.process,
            "message": record.getMessage(),
        }
        # Where Ray is loaded, it marks every record for itself with names that begin with _.
        line |= {key: value for key, value in vars(record).items() if key not in _STANDARD and key[0] != "_"}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def when(seconds: float) -> str:
    """A time as in ISO 8601, in UTC.

    >>> when(1_800_000_000.25)
    '2027-01-15T08:00:00.250Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def one_line(text: str) -> str:
    r"""Text without line breaks and other characters that a terminal would obey.

    >>> one_line("a\nb\x1b[31m é")
    'a\\nb\\x1b[31m é'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


log = logging.getLogger("tuplet.server")


class AccessFile(WatchedFileHandler):
    """A file that several processes append to; one that was moved away is created again."""

    def _open(self) -> TextIOWrapper:
        try:
            return open(self.baseFilename, "a", encoding="utf-8", errors="replace", opener=partial(os.open, mode=0o640))
        except OSError as error:
            raise BadInput(f"cannot write the access log {self.baseFilename}: {error.strerror}") from None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except BadInput as error:
            log.error("%s", error)

    def handleError(self, record: logging.LogRecord) -> None:
        log.error("cannot write the access log: %s", sys.exc_info()[1])


LONGEST_PATH = 200  # characters that are logged


class AccessLog:
    """Log of the requests of one process."""

    def __init__(self, settings: LogSettings) -> None:
        file = settings.access_log
        self._file: logging.Handler | None = None
        if file:
            self._file = logging.StreamHandler(sys.stdout) if file == "-" else AccessFile(file)
        self._json = settings.log_format == "json"
        self._slow = settings.slow
        self._slow_log = logging.getLogger(SLOW)

    def request(self, request: Request, status: int, sent: int, seconds: float) -> bool:
        """Log a finished request; returns whether it was slow."""
        noted = request.notes
        slow = self._slow is not None and seconds > self._slow
        if self._file is None and not slow:
            return False
        line: dict[str, Any] = {
            "time": when(time.time()),
            "id": noted.id,
            "client": request.source,
            "key": request.owner or None,
            "method": request.method,
            "path": request.path[:LONGEST_PATH],
            "status": status,
            "bytes": sent,
            "seconds": round(seconds, 6),
        }
        if noted.queue is not None:
            line["queue"] = round(noted.queue, 6)
        if noted.queries:
            line |= {"store": noted.store, "engine": noted.engine}
        if noted.queries > 1:
            line["queries"] = noted.queries
        if noted.pruned:
            line["pruned"] = noted.pruned
        if self._file is not None:
            self._file.handle(logging.makeLogRecord({"msg": json.dumps(line) if self._json else _text(line)}))
        if slow:
            del line["time"]  # the log says it itself
            text = "slow" if self._json else f"slow: {_text(line)} {noted.query}"
            self._slow_log.warning("%s", text, extra={**line, "query": noted.query})
        return slow


def _text(line: dict[str, Any]) -> str:
    """A line to be read by people: who asked for what, then how it went, `name=value` each.

    >>> print(_text({"time": "now", "id": "7", "client": "::1", "key": None, "method": "GET", "path": "/a b",
    ...              "status": 200, "bytes": 12, "seconds": 0.5, "store": "world"}))
    now ::1 - "GET /a b" 200 bytes=12 seconds=0.5 store=world id=7
    """
    left = dict(line)
    who = " ".join(str(left.pop(key) or "-") for key in ("time", "client", "key") if key in left)
    path = str(left.pop("path")).replace("\\", "\\\\").replace('"', '\\"')
    what, status, name = left.pop("method"), left.pop("status"), left.pop("id")
    rest = " ".join(f"{key}={value}" for key, value in left.items())
    return one_line(f'{who} "{what} {path}" {status} {rest} id={name}')
