"""Variables that no atom joins to anything: only conditions speak of them, so what they may be is listed.

`SELECT ?x { ?x :age ?a FILTER(?a > 30) }` has no fact to search for. Engines search for facts; here such parts of a
clause are listed, the engine is asked for the rest, and tuples are put together from both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BudgetExceeded
from tuplet.query.conditions import BoundCondition, Compared, Equal, Outside, Paired, Within
from tuplet.query.engine import Engine
from tuplet.query.limits import Deadline, Limits
from tuplet.query.logic import Logic
from tuplet.query.query_graph import QueryGraph
from tuplet.query.ranking import Clauses, Ranking
from tuplet.query.source import Source

MOST = 4_000_000  # tuples that are listed

Assigned = NDArray[np.int32]  # [n, variables of the clause], -1 where a variable is not settled yet


def is_loose(clause: QueryGraph) -> bool:
    """Whether some part of a clause has no atom to search for."""
    return bool(_loose(clause))


def loose_ranking(clauses: Clauses, source: Source, engine: Engine[Any], limits: Limits, deadline: Deadline) -> Ranking:
    """The best tuples of clauses of which some have loose parts."""
    searched = [clause for clause in clauses if not is_loose(clause)]
    everything = replace(limits, k="all") if len(clauses) > 1 else limits
    listed = {
        number: _put_together(clause, source, engine, everything, deadline)
        for number, clause in enumerate(clauses)
        if is_loose(clause)
    }
    free = len(clauses[0].free)
    found = engine.run(engine.planned(searched, source, limits), limits, deadline) if searched else None
    rankings = [*([found] if found is not None else []), *listed.values()]
    tuples = np.unique(np.concatenate([ranking.tuples for ranking in rankings]), axis=0).reshape(-1, free)
    logic = Logic.of(limits.logic)
    truth = np.zeros(len(tuples))
    if searched and len(tuples):
        truth = engine.score(engine.planned(searched, source, limits), tuples, limits, deadline)
    assignments: list[Assigned] = []
    place = {tuple(row): i for i, row in enumerate(tuples.tolist())}
    of_search = iter(found.assignments if found is not None else ())
    for number, clause in enumerate(clauses):
        ranking = listed.get(number)
        at = [place[tuple(row)] for row in (ranking or found).tuples.tolist()]  # type: ignore[union-attr]
        assigned = np.full((len(tuples), len(clause.variables)), -1, np.int32)
        if ranking is not None:
            own = np.zeros(len(tuples))
            own[at] = ranking.truth
            truth = logic.disjunction(truth, own)
            assigned[at] = ranking.assignments[0]
        else:
            assigned[at] = next(of_search)
        assignments.append(assigned)
    rank = source.graph.entities.sort_rank
    order = np.lexsort((*rank[tuples].T[::-1], -truth))
    whole = Ranking(
        tuples,
        truth,
        tuple(assignments),
        all(ranking.exact for ranking in rankings),
        max(ranking.bound for ranking in rankings),
        next((ranking.pruned for ranking in rankings if ranking.pruned), None),
    )
    return _cut(whole.take(order), limits)


def judged(
    clauses: Clauses,
    source: Source,
    tuples: NDArray[np.int32],
    judge: Callable[[Clauses, Source, NDArray[np.int32], Deadline], NDArray[np.int8]],
    deadline: Deadline,
) -> NDArray[np.int8]:
    """Which tuples the facts alone give, as the judge says of what there is to search for: 1, 0, or -1 for unknown."""
    searched = [clause for clause in clauses if not is_loose(clause)]
    if len(searched) == len(clauses):
        return judge(clauses, source, tuples, deadline)
    found = [judge(searched, source, tuples, deadline)] if searched else []
    for clause in clauses:
        loose = {variable for part in _loose(clause) for variable in part}
        others = [variable for variable in range(len(clause.variables)) if variable not in loose]
        if loose and others:  # the loose part holds, or the tuple would not be here
            asked = [place for place, variable in enumerate(clause.free) if variable in others]
            found.append(judge([_restricted(clause, others)], source, tuples[:, asked], deadline))
    if not found:
        return np.zeros(len(tuples), np.int8)
    yes, unknown = np.any([f == 1 for f in found], axis=0), np.any([f < 0 for f in found], axis=0)
    return np.where(yes, 1, np.where(unknown, -1, 0)).astype(np.int8)


def _cut(ranking: Ranking, limits: Limits) -> Ranking:
    """The first tuples of a whole ranking."""
    most = limits.count(1 << 62)
    if limits.k == "all" or len(ranking.tuples) <= most:
        return ranking
    return replace(ranking.take(slice(most)), bound=max(ranking.bound, float(ranking.truth[most])))


def _loose(clause: QueryGraph) -> list[list[int]]:
    """The independent parts of a clause none of whose variables is in a positive atom."""
    bound = {node for edge in clause.edges if not edge.negated for node in (edge.head, edge.tail) if node >= 0}
    if len(bound) == len(clause.variables):  # as a rule
        return []
    return [part for part in clause.parts() if not bound & set(part)]


def _put_together(
    clause: QueryGraph, source: Source, engine: Engine[Any], limits: Limits, deadline: Deadline
) -> Ranking:
    """The tuples of one clause: what its loose parts may be, with what the engine finds for the others."""
    parts = _loose(clause)
    loose = {variable for part in parts for variable in part}
    others = [variable for variable in range(len(clause.variables)) if variable not in loose]
    assigned = np.full((1, len(clause.variables)), -1, np.int32)
    truth, exact, bound, pruned = np.ones(1), True, 0.0, None
    if others or any(not ({e.head, e.tail} & loose) for e in clause.edges):
        rest = _restricted(clause, others)
        found = engine.run(engine.planned([rest], source, limits), limits, deadline)
        truth, exact, bound, pruned = found.truth, found.exact, found.bound, found.pruned
        assigned = np.full((len(truth), len(clause.variables)), -1, np.int32)
        assigned[:, others] = found.assignments[0]
    logic = Logic.of(limits.logic)
    stated = source.truth is None or not engine.needs_truth
    implied = np.ones(len(truth), dtype=bool)
    for part in parts:
        rows, value, observed = _listed(clause, part, source, logic, stated)
        _check_size(len(assigned) * len(rows))
        left, right = np.repeat(np.arange(len(assigned)), len(rows)), np.tile(np.arange(len(rows)), len(assigned))
        assigned = np.where(rows[right] >= 0, rows[right], assigned[left])
        truth = logic.conjunction(truth[left], value[right])
        implied = implied[left] & observed[right]
    if limits.only is not None and not others:
        kept = implied == (limits.only == "observed")
        assigned, truth = assigned[kept], truth[kept]
    holds = truth > 0
    ranking = Ranking(assigned[holds][:, list(clause.free)], truth[holds], (assigned[holds],), exact, bound, pruned)
    return _cut(_in_order(ranking, source), limits)


def _check_size(tuples: int) -> None:
    if tuples > MOST:
        raise BudgetExceeded(
            f"query too large: {tuples:,} tuples of variables that no atom joins, at most {MOST:,}", limit="tuples"
        )


def _in_order(ranking: Ranking, source: Source) -> Ranking:
    rank = source.graph.entities.sort_rank
    return ranking.take(np.lexsort((*rank[ranking.tuples].T[::-1], -ranking.truth)))


def _restricted(clause: QueryGraph, kept: Sequence[int]) -> QueryGraph:
    """The part of a clause that is about some of its variables, or none."""
    number = {old: new for new, old in enumerate(kept)}

    def node(old: int) -> int:
        return number[old] if old >= 0 else old

    def here(*nodes: int) -> bool:
        return all(n < 0 or n in number for n in nodes)

    conditions: list[BoundCondition] = []
    for condition in clause.conditions:
        if here(*condition.variables):
            if isinstance(condition, Within | Outside):
                conditions.append(replace(condition, variable=number[condition.variable]))
            else:
                conditions.append(replace(condition, left=number[condition.left], right=number[condition.right]))
    return QueryGraph(
        variables=tuple(clause.variables[v] for v in kept),
        free=tuple(number[v] for v in clause.free if v in number),
        edges=tuple(e._replace(head=node(e.head), tail=node(e.tail)) for e in clause.edges if here(e.head, e.tail)),
        different=tuple((node(a), node(b)) for a, b in clause.different if here(a, b)),
        conditions=tuple(conditions),
    )


# --- one loose part ----------------------------------------------------------------------------------------------


def _listed(
    clause: QueryGraph, part: Sequence[int], source: Source, logic: Logic, stated: bool
) -> tuple[Assigned, NDArray[np.float64], NDArray[np.bool_]]:
    """All that the variables of a part may be, with its truth and whether the facts imply it.

    The free variables of a row are unlike those of every other row: of the existential ones the truest stands.
    """
    rows = np.full((1, len(clause.variables)), -1, np.int32)
    for done, variable in enumerate(part):
        candidates = _candidates(clause, variable, len(source.graph.entities))
        _check_size(len(rows) * len(candidates))
        rows = np.repeat(rows, len(candidates), axis=0)
        rows[:, variable] = np.tile(candidates, len(rows) // max(1, len(candidates)))
        rows = rows[_holds(clause, rows, set(part[: done + 1]), variable)]
    edges = [e for e in clause.edges if e.head in part or e.tail in part]
    value = np.zeros((len(rows), len(edges)))
    observed = np.zeros((len(rows), len(edges)), dtype=bool)
    for j, edge in enumerate(edges):  # negated ones
        heads, tails = (rows[:, n] if n >= 0 else np.full(len(rows), ~n, np.int32) for n in (edge.head, edge.tail))
        relations = np.full(len(rows), edge.relation, np.int32)
        if stated:
            observed[:, j] = source.facts.find_many(heads, relations, tails) >= 0
            value[:, j] = observed[:, j]
        else:
            value[:, j], observed[:, j] = source.table([clause]).lookup(heads, relations, tails)
    truth = logic.all(1.0 - value)
    free = [variable for variable in part if variable in clause.free]
    order = np.lexsort((-truth, *rows[:, free].T)) if free else np.argsort(-truth, kind="stable")
    ordered = rows[order][:, free]
    first = np.ones(len(rows), dtype=bool)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    kept = order[first]
    implied: NDArray[np.bool_] = np.logical_not(observed[kept].any(axis=1))
    return rows[kept], truth[kept], implied


def _candidates(clause: QueryGraph, variable: int, entities: int) -> NDArray[np.int32]:
    """The entities that the conditions on a variable alone allow, and those that have values to compare."""
    found: NDArray[Any] | None = None
    for condition in clause.conditions:
        if variable not in condition.variables:
            continue
        match condition:
            case Within():
                some = condition.entities()
            case Compared(left=left):
                some = np.unique((condition.left_values if left == variable else condition.right_values).keys)
            case _:
                continue
        found = some if found is None else np.intersect1d(found, some, assume_unique=True)
    if found is None:
        found = np.arange(entities)
    for condition in clause.conditions:
        if isinstance(condition, Outside) and condition.variable == variable:
            found = found[condition.holds(found)]
    return found.astype(np.int32)


def _holds(clause: QueryGraph, rows: Assigned, known: set[int], new: int) -> NDArray[np.bool_]:
    """Which rows keep to the conditions on a variable and those that are known already."""

    def values(node: int) -> NDArray[np.int32]:
        return rows[:, node] if node >= 0 else np.full(len(rows), ~node, np.int32)

    kept = np.ones(len(rows), dtype=bool)
    tests: list[tuple[tuple[int, int], Callable[..., Any]]] = [(pair, np.not_equal) for pair in clause.different]
    tests += [(c.variables, c.holds) for c in clause.conditions if isinstance(c, Compared | Paired | Equal)]
    for (left, right), test in tests:
        if new in (left, right) and all(node < 0 or node in known for node in (left, right)):
            kept &= test(values(left), values(right))
    return kept
