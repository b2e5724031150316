"""What a reader may want to know about a question: an entity where no fact has it, values that do not compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from tuplet.lang.ast import Atom, Attribute, Compare, Formula, atoms
from tuplet.query.answer import show_entity
from tuplet.query.ranking import Clauses
from tuplet.query.source import Source

ENDS = ("head", "tail")
ENOUGH = 20  # facts: of fewer, that each stands alone says little


def hints(clauses: Clauses, source: Source, predicted: bool = True) -> list[str]:
    """One sentence for each named entity that no stated fact has in its place, and for doubtful values.

    >>> import tuplet
    >>> from tuplet.query.question import Question
    >>> source = Source(tuplet.read([("aspirin", "treats", "pain")]))
    >>> hints(Question.of(source, "?x : treats(pain, ?x)").clauses, source)
    ['as head of treats, pain was never seen; did you mean the other direction?']
    """
    said: dict[str, None] = {}
    for clause in clauses:
        for edge in clause.edges:
            nodes = (edge.head, edge.tail)
            if edge.negated or (edge.head < 0) == (edge.tail < 0):
                continue
            place = 0 if edge.head < 0 else 1
            entity = ~nodes[place]
            if _has_facts(source, entity, 2 * edge.relation + place):
                continue
            graph = source.graph
            if predicted and (alone := _if_there_is_one(source, entity, edge.relation, place)):
                said[alone] = None
                continue
            shown = show_entity(graph.entities.name(entity), graph.entities.label(entity))
            sentence = f"as {ENDS[place]} of {graph.relations.name(edge.relation)}, {shown} was never seen"
            if _has_facts(source, entity, 2 * edge.relation + 1 - place):
                sentence += "; did you mean the other direction?"
            said[sentence] = None
        for condition in clause.conditions:
            said |= dict.fromkeys(_mixed(condition.said, source))
    return list(said)


def _mixed(formulas: Iterable[Formula], source: Source) -> Iterator[str]:
    """What is said of attributes that hold numbers here and texts there: a comparison is about those of one kind."""
    graph = source.graph
    for condition in (atom for formula in formulas for atom in atoms(formula)):
        sides = (condition.left, condition.right) if isinstance(condition, Compare) else ()
        for attribute in (side for side in sides if isinstance(side, Attribute)):
            name = attribute.name.text
            columns = graph.attributes.of_entities(name)
            if isinstance(attribute.of, Atom):
                columns = graph.attributes.of_facts(name, graph.relations.find(attribute.of.relation.text))
            elif not columns and (owners := _owners(name, source)):
                of = owners[0]
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


def _owners(name: str, source: Source) -> list[str]:
    """The relations whose facts have an attribute."""
    relations = source.graph.relations
    return [relations.name(r) for r in range(len(relations)) if source.graph.attributes.of_facts(name, r)]


def _if_there_is_one(source: Source, entity: int, relation: int, place: int) -> str:
    """What is said of an entity without a fact where all others have exactly one: an empty cell of a table.

    Truth is the chance that a fact is missing, and most empty cells may stay empty. If this one has a value, the
    chances of its candidates add up to one.
    """
    view = 2 * relation + place
    if source.truth is None or not source.truth.tabulated or not source.about.get("calibrated"):
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


def _has_facts(source: Source, entity: int, view: int) -> bool:
    start, end = source.facts.span(entity, view)
    return end > start
