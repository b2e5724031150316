"""The program of a crisp join and the state of a search, as arrays: what planning writes and the kernels read.

One variable is bound at each depth. Its candidates are the intersection of sorted *lists*; *checks* look at a candidate
that is in all lists. This file needs no compiler, so that a plan can be made and printed without one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

# Columns of `steps` [depths + 1, 11]; the last row stands for "all variables bound" and has only SUCCEEDED.
#   VARIABLE             the variable bound at this depth
#   LISTS … LISTS_END    its lists: LISTS:NEGATED must hold the candidate, NEGATED:LISTS_END must not
#   CHECKS … CHECKS_END  its checks
#   FAILED, SUCCEEDED    the depth to go back to if nothing was found below, and if something was; -1 ends the search
#   MEMO … MEMO_END      variables in `memo` that decide what lies at and below this depth; an empty span: no memo here
#   EARLY                1 at the last free variable if existential ones follow: a known tuple needs no further witness
VARIABLE, LISTS, NEGATED, LISTS_END, CHECKS, CHECKS_END, FAILED, SUCCEEDED, MEMO, MEMO_END, EARLY = range(11)

# Columns of `lists` [lists, 4], and the sources of a list:
#   SPAN       the places FIRST:SECOND of the array, known beforehand: the row of a constant, or the rows of a view
#   POINTED    the neighbours in the row at which the cursor of list FIRST stands; that list is one of row entities
#   LOOKED_UP  the neighbours of variable FIRST under view SECOND, none if it has no row there: in negated lists, and
#              where a newer layer has changed the view, so that no list of row entities points at the row
SOURCE, ARRAY, FIRST, SECOND = range(4)
SPAN, POINTED, LOOKED_UP = range(3)
# The arrays a list lies in; LISTED are `entities` of the program. Values ascend within each list.
ROW_ENTITY, NEIGHBOUR, LISTED = range(3)

# Columns of `checks` [checks, 2], and the kinds of a check with their operand:
#   LOOP              r(x, x): x is a neighbour in the row at which the list OPERAND points
#   NO_LOOP           not r(x, x) under view OPERAND
#   LOOKED_UP_LOOP    r(x, x) under view OPERAND
#   HAS_ROW           x has a neighbour under view OPERAND
#   DIFFERENT         x differs from variable OPERAND
#   DIFFERENT_ENTITY  x differs from entity OPERAND
#   TEST              the test at address OPERAND (see `condition_tests`) lets x through
KIND, OPERAND = range(2)
LOOP, NO_LOOP, DIFFERENT, DIFFERENT_ENTITY, LOOKED_UP_LOOP, HAS_ROW, TEST = range(7)

# Places of `registers`: where a search stands between two slices.
#   DEPTH, OPENING    the depth at hand, and 1 if its lists must be opened first
#   REACHED           how often a tuple was reached, known or new; see `mark`
#   WRITTEN           rows of the output that are filled
#   SEEN, REMEMBERED  entries of the two sets
DEPTH, OPENING, REACHED, WRITTEN, SEEN, REMEMBERED = range(6)

# Why a search returned.
DONE, OUTPUT_FULL, SEEN_FULL, MEMO_FULL, PAUSED = range(5)


class JoinProgram(NamedTuple):
    """The join of one independent part of a clause; variables keep their numbers in the clause."""

    steps: Longs  # [depths + 1, 11]
    lists: Longs  # [lists, 4], those of a depth side by side, depths in order
    checks: Longs  # [checks, 2], likewise
    memo: Longs  # [·] variables, in the order they are bound
    free: Longs  # [k] the free variables of the part, in the order asked
    entities: Ints  # [·] those with a row under views that newer layers have changed, and those that conditions allow


class JoinState(NamedTuple):
    """Where a search stands. Entries of a depth mean something from its opening until the search goes back past it."""

    value: Longs  # [variables] the entity of each variable that is bound
    cursor: Longs  # [lists] the place in the list's array; never beyond `end`
    end: Longs  # [lists] the place after the last
    leader: Longs  # [depths] the shortest list: its cursor stands at the candidate
    mark: Longs  # [depths] REACHED when the depth was opened: if it is larger now, something was found below
    key: Longs  # [·] room for a row of one of the sets
    registers: Longs  # [6]


def first_state(program: JoinProgram, variables: int, memo_width: int) -> JoinState:
    """The state before the first step, for a clause of so many variables."""
    depths, lists = len(program.steps), len(program.lists)
    key = max(len(program.free), memo_width, 1)
    state = JoinState._make(np.zeros(n, dtype=np.int64) for n in (variables, lists, lists, depths, depths, key, 6))
    state.value[:] = -1
    state.registers[OPENING] = 1
    return state
