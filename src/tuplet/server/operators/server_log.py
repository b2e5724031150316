"""What the server says of itself: start, stop, deaths of workers, refused keys, slow queries; as text or as JSON."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tuplet.errors import BadInput
from tuplet.settings import check, knob

SLOW = "tuplet.server.slow"  # the logger of slow queries
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


@dataclass(frozen=True)
class LogSettings:
    """What is logged, and how: flags of `tuplet serve`."""

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

    def found_from_anywhere(self) -> LogSettings:
        """The same for a process in another folder."""
        file = self.access_log
        return self if file in (None, "-") else replace(self, access_log=os.path.abspath(file))


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
        """Whether a line is written."""
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
        """The line."""
        record.when = when(record.created)
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line without its traceback: what is logged may hold what a client sent, so no line breaks."""
        return one_line(super().formatMessage(record))


class JSONLines(logging.Formatter):
    """One JSON object each, with what was given as `extra`.

    >>> line = logging.makeLogRecord({"msg": "ready", "created": 0.0, "levelname": "INFO", "process": 7, "port": 80})
    >>> JSONLines().format(line)
    '{"time": "1970-01-01T00:00:00.000Z", "level": "info", "process": 7, "message": "ready", "port": 80}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
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
    whole = int(seconds)
    return f"{_second(whole)}.{int((seconds - whole) * 1000):03}Z"


@lru_cache(maxsize=1)
def _second(whole: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))


def one_line(text: str) -> str:
    r"""Text without line breaks and other characters that a terminal would obey.

    >>> one_line("a\nb\x1b[31m é")
    'a\\nb\\x1b[31m é'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
