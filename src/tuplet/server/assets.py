"""The files of the page: read and compressed once, under addresses that change with what is in them."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import re
from dataclasses import dataclass
from pathlib import Path

from tuplet.server.bundle import bundle
from tuplet.server.requests.http import HTTPProblem, Reply, Request

WEB = Path(__file__).parent / "web"
NAMES = {"/": "index.html", "/favicon.ico": "icon.svg"}
FOR_EVER = "public, max-age=31536000, immutable"
_SHEET = re.compile(r' *<link rel="stylesheet" href="web/([\w.]+)"[^>]*>\n')
_ADDRESS = re.compile(r"/web/(?:([0-9a-f]{12})/)?(.+)")


@dataclass(frozen=True)
class Asset:
    """A file as it is sent."""

    body: bytes
    packed: bytes | None  # by gzip, where that is shorter
    media: str
    tag: str

    @classmethod
    def of(cls, name: str, body: bytes) -> Asset:
        """A file by its name and contents.

        >>> Asset.of("page.js", b"// nothing\\n" * 100).media
        'text/javascript; charset=utf-8'
        """
        media = mimetypes.guess_type(name)[0] or "text/plain"
        kind = f"{media}; charset=utf-8" if media.startswith("text/") else media
        packed = gzip.compress(body, 9, mtime=0)
        return cls(body, packed if len(packed) < len(body) else None, kind, f'"{_hash(body)}"')


class Assets:
    """Every file below a folder by its path in addresses: nothing else can be reached."""

    def __init__(self, folder: Path = WEB) -> None:
        files = {
            file.relative_to(folder).as_posix(): file.read_bytes()
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        }
        self.version = _hash(b"\0".join(part for name, body in files.items() for part in (name.encode(), body)))
        page = files["index.html"].decode()
        sheets = _SHEET.findall(page)
        files["all.css"] = b"".join(files[name] for name in sheets)
        modules = {name: body.decode() for name, body in files.items() if name.endswith(".js") and "/" not in name}
        files["all.js"] = bundle(modules, "page.js").encode()
        files["index.html"] = self._page(page).encode()
        self.files = {name: Asset.of(name, body) for name, body in files.items()}

    def _page(self, text: str) -> str:
        """The page with one style sheet and one script, at the addresses of this version."""
        # The id tells cytoscape that its one rule is here, so that it adds no inline style.
        sheet = '  <link rel="stylesheet" href="web/all.css" id="__________cytoscape_stylesheet">\n'
        text = _SHEET.sub("", text).replace("</head>", f"{sheet}</head>").replace("web/page.js", "web/all.js")
        return text.replace('="web/', f'="web/{self.version}/')

    def reply(self, request: Request) -> Reply:
        """The file of an address; one of another version is sent as well, but not kept."""
        address = _ADDRESS.fullmatch(request.path)
        name = address[2] if address else NAMES.get(request.path, "")
        asset = self.files.get(name)
        if asset is None:
            raise HTTPProblem(404, "there is no such file")
        kept = FOR_EVER if address and address[1] == self.version else "no-cache"
        headers = {"cache-control": kept, "etag": asset.tag, "vary": "accept-encoding"}
        if asset.tag in request.header("if-none-match"):
            return Reply(b"", 304, asset.media, headers)
        if asset.packed is not None and "gzip" in request.header("accept-encoding"):
            return Reply(asset.packed, media=asset.media, headers={**headers, "content-encoding": "gzip"})
        return Reply(asset.body, media=asset.media, headers=headers)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
