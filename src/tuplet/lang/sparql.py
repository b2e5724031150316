"""SPARQL subset → `Query`.

    query    := prologue (ASK | select) [WHERE] group modifier* [VALUES …]
    select   := SELECT [DISTINCT] ((variable | renamed)+ | * | count)
    prologue := (PREFIX p: <…> | BASE <…>)*
    renamed  := '(' variable AS variable ')'
    count    := (COUNT([DISTINCT] (* | variable)) AS variable)
    modifier := ORDER BY (variable | ASC(variable) | DESC(variable))+ | LIMIT number | OFFSET number
    group    := { (triples ['.'] | group (UNION group)* | FILTER … | OPTIONAL { term name variable }
                   | VALUES … | BIND(value AS variable) | GRAPH name group)* }
    triples  := term list (';' list)*
    list     := (path | variable) term (',' term)*
    path     := steps ('|' steps)*     steps := step ('/' step)*     step := name | a | '^' step | '(' path ')'
    term     := variable | name | value | _:label | '[' [list (';' list)*] ']'

`SELECT *` selects every variable, in the order of appearance. Triples of one subject need '.' between them and the
next. Filters are told in `sparql_filters`, groups in `sparql_patterns`. Whether a word names a relation or an
attribute, and a variable an entity or a value, only the graph knows; so a quoted word and a whole number are entities
here, which `query.readings` takes for values where values stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tuplet.errors import hint
from tuplet.lang.ast import Atom, Attribute, Column, Exists, Form, Formula, Free, Name, Order, Query, atoms
from tuplet.lang.rules import rename
from tuplet.lang.sparql_patterns import PatternParser
from tuplet.lang.tokens import Token, conjunction

TRUTH = "truth"


def parse_sparql(text: str, prefixes: Mapping[str, str] | None = None) -> Query:
    """Parse a SELECT or ASK query.

    >>> query = parse_sparql('SELECT ?x WHERE { ?x :treats ?y . ?y :causes "asthma" }')
    >>> query.free, len(query.body.parts)
    ((Free(name='x'),), 2)
    """
    return SparqlParser(text, prefixes).query()


class SparqlParser(PatternParser):
    """One query, from its first token to its last."""

    form: Form = "select"
    counted = ""

    def __init__(self, text: str, prefixes: Mapping[str, str] | None = None) -> None:
        super().__init__(text, prefixes)
        self.titles: dict[str, str] = {}  # under which name a selected variable is shown

    def query(self) -> Query:
        self.prologue()
        if self.keyword("ASK"):
            self.form, self.selected = "ask", None
        elif self.keyword("SELECT"):
            self.keyword("DISTINCT", "REDUCED")
            self.selection()
        else:
            self.unexpected("SELECT or ASK", ("SELECT", "PREFIX", "ASK"))
        self.keyword("WHERE")
        if self.token.text != "{":
            self.unexpected("'{' with the patterns", ("WHERE",))
        body, bound = self.group()
        order, numbers = self.modifiers()
        if self.keyword("VALUES"):
            body = conjunction([body, self.values(set(bound))])
        if self.token.kind != "end":
            self.unexpected("ORDER BY, LIMIT, OFFSET or the end of the query", ("LIMIT", "OFFSET", "ORDER"))
        if self.relations:
            body = self.with_relations(body)
        if self.form == "ask":  # what one alternative alone speaks of only has to exist
            alone = [name for name in self.seen if name not in bound and name not in self.relations]
            body = rename(body, {Free(name): Exists(name) for name in alone})
            for name in alone:
                del self.seen[name]
        free, shown = self.columns()
        return Query(
            free,
            body,
            numbers.get("LIMIT"),
            numbers.get("OFFSET", 0),
            shown,
            tuple(Order(self.ordered(token, body), descending) for token, descending in order),
            self.form,
            self.counted,
        )

    def selection(self) -> None:
        if self.accept("*"):
            self.selected = None
            return
        chosen: dict[str, Token] = {}
        self.selected = chosen
        while self.token.kind == "variable" or self.renames():
            start = self.accept("(")
            token = self.advance()
            title = token
            if start:
                self.advance()
                title = self.advance()
                self.expect(")", f"after {title.text}")
            if title.text[1:] in self.titles.values() or token.text[1:] in chosen:
                self.fail(f"{title.text} is selected twice", title)
            chosen[token.text[1:]] = token
            self.titles[token.text[1:]] = title.text[1:]
        if self.token.text == "(" and not chosen:
            self.count()
        elif self.token.text == "(":
            self.refuse("expressions in SELECT are not supported; select variables, or (COUNT(*) AS ?n) alone")
        elif not chosen:
            self.unexpected("a variable such as ?x, or *, after SELECT", ("DISTINCT",))

    def renames(self) -> bool:
        """Whether `(?x AS ?y)` stands here."""
        tokens = self.tokens[self.index : self.index + 5]
        kinds = [token.kind for token in tokens]
        return kinds[1:4] == ["variable", "word", "variable"] and tokens[2].text.upper() == "AS"

    def count(self) -> None:
        """`(COUNT(DISTINCT ?x) AS ?n)`; without DISTINCT all variables of the patterns tell answers apart."""
        start = self.advance()
        if not self.keyword("COUNT"):
            self.refuse("expressions in SELECT are not supported; select variables, or (COUNT(*) AS ?n) alone", start)
        self.expect("(", "after COUNT")
        distinct = self.keyword("DISTINCT")
        chosen: dict[str, Token] | None = None
        if not self.accept("*"):
            token = self.token
            if token.kind != "variable":
                self.unexpected("'*' or a variable in COUNT", ("DISTINCT",))
            self.advance()
            chosen = {token.text[1:]: token} if distinct else None
        self.expect(")", "after what COUNT counts")
        if not self.keyword("AS"):
            self.unexpected("AS and a variable after COUNT(…)")
        if self.token.kind != "variable":
            self.unexpected("a variable after AS")
        self.counted = self.advance().text[1:]
        self.expect(")", "after COUNT(…) AS ?n")
        if self.token.kind == "variable" or self.token.text == "(":
            self.refuse("COUNT stands alone; nothing is grouped")
        self.form, self.selected = "count", chosen

    def columns(self) -> tuple[tuple[Free, ...], tuple[Column, ...]]:
        """The variables asked for, and the columns if they are something else."""
        names = (*self.seen, *self.optional) if self.selected is None else tuple(self.selected)
        if not names and self.form == "select":
            self.fail("SELECT * selects the variables of the patterns, but they have none", self.tokens[0])
        shown = []
        for name in names:
            title = self.titles.get(name, name)
            if name in self.optional:
                shown.append(replace(self.optional[name], name=title))
            elif name in self.relations:
                shown.append(Column(title, Name(name, "variable")))
            elif name in self.seen:
                shown.append(Column(title, Free(name)))
            else:
                assert self.selected is not None
                token = self.selected[name]
                advice = hint(name, self.seen, "?{}".format)
                if name in self.constants:
                    self.refuse(f"{token.text} is a given value, not an answer; select other variables", token)
                self.fail(f"{token.text} is selected but no pattern contains it{advice}", token)
        free = tuple(column.what for column in shown if isinstance(column.what, Free))
        plain = tuple(shown) == tuple(Column(variable.name, variable) for variable in free)
        return free, () if plain or self.form == "ask" else tuple(shown)

    def modifiers(self) -> tuple[list[tuple[Token, bool]], dict[str, int]]:
        order: list[tuple[Token, bool]] = []
        numbers: dict[str, int] = {}
        while True:
            word = self.token.text.upper()
            if word in ("LIMIT", "OFFSET") and word not in numbers:
                self.advance()
                numbers[word] = self.number(f"after {word}")
            elif word == "ORDER" and not order and not numbers:
                self.advance()
                if not self.keyword("BY"):
                    self.unexpected("BY after ORDER")
                while not order or self.token.kind == "variable" or self.token.text.upper() in ("ASC", "DESC"):
                    order.append(self.key())
            else:
                return order, numbers

    def key(self) -> tuple[Token, bool]:
        descending = self.keyword("DESC")
        called = descending or self.keyword("ASC")
        if called:
            self.expect("(", "after DESC" if descending else "after ASC")
        token = self.token
        if token.kind != "variable":
            if token.kind in ("word", "sign", "prefixed"):
                self.refuse("ORDER BY takes variables, also as DESC(?x); no expressions")
            self.unexpected("a variable after ORDER BY")
        self.advance()
        if called:
            self.expect(")", "after the variable")
        return token, descending

    def ordered(self, token: Token, body: Formula) -> str | Attribute:
        """What a variable of ORDER BY stands for: a column, an attribute that is not shown, or the truth."""
        name = token.text[1:]
        if name in self.titles.values() or name == self.counted or (self.selected is None and name in self.seen):
            return name
        if name in self.titles:
            return self.titles[name]
        if name in self.optional:
            what = self.optional[name].what
            assert isinstance(what, Attribute)
            return what
        for atom in atoms(body):
            if isinstance(atom, Atom) and atom.tail == Exists(name) and atom.relation.kind != "variable":
                return Attribute(atom.head, atom.relation, name)
        if name == TRUTH:
            return TRUTH
        if name in self.seen:
            self.refuse(f"{token.text} is not selected; order by a selected variable or an attribute", token)
        advice = hint(name, (*self.seen, TRUTH), "?{}".format)
        self.fail(f"no pattern contains {token.text}{advice}", token)
