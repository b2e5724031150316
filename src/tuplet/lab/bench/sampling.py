"""Grounded queries with easy and hard answers, by the rules written down in docs/benchmark/index.md.

Every query has its own random stream, seeded by (seed, formula, number): the result does not depend on the number of
workers, and the first 100 of 500 queries are the same as 100 queries.
"""

from __future__ import annotations

import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from itertools import groupby, permutations, zip_longest
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.engines import crisp
from tuplet.errors import BadInput
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.graph import KnowledgeGraph
from tuplet.graph.walks import Random, Walker
from tuplet.lab.bench.hardness import STRATA, largest_stratum, predicted_atoms, predicted_links, strata
from tuplet.lab.bench.metrics import tuple_keys
from tuplet.lab.bench.queries import BenchQuery, QuerySet, Tuples
from tuplet.lab.bench.run import worker_pool
from tuplet.lab.bench.shapes import (
    AbstractClauses,
    AbstractEdge,
    QueryShape,
    Role,
    Symbol,
    ground_clauses,
    shape,
    symbols,
)
from tuplet.query.ranking import QueryGraph
from tuplet.truth.cluster import Folder, fetch_folder, ship

Report: TypeAlias = Callable[[float, float], None]
RULES_VERSION = 1
BALANCED_VERSION = 2  # the same, and a stratum for each query
BLOCK = 20  # numbers in one unit of work


# --- one query: the walk, the relations, the negations (rules 2 to 5 of docs/benchmark) ------------------------------

Grounding: TypeAlias = dict[Symbol, int]


@dataclass(frozen=True)
class Rules:
    """The numbers in the sampling rules."""

    hard: int = 100  # hard answers, times k
    values: int = 300  # values of a free variable
    answers: int = 1000  # answers without the negated atoms, times k
    tries: int = 200  # walks for one query
    negations: int = 10  # relations tried for a negated atom
    first: int = 20  # a shape is given up if all of the first numbers stay empty
    spare: float = 2.0  # numbers used at most, in multiples of the queries asked for


_Found: TypeAlias = list[tuple[BenchQuery | None, "Counter[str]"]]


@dataclass(frozen=True)
class Sampler:
    known: Adjacency
    full: Adjacency
    target: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
    walker: Walker
    hidden: Walker  # walks on target edges alone
    rules: Rules

    @staticmethod
    def from_graph(graph: KnowledgeGraph, known: Sequence[str], target: Sequence[str], rules: Rules) -> Sampler:
        shared = set(known) & set(target)
        if shared:
            raise BadInput(f"split {sorted(shared)[0]!r} cannot be known and target at once")
        if not target or not len(graph.edges(*target)[0]):
            raise BadInput(
                f"the target split {','.join(target)!r} has no edges, so no query has hard answers; "
                "tuplet import FACTS --valid HELD_OUT -o GRAPH makes a graph with facts held out"
            )
        full = graph.observed([*known, *target])
        hidden = Walker(graph.observed(target))
        return Sampler(graph.observed(known), full, graph.edges(*target), Walker(full), hidden, rules)

    def block(self, shape: QueryShape, stratum: int | None, seed: int, numbers: range) -> _Found:
        """A query for each number, and why walks were rejected; with a stratum, it asks for an answer in that."""
        stream = (seed, zlib.crc32(shape.formula.encode()), *(() if stratum is None else (stratum,)))
        return [self._query(shape, np.random.default_rng((*stream, number)), stratum) for number in numbers]

    def _query(self, shape: QueryShape, rng: Random, stratum: int | None) -> tuple[BenchQuery | None, Counter[str]]:
        rejected: Counter[str] = Counter()
        spare: BenchQuery | None = None
        for _ in range(self.rules.tries):
            found = self._try(shape, rng, stratum)
            if not isinstance(found, str):
                found = self._count_links(shape.clauses, found, rng, stratum)
            if isinstance(found, str):
                rejected[found] += 1
            elif found.meaningful:
                return found, rejected
            else:
                rejected["negation changes nothing"] += 1
                spare = spare or found
        return spare, rejected

    def _count_links(
        self, clauses: AbstractClauses, found: BenchQuery, rng: Random, stratum: int | None
    ) -> BenchQuery | str:
        """The query with the links of its hard answers; with a stratum, one answer in it is drawn."""
        links = predicted_links(ground_clauses(clauses, found.grounding), self.known, self.full, found.hard)
        if stratum is None:
            return replace(found, links=links)
        inside = np.flatnonzero(strata(links) == stratum)
        if not len(inside):
            return "no answer in the stratum"
        return replace(found, links=links, asked=int(inside[rng.integers(len(inside))]))

    def _try(self, shape: QueryShape, rng: Random, stratum: int | None) -> BenchQuery | str:
        """A query from one walk, or the reason why there is none."""
        clauses = shape.clauses
        walked = self._walk(clauses, rng, stratum)
        if walked is None:
            return "walk got stuck"
        placed, grounding = walked
        positive = _without(clauses, {e.relation for clause in clauses for e in clause if e.negated})
        k = len(shape.free)
        graphs = ground_clauses(positive, grounding)
        answers = _answers(graphs, self.full, self.rules.answers * k)
        if answers is None:
            return "too many answers"
        if max(len(np.unique(column)) for column in answers.T) > self.rules.values:
            return "too many values of a variable"
        negated = list(dict.fromkeys(e for clause in clauses for e in clause if e.negated))
        if not negated:
            return self._judge(shape, grounding, answers, meaningful=True)
        return self._negate(shape, negated, placed, grounding, answers, rng)

    def _walk(
        self, clauses: AbstractClauses, rng: Random, stratum: int | None
    ) -> tuple[dict[Symbol, int], Grounding] | None:
        """Rules 2 and 3: entities of the terms, relations of the positive atoms."""
        atoms = list(dict.fromkeys(e for clause in clauses for e in clause))
        positive = [e for e in atoms if not e.negated]
        joined = {frozenset(e.ends) for e in positive}
        reached = {n for pair in joined for n in pair}
        as_if = [e for e in atoms if e.negated and {*e.ends} <= reached and frozenset(e.ends) not in joined]
        choices = () if stratum is None else predicted_atoms(clauses, stratum)
        predicted = choices[int(rng.integers(len(choices)))] if choices else ()
        anchors = predicted or positive
        anchor = anchors[int(rng.integers(len(anchors)))]
        number = int(rng.integers(len(self.target[0])))
        head, relation, tail = (int(part[number]) for part in self.target)
        backwards = int(rng.integers(2))
        ends = (tail, head) if backwards else (head, tail)
        if anchor.head == anchor.tail and head != tail:
            return None
        start = dict(zip(anchor.ends, ends, strict=True))
        among = (self.hidden, [e.ends for e in predicted])
        placed = self.walker.place([e.ends for e in (*positive, *as_if)], rng, start, among)
        if placed is None:
            return None
        grounding = {anchor.relation: 2 * relation + backwards}
        for edge in sorted(positive, key=lambda e: e not in predicted):
            if edge.relation in grounding:
                continue
            taken = [grounding[e.relation] for e in positive if e.ends == edge.ends and e.relation in grounding]
            walker = self.hidden if edge in predicted else self.walker
            choice = walker.between(placed[edge.head], placed[edge.tail])
            choice = choice[~np.isin(choice, taken)]
            if not len(choice):
                return None
            grounding[edge.relation] = int(choice[rng.integers(len(choice))])
        return placed, grounding | {n: entity for n, entity in placed.items() if n.role is Role.CONSTANT}

    def _judge(self, shape: QueryShape, grounding: Grounding, answers: Tuples, meaningful: bool) -> BenchQuery | str:
        """Rule 4 for the hard answers; `answers` are those on the full graph."""
        graphs = ground_clauses(shape.clauses, grounding)
        easy = _answers(graphs, self.known, None)
        assert easy is not None
        keys, known = tuple_keys(answers, easy)
        hard = answers[~np.isin(keys, known)]
        if not len(hard):
            return "no hard answer"
        if len(hard) > self.rules.hard * len(shape.free):
            return "too many hard answers"
        easy, hard = (part[np.lexsort(part.T[::-1])] for part in (easy, hard))
        order = (symbol for role in (Role.RELATION, Role.CONSTANT) for symbol in symbols(shape.clauses, role))
        named = {str(symbol): grounding[symbol] for symbol in order}
        return BenchQuery(shape.name, shape.formula, named, easy, hard, meaningful=meaningful)

    def _negate(
        self,
        shape: QueryShape,
        negated: Sequence[AbstractEdge],
        placed: Mapping[Symbol, int],
        grounding: Grounding,
        answers: Tuples,
        rng: Random,
    ) -> BenchQuery | str:
        """Rule 5: relations (and constants) for the negated atoms, one atom after the other."""
        meaningful = True
        result: BenchQuery | str = ""
        for i, edge in enumerate(negated):
            later = {e.relation for e in negated[i + 1 :]}
            positive = _without(shape.clauses, later)
            result = "no relation for a negated atom"
            chosen: tuple[Grounding, Tuples, BenchQuery | str] | None = None
            for choice in self._negative(shape.clauses, edge, placed, grounding, answers, rng):
                tried = grounding | choice
                left = _answers(ground_clauses(positive, tried), self.full, None)
                assert left is not None
                if not len(left):
                    continue
                changes = len(left) < len(answers)
                if not later:
                    result = self._judge(shape, tried, left, meaningful and changes)
                    if isinstance(result, str):
                        continue
                if changes or chosen is None:
                    chosen = tried, left, result
                if changes:
                    break
            if chosen is None:
                return result
            meaningful &= len(chosen[1]) < len(answers)
            grounding, answers, result = chosen
        return result

    def _negative(
        self,
        clauses: AbstractClauses,
        edge: AbstractEdge,
        placed: Mapping[Symbol, int],
        grounding: Grounding,
        answers: Tuples,
        rng: Random,
    ) -> Iterator[Grounding]:
        """Groundings of a negated atom, at most `rules.negations`, no two alike."""
        clause = next(c for c in clauses if edge in c)
        taken = {grounding[e.relation] for e in clause if not e.negated and e.ends == edge.ends}
        rows = answers[rng.permutation(len(answers))[: self.rules.negations]]
        (graph,) = ground_clauses((tuple(e for e in clause if not e.negated),), grounding)
        found = [_home(graph, row, self.full) for row in rows.tolist()]
        homes = [{**placed, **home} for home in found if home is not None]
        met: list[Grounding] = []
        for choice in self._proposals(edge, [placed, *homes], grounding, rng):
            if choice[edge.relation] not in taken and choice not in met:
                met.append(choice)
                yield choice
                if len(met) == self.rules.negations:
                    return

    def _proposals(
        self, edge: AbstractEdge, homes: Sequence[Mapping[Symbol, int]], grounding: Grounding, rng: Random
    ) -> Iterator[Grounding]:
        new = [n for n in edge.ends if n.role is Role.CONSTANT and n not in grounding]
        if new:
            # Only this atom has the constant: any edge of the other end will do.
            (constant,) = new
            other = edge.tail if constant == edge.head else edge.head
            for home in homes:
                if other in home:
                    views, near = self.walker.links(home[other])
                    for at in rng.permutation(len(views))[:3].tolist():
                        view = int(views[at]) ^ (other == edge.tail)
                        yield {edge.relation: view, constant: int(near[at])}
            return
        for home in homes:
            if edge.head in home and edge.tail in home:
                for view in rng.permutation(self.walker.between(home[edge.head], home[edge.tail])).tolist():
                    yield {edge.relation: int(view)}
        for home in homes:
            for end in (edge.head, edge.tail):
                if end in home:
                    views = np.unique(self.walker.links(home[end])[0])
                    if len(views):
                        yield {edge.relation: int(views[rng.integers(len(views))]) ^ (end == edge.tail)}


def _without(clauses: AbstractClauses, relations: Iterable[Symbol]) -> AbstractClauses:
    """The clauses without the atoms of some relation symbols."""
    dropped = set(relations)
    return tuple(tuple(e for e in clause if e.relation not in dropped) for clause in clauses)


def _answers(graphs: Sequence[QueryGraph], adjacency: Adjacency, most: int | None) -> Tuples | None:
    """All answers, or None if there are more than `most`."""
    plan = crisp.plan(graphs, adjacency)
    answers = crisp.collect(plan, adjacency, None if most is None else most + 1).tuples
    return None if most is not None and len(answers) > most else answers


def _home(graph: QueryGraph, answer: Sequence[int], adjacency: Adjacency) -> dict[str, int] | None:
    """The entities of a clause's variables for a tuple, those not asked for the first that fit; None if none do."""
    given = dict(zip(graph.free, answer, strict=True))
    others = graph.existential

    def node(number: int) -> int:
        return number if number < 0 else ~given[number] if number in given else others.index(number)

    edges = tuple(e._replace(head=node(e.head), tail=node(e.tail)) for e in graph.edges)
    rest = QueryGraph(tuple(graph.variables[v] for v in others), (), edges)
    found = crisp.collect(crisp.plan([rest], adjacency), adjacency, 1).assignment.tolist()
    if not found:
        return None
    return {graph.variables[v]: e for v, e in (*given.items(), *zip(others, found[0], strict=True))}


# --- many queries -----------------------------------------------------------------------------------------------------


@dataclass
class _ShapeProgress:
    """The numbers of one shape used so far, and the queries found; of one of its strata, if they are balanced."""

    shape: QueryShape
    stratum: int | None = None
    used: int = 0
    found: list[BenchQuery] = field(default_factory=list)
    keys: set[object] = field(default_factory=set)
    rejected: Counter[str] = field(default_factory=Counter)

    def take(self, index: int, query: BenchQuery | None, rejected: Counter[str]) -> None:
        """Keep the query of a number, if it is another one than before, and count why walks were rejected."""
        self.used = index + 1
        self.rejected += rejected
        if query is None:
            self.rejected["number left empty"] += 1
            return
        key = _identity(ground_clauses(self.shape.clauses, query.grounding))
        if key in self.keys:
            self.rejected["query occurred before"] += 1
            return
        self.keys.add(key)
        number = index if self.stratum is None else index * STRATA + self.stratum - 1
        self.found.append(replace(query, index=number))

    @property
    def name(self) -> str:
        return self.shape.name if self.stratum is None else f"{self.shape.name} links={self.stratum}"

    def next(self, wanted: int, rules: Rules) -> list[tuple[_ShapeProgress, range]]:
        """The numbers to be tried next, in units of work; none if the shape is full or given up."""
        missing = wanted - len(self.found)
        if missing <= 0 or (self.used >= rules.first and not self.found):
            return []
        last = int(rules.spare * wanted) + rules.first
        size = min(rules.first, wanted) if not self.used else missing
        stop = min(self.used + size, last)
        return [(self, range(first, min(first + BLOCK, stop))) for first in range(self.used, stop, BLOCK)]


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
    shapes: Sequence[str | QueryShape],
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
    resolved = [shape(given) if isinstance(given, str) else given for given in shapes]
    repeated = [name for name, count in Counter(s.name for s in resolved).items() if count > 1]
    if repeated:
        raise BadInput(f"shape {repeated[0]!r} is listed twice")
    if per_shape < 1:
        raise BadInput(f"the number of queries per shape has to be at least 1, not {per_shape}")
    states = [
        _ShapeProgress(s, stratum)
        for s in resolved
        for stratum in (range(1, largest_stratum(s.clauses) + 1) if balance else [None])
    ]
    sampler = Sampler.from_graph(graph, known, target, rules)
    with tempfile.TemporaryDirectory() as folder, worker_pool(workers, executor) as pool:
        if pool is not None:
            graph.save(Path(folder) / "graph")
            setting = ship(pool, Path(folder) / "graph"), tuple(known), tuple(target), rules
        while units := [unit for state in states for unit in state.next(per_shape, rules)]:
            tasks = [(state.shape, state.stratum, seed, numbers) for state, numbers in units]
            if pool is None:
                found: Iterable[_Found] = (sampler.block(*task) for task in tasks)
            else:
                found = pool.map(partial(_sample_remotely, setting), tasks)
            for (state, numbers), results in zip(units, found, strict=True):
                for index, result in zip(numbers, results, strict=True):
                    state.take(index, *result)
                if progress is not None:
                    progress(sum(min(len(s.found), per_shape) for s in states), per_shape * len(states))
    # One query of each stratum, then the next of each: so the first queries of a shape are balanced too.
    by_shape = [
        [state.found[:per_shape] for state in own] for _, own in groupby(states, key=lambda state: state.shape.name)
    ]
    return QuerySet(
        tuple(query for own in by_shape for turn in zip_longest(*own) for query in turn if query is not None),
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


_Setting: TypeAlias = tuple[Folder, tuple[str, ...], tuple[str, ...], Rules]  # graph directory, known, target


def _sample_remotely(setting: _Setting, task: tuple[QueryShape, int | None, int, range]) -> _Found:
    graph, known, target, rules = setting
    return _open_sampler(fetch_folder(graph), known, target, rules).block(*task)


@cache
def _open_sampler(path: str, known: tuple[str, ...], target: tuple[str, ...], rules: Rules) -> Sampler:
    return Sampler.from_graph(KnowledgeGraph.open(path), known, target, rules)
