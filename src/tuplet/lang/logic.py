"""Logic text → `Query`.

    query       := prologue [ask | count] variable (',' variable)* [as word] ':' expression modifier*
    condition   := exists variable ([','] variable)* '.' expression
                 | '(' expression ')'
                 | atom
                 | side ('=' | '!=' | '<' | '<=' | '>' | '>=' | contains | starts | ends | matches) side
                 | side [not] in '{' [side (',' side)*] '}'
                 | has '(' attribute [',' value] ')'
    atom        := (relation | variable) '(' term ',' term ')'
    attribute   := (term | atom) '.' name ['[' word ']']
    side        := term | attribute | value | str '(' term ')'
    modifier    := show column (',' column)* | order by key (',' key)* | limit number | offset number
    column      := (variable | attribute) [optional] [as word]
    key         := (variable | attribute | word) [asc | desc]
    relation    := word | name
    term        := variable | word | name

An `expression` joins conditions by `|`, `&` and `!`, as `expressions` says. `∧` and `&&`, `∨` and `||`, `¬`, `∃`, `≠`,
`≤`, `≥`, `∈` mean `&`, `|`, `!`, `exists`, `!=`, `<=`, `>=`, `in`. `!` binds tightest, then `&`, then `|`; `exists`
reaches as far to the right as it can. A word is a name written bare: letters, digits, `_`, and inside it `-`, `.` and
`/` (a leading `/` too); digits alone are a name in the place of an entity, and a number in the place of a value. A
quantified variable that has the name of another one is renamed, so each variable of the tree has one meaning. Names,
values and the prologue (PREFIX) are as in `tokens`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from tuplet.errors import hint
from tuplet.lang.ast import (
    TEXT_TESTS,
    Atom,
    Attribute,
    Column,
    Constant,
    Exists,
    Form,
    Formula,
    Free,
    Has,
    Name,
    NameKind,
    Operator,
    Order,
    Query,
    Term,
    Value,
    Variable,
)
from tuplet.lang.reader import Side, SideReader, Syntax, Token, is_number, tokenize
from tuplet.lang.rewrite import new_name

RESERVED = ("exists", "limit", "offset", "order", "show")
WORDS: tuple[Operator, ...] = (*TEXT_TESTS, "language")
SIGNS: dict[str, Operator] = {"=": "=", "!=": "!=", "≠": "!=", "<": "<", "<=": "<=", "≤": "<=", ">": ">", ">=": ">="}
SYNTAX = Syntax(
    either=("|", "∨", "||"),
    both=("&", "∧", "&&"),
    negation=("!", "¬"),
    operators={**SIGNS, "≥": ">=", **{word.upper(): word for word in WORDS}},
    brackets=("{", "}"),
    before_members="before the members of a set",
    between_members="or '}' between the members of a set",
    after_not="'in' after not",
)
_SIGN_FOR = {"and": "&", "or": "|", "not": "!"}


def parse_logic(text: str, prefixes: Mapping[str, str] | None = None) -> Query:
    """Parse logic text.

    >>> query = parse_logic('?x, ?y : exists ?z . treats(?x, ?z) & causes(?z, "asthma") & ?x.phase > 2 & ?y in {a, b}')
    >>> query.free, len(query.body.parts)
    ((Free(name='x'), Free(name='y')), 4)
    """
    return LogicParser(text, prefixes).query()


class LogicParser(SideReader):
    """Reads one query, from its first token to its last; variables have to be in scope."""

    syntax = SYNTAX

    def __init__(self, text: str, prefixes: Mapping[str, str] | None = None) -> None:
        super().__init__(text, prefixes)
        self.scope: dict[str, Variable] = {}
        self.taken: set[str] = set()  # names that are used up, also by variables out of scope
        self.used: set[str] = set()

    def query(self) -> Query:
        self.prologue()
        form: Form = "ask" if self.accept("ASK") else "count" if self.accept("COUNT") else "select"
        free, counted = self.head(form)
        body = self.expression()
        shown, order, limit, offset = self.modifiers()
        for variable, token in free.items():
            if variable.name not in self.used:
                self.fail(f"{token.text} is asked for, but the formula does not contain it", token)
        asked = tuple(free)
        if self.relations:
            body = self.with_relations(body)
            shown = shown or tuple(Column(v.name, self.read_shown(v)) for v in asked)
            asked = tuple(variable for variable in asked if variable.name not in self.relations)
        if shown and shown == tuple(Column(variable.name, variable) for variable in asked):
            shown = ()
        return Query(asked, body, limit, offset, shown, order, form, counted)

    def head(self, form: Form) -> tuple[dict[Free, Token], str]:
        free: dict[Free, Token] = {}
        while form != "ask" or self.token.kind == "variable" or free:  # `ask : a(b, c)` has no variable
            token = self.token
            if token.kind != "variable":
                where = "after ','" if free else "at the start: a query is written ?x, ?y : formula"
                self.fail(f"expected a variable such as ?x {where}, found {self.next_word()}")
            self.advance()
            if self.token.text == ".":
                self.fail("only variables are asked for; show attributes at the end: ?x : formula show ?x, ?x.age")
            variable = Free(token.text[1:])
            if variable.name in self.scope:
                self.fail(f"{token.text} is asked for twice", token)
            free[variable] = token
            self.scope[variable.name] = variable
            if not self.accept(","):
                break
        counted = self.title() if form == "count" and self.accept("AS") else ""
        token = self.token
        if token.kind == "prefixed" and token.text.startswith(":"):
            if token.text != ":":  # `?x :r(…)`: the colon ends the head
                self.tokens[self.index :] = [token, *tokenize(self.text, token.position + 1)]
            self.advance()
        else:
            self.unexpected("':' after the variables asked for")
        self.taken = set(self.scope)
        return free, counted

    # --- formulas --------------------------------------------------------------------------------------------------

    def condition(self) -> Formula:
        token = self.tokens[self.index]
        if token.kind not in ("sign", "end") and self.tokens[self.index + 1].text == "(":
            return self.application()  # also of a relation that is called exists
        if self.at("EXISTS", "∃"):
            return self.exists()
        if self.accept("("):
            formula = self.expression()
            if not self.accept(")"):
                self.unexpected("'&', '|' or ')'")
            return formula
        return self.comparison(self.side("an atom such as relation(?x, ?y)"), token)

    def exists(self) -> Formula:
        start = self.advance()
        if self.negative:
            self.refuse(
                "exists under a negation (¬∃) is not supported: it asks about every entity at once; "
                "only single atoms can be negated",
                start,
            )
        declared: list[Token] = []
        while self.token.kind == "variable":
            declared.append(self.advance())
            self.accept(",")
        if not declared:
            self.fail(f"expected a variable such as ?z after {start.text}, found {self.next_word()}")
        if not self.accept("."):
            self.expect(".", f"after {start.text} {', '.join([token.text for token in declared])}")
        outer, fresh = self.scope, dict[Token, Exists]()
        self.scope = dict(outer)
        for token in declared:
            self.scope[token.text[1:]] = fresh[token] = Exists(new_name(token.text[1:], self.taken))
        formula = self.expression()
        self.scope = outer
        for token, variable in fresh.items():
            if variable.name not in self.used:
                self.fail(f"{token.text} is quantified, but the formula does not contain it", token)
        return formula

    # --- atoms and conditions --------------------------------------------------------------------------------------

    def application(self) -> Formula:
        """`relation(?x, ?y)`, an attribute of such a fact and its condition, `has(…)` and `str(…)`."""
        start = self.token
        word = start.text.lower()
        if word == "has" and self.following(3).text in (".", "("):
            self.index += 2
            attribute = self.side().what
            value = self.side().what if self.accept(",") else None
            self.expect(")", "after the attribute of has")
            if not isinstance(attribute, Attribute) or not isinstance(value, Value | None):
                self.fail("expected an attribute such as ?x.age, and perhaps a value, in has(…)", start)
            return Has(attribute, value=value)
        if word == "str" and self.following(3).text == ")":
            return self.comparison(self.side(), start)
        atom = self.atom()
        return self.comparison(Side(self.attribute(atom)), start) if self.token.text == "." else atom

    def atom(self) -> Atom:
        """`relation(head, tail)`; a variable may stand for the relation."""
        token = self.token
        if token.kind == "variable":
            variable = self.variable(token).name
            self.relations.setdefault(variable, token)
            relation: Name | None = Name(variable, "variable", token.position, len(token.text))
        else:
            relation = self.read_name("name")
        if relation is None:
            self.unexpected("an atom such as relation(?x, ?y)")
        self.index += 2  # the name and the bracket
        head = self.term()
        if not self.accept(","):
            self.expect(",", "between the two terms of an atom", self.advise_brackets())
        tail = self.term()
        if self.accept(","):
            self.refuse("atoms have two terms; relations are binary", self.tokens[self.index - 1])
        if not self.accept(")"):
            self.expect(")", "after the two terms of an atom", self.advise_brackets())
        return Atom(relation, head, tail)

    def comparison(self, left: Side, start: Token) -> Formula:
        """What follows a side: a sign, a word such as `contains`, or a set."""
        operator = self.operator()
        if operator is not None:
            return self.compare(operator, left, self.side())
        found = self.membership(left, self.token)
        if found is not None:
            return found
        if start.kind in ("word", "prefixed", "exact", "label", "id") and self.tokens[self.index - 1] is start:
            if advice := self.advise_brackets():
                self.fail(f"expected '(' after the relation {start.text!r}, found {self.next_word()}{advice}")
            self.unexpected(f"'(' after the relation {start.text!r}", start)
        self.unexpected("a comparison such as '!=' after a term", near=(*WORDS, "in", "not"))

    def side(self, expected: str = "a variable, a name or a value") -> Side:
        """A side of a comparison: a term, an attribute, a value or str(term)."""
        token = self.token
        following = self.following()
        if following.text == "(" and following.kind == "sign" and token.kind != "sign":
            if token.kind == "word" and token.text.lower() == "str" and self.following(3).text != ",":
                self.index += 2
                term = self.term()
                self.expect(")", "after the term of str")
                return Side(term)
            return Side(self.attribute(self.atom()))
        if token.kind == "variable":
            variable = self.variable(self.advance())
            return Side(self.attribute(variable)) if self.token.text == "." else Side(variable, variable)
        value = self.read_value()
        if value is not None:
            if value.entity is not None and self.token.text == ".":
                return Side(self.attribute(value.entity))
            return value
        name = self.read_name()
        if name is None:
            self.unexpected(expected)
        self.advance()
        return Side(self.attribute(Constant(name))) if self.token.text == "." else Side(Constant(name), Constant(name))

    def attribute(self, of: Term | Atom) -> Attribute:
        """`.age`, or `.age[a]` for the value that is called a."""
        if self.token.text != ".":
            self.fail(f"expected '.' and an attribute after the fact, found {self.next_word()}")
        self.advance()
        name = self.read_name("name")
        if name is None:
            self.unexpected("the name of an attribute after '.'")
        self.advance()
        if not self.accept("["):
            return Attribute(of, name)
        token = self.token
        if token.kind != "word":
            self.unexpected("a word for the value, as in ?x.age[a]")
        self.advance()
        self.expect("]", f"after {token.text}")
        return Attribute(of, name, token.text)

    def term(self) -> Term:
        token = self.tokens[self.index]
        if token.kind == "variable":
            self.index += 1
            return self.variable(token)
        name = self.read_name()
        if name is None:
            self.unexpected("a variable or a name")
        self.index += 1
        return Constant(name)

    def variable(self, token: Token) -> Variable:
        variable = self.scope.get(token.text[1:])
        if variable is None:
            advice = hint(token.text[1:], self.scope, "?{}".format) or f"; write exists {token.text} . before its part"
            self.fail(f"{token.text} is neither asked for nor quantified{advice}", token)
        self.used.add(variable.name)
        return variable

    def read_name(self, digits: NameKind = "number") -> Name | None:
        """The name that stands here; digits in the place of a relation or an attribute are a name, too."""
        token = self.tokens[self.index]
        if token.kind == "word":
            return Name(token.text, digits if is_number(token.text) else "name", token.position, len(token.text))
        return self.name(token)

    def advise_brackets(self) -> str:
        """What is said where two words stand side by side that may be one name."""
        before, token = self.tokens[self.index - 1], self.token
        signs = {before.text.lower(), token.text.lower()} & {*RESERVED, *_SIGN_FOR}
        two = before.kind == token.kind == "word" and not signs and not hint(before.text.lower(), RESERVED)
        return f"; a name with spaces is written in brackets: <{before.text} {token.text}>" if two else ""

    def unexpected(self, expected: str, misspelt: Token | None = None, near: tuple[str, ...] = RESERVED) -> NoReturn:
        word = (misspelt or self.token).text.lower()
        if word in _SIGN_FOR:
            advice = f"; did you mean {_SIGN_FOR[word]!r}?"
        else:
            advice = hint(word, near, repr) if word not in RESERVED else ""
        self.fail(f"expected {expected}, found {self.next_word()}{advice}")

    # --- after the formula -----------------------------------------------------------------------------------------

    def modifiers(self) -> tuple[tuple[Column, ...], tuple[Order, ...], int | None, int]:
        """`show`, `order by`, `limit` and `offset`, in any order, each once."""
        shown: tuple[Column, ...] = ()
        order: tuple[Order, ...] = ()
        numbers: dict[str, int] = {}
        while self.token.kind != "end":
            token = self.token
            word = token.text.lower() if token.kind == "word" else ""
            if word in ("limit", "offset") and word not in numbers:
                self.advance()
                numbers[word] = self.number(f"after {word}")
            elif word == "show" and not shown:
                self.advance()
                shown = tuple(self.several(self.column, ","))
            elif word == "order" and not order:
                self.advance()
                if not self.accept("BY"):
                    self.unexpected("'by' after order")
                order = tuple(self.several(self.key, ","))
            else:
                self.unexpected(
                    "the end of the query" if numbers or shown or order else "'&', '|' or the end of the query"
                )
        return shown, order, numbers.get("limit"), numbers.get("offset", 0)

    def column(self) -> Column:
        """`?x`, `?x.age optional as a`."""
        start = self.token
        what = self.visible()
        shown: Free | Attribute | Name
        if isinstance(what, Attribute):
            shown = what
            name = self.text[start.position : self.tokens[self.index - 1].position] + self.tokens[self.index - 1].text
            name = name.removeprefix("?")
        else:
            name, shown = what.name, self.read_shown(what, start)
        optional = self.accept("OPTIONAL")
        return Column(self.title() if self.accept("AS") else name, shown, optional)

    def key(self) -> Order:
        """`?x.age desc`, `truth`."""
        token = self.token
        by: str | Attribute
        if token.kind in ("word", "label") and self.following().text not in (".", "("):
            by = self.title()
        else:
            what = self.visible()
            by = what if isinstance(what, Attribute) else what.name
        descending = self.accept("DESC")
        if not descending:
            self.accept("ASC")
        return Order(by, descending)

    def visible(self) -> Variable | Attribute:
        """A variable or an attribute after the formula, where quantified variables are known by their names."""
        start = self.token
        for name in self.taken - self.scope.keys():
            self.scope[name] = Exists(name)
        side = self.side()
        if isinstance(side.what, Free | Exists | Attribute):
            return side.what
        self.fail("expected a variable such as ?x or an attribute such as ?x.age", start)

    def read_shown(self, variable: Variable, token: Token | None = None) -> Free | Name:
        """What a column of a variable shows."""
        if variable.name in self.relations:
            return Name(variable.name, "variable")
        if isinstance(variable, Exists):
            self.fail(f"?{variable.name} only has to exist; name it at the start to show it", token)
        return variable

    def title(self) -> str:
        """The name of a column: a word, or a text in quotes."""
        token = self.token
        if token.kind == "prefixed" and token.text.find(":") == len(token.text) - 1 > 0:  # `as n:`
            word = token._replace(kind="word", text=token.text[:-1])
            self.tokens[self.index : self.index + 1] = [word, Token("prefixed", ":", token.position + len(word.text))]
            token = word
        if token.kind in ("word", "variable"):
            return self.advance().text.lstrip("?$")
        name = self.name(token) if token.kind == "label" else None
        if name is None:
            self.unexpected("a name for the column")
        self.advance()
        return name.text
