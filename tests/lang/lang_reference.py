"""What a query means, said naively: try every entity for every variable. Independent of the rewrite rules."""

from __future__ import annotations

from itertools import product

from tuplet.lang.ast import And, Atom, Constant, Different, Formula, Not, Or, Query, Term, terms
from tuplet.lang.rewrite import Clause

Facts = set[tuple[str, str, str]]


def holds(formula: Formula, value: dict[Term, str], facts: Facts) -> bool:
    def of(term: Term) -> str:
        return term.name.text if isinstance(term, Constant) else value[term]

    match formula:
        case Atom(relation, head, tail):
            return (of(head), relation.text, of(tail)) in facts
        case Different(left, right):
            return of(left) != of(right)
        case Not(body):
            return not holds(body, value, facts)
        case And(parts):
            return all(holds(part, value, facts) for part in parts)
        case Or(parts):
            return any(holds(part, value, facts) for part in parts)


def answers(query: Query, facts: Facts) -> set[tuple[str, ...]]:
    """All tuples of the free variables, found on the tree as it is."""
    entities = sorted({end for head, _, tail in facts for end in (head, tail)})
    variables = list(dict.fromkeys(t for t in terms(query.body) if not isinstance(t, Constant)))
    found = set()
    for choice in product(entities, repeat=len(variables)):
        value: dict[Term, str] = dict(zip(variables, choice, strict=True))
        if holds(query.body, value, facts):
            found.add(tuple(value[variable] for variable in query.free))
    return found


def clause_answers(clauses: tuple[Clause, ...], facts: Facts) -> set[tuple[str, ...]]:
    """The union of the clauses' answers, each clause on its own."""
    return {answer for clause in clauses for answer in answers(Query(clause.free, And(clause.literals)), facts)}
