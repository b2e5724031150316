"""More ways to make a proof say what is not so: what is asked, unions, ties by a hair, and numbers that do not fit."""

from __future__ import annotations

import copy
import json
import tempfile
from functools import reduce
from pathlib import Path
from typing import Any

from tampering import Proof, Random, Tampering

import tuplet
from tuplet.cli.checking import counts_twice, formula
from tuplet.query.logic import Logic

HAIR = 5e-12  # less than the checker calls a difference of truths


def is_false(proof: Proof, store: tuplet.Store) -> bool:
    """Whether the answers to the query in the file, if it is one, are others than those in the file."""
    limits = {name: proof[name] for name in ("logic", "only")}
    try:
        right = store.ask(formula(proof), k=len(proof["answers"]) if proof["bound"] else "all", **limits)
    except tuplet.TupletError:
        return False  # it is not safe any more
    if counts_twice(proof):
        return False  # unusable: `tuplet check` finds that out
    found = [(list(answer.values.values()), round(answer.truth, 9)) for answer in right]
    return found != [(answer["tuple"], round(answer["truth"], 9)) for answer in proof["answers"]]


def pick(rng: Random, some: Any) -> Any:
    """One of them, or None."""
    some = list(some)
    return some[rng.integers(len(some))] if some else None


def clause_of(proof: Proof, rng: Random) -> tuple[int, Any]:
    """Some clause with its number."""
    number = int(rng.integers(len(proof["query"]["clauses"])))
    return number, proof["query"]["clauses"][number]


def proved(store: tuplet.Store, proof: Proof, k: int) -> Proof:
    """The proof of the same question with so many answers."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "other.proof"
        store.prove(proof["query"]["text"], file, k=k, logic=proof["logic"], only=proof["only"])
        found: Proof = json.loads(file.read_text("utf-8"))
        return found


# --- ties ------------------------------------------------------------------------------------------------------------


def equals_swapped_by_a_hair(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """The first of two equals is claimed to be a little truer than it is, and both change places."""
    answers = proof["answers"]
    at = pick(rng, (i for i in range(len(answers) - 1) if answers[i]["truth"] == answers[i + 1]["truth"]))
    if at is None:
        return False
    answers[at : at + 2] = answers[at : at + 2][::-1]
    for place in range(at + 1):  # the order of all that come before stays
        answers[place]["truth"] *= 1 + HAIR
    return True


def later_name_by_a_hair(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """Of two equals the one with the later name is listed; its truth is raised a little, so that it is no tie."""
    k = len(proof["answers"])
    more = proved(store, proof, k + 1)["answers"] if k else []
    if (
        len(more) <= k
        or more[k]["truth"] != more[k - 1]["truth"]
        or (k > 1 and more[k]["truth"] == more[k - 2]["truth"])
    ):
        return False
    proof["answers"][-1] = more[k]
    more[k]["truth"] *= 1 + HAIR
    return True


# --- unions ----------------------------------------------------------------------------------------------------------


def clause_silenced(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """A clause is said to give the last answer nothing, which therefore has the truth of the others."""
    if not proof["answers"] or len(proof["query"]["clauses"]) < 2:
        return False
    answer = proof["answers"][-1]
    heard = [number for number, witness in enumerate(answer["witness"]) if witness]
    if len(heard) < 2:
        return False
    answer["witness"][pick(rng, heard)] = None
    truths, rules = [], Logic.from_name(proof["logic"])
    for witness in filter(None, answer["witness"]):
        factors = [fact["truth"] for fact in witness["facts"]]
        truths.append(float(reduce(rules.conjunction, factors, 1.0)))
    answer["truth"] = float(reduce(rules.disjunction, truths))
    proof["bound"] = min(proof["bound"], answer["truth"])
    return True


def clause_doubled(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """A clause stands twice: two reasons, where there was one, and the truth of one."""
    number, clause = clause_of(proof, rng)
    proof["query"]["clauses"].append(copy.deepcopy(clause))
    for answer in proof["answers"]:
        answer["witness"].append(copy.deepcopy(answer["witness"][number]))
    changed = [answer for answer in proof["answers"] if answer["witness"][number] and answer["truth"] < 1]
    return proof["logic"] == "product" and bool(changed)


def clause_left_out(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    if len(proof["query"]["clauses"]) < 2:
        return False
    number, _ = clause_of(proof, rng)
    for part in (proof["query"]["clauses"], *(answer["witness"] for answer in proof["answers"])):
        del part[number]
    return is_false(proof, store)


# --- the question ----------------------------------------------------------------------------------------------------


def sign_turned(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """An atom is negated, or is so no longer; its facts as well."""
    number, clause = clause_of(proof, rng)
    place = int(rng.integers(len(clause["atoms"])))
    clause["atoms"][place][3] ^= True
    for witness in filter(None, (answer["witness"][number] for answer in proof["answers"])):
        fact = witness["facts"][place]
        fact |= {"negated": not fact["negated"], "truth": 1 - fact["truth"]}
    return is_false(proof, store)


def direction_turned(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """Head and tail of an atom change places, those of its facts too."""
    number, clause = clause_of(proof, rng)
    place = int(rng.integers(len(clause["atoms"])))
    head, relation, tail, negated = clause["atoms"][place]
    clause["atoms"][place] = [tail, relation, head, negated]
    for witness in filter(None, (answer["witness"][number] for answer in proof["answers"])):
        fact = witness["facts"][place]
        fact |= {"head": fact["tail"], "tail": fact["head"]}
    return is_false(proof, store)


def columns_swapped(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """The free variables stand in another order than the values."""
    free = proof["query"]["free"]
    free[:] = free[1:] + free[:1]
    return is_false(proof, store)


def condition_left_out(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """A comparison, or a list of names, is no longer asked."""
    parts = [clause[key] for clause in proof["query"]["clauses"] for key in ("compared", "among") if clause[key]]
    chosen = pick(rng, parts)
    if chosen is None:
        return False
    del chosen[rng.integers(len(chosen))]
    return is_false(proof, store)


def condition_put_in(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """A comparison that some listed answer does not keep to."""
    _, clause = clause_of(proof, rng)
    answer = pick(rng, proof["answers"])
    if answer is None:
        return False
    at = int(rng.integers(len(answer["tuple"])))
    clause["among"].append([f"?{proof['query']['free'][at]}", [f"<{answer['tuple'][at]}>"], True])
    return is_false(proof, store)


def existential_shown(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """A variable that was asked away is a column, with the value that the witness has."""
    clauses = proof["query"]["clauses"]
    if len(clauses) != 1 or not clauses[0]["exists"]:
        return False
    name = clauses[0]["exists"].pop(0)
    proof["query"]["free"].append(name)
    for answer in proof["answers"]:
        answer["tuple"].append(answer["witness"][0]["values"].pop(name))
    return is_false(proof, store)


def logic_changed(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    proof["logic"] = "godel" if proof["logic"] == "product" else "product"
    return is_false(proof, store)


def filter_changed(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """What `only` keeps is said to be what it leaves out, or a whole list to be one of these."""
    proof["only"] = "observed" if proof["only"] == "predicted" else "predicted"
    return is_false(proof, store)


# --- numbers and places ----------------------------------------------------------------------------------------------


def witnesses_exchanged(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """Two answers rest on what the other one does."""
    if len(proof["answers"]) < 2:
        return False
    one, other = (proof["answers"][at] for at in rng.choice(len(proof["answers"]), 2, replace=False))
    one["witness"], other["witness"] = other["witness"], one["witness"]
    return bool(one["witness"] != other["witness"])


def bound_raised(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """Above the last answer: others may come before it."""
    if not proof["answers"] or proof["answers"][-1]["truth"] > 0.9 or len(proof["answers"]) != proof["k"]:
        return False
    proof["bound"] = proof["answers"][-1]["truth"] * 1.01
    return True


def fewer_than_asked(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """There may be others, and fewer are listed than were asked for."""
    proof["k"] = None if rng.random() < 0.5 or proof["k"] is None else proof["k"] + 1
    return bool(proof["bound"])


# Each with what the refusal says.
OTHER = "truth|is said to be|is not listed|rests on|does not come after"
FORGERIES: dict[Tampering, str] = {
    equals_swapped_by_a_hair: "does not come after",
    later_name_by_a_hair: "its name comes before the last answer",
    clause_silenced: "rests on a truth of 0",
    clause_doubled: "is said to have truth",
    clause_left_out: OTHER,
    sign_turned: OTHER,
    direction_turned: OTHER,
    columns_swapped: OTHER,
    condition_left_out: OTHER,
    condition_put_in: OTHER,
    existential_shown: OTHER,
    logic_changed: OTHER,
    filter_changed: OTHER,
    witnesses_exchanged: "rests on",
    bound_raised: "others may come before",
    fewer_than_asked: "were asked for",
}
