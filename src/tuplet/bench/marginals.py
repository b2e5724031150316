"""Methods that rank each free variable on its own, in benchmark runs: from score vectors to rows.

Tuples are ranked over all of E^k by the product of one number in 0 … 1 for each variable; beside that come Marginal,
Multiply and Joint (`tuplet.bench.metrics`). With one free variable all of them are the plain ranking. Needs torch and
NumPy alone, so that it also runs where a model was trained.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuplet.bench.evaluate import Row, RunSettings, marginal_row, row
from tuplet.bench.metrics import product_ranks
from tuplet.bench.queries import BenchQuery
from tuplet.engines.registry import ENGINES, Elsewhere
from tuplet.errors import BudgetExceeded, Unsupported
from tuplet.query.source import Source

Vectors = NDArray[np.floating[Any]]  # [k, entities]


def marginal_rows(
    queries: Sequence[BenchQuery],
    scores: Sequence[Vectors],
    start: float,
    reach: int = 100,
    truth: Sequence[NDArray[np.float64]] | None = None,
) -> list[Row]:
    """The rows of queries that were answered together since `start` (of `time.perf_counter`), from their scores.

    `truth` are the scores as numbers that may be multiplied, if they are not that already. What has truth 0 was pruned:
    recall is the share of hard tuples that no member's marginal prunes.
    """
    factors = [list(vectors) for vectors in (scores if truth is None else truth)]
    ranks = [product_ranks(own, q.easy, q.hard, reach) for own, q in zip(factors, queries, strict=True)]
    ms = 1e3 * (time.perf_counter() - start) / len(queries)
    rows = []
    for q, found, vectors, own in zip(queries, ranks, scores, factors, strict=True):
        kept = np.stack([vector[q.hard[:, place]] > 0 for place, vector in enumerate(own)], axis=1)
        recall = {"recall": float(kept.all(axis=1).mean()), "recall_variable": float(kept.mean())}
        listed = min(int((vector > 0).sum()) for vector in own)
        rows.append(row(q, found, ms) | {"listed": listed} | recall | marginal_row(q, list(vectors)))
    return rows


def evaluate_marginally(queries: Sequence[BenchQuery], source: Source, settings: RunSettings) -> list[Row]:
    """The rows of a unit of a baseline; a query that is refused or too large counts as missed, with the reason."""
    from tuplet.engines.ns3.search import OutOfTime

    engine = ENGINES[settings.engine]
    assert isinstance(engine, Elsewhere)
    baseline, limits = engine.engine.baseline, settings.limits()
    asked = [q.clauses() for q in queries]
    start = time.perf_counter()
    try:
        for clause in asked[0]:  # one shape: all are refused or none
            baseline.refuse(clause)
        if limits.timeout is not None and len(queries) > 1:
            raise OutOfTime  # a time limit is one for each query
        scores = baseline.marginals_batch(asked, source, limits)
        return marginal_rows(queries, scores, start, settings.reach, [baseline.truth(s) for s in scores])
    except Unsupported as error:
        return [row(q, None, 0.0, str(error)) for q in queries]
    except (BudgetExceeded, MemoryError, OutOfTime) as error:
        if len(queries) == 1:
            why = f"the timeout of {limits.timeout:g} s" if isinstance(error, OutOfTime) else str(error)
            return [row(queries[0], None, 1e3 * (time.perf_counter() - start), why or "out of memory")]
    return [found for query in queries for found in evaluate_marginally([query], source, settings)]
