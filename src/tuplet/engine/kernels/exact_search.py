"""Compiled search of the exact engine: best-first over prefixes, and the truth of one tuple by branch and bound."""

from __future__ import annotations

import numpy as np
from numba import njit

from tuplet.engine.kernels.exact import (
    ABORT,
    ALWAYS_A,
    BASE,
    BOUND,
    CHECK_A,
    CHECK_B,
    CLOSES,
    COMMITS,
    DEDUPE,
    EMITTED,
    ENTITY,
    EXACT_A,
    EXHAUSTED,
    FILLED,
    FULL_NODES,
    FULL_SEEN,
    GENERATOR,
    HEAP,
    HELD,
    LIMIT,
    LIST_A,
    LIST_B,
    LOWEST_BITS,
    NEXT_OPEN_A,
    NEXT_OPEN_B,
    NODES,
    OPEN_A,
    OPEN_B,
    PARENT,
    PERMANENT,
    POSITION,
    SEEN,
    SIDE_A,
    SIDE_B,
    SLICE,
    STAGE,
    START,
    STEP,
    STOP,
    SUPPORT,
    TRANSIENT,
    VARIABLE,
    VISITS,
    check,
    conj,
    contains,
    factor,
    find_row,
    inlined,
    insert,
    opened,
    own,
    resolve,
)

# what an item of the heap is, in order of preference among equals of one step
CURSOR, NODE, TUPLE = 0, 1, 2
# columns of `level`
L_GENERATOR, L_START, L_STOP, L_POSITION = range(4)


@inlined
def push(state, bound, item):
    """Adds an item to the heap: larger bound first, then larger item (deeper, newer)."""
    bounds, items, count = state.heap_bound, state.heap_item, state.count
    at = count[HEAP]
    count[HEAP] = at + 1
    while at > 0:
        up = (at - 1) >> 1
        if bounds[up] > bound or (bounds[up] == bound and items[up] >= item):
            break
        bounds[at], items[at] = bounds[up], items[up]
        at = up
    bounds[at], items[at] = bound, item


@inlined
def pop(state):
    """Removes the first item of the heap."""
    bounds, items, count = state.heap_bound, state.heap_item, state.count
    size = count[HEAP] - 1
    count[HEAP] = size
    bound, item = bounds[size], items[size]
    at = 0
    while True:
        down = 2 * at + 1
        if down >= size:
            break
        if down + 1 < size and (
            bounds[down + 1] > bounds[down] or (bounds[down + 1] == bounds[down] and items[down + 1] > items[down])
        ):
            down += 1
        if bounds[down] < bound or (bounds[down] == bound and items[down] <= item):
            break
        bounds[at], items[at] = bounds[down], items[down]
        at = down
    bounds[at], items[at] = bound, item


@inlined
def item_of(step, kind, node):
    """The heap's name of a node: deeper steps are larger, then kinds, then newer nodes."""
    return (((step + 1) * 4 + kind) << 40) | node


@inlined
def restore(program, state, node):
    """Puts the entities of a prefix into `assign`; of an existential that was held twice the later one counts."""
    at = node
    done = 0
    while at > 0:
        variable = program.steps[state.nodes[at, STEP], VARIABLE]
        if not (done >> variable) & 1:
            done |= 1 << variable
            state.assign[variable] = state.nodes[at, ENTITY]
        at = state.nodes[at, PARENT]


@njit(cache=True, nogil=True, _nrt=False)
def search(rows, program, state, wanted, out, out_truth, godel):
    """Emits tuples in order of decreasing truth into `out` until `wanted` are there; says why it returned."""
    count, nodes, worth = state.count, state.nodes, state.worth
    last = len(program.steps) - 1
    count[ABORT] = 0
    if count[NODES] == 0:
        count[NODES] = 1
        nodes[0, STEP], nodes[0, STAGE], nodes[0, PARENT], nodes[0, GENERATOR] = -1, 0, -1, -3
        worth[0, PERMANENT], worth[0, TRANSIENT], worth[0, BASE], worth[0, BOUND] = 1.0, 1.0, 1.0, 1.0
        push(state, 1.0, item_of(-1, NODE, 0))
    while count[EMITTED] < wanted:
        if count[HEAP] == 0:
            return EXHAUSTED
        if count[VISITS] > count[LIMIT]:
            return SLICE
        if count[NODES] + 2 > len(nodes) or count[HEAP] + 3 > len(state.heap_item):
            return FULL_NODES
        if 2 * count[SEEN] + 2 > len(state.seen):
            return FULL_SEEN
        count[VISITS] += 1
        bound, item = state.heap_bound[0], state.heap_item[0]
        node, kind = item & LOWEST_BITS, (item >> 40) & 3
        pop(state)
        step = nodes[node, STEP]
        restore(program, state, node)
        if kind == TUPLE:
            emit(rows, program, state, bound, out, out_truth, godel)
            if count[ABORT]:
                push(state, bound, item)
                return count[ABORT]
            continue
        if kind == NODE:
            key = np.int64(0)
            if step >= 0 and program.steps[step, DEDUPE]:
                key = key_of(nodes[nodes[node, PARENT], STAGE], step, nodes[node, ENTITY])
                if contains(state.seen, key):
                    continue
            if step == last:
                value = bound
                if program.lazy[0]:
                    value = complete(rows, program, state, bound, godel)
                # rounding apart, a value that reaches its bound can leave at once
                if not count[ABORT] and value >= bound * (1.0 - 1e-12):
                    emit(rows, program, state, bound, out, out_truth, godel)
                    value = 0.0
                if count[ABORT]:
                    push(state, bound, item)
                    return count[ABORT]
                if key:
                    insert(state.seen, key)
                    count[SEEN] += 1
                count[COMMITS] += 1
                if value > 0.0:
                    push(state, value, item_of(step, TUPLE, node))
                continue
            if key:
                insert(state.seen, key)
                count[SEEN] += 1
        first, end = program.steps[step + 1, CHECK_A], program.steps[step + 1, CHECK_B]
        variable = program.steps[step + 1, VARIABLE]
        least = bound if godel or worth[node, BASE] <= 0.0 else bound / worth[node, BASE]
        chosen = resolve(rows, program, state, state.span, first, end, variable, least * (1.0 - 1e-6))
        if kind == NODE:
            count[COMMITS] += 1
            if chosen == -2:
                continue
            nodes[node, GENERATOR] = chosen
            if chosen < 0:
                nodes[node, START], nodes[node, STOP] = program.steps[step + 1, LIST_A], program.steps[step + 1, LIST_B]
            else:
                nodes[node, START], nodes[node, STOP] = state.span[chosen - first, 0], state.span[chosen - first, 1]
            nodes[node, POSITION] = nodes[node, START]
        status = advance(rows, program, state, node, step + 1, bound, godel)
        if status:
            push(state, bound, item_of(step, CURSOR, node))
            return status
    return FILLED


@inlined
def key_of(stage, step, entity):
    """The key under which the value of a variable within a stage is seen once."""
    return ((((stage << 5) | step) << 31) | entity) + 1


@inlined
def advance(rows, program, state, node, step, bound, godel):
    """Draws children of a node from its row while they may be the best of all; 0, or why it stopped short."""
    count, nodes, worth = state.count, state.nodes, state.worth
    variable = program.steps[step, VARIABLE]
    first, end = program.steps[step, CHECK_A], program.steps[step, CHECK_B]
    generator, start, stop = nodes[node, GENERATOR], nodes[node, START], nodes[node, STOP]
    held = program.steps[step, HELD]
    position = nodes[node, POSITION]
    while position < stop:
        place = start + rows.by_truth[position] if generator >= 0 else position
        given = np.float64(rows.truth[place]) if generator >= 0 else program.list_best[place]
        least = min(bound, conj(worth[node, BASE], given, godel))
        if count[HEAP] and least < state.heap_bound[0]:
            push(state, least, item_of(step - 1, CURSOR, node))
            return 0
        if count[NODES] + 2 > len(nodes) or count[HEAP] + 3 > len(state.heap_item):
            return FULL_NODES
        count[VISITS] += 1
        if count[VISITS] > count[LIMIT]:
            return SLICE
        y = np.int64(rows.neighbour[place]) if generator >= 0 else np.int64(program.list_ids[place])
        permanent, transient = worth[node, PERMANENT], worth[node, TRANSIENT]
        for e in range(first, end):
            value = given if e == generator else check(rows, program, state, state.span, e, first, variable, y)
            if value <= 0.0:
                permanent = 0.0
                break
            if program.entries[e, 4] == 0 or held:
                transient = conj(transient, value, godel)
            else:
                permanent = conj(permanent, value, godel)
        if count[ABORT]:
            return count[ABORT]
        if permanent > 0.0:
            state.assign[variable] = y
            whole = conj(permanent, transient, godel)
            ceiling = opened(
                rows, program, state, whole, program.steps[step, OPEN_A], program.steps[step, OPEN_B], godel
            )
            if count[ABORT]:
                return count[ABORT]
            ceiling = min(bound, ceiling)
            child = count[NODES]
            again = program.steps[step, DEDUPE] and contains(state.seen, key_of(nodes[node, STAGE], step, y))
            if ceiling > 0.0 and not again:
                if held:
                    transient = opened(
                        rows, program, state, transient, program.steps[step, SIDE_A], program.steps[step, SIDE_B], godel
                    )
                else:
                    permanent = whole if program.steps[step, CLOSES] else permanent
                    transient = 1.0
                base = opened(
                    rows, program, state, conj(permanent, transient, godel),
                    program.steps[step, NEXT_OPEN_A], program.steps[step, NEXT_OPEN_B], godel,
                )  # fmt: skip
                if count[ABORT]:
                    return count[ABORT]
                nodes[child, PARENT], nodes[child, ENTITY], nodes[child, STEP] = node, y, step
                nodes[child, STAGE] = nodes[node, STAGE] if held else child
                worth[child, BOUND], worth[child, PERMANENT] = ceiling, permanent
                worth[child, TRANSIENT], worth[child, BASE] = transient, base
                count[NODES] = child + 1
                push(state, ceiling, item_of(step, NODE, child))
        position += 1
        nodes[node, POSITION] = position
        count[COMMITS] += 1
        if position < stop:
            place = start + rows.by_truth[position] if generator >= 0 else position
            given = np.float64(rows.truth[place]) if generator >= 0 else program.list_best[place]
            least = min(bound, conj(worth[node, BASE], given, godel))
            if least <= 0.0:
                return 0
            # among equals the child goes first: plateaus are walked in depth
            if count[HEAP] and least <= state.heap_bound[0]:
                push(state, least, item_of(step - 1, CURSOR, node))
                return 0
    return 0


@njit(cache=True, nogil=True, _nrt=False)
def emit(rows, program, state, bound, out, out_truth, godel):
    """Writes the tuple in `assign` with its best existentials, and its truth as the product over its atoms."""
    value = complete(rows, program, state, bound, godel)
    if not state.count[ABORT]:
        at = state.count[EMITTED]
        for v in range(out.shape[1]):
            out[at, v] = state.witness[v]
        out_truth[at] = value
        state.count[EMITTED] = at + 1


@njit(cache=True, nogil=True, _nrt=False)
def complete(rows, program, state, most, godel):
    """The truth of the tuple in `assign`: all atoms among its values, times the best values of the existentials.

    Their values go to `witness`. The search for them ends when the whole reaches `most`, rounding apart.
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
            value = factor(rows, kind, state.assign[source], y, start, stop)
        total = conj(total, value, godel)
        if total <= 0.0:
            return 0.0
    for v in range(len(state.assign)):
        state.witness[v] = state.assign[v]
    for p in range(len(program.parts)):
        # with one part left, reaching the bound ends it
        enough = most * (1.0 - 1e-12) if p == len(program.parts) - 1 else 2.0
        value = best_part(rows, program, state, program.parts[p, 0], program.parts[p, 1], total, enough, godel)
        if count[ABORT]:
            return 0.0
        total = conj(total, value, godel)
        if total <= 0.0:
            return 0.0
    return total


@njit(cache=True, nogil=True, _nrt=False)
def best_part(rows, program, state, first_level, last_level, already, enough, godel):
    """The best values of existentials that hang together, given the free variables: depth-first, with bounds."""
    count, level, value = state.count, state.level, state.level_value
    best = 0.0
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
                    program.levels[depth, LIST_A],
                    program.levels[depth, LIST_B],
                )
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
            place = start + rows.by_truth[position] if generator >= 0 else position
            given = np.float64(rows.truth[place]) if generator >= 0 else program.list_best[place]
            if conj(value[depth, 0], given, godel) <= best:
                break
            y = np.int64(rows.neighbour[place]) if generator >= 0 else np.int64(program.list_ids[place])
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
                best = total
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
    return best


@njit(cache=True, nogil=True, _nrt=False)
def points(rows, program, state, tuples, most, first, truth, witness, godel):
    """Truth and witness of the tuples from `first` on, none above `most`; returns the first one not done."""
    state.count[ABORT] = 0
    for i in range(first, len(tuples)):
        for j in range(tuples.shape[1]):
            state.assign[j] = tuples[i, j]
        value = complete(rows, program, state, most[i], godel)
        if state.count[ABORT]:
            return i
        truth[i] = value
        for v in range(witness.shape[1]):
            witness[i, v] = state.witness[v] if value > 0.0 else -1
        state.count[COMMITS] += 1
    return len(tuples)
