"""The bytes of a file: plain, gzip or zstd."""

from __future__ import annotations

import gzip
import mmap
import re
import zlib
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from tuplet.errors import BadInput

Data: TypeAlias = bytes | mmap.mmap

BOM = b"\xef\xbb\xbf"
CONTENT = re.compile(rb"[^\r\n]")
PACKED = (".gz", ".zst")  # what may follow the suffix of a file
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def load(path: Path) -> Data:
    """The bytes of a file, unpacked if it is gzip or zstd, mapped if it is not."""
    try:
        with open(path, "rb") as stream:
            start = stream.read(4)
            if start[:2] == _GZIP or path.suffix.lower() == ".gz":
                data: Data = gzip.decompress(start + stream.read())
            elif start == _ZSTD or path.suffix.lower() == ".zst":
                data = _zstd(path)
            else:
                data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if start else b""
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        reason = "it ends too early" if isinstance(error, EOFError) else str(error)
        raise BadInput(f"{path}: broken gzip file ({reason})") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise BadInput(f"{path}: this is UTF-16; save it as UTF-8")
    if not CONTENT.search(data, len(BOM) if data[:3] == BOM else 0):
        raise BadInput(f"{path} is empty")
    return data


def _zstd(path: Path) -> bytes:
    try:
        with pa.input_stream(str(path), compression="zstd") as stream:
            unpacked: bytes = stream.read()
    except OSError as error:
        raise BadInput(f"{path}: broken zstd file ({error})") from None
    return unpacked


def release(data: Data) -> None:
    """Pages that were read need not stay in memory."""
    if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        data.madvise(mmap.MADV_DONTNEED)
