"""One syntax tree for all query languages: frozen, hashable, printable.

A query asks for the tuples of its free variables that make the body true. Existential variables need no node of their
own: they are terms of type `Exists`, and their scope is the clause of the normal form they end up in (see `rules`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

NameKind: TypeAlias = Literal["name", "label", "id"]


@dataclass(frozen=True, slots=True)
class Name:
    """An entity or relation as the user wrote it: its exact name, a quoted label, or a number of the dataset.

    `position` and `length` say where it stands in the text, for carets; they are not part of its identity.
    """

    text: str
    kind: NameKind = "name"
    position: int = field(default=0, compare=False, repr=False)
    length: int = field(default=1, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Constant:
    """A fixed entity."""

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


Formula: TypeAlias = Atom | Different | Not | And | Or


@dataclass(frozen=True, slots=True)
class Query:
    """The tuples of `free` that make `body` true, at most `limit` of them if the text said so."""

    free: tuple[Free, ...]
    body: Formula
    limit: int | None = None


def atoms(formula: Formula) -> Iterator[Atom | Different]:
    """All atoms and inequalities of a formula, left to right."""
    match formula:
        case Atom() | Different():
            yield formula
        case Not(body):
            yield from atoms(body)
        case And(parts) | Or(parts):
            for part in parts:
                yield from atoms(part)


def terms(formula: Formula) -> Iterator[Term]:
    """All terms of a formula, left to right, with repetitions."""
    for atom in atoms(formula):
        if isinstance(atom, Atom):
            yield atom.head
            yield atom.tail
        else:
            yield atom.left
            yield atom.right
