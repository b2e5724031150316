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

    condition  := '(' expression ')' | [NOT] EXISTS group | function | side (sign side | [NOT] IN '(' side … ')')
    sign       := '=' | '!=' | '<' | '<=' | '>' | '>='
    function   := regex(side, "pattern" [, "flags"]) | (CONTAINS | STRSTARTS | STRENDS)(side, "text")
                | sameTerm(side, side) | langMatches(LANG(variable), "range")
    side       := variable | name | value | STR(side) | LANG(variable)

An `expression` joins conditions by `||`, `&&` and `!`, as `expressions` says. `SELECT *` selects every variable, in the
order of appearance. Triples of one subject need '.' between them and the next. A filter belongs to its group: each of
its variables has to be bound by the group's own patterns, whatever branch of a UNION is taken. Only the graph knows
whether a word names a relation or an attribute, and a variable an entity or a value; so a quoted word and a whole
number are entities here, and `query.interpretations` takes them for values where needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import NoReturn, TypeAlias

from tuplet.errors import hint, nearest
from tuplet.lang.ast import (
    RDF_TYPE,
    And,
    Atom,
    Attribute,
    Column,
    Compare,
    Constant,
    Exists,
    Form,
    Formula,
    Free,
    Name,
    Not,
    Or,
    Order,
    Query,
    Term,
    Value,
    Variable,
    atoms,
)
from tuplet.lang.reader import Side, Token
from tuplet.lang.rewrite import conjunction, disjunction, new_name, rename
from tuplet.lang.sparql_filters import FilterParser, InnerGroup, Scope

# What SPARQL has and this subset has not, with the way out where there is one.
UNSUPPORTED = {
    "CONSTRUCT": "select the variables with SELECT",
    "DESCRIBE": "select what you want to know: SELECT ?p ?o { <name> ?p ?o }",
    "FROM": "write GRAPH <name> { patterns }",
    "GROUP": "count one group with SELECT (COUNT(DISTINCT ?x) AS ?n)",
    "HAVING": "answers are sets of tuples; only COUNT is known",
    "LET": "write BIND(value AS ?variable)",
    "MINUS": "write FILTER NOT EXISTS { one pattern }",
    "SERVICE": "a query reads one graph",
    **dict.fromkeys(("ADD", "CLEAR", "COPY", "CREATE", "DELETE", "DROP"), "queries only read"),
    **dict.fromkeys(("INSERT", "LOAD", "MOVE", "WITH"), "queries only read"),
}
SUPPORTED = (
    *("ASK", "BASE", "BIND", "DISTINCT", "EXISTS", "FILTER", "GRAPH", "LIMIT", "NOT", "OFFSET", "OPTIONAL", "ORDER"),
    *("PREFIX", "REDUCED", "SELECT", "UNION", "VALUES", "WHERE"),
)
_IN_GROUP = ("BIND", "FILTER", "GRAPH", "OPTIONAL", "UNION", "VALUES")
_FULL = {"GROUP": "GROUP BY"}
GRAPH = "graph"  # the attribute of facts that says which named graph they are from
TRUTH = "truth"
_ANY_LENGTH = "paths of any length (+ * ?) are not supported, a query has a fixed number of steps; write {}"


Path: TypeAlias = Callable[[Term, Term], Formula]  # from a subject and an object to what a path says of them


def parse_sparql(text: str, prefixes: Mapping[str, str] | None = None) -> Query:
    """Parse a SELECT or ASK query.

    >>> query = parse_sparql('SELECT ?x WHERE { ?x :treats ?y . ?y :causes "asthma" }')
    >>> query.free, len(query.body.parts)
    ((Free(name='x'),), 2)
    """
    return SparqlParser(text, prefixes).query()


class SparqlParser(FilterParser):
    """One query, from its first token to its last."""

    form: Form = "select"
    counted = ""

    def __init__(self, text: str, prefixes: Mapping[str, str] | None = None) -> None:
        super().__init__(text, prefixes)
        self.selected: dict[str, Token] | None = {}  # None: all variables of the patterns
        self.titles: dict[str, str] = {}  # under which name a selected variable is shown
        self.seen: dict[str, None] = {}
        self.constants: dict[str, Side] = {}
        self.scope = Scope()
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
                parts.append(path(subject, item))
                if not self.accept(","):
                    break
            if not self.accept(";"):
                return
            while self.accept(";"):
                pass
            if self.token.text in (".", "}", "]"):
                return

    def path(self, bound: set[str], shown: bool = True) -> Path:
        """A relation, a variable for one, or steps of a path."""
        token = self.token
        if token.kind == "variable":
            self.advance()
            self.note(token, bound, shown)
            variable = self.variable(token)
            self.relations.setdefault(variable.name, token)
            return partial(Atom, Name(variable.name, "variable", token.position, len(token.text)))
        branches = self.several(self.sequence, "|")
        return lambda head, tail: disjunction([branch(head, tail) for branch in branches])

    def sequence(self) -> Path:
        steps = [self.step()]
        while self.accept("/") or self.accept_slash():
            steps.append(self.step())

        def walk(head: Term, tail: Term) -> Formula:
            between = [head, *(Exists(self.fresh("step")) for _ in steps[1:]), tail]
            return conjunction([step(*ends) for step, ends in zip(steps, pairwise(between), strict=True)])

        return walk if len(steps) > 1 else steps[0]

    def accept_slash(self) -> bool:
        """`/a` and `/ex` of `/ex:name` are words so far."""
        token = self.token
        if token.kind != "word" or token.text[0] != "/":
            return False
        self.split(token.position, Token("sign", "/", token.position))
        self.index += 1
        return True

    def step(self) -> Path:
        start = self.index
        token = self.token
        if self.accept("^"):
            backwards = self.step()
            return lambda head, tail: backwards(tail, head)
        if self.accept("("):
            self.deeper()
            found = self.path(set())
            self.depth -= 1
            self.expect(")", "after the path")
        elif token.text == "!":
            self.refuse("'!' in a path is not supported; write ?x ?p ?y and FILTER(?p != name)")
        else:
            found = partial(Atom, self.relation())
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
            if label not in self.blanks:  # `_:x` is one variable wherever it stands
                self.blanks[label] = self.fresh(label if label.isidentifier() else "node")
            return Exists(self.blanks[label])
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
        self.made.append(self.compare("=", Side(value), side))
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
        self.taken = self.taken or {token.text[1:] for token in self.tokens if token.kind == "variable"}
        return new_name(name, self.taken, numbered=True)

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

    def require(self, wanted: str, expected: str, near: Iterable[str] = ()) -> Token:
        """Read a word of a kind, a sign or a keyword; anything else is refused."""
        if wanted not in (self.token.kind, self.token.text.upper()):
            self.unexpected(expected, near)
        return self.advance()

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
                self.fail(f"expected {expected}, found {self.next_word()}{advice}")
        self.fail(f"expected {expected}, found {self.next_word()}")

    # --- groups ------------------------------------------------------------------------------------------------------

    def group(self, expected: str = "'{'", near: Iterable[str] = ()) -> tuple[Formula, frozenset[str]]:
        """A group and the variables it binds for sure."""
        opening = self.require("{", expected, near)
        self.deeper()
        parts: list[Formula] = []
        bound: set[str] = set()
        given: list[tuple[Token, Side]] = []
        outer, self.scope = self.scope, Scope()
        dotted = True  # whether a triple may start here
        while not self.accept("}"):
            if self.starts_term():
                if not dotted:
                    self.fail(f"expected '.' before the next pattern, found {self.next_word()}")
                self.triples(parts, bound)
                dotted = self.accept(".")
                continue
            if self.token.text == "{":
                formula, names = self.union()
                parts.append(formula)
                bound |= names
            elif self.accept("FILTER"):
                parts.append(self.filter())
            elif self.accept("OPTIONAL"):
                self.optional_pattern()
            elif self.accept("VALUES"):
                parts.append(self.values(bound))
            elif self.accept("BIND"):
                given.append(self.bind(bound))
            elif self.accept("GRAPH"):
                formula, names = self.named_graph()
                parts.append(formula)
                bound |= names
            else:
                self.unexpected("a pattern, FILTER, '{' or '}'", _IN_GROUP)
            dotted = self.accept(".") or True
        for token, side in given:
            if token.text[1:] in bound:
                parts.append(self.compare("=", Side(*2 * (self.variable(token),)), side))
        if not parts:
            self.fail("a group needs at least one pattern", opening)
        self.depth -= 1
        scope, self.scope = self.scope, outer
        return self.settle(conjunction(parts), bound, scope), frozenset(bound)

    def settle(self, formula: Formula, bound: set[str], scope: Scope) -> Formula:
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
        while self.accept("UNION"):
            formula, names = self.group("'{' after UNION")
            branches.append(formula)
            bound &= names
        return disjunction(branches), bound

    def optional_pattern(self) -> None:
        """OPTIONAL { ?x attribute ?v }: a column that may be empty."""
        start = self.require("{", "'{' after OPTIONAL")
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
        branches: list[Formula] = []
        for first, last in rows.items():
            same = [self.compare("=", side, value) for side, value in zip(sides, first, strict=False)]
            branches.append(conjunction([*same, self.among(sides[-1], last, columns[-1])]))
        return disjunction(branches) if branches else self.among(sides[-1], [], columns[-1])

    def bind(self, bound: set[str]) -> tuple[Token, Side]:
        """BIND(value AS ?x)."""
        self.expect("(", "after BIND")
        if self.token.kind in ("variable", "sign") or self.tokens[self.index + 1].text == "(":
            self.refuse("BIND of an expression is not supported; write BIND(name or value AS ?variable)")
        side = self.constant()
        if not self.accept("AS"):
            self.refuse_arithmetic("BIND of an expression")
            self.unexpected("AS after the value of BIND")
        token = self.require("variable", "a variable after AS")
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
        formula, bound = self.group("'{' after the name of the graph")
        value = Value(name.text, "", name.position, name.length)
        where: list[Formula] = []
        for atom in dict.fromkeys(atom for atom in atoms(formula) if isinstance(atom, Atom)):
            where.append(Compare("=", Attribute(atom, Name(GRAPH, "name", name.position, name.length)), value))
        if any(isinstance(part, Or | Not) for part in _parts(formula)):
            self.refuse("GRAPH takes plain patterns; write one GRAPH for each part of a UNION or NOT EXISTS")
        return conjunction([formula, *where]), bound

    # --- the query ---------------------------------------------------------------------------------------------------

    def query(self) -> Query:
        self.prologue()
        if self.accept("ASK"):
            self.form, self.selected = "ask", None
        elif self.accept("SELECT"):
            self.accept("DISTINCT", "REDUCED")
            self.selection()
        else:
            self.unexpected("SELECT or ASK", ("SELECT", "PREFIX", "ASK"))
        self.accept("WHERE")
        body, bound = self.group("'{' with the patterns", ("WHERE",))
        order, numbers = self.modifiers()
        if self.accept("VALUES"):
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
        keys = tuple(Order(self.resolve_key(token, body), descending) for token, descending in order)
        limit, offset = numbers.get("LIMIT"), numbers.get("OFFSET", 0)
        return Query(free, body, limit, offset, shown, keys, self.form, self.counted)

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
        if not self.accept("COUNT"):
            self.refuse("expressions in SELECT are not supported; select variables, or (COUNT(*) AS ?n) alone", start)
        self.expect("(", "after COUNT")
        distinct = self.accept("DISTINCT")
        chosen: dict[str, Token] | None = None
        if not self.accept("*"):
            token = self.require("variable", "'*' or a variable in COUNT", ("DISTINCT",))
            chosen = {token.text[1:]: token} if distinct else None
        self.expect(")", "after what COUNT counts")
        self.require("AS", "AS and a variable after COUNT(…)")
        self.counted = self.require("variable", "a variable after AS").text[1:]
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
                if not self.accept("BY"):
                    self.unexpected("BY after ORDER")
                while not order or self.token.kind == "variable" or self.token.text.upper() in ("ASC", "DESC"):
                    order.append(self.key())
            else:
                return order, numbers

    def key(self) -> tuple[Token, bool]:
        descending = self.accept("DESC")
        called = descending or self.accept("ASC")
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

    def resolve_key(self, token: Token, body: Formula) -> str | Attribute:
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


def _parts(formula: Formula) -> tuple[Formula, ...]:
    return formula.parts if isinstance(formula, And) else (formula,)


def _is_missing(formula: Formula | None, variable: Exists) -> bool:
    """Whether a negated pattern may say that an entity has no value of an attribute: only its object is open."""
    if not isinstance(formula, Atom):
        return False
    return formula.tail == variable != formula.head and formula.relation.kind != "variable"
