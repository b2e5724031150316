"""A server process that tests talk to."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tuplet.server.http import Request


def request(method: str, path: str, headers: Mapping[str, str] | None = None, **scope: Any) -> Request:
    """A request that nobody has sent."""
    fields = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    return Request({"type": "http", "method": method, "path": path, "query_string": b"", "headers": fields, **scope})


@dataclass(frozen=True)
class Server:
    """A running server."""

    url: str
    process: subprocess.Popen[str]
    log: Path  # what it writes

    def client(self, **options: object) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60, **options)  # type: ignore[arg-type]

    def workers(self) -> list[int]:
        """The process ids of its workers."""
        return [
            int(word) for word in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        ]

    def memory(self) -> int:
        """Resident bytes of parent and workers."""
        pages = (int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in (self.process.pid, *self.workers()))
        return sum(pages) * os.sysconf("SC_PAGE_SIZE")


Start = Callable[..., Server]
