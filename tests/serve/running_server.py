"""A server process that tests talk to."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

SOAK = os.environ.get("TUPLET_SOAK") == "1"


@dataclass(frozen=True)
class Server:
    """A running server."""

    url: str
    process: subprocess.Popen[str]

    def client(self, **options: object) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60, **options)  # type: ignore[arg-type]

    def memory(self) -> int:
        """Resident bytes."""
        fields = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


Start = Callable[..., Server]
