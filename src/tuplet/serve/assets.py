"""The files of the page, read once."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from tuplet.serve.http import HTTPProblem, Reply, Request

WEB = Path(__file__).parent / "web"
NAMES = {"/": "index.html", "/favicon.ico": "icon.svg"}


class Assets:
    """Every file below a folder by its path in addresses: nothing else can be reached."""

    def __init__(self, folder: Path = WEB) -> None:
        self.files = {
            str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()
        }

    def reply(self, request: Request) -> Reply:
        """The file of an address."""
        name = NAMES.get(request.path, request.path.removeprefix("/web/"))
        if name not in self.files:
            raise HTTPProblem(404, "there is no such file")
        media = mimetypes.guess_type(name)[0] or "text/plain"
        kind = f"{media}; charset=utf-8" if media.startswith("text/") else media
        return Reply(self.files[name], media=kind, headers={"cache-control": "no-cache"})
