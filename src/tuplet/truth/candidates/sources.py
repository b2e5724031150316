"""Where candidates come from, and which sources are enough for a graph.

Types are learned from relations: an entity is plausible at an end of a relation if it was seen there, or if its other
relations speak for it with some confidence. Half-links (entities with a known fact of the relation) against plausible
ends hold nearly all facts of a graph that has types, for a hundredth of its pairs or less. A word net has none: there
every entity is an end. Few facts lie between two entities that both have none of the relation yet, but those are the
ones asked for: pairs of plausible ends without a fact join in, scored by predictors for which a row costs little. Where
there is a GPU, `wide` lets every predictor score them.

Pairs that rules of two steps speak for are few and dense in facts, and a rule may be right where every scorer is below
the floor, so they are listed whatever scorers say. They join the sources that were chosen without them: what a machine
without compiled rules scored stays as it is. Test edges are not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.errors import BadInput, unknown
from tuplet.predict.base import LinkPredictor, has_one_side, kind_of, sees_facts
from tuplet.predict.device import one_thread
from tuplet.truth.candidates.rows import DEARER, is_searchable
from tuplet.truth.edges import EdgeColumns, Floats
from tuplet.truth.known_edges import EntityViews

if TYPE_CHECKING:
    from tuplet.truth.two_step import TwoStepRules


HALF_LINKS, WIDE, NEAREST, ALL = KINDS = "half-links", "wide", "nearest", "all"
# From the narrowest source to the widest: ends that were seen there, plausible ones, every entity.
LEVELS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.0)
OPEN_LEVELS = (0.3, 0.1, 0.03)  # of pairs without a fact: the confidence of one of their ends
ENOUGH = 0.98  # of the valid edges that the widest sources hold
WIDE_LEVEL = 0.3  # of entities that get a row from predictors whose rows are dear
UNTOLD = 0.01  # the level where there are no valid edges to count
# A graph of many known facts is bounded, so that what is scored and listed grows with the facts, not with their square.
BOUNDED_FROM = 500_000  # known facts
PER_FACT = 512  # columns that a row looks at for each of its facts
BOUNDED_FLOOR = 0.008  # truth from which on an edge is listed: softmax × count reaches it for 125 of each fact at most
# Where columns cannot be searched for, on a GPU for one:
MOST_PAIRS = 8_000  # for each known fact, unless half-links × ends of confidence 0.3 are more
MOST_LISTED = 32  # by a row, beside as many as it has facts
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
    >>> str(CandidateSources(0.1, most=16))
    'half-links × plausible ends (0.1), at most 16 + facts of a row'
    >>> str(CandidateSources(0.1, one_side=True, useful_from=2.5))
    'half-links of one end with 2.5 facts or more × plausible ends (0.1)'
    >>> str(CandidateSources(0.1, per_fact=512))
    'half-links × plausible ends (0.1), nearest 512 for each fact of a row'
    """

    least: float = 0.0  # 1: ends that were seen there; 0: every entity
    everything: bool = False
    open_from: float | None = None  # also pairs of such ends without a fact, one of them from this confidence on
    two_step_from: float | None = None  # also pairs that rules of two steps speak for, from this confidence on
    rows_from: float | None = None  # dear predictors too give rows of entities without a fact, from this confidence on
    one_side: bool = False  # half-links are those of the end that has fewer in its relation
    useful_from: float | None = None  # rows of less use are not computed (see `row_limit`)
    per_fact: int | None = None  # columns that a row looks at for each of its facts, the best ones; None: all of them
    most: int | None = None  # that a row lists beside as many as it has facts; None: all that reach the floor

    def __str__(self) -> str:
        if self.everything:
            return "all pairs"
        names = {1.0: "half-links × known ends", 0.0: "half-links × all entities"}
        told = names.get(self.least, f"half-links × plausible ends ({self.least:g})")
        if self.one_side:
            told = told.replace("half-links", "half-links of one end")
        if self.useful_from is not None:
            told = told.replace(" ×", f" with {self.useful_from:.4g} facts or more ×", 1)
        if self.open_from is not None:
            told += f" + pairs without a fact ({self.open_from:g})"
        if self.two_step_from is not None:
            told += f" + {two_step_name(self.two_step_from)}"
        if self.rows_from is not None:
            told += f", rows of all scorers ({self.rows_from:g})"
        if self.per_fact is not None:
            told += f", nearest {self.per_fact} for each fact of a row"
        return told if self.most is None else f"{told}, at most {self.most} + facts of a row"

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
            rows, columns = (near[heads], far[tails])[:: _direction(EndCounts(near), EndCounts(far))]
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
    floor: float = 0.0  # truth in one direction below which no scorer's edges are listed

    def __str__(self) -> str:
        """One line for the progress of the work.

        >>> print(CandidateChoice(CandidateSources(0.1), 276_000_000, {"half-links × plausible ends (0.1)": 0.974}))
        half-links × plausible ends (0.1): 276,000,000 pairs, 97.4 % of the valid edges among them
        """
        share = self.held.get(str(self.sources))
        told = "" if share is None else f", {100 * share:.1f} % of the valid edges among them"
        listed = f"; listed from {self.floor:g} on" if self.floor else ""
        return f"{self.sources}: {self.pairs:,} pairs{told}{listed}"

    def as_dict(self) -> dict[str, Any]:
        """For the store."""
        held = {name: round(share, 4) for name, share in self.held.items()}
        told = {"sources": str(self.sources), "pairs": self.pairs, "valid_edges_held": held}
        told |= {"floor": self.floor} if self.floor else {}
        return told if self.two_step is None else told | {"two_step": dict(self.two_step)}


def choose(
    entities: int,
    relations: int,
    known: EdgeColumns,
    valid: EdgeColumns,
    asked: str | None = None,
    scorers: Collection[LinkPredictor] = (),
    device: torch.device | str = "cpu",
) -> CandidateChoice:
    """The cheapest sources that hold enough valid edges; `asked`: `half-links` alone, `wide` rows, or `all` pairs.

    With `nearest` they are the same ones, and the best of many columns are searched for; so they are from
    `BOUNDED_FROM` facts on, if the scorers allow it.

    Where the rows of all scorers are dear, half-links do, or those of one end, unless something else is asked for. What
    is counted does not depend on the `device` that counts.
    """
    if asked not in (None, *KINDS):
        raise unknown("kind of candidates", asked, KINDS)
    searchable = any(map(is_searchable, scorers))
    if asked == NEAREST and scorers and not searchable:
        kinds = ", ".join(map(kind_of, scorers))
        raise BadInput(f"nearest candidates need scores that are inner products, on the CPU; those of {kinds} are not")
    one_side = asked is None and bool(scorers) and all(map(has_one_side, scorers))
    if asked is None and scorers and all(map(sees_facts, scorers)):
        asked = HALF_LINKS
    possible = relations * entities**2
    if asked == ALL or (asked is None and possible <= _SMALL):
        return CandidateChoice(EVERYTHING, possible, {str(EVERYTHING): 1.0} if len(valid[0]) else {})
    total, rows_from = len(valid[0]), WIDE_LEVEL if asked == WIDE else None
    sources = [CandidateSources(least, rows_from=rows_from, one_side=one_side) for least in LEVELS]
    if asked != HALF_LINKS:
        sources += [replace(one, open_from=level) for one in sources for level in OPEN_LEVELS if level >= one.least]
    bounded, most, floor = len(known[0]) >= BOUNDED_FROM, math.inf, 0.0
    if asked == NEAREST or (bounded and searchable):
        sources = [replace(one, per_fact=PER_FACT) for one in sources]
        floor = BOUNDED_FLOOR if bounded else 0.0
    elif bounded:
        sources = [replace(one, most=MOST_LISTED) for one in sources]
        most = MOST_PAIRS * len(known[0]) if asked is None else math.inf
    with one_thread():
        pairs, held = count(entities, relations, known, valid, sources, device)
    if not total:
        chosen = LEVELS.index(UNTOLD)
        return CandidateChoice(sources[chosen], int(pairs[chosen]), {}, floor=floor)
    fitting = pairs <= max(most, int(pairs[1]))
    enough = np.nonzero(fitting & (held >= ENOUGH * held[fitting].max()))[0]
    chosen = int(enough[np.argmin(pairs[enough])])
    shares = {str(source): float(share) for source, share in zip(sources, held / total, strict=True)}
    return CandidateChoice(sources[chosen], int(pairs[chosen]), shares, floor=floor)


def count(
    entities: int,
    relations: int,
    known: EdgeColumns,
    valid: EdgeColumns,
    sources: Sequence[CandidateSources],
    device: torch.device | str = "cpu",
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many pairs each of the sources has, and how many of the valid edges are among them. [sources] each"""
    pairs, held = np.zeros(len(sources), dtype=np.int64), np.zeros(len(sources), dtype=np.int64)
    least = min((level for one in sources for level in (one.least, one.open_from) if level), default=1.0)
    facts = np.bincount(np.asarray(known[1]), minlength=relations).tolist()
    ends = ends_by_relation(entities, relations, known, valid, least, device)
    for number, (near, far, h, t) in enumerate(ends):
        counts = EndCounts(near), EndCounts(far)
        for place, source in enumerate(sources):
            pairs[place] += pairs_of(source, *counts, facts[number])
            held[place] += int(source.inside(near, far, h, t).sum())
    return pairs, held


def ends_by_relation(
    entities: int,
    relations: int,
    known: EdgeColumns,
    valid: EdgeColumns,
    least: float = 0.0,
    device: torch.device | str = "cpu",
) -> Iterator[tuple[Floats, Floats, NDArray[np.int64], NDArray[np.int64]]]:
    """Of each relation how surely every entity is a head and a tail of it; and the heads and tails of valid edges.

    What is below `least` may be 0.
    """
    ids = (torch.from_numpy(np.asarray(side, dtype=np.int64)).to(device) for side in known)
    views = EntityViews.from_edges(entities, relations, *ids)
    heads, which, tails = (np.asarray(side, dtype=np.int64) for side in valid)
    order = np.argsort(which, kind="stable")
    bounds = np.searchsorted(which[order], np.arange(relations + 1))
    for number in range(relations):
        mine = order[bounds[number] : bounds[number + 1]]
        near, far = (views.support(2 * number + side, least).cpu().numpy() for side in (0, 1))
        yield near, far, heads[mine], tails[mine]


class EndCounts:
    """How many entities are an end of a relation with some confidence; most of a large graph are with none.

    >>> ends = EndCounts(np.array([1.0, 0.3, 0.0, 0.1], dtype=np.float32))
    >>> ends.between(0.0, 1.0), ends.between(0.1, math.inf)
    (3, 3)
    """

    def __init__(self, support: Floats) -> None:
        self.entities, self.values = len(support), support[support > 0]
        self._from: dict[float, int] = {}

    def between(self, least: float, most: float) -> int:
        """Those from the first to below the second."""
        return self._at_least(least) - self._at_least(most)

    def _at_least(self, level: float) -> int:
        if level <= 0:
            return self.entities
        if level not in self._from:
            self._from[level] = int(np.count_nonzero(self.values >= np.float32(level)))
        return self._from[level]


def pairs_of(source: CandidateSources, near: EndCounts, far: EndCounts, facts: int) -> int:
    """How many pairs there are in one relation of so many facts; where rows look at some columns alone, at most."""
    if source.one_side:
        rows, columns = (near, far)[:: _direction(near, far)]
        return rows.between(1.0, math.inf) * columns.between(source.least, math.inf)
    pairs = 0
    for least, sure, most in source.steps():
        # One end is sure, the other at least plausible; what a surer step has is not counted again.
        first, second = (side.between(sure, most) for side in (near, far))
        all_first, all_second = (side.between(least, most) for side in (near, far))
        some = first * all_second + second * all_first - first * second
        if source.per_fact is not None:
            some = min(some, source.per_fact * (2 * facts if sure == 1.0 else first + second))
        pairs += some
    return pairs


def _direction(near: EndCounts, far: EndCounts) -> int:
    """1 if the rows of heads are those of one side, −1 if those of tails are: there are fewer."""
    return 1 if near.between(1.0, math.inf) <= far.between(1.0, math.inf) else -1


TWO_STEP_LEVELS = (0.3, 0.1, 0.03, 0.01)


@dataclass(frozen=True)
class TwoStepPairs:
    """The pairs of the rules of at least some confidence; of a higher one where a relation has too many."""

    rules: TwoStepRules
    level: float
    bounds: Floats  # [relations] the confidence from which on its pairs cost no more than the half-links of a relation

    def ends(self, relation: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Heads and tails, in order."""
        heads, tails, _ = self.rules.pairs(relation, max(self.level, self.bounds[relation]))
        return heads, tails


class TwoStepCounts(NamedTuple):
    """What the pairs of each level hold, the levels falling."""

    pairs: NDArray[np.int64]  # [levels]
    beyond: NDArray[np.int64]  # [levels] of these, outside of the other sources
    held: NDArray[np.int64]  # [levels] valid edges among the pairs
    held_beyond: NDArray[np.int64]  # [levels] of these, outside of the other sources
    bounds: Floats  # [relations] as in `TwoStepPairs`


def join_two_step(
    choice: CandidateChoice, rules: TwoStepRules, known: EdgeColumns, valid: EdgeColumns
) -> tuple[CandidateChoice, TwoStepPairs | None]:
    """The choice and the two-step pairs that join it: those that hold as many valid edges for their cost."""
    total = len(valid[0])
    if choice.sources.everything or not total:
        return choice, None
    counted = count_two_step(rules, known, valid, choice.sources)
    share = choice.held[str(choice.sources)]
    # From the surest level on, those that each add as many valid edges for the cost of an entry.
    cost, gain = DEARER * np.diff(counted.pairs, prepend=0), np.diff(counted.held, prepend=0)
    poor = (gain == 0) | (gain < share * total / choice.pairs * cost)
    worth = int(np.argmax(np.append(poor, True)))
    held = dict(choice.held)
    held |= {two_step_name(level): float(n) / total for level, n in zip(TWO_STEP_LEVELS, counted.held, strict=True)}
    if not worth:
        return replace(choice, held=held), None
    level = TWO_STEP_LEVELS[worth - 1]
    sources = replace(choice.sources, two_step_from=level)
    held[str(sources)] = share + float(counted.held_beyond[worth - 1]) / total
    joined, beyond = int(counted.pairs[worth - 1]), int(counted.beyond[worth - 1])
    told = {"pairs": joined, "beyond": beyond, "bounded_relations": int((counted.bounds > level).sum())}
    joined_choice = replace(choice, sources=sources, pairs=choice.pairs + beyond, held=held, two_step=told)
    return joined_choice, TwoStepPairs(rules, level, counted.bounds)


def count_two_step(
    rules: TwoStepRules,
    known: EdgeColumns,
    valid: EdgeColumns,
    others: CandidateSources,
    levels: Sequence[float] = TWO_STEP_LEVELS,
) -> TwoStepCounts:
    """What the two-step pairs of each level hold, beside other sources; one relation is walked at a time."""
    totals, bounds = np.zeros((4, len(levels)), dtype=np.int64), np.zeros(rules.relations)
    facts = np.bincount(np.asarray(known[1]), minlength=rules.relations).tolist()
    for number, (near, far, h, t) in enumerate(ends_by_relation(rules.entities, rules.relations, known, valid)):
        room = pairs_of(others.first_part, EndCounts(near), EndCounts(far), facts[number]) // DEARER
        bounds[number] = rules.least_within(number, 0.0, room)
        heads, tails, confidence = rules.pairs(number, max(levels[-1], bounds[number]))
        is_valid = np.isin(heads.astype(np.int64) * rules.entities + tails, h * rules.entities + t)
        outside = ~others.inside(near, far, heads, tails)
        for place, level in enumerate(levels):
            mine = confidence >= level
            kinds = (mine, mine & outside, mine & is_valid, mine & is_valid & outside)
            totals[:, place] += [np.count_nonzero(kind) for kind in kinds]
    pairs, beyond, held, held_beyond = totals
    return TwoStepCounts(pairs, beyond, held, held_beyond, bounds)
