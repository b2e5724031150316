"""Compiled search of the exact engine: best-first over prefixes of tuples."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from tuplet.engines.exact.kernels.heap import (
    NODE,
    TUPLE,
    by_name,
    cursor_of,
    first_rank,
    item_of,
    node_item,
    pop,
    push,
)
from tuplet.engines.exact.kernels.messages import (
    check,
    opened,
    resolve,
)
from tuplet.engines.exact.kernels.point import (
    complete,
)
from tuplet.engines.exact.kernels.rows import (
    ABORT,
    BASE,
    BELOW,
    BOUND,
    CHECK_A,
    CHECK_B,
    CLOSES,
    COMMITS,
    DEDUPE,
    EMITTED,
    ENTITY,
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
    LIST_ROW,
    LOWEST_BITS,
    NEXT_OPEN_A,
    NEXT_OPEN_B,
    NODE_BITS,
    NODES,
    OPEN_A,
    OPEN_B,
    PARENT,
    PERMANENT,
    POSITION,
    RESOLVED,
    SEEN,
    SIDE_A,
    SIDE_B,
    SLICE,
    STAGE,
    START,
    STEP,
    STOP,
    TRANSIENT,
    VARIABLE,
    VISITS,
    conj,
    contains,
    entity_at,
    insert,
    place_of,
    truth_at,
)
from tuplet.graph.kernels import compiled, inlined


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


@inlined
def behind(rows, state, step):
    """The variable by which the prefix in `assign`, complete up to a step, comes behind the cut; -1 if it does not."""
    for i in range(state.leading[step]):
        mine, last = rows.rank[state.assign[state.select[i]]], state.cut[1 + i]
        if mine != last:
            return state.select[i] if mine > last else -1
    return -1


@compiled
def search(rows, program, state, wanted, out, out_truth, godel):
    """Emits tuples in order of decreasing truth into `out` until `wanted` are there; says why it returned.

    With a cut, tuples that come behind it in order of names are dropped; that is for the last plateau of equal truths.
    """
    count, nodes, worth = state.count, state.nodes, state.worth
    cut = state.cut[0] != 0
    last = len(program.steps) - 1
    count[ABORT] = 0
    if count[NODES] == 0:
        count[NODES], count[RESOLVED] = 1, -1
        nodes[0, STEP], nodes[0, STAGE], nodes[0, PARENT], nodes[0, GENERATOR] = -1, 0, -1, -3
        worth[0, PERMANENT], worth[0, TRANSIENT], worth[0, BASE], worth[0, BOUND] = 1.0, 1.0, 1.0, 1.0
        push(state, 1.0, item_of(-1, NODE, 0, -1))
    ready = np.int64(-1)  # a node that may be opened without a turn through the heap
    while count[EMITTED] < wanted:
        if count[HEAP] == 0 and ready < 0:
            return EXHAUSTED
        if ready < 0 and state.heap_bound[0] < state.floor[0]:
            return BELOW
        if ready >= 0:
            # a node that is at least as good as the heap's first needs no turn through it, unless room runs out
            push_ready = (
                count[VISITS] > count[LIMIT]
                or count[NODES] + 2 > len(nodes)
                or count[HEAP] + 3 > len(state.heap_item)
                or 2 * count[SEEN] + 2 > len(state.seen)
                or worth[ready, BOUND] < state.floor[0]
            )
            if push_ready:
                push(state, worth[ready, BOUND], node_item(rows, state, ready))
                ready = np.int64(-1)
                if state.heap_bound[0] < state.floor[0]:
                    return BELOW
        if count[VISITS] > count[LIMIT]:
            return SLICE
        if count[NODES] + 2 > len(nodes) or count[HEAP] + 3 > len(state.heap_item):
            return FULL_NODES
        if 2 * count[SEEN] + 2 > len(state.seen):
            return FULL_SEEN
        count[VISITS] += 1
        if ready >= 0:
            bound, item = worth[ready, BOUND], node_item(rows, state, ready)
            ready = np.int64(-1)
        else:
            bound, item = state.heap_bound[0], state.heap_item[0]
            pop(state)
        node, kind = item & LOWEST_BITS, (item >> NODE_BITS) & 3
        step = nodes[node, STEP]
        restore(program, state, node)
        if cut and step >= 0 and behind(rows, state, step) >= 0:
            continue
        if kind == TUPLE:
            emit(rows, program, state, node, bound, -1.0, out, out_truth, godel)
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
                    value = complete(rows, program, state, bound, state.floor[0], godel)
                # rounding apart, a value that reaches its bound can leave at once
                if not count[ABORT] and value >= bound * (1.0 - 1e-12):
                    known = value if program.lazy[0] else -1.0
                    emit(rows, program, state, node, bound, known, out, out_truth, godel)
                    value = 0.0
                if count[ABORT]:
                    push(state, bound, item)
                    return count[ABORT]
                if key:
                    insert(state.seen, key)
                    count[SEEN] += 1
                count[COMMITS] += 1
                if value > 0.0:
                    push(state, value, item_of(step, TUPLE, node, first_rank(rows, state, step)))
                continue
            if key:
                insert(state.seen, key)
                count[SEEN] += 1
        first, end = program.steps[step + 1, CHECK_A], program.steps[step + 1, CHECK_B]
        variable = program.steps[step + 1, VARIABLE]
        chosen = np.int64(0)
        if kind == NODE or count[RESOLVED] != node:
            least = bound if godel or worth[node, BASE] <= 0.0 else bound / worth[node, BASE]
            chosen = resolve(rows, program, state, state.span, first, end, variable, least * (1.0 - 1e-6))
            count[RESOLVED] = node  # `span` holds its rows until another node is resolved
        if kind == NODE:
            count[COMMITS] += 1
            if chosen == -2:
                continue
            nodes[node, GENERATOR] = chosen
            if chosen < 0:
                nodes[node, START], nodes[node, STOP] = (
                    program.steps[step + 1, LIST_ROW],
                    program.steps[step + 1, LIST_B],
                )
                nodes[node, POSITION] = program.steps[step + 1, LIST_A]
            else:
                nodes[node, START], nodes[node, STOP] = state.span[chosen - first, 0], state.span[chosen - first, 1]
                nodes[node, POSITION] = nodes[node, START]
        status, ready = advance(rows, program, state, node, step + 1, bound, cut, wanted, out, out_truth, godel)
        if status < 0:
            return -status  # its cursor waits already
        if status:
            push(state, bound, cursor_of(rows, program, state, node, step + 1))
            return status
    if ready >= 0:
        push(state, worth[ready, BOUND], node_item(rows, state, ready))
    return FILLED


@inlined
def key_of(stage, step, entity):
    """The key under which the value of a variable within a stage is seen once."""
    return ((((stage << 5) | step) << 31) | entity) + 1


@inlined
def advance(rows, program, state, node, step, bound, cut, wanted, out, out_truth, godel):
    """Draws children of a node from its row while they may be the best of all.

    Returns 0 or why it stopped short (negated if the cursor of the row waits already), and a child that is at least as
    good as all in the heap, or -1. Complete tuples that are as good as all others leave at once.
    """
    count, nodes, worth = state.count, state.nodes, state.worth
    variable = program.steps[step, VARIABLE]
    first, end = program.steps[step, CHECK_A], program.steps[step, CHECK_B]
    generator, start, stop = nodes[node, GENERATOR], nodes[node, START], nodes[node, STOP]
    held, dedupe = program.steps[step, HELD], program.steps[step, DEDUPE]
    leaves = step == len(program.steps) - 1 and not program.lazy[0]
    position = nodes[node, POSITION]
    none = np.int64(-1)
    while position < stop:
        place = place_of(rows, program, generator, start, position)
        given = truth_at(rows, generator, place)
        least = min(bound, conj(worth[node, BASE], given, godel))
        if least < state.floor[0] or (count[HEAP] and least < state.heap_bound[0]):
            push(state, least, cursor_of(rows, program, state, node, step))
            return 0, none
        if count[NODES] + 2 > len(nodes) or count[HEAP] + 3 > len(state.heap_item):
            return FULL_NODES, none
        count[VISITS] += 1
        if count[VISITS] > count[LIMIT]:
            return SLICE, none
        best = none
        y = entity_at(rows, generator, place)
        if cut:
            state.assign[variable] = y
            last = behind(rows, state, step)
            if last >= 0:
                position += 1
                if last == variable and by_name(rows, generator, stop):
                    # the others of this truth come behind as well
                    position = plateau_end(rows, program, generator, start, position, stop, given)
                nodes[node, POSITION] = position
                count[COMMITS] += 1
                continue
        permanent, transient = worth[node, PERMANENT], worth[node, TRANSIENT]
        if dedupe and contains(state.seen, key_of(nodes[node, STAGE], step, y)):
            permanent = 0.0
        for e in range(first, end if permanent > 0.0 else first):
            value = given if e == generator else check(rows, program, state, state.span, e, first, variable, y)
            if value <= 0.0:
                permanent = 0.0
                break
            if program.entries[e, 4] == 0 or held:
                transient = conj(transient, value, godel)
            else:
                permanent = conj(permanent, value, godel)
        if count[ABORT]:
            return count[ABORT], none
        if permanent > 0.0:
            state.assign[variable] = y
            whole = conj(permanent, transient, godel)
            ceiling = opened(
                rows, program, state, whole, program.steps[step, OPEN_A], program.steps[step, OPEN_B], godel
            )
            if count[ABORT]:
                return count[ABORT], none
            ceiling = min(bound, ceiling)
            child = count[NODES]
            if ceiling > 0.0:
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
                    return count[ABORT], none
                nodes[child, PARENT], nodes[child, ENTITY], nodes[child, STEP] = node, y, step
                nodes[child, STAGE] = nodes[node, STAGE] if held else child
                worth[child, BOUND], worth[child, PERMANENT] = ceiling, permanent
                worth[child, TRANSIENT], worth[child, BASE] = transient, base
                count[NODES] = child + 1
                best = child
        position += 1
        nodes[node, POSITION] = position
        count[COMMITS] += 1
        least = 0.0
        if position < stop:
            given = truth_at(rows, generator, place_of(rows, program, generator, start, position))
            least = min(bound, conj(worth[node, BASE], given, godel))
        top = state.heap_bound[0] if count[HEAP] else 0.0
        if best >= 0:
            item = node_item(rows, state, best)
            first_of_all = worth[best, BOUND] >= max(least, top)
            if first_of_all and worth[best, BOUND] == top and count[HEAP]:
                first_of_all = item > state.heap_item[0]  # among equals who comes first by name goes first
            if leaves and first_of_all and worth[best, BOUND] >= state.floor[0] and count[EMITTED] < wanted:
                if 2 * count[SEEN] + 2 > len(state.seen):
                    push(state, worth[best, BOUND], item)
                    return leave(rows, program, state, node, step, least, -FULL_SEEN), none
                emit(rows, program, state, best, worth[best, BOUND], -1.0, out, out_truth, godel)
                if count[ABORT]:
                    push(state, worth[best, BOUND], item)
                    return leave(rows, program, state, node, step, least, -count[ABORT]), none
                if dedupe:
                    insert(state.seen, key_of(nodes[node, STAGE], step, y))
                    count[SEEN] += 1
                count[NODES] = best  # nothing refers to it
                if not program.lazy[1]:
                    restore(program, state, node)  # the evaluation has tried other existentials
                if least > 0.0 and count[EMITTED] < wanted:
                    continue
                return leave(rows, program, state, node, step, least, 0), none
            if first_of_all:
                # the child goes before the rest of its row: plateaus are walked in depth
                if least > 0.0:
                    push(state, least, cursor_of(rows, program, state, node, step))
                return 0, best
            push(state, worth[best, BOUND], item)
            top = max(top, worth[best, BOUND])
        if least <= 0.0:
            return 0, none
        if least < top:
            push(state, least, cursor_of(rows, program, state, node, step))
            return 0, none
        if least == top and count[HEAP]:
            # of a plateau only what comes first by name is drawn: the rest of the row waits for its turn
            item = cursor_of(rows, program, state, node, step)
            if item < state.heap_item[0]:
                push(state, least, item)
                return 0, none
    return 0, none


@inlined
def plateau_end(rows, program, generator, start, position, stop, given):
    """The first candidate from `position` on whose truth is below the given one."""
    while position < stop:
        middle = (position + stop) >> 1
        if truth_at(rows, generator, place_of(rows, program, generator, start, middle)) >= given:
            position = middle + 1
        else:
            stop = middle
    return position


@inlined
def leave(rows, program, state, node, step, least, status):
    """Leaves a row for now, its cursor waiting for its turn; passes on why."""
    if least > 0.0:
        push(state, least, cursor_of(rows, program, state, node, step))
    return status


@compiled
def emit(rows, program, state, node, bound, known, out, out_truth, godel):
    """Writes the tuple in `assign` with its best existentials and its truth, the product over its atoms.

    If its truth is known (not negative), `complete` was just called and its witness stands.
    """
    at = state.count[EMITTED]
    if program.lazy[1]:
        # nothing is left to find, and the product of the steps is that of the atoms
        out_truth[at] = state.worth[node, PERMANENT]
        for v in range(out.shape[1]):
            out[at, v] = state.assign[v]
    else:
        if known < 0.0:
            known = complete(rows, program, state, bound, 0.0, godel)
            if state.count[ABORT]:
                return
        out_truth[at] = known
        for v in range(out.shape[1]):
            out[at, v] = state.witness[v]
    state.count[EMITTED] = at + 1
