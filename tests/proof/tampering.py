"""Ways to make a proof say what is not so; the file is sealed again afterwards, so that only its meaning is wrong."""

from __future__ import annotations

import copy
import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tuplet
from tuplet.cli.checking import formula
from tuplet.proof.writer import seal

Proof = dict[str, Any]
Random = np.random.Generator
# Changes a proof; False where that makes no false claim, such as swapping the answers of a list of one.
Tampering = Callable[[Proof, Random, tuplet.Store], bool]


def sealed(proof: Proof) -> str:
    """The text of a proof file."""
    content = {key: value for key, value in proof.items() if key != "seal"}
    return json.dumps(content | {"seal": seal(content)}, ensure_ascii=False)


def tampered(file: Path, change: Tampering, rng: Random, store: tuplet.Store) -> bool:
    """Rewrites a proof file; says whether it claims anything false now."""
    proof = json.loads(file.read_text("utf-8"))
    changed = copy.deepcopy(proof)
    if not change(changed, rng, store):
        return False
    file.write_text(sealed(changed), "utf-8")
    return True


def one(proof: Proof, rng: Random) -> Any:
    """Some answer."""
    return proof["answers"][rng.integers(len(proof["answers"]))] if proof["answers"] else None


def some_fact(proof: Proof, rng: Random) -> Any:
    """Some fact that some answer rests on, with its answer, clause and place."""
    answer = one(proof, rng)
    found = [
        (answer, number, place)
        for number, witness in enumerate(answer["witness"] if answer else [])
        for place in range(len(witness["facts"]) if witness else 0)
    ]
    return found[rng.integers(len(found))] if found else None


def truth_raised(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    answer = one(proof, rng)
    if answer is None or answer["truth"] >= 1:
        return False
    answer["truth"] += (1 - answer["truth"]) * 0.1
    return True


def truth_lowered(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    answer = one(proof, rng)
    if answer is not None:
        answer["truth"] *= 0.99
    return answer is not None


def better_tuple_left_out(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """Any but the last one, since without that a shorter list is right; the number asked for fits."""
    if len(proof["answers"]) < 2:
        return False
    del proof["answers"][rng.integers(len(proof["answers"]) - 1)]
    proof["k"] = len(proof["answers"])
    return True


def last_left_out_of_a_whole_list(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    if not proof["answers"] or proof["bound"]:
        return False
    proof["answers"].pop()
    return True


def bound_lowered(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """Below the truth of the best tuple that is not listed."""
    limits = {name: proof[name] for name in ("logic", "only")}
    more = store.ask(proof["query"]["text"], k=len(proof["answers"]) + 1, **limits)
    if not proof["bound"] or len(more) <= len(proof["answers"]):
        return False
    proof["bound"] = more[-1].truth * 0.9
    return True


def said_to_be_all(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """There are no more answers than these."""
    if not bound_lowered(proof, rng, store):
        return False
    proof |= {"bound": 0.0, "k": proof["k"] + 5}
    return True


def edge_invented(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """A witness goes another way, over an edge that is said to be as true as the one before."""
    found = some_fact(proof, rng)
    if found is None:
        return False
    answer, clause, place = found
    fact = answer["witness"][clause]["facts"][place]
    others = [name for name in store.graph.entities.names(range(len(store.graph.entities))) if name != fact["tail"]]
    fact["tail"] = str(rng.choice(others))
    return True


def existential_replaced(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """The same, throughout a witness."""
    found = some_fact(proof, rng)
    values = found[0]["witness"][found[1]]["values"] if found else {}
    if not values:
        return False
    name = str(rng.choice(list(values)))
    others = [other for other in store.graph.entities.names(range(len(store.graph.entities))) if other != values[name]]
    values[name] = str(rng.choice(others))
    return True


def edge_truth_raised(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """An edge is said to be truer, and the answer with it."""
    found = some_fact(proof, rng)
    if found is None:
        return False
    answer, clause, place = found
    fact = answer["witness"][clause]["facts"][place]
    if fact["truth"] >= 1:
        return False
    better = (1 + fact["truth"]) / 2
    answer["truth"] = min(1.0, answer["truth"] * better / fact["truth"])
    fact["truth"] = better
    return True


def worse_witness(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """The last answer rests on an assignment that is right, but not the best; its truth is that of this one."""
    clauses, answers = proof["query"]["clauses"], proof["answers"]
    if len(clauses) != 1 or not answers or not clauses[0]["exists"] or clauses[0]["compared"]:
        return False
    answer, table, names = answers[-1], store.source.table(store.question(proof["query"]["text"]).clauses), store.graph
    witness = answer["witness"][0]
    for name in rng.permutation(names.entities.names(range(len(names.entities)))).tolist():
        values = witness["values"] | {str(rng.choice(clauses[0]["exists"])): name}
        ends = {f"?{x}": entity for x, entity in zip(proof["query"]["free"], answer["tuple"], strict=True)}
        ends |= {f"?{x}": entity for x, entity in values.items()}
        facts = []
        for head, relation, tail, negated in clauses[0]["atoms"]:
            h, t = (ends.get(term, term[1:-1]) for term in (head, tail))
            ids = names.entities.find(h), names.relations.find(relation), names.entities.find(t)
            truth = table.value(*ids)
            fact = {"head": h, "relation": relation, "tail": t, "negated": negated}
            facts.append(fact | {"truth": 1 - truth if negated else truth, "observed": table.observed_edge(*ids)})
        truths = [fact["truth"] for fact in facts]
        joint = math.prod(truths) if proof["logic"] == "product" else min(truths)
        if 0 < joint < 0.99 * answer["truth"]:
            answer["witness"] = [{"values": values, "facts": facts}]
            answer["truth"] = joint
            proof["bound"] = min(proof["bound"], joint)
            return True
    return False


def later_name_listed(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """Of two tuples with the same truth the one with the later name is listed, the other one is not."""
    k = len(proof["answers"])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "more.proof"
        store.prove(proof["query"]["text"], file, k=k + 1, logic=proof["logic"], only=proof["only"])
        more = json.loads(file.read_text("utf-8"))["answers"]
    if not k or len(more) <= k or more[k]["truth"] != more[k - 1]["truth"]:
        return False
    proof["answers"][-1] = more[k]
    return True


def atom_left_out_of_the_query(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """With the facts of it; false where the answers to what is left are others."""
    at = int(rng.integers(len(proof["query"]["clauses"]) or 1))
    if not proof["answers"] or len(proof["query"]["clauses"][at]["atoms"]) < 2:
        return False
    place = int(rng.integers(len(proof["query"]["clauses"][at]["atoms"])))
    del proof["query"]["clauses"][at]["atoms"][place]
    for answer in proof["answers"]:
        if answer["witness"][at]:
            del answer["witness"][at]["facts"][place]
    try:
        right = store.ask(formula(proof), k=len(proof["answers"]), logic=proof["logic"], only=proof["only"])
    except tuplet.TupletError:
        return False  # it is not safe any more
    return [answer.truth for answer in right] != [answer["truth"] for answer in proof["answers"]]


def order_swapped(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    if len(proof["answers"]) < 2:
        return False
    at = rng.integers(len(proof["answers"]) - 1)
    proof["answers"][at : at + 2] = proof["answers"][at : at + 2][::-1]
    return True


def prediction_said_to_be_observed(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    found = some_fact(proof, rng)
    if found is None:
        return False
    fact = found[0]["witness"][found[1]]["facts"][found[2]]
    fact["observed"] = not fact["observed"]
    return True


def status_changed(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    answer = one(proof, rng)
    if answer is not None:
        answer["status"] = str(rng.choice([w for w in ("observed", "mixed", "predicted") if w != answer["status"]]))
    return answer is not None


def answer_repeated(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    answer = one(proof, rng)
    if answer is not None:
        proof["answers"].insert(proof["answers"].index(answer), copy.deepcopy(answer))
        proof["k"] = max(proof["k"], len(proof["answers"]))
    return answer is not None


def another_tuple_put_in(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    answer = one(proof, rng)
    if answer is None:
        return False
    at = rng.integers(len(answer["tuple"]))
    names = store.graph.entities.names(range(len(store.graph.entities)))
    answer["tuple"][at] = str(rng.choice([name for name in names if name != answer["tuple"][at]]))
    return True


def filter_taken_away(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    """A list of what `only` keeps is said to be the whole list."""
    if proof["only"] is None:
        return False
    whole = store.ask(proof["query"]["text"], k=max(1, len(proof["answers"])), logic=proof["logic"])
    proof["only"] = None
    if not proof["answers"]:  # it may have been asked for none
        return len(whole) > 0 and whole[0].truth > proof["bound"]
    return [list(a.values.values()) for a in whole] != [a["tuple"] for a in proof["answers"]]


def older_generation(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    proof["store"]["generation"] += 1
    return True


def another_store(proof: Proof, rng: Random, store: tuplet.Store) -> bool:
    proof["store"]["hash"] = proof["store"]["hash"][::-1]
    return True


# Each with what the refusal says.
TAMPERINGS: dict[Tampering, str] = {
    truth_raised: "is said to have truth",
    truth_lowered: "is said to have truth",
    better_tuple_left_out: "is not listed|does not come after",
    last_left_out_of_a_whole_list: "is not listed",
    bound_lowered: "is not listed",
    said_to_be_all: "is not listed",
    edge_invented: "rests on .* where the store has",
    existential_replaced: "rests on .* where the store has",
    edge_truth_raised: "rests on .* where the store has",
    worse_witness: "rests on a truth of",
    later_name_listed: "its name comes before the last answer",
    atom_left_out_of_the_query: "truth|is said to be|is not listed",
    order_swapped: "does not come after",
    prediction_said_to_be_observed: "rests on .* where the store has",
    status_changed: "is said to be",
    answer_repeated: "does not come after",
    another_tuple_put_in: "rests on|is said to have truth",
    filter_taken_away: "is not listed",
    older_generation: "is about another store",
    another_store: "is about another store",
}
