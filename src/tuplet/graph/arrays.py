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

import ctypes
import hashlib
import math
import mmap
import os
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

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
)

FORMAT = "tuplet"
FORMAT_VERSION = 2
HEADER = 128
CHUNK = 8 << 20  # checksums of what is not divided are per chunk, so that several threads verify one big array
SUMS, BOUNDS = "sums", "bounds"
NOT_COUNTED = ("notes", "counts")  # of meta, in the content hash: where the data come from, what follows from them


class FolderWriter(ExitStack):
    """A folder of arrays that grow at their ends; some are divided into sections, such as the relations of a graph.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, FolderWriter(Path(folder, "d"), "thing") as writer:
    ...     writer.append("x", np.arange(3))
    ...     writer.append("x", np.arange(2))
    ...     writer.section({"y": np.ones(2)})
    ...     digest = writer.finish({"made": "by hand"})
    ...     np.load(f"{folder}/d/x.npy").tolist()
    [0, 1, 2, 0, 1]
    """

    def __init__(self, folder: Path, kind: str) -> None:
        super().__init__()
        self._folder, self._kind = folder, kind
        self._arrays: dict[str, _Growing] = {}
        self._later: list[str] = []
        folder.mkdir()

    def append(self, name: str, array: NDArray[Any], later: bool = False) -> None:
        """Let an array grow, in the dtype of its first piece; what a divided one gets belongs to its next section.

        The checksums of an array for `later` are compared when somebody wants to read it.
        """
        if later and name not in self._arrays:
            self._later.append(name)
        self._growing(name, array, divided=False).write(array)

    def section(self, pieces: Mapping[str, NDArray[Any]]) -> None:
        """End a section of all divided arrays with these pieces; each call names the same arrays."""
        divided = [name for name, growing in self._arrays.items() if growing.divided]
        if divided and set(divided) != set(pieces):
            raise ValueError(f"sections of {sorted(divided)} and then of {sorted(pieces)}")
        for name, array in pieces.items():
            growing = self._growing(name, array, divided=True)
            if not growing.divided:
                raise ValueError(f"array {name!r} has begun undivided")
            growing.write(array)
            growing.end_section()

    def finish(self, meta: Mapping[str, Any]) -> str:
        """Write headers, checksums and manifest, and return the content hash."""
        divided = {name: growing for name, growing in sorted(self._arrays.items()) if growing.divided}
        for growing in divided.values():
            growing.end_section()  # what follows the last section, such as the end of the last row; mostly nothing
        arrays = {name: growing.finish() for name, growing in self._arrays.items()}
        digest = combined_hash(self._kind, arrays, meta)
        content: dict[str, Any] = {"kind": self._kind, "hash": digest, "meta": dict(meta), "arrays": arrays}
        if divided:
            content["divided"] = list(divided)
            content[SUMS] = self._whole(SUMS, np.array([part.sums for part in divided.values()], dtype=np.uint32))
            content[BOUNDS] = self._whole(BOUNDS, np.array([part.bounds for part in divided.values()], dtype=np.int64))
        if self._later:
            content["later"] = self._later
        self.close()
        (self._folder / MANIFEST).write_bytes(sealed(FORMAT, FORMAT_VERSION, content))
        return digest

    def _growing(self, name: str, array: NDArray[Any], divided: bool) -> _Growing:
        if name not in self._arrays:
            if not name.isidentifier() or name in (SUMS, BOUNDS) or array.dtype.kind not in "biuf":
                raise ValueError(f"array {name!r} of dtype {array.dtype} cannot be stored")
            growing = _Growing(self._folder / f"{name}.npy", np.ascontiguousarray(array), divided)
            self._arrays[name] = self.enter_context(closing(growing))
        return self._arrays[name]

    def _whole(self, name: str, array: NDArray[Any]) -> dict[str, Any]:
        with closing(_Growing(self._folder / f"{name}.npy", array, divided=False)) as growing:
            growing.write(array)
            return growing.finish()


class _Growing:
    """One file that grows."""

    def __init__(self, file: Path, first: NDArray[Any], divided: bool) -> None:
        self.divided = divided
        self.sums: list[int] = []  # CRC-32 of each chunk or section
        self.bounds = [0]  # where sections begin and end
        self._dtype, self._inner = first.dtype, first.shape[1:]
        self._length = self._crc = self._room = 0
        self._sha256 = hashlib.sha256()
        self._file = file
        self._stream = open(file, "xb", buffering=1 << 16)  # noqa: SIM115 (it is open until the folder is finished)
        self._stream.write(bytes(HEADER))

    def close(self) -> None:
        self._stream.close()

    def write(self, array: NDArray[Any]) -> None:
        """Add a piece at the end."""
        piece = np.ascontiguousarray(array)
        if (piece.dtype, piece.shape[1:]) != (self._dtype, self._inner):
            raise ValueError(f"{self._file.name}: {piece.dtype} {piece.shape} after {self._dtype} {self._inner}")
        self._length += len(piece)
        data = piece.reshape(-1).view(np.uint8).data
        self._sha256.update(data)
        self._stream.write(data)
        if self.divided:
            self._crc = zlib.crc32(data, self._crc)
            return
        while len(data):
            if not self._room:
                self._room = CHUNK
                self.sums.append(0)
            part, data = data[: self._room], data[self._room :]
            self.sums[-1] = zlib.crc32(part, self.sums[-1])
            self._room -= len(part)

    def end_section(self) -> None:
        """What was written since the last call is a section."""
        self.sums.append(self._crc)
        self.bounds.append(self._length)
        self._crc = 0

    def finish(self) -> dict[str, Any]:
        """Write the header and return what the manifest says about the array."""
        shape = [self._length, *self._inner]
        self._stream.seek(0)
        self._stream.write(header(self._dtype, shape))
        self._stream.close()
        entry: dict[str, Any] = {"file": self._file.name, "dtype": self._dtype.str, "shape": shape}
        entry |= {"bytes": self._file.stat().st_size, "sha256": self._sha256.hexdigest()}
        return entry if self.divided else entry | {"crc32": self.sums}


def header(dtype: np.dtype[Any], shape: list[int]) -> bytes:
    """The header of a `.npy` file (version 1.0), always `HEADER` bytes long.

    >>> header(np.dtype("<i4"), [3])[10:68]
    b"{'descr': '<i4', 'fortran_order': False, 'shape': (3,), } "
    """
    described = f"{{'descr': {dtype.str!r}, 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    room = HEADER - 10
    if len(described) >= room:
        raise ValueError(f"an array of shape {shape} cannot be stored")
    return b"\x93NUMPY\x01\x00" + room.to_bytes(2, "little") + described.ljust(room - 1).encode() + b"\n"


def combined_hash(kind: str, entries: Mapping[str, Mapping[str, Any]], meta: Mapping[str, Any]) -> str:
    """The content hash of arrays of which dtype, shape and SHA-256 are known."""
    arrays = {name: [entry["dtype"], entry["shape"], entry["sha256"]] for name, entry in entries.items()}
    counted = {key: value for key, value in meta.items() if key not in NOT_COUNTED}
    return hashlib.sha256(render({"kind": kind, "arrays": arrays, "meta": counted})).hexdigest()


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

    def is_damaged(self) -> bool:
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
            _refuse_damaged([stated for section in wanted for stated in self._state_section(section)])
            for section in wanted:
                check(section)
                verified[section] = 1

    def _state_section(self, section: int) -> Iterator[_Stated]:
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
    divided: Mapping[str, NDArray[np.integer]] | None = None,
    later: Callable[[str], bool] = lambda name: False,
) -> str:
    """Write a directory and return its content hash.

    An existing path is refused; with `force` a directory of the same kind is replaced, anything else still is refused.
    `divided` gives for some arrays where their sections
    begin and where the last one ends [sections + 1]; `later` says which arrays are verified when somebody reads them.
    """
    with directory_writer(path, kind, force) as writer:
        bounds = divided or {}
        for name in [name for name in arrays if name not in bounds]:
            writer.append(name, arrays[name], later(name))
        for i in range(min((len(ends) - 1 for ends in bounds.values()), default=0)):
            writer.section({name: arrays[name][ends[i] : ends[i + 1]] for name, ends in bounds.items()})
        for name, ends in bounds.items():
            writer.append(name, arrays[name][ends[-1] :])
        return writer.finish(meta)


@contextmanager
def directory_writer(path: PathLike, kind: str, force: bool = False) -> Iterator[FolderWriter]:
    """What writes a directory piece by piece; it appears at `path` if all went well. See `write_directory`."""

    def foreign(place: Path) -> str | None:
        return _not_replaceable(place, kind)

    with locked(path):
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
    stated = {name: list(_state_whole(root, entry, maps[name])) for name, entry in entries.items()}
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


def _state_whole(root: Path, entry: Mapping[str, Any], mapped: mmap.mmap) -> Iterator[_Stated]:
    """What is verified at opening: the header, and all data that are not divided."""
    file, data = root / entry["file"], memoryview(mapped)
    yield _Stated(file, data[:HEADER], zlib.crc32(header(np.dtype(entry["dtype"]), entry["shape"])))
    for i, crc32 in enumerate(entry.get("crc32", ())):
        yield _Stated(file, data[HEADER + CHUNK * i : HEADER + CHUNK * (i + 1)], crc32)


def _refuse_damaged(stated: Sequence[_Stated]) -> None:
    """Compare checksums with the stated ones, on several threads if there is much."""
    if sum(len(part.data) for part in stated) <= CHUNK:
        results = [part.is_damaged() for part in stated]
    else:
        with ThreadPoolExecutor(_THREADS) as pool:
            results = list(pool.map(_Stated.is_damaged, stated))
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


def freeze(array: NDArray[Any]) -> NDArray[Any]:
    """An array as kernels take it: plain, contiguous, read-only."""
    view = np.ascontiguousarray(np.asarray(array)).view()
    view.flags.writeable = False
    return view


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


# --- columns that grow -------------------------------------------------------------------------------------------
#
# Compiled kernels read one plain array. Of a column that grows, the beginning is a mapped file, whose pages stay shared
# by all processes, and what was appended lies behind it in one range of addresses: pages of another file, or memory.
# Where the system cannot map the pages of a file a second time (anywhere but on Linux) they are copied instead.

# Pieces that are files begin and end at multiples of this number of elements: no page is of two pieces.
STEP = 1 << 16
_REMAP = sys.platform == "linux"
_FIXED_AND_MOVING = 3  # MREMAP_FIXED | MREMAP_MAYMOVE
_NO_RESERVE = 0x4000  # MAP_NORESERVE: room is a promise, and may be larger than memory

Columns: TypeAlias = Mapping[str, NDArray[Any]]


def place_after(length: int) -> int:
    """Where a piece begins that follows this number of elements.

    >>> place_after(1), place_after(65536)
    (131072, 131072)
    """
    return (-(-length // STEP) + 1) * STEP


class Segments:
    """Columns of parallel arrays: pieces that stay, files as a rule, and behind them room for what is appended.

    >>> grown = Segments([{"a": np.arange(3), "b": np.ones(3, np.float32)}], room=10)
    >>> at = grown.append({"a": np.array([7, 8]), "b": np.zeros(2, np.float32)})
    >>> at == place_after(3), grown.columns["a"][:3].tolist(), grown.columns["a"][at : at + 2].tolist()
    (True, [0, 1, 2], [7, 8])
    """

    def __init__(self, pieces: Sequence[Columns], room: int) -> None:
        self._turn = threading.Lock()  # threads may make two states in one space, each with rows of its own
        self.pieces = [dict(piece) for piece in pieces]
        self.places = [0]  # where each piece begins, and what is appended
        for piece in pieces:
            self.places.append(place_after(self.places[-1] + _length(piece)))
        self._end = self.places[-1]
        self.columns: dict[str, NDArray[Any]] = {}
        self._fill(self._end + place_after(room))

    def _fill(self, size: int) -> None:
        """Take a new range of addresses with all that is there."""
        writable = {name: _reserve(array.dtype, size) for name, array in self.pieces[0].items()}
        for name, column in writable.items():
            for at, piece in zip(self.places, self.pieces, strict=False):
                if piece[name].nbytes < mmap.PAGESIZE or not _remap(column, at, piece[name]):
                    column[at : at + len(piece[name])] = piece[name]
                if not _is_file(piece[name]):  # what is no file is kept here and nowhere else
                    piece[name] = column[at : at + len(piece[name])]
            if self.appended:
                column[self.places[-1] : self._end] = self.columns[name][self.places[-1] : self._end]
        columns = {name: array.view() for name, array in writable.items()}
        for column in columns.values():
            column.flags.writeable = False
        # Others may look at the columns any time: they are shown when they are whole.
        self._writable, self._size, self.columns = writable, size, columns

    @property
    def appended(self) -> int:
        return self._end - self.places[-1]

    def append(self, piece: Columns) -> int:
        """Put rows behind the last ones and return where they begin.

        What was there before stays as it is, so older readers may go on. Where there was no room `columns` are others.
        """
        with self._turn:
            begin, end = self._end, self._end + _length(piece)
            if end > self._size:
                self._fill(2 * place_after(end))
            for name, array in piece.items():
                self._writable[name][begin : begin + len(array)] = array
            self._end = end
            return begin


def _length(columns: Columns) -> int:
    return max((len(array) for array in columns.values()), default=0)


class _Memory(mmap.mmap):
    """Memory that is no file."""


def _reserve(dtype: np.dtype[Any], size: int) -> NDArray[Any]:
    """Room for a number of elements, zeros that take no memory until they are written; it begins HEADER behind a page.

    Data of a mapped `.npy` file begin there too, so the pages of a file keep their alignment.
    """
    if not _REMAP:
        return np.zeros(size, dtype=dtype)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    memory = _Memory(-1, HEADER + size * dtype.itemsize, flags=flags)
    return np.frombuffer(memory, dtype=dtype, count=size, offset=HEADER)


def _remap(column: NDArray[Any], at: int, array: NDArray[Any]) -> bool:
    """Map the pages of a file that `array` shows into the place of the column; False if that cannot be."""
    if not (_REMAP and array.flags.c_contiguous and array.dtype == column.dtype and _is_file(array)):
        return False
    source, target = array.ctypes.data, column.ctypes.data + at * column.itemsize
    inside = source % mmap.PAGESIZE
    if target % mmap.PAGESIZE != inside:
        return False
    # A shared mapping whose old size is given as 0 is mapped a second time.
    remap = ctypes.CDLL(None).mremap
    remap.restype = ctypes.c_void_p
    remap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    found = remap(source - inside, 0, inside + array.nbytes, _FIXED_AND_MOVING, target - inside)
    return bool(found == target - inside)


def _is_file(array: NDArray[Any]) -> bool:
    base: Any = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return isinstance(base, mmap.mmap) and not isinstance(base, _Memory)


# --- rows that wait ----------------------------------------------------------------------------------------------

BLOCK = 64 << 20  # bytes


def spill_memory(memory: int | None) -> int:
    """How many bytes of rows are held: half of what is given, by default a 32nd of the machine's memory."""
    if memory is not None:
        return memory // 2
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 32


class _Block(NamedTuple):
    """Rows in order of relation."""

    relations: NDArray[np.int64]  # those that occur, ascending
    bounds: NDArray[np.int64]  # [their number + 1] where each begins
    columns: dict[str, NDArray[Any] | int]  # or the byte in the file where one begins


class RelationSpill:
    """Rows of columns, grouped by relation; within one in the order in which they came.

    >>> spill = RelationSpill(memory=0)
    >>> spill.append(np.array([1, 0, 1]), {"head": np.array([7, 8, 9])})
    >>> spill.append(np.array([1]), {"head": np.array([5])})
    >>> spill.relation(1), spill.relation(2)
    ({'head': array([7, 9, 5])}, {'head': array([], dtype=int64)})
    """

    def __init__(
        self,
        memory: int,
        folder: Path | None = None,
        block: int = BLOCK,
        defaults: Mapping[str, float | int] | None = None,  # of columns that some calls of `append` lack
    ) -> None:
        self._defaults = defaults or {}
        self._memory, self._folder = memory, folder  # bytes of finished blocks; where the file lies
        self._size = max(1, min(block, memory))
        self._waiting: list[tuple[NDArray[Any], Columns]] = []
        self._waiting_bytes = self._held = 0
        self._blocks: list[_Block] = []
        self._file: BinaryIO | None = None
        self._kinds: dict[str, np.dtype[Any]] = {}
        self.rows = 0

    @property
    def spilled(self) -> bool:
        return self._file is not None

    def append(self, relation: NDArray[np.integer], columns: Columns) -> None:
        """Add rows; each call names the same columns, except those that have a default."""
        if self._waiting and self._waiting[-1][1].keys() != columns.keys():
            self._end_block()
        for name, column in columns.items():
            self._kinds.setdefault(name, column.dtype)
        self._waiting.append((relation, columns))
        self._waiting_bytes += sum(column.nbytes for column in columns.values())
        self.rows += len(relation)
        if self._waiting_bytes >= self._size:
            self._end_block()

    def relation(self, relation: int) -> dict[str, NDArray[Any]]:
        """All rows of a relation."""
        self._end_block()
        parts: dict[str, list[NDArray[Any]]] = {name: [] for name in self._kinds}
        for block in self._blocks:
            at = int(np.searchsorted(block.relations, relation))
            if at == len(block.relations) or block.relations[at] != relation:
                continue
            begin, end = block.bounds[at : at + 2].tolist()
            for name, part in parts.items():
                part.append(self._part(block, name, begin, end))
        return {
            name: part[0] if len(part) == 1 else np.concatenate([np.zeros(0, self._kinds[name]), *part])
            for name, part in parts.items()
        }

    def close(self) -> None:
        self._waiting, self._blocks = [], []
        if self._file is not None:
            self._file.close()

    def _end_block(self) -> None:
        if not self._waiting:
            return
        relation = np.concatenate([rows[0] for rows in self._waiting])
        low = relation.astype(np.uint16) if len(relation) and relation.max() < 1 << 16 else relation
        order = np.argsort(low, kind="stable")  # short numbers are sorted in linear time
        ordered = relation[order].astype(np.int64)
        begin = np.flatnonzero(np.diff(ordered, prepend=-1))
        columns: dict[str, NDArray[Any] | int] = {
            name: np.concatenate([rows[1][name] for rows in self._waiting]).astype(kind, copy=False)[order]
            for name, kind in self._kinds.items()
            if name in self._waiting[0][1]
        }
        self._blocks.append(_Block(ordered[begin], np.append(begin, len(ordered)), columns))
        self._held += self._waiting_bytes
        self._waiting, self._waiting_bytes = [], 0
        if self._held > self._memory:
            self._write()

    def _write(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 (closed with the spill)
            for block in self._blocks:
                for name, column in block.columns.items():
                    if not isinstance(column, int):
                        block.columns[name] = self._file.tell()
                        self._file.write(np.ascontiguousarray(column).view(np.uint8).data)
            self._file.flush()
        except OSError as error:
            where = self._folder or tempfile.gettempdir()
            raise BadInput(f"cannot keep facts in {where} meanwhile: {reason(error)}") from None
        self._held = 0

    def _part(self, block: _Block, name: str, begin: int, end: int) -> NDArray[Any]:
        kind, column = self._kinds[name], block.columns.get(name)
        if column is None:
            return np.full(end - begin, self._defaults[name], kind)
        if not isinstance(column, int):
            return column[begin:end]
        assert self._file is not None
        self._file.seek(column + begin * kind.itemsize)
        return np.fromfile(self._file, kind, end - begin)
