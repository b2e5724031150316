"""Checks a proof file (docs/reference/proofs.md) against its store; shares no code with the engines."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from tuplet.proof.clause_search import EITHER, SLACK, ClauseSearch, ProofClause, SignedAtom, Values
from tuplet.proof.plain_store import Floats, Ids, PlainStore, UnusableProof, read_json, sha256

# What a file holds, no more and no less: texts by pattern, (A, B) an A or a B, [A] any number of A, ... any name.
NUMBER, TEXT, WORD, TERM, STATUS = (0, 1, float), ".*", r"\w+", r"\?\w+|<.*>", ("predicted", "observed")
FACT = {"head": TEXT, "relation": TEXT, "tail": TEXT, "negated": bool, "truth": NUMBER, "observed": bool}
WITNESS = {"values": {...: TEXT}, "facts": [FACT]}
ANSWER = {"tuple": [TEXT], "truth": NUMBER, "status": WORD, "witness": [(None, WITNESS)]}
ATOM, COMPARED, AMONG = [TERM, TEXT, TERM, bool], [TERM, "!?=", TERM], [r"\?\w+", ["<.*>"], bool]
CLAUSE = {"exists": [WORD], "atoms": [ATOM], "compared": [COMPARED], "among": [AMONG]}
STORE, QUERY = {"path": TEXT, "hash": TEXT, "generation": int}, {"text": TEXT, "free": [WORD], "clauses": [CLAUSE]}
LOGIC = "product|godel|lukasiewicz"
ASKED = {"store": STORE, "query": QUERY, "logic": LOGIC, "only": (None, *STATUS), "k": (None, int)}
CLAIMED = {**ASKED, "bound": NUMBER, "answers": [ANSWER]}
PROOF = {"format": "tuplet proof", "version": 1, "tuplet": TEXT, **CLAIMED, "seal": TEXT}
ROUNDING = 1e-11  # products depend on the order of their factors in the last digits: truths this close are one


class FalseClaim(Exception):
    """The proof says something that is not so."""


def check(file: Path, folder: Path | None = None) -> dict[str, Any]:
    """What an accepted proof says; else `FalseClaim`, or `UnusableProof` if there is nothing to check."""
    proof = read_json(file, "a proof")
    if wrong := [key for key in {**PROOF, **proof} if not _fits(proof.get(key, ...), PROOF.get(key, ()))]:
        raise UnusableProof(f"{file} is not a tuplet proof of version 1: not as it must be are {', '.join(wrong)}")
    try:
        seal, rest = proof.pop("seal"), json.dumps(proof, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        if seal != sha256(rest.encode()):
            raise UnusableProof(f"{file} is damaged: its seal does not match its content")
        Claims(proof, folder).verify()
    except Exception as error:  # what cannot be followed to its end is not proved, whatever the reason
        if isinstance(error, FalseClaim | UnusableProof):
            raise
        raise UnusableProof(f"{file} cannot be checked: {type(error).__name__} {error}") from None
    return proof


class Claims:
    """What a proof says, in numbers."""

    def __init__(self, proof: Mapping[str, Any], folder: Path | None) -> None:
        store, query, self.logic, self.only, self.k, self.bound, self.answers = [proof[key] for key in CLAIMED]
        path, *stated = [store[key] for key in ("path", "hash", "generation")]
        self.store = PlainStore(folder or Path(path))
        if stated != (found := [self.store.hash, self.store.generation]):
            said = [f"{digest:.16} in generation {generation}" for digest, generation in (stated, found)]
            raise FalseClaim(f"the proof is about another store: {said[0]}; {self.store.root} is {said[1]}")
        self.free: list[str] = query["free"]
        self.entities = {name: i for i, name in enumerate(self.store.names)}
        self.rank = np.argsort([self.entities[name] for name in sorted(self.entities)])  # places by name
        self.clauses = [self._clause(clause) for clause in query["clauses"]]
        self.searches = [ClauseSearch(clause, self.store, self.logic) for clause in self.clauses]
        self.stated = [ClauseSearch(clause, self.store, self.logic, facts=True) for clause in self.clauses]
        named = (zip(self.free, answer["tuple"], strict=True) for answer in self.answers)
        self.tuples = [tuple(_look_up(name, self.entities) for _, name in answer) for answer in named]

    def _clause(self, written: Any) -> ProofClause:
        """A clause in numbers: `?x` is a variable, `<x>` an entity."""
        exists, atoms, compared, among = [written[key] for key in CLAUSE]
        places = {f"?{name}": i for i, name in enumerate([*self.free, *exists])}
        relations = {name: i for i, name in enumerate(self.store.relations)}

        def node(term: str) -> int:
            return _look_up(term, places) if term[0] == "?" else ~_look_up(term[1:-1], self.entities)

        made = [SignedAtom(node(h), _look_up(r, relations), node(t), negated) for h, r, t, negated in atoms]
        stated = {end for atom in made if not atom.negated for end in (atom.head, atom.tail)}
        if len(places) > 64 or len(places) != len(self.free) + len(exists) or not stated >= set(places.values()):
            raise UnusableProof("not a safe query: each variable, 64 at most, needs its own name and a positive atom")
        same = [(node(a), node(b), sign == "=") for a, sign, b in compared]
        sets = [(node(term), [~node(name) for name in listed], negated) for term, listed, negated in among]
        return ProofClause(list(places), len(self.free), made, same, sets)

    def verify(self) -> None:
        """Everything, claim by claim. Truths that are equal stay so, whatever is claimed: names decide their order."""
        listed, before, right, names = len(self.tuples), 2.0, 2.0, list[int]()  # the last three: of the one before
        for ids, answer in zip(self.tuples, self.answers, strict=True):
            claimed, status, witnesses = [answer[key] for key in ANSWER][1:]
            found, named = self._answer(ids, claimed, status, witnesses), self.rank[list(ids)].tolist()
            if (claimed >= before or found >= right * (1 - SLACK)) and (claimed != before or named <= names):
                raise FalseClaim(f"{self._describe(ids)} does not come after the answer before it")
            before, right, names = claimed, found, named
        last = min(right, 1.0)
        if not 0 <= self.bound <= last * (1 + ROUNDING):
            raise FalseClaim(f"with a bound of {self.bound:.6g} others may come before the last answer")
        if (self.k is not None and listed > self.k) or (self.bound and listed != self.k):
            raise FalseClaim(f"{listed} answers, where {self.k} were asked for, do not fit a bound of {self.bound:.6g}")
        self._complete(last, names)

    def _answer(self, ids: tuple[int, ...], claimed: float, status: str, witnesses: Sequence[Any]) -> float:
        """The truth of one answer: what it rests on is as the store has it, and nothing makes the tuple truer."""
        truths, some, crisp = [], False, any(search.best(ids) > 0 for search in self.stated)
        for clause, search, witness in zip(self.clauses, self.searches, witnesses, strict=True):
            truth = 0.0
            if witness is not None:
                others = {name[1:]: witness["values"].get(name[1:], "") for name in clause.variables[len(ids) :]}
                values = [*ids, *(_look_up(name, self.entities) for name in others.values())]
                found = [self._fact(atom, values) for atom in clause.atoms]
                for claim, fact in zip([witness["values"], *witness["facts"]], [others, *found], strict=True):
                    if claim != fact:
                        raise FalseClaim(f"{self._describe(ids)} rests on {claim}, where the store has {fact}")
                some |= any(fact["observed"] > fact["negated"] for fact in found)
                truth = search.best(values)
            if (better := search.best(ids, truth * (1 + ROUNDING))) > truth * (1 + ROUNDING):
                raise FalseClaim(f"{self._describe(ids)} rests on a truth of {truth:.6g}, and has one of {better:.6g}")
            truths.append(truth)
        if not math.isclose(claimed, right := self._either(truths), rel_tol=ROUNDING) or not right:
            raise FalseClaim(f"{self._describe(ids)} is said to have truth {claimed:.6g}; it has {right:.6g}")
        kind = "observed" if crisp else "mixed" if some else "predicted"
        if status != kind or self.only not in (None, STATUS[crisp]):
            raise FalseClaim(f"{self._describe(ids)} is said to be {status}; it is {kind} (only {self.only})")
        return right

    def _fact(self, atom: SignedAtom, values: Values) -> dict[str, Any]:
        """An atom of a witness as the store has it."""
        names, ends = self.store.names, [values[end] if end >= 0 else ~end for end in (atom.head, atom.tail)]
        truth, observed = self.store.look_up(atom.relation, np.array(ends[:1]), np.array(ends[1:]))
        words = names[ends[0]], self.store.relations[atom.relation], names[ends[1]], atom.negated
        return dict(zip(FACT, (*words, abs(atom.negated - float(truth[0])), bool(observed[0])), strict=True))

    def _complete(self, last: float, names: list[int]) -> None:
        """No tuple that is not listed has more truth than the bound, nor the last truth and an earlier name."""
        above, known = self.bound * (1 + ROUNDING), set(self.tuples)
        tied = bool(self.tuples) and self.bound >= last * (1 - ROUNDING)
        level, final = (last * (1 - SLACK), names) if tied else (math.inf, [])

        def admits(variable: int, values: Values, ids: Ids, bounds: Floats) -> Any:  # what may be wrong with the list
            if variable >= len(self.free) or -1 in values[:variable]:
                return bounds > 0
            first = self.rank[values[:variable]].tolist()
            named = self.rank[ids] <= final[variable] if first == final[:variable] else first < final[:variable]
            return (bounds > self._share(above)) | named

        for search in self.searches:
            for values, _ in search.above(self._share(min(above, level)), (), admits if tied else None, known):
                ids = tuple(values[: len(self.free)])
                known.add(ids)
                truth = self._either([each.best(ids) for each in self.searches])
                early = truth >= level and self.rank[list(ids)].tolist() < final
                crisp = any(each.best(ids) > 0 for each in self.stated)  # the stated facts alone give it
                if (truth > above or early) and self.only in (None, STATUS[crisp]):
                    why = f"the bound is {self.bound:.6g}" if truth > above else "its name comes before the last answer"
                    raise FalseClaim(f"{self._describe(ids)} is not listed, has truth {truth:.6g}, and {why}")

    def _share(self, truth: float) -> float:
        """What the truest of the clauses has at least, if all together have such a truth."""
        product = -math.expm1(math.log1p(-truth) / len(self.searches)) if 0 < truth < 1 else truth
        share = {"product": product, "godel": truth, "lukasiewicz": truth / max(1, len(self.searches))}[self.logic]
        return share * (1 - 10 * SLACK)

    def _either(self, truths: Sequence[float]) -> float:
        """The truth of a disjunction."""
        return reduce(EITHER[self.logic], truths, 0.0)

    def _describe(self, ids: Sequence[int]) -> str:
        return f"({', '.join(self.store.names[i] for i in ids)})"


def _look_up(name: str, numbers: Mapping[str, int]) -> int:
    if name not in numbers:
        raise FalseClaim(f"nothing is called {name!r} there")
    return numbers[name]


def _fits(given: Any, shape: Any) -> bool:
    """Whether a part of a file is made like this: what is not understood must not be overlooked."""
    if isinstance(shape, tuple):
        return any(_fits(given, one) for one in shape)
    if isinstance(shape, type) or type(given) is not type(shape):
        return type(given) is shape
    if isinstance(shape, list):
        shape = shape * len(given) if len(shape) == 1 else shape
        return len(given) == len(shape) and all(map(_fits, given, shape))
    if isinstance(shape, dict):
        shape = dict.fromkeys(given, shape[...]) if ... in shape else shape
        return given.keys() == shape.keys() and all(_fits(given[key], shape[key]) for key in shape)
    return re.fullmatch(shape, given, re.DOTALL) is not None if isinstance(shape, str) else given == shape
