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
from tuplet.query.conditions import Compared, Equal, Outside, Paired, Within, renumber
from tuplet.query.engine import Engine
from tuplet.query.limits import Deadline, Limits
from tuplet.query.ranking import Clauses, QueryGraph, Ranking
from tuplet.query.source import Source

MOST = 4_000_000  # tuples that are listed

Assigned = NDArray[np.int32]  # [n, variables of the clause], -1 where a variable is not settled yet
# Which given tuples are answers on the stated facts alone: 1 yes, 0 no, -1 where the time was up.
Judge: TypeAlias = Callable[[Clauses, Source, NDArray[np.int32], Deadline, int | None], NDArray[np.int8]]


def is_loose(clause: QueryGraph) -> bool:
    """Whether some variable of a clause is in no atom to search for."""
    return len(_searched_variables(clause)) < len(clause.variables)


def _searched_variables(clause: QueryGraph) -> set[int]:
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
    rankings = [_put_together(c, source, engine, everything, deadline) for c in clauses if is_loose(c)]
    if searched:
        rankings.insert(0, engine.run(engine.planned(searched, source, limits), limits, deadline))
    every = np.concatenate([ranking.tuples for ranking in rankings])
    tuples, place = (
        np.unique(every, axis=0, return_inverse=True) if every.shape[1] else (every[:1], np.zeros(len(every), int))
    )
    places = iter(np.split(place.ravel(), np.cumsum([len(ranking.tuples) for ranking in rankings])[:-1]))
    truth, found = np.zeros(len(tuples)), iter(rankings)
    if searched:
        together, found_at = iter(next(found).assignments), next(places)
        if len(tuples):
            truth = engine.score(engine.planned(searched, source, limits), tuples, limits, deadline)
    assignments: list[Assigned] = []
    for clause in clauses:
        assignments.append(np.full((len(tuples), len(clause.variables)), -1, np.int32))
        if is_loose(clause):
            ranking, at, own = next(found), next(places), np.zeros(len(tuples))
            own[at] = ranking.truth
            truth = limits.rules.disjunction(truth, own)
            assignments[-1][at] = ranking.assignments[0]
        else:
            assignments[-1][found_at] = next(together, assignments[-1][found_at])
    exact, bound = all(ranking.exact for ranking in rankings), max(ranking.bound for ranking in rankings)
    pruned = next((ranking.pruned for ranking in rankings if ranking.pruned), None)
    order = np.lexsort((*source.graph.entities.sort_rank[tuples].T[::-1], -truth))
    whole = Ranking(tuples, truth, tuple(assignments), exact, bound, pruned)
    return whole.take(order).first(limits.count(1 << 62))


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
    known = _searched_variables(clause)
    listed = [f"?{name}" for v, name in enumerate(clause.variables) if v not in known]
    asked = [v for v in clause.free if v in known]
    asked += [v for v in _linked_variables(clause, known) if v not in asked]
    plan = engine.planned([_restrict(clause, sorted(known), asked)], source, limits) if known else None
    return plan, f"list    {', '.join(listed)} by conditions alone: in no positive atom"


def judge_tuples(
    clauses: Clauses, source: Source, tuples: Assigned, judge: Judge, deadline: Deadline, memory: int | None
) -> NDArray[np.int8]:
    """Which tuples the facts alone give, as the judge says of what there is to search for: 1, 0, or -1 for unknown."""
    searched = [clause for clause in clauses if not is_loose(clause)]
    if len(searched) == len(clauses):
        return judge(clauses, source, tuples, deadline, memory)
    found = [judge(searched, source, tuples, deadline, memory)] if searched else []
    for clause in clauses:
        known = _searched_variables(clause)
        if known and len(known) < len(clause.variables) and not _linked_variables(clause, known):
            asked = [place for place, variable in enumerate(clause.free) if variable in known]
            rest = _restrict(clause, sorted(known), [clause.free[place] for place in asked])
            found.append(
                judge([rest], source, tuples[:, asked], deadline, memory)
            )  # the rest holds, or it were not here
    if not found:
        return np.zeros(len(tuples), np.int8)
    yes, unknown = np.any([f == 1 for f in found], axis=0), np.any([f < 0 for f in found], axis=0)
    return np.where(yes, 1, np.where(unknown, -1, 0)).astype(np.int8)


def _linked_variables(clause: QueryGraph, known: set[int]) -> list[int]:
    """The variables of positive atoms that a condition or a negated atom ties to one that is in none."""
    pairs = [condition.variables for condition in clause.conditions if len(condition.variables) == 2]
    pairs += [*clause.different, *((edge.head, edge.tail) for edge in clause.edges)]
    tied = [pair for pair in pairs if all(node >= 0 for node in pair) and len(known & set(pair)) == 1]
    return sorted({node for pair in tied for node in pair if node in known})


def _put_together(
    clause: QueryGraph, source: Source, engine: Engine[Any], limits: Limits, deadline: Deadline
) -> Ranking:
    """The tuples of one clause: what the engine finds, with everything that the other variables may be."""
    known = _searched_variables(clause)
    assigned = np.full((1, len(clause.variables)), -1, np.int32)
    truth, exact, bound, pruned = np.ones(1), True, 0.0, None
    if known or any(not edge.negated for edge in clause.edges):
        linked = _linked_variables(clause, known)
        asked = [v for v in clause.free if v in known]
        asked += [v for v in linked if v not in asked]
        if linked and limits.only == "predicted" and engine.needs_truth:
            return _without_observed(clause, source, engine, limits, deadline)
        whole = replace(limits, k="all") if linked else limits
        rest = _restrict(clause, sorted(known), asked)
        found = engine.run(engine.planned([rest], source, whole), whole, deadline)
        truth, exact, bound, pruned = found.truth, found.exact, found.bound, found.pruned
        assigned = np.full((len(truth), len(clause.variables)), -1, np.int32)
        if len(truth):  # without tuples there may be no assignments
            assigned[:, sorted(known)] = found.assignments[0]
    settled = set(known)
    for variable in (v for part in clause.parts() for v in part if v not in known):
        candidates = _candidates(clause, variable, len(source.graph.entities))
        if (tuples_listed := len(assigned) * len(candidates)) > MOST:
            said = f"query too large: {tuples_listed:,} tuples of variables that no atom joins, at most {MOST:,}"
            raise BudgetExceeded(said, limit="tuples")
        left = np.repeat(np.arange(len(assigned)), len(candidates))
        assigned, truth = assigned[left], truth[left]
        assigned[:, variable] = np.tile(candidates, len(left) // max(1, len(candidates)))
        settled.add(variable)
        kept = _holds(clause, assigned, settled, variable)
        assigned, truth = assigned[kept], truth[kept]
    value, observed = _look_up_negated(clause, assigned, known, source, source.truth is None or not engine.needs_truth)
    truth = limits.rules.conjunction(truth, limits.rules.all(1.0 - value))
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
    ranking = Ranking(tuples[order], truth[order], (assigned[order],), exact, bound, pruned)
    return ranking.first(limits.count(1 << 62))


def _without_observed(
    clause: QueryGraph, source: Source, engine: Engine[Any], limits: Limits, deadline: Deadline
) -> Ranking:
    """The tuples that the facts do not imply: all of them but those they do."""
    everything, stated = replace(limits, k="all", only=None), replace(limits, k="all", only="observed")
    found = _put_together(clause, source, engine, everything, deadline)
    observed = {*map(tuple, _put_together(clause, source, engine, stated, deadline).tuples.tolist())}
    kept = [i for i, row in enumerate(found.tuples.tolist()) if tuple(row) not in observed]
    return found.take(np.array(kept, np.int64)).first(limits.count(1 << 62))


def _restrict(clause: QueryGraph, kept: Sequence[int], free: Sequence[int]) -> QueryGraph:
    """The part of a clause that is about some of its variables, asking for some of them."""
    number = {old: new for new, old in enumerate(kept)}

    def node(old: int) -> int:
        return number[old] if old >= 0 else old

    def here(*nodes: int) -> bool:
        return all(n < 0 or n in number for n in nodes)

    return QueryGraph(
        variables=tuple(clause.variables[v] for v in kept),
        free=tuple(number[v] for v in free),
        edges=tuple(e._replace(head=node(e.head), tail=node(e.tail)) for e in clause.edges if here(e.head, e.tail)),
        different=tuple((node(a), node(b)) for a, b in clause.different if here(a, b)),
        conditions=tuple(renumber(c, node) for c in clause.conditions if here(*c.variables)),
    )


# --- variables that are listed -------------------------------------------------------------------------------------


def _look_up_negated(
    clause: QueryGraph, assigned: Assigned, known: set[int], source: Source, stated: bool
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The truth of the negated atoms that the engine did not see, and whether they are stated. [n, atoms]"""
    edges = [edge for edge in clause.edges if any(n >= 0 and n not in known for n in (edge.head, edge.tail))]
    value, observed = np.zeros((len(assigned), len(edges))), np.zeros((len(assigned), len(edges)), dtype=bool)
    for j, edge in enumerate(edges):
        heads, tails = _column(assigned, edge.head), _column(assigned, edge.tail)
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
    for condition in sorted(clause.conditions, key=lambda condition: isinstance(condition, Outside)):
        some: NDArray[Any] | None = None
        match condition:
            case Within() if condition.variable == variable:
                some = condition.entities()
            case Compared(left, right) if variable in (left, right):
                some = np.unique((condition.left_values if left == variable else condition.right_values).keys)
            case Outside() if condition.variable == variable:
                found = np.arange(entities) if found is None else found
                some = found[condition.holds(found)]
        if some is not None:
            found = some if found is None else np.intersect1d(found, some, assume_unique=True)
    return (np.arange(entities) if found is None else found).astype(np.int32)


def _holds(clause: QueryGraph, rows: Assigned, known: set[int], new: int) -> NDArray[np.bool_]:
    """Which rows keep to the conditions on a variable and those that are known already."""
    kept = np.ones(len(rows), dtype=bool)
    tests: list[tuple[tuple[int, int], Callable[..., Any]]] = [(pair, np.not_equal) for pair in clause.different]
    tests += [(c.variables, c.holds) for c in clause.conditions if isinstance(c, Compared | Paired | Equal)]
    for (left, right), test in tests:
        if new in (left, right) and all(node < 0 or node in known for node in (left, right)):
            kept &= test(_column(rows, left), _column(rows, right))
    return kept


def _column(rows: Assigned, node: int) -> NDArray[np.int32]:
    """The entities of a variable, or of a constant, in all rows."""
    return np.ascontiguousarray(rows[:, node]) if node >= 0 else np.full(len(rows), ~node, np.int32)
