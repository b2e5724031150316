"""A file that several processes append lines to."""

from __future__ import annotations

import logging
import os
import time

from tuplet.errors import BadInput

_LOOK = 1.0  # seconds between two looks whether the file was moved away
log = logging.getLogger("tuplet.server")


class LogFile:
    """A file that several processes append lines to; one that was moved away is made anew."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = self._open()
        self._looked = time.monotonic()

    def _open(self) -> int:
        if self._path == "-":
            return 1
        try:
            return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise BadInput(f"cannot write the access log {self._path}: {error.strerror}") from None

    def write(self, line: str) -> None:
        """Append a line, in one piece."""
        try:
            if self._path != "-" and time.monotonic() - self._looked > _LOOK:
                self._follow()
            os.write(self._file, line.encode("utf-8", "replace") + b"\n")
        except (OSError, BadInput) as error:
            log.error("cannot write the access log: %s", error)

    def _follow(self) -> None:
        self._looked = time.monotonic()
        here = os.fstat(self._file)
        try:
            there = os.stat(self._path)
            moved = (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino)
        except FileNotFoundError:
            moved = True
        if moved:
            old, self._file = self._file, self._open()
            os.close(old)
