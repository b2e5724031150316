"""One syntax tree for all query languages: frozen, hashable, printable.

A query asks for the tuples of its free variables that make the body true. Existential variables need no node of their
own: they are terms of type `Exists`, and their scope is the clause of the normal form they end up in (see `rules`).

Attributes are not predicted, and a query does not search for them: conditions on them say which entities, or which
stated facts, may take part. Whether a word names a relation or an attribute, only the graph knows: a language that
writes both alike (SPARQL) leaves an `Atom` and a comparison of its variable, and `query.attributes` tells them apart.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

NameKind: TypeAlias = Literal["name", "label", "number", "id", "variable"]  # a variable stands for a relation
Plain: TypeAlias = bool | int | float | str | datetime.date | datetime.datetime

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
TYPE = "type"  # the relation of node labels where a language does not name it; each graph has its own name for it


@dataclass(frozen=True, slots=True)
class Name:
    """An entity or relation as the user wrote it: its exact name, a quoted label, or its number in the dataset (`id`).

    A bare `007` is of the kind `number`: the exact name in the place of an entity or relation, and in the place of a
    value the number.

    `position` and `length` say where it stands in the text, for carets; they are not part of its identity.
    """

    text: str
    kind: NameKind = "name"
    position: int = field(default=0, compare=False, repr=False)
    length: int = field(default=1, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Constant:
    """A fixed entity.

    In `Same`, `Different` and `Among`, a constant whose name is of the kind `variable` is the relation that variable
    stands for, and is compared with relations: `Different(Constant(?p), Constant(type))`.
    """

    name: Name


@dataclass(frozen=True, slots=True)
class Free:
    """A variable that is asked for."""

    name: str


@dataclass(frozen=True, slots=True)
class Exists:
    """A variable that only has to exist."""

    name: str


Variable: TypeAlias = Free | Exists
Term: TypeAlias = Constant | Free | Exists


@dataclass(frozen=True, slots=True)
class Atom:
    """`relation(head, tail)`."""

    relation: Name
    head: Term
    tail: Term


@dataclass(frozen=True, slots=True)
class Different:
    """`left != right`."""

    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Same:
    """`left = right`: one entity."""

    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Value:
    """A number, text, date, or true or false; `language` is the tag of a text, if it has one."""

    value: Plain
    language: str = ""
    position: int = field(default=0, compare=False, repr=False)
    length: int = field(default=1, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Attribute:
    """`x.age`: a value of an attribute of an entity, or of the stated fact that an atom names.

    An entity may have several values. Within a clause, attributes that are equal here are one and the same value, so
    that two conditions speak of one; `variable` tells others of the same attribute apart.
    """

    of: Term | Atom
    name: Name
    variable: str = ""


Operand: TypeAlias = "Term | Attribute | Value"
Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">=", "contains", "starts", "ends", "matches", "language"]
MIRRORED: dict[Operator, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class TextTest:
    """A comparison of a text with a part, end or pattern: how each language writes it, and what it finds.

    An operator in `Operator` and an entry in `TEXT_TESTS` is all that a new one needs.
    """

    sparql: str  # a function of both sides
    cypher: str  # a sign, or words, between them
    holds: Callable[[str, str], object]  # truthy where a text passes
    arrow: str  # the function of Arrow that marks the texts of a column


TEXT_TESTS: dict[Operator, TextTest] = {
    "contains": TextTest("CONTAINS", "CONTAINS", str.__contains__, "match_substring"),
    "starts": TextTest("STRSTARTS", "STARTS WITH", str.startswith, "starts_with"),
    "ends": TextTest("STRENDS", "ENDS WITH", str.endswith, "ends_with"),
    # in Arrow a pattern takes time in proportion to the text, too, whatever it is
    "matches": TextTest("regex", "=~", lambda text, pattern: re.search(pattern, text), "match_substring_regex"),
}


@dataclass(frozen=True, slots=True)
class Compare:
    """`left operator right`, for values; of an entity, its name is compared.

    It is false where a value is missing, and so is its negation: `negated` is about the values alone.
    """

    operator: Operator
    left: Operand
    right: Operand
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Among:
    """`item in {a, b}`: an entity among named ones, or a value among given ones."""

    item: Term | Attribute
    choices: tuple[Name, ...] | tuple[Value, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Has:
    """The attribute has a value at all, or a given one; negated, it has none, or has others alone or none."""

    attribute: Attribute
    negated: bool = False
    value: Value | None = None


Condition: TypeAlias = Different | Same | Compare | Among | Has


@dataclass(frozen=True, slots=True)
class Not:
    """Negation; after the rewrite rules it stands above atoms only."""

    body: Formula


@dataclass(frozen=True, slots=True)
class And:
    """Conjunction of two or more formulas (one or none only after rewriting)."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Disjunction of two or more formulas (one only after rewriting)."""

    parts: tuple[Formula, ...]


Formula: TypeAlias = Atom | Condition | Not | And | Or
_JOINED = (And, Or)


@dataclass(frozen=True, slots=True)
class Column:
    """What is shown under a name: a free variable, or an attribute; an optional one may be empty.

    A variable in the place of a relation is shown as a `Name` of kind `variable`.
    """

    name: str
    what: Free | Attribute | Name
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """The order of what is shown: by a column's name or an attribute; the truth is called `truth`."""

    by: str | Attribute
    descending: bool = False


Form: TypeAlias = Literal["select", "ask", "count"]


@dataclass(frozen=True, slots=True)
class Query:
    """The tuples of `free` that make `body` true; `limit` of them after `offset` if the text said so.

    `shown` are the columns of an answer, the free variables if nothing else is said. A query of the form `ask` wants to
    know whether there is an answer, one of the form `count` how many; `counted` is what the number is called.
    """

    free: tuple[Free, ...]
    body: Formula
    limit: int | None = None
    offset: int = 0
    shown: tuple[Column, ...] = ()
    order: tuple[Order, ...] = ()
    form: Form = "select"
    counted: str = ""
    links: bool = field(default=False, compare=False, repr=False)  # atoms are links between nodes, as in Cypher


def atoms(formula: Formula) -> Iterator[Atom | Condition]:
    """All atoms and conditions of a formula, left to right."""
    left = [formula]
    while left:
        part = left.pop()
        if isinstance(part, Not):
            left.append(part.body)
        elif isinstance(part, _JOINED):
            left.extend(reversed(part.parts))
        else:
            yield part


def terms(formula: Formula) -> Iterator[Term]:
    """All terms of a formula, left to right, with repetitions."""
    for atom in atoms(formula):
        if isinstance(atom, Atom):  # most of them
            yield atom.head
            yield atom.tail
        else:
            yield from _terms_in(atom)


def attributes_of(formula: Formula) -> Iterator[Attribute]:
    """The attributes that the conditions of a formula speak of, left to right, with repetitions."""
    for atom in atoms(formula):
        match atom:
            case Compare(_, left, right):
                yield from (side for side in (left, right) if isinstance(side, Attribute))
            case Among(Attribute() as item) | Has(item):
                yield item


def _terms_in(part: Condition | Operand | Atom) -> Iterator[Term]:
    match part:
        case Constant() | Free() | Exists():
            yield part
        case Atom(_, left, right) | Different(left, right) | Same(left, right) | Compare(_, left, right):
            yield from _terms_in(left)
            yield from _terms_in(right)
        case Among(item) | Has(item) | Attribute(item):
            yield from _terms_in(item)
