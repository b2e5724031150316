"""Why a tuple is an answer: its witness, atom by atom, and whether it rests on facts or on predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tuplet.query.ranking import Clauses, Edge, Ranking
from tuplet.query.source import Source
from tuplet.truth.calibration.bounds import BorneOut

# `none` is said of a given tuple that nothing makes true.
Status: TypeAlias = Literal["observed", "mixed", "predicted", "none"]


class Step(NamedTuple):
    """One atom of a witness, in ids. `truth` is that of the atom as it stands: 1 - x under a negation."""

    clause: int
    head: int
    relation: int
    tail: int
    negated: bool
    truth: float
    observed: bool


@dataclass(frozen=True)
class Witnesses:
    """What each of n tuples rests on: the m atoms of all clauses together, looked up once for all tuples."""

    clause: tuple[int, ...]  # [m]
    edges: tuple[Edge, ...]  # [m]
    heads: NDArray[np.int32]  # [n, m]
    tails: NDArray[np.int32]  # [n, m]
    truth: NDArray[np.float64]  # [n, m] of the atom as it stands: 1 - x under a negation
    observed: NDArray[np.bool_]  # [n, m]
    counts: NDArray[np.bool_]  # [n, m] whether the clause of the atom gives the tuple truth

    @staticmethod
    def of(ranking: Ranking, clauses: Clauses, source: Source, stated: bool = False) -> Witnesses:
        """The witnesses of a ranking; with `stated`, facts are all that counts, also where there are truth values."""
        n = len(ranking.tuples)
        clauses = clauses if n else ()
        number = [c for c, clause in enumerate(clauses) for _ in clause.edges]
        atoms = [edge for clause in clauses for edge in clause.edges]
        heads, tails, each = np.empty((3, n, len(atoms)), np.int32)
        counts = np.ones((n, len(atoms)), dtype=bool)
        each[:] = [edge.relation for edge in atoms]
        first = 0
        for clause, assigned in zip(clauses, ranking.assignments, strict=False):
            for j, (head, _, tail, _) in enumerate(clause.edges, first):
                heads[:, j] = assigned[:, head] if head >= 0 else ~head
                tails[:, j] = assigned[:, tail] if tail >= 0 else ~tail
            after = first + len(clause.edges)
            if assigned.shape[1]:
                counts[:, first:after] = assigned[:, :1] >= 0
            first = after
        relations = each.ravel()
        if source.truth is None or stated:
            observed = source.facts.find_many(heads.ravel(), relations, tails.ravel()) >= 0
            value = observed.astype(np.float64)
        elif clauses:
            # Of rows on demand the table that was searched: thousands of values one by one would take long.
            value, observed = source.table(clauses).lookup(heads.ravel(), relations, tails.ravel())
        else:
            value, observed = np.zeros(0), np.zeros(0, dtype=bool)
        # an entity of an absent clause is -1, which no row has
        value, observed = value.reshape(heads.shape), observed.reshape(heads.shape)
        for j, edge in enumerate(atoms):
            if edge.negated:
                value[:, j] = 1.0 - value[:, j]
        return Witnesses(tuple(number), tuple(atoms), heads, tails, value, observed, counts)

    @staticmethod
    def merged(parts: Sequence[Witnesses], order: NDArray[np.int64]) -> Witnesses:
        """The witnesses of several lists of tuples as those of one list: one after another, then in order."""
        if len(parts) == 1:
            part = parts[0]
            return replace(
                part, **{name: getattr(part, name)[order] for name in ("heads", "tails", "truth", "observed", "counts")}
            )
        n, m = sum(len(part.heads) for part in parts), sum(len(part.edges) for part in parts)
        heads, tails = np.full((n, m), -1, np.int32), np.full((n, m), -1, np.int32)
        truth, observed, counts = np.zeros((n, m)), np.zeros((n, m), dtype=bool), np.zeros((n, m), dtype=bool)
        clause: list[int] = []
        row = column = 0
        for part in parts:
            here = slice(row, row + len(part.heads)), slice(column, column + len(part.edges))
            for whole, own in (
                (heads, part.heads),
                (tails, part.tails),
                (truth, part.truth),
                (observed, part.observed),
                (counts, part.counts),
            ):
                whole[here] = own
            clause += [c + (clause[-1] + 1 if column else 0) for c in part.clause]
            row, column = row + len(part.heads), column + len(part.edges)
        edges = tuple(edge for part in parts for edge in part.edges)
        return Witnesses(tuple(clause), edges, heads[order], tails[order], truth[order], observed[order], counts[order])

    def steps(self, i: int) -> tuple[Step, ...]:
        """The atoms that tuple i rests on, of every clause that gives it truth."""
        columns = (array[i].tolist() for array in (self.heads, self.tails, self.truth, self.observed, self.counts))
        return tuple(
            Step(clause, head, edge.relation, tail, edge.negated, truth, observed)
            for clause, edge, head, tail, truth, observed, counts in zip(self.clause, self.edges, *columns, strict=True)
            if counts
        )

    @cached_property
    def _negated(self) -> NDArray[np.bool_]:
        return np.array([edge.negated for edge in self.edges], dtype=bool)

    @cached_property
    def _stated(self) -> NDArray[np.bool_]:
        """Which atoms hold on facts alone: positive ones observed, negated ones not. [n, m]"""
        stated: NDArray[np.bool_] = self.observed != self._negated
        return self.counts & stated

    def rest_on_facts(self) -> NDArray[np.bool_]:
        """Whether some clause of the witness holds on facts alone. [n]"""
        holds = self._stated
        if self.clause and self.clause[0] == self.clause[-1]:  # one clause: most queries
            found: NDArray[np.bool_] = np.logical_and.reduce(holds, axis=1)
            return found
        by_clause = [
            holds[:, [j for j, other in enumerate(self.clause) if other == c]].all(axis=1)
            for c in dict.fromkeys(self.clause)
        ]
        return np.logical_or.reduce(by_clause) if by_clause else np.zeros(len(self.heads), dtype=bool)

    def least_truth(self, borne_out: BorneOut) -> NDArray[np.float64]:
        """How much of the truth of each tuple held-out facts bear out: predictions at their bounds, facts as they are.

        A negated prediction is as true as it may be. Another witness could only add to it. [n]
        """
        least = np.where(self.observed, self.truth, borne_out.least(self.truth))
        if self._negated.any():
            negated = self._negated & ~self.observed
            least[negated] = 1 - borne_out.most(1 - self.truth[negated])
        # a clause that gives the tuple no truth has an atom of truth 0
        by_clause = [
            least[:, [j for j, other in enumerate(self.clause) if other == c]].prod(axis=1)
            for c in dict.fromkeys(self.clause)
        ]
        return 1 - np.prod([1 - truth for truth in by_clause], axis=0) if by_clause else np.zeros(len(self.heads))

    def statuses(self, crisp: NDArray[np.int8]) -> list[Status | None]:
        """`observed` if the stated facts alone give the tuple; else by what its positive atoms rest on. [n]

        Where it is not known if they do (-1), the status is None.
        """
        stated = np.logical_or.reduce(self._stated & ~self._negated, axis=1)
        return [
            None if is_crisp < 0 else "observed" if is_crisp else "mixed" if some else "predicted"
            for is_crisp, some in zip(crisp.tolist(), stated.tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class StatedFact:
    """A fact that speaks for a predicted one, in names."""

    head: str
    relation: str
    tail: str
    head_label: str = ""
    tail_label: str = ""

    def labelled(self) -> str:
        """The fact with labels in place of names, where there are any."""
        return f"{self.relation}({self.head_label or self.head}, {self.tail_label or self.tail})"

    def shared(self, other: StatedFact) -> str:
        """The same, with a dot in place of the end that differs in another fact."""
        differs = ("head", "head_label") if self.tail == other.tail else ("tail", "tail_label")
        return replace(self, **dict.fromkeys(differs, "·")).labelled()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Stated facts that together speak for a predicted one: a path between its ends, or a similar entity that has it.

    The weight of a path is the share of the pairs joined by the same steps that have the relation; that of a similar
    entity is how much it shares with the one in question.
    """

    kind: Literal["path", "similar"]
    facts: tuple[StatedFact, ...]
    weight: float

    def __str__(self) -> str:
        """One line; of what two similar entities share, each thing once.

        >>> both = StatedFact("benin", "borders", "togo"), StatedFact("ghana", "borders", "togo")
        >>> print(Evidence("similar", (StatedFact("ghana", "has_coast_on", "atlantic"), *both), 0.25))
        0.2500  similar  has_coast_on(ghana, atlantic); both borders(·, togo)
        """
        said = [fact.labelled() for fact in self.facts]
        if self.kind == "similar":
            pairs = zip(self.facts[1::2], self.facts[2::2], strict=True)
            said = [f"{said[0]}; both {', '.join(one.shared(other) for one, other in pairs)}"]
        return f"{percent(self.weight)}  {self.kind:<7}  {', '.join(said)}"

    def to_dict(self) -> dict[str, Any]:
        """The evidence in the JSON schema."""
        return {"kind": self.kind, "facts": [asdict(fact) for fact in self.facts], "weight": self.weight}


@dataclass(frozen=True, slots=True)
class Fact:
    """One atom of a witness, in names."""

    clause: int
    head: str
    relation: str
    tail: str
    negated: bool
    truth: float
    observed: bool
    head_label: str = ""
    tail_label: str = ""
    evidence: tuple[Evidence, ...] | None = None  # of a predicted one, if it was asked for and there was time
    lift: float | None = None  # of a predicted one of a calibrated store: its truth over the base rate of the relation

    @property
    def kind(self) -> str:
        """How the atom comes to its truth, in one word."""
        if self.negated:
            return "but stated" if self.observed else "not stated"
        return "observed" if self.observed else "predicted"

    def __str__(self) -> str:
        return f"{'!' if self.negated else ''}{self.relation}({self.head}, {self.tail})"

    def labelled(self) -> str:
        """The atom with labels in place of names, where there are any."""
        ends = f"{self.head_label or self.head}, {self.tail_label or self.tail}"
        return f"{'!' if self.negated else ''}{self.relation}({ends})"


def percent(truth: float) -> str:
    """A truth value for people: four digits, more where it is tiny; 1 is said only of 1.

    >>> percent(1.0), percent(0.71234), percent(0.99999), percent(0.0000123)
    ('1', '0.7123', '0.9999', '1.23e-05')
    """
    if truth in (0.0, 1.0):
        return f"{truth:.0f}"
    if truth < 0.001:
        return f"{truth:.3g}"
    return f"{math.floor(truth * 10_000) / 10_000:.4f}" if truth > 0.9999 else f"{truth:.4f}"
