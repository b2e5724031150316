"""Named query shapes: the 14 joint types for any k, and the 14 BetaE types with one unknown.

A shape is a formula over symbols: relations `r1…`, constants `s1…`, existential variables `e1…`, free variables `f1…`.

Joint types `<k>f<kind>`, k from 2 on. The figure that defines them is not public; these are the readings chosen, each
the smallest that fits the name and is among the published two-variable types:

    p    chain s1 → f1 → … → fk
    pm   the chain with its last link doubled
    pn   the same, the second copy negated
    d    s1 → e1, a star from e1 to f1 … fk ("disconnected": no two free variables are joined)
    dm   the star with its first spoke doubled
    c    a cycle of max(3, k) variables, s1 → first; for k = 2 the first is existential, so that two stay free
    cn   the same cycle with the link between its first two variables negated

Other readings: chains that begin with an existential variable; pn as r1(s1,f1) & r2(s2,f2) & !r3(f1,f2); c as a cycle
of k + 1 through e1 for every k; dm with all spokes doubled. They can be written as formulas; they have no name here.

The BetaE types are read as existential formulas. Only `pni` differs from its original: there ¬∃e (r1(s1,e) ∧ r2(e,f)),
here ∃e (r1(s1,e) ∧ ¬r2(e,f)), as everyone does who writes these types with one existential prefix.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tuplet.errors import BadInput, nearest


class AbstractEdge(NamedTuple):
    """`relation(head, tail)` over symbols, or its negation."""

    relation: str
    head: str
    tail: str
    negated: bool = False

    def __str__(self) -> str:
        return ("!" if self.negated else "") + f"{self.relation}({self.head},{self.tail})"


@dataclass(frozen=True)
class Shape:
    """A query type: its clauses, and the formula they come from."""

    name: str
    formula: str
    clauses: tuple[tuple[AbstractEdge, ...], ...]

    def symbols(self, kind: str) -> tuple[str, ...]:
        """The symbols of a kind (`r`, `s`, `e` or `f`) in numerical order.

        >>> shape("2fd").symbols("f")
        ('f1', 'f2')
        """
        found = {symbol for clause in self.clauses for edge in clause for symbol in edge[:3] if symbol[0] == kind}
        return tuple(sorted(found, key=lambda symbol: int(symbol[1:])))

    @property
    def free(self) -> tuple[str, ...]:
        return self.symbols("f")


KINDS = ("pn", "p", "pm", "d", "dm", "cn", "c")
JOINT = tuple(f"{k}f{kind}" for k in (2, 3) for kind in KINDS)

_BETAE_FORMULAS = {
    "1p": "r1(s1,f1)",
    "2p": "r1(s1,e1)&r2(e1,f1)",
    "3p": "r1(s1,e1)&r2(e1,e2)&r3(e2,f1)",
    "2i": "r1(s1,f1)&r2(s2,f1)",
    "3i": "r1(s1,f1)&r2(s2,f1)&r3(s3,f1)",
    "ip": "r1(s1,e1)&r2(s2,e1)&r3(e1,f1)",
    "pi": "r1(s1,e1)&r2(e1,f1)&r3(s2,f1)",
    "2u": "r1(s1,f1)|r2(s2,f1)",
    "up": "r1(s1,e1)&r3(e1,f1)|r2(s2,e1)&r3(e1,f1)",
    "2in": "r1(s1,f1)&!r2(s2,f1)",
    "3in": "r1(s1,f1)&r2(s2,f1)&!r3(s3,f1)",
    "inp": "r1(s1,e1)&!r2(s2,e1)&r3(e1,f1)",
    "pin": "r1(s1,e1)&r2(e1,f1)&!r3(s2,f1)",
    "pni": "r1(s1,e1)&!r2(e1,f1)&r3(s2,f1)",
}
BETAE = tuple(_BETAE_FORMULAS)


def shape(name: str) -> Shape:
    """The shape of a name: `<k>f<kind>` for any k from 2 on, or a BetaE type.

    >>> shape("3fpm").formula
    'r1(s1,f1)&r2(f1,f2)&r3(f2,f3)&r4(f2,f3)'
    >>> shape("2fcn").formula
    'r1(s1,e1)&r2(e1,f2)&!r3(e1,f1)&r4(f1,f2)'
    """
    if name in _BETAE_FORMULAS:
        return Shape(name, _BETAE_FORMULAS[name], from_formula(_BETAE_FORMULAS[name]))
    match = re.fullmatch(r"(\d+)f([a-z]+)", name)
    if match and match[2] in KINDS and int(match[1]) >= 2:
        edges = _joint(int(match[1]), match[2])
        numbered = tuple(AbstractEdge(f"r{i}", *edge) for i, edge in enumerate(edges, start=1))
        return Shape(name, "&".join(map(str, numbered)), (numbered,))
    near = nearest(name, [*JOINT, *BETAE])
    raise BadInput(f"unknown shape {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def from_formula(formula: str) -> tuple[tuple[AbstractEdge, ...], ...]:
    """The clauses of a formula in disjunctive normal form, written without brackets: `&` binds tighter than `|`.

    >>> from_formula("r1(s1,f1)&!r2(s2,f1)")[0][1]
    AbstractEdge(relation='r2', head='s2', tail='f1', negated=True)
    """
    clauses = []
    for clause in formula.split("|"):
        atoms = [re.fullmatch(r"(!?)(r\d+)\(([sef]\d+),([sef]\d+)\)", atom) for atom in clause.split("&")]
        if not all(atoms):
            raise BadInput(f"not a formula in disjunctive normal form: {formula!r}")
        clauses.append(tuple(AbstractEdge(a[2], a[3], a[4], a[1] == "!") for a in atoms if a))
    return tuple(clauses)


def _joint(k: int, kind: str) -> list[tuple[str, str, bool]]:
    """Edges (head, tail, negated) of a joint type."""
    free = [f"f{i}" for i in range(1, k + 1)]
    if kind[0] == "p":
        chain = ["s1", *free]
        edges = [(a, b, False) for a, b in pairwise(chain)]
        return edges + ([(free[-2], free[-1], kind == "pn")] if kind != "p" else [])
    if kind[0] == "d":
        spokes = [("e1", f, False) for f in free]
        return [("s1", "e1", False), *spokes[:1], *(spokes[:1] if kind == "dm" else []), *spokes[1:]]
    ring = free if k > 2 else ["e1", *free]
    links = [(a, b, False) for a, b in pairwise(ring)]
    first, closing = links[0], (ring[0], ring[-1], False)
    if kind == "c":
        if k == 2:
            return [("s1", ring[0], False), first, closing, *links[1:]]
        return [("s1", ring[0], False), *links, closing]
    negated = (*first[:2], True)
    if k == 2:
        return [("s1", ring[0], False), closing, negated, *links[1:]]
    return [("s1", ring[0], False), closing, *links[1:], negated]
