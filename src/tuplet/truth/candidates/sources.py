"""Where candidates come from, and which sources are enough for a graph.

Types are learned from relations: an entity is plausible at an end of a relation if it was seen there, or if its other
relations speak for it with some confidence. Half-links (entities with a known fact of the relation) against plausible
ends hold nearly all facts of a graph that has types, for a hundredth of its pairs or less. A word net has none: there
every entity is an end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.errors import unknown
from tuplet.truth.entity_views import EntityViews
from tuplet.truth.scored import EdgeColumns

HALF_LINKS, ALL = "half-links", "all"
# From the narrowest source to the widest: ends that were seen there, plausible ones, every entity.
LEVELS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.0)
ENOUGH = 0.98  # of the valid edges that the widest source holds
UNTOLD = 0.01  # the level where there are no valid edges to count
_SMALL = 1 << 26  # a graph of so few possible edges is swept whole: narrower sources would save nothing


@dataclass(frozen=True)
class CandidateSources:
    """Half-links × ends whose types speak for them with at least this confidence; or every pair there is.

    >>> str(CandidateSources(0.1)), str(CandidateSources(0.0)), str(EVERYTHING)
    ('half-links × plausible ends (0.1)', 'half-links × all entities', 'all pairs')
    """

    least: float = 0.0  # 1: ends that were seen there; 0: every entity
    everything: bool = False

    def __str__(self) -> str:
        if self.everything:
            return "all pairs"
        names = {1.0: "half-links × known ends", 0.0: "half-links × all entities"}
        return names.get(self.least, f"half-links × plausible ends ({self.least:g})")


EVERYTHING = CandidateSources(everything=True)


@dataclass(frozen=True)
class CandidateChoice:
    """Sources, and what they hold."""

    sources: CandidateSources
    pairs: int  # distinct ones that are scored
    held: Mapping[str, float]  # share of the valid edges among the pairs of each source; empty without valid edges

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
        return {"sources": str(self.sources), "pairs": self.pairs, "valid_edges_held": held}


def choose(
    entities: int, relations: int, known: EdgeColumns, valid: EdgeColumns, asked: str | None = None
) -> CandidateChoice:
    """The cheapest sources that hold enough valid edges; `asked`: among `half-links`, or `all` pairs."""
    if asked not in (None, HALF_LINKS, ALL):
        raise unknown("kind of candidates", asked, (HALF_LINKS, ALL))
    possible = relations * entities**2
    if asked == ALL or (asked is None and possible <= _SMALL):
        return CandidateChoice(EVERYTHING, possible, {str(EVERYTHING): 1.0} if len(valid[0]) else {})
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the steps are too short to be shared
    try:
        pairs, held = count(entities, relations, known, valid)
    finally:
        torch.set_num_threads(threads)
    names = [str(CandidateSources(least)) for least in LEVELS]
    shares = dict(zip(names, (held / max(1, len(valid[0]))).tolist(), strict=True)) if len(valid[0]) else {}
    enough = held >= ENOUGH * held[-1] if len(valid[0]) else np.array(LEVELS) <= UNTOLD
    place = int(np.argmax(enough))
    return CandidateChoice(CandidateSources(LEVELS[place]), int(pairs[place]), shares)


def count(
    entities: int, relations: int, known: EdgeColumns, valid: EdgeColumns
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many pairs each level of half-links scores, and how many of the valid edges are among them. [levels] each"""
    views = EntityViews.of(entities, relations, *(torch.from_numpy(np.asarray(side, dtype=np.int64)) for side in known))
    heads, which, tails = (np.asarray(side, dtype=np.int64) for side in valid)
    order = np.argsort(which, kind="stable")
    bounds = np.searchsorted(which[order], np.arange(relations + 1))
    pairs, held = np.zeros(len(LEVELS), dtype=np.int64), np.zeros(len(LEVELS), dtype=np.int64)
    for number in range(relations):
        mine = order[bounds[number] : bounds[number + 1]]
        near, far = (views.support(2 * number + side).numpy() for side in (0, 1))
        h, t = near[heads[mine]], far[tails[mine]]
        for place, least in enumerate(LEVELS):
            first, second = int((near >= 1).sum()), int((far >= 1).sum())
            pairs[place] += first * int((far >= least).sum()) + second * int((near >= least).sum()) - first * second
            held[place] += int((((h >= 1) & (t >= least)) | ((t >= 1) & (h >= least))).sum())
    return pairs, held
