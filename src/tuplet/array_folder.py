"""The one format for arrays on disk: a directory with a sealed manifest and one `.npy` file per array.

    my.graph/
      manifest.json      format, kind, versions, meta, content hash; dtype, shape, bytes and checksums of every array
      neighbour.npy      …

Opening maps the arrays into memory and verifies a checksum of every byte, so that an edited or truncated file is an
error with its name and never reaches compiled code. Needs numpy alone (and filelock to write).
"""

from __future__ import annotations

import hashlib
import mmap
import os
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput, CorruptStore
from tuplet.files import (
    MANIFEST,
    PathLike,
    clean_leftovers,
    locked,
    read_sealed,
    reason,
    refuse_kind,
    render,
    replacing,
    sealed,
    write_array,
)

FORMAT = "tuplet"
FORMAT_VERSION = 1

# Checksums are per chunk, so that one big array is verified by several threads. CRC-32 finds every single edit of up
# to 32 bits and all but one in 4 billion others, and runs at memory speed where SHA-256 would take three times as long.
_CHUNK = 8 << 20
_THREADS = min(4, os.cpu_count() or 1)

Arrays: TypeAlias = Mapping[str, NDArray[Any]]


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
    refuse_kind(root, manifest["kind"], kind or "directory")
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
            raise CorruptStore(f"{file}: checksum does not match; the file was edited or damaged")


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
