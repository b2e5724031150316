"""The files of the page: bundled, compressed once, under addresses that change with their content."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import re
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tuplet.server.http import HTTPProblem, Reply, Request

_IMPORT = re.compile(r'^import\s+(?:\{([^}]*)\}\s+from\s+)?"\./([\w.]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export\s+((?:async\s+)?function|const|class)\s+([\w$]+)", re.MULTILINE)
_REMARK = re.compile(r"^[ ]*(?://.*|/\*\*[\s\S]*?\*/)\n", re.MULTILINE)  # whole lines: for who reads the files
_OTHER = re.compile(r"^(?:import\b(?!\.)|export\b).*$", re.MULTILINE)


def bundle(modules: Mapping[str, str], first: str) -> str:
    """The text of a module that does what the first one does.

    >>> files = {"page.js": 'import { a as b } from "./a.js";\\ndocument.title = b;', "a.js": 'export const a = "A";'}
    >>> print(bundle(files, "page.js"))
    // a.js
    const $a_js = {}; {
    const a = "A";
    Object.assign($a_js, { a });
    }
    // page.js
    const $page_js = {}; {
    const { a: b } = $a_js;
    document.title = b;
    Object.assign($page_js, {  });
    }
    <BLANKLINE>
    """
    needed = {first: _list_imports(modules, first)}
    waiting = list(needed[first])
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed[name] = _list_imports(modules, name)
            waiting += needed[name]
    try:
        order = list(TopologicalSorter(needed).static_order())
    except CycleError as error:
        raise ValueError(f"modules of the page import each other: {error.args[1]}") from None
    return "".join(_block(name, modules[name]) for name in order)


def _list_imports(modules: Mapping[str, str], name: str) -> list[str]:
    found = [match[2] for match in _IMPORT.finditer(modules[name])]
    missing = [other for other in found if other not in modules]
    if missing:
        raise ValueError(f"{name} imports {missing[0]}, which is not there")
    return found


def _block(name: str, text: str) -> str:
    def taken(match: re.Match[str]) -> str:
        if match[1] is None:
            return ""  # for what it does, not for what it exports
        return f"const {{{match[1].replace(' as ', ': ')}}} = {_object(match[2])};"

    exported = [match[2] for match in _EXPORT.finditer(text)]
    body = _REMARK.sub("", _EXPORT.sub(r"\1 \2", _IMPORT.sub(taken, text)))
    strange = _OTHER.search(body)
    if strange:
        raise ValueError(f"{name}: this form is not understood: {strange[0]}")
    made = _object(name)
    return f"// {name}\nconst {made} = {{}}; {{\n{body}\nObject.assign({made}, {{ {', '.join(exported)} }});\n}}\n"


def _object(name: str) -> str:
    return "$" + re.sub(r"\W", "_", name)


WEB = Path(__file__).parent / "web"
NAMES = {"/": "index.html", "/favicon.ico": "icon.svg"}
FOR_EVER = "public, max-age=31536000, immutable"
_SHEET = re.compile(r' *<link rel="stylesheet" href="web/([\w.]+)"[^>]*>\n')
_ADDRESS = re.compile(r"/web/(?:([0-9a-f]{12})/)?(.+)")


@dataclass(frozen=True)
class Asset:
    body: bytes
    packed: bytes | None  # by gzip, where that is shorter
    media: str
    tag: str

    @classmethod
    def from_bytes(cls, name: str, body: bytes) -> Asset:
        """A file by its name and contents.

        >>> Asset.from_bytes("page.js", b"// nothing\\n" * 100).media
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
        self.files = {name: Asset.from_bytes(name, body) for name, body in files.items()}

    def _page(self, text: str) -> str:
        """The page with one style sheet and one script, at the addresses of this version."""
        # The id tells cytoscape that its one rule is here, so that it adds no inline style.
        sheet = '  <link rel="stylesheet" href="web/all.css" id="__________cytoscape_stylesheet">\n'
        text = _SHEET.sub("", text).replace("</head>", f"{sheet}</head>").replace("web/page.js", "web/all.js")
        return text.replace('="web/', f'="web/{self.version}/')

    def reply(self, request: Request) -> Reply:
        """The file of an address; one of another version is sent, but not cached."""
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
