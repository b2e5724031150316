"""From any formula to clauses, in four visible steps; each rule takes a query to a query that means the same.

`RULES` in order: negations move down to the atoms, conjunctions are distributed over disjunctions, existential
variables become local to their clause, and what is written twice counts once. A query means its disjunctive normal
form: product logic is not distributive, so truth values are defined there. Splitting a clause into independent parts
is the business of `QueryGraph.components`, after names have become numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeAlias, TypeVar

from tuplet.errors import BudgetExceeded, UnsafeQuery
from tuplet.lang.ast import (
    Among,
    And,
    Atom,
    Attribute,
    Compare,
    Condition,
    Constant,
    Different,
    Exists,
    Formula,
    Free,
    Has,
    Not,
    Or,
    Query,
    Same,
    Term,
    Variable,
    terms,
)

Literal: TypeAlias = Atom | Not | Condition
T = TypeVar("T")
_JOINED, _SIDES = (And, Or), (Different, Same)

MAX_CLAUSES = 64
MAX_ATOMS = 256  # of one clause
MAX_VARIABLES = 64  # of one clause
ROUNDS = 24  # of colour refinement, when identical clauses are looked for


@dataclass(frozen=True, slots=True)
class Clause:
    """A conjunction of atoms, negated atoms and conditions; all clauses of a query ask for the same variables."""

    free: tuple[Free, ...]
    literals: tuple[Literal, ...]


# --- formulas ----------------------------------------------------------------------------------------------------

TRUE, FALSE = And(()), Or(())  # what always holds and what never does; told by identity


def conjunction(parts: Iterable[Formula]) -> Formula:
    """`parts` joined by and, with nested conjunctions made one level; a single part stays itself."""
    return _join(And, parts, TRUE, FALSE)


def disjunction(parts: Iterable[Formula]) -> Formula:
    """`parts` joined by or, with nested disjunctions made one level; a single part stays itself."""
    return _join(Or, parts, FALSE, TRUE)


def negation(body: Formula) -> Formula:
    """Not `body`; two negations cancel, and a condition becomes its opposite."""
    if body is TRUE or body is FALSE:
        return FALSE if body is TRUE else TRUE
    match body:
        case Not(inner):
            return inner
        case Different(left, right):
            return Same(left, right)
        case Same(left, right):
            return Different(left, right)
        case Compare() | Among() | Has():  # where a value is missing, both are false
            return replace(body, negated=not body.negated)
        case _:
            return Not(body)


def _join(kind: type[And | Or], parts: Iterable[Formula], neutral: Formula, absorbing: Formula) -> Formula:
    flat: list[Formula] = []
    for part in parts:
        if part is absorbing:
            return absorbing
        if isinstance(part, kind):
            flat.extend(part.parts)
        else:
            flat.append(part)
    if len(flat) == 1:
        return flat[0]
    return kind(tuple(flat)) if flat else neutral


def rename(part: T, renamed: Mapping[Any, Any]) -> T:
    """A formula, or a part of one, with some terms (and facts that have attributes) replaced by others."""
    new: Any = part
    match part:
        case Atom(relation, head, tail):
            if relation.kind == "variable" and isinstance(known := renamed.get(Exists(relation.text)), Free | Exists):
                relation = replace(relation, text=known.name)
            new = Atom(relation, renamed.get(head, head), renamed.get(tail, tail))
        case And(parts) | Or(parts):
            new = type(part)(tuple([rename(each, renamed) for each in parts]))
        case Constant() | Free() | Exists():
            new = renamed.get(part, part)
        case Attribute(of, name, variable):
            new = Attribute(renamed[of] if of in renamed else rename(of, renamed), name, variable)
        case Compare(operator, left, right, negated):
            new = Compare(operator, rename(left, renamed), rename(right, renamed), negated)
        case Not() | Different() | Same() | Among() | Has():
            new = type(part)(*[rename(getattr(part, name), renamed) for name in part.__match_args__])
    made: T = new
    return made


def new_name(name: str, taken: set[str], numbered: bool = False) -> str:
    """A name that is not taken so far: the name itself, or (always if `numbered`) with a number behind it.

    >>> taken = {"x", "_1"}
    >>> new_name("y", taken), new_name("x", taken), new_name("", taken, numbered=True), sorted(taken)
    ('y', 'x_2', '_2', ['_1', '_2', 'x', 'x_2', 'y'])
    """
    count, found = 1, f"{name}_1" if numbered else name
    while found in taken:
        count += 1
        found = f"{name}_{count}"
    taken.add(found)
    return found


# --- the rules ---------------------------------------------------------------------------------------------------


def push_negation(query: Query) -> Query:
    """Move negations down to the atoms: !(a & b) becomes !a | !b.

    >>> show(push_negation, '?x, ?y : a(?x, ?y) & !(b(?x, ?y) | !c(?y, ?x))')
    '?x, ?y : a(?x, ?y) & !b(?x, ?y) & c(?y, ?x)'
    """
    return replace(query, body=_push(query.body, False))


def disjunctive_normal_form(query: Query) -> Query:
    """Distribute & over |: a disjunction of conjunctions of literals. Too many clauses are refused before any work.

    >>> show(disjunctive_normal_form, '?x : a(?x, :s) & (b(?x, :s) | c(?x, :s))')
    '?x : a(?x, s) & b(?x, s) | a(?x, s) & c(?x, s)'
    """
    check_size(query)
    return replace(query, body=Or(tuple(And(clause) for clause in _distribute(query.body))))


def rename_apart(query: Query) -> Query:
    """Give each clause its own existential variables; the first clause keeps the names as they are.

    >>> show(rename_apart, '?x : exists ?z . a(?x, ?z) | b(?x, ?z)')
    '?x : exists ?z, ?z_2 . a(?x, ?z) | b(?x, ?z_2)'
    """
    taken = {variable.name for variable in query.free}
    taken.update(term.name for term in terms(query.body) if isinstance(term, Exists))
    parts: list[Formula] = []
    seen: set[str] = set()
    for part in _disjuncts(query.body):
        renamed: dict[Term, Term] = {}
        own = dict.fromkeys(term for term in terms(part) if isinstance(term, Exists))
        for variable in own:
            if variable.name in seen:
                renamed[variable] = Exists(new_name(variable.name, taken))
        seen.update(variable.name for variable in own)
        parts.append(rename(part, renamed) if renamed else part)
    return replace(query, body=Or(tuple(parts)))


def drop_duplicate_atoms(query: Query) -> Query:
    """Keep one of identical atoms and one of identical clauses, and drop clauses that say a != a.

    Clauses are identical if they differ only in the order of their literals and the names of their existential
    variables. Nothing else is minimised: `r(x, y) & !r(x, y)` stays.

    >>> show(drop_duplicate_atoms, '?x : a(?x, :s) & ?x != :t & a(?x, :s) & :t != ?x | b(?x, :s) & ?x != ?x')
    '?x : a(?x, s) & ?x != t'
    """
    found = [literals for part in _disjuncts(query.body) if (literals := _literals(part)) is not None]
    if len(found) < len(_disjuncts(query.body)):
        raise ValueError("this rule takes a query in disjunctive normal form")
    return replace(query, body=Or(tuple(And(literals) for literals in _distinct(found))))


Rule: TypeAlias = Callable[[Query], Query]
RULES: tuple[Rule, ...] = (push_negation, disjunctive_normal_form, rename_apart, drop_duplicate_atoms)


def to_normal_form(query: Query) -> Query:
    """Apply all rules: the body becomes an `Or` of `And`s of literals, one for each clause (none: no answers)."""
    for rule in RULES:
        query = rule(query)
    return query


def clauses(query: Query) -> tuple[Clause, ...]:
    """The clauses of a query, safe and within the limits; none at all if nothing can answer it.

    >>> from tuplet.lang.logic import parse_logic
    >>> [len(c.literals) for c in clauses(parse_logic('?x : a(?x, :s) & !b(?x, :t) | c(?x, :s)'))]
    [2, 1]
    """
    literals = _literals(query.body)
    if literals is not None:  # most queries: nothing to rewrite
        check_size(query)
        found = [literals]
    else:
        for rule in RULES[:-1]:
            query = rule(query)
        found = [_literals(part) or () for part in _disjuncts(query.body)]
    for literals in found:  # before any is dropped: a contradiction does not make a query safe
        check_safe(Clause(query.free, literals))
    return tuple([Clause(query.free, literals) for literals in _distinct(found)])


# --- checks ------------------------------------------------------------------------------------------------------


def check_safe(clause: Clause) -> None:
    """Refuse a variable that no positive atom of the clause binds, and too many variables.

    >>> check_safe(Clause((Free("x"),), (Different(Free("x"), Exists("z")),)))
    Traceback (most recent call last):
    tuplet.errors.UnsafeQuery: unsafe variable ?x: no positive atom contains it
    """
    bound: set[Variable] = set()
    mentioned: dict[Variable, None] = dict.fromkeys(clause.free)
    for literal in clause.literals:
        binds = _binds(literal)
        for term in terms(literal):
            if not isinstance(term, Constant):
                mentioned[term] = None
                if binds:
                    bound.add(term)
    if len(mentioned) > MAX_VARIABLES:
        raise BudgetExceeded(
            f"query too large: {len(mentioned)} variables in a clause, at most {MAX_VARIABLES}", limit="variables"
        )
    for variable in mentioned:
        if variable in bound:
            continue
        negated = any(variable in terms(literal) for literal in clause.literals if isinstance(literal, Not))
        compared = any(variable in terms(literal) for literal in clause.literals if not isinstance(literal, Not))
        if negated and isinstance(variable, Exists):
            reason = "it occurs only in negated atoms (¬∃); some positive atom has to say which entities it may be"
        elif negated:
            reason = "it occurs only in negated atoms; some positive atom has to say which entities it may be"
        elif compared:
            reason = "no positive atom contains it"
        else:
            reason = "one alternative of the query does not contain it"
        raise UnsafeQuery(variable.name, reason)


def _binds(literal: Literal) -> bool:
    """Whether a literal says which entities its terms may be: an atom, or a condition that lists them."""
    match literal:
        case Atom():
            return True
        case Has(_, negated):
            return not negated
        case Among(item, _, negated):
            return isinstance(item, Attribute) or not negated
        case Compare(_, left, right):
            # an entity that is compared by its name may be any
            return all(not isinstance(side, Constant | Free | Exists) for side in (left, right))
        case _:
            return False


def check_size(query: Query) -> None:
    """Refuse a query whose normal form would be too large, without building it."""
    body = query.body
    literals = _literals(body)
    number, longest = _measure(body, False) if literals is None else (1, len(literals))
    if number > MAX_CLAUSES:
        shown = f"{number:,}" if number < 10**12 else "over 10^12"
        raise BudgetExceeded(
            f"query too large: {shown} clauses in disjunctive normal form, at most {MAX_CLAUSES}", limit="clauses"
        )
    if longest > MAX_ATOMS:
        raise BudgetExceeded(f"query too large: {longest:,} atoms in a clause, at most {MAX_ATOMS}", limit="atoms")


def _measure(formula: Formula, negative: bool) -> tuple[int, int]:
    """How many clauses the normal form has, and how many literals the longest of them."""
    match formula:
        case Not(body):
            return _measure(body, not negative)
        case And(parts) | Or(parts):
            sizes = [_measure(part, negative) for part in parts]
            if isinstance(formula, Or) != negative:
                return sum(number for number, _ in sizes), max((longest for _, longest in sizes), default=0)
            total = 1
            for number, _ in sizes:
                total = min(total * number, 10**12)
            return total, sum(longest for _, longest in sizes)
        case _:
            return 1, 1


# --- how the rules work ------------------------------------------------------------------------------------------


def _push(formula: Formula, negative: bool) -> Formula:
    match formula:
        case Not(body):
            return _push(body, not negative)
        case And(parts) | Or(parts):
            join = disjunction if isinstance(formula, Or) != negative else conjunction
            return join([_push(part, negative) for part in parts])
        case _:
            return negation(formula) if negative else formula


def _distribute(formula: Formula) -> list[tuple[Formula, ...]]:
    match formula:
        case Or(parts):
            return [clause for part in parts for clause in _distribute(part)]
        case And(parts):
            choices = product(*(_distribute(part) for part in parts))
            return [tuple(literal for clause in choice for literal in clause) for choice in choices]
        case _:
            return [(formula,)]


def _literals(body: Formula) -> tuple[Any, ...] | None:
    """The literals of a formula that is a conjunction of them as it stands; None of any other."""
    parts = body.parts if isinstance(body, And) else (body,)
    for part in parts:
        if isinstance(part, _JOINED) or (isinstance(part, Not) and not isinstance(part.body, Atom)):
            return None
    return parts


def _disjuncts(body: Formula) -> tuple[Formula, ...]:
    return body.parts if isinstance(body, Or) else (body,)


def _distinct(clauses: list[tuple[Literal, ...]]) -> list[tuple[Literal, ...]]:
    """What `drop_duplicate_atoms` keeps of some clauses."""
    found: dict[object, tuple[Literal, ...]] = {}
    for clause in clauses:
        once: dict[object, Literal] = {}
        for literal in clause:
            if isinstance(literal, Different) and literal.left == literal.right:
                break
            once.setdefault(_sort_sides(literal) if isinstance(literal, _SIDES) else literal, literal)
        else:
            literals = tuple(once.values())
            found.setdefault(_identity(literals) if len(clauses) > 1 else None, literals)
    return list(found.values())


def _sort_sides(literal: Literal) -> object:
    """A literal up to the order of the sides of an equality or inequality."""
    sides = isinstance(literal, _SIDES) and sorted((literal.left, literal.right), key=repr)
    return (type(literal), *sides) if sides else literal


def _identity(literals: tuple[Literal, ...]) -> object:
    """The same value for clauses that differ only in order and in the names of existential variables.

    Colour refinement: a variable's colour is how it occurs, then how its neighbours do; when colours stop splitting,
    one of the equal variables is singled out. Equal values mean identical clauses; very symmetric clauses (regular
    graphs of existential variables, or more than `ROUNDS` alike) may fail to be recognised, and then count as two.
    """
    around: dict[Term, list[Literal]] = {}
    for literal in literals:
        for term in dict.fromkeys(terms(literal)):
            if isinstance(term, Exists):
                around.setdefault(term, []).append(literal)
    colour: dict[Term, int] = dict.fromkeys(around, 0)

    def sign(literals: Iterable[Literal], this: Term | None = None) -> list[str]:
        marks = {term: (number, term == this) for term, number in colour.items()}
        return sorted(repr(_sort_sides(rename(literal, marks))) for literal in literals)

    for _ in range(ROUNDS):
        before = len(set(colour.values()))
        seen = {v: repr((colour[v], sign(around[v], v))) for v in around}
        rank = {signature: i for i, signature in enumerate(sorted(set(seen.values())))}
        colour = {v: rank[seen[v]] for v in around}
        if len(rank) == len(around):
            break
        if len(rank) == before:
            tied = Counter(colour.values())
            colour[next(v for v in sorted(around, key=lambda v: colour[v]) if tied[colour[v]] > 1)] = -1
    if len(set(colour.values())) < len(colour):  # too symmetric: the order of appearance tells the rest apart
        colour = {v: i for i, v in enumerate(sorted(around, key=lambda v: colour[v]))}
    return frozenset(sign(literals))


def show(rule: Rule, text: str) -> str:
    """What a rule makes of logic text, as logic text; for documentation and tests."""
    from tuplet.lang.logic import parse_logic
    from tuplet.lang.print import to_logic

    return to_logic(rule(parse_logic(text)))
