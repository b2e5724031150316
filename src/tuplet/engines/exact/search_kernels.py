"""Compiled search of the exact engine: the truth of one tuple, best-first search over prefixes, the best in order."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from tuplet.engines.exact.kernels import (
    ABORT,
    ABOVE,
    BASE,
    BELOW,
    BOUND,
    CHECK_A,
    CHECK_B,
    CLOSES,
    COMMITS,
    DEDUPE,
    DIFFERENT,
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
    LOWEST_BITS,
    NEXT_OPEN_A,
    NEXT_OPEN_B,
    NODE,
    NODE_BITS,
    NODES,
    OPEN_A,
    OPEN_B,
    PARENT,
    PERMANENT,
    PLATEAU,
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
    TUPLE,
    VARIABLE,
    VISITS,
    by_name,
    check,
    contains,
    cursor_of,
    drawn,
    entity_at,
    factor,
    first_rank,
    insert,
    item_of,
    node_item,
    opened,
    own,
    place_of,
    pop,
    push,
    resolve,
    row_span,
    truth_at,
)
from tuplet.engines.kernels import conj, residuum
from tuplet.graph.kernels import compiled, inlined

# columns of `level`
L_GENERATOR, L_START, L_STOP, L_POSITION = range(4)


@compiled
def complete(rows, program, state, most, least, logic):
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
        if source < 0 or source == target:
            value = own(rows, program, e, y)
        else:
            start, stop = np.int64(0), np.int64(0)
            if kind < DIFFERENT:
                start, stop = row_span(rows, state.assign[source], program.entries[e, 2])
            value = factor(rows, program, e, kind, state.assign[source], y, start, stop)
        total = conj(total, value, logic)
        if total <= 0.0:
            return 0.0
    for v in range(len(state.assign)):
        state.witness[v] = state.assign[v]
    for p in range(len(program.parts)):
        # with one part left, reaching the bound ends it
        enough = most * (1.0 - 1e-12) if p == len(program.parts) - 1 else 2.0
        # the other parts are at most 1, so this one must make up for the rest
        needed = residuum(total, least, logic) * (1.0 - 1e-9)
        value = best_part(rows, program, state, program.parts[p, 0], program.parts[p, 1], total, enough, needed, logic)
        if count[ABORT]:
            return 0.0
        total = conj(total, value, logic)
        if total <= 0.0:
            return 0.0
    return total


@compiled
def best_part(rows, program, state, first_level, last_level, already, enough, needed, logic):
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
            start, stop, position = drawn(program.levels, depth, span, first, chosen)
            level[depth, L_GENERATOR], level[depth, L_START] = chosen, start
            level[depth, L_STOP], level[depth, L_POSITION] = stop, position
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
            if conj(value[depth, 0], given, logic) <= best:
                break
            y = entity_at(rows, generator, place)
            total = value[depth, 0]
            for e in range(first, end):
                here = given if e == generator else check(rows, program, state, span, e, first, variable, y)
                total = conj(total, here, logic)
                if total <= best:
                    break
            if total <= best:
                continue
            state.assign[variable] = y
            ceiling = opened(
                rows, program, state, total, program.levels[depth, OPEN_A], program.levels[depth, OPEN_B], logic
            )
            if count[ABORT]:
                return 0.0
            if ceiling <= best:
                continue
            if depth == last_level - 1:
                best, found = total, True
                for d in range(first_level, last_level):
                    state.witness[program.levels[d, VARIABLE]] = state.assign[program.levels[d, VARIABLE]]
                if conj(already, best, logic) >= enough:
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
def points(rows, program, state, tuples, most, first, truth, witness, logic):
    """Truth and witness of the tuples from `first` on, none above `most`; returns the first one not done."""
    state.count[ABORT] = 0
    for i in range(first, len(tuples)):
        for j in range(tuples.shape[1]):
            state.assign[j] = tuples[i, j]
        value = complete(rows, program, state, most[i], 0.0, logic)
        if state.count[ABORT]:
            return i
        truth[i] = value
        for v in range(witness.shape[1]):
            witness[i, v] = state.witness[v] if value > 0.0 else -1
        state.count[COMMITS] += 1
    return len(tuples)


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
def search(rows, program, state, wanted, out, out_truth, logic):
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
            emit(rows, program, state, node, bound, -1.0, out, out_truth, logic)
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
                    value = complete(rows, program, state, bound, state.floor[0], logic)
                # rounding apart, a value that reaches its bound can leave at once
                if not count[ABORT] and value >= bound * (1.0 - 1e-12):
                    known = value if program.lazy[0] else -1.0
                    emit(rows, program, state, node, bound, known, out, out_truth, logic)
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
            least = residuum(worth[node, BASE], bound, logic) * (1.0 - 1e-6)
            chosen = resolve(rows, program, state, state.span, first, end, variable, least)
            count[RESOLVED] = node  # `span` holds its rows until another node is resolved
        if kind == NODE:
            count[COMMITS] += 1
            if chosen == -2:
                continue
            start, stop, position = drawn(program.steps, step + 1, state.span, first, chosen)
            nodes[node, GENERATOR], nodes[node, START] = chosen, start
            nodes[node, STOP], nodes[node, POSITION] = stop, position
        status, ready = advance(rows, program, state, node, step + 1, bound, cut, wanted, out, out_truth, logic)
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
def advance(rows, program, state, node, step, bound, cut, wanted, out, out_truth, logic):
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
        least = min(bound, conj(worth[node, BASE], given, logic))
        if least <= 0.0:
            return 0, none  # nor is anything behind it worth more
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
                transient = conj(transient, value, logic)
            else:
                permanent = conj(permanent, value, logic)
        if count[ABORT]:
            return count[ABORT], none
        if permanent > 0.0:
            state.assign[variable] = y
            whole = conj(permanent, transient, logic)
            ceiling = opened(
                rows, program, state, whole, program.steps[step, OPEN_A], program.steps[step, OPEN_B], logic
            )
            if count[ABORT]:
                return count[ABORT], none
            ceiling = min(bound, ceiling)
            child = count[NODES]
            if ceiling > 0.0:
                if held:
                    transient = opened(
                        rows, program, state, transient, program.steps[step, SIDE_A], program.steps[step, SIDE_B], logic
                    )
                else:
                    permanent = whole if program.steps[step, CLOSES] else permanent
                    transient = 1.0
                base = opened(
                    rows, program, state, conj(permanent, transient, logic),
                    program.steps[step, NEXT_OPEN_A], program.steps[step, NEXT_OPEN_B], logic,
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
            least = min(bound, conj(worth[node, BASE], given, logic))
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
                emit(rows, program, state, best, worth[best, BOUND], -1.0, out, out_truth, logic)
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
def emit(rows, program, state, node, bound, known, out, out_truth, logic):
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
            known = complete(rows, program, state, bound, 0.0, logic)
            if state.count[ABORT]:
                return
        out_truth[at] = known
        for v in range(out.shape[1]):
            out[at, v] = state.witness[v]
    state.count[EMITTED] = at + 1


# Truths this near to each other, relatively, are equal: products differ in the order of their factors.
EQUAL = 1e-12


@compiled
def best(rows, program, state, wanted, out, truth, order, spare, logic):
    """Finds the `wanted` best tuples; among equals of the least truth those that come first by name.

    `out` and `truth` hold more than `wanted` tuples, `spare` is working space of that size, `order` of twice. FILLED
    means that the first EMITTED rows are the list, in order; more is there unless EXHAUSTED is returned. After any
    other status the state has to be given room or time, and the search goes on where it was. With no working space the
    next tuples are written as they come, until `out` is full.
    """
    count = state.count
    while True:
        room = wanted + 1 if len(order) and not count[PLATEAU] else len(out)
        status = search(rows, program, state, room, out, truth, logic)  # one call: it is inlined, and it is large
        if not len(order) or status not in (FILLED, BELOW, EXHAUSTED):
            return status
        if not count[PLATEAU]:
            if status == EXHAUSTED:
                break
            if wanted == 0 or truth[wanted] < truth[wanted - 1] * (1.0 - EQUAL):
                count[EMITTED] = wanted
                break
            above = 0
            while truth[above] > truth[wanted - 1] * (1.0 + EQUAL):
                above += 1
            state.floor[0] = truth[wanted - 1] * (1.0 - EQUAL)
            count[ABOVE], count[PLATEAU] = above, 1
        keep_first(rows, state, wanted, out, truth, order, spare)
        if status != FILLED:
            status = FILLED
            break
    arrange(rows, state, out, truth, 0, count[EMITTED], order, spare)
    return status


@inlined
def keep_first(rows, state, wanted, out, truth, order, spare):
    """Keeps the first tuples by name of the plateau, as many as are wanted, and cuts the search behind the last."""
    count = state.count
    arrange(rows, state, out, truth, count[ABOVE], count[EMITTED], order, spare)
    count[EMITTED] = min(count[EMITTED], wanted)
    state.cut[0] = 1
    for i in range(len(state.select)):
        state.cut[1 + i] = rows.rank[out[count[EMITTED] - 1, state.select[i]]]


@inlined
def before(rows, state, out, a, b):
    """Whether tuple a comes before tuple b by name."""
    for i in range(len(state.select)):
        left, right = rows.rank[out[a, state.select[i]]], rows.rank[out[b, state.select[i]]]
        if left != right:
            return left < right
    return False


@compiled
def arrange(rows, state, out, truth, first, end, order, spare):
    """Orders rows first:end, whose truths fall up to rounding, by truth, then name; near truths are made equal."""
    low = first
    while low < end:
        high = low + 1
        highest = truth[low]
        while high < end and truth[high] >= highest * (1.0 - EQUAL):
            highest = max(highest, truth[high])
            high += 1
        if high - low > 1:
            sort(rows, state, out, low, high, order)
            for i in range(low, high):
                for j in range(out.shape[1]):
                    spare[i, j] = out[order[i], j]
            for i in range(low, high):
                truth[i] = highest
                for j in range(out.shape[1]):
                    out[i, j] = spare[i, j]
        low = high


@inlined
def sort(rows, state, out, low, high, order):
    """Writes the places low:high in order of names to `order`: merges of runs, which are long as a rule."""
    half = len(order) // 2
    for i in range(low, high):
        order[i] = i
    while True:
        at = low
        while at < high:
            middle = run_end(rows, state, out, order, at, high)
            if at == low and middle == high:
                return
            end = run_end(rows, state, out, order, middle, high)
            left, right = at, middle
            for to in range(at, end):
                if right == end or (left < middle and not before(rows, state, out, order[right], order[left])):
                    order[half + to] = order[left]
                    left += 1
                else:
                    order[half + to] = order[right]
                    right += 1
            at = end
        for i in range(low, high):
            order[i] = order[half + i]


@inlined
def run_end(rows, state, out, order, start, high):
    """The end of the ascending run from `start` on."""
    end = start + 1
    while end < high and not before(rows, state, out, order[end], order[end - 1]):
        end += 1
    return min(end, high)
