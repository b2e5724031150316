"""Progress of long work on standard error: how far, how fast, how long still."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO


class Progress:
    """A line that tells done/total and the time left; call it with what is done.

    On a terminal the line is rewritten in place; otherwise a new line is written every few seconds, so that logs stay
    short. Standard output is never touched.
    """

    def __init__(self, label: str, stream: TextIO | None = None, quiet: bool = False) -> None:
        self.label, self.stream, self.quiet = label, stream or sys.stderr, quiet
        self.terminal = self.stream.isatty()
        self.start = time.monotonic()
        self.first: tuple[float, float] | None = None
        self.last_shown = 0.0
        self.width = 0

    def __call__(self, done: float, total: float, note: str = "") -> None:
        """Tell that `done` of `total` is finished."""
        now = time.monotonic()
        if self.first is None:
            # What was done before we came (a resumed run) says nothing about speed.
            self.first = (now, done)
        if self.quiet or (done < total and now - self.last_shown < (0.1 if self.terminal else 5.0)):
            return
        self.last_shown = now
        since, before = self.first
        left = (now - since) / (done - before) * (total - done) if done > before else None
        eta = "" if done >= total else f", {duration(left)} left" if left is not None else ""
        percent = 100 * done / total if total else 100
        self._write(f"{self.label}: {percent:3.0f} % ({done:,.0f}/{total:,.0f}){eta}{'  ' + note if note else ''}")

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.quiet and self.terminal and self.width:
            self.stream.write("\n")

    def _write(self, line: str) -> None:
        if self.terminal:
            self.stream.write("\r" + line.ljust(self.width))
            self.width = len(line)
        else:
            self.stream.write(line + "\n")
        self.stream.flush()


def duration(seconds: float | None) -> str:
    """A span of time as people say it.

    >>> duration(75), duration(3.2), duration(7300)
    ('1 min 15 s', '3 s', '2 h 01 min')
    """
    if seconds is None:
        return "unknown time"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
