"""Conditions of a bound clause: which entities, or which pairs of entities, its variables may be.

They hold or do not, whatever is predicted. `holds` says what a condition means; engines look the keys up themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.attributes import FACTS, FAMILIES, AttributeColumn, Ids, Marks, Ranked, comparable, kind_of, union_of
from tuplet.graph.names import Strings
from tuplet.lang.ast import TEXT_TESTS, Formula, Operator
from tuplet.lang.print import formula_to_logic

if TYPE_CHECKING:
    import pyarrow

# How the rank of a value of the left variable compares with the rank of one of the right variable.
COMPARES: dict[str, Callable[[NDArray[np.int32], NDArray[np.int32]], Marks]] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
PAIR = FACTS  # the key of a pair is left · PAIR + right


@dataclass(frozen=True, eq=False)
class EntityCondition:
    """What one variable may be."""

    variable: int
    said: tuple[Formula, ...] = field(default=(), kw_only=True)  # as it was written, for plans

    @property
    def variables(self) -> tuple[int]:
        return (self.variable,)


@dataclass(frozen=True, eq=False)
class PairCondition:
    """What two variables may be together."""

    left: int
    right: int
    said: tuple[Formula, ...] = field(default=(), kw_only=True)

    @property
    def variables(self) -> tuple[int, int]:
        return (self.left, self.right)


@dataclass(frozen=True, eq=False)
class Within(EntityCondition):
    """A variable is an entity with a value in a range of ranks; the members of a plain set have rank 0."""

    values: Ranked
    low: int = 0
    high: int = 1

    def holds(self, entities: Ids) -> Marks:
        """For which entities it holds. [n]"""
        return self.values.within(entities, self.low, self.high)

    def entities(self) -> Ids:
        """The entities for which it holds, ascending."""
        inside = (self.values.rank >= self.low) & (self.values.rank < self.high)
        keys = self.values.keys[inside]
        again = np.append(False, keys[1:] == keys[:-1])[: len(keys)]
        return keys[~again] if again.any() else keys


@dataclass(frozen=True, eq=False)
class Outside(EntityCondition):
    """A variable is none of the listed entities."""

    listed: Ids  # ascending

    def holds(self, entities: Ids) -> Marks:
        """For which entities it holds. [n]"""
        return ~np.isin(entities, self.listed)


@dataclass(frozen=True, eq=False)
class Compared(PairCondition):
    """A value of the left variable compares with a value of the right one; their ranks are in one common order."""

    operator: str  # one of COMPARES
    left_values: Ranked
    right_values: Ranked

    def holds(self, left: Ids, right: Ids) -> Marks:
        """For which pairs of entities it holds. [n]"""
        place, rank = self.left_values.gather(left)
        again, other = self.right_values.gather(np.asarray(right)[place])
        found = np.zeros(len(left), dtype=bool)
        found[place[again[COMPARES[self.operator](rank[again], other)]]] = True
        return found


@dataclass(frozen=True, eq=False)
class Paired(PairCondition):
    """Two variables are the ends of a stated fact with a value in a range of ranks; keys are left · PAIR + right."""

    values: Ranked
    low: int = 0
    high: int = 1

    def holds(self, left: Ids, right: Ids) -> Marks:
        """For which pairs of entities it holds. [n]"""
        return self.values.within(np.asarray(left, np.int64) * PAIR + right, self.low, self.high)


@dataclass(frozen=True, eq=False)
class Equal(PairCondition):
    """Two variables are one entity."""

    def holds(self, left: Ids, right: Ids) -> Marks:
        """For which pairs of entities it holds. [n]"""
        return np.asarray(left == right)


BoundCondition: TypeAlias = Within | Outside | Compared | Paired | Equal
ALL_CONDITIONS: tuple[type[BoundCondition], ...] = (Within, Outside, Compared, Paired, Equal)


def renumber(condition: BoundCondition, number: Callable[[int], int]) -> BoundCondition:
    """The same condition on variables with other numbers."""
    if isinstance(condition, PairCondition):
        return replace(condition, left=number(condition.left), right=number(condition.right))
    return replace(condition, variable=number(condition.variable))


def describe_condition(condition: BoundCondition, node: Callable[[int], str]) -> str:
    """A condition for plans, with variables named by a function: as it was written, if that is known."""
    names = [node(variable) for variable in condition.variables]
    match condition:
        case _ if condition.said:
            return " & ".join(map(formula_to_logic, condition.said))
        case Within(_, values, low, high):
            return f"{names[0]} of {values.count(low, high):,} entities"
        case Outside(_, listed):
            return f"{names[0]} none of {len(listed):,} entities"
        case Compared():
            return f"a value of {names[0]} {condition.operator} one of {names[1]}"
        case Paired(_, _, values, low, high):
            return f"({', '.join(names)}) of {values.count(low, high):,} facts"
        case _:
            return f"{names[0]} = {names[1]}"


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
    for choice, ranked in zip((a, b), _rank_together(a.column, b.column), strict=True):
        if choice.marks is None and choice.low == 0 and choice.high == choice.column.distinct:
            found.append(ranked)
        else:
            inside = choice.allows(choice.column.ranked.rank)
            found.append(Ranked(ranked.keys[inside], ranked.rank[inside]))
    return found[0], found[1]


@lru_cache(maxsize=8)  # it takes as long as the columns are
def _rank_together(a: AttributeColumn, b: AttributeColumn) -> tuple[Ranked, Ranked]:
    if a is b:
        return a.ranked, b.ranked
    _, (first, second) = union_of([a.values, b.values])
    one, other = first.astype(np.int32)[a.ranked.rank], second.astype(np.int32)[b.ranked.rank]
    return Ranked(a.ranked.keys, one), Ranked(b.ranked.keys, other)


def compared_values(operator: Operator, left: Any, right: Any) -> bool:
    """Whether two values compare; values of different families differ, and nothing else."""
    if FAMILIES[kind_of(left)] != FAMILIES[kind_of(right)]:
        return operator == "!="
    if operator in COMPARES:
        return bool(COMPARES[operator](np.asarray(comparable(left)), np.asarray(comparable(right))))
    return bool(TEXT_TESTS[operator].holds(str(left), str(right)))


def next_key(key: bytes) -> bytes:
    """The first bytes behind all that begin with a key; nothing if there are none."""
    stripped = key.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else b""


def arrow_texts(strings: Strings) -> pyarrow.Array:
    import pyarrow as pa

    blob, offsets = np.ascontiguousarray(strings.blob), np.ascontiguousarray(strings.offsets)
    return pa.LargeStringArray.from_buffers(len(strings), pa.py_buffer(offsets), pa.py_buffer(blob))
