"""Answers without the graph they came from: what a pickle holds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.names import Vocabulary
from tuplet.query.evidence import Triple

if TYPE_CHECKING:
    from tuplet.query.answers import Answers


def slim(answers: Answers) -> Answers:
    """The same answers on a graph of no facts that has only the names they need."""
    ranking, found = answers.ranking, answers.witnesses
    told = [*answers.evidence, *(f for reasons in answers.evidence.values() for r in reasons or () for f in r.facts)]
    speaking = np.array(told, dtype=np.int64).reshape(-1, 3)
    arrays: list[NDArray[Any]] = [ranking.tuples, *ranking.assignments, found.heads, found.tails, speaking[:, ::2]]
    used = np.unique(np.concatenate([array.ravel() for array in arrays]))
    used = used[used >= 0]
    relations = np.unique(np.array([*(edge.relation for edge in found.edges), *speaking[:, 1]], dtype=np.int64))

    def number(ids: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.where(ids >= 0, np.searchsorted(used, ids), ids).astype(np.int32)

    def relation(old: int) -> int:
        return int(np.searchsorted(relations, old))

    def fact(old: Triple) -> Triple:
        head, tail = np.searchsorted(used, [old[0], old[2]]).tolist()
        return head, relation(old[1]), tail

    empty = np.zeros(0, np.int32)
    return replace(
        answers,
        ranking=replace(ranking, tuples=number(ranking.tuples), assignments=tuple(map(number, ranking.assignments))),
        witnesses=replace(
            found,
            edges=tuple(edge._replace(relation=relation(edge.relation)) for edge in found.edges),
            heads=number(found.heads),
            tails=number(found.tails),
        ),
        graph=KnowledgeGraph.of(
            _part(answers.graph.entities, used),
            _part(answers.graph.relations, relations),
            *(empty, empty, empty),
            notes={"prefixes": known} if (known := answers.graph.notes.get("prefixes")) else {},
        ),
        evidence={
            fact(key): reasons and tuple(r._replace(facts=tuple(map(fact, r.facts))) for r in reasons)
            for key, reasons in answers.evidence.items()
        },
        rates=[answers.rates[old] for old in relations] if len(answers.rates) else (),
        about=dict(answers.about),
    )


def _part(words: Vocabulary, ids: NDArray[np.integer]) -> Vocabulary:
    return Vocabulary.of(words.names(ids), [words.label(int(i)) for i in ids])
