"""Compiled parts of the exact search: its programs and state, rows, memo, heap, messages, factors of one value.

All state lives in arrays owned by the caller, so a search can stop after any step and go on later. An aborted step (its
budget of visits is spent, or an array is full) leaves the state as it was before the step, except that finished
messages stay in the memo: doing the step again makes progress.

An *entry* is one factor of one variable's value y, a row of `entries`:
    kind (below), source (a variable, or -1 for a constant), a, b, permanent
where a row of neighbours is given by (view a of the source's entity) or, for constants, by the span a:b. A SUPPORT
entry bounds an atom whose other end is not fixed yet: view a, number b in the memo, and 1 + the other variable last.
A TEST is a condition: the address a of its test (`condition_tests`), and which of its variables y is the value of (b:
RIGHT, LEFT or BOTH).
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, types

from tuplet.engines.kernels import call_test, conj
from tuplet.graph.kernels import OPTIONS, READ_INTS, compiled, find, find_row, gallop, inlined, probe

# kinds of entries
POSITIVE, NEGATIVE, DIFFERENT, SUPPORT, TEST = 0, 1, 2, 3, 4
RIGHT, LEFT, BOTH = 0, 1, 2
# columns of `edges`: directed edges along which messages flow
# (a LEAF has one atom and nothing behind it: its message is the best of a row, remembered if asked for again and again)
TARGET, SPAN_A, SPAN_B, PARALLEL_A, PARALLEL_B, NEXT_A, NEXT_B, LEAF, SPAN_ROW = range(9)
EDGE_COLUMNS = 9
ONE_LEAF, REPEATED_LEAF = 1, 2
# columns of `frame`: messages being computed
F_EDGE, F_ORIGIN, F_GENERATOR, F_START, F_STOP, F_POSITION, F_TARGET, F_NEXT = range(8)
# columns of `unary`: entries of a variable: exact ones, bounds that always hold, bounds used inside messages only
EXACT_A, ALWAYS_A, INSIDE_A, UNARY_END = range(4)
# columns of `steps` (outer search) and `levels` (point evaluation)
VARIABLE, HELD, DEDUPE, CLOSES, CHECK_A, CHECK_B, OPEN_A, OPEN_B = range(8)
SIDE_A, SIDE_B, NEXT_OPEN_A, NEXT_OPEN_B, LIST_A, LIST_B, LIST_ROW = range(8, 15)
STEP_COLUMNS = 15
# columns of `nodes`
PARENT, ENTITY, STEP, STAGE, GENERATOR, START, STOP, POSITION = range(8)
# columns of `worth`: bound on the whole, permanent product, product over held existentials, product for the next step
BOUND, PERMANENT, TRANSIENT, BASE = range(4)
# places of `count`
NODES, HEAP, MEMO, SEEN, VISITS, LIMIT, ABORT, COMMITS, EMITTED, PLATEAU, ABOVE, RESOLVED = range(12)
COUNTS = 12
# why `search` returned
FILLED, EXHAUSTED, SLICE, FULL_NODES, FULL_MEMO, FULL_SEEN, BELOW = range(7)

# An item of the heap, from its lowest bits: the node, its kind, its step + 1, and how early its first name comes.
NODE_BITS, KIND_BITS, STEP_BITS, NAME_BITS = 26, 2, 5, 30
LOWEST_BITS = (1 << NODE_BITS) - 1


class Rows(NamedTuple):
    """The arrays of a truth table: view v has the rows view_ptr[v] : view_ptr[v + 1], ends exclusive everywhere.

    Facts alone have truth 1: then `truth`, `by_truth` and `row_best` are empty.
    """

    view_ptr: Any  # [views + 1]
    row_entity: Any  # [rows] ascending within a view
    row_ptr: Any  # [rows + 1] row i has the entries row_ptr[i] : row_ptr[i + 1]
    neighbour: Any  # [entries] ascending within a row
    truth: Any  # [entries] beside `neighbour`, float32 or (weighted graphs) float64
    by_truth: Any  # [entries] offsets within the row in order of falling truth
    row_best: Any  # [rows] the largest truth of the row
    rank: Any  # [entities] place of each entity in order of names
    newer: Any  # [layers, views + 1] the pointers `view_ptr` of newer layers, see `Adjacency`
    ordered: Any  # how many of the first entities are numbered in order of names, as their equals in `by_truth` are


class Program(NamedTuple):
    """One connected clause, bound to relations and constants."""

    entries: Any  # [·, 5]
    unary: Any  # [variables, 4]
    edges: Any  # [directed edges, 9]
    nexts: Any  # [·] directed edges that follow a directed edge
    steps: Any  # [·, 15]
    opens: Any  # [·, 2] directed edge, source variable
    levels: Any  # [existentials, 15]
    parts: Any  # [·, 2] ranges of levels that are independent given the free variables
    fixed: Any  # [·] entries among free variables
    fixed_target: Any  # [·] their variables
    lazy: Any  # [2] whether complete tuples still have to be evaluated; whether their prefixes hold all existentials
    # candidates of variables that neither a constant nor another variable gives: rows counted from a first one (…_ROW),
    order: Any  # [·] in order of falling `row_best`, equals in order of names


class State(NamedTuple):
    """Everything a search remembers.

    Bit layouts: an item of the heap is described at NODE_BITS; a key of `seen` is
    (stage << 5 | step) << 31 | entity, plus 1, where a stage is the number of a node; a key of the memo is
    directed edge << 32 | entity, plus 1. So there are at most 2^26 nodes (MOST_NODES), 31 steps (MOST_VARIABLES) and
    2^31 entities. Key 0 marks a free place.
    """

    count: Any  # [COUNTS] places named above
    nodes: Any  # [·, 8] prefixes: node 0 is the empty one, parents come before children
    worth: Any  # [·, 4] beside `nodes`
    heap_bound: Any  # [·] binary heap, largest bound first, among equals the larger item: earlier by name, deeper
    heap_item: Any  # [·] beside `heap_bound`
    memo_key: Any  # [power of two] open addressing, at most half full
    memo_value: Any  # [power of two] beside `memo_key`
    seen: Any  # [power of two] set of keys, at most half full
    assign: Any  # [variables] entities of the node at hand
    witness: Any  # [variables]
    span: Any  # [·, 2] rows of the checks of the node at hand
    frame: Any  # [depth, 8]
    frame_value: Any  # [depth, 2]
    frame_span: Any  # [depth, ·, 2]
    level: Any  # [levels, 4]
    level_value: Any  # [levels, 2]
    level_span: Any  # [levels, ·, 2]
    floor: Any  # [1] nothing below is wanted
    cut: Any  # [1 + free] whether tuples behind a given one in order of names are dropped, and the ranks of that one
    select: Any  # [free] the part's variables in the order asked for
    leading: Any  # [steps] how many of the variables asked for first are known after each step


@inlined
def entry_of(rows, start, position):
    """The entry at a position of a row in order of falling truth."""
    return start + rows.by_truth[position] if len(rows.by_truth) else position


@inlined
def truth_of(rows, entry):
    """The truth of an entry."""
    return np.float64(rows.truth[entry]) if len(rows.truth) else 1.0


@inlined
def best_of(rows, row):
    """The largest truth of a row; one in a newer layer may be empty."""
    if len(rows.row_best):
        return np.float64(rows.row_best[row])
    return 1.0 if rows.row_ptr[row] < rows.row_ptr[row + 1] else 0.0


@inlined
def lookup(rows, start, stop, entity):
    """The truth at an entity within a row of neighbours, 0 if it is not there."""
    at = find(rows.neighbour, start, stop, entity)
    return truth_of(rows, at) if at >= 0 else 0.0


@inlined
def row_span(rows, entity, view):
    """The entries of the row of an entity under a view; an empty span if it has none."""
    row = find_row(rows, entity, view)
    return (rows.row_ptr[row], rows.row_ptr[row + 1]) if row >= 0 else (np.int64(0), np.int64(0))


@inlined
def place_of(rows, program, generator, start, position):
    """Where a candidate stands: the entry of a row or, in a list (no generator), the row of the entity."""
    return entry_of(rows, start, position) if generator >= 0 else start + program.order[position]


@inlined
def entity_at(rows, generator, place):
    """The candidate there."""
    return np.int64(rows.neighbour[place] if generator >= 0 else rows.row_entity[place])


@inlined
def truth_at(rows, generator, place):
    """Its truth, in a list the best truth of its row."""
    return truth_of(rows, place) if generator >= 0 else best_of(rows, place)


@inlined
def recall(keys, values, key):
    """A remembered value, or -1."""
    at = probe(keys, key)
    return values[at] if at >= 0 else -1.0


@inlined
def remember(state, key, value):
    """Keeps a new value; when the memo is too full the step is aborted, so that the caller can enlarge it."""
    keys, count = state.memo_key, state.count
    if 2 * count[MEMO] >= len(keys):
        count[ABORT] = FULL_MEMO
        return
    at = ~probe(keys, key)
    keys[at] = key
    state.memo_value[at] = value
    count[MEMO] += 1


@inlined
def contains(keys, key):
    """Whether a set holds a key."""
    return probe(keys, key) >= 0


@inlined
def insert(keys, key):
    """Adds a new key to a set that has room."""
    keys[~probe(keys, key)] = key


@compiled
def rehash(keys, values, new_keys, new_values):
    """Moves a memo into larger arrays."""
    for i in range(len(keys)):
        if keys[i] != 0:
            at = ~probe(new_keys, keys[i])
            new_keys[at] = keys[i]
            new_values[at] = values[i]


@inlined
def known_message(rows, program, state, edge, x):
    """A message that needs no search or is in the memo, or -1."""
    leaf = program.edges[edge, LEAF]
    key = ((edge << 32) | x) + 1
    if leaf != ONE_LEAF:
        known = recall(state.memo_key, state.memo_value, key)
        if known >= 0.0 or leaf == 0:
            return known
    row = find_row(rows, x, program.entries[program.edges[edge, PARALLEL_A], 2])
    best = best_of(rows, row) if row >= 0 else 0.0
    if leaf != ONE_LEAF and 2 * state.count[MEMO] < len(state.memo_key):
        remember(state, key, best)
    return best


INTS = types.Array(types.int32, 1, "C")


@njit(types.int64(READ_INTS, READ_INTS, INTS), **OPTIONS)
def common_places(short, long, found):
    """Writes where in `short` the values stand that `long` has, too, until `found` is full; returns their number."""
    count, i, j = 0, 0, 0
    while i < len(short) and j < len(long) and count < len(found):
        if short[i] == long[j]:
            found[count] = i
            count += 1
            i += 1
        elif short[i] < long[j]:
            i = gallop(short, i, len(short), long[j])
        else:
            j = gallop(long, j, len(long), short[i])
    return count


# what an item of the heap is, in order of preference among equals of one step
CURSOR, NODE, TUPLE = 0, 1, 2


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
def item_of(step, kind, node, rank):
    """The heap's name of a node: an earlier first name is larger (none is earliest), then deeper steps, then kinds."""
    early = (1 << NAME_BITS) - 2 - rank
    return (((((early << STEP_BITS) | (step + 1)) << KIND_BITS) | kind) << NODE_BITS) | node


@inlined
def first_rank(rows, state, step):
    """The rank of the first variable asked for in the prefix in `assign`; -1 if it is not known after the step."""
    if step < 0 or state.leading[step] == 0:
        return np.int64(-1)
    return np.int64(rows.rank[state.assign[state.select[0]]])


@inlined
def node_item(rows, state, node):
    """The heap's name of a node whose prefix is in `assign`."""
    step = state.nodes[node, STEP]
    return item_of(step, NODE, node, first_rank(rows, state, step))


@inlined
def by_name(rows, generator, stop):
    """Whether equals among candidates come in order of names: in lists they do, in rows if entities are so numbered."""
    return generator < 0 or rows.neighbour[stop - 1] < rows.ordered


@inlined
def cursor_of(rows, program, state, node, step):
    """The heap's name of the rest of a row, from which `step` draws: its next entity may be the first name."""
    rank = first_rank(rows, state, step - 1)
    drawn = program.steps[step, VARIABLE] == state.select[0] and not program.steps[step, HELD]
    generator = state.nodes[node, GENERATOR]
    if rank < 0 and drawn and by_name(rows, generator, state.nodes[node, STOP]):
        place = place_of(rows, program, generator, state.nodes[node, START], state.nodes[node, POSITION])
        rank = np.int64(rows.rank[entity_at(rows, generator, place)])
    return item_of(step - 1, CURSOR, node, rank)


@inlined
def factor(rows, program, entry, kind, x, y, start, stop):
    """Truth of one atom or condition at y; x is the entity at its other end, start:stop the row of that end."""
    if kind == POSITIVE:
        return lookup(rows, start, stop, y)
    if kind == NEGATIVE:
        return 1.0 - lookup(rows, start, stop, y)
    if kind == DIFFERENT:
        return 0.0 if x == y else 1.0
    side = program.entries[entry, 3]
    left, right = y if side else x, x if side == LEFT else y
    return 1.0 if call_test(program.entries[entry, 2], left, right) else 0.0


@inlined
def own(rows, program, entry, y):
    """Truth of a unary entry (constant at the other end, or y itself) at y."""
    kind, source = program.entries[entry, 0], program.entries[entry, 1]
    a, b = program.entries[entry, 2], program.entries[entry, 3]
    if source >= 0:
        start, stop = row_span(rows, y, a)
        return factor(rows, program, entry, kind, y, y, start, stop)
    return factor(rows, program, entry, kind, a, y, a, b)


@inlined
def support(rows, program, state, entry, y):
    """The largest truth among y's neighbours that satisfy the unary atoms of the variable at the other end."""
    view, memo, other = program.entries[entry, 2], program.entries[entry, 3], program.entries[entry, 4] - 1
    row = find_row(rows, y, view)
    if row < 0:
        return 0.0
    first, last = program.unary[other, EXACT_A], program.unary[other, ALWAYS_A]
    if first == last:
        return best_of(rows, row)
    key = ((memo << 32) | y) + 1
    known = recall(state.memo_key, state.memo_value, key)
    if known >= 0:
        return known
    start, stop = rows.row_ptr[row], rows.row_ptr[row + 1]
    # a short row of a constant is the cheaper side to walk
    lead = -1
    for e in range(first, last):
        if program.entries[e, 0] == POSITIVE and program.entries[e, 1] < 0:
            length = program.entries[e, 3] - program.entries[e, 2]
            if 4 * length < stop - start and (lead < 0 or length < program.entries[lead, 3] - program.entries[lead, 2]):
                lead = e
    best = 0.0
    if lead >= 0:
        for i in range(program.entries[lead, 2], program.entries[lead, 3]):
            state.count[VISITS] += 1
            z = rows.neighbour[i]
            value = lookup(rows, start, stop, z)
            if value > best and supported(rows, program, first, last, z):
                best = value
    else:
        for i in range(start, stop):
            state.count[VISITS] += 1
            at = entry_of(rows, start, i)
            if supported(rows, program, first, last, rows.neighbour[at]):
                best = truth_of(rows, at)
                break
    remember(state, key, best)
    return best


@inlined
def supported(rows, program, first, last, z):
    """Whether an entity satisfies some unary atoms at all."""
    for e in range(first, last):  # noqa: SIM110, no generators in kernels
        if own(rows, program, e, z) <= 0.0:
            return False
    return True


@compiled
def message(rows, program, state, edge, origin, logic):
    """The best completion beyond a directed edge from an entity: the max-product message, memoised; -1 if aborted.

    m(x) = max over y of P(x, y) · unary(y) · product of the messages from y onwards. Rows are read in order of
    decreasing truth, so the first y with nothing left to lose ends the row.
    """
    count = state.count
    frame, value = state.frame, state.frame_value
    depth = 0
    begin_message(rows, program, state, 0, edge, origin)
    while True:
        edge, x = frame[depth, F_EDGE], frame[depth, F_ORIGIN]
        best = value[depth, 0]
        y = frame[depth, F_TARGET]
        if y < 0:
            # take the next y of the row
            at = frame[depth, F_POSITION]
            given = 0.0
            if at < frame[depth, F_STOP]:
                count[VISITS] += 1
                if count[VISITS] > count[LIMIT]:
                    count[ABORT] = SLICE
                    return -1.0
                generator = frame[depth, F_GENERATOR]
                place = place_of(rows, program, generator, frame[depth, F_START], at)
                y, given = entity_at(rows, generator, place), truth_at(rows, generator, place)
            if given <= best:
                remember(state, ((edge << 32) | x) + 1, best)
                if count[ABORT]:
                    return -1.0
                if depth == 0:
                    return best
                depth -= 1
                continue
            frame[depth, F_POSITION] = at + 1
            total = arrive(rows, program, state, depth, x, y, given, best, logic)
            if count[ABORT]:
                return -1.0
            if total <= best:
                continue
            value[depth, 1] = total
            frame[depth, F_TARGET] = y
            frame[depth, F_NEXT] = program.edges[edge, NEXT_A]
        # multiply the messages from y onwards
        total = value[depth, 1]
        j = frame[depth, F_NEXT]
        known = 0.0
        while j < program.edges[edge, NEXT_B] and total > best:
            known = known_message(rows, program, state, program.nexts[j], y)
            if known < 0.0:
                break
            total = conj(total, known, logic)
            j += 1
        if known < 0.0:
            frame[depth, F_NEXT] = j
            value[depth, 1] = total
            depth += 1
            begin_message(rows, program, state, depth, program.nexts[j], y)
            continue
        if total > best:
            value[depth, 0] = total
        frame[depth, F_TARGET] = -1


@inlined
def begin_message(rows, program, state, depth, edge, x):
    """Opens a message at the shortest row that holds all its candidates: of x, or of a constant at the other end."""
    frame, span = state.frame, state.frame_span
    frame[depth, F_EDGE], frame[depth, F_ORIGIN], frame[depth, F_TARGET] = edge, x, -1
    state.frame_value[depth, 0] = 0.0
    first, last = program.edges[edge, PARALLEL_A], program.edges[edge, PARALLEL_B]
    chosen, start, stop = -1, program.edges[edge, SPAN_A], program.edges[edge, SPAN_B]
    for e in range(first, last):
        kind = program.entries[e, 0]
        if kind >= DIFFERENT:
            continue
        low, high = row_span(rows, x, program.entries[e, 2])
        span[depth, e - first, 0], span[depth, e - first, 1] = low, high
        if kind == POSITIVE and (chosen < 0 or high - low < stop - start):
            chosen, start, stop = e, low, high
    target = program.edges[edge, TARGET]
    for e in range(program.unary[target, EXACT_A], program.unary[target, ALWAYS_A]):
        if program.entries[e, 0] == POSITIVE and program.entries[e, 1] < 0:
            low, high = program.entries[e, 2], program.entries[e, 3]
            if chosen < 0 or 2 * (high - low) < stop - start:
                chosen, start, stop = e, low, high
    frame[depth, F_GENERATOR], frame[depth, F_POSITION], frame[depth, F_STOP] = chosen, start, stop
    frame[depth, F_START] = start if chosen >= 0 else program.edges[edge, SPAN_ROW]


@inlined
def arrive(rows, program, state, depth, x, y, given, least, logic):
    """The factors of reaching y along an edge from x, or something not above `least`."""
    edge, generator = state.frame[depth, F_EDGE], state.frame[depth, F_GENERATOR]
    total = given if generator >= 0 else 1.0
    first = program.edges[edge, PARALLEL_A]
    for e in range(first, program.edges[edge, PARALLEL_B]):
        if e != generator:
            low, high = state.frame_span[depth, e - first, 0], state.frame_span[depth, e - first, 1]
            total = conj(total, factor(rows, program, e, program.entries[e, 0], x, y, low, high), logic)
            if total <= least:
                return total
    target = program.edges[edge, TARGET]
    for e in range(program.unary[target, EXACT_A], program.unary[target, UNARY_END]):
        if e == generator:
            continue
        if program.entries[e, 0] == SUPPORT:
            total = conj(total, support(rows, program, state, e, y), logic)
            if state.count[ABORT]:
                return 0.0
        else:
            total = conj(total, own(rows, program, e, y), logic)
        if total <= least:
            return total
    return total


@inlined
def opened(rows, program, state, total, first, last, logic):
    """`total` and the messages of a range of open edges from the assigned variables."""
    for i in range(first, last):
        if total <= 0.0:
            return 0.0
        source = program.opens[i, 1]
        x = state.assign[source] if source >= 0 else 0
        value = known_message(rows, program, state, program.opens[i, 0], x)
        if value < 0.0:
            value = message(rows, program, state, program.opens[i, 0], x, logic)
            if state.count[ABORT]:
                return 0.0
        total = conj(total, value, logic)
    return total


@inlined
def reaching(rows, start, stop, least):
    """How many entries of a row have at least a given truth."""
    low, high = start, stop
    while low < high:
        middle = (low + high) >> 1
        if truth_of(rows, entry_of(rows, start, middle)) >= least:
            low = middle + 1
        else:
            high = middle
    return low - start


@inlined
def resolve(rows, program, state, span, first, last, variable, least):
    """Finds the rows of the checks first:last and picks one to draw candidates from; -2 if none can hold.

    It is the row with the fewest entries of at least the truth that matters now, the shorter one among equals.
    """
    chosen, several = -1, False
    for e in range(first, last):
        kind, source = program.entries[e, 0], program.entries[e, 1]
        start, stop = program.entries[e, 2], program.entries[e, 3]
        if kind >= DIFFERENT or source == variable:
            continue
        if source >= 0:
            start, stop = row_span(rows, state.assign[source], program.entries[e, 2])
        span[e - first, 0], span[e - first, 1] = start, stop
        if kind == POSITIVE:
            if start == stop:
                return -2
            several = chosen >= 0
            chosen = e
    if several:
        best, length = 0, 0
        chosen = -1
        for e in range(first, last):
            if program.entries[e, 0] == POSITIVE and program.entries[e, 1] != variable:
                start, stop = span[e - first, 0], span[e - first, 1]
                reach = reaching(rows, start, stop, least)
                if chosen < 0 or reach < best or (reach == best and stop - start < length):
                    best, length, chosen = reach, stop - start, e
    return chosen


@inlined
def drawn(steps, step, span, first, chosen):
    """The row that candidates come from: its first place (or row), the place after its last, where drawing begins."""
    if chosen < 0:
        return steps[step, LIST_ROW], steps[step, LIST_B], steps[step, LIST_A]
    start, stop = span[chosen - first, 0], span[chosen - first, 1]
    return start, stop, start


@inlined
def check(rows, program, state, span, e, first, variable, y):
    """The truth of entry e at y."""
    kind, source = program.entries[e, 0], program.entries[e, 1]
    if kind == SUPPORT:
        return support(rows, program, state, e, y)
    if source == variable:
        return own(rows, program, e, y)
    x = np.int64(0)
    if kind >= DIFFERENT:
        x = state.assign[source] if source >= 0 else program.entries[e, 2]
    return factor(rows, program, e, kind, x, y, span[e - first, 0], span[e - first, 1])
