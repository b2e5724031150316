"""Variables of which no positive atom speaks, only conditions and negated atoms: what they may be is listed.

`SELECT ?x { ?x :age ?a FILTER(?a > 30) }` has no fact to search for, and in `?x :r :b ; :age ?a . ?z :age ?a` only a
value joins `?z` to the rest. Engines search for facts; here the engine is asked for what there is to search for, the
other variables are listed, and tuples are put together from both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import BudgetExceeded
from tuplet.query.conditions import BoundCondition, Compared, Equal, Outside, Paired, Within
from tuplet.query.engine import Engine
from tuplet.query.limits import Deadline, Limits
from tuplet.query.logic import Logic
from tuplet.query.ranking import Clauses, QueryGraph, Ranking
from tuplet.query.source import Source

MOST = 4_000_000  # tuples that are listed

Assigned = NDArray[np.int32]  # [n, variables of the clause], -1 where a variable is not settled yet
# Which given tuples are answers on the stated facts alone: 1 yes, 0 no, -1 where the time was up.
Judge: TypeAlias = Callable[[Clauses, Source, NDArray[np.int32], Deadline, int | None], NDArray[np.int8]]


def is_loose(clause: QueryGraph) -> bool:
    """Whether some variable of a clause is in no atom to search for."""
    return len(_searched(clause)) < len(clause.variables)


def _searched(clause: QueryGraph) -> set[int]:
    """The variables of positive atoms."""
    return {node for edge in clause.edges if not edge.negated for node in (edge.head, edge.tail) if node >= 0}


def loose_ranking(clauses: Clauses, source: Source, engine: Engine[Any], limits: Limits, deadline: Deadline) -> Ranking:
    """The best tuples of clauses of which some have such variables."""
    if any(not (clause.variables or clause.edges) for clause in clauses):
        # conditions on named entities alone, whose values are as they should be
        none = np.empty((1, 0), np.int32)
        return Ranking(none, np.ones(1), (none,) * len(clauses), exact=True, bound=0.0)
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
    tuples = np.concatenate([ranking.tuples for ranking in rankings])
    tuples = np.unique(tuples, axis=0) if free else tuples[:1]
    logic = Logic.from_name(limits.logic)
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


def loose_given(
    clauses: Clauses, ids: Assigned, source: Source, engine: Engine[Any], limits: Limits, deadline: Deadline
) -> Ranking:
    """Given tuples in the order given, looked up among all of them."""
    found = loose_ranking(clauses, source, engine, replace(limits, k="all", offset=0), deadline)
    places = {row: place for place, row in enumerate(map(tuple, found.tuples.tolist()))}
    at = np.array([places.get(row, -1) for row in map(tuple, ids.tolist())], np.int64)
    missing = at < 0
    truth = np.append(found.truth, 0.0)[at]
    assignments = tuple(np.vstack([a, np.full((1, a.shape[1]), -1, np.int32)])[at] for a in found.assignments)
    return Ranking(ids, np.where(missing, 0.0, truth), assignments, exact=found.exact, bound=1.0)


def loose_plan(clause: QueryGraph, source: Source, engine: Engine[Any], limits: Limits) -> tuple[Any, str]:
    """The engine's plan of what there is to search for, if there is anything, and a line about the rest."""
    known = _searched(clause)
    listed = [f"?{name}" for v, name in enumerate(clause.variables) if v not in known]
    asked = [v for v in clause.free if v in known]
    asked += [v for v in _linked(clause, known) if v not in asked]
    plan = engine.planned([_restricted(clause, sorted(known), asked)], source, limits) if known else None
    return plan, f"list    {', '.join(listed)} by conditions alone: in no positive atom"


def judged(
    clauses: Clauses, source: Source, tuples: Assigned, judge: Judge, deadline: Deadline, memory: int | None
) -> NDArray[np.int8]:
    """Which tuples the facts alone give, as the judge says of what there is to search for: 1, 0, or -1 for unknown."""
    searched = [clause for clause in clauses if not is_loose(clause)]
    if len(searched) == len(clauses):
        return judge(clauses, source, tuples, deadline, memory)
    found = [judge(searched, source, tuples, deadline, memory)] if searched else []
    for clause in clauses:
        known = _searched(clause)
        if known and len(known) < len(clause.variables) and not _linked(clause, known):
            asked = [place for place, variable in enumerate(clause.free) if variable in known]
            rest = _restricted(clause, sorted(known), [clause.free[place] for place in asked])
            found.append(
                judge([rest], source, tuples[:, asked], deadline, memory)
            )  # the rest holds, or it were not here
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


def _linked(clause: QueryGraph, known: set[int]) -> list[int]:
    """The variables of positive atoms that a condition or a negated atom ties to one that is in none."""
    pairs = [condition.variables for condition in clause.conditions if len(condition.variables) == 2]
    pairs += [*clause.different, *((edge.head, edge.tail) for edge in clause.edges)]
    tied = [pair for pair in pairs if all(node >= 0 for node in pair) and len(known & set(pair)) == 1]
    return sorted({node for pair in tied for node in pair if node in known})


def _put_together(
    clause: QueryGraph, source: Source, engine: Engine[Any], limits: Limits, deadline: Deadline
) -> Ranking:
    """The tuples of one clause: what the engine finds, with everything that the other variables may be."""
    known = _searched(clause)
    assigned = np.full((1, len(clause.variables)), -1, np.int32)
    truth, exact, bound, pruned = np.ones(1), True, 0.0, None
    if known or any(not edge.negated for edge in clause.edges):
        linked = _linked(clause, known)
        asked = [v for v in clause.free if v in known]
        asked += [v for v in linked if v not in asked]
        if linked and limits.only == "predicted" and engine.needs_truth:
            return _without_observed(clause, source, engine, limits, deadline)
        whole = replace(limits, k="all") if linked else limits
        rest = _restricted(clause, sorted(known), asked)
        found = engine.run(engine.planned([rest], source, whole), whole, deadline)
        truth, exact, bound, pruned = found.truth, found.exact, found.bound, found.pruned
        assigned = np.full((len(truth), len(clause.variables)), -1, np.int32)
        assigned[:, sorted(known)] = found.assignments[0]
    settled = set(known)
    for variable in (v for part in clause.parts() for v in part if v not in known):
        candidates = _candidates(clause, variable, len(source.graph.entities))
        _check_size(len(assigned) * len(candidates))
        left = np.repeat(np.arange(len(assigned)), len(candidates))
        assigned, truth = assigned[left], truth[left]
        assigned[:, variable] = np.tile(candidates, len(left) // max(1, len(candidates)))
        settled.add(variable)
        kept = _holds(clause, assigned, settled, variable)
        assigned, truth = assigned[kept], truth[kept]
    value, observed = _negated(clause, assigned, known, source, source.truth is None or not engine.needs_truth)
    logic = Logic.from_name(limits.logic)
    truth = logic.conjunction(truth, logic.all(1.0 - value))
    if limits.only is not None and (not known or limits.only == "observed"):
        kept = np.logical_not(observed.any(axis=1)) == (limits.only == "observed")
        assigned, truth = assigned[kept], truth[kept]
    holds = truth > 0
    assigned, truth = assigned[holds], truth[holds]
    rank = source.graph.entities.sort_rank
    tuples = assigned[:, list(clause.free)]
    order = np.lexsort((-truth, *rank[tuples].T[::-1])) if clause.free else np.argsort(-truth, kind="stable")
    first = np.ones(len(order), dtype=bool)  # of the assignments of a tuple the truest stands
    first[1:] = (tuples[order[1:]] != tuples[order[:-1]]).any(axis=1)
    order = order[first]
    order = order[np.argsort(-truth[order], kind="stable")]
    return _cut(Ranking(tuples[order], truth[order], (assigned[order],), exact, bound, pruned), limits)


def _without_observed(
    clause: QueryGraph, source: Source, engine: Engine[Any], limits: Limits, deadline: Deadline
) -> Ranking:
    """The tuples that the facts do not imply: all of them but those they do."""
    everything, stated = replace(limits, k="all", only=None), replace(limits, k="all", only="observed")
    found = _put_together(clause, source, engine, everything, deadline)
    observed = {*map(tuple, _put_together(clause, source, engine, stated, deadline).tuples.tolist())}
    kept = [i for i, row in enumerate(found.tuples.tolist()) if tuple(row) not in observed]
    return _cut(found.take(np.array(kept, np.int64)), limits)


def _check_size(tuples: int) -> None:
    if tuples > MOST:
        raise BudgetExceeded(
            f"query too large: {tuples:,} tuples of variables that no atom joins, at most {MOST:,}", limit="tuples"
        )


def _restricted(clause: QueryGraph, kept: Sequence[int], free: Sequence[int]) -> QueryGraph:
    """The part of a clause that is about some of its variables, asking for some of them."""
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
        free=tuple(number[v] for v in free),
        edges=tuple(e._replace(head=node(e.head), tail=node(e.tail)) for e in clause.edges if here(e.head, e.tail)),
        different=tuple((node(a), node(b)) for a, b in clause.different if here(a, b)),
        conditions=tuple(conditions),
    )


# --- variables that are listed -------------------------------------------------------------------------------------


def _negated(
    clause: QueryGraph, assigned: Assigned, known: set[int], source: Source, stated: bool
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The truth of the negated atoms that the engine did not see, and whether they are stated. [n, atoms]"""
    edges = [edge for edge in clause.edges if any(n >= 0 and n not in known for n in (edge.head, edge.tail))]
    value, observed = np.zeros((len(assigned), len(edges))), np.zeros((len(assigned), len(edges)), dtype=bool)
    for j, edge in enumerate(edges):
        heads, tails = (
            np.ascontiguousarray(assigned[:, n]) if n >= 0 else np.full(len(assigned), ~n, np.int32)
            for n in (edge.head, edge.tail)
        )
        relations = np.full(len(assigned), edge.relation, np.int32)
        if stated:
            observed[:, j] = source.facts.find_many(heads, relations, tails) >= 0
            value[:, j] = observed[:, j]
        else:
            value[:, j], observed[:, j] = source.table([clause]).lookup(heads, relations, tails)
    return value, observed


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
