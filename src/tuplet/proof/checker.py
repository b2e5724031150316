"""Checks a proof file (docs/reference/proofs.md) against its store; shares no code with the engines.

The facts that answers rest on are verified in the store; then what would prove the list wrong is searched for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import numpy as np

from tuplet.proof.clause_search import SLACK, ClauseSearch, ProofClause, SignedAtom, Values
from tuplet.proof.plain_store import Floats, Ids, Marks, PlainStore, UnusableProof, read_json, sha256

KEYS = ("format", "version", "tuplet", "store", "query", "logic", "only", "k", "bound", "answers")
FACT = ("head", "relation", "tail", "negated", "truth", "observed")
STATUS = ("predicted", "observed")
ROUNDING = 1e-11  # products depend on the order of their factors in the last digits: truths this close are one


class FalseClaim(Exception):
    """The proof says something that is not so."""


def check(file: Path, folder: Path | None = None) -> dict[str, Any]:
    """What an accepted proof says; else `FalseClaim`, or `UnusableProof` if there is nothing to check."""
    proof = read_json(file, "a proof")
    if (proof.get("format"), proof.get("version")) != ("tuplet proof", 1):
        raise UnusableProof(f"{file} is not a tuplet proof of version 1")
    seal = proof.pop("seal", None)
    if seal != sha256(json.dumps(proof, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()):
        raise UnusableProof(f"{file} is damaged: its seal does not match its content")
    try:
        Claims(proof, folder).verify()
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise UnusableProof(f"{file} is not well formed: {type(error).__name__} {error}") from None
    return proof


class Claims:
    """What a proof says, in numbers."""

    def __init__(self, proof: Mapping[str, Any], folder: Path | None) -> None:
        *_, store, query, self.logic, self.only, self.k, self.bound, self.answers = _fields(proof, *KEYS)
        path, *stated = _fields(store, "path", "hash", "generation")
        self.store = PlainStore(folder or Path(path))
        if stated != (found := [self.store.hash, self.store.generation]):
            said = [f"{digest:.16} in generation {generation}" for digest, generation in (stated, found)]
            raise FalseClaim(f"the proof is about another store: {said[0]}; {self.store.root} is {said[1]}")
        if self.only not in (None, *STATUS):
            raise UnusableProof(f"only {self.only!r} is not known here")
        _, self.free, clauses = _fields(query, "text", "free", "clauses")
        self.entities = {name: i for i, name in enumerate(self.store.names)}
        self.rank = np.argsort([self.entities[name] for name in sorted(self.entities)])  # places by name
        self.clauses = [self._clause(clause) for clause in clauses]
        self.searches = [ClauseSearch(clause, self.store, self.logic) for clause in self.clauses]
        named = (zip(self.free, answer["tuple"], strict=True) for answer in self.answers)
        self.tuples = [tuple(_known(name, self.entities) for _, name in answer) for answer in named]
        self.truths = [float(answer["truth"]) for answer in self.answers]
        self.order = [(-truth, self._ranks(ids)) for truth, ids in zip(self.truths, self.tuples, strict=True)]

    def _clause(self, written: Any) -> ProofClause:
        """A clause in numbers: `?x` is a variable, `<x>` an entity."""
        exists, atoms, compared, among = _fields(written, "exists", "atoms", "compared", "among")
        places = {f"?{name}": i for i, name in enumerate([*self.free, *exists])}
        relations = {name: i for i, name in enumerate(self.store.relations)}

        def node(term: str) -> int:
            return places[term] if term[0] == "?" else ~_known(term[1:-1], self.entities)

        signs = {type(negated) for *_, negated in [*atoms, *among]}
        made = [SignedAtom(node(h), _known(r, relations), node(t), negated) for h, r, t, negated in atoms]
        stated = {end for atom in made if not atom.negated for end in (atom.head, atom.tail)}
        if signs - {bool} or len(places) != len(self.free) + len(exists) or not stated >= set(places.values()):
            raise UnusableProof("the query is not safe: a variable needs a name of its own and a positive atom")
        same = [(node(a), node(b), {"=": True, "!=": False}[sign]) for a, sign, b in compared]
        sets = [(places[term], [~node(name) for name in listed], negated) for term, listed, negated in among]
        return ProofClause(list(places), len(self.free), made, same, sets)

    def verify(self) -> None:
        """Everything, claim by claim."""
        listed, last = len(self.tuples), self.truths[-1] if self.truths else 1.0
        for place, ids in enumerate(self.tuples):
            self._answer(ids, *_fields(self.answers[place], "tuple", "truth", "status", "witness")[1:])
            if place and self.order[place] <= self.order[place - 1]:
                raise FalseClaim(f"{self._said(ids)} does not come after {self._said(self.tuples[place - 1])}")
        if not 0 <= self.bound <= last * (1 + ROUNDING):
            raise FalseClaim(f"with a bound of {self.bound:.6g} others may come before the last answer")
        if (self.k is not None and listed > self.k) or (self.bound and listed != self.k):
            raise FalseClaim(f"{listed} answers, where {self.k} were asked for, do not fit a bound of {self.bound:.6g}")
        self._complete(last)

    def _answer(self, ids: tuple[int, ...], claimed: float, status: str, witnesses: Sequence[Any]) -> None:
        """One answer: what it rests on is as the store has it, and nothing makes the tuple truer."""
        truths, some, crisp = [], False, False
        for clause, search, witness in zip(self.clauses, self.searches, witnesses, strict=True):
            truth = 0.0
            if witness is not None:
                others, facts = _fields(witness, "values", "facts")
                values = [*ids, *(_known(others[name[1:]], self.entities) for name in clause.variables[len(ids) :])]
                found = [self._fact(atom, values) for atom in clause.atoms]
                for claim, fact in zip(facts, found, strict=True):
                    if claim != fact:
                        raise FalseClaim(f"{self._said(ids)} rests on {claim}, where the store has {fact}")
                some |= any(fact["observed"] > fact["negated"] for fact in found)
                crisp |= all(fact["observed"] != fact["negated"] for fact in found)
                truth = search.best(values)
            better = search.best(ids, truth * (1 + ROUNDING))
            if better > truth * (1 + ROUNDING):
                raise FalseClaim(f"{self._said(ids)} rests on a truth of {truth:.6g}, and has one of {better:.6g}")
            truths.append(truth)
        if not math.isclose(claimed, right := self._either(truths), rel_tol=ROUNDING) or not right:
            raise FalseClaim(f"{self._said(ids)} is said to have truth {claimed:.6g}; it has {right:.6g}")
        crisp = crisp or self._crisp(ids)
        kind = "observed" if crisp else "mixed" if some else "predicted"
        if status != kind or self.only not in (None, STATUS[crisp]):
            raise FalseClaim(f"{self._said(ids)} is said to be {status}; it is {kind} (only {self.only})")

    def _fact(self, atom: SignedAtom, values: Values) -> dict[str, Any]:
        """An atom of a witness as the store has it."""
        names, ends = self.store.names, [values[end] if end >= 0 else ~end for end in (atom.head, atom.tail)]
        truth, observed = self.store.look_up(atom.relation, np.array(ends[:1]), np.array(ends[1:]))
        words = names[ends[0]], self.store.relations[atom.relation], names[ends[1]], atom.negated
        return dict(zip(FACT, (*words, abs(atom.negated - float(truth[0])), bool(observed[0])), strict=True))

    def _complete(self, last: float) -> None:
        """No tuple that is not listed has more truth than the bound, nor the last truth and an earlier name."""
        above, known = self.bound * (1 + ROUNDING), set(self.tuples)
        tied = bool(self.tuples) and self.bound >= last * (1 - ROUNDING)
        level, final = (last * (1 - SLACK), self.order[-1][1]) if tied else (math.inf, [])

        def admits(variable: int, values: Values, ids: Ids, bounds: Floats) -> Marks:
            """What may be above the bound, or come before the last answer by name."""
            if variable >= len(self.free) or -1 in values[:variable]:
                return bounds > 0
            first = self._ranks(values[:variable])
            named = self.rank[ids] <= final[variable] if first == final[:variable] else first < final[:variable]
            return (bounds > self._share(above)) | named

        for search in self.searches:
            for values, _ in search.above(self._share(min(above, level)), (), admits if tied else None, known):
                ids = tuple(values[: len(self.free)])
                known.add(ids)
                truth = self._either([each.best(ids) for each in self.searches])
                early = truth >= level and self._ranks(ids) < final
                if (truth > above or early) and (self.only is None or self.only == STATUS[self._crisp(ids)]):
                    why = f"the bound is {self.bound:.6g}" if truth > above else "its name comes before the last answer"
                    raise FalseClaim(f"{self._said(ids)} is not listed, has truth {truth:.6g}, and {why}")

    def _share(self, truth: float) -> float:
        """What the truest of the clauses has at least, if all together have such a truth."""
        if self.logic == "product" and 0 < truth < 1:
            truth = -math.expm1(math.log1p(-truth) / len(self.searches))
        return truth * (1 - 10 * SLACK)

    def _either(self, truths: Sequence[float]) -> float:
        """The truth of a disjunction."""
        if self.logic == "godel":
            return max(truths, default=0.0)
        return reduce(lambda one, other: one + other * (1 - one), truths, 0.0)

    @cached_property
    def stated(self) -> list[ClauseSearch]:
        return [ClauseSearch(clause, self.store, self.logic, facts=True) for clause in self.clauses]

    def _crisp(self, ids: tuple[int, ...]) -> bool:
        """Whether the stated facts alone give a tuple."""
        return any(search.best(ids) > 0 for search in self.stated)

    def _ranks(self, ids: Sequence[int]) -> list[int]:
        return [int(self.rank[i]) for i in ids]

    def _said(self, ids: Sequence[int]) -> str:
        return f"({', '.join(self.store.names[i] for i in ids)})"


def _known(name: str, numbers: Mapping[str, int]) -> int:
    if name not in numbers:
        raise FalseClaim(f"the store knows nothing that is called {name!r}")
    return numbers[name]


def _fields(given: Mapping[str, Any], *names: str) -> list[Any]:
    """The values of an object with exactly these keys: what is not understood must not be overlooked."""
    if set(given) != set(names):
        raise UnusableProof(f"the file has {sorted(given)} where {sorted(names)} belong")
    return [given[name] for name in names]
