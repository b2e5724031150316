"""Conditions joined by *or* are one condition: what meets several of them is no truer for it.

Clauses that say the same but for conditions on one variable become one clause: the variable is one of the entities that
some alternative allows. Without this, each alternative would count as a reason of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuplet.lang.ast import Among, Atom, Attribute, Compare, Condition, Exists, Free, Has, Term, Variable, terms
from tuplet.lang.rules import Clause, Literal, rename


@dataclass(frozen=True)
class Alternatives:
    """What a variable has to meet, one way or another: all conditions of one of the lists."""

    variable: Variable
    lists: tuple[tuple[Condition, ...], ...]


def merged(clauses: Sequence[Clause]) -> list[tuple[Clause, Alternatives | None]]:
    """The clauses, those that are alternatives of one variable together.

    >>> from tuplet.lang.logic_text import parse_logic
    >>> from tuplet.lang.rules import clauses
    >>> found = merged(clauses(parse_logic("?x : r(?x, a) & (?x.age > 50 | ?x.name = 'Bob') & has(?x.size)")))
    >>> [(len(clause.literals), len(some.lists)) for clause, some in found]
    [(2, 2)]
    """
    if len(clauses) == 1:
        return [(clauses[0], None)]
    groups: dict[tuple[Literal, ...], list[Clause]] = {}
    for clause in clauses:
        atoms = tuple(part for part in clause.literals if not _may_merge(part))
        groups.setdefault(_renamed(atoms, _numbered(clause)), []).append(clause)
    found: list[tuple[Clause, Alternatives | None]] = []
    for members in groups.values():
        one = _one(members) if len(members) > 1 else None
        found += [one] if one is not None else [(clause, None) for clause in members]
    return found


def _one(clauses: Sequence[Clause]) -> tuple[Clause, Alternatives | None] | None:
    """Clauses of the same atoms as one, if what differs is about one variable alone."""
    free, names = clauses[0].free, {number: old for old, number in _numbered(clauses[0]).items()}
    members = [
        _renamed(clause.literals, {old: names[number] for old, number in _numbered(clause).items()})
        for clause in clauses
    ]
    if not any(isinstance(part, Atom) for part in members[0]):
        return None
    shared = set(members[0]).intersection(*members[1:])
    # conditions on one attribute speak of the same value, so they stay together
    differing = [part for literals in members for part in literals if part not in shared]
    own = {attribute for part in differing for attribute in _attributes(part)}
    shared -= {part for part in shared if _may_merge(part) and own & set(_attributes(part))}
    rest = [tuple(part for part in literals if part not in shared) for literals in members]
    about = {term for literals in rest for part in literals for term in terms(part) if isinstance(term, Free | Exists)}
    kept = tuple(part for part in members[0] if part in shared)
    if any(not literals for literals in rest):
        return Clause(free, kept), None  # one alternative asks for nothing more
    if len(about) != 1:
        return None
    [variable] = about
    return Clause(free, kept), Alternatives(variable, tuple(rest))  # type: ignore[arg-type]


def _may_merge(part: Literal) -> bool:
    """Whether a literal is a condition that says of one entity which it may be."""
    match part:
        case Compare() | Has() | Among():
            return all(not isinstance(attribute.of, Atom) for attribute in _attributes(part))
        case _:
            return False


def _attributes(part: Literal) -> list[Attribute]:
    match part:
        case Compare(_, left, right):
            return [side for side in (left, right) if isinstance(side, Attribute)]
        case Has(attribute) | Among(Attribute() as attribute):
            return [attribute]
        case _:
            return []


def _numbered(clause: Clause) -> dict[Term, Term]:
    """A number for each existential variable, in the order in which the atoms have them."""
    numbers: dict[Term, Term] = {}
    for part in clause.literals:
        if not _may_merge(part):
            for term in terms(part):
                if isinstance(term, Exists):
                    numbers.setdefault(term, Exists(str(len(numbers))))
    return numbers


def _renamed(literals: tuple[Literal, ...], names: dict[Term, Term]) -> tuple[Literal, ...]:
    return tuple(rename(part, names) for part in literals) if names else literals  # type: ignore[misc]
