"""Questions for the training of a path network: an entity and a relation in one direction.

Questions with many answers are drawn more often, in proportion to how many times `targets` they have, up to a limit: a
hub must not be all there is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuplet.predict.edges import Triples

MOST_ROUNDS = 8  # a question is drawn at most so many times as often as one with few answers


class Draw(NamedTuple):
    """What a step asks for."""

    asked: NDArray[np.int64]  # [questions] entity
    relation: NDArray[np.int64]  # [questions] r, or r + relations for heads
    row: NDArray[np.int64]  # [answers] question of each known answer, ascending
    answer: NDArray[np.int64]  # [answers]
    hidden: NDArray[np.bool_]  # [answers] whether it is hidden and asked for

    def part(self, first: int, end: int) -> Draw:
        """Some of the questions."""
        answers = slice(*np.searchsorted(self.row, (first, end)))
        questions = slice(first, end)
        row = self.row[answers] - first
        return Draw(self.asked[questions], self.relation[questions], row, self.answer[answers], self.hidden[answers])


class Questions:
    """The questions that facts answer, with their answers; those that are asked for may be some of them.

    >>> edges = np.array([0, 0, 1]), np.array([0, 0, 0]), np.array([1, 2, 2])
    >>> questions = Questions(edges, relations=1, targets=1)
    >>> len(questions), questions.rounds  # 0 leads to 1 and 2, 1 to 2; 1 is led to by 0, 2 by 0 and 1
    (4, 6.0)
    >>> draw = questions.draw(4, seed=0, step=0)
    >>> int(draw.hidden.sum()), sorted(zip(draw.asked.tolist(), draw.relation.tolist()))
    (4, [(0, 0), (1, 0), (1, 1), (2, 1)])
    """

    def __init__(
        self, facts: Triples, relations: int, targets: int, asked_for: NDArray[np.bool_] | None = None
    ) -> None:
        heads, relation, tails = (np.asarray(part, dtype=np.int64) for part in facts)
        self.kinds, self.targets = 2 * relations, targets
        key = np.concatenate([heads, tails]) * self.kinds + np.concatenate([relation, relation + relations])
        answer = np.concatenate([tails, heads])
        order = np.lexsort((answer, key))
        self.answer = answer[order]
        self.open = np.ones(len(order), dtype=bool) if asked_for is None else np.tile(asked_for, 2)[order]
        key, start, count = np.unique(key[order], return_index=True, return_counts=True)
        wanted = np.add.reduceat(self.open, start, dtype=np.int64)
        some = wanted > 0
        self.key, self.start, self.count = key[some], start[some], count[some]
        self.until = np.cumsum(np.minimum(-(-wanted[some] // targets), MOST_ROUNDS), dtype=np.float64)

    def __len__(self) -> int:
        return len(self.key)

    @property
    def rounds(self) -> float:
        """How many questions are an epoch."""
        return float(self.until[-1])

    def draw(self, batch: int, seed: int, step: int) -> Draw:
        """`batch` different questions, or all if there are no more, and what is hidden of their answers."""
        chance = np.random.default_rng([seed, step])
        chosen = self._choose(min(batch, len(self)), chance)
        count = self.count[chosen]
        row = np.repeat(np.arange(len(chosen)), count)
        first = np.cumsum(count) - count
        known = np.arange(len(row)) + (self.start[chosen] - first)[row]
        order = np.lexsort((chance.random(len(row)), ~self.open[known], row))
        place = np.empty(len(row), dtype=np.int64)
        place[order] = np.arange(len(row)) - first[row]
        hidden = (place < self.targets) & self.open[known]
        return Draw(*np.divmod(self.key[chosen], self.kinds), row, self.answer[known], hidden)

    def _choose(self, wanted: int, chance: np.random.Generator) -> NDArray[np.int64]:
        """Different questions by weight: drawn one after the other, and those drawn before are passed over."""
        if wanted == len(self):
            return np.arange(wanted)
        found = np.zeros(0, dtype=np.int64)
        while len(found) < wanted:
            drawn = np.searchsorted(self.until, chance.random(2 * wanted) * self.until[-1], side="right")
            found = np.concatenate([found, drawn])
            found = found[np.sort(np.unique(found, return_index=True)[1])]
        return found[:wanted]
