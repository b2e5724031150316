"""A depth-first search for what would prove a list of answers wrong: a part of the checker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tuplet.proof.plain_store import Floats, Ids, PlainStore

Values = list[int]  # of each variable its entity, -1 where it has none yet
Found = Iterator[tuple[Values, float]]  # assignments with their truth
SLACK = 1e-13  # what rounding may take from a bound
GRID = 2.0**36


class SignedAtom(NamedTuple):
    """`relation(head, tail)` or its negation; ends are numbers of variables, or ~entity."""

    head: int
    relation: int
    tail: int
    negated: bool


def add_bounded(one: Any, other: Any) -> Any:
    """The conjunction of Łukasiewicz, of truths rounded down to multiples of 1 / GRID, so that sums are exact."""
    return np.maximum((np.floor(one * GRID) + np.floor(other * GRID)) / GRID - 1, 0.0)


Connective = Callable[[Any, Any], Any]
BOTH: dict[str, Connective] = {"product": np.multiply, "godel": np.minimum, "lukasiewicz": add_bounded}
EITHER: dict[str, Connective] = {
    "product": lambda p, q: p + q * (1 - p), "godel": max, "lukasiewicz": lambda p, q: min(1.0, p + q),
}  # fmt: skip


class ProofClause(NamedTuple):
    """One clause of the query in numbers; the free variables come first, in the order asked."""

    variables: list[str]
    free: int
    atoms: list[SignedAtom]
    compared: list[tuple[int, int, bool]]  # two of them are one entity, or are not
    among: list[tuple[int, list[int], bool]]  # a variable is one of these entities; or, negated, none of them


class ClauseSearch:
    """Finds assignments of a clause whose truth is above a value; with `facts`, what is stated is all that is true."""

    def __init__(self, clause: ProofClause, store: PlainStore, logic: str, facts: bool = False) -> None:
        self.clause, self.store, self.facts = clause, store, facts
        self.both = BOTH[logic]
        self.constant, everyone = 1.0, np.arange(len(store.names))
        self.own: list[Floats] = [np.ones(len(store.names)) for _ in clause.variables]  # what is said of it alone
        self.tests: dict[frozenset[int], list[SignedAtom | bool]] = {}  # what is said of two variables
        self.joins: dict[frozenset[int], SignedAtom] = {}  # the first positive atom of two variables
        for atom in clause.atoms:
            pair, most = frozenset(atom[::2]), max(atom[::2])
            ends = [everyone if end >= 0 else np.array([~end]) for end in atom[::2]]
            if min(pair) >= 0 and len(pair) == 2:
                self.tests.setdefault(pair, []).append(atom)
                self.joins |= {pair: atom} if not atom.negated and pair not in self.joins else {}
            elif most >= 0:
                self.own[most] = self.both(self.own[most], self._truth(atom, *ends))
            else:
                self.constant = float(self.both(self.constant, self._truth(atom, *ends)[0]))
        for left, right, same in clause.compared:
            if left == right or max(left, right) < 0:
                self.constant *= (left == right) == same
            elif min(left, right) >= 0:
                self.tests.setdefault(frozenset((left, right)), []).append(same)
            else:
                self.own[max(left, right)][(everyone == ~min(left, right)) != same] = 0.0
        for variable, listed, negated in clause.among:
            self.own[variable][np.isin(everyone, listed) == negated] = 0.0
        self._plan()

    def _truth(self, atom: SignedAtom, heads: Ids, tails: Ids) -> Floats:
        value: Floats = self.store.look_up(atom.relation, heads, tails)[self.facts].astype(float)
        return 1.0 - value if atom.negated else value

    def _test(self, near: int, far: int, these: Ids, those: Ids) -> Floats:
        """The truth of all that is said of two variables, for pairs of entities."""
        found = np.ones(len(those))
        for test in self.tests[frozenset((near, far))]:
            if isinstance(test, bool):
                found = self.both(found, ((these == those) == test).astype(float))
            else:
                found = self.both(found, self._truth(test, *((these, those) if test.head == near else (those, these))))
        return found

    def _pairs(self, near: int, far: int) -> tuple[Ids, Ids, Floats]:
        """The entities that two joined variables may be together, by ascending `near`, and the truth of that."""
        atom = self.joins[frozenset((near, far))]
        heads, tails, *_ = self.store.edges(atom.relation)
        these, those = (heads, tails) if atom.head == near else (tails, heads)
        kept = np.flatnonzero((self.own[near][these] > 0) & (self.own[far][those] > 0))
        kept = kept[np.argsort(these[kept], kind="stable")]
        return these[kept], those[kept], self._test(near, far, these[kept], those[kept])

    def _plan(self) -> None:
        """The order of the variables, the tree that joins them, and its messages to the roots: the best below."""
        left = list(range(len(self.clause.variables)))
        self.order: list[int] = []
        self.parent: dict[int, int] = {}
        self.others: dict[int, list[int]] = {}  # earlier variables, beside the parent, that something is said of
        while left:
            joined = {v: [u for u in self.order if frozenset((u, v)) in self.joins] for v in left}
            variable = max(left, key=lambda v: (len(joined[v]), -v))  # cycles are closed early
            tested = [u for u in self.order if frozenset((u, variable)) in self.tests]
            self.parent |= {variable: joined[variable][0]} if joined[variable] else {}
            self.others[variable] = [u for u in tested if u != self.parent.get(variable)]
            left.remove(variable)
            self.order.append(variable)
        self.tree = {variable: self._pairs(up, variable) for variable, up in self.parent.items()}
        self.below = {variable: np.ones(len(self.store.names)) for variable in self.order}  # its messages, together
        self.message: dict[int, Floats] = {}
        self.top: dict[int, float] = {}  # of the roots
        for variable in reversed(self.order):
            value = self.both(self.own[variable], self.below[variable])
            for u in self.others[variable]:
                if frozenset((u, variable)) in self.joins:
                    these, _, truth = self._pairs(variable, u)
                    value = self.both(value, self._best(these, truth))
            if variable in self.parent:
                up, (these, those, truth) = self.parent[variable], self.tree[variable]
                self.message[variable] = self._best(these, self.both(truth, value[those]))
                self.below[up] = self.both(self.below[up], self.message[variable])
            else:
                self.top[variable] = float(value.max(initial=0.0))

    def _best(self, these: Ids, truth: Floats) -> Floats:
        """For each entity its largest truth."""
        found = np.zeros(len(self.store.names))
        np.maximum.at(found, these, truth)
        return found

    def _next(self, depth: int, values: Values, truth: float) -> tuple[Ids, Floats, Floats]:
        """What the next variable may be, the truth so far with it, and an upper bound of what that can become."""
        variable, both = self.order[depth], self.both
        if variable in self.tree:
            near, far, weight = self.tree[variable]
            here = slice(*np.searchsorted(near, [values[self.parent[variable]], values[self.parent[variable]] + 1]))
            ids, now = far[here], both(weight[here], truth)
        else:
            ids = np.flatnonzero(self.own[variable])
            now = np.full(len(ids), truth)
        now = both(now, self.own[variable][ids])
        for u in self.others[variable]:
            now = both(now, self._test(u, variable, np.array([values[u]]), ids))
        bound = both(now, self.below[variable][ids])
        for later in self.order[depth + 1 :]:
            if later in self.top:
                bound = both(bound, self.top[later])
            elif values[self.parent[later]] >= 0:
                bound = both(bound, self.message[later][values[self.parent[later]]])
        return ids, now, bound

    def above(self, least: float, fixed: Sequence[int] = (), admits: Any = None, known: Any = ()) -> Found:
        """Assignments above a truth, not of known tuples, that `admits(variable, values, ids, bounds)` lets pass."""
        values = [-1] * len(self.order)

        def descend(depth: int, truth: float) -> Found:
            ended = depth == len(self.order)
            if ended and truth > least and tuple(values[: self.clause.free]) not in known:
                yield values, truth
            if ended or tuple(values[: self.clause.free]) in known:
                return
            variable = self.order[depth]
            ids, now, bound = self._next(depth, values, truth)
            kept = bound * (1 + SLACK) > least
            if variable < len(fixed):
                kept &= ids == fixed[variable]
            if admits is not None:
                kept &= admits(variable, values, ids, bound)
            places = np.flatnonzero(kept)
            for place in places[np.argsort(-bound[places], kind="stable")].tolist():
                values[variable] = int(ids[place])
                yield from descend(depth + 1, float(now[place]))
            values[variable] = -1

        return descend(0, self.constant)

    def best(self, fixed: Sequence[int], least: float = 0.0) -> float:
        """The largest truth of an assignment with these first values, or `least` if none is above it."""
        while found := next(self.above(least, fixed), None):
            least = found[1]
        return least
