"""`tuplet check`: a proof file against its store, verified by a program that shares no code with the engines."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuplet.cli.command_parser import echo
from tuplet.errors import TupletError
from tuplet.lang.ast import Atom, Name, Not
from tuplet.lang.parse import parse
from tuplet.lang.print import write_word
from tuplet.lang.rewrite import clauses
from tuplet.progress import printable
from tuplet.query.bind import merge_alternatives


def run_check(arguments: argparse.Namespace) -> Any:
    """`tuplet check`: exit code 0 accepted, 1 refused, 2 nothing to check."""
    from tuplet.proof.checker import FalseClaim, check
    from tuplet.proof.plain_store import UnusableProof

    try:
        proof = check(Path(arguments.proof), Path(arguments.store) if arguments.store else None)
        if counts_twice(proof):
            raise UnusableProof(f"{arguments.proof} has an atom or a clause twice, which counts once in a query")
    except (FalseClaim, UnusableProof, TupletError) as error:
        verdict = "refused" if isinstance(error, FalseClaim) else "unusable"
        if arguments.json:
            echo({"verdict": verdict, "reason": str(error)}, as_json=True)
        else:
            print(printable(f"{verdict}: {error}"), file=sys.stderr)
        sys.stdout.flush()
        raise SystemExit(1 if verdict == "refused" else 2) from None
    told = {"query": formula(proof), "asked_as": proof["query"]["text"], "store": proof["store"]}
    told |= {key: proof[key] for key in ("logic", "only", "k", "bound")} | {"answers": len(proof["answers"])}
    share = rows_computed(Path(arguments.store or proof["store"]["path"]))
    told |= {} if share is None else {"rows_computed": share}
    return {"verdict": "accepted", **told} if arguments.json else format_accepted(proof, share)


def rows_computed(store: Path) -> float | None:
    """The share of the rows that were computed, if there was no time for all: a proof is about what the store holds."""
    report = json.loads((store / "store.json").read_bytes())["meta"].get("report") or {}
    rows = (report.get("candidates") or {}).get("rows")
    return None if rows is None else round(rows["computed"] / rows["of"], 4)


def format_accepted(proof: Mapping[str, Any], share: float | None = None) -> str:
    """What was verified, for people; of the rows of the store that share was computed."""
    bound, kind = proof["bound"], f"{proof['only']} " if proof["only"] else ""
    rest = (
        f"every other {kind}tuple has a truth of at most {bound:.6g}"
        if bound
        else f"no other {kind}tuple has any truth"
    )
    number, missing = len(proof["answers"]), ""
    logic = "" if proof["logic"] == "product" else f"\nlogic     {proof['logic']}"  # it decides order and bound
    if share is not None:
        rest += " in the store"
        missing = (
            f"\nrows      {100 * share:.0f} % were computed in the time given: more may be true than the store holds"
        )
    return (
        f"accepted: {number} {'answer' if number == 1 else 'answers'} in proven order, {rest}\n"
        f"query     {formula(proof)}{logic}\n"
        f"store     {proof['store']['hash'][:16]}, generation {proof['store']['generation']}{missing}"
    )


def counts_twice(proof: Mapping[str, Any]) -> bool:
    """Whether the query that is printed is not the one that was checked.

    In a query identical atoms count once, and so do identical clauses, and alternatives that a variable has in one
    clause. In a file each is one of its own: the truth of `r(?x, a) | r(?x, a)` would be raised.
    """
    written = [len(clause["atoms"]) for clause in proof["query"]["clauses"]]
    found = merge_alternatives(clauses(parse(formula(proof)))) if written else []
    meant = [sum(isinstance(part, Atom | Not) for part in clause.literals) for clause, _ in found]
    return sorted(meant) != sorted(written)


def formula(proof: Mapping[str, Any]) -> str:
    """The query that was checked, which is what the file has in place of the text that was asked.

    Names are written so that none of them can look like more than a name.
    """
    found = []
    for clause in proof["query"]["clauses"]:
        parts = [
            f"{'!' * negated}{_write(relation)}({_term(head)}, {_term(tail)})"
            for head, relation, tail, negated in clause["atoms"]
        ]
        parts += [f"{_term(left)} {sign} {_term(right)}" for left, sign, right in clause["compared"]]
        parts += [
            f"{'!' * negated}{term} in {{{', '.join(map(_term, listed))}}}" for term, listed, negated in clause["among"]
        ]
        bound = ", ".join(f"?{name}" for name in clause["exists"])
        found.append((f"exists {bound} . " if bound else "") + " & ".join(parts))
    free = ", ".join(f"?{name}" for name in proof["query"]["free"])
    return f"{free} : {' | '.join(found) or 'nothing'}"


def _term(term: str) -> str:
    return term if term.startswith("?") else _write(term[1:-1])


def _write(name: str) -> str:
    return printable(write_word(Name(name)))
