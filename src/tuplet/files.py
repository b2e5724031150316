"""The only place that locks, seals, writes and renames, and says that something exists already.

Whatever is written appears whole or not at all: a temporary sibling is filled, brought to the disk and renamed in.
Beside single files there is one format for arrays, a directory with a sealed manifest and one `.npy` file per array:

    my.graph/
      manifest.json      format, kind, versions, meta, content hash; dtype, shape, bytes and checksums of every array
      neighbour.npy      …

Opening maps the arrays into memory and verifies a checksum of every byte, so that an edited or truncated file is an
error with its name and never reaches compiled code. Needs numpy alone (and filelock to write).
"""

from __future__ import annotations

import errno
import hashlib
import json
import mmap
import os
import shutil
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet._version import __version__
from tuplet.errors import BadInput, CorruptStore, Exists, StoreBusy, nearest

FORMAT = "tuplet"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"

# Checksums are per chunk, so that one big array is verified by several threads. CRC-32 finds every single edit of up
# to 32 bits and all but one in 4 billion others, and runs at memory speed where SHA-256 would take three times as long.
_CHUNK = 8 << 20
_THREADS = min(4, os.cpu_count() or 1)

# The file that makes a folder what it is, and what to do with a folder that is not what was asked for.
_MARKS = {"store.json": "store", "model.json": "model", "run.json": "benchmark result"}
_REMEDIES = {
    ("model", "graph"): "tuplet index makes a store of it",
    ("model", "store"): "tuplet index makes a store of it",
    ("graph", "store"): "tuplet index makes a store of it",
    ("graph", "model"): "tuplet train makes a model of it",
}

PathLike: TypeAlias = str | os.PathLike[str]
Arrays: TypeAlias = Mapping[str, NDArray[Any]]
Foreign: TypeAlias = Callable[[Path], str | None]  # why what is at a path must not be replaced


# --- writing -----------------------------------------------------------------------------------------------------


def refuse_existing(path: PathLike, force: bool = False, foreign: Foreign | None = None) -> None:
    """Raise `Exists` if something at `path` may not be replaced: said before the work, not after it.

    An empty folder is nothing; a device or a pipe is written to, not replaced.
    """
    place = Path(path)
    if not place.exists() or _is_special(place) or (place.is_dir() and not any(place.iterdir())):
        return
    reason = foreign(place) if foreign else None
    if reason or not force:
        raise Exists(path, reason)


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


def write_array(stream: BinaryIO, array: NDArray[Any]) -> None:
    """`np.save`, but a full device is an error that says so (numpy's own way to write loses the reason)."""
    data = np.ascontiguousarray(array)
    header = np.lib.format.header_data_from_array_1_0(data)
    np.lib.format.write_array_header_1_0(stream, header)
    stream.write(data.reshape(-1).view(np.uint8).data)


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


@contextmanager
def locked(path: PathLike, timeout: float = 0.0) -> Iterator[None]:
    """Hold the right to write `path`; `StoreBusy` if somebody else still has it after `timeout` seconds."""
    from filelock import FileLock, Timeout

    target = Path(os.path.realpath(path))
    with system_errors(path):
        make_folder(target.parent)
        lock = FileLock(target.with_name(f".{target.name}.lock"), timeout=timeout, poll_interval=0.02)
        try:
            lock.acquire()
        except Timeout:
            # filelock also waits where no file can be made at all; then this says why.
            os.close(os.open(lock.lock_file, os.O_RDWR | os.O_CREAT, 0o644))
            raise StoreBusy(path, timeout) from None
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
            _refuse_kind(root, kind_of(root), what)
            raise CorruptStore(f"{root} is not a tuplet {what}: it has no {file.name}") from None
        raise BadInput(f"no such {what}: {root}{_nearest_sibling(root)}") from None
    except NotADirectoryError:
        raise BadInput(f"{root} is a file, not a tuplet {what}") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read {file}: {reason(error) if isinstance(error, OSError) else error}") from None
    try:
        manifest = json.loads(raw)
    except (ValueError, RecursionError):
        raise CorruptStore(f"{file}: not readable as JSON; it is damaged, or {root} is not a tuplet {what}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != kind:
        raise CorruptStore(f"{root} is not a tuplet {what}: {file.name} does not say format {kind!r}")
    found = manifest.get("version")
    if isinstance(found, int) and found > version:
        raise CorruptStore(
            f"{file}: format version {found} is newer than this tuplet {__version__} reads (up to {version}); "
            "install a newer tuplet"
        )
    seal = manifest.pop("seal", None)
    if seal != _seal(manifest) or raw != render(manifest | {"seal": seal}):
        raise CorruptStore(f"{file}: edited or damaged; its seal does not fit its content")
    return manifest


def kind_of(folder: Path) -> str | None:
    """What a folder of ours is, told by the file that makes it that: a graph, a model, a store …"""
    for name, kind in _MARKS.items():
        if (folder / name).is_file():
            return kind
    try:
        kind = json.loads((folder / MANIFEST).read_bytes())["kind"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return kind if isinstance(kind, str) else None


def _refuse_kind(root: Path, found: str | None, wanted: str) -> None:
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
    close = nearest(path.name, siblings, most=1)
    return f"; did you mean {path.with_name(close[0])}?" if close else ""


# --- directories of arrays ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Directory:
    """An opened directory: arrays are read-only memory maps."""

    path: Path
    kind: str
    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    hash: str

    @property
    def bytes(self) -> int:
        """Size of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())


def content_hash(kind: str, arrays: Arrays, meta: Mapping[str, Any]) -> str:
    """SHA-256 over kind, names, dtypes, shapes, data and meta; `meta["notes"]` (provenance) does not count.

    >>> a = content_hash("graph", {"x": np.arange(3)}, {"notes": "made on Monday"})
    >>> a == content_hash("graph", {"x": np.arange(3)}, {}), a == content_hash("graph", {"x": np.arange(4)}, {})
    (True, False)
    """
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return _combined_hash(kind, {n: _description(a) | {"sha256": _sha256(a)} for n, a in contiguous.items()}, meta)


def write_directory(
    path: PathLike, kind: str, arrays: Arrays, meta: Mapping[str, Any], force: bool = False, lock: bool = True
) -> str:
    """Write a directory and return its content hash.

    An existing path is refused; with `force` a directory of the same kind is replaced, anything else still is refused.
    A caller that holds `locked(path)` already passes `lock=False`.
    """

    def foreign(place: Path) -> str | None:
        return _not_replaceable(place, kind)

    with locked(path) if lock else nullcontext():
        clean_leftovers(Path(os.path.realpath(path)))
        with replacing(path, force, foreign) as fresh:
            return _fill(fresh, kind, arrays, meta)


def open_directory(path: PathLike, kind: str | None = None) -> Directory:
    """Open a directory of the given kind (any kind if None), verifying the checksums of all files."""
    root = Path(path)
    manifest = read_manifest(root, kind)
    maps = {name: _map(root / entry["file"], entry["bytes"]) for name, entry in manifest["arrays"].items()}
    _verify_checksums(root, manifest, maps)
    arrays = {name: _array(root, entry, maps[name]) for name, entry in manifest["arrays"].items()}
    return Directory(root, manifest["kind"], manifest["meta"], arrays, manifest["hash"])


def verify(path: PathLike) -> str:
    """Recompute the content hash from the data and return it; a difference to the stored one is CorruptStore."""
    directory = open_directory(path)
    digest = content_hash(directory.kind, directory.arrays, directory.meta)
    if digest != directory.hash:
        raise CorruptStore(
            f"{directory.path / MANIFEST}: content hash {directory.hash[:12]}… stated, {digest[:12]}… found"
        )
    return digest


def read_manifest(path: PathLike, kind: str | None = None) -> dict[str, Any]:
    """The checked manifest of a directory, without opening its arrays."""
    root = Path(path)
    manifest = read_sealed(root / MANIFEST, FORMAT, FORMAT_VERSION, kind or "directory")
    _refuse_kind(root, manifest["kind"], kind or "directory")
    return manifest


def _not_replaceable(target: Path, kind: str) -> str | None:
    try:
        manifest = read_manifest(target)
    except (BadInput, CorruptStore) as error:
        return f"it may hold something else ({error})"
    if manifest["kind"] != kind:
        return f"it is a {manifest['kind']}, not a {kind}"
    others = {entry.name for entry in target.iterdir()} - {e["file"] for e in manifest["arrays"].values()} - {MANIFEST}
    return f"{min(others)} in it is not ours" if others else None


def _fill(folder: Path, kind: str, arrays: Arrays, meta: Mapping[str, Any]) -> str:
    folder.mkdir()
    entries: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        if not name.isidentifier() or array.dtype.kind not in "biuf":
            raise ValueError(f"array {name!r} of dtype {array.dtype} cannot be stored")
        data = np.ascontiguousarray(array)
        file = folder / f"{name}.npy"
        with open(file, "wb") as stream:
            write_array(stream, data)
        size = file.stat().st_size
        chunks = _chunk_sums(_map(file, size))
        entries[name] = (
            {"file": file.name} | _description(data) | {"bytes": size, "crc32": chunks, "sha256": _sha256(data)}
        )
    digest = _combined_hash(kind, entries, meta)
    content = {"kind": kind, "hash": digest, "meta": dict(meta), "arrays": entries}
    (folder / MANIFEST).write_bytes(sealed(FORMAT, FORMAT_VERSION, content))
    return digest


def _description(array: NDArray[Any]) -> dict[str, Any]:
    return {"dtype": array.dtype.str, "shape": list(array.shape)}


def _sha256(array: NDArray[Any]) -> str:
    return hashlib.sha256(array.reshape(-1).view(np.uint8).data).hexdigest()


def _combined_hash(kind: str, entries: Mapping[str, Mapping[str, Any]], meta: Mapping[str, Any]) -> str:
    arrays = {name: [entry["dtype"], entry["shape"], entry["sha256"]] for name, entry in entries.items()}
    counted = {key: value for key, value in meta.items() if key != "notes"}
    return hashlib.sha256(render({"kind": kind, "arrays": arrays, "meta": counted})).hexdigest()


def _map(file: Path, size: int) -> mmap.mmap:
    """The whole file, read-only; a `.npy` file is never empty."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise CorruptStore(f"{file} is missing") from None
    except OSError as error:
        raise BadInput(f"cannot read {file}: {reason(error)}") from None
    try:
        found = os.fstat(handle).st_size
        if found != size:
            raise CorruptStore(f"{file}: {found} bytes where {size} are stated; truncated or edited")
        return mmap.mmap(handle, size, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise CorruptStore(f"cannot map {file}: {error}") from None
    finally:
        os.close(handle)


def _chunk_sums(mapped: mmap.mmap) -> list[int]:
    view = memoryview(mapped)
    return [zlib.crc32(view[start : start + _CHUNK]) for start in range(0, len(view), _CHUNK)]


def _verify_checksums(root: Path, manifest: Mapping[str, Any], maps: Mapping[str, mmap.mmap]) -> None:
    """Compare the checksum of every chunk of every file with the stated one, on several threads if there is much."""
    tasks = [
        (name, memoryview(mapped)[_CHUNK * i : _CHUNK * (i + 1)], stated)
        for name, mapped in maps.items()
        for i, stated in enumerate(manifest["arrays"][name]["crc32"])
    ]

    def damaged(task: tuple[str, memoryview, int]) -> bool:
        return zlib.crc32(task[1]) != task[2]

    if sum(len(task[1]) for task in tasks) <= _CHUNK:
        results = [damaged(task) for task in tasks]
    else:
        with ThreadPoolExecutor(_THREADS) as pool:
            results = list(pool.map(damaged, tasks))
    for task, bad in zip(tasks, results, strict=True):
        if bad:
            file = root / manifest["arrays"][task[0]]["file"]
            raise CorruptStore(f"{file}: checksum does not fit; the file was edited or damaged")


def _array(root: Path, entry: Mapping[str, Any], mapped: mmap.mmap) -> NDArray[Any]:
    # The manifest knows dtype and shape, and the data end where the file ends: no header needs parsing.
    dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
    count = int(np.prod(shape, dtype=np.int64))
    offset = len(mapped) - count * dtype.itemsize
    if offset < 0:
        raise CorruptStore(f"{root / entry['file']}: shorter than its shape {shape}")
    array: NDArray[Any] = (
        np.frombuffer(mapped, dtype=dtype, count=count, offset=offset) if count else np.zeros(0, dtype)
    )
    array = array.reshape(shape)
    array.flags.writeable = False
    return array
