"""The first tuples by name among equals: a depth-first search over the variables in the order asked for.

When more tuples share a truth than can be listed, the first ones by name are found without listing the others: the
variables are fixed in the order asked for, each over its candidates in order of names, and a prefix is followed only
if its best completion (a point evaluation with the remaining variables existential) still reaches the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tuplet.engines.condition_tests import list_allowed
from tuplet.engines.effort import Effort
from tuplet.engines.exact.part import bind_clause
from tuplet.engines.exact.rows import SearchRows
from tuplet.engines.exact.stream import ClauseStream, Ids, Values
from tuplet.graph.adjacency import consecutive
from tuplet.query.limits import OutOfTime
from tuplet.query.logic import Logic
from tuplet.query.ranking import QueryGraph, unify

_FIRST_BLOCK = 32  # candidates evaluated at once; more when many fail
_LARGEST_BLOCK = 4096


def first_by_name(
    alternatives: list[list[ClauseStream]],
    logic: Logic,
    effort: Effort,
    least: float,
    wanted: int,
    admit: Callable[[Ids], NDArray[np.bool_]],
) -> tuple[Ids, bool]:
    """Up to `wanted` tuples of at least a truth that pass a test, first by name, and whether these are proven first.

    A tuple has the disjunction over `alternatives` of the maximum within each.
    """
    search = _Descent(alternatives, logic, effort, least)
    found: list[Ids] = [np.zeros((0, search.width), dtype=np.int32)]
    left = wanted
    try:
        for block in search.descend(np.zeros(0, dtype=np.int32)):
            passed = block[admit(block)][:left]
            found.append(passed)
            left -= len(passed)
            if not left:
                break
    except OutOfTime:
        return np.concatenate(found), False
    return np.concatenate(found), True


class _Descent:
    """The clauses with 1, 2, … variables asked for, ready to be evaluated at prefixes."""

    def __init__(self, alternatives: list[list[ClauseStream]], logic: Logic, effort: Effort, least: float) -> None:
        self.logic, self.effort, self.least = logic, effort, least
        self.given = [[(s.clause.clause, s.clause.rows) for s in own] for own in alternatives]
        self.rank = self.given[0][0][1].rows.rank
        self.width = len(self.given[0][0][0].free)
        self.levels: list[list[list[ClauseStream]]] = [
            [[self._stream(graph.marginal(graph.free[: j + 1]), rows) for graph, rows in own] for own in self.given]
            for j in range(self.width)
        ]

    def _stream(self, graph: QueryGraph, rows: SearchRows) -> ClauseStream:
        return ClauseStream(bind_clause(graph, rows), self.logic, self.effort)

    def descend(self, prefix: NDArray[np.int32]) -> Iterator[Ids]:
        """Complete tuples that begin with a prefix, in order of names, in blocks."""
        depth = len(prefix)
        candidates = self._candidates(prefix)
        at, size = 0, _FIRST_BLOCK
        while at < len(candidates):
            block = candidates[at : at + size]
            at, size = at + size, min(2 * size, _LARGEST_BLOCK)
            tuples = np.empty((len(block), depth + 1), dtype=np.int32)
            tuples[:, :depth], tuples[:, depth] = prefix, block
            reached = tuples[self._values(tuples) >= self.least]
            if depth + 1 == self.width:
                yield reached
            else:
                for longer in reached:
                    yield from self.descend(longer)

    def _values(self, tuples: Ids) -> Values:
        """An upper bound on the truth of what begins with each prefix; complete tuples have it."""
        total = np.zeros(len(tuples))
        for own in self.levels[tuples.shape[1] - 1]:
            best = np.zeros(len(tuples))
            for stream in own:
                if self.effort.exceeded() is not None:
                    raise OutOfTime  # or memory, or work: the effort knows
                value, _, done = stream.points(tuples, self.effort.search)
                if done < len(tuples):
                    raise OutOfTime
                np.maximum(best, value, out=best)
            total = self.logic.disjunction(total, best)
        return total

    def _candidates(self, prefix: NDArray[np.int32]) -> NDArray[np.int32]:
        """Entities that the next variable may take, in order of names."""
        single = len(self.given) == 1
        found = [
            # of a disjunction one clause alone need not reach the truth
            _find_reachable(graph, rows, prefix, self.least if single else 0.0)
            for own in self.given
            for graph, rows in own
        ]
        ids = np.unique(np.concatenate(found)) if len(found) > 1 else found[0]
        return ids[np.argsort(self.rank[ids], kind="stable")]


def _find_reachable(graph: QueryGraph, rows: SearchRows, prefix: NDArray[np.int32], least: float) -> NDArray[np.int32]:
    """Entities of the variable after the prefix that its positive atoms allow, each once.

    They come along the shortest path of atoms from something known, or from the rows of its rarest relation.
    """
    graph, stands = unify(graph)
    target = graph.free[len(prefix)]
    known = {stands[v]: int(e) for v, e in zip(graph.free, prefix.tolist(), strict=False)}
    if stands[target] in known:
        return np.array([known[stands[target]]], dtype=np.int32)
    # positive atoms seen from each end: node → (view, other node)
    near: dict[int, list[tuple[int, int]]] = {}
    for head, relation, tail, negated in graph.edges:
        if not negated and head != tail:
            near.setdefault(head, []).append((2 * relation, tail))
            near.setdefault(tail, []).append((2 * relation + 1, head))
    views = [view ^ 1 for other in near for view, node in near[other] if node == target]
    views += [2 * e.relation for e in graph.edges if e.head == e.tail == target and not e.negated]
    view = rows.smallest(views)
    found, way = None, _find_way(near, target, known)
    if way is not None:
        found = np.array([known.get(way[0], ~way[0])], dtype=np.int32)
        for step in way[1]:
            found = None if found is None else _neighbours(rows, found, step, least, rows.adjacency.row_counts[view])
    if found is None:
        own = rows.adjacency.view(view)
        found = _keep_true(own.entities, rows.rows.row_best, own.rows, least)
    few = list_allowed(graph.conditions, target, len(found))
    return found if few is None else np.intersect1d(found, few[1]).astype(np.int32)


def _find_way(
    near: dict[int, list[tuple[int, int]]], target: int, known: dict[int, int]
) -> tuple[int, list[int]] | None:
    """The shortest way to the target from a constant or a known variable: the start and the views in turn."""
    ways: list[tuple[int, list[int], int]] = [(node, [], node) for node in near if node < 0 or node in known]
    seen: set[int] = set()
    for start, views, node in ways:
        if node == target:
            return start, views
        if node not in seen:
            seen.add(node)
            ways += [(start, [*views, view], other) for view, other in near[node] if other >= 0 and other not in known]
    return None


def _neighbours(
    source: SearchRows, entities: NDArray[np.int32], view: int, least: float, most: int
) -> NDArray[np.int32] | None:
    """All neighbours of some entities under a view with at least a truth; None if more than `most` entries are read."""
    rows = source.rows
    if len(entities) == 1:
        start, stop = source.adjacency.touched_span(int(entities[0]), view)
        span = slice(start, stop)
        return _keep_true(rows.neighbour[span], rows.truth, span, least)
    at = source.adjacency.places(entities, view)
    at = at[at >= 0]
    lengths = rows.row_ptr[at + 1] - rows.row_ptr[at]
    if lengths.sum() > max(most, 1024):
        return None
    entry = consecutive(rows.row_ptr[at], lengths)
    return np.unique(_keep_true(rows.neighbour[entry], rows.truth, entry, least))


def _keep_true(
    ids: NDArray[np.int32], truth: NDArray[np.floating], places: slice | NDArray[np.int64], least: float
) -> NDArray[np.int32]:
    """Those that have at least a truth at their places; facts have no truth beside them: it is 1."""
    return np.asarray(ids[truth[places] >= least] if len(truth) else ids)
