"""Rows that arrive in any order and are read back relation by relation, from disk where they do not fit memory.

What arrives is collected into blocks. A block is ordered by relation and keeps where each relation begins in it, so one
file holds all of them and a relation is read with one jump per block and column. The file has no name: it is gone with
the process, however that ends.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BadInput
from tuplet.files import reason

BLOCK = 64 << 20  # bytes
Columns = Mapping[str, NDArray[Any]]


def spill_memory(memory: int | None) -> int:
    """How many bytes of rows are held: half of what is given, by default a 32nd of the machine's memory."""
    if memory is not None:
        return memory // 2
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 32


class _Block(NamedTuple):
    """Rows in order of relation."""

    relations: NDArray[np.int64]  # those that occur, ascending
    bounds: NDArray[np.int64]  # [their number + 1] where each begins
    columns: dict[str, NDArray[Any]]  # empty once they are on disk
    places: dict[str, int]  # byte in the file where a column begins


class RelationSpill:
    """Rows of columns, grouped by relation; in the order in which they arrived within one.

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
        """Whether anything went to the disk."""
        return self._file is not None

    def append(self, relation: NDArray[np.integer], columns: Columns) -> None:
        """Add rows; each call names the same columns, but for those that have a default."""
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
        """Let everything go."""
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
        columns = {
            name: np.concatenate([rows[1][name] for rows in self._waiting]).astype(kind, copy=False)[order]
            for name, kind in self._kinds.items()
            if name in self._waiting[0][1]
        }
        self._blocks.append(_Block(ordered[begin], np.append(begin, len(ordered)), columns, {}))
        self._held += self._waiting_bytes
        self._waiting, self._waiting_bytes = [], 0
        if self._held > self._memory:
            self._write()

    def _write(self) -> None:
        """Bring all blocks to the disk."""
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 (closed with the spill)
            for i, block in enumerate(self._blocks):
                for name, column in block.columns.items():
                    block.places[name] = self._file.tell()
                    self._file.write(np.ascontiguousarray(column).view(np.uint8).data)
                self._blocks[i] = block._replace(columns={})
            self._file.flush()
        except OSError as error:
            where = self._folder or tempfile.gettempdir()
            raise BadInput(f"cannot keep facts in {where} meanwhile: {reason(error)}") from None
        self._held = 0

    def _part(self, block: _Block, name: str, begin: int, end: int) -> NDArray[Any]:
        kind = self._kinds[name]
        if name in block.columns:
            return block.columns[name][begin:end]
        if name not in block.places:
            return np.full(end - begin, self._defaults[name], kind)
        assert self._file is not None
        out = np.empty(end - begin, kind)
        place, view = block.places[name] + begin * kind.itemsize, out.view(np.uint8).data
        while len(view):
            got = os.preadv(self._file.fileno(), [view], place)
            if not got:
                raise BadInput("the file that keeps facts meanwhile ended too early")
            view, place = view[got:], place + got
        return out
