"""A line for every request, as text or as JSON, and the queries of those that took long."""

from __future__ import annotations

import json
import logging
import time
from typing import TypeAlias

from tuplet.server.operators.log_file import LogFile
from tuplet.server.operators.server_log import SLOW, LogSettings, one_line, when
from tuplet.server.requests.http import Request

LONGEST_PATH = 200  # characters that are logged
Value: TypeAlias = str | int | float | bool | None


class AccessLog:
    """Writes down the requests of one process."""

    def __init__(self, settings: LogSettings) -> None:
        self._file = LogFile(settings.access_log) if settings.access_log else None
        self._json = settings.log_format == "json"
        self._slow = settings.slow
        self._slow_log = logging.getLogger(SLOW)

    def request(self, request: Request, status: int, sent: int, seconds: float) -> bool:
        """Write down a request that is over; returns whether it was slow."""
        noted = request.notes
        slow = self._slow is not None and seconds > self._slow
        if self._file is None and not slow:
            return False
        line: dict[str, Value] = {
            "time": when(time.time()),
            "id": noted.id,
            "client": request.client,
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
            self._file.write(json.dumps(line) if self._json else _text(line))
        if slow:
            del line["time"]  # the log says it itself
            text = "slow" if self._json else f"slow: {_text(line)} {noted.query}"
            self._slow_log.warning("%s", text, extra={**line, "query": noted.query})
        return slow


def _text(line: dict[str, Value]) -> str:
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
