"""SPARQL subset → `Query`.

    query    := prologue SELECT [DISTINCT] (variable+ | *) [WHERE] group [LIMIT number]
    prologue := (PREFIX p: <…>)*
    group    := { (triples ['.'] | group (UNION group)* ['.'] | filter ['.'])* }
    triples  := term list (';' list)*
    list     := (name | a) term (',' term)*
    filter   := FILTER NOT EXISTS { term name term }  |  FILTER ( term != term (&& term != term)* )
    term     := variable | name

Selected variables are free, all others existential; `SELECT *` selects every variable, in the order of appearance.
Triples of one subject need '.' between them and the next. A filter belongs to its group, as in SPARQL: each of its
variables has to be bound by the group's own patterns, whatever branch of a UNION is taken.
"""

from __future__ import annotations

from typing import NoReturn

from tuplet.errors import hint, nearest
from tuplet.lang.ast import Atom, Constant, Different, Exists, Formula, Free, Name, Not, Query, Term
from tuplet.lang.tokens import Reader, Token, conjunction, disjunction, is_number

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"

# What SPARQL has and this subset has not, with the way out where there is one.
UNSUPPORTED = {
    "ADD": "queries only read",
    "ASK": "select the variables with SELECT",
    "BASE": "write names in full or declare a PREFIX",
    "BIND": "",
    "CLEAR": "queries only read",
    "CONSTRUCT": "select the variables with SELECT",
    "COPY": "queries only read",
    "CREATE": "queries only read",
    "DELETE": "queries only read",
    "DESCRIBE": "select the variables with SELECT",
    "DROP": "queries only read",
    "EXISTS": "write its patterns into the group; variables that are not selected only have to exist",
    "FROM": "a query reads one graph",
    "GRAPH": "a query reads one graph",
    "GROUP": "answers are sets of tuples, nothing is aggregated",
    "HAVING": "answers are sets of tuples, nothing is aggregated",
    "INSERT": "queries only read",
    "LET": "",
    "LOAD": "queries only read",
    "MINUS": "write FILTER NOT EXISTS { one pattern }",
    "MOVE": "queries only read",
    "OFFSET": "",
    "OPTIONAL": "every variable of an answer has a value",
    "ORDER": "answers are ordered by their truth",
    "REDUCED": "answers are sets; write SELECT",
    "SERVICE": "a query reads one graph",
    "VALUES": "ask one query for each value",
    "WITH": "queries only read",
}
SUPPORTED = ("DISTINCT", "FILTER", "LIMIT", "NOT", "PREFIX", "SELECT", "UNION", "WHERE")
_FULL = {"ORDER": "ORDER BY", "GROUP": "GROUP BY"}


def parse_sparql(text: str) -> Query:
    """Parse a SELECT query.

    >>> query = parse_sparql('SELECT ?x WHERE { ?x :treats ?y . ?y :causes "asthma" }')
    >>> query.free, len(query.body.parts)
    ((Free(name='x'),), 2)
    """
    return SparqlParser(text).query()


class SparqlParser(Reader):
    """One query, from its first token to its last."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.selected: dict[str, Token] | None = {}
        self.seen: dict[str, None] = {}

    # --- the frame ------------------------------------------------------------------------------------------------

    def query(self) -> Query:
        self.prologue()
        if not self.keyword("SELECT"):
            self.unexpected("SELECT", ("SELECT", "PREFIX"))
        self.keyword("DISTINCT")
        self.selection()
        self.keyword("WHERE")
        if not self.at("{"):
            self.unexpected("'{' with the patterns", ("WHERE",))
        body, _ = self.group()
        limit = self.number("after LIMIT") if self.keyword("LIMIT") else None
        if self.token.kind != "end":
            self.unexpected("LIMIT or the end of the query" if limit is None else "the end of the query", ("LIMIT",))
        return self.finish(body, limit)

    def selection(self) -> None:
        if self.accept("*"):
            self.selected = None
            return
        chosen: dict[str, Token] = {}
        while self.token.kind == "variable":
            token = self.advance()
            if token.text[1:] in chosen:
                self.fail(f"{token.text} is selected twice", token)
            chosen[token.text[1:]] = token
        if self.at("("):
            self.refuse("expressions in SELECT are not supported; select variables")
        if not chosen:
            self.unexpected("a variable such as ?x, or *, after SELECT", ("DISTINCT",))
        self.selected = chosen

    def finish(self, body: Formula, limit: int | None) -> Query:
        if self.selected is None:
            names = tuple(self.seen)
            if not names:
                self.fail("SELECT * selects the variables of the patterns, but they have none", self.tokens[0])
        else:
            names = tuple(self.selected)
            for name, token in self.selected.items():
                if name not in self.seen:
                    advice = hint(name, self.seen, "?{}".format)
                    self.fail(f"{token.text} is selected but no pattern contains it{advice}", token)
        return Query(tuple(Free(name) for name in names), body, limit)

    # --- groups ---------------------------------------------------------------------------------------------------

    def group(self) -> tuple[Formula, frozenset[str]]:
        """A group and the variables it binds for sure."""
        self.deeper()
        opening = self.advance()
        parts: list[Formula] = []
        bound: set[str] = set()
        compared: list[tuple[Token, bool]] = []
        dotted = True  # whether a triple may start here
        while not self.accept("}"):
            if self.at("{"):
                formula, names = self.union()
                parts.append(formula)
                bound |= names
                dotted = True
            elif self.keyword("FILTER"):
                parts.append(self.filter(compared))
                dotted = True
            elif self.starts_term():
                if not dotted:
                    self.fail(f"expected '.' before the next pattern, found {self.found()}")
                self.triples(parts, bound)
                dotted = False
            else:
                self.unexpected("a pattern, FILTER, '{' or '}'", ("FILTER", "UNION"))
            dotted = self.accept(".") or dotted
        if not parts:
            self.fail("a group needs at least one pattern", opening)
        for token, negated in compared:
            if token.text[1:] not in bound:
                self.unbound(token, negated)
        self.depth -= 1
        return conjunction(parts), frozenset(bound)

    def union(self) -> tuple[Formula, frozenset[str]]:
        formula, bound = self.group()
        branches = [formula]
        while self.keyword("UNION"):
            if not self.at("{"):
                self.unexpected("'{' after UNION")
            formula, names = self.group()
            branches.append(formula)
            bound &= names
        return disjunction(branches), bound

    def unbound(self, token: Token, negated: bool) -> NoReturn:
        if negated:
            self.refuse(
                f"{token.text} occurs in this group only inside NOT EXISTS, which asks that there is none (¬∃); "
                "only a single fact about bound variables can be negated",
                token,
            )
        self.fail(f"{token.text} is compared, but no pattern of this group binds it in every case", token)

    # --- patterns -------------------------------------------------------------------------------------------------

    def triples(self, parts: list[Formula], bound: set[str]) -> None:
        subject = self.term("a subject")
        while True:
            relation = self.verb()
            while True:
                item = self.term("an object")
                parts.append(Atom(relation, subject, item))
                for end in (subject, item):
                    if not isinstance(end, Constant):
                        bound.add(end.name)
                        self.seen.setdefault(end.name)
                if not self.accept(","):
                    break
            if not self.accept(";"):
                return
            while self.accept(";"):
                pass
            if self.at(".") or self.at("}"):
                return

    def verb(self) -> Name:
        token = self.token
        if token.kind == "variable":
            self.refuse("a variable as predicate is not supported; name the relation")
        if token.kind == "sign" and token.text in "^!(":
            self.refuse("property paths are not supported; write one pattern for each step")
        if token.kind == "word" and token.text == "a":
            name: Name | None = Name(RDF_TYPE, "name", token.position, 1)
        else:
            name = self.name(token)
        if name is None:
            self.no_name("a relation", token)
        self.advance()
        after = self.token
        if (after.kind == "sign" and after.text in "/|*+?^") or (after.kind == "word" and after.text.startswith("/")):
            self.refuse("property paths are not supported; write one pattern for each step")
        return name

    def term(self, role: str) -> Term:
        token = self.token
        if token.kind == "variable":
            self.advance()
            name = token.text[1:]
            return Free(name) if self.selected is None or name in self.selected else Exists(name)
        if self.text.startswith(('"""', "'''"), token.position):
            self.refuse("long strings are not supported; quote a label once")
        constant = self.name(token)
        if constant is None:
            self.no_name(role, token)
        self.advance()
        after = self.token
        adjacent = after.position == token.position + len(token.text)
        if token.kind == "label" and adjacent and after.text in ("^^", "@"):
            self.refuse("language tags and datatypes are not supported; a quoted string is a label")
        return Constant(constant)

    def no_name(self, role: str, token: Token) -> NoReturn:
        text = token.text
        if (token.kind == "sign" and text in ("[", "]")) or (token.kind == "word" and text.startswith("_")):
            self.refuse("blank nodes are not supported; use a variable that is not selected")
        if token.kind == "sign" and text == "(":
            self.refuse("collections are not supported")
        if token.kind == "word" and text[0].isdigit():
            self.refuse("literals other than labels are not supported")
        if token.kind == "word" and text.upper() not in UNSUPPORTED and text.upper() not in SUPPORTED:
            self.fail(f"expected {role}, found {text!r}; write :{text} or <{text}> for that name")
        self.unexpected(f"{role}: a name" if role == "a relation" else f"{role}: a variable or a name")

    # --- filters --------------------------------------------------------------------------------------------------

    def filter(self, compared: list[tuple[Token, bool]]) -> Formula:
        if self.keyword("NOT"):
            if not self.keyword("EXISTS"):
                self.unexpected("EXISTS after NOT", ("EXISTS",))
            return self.not_exists(compared)
        if not self.at("("):
            token = self.token
            if token.kind in ("word", "prefixed", "exact") and token.text.upper() not in UNSUPPORTED:
                advice = hint(token.text.upper(), ("NOT",))
                self.refuse(f"the function {self.found()} is not supported in FILTER{advice}")
            self.unexpected("'(' or NOT EXISTS after FILTER")
        return self.comparison(compared)

    def not_exists(self, compared: list[tuple[Token, bool]]) -> Formula:
        self.expect("{", "after NOT EXISTS")
        if not self.starts_term():
            self.unexpected("one pattern inside NOT EXISTS")
        first = self.token
        subject = self.term("a subject")
        relation = self.verb()
        last = self.token
        item = self.term("an object")
        self.accept(".")
        if not self.accept("}"):
            if self.token.kind == "end":
                self.fail("expected '}' after the pattern, found the end of the query")
            self.refuse("NOT EXISTS takes one pattern; more of them would negate a conjunction")
        compared.extend((token, True) for token in (first, last) if token.kind == "variable")
        return Not(Atom(relation, subject, item))

    def comparison(self, compared: list[tuple[Token, bool]]) -> Formula:
        """`( … )` of inequalities joined by &&."""
        self.deeper()
        self.expect("(", "after FILTER")
        parts = [self.inequality(compared)]
        while self.accept("&&"):
            parts.append(self.inequality(compared))
        if not self.accept(")"):
            if self.token.kind == "sign" and self.token.text not in "{}":
                self.refuse(f"{self.found()} is not supported in FILTER; only != joined by &&")
            self.fail(f"expected ')' or '&&' in FILTER, found {self.found()}")
        self.depth -= 1
        return conjunction(parts)

    def inequality(self, compared: list[tuple[Token, bool]]) -> Formula:
        if self.at("("):
            return self.comparison(compared)
        left = self.compared_term(compared)
        token = self.token
        if not self.accept("!="):
            if token.text[:1] in ("=", "<", ">", "+", "-", "*", "/", "|"):
                sign = token._replace(kind="sign", text=token.text[0])
                self.refuse(f"{token.text[0]!r} is not supported in FILTER; only !=", sign)
            if token.kind == "word":
                self.refuse(f"{self.found()} is not supported in FILTER; only !=")
            self.fail(f"expected '!=' in FILTER, found {self.found()}")
        return Different(left, self.compared_term(compared))

    def compared_term(self, compared: list[tuple[Token, bool]]) -> Term:
        token = self.token
        if token.kind == "variable":
            compared.append((token, False))
        elif token.text == "!" or (
            token.kind == "word" and token.text.upper() not in UNSUPPORTED and not is_number(token.text)
        ):
            self.refuse(f"{self.found()} is not supported in FILTER; only != between variables and names")
        return self.term("a variable or a name to compare")

    # --- words ----------------------------------------------------------------------------------------------------

    def at(self, sign: str) -> bool:
        return self.token.kind == "sign" and self.token.text == sign

    def starts_term(self) -> bool:
        token = self.token
        if token.kind == "word":
            return token.text.upper() not in UNSUPPORTED and not nearest(token.text.upper(), (*SUPPORTED, *UNSUPPORTED))
        return token.kind in ("variable", "prefixed", "exact", "label", "unclosed") or token.text in ("[", "(")

    def keyword(self, word: str) -> bool:
        token = self.token
        if token.kind == "word" and token.text.upper() == word:
            self.index += 1
            return True
        return False

    def unexpected(self, expected: str, near: tuple[str, ...] = ()) -> NoReturn:
        """Refuse the next word: by name if SPARQL knows it, with a suggestion if it is nearly a keyword."""
        token = self.token
        if token.kind == "word":
            word = token.text.upper()
            if word in UNSUPPORTED:
                advice = f"; {UNSUPPORTED[word]}" if UNSUPPORTED[word] else ""
                self.refuse(f"{_FULL.get(word, word)} is not supported{advice}")
            if word == "SELECT":
                self.refuse("a SELECT inside a query is not supported")
            advice = hint(word, near) or hint(word, (*SUPPORTED, *UNSUPPORTED))
            if word not in SUPPORTED:
                self.fail(f"expected {expected}, found {self.found()}{advice}")
        self.fail(f"expected {expected}, found {self.found()}")
