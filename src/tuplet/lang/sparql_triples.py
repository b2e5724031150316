"""Triples of SPARQL: terms, values, blank nodes, relations and paths of a fixed length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn, TypeAlias

from tuplet.errors import hint, nearest
from tuplet.lang.ast import Atom, Column, Constant, Exists, Formula, Free, Name, Term, Variable
from tuplet.lang.sparql_filters import FilterParser, InnerGroup
from tuplet.lang.tokens import Side, Token, conjunction, disjunction

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"

# What SPARQL has and this subset has not, with the way out where there is one.
UNSUPPORTED = {
    "ADD": "queries only read",
    "CLEAR": "queries only read",
    "CONSTRUCT": "select the variables with SELECT",
    "COPY": "queries only read",
    "CREATE": "queries only read",
    "DELETE": "queries only read",
    "DESCRIBE": "select what you want to know: SELECT ?p ?o { <name> ?p ?o }",
    "DROP": "queries only read",
    "FROM": "write GRAPH <name> { patterns }",
    "GROUP": "count one group with SELECT (COUNT(DISTINCT ?x) AS ?n)",
    "HAVING": "answers are sets of tuples; only COUNT is known",
    "INSERT": "queries only read",
    "LET": "write BIND(value AS ?variable)",
    "LOAD": "queries only read",
    "MINUS": "write FILTER NOT EXISTS { one pattern }",
    "MOVE": "queries only read",
    "SERVICE": "a query reads one graph",
    "WITH": "queries only read",
}
SUPPORTED = (
    *("ASK", "BASE", "BIND", "DISTINCT", "EXISTS", "FILTER", "GRAPH", "LIMIT", "NOT", "OFFSET", "OPTIONAL", "ORDER"),
    *("PREFIX", "REDUCED", "SELECT", "UNION", "VALUES", "WHERE"),
)
_FULL = {"GROUP": "GROUP BY"}
_ANY_LENGTH = "paths of any length (+ * ?) are not supported, a query has a fixed number of steps; write {}"


@dataclass(frozen=True, slots=True)
class BackwardPath:
    """`^path`."""

    step: SparqlPath


@dataclass(frozen=True, slots=True)
class PathSteps:
    """`path/path`."""

    steps: tuple[SparqlPath, ...]


@dataclass(frozen=True, slots=True)
class PathChoice:
    """`path|path`."""

    branches: tuple[SparqlPath, ...]


SparqlPath: TypeAlias = Name | BackwardPath | PathSteps | PathChoice


class TripleParser(FilterParser):
    """Reads triples."""

    def __init__(self, text: str, prefixes: Mapping[str, str] | None = None) -> None:
        super().__init__(text, prefixes)
        self.selected: dict[str, Token] | None = {}  # None: all variables of the patterns
        self.seen: dict[str, None] = {}
        self.constants: dict[str, Side] = {}
        self.optional: dict[str, Column] = {}
        self.inner: InnerGroup | None = None
        self.taken: set[str] = set()
        self.blanks: dict[str, str] = {}
        self.made: list[Formula] = []  # what a triple says beside its atom: the value of a literal, a blank node

    # --- patterns ----------------------------------------------------------------------------------------------------

    def triples(self, parts: list[Formula], bound: set[str], shown: bool = True) -> None:
        blank = self.token.text == "["
        subject = self.term("a subject", bound, shown)
        if not (blank and self.token.text in (".", "}")):
            self.predicates(subject, parts, bound, shown)
        parts += self.made
        self.made.clear()

    def predicates(self, subject: Term, parts: list[Formula], bound: set[str], shown: bool = True) -> None:
        """`relation object, object; relation object`."""
        while True:
            path = self.path(bound, shown)
            while True:
                item = self.term("an object", bound, shown, literal=True)
                parts.append(self.walked(path, subject, item))
                if not self.accept(","):
                    break
            if not self.accept(";"):
                return
            while self.accept(";"):
                pass
            if self.token.text in (".", "}", "]"):
                return

    def path(self, bound: set[str], shown: bool = True) -> SparqlPath:
        """A relation, a variable for one, or steps of a path."""
        token = self.token
        if token.kind == "variable":
            self.advance()
            self.note(token, bound, shown)
            variable = self.variable(token)
            self.relations.setdefault(variable.name, token)
            return Name(variable.name, "variable", token.position, len(token.text))
        first = self.sequence()
        branches = [first]
        while self.accept("|"):
            branches.append(self.sequence())
        return PathChoice(tuple(branches)) if len(branches) > 1 else first

    def sequence(self) -> SparqlPath:
        steps = [self.step()]
        while self.accept("/") or self.slashed():
            steps.append(self.step())
        return PathSteps(tuple(steps)) if len(steps) > 1 else steps[0]

    def slashed(self) -> bool:
        """`/a` and `/ex` of `/ex:name` are words so far."""
        token = self.token
        if token.kind != "word" or token.text[0] != "/":
            return False
        self.split(token.position, Token("sign", "/", token.position))
        self.index += 1
        return True

    def step(self) -> SparqlPath:
        start = self.index
        token = self.token
        if self.accept("^"):
            return BackwardPath(self.step())
        if self.accept("("):
            self.deeper()
            found = self.path(set())
            self.depth -= 1
            self.expect(")", "after the path")
        elif token.text == "!":
            self.refuse("'!' in a path is not supported; write ?x ?p ?y and FILTER(?p != name)")
        else:
            found = self.relation()
        after = self.token
        if after.kind == "sign" and after.text in "*+?":
            once = self.text[token.position : after.position].strip()
            written = once if self.index - start == 1 else f"({once})".replace("((", "(").replace("))", ")")
            twice = f"{written}|{written}/{written} for one or two steps"
            self.refuse(_ANY_LENGTH.format(twice), after)
        return found

    def relation(self) -> Name:
        token = self.token
        if token.kind == "word" and token.text == "a":
            name: Name | None = Name(RDF_TYPE, "name", token.position, 1)
        else:
            name = self.name(token)
        if name is None:
            self.no_name("a relation", token)
        if name.kind == "number":  # a relation is never a value
            name = replace(name, kind="name")
        self.advance()
        return name

    def walked(self, path: SparqlPath, head: Term, tail: Term) -> Formula:
        """A path between two terms."""
        match path:
            case BackwardPath(step):
                return self.walked(step, tail, head)
            case PathSteps(steps):
                between: list[Term] = [head]
                between += [Exists(self.fresh("step")) for _ in steps[1:]]
                between.append(tail)
                walks = zip(steps, between, between[1:], strict=False)
                return conjunction([self.walked(step, one, other) for step, one, other in walks])
            case PathChoice(branches):
                return disjunction([self.walked(branch, head, tail) for branch in branches])
            case _:
                return Atom(path, head, tail)

    # --- terms -------------------------------------------------------------------------------------------------------

    def term(self, role: str, bound: set[str], shown: bool = True, literal: bool = False) -> Term:
        token = self.token
        if token.kind == "variable":
            self.index += 1
            self.note(token, bound, shown)
            return self.variable(token)
        if token.kind in ("prefixed", "exact", "id"):
            name = self.name(token)
            self.index += 1
            assert name is not None
            return Constant(name)
        if token.text == "[":
            return self.blank(bound, shown)
        if token.text == "_" and self.tokens[self.index + 1].kind == "prefixed":
            self.index += 2
            label = self.tokens[self.index - 1].text[1:]
            return Exists(self.named_blank(label))
        if self.text.startswith(('"""', "'''"), token.position):
            self.refuse("long strings are not supported; quote a text once")
        side = self.read_value()
        if side is None:
            self.no_name(role, token)
        if side.entity is not None:
            return side.entity
        if not literal:
            self.fail(f"expected {role}, found a value; a value stands in the place of the object", token)
        value = Exists(self.fresh("value"))
        self.made.append(self.compared("=", Side(value), side))
        return value

    def note(self, token: Token, bound: set[str], shown: bool) -> None:
        name = token.text[1:]
        bound.add(name)
        if shown and self.inner is None:
            self.seen.setdefault(name)
            if name in self.optional:
                self.refuse(f"{token.text} of OPTIONAL occurs elsewhere, too; every other variable has a value", token)

    def variable(self, token: Token) -> Variable:
        name = token.text[1:]
        if self.inner is not None:
            own = self.inner.names.get(name)
            if own is None:
                own = self.inner.names[name] = Exists(self.fresh(name)), token
            return own[0]
        return Free(name) if self.selected is None or name in self.selected else Exists(name)

    def fresh(self, name: str) -> str:
        """A name that no variable of the text has."""
        if not self.taken:
            self.taken = {token.text[1:] for token in self.tokens if token.kind == "variable"}
        count = 1
        while f"{name}_{count}" in self.taken:
            count += 1
        self.taken.add(f"{name}_{count}")
        return f"{name}_{count}"

    def blank(self, bound: set[str], shown: bool) -> Exists:
        """`[ ]` or `[ :relation object ]`: something that only has to exist."""
        self.deeper()
        self.advance()
        node = Exists(self.fresh("node"))
        if self.token.text != "]":
            inside: list[Formula] = []
            self.predicates(node, inside, bound, shown)
            self.made += inside
        self.expect("]", "after a blank node")
        self.depth -= 1
        return node

    def named_blank(self, label: str) -> str:
        """`_:x` is one variable wherever it stands."""
        if label not in self.blanks:
            self.blanks[label] = self.fresh(label if label.isidentifier() else "node")
        return self.blanks[label]

    def no_name(self, role: str, token: Token) -> NoReturn:
        text = token.text
        if token.kind == "sign" and text == "(":
            self.refuse("collections are not supported; write their patterns with rdf:first and rdf:rest")
        if token.kind == "word" and text.upper() not in UNSUPPORTED and text.upper() not in SUPPORTED:
            self.fail(f"expected {role}, found {text!r}; write :{text} or <{text}> for that name")
        self.unexpected(f"{role}: a name" if role == "a relation" else f"{role}: a variable or a name")

    # --- words -------------------------------------------------------------------------------------------------------

    def starts_term(self) -> bool:
        token = self.token
        if token.kind == "word":
            word = token.text.upper()
            if word in SUPPORTED or word in UNSUPPORTED:
                return False
            return token.text == "_" or not nearest(word, (*SUPPORTED, *UNSUPPORTED))
        return token.kind in ("variable", "prefixed", "exact", "label", "id", "unclosed") or token.text in ("[", "(")

    def unexpected(self, expected: str, near: Iterable[str] = ()) -> NoReturn:
        """Refuse the next word: by name if SPARQL knows it, with a suggestion if it is nearly a keyword."""
        token = self.token
        if token.kind == "word":
            word = token.text.upper()
            if word in UNSUPPORTED:
                self.refuse(f"{_FULL.get(word, word)} is not supported; {UNSUPPORTED[word]}")
            if word == "SELECT":
                self.refuse("a SELECT inside a query is not supported; write its patterns into the group")
            advice = hint(word, near) or hint(word, (*SUPPORTED, *UNSUPPORTED))
            if word not in SUPPORTED:
                self.fail(f"expected {expected}, found {self.found()}{advice}")
        self.fail(f"expected {expected}, found {self.found()}")
