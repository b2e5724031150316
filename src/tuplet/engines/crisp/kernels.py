"""The crisp join, compiled: one resumable depth-first search that interprets a `JoinProgram`.

At each depth one variable is bound. Its candidates are the intersection of sorted *lists*: the row of a constant, the
row of a variable bound before, or the entities that have a row in a view (for an atom to a later variable). The
shortest list leads, the others follow by galloping, and whoever is ahead pulls the leader along, so a step costs no
more than its shortest list. A list of row entities ends up pointing at the candidate's row: the later step opens it
without searching.

Backtracking goes straight to the last variable that matters. Let needs(d) be the depths before d that share an atom
with a variable at or after d. A subtree that failed fails for the same values of needs(d); one that succeeded can give
new answers only if a free variable or one of needs(d) changes. The two jumps are columns of the program.

How to debug: see `tuplet.graph.kernels`.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from numba import njit, types

from tuplet.engines.condition_tests import LEFT, RIGHT
from tuplet.engines.crisp.planning import (
    ARRAY,
    CHECKS,
    CHECKS_END,
    DEPTH,
    DIFFERENT,
    DIFFERENT_ENTITY,
    DONE,
    EARLY,
    FAILED,
    FIRST,
    HAS_ROW,
    KIND,
    LISTED,
    LISTS,
    LISTS_END,
    LOOKED_UP_LOOP,
    LOOP,
    MEMO,
    MEMO_END,
    MEMO_FULL,
    NEGATED,
    NEIGHBOUR,
    OPENING,
    OPERAND,
    OUTPUT_FULL,
    PAUSED,
    POINTED,
    REACHED,
    REMEMBERED,
    SECOND,
    SEEN,
    SEEN_FULL,
    SOURCE,
    SPAN,
    SUCCEEDED,
    TEST,
    VARIABLE,
    WRITTEN,
    JoinProgram,
    JoinState,
)
from tuplet.engines.kernels import call_test, long_at
from tuplet.graph.kernels import ARRAYS, LONGS, OPTIONS, READ_INTS, find, find_edge, find_row, gallop, inlined

FLAGS = types.Array(types.boolean, 1, "C")
TABLE = types.Array(types.int32, 2, "C")
READ_TABLE = types.Array(types.int32, 2, "C", readonly=True)

# A set of rows [places, width]: a power of two places, never full; -1 in the first column marks a free place.


@inlined
def probe_row(table, key, width):
    """The place of `key[:width]` in a set of rows, or `~place` of the free place where it belongs."""
    mixed = np.uint64(0x9E3779B97F4A7C15)
    for i in range(width):
        mixed = (mixed ^ np.uint64(key[i])) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    mask = len(table) - 1
    at = np.int64(mixed >> np.uint64(3)) & mask
    while table[at, 0] >= 0:
        same = True
        for i in range(width):
            if table[at, i] != key[i]:
                same = False
                break
        if same:
            return at
        at = (at + 1) & mask
    return ~at


@inlined
def insert_row(table, key, width):
    """Puts `key[:width]` into a set of rows that has room; false if it was there."""
    at = probe_row(table, key, width)
    if at >= 0:
        return False
    for i in range(width):
        table[~at, i] = key[i]
    return True


@njit(types.void(TABLE, TABLE, types.int64, types.int64), **OPTIONS)
def rehash_rows(old, new, low, high):
    """Copies the rows at the places `low:high` of a set into a larger one; called for all places piece by piece."""
    width = old.shape[1]
    for i in range(low, high):
        if old[i, 0] >= 0:
            insert_row(new, old[i], width)


@njit(types.int64(TABLE, READ_TABLE, FLAGS), **OPTIONS)
def admit_rows(table, rows, fresh):
    """Inserts the rows [n, width] into a set with room for them; marks the new ones in `fresh` and counts them."""
    count = 0
    for i in range(len(rows)):
        fresh[i] = insert_row(table, rows[i], rows.shape[1])
        count += fresh[i]
    return count


_table = types.Array(types.int64, 2, "C")
_program = types.NamedTuple((_table, _table, _table, LONGS, LONGS, READ_INTS), JoinProgram)
_state = types.NamedUniTuple(LONGS, 7, JoinState)

# What `enter` says of a depth.
NEW, KNOWN, FULL = range(3)
# Larger than every entity: the list is at its end.
BEYOND = np.int64(0x7FFFFFFFFFFFFFFF)


@inlined
def span_of(graph, program, state, j):
    """The first place of list j and the one after its last."""
    source, first, second = program.lists[j, SOURCE], program.lists[j, FIRST], program.lists[j, SECOND]
    if source == SPAN:
        return first, second
    row = state.cursor[first] if source == POINTED else find_row(graph, state.value[first], second)
    return (graph.row_ptr[row], graph.row_ptr[row + 1]) if row >= 0 else (np.int64(0), np.int64(0))


@inlined
def open_lists(graph, program, state, depth):
    """Sets the cursors of a depth to the first places; the shortest list that must hold the candidate leads."""
    negated = program.steps[depth, NEGATED]
    shortest = BEYOND
    for j in range(program.steps[depth, LISTS], program.steps[depth, LISTS_END]):
        start, stop = span_of(graph, program, state, j)
        state.cursor[j], state.end[j] = start, stop
        if j < negated and stop - start < shortest:
            shortest = stop - start
            state.leader[depth] = j


@inlined
def agreement(graph, program, state, depth, candidate):
    """The candidate if all other lists hold it; else the next value that one of them has, which is larger."""
    lead = state.leader[depth]
    for j in range(program.steps[depth, LISTS], program.steps[depth, NEGATED]):
        if j != lead:
            array = program.lists[j, ARRAY]
            values = graph.neighbour if array == NEIGHBOUR else graph.row_entity
            if array == LISTED:
                values = program.entities
            at = gallop(values, state.cursor[j], state.end[j], candidate)
            state.cursor[j] = at
            if at == state.end[j]:
                return BEYOND
            if values[at] != candidate:
                return np.int64(values[at])
    return candidate


@inlined
def passes(graph, program, state, depth, candidate):
    """Whether no negated list holds the candidate and every check lets it through."""
    steps, cursor, neighbour = program.steps, state.cursor, graph.neighbour
    for j in range(steps[depth, NEGATED], steps[depth, LISTS_END]):
        cursor[j] = gallop(neighbour, cursor[j], state.end[j], candidate)
        if cursor[j] < state.end[j] and neighbour[cursor[j]] == candidate:
            return False
    for j in range(steps[depth, CHECKS], steps[depth, CHECKS_END]):
        kind, operand = program.checks[j, KIND], program.checks[j, OPERAND]
        if kind == DIFFERENT:
            passed = state.value[operand] != candidate
        elif kind == DIFFERENT_ENTITY:
            passed = operand != candidate
        elif kind == LOOP:
            row = cursor[operand]
            passed = find(neighbour, graph.row_ptr[row], graph.row_ptr[row + 1], candidate) >= 0
        elif kind == HAS_ROW:
            row = find_row(graph, candidate, operand)
            passed = row >= 0 and graph.row_ptr[row] < graph.row_ptr[row + 1]
        elif kind == TEST:
            left, right = long_at(operand, LEFT), long_at(operand, RIGHT)
            x = candidate if left == steps[depth, VARIABLE] else state.value[left]
            y = candidate if right == steps[depth, VARIABLE] else state.value[right]
            passed = call_test(operand, x, y) != 0
        else:
            passed = (find_edge(graph, candidate, operand, candidate) >= 0) == (kind == LOOKED_UP_LOOP)
        if not passed:
            return False
    return True


@inlined
def next_candidate(graph, program, state, depth, budget):
    """Binds the depth's variable to the next value from the leader's cursor on that is in all lists and passes.

    Returns whether there is one, and what is left of the budget.
    """
    cursor, lead = state.cursor, state.leader[depth]
    array = program.lists[lead, ARRAY]
    values = graph.neighbour if array == NEIGHBOUR else graph.row_entity
    if array == LISTED:
        values = program.entities
    end = state.end[lead]
    while cursor[lead] < end:
        budget -= 1
        candidate = np.int64(values[cursor[lead]])
        ahead = agreement(graph, program, state, depth, candidate)
        if ahead == BEYOND:
            break
        if ahead != candidate:
            cursor[lead] = gallop(values, cursor[lead] + 1, end, ahead)
        elif passes(graph, program, state, depth, candidate):
            state.value[program.steps[depth, VARIABLE]] = candidate
            return True, budget
        else:
            cursor[lead] += 1
    return False, budget


@inlined
def enter(program, state, visited, depth):
    """Whether a depth must be searched: not if all that decides what follows had the same values before.

    `visited` [power of two, width] is the set of what was searched: rows (depth, values of the memo's variables, 0 …).
    """
    low, high = program.steps[depth, MEMO], program.steps[depth, MEMO_END]
    if low == high:
        return NEW
    if 2 * state.registers[REMEMBERED] >= len(visited):
        return FULL
    key, width = state.key, visited.shape[1]
    key[0] = depth
    for i in range(1, width):
        key[i] = state.value[program.memo[low + i - 1]] if i <= high - low else 0
    if not insert_row(visited, key, width):
        return KNOWN
    state.registers[REMEMBERED] += 1
    return NEW


@inlined
def tuple_key(program, state):
    """Puts the values of the free variables into `key`; says how many they are."""
    width = len(program.free)
    for i in range(width):
        state.key[i] = state.value[program.free[i]]
    return width


@inlined
def emit(program, state, seen, out):
    """Writes the assignment at hand unless its tuple was written before; says if the output or the set is full."""
    row = state.registers[WRITTEN]
    if row == len(out):
        return OUTPUT_FULL
    if len(seen) > 1:
        if 2 * state.registers[SEEN] >= len(seen):
            return SEEN_FULL
        width = tuple_key(program, state)
        if not insert_row(seen, state.key, width):
            return DONE
        state.registers[SEEN] += 1
    for i in range(out.shape[1]):
        out[row, i] = state.value[i]
    state.registers[WRITTEN] = row + 1
    return DONE


@inlined
def is_seen(program, state, seen):
    """Whether the tuple at hand was written before."""
    width = tuple_key(program, state)
    return len(seen) > 1 and probe_row(seen, state.key, width) >= 0


@njit(types.int64(ARRAYS, _program, _state, TABLE, TABLE, TABLE, types.int64), **OPTIONS)
def search(graph, program, state, seen, visited, out, budget):
    """Continues the search until it is done, a set or the output is full, or `budget` candidates were tried.

    `seen` [power of two, k] is the set of the tuples so far, `visited` that of `enter`; a set of one place means that
    none is needed. `out` [n, variables] receives the assignments. A search that stopped for a full set does the same
    step again when it goes on with a larger one.
    """
    steps, registers, mark = program.steps, state.registers, state.mark
    last = len(steps) - 1
    depth, opening, reached = registers[DEPTH], registers[OPENING] == 1, registers[REACHED]
    status = DONE
    while depth >= 0:
        if budget <= 0:
            status = PAUSED
            break
        if depth == last:
            status = emit(program, state, seen, out)
            if status != DONE:
                break
            reached += 1
            depth, opening = steps[last, SUCCEEDED], False
            continue
        if opening:
            entry = enter(program, state, visited, depth)
            if entry == FULL:
                status = MEMO_FULL
                break
            opening = False
            if entry == KNOWN:
                # Nothing new below; it may have succeeded then, and that jump is the careful one.
                reached += 1
                depth = steps[depth, SUCCEEDED]
                continue
            mark[depth] = reached
            open_lists(graph, program, state, depth)
        else:
            state.cursor[state.leader[depth]] += 1
        found, budget = next_candidate(graph, program, state, depth, budget)
        if not found:
            depth = steps[depth, SUCCEEDED] if reached > mark[depth] else steps[depth, FAILED]
        elif steps[depth, EARLY] == 1 and is_seen(program, state, seen):
            reached += 1
        else:
            depth += 1
            opening = True
    registers[DEPTH], registers[OPENING], registers[REACHED] = depth, 1 if opening else 0, reached
    return status
