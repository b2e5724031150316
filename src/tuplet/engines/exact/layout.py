"""The program of a shape, with slots for relations and constants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.exact.kernels import rows as kernel

Longs: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """A connected part: variables 0 … n−1 (the free ones first), atoms by position; constants are negative slots."""

    variables: int
    free: int
    edges: tuple[tuple[int, int, bool], ...]  # head, tail, negated
    different: tuple[tuple[int, int], ...]
    anchors: tuple[int, ...]  # positive atoms with a constant, the one with the shortest row first
    root: int = 0  # the variable to begin with where no constant leads to one
    tests: tuple[tuple[int, int], ...] = ()  # conditions by position: left and right variable, perhaps the same


@dataclass(frozen=True)
class Entry:
    """A factor of a variable as in the kernels; `edge` is the position of the atom, inequality or condition."""

    kind: int
    source: int
    edge: int
    inverse: int  # 1 if the atom is walked from its tail; of a condition the side of the variable
    extra: int


@dataclass
class SearchStep:
    """One variable of the search; `previous` is what it is reached from: a variable, or -1 at a root."""

    variable: int
    previous: int
    held: bool
    dedupe: bool = False
    closes: bool = False
    fixed: frozenset[int] = frozenset()  # free variables fixed before
    entered: frozenset[int] = frozenset()  # existentials of the groups entered so far, whose worth is counted
    following: int = -1  # the next variable of the same stage


@dataclass
class Layout:
    """The program of a shape with slots for relations and constants."""

    shape: Shape
    steps: list[SearchStep]
    lazy: bool
    lists: list[int] = field(default_factory=list)  # variables whose candidates no constant or variable gives
    entries: list[Entry] = field(default_factory=list)
    arrays: dict[str, Longs] = field(default_factory=dict)
    template: Longs = field(default_factory=lambda: np.zeros((0, 5), dtype=np.int64))
    # entries whose row belongs to a variable, with their atoms; the same for rows of constants, and inequalities
    views: list[tuple[int, int]] = field(default_factory=list)
    constants: list[tuple[int, int]] = field(default_factory=list)
    unequals: list[tuple[int, int]] = field(default_factory=list)
    tests: list[tuple[int, int]] = field(default_factory=list)  # entries that are conditions, with these
    fixed_arrays: tuple[Longs, ...] = ()  # `arrays` in the order of the program
    list_rows: list[tuple[str, int, int]] = field(default_factory=list)  # table, row, variable: where lists go

    def leading(self, select: Longs) -> Longs:
        """How many of the variables that are asked for first are known after each step. [steps]"""
        found = []
        for step in self.steps:
            known = step.fixed if step.held else step.fixed | {step.variable}
            found.append(next((i for i, v in enumerate(select.tolist()) if v not in known), len(select)))
        return np.array(found, dtype=np.int64)

    def finish(self) -> None:
        """Writes the entries as an array; the slots are filled when relations and constants are known."""
        edges = len(self.arrays["edges"])
        tests = [i for i, e in enumerate(self.entries) if e.kind == kernel.TEST]
        self.tests = [(i, self.entries[i].edge) for i in tests]
        self.template = int_table(
            [
                [e.kind, e.source, *((0, e.inverse) if e.kind == kernel.TEST else (e.inverse, edges + i)), e.extra]
                for i, e in enumerate(self.entries)
            ],
            5,
        )
        unequal = [i for i, e in enumerate(self.entries) if e.kind == kernel.DIFFERENT]
        constant = [i for i, e in enumerate(self.entries) if e.kind < kernel.DIFFERENT and e.source < 0]
        views = sorted(set(range(len(self.entries))) - set(unequal) - set(constant) - set(tests))
        self.views = [(i, self.entries[i].edge) for i in views]
        self.constants = [(i, self.entries[i].edge) for i in constant]
        self.unequals = [(i, self.entries[i].edge) for i in unequal if self.entries[i].source < 0]
        self.fixed_arrays = tuple(self.arrays.values())


def int_table(rows: list[list[int]] | list[tuple[int, int]], columns: int) -> Longs:
    """Rows of numbers as an array, also when there are none."""
    return np.array(rows, dtype=np.int64).reshape(-1, columns)
