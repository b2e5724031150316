"""Values of keys by their rank: what conditions on attributes look up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ids: TypeAlias = NDArray[np.integer]
Marks: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Ranked:
    """Keys in ascending order, each with the place of its value in the order of all values.

    >>> ages = Ranked(np.array([2, 5, 5]), np.array([0, 1, 3], np.int32))
    >>> ages.within(np.array([2, 3, 5]), 1, 3)
    array([False, False,  True])
    """

    keys: Ids  # [n] int32 or int64; repeated where a key has several values, their ranks ascending
    rank: NDArray[np.int32]  # [n]

    def __reduce__(self) -> tuple[type[Ranked], tuple[Ids, NDArray[np.int32]]]:
        return Ranked, (self.keys, self.rank)  # addresses are of one process

    @cached_property
    def located(self) -> tuple[int, int, int, int]:
        """Where compiled code finds it: address and number of the keys, 1 if these are int64, address of the ranks."""
        for name, kind in (("keys", np.int64 if self.keys.dtype.itemsize == 8 else np.int32), ("rank", np.int32)):
            # as compiled code reads them: as they are, as a rule
            object.__setattr__(self, name, np.require(getattr(self, name), kind, ["C", "A"]))
        return self.keys.ctypes.data, len(self.keys), int(self.keys.dtype.itemsize == 8), self.rank.ctypes.data

    def spans(self, wanted: Ids) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the values of each key begin, and how many there are."""
        start = np.searchsorted(self.keys, wanted, "left")
        return start, np.searchsorted(self.keys, wanted, "right") - start

    def gathered(self, wanted: Ids) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """All values of the keys, as the place of the key in `wanted` and the rank."""
        start, count = self.spans(wanted)
        place = np.repeat(np.arange(len(start)), count)
        return place, self.rank[np.arange(len(place)) + np.repeat(start - np.cumsum(count) + count, count)]

    def count(self, low: int, high: int) -> int:
        """How many values have a rank of at least `low` and below `high`."""
        return int(np.count_nonzero((self.rank >= low) & (self.rank < high)))

    def within(self, wanted: Ids, low: int, high: int) -> Marks:
        """Which keys have a value whose rank is at least `low` and below `high`."""
        place, rank = self.gathered(wanted)
        found = np.zeros(len(wanted), dtype=bool)
        found[place[(rank >= low) & (rank < high)]] = True
        return found


def members(keys: Ids) -> Ranked:
    """A plain set of keys, ascending: all have rank 0."""
    return Ranked(keys, np.zeros(len(keys), np.int32))
