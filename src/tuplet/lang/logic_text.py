"""Logic text → `Query`.

    query       := prologue [ask | count] variable (',' variable)* [as word] ':' disjunction modifier*
    disjunction := conjunction ('|' conjunction)*
    conjunction := literal ('&' literal)*
    literal     := '!' literal
                 | exists variable ([','] variable)* '.' disjunction
                 | '(' disjunction ')'
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

`∧` and `&&`, `∨` and `||`, `¬`, `∃`, `≠`, `≤`, `≥`, `∈` mean `&`, `|`, `!`, `exists`, `!=`, `<=`, `>=`, `in`. `!` binds
tightest, then `&`, then `|`; `exists` reaches as far to the right as it can. A word is a name written bare: letters,
digits, `_`, and inside it `-`, `.` and `/` (a leading `/` too); digits alone are a name in the place of an entity, and
a number in the place of a value. A quantified variable that has the name of another one is renamed, so each variable of
the tree has one meaning. Names, values and the prologue (PREFIX) are as in `tokens` and `values`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from tuplet.lang.ast import Attribute, Column, Exists, Form, Free, Name, Order, Query, Variable
from tuplet.lang.logic_formula import FormulaParser
from tuplet.lang.tokens import Token, tokenize

T = TypeVar("T")


def parse_logic(text: str, prefixes: Mapping[str, str] | None = None) -> Query:
    """Parse logic text.

    >>> query = parse_logic('?x, ?y : exists ?z . treats(?x, ?z) & causes(?z, "asthma") & ?x.phase > 2 & ?y in {a, b}')
    >>> query.free, len(query.body.parts)
    ((Free(name='x'), Free(name='y')), 4)
    """
    return LogicParser(text, prefixes).query()


class LogicParser(FormulaParser):
    """One query, from its first token to its last."""

    def query(self) -> Query:
        self.prologue()
        form: Form = "ask" if self.word("ask") else "count" if self.word("count") else "select"
        free, counted = self.head(form)
        body = self.disjunction()
        shown, order, limit, offset = self.modifiers()
        for variable, token in free:
            if variable.name not in self.used:
                self.fail(f"{token.text} is asked for, but the formula does not contain it", token)
        asked = tuple(variable for variable, _ in free)
        if self.relations:
            body = self.with_relations(body)
            shown = shown or tuple(Column(v.name, self.shown(v)) for v in asked)
            asked = tuple(variable for variable in asked if variable.name not in self.relations)
        if shown and shown == tuple(Column(variable.name, variable) for variable in asked):
            shown = ()
        return Query(asked, body, limit, offset, shown, order, form, counted)

    def head(self, form: Form) -> tuple[list[tuple[Free, Token]], str]:
        free: list[tuple[Free, Token]] = []
        while form != "ask" or self.token.kind == "variable" or free:  # `ask : a(b, c)` has no variable
            token = self.token
            if token.kind != "variable":
                where = "after ','" if free else "at the start: a query is written ?x, ?y : formula"
                self.fail(f"expected a variable such as ?x {where}, found {self.found()}")
            self.advance()
            if self.at_dot():
                self.fail("only variables are asked for; show attributes at the end: ?x : formula show ?x, ?x.age")
            variable = Free(token.text[1:])
            if variable.name in self.scope:
                self.fail(f"{token.text} is asked for twice", token)
            free.append((variable, token))
            self.scope[variable.name] = variable
            if not self.accept(","):
                break
        counted = self.title() if form == "count" and self.word("as") else ""
        token = self.token
        if token.kind == "prefixed" and token.text.startswith(":"):
            if token.text != ":":  # `?x :r(…)`: the colon ends the head
                self.tokens[self.index :] = [token, *tokenize(self.text, token.position + 1)]
            self.advance()
        else:
            self.unexpected("':' after the variables asked for")
        self.taken = set(self.scope)
        return free, counted

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
                shown = tuple(self.listed(self.column))
            elif word == "order" and not order:
                self.advance()
                if not self.word("by"):
                    self.unexpected("'by' after order")
                order = tuple(self.listed(self.key))
            else:
                self.unexpected(
                    "the end of the query" if numbers or shown or order else "'&', '|' or the end of the query"
                )
        return shown, order, numbers.get("limit"), numbers.get("offset", 0)

    def listed(self, item: Callable[[], T]) -> Iterator[T]:
        yield item()
        while self.accept(","):
            yield item()

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
            name, shown = what.name, self.shown(what, start)
        optional = self.word("optional")
        return Column(self.title() if self.word("as") else name, shown, optional)

    def key(self) -> Order:
        """`?x.age desc`, `truth`."""
        token = self.token
        by: str | Attribute
        if token.kind in ("word", "label") and not self.is_attribute(self.index):
            by = self.title()
        else:
            what = self.visible()
            by = what if isinstance(what, Attribute) else what.name
        descending = self.word("desc")
        if not descending:
            self.word("asc")
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

    def shown(self, variable: Variable, token: Token | None = None) -> Free | Name:
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
