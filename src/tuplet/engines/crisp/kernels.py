"""The crisp join: one resumable depth-first search that interprets an integer program (see `engine.crisp`).

At each depth one variable is bound. Its candidates are the intersection of sorted *lists*: the row of a constant, the
row of a variable bound before, or the entities that have a row in a view (for an atom to a later variable). The
shortest list leads, the others follow by galloping, and whoever is ahead pulls the leader along, so a step costs no
more than its shortest list. A list of row entities ends up pointing at the candidate's row: the later step opens it
without searching.

Backtracking goes straight to the last variable that matters. Let needs(d) be the depths before d that share an atom
with a variable at or after d. A subtree that failed fails for the same values of needs(d); one that succeeded can give
new answers only if a free variable or one of needs(d) changes. The two jumps are columns of the program.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import njit, types

# Columns of `steps` [depths + 1, 11]; the last row stands for "all variables bound".
VARIABLE, LISTS, NEGATED, LISTS_END, CHECKS, CHECKS_END, FAILED, SUCCEEDED, MEMO, MEMO_END, EARLY = range(11)
STEP_COLUMNS = 11
# Columns of `lists` [lists, 4].
SOURCE, ARRAY, FIRST, SECOND = range(4)
# Sources of a list: a fixed span [FIRST, SECOND); the row that list FIRST points at; the row of variable FIRST under
# view SECOND, possibly empty; the value given for tuple position FIRST.
SPAN, POINTED, LOOKED_UP, GIVEN = range(4)
# Arrays a list lies in.
ROW_ENTITY, NEIGHBOUR, TUPLE = range(3)
# Kinds of `checks` [checks, 2]: r(x, x) through the list that points at the row; not r(x, x) under a view; x differs
# from a variable; x differs from an entity.
LOOP, NO_LOOP, DIFFERENT, DIFFERENT_ENTITY = range(4)
# `registers`: where the search stands.
DEPTH, OPENING, REACHED, WRITTEN, SEEN, REMEMBERED, TUPLE_AT = range(7)
REGISTERS = 7
# What `search` returns.
DONE, OUTPUT_FULL, SEEN_FULL, MEMO_FULL, PAUSED = range(5)

_ints = types.Array(types.int32, 1, "C", readonly=True)
_longs = types.Array(types.int64, 1, "C", readonly=True)
_table = types.Array(types.int32, 2, "C")
_program = types.Array(types.int64, 2, "C", readonly=True)
_state = types.Array(types.int64, 1, "C")
_flags = types.Array(types.boolean, 1, "C")


@njit(types.int64(_ints, types.int64, types.int64, types.int64), cache=True, nogil=True)
def seek(array, low, high, target):
    """The first place in `array[low:high]` (ascending) whose value is at least `target`, found by galloping."""
    if low >= high or array[low] >= target:
        return low
    step = 1
    while low + step < high and array[low + step] < target:
        low += step
        step *= 2
    high = min(high, low + step)
    # array[low] < target, and array[high] >= target or high is the end
    while high - low > 1:
        middle = (low + high) >> 1
        if array[middle] < target:
            low = middle
        else:
            high = middle
    return high


@njit(types.boolean(_longs, _ints, _longs, _ints, types.int64, types.int64, types.int64), cache=True, nogil=True)
def has_edge(view_ptr, row_entity, row_ptr, neighbour, view, entity, other):
    """Whether `other` is a neighbour of `entity` under `view`."""
    stop = view_ptr[view + 1]
    row = seek(row_entity, view_ptr[view], stop, entity)
    if row == stop or row_entity[row] != entity:
        return False
    at = seek(neighbour, row_ptr[row], row_ptr[row + 1], other)
    return at < row_ptr[row + 1] and neighbour[at] == other


@njit(types.int64(_table, _state, types.int64), cache=True, nogil=True)
def place(table, key, width):
    """Where `key[:width]` is in the open-addressing table, or `~slot` of the free slot where it belongs.

    A table has a power of two rows and is never full; -1 in the first column marks a free row.
    """
    mixed = np.uint64(0x9E3779B97F4A7C15)
    for i in range(width):
        mixed = (mixed ^ np.uint64(key[i])) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    mask = len(table) - 1
    slot = np.int64(mixed >> np.uint64(3)) & mask
    while table[slot, 0] >= 0:
        same = True
        for i in range(width):
            if table[slot, i] != key[i]:
                same = False
                break
        if same:
            return slot
        slot = (slot + 1) & mask
    return ~slot


@njit(types.boolean(_table, _state, types.int64), cache=True, nogil=True)
def insert(table, key, width):
    """Puts `key[:width]` into the table; false if it was there."""
    slot = place(table, key, width)
    if slot >= 0:
        return False
    for i in range(width):
        table[~slot, i] = key[i]
    return True


@njit(types.void(_table, _table), cache=True, nogil=True)
def rehash(old, new):
    """Copies all rows of a table into a larger one."""
    width = old.shape[1]
    key = np.empty(width, np.int64)
    for i in range(len(old)):
        if old[i, 0] >= 0:
            for j in range(width):
                key[j] = old[i, j]
            slot = ~place(new, key, width)
            for j in range(width):
                new[slot, j] = key[j]


@njit(types.int64(_table, _table, _flags), cache=True, nogil=True)
def admit(table, tuples, fresh):
    """Inserts the tuples [n, k] into a table with room for them; marks the new ones and counts them."""
    key = np.empty(table.shape[1], np.int64)
    count = 0
    for i in range(len(tuples)):
        for j in range(tuples.shape[1]):
            key[j] = tuples[i, j]
        fresh[i] = insert(table, key, tuples.shape[1])
        count += fresh[i]
    return count


@njit(
    types.int64(
        *(_longs, _ints, _longs, _ints),
        *(_ints, _program, _program, _program, _longs, _longs),
        *(_state, _state, _state, _state, _state, _state, _state),
        *(_table, _table, _table, types.int64),
    ),
    cache=True,
    nogil=True,
)
def search(
    view_ptr, row_entity, row_ptr, neighbour,  # the adjacency
    given, steps, lists, checks, memo, free,  # the program
    value, cursor, end, leader, mark, key, registers,  # where the search stands
    seen, remembered, out, budget,
):  # fmt: skip
    """Continues the search until it is done, a table or the output is full, or `budget` candidates were tried.

    `seen` [power of two, k] holds the answers so far, and `remembered` the parts of the search that need no second
    visit; a table of one row means that none is needed. `out` [n, variables] receives the assignments.
    """
    depths = len(steps) - 1
    variables = out.shape[1]
    width = len(free)
    distinct = len(seen) > 1
    depth = registers[DEPTH]
    opening = registers[OPENING] == 1
    reached = registers[REACHED]
    status = DONE
    while depth >= 0:
        if budget <= 0:
            status = PAUSED
            break
        if depth == depths:
            if registers[WRITTEN] == len(out):
                status = OUTPUT_FULL
                break
            if distinct:
                if 2 * registers[SEEN] >= len(seen):
                    status = SEEN_FULL
                    break
                for i in range(width):
                    key[i] = value[free[i]]
                if insert(seen, key, width):
                    registers[SEEN] += 1
                    for i in range(variables):
                        out[registers[WRITTEN], i] = value[i]
                    registers[WRITTEN] += 1
            else:
                for i in range(variables):
                    out[registers[WRITTEN], i] = value[i]
                registers[WRITTEN] += 1
            reached += 1
            depth = steps[depths, SUCCEEDED]
            opening = False
            continue

        low, negated, high = steps[depth, LISTS], steps[depth, NEGATED], steps[depth, LISTS_END]
        if opening:
            memo_low, memo_high = steps[depth, MEMO], steps[depth, MEMO_END]
            if memo_high > memo_low:
                if 2 * registers[REMEMBERED] >= len(remembered):
                    status = MEMO_FULL
                    break
                key[0] = depth
                for i in range(memo_low, memo_high):
                    key[1 + i - memo_low] = value[memo[i]]
                for i in range(1 + memo_high - memo_low, remembered.shape[1]):
                    key[i] = 0
                if not insert(remembered, key, remembered.shape[1]):
                    # Nothing new below; it may have succeeded then, and that jump is the careful one.
                    reached += 1
                    depth = steps[depth, SUCCEEDED]
                    opening = False
                    continue
                registers[REMEMBERED] += 1
            opening = False
            mark[depth] = reached
            shortest = np.int64(0x7FFFFFFFFFFFFFFF)
            for j in range(low, high):
                source = lists[j, SOURCE]
                if source == SPAN:
                    cursor[j] = lists[j, FIRST]
                    end[j] = lists[j, SECOND]
                elif source == POINTED:
                    row = cursor[lists[j, FIRST]]
                    cursor[j] = row_ptr[row]
                    end[j] = row_ptr[row + 1]
                elif source == GIVEN:
                    cursor[j] = registers[TUPLE_AT] + lists[j, FIRST]
                    end[j] = cursor[j] + 1
                else:
                    entity = value[lists[j, FIRST]]
                    stop = view_ptr[lists[j, SECOND] + 1]
                    row = seek(row_entity, view_ptr[lists[j, SECOND]], stop, entity)
                    if row < stop and row_entity[row] == entity:
                        cursor[j] = row_ptr[row]
                        end[j] = row_ptr[row + 1]
                    else:
                        cursor[j] = 0
                        end[j] = 0
                if j < negated and end[j] - cursor[j] < shortest:
                    shortest = end[j] - cursor[j]
                    leader[depth] = j
        else:
            cursor[leader[depth]] += 1

        # The next candidate on which all lists agree.
        lead = leader[depth]
        lead_array = lists[lead, ARRAY]
        found = False
        while cursor[lead] < end[lead]:
            budget -= 1
            at = cursor[lead]
            if lead_array == NEIGHBOUR:
                candidate = np.int64(neighbour[at])
            elif lead_array == ROW_ENTITY:
                candidate = np.int64(row_entity[at])
            else:
                candidate = np.int64(given[at])
            ahead = candidate
            for j in range(low, negated):
                if j == lead:
                    continue
                if lists[j, ARRAY] == NEIGHBOUR:
                    at = seek(neighbour, cursor[j], end[j], candidate)
                    cursor[j] = at
                    if at < end[j]:
                        ahead = np.int64(neighbour[at])
                elif lists[j, ARRAY] == ROW_ENTITY:
                    at = seek(row_entity, cursor[j], end[j], candidate)
                    cursor[j] = at
                    if at < end[j]:
                        ahead = np.int64(row_entity[at])
                else:
                    at = seek(given, cursor[j], end[j], candidate)
                    cursor[j] = at
                    if at < end[j]:
                        ahead = np.int64(given[at])
                if at >= end[j]:
                    cursor[lead] = end[lead]
                    ahead = candidate + 1
                    break
                if ahead != candidate:
                    if lead_array == NEIGHBOUR:
                        cursor[lead] = seek(neighbour, cursor[lead] + 1, end[lead], ahead)
                    elif lead_array == ROW_ENTITY:
                        cursor[lead] = seek(row_entity, cursor[lead] + 1, end[lead], ahead)
                    else:
                        cursor[lead] += 1
                    break
            if ahead != candidate:
                continue
            passed = True
            for j in range(negated, high):
                at = seek(neighbour, cursor[j], end[j], candidate)
                cursor[j] = at
                if at < end[j] and neighbour[at] == candidate:
                    passed = False
                    break
            if passed:
                for j in range(steps[depth, CHECKS], steps[depth, CHECKS_END]):
                    kind, operand = checks[j, 0], checks[j, 1]
                    if kind == DIFFERENT:
                        passed = value[operand] != candidate
                    elif kind == DIFFERENT_ENTITY:
                        passed = operand != candidate
                    elif kind == LOOP:
                        row = cursor[operand]
                        at = seek(neighbour, row_ptr[row], row_ptr[row + 1], candidate)
                        passed = at < row_ptr[row + 1] and neighbour[at] == candidate
                    else:
                        passed = not has_edge(view_ptr, row_entity, row_ptr, neighbour, operand, candidate, candidate)
                    if not passed:
                        break
            if passed:
                value[steps[depth, VARIABLE]] = candidate
                found = True
                if distinct and steps[depth, EARLY] == 1:
                    # The last free variable is bound: a tuple that is known needs no further witness.
                    for i in range(width):
                        key[i] = value[free[i]]
                    if place(seen, key, width) >= 0:
                        reached += 1
                        found = False
                if found:
                    break
            cursor[lead] += 1
        if found:
            depth += 1
            opening = True
        else:
            depth = steps[depth, SUCCEEDED] if reached > mark[depth] else steps[depth, FAILED]
    registers[DEPTH] = depth
    registers[OPENING] = 1 if opening else 0
    registers[REACHED] = reached
    return status


@njit(
    types.int64(
        *(_longs, _ints, _longs, _ints),
        *(_ints, _program, _program, _program, _longs, _longs),
        *(_state, _state, _state, _state, _state, _state, _state),
        *(_table, _table, _flags, types.int64),
    ),
    cache=True,
    nogil=True,
)
def witness(
    view_ptr, row_entity, row_ptr, neighbour,
    given, steps, lists, checks, memo, free,
    value, cursor, end, leader, mark, key, registers,
    none, out, found, budget,
):  # fmt: skip
    """For each tuple of `given` [n·k] if it is an answer (`found` [n]), and its assignment (`out` [n, variables]).

    Returns for how many tuples `budget` candidates were not enough.
    """
    width = len(free)
    unknown = 0
    for i in range(len(found)):
        registers[:] = 0
        registers[OPENING] = 1
        registers[TUPLE_AT] = i * width
        status = search(
            view_ptr, row_entity, row_ptr, neighbour,
            given, steps, lists, checks, memo, free,
            value, cursor, end, leader, mark, key, registers,
            none, none, out[i : i + 1], budget,
        )  # fmt: skip
        found[i] = registers[WRITTEN] == 1
        unknown += status == PAUSED
    return unknown
