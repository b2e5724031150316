"""Conditions of a bound clause: which entities, or which pairs of entities, its variables may be.

They hold or do not, whatever is predicted. `holds` says what a condition means; engines look the keys up themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.attributes import Ids, Marks, Ranked
from tuplet.lang.ast import Formula
from tuplet.lang.printer import formula_to_logic

# How the rank of a value of the left variable compares with the rank of one of the right variable.
COMPARES: dict[str, Callable[[NDArray[np.int32], NDArray[np.int32]], Marks]] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
PAIR = 1 << 32  # the key of a pair is left · PAIR + right


@dataclass(frozen=True, eq=False)
class Within:
    """A variable is an entity with a value in a range of ranks; the members of a plain set have rank 0."""

    variable: int
    values: Ranked
    low: int = 0
    high: int = 1
    said: tuple[Formula, ...] = ()  # as it was written, for plans

    @property
    def variables(self) -> tuple[int]:
        return (self.variable,)

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
class Outside:
    """A variable is none of the listed entities."""

    variable: int
    listed: Ids  # ascending
    said: tuple[Formula, ...] = ()  # as it was written, for plans

    @property
    def variables(self) -> tuple[int]:
        return (self.variable,)

    def holds(self, entities: Ids) -> Marks:
        """For which entities it holds. [n]"""
        return ~np.isin(entities, self.listed)


@dataclass(frozen=True, eq=False)
class Compared:
    """A value of the left variable compares with a value of the right one; their ranks are in one common order."""

    left: int
    right: int
    operator: str  # one of COMPARES
    left_values: Ranked
    right_values: Ranked
    said: tuple[Formula, ...] = ()  # as it was written, for plans

    @property
    def variables(self) -> tuple[int, int]:
        return (self.left, self.right)

    def holds(self, left: Ids, right: Ids) -> Marks:
        """For which pairs of entities it holds. [n]"""
        place, rank = self.left_values.gathered(left)
        again, other = self.right_values.gathered(np.asarray(right)[place])
        found = np.zeros(len(left), dtype=bool)
        found[place[again[COMPARES[self.operator](rank[again], other)]]] = True
        return found


@dataclass(frozen=True, eq=False)
class Paired:
    """Two variables are the ends of a stated fact with a value in a range of ranks; keys are left · PAIR + right."""

    left: int
    right: int
    values: Ranked
    low: int = 0
    high: int = 1
    said: tuple[Formula, ...] = ()  # as it was written, for plans

    @property
    def variables(self) -> tuple[int, int]:
        return (self.left, self.right)

    def holds(self, left: Ids, right: Ids) -> Marks:
        """For which pairs of entities it holds. [n]"""
        return self.values.within(np.asarray(left, np.int64) * PAIR + right, self.low, self.high)


@dataclass(frozen=True, eq=False)
class Equal:
    """Two variables are one entity."""

    left: int
    right: int
    said: tuple[Formula, ...] = ()  # as it was written, for plans

    @property
    def variables(self) -> tuple[int, int]:
        return (self.left, self.right)

    def holds(self, left: Ids, right: Ids) -> Marks:
        """For which pairs of entities it holds. [n]"""
        return np.asarray(left == right)


EntityCondition: TypeAlias = Within | Outside
PairCondition: TypeAlias = Compared | Paired | Equal
BoundCondition: TypeAlias = EntityCondition | PairCondition
ALL_CONDITIONS: tuple[type[BoundCondition], ...] = (Within, Outside, Compared, Paired, Equal)


def described(condition: BoundCondition, node: Callable[[int], str]) -> str:
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
