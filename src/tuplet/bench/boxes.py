"""NS3 over units of benchmark queries: one batch for each unit, ranks from its boxes or from its marginals.

NS3(J) ranks the tuples of its joint box. NS3(M) ranks tuples by the product of their marginals over all of E^k; beside
that come Marginal, Multiply and Joint. What was pruned has truth 0 and is missed. Recall is the share of hard tuples
that were kept: in the box for NS3(J), by all of their members' marginals for NS3(M).
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from tuplet.bench.evaluate import Row, RunSettings, row
from tuplet.bench.marginals import marginal_rows
from tuplet.bench.metrics import CUTS, joint_ranks
from tuplet.bench.queries import BenchQuery
from tuplet.engines.ns3.box import Box
from tuplet.engines.ns3.run import marginal_vectors, solve_batch
from tuplet.engines.ns3.search import Search
from tuplet.engines.ns3.sparse import Table
from tuplet.errors import BudgetExceeded
from tuplet.query.logic import Logic
from tuplet.query.source import Source
from tuplet.truth.table import TruthTable


def tabulated(source: Source, engine: str) -> Table | None:
    """The truth values in torch, all of them; None if they are computed on demand."""
    truth = source.values(engine)
    return Table.of(truth) if isinstance(truth, TruthTable) else None


def evaluate_all(
    queries: Sequence[BenchQuery], source: Source, settings: RunSettings, table: Table | None = None
) -> list[Row]:
    """The rows of a unit; a unit that is too large is split, a query that is too large counts as missed."""
    if multiprocessing.parent_process() is not None:
        torch.set_num_threads(1)  # as many workers as processors share the work already
    if table is None:
        asked = {edge.relation for q in queries for clause in q.clauses() for edge in clause.edges}
        table = Table.of(source.values(settings.engine), asked)
    work = _joint if settings.engine == "ns3" else _marginal
    start = time.perf_counter()
    try:
        return work(queries, table, settings)
    except (BudgetExceeded, MemoryError) as error:
        if len(queries) == 1:
            ms = 1e3 * (time.perf_counter() - start)
            return [row(queries[0], None, ms, str(error) or "out of memory")]
    return [found for query in queries for found in evaluate_all([query], source, settings, table)]


def _joint(queries: Sequence[BenchQuery], table: Table, settings: RunSettings) -> list[Row]:
    cut = max(CUTS)
    start = time.perf_counter()
    # Adaptive budgets grow until as many are proven as the filtered HIT@10 may need.
    needed = cut + max(len(q.easy) + len(q.hard) for q in queries)
    box = solve_batch([q.clauses() for q in queries], table, needed, settings.budget(), settings.logic)
    order = box.order().cpu().numpy()
    query, tuples, value = _arrays(box)
    ends = np.searchsorted(query[order], np.arange(len(queries) + 1))
    lists = [order[ends[i] : ends[i + 1]] for i in range(len(queries))]
    ranks = [
        joint_ranks(tuples[listed], value[listed], q.easy, q.hard, complete=True)
        for q, listed in zip(queries, lists, strict=True)
    ]
    ms = 1e3 * (time.perf_counter() - start) / len(queries)
    shown = torch.zeros(len(value), dtype=torch.bool, device=box.value.device)
    for listed in lists:
        shown[torch.as_tensor(listed[:cut], device=shown.device)] = True
    certain = box.certify(shown, cut)[0].cpu().numpy()
    by_query = np.argsort(query, kind="stable")
    parts = np.split(by_query, np.searchsorted(query[by_query], np.arange(1, len(queries))))
    return [
        row(q, found, ms)
        | {"exact": bool(certain[i]), "listed": len(lists[i]), "recall": _share(tuples[parts[i]], q.hard)}
        for i, (q, found) in enumerate(zip(queries, ranks, strict=True))
    ]


def _arrays(box: Box) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    tuples = torch.stack(tuple(box.rows.columns), 1)
    return box.rows.query.cpu().numpy(), tuples.cpu().numpy(), box.value.double().cpu().numpy()


def _share(kept: NDArray[np.int64], hard: NDArray[np.int32]) -> float:
    """The share of hard tuples that are among those kept."""
    _, number = np.unique(np.concatenate([kept, hard]), axis=0, return_inverse=True)
    number = number.reshape(-1)
    return float(np.isin(number[len(kept) :], number[: len(kept)]).mean())


def _marginal(queries: Sequence[BenchQuery], table: Table, settings: RunSettings) -> list[Row]:
    start = time.perf_counter()
    scores = marginal_scores(queries, table, settings)
    return marginal_rows(queries, scores, start, settings.reach)


def marginal_scores(queries: Sequence[BenchQuery], table: Table, settings: RunSettings) -> list[NDArray[np.float64]]:
    """The truth of every entity for each free variable, the others existential; 0 outside of the budget."""
    budget = settings.budget()
    search = Search(table, Logic.of(settings.logic), budget.enumerate, budget.normalise)
    return marginal_vectors([q.clauses() for q in queries], search, budget)
