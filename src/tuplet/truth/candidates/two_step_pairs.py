"""Pairs that rules of two steps speak for, as candidates beside the other sources.

They are few and dense in facts, and a rule may be right where every scorer is below the floor, so they are listed
whatever scorers say. They join the sources that were chosen without them: what a machine without compiled rules scored
stays as it is. Test edges are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tuplet.truth.candidates.row_logs import DEARER
from tuplet.truth.candidates.sources import (
    HALF_LINKS,
    CandidateChoice,
    CandidateSources,
    EndCounts,
    ends_by_relation,
    pairs_of,
    two_step_name,
)
from tuplet.truth.edges import Floats
from tuplet.truth.learned.calibrate import two_step_rules
from tuplet.truth.scored import EdgeColumns

if TYPE_CHECKING:
    from tuplet.truth.two_step import TwoStepRules

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

    def counted_on(self, known: EdgeColumns) -> TwoStepPairs:
        """The same of the rules of other known edges of the same graph."""
        rules = two_step_rules(self.rules.entities, self.rules.relations, known)
        return self if rules is None else replace(self, rules=rules)


@dataclass(frozen=True)
class TwoStepCounts:
    """What the pairs of each level hold, the levels falling."""

    levels: Sequence[float]
    pairs: NDArray[np.int64]  # [levels]
    beyond: NDArray[np.int64]  # [levels] of these, outside of the other sources
    held: NDArray[np.int64]  # [levels] valid edges among the pairs
    held_beyond: NDArray[np.int64]  # [levels] of these, outside of the other sources
    bounds: Floats  # [relations] as in `TwoStepPairs`

    def worth(self, share: float) -> int:
        """How many levels, from the surest on, each add at least this many valid edges for the cost of an entry."""
        cost, gain = DEARER * np.diff(self.pairs, prepend=0), np.diff(self.held, prepend=0)
        poor = (gain == 0) | (gain < share * cost)
        return int(np.argmax(np.append(poor, True)))


def join_rules(
    choice: CandidateChoice,
    entities: int,
    relations: int,
    known: EdgeColumns,
    valid: EdgeColumns,
    asked: str | None = None,
) -> tuple[CandidateChoice, TwoStepPairs | None]:
    """What `join_two_step` says of the rules of the known edges, unless half-links alone or all pairs are scored."""
    wanted = asked != HALF_LINKS and not choice.sources.everything and len(valid[0])
    rules = two_step_rules(entities, relations, known) if wanted else None
    return (choice, None) if rules is None else join_two_step(choice, rules, known, valid)


def join_two_step(
    choice: CandidateChoice, rules: TwoStepRules, known: EdgeColumns, valid: EdgeColumns
) -> tuple[CandidateChoice, TwoStepPairs | None]:
    """The choice and the two-step pairs that join it: those that hold as many valid edges for their cost."""
    total = len(valid[0])
    if choice.sources.everything or not total:
        return choice, None
    counted = count_two_step(rules, known, valid, choice.sources)
    share = choice.held[str(choice.sources)]
    worth = counted.worth(share * total / choice.pairs)
    held = dict(choice.held)
    held |= {two_step_name(level): float(n) / total for level, n in zip(counted.levels, counted.held, strict=True)}
    if not worth:
        return replace(choice, held=held), None
    level = counted.levels[worth - 1]
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
    return TwoStepCounts(levels, pairs, beyond, held, held_beyond, bounds)
