"""What a reader may want to know about a question: an entity that stands where no fact has it is often a slip."""

from __future__ import annotations

from tuplet.query.answer import show_entity
from tuplet.query.ranking import Clauses
from tuplet.query.source import Source

ENDS = ("head", "tail")


def hints(clauses: Clauses, source: Source) -> list[str]:
    """One sentence for each named entity that no stated fact has in its place.

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
            shown = show_entity(graph.entities.name(entity), graph.entities.label(entity))
            sentence = f"as {ENDS[place]} of {graph.relations.name(edge.relation)}, {shown} was never seen"
            if _has_facts(source, entity, 2 * edge.relation + 1 - place):
                sentence += "; did you mean the other direction?"
            said[sentence] = None
    return list(said)


def _has_facts(source: Source, entity: int, view: int) -> bool:
    start, end = source.facts.span(entity, view)
    return end > start
