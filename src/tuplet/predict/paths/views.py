"""Views of a graph to learn from: all of its facts or a part of them, some of which are hidden.

What a network learns on three graphs it is to know on all. So it sees them whole and in parts of many sizes: the
surroundings of an entity, the core of those with the most facts, with all relations, some or a few large ones. In some
parts several relations are one, or some come twice, as they are or the other way round; some lack many of their facts.
What is hidden is left out of the view altogether, as facts that nobody knows are: relations are described without them
too, and sometimes their meetings tell less than they could.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.predict.edges import Ids, TrainingEdges, Triples
from tuplet.predict.paths.meetings import SHARES, Telling

HIDDEN = 0.05, 0.3  # least and most share of the facts
PART = 50, 10_000  # least and most entities of a part
FEWEST = 100  # facts of a part: of fewer little can be learned
TRIES = 8  # for a part that has as many
SOME, FEW = 0.35, 0.2  # of the parts have a share of the relations, or up to twenty
SPARSE, MERGED, COPIED = 0.4, 0.5, 0.3  # of the parts lack facts, have several relations in one, have some twice


class GraphView(NamedTuple):
    """Facts with numbers of their own, and which of them are hidden."""

    facts: Triples
    hidden: NDArray[np.bool_]
    entities: int
    relations: int
    telling: Telling = Telling()

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
    rows, entities, relations = np.stack([heads, relation, tails]), edges.entities, edges.relations
    if chance.random() >= whole:
        for _ in range(TRIES):
            part = rows[:, _part((heads, relation, tails), edges, chance)]
            if part.shape[1] >= FEWEST:
                break
        if part.shape[1] >= FEWEST:
            sparse, merged, copied = chance.random(3) < (SPARSE, MERGED, COPIED)
            rows = part[:, _some(part.shape[1], chance)] if sparse else part
            rows = _merged(rows, chance) if merged else rows
            rows = _copied(rows, chance) if copied else rows
            ends, numbered = np.unique(rows[[0, 2]], return_inverse=True)
            names, relation = np.unique(rows[1], return_inverse=True)
            heads, tails = numbered.reshape(2, -1)
            rows, entities, relations = np.stack([heads, relation, tails]), len(ends), len(names)
            # Elsewhere facts do have others between their ends.
            whole_pairs &= not copied and bool(chance.random() < 0.5)
    facts = rows[0], rows[1], rows[2]
    return GraphView(facts, _hidden(facts, entities, whole_pairs, chance), entities, relations)


def told_less(chance: np.random.Generator) -> Telling:
    """What meetings tell in a view: sometimes neither levels nor fan-outs, or levels with other bounds."""
    by = np.exp(chance.normal(0, 0.5)) if chance.random() < 0.3 else 1.0
    low, high = (min(0.9, float(bound * by)) for bound in SHARES)
    return Telling((low, high), bool(chance.random() >= 0.3), bool(chance.random() < 0.6))


def _some(facts: int, chance: np.random.Generator) -> NDArray[np.bool_]:
    """Marks a random share of the facts, no fewer than a graph needs."""
    marked: NDArray[np.bool_] = chance.permutation(facts) < max(FEWEST, chance.uniform(0.2, 0.8) * facts)
    return marked


def _merged(rows: NDArray[np.int64], chance: np.random.Generator) -> NDArray[np.int64]:
    """At most half as many relations, down to two, of about one size or of very different ones."""
    relations = int(rows[1].max()) + 1
    left = int(np.exp(chance.uniform(np.log(2), np.log(max(3, relations / 2)))))
    share = chance.dirichlet(np.full(left, 0.5)) if chance.random() < 0.5 else np.full(left, 1 / left)
    new = chance.choice(left, size=relations, p=share)
    return np.unique(np.stack([rows[0], new[rows[1]], rows[2]]), axis=1)


def _copied(rows: NDArray[np.int64], chance: np.random.Generator) -> NDArray[np.int64]:
    """A fifth of the relations have a copy with a share of their facts, some against their direction."""
    relations = int(rows[1].max()) + 1
    copies = np.full(relations, -1)
    chosen = chance.permutation(relations)[: max(1, relations // 5)]
    copies[chosen] = relations + np.arange(len(chosen))
    share, turned = chance.uniform(0.2, 1.0, relations), chance.random(relations) < 0.5
    again = rows[:, (copies[rows[1]] >= 0) & (chance.random(rows.shape[1]) < share[rows[1]])]
    back = turned[again[1]]
    heads, tails = np.where(back, again[2], again[0]), np.where(back, again[0], again[2])
    return np.concatenate([rows, np.stack([heads, copies[again[1]], tails])], axis=1)


def _part(facts: Triples, edges: TrainingEdges, chance: np.random.Generator) -> NDArray[np.bool_]:
    """Marks the facts of some relations between some entities."""
    heads, relation, tails = facts
    some, how = np.ones(len(heads), dtype=bool), chance.random()
    if how < SOME:
        some = (chance.random(edges.relations) < chance.uniform(0.2, 1.0))[relation]
    elif how < SOME + FEW:
        size = np.bincount(relation, minlength=edges.relations)
        few = min(int(np.exp(chance.uniform(0, np.log(20)))), int((size > 0).sum()))
        some = np.isin(relation, chance.choice(edges.relations, few, replace=False, p=size / size.sum()))
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
