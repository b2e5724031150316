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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from tuplet.errors import BadInput, unknown
from tuplet.lab.benchmark_forms import parse_efok
from tuplet.lang.ast import Atom, Constant, Not, Term
from tuplet.lang.rewrite import clauses as clauses_of
from tuplet.query.ranking import Edge, QueryGraph

TOPOLOGY = {"tree": "S", "multi-edge": "M", "cyclic": "C"}


class Role(Enum):
    """The kind of a symbol of a formula; the value is the letter it is written with."""

    RELATION = "r"
    CONSTANT = "s"
    EXISTS = "e"
    FREE = "f"


class Symbol(str):
    """A symbol of a formula: text such as `f1` that knows its role and its number (0 if it has none).

    >>> Symbol("f2").role, Symbol("f2").number
    (<Role.FREE: 'f'>, 2)
    """

    role: Role
    number: int

    def __new__(cls, text: str) -> Symbol:
        match = re.fullmatch(r"([rsef])(\d*)", text)
        if match is None:
            raise BadInput(f"a symbol is r, s, e or f and a number, such as f1, not {text!r}")
        self = super().__new__(cls, text)
        self.role, self.number = Role(match[1]), int(match[2] or 0)
        return self

    @staticmethod
    def from_role(role: Role, number: int) -> Symbol:
        return Symbol(f"{role.value}{number}")


class AbstractEdge(NamedTuple):
    """`relation(head, tail)` over symbols, or its negation."""

    relation: Symbol
    head: Symbol
    tail: Symbol
    negated: bool = False

    def __str__(self) -> str:
        return ("!" if self.negated else "") + f"{self.relation}({self.head},{self.tail})"

    @property
    def ends(self) -> tuple[Symbol, Symbol]:
        return self.head, self.tail


AbstractClauses: TypeAlias = tuple[tuple[AbstractEdge, ...], ...]


def symbols(clauses: Iterable[Iterable[AbstractEdge]], role: Role) -> tuple[Symbol, ...]:
    """The symbols of a role, in the order of their numbers."""
    found = {symbol for clause in clauses for edge in clause for symbol in edge[:3] if symbol.role is role}
    return tuple(sorted(found, key=lambda symbol: symbol.number))


@dataclass(frozen=True)
class QueryShape:
    """A query type: its clauses over symbols."""

    name: str
    clauses: AbstractClauses

    @cached_property
    def formula(self) -> str:
        """The clauses as EFOk-CQA writes them: left-nested, every operand in brackets.

        >>> shape("up").formula
        '((r1(s1,e1))&(r3(e1,f1)))|((r2(s2,e1))&(r3(e1,f1)))'
        """
        written = []
        for clause in self.clauses:
            atoms = [f"!({edge._replace(negated=False)})" if edge.negated else str(edge) for edge in clause]
            written.append(_nest(atoms, "&"))
        return _nest(written, "|")

    @property
    def free(self) -> tuple[Symbol, ...]:
        """The free variables.

        >>> shape("2fd").free
        ('f1', 'f2')
        """
        return symbols(self.clauses, Role.FREE)

    @property
    def exists(self) -> tuple[Symbol, ...]:
        return symbols(self.clauses, Role.EXISTS)

    @property
    def constants(self) -> tuple[Symbol, ...]:
        return symbols(self.clauses, Role.CONSTANT)

    @property
    def negations(self) -> int:
        return sum(edge.negated for clause in self.clauses for edge in clause)

    @property
    def topology(self) -> str:
        """`C` cyclic, `M` with a doubled edge, `S` neither.

        >>> shape("2fc").topology, shape("2fpm").topology, shape("2u").topology
        ('C', 'M', 'S')
        """
        every = {symbol: 2 * symbol.number for clause in self.clauses for edge in clause for symbol in edge[:3]}
        return topology(ground_clauses(self.clauses, every))


def topology(clauses: Iterable[QueryGraph]) -> str:
    return max((TOPOLOGY[clause.shape()] for clause in clauses), key="SMC".index)


def _nest(operands: list[str], sign: str) -> str:
    formula = operands[0]
    for operand in operands[1:]:
        formula = f"({formula}){sign}({operand})"
    return formula


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


def shape(name: str) -> QueryShape:
    """The shape of a name: `<k>f<kind>` for any k from 2 on, or a BetaE type.

    >>> print(*shape("3fpm").clauses[0])
    r1(s1,f1) r2(f1,f2) r3(f2,f3) r4(f2,f3)
    >>> print(*shape("2fcn").clauses[0])
    r1(s1,e1) r2(e1,f2) !r3(e1,f1) r4(f1,f2)
    """
    if name in _BETAE_FORMULAS:
        return QueryShape(name, from_atoms(_BETAE_FORMULAS[name]))
    match = re.fullmatch(r"(\d+)f([a-z]+)", name)
    if match and match[2] in KINDS and int(match[1]) >= 2:
        return QueryShape(name, (numbered_edges(_joint(int(match[1]), match[2])),))
    raise unknown("shape", name, (*JOINT, *BETAE))


def numbered_edges(edges: Iterable[tuple[str, str, bool]]) -> tuple[AbstractEdge, ...]:
    """Edges (head, tail, negated) with relations r1, r2, … of their own."""
    return tuple(
        AbstractEdge(Symbol.from_role(Role.RELATION, number), Symbol(head), Symbol(tail), negated)
        for number, (head, tail, negated) in enumerate(edges, start=1)
    )


def from_atoms(formula: str) -> AbstractClauses:
    """Clauses written without brackets, `&` before `|`; unlike a formula they may share an existential variable.

    >>> from_atoms("r1(s1,f1)&!r2(s2,f1)")[0][1]
    AbstractEdge(relation='r2', head='s2', tail='f1', negated=True)
    """
    return tuple(
        tuple(
            AbstractEdge(Symbol(relation), Symbol(head), Symbol(tail), sign == "!")
            for sign, relation, head, tail in re.findall(r"(!?)(r\d+)\((\w+),(\w+)\)", clause)
        )
        for clause in formula.split("|")
    )


def _joint(k: int, kind: str) -> list[tuple[str, str, bool]]:
    """Edges (head, tail, negated) of a joint type."""
    free = [f"f{i}" for i in range(1, k + 1)]
    if kind in ("p", "pm", "pn"):
        chain = ["s1", *free]
        edges = [(a, b, False) for a, b in pairwise(chain)]
        return edges + ([(free[-2], free[-1], kind == "pn")] if kind != "p" else [])
    if kind in ("d", "dm"):
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


# --- from formulas to query graphs -------------------------------------------------------------------------------


@cache
def parse_formula(formula: str) -> AbstractClauses:
    """The clauses of an EFOk-CQA formula over symbols; free variables become f1, f2, …

    >>> parse_formula("((r1(s1,f))|(r2(s2,f)))&(!(r3(s3,f)))")[1]
    (AbstractEdge(relation='r2', head='s2', tail='f1', negated=False), \
AbstractEdge(relation='r3', head='s3', tail='f1', negated=True))
    """
    query = parse_efok(formula, {symbol: symbol for symbol in re.findall(r"\b[rs]\d*\b", formula)})
    written: dict[Term, Symbol] = {v: Symbol.from_role(Role.FREE, i) for i, v in enumerate(query.free, start=1)}

    def term(t: Term) -> Symbol:
        if isinstance(t, Constant):
            return Symbol(t.name.text)
        return written.setdefault(t, Symbol.from_role(Role.EXISTS, len(written) - len(query.free) + 1))

    def edge(literal: object) -> AbstractEdge:
        atom = literal.body if isinstance(literal, Not) else literal
        if not isinstance(atom, Atom) or not re.fullmatch(r"r\d*", atom.relation.text):
            raise BadInput(f"a benchmark formula has symbols only, such as r1(s1,f1): {formula!r}")
        return AbstractEdge(Symbol(atom.relation.text), term(atom.head), term(atom.tail), isinstance(literal, Not))

    return tuple(tuple(edge(literal) for literal in clause.literals) for clause in clauses_of(query))


def ground_clauses(
    clauses: AbstractClauses, grounding: Mapping[str, int] | Mapping[Symbol, int]
) -> tuple[QueryGraph, ...]:
    """The clauses with relations and constants filled in; free variables are numbered first."""
    free = symbols(clauses, Role.FREE)
    graphs = []
    for clause in clauses:
        names = [*free, *dict.fromkeys(n for edge in clause for n in edge.ends if n.role is Role.EXISTS)]
        node = {name: i for i, name in enumerate(names)}
        edges = []
        for relation, head, tail, negated in clause:
            view = grounding[relation]
            ends = tuple(node[n] if n in node else ~grounding[n] for n in (head, tail))
            edges.append(Edge(ends[view % 2], view // 2, ends[1 - view % 2], negated))
        graphs.append(QueryGraph(tuple(names), tuple(range(len(free))), tuple(dict.fromkeys(edges))))
    return tuple(graphs)
