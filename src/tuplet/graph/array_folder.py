"""The one format for arrays on disk: a directory with a sealed manifest and one `.npy` file per array.

    my.graph/
      manifest.json      format, kind, versions, meta, content hash; dtype, shape, bytes and checksums of every array
      neighbour.npy      …
      sums.npy           checksums of the divided arrays: one per array and section (for a graph, per relation)
      bounds.npy         where their sections begin and end

Opening maps the arrays into memory and verifies a checksum of every byte that is not divided; a section is verified
when it is first touched, and arrays that are for later when somebody asks for them. So an edited or truncated file is
an error with its name and never reaches compiled code.
Needs numpy alone (and filelock to write).
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import threading
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

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
    replacing,
)
from tuplet.graph.array_writer import (
    BOUNDS,
    CHUNK,
    FORMAT,
    FORMAT_VERSION,
    HEADER,
    SUMS,
    FolderWriter,
    combined_hash,
    header,
)

_THREADS = min(4, os.cpu_count() or 1)

Arrays: TypeAlias = Mapping[str, NDArray[Any]]


class _Stated(NamedTuple):
    """Bytes of a file and the checksum that is stated for them.

    CRC-32 finds every single edit of up to 32 bits and all but one in 4 billion others, and runs at memory speed where
    SHA-256 would take three times as long.
    """

    file: Path
    data: memoryview
    crc32: int

    def damaged(self) -> bool:
        return zlib.crc32(self.data) != self.crc32


class Sections:
    """The divided arrays of a directory: which sections were verified, and how to verify the others."""

    def __init__(self, files: list[tuple[Path, memoryview]], sums: NDArray[Any], bounds: NDArray[Any]) -> None:
        # Of each array its file, all bytes of it, and for each section where it begins and ends among them.
        self._files, self._sums, self._bounds = files, sums, bounds
        self._verified = bytearray(sums.shape[1])
        self._lock = threading.RLock()
        self.touch([len(self)], lambda _: None)

    def __len__(self) -> int:
        """How many there are; what follows the last one, such as the end of the last row, is verified at opening."""
        return len(self._verified) - 1

    def touch(self, sections: Collection[int], check: Callable[[int], None]) -> None:
        """Verify those of the sections that were not yet, and let `check` look at each."""
        verified = self._verified
        for section in sections:
            if not verified[section]:
                break
        else:
            return  # the usual case, asked again and again
        with self._lock:  # another thread that wants the same waits for it
            wanted = [section for section in dict.fromkeys(sections) if not verified[section]]
            _refuse_damaged([stated for section in wanted for stated in self._stated(section)])
            for section in wanted:
                check(section)
                verified[section] = 1

    def _stated(self, section: int) -> Iterator[_Stated]:
        for (file, data), sums, bounds in zip(self._files, self._sums, self._bounds, strict=True):
            yield _Stated(file, data[bounds[section] : bounds[section + 1]], sums.item(section))


@dataclass(frozen=True)
class Directory:
    """An opened directory: arrays are read-only memory maps."""

    path: Path
    kind: str
    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    hash: str
    sections: Sections | None = None  # None where no array is divided: then all was verified
    bounds: dict[str, NDArray[np.int64]] = field(
        default_factory=dict
    )  # divided array → [sections + 1] where they begin
    # What else must hold in a section, looked at after its checksums; a ValueError says what does not.
    checks: list[Callable[[int], None]] = field(default_factory=list)
    later: dict[str, list[_Stated]] = field(default_factory=dict)  # arrays that were not verified yet

    @property
    def bytes(self) -> int:
        """Size of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def touch(self, sections: Collection[int]) -> None:
        """Verify these sections of all divided arrays, each once: to be called before they are read."""
        if self.sections is not None:
            self.sections.touch(sections, self._check)

    def verify_later(self, names: Sequence[str]) -> None:
        """Verify arrays that were written for later, each once: to be called before they are read."""
        wanted = {name: stated for name in names if (stated := self.later.get(name)) is not None}
        _refuse_damaged([part for stated in wanted.values() for part in stated])
        for name in wanted:
            self.later.pop(name, None)

    def verify_all(self) -> None:
        """Verify everything that was not verified yet."""
        self.verify_later(list(self.later))
        if self.sections is not None:
            self.touch(range(len(self.sections)))

    def _check(self, section: int) -> None:
        try:
            for check in self.checks:
                check(section)
        except ValueError as error:
            raise CorruptStore(f"{self.path} is not a whole {self.kind}: {error}") from None


def content_hash(kind: str, arrays: Arrays, meta: Mapping[str, Any]) -> str:
    """SHA-256 over kind, names, dtypes, shapes, data and meta; of that, "notes" (provenance) and "counts" do not count.

    >>> a = content_hash("graph", {"x": np.arange(3)}, {"notes": "made on Monday"})
    >>> a == content_hash("graph", {"x": np.arange(3)}, {}), a == content_hash("graph", {"x": np.arange(4)}, {})
    (True, False)
    """
    entries = {}
    for name, array in arrays.items():
        data = np.ascontiguousarray(array)
        digest = hashlib.sha256(data.reshape(-1).view(np.uint8).data).hexdigest()
        entries[name] = {"dtype": data.dtype.str, "shape": list(data.shape), "sha256": digest}
    return combined_hash(kind, entries, meta)


def write_directory(
    path: PathLike,
    kind: str,
    arrays: Arrays,
    meta: Mapping[str, Any],
    force: bool = False,
    lock: bool = True,
    divided: Mapping[str, NDArray[np.integer]] | None = None,
    later: Callable[[str], bool] = lambda name: False,
) -> str:
    """Write a directory and return its content hash.

    An existing path is refused; with `force` a directory of the same kind is replaced, anything else still is refused.
    A caller that holds `locked(path)` already passes `lock=False`. `divided` gives for some arrays where their sections
    begin and where the last one ends [sections + 1]; `later` says which arrays are verified when somebody reads them.
    """
    with directory_writer(path, kind, force, lock) as writer:
        bounds = divided or {}
        for name in [name for name in arrays if name not in bounds]:
            writer.append(name, arrays[name], later(name))
        for i in range(min((len(ends) - 1 for ends in bounds.values()), default=0)):
            writer.section({name: arrays[name][ends[i] : ends[i + 1]] for name, ends in bounds.items()})
        for name, ends in bounds.items():
            writer.append(name, arrays[name][ends[-1] :])
        return writer.finish(meta)


@contextmanager
def directory_writer(path: PathLike, kind: str, force: bool = False, lock: bool = True) -> Iterator[FolderWriter]:
    """What writes a directory piece by piece; it appears at `path` if all went well. See `write_directory`."""

    def foreign(place: Path) -> str | None:
        return _not_replaceable(place, kind)

    with locked(path) if lock else nullcontext():
        clean_leftovers(Path(os.path.realpath(path)))
        with replacing(path, force, foreign) as fresh, FolderWriter(fresh, kind) as writer:
            yield writer


def open_directory(path: PathLike, kind: str | None = None) -> Directory:
    """Open a directory of the given kind (any kind if None), verifying the checksums of all that is not divided."""
    root = Path(path)
    manifest = read_manifest(root, kind)
    divided = manifest.get("divided", [])
    entries = manifest["arrays"] | {name: manifest[name] for name in (SUMS, BOUNDS) if divided}
    maps = {name: _map(root / entry["file"], entry["bytes"]) for name, entry in entries.items()}
    stated = {name: list(_undivided(root, entry, maps[name], manifest["version"])) for name, entry in entries.items()}
    later = {name: stated.pop(name) for name in manifest.get("later", ())}
    _refuse_damaged([part for parts in stated.values() for part in parts])
    arrays = {name: _array(root, entry, maps[name]) for name, entry in entries.items()}
    sections, ends = None, {}
    if divided:
        sums, bounds = arrays.pop(SUMS), arrays.pop(BOUNDS)
        width = np.array([arrays[name].itemsize * math.prod(arrays[name].shape[1:]) for name in divided])
        files = [(root / entries[name]["file"], memoryview(maps[name])) for name in divided]
        sections = Sections(files, sums, HEADER + bounds * width[:, None])
        ends = {name: bounds[i, :-1] for i, name in enumerate(divided)}
    about = (manifest["kind"], manifest["meta"])
    return Directory(root, *about, arrays, manifest["hash"], sections, ends, later=later)


def verify(path: PathLike) -> str:
    """Recompute the content hash from the data and return it; a difference to the stored one is CorruptStore."""
    directory = open_directory(path)
    directory.verify_all()
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
    ours = {entry["file"] for entry in manifest["arrays"].values()} | {MANIFEST}
    ours |= {manifest[name]["file"] for name in (SUMS, BOUNDS) if name in manifest}
    others = {entry.name for entry in target.iterdir()} - ours
    return f"{min(others)} in it is not ours" if others else None


def _undivided(root: Path, entry: Mapping[str, Any], mapped: mmap.mmap, version: int) -> Iterator[_Stated]:
    """What is verified at opening: the header, and all data that are not divided."""
    file, data = root / entry["file"], memoryview(mapped)
    if version > 1:
        yield _Stated(file, data[:HEADER], zlib.crc32(header(np.dtype(entry["dtype"]), entry["shape"])))
        data = data[HEADER:]
    for i, crc32 in enumerate(entry.get("crc32", ())):
        yield _Stated(file, data[CHUNK * i : CHUNK * (i + 1)], crc32)


def _refuse_damaged(stated: Sequence[_Stated]) -> None:
    """Compare checksums with the stated ones, on several threads if there is much."""
    if sum(len(part.data) for part in stated) <= CHUNK:
        results = [part.damaged() for part in stated]
    else:
        with ThreadPoolExecutor(_THREADS) as pool:
            results = list(pool.map(_Stated.damaged, stated))
    for part, damaged in zip(stated, results, strict=True):
        if damaged:
            raise CorruptStore(f"{part.file}: checksum does not match; the file was edited or damaged")


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
