"""Writes a folder of arrays piece by piece: nothing but the piece at hand is in memory.

The layout is that of `array_folder`. Every `.npy` file has a header of exactly `HEADER` bytes, for which room is left
until the length of the array is known; hash and checksums are computed while its bytes pass by.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuplet.files import MANIFEST, render, sealed

FORMAT = "tuplet"
FORMAT_VERSION = 2  # in 1 no array was divided, and checksums counted the header
HEADER = 128
CHUNK = 8 << 20  # checksums of what is not divided are per chunk, so that several threads verify one big array
SUMS, BOUNDS = "sums", "bounds"
NOT_COUNTED = ("notes", "counts")  # of meta, in the content hash: where the data come from, what follows from them


class FolderWriter:
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
        self._folder, self._kind = folder, kind
        self._arrays: dict[str, _Growing] = {}
        self._later: list[str] = []
        self._open = ExitStack()
        folder.mkdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.close()

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
        self._open.close()
        (self._folder / MANIFEST).write_bytes(sealed(FORMAT, FORMAT_VERSION, content))
        return digest

    def _growing(self, name: str, array: NDArray[Any], divided: bool) -> _Growing:
        if name not in self._arrays:
            if not name.isidentifier() or name in (SUMS, BOUNDS) or array.dtype.kind not in "biuf":
                raise ValueError(f"array {name!r} of dtype {array.dtype} cannot be stored")
            growing = _Growing(self._folder / f"{name}.npy", np.ascontiguousarray(array), divided)
            self._arrays[name] = self._open.enter_context(growing)
        return self._arrays[name]

    def _whole(self, name: str, array: NDArray[Any]) -> dict[str, Any]:
        with _Growing(self._folder / f"{name}.npy", array, divided=False) as growing:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
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
