"""The values of an attribute that conditions allow, and how those of two attributes compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.attributes import AttributeColumn, Ids, Ranked
from tuplet.graph.names import Strings


@dataclass(frozen=True)
class Allowed:
    """The values of one attribute that some conditions allow: ranks of a column from `low` on, below `high`, and of
    these the marked ones, if marks are given [distinct values]."""

    column: AttributeColumn
    low: int
    high: int
    marks: NDArray[np.bool_] | None = None

    def keys(self) -> Ids:
        """The entities or facts that have such a value, ascending."""
        ranked = self.column.ranked
        inside = (ranked.rank >= self.low) & (ranked.rank < self.high)
        if self.marks is not None:
            inside &= self.marks[ranked.rank]
        return np.unique(ranked.keys[inside])

    def allows(self, rank: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which ranks are allowed."""
        inside = (rank >= self.low) & (rank < self.high)
        return inside if self.marks is None else inside & self.marks[rank]

    def has_several(self) -> bool:
        """Whether some key has several values."""
        keys = self.column.ranked.keys
        return bool((keys[1:] == keys[:-1]).any())


def together(families: Sequence[tuple[Ranked, Ranked]]) -> tuple[Ranked, Ranked]:
    """Values of several families side by side, those of each with ranks of their own: it shows which are equal."""
    sides: tuple[list[Ranked], list[Ranked]] = [], []
    start = 0
    for pair in families:
        for side, ranked in zip(sides, pair, strict=True):
            side.append(Ranked(ranked.keys, ranked.rank + np.int32(start)))
        start += 1 + max(int(ranked.rank.max(initial=0)) for ranked in pair)
    found = []
    for side in sides:
        keys, rank = np.concatenate([part.keys for part in side]), np.concatenate([part.rank for part in side])
        order = np.lexsort((rank, keys))
        found.append(Ranked(keys[order], rank[order]))
    return found[0], found[1]


def common(a: Allowed, b: Allowed) -> tuple[Ranked, Ranked]:
    """The allowed values of two columns by their ranks in one common order."""
    found = []
    for choice, ranked in zip((a, b), _in_common_order(a.column, b.column), strict=True):
        if choice.marks is None and choice.low == 0 and choice.high == choice.column.distinct:
            found.append(ranked)
        else:
            inside = choice.allows(choice.column.ranked.rank)
            found.append(Ranked(ranked.keys[inside], ranked.rank[inside]))
    return found[0], found[1]


@lru_cache(maxsize=8)  # it takes as long as the columns are
def _in_common_order(a: AttributeColumn, b: AttributeColumn) -> tuple[Ranked, Ranked]:
    if a is b:
        return a.ranked, b.ranked
    one, other = a.values, b.values
    if isinstance(one, Strings) and isinstance(other, Strings):
        texts = [np.array(strings.texts(range(len(strings))), dtype=object) for strings in (one, other)]
        together = {text: i for i, text in enumerate(sorted({*texts[0], *texts[1]}, key=str.encode))}
        ranks = [np.array([together[text] for text in part], np.int32) for part in texts]
    else:
        merged = np.unique(np.concatenate([np.asarray(one), np.asarray(other)]))
        ranks = [np.searchsorted(merged, np.asarray(part)).astype(np.int32) for part in (one, other)]
    first, second = (
        Ranked(column.ranked.keys, new[column.ranked.rank]) for column, new in zip((a, b), ranks, strict=True)
    )
    return first, second
