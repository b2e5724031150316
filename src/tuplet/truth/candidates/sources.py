"""Where candidates come from, and which sources are enough for a graph.

Types are learned from relations: an entity is plausible at an end of a relation if it was seen there, or if its other
relations speak for it with some confidence. Half-links (entities with a known fact of the relation) against plausible
ends hold nearly all facts of a graph that has types, for a hundredth of its pairs or less. A word net has none: there
every entity is an end. Few facts lie between two entities that both have none of the relation yet, but those are the
ones asked for: pairs of plausible ends without a fact join in, scored by predictors for which a row costs little. Where
there is a GPU, `wide` lets every predictor score them. Pairs of rules join later (`two_step_pairs`): this file needs
torch and numpy alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.errors import unknown
from tuplet.predict.base import LinkPredictor, has_one_side, sees_facts
from tuplet.truth.edges import Floats
from tuplet.truth.entity_views import EntityViews
from tuplet.truth.scored import EdgeColumns

HALF_LINKS, WIDE, ALL = "half-links", "wide", "all"
# From the narrowest source to the widest: ends that were seen there, plausible ones, every entity.
LEVELS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.0)
OPEN_LEVELS = (0.3, 0.1, 0.03)  # of pairs without a fact: the confidence of one of their ends
ENOUGH = 0.98  # of the valid edges that the widest sources hold
WIDE_LEVEL = 0.3  # of entities that get a row from predictors whose rows are dear
UNTOLD = 0.01  # the level where there are no valid edges to count
_SMALL = 1 << 26  # a graph of so few possible edges is swept whole: narrower sources would save nothing


@dataclass(frozen=True)
class CandidateSources:
    """Half-links × ends whose types speak for them with at least this confidence; or every pair there is.

    >>> str(CandidateSources(0.1)), str(CandidateSources(0.0)), str(EVERYTHING)
    ('half-links × plausible ends (0.1)', 'half-links × all entities', 'all pairs')
    >>> str(CandidateSources(0.1, open_from=0.3))
    'half-links × plausible ends (0.1) + pairs without a fact (0.3)'
    >>> str(CandidateSources(0.1, open_from=0.1, rows_from=0.3))
    'half-links × plausible ends (0.1) + pairs without a fact (0.1), rows of all scorers (0.3)'
    >>> str(CandidateSources(0.1, two_step_from=0.03))
    'half-links × plausible ends (0.1) + two-step pairs (0.03)'
    """

    least: float = 0.0  # 1: ends that were seen there; 0: every entity
    everything: bool = False
    open_from: float | None = None  # also pairs of such ends without a fact, one of them from this confidence on
    two_step_from: float | None = None  # also pairs that rules of two steps speak for, from this confidence on
    rows_from: float | None = None  # dear predictors too give rows of entities without a fact, from this confidence on
    one_side: bool = False  # half-links are those of the end that has fewer in its relation

    def __str__(self) -> str:
        if self.everything:
            return "all pairs"
        names = {1.0: "half-links × known ends", 0.0: "half-links × all entities"}
        told = names.get(self.least, f"half-links × plausible ends ({self.least:g})")
        if self.one_side:
            told = told.replace("half-links", "half-links of one end")
        if self.open_from is not None:
            told += f" + pairs without a fact ({self.open_from:g})"
        if self.two_step_from is not None:
            told += f" + {two_step_name(self.two_step_from)}"
        return told if self.rows_from is None else f"{told}, rows of all scorers ({self.rows_from:g})"

    def steps(self) -> list[tuple[float, float, float]]:
        """Half-links, then pairs without a fact: the least confidence of both ends, of the surer one, and its limit."""
        steps = [(self.least, 1.0, math.inf)]
        return steps if self.open_from is None else [*steps, (self.least, self.open_from, 1.0)]

    @property
    def first_part(self) -> CandidateSources:
        """Those that are scored together: those that have a fact, with `rows_from` also those without."""
        return replace(self, two_step_from=None, open_from=self.open_from if self.rows_from is not None else None)

    def inside(
        self, near: Floats, far: Floats, heads: NDArray[np.integer], tails: NDArray[np.integer]
    ) -> NDArray[np.bool_]:
        """Which pairs are half-links or pairs without a fact, by how surely each entity is a head and a tail."""
        if self.one_side:
            rows, columns = (near[heads], far[tails])[:: _direction(near, far)]
            return np.asarray((rows >= 1) & (columns >= self.least))
        near, far = near[heads], far[tails]
        surer, other = np.maximum(near, far), np.minimum(near, far)
        found = np.zeros(len(near), dtype=bool)
        for least, sure, most in self.steps():
            found |= (other >= least) & (surer >= sure) & (surer < most)
        return found


def two_step_name(level: float) -> str:
    """What the pairs of rules of this confidence are called."""
    return f"two-step pairs ({level:g})"


EVERYTHING = CandidateSources(everything=True)


@dataclass(frozen=True)
class CandidateChoice:
    """Sources, and what they hold."""

    sources: CandidateSources
    pairs: int  # distinct ones that are scored
    held: Mapping[str, float]  # share of the valid edges among the pairs of each source; empty without valid edges
    two_step: Mapping[str, int] | None = None  # pairs of rules; those beyond other sources; relations with too many

    def __str__(self) -> str:
        """One line for the progress of the work.

        >>> print(CandidateChoice(CandidateSources(0.1), 276_000_000, {"half-links × plausible ends (0.1)": 0.974}))
        half-links × plausible ends (0.1): 276,000,000 pairs, 97.4 % of the valid edges among them
        """
        share = self.held.get(str(self.sources))
        told = "" if share is None else f", {100 * share:.1f} % of the valid edges among them"
        return f"{self.sources}: {self.pairs:,} pairs{told}"

    def as_dict(self) -> dict[str, Any]:
        """For the store."""
        held = {name: round(share, 4) for name, share in self.held.items()}
        told = {"sources": str(self.sources), "pairs": self.pairs, "valid_edges_held": held}
        return told if self.two_step is None else told | {"two_step": dict(self.two_step)}


def choose(
    entities: int,
    relations: int,
    known: EdgeColumns,
    valid: EdgeColumns,
    asked: str | None = None,
    scorers: Collection[LinkPredictor] = (),
) -> CandidateChoice:
    """The cheapest sources that hold enough valid edges; `asked`: `half-links` alone, `wide` rows, or `all` pairs.

    Where the rows of all scorers are dear, half-links do, or those of one end, unless something else is asked for.
    """
    if asked not in (None, HALF_LINKS, WIDE, ALL):
        raise unknown("kind of candidates", asked, (HALF_LINKS, WIDE, ALL))
    one_side = asked is None and bool(scorers) and all(map(has_one_side, scorers))
    if asked is None and scorers and all(map(sees_facts, scorers)):
        asked = HALF_LINKS
    possible = relations * entities**2
    if asked == ALL or (asked is None and possible <= _SMALL):
        return CandidateChoice(EVERYTHING, possible, {str(EVERYTHING): 1.0} if len(valid[0]) else {})
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the steps are too short to be shared
    try:
        return _cheapest(entities, relations, known, valid, asked, one_side)
    finally:
        torch.set_num_threads(threads)


def _cheapest(
    entities: int, relations: int, known: EdgeColumns, valid: EdgeColumns, asked: str | None, one_side: bool
) -> CandidateChoice:
    total, rows_from = len(valid[0]), WIDE_LEVEL if asked == WIDE else None
    sources = [CandidateSources(least, rows_from=rows_from, one_side=one_side) for least in LEVELS]
    if asked != HALF_LINKS:
        sources += [replace(one, open_from=level) for one in sources for level in OPEN_LEVELS if level >= one.least]
    pairs, held = count(entities, relations, known, valid, sources)
    if not total:
        chosen = LEVELS.index(UNTOLD)
        return CandidateChoice(sources[chosen], int(pairs[chosen]), {})
    enough = np.nonzero(held >= ENOUGH * held.max())[0]
    chosen = int(enough[np.argmin(pairs[enough])])
    shares = {str(source): float(share) for source, share in zip(sources, held / total, strict=True)}
    return CandidateChoice(sources[chosen], int(pairs[chosen]), shares)


def count(
    entities: int, relations: int, known: EdgeColumns, valid: EdgeColumns, sources: Sequence[CandidateSources]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many pairs each of the sources has, and how many of the valid edges are among them. [sources] each"""
    pairs, held = np.zeros(len(sources), dtype=np.int64), np.zeros(len(sources), dtype=np.int64)
    for near, far, h, t in ends_by_relation(entities, relations, known, valid):
        for place, source in enumerate(sources):
            pairs[place] += pairs_of(source, near, far)
            held[place] += int(source.inside(near, far, h, t).sum())
    return pairs, held


def ends_by_relation(
    entities: int, relations: int, known: EdgeColumns, valid: EdgeColumns
) -> Iterator[tuple[Floats, Floats, NDArray[np.int64], NDArray[np.int64]]]:
    """Of each relation how surely every entity is a head and a tail of it; and the heads and tails of valid edges."""
    views = EntityViews.of(entities, relations, *(torch.from_numpy(np.asarray(side, dtype=np.int64)) for side in known))
    heads, which, tails = (np.asarray(side, dtype=np.int64) for side in valid)
    order = np.argsort(which, kind="stable")
    bounds = np.searchsorted(which[order], np.arange(relations + 1))
    for number in range(relations):
        mine = order[bounds[number] : bounds[number + 1]]
        near, far = (views.support(2 * number + side).numpy() for side in (0, 1))
        yield near, far, heads[mine], tails[mine]


def pairs_of(source: CandidateSources, near: Floats, far: Floats) -> int:
    """How many pairs there are in one relation."""
    if source.one_side:
        rows, columns = (near, far)[:: _direction(near, far)]
        return _between(rows, 1.0, math.inf) * _between(columns, source.least, math.inf)
    pairs = 0
    for least, sure, most in source.steps():
        # One end is sure, the other at least plausible; what a surer step has is not counted again.
        first, second = (_between(side, sure, most) for side in (near, far))
        all_first, all_second = (_between(side, least, most) for side in (near, far))
        pairs += first * all_second + second * all_first - first * second
    return pairs


def _direction(near: Floats, far: Floats) -> int:
    """1 if the rows of heads are those of one side, −1 if those of tails are: there are fewer."""
    return 1 if _between(near, 1.0, math.inf) <= _between(far, 1.0, math.inf) else -1


def _between(support: Floats, least: float, most: float) -> int:
    return int(((support >= least) & (support < most)).sum())
