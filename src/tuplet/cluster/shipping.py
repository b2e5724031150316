"""Folders that travel: a store, a graph or a model goes to another machine by its content, not by its path.

A shipment names a folder by a hash of everything in it and holds its bytes in pieces. Who needs it there looks into a
cache of folders first, fetches what is not in it, checks the hash, and keeps it for the next time.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tuplet.errors import BadInput, CorruptStore
from tuplet.files import PathLike, locked, make_folder, remove, rename, system_errors

PIECE = 1 << 26  # bytes that travel at a time
CACHE = "TUPLET_CACHE"  # the variable that says where fetched folders are kept
_PATIENCE = 3600.0  # seconds that one worker waits for another that fetches the same folder


@dataclass(frozen=True)
class Shipment:
    """A folder by its content."""

    digest: str
    origin: str  # its path on the machine it comes from
    node: str  # that machine
    files: tuple[tuple[str, tuple[Any, ...]], ...]  # path inside the folder, pieces


Folder: TypeAlias = str | Shipment  # one that is here, or one that may have to be fetched


def content_files(folder: Path) -> list[Path]:
    """The files that are the content of a folder: hidden ones, such as locks, are not."""
    inside = (path for path in folder.rglob("*") if path.is_file())
    return sorted(p for p in inside if not any(part.startswith(".") for part in p.relative_to(folder).parts))


def digest_of(folder: Path) -> str:
    """A hash of all names and bytes in a folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     _ = (Path(name) / "a").write_text("1")
    ...     digest_of(Path(name))[:12]
    'c14e2de2b9f5'
    """
    whole = hashlib.sha256()
    for path in content_files(folder):
        with path.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        whole.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return whole.hexdigest()


def pack(folder: PathLike, node: str, put: Callable[[bytes], Any]) -> Shipment:
    """A shipment of a folder; `put` hands over one piece and returns what it is fetched by."""
    root = Path(os.path.realpath(folder))
    if not root.is_dir():
        raise BadInput(f"{folder} is not a folder, so it cannot be sent to other machines")
    with system_errors(folder):
        files = tuple(
            (path.relative_to(root).as_posix(), tuple(put(piece) for piece in _pieces(path)))
            for path in content_files(root)
        )
        return Shipment(digest_of(root), str(root), node, files)


def unpack(shipment: Shipment, node: str, get: Callable[[Any], bytes]) -> str:
    """The path of the folder on this machine; it is fetched unless it comes from here or was fetched before."""
    if node == shipment.node:
        return shipment.origin
    target = cache_folder() / shipment.digest
    if target.is_dir():
        return str(target)
    with locked(target, _PATIENCE):
        if not target.is_dir():
            fresh = target.with_name(f".{shipment.digest}.fetching")
            remove(fresh)
            with system_errors(target):
                for name, pieces in shipment.files:
                    path = fresh / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with path.open("wb") as stream:
                        for piece in pieces:
                            stream.write(get(piece))
                if digest_of(fresh) != shipment.digest:
                    remove(fresh)
                    raise CorruptStore(f"{shipment.origin} changed while it was sent to other machines")
                rename(fresh, target)
    return str(target)


def cache_folder() -> Path:
    """Where fetched folders are kept: $TUPLET_CACHE, else a folder of the user's cache."""
    given = os.environ.get(CACHE)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") if not given else Path(given)
    folder = (home if given else home / "tuplet") / "folders"
    try:
        make_folder(folder)
    except OSError:  # a machine without a home that may be written to
        folder = Path(tempfile.gettempdir()) / "tuplet-folders"
        make_folder(folder)
    return folder


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while piece := stream.read(PIECE):
            yield piece
