"""Grounded queries with easy and hard answers, by the rules written down in docs/benchmark/index.md.

Every query has its own random stream, seeded by (seed, formula, number): the result does not depend on the number of
workers, and the first 100 of 500 queries are the same as 100 queries.
"""

from __future__ import annotations

import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import groupby, pairwise, permutations, zip_longest
from pathlib import Path
from typing import TypeAlias

from tuplet.errors import BadInput, BudgetExceeded
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lab.bench.grounding import GroundedQuery, Rules, Sampler
from tuplet.lab.bench.hardness import STRATA, largest_stratum
from tuplet.lab.bench.queries import BenchQuery, QuerySet, bound, efok_text
from tuplet.lab.bench.query_types import QueryType
from tuplet.lab.bench.shapes import AbstractClauses, QueryShape, Role, shape, symbols
from tuplet.lab.bench.workers import worker_processes
from tuplet.query.ranking import QueryGraph
from tuplet.truth.cluster import Folder, arrived, ship

Report: TypeAlias = Callable[[float, float], None]
RULES_VERSION = 1
BALANCED_VERSION = 2  # the same, and a stratum for each query
BLOCK = 20  # numbers in one unit of work


@dataclass
class _ShapeProgress:
    """The numbers of one shape used so far, and the queries found; of one of its strata, if they are balanced."""

    shape: QueryShape
    formula: str
    stratum: int | None = None
    used: int = 0
    found: list[BenchQuery] = field(default_factory=list)
    keys: set[object] = field(default_factory=set)
    rejected: Counter[str] = field(default_factory=Counter)

    def take(self, index: int, grounded: GroundedQuery | None, rejected: Counter[str]) -> None:
        self.used = index + 1
        self.rejected += rejected
        if grounded is None:
            self.rejected["number left empty"] += 1
            return
        key = _identity(bound(self.shape.clauses, grounded.grounding))
        if key in self.keys:
            self.rejected["query occurred before"] += 1
            return
        self.keys.add(key)
        order = (symbol for role in (Role.RELATION, Role.CONSTANT) for symbol in symbols(self.shape.clauses, role))
        grounding = {str(symbol): grounded.grounding[symbol] for symbol in order}
        self.found.append(
            BenchQuery(
                self.shape.name,
                self.formula,
                grounding,
                grounded.easy,
                grounded.hard,
                index if self.stratum is None else index * STRATA + self.stratum - 1,
                grounded.meaningful,
                grounded.links,
                grounded.asked,
            )
        )

    @property
    def name(self) -> str:
        """The shape, and the stratum."""
        return self.shape.name if self.stratum is None else f"{self.shape.name} links={self.stratum}"

    def next(self, wanted: int, rules: Rules) -> range:
        """The numbers to be tried next; none if the shape is full or given up."""
        missing = wanted - len(self.found)
        if missing <= 0 or (self.used >= rules.first and not self.found):
            return range(0)
        last = int(rules.spare * wanted) + rules.first
        size = min(rules.first, wanted) if not self.used else missing
        return range(self.used, min(self.used + size, last))


def _identity(graphs: Sequence[QueryGraph]) -> object:
    """The same for queries that differ only in the names of constants and existential variables."""
    clauses = []
    for graph in graphs:
        inner = graph.existential
        names = permutations(inner) if len(inner) <= 4 else iter([inner])
        forms = []
        for order in names:
            number = dict(zip(inner, order, strict=True))
            edges = (
                (number.get(e.head, e.head), e.relation, number.get(e.tail, e.tail), e.negated) for e in graph.edges
            )
            forms.append(tuple(sorted(edges)))
        clauses.append(min(forms))
    return tuple(sorted(clauses))


def sample(
    graph: KnowledgeGraph,
    shapes: Sequence[str | QueryShape | QueryType],
    per_shape: int,
    seed: int = 0,
    *,
    known: Sequence[str] = ("train", "valid"),
    target: Sequence[str] = ("test",),
    rules: Rules | None = None,
    balance: bool = False,
    workers: int = 1,
    executor: Executor | None = None,
    progress: Report | None = None,
) -> QuerySet:
    """`per_shape` queries of each shape. `meta["shortage"]` names the shapes that could not be filled, with reasons.

    With `balance` it is `per_shape` queries of each stratum of each shape: one hard answer of each query is scored, and
    the strata take turns. `workers` processes share the work, or those of an `executor`; the result is the same.
    `progress` is called with the queries finished and asked for.
    """
    rules = rules or Rules()
    resolved = [_resolve(given) for given in shapes]
    repeated = [name for name, count in Counter(s.name for s in resolved).items() if count > 1]
    if repeated:
        raise BadInput(f"shape {repeated[0]!r} is listed twice")
    if per_shape < 1:
        raise BadInput(f"the number of queries per shape has to be at least 1, not {per_shape}")
    states = [
        _ShapeProgress(s, efok_text(s.clauses), stratum)
        for s in resolved
        for stratum in (range(1, largest_stratum(s.clauses) + 1) if balance else [None])
    ]
    sampler = Sampler.of(graph, known, target, rules)
    with _SamplingPool(graph, sampler, known, target, rules, workers, executor) as pool:
        while True:
            ranges = [state.next(per_shape, rules) for state in states]
            units = [(number, block) for number, span in enumerate(ranges) for block in _blocks(span)]
            if not units:
                break
            tasks = [
                (states[number].shape.clauses, states[number].formula, states[number].stratum, seed, block)
                for number, block in units
            ]
            for (number, block), results in zip(units, pool.run(tasks), strict=True):
                for index, result in zip(block, results, strict=True):
                    states[number].take(index, *result)
                if progress is not None:
                    progress(sum(min(len(s.found), per_shape) for s in states), per_shape * len(states))
    return QuerySet(
        tuple(query for own in _by_shape(states) for query in _in_turn([s.found[:per_shape] for s in own])),
        {
            "rules_version": BALANCED_VERSION if balance else RULES_VERSION,
            **({"balance": "predicted"} if balance else {}),
            "rules": asdict(rules),
            "seed": seed,
            "per_shape": per_shape,
            "graph": graph.hash,
            "known": list(known),
            "target": list(target),
            "shortage": {
                s.name: {"found": len(s.found), "numbers": s.used, "rejected": dict(s.rejected.most_common())}
                for s in states
                if len(s.found) < per_shape
            },
            "not_meaningful": {
                s.name: count for s in states if (count := sum(not q.meaningful for q in s.found[:per_shape]))
            },
        },
    )


def _resolve(given: str | QueryShape | QueryType) -> QueryShape:
    if isinstance(given, str):
        return shape(given)
    return given.shape if isinstance(given, QueryType) else given


def _by_shape(states: Sequence[_ShapeProgress]) -> list[list[_ShapeProgress]]:
    return [list(own) for _, own in groupby(states, key=lambda state: state.shape.name)]


def _in_turn(lists: Sequence[Sequence[BenchQuery]]) -> Iterator[BenchQuery]:
    """One of each list, then the next of each: so the first queries of a shape are balanced too."""
    return (query for turn in zip_longest(*lists) for query in turn if query is not None)


def _blocks(numbers: range) -> list[range]:
    cuts = [*range(numbers.start, numbers.stop, BLOCK), numbers.stop]
    return [range(a, b) for a, b in pairwise(cuts)]


_Task: TypeAlias = tuple[AbstractClauses, str, int | None, int, range]
_Job: TypeAlias = tuple[Folder, tuple[str, ...], tuple[str, ...], Rules, _Task]  # graph directory, known, target, …
_Results: TypeAlias = list[tuple[GroundedQuery | None, "Counter[str]"]]


def _unit(sampler: Sampler, task: _Task) -> _Results:
    clauses, formula, stratum, seed, numbers = task
    stream = (seed, zlib.crc32(formula.encode()), *(() if stratum is None else (stratum,)))
    return [sampler.query(clauses, (*stream, index), stratum) for index in numbers]


class _SamplingPool:
    """Runs units here, or in worker processes that map the graph from a directory."""

    def __init__(
        self,
        graph: KnowledgeGraph,
        sampler: Sampler,
        known: Sequence[str],
        target: Sequence[str],
        rules: Rules,
        workers: int,
        executor: Executor | None,
    ) -> None:
        self.sampler, self.settings = sampler, (tuple(known), tuple(target), rules)
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.given, self.pool = executor is not None, executor
        if executor is None and workers > 1:
            self.pool = worker_processes(workers)
        if self.pool is not None:
            self.folder = tempfile.TemporaryDirectory()
            path = Path(self.folder.name) / "graph"
            graph.save(path)
            self.graph = ship(self.pool, path)

    def __enter__(self) -> _SamplingPool:
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool is not None and not self.given:
            self.pool.shutdown(cancel_futures=True)
        if self.folder is not None:
            self.folder.cleanup()

    def run(self, tasks: Sequence[_Task]) -> Iterator[_Results]:
        if self.pool is None:
            return (_unit(self.sampler, task) for task in tasks)
        return self._mapped(self.pool, [(self.graph, *self.settings, task) for task in tasks])

    def _mapped(self, pool: Executor, jobs: Sequence[_Job]) -> Iterator[_Results]:
        try:
            yield from pool.map(_remote, jobs)
        except BrokenExecutor:
            raise BudgetExceeded("a worker process died, perhaps for lack of memory") from None


def _remote(job: _Job) -> _Results:
    graph, known, target, rules, task = job
    return _unit(_opened(arrived(graph), known, target, rules), task)


@cache
def _opened(path: str, known: tuple[str, ...], target: tuple[str, ...], rules: Rules) -> Sampler:
    return Sampler.of(KnowledgeGraph.open(path), known, target, rules)
