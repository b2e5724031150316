"""Whether an answer rests on stated facts alone, and what a reader needs to repeat it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet._version import __version__
from tuplet.query.engine import Engine
from tuplet.query.hints import hints
from tuplet.query.limits import Deadline, Limits
from tuplet.query.loose import judged
from tuplet.query.ranking import Clauses, Ranking
from tuplet.query.source import Source
from tuplet.query.witness import Witnesses

# Which given tuples are answers on the stated facts alone: 1 yes, 0 no, -1 where the time was up.
Judge: TypeAlias = Callable[[Clauses, Source, NDArray[np.int32], Deadline, int | None], NDArray[np.int8]]


def about(source: Source, engine: Engine[Any], limits: Limits, clauses: Clauses = ()) -> dict[str, Any]:
    """What a reader needs to repeat an answer: version, hashes, what made the truth, limits."""
    made: dict[str, Any] = {}
    if engine.needs_truth:
        calibration: Mapping[str, Any] = source.about.get("calibration") or {}
        # `tuplet info` tells the rest
        named = {"calibration": {"name": calibration["name"]}} if calibration else {}
        made = {"logic": limits.logic, **source.about, **named}
    return {
        "version": __version__,
        "graph": source.graph.hash,
        **({"generation": number} if (number := source.about.get("generation")) else {}),
        "observed": list(source.splits) if source.splits is not None else "all",
        **made,
        **{name: value for name, value in limits.given().items() if name not in ("k", "logic")},
        **({"hints": said} if (said := hints(clauses, source, engine.needs_truth)) else {}),
    }


def status(
    witnesses: Witnesses,
    ranking: Ranking,
    clauses: Clauses,
    source: Source,
    engine: Engine[Any],
    judge: Judge,
    memory: int | None,
    deadline: Deadline,
) -> tuple[NDArray[np.int8], str | None]:
    """Which tuples the facts alone give: 1 yes, 0 no, -1 not known because a limit came first; and what stopped it.

    A witness made of facts settles it at once; the others, whose best witness rests on a prediction although another
    one may not, are judged. Without existential variables there is no other one.
    """
    if not engine.needs_truth:
        return np.ones(len(ranking.tuples), dtype=np.int8), None
    crisp = witnesses.rest_on_facts().astype(np.int8)
    for clause, assigned in zip(clauses, ranking.assignments, strict=False):
        if not clause.edges:  # conditions alone, which are about what is stated
            crisp[(assigned >= 0).all(axis=1)] = 1
    if ranking.exact and all(len(c.free) == len(c.variables) for c in clauses):
        return crisp, None
    open_cases = (crisp == 0).nonzero()[0]
    if not len(open_cases):
        return crisp, None
    within = lambda part, where, tuples, until: judge(part, where, tuples, until, memory)  # noqa: E731
    crisp[open_cases] = judged(clauses, source, ranking.tuples[open_cases], within, deadline)
    if crisp.min() >= 0:
        return crisp, None
    return crisp, "timeout" if deadline.over() else "memory"
