"""Patterns of Cypher: nodes joined by relationships, and how they become formulas.

    path         := node (relationship node)*
    node         := ( [variable] [:Label…] [{property: value, …}] [WHERE condition] )
    relationship := -[…]-> | <-[…]- | -[…]- | --> | <-- | --      […] := [variable] [:TYPE|TYPE…] [*length] [{…}]

A relationship without a type is a variable that stands for a relation, as is one whose type is asked for. One without
a direction, or of several types, is a choice between facts. Within a MATCH no fact is used twice: where two
relationships may be the same fact, their ends or their relations differ. The alternatives of that exclude each other
(`a != b | a = b & c != d`), for they are alternatives of one fact and not further evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from math import prod
from typing import Any, TypeAlias

from tuplet.errors import BudgetExceeded
from tuplet.lang.ast import (
    TYPE,
    Among,
    And,
    Atom,
    Attribute,
    Compare,
    Constant,
    Different,
    Exists,
    Formula,
    Has,
    Name,
    Not,
    Or,
    Same,
    Term,
    Value,
)
from tuplet.lang.rewrite import MAX_CLAUSES
from tuplet.lang.tokens import Token, conjunction, disjunction, negation

TRUE = And(())  # these two are told by identity
FALSE = Or(())


def all_of(parts: list[Formula]) -> Formula:
    """The conjunction; `FALSE` if a part is, and without parts that are `TRUE`."""
    kept = [part for part in parts if part is not TRUE]
    if any(part is FALSE for part in kept):
        return FALSE
    return conjunction(kept) if kept else TRUE


def any_of(parts: list[Formula]) -> Formula:
    """The disjunction; `TRUE` if a part is, and without parts that are `FALSE`."""
    kept = [part for part in parts if part is not FALSE]
    if any(part is TRUE for part in kept):
        return TRUE
    return disjunction(kept) if kept else FALSE


def none_of(part: Formula) -> Formula:
    """The negation; that of `TRUE` is `FALSE`."""
    if part is TRUE or part is FALSE:
        return FALSE if part is TRUE else TRUE
    return negation(part)


@dataclass(eq=False)
class Relationship:
    """One relationship of a pattern, from `left` to `right` as they are written."""

    token: Token
    name: str  # its variable, or one that is nowhere in the text
    types: tuple[Name, ...]
    left: Exists
    right: Exists
    direction: str  # ">", "<" or ""
    properties: tuple[tuple[Name, Value], ...] = ()
    asked: bool = False  # whether its type is: it is returned, or compared
    filtered: bool = False  # whether a condition outside the pattern is about its properties

    @property
    def variable(self) -> Name:
        """Itself in the place of a relation."""
        return Name(self.name, "variable", self.token.position, len(self.token.text))

    @property
    def open(self) -> bool:
        """Whether its relation is a variable."""
        return self.asked or not self.types or (len(self.types) > 1 and self.filtered)

    def facts(self) -> list[Atom]:
        """The facts it may be."""
        relations = [self.variable] if self.open else list(self.types)
        ends = {">": [(self.left, self.right)], "<": [(self.right, self.left)]}.get(self.direction)
        ends = ends or [(self.left, self.right), (self.right, self.left)]
        found = [Atom(relation, head, tail) for relation in relations for head, tail in ends]
        return found if len(found) == 1 else list(dict.fromkeys(found))

    def ends(self) -> tuple[str, str]:
        """The names of its nodes, in its direction."""
        return (self.right.name, self.left.name) if self.direction == "<" else (self.left.name, self.right.name)

    def stated(self, fact: Atom) -> list[Formula]:
        """That it is this fact, with the properties in its brackets."""
        return [fact, *(Compare("=", Attribute(fact, name), value) for name, value in self.properties)]

    def known(self, fact: Atom) -> Atom:
        """The fact with its relation, where only one is possible."""
        return replace(fact, relation=self.types[0]) if len(self.types) == 1 else fact

    def typed(self) -> list[Formula]:
        """What the relation is if it is a variable: one of its types, or a link between nodes."""
        relation = Constant(self.variable)
        if not self.open:
            return []
        return [Among(relation, self.types) if self.types else Different(relation, Constant(Name(TYPE)))]

    def may_be(self, other: Relationship) -> bool:
        """Whether both may be the same fact, by their types."""
        return not self.types or not other.types or any(one == two for one in self.types for two in other.types)


Part: TypeAlias = Formula | Relationship


def joined(patterns: list[list[Part]]) -> Formula:
    """What the parts of all patterns say together: relationships are facts, in one pattern no two are the same one."""
    pairs: list[tuple[Relationship, Relationship]] = []
    relationships: list[Relationship] = []
    for parts in patterns:
        own = [part for part in parts if isinstance(part, Relationship)]
        pairs += [pair for pair in combinations(own, 2) if pair[0].may_be(pair[1])]
        relationships += own
    facts = {relationship.name: relationship.facts() for relationship in relationships}
    paired = {relationship.name for pair in pairs for relationship in pair}
    # a choice that others depend on is made once for all of them; any other one stays where it is
    chosen = {
        r.name: facts[r.name]
        for r in relationships
        if r.filtered or r.properties or r.name in paired or len(facts[r.name]) == 1
    }
    if (number := prod(len(found) for found in chosen.values())) > MAX_CLAUSES:
        raise BudgetExceeded(
            f"query too large: {number:,} ways to choose directions and types, at most {MAX_CLAUSES}", limit="clauses"
        )
    moved = any(relationship.filtered for relationship in relationships)
    formulas = []
    for way in product(*chosen.values()):
        choice = dict(zip(chosen, way, strict=True))
        said: list[Formula] = []
        for part in (part for parts in patterns for part in parts):
            if not isinstance(part, Relationship):
                said.append(placed(part, choice) if moved else part)
                continue
            said += part.stated(choice[part.name]) if part.name in choice else [any_of([*facts[part.name]])]
            said += part.typed()
        said.append(apart([(one.known(choice[one.name]), other.known(choice[other.name])) for one, other in pairs]))
        formulas.append(in_order(all_of(said)))
    return any_of(formulas)


def in_order(formula: Formula) -> Formula:
    """A conjunction with its facts first, then choices between facts, types of relationships, and the rest."""
    if not isinstance(formula, And):
        return formula

    def place(part: Formula) -> tuple[int, str]:
        match part:
            case Atom():
                return 0, ""
            case Or(parts) if all(isinstance(each, Atom) for each in parts):
                return 1, ""
            case Different(Constant(Name(variable, "variable")), Constant(Name(text))) if text == TYPE:
                return 2, variable
            case Among(Constant(Name(variable, "variable"))):
                return 2, variable
            case _:
                return 3, ""

    return And(tuple(sorted(formula.parts, key=place)))


@dataclass(frozen=True)
class Case:
    """Some terms are equal and some are not: what was said, and what follows from it."""

    said: tuple[Formula, ...] = ()
    equal: Mapping[Term, Term] = field(default_factory=dict)  # a term to the one that stands for it
    unequal: frozenset[frozenset[Term]] = frozenset()

    def split(self, left: Term, right: Term) -> tuple[Case | None, Case | None]:
        """The cases in which two terms differ and in which they do not; None if that cannot be."""
        a, b = self.equal.get(left, left), self.equal.get(right, right)
        if a == b:
            return None, self
        if frozenset((a, b)) in self.unequal or _named_apart(a, b):
            return self, None
        if isinstance(b, Constant):  # what is known stands for what is not
            a, b = b, a
        equal = {**self.equal, **{term: a for term, of in self.equal.items() if of == b}, b: a}
        unequal = frozenset(frozenset(a if term == b else term for term in pair) for pair in self.unequal)
        differ = replace(self, said=(*self.said, Different(left, right)), unequal=self.unequal | {frozenset((a, b))})
        return differ, Case((*self.said, Same(left, right)), equal, unequal)


def _named_apart(a: Term, b: Term) -> bool:
    """Whether these are relations of different names."""
    both = isinstance(a, Constant) and isinstance(b, Constant)
    return both and "variable" not in (a.name.kind, b.name.kind)  # type: ignore[union-attr]


def apart(pairs: list[tuple[Atom, Atom]]) -> Formula:
    """That no two facts are the same one, as alternatives that exclude each other and as few as will do.

    >>> r, (x, y, z) = Name("r"), map(Exists, "xyz")
    >>> one, other, third = Atom(r, x, y), Atom(r, z, y), Atom(Name("s"), x, y)
    >>> apart([(one, other), (one, third)])
    Different(left=Exists(name='x'), right=Exists(name='z'))
    """
    cases = [Case()]
    for one, other in pairs:
        found: list[Case] = []
        for case in cases:
            rest: Case | None = case
            relations = sorted((one.relation, other.relation), key=lambda name: name.kind != "variable")
            sides = [(one.head, other.head), (one.tail, other.tail), (Constant(relations[0]), Constant(relations[1]))]
            if relations[0].kind != "variable":
                sides = [sides[2], *sides[:2]]  # else nodes first: most nodes differ, and that settles more
            for left, right in sides:
                if rest is not None:
                    differ, rest = rest.split(left, right)
                    found += [differ] if differ is not None else []
        cases = found
        if len(cases) > MAX_CLAUSES:
            raise BudgetExceeded(
                f"query too large: over {MAX_CLAUSES} ways in which its relationships are different facts; "
                "write some of them in a MATCH of their own",
                limit="clauses",
            )
    return any_of([all_of([*case.said]) for case in cases])


def placed(formula: Formula, facts: Mapping[str, Atom]) -> Formula:
    """The formula with the properties of these relationships as properties of the chosen facts."""

    def side(operand: Any) -> Any:
        if isinstance(operand, Attribute) and isinstance(operand.of, Atom):
            return replace(operand, of=facts.get(operand.of.relation.text, operand.of))
        return operand

    match formula:
        case Not(body):
            return none_of(placed(body, facts))
        case And(parts):
            return all_of([placed(part, facts) for part in parts])
        case Or(parts):
            return any_of([placed(part, facts) for part in parts])
        case Compare(_, left, right):
            return replace(formula, left=side(left), right=side(right))
        case Among(Attribute() as item):
            return replace(formula, item=side(item))
        case Has(attribute):
            return replace(formula, attribute=side(attribute))
        case _:
            return formula
