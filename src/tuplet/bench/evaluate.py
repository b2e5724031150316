"""One query or one unit of queries: what an engine finds, as a row of numbers."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from resource import RUSAGE_SELF, getrusage
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.bench.metrics import CUTS, NAMES, Ranks, from_marginals, joint_ranks
from tuplet.bench.queries import BenchQuery
from tuplet.engines.registry import BASELINES, check_options, engine_named
from tuplet.errors import BadInput, BudgetExceeded, nearest
from tuplet.query.limits import Limits
from tuplet.query.logic import Logic
from tuplet.query.ranking import Ranking
from tuplet.query.source import Source

if TYPE_CHECKING:
    from tuplet.engines.ns3.budget import Budget
    from tuplet.engines.ns3.sparse import Table

Row: TypeAlias = dict[str, Any]
KINDS = ("marginal", "multiply", "joint")
BATCHED = ("ns3", "ns3-marginal")  # engines that take a budget, prune, and answer many queries of one shape at once
_TOPOLOGY = {"tree": "0S", "multi-edge": "1M", "cyclic": "2C"}


@dataclass(frozen=True)
class RunSettings:
    """What decides the numbers of a run."""

    engine: str = "exact"
    logic: str = "product"
    timeout: float | None = None  # seconds for one query
    reach: int = 100  # non-answers listed at least; ranks beyond count 0 in MRR (an error below 1/reach)
    most: int = 100_000  # tuples listed at most, when ties at the end of the list are followed
    marginals: bool = False  # also rank each free variable on its own, for Marginal, Multiply and Joint
    options: Mapping[str, Any] = field(default_factory=dict)  # `budget`, `merge`; fields of `Limits`; of a baseline

    @property
    def batched(self) -> bool:
        """Whether units are answered at once; a time limit is one for each query."""
        return self.engine in BATCHED and self.timeout is None

    def check(self) -> None:
        """Refuse what cannot be run, before anything is."""
        if self.engine in BATCHED:
            self.budget()
        if self.engine in BASELINES:
            check_options(self.engine, self.options)
        if not self.batched:
            engine_named(self.engine)
            self.limits()
        Logic.of(self.logic)

    def budget(self) -> Budget:
        """How much NS3 may search; `budget` is B or "all"."""
        from tuplet.engines.ns3.budget import Budget

        _known(self.options, ("budget", "merge"))
        given, merge = self.options.get("budget", 4000), self.options.get("merge", "progressive")
        if given == "all":
            return replace(Budget.all(), merge=merge)
        if not isinstance(given, int):
            raise BadInput(f"the budget is a whole number or 'all', not {given!r}")
        return Budget(B=given, merge=merge)

    def limits(self) -> Limits:
        """What an engine is given; an option that it does not know is refused."""
        options = dict(self.options)
        if self.engine in BATCHED:
            options = {"budget": self.budget()}
        elif self.engine in BASELINES:
            options = {"options": options}
        else:
            _known(options, {f.name for f in fields(Limits)} - {"k", "logic", "timeout", "budget", "options"})
        return Limits(logic=Logic.of(self.logic), timeout=self.timeout, **options)


def _known(options: Mapping[str, Any], known: Sequence[str] | set[str]) -> None:
    for key in options:
        if key not in known:
            close = nearest(key, known, 1)
            raise BadInput(f"unknown engine option {key!r}" + (f"; did you mean {close[0]!r}?" if close else ""))


class Opened:
    """A store opened once, for many units: what an engine makes of it is kept."""

    def __init__(self, source: Source, settings: RunSettings) -> None:
        self.source, self.settings = source, settings

    @cached_property
    def table(self) -> Table | None:
        from tuplet.bench.boxes import tabulated

        return tabulated(self.source, self.settings.engine)

    def evaluate(self, queries: Sequence[BenchQuery]) -> list[Row]:
        """The rows of some queries of one shape, all at once where the engine can."""
        if self.settings.batched:
            from tuplet.bench.boxes import evaluate_all

            rows = evaluate_all(queries, self.source, self.settings, self.table)
        elif self.settings.engine in BASELINES:
            from tuplet.bench.marginals import evaluate_marginally

            rows = evaluate_marginally(queries, self.source, self.settings)
        else:
            rows = [evaluate(query, self.source, self.settings) for query in queries]
        # The largest memory this process has held, in MB; ru_maxrss counts KiB on Linux and bytes on macOS.
        peak = getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6
        return [found | {"peak_mb": peak} for found in rows]

    def warm(self) -> None:
        """Load what is compiled by answering one small query, so that times are those of the search."""
        (head,), (relation,), _ = (part[:1].tolist() for part in self.source.graph.edges())
        nothing, any_ = np.empty((0, 1), dtype=np.int32), np.zeros((1, 1), dtype=np.int32)
        self.evaluate([BenchQuery("1p", "r1(s1,f1)", {"r1": 2 * relation, "s1": head}, nothing, any_)])


def evaluate(query: BenchQuery, source: Source, settings: RunSettings) -> Row:
    """One query: the metrics of its hard tuples, and what the engine said of its list.

    The list is as long as `reach` and the answers need. If it ends among ties that could decide HIT@10, it is asked
    for again, four times as long. A query that the engine refuses counts as missed, with the reason. Hard tuples are
    scored one by one; not by methods that prune: there the list alone counts.
    """
    engine, limits = engine_named(settings.engine), settings.limits()
    clauses = query.clauses()
    wanted = settings.reach + len(query.easy) + len(query.hard)
    start = time.perf_counter()
    ranking, points, ranks = None, None, None
    failed: str | None = None
    try:
        if settings.engine not in BATCHED:
            points = engine.score(clauses, source, query.hard, limits)
        while True:
            ranking = engine.run(clauses, source, replace(limits, k=wanted))
            ranks = judge(query, ranking, wanted, points)
            if ranks.decided(max(CUTS)).all() or ranking.pruned is not None or wanted >= settings.most:
                break
            wanted = min(4 * wanted, settings.most)
    except (BudgetExceeded, MemoryError) as error:
        ranking, ranks, failed = None, None, str(error) or "out of memory"
    found = row(query, ranks, 1e3 * (time.perf_counter() - start), failed)
    if ranking is not None:
        found |= {"exact": ranking.exact, "pruned": ranking.pruned, "listed": len(ranking.tuples)}
    return found | marginal_metrics(query, source, settings) if settings.marginals else found


def marginal_metrics(query: BenchQuery, source: Source, settings: RunSettings) -> Row:
    """The metrics made from one ranking for each free variable, the others existential; none if the engine refuses."""
    engine, limits = engine_named(settings.engine), replace(settings.limits(), k=len(source.graph.entities))
    scores = []
    try:
        for variable in range(query.k):
            asked = [clause.marginal([variable]) for clause in query.clauses()]
            ranking = engine.run(asked, source, limits)
            scores.append(np.zeros(len(source.graph.entities)))
            scores[-1][ranking.tuples[:, 0]] = ranking.truth
    except (BudgetExceeded, MemoryError):
        return {}
    return marginal_row(query, scores)


def marginal_row(query: BenchQuery, scores: Sequence[NDArray[np.float64]]) -> Row:
    """Marginal, Multiply and Joint of one score vector [entities] for each free variable, as they are written."""
    found = from_marginals(scores, query.easy, query.hard)
    named = {"marginal": found.marginal or {}, "multiply": found.multiply, "joint": found.joint}
    values = {f"{kind}_{name}": value for kind, metrics in named.items() for name, value in metrics.items()}
    return {**values, "hard_variables": found.hard_variables}


def judge(query: BenchQuery, ranking: Ranking, wanted: int, points: NDArray[np.float64] | None) -> Ranks:
    """The ranks of the hard tuples in an engine's list of at most `wanted` tuples.

    A list that is shorter is all there is: of a search that was not stopped, or of a method that prunes (no points).
    """
    short = len(ranking.tuples) < wanted and (ranking.pruned is None or points is None)
    return joint_ranks(ranking.tuples, ranking.truth, query.easy, query.hard, points, short or ranking.bound == 0)


def row(query: BenchQuery, ranks: Ranks | None, ms: float, failed: str | None = None) -> Row:
    """The result of one query, as it is written; without ranks it is missed, for the reason given."""
    return {
        "shape": query.shape,
        "index": query.index,
        "k": query.k,
        "e": max(len(clause.existential) for clause in query.clauses()),
        "topology": max(_TOPOLOGY[clause.shape()] for clause in query.clauses())[1:],
        "easy": len(query.easy),
        "hard": len(query.hard),
        **(ranks.values() if ranks is not None else dict.fromkeys(NAMES, 0.0)),
        "answered": ranks is not None,
        "exact": False,
        "pruned": failed,
        "decided": float(np.mean(ranks.decided(max(CUTS)))) if ranks is not None else 0.0,
        "listed": 0,
        "ms": ms,
    }


def schema() -> Any:
    """The columns of a part."""
    import pyarrow as pa

    whole, number = pa.int32(), pa.float64()
    columns = {"shape": pa.string(), "index": whole, "k": whole, "e": whole, "topology": pa.string()}
    columns |= {"easy": whole, "hard": whole}
    columns |= dict.fromkeys(NAMES, number)
    columns |= {"answered": pa.bool_(), "exact": pa.bool_(), "pruned": pa.string(), "decided": number}
    columns |= {"listed": pa.int64(), "ms": number, "peak_mb": number}
    columns |= {"recall": number, "recall_variable": number}  # of methods that prune
    columns |= {f"{kind}_{name}": number for kind in KINDS for name in NAMES}  # empty unless asked for
    return pa.schema(columns | {"hard_variables": whole})
