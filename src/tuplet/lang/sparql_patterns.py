"""Groups of SPARQL: triples, paths, blank nodes, UNION, OPTIONAL, VALUES, BIND, GRAPH.

Variables that are selected are free, all others existential. A filter belongs to its group, as in SPARQL: each of its
variables has to be bound by the group's own patterns, whatever branch of a UNION is taken.
"""

from __future__ import annotations

from tuplet.lang.ast import (
    And,
    Atom,
    Attribute,
    Column,
    Compare,
    Constant,
    Exists,
    Formula,
    Free,
    Name,
    Not,
    Or,
    Term,
    Value,
    atoms,
)
from tuplet.lang.rules import rename
from tuplet.lang.sparql_filters import InnerGroup, Scope
from tuplet.lang.sparql_triples import TripleParser
from tuplet.lang.tokens import Side, Token, conjunction, disjunction

GRAPH = "graph"  # the attribute of facts that says which named graph they are from

_IN_GROUP = ("BIND", "FILTER", "GRAPH", "OPTIONAL", "UNION", "VALUES")


class PatternParser(TripleParser):
    """Reads groups."""

    # --- groups ------------------------------------------------------------------------------------------------------

    def group(self) -> tuple[Formula, frozenset[str]]:
        """A group and the variables it binds for sure."""
        self.deeper()
        opening = self.advance()
        parts: list[Formula] = []
        bound: set[str] = set()
        given: list[tuple[Token, Side]] = []
        scope = Scope()
        dotted = True  # whether a triple may start here
        while not self.accept("}"):
            if self.starts_term():
                if not dotted:
                    self.fail(f"expected '.' before the next pattern, found {self.found()}")
                self.triples(parts, bound)
                dotted = self.accept(".")
                continue
            if self.token.text == "{":
                formula, names = self.union()
                parts.append(formula)
                bound |= names
            elif self.keyword("FILTER"):
                parts.append(self.filter(scope))
            elif self.keyword("OPTIONAL"):
                self.optional_pattern()
            elif self.keyword("VALUES"):
                parts.append(self.values(bound))
            elif self.keyword("BIND"):
                given.append(self.bind(bound))
            elif self.keyword("GRAPH"):
                formula, names = self.named_graph()
                parts.append(formula)
                bound |= names
            else:
                self.unexpected("a pattern, FILTER, '{' or '}'", _IN_GROUP)
            dotted = self.accept(".") or True
        for token, side in given:
            if token.text[1:] in bound:
                parts.append(self.compared("=", Side(*2 * (self.variable(token),)), side))
        if not parts:
            self.fail("a group needs at least one pattern", opening)
        self.depth -= 1
        return self.settled(conjunction(parts), bound, scope), frozenset(bound)

    def settled(self, formula: Formula, bound: set[str], scope: Scope) -> Formula:
        """The formula of a group, its filters with the variables that its patterns bind."""
        for token in scope.compared:
            name = token.text[1:]
            if name in self.optional:
                self.refuse(f"{token.text} of OPTIONAL is compared; write its pattern without OPTIONAL", token)
            if name not in bound and self.inner is None:
                self.fail(f"{token.text} is compared, but no pattern of this group binds it in every case", token)
            if name not in bound:  # the group around an EXISTS may bind it
                self.variable(token)
        renamed: dict[Term, Term] = {}
        for inner in scope.inner:
            for name, (own, token) in inner.names.items():
                if name in bound:
                    renamed[own] = self.variable(token)
                elif inner.negated and not _is_missing(inner.formula, own):
                    self.refuse(
                        f"{token.text} occurs in this group only inside NOT EXISTS, which asks that there is none "
                        "(¬∃); only facts about bound variables can be negated",
                        token,
                    )
                else:
                    renamed[own] = Exists(name if self.is_local(token.text, inner) else self.fresh(name))
        return rename(formula, renamed) if renamed else formula

    def inner_group(self, inner: InnerGroup) -> Formula:
        """The group of an EXISTS, with names of its own for all its variables."""
        if self.inner is not None:
            self.refuse("EXISTS inside EXISTS is not supported; write its patterns into the group around it")
        self.inner = inner
        formula, _ = self.group()
        self.inner = None
        return formula

    def is_local(self, variable: str, inner: InnerGroup) -> bool:
        """Whether a variable occurs in the group of one EXISTS only."""
        places = (token.position for token in self.tokens if token.kind == "variable" and token.text == variable)
        return all(inner.start <= place < inner.end for place in places)

    def union(self) -> tuple[Formula, frozenset[str]]:
        formula, bound = self.group()
        branches = [formula]
        while self.keyword("UNION"):
            if self.token.text != "{":
                self.unexpected("'{' after UNION")
            formula, names = self.group()
            branches.append(formula)
            bound &= names
        return disjunction(branches), bound

    def optional_pattern(self) -> None:
        """OPTIONAL { ?x attribute ?v }: a column that may be empty."""
        if self.token.text != "{":
            self.unexpected("'{' after OPTIONAL")
        start = self.advance()
        parts: list[Formula] = []
        token = start
        if self.starts_term():
            self.triples(parts, set(), shown=False)
            token = self.tokens[self.index - 1]
            self.accept(".")
        if not self.accept("}") or len(parts) != 1 or not isinstance(parts[0], Atom) or token.kind != "variable":
            self.refuse("OPTIONAL takes one pattern, an attribute of an entity: { ?x attribute ?value }", start)
        atom, name = parts[0], token.text[1:]
        if name in self.seen or name in self.optional:
            self.refuse(
                f"{token.text} of OPTIONAL occurs elsewhere, too; every other variable always has a value", token
            )
        if isinstance(atom.head, Free | Exists) and atom.head.name not in self.seen:
            self.refuse(f"OPTIONAL comes after the patterns that bind ?{atom.head.name}", start)
        self.optional[name] = Column(name, Attribute(atom.head, atom.relation, name), optional=True)

    def values(self, bound: set[str]) -> Formula:
        """VALUES ?x { :a :b } or VALUES (?x ?y) { (:a :b) (:c :d) }."""
        several = self.accept("(")
        columns: list[Token] = []
        while self.token.kind == "variable":
            columns.append(self.advance())
            if not several:
                break
        if several:
            self.expect(")", "after the variables of VALUES")
        if not columns:
            self.unexpected("a variable after VALUES")
        self.expect("{", "after the variables of VALUES")
        rows: dict[tuple[Side, ...], list[Side]] = {}
        while not self.accept("}"):
            if several:
                self.expect("(", "before a row of VALUES")
            row = [self.constant() for _ in columns]
            if several:
                self.expect(")", f"after the {len(columns)} values of a row")
            rows.setdefault(tuple(row[:-1]), []).append(row[-1])
        sides = [Side(variable, variable) for variable in map(self.variable, columns)]
        for token in columns:
            self.note(token, bound, shown=True)
        branches = [
            conjunction(
                [
                    *(self.compared("=", side, value) for side, value in zip(sides, first, strict=False)),
                    self.among(sides[-1], last, columns[-1]),
                ]
            )
            for first, last in rows.items()
        ]
        return disjunction(branches) if branches else self.among(sides[-1], [], columns[-1])

    def bind(self, bound: set[str]) -> tuple[Token, Side]:
        """BIND(value AS ?x)."""
        self.expect("(", "after BIND")
        if self.token.kind in ("variable", "sign") or self.tokens[self.index + 1].text == "(":
            self.refuse("BIND of an expression is not supported; write BIND(name or value AS ?variable)")
        side = self.constant()
        if not self.keyword("AS"):
            if self.token.kind == "sign" and self.token.text in "+-*/":
                self.refuse("BIND of an expression is not supported; write the value that comes out")
            self.unexpected("AS after the value of BIND")
        token = self.token
        if token.kind != "variable":
            self.unexpected("a variable after AS")
        self.advance()
        self.expect(")", "after the variable of BIND")
        if token.text[1:] in bound:
            self.fail(f"{token.text} is bound before BIND; write FILTER({token.text} = …)", token)
        self.constants[token.text[1:]] = side
        return token, side

    def constant(self) -> Side:
        """A name or a value."""
        token = self.token
        if token.kind == "word" and token.text.upper() == "UNDEF":
            self.refuse("UNDEF is not supported; write one UNION branch for the rows without that variable")
        side = self.read_value()
        if side is not None:
            return side
        name = self.name(token)
        if name is None:
            self.unexpected("a name or a value")
        self.advance()
        return Side(Constant(name), Constant(name))

    def named_graph(self) -> tuple[Formula, frozenset[str]]:
        """GRAPH <name> { patterns }: every fact is stated in that graph."""
        if self.token.kind == "variable":
            self.refuse("a variable for the graph is not supported; name it: GRAPH <name> { patterns }")
        name = self.name(self.token)
        if name is None:
            self.unexpected("the name of a graph after GRAPH")
        self.advance()
        if self.token.text != "{":
            self.unexpected("'{' after the name of the graph")
        formula, bound = self.group()
        value = Value(name.text, "", name.position, name.length)
        where: list[Formula] = []
        for atom in dict.fromkeys(atom for atom in atoms(formula) if isinstance(atom, Atom)):
            where.append(Compare("=", Attribute(atom, Name(GRAPH, "name", name.position, name.length)), value))
        if any(isinstance(part, Or | Not) for part in _parts(formula)):
            self.refuse("GRAPH takes plain patterns; write one GRAPH for each part of a UNION or NOT EXISTS")
        return conjunction([formula, *where]), bound


def _parts(formula: Formula) -> tuple[Formula, ...]:
    return formula.parts if isinstance(formula, And) else (formula,)


def _is_missing(formula: Formula | None, variable: Exists) -> bool:
    """Whether a negated pattern may say that an entity has no value of an attribute: only its object is open."""
    if not isinstance(formula, Atom):
        return False
    return formula.tail == variable != formula.head and formula.relation.kind != "variable"
