"""The only place that locks, seals, writes and renames, and says that something already exists.

Whatever is written appears whole or not at all: a temporary sibling is filled, brought to the disk and renamed in.
Manifests are JSON with a seal over their content: one that was edited or damaged is an error with its name.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias

from tuplet._version import __version__
from tuplet.errors import BadInput, CorruptStore, PathExists, StoreBusy, nearest

MANIFEST = "manifest.json"

# The file that makes a folder what it is, and what to do with a folder that is not what was asked for.
_MARKS = {"store.json": "store", "model.json": "model", "run.json": "benchmark result"}
_REMEDIES = {
    ("model", "graph"): "tuplet index makes a store of it",
    ("model", "store"): "tuplet index makes a store of it",
    ("graph", "store"): "tuplet index makes a store of it",
    ("graph", "model"): "tuplet train makes a model of it",
}

_AGAIN = {"graph": " (tuplet import)", "model": " (tuplet train)", "store": " (tuplet build)"}

PathLike: TypeAlias = str | os.PathLike[str]
Foreign: TypeAlias = Callable[[Path], str | None]  # why what is at a path must not be replaced


# --- writing -----------------------------------------------------------------------------------------------------


def refuse_existing(path: PathLike, force: bool = False, foreign: Foreign | None = None) -> None:
    """Raise `PathExists` if something at `path` may not be replaced: raised before the work, not after it.

    An empty folder is nothing; a device or a pipe is written to, not replaced.
    """
    place = Path(path)
    if not place.exists() or _is_special(place) or (place.is_dir() and not any(place.iterdir())):
        return
    reason = foreign(place) if foreign else None
    if reason or not force:
        raise PathExists(path, reason)


@contextmanager
def replacing(path: PathLike, force: bool = False, foreign: Foreign | None = None) -> Iterator[Path]:
    """A path beside `path` to make a file or a folder at; it takes the place of `path` if all goes well.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with replacing(f"{folder}/deep/a.txt") as fresh:
    ...         _ = fresh.write_text("all of it")
    ...     Path(folder, "deep", "a.txt").read_text()
    'all of it'
    """
    refuse_existing(path, force, foreign)
    target = Path(os.path.realpath(path))
    with system_errors(path):
        if _is_special(Path(path)):
            yield Path(path)
            return
        make_folder(target.parent)
        fresh = target.with_name(_leftover(target, "new") + os.urandom(4).hex())
        try:
            yield fresh
            refuse_existing(path, force, foreign)  # it may have appeared meanwhile
            rename(fresh, target)
        finally:
            remove(fresh)


def write_bytes(path: PathLike, data: bytes, force: bool = False) -> None:
    """Write a file so that a reader, or a crash at any moment, sees the old content or the new one."""
    with replacing(path, force) as fresh:
        fresh.write_bytes(data)


def write_text(path: PathLike, text: str, force: bool = False) -> None:
    """The same for text, as UTF-8."""
    write_bytes(path, text.encode(), force)


def write_json(path: PathLike, content: Any, force: bool = False) -> None:
    """The same for JSON."""
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n", force)


def rename(fresh: Path, target: Path) -> None:
    """Bring what is at `fresh` to the disk and let it take the place of `target`."""
    _sync_all(fresh)
    if fresh.is_dir() and target.is_dir():
        # Two steps: a writer that is killed between them leaves the old folder aside, for `clean_leftovers`.
        aside = target.with_name(_leftover(target, "old") + os.urandom(4).hex())
        os.rename(target, aside)
        try:
            os.rename(fresh, target)
        except BaseException:
            os.rename(aside, target)
            raise
        _sync(target.parent)
        remove(aside)
    else:
        os.replace(fresh, target)
        _sync(target.parent)


def make_folder(path: Path) -> None:
    """A folder and its parents, where they are missing."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None


def remove(path: Path) -> None:
    """Delete a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def system_errors(path: PathLike) -> Iterator[None]:
    """What the system refuses (read-only, full, no permission) becomes one line about `path`."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"cannot write {path}: {reason(error)}") from None


def reason(error: OSError) -> str:
    """What the system says, without numbers and paths."""
    return os.strerror(error.errno) if error.errno else str(error).splitlines()[0]


def refuse_timeout(timeout: float) -> None:
    """An error if this is no time to wait: raised before the work, not after it."""
    if not isinstance(timeout, Real) or not timeout >= 0:
        raise BadInput(f"timeout must be a number of seconds from 0, not {timeout!r}")


@contextmanager
def locked(path: PathLike, timeout: float = 0.0, called: PathLike | None = None) -> Iterator[None]:
    """Hold the right to write `path`; `StoreBusy` if somebody else still has it after `timeout` seconds.

    `called` is what errors call it.
    """
    from filelock import FileLock, Timeout

    refuse_timeout(timeout)
    target, called = Path(os.path.realpath(path)), path if called is None else called
    with system_errors(called):
        make_folder(target.parent)
        lock = FileLock(target.with_name(f".{target.name}.lock"), timeout=timeout, poll_interval=0.02)
        try:
            lock.acquire()
        except Timeout:
            # filelock also waits where no file can be made at all; then this says why.
            os.close(os.open(lock.lock_file, os.O_RDWR | os.O_CREAT, 0o644))
            raise StoreBusy(called, timeout) from None
    try:
        yield
    finally:
        # Removed while it is held: who waits for the removed file sees that it has no name and begins again.
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def clean_leftovers(target: Path) -> None:
    """Undo what a killed writer left beside `target`; the caller holds the lock, so nobody is writing."""
    with system_errors(target):
        for entry in list(target.parent.iterdir()):
            if entry.name.startswith(_leftover(target, "old")) and not os.path.lexists(target):
                os.rename(entry, target)
            elif entry.name.startswith((_leftover(target, "old"), _leftover(target, "new"))):
                remove(entry)


def _leftover(target: Path, state: str) -> str:
    return f".{target.name}.tuplet-{state}-"


def _is_special(path: Path) -> bool:
    """Whether it is a device, a pipe or a socket."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _sync_all(path: Path) -> None:
    """Bring a file, or a folder with all that is in it, to the disk."""
    if path.is_dir():
        for entry in path.iterdir():
            _sync_all(entry)
    _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- sealed JSON -------------------------------------------------------------------------------------------------


def render(content: Mapping[str, Any]) -> bytes:
    """JSON with one spelling for one content, so that it can be hashed."""
    return (json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def sealed(kind: str, version: int, content: Mapping[str, Any]) -> bytes:
    """A manifest: format, version, the content, and a hash over all of it."""
    manifest = {"format": kind, "version": version, "tuplet": __version__, **content}
    return render(manifest | {"seal": _seal(manifest)})


def read_sealed(file: Path, kind: str, version: int, what: str) -> dict[str, Any]:
    """The content of a manifest that `sealed` made, unchanged; `what` says for people what its folder should be."""
    root = file.parent
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        if root.is_dir():
            refuse_kind(root, kind_of(root), what)
            raise CorruptStore(f"{root} is not a tuplet {what}: it has no {file.name}") from None
        raise BadInput(f"no such {what}: {root}{_nearest_sibling(root)}") from None
    except NotADirectoryError:
        make = "" if what == "model" else "; tuplet build makes a store of facts"
        raise BadInput(f"{root} is a file, not a tuplet {what}{make}") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read {file}: {reason(error) if isinstance(error, OSError) else error}") from None
    try:
        manifest = json.loads(raw)
    except (ValueError, RecursionError):
        raise CorruptStore(f"{file}: not readable as JSON; it is damaged, or {root} is not a tuplet {what}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != kind:
        raise CorruptStore(f"{root} is not a tuplet {what}: {file.name} does not say format {kind!r}")
    found = manifest.get("version")
    if isinstance(found, int) and found != version:
        raise CorruptStore(
            f"{file}: format version {found} is newer than this tuplet {__version__} reads (up to {version}); "
            "install a newer tuplet"
            if found > version
            else f"{file}: format version {found} is older than {version}, which this tuplet {__version__} reads; "
            f"build the {what} again{_AGAIN.get(what, '')}"
        )
    seal = manifest.pop("seal", None)
    if seal != _seal(manifest) or raw != render(manifest | {"seal": seal}):
        raise CorruptStore(f"{file}: edited or damaged; its seal does not match its content")
    return manifest


def kind_of(folder: Path) -> str | None:
    """What a folder of ours is, by the file that makes it that: a graph, a model, a store …"""
    for name, kind in _MARKS.items():
        if (folder / name).is_file():
            return kind
    try:
        kind = json.loads((folder / MANIFEST).read_bytes())["kind"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return kind if isinstance(kind, str) else None


def refuse_kind(root: Path, found: str | None, wanted: str) -> None:
    """An error if a folder is something else than what is wanted, with what to do about it."""
    if found is not None and found != wanted and wanted != "directory":
        remedy = _REMEDIES.get((found, wanted))
        raise BadInput(f"{root} is a {found}, not a {wanted}" + (f"; {remedy}" if remedy else ""))


def _seal(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(render(manifest)).hexdigest()


def _nearest_sibling(path: Path) -> str:
    try:
        siblings = [entry.name for entry in path.parent.iterdir() if not entry.name.startswith(".")]
    except OSError:
        return f" (the folder {path.parent} does not exist)" if not path.parent.exists() else ""
    # A store is no slip for a table: only what ends alike is suggested, or what has an ending where none was written.
    alike = [name for name in siblings if not path.suffix or nearest(path.suffix, [Path(name).suffix])]
    stems = {Path(name).stem: name for name in alike}  # all stores end alike, which makes none of them likely
    close = [stems[stem] for stem in nearest(path.stem, stems, most=1)]
    return f"; did you mean {path.with_name(close[0])}?" if close else ""
