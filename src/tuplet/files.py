"""The one format on disk: a directory with a manifest and one `.npy` file per array, opened memory-mapped.

    my.graph/
      manifest.json      format, kind, versions, meta, content hash; dtype, shape, bytes and checksums of every array
      neighbour.npy      …

Writing is atomic (a temporary sibling is renamed in), opening verifies a checksum of every byte, so that an edited or
truncated file is an error with its name and never reaches compiled code. Needs numpy alone.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet._version import __version__
from tuplet.errors import BadInput, CorruptStore, nearest

FORMAT = "tuplet"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"

# Checksums are per chunk, so that one big array is verified by several threads. CRC-32 finds every single edit of up
# to 32 bits and all but one in 4 billion others, and runs at memory speed where SHA-256 would take three times as long.
_CHUNK = 8 << 20
_THREADS = min(4, os.cpu_count() or 1)

Arrays = Mapping[str, NDArray[Any]]


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
    path: str | os.PathLike[str],
    kind: str,
    arrays: Arrays,
    meta: Mapping[str, Any],
    force: bool = False,
    lock: bool = True,
) -> str:
    """Write a directory atomically and return its content hash.

    An existing path is refused; with `force` a directory of the same kind is replaced, anything else still is refused.
    A caller that holds `locked(path)` already passes `lock=False`.
    """
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not lock:
            return _write(target, kind, arrays, meta, force)
        with locked(target):
            return _write(target, kind, arrays, meta, force)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror or error}") from None


def open_directory(path: str | os.PathLike[str], kind: str | None = None) -> Directory:
    """Open a directory of the given kind (any kind if None), verifying the checksums of all files."""
    root = Path(path)
    manifest = read_manifest(root, kind)
    maps = {name: _map(root / entry["file"], entry["bytes"]) for name, entry in manifest["arrays"].items()}
    _verify_checksums(root, manifest, maps)
    arrays = {name: _array(root, entry, maps[name]) for name, entry in manifest["arrays"].items()}
    return Directory(root, manifest["kind"], manifest["meta"], arrays, manifest["hash"])


def verify(path: str | os.PathLike[str]) -> str:
    """Recompute the content hash from the data and return it; a difference to the stored one is CorruptStore."""
    directory = open_directory(path)
    digest = content_hash(directory.kind, directory.arrays, directory.meta)
    if digest != directory.hash:
        raise CorruptStore(
            f"{directory.path / MANIFEST}: content hash {directory.hash[:12]}… stated, {digest[:12]}… found"
        )
    return digest


def read_manifest(path: str | os.PathLike[str], kind: str | None = None) -> dict[str, Any]:
    """The checked manifest of a directory, without opening its arrays."""
    root, file = Path(path), Path(path) / MANIFEST
    what = f"tuplet {kind}" if kind else "tuplet directory"
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        if root.is_dir():
            raise CorruptStore(f"{root} is not a {what}: it has no {MANIFEST}") from None
        raise BadInput(f"no such {kind or 'path'}: {root}{_nearest_sibling(root)}") from None
    except NotADirectoryError:
        raise BadInput(f"{root} is a file, not a {what}") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from None
    try:
        manifest = json.loads(raw)
    except (ValueError, RecursionError):
        raise CorruptStore(f"{file}: not readable as JSON; the directory is damaged or not a {what}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CorruptStore(f"{root} is not a {what}: {MANIFEST} does not say format {FORMAT!r}")
    version = manifest.get("version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise CorruptStore(
            f"{file}: format version {version} is newer than this tuplet {__version__} reads (up to {FORMAT_VERSION})"
        )
    seal = manifest.pop("seal", None)
    if seal != _seal(manifest) or raw != _render(manifest | {"seal": seal}):
        raise CorruptStore(f"{file}: edited or damaged; its seal does not fit its content")
    if kind is not None and manifest["kind"] != kind:
        raise BadInput(f"{root} is a {manifest['kind']}, not a {kind}")
    return manifest


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the right to write `path`; a second writer is refused at once."""
    import fcntl

    target = Path(os.path.realpath(path))
    file = target.with_name(f".{target.name}.lock")
    while True:
        try:
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise BadInput(f"cannot write {path}: {error.strerror}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise BadInput(f"{path} is being written by another process") from None
        # The former holder removes the lock file; a lock on a removed file protects nothing, so try again.
        if _same_file(handle, file):
            break
        os.close(handle)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(handle)


def _same_file(handle: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(file))
    except FileNotFoundError:
        return False


def _write(target: Path, kind: str, arrays: Arrays, meta: Mapping[str, Any], force: bool) -> str:
    _clean_leftovers(target)
    if os.path.lexists(target):
        _refuse_unless_replaceable(target, kind, force)
    temporary = target.with_name(_leftover_prefix(target, "new") + os.urandom(4).hex())
    temporary.mkdir()
    try:
        digest = _fill(temporary, kind, arrays, meta)
        if os.path.lexists(target):
            _replace(temporary, target)
        else:
            os.rename(temporary, target)
        _sync(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return digest


def _fill(folder: Path, kind: str, arrays: Arrays, meta: Mapping[str, Any]) -> str:
    entries: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        if not name.isidentifier() or array.dtype.kind not in "biuf":
            raise ValueError(f"array {name!r} of dtype {array.dtype} cannot be stored")
        data = np.ascontiguousarray(array)
        file = folder / f"{name}.npy"
        with open(file, "wb") as stream:
            np.save(stream, data, allow_pickle=False)
            stream.flush()
            os.fsync(stream.fileno())
        size = file.stat().st_size
        chunks = _chunk_sums(_map(file, size))
        entries[name] = (
            {"file": file.name} | _description(data) | {"bytes": size, "crc32": chunks, "sha256": _sha256(data)}
        )
    digest = _combined_hash(kind, entries, meta)
    manifest = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "kind": kind,
        "tuplet": __version__,
        "hash": digest,
        "meta": dict(meta),
        "arrays": entries,
    }
    manifest["seal"] = _seal(manifest)
    with open(folder / MANIFEST, "wb") as stream:
        stream.write(_render(manifest))
        stream.flush()
        os.fsync(stream.fileno())
    _sync(folder)
    return digest


def _refuse_unless_replaceable(target: Path, kind: str, force: bool) -> None:
    if not force:
        raise BadInput(f"{target} exists already; --force replaces it")
    if target.is_dir() and not any(target.iterdir()):
        return
    try:
        manifest = read_manifest(target)
    except (BadInput, CorruptStore) as error:
        raise BadInput(f"will not replace {target}, it may hold something else ({error}); remove it yourself") from None
    if manifest["kind"] != kind:
        raise BadInput(f"will not replace {target}: it is a {manifest['kind']}, not a {kind}; remove it yourself")
    foreign = {entry.name for entry in target.iterdir()} - {e["file"] for e in manifest["arrays"].values()} - {MANIFEST}
    if foreign:
        raise BadInput(f"will not replace {target}: {min(foreign)} in it is not ours; remove it yourself")


def _replace(temporary: Path, target: Path) -> None:
    """Swap the two; what was the target ends as `temporary`, which the caller deletes."""
    if _exchange(temporary, target):
        return
    aside = target.with_name(_leftover_prefix(target, "old") + "0")
    os.rename(target, aside)
    os.rename(temporary, target)
    shutil.rmtree(aside, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two paths in one step where the system can (Linux renameat2)."""
    import ctypes

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(rename(here, os.fsencode(first), here, os.fsencode(second), exchange) == 0)


def _leftover_prefix(target: Path, state: str) -> str:
    return f".{target.name}.tuplet-{state}-"


def _clean_leftovers(target: Path) -> None:
    """Undo what a crashed writer left; the caller holds the lock, so nobody is writing."""
    for state in ("old", "new"):
        prefix = _leftover_prefix(target, state)
        for entry in target.parent.iterdir():
            if entry.name.startswith(prefix):
                if state == "old" and not os.path.lexists(target):
                    os.rename(entry, target)
                else:
                    shutil.rmtree(entry, ignore_errors=True)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _render(manifest: Mapping[str, Any]) -> bytes:
    return (json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _seal(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(_render(manifest)).hexdigest()


def _description(array: NDArray[Any]) -> dict[str, Any]:
    return {"dtype": array.dtype.str, "shape": list(array.shape)}


def _sha256(array: NDArray[Any]) -> str:
    return hashlib.sha256(array.reshape(-1).view(np.uint8).data).hexdigest()


def _combined_hash(kind: str, entries: Mapping[str, Mapping[str, Any]], meta: Mapping[str, Any]) -> str:
    arrays = {name: [entry["dtype"], entry["shape"], entry["sha256"]] for name, entry in entries.items()}
    counted = {key: value for key, value in meta.items() if key != "notes"}
    return hashlib.sha256(_render({"kind": kind, "arrays": arrays, "meta": counted})).hexdigest()


def _map(file: Path, size: int) -> mmap.mmap:
    """The whole file, read-only; a `.npy` file is never empty."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise CorruptStore(f"{file} is missing") from None
    except OSError as error:
        raise BadInput(f"cannot read {file}: {error.strerror}") from None
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


def _nearest_sibling(path: Path) -> str:
    try:
        siblings = [entry.name for entry in path.parent.iterdir() if not entry.name.startswith(".")]
    except OSError:
        return f" (the folder {path.parent} does not exist)" if not path.parent.exists() else ""
    close = nearest(path.name, siblings, most=1)
    return f"; did you mean {path.with_name(close[0])}?" if close else ""
