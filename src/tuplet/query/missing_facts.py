"""Why a tuple is no answer: the atoms that would have to hold and do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuplet.query.query_graph import Edge, QueryGraph
from tuplet.query.ranking import Clauses
from tuplet.query.source import Source
from tuplet.query.witness import Fact


def missing_facts(clauses: Clauses, source: Source, ids: Sequence[int]) -> tuple[Fact, ...]:
    """What each clause lacks for a tuple without truth; a variable that nothing fits is named as in the query.

    First what is false of the tuple itself; else the atoms that hold for no entity at all; else every atom in which a
    variable occurs that is not asked for: each may hold, but not all of them together.
    """
    return tuple(fact for number, clause in enumerate(clauses) for fact in _missing(number, clause, source, ids))


def _missing(number: int, clause: QueryGraph, source: Source, ids: Sequence[int]) -> list[Fact]:
    given = dict(zip(clause.free, ids, strict=True))
    settled = [edge for edge in clause.edges if _end(edge.head, given) >= 0 and _end(edge.tail, given) >= 0]
    open_ones = [edge for edge in clause.edges if edge not in settled]
    wrong = [edge for edge in settled if not _truth(edge, source, given)]
    wrong = wrong or [edge for edge in open_ones if not edge.negated and not _has_any(edge, source, given)] or open_ones
    return [_fact(number, edge, clause, source, given) for edge in wrong]


def _end(node: int, given: Mapping[int, int]) -> int:
    """The entity of a constant or of a variable asked for; -1 of another variable."""
    return ~node if node < 0 else given.get(node, -1)


def _truth(edge: Edge, source: Source, given: Mapping[int, int]) -> float:
    """The truth of the atom as it stands: 1 - x under a negation."""
    head, tail = _end(edge.head, given), _end(edge.tail, given)
    if source.truth is None:
        value = float(source.facts.find(head, edge.relation, tail) >= 0)
    else:
        value = source.truth.value(head, edge.relation, tail)
    return 1.0 - value if edge.negated else value


def _has_any(edge: Edge, source: Source, given: Mapping[int, int]) -> bool:
    """Whether some entity stands at the open end; of an atom with two open ends it is taken for granted."""
    head, tail = _end(edge.head, given), _end(edge.tail, given)
    if head < 0 and tail < 0:
        return True
    near, inverse = (tail, True) if head < 0 else (head, False)
    if source.truth is None:
        return len(source.facts.row(near, 2 * edge.relation + inverse)) > 0
    return source.truth.row_max(near, edge.relation, inverse) > 0


def _fact(number: int, edge: Edge, clause: QueryGraph, source: Source, given: Mapping[int, int]) -> Fact:
    entities = source.graph.entities
    ends = [(node, _end(node, given)) for node in (edge.head, edge.tail)]
    names = [entities.name(entity) if entity >= 0 else f"?{clause.variables[node]}" for node, entity in ends]
    labels = [entities.label(entity) if entity >= 0 else "" for _, entity in ends]
    stated = edge.negated and all(entity >= 0 for _, entity in ends)  # a negated atom fails where the fact is stated
    relation = source.graph.relations.name(edge.relation)
    return Fact(number, names[0], relation, names[1], edge.negated, 0.0, stated, labels[0], labels[1])
