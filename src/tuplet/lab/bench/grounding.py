"""One grounded query with its answers: the walk, the relations, the negations (rules 2 to 5 of docs/benchmark)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.engines import crisp
from tuplet.errors import BadInput
from tuplet.graph.adjacency import Adjacency
from tuplet.graph.graph import KnowledgeGraph
from tuplet.lab.bench.hardness import predicted_atoms, predicted_links, strata
from tuplet.lab.bench.queries import Tuples, bound
from tuplet.lab.bench.shapes import AbstractClauses, AbstractEdge, Role, Symbol, symbols
from tuplet.lab.bench.walks import Random, Walker
from tuplet.query.ranking import QueryGraph

Grounding: TypeAlias = dict[Symbol, int]


@dataclass(frozen=True)
class Rules:
    """The numbers in the sampling rules."""

    hard: int = 100  # hard answers, times k
    values: int = 300  # values of a free variable
    answers: int = 1000  # answers without the negated atoms, times k
    tries: int = 200  # walks for one query
    negations: int = 10  # relations tried for a negated atom
    first: int = 20  # a shape is given up if so many numbers stay empty
    spare: float = 2.0  # numbers used at most, in multiples of the queries asked for


@dataclass(frozen=True)
class Sampler:
    """One graph, ready to be sampled from."""

    known: Adjacency
    full: Adjacency
    target: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
    walker: Walker
    hidden: Walker  # walks on target edges alone
    rules: Rules

    @staticmethod
    def of(graph: KnowledgeGraph, known: Sequence[str], target: Sequence[str], rules: Rules) -> Sampler:
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

    def query(
        self, clauses: AbstractClauses, seed: Sequence[int], stratum: int | None = None
    ) -> tuple[GroundedQuery | None, Counter[str]]:
        """One query of a shape, and why walks were rejected; with a stratum, one that asks for an answer in it."""
        rng = np.random.default_rng(seed)
        rejected: Counter[str] = Counter()
        spare: GroundedQuery | None = None
        for _ in range(self.rules.tries):
            found = self._try(clauses, rng, stratum)
            if not isinstance(found, str):
                found = self._asked(clauses, found, rng, stratum)
            if isinstance(found, str):
                rejected[found] += 1
            elif found.meaningful:
                return found, rejected
            else:
                rejected["negation changes nothing"] += 1
                spare = spare or found
        return spare, rejected

    def _asked(
        self, clauses: AbstractClauses, found: GroundedQuery, rng: Random, stratum: int | None
    ) -> GroundedQuery | str:
        """The query with the links of its hard answers; with a stratum, one answer in it is drawn."""
        links = predicted_links(bound(clauses, found.grounding), self.known, self.full, found.hard)
        if stratum is None:
            return replace(found, links=links)
        inside = np.flatnonzero(strata(links) == stratum)
        if not len(inside):
            return "no answer in the stratum"
        return replace(found, links=links, asked=int(inside[rng.integers(len(inside))]))

    def _try(self, clauses: AbstractClauses, rng: Random, stratum: int | None) -> GroundedQuery | str:
        """A query from one walk, or the reason why there is none."""
        walked = self._walk(clauses, rng, stratum)
        if walked is None:
            return "walk got stuck"
        placed, grounding = walked
        positive = _without(clauses, {e.relation for clause in clauses for e in clause if e.negated})
        k = len(symbols(clauses, Role.FREE))
        graphs = bound(positive, grounding)
        answers = _answers(graphs, self.full, self.rules.answers * k)
        if answers is None:
            return "too many answers"
        if max(len(np.unique(column)) for column in answers.T) > self.rules.values:
            return "too many values of a variable"
        negated = list(dict.fromkeys(e for clause in clauses for e in clause if e.negated))
        if not negated:
            return self._judge(clauses, grounding, answers, k, meaningful=True)
        return self._negate(clauses, negated, placed, grounding, answers, k, rng)

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

    def _judge(
        self, clauses: AbstractClauses, grounding: Grounding, answers: Tuples, k: int, meaningful: bool
    ) -> GroundedQuery | str:
        """Rule 4 for the hard answers; `answers` are those on the full graph."""
        graphs = bound(clauses, grounding)
        easy = _answers(graphs, self.known, None)
        assert easy is not None
        hard = _minus(answers, easy)
        if not len(hard):
            return "no hard answer"
        if len(hard) > self.rules.hard * k:
            return "too many hard answers"
        return GroundedQuery(grounding, _sorted(easy), _sorted(hard), meaningful)

    def _negate(
        self,
        clauses: AbstractClauses,
        negated: Sequence[AbstractEdge],
        placed: Mapping[Symbol, int],
        grounding: Grounding,
        answers: Tuples,
        k: int,
        rng: Random,
    ) -> GroundedQuery | str:
        """Rule 5: relations (and constants) for the negated atoms, one atom after the other."""
        meaningful = True
        for i, edge in enumerate(negated):
            later = {e.relation for e in negated[i + 1 :]}
            result: GroundedQuery | str = "no relation for a negated atom"
            fewer: Tuples | None = None
            spare: tuple[Grounding, Tuples, GroundedQuery | str] | None = None
            for choice in self._negative(clauses, edge, placed, grounding, answers, rng):
                tried = grounding | choice
                left = _answers(bound(_without(clauses, later), tried), self.full, None)
                assert left is not None
                if not len(left):
                    continue
                changes = len(left) < len(answers)
                result = (
                    GroundedQuery(tried, left, left, True)
                    if later
                    else self._judge(clauses, tried, left, k, meaningful and changes)
                )
                if isinstance(result, str):
                    continue
                if changes:
                    grounding, fewer = tried, left
                    break
                spare = spare or (tried, left, result)
            if fewer is None:
                if spare is None:
                    return result if isinstance(result, str) else "no relation for a negated atom"
                meaningful = False
                grounding, fewer, result = spare
            answers = fewer
        assert not isinstance(result, str)
        return GroundedQuery(grounding, result.easy, result.hard, meaningful)

    def _negative(
        self,
        clauses: AbstractClauses,
        edge: AbstractEdge,
        placed: Mapping[Symbol, int],
        grounding: Grounding,
        answers: Tuples,
        rng: Random,
    ) -> Iterator[Grounding]:
        """What a negated atom may be grounded with, at most `rules.negations`, no two alike."""
        clause = next(c for c in clauses if edge in c)
        taken = {grounding[e.relation] for e in clause if not e.negated and e.ends == edge.ends}
        rows = answers[rng.permutation(len(answers))[: self.rules.negations]]
        (graph,) = bound((tuple(e for e in clause if not e.negated),), grounding)
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


@dataclass(frozen=True, eq=False)
class GroundedQuery:
    """A grounding with its answers, before it has a name and a number."""

    grounding: Grounding
    easy: Tuples
    hard: Tuples
    meaningful: bool
    links: NDArray[np.int32] | None = None  # that must be predicted for each hard answer
    asked: int | None = None  # the place of the only hard answer that is scored


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


def _minus(tuples: Tuples, others: Tuples) -> Tuples:
    """The distinct tuples [n, k] that are not among the others."""
    both = np.concatenate([others, tuples])
    _, first = np.unique(both, axis=0, return_index=True)
    return both[np.sort(first[first >= len(others)])]


def _sorted(tuples: Tuples) -> Tuples:
    return tuples[np.lexsort(tuples.T[::-1])]
