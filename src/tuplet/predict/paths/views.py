"""Views of a graph to learn from: all of its facts or a part of them, some of which are hidden.

What a network learns on three graphs it is to know on all. So it sees them whole and in parts of many sizes: the
surroundings of an entity, the core of those with the most facts, with all relations or some. What is hidden is left out
of the view altogether, as facts that nobody knows are: relations are described without them too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.predict.edges import Ids, TrainingEdges, Triples

HIDDEN = 0.05, 0.3  # least and most share of the facts
PART = 50, 5000  # least and most entities of a part
FEWEST = 100  # facts of a part: of fewer little can be learned


class GraphView(NamedTuple):
    """Facts with numbers of their own, and which of them are hidden."""

    facts: Triples
    hidden: NDArray[np.bool_]
    entities: int
    relations: int

    @property
    def visible(self) -> TrainingEdges:
        """What is left to walk along."""
        heads, relation, tails = (ids[~self.hidden] for ids in self.facts)
        return TrainingEdges({"train": (heads, relation, tails)}, self.entities, self.relations)


def view_of(edges: TrainingEdges, whole: float, whole_pairs: bool, chance: np.random.Generator) -> GraphView:
    """A random view of the train edges: of all of them with chance `whole`.

    With `whole_pairs`, what is hidden there has no other edge between its ends.
    """
    heads, relation, tails = (np.asarray(ids, dtype=np.int64) for ids in edges.splits["train"])
    facts, entities, relations = (heads, relation, tails), edges.entities, edges.relations
    if chance.random() >= whole:
        some = _part(facts, edges, chance)
        if np.count_nonzero(some) >= FEWEST:
            ends, numbered = np.unique(np.concatenate([heads[some], tails[some]]), return_inverse=True)
            names, relation = np.unique(relation[some], return_inverse=True)
            heads, tails = np.split(numbered, 2)
            facts, entities, relations = (heads, relation, tails), len(ends), len(names)
            whole_pairs &= bool(chance.random() < 0.5)  # elsewhere facts do have others between their ends
    hidden = _hidden(facts, entities, whole_pairs, chance)
    return GraphView(facts, hidden, entities, relations)


def _part(facts: Triples, edges: TrainingEdges, chance: np.random.Generator) -> NDArray[np.bool_]:
    """Marks the facts of some relations between some entities."""
    heads, relation, tails = facts
    some = np.ones(len(heads), dtype=bool)
    if chance.random() < 0.5:
        some = (chance.random(edges.relations) < chance.uniform(0.2, 1.0))[relation]
    wanted = int(np.exp(chance.uniform(*np.log(PART))))
    heads, tails = heads[some], tails[some]
    if not len(heads):
        return some
    choose = _surroundings if chance.random() < 0.5 else _core
    inside = choose(heads, tails, edges.entities, wanted, chance)
    return some & inside[facts[0]] & inside[facts[2]]


def _surroundings(heads: Ids, tails: Ids, entities: int, wanted: int, chance: np.random.Generator) -> NDArray[np.bool_]:
    """Marks entities around a random one, step by step."""
    inside = np.zeros(entities, dtype=bool)
    inside[chance.choice(heads)] = True
    count = 1
    while count < wanted:
        next_to = inside[heads] ^ inside[tails]
        reached = np.unique(np.where(inside[heads[next_to]], tails[next_to], heads[next_to]))
        if not len(reached):
            break
        reached = chance.permutation(reached)[: max(1, wanted - count)]
        inside[reached] = True
        count += len(reached)
    return inside


def _core(heads: Ids, tails: Ids, entities: int, wanted: int, chance: np.random.Generator) -> NDArray[np.bool_]:
    """Marks entities that have many facts, more or less."""
    degree = np.bincount(heads, minlength=entities) + np.bincount(tails, minlength=entities)
    inside = np.zeros(entities, dtype=bool)
    inside[np.argsort(-degree * np.exp(chance.normal(0, 0.5, entities)))[:wanted]] = True
    return inside


def _hidden(facts: Triples, entities: int, whole_pairs: bool, chance: np.random.Generator) -> NDArray[np.bool_]:
    """Marks facts that are hidden, one by one or with all others between the same two entities; at least one is."""
    share = np.exp(chance.uniform(*np.log(HIDDEN)))
    heads, _, tails = facts
    number, count = np.arange(len(heads)), len(heads)
    if whole_pairs:
        pairs, number = np.unique(np.minimum(heads, tails) * entities + np.maximum(heads, tails), return_inverse=True)
        count = len(pairs)
    hidden: NDArray[np.bool_] = (chance.permutation(count) < max(1, share * count))[number]
    return hidden
