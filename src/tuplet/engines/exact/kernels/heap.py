"""The heap of the compiled search: what waits, the best first, and the names of what waits."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np

from tuplet.engines.exact.kernels.rows import (
    GENERATOR,
    HEAP,
    HELD,
    KIND_BITS,
    NAME_BITS,
    NODE_BITS,
    POSITION,
    START,
    STEP,
    STEP_BITS,
    STOP,
    VARIABLE,
    entity_at,
    place_of,
)
from tuplet.graph.kernels import inlined

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
