"""Puts the answers of a query into a proof file, with everything that is needed to check them against the store."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from tuplet._version import __version__
from tuplet.errors import BadInput, Refused
from tuplet.files import write_text
from tuplet.lang.ast import Among, Attribute, Different, Same, atoms
from tuplet.query.answers import Answers
from tuplet.query.ask import Question
from tuplet.query.conditions import BoundCondition, Equal, Outside, Within
from tuplet.query.engine import Engine
from tuplet.query.limits import Limits
from tuplet.query.loose import is_loose
from tuplet.query.ranking import QueryGraph
from tuplet.truth.store_folder import StoreFiles

FORMAT, VERSION = "tuplet proof", 1


def refuse_unprovable(question: Question, engine: Engine[Any], limits: Limits, files: StoreFiles | None) -> StoreFiles:
    """The store of a question that a proof can be about; others are refused before they are searched."""
    if limits.guaranteed:
        raise BadInput(
            "a proof is about a ranked list; not with confidence or max_false, which are about a share of it"
        )
    if files is None:
        raise BadInput("a proof is about the truth values of a store on disk (tuplet build, tuplet index)")
    if files.on_demand:
        raise BadInput("this store computes truth on demand, which takes its model; a proof needs a truth table")
    if not engine.needs_truth:
        raise Refused(f"engine {engine.name!r} knows no truth values; a proof needs one that does, such as 'exact'")
    if not question.plain:
        raise Refused("a proof is about tuples of entities; it cannot express values, counts, ASK, ORDER BY or ?p")
    for clause in question.clauses:
        if is_loose(clause):
            raise Refused("a proof needs a positive atom for each variable; here conditions alone speak of one")
        for condition in clause.conditions:
            if not _is_about_names(condition):
                said = QueryGraph(clause.variables, clause.free, (), conditions=(condition,)).describe_conditions()[0]
                raise Refused(f"a proof cannot express conditions on attributes: {said}")
    return files


def write_proof(
    path: str | os.PathLike[str],
    question: Question,
    answers: Answers,
    limits: Limits,
    files: StoreFiles,
    force: bool = False,
) -> None:
    """Write the proof of answers that were found with these limits, from the first one on."""
    if not answers.exact or answers.pruned:
        raise BadInput(f"the order of these answers is not proven ({answers.pruned or 'not exact'}): nothing to write")
    content = {
        "format": FORMAT,
        "version": VERSION,
        "tuplet": __version__,
        "store": {"path": os.path.abspath(files.path), "hash": files.hash, "generation": files.generation},
        "query": {
            "text": question.text,
            "free": list(answers.variables),
            "clauses": [_clause(clause, question) for clause in question.clauses],
        },
        "logic": limits.logic,
        "only": limits.only,
        "k": answers.k,
        "bound": float(answers.bound),
        "answers": _answers(question, answers),
    }
    write_text(path, json.dumps(content | {"seal": seal(content)}, ensure_ascii=False, indent=1) + "\n", force)


def seal(content: Mapping[str, Any]) -> str:
    """A hash over everything, so that a damaged file is not taken for a false claim."""
    return hashlib.sha256(
        json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    ).hexdigest()


def _is_about_names(condition: BoundCondition) -> bool:
    """Whether a condition speaks of entities by name alone."""
    if not isinstance(condition, Within | Outside | Equal) or not condition.said:
        return False
    parts = [part for formula in condition.said for part in atoms(formula)]
    return all(
        isinstance(part, Same | Different) or (isinstance(part, Among) and not isinstance(part.item, Attribute))
        for part in parts
    )


def _names(clause: QueryGraph) -> list[str]:
    """The variables by name, each another one."""
    found: list[str] = []
    for name in clause.variables:
        while name in found:
            name += "_"
        found.append(name)
    return found


def _clause(clause: QueryGraph, question: Question) -> dict[str, Any]:
    entities, relations, names = question.source.graph.entities, question.source.graph.relations, _names(clause)

    def term(node: int) -> str:
        return f"?{names[node]}" if node >= 0 else f"<{entities.name(~node)}>"

    compared = [[term(a), "!=", term(b)] for a, b in clause.different]
    among = []
    for condition in clause.conditions:
        if isinstance(condition, Equal):
            compared.append([term(condition.left), "=", term(condition.right)])
        elif isinstance(condition, Within | Outside):
            outside = isinstance(condition, Outside)
            listed = condition.listed if isinstance(condition, Outside) else condition.entities()
            among.append([term(condition.variable), [term(~int(entity)) for entity in listed], outside])
    return {
        "exists": names[len(clause.free) :],
        "atoms": [[term(e.head), relations.name(e.relation), term(e.tail), e.negated] for e in clause.edges],
        "compared": compared,
        "among": among,
    }


def _answers(question: Question, answers: Answers) -> list[dict[str, Any]]:
    """The answers with what they rest on, clause by clause."""
    name, relation = question.source.graph.entities.name, question.source.graph.relations.name
    table = question.source.table(question.clauses)

    def witness(clause: QueryGraph, values: list[int]) -> dict[str, Any] | None:
        if -1 in values:
            return None
        ends = [[values[n] if n >= 0 else ~n for n in (edge.head, edge.tail)] for edge in clause.edges]
        heads, tails = np.array(ends, np.int32).reshape(-1, 2).T.copy()
        truth, observed = table.lookup(heads, np.array([edge.relation for edge in clause.edges], np.int32), tails)
        facts = [
            {
                "head": name(head),
                "relation": relation(edge.relation),
                "tail": name(tail),
                "negated": edge.negated,
                "truth": 1.0 - value if edge.negated else value,
                "observed": stated,
            }
            for (head, tail), edge, value, stated in zip(
                ends, clause.edges, truth.astype(np.float64).tolist(), observed.tolist(), strict=True
            )
        ]
        free = len(clause.free)
        others = zip(_names(clause)[free:], map(name, values[free:]), strict=True)
        return {"values": dict(others), "facts": facts}

    return [
        {
            "tuple": [answer.values[variable] for variable in answers.variables],
            "truth": answer.truth,
            "status": answer.status,
            "witness": [
                witness(clause, assigned[place].tolist())
                for clause, assigned in zip(question.clauses, answers.ranking.assignments, strict=True)
            ],
        }
        for place, answer in enumerate(answers)
    ]
