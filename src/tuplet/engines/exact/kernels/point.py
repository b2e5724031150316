"""Compiled point evaluation of the exact engine: the truth of one tuple, by branch and bound over its existentials."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from tuplet.engines.exact.kernels.messages import (
    check,
    factor,
    opened,
    own,
    resolve,
)
from tuplet.engines.exact.kernels.rows import (
    ABORT,
    CHECK_A,
    CHECK_B,
    COMMITS,
    LIMIT,
    LIST_A,
    LIST_B,
    LIST_ROW,
    OPEN_A,
    OPEN_B,
    SLICE,
    SUPPORT,
    VARIABLE,
    VISITS,
    conj,
    entity_at,
    place_of,
    truth_at,
)
from tuplet.graph.kernels import compiled, find_row

# columns of `level`
L_GENERATOR, L_START, L_STOP, L_POSITION = range(4)


@compiled
def complete(rows, program, state, most, least, godel):
    """The truth of the tuple in `assign`: all atoms among its values, times the best values of the existentials.

    Their values go to `witness`. The search for them ends when the whole reaches `most`, rounding apart; 0 is returned
    for a truth below `least`, which need not be found.
    """
    count = state.count
    total = 1.0
    for i in range(len(program.fixed)):
        e, target = program.fixed[i], program.fixed_target[i]
        y = state.assign[target]
        kind, source = program.entries[e, 0], program.entries[e, 1]
        if kind == SUPPORT:
            continue
        if source < 0 or source == target:
            value = own(rows, program, e, y)
        else:
            start, stop = np.int64(0), np.int64(0)
            if kind < 2:
                row = find_row(rows, state.assign[source], program.entries[e, 2])
                if row >= 0:
                    start, stop = rows.row_ptr[row], rows.row_ptr[row + 1]
            value = factor(rows, program, e, kind, state.assign[source], y, start, stop)
        total = conj(total, value, godel)
        if total <= 0.0:
            return 0.0
    for v in range(len(state.assign)):
        state.witness[v] = state.assign[v]
    for p in range(len(program.parts)):
        # with one part left, reaching the bound ends it
        enough = most * (1.0 - 1e-12) if p == len(program.parts) - 1 else 2.0
        # the other parts are at most 1, so this one must make up for the rest
        needed = (least if godel else least / total) * (1.0 - 1e-9)
        value = best_part(rows, program, state, program.parts[p, 0], program.parts[p, 1], total, enough, needed, godel)
        if count[ABORT]:
            return 0.0
        total = conj(total, value, godel)
        if total <= 0.0:
            return 0.0
    return total


@compiled
def best_part(rows, program, state, first_level, last_level, already, enough, needed, godel):
    """The best values of existentials that hang together, given the free variables: depth-first, with bounds.

    0 if none reach more than what is needed.
    """
    count, level, value = state.count, state.level, state.level_value
    best, found = needed, False
    depth = first_level
    value[depth, 0] = 1.0
    entering = True
    while depth >= first_level:
        variable = program.levels[depth, VARIABLE]
        first, end = program.levels[depth, CHECK_A], program.levels[depth, CHECK_B]
        span = state.level_span[depth]
        if entering:
            entering = False
            chosen = resolve(rows, program, state, span, first, end, variable, 0.0)
            if chosen == -2:
                depth -= 1
                continue
            level[depth, L_GENERATOR] = chosen
            if chosen < 0:
                level[depth, L_START], level[depth, L_STOP] = (
                    program.levels[depth, LIST_ROW],
                    program.levels[depth, LIST_B],
                )
                level[depth, L_POSITION] = program.levels[depth, LIST_A]
            else:
                level[depth, L_START], level[depth, L_STOP] = span[chosen - first, 0], span[chosen - first, 1]
                level[depth, L_POSITION] = level[depth, L_START]
        generator, start, stop = level[depth, L_GENERATOR], level[depth, L_START], level[depth, L_STOP]
        descended = False
        while level[depth, L_POSITION] < stop:
            position = level[depth, L_POSITION]
            level[depth, L_POSITION] = position + 1
            count[VISITS] += 1
            if count[VISITS] > count[LIMIT]:
                count[ABORT] = SLICE
                return 0.0
            place = place_of(rows, program, generator, start, position)
            given = truth_at(rows, generator, place)
            if conj(value[depth, 0], given, godel) <= best:
                break
            y = entity_at(rows, generator, place)
            total = value[depth, 0]
            for e in range(first, end):
                if program.entries[e, 0] == SUPPORT:
                    continue
                here = given if e == generator else check(rows, program, state, span, e, first, variable, y)
                total = conj(total, here, godel)
                if total <= best:
                    break
            if total <= best:
                continue
            state.assign[variable] = y
            ceiling = opened(
                rows, program, state, total, program.levels[depth, OPEN_A], program.levels[depth, OPEN_B], godel
            )
            if count[ABORT]:
                return 0.0
            if ceiling <= best:
                continue
            if depth == last_level - 1:
                best, found = total, True
                for d in range(first_level, last_level):
                    state.witness[program.levels[d, VARIABLE]] = state.assign[program.levels[d, VARIABLE]]
                if conj(already, best, godel) >= enough:
                    return best
                continue
            descended = True
            depth += 1
            value[depth, 0] = total
            entering = True
            break
        if not descended:
            depth -= 1
    return best if found else 0.0


@compiled
def points(rows, program, state, tuples, most, first, truth, witness, godel):
    """Truth and witness of the tuples from `first` on, none above `most`; returns the first one not done."""
    state.count[ABORT] = 0
    for i in range(first, len(tuples)):
        for j in range(tuples.shape[1]):
            state.assign[j] = tuples[i, j]
        value = complete(rows, program, state, most[i], 0.0, godel)
        if state.count[ABORT]:
            return i
        truth[i] = value
        for v in range(witness.shape[1]):
            witness[i, v] = state.witness[v] if value > 0.0 else -1
        state.count[COMMITS] += 1
    return len(tuples)
