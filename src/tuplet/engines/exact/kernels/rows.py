"""Layout of the exact engine's programs and states, and the smallest kernels: rows, look-ups, memo.

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

from tuplet.graph.kernels import compiled, find, find_row, inlined, probe

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
(
    VARIABLE,
    HELD,
    DEDUPE,
    CLOSES,
    CHECK_A,
    CHECK_B,
    OPEN_A,
    OPEN_B,
    SIDE_A,
    SIDE_B,
    NEXT_OPEN_A,
    NEXT_OPEN_B,
    LIST_A,
    LIST_B,
    LIST_ROW,
) = range(15)
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
def conj(a, b, godel):
    """Conjunction."""
    return min(a, b) if godel else a * b


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
