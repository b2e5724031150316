"""Conditions as compiled code looks them up: rows of numbers, with the addresses of the arrays that they are about.

Nothing is copied: columns of values may be as long as there are entities, and lie in mapped files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.attributes import Ids, Ranked, members
from tuplet.query.conditions import BoundCondition, Compared, Equal, Outside, Paired, Within

Longs: TypeAlias = NDArray[np.int64]

# Columns of a table of tests [tests, 14]:
#   CODE                         the address of the compiled test, filled in when it is loaded
#   KIND                         what is tested, below
#   LEFT, RIGHT                  the variables, one and the same if there is only one
#   KEYS, COUNT, WIDE, RANKS     keys of the left variable (or pairs): address, number, 1 if int64; address of the ranks
#   OTHER_KEYS … OTHER_RANKS     the same of the right variable
#   LOW, HIGH                    the range of ranks
CODE, KIND, LEFT, RIGHT, KEYS, COUNT, WIDE, RANKS = range(8)
OTHER_KEYS, OTHER_COUNT, OTHER_WIDE, OTHER_RANKS, LOW, HIGH = range(8, 14)
COLUMNS = 14
WITHIN, OUTSIDE, PAIRED, LESS, AT_MOST, MORE, AT_LEAST, EQUAL, UNEQUAL = range(9)

_SIGNS = {"<": LESS, "<=": AT_MOST, ">": MORE, ">=": AT_LEAST, "=": EQUAL, "!=": UNEQUAL}

SMALL = 4096  # values that are gone through without asking if that is worth it
SAMPLE = 512  # values by which the share of a range is judged


class ConditionTests:
    """The tests of conditions other than equalities. It must stay as long as they are used: they lie in its arrays."""

    def __init__(self, conditions: Sequence[BoundCondition]) -> None:
        self.kept: list[Ranked] = []
        rows = [[0, *_row(condition, self.kept)] for condition in conditions]
        self.rows: Longs = np.array(rows, dtype=np.int64)

    @property
    def addresses(self) -> list[int]:
        """Where each test lies."""
        first = self.rows.ctypes.data
        return [first + i * self.rows.strides[0] for i in range(len(self.rows))]


def _row(condition: BoundCondition, kept: list[Ranked]) -> list[int]:
    none = (0, 0, 0, 0)

    def column(values: Ranked) -> tuple[int, int, int, int]:
        kept.append(values)
        return values.located

    match condition:
        case Within(variable, values, low, high):
            return [WITHIN, variable, variable, *column(values), *none, low, high]
        case Outside(variable, listed):
            return [OUTSIDE, variable, variable, *column(members(listed)), *none, 0, 0]
        case Paired(left, right, values, low, high):
            return [PAIRED, left, right, *column(values), *none, low, high]
        case Compared(left, right, operator, mine, theirs):
            own, other = column(mine), column(theirs)
            return [_SIGNS[operator], left, right, *own, *other, 0, 0]
        case Equal():
            raise ValueError("equal variables are unified before")


def list_allowed(conditions: Sequence[BoundCondition], variable: int, others: float) -> tuple[Within, Ids] | None:
    """Of the conditions on a variable the one that leaves fewest entities, and these, where listing them is worth it.

    `others` is how many candidates there are without: a long column is gone through only to save more than that takes.
    """
    best: tuple[Within, Ids] | None = None
    for condition in conditions:
        if isinstance(condition, Within) and condition.variable == variable and _worth_listing(condition, others):
            found = condition.entities()
            if len(found) < (others if best is None else len(best[1])):
                best = condition, found
    return best


def _worth_listing(condition: Within, others: float) -> bool:
    rank = condition.values.rank
    if len(rank) <= SMALL:
        return True
    if len(rank) > 32 * others:
        return False
    some = rank[:: len(rank) // SAMPLE]
    share = np.count_nonzero((some >= condition.low) & (some < condition.high)) / len(some)
    return bool(4 * share * len(rank) <= others)
