"""What is promised of a list of answers, and on what ground."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tuplet.errors import Argument, BadInput
from tuplet.query.engine import Engine
from tuplet.query.limits import Deadline, Limits
from tuplet.query.ranking import Clauses, Ranking, query_family, query_shape
from tuplet.query.schema import Guarantee
from tuplet.query.witness import Witnesses
from tuplet.truth.guarantees import Guarantees, fewest

if TYPE_CHECKING:
    from tuplet.query.ask import Question

Floats = NDArray[np.float64]
SCALE = 100  # the best tuples of a query whose truth is the measure of the others
FIRST = 128  # tuples that a search for a level of truth begins with


def find_guaranteed(
    question: Question, engine: Engine[Any], limits: Limits, deadline: Deadline
) -> tuple[Ranking, Guarantee]:
    """The best tuples beyond the facts, as many as the promise needs, and what is promised of them."""
    name = "confidence" if limits.confidence is not None else "max_false"
    if not question.plain:
        raise BadInput(Argument(name), " is for queries that ask for tuples of entities, not for values or counts")
    if not engine.exact or engine.prunes or not engine.needs_truth:
        raise BadInput(Argument(name), f" needs the order proven: ask engine 'exact', not {engine.name!r}")
    if limits.offset:
        raise BadInput(
            Argument(name), " is a promise about a list from its first tuple on; leave out ", Argument("offset")
        )
    search = _Search(question, engine, limits, deadline)
    if limits.confidence is not None:
        return search.confident(limits.confidence)
    assert limits.max_false is not None
    return search.mostly_right(limits.max_false)


def measure(truth: Floats) -> float:
    """What the truth of a tuple is divided by, of the tuples of a query in order: the truth of the best ones together.

    >>> measure(np.array([0.5, 0.25])), measure(np.zeros(0))
    (0.75, 1.0)
    """
    return float(truth[:SCALE].sum()) or 1.0


def within(share: float, truth: Floats) -> int:
    """The longest beginning of a list of which at most a share is wrong: truth says how likely each tuple is right.

    >>> within(0.25, np.array([0.7, 0.9, 0.6, 0.8])), within(0.25, np.array([0.7])), within(0.25, np.zeros(0))
    (4, 0, 0)
    """
    kept = np.flatnonzero(np.cumsum(1 - truth) <= share * np.arange(1, len(truth) + 1) + 1e-12)
    return int(kept[-1]) + 1 if len(kept) else 0


def at_least(level: float, scale: float) -> Callable[[Floats], int]:
    """How many of the best tuples score at least so much: their truth in the measure of the query."""
    return lambda truth: int(np.count_nonzero(truth / scale >= level))


@dataclass(frozen=True)
class _Search:
    """The exact order of a question, beginning with its best tuple."""

    question: Question
    engine: Engine[Any]
    limits: Limits
    deadline: Deadline

    def first(self, count: int) -> Ranking:
        """The best tuples of the question."""
        limits = replace(self.limits, k=count, offset=0)
        return self.question.readings[0].rank(self.question.source, self.engine, limits, self.deadline)

    def beginning(self, kept: Callable[[Floats], int]) -> tuple[Ranking, bool]:
        """The tuples that `kept` keeps, as far as the limits allow, and whether that is all of them."""
        size, most = FIRST, self.limits.count(1 << 62)
        while True:
            ranking = self.first(min(size, most))
            listed = len(ranking.tuples)
            number = kept(ranking.truth)
            ended = listed < min(size, most) or ranking.bound == 0
            if number < listed or ended or size >= most or ranking.pruned is not None:
                break
            size *= 4
        complete = ranking.exact and (number < listed or (ended and ranking.pruned is None))
        return ranking.first(number), complete

    def mostly_right(self, share: float) -> tuple[Ranking, Guarantee]:
        """The list of which at most this share is wrong: as held-out facts bear out, or by truth alone."""
        ranking, complete = self.beginning(lambda truth: within(share, truth))
        borne_out = self.question.source.borne_out
        if borne_out is None:
            return ranking, Guarantee("max_false", share, complete)
        # No tuple has more borne out than its truth, so the list by truth holds the one that is promised.
        least = Witnesses.from_ranking(ranking, self.question.clauses, self.question.source).least_truth(borne_out)
        number, smallest = within(share, least), 1 - borne_out.surest
        promised = bool(number) or smallest <= share
        told = Guarantee("max_false", share, complete, ground="facts", promised=promised)
        return ranking.first(number), replace(told, facts=borne_out.facts, least=round(smallest, 6))

    def confident(self, confidence: float) -> tuple[Ranking, Guarantee]:
        """The set that holds a true tuple with this probability."""
        held = self.question.source.guarantees
        if held is None:
            raise BadInput(
                Argument("confidence"),
                " needs queries that were held out from this store: ",
                "tuplet bench sample, then tuplet guarantee STORE QUERIES",
            )
        if not self.question.clauses:  # nothing can be true
            return self.first(0), Guarantee("confidence", confidence, complete=True)
        level, ground = _level(held, self.question.clauses, confidence)
        if level is None:
            why = f"too few held-out answers of {ground.shape} have any truth"
            raise BadInput(Argument("confidence"), f" {confidence:g} has no ground for this query: {why}")
        best = self.first(SCALE)
        ranking, complete = self.beginning(at_least(level, measure(best.truth)))
        complete = complete and best.exact
        promised = complete and ground.ground == "shape" and not ground.everything
        return ranking, replace(ground, complete=complete, promised=promised)


def _level(held: Guarantees, clauses: Clauses, confidence: float) -> tuple[float | None, Guarantee]:
    """From which score on tuples are in the set, and the promise of a set that is not there yet.

    None: too few held-out answers are in reach to tell.
    """
    shape, family = query_shape(clauses), query_family(clauses)
    own = held.shapes.get(shape or "")
    ground: Literal["shape", "family"] = "shape"
    shapes = [own] if own is not None and own.queries >= fewest(confidence) else []
    if not shapes:
        ground, shapes = "family", [one for one in held.family(family) if one.queries >= fewest(confidence)]
    if not shapes:
        known = ", ".join(one.name for one in held.shapes.values())
        raise BadInput(
            Argument("confidence"),
            f" {confidence:g} has no ground for this query ({family}): ",
            f"at least {fewest(confidence)} queries of its shape must be held out; there are those of {known}",
        )
    levels = [(one.level(confidence) or 0.0, one) for one in shapes]
    lowest, least = min(levels, key=lambda pair: pair[0])
    everything = not lowest
    if everything:  # then the level is that of the true tuples that the table reaches
        lowest = min(one.drop_unreached().level(confidence) or 0.0 for one in shapes)
    promise = Guarantee("confidence", confidence, False, everything, ground, least.name, least.queries)
    return lowest or None, replace(promise, reach=round(least.reach, 4))
