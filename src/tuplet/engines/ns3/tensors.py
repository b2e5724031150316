"""What a search in torch holds: its tensors are counted as they are made and as they go, and the limit is kept.

Of the arrays that one operation makes of others none is much larger than those, so it is enough to look after each
operation, and before those that join all they are given.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from tuplet.errors import BudgetExceeded
from tuplet.graph.adjacency import consecutive
from tuplet.predict.base import ranges
from tuplet.query.limits import Brake, Deadline, Limits, OutOfMemory
from tuplet.truth.table import TruthTable

_SMALL = 1 << 16  # bytes of a tensor that is not counted: a search has some dozens of them at once
_STEP = 1 << 20  # bytes by which the sum changes before the brake is asked again
_JOINS = (torch.cat, torch.stack)


class TensorMemory(TorchFunctionMode):
    """The tensors of one search; `OutOfMemory` where they would be more than it may hold."""

    def __init__(self, most: int, brake: Brake) -> None:
        super().__init__()
        self._most, self._brake = most, brake
        self._reported = 0
        self._sharing: dict[int, int] = {}  # by address: how many tensors look at the same bytes
        self.held = 0

    @property
    def left(self) -> int:
        """The bytes that it may still hold."""
        return max(0, self._most - self.held)

    def hold(self, size: int) -> None:
        """Room for something that is no tensor and stays as long as the search does."""
        self._check(size)
        self.held += size

    def _check(self, more: int) -> None:
        size = self.held + more
        if size > self._most:
            raise OutOfMemory
        if abs(size - self._reported) >= _STEP:
            self._reported = size
            if not self._brake.may_hold(size):
                raise OutOfMemory

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _JOINS:
            self._check(sum(part.nbytes for part in args[0]))
        found = func(*args, **(kwargs or {}))
        for one in found if isinstance(found, tuple | list) else (found,):
            if isinstance(one, torch.Tensor) and one.nbytes >= _SMALL:
                self._count(one)
        return found

    def _count(self, tensor: torch.Tensor) -> None:
        stored = tensor.untyped_storage()
        place, size = stored.data_ptr(), stored.nbytes()
        sharing = self._sharing.get(place, 0)
        self._sharing[place] = sharing + 1
        if not sharing:
            self.held += size
        weakref.finalize(tensor, self._release, place, size).atexit = False
        self._check(0)

    def _release(self, place: int, size: int) -> None:
        self._sharing[place] -= 1
        if not self._sharing[place]:
            del self._sharing[place]
            self.held -= size


_COUNTED: ContextVar[TensorMemory | None] = ContextVar("counted", default=None)


@contextmanager
def count_memory(limits: Limits, deadline: Deadline) -> Iterator[None]:
    """What is done in here holds no more than the limits say, or ends with `OutOfMemory`."""
    if limits.memory is None or _COUNTED.get() is not None:
        yield
        return
    memory = TensorMemory(limits.memory, deadline.brake)
    before = _COUNTED.set(memory)
    try:
        with memory:
            yield
    finally:
        _COUNTED.reset(before)


def room_left() -> int | None:
    """The bytes that the search at hand may still hold; None where nobody counts."""
    memory = _COUNTED.get()
    return None if memory is None else memory.left


def make_room(size: int) -> None:
    """For so many bytes that are no tensor: `OutOfMemory` where the search at hand may not hold them, too."""
    memory = _COUNTED.get()
    if memory is not None:
        memory.hold(size)


Tensor = torch.Tensor

_LAST = 2**63 - 1  # ends sorted keys, so that every search finds a place
_ENTRY = 64  # bytes for each entry of a table while it is made
SAME = 1 - 1e-12  # equal up to rounding: factors are multiplied in different orders
# Items of one step, and blocks that the queries of one chunk may need. A step on the CPU takes some 25 ms: the deadline
# is looked at between two of them. A GPU wants longer ones.
_CPU_BLOCK, _CPU_CHUNK = 1 << 18, 32
_CUDA_BLOCK, _CUDA_CHUNK = 1 << 25, 4


@dataclass(frozen=True)
class TensorTable:
    """Truth values of some relations on a device; relations get new numbers (`number`).

    >>> truth = TruthTable.build(3, 1, np.array([0, 0]), np.array([0, 0]), np.array([1, 2]),
    ...                          np.array([1.0, 0.25]), np.array([True, False]))
    >>> table = TensorTable.from_table(truth)
    >>> zero = torch.tensor([0])
    >>> table.value(zero, zero, torch.tensor([2])).tolist(), table.best(zero, zero).tolist()
    ([0.25], [1.0])
    """

    entities: int
    number: Tensor  # [relations of the graph] the number here, -1 if it is not here
    view_ptr: Tensor  # [2·relations + 1] rows of each view
    row_key: Tensor  # [rows + 1] view · entities + entity, ascending
    row_ptr: Tensor  # [rows + 2]
    row_best: Tensor  # [rows + 1] the largest truth of the row
    neighbour: Tensor  # [entries] int32
    truth: Tensor  # [entries] in double precision
    edge_key: Tensor  # [edges + 1] (relation · entities + head) · entities + tail, ascending
    edge_truth: Tensor  # [edges + 1]
    block: int  # the most items that one step may make
    chunk: int  # the most items that the queries searched together may need

    @property
    def device(self) -> torch.device:
        return self.truth.device

    @staticmethod
    def from_table(
        table: TruthTable,
        relations: Iterable[int] | None = None,
        device: str | torch.device = "cpu",
        block: int | None = None,
    ) -> TensorTable:
        """The table of some relations (all, if none are named)."""
        entities, a, truth = table.entities, table.adjacency, table.truth
        wanted = np.unique(np.fromiter(range(a.relations) if relations is None else relations, dtype=np.int64))
        a.touch(wanted.tolist())
        if len(wanted) * 2 * entities**2 >= _LAST:
            raise BudgetExceeded(f"{len(wanted):,} relations over {entities:,} entities do not fit 63-bit edge keys")
        views = np.stack([2 * wanted, 2 * wanted + 1], axis=1).reshape(-1)
        rows = [a.view(v) for v in views.tolist()]
        view_ptr = np.cumsum([0, *(len(own.entities) for own in rows)], dtype=np.int64)
        lengths = _concatenate([own.lengths for own in rows])
        row_ptr = np.append(0, np.cumsum(lengths))
        make_room(_ENTRY * int(row_ptr[-1]))
        entries = consecutive(_concatenate([own.starts for own in rows]), lengths)
        view = np.repeat(np.arange(len(views)), np.diff(view_ptr))
        row_key = view * entities + _concatenate([own.entities for own in rows])
        forward = np.repeat(view % 2 == 0, lengths)
        values, neighbour = truth[entries], a.neighbour[entries]
        near = np.repeat(row_key - view * entities + (view // 2) * entities, lengths)[forward]
        number = np.full(a.relations, -1, dtype=np.int64)
        number[wanted] = np.arange(len(wanted))
        best = np.maximum.reduceat(values, row_ptr[:-1]) if len(lengths) else np.zeros(0)

        def put(array: Any, kind: torch.dtype = torch.int64) -> Tensor:
            return torch.as_tensor(np.ascontiguousarray(array)).to(device=device, dtype=kind)

        on_cpu = torch.device(device).type == "cpu"
        block = block or (_CPU_BLOCK if on_cpu else _CUDA_BLOCK)
        return TensorTable(
            entities,
            put(number),
            put(view_ptr),
            put(np.append(row_key, _LAST)),
            put(np.append(row_ptr, row_ptr[-1])),
            put(np.append(best, 0), torch.float64),
            put(neighbour, torch.int32),
            put(values, torch.float64),
            put(np.append(near * entities + neighbour[forward], _LAST)),
            put(np.append(values[forward], 0), torch.float64),
            block,
            block * (_CPU_CHUNK if on_cpu else _CUDA_CHUNK),
        )

    def spans(self, view: Tensor, entity: Tensor) -> tuple[Tensor, Tensor]:
        """Where the rows of (view, entity) begin and how long they are. [n], [n]"""
        key = view * self.entities + entity
        at = torch.searchsorted(self.row_key, key)
        start = self.row_ptr[at]
        return start, torch.where(self.row_key[at] == key, self.row_ptr[at + 1] - start, 0)

    def value(self, view: Tensor, near: Tensor, far: Tensor) -> Tensor:
        """Truth of single edges from `near` to `far` under a view, 0 where none is listed."""
        inverse = (view & 1).bool()
        head, tail = torch.where(inverse, far, near), torch.where(inverse, near, far)
        key = ((view >> 1) * self.entities + head) * self.entities + tail
        at = torch.searchsorted(self.edge_key, key)
        return torch.where(self.edge_key[at] == key, self.edge_truth[at], 0)

    def best(self, view: Tensor, entity: Tensor) -> Tensor:
        """The largest truth of each row, 0 where there is none."""
        key = view * self.entities + entity
        at = torch.searchsorted(self.row_key, key)
        return torch.where(self.row_key[at] == key, self.row_best[at], 0)

    def members(self, view: Tensor) -> tuple[Tensor, Tensor]:
        """The entities that have a row under each view: number of the view in the list, entity."""
        start = self.view_ptr[view]
        source, at = ranges(start, self.view_ptr[view + 1] - start)
        return source, self.row_key[at] % self.entities

    def edges(self, view: Tensor) -> Tensor:
        """How many edges each view lists."""
        return self.row_ptr[self.view_ptr[view + 1]] - self.row_ptr[self.view_ptr[view]]


def _concatenate(arrays: list[Any]) -> Any:
    return np.concatenate([np.zeros(0, dtype=np.int64), *arrays])


# --- flat lists ------------------------------------------------------------------------------------------------------


def blocks(length: Tensor, most: int) -> Iterator[slice]:
    """Slices of a list of ranges whose lengths sum to about `most`; a longer range makes a slice of its own."""
    ends = torch.cumsum(length, 0)
    total = int(ends[-1]) if len(ends) else 0
    if total <= most:
        yield slice(0, len(length))
        return
    marks = torch.arange(most, total, most, device=length.device)
    cuts = torch.unique(torch.searchsorted(ends, marks)).tolist()
    edges = sorted({0, *cuts, len(length)})
    for low, high in pairwise(edges):
        yield slice(low, high)


def renumber(queries: Tensor, total: int) -> Tensor:
    """The place of each of `total` queries among those that stay, -1 of the others. [total]"""
    number = torch.full((total,), -1, dtype=torch.int64, device=queries.device)
    number[queries] = torch.arange(len(queries), device=queries.device)
    return number


def starts(length: Tensor) -> Tensor:
    """Where each of some ranges begins that stand one after the other."""
    return torch.cumsum(length, 0) - length


def find(keys: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of `wanted` in ascending `keys`, and whether they are there."""
    if not len(keys):
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    at = torch.searchsorted(keys, wanted).clamp_(max=len(keys) - 1)
    return at, keys[at] == wanted


def distinct(lists: Iterable[Tensor], expected: int, universe: int, device: torch.device) -> Tensor:
    """The different numbers below `universe` in lists that hold about `expected` together, ascending."""
    if universe > 64 * (1 + expected):  # marking is faster than sorting unless nearly nothing is marked
        different: Tensor = torch.unique(torch.cat(list(lists)))
        return different
    marked = torch.zeros(universe, dtype=torch.bool, device=device)
    for some in lists:
        marked[some] = True
    found: Tensor = marked.nonzero().view(-1)
    return found


def best_of(at: Tensor, value: Tensor, size: int) -> Tensor:
    """The largest value at each of `size` places, 0 where there is none (the segmented maximum)."""
    return torch.zeros(size, dtype=value.dtype, device=value.device).scatter_reduce_(0, at, value, "amax")


def counts(query: Tensor, queries: int) -> Tensor:
    """How many rows each query has; rows are in order of their query. [queries]"""
    edges = torch.searchsorted(query, torch.arange(queries + 1, device=query.device))
    return edges[1:] - edges[:-1]


def totals(query: Tensor, value: Tensor, queries: int) -> Tensor:
    """The sum of each query's values, always added in the same order. [queries]"""
    sums: Tensor = torch.segment_reduce(value, "sum", lengths=counts(query, queries), unsafe=True)
    return sums


def order_falling(query: Tensor, *keys: Tensor) -> Tensor:
    """The order of rows by query, then by falling keys (the first one counts most), then as they stand."""
    order = torch.arange(len(query), device=query.device)
    for key in reversed(keys):
        order = order[torch.argsort(key[order], descending=True, stable=True)]
    return order[torch.argsort(query[order], stable=True)]


def ranks(query: Tensor, queries: int, *keys: Tensor) -> Tensor:
    """The place of each row among its query's rows in falling order of the keys, from 0."""
    order = order_falling(query, *keys)
    start = starts(counts(query, queries))
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=query.device) - start[query[order]]
    return place


def rank_rows(query: Tensor, value: Tensor, columns: Sequence[Tensor], rank: Tensor) -> tuple[Tensor, Tensor]:
    """The order of tuples by query and falling truth, ties by the rank of their members; and their truths in it.

    Truths that are equal up to rounding are one tie, and have one truth.
    """
    order = order_falling(query, value)
    query, value = query[order], value[order]
    begins = torch.ones_like(query, dtype=torch.bool)
    begins[1:] = (query[1:] != query[:-1]) | (value[1:] < value[:-1] * SAME)
    tie = torch.cumsum(begins, 0) - 1
    inside = order_falling(tie, *(-rank[column[order]] for column in columns))
    return order[inside], value[begins][tie[inside]]
