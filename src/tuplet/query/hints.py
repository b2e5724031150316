"""What a reader may want to know about a question: an entity where no fact has it, values that do not compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tuplet.lang.ast import Atom, Attribute, Compare, Formula, atoms
from tuplet.query.answers import show_entity
from tuplet.query.ranking import Clauses, Edge, QueryGraph
from tuplet.query.schema import Fact
from tuplet.query.source import Source

ENDS = ("head", "tail")
ENOUGH = 20  # facts: of fewer, that each stands alone says little


def hints(clauses: Clauses, source: Source, predicted: bool = True) -> list[str]:
    """One sentence for each named entity that no stated fact has in its place, and for doubtful values.

    >>> import tuplet
    >>> from tuplet.query.ask import Question
    >>> source = Source(tuplet.read([("aspirin", "treats", "pain")]))
    >>> hints(Question.from_query(source, "?x : treats(pain, ?x)").clauses, source)
    ['as head of treats, pain was never seen; did you mean the other direction?']
    """
    said: dict[str, None] = {}
    for clause in clauses:
        for edge in clause.edges:
            nodes = (edge.head, edge.tail)
            if edge.negated or (edge.head < 0) == (edge.tail < 0):
                continue
            place = 0 if edge.head < 0 else 1
            entity, view = ~nodes[place], 2 * edge.relation + place
            start, end = source.facts.span(entity, view)
            if start < end:
                continue
            graph = source.graph
            if predicted and (alone := _if_there_is_one(source, entity, edge.relation, place)):
                said[alone] = None
                continue
            shown = show_entity(graph.entities.name(entity), graph.entities.label(entity))
            sentence = f"as {ENDS[place]} of {graph.relations.name(edge.relation)}, {shown} was never seen"
            if len(source.facts.row(entity, view ^ 1)):
                sentence += "; did you mean the other direction?"
            said[sentence] = None
        for condition in clause.conditions:
            said |= dict.fromkeys(_find_mixed(condition.said, source))
    return list(said)


def _find_mixed(formulas: Iterable[Formula], source: Source) -> Iterator[str]:
    """What is said of attributes that hold numbers here and texts there: a comparison is about those of one kind."""
    graph = source.graph
    for condition in (atom for formula in formulas for atom in atoms(formula)):
        sides = (condition.left, condition.right) if isinstance(condition, Compare) else ()
        for attribute in (side for side in sides if isinstance(side, Attribute)):
            name = attribute.name.text
            columns = graph.attributes.of_entities(name)
            if isinstance(attribute.of, Atom):
                columns = graph.attributes.of_facts(name, graph.relations.find(attribute.of.relation.text))
            elif not columns and any(column.name == name for column in graph.attributes.columns):
                of = graph.relations.name(min(c.relation for c in graph.attributes.columns if c.name == name))
                yield (
                    f"{name} is an attribute of facts of {of}, not of entities; in logic text: {of}(?x, ?y).{name}, in"
                    f" Cypher: MATCH (x)-[r:{of}]->(y) … r.{name}"
                )
            if len({column.family for column in columns}) > 1:
                most, *_, least = sorted(columns, key=len, reverse=True)
                value = least.value(0)
                yield (
                    f"{len(least):,} of the {sum(map(len, columns)):,} values of {name} are {least.family}s, such as "
                    f"{value!r}, which do not compare with {most.family}s"
                )


def _if_there_is_one(source: Source, entity: int, relation: int, place: int) -> str:
    """What is said of an entity without a fact where all others have exactly one: an empty cell of a table.

    Truth is the chance that a fact is missing, and most empty cells may stay empty. If this one has a value, the
    chances of its candidates add up to one.
    """
    view = 2 * relation + place
    if source.truth is None or not source.truth.tabulated or not source.calibrated:
        return ""
    lengths = source.facts.view(view).lengths
    if len(lengths) < ENOUGH or lengths.max() > 1:
        return ""
    row = source.truth.row(entity, relation, bool(place))
    if not len(row.ids) or row.observed.any():
        return ""
    names, label = source.graph.entities, source.graph.entities.label
    shown = show_entity(names.name(entity), label(entity))
    best = np.argsort(-row.truth, kind="stable")[:3]
    shares = [
        f"{show_entity(names.name(i), label(i))} {100 * share:.0f} %"
        for i, share in zip(row.ids[best].tolist(), (row.truth[best] / row.truth.sum()).tolist(), strict=True)
    ]
    one = f"each {ENDS[place]} of {source.graph.relations.name(relation)} has one {ENDS[1 - place]} in the facts"
    return f"{one}, {shown} has none; if there is one, it is {', '.join(shares)}"


def missing_facts(clauses: Clauses, source: Source, ids: Sequence[int]) -> tuple[Fact, ...]:
    """What each clause lacks for a tuple without truth; a variable that nothing fits is named as in the query.

    First what is false of the tuple itself; else the atoms that hold for no entity at all; else every atom in which a
    variable occurs that is not asked for: each may hold, but not all of them together.
    """
    found: list[Fact] = []
    for number, clause in enumerate(clauses):
        given = dict(zip(clause.free, ids, strict=True))
        ends = [tuple(~node if node < 0 else given.get(node, -1) for node in (e.head, e.tail)) for e in clause.edges]
        atoms = list(zip(clause.edges, ends, strict=True))
        open_ones = [(edge, pair) for edge, pair in atoms if min(pair) < 0]
        wrong = [(edge, pair) for edge, pair in atoms if min(pair) >= 0 and not _may_hold(edge, pair, source)]
        wrong = wrong or [(edge, pair) for edge, pair in open_ones if not _may_hold(edge, pair, source)] or open_ones
        found += [_fact(number, edge, pair, clause, source) for edge, pair in wrong]
    return tuple(found)


def _may_hold(edge: Edge, ends: Sequence[int], source: Source) -> bool:
    """Whether an atom has any truth; where an end is -1, for some entity, as is taken for granted of a negated one."""
    (head, tail), facts, truth, relation = ends, source.facts, source.truth, edge.relation
    if min(head, tail) >= 0:
        value = float(facts.find(head, relation, tail) >= 0) if truth is None else truth.value(head, relation, tail)
        return value != 1 if edge.negated else value != 0
    if edge.negated or max(head, tail) < 0:
        return True
    near, inverse = (tail, True) if head < 0 else (head, False)
    if truth is None:
        return len(facts.row(near, 2 * relation + inverse)) > 0
    return truth.row_max(near, relation, inverse) > 0


def _fact(number: int, edge: Edge, ends: Sequence[int], clause: QueryGraph, source: Source) -> Fact:
    entities, nodes = source.graph.entities, zip(ends, (edge.head, edge.tail), strict=True)
    head, tail = (entities.name(entity) if entity >= 0 else f"?{clause.variables[node]}" for entity, node in nodes)
    labels = [entities.label(entity) if entity >= 0 else "" for entity in ends]
    stated = edge.negated and min(ends) >= 0  # a negated atom fails where the fact is stated
    relation = source.graph.relations.name(edge.relation)
    return Fact(number, head, relation, tail, edge.negated, 0.0, stated, labels[0], labels[1])
